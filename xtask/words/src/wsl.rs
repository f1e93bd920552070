//! Linux inside Windows, whose GPU is a share of the Windows driver.

/// Whether a kernel's release or version line is that of Linux inside Windows (WSL).
#[must_use]
pub fn is_wsl(kernel: &str) -> bool {
    kernel.to_lowercase().contains("microsoft")
}
