//! What the GPU driver's return codes mean for somebody who wants to measure. Holds only text; calls no driver.

/// A return code of the CUDA driver in words (cuda.h, CUDA 13.0: `CUresult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained {
    /// What is wrong.
    pub why: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// What it means that initialising the driver, or asking it for its GPUs, ended with `code`.
#[must_use]
pub fn explain(code: u32) -> Explained {
    let (why, remedy) = match code {
        34 => (
            "the CUDA driver library that was loaded is a stub, made for linking only",
            "take .../lib64/stubs out of LD_LIBRARY_PATH",
        ),
        46 => ("the GPU is unavailable: another process has it to itself", "end that process, or use another GPU"),
        100 => (
            "the driver sees no GPU",
            "in a container, start it with GPU access; otherwise look whether CUDA_VISIBLE_DEVICES hides it",
        ),
        101 => ("the driver has no such GPU", "name one by its UUID: --device cuda:GPU-…"),
        304 => (
            "the operating system refused the driver its device files",
            "look at the rights on /dev/nvidia*; in a container that lost its GPU, start a fresh one",
        ),
        802 => (
            "the system is not ready: on machines with NVSwitch the fabric manager must run, in the driver's own version, also for one GPU",
            "systemctl status nvidia-fabricmanager, and compare its version with the driver's; in a rented container only the owner can",
        ),
        803 => (
            "the driver's libraries and its loaded kernel module are of different versions",
            "reboot, or have the owner of this machine reload the kernel module",
        ),
        804 => (
            "a forward-compatibility driver library was loaded, and this GPU does not support it",
            "take the folder cuda/compat out of LD_LIBRARY_PATH",
        ),
        999 => (
            "the driver does not know what is wrong; after the host slept, or without /dev/nvidia-uvm, it says this",
            "look whether /dev/nvidia-uvm can be opened; after a sleep the owner must reload the module nvidia_uvm",
        ),
        _ => ("the driver refused", "cargo xtask doctor; the driver's log (dmesg) may say more"),
    };
    Explained { why, remedy }
}

/// Whether a library's path is that of a stub: it lies in a folder `stubs`, as in every CUDA toolkit.
#[must_use]
pub fn is_stub(path: &std::path::Path) -> bool {
    path.components().any(|part| part.as_os_str() == "stubs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn known_codes_have_words_of_their_own() {
        let known = [34, 46, 100, 101, 304, 802, 803, 804, 999].map(explain);
        let words: std::collections::BTreeSet<&str> = known.iter().map(|explained| explained.why).collect();
        assert_eq!(words.len(), known.len());
        assert!(!words.contains(explain(700).why));
        assert!(explain(802).why.contains("fabric manager") && explain(34).remedy.contains("stubs"));
    }

    #[test]
    fn a_stub_is_known_by_its_folder() {
        assert!(is_stub(Path::new("/usr/local/cuda/lib64/stubs/libcuda.so")));
        assert!(!is_stub(Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05")));
        assert!(!is_stub(Path::new("/opt/stubsoft/libcuda.so.1")));
    }
}
