//! Recognizes why docker, its runtimes or its registries refused: exit status and text in, kind and remedy out.
//!
//! It looks for fixed words within one line, since the text around them changes with every version. It calls nothing
//! and retries nothing.

use super::text::plain;

/// Why docker did not do what it was asked: one kind for each thing to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A disk, a quota or the inodes ran out.
    DiskFull,
    /// Memory, processes, open files or the kernel's own tables ran out.
    Memory,
    /// Another engine than this machine's docker answers: one on another machine, or podman.
    Elsewhere,
    /// The daemon's socket may not be opened.
    Forbidden,
    /// No daemon answers, or it went away.
    Down,
    /// A registry limits pulls, or a package repository is being updated.
    Busy,
    /// The CDI specification is missing, stale or not read by this engine.
    Cdi,
    /// This daemon knows no GPU runtime.
    GpuNotWired,
    /// The GPU runtime does not get on with the host's driver.
    Driver,
    /// The GPU cannot be opened from a container, or no longer.
    GpuClosed,
    /// The engine has no such image.
    ImageAbsent,
    /// The registry does not have it, or no longer has it.
    ImageGone,
    /// The registry wants to know who asks.
    Unauthorised,
    /// A digest, a signature or a certificate does not hold.
    Untrusted,
    /// A registry or repository cannot be reached.
    Network,
    /// A limit that the engine may not set.
    Limit,
    /// The image has no such program, or one that cannot be started here.
    NoProgram,
    /// None of these.
    Unknown,
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: Kind,
    /// The clause that says so, safe to print; or the last thing that was said.
    pub said: String,
}

/// A line is of a kind when it holds, in lower case, every stem of one of the kind's rules.
type Rule = (Kind, &'static [&'static str]);

/// The first kind in a row of which any line is wins: causes stand before the wrappers that quote them.
const RULES: &[Rule] = &[
    // The kernel also reports a full disk for control groups and file watches, which use no disk.
    (Kind::Memory, &["/sys/fs/cgroup", "no space left on device"]),
    (Kind::Memory, &["inotify", "no space left on device"]),
    (Kind::Memory, &["fsnotify", "no space left on device"]),
    (Kind::DiskFull, &["no space left on device"]),
    (Kind::DiskFull, &["quota exceeded"]),
    (Kind::DiskFull, &["not enough free space"]),
    (Kind::DiskFull, &["enospc"]),
    // An address of this machine's.
    (Kind::Down, &["daemon at tcp://127."]),
    (Kind::Down, &["daemon at tcp://localhost"]),
    (Kind::Down, &["daemon at tcp://[::1]"]),
    (Kind::Elsewhere, &["daemon at tcp://"]),
    (Kind::Elsewhere, &["daemon at ssh://"]),
    (Kind::Elsewhere, &["daemon at http"]),
    (Kind::Elsewhere, &["docker api at tcp://"]),
    (Kind::Elsewhere, &["docker api at ssh://"]),
    (Kind::Elsewhere, &["error during connect", "https://"]),
    (Kind::Elsewhere, &["error during connect", "dial tcp"]),
    (Kind::Elsewhere, &["error during connect", "command [ssh"]),
    (Kind::Elsewhere, &["http request to an https server"]),
    (Kind::Elsewhere, &["current context", "not found"]),
    (Kind::Forbidden, &["permission denied", "connect"]),
    (Kind::Forbidden, &["permission denied", "docker api"]),
    (Kind::Forbidden, &["permission denied", "daemon socket"]),
    (Kind::Forbidden, &["permission denied", ".sock"]),
    (Kind::Down, &["cannot connect to the docker daemon"]),
    (Kind::Down, &["failed to connect to the docker api"]),
    (Kind::Down, &["is the docker daemon running"]),
    (Kind::Down, &["docker daemon is not running"]),
    (Kind::Down, &["cannot connect to podman"]),
    (Kind::Down, &["error during connect"]),
    (Kind::Down, &["error waiting for container"]),
    (Kind::Down, &["dial unix"]),
    (Kind::Busy, &["toomanyrequests"]),
    (Kind::Busy, &["too many requests"]),
    (Kind::Busy, &["pull rate limit"]),
    (Kind::Busy, &["rate limit exceeded"]),
    (Kind::Busy, &["status: 429"]),
    (Kind::Cdi, &["unresolvable cdi device"]),
    (Kind::Cdi, &["cdi device", "inject"]),
    (Kind::Cdi, &["setting up cdi devices"]),
    (Kind::Cdi, &["cdi host device"]),
    (Kind::Cdi, &["device driver \"cdi\""]),
    (Kind::Cdi, &["cdi", "not supported"]),
    (Kind::Cdi, &["cdi spec"]),
    (Kind::GpuNotWired, &["could not select device driver"]),
    (Kind::GpuNotWired, &["unknown or invalid runtime name"]),
    (Kind::GpuNotWired, &["unknown runtime specified"]),
    (Kind::GpuNotWired, &["invalid runtime name"]),
    (Kind::GpuNotWired, &["oci runtime \"nvidia", "not found"]),
    (Kind::GpuNotWired, &["nvidia-container-runtime", "not found"]),
    (Kind::GpuNotWired, &["nvidia-container-runtime", "no such file"]),
    (Kind::GpuNotWired, &["nvidia-container-cli", "executable file not found"]),
    (Kind::GpuClosed, &["insufficient permissions"]),
    (Kind::GpuClosed, &["/dev/nvidia", "not permitted"]),
    (Kind::GpuClosed, &["/dev/nvidia", "denied"]),
    (Kind::GpuClosed, &["failed to initialize nvml", "unknown error"]),
    (Kind::GpuClosed, &["gpu is lost"]),
    (Kind::Driver, &["load library failed"]),
    (Kind::Driver, &["libnvidia-ml.so", "cannot open"]),
    (Kind::Driver, &["libnvidia-ml.so", "not found"]),
    (Kind::Driver, &["libcuda.so", "cannot open"]),
    (Kind::Driver, &["unsatisfied condition"]),
    (Kind::Driver, &["driver not loaded"]),
    (Kind::Driver, &["driver/library version mismatch"]),
    (Kind::Driver, &["nvml error"]),
    (Kind::Driver, &["driver rpc error"]),
    (Kind::Driver, &["nvidia-container-cli"]),
    (Kind::Driver, &["nvidia-container-runtime"]),
    (Kind::Driver, &["nvidia-ctk"]),
    (Kind::Driver, &["nvidia-cdi-hook"]),
    (Kind::ImageAbsent, &["no such image"]),
    (Kind::ImageAbsent, &["no such object"]),
    (Kind::ImageAbsent, &["image not known"]),
    (Kind::ImageGone, &["manifest unknown"]),
    (Kind::ImageGone, &["manifest for", "not found"]),
    (Kind::ImageGone, &["failed to resolve source metadata", "not found"]),
    (Kind::ImageGone, &["failed to resolve reference", "not found"]),
    (Kind::ImageGone, &["name unknown"]),
    (Kind::ImageGone, &["blob unknown"]),
    (Kind::ImageGone, &["no matching manifest"]),
    (Kind::ImageGone, &["no match for platform"]),
    (Kind::Network, &["proxy authentication required"]),
    (Kind::Network, &["error parsing http"]),
    (Kind::Unauthorised, &["pull access denied"]),
    (Kind::Unauthorised, &["access to the resource is denied"]),
    (Kind::Unauthorised, &["unauthorized"]),
    (Kind::Unauthorised, &["authentication required"]),
    (Kind::Unauthorised, &["no basic auth credentials"]),
    (Kind::Unauthorised, &["error getting credentials"]),
    (Kind::Unauthorised, &["credentials not correct"]),
    (Kind::Unauthorised, &[": forbidden"]),
    (Kind::Busy, &["hash sum mismatch"]),
    (Kind::Busy, &["mirror sync in progress"]),
    (Kind::Busy, &["file has unexpected size"]),
    (Kind::Untrusted, &["no_pubkey"]),
    (Kind::Untrusted, &["expkeysig"]),
    (Kind::Untrusted, &["revkeysig"]),
    (Kind::Untrusted, &["signatures couldn't be verified"]),
    (Kind::Untrusted, &["is not signed"]),
    (Kind::Untrusted, &["verification failed for digest"]),
    (Kind::Untrusted, &["unexpected commit digest"]),
    (Kind::Untrusted, &["failed size validation"]),
    (Kind::Untrusted, &["digest mismatch"]),
    (Kind::Untrusted, &["x509:"]),
    (Kind::Untrusted, &["certificate_verify_failed"]),
    (Kind::Untrusted, &["certificate is not yet valid"]),
    (Kind::Untrusted, &["certificate has expired"]),
    (Kind::Network, &["no such host"]),
    (Kind::Network, &["could not resolve"]),
    (Kind::Network, &["temporary failure in name resolution"]),
    (Kind::Network, &["network is unreachable"]),
    (Kind::Network, &["no route to host"]),
    (Kind::Network, &["i/o timeout"]),
    (Kind::Network, &["tls handshake"]),
    (Kind::Network, &["cannot connect to proxy"]),
    (Kind::Network, &["read timed out"]),
    (Kind::Network, &["connection refused"]),
    (Kind::Network, &["connection reset"]),
    (Kind::Network, &["connection timed out"]),
    (Kind::Network, &["server misbehaving"]),
    (Kind::Network, &["client.timeout exceeded"]),
    (Kind::Network, &["context deadline exceeded"]),
    (Kind::Network, &["proxyconnect"]),
    (Kind::Network, &["unexpected eof"]),
    (Kind::Network, &["bad gateway"]),
    (Kind::Network, &["service unavailable"]),
    (Kind::Network, &["gateway timeout"]),
    (Kind::Network, &["received unexpected http status: 5"]),
    (Kind::Limit, &["rlimit"]),
    (Kind::Limit, &["ulimit"]),
    (Kind::Memory, &["cannot allocate memory"]),
    (Kind::Memory, &["resource temporarily unavailable"]),
    (Kind::Memory, &["too many open files"]),
    (Kind::Memory, &["virtual memory exhausted"]),
    (Kind::Memory, &["std::bad_alloc"]),
    // Said of parts of a compiler, which only a lack of memory kills in this way.
    (Kind::Memory, &["died due to signal 9"]),
    (Kind::Memory, &["killed signal terminated program"]),
    (Kind::NoProgram, &["executable file", "not found"]),
    (Kind::NoProgram, &["exec:", "no such file or directory"]),
    (Kind::NoProgram, &["exec /", "no such file or directory"]),
    (Kind::NoProgram, &["exec user process", "no such file or directory"]),
    (Kind::NoProgram, &["exec:", "permission denied"]),
    (Kind::NoProgram, &["exec /", "permission denied"]),
    (Kind::NoProgram, &["exec user process", "permission denied"]),
    (Kind::NoProgram, &["exec:", "is a directory"]),
    (Kind::NoProgram, &["exec format error"]),
    (Kind::NoProgram, &["does not match the specified platform"]),
    (Kind::NoProgram, &["does not match the detected host platform"]),
    // Podman prints this beside any other message.
    (Kind::Elsewhere, &["emulate docker cli using podman"]),
    (Kind::Elsewhere, &["unable to connect to podman"]),
];

/// What a client that failed said. Its stderr is believed first; a build tells much on stdout.
///
/// The exit status decides only where no words do: 126 and 127 are then the image's.
pub fn refusal(code: Option<i32>, stderr: &str, stdout: &str) -> Refusal {
    if let Some(found) = [stderr, stdout].into_iter().find_map(find) {
        return found;
    }
    let kind = if matches!(code, Some(126 | 127)) { Kind::NoProgram } else { Kind::Unknown };
    let last = |text: &str| telling(text).next_back().map(str::to_owned);
    let said = last(stderr).or_else(|| last(stdout)).unwrap_or_else(|| "it said nothing".to_owned());
    Refusal { kind, said: tail(&said) }
}

/// What of the machine ran out, where a program that failed says so: its disk, its memory, or what the kernel counts.
pub fn exhausted(text: &str) -> Option<Refusal> {
    find(text).filter(|found| matches!(found.kind, Kind::DiskFull | Kind::Memory))
}

fn find(text: &str) -> Option<Refusal> {
    let lines: Vec<(&str, String)> = telling(text).map(clause).map(|line| (line, line.to_lowercase())).collect();
    RULES.chunk_by(|(kind, _), (next, _)| kind == next).find_map(|rules| {
        let holds = |line: &str| rules.iter().any(|(_, stems)| stems.iter().all(|stem| line.contains(stem)));
        let (line, _) = lines.iter().rev().find(|(_, lower)| holds(lower))?;
        Some(Refusal { kind: rules[0].0, said: tail(line) })
    })
}

/// The lines that say something: not the empty ones, and not what to type for help.
fn telling(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let helps =
        |line: &str| ["Run 'docker ", "See 'docker ", "Usage:", "[end of"].iter().any(|help| line.starts_with(help));
    text.lines().map(str::trim).filter(move |line| !line.is_empty() && !helps(line))
}

/// Of the GPU runtime's nested messages the last clause alone tells; what wraps it changes with every version.
fn clause(line: &str) -> &str {
    // ASCII only, so that byte positions in the text do not change.
    line.to_ascii_lowercase().rfind("nvidia-container-cli: ").map_or(line, |at| &line[at..])
}

/// Printable, and of a long line its end, where the cause stands.
fn tail(line: &str) -> String {
    const MOST_CHARS: usize = 400;
    let line = plain(line);
    match line.chars().count().checked_sub(MOST_CHARS) {
        Some(over) if over > 0 => format!("…{}", line.chars().skip(over).collect::<String>()),
        _ => line,
    }
}

impl Kind {
    /// What it means, as a fragment; empty when only docker's own words tell.
    pub fn means(self) -> &'static str {
        self.told().0
    }

    /// What to type.
    pub fn remedy(self) -> &'static str {
        self.told().1
    }

    /// Whether waiting may help, so that a bounded number of further attempts is worth it.
    pub fn may_pass(self) -> bool {
        self == Self::Busy
    }

    fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::DiskFull => (
                "a disk is full, or its inodes or a quota are used up",
                "df -h and df -i of what `docker info` names as Docker Root Dir and of $TMPDIR; then docker system prune",
            ),
            Self::Memory => (
                "the machine has no more memory, processes or open files for it",
                "free -m; ulimit -a; end other programs; docker ps --all, and docker rm what ended",
            ),
            Self::Elsewhere => (
                "docker's client talks to an engine other than this machine's docker: a daemon on another machine, or podman",
                "unset DOCKER_HOST DOCKER_CONTEXT; docker context use default; type -a docker says which client answers, \
                 and only docker itself is driven; or --runtime host",
            ),
            Self::Forbidden => (
                "this user may not open the docker socket",
                "sudo usermod -aG docker $USER, then log in again (newgrp docker for this shell), or --runtime host",
            ),
            Self::Down => (
                "the docker daemon is down",
                "sudo systemctl start docker, or sudo dockerd & where there is no systemd, or --runtime host",
            ),
            Self::Busy => (
                "the registry limits pulls from this address, or a package repository is being updated",
                "run the same command again in an hour; for an image docker login, or docker load an archive of it (its \
                 digest is checked), or cargo xtask provision --make-base",
            ),
            Self::Cdi => (
                "the CDI specification does not fit this machine or engine",
                "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, compare its driver version with \
                 cat /sys/module/nvidia/version, then cargo xtask doctor; or --runtime host",
            ),
            Self::GpuNotWired => (
                "this docker daemon knows no GPU runtime: the toolkit is not installed or not configured, or the daemon was not restarted since",
                "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker, then \
                 cargo xtask doctor; or --runtime host",
            ),
            Self::Driver => (
                "the GPU runtime does not get on with the host's GPU driver: it finds no libraries of it, gets no answer, or \
                 the image wants a newer one",
                "nvidia-smi on the host (where it says version mismatch, reboot); type -a docker (a snap's daemon does not \
                 see the driver); root and ldconfig in /etc/nvidia-container-runtime/config.toml; --base cuda12 for an \
                 older driver; or --runtime host",
            ),
            Self::GpuClosed => (
                "the GPU cannot be opened from a container, or no longer",
                "cargo xtask doctor; a rootless engine needs no-cgroups = true in the GPU runtime's config.toml, and a \
                 rootful one needs it off; a daemon-reload of systemd takes GPUs from running containers: then run the same \
                 command again for a new one",
            ),
            Self::ImageAbsent => ("the engine has no such image", "cargo xtask provision"),
            Self::ImageGone => (
                "the registry does not have it, no longer has it, or not for this architecture; this is not the network's fault",
                "docker load an archive with the pinned digest, or pull it from a mirror that kept it; a nearby tag is \
                 another image, and numbers measured on this one cannot be reproduced without it",
            ),
            Self::Unauthorised => {
                ("the registry refuses it to this user", "docker login, or cargo xtask provision --make-base")
            }
            Self::Untrusted => (
                "what arrived, or its sender, cannot be trusted: a digest, a signature or a certificate is wrong",
                "date (where the clock is wrong no certificate is valid); a proxy that puts its own certificate in must be \
                 known to the system's and the daemon's store; take a repository's new key from its owner, and never \
                 install unsigned packages; run the same command again: if it differs again, do not use it",
            ),
            Self::Network => (
                "the network does not reach it",
                "check the network and its proxy; without one, cargo xtask provision --make-base",
            ),
            Self::Limit => {
                ("the engine may not set a limit", "raise LimitMEMLOCK of the docker service, or --runtime host")
            }
            Self::NoProgram => (
                "the image has no such program, or it cannot be started or is made for another kind of machine",
                "uname -m; take another --base, or cargo xtask provision",
            ),
            Self::Unknown => ("", "cargo xtask doctor"),
        }
    }
}

impl Refusal {
    /// What failed, what that means, and docker's own words.
    pub fn message(&self, what: &str) -> String {
        match self.kind.means() {
            "" => format!("{what}: {}", self.said),
            means => format!("{what}: {means} ({})", self.said),
        }
    }
}

#[cfg(test)]
mod tests;
