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

/// A line is of a kind when it holds, in lower case, every stem of one of the kind's alternatives.
type Rule = (Kind, &'static [&'static [&'static str]]);

/// The first rule that any line satisfies wins: causes stand before the wrappers that quote them.
const RULES: &[Rule] = &[
    // The kernel also reports a full disk for control groups and file watches, which use no disk.
    (
        Kind::Memory,
        &[
            &["/sys/fs/cgroup", "no space left on device"],
            &["inotify", "no space left on device"],
            &["fsnotify", "no space left on device"],
        ],
    ),
    (Kind::DiskFull, &[&["no space left on device"], &["quota exceeded"], &["not enough free space"], &["enospc"]]),
    // An address of this machine's.
    (Kind::Down, &[&["daemon at tcp://127."], &["daemon at tcp://localhost"], &["daemon at tcp://[::1]"]]),
    (
        Kind::Elsewhere,
        &[
            &["daemon at tcp://"],
            &["daemon at ssh://"],
            &["daemon at http"],
            &["docker api at tcp://"],
            &["docker api at ssh://"],
            &["error during connect", "https://"],
            &["error during connect", "dial tcp"],
            &["error during connect", "command [ssh"],
            &["http request to an https server"],
            &["current context", "not found"],
        ],
    ),
    (
        Kind::Forbidden,
        &[
            &["permission denied", "connect"],
            &["permission denied", "docker api"],
            &["permission denied", "daemon socket"],
            &["permission denied", ".sock"],
        ],
    ),
    (
        Kind::Down,
        &[
            &["cannot connect to the docker daemon"],
            &["failed to connect to the docker api"],
            &["is the docker daemon running"],
            &["docker daemon is not running"],
            &["cannot connect to podman"],
            &["error during connect"],
            &["error waiting for container"],
            &["dial unix"],
        ],
    ),
    (
        Kind::Busy,
        &[
            &["toomanyrequests"],
            &["too many requests"],
            &["pull rate limit"],
            &["rate limit exceeded"],
            &["status: 429"],
        ],
    ),
    (
        Kind::Cdi,
        &[
            &["unresolvable cdi device"],
            &["cdi device", "inject"],
            &["setting up cdi devices"],
            &["cdi host device"],
            &["device driver \"cdi\""],
            &["cdi", "not supported"],
            &["cdi spec"],
        ],
    ),
    (
        Kind::GpuNotWired,
        &[
            &["could not select device driver"],
            &["unknown or invalid runtime name"],
            &["unknown runtime specified"],
            &["invalid runtime name"],
            &["oci runtime \"nvidia", "not found"],
            &["nvidia-container-runtime", "not found"],
            &["nvidia-container-runtime", "no such file"],
            &["nvidia-container-cli", "executable file not found"],
        ],
    ),
    (
        Kind::GpuClosed,
        &[
            &["insufficient permissions"],
            &["/dev/nvidia", "not permitted"],
            &["/dev/nvidia", "denied"],
            &["failed to initialize nvml", "unknown error"],
            &["gpu is lost"],
        ],
    ),
    (
        Kind::Driver,
        &[
            &["load library failed"],
            &["libnvidia-ml.so", "cannot open"],
            &["libnvidia-ml.so", "not found"],
            &["libcuda.so", "cannot open"],
            &["unsatisfied condition"],
            &["driver not loaded"],
            &["driver/library version mismatch"],
            &["nvml error"],
            &["driver rpc error"],
            &["nvidia-container-cli"],
            &["nvidia-container-runtime"],
            &["nvidia-ctk"],
            &["nvidia-cdi-hook"],
        ],
    ),
    (Kind::ImageAbsent, &[&["no such image"], &["no such object"], &["image not known"]]),
    (
        Kind::ImageGone,
        &[
            &["manifest unknown"],
            &["manifest for", "not found"],
            &["failed to resolve source metadata", "not found"],
            &["failed to resolve reference", "not found"],
            &["name unknown"],
            &["blob unknown"],
            &["no matching manifest"],
            &["no match for platform"],
        ],
    ),
    (Kind::Network, &[&["proxy authentication required"], &["error parsing http"]]),
    (
        Kind::Unauthorised,
        &[
            &["pull access denied"],
            &["access to the resource is denied"],
            &["unauthorized"],
            &["authentication required"],
            &["no basic auth credentials"],
            &["error getting credentials"],
            &["credentials not correct"],
            &[": forbidden"],
        ],
    ),
    (Kind::Busy, &[&["hash sum mismatch"], &["mirror sync in progress"], &["file has unexpected size"]]),
    (
        Kind::Untrusted,
        &[
            &["no_pubkey"],
            &["expkeysig"],
            &["revkeysig"],
            &["signatures couldn't be verified"],
            &["is not signed"],
            &["verification failed for digest"],
            &["unexpected commit digest"],
            &["failed size validation"],
            &["digest mismatch"],
            &["x509:"],
            &["certificate_verify_failed"],
            &["certificate is not yet valid"],
            &["certificate has expired"],
        ],
    ),
    (
        Kind::Network,
        &[
            &["no such host"],
            &["could not resolve"],
            &["temporary failure in name resolution"],
            &["network is unreachable"],
            &["no route to host"],
            &["i/o timeout"],
            &["tls handshake"],
            &["cannot connect to proxy"],
            &["read timed out"],
            &["connection refused"],
            &["connection reset"],
            &["connection timed out"],
            &["server misbehaving"],
            &["client.timeout exceeded"],
            &["context deadline exceeded"],
            &["proxyconnect"],
            &["unexpected eof"],
            &["bad gateway"],
            &["service unavailable"],
            &["gateway timeout"],
            &["received unexpected http status: 5"],
        ],
    ),
    (Kind::Limit, &[&["rlimit"], &["ulimit"]]),
    (
        Kind::Memory,
        &[
            &["cannot allocate memory"],
            &["resource temporarily unavailable"],
            &["too many open files"],
            &["virtual memory exhausted"],
            &["std::bad_alloc"],
            // Said of parts of a compiler, which only a lack of memory kills in this way.
            &["died due to signal 9"],
            &["killed signal terminated program"],
        ],
    ),
    (
        Kind::NoProgram,
        &[
            &["executable file", "not found"],
            &["exec:", "no such file or directory"],
            &["exec /", "no such file or directory"],
            &["exec user process", "no such file or directory"],
            &["exec:", "permission denied"],
            &["exec /", "permission denied"],
            &["exec user process", "permission denied"],
            &["exec:", "is a directory"],
            &["exec format error"],
            &["does not match the specified platform"],
            &["does not match the detected host platform"],
        ],
    ),
    // Podman prints this beside any other message.
    (Kind::Elsewhere, &[&["emulate docker cli using podman"], &["unable to connect to podman"]]),
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
    RULES.iter().find_map(|(kind, alternatives)| {
        let holds = |line: &str| alternatives.iter().any(|stems| stems.iter().all(|stem| line.contains(stem)));
        let (line, _) = lines.iter().rev().find(|(_, lower)| holds(lower))?;
        Some(Refusal { kind: *kind, said: tail(line) })
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
