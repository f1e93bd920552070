//! Allows one measurement at a time on a GPU, across all checkouts: two that begin together would each find the GPU
//! idle.
//!
//! The lock is an abstract socket name, which the kernel releases however the process ends. There is no lock file
//! that could be left behind or removed.

use crate::failure::fail;
use anyhow::{Context, Result};
use schema::ExitCode;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Held while this process measures.
pub struct Turn {
    _name: UnixDatagram,
}

/// Takes the turn on a GPU, by its hashed id.
///
/// # Errors
/// Exit 11 while another process has it.
pub fn take(device: &str) -> Result<Turn> {
    let name = SocketAddr::from_abstract_name(format!("assay measures on {device}"))?;
    match UnixDatagram::bind_addr(&name) {
        Ok(name) => Ok(Turn { _name: name }),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(fail(
            ExitCode::Environment,
            format!("another run is being measured on GPU {device}"),
            "wait until it has ended, or measure on another GPU: --device cuda:GPU-…",
        )),
        Err(error) => Err(error).context("failed to take the turn on the GPU"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    #[test]
    fn two_never_measure_on_one_gpu() {
        let device = format!("test of process {}", std::process::id());
        let first = take(&device).unwrap();
        let second = take(&device).err().unwrap();
        assert_eq!(code_of(&second), ExitCode::Environment);
        assert!(second.to_string().contains("another run is being measured"), "{second}");
        assert!(take(&format!("other {device}")).is_ok());
        drop(first);
        // A child that another test forks holds the name until it has started its program.
        let free = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            take(&device).is_ok()
        });
        assert!(free);
    }
}
