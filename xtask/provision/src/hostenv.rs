//! The stated environments: what programs on this machine see, and what the package client sees. No other variable is
//! passed on.

use super::choose::Machine;
use std::path::Path;

/// What a program on this machine may see of the caller's environment, beside PATH.
const PASSED_ON: &[&str] = &[
    "HOME",
    // Where cargo and rustup keep what they fetched, and which toolchain called us.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    // Where a provider put the driver, and which of its GPUs are ours.
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    // A box whose own g++ is not the one that its nvcc wants.
    "NVCC_CCBIN",
];

/// What pip may see: proxies, certificates and its own settings; digests make sure of what comes.
const FOR_PIP: &[&str] = &[
    "PATH",
    "HOME",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
];

/// The environment of programs on this machine, with the toolkit's programs first on PATH.
pub(super) fn for_programs(machine: &Machine, toolkit_root: &Path) -> Vec<(String, String)> {
    let path = format!("{}:{}", toolkit_root.join("bin").display(), machine.var("PATH").unwrap_or("/usr/bin:/bin"));
    let mut env = vec![("PATH".to_owned(), path), ("LC_ALL".to_owned(), "C.UTF-8".to_owned())];
    env.extend(passed(machine, PASSED_ON));
    if let (None, Some(compiler)) = (machine.var("NVCC_CCBIN"), machine.var("CUDAHOSTCXX")) {
        env.push(("NVCC_CCBIN".into(), compiler.into()));
    }
    env
}

/// The environment of pip and of Python's zip reader.
pub(super) fn for_pip(machine: &Machine) -> Vec<(String, String)> {
    passed(machine, FOR_PIP)
}

fn passed(machine: &Machine, keys: &[&str]) -> Vec<(String, String)> {
    keys.iter().filter_map(|key| Some(((*key).to_owned(), machine.var(key)?.to_owned()))).collect()
}
