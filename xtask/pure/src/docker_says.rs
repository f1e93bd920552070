//! What docker, its runtimes and its registries say when they refuse, by kind: exit status and text in, kind and remedy out.
//!
//! It goes by stems within one line, since the words around them change with every version. It asks nothing and retries nothing.

use super::text::plain;

/// Why docker did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A disk, a quota or the inodes ran out.
    DiskFull,
    /// The client asks a daemon on another machine, or is told to.
    Elsewhere,
    /// The daemon's socket may not be opened.
    Forbidden,
    /// No daemon answers, or it went away.
    Down,
    /// A registry's limit on pulls.
    RateLimited,
    /// The CDI specification is missing, stale or not read by this engine.
    Cdi,
    /// This daemon knows no GPU runtime.
    GpuNotWired,
    /// The GPU runtime finds no driver libraries.
    DriverLibrary,
    /// The GPU may not be opened from a container.
    GpuForbidden,
    /// The image wants a newer driver.
    DriverTooOld,
    /// The host's driver does not answer the GPU runtime.
    DriverBroken,
    /// Another failure of the GPU runtime.
    GpuHook,
    /// A GPU that is there and cannot be opened any more.
    GpuLost,
    /// A container of this name is there already.
    NameTaken,
    /// The engine has no such image.
    ImageAbsent,
    /// The registry has it no more.
    ImageGone,
    /// It is made for another kind of machine.
    Platform,
    /// The registry wants to know who asks.
    Unauthorised,
    /// A package repository signs with a key that is not known.
    RepositoryKey,
    /// A package repository is between two states.
    RepositorySync,
    /// What arrived is not what its digest says.
    Corrupt,
    /// A certificate is not believed here.
    Certificate,
    /// A registry or repository cannot be reached.
    Network,
    /// A limit that the engine may not set.
    Limit,
    /// A folder that cannot be mounted.
    Mount,
    /// Memory, processes, open files or the kernel's own tables ran out.
    Memory,
    /// Client and daemon do not know the same flags.
    Version,
    /// The image has no such program.
    NoProgram,
    /// The program is there and cannot be started.
    NotInvokable,
    /// Podman stands behind docker's name.
    Podman,
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
    // The kernel says that a disk is full of its control groups and watches too, which live on none.
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
        Kind::RateLimited,
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
        Kind::DriverLibrary,
        &[
            &["load library failed"],
            &["nvidia-container-cli", "ldcache error"],
            &["libnvidia-ml.so", "cannot open"],
            &["libnvidia-ml.so", "not found"],
            &["libcuda.so", "cannot open"],
        ],
    ),
    (
        Kind::GpuForbidden,
        &[&["insufficient permissions"], &["/dev/nvidia", "not permitted"], &["/dev/nvidia", "denied"]],
    ),
    (Kind::DriverTooOld, &[&["nvidia-container-cli", "requirement error"], &["unsatisfied condition"]]),
    (
        Kind::DriverBroken,
        &[
            &["driver not loaded"],
            &["driver/library version mismatch"],
            &["nvml error"],
            &["driver rpc error"],
            &["nvidia-container-cli", "driver error"],
        ],
    ),
    (Kind::GpuHook, &[&["nvidia-container-cli"], &["nvidia-container-runtime"], &["nvidia-ctk"], &["nvidia-cdi-hook"]]),
    (Kind::GpuLost, &[&["failed to initialize nvml", "unknown error"], &["gpu is lost"]]),
    (Kind::NameTaken, &[&["container name", "already in use"]]),
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
        ],
    ),
    (
        Kind::Platform,
        &[
            &["no matching manifest"],
            &["exec format error"],
            &["does not match the specified platform"],
            &["does not match the detected host platform"],
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
    (
        Kind::RepositoryKey,
        &[&["no_pubkey"], &["expkeysig"], &["revkeysig"], &["signatures couldn't be verified"], &["is not signed"]],
    ),
    (Kind::RepositorySync, &[&["hash sum mismatch"], &["mirror sync in progress"], &["file has unexpected size"]]),
    (
        Kind::Corrupt,
        &[
            &["verification failed for digest"],
            &["unexpected commit digest"],
            &["failed size validation"],
            &["digest mismatch"],
        ],
    ),
    (
        Kind::Certificate,
        &[&["x509:"], &["certificate_verify_failed"], &["certificate is not yet valid"], &["certificate has expired"]],
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
        Kind::Mount,
        &[
            &["invalid mount config"],
            &["bind source path does not exist"],
            &["error while creating mount source path"],
            &["mounts denied"],
            &["invalid volume specification"],
            &["error mounting"],
        ],
    ),
    (
        Kind::Memory,
        &[
            &["cannot allocate memory"],
            &["resource temporarily unavailable"],
            &["too many open files"],
            &["virtual memory exhausted"],
            &["std::bad_alloc"],
            // Of a compiler's parts, which nothing else kills so.
            &["died due to signal 9"],
            &["killed signal terminated program"],
        ],
    ),
    (
        Kind::Version,
        &[
            &["unknown flag"],
            &["unknown shorthand flag"],
            &["flag provided but not defined"],
            &["is not a docker command"],
            &["client version", "too new"],
            &["client version", "too old"],
            &["requires api version"],
        ],
    ),
    (
        Kind::NoProgram,
        &[
            &["executable file not found"],
            &["executable file", "not found"],
            &["exec:", "no such file or directory"],
            &["exec /", "no such file or directory"],
            &["exec user process", "no such file or directory"],
        ],
    ),
    (
        Kind::NotInvokable,
        &[
            &["exec:", "permission denied"],
            &["exec /", "permission denied"],
            &["exec user process", "permission denied"],
            &["exec:", "is a directory"],
        ],
    ),
    // It says so beside whatever else it says.
    (Kind::Podman, &[&["emulate docker cli using podman"], &["unable to connect to podman"]]),
];

/// What a client that failed said. Its stderr is believed first; a build tells much on stdout.
///
/// The exit status decides only where no words do: 126 and 127 are then the image's.
pub fn refusal(code: Option<i32>, stderr: &str, stdout: &str) -> Refusal {
    if let Some(found) = [stderr, stdout].into_iter().find_map(find) {
        return found;
    }
    let kind = match code {
        Some(126) => Kind::NotInvokable,
        Some(127) => Kind::NoProgram,
        _ => Kind::Unknown,
    };
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
    // In ASCII, so that places in the text stay where they are.
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
        match self {
            Self::DiskFull => "a disk is full, or its inodes or a quota are used up",
            Self::Elsewhere => "docker's client is told to ask a daemon on another machine",
            Self::Forbidden => "the docker socket is not ours to open",
            Self::Down => "the docker daemon is down",
            Self::RateLimited => "the registry limits pulls from this address",
            Self::Cdi => "the CDI specification does not fit this machine or engine",
            Self::GpuNotWired => {
                "this docker daemon knows no GPU runtime: no toolkit, not configured, or not restarted since"
            }
            Self::DriverLibrary => "the GPU runtime finds no driver libraries (the driver itself may be well)",
            Self::GpuForbidden => "the GPU may not be opened from a container",
            Self::DriverTooOld => "the image wants a newer driver",
            Self::DriverBroken => "the host's GPU driver does not answer the GPU runtime",
            Self::GpuHook => "the GPU runtime failed",
            Self::GpuLost => "the GPU cannot be opened in this container any more",
            Self::NameTaken => "a container of this name is there already",
            Self::ImageAbsent => "the engine has no such image",
            Self::ImageGone => "the registry does not have it, or no more; this is not the network",
            Self::Platform => "it is made for another kind of machine",
            Self::Unauthorised => "the registry does not give it to who we are",
            Self::RepositoryKey => "a package repository's signature cannot be checked",
            Self::RepositorySync => "a package repository is between two states",
            Self::Corrupt => "what arrived is not what its digest says",
            Self::Certificate => "its certificate is not believed here",
            Self::Network => "the network does not reach it",
            Self::Limit => "the engine may not set a limit",
            Self::Mount => "a folder cannot be mounted",
            Self::Memory => "the machine has no more memory, processes or open files for it",
            Self::Version => "docker's client or daemon is too old for what is asked",
            Self::NoProgram => "the image has no such program",
            Self::NotInvokable => "the image's program cannot be started",
            Self::Podman => "podman stands behind docker's name, and only docker is driven",
            Self::Unknown => "",
        }
    }

    /// What to type.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::DiskFull => {
                "df -h and df -i of what `docker info` names as Docker Root Dir and of $TMPDIR; then docker system prune"
            }
            Self::Elsewhere => {
                "unset DOCKER_HOST DOCKER_CONTEXT; docker context use default; the daemon must run on this machine and \
                 see its folders; or --runtime host"
            }
            Self::Forbidden => {
                "sudo usermod -aG docker $USER, then log in again (newgrp docker for this shell), or --runtime host"
            }
            Self::Down => "sudo systemctl start docker, or sudo dockerd & where there is no systemd, or --runtime host",
            Self::RateLimited => {
                "docker login, or docker load an archive of the image (its digest is checked), or \
                 cargo xtask provision --make-base"
            }
            Self::Cdi => {
                "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, compare its driver version with \
                 cat /sys/module/nvidia/version, then cargo xtask doctor; or --runtime host"
            }
            Self::GpuNotWired => {
                "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker, then \
                 cargo xtask doctor; or --runtime host"
            }
            Self::DriverLibrary => {
                "type -a docker (a snap's daemon does not see the driver); root and ldconfig in \
                 /etc/nvidia-container-runtime/config.toml; or --runtime host"
            }
            Self::GpuForbidden => {
                "cargo xtask doctor; a rootless engine needs no-cgroups = true in the GPU runtime's config.toml, and \
                 a rootful one needs it off; ls -l /dev/nvidia*"
            }
            Self::DriverTooOld => "--base cuda12, or install a newer driver",
            Self::DriverBroken => "nvidia-smi on the host; where it says version mismatch, reboot",
            Self::GpuHook => "cargo xtask doctor; or --runtime host",
            Self::GpuLost => {
                "run the same command again for a new container; a daemon-reload of systemd takes GPUs from running ones"
            }
            Self::NameTaken => "cargo xtask clean, then the same command again",
            Self::ImageAbsent => "cargo xtask provision",
            Self::ImageGone => {
                "docker load an archive with the pinned digest, or pull it from a mirror that kept it; a nearby tag is \
                 another image, and numbers measured on this one cannot be reproduced without it"
            }
            Self::Platform => "uname -m; take a --base made for it",
            Self::Unauthorised => "docker login, or cargo xtask provision --make-base",
            Self::RepositoryKey => "renew the repository's key from its owner; never install unsigned packages",
            Self::RepositorySync => "run the same command again in an hour",
            Self::Corrupt => {
                "run the same command again; if it differs again, the registry, the network or the disk is not to be trusted"
            }
            Self::Certificate => {
                "date (where the clock is wrong no certificate is valid); a proxy that puts its own in its place must be \
                 known to the system's and the daemon's store"
            }
            Self::Network => "check the network and its proxy; without one, cargo xtask provision --make-base",
            Self::Limit => "raise LimitMEMLOCK of the docker service, or --runtime host",
            Self::Mount => "ls -ld the folder; docker must see the same file system as we do",
            Self::Memory => "free -m; ulimit -a; end other programs; docker ps --all, and docker rm what ended",
            Self::Version => "docker version; 20.10 is the oldest that is used",
            Self::NoProgram => "take another --base, or cargo xtask provision",
            Self::NotInvokable => "take another --base; ls -l the program",
            Self::Podman => "install docker itself (type -a docker says which one answers), or --runtime host",
            Self::Unknown => "cargo xtask doctor",
        }
    }

    /// Whether waiting may help, so that a bounded number of further attempts is worth it.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::RateLimited | Self::RepositorySync)
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
