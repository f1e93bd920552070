//! Variables of the environment that change what a compiler makes, what a sanitizer checks or how a kernel runs, and
//! that a container's image may set although nobody passed them on. It parses the output of `env`; it runs nothing.

/// Whole names, and beginnings that end in `_`.
const HARMFUL: &[&str] = &[
    // nvcc's own extra flags, `-allow-unsupported-compiler` among the usual ones.
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    // Switches of compute-sanitizer: patching off, caps lower, another port.
    "NV_COMPUTE_SANITIZER_",
    "NV_SANITIZER_",
    // Loads other code into every process.
    "LD_PRELOAD",
    "LD_AUDIT",
    "CUDA_INJECTION64_PATH",
    "CUDA_INJECTION32_PATH",
    // Changes how launches run, or which code is run.
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MPS_",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
];

/// The harmful variables that are set to anything, in the order in which `env` printed them.
pub fn harmful(env: &str) -> Vec<&str> {
    let is_harmful = |name: &str| {
        HARMFUL.iter().any(|known| if known.ends_with('_') { name.starts_with(known) } else { name == *known })
    };
    let set = env.lines().filter_map(|line| line.split_once('=')).filter(|(_, value)| !value.is_empty());
    set.map(|(name, _)| name).filter(|name| is_harmful(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_result_is_named_and_the_rest_is_not() {
        let env = "PATH=/usr/bin\nNVCC_APPEND_FLAGS=-allow-unsupported-compiler\nNVCC_CCBIN=/usr/bin/g++\n\
            NV_COMPUTE_SANITIZER_BINARY_PATCHING=0\nNV_SANITIZER_INJECTION_PORT_BASE=1\nNVCC_PREPEND_FLAGS=\n\
            CUDA_VERSION=13.0.2\nNV_CUDA_LIB_VERSION=13\nLD_PRELOAD=/x.so\nCUDA_MPS_PIPE_DIRECTORY=/tmp/mps\nOTHER=LD_AUDIT=1\n";
        let expected = [
            "NVCC_APPEND_FLAGS",
            "NV_COMPUTE_SANITIZER_BINARY_PATCHING",
            "NV_SANITIZER_INJECTION_PORT_BASE",
            "LD_PRELOAD",
            "CUDA_MPS_PIPE_DIRECTORY",
        ];
        assert_eq!(harmful(env), expected);
        assert!(harmful("").is_empty());
    }
}
