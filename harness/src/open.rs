//! Opens the device that the command line names.

use crate::device::Device;
use crate::device::cuda::CudaDevice;
use crate::device::emulated::Emulated;
use crate::failure::fail;
use schema::ExitCode;
use std::path::Path;

/// An open device.
pub enum Opened {
    /// Threads of this machine.
    Emulated(Box<Emulated>),
    /// A GPU.
    Cuda(Box<CudaDevice>),
}

/// Opens `emulated`, `cuda:N` or `cuda:GPU-<uuid>`, with the cubins of `flavor` below `cubins`.
///
/// # Errors
/// Ends with [`ExitCode::Usage`] for any other word; otherwise as the device says.
pub fn open(selector: &str, cubins: Option<&Path>, flavor: &str) -> anyhow::Result<Opened> {
    if selector == "emulated" {
        return Ok(Opened::Emulated(Box::new(Emulated::open())));
    }
    if !selector.starts_with("cuda:") {
        let message = format!("{selector:?} is no device; give emulated, cuda:N or cuda:GPU-<uuid>");
        return Err(fail(ExitCode::Usage, message));
    }
    let cubins = cubins.ok_or_else(|| fail(ExitCode::Usage, "a GPU needs --cubins, the folder that the build made"))?;
    Ok(Opened::Cuda(Box::new(CudaDevice::open(selector, cubins, flavor)?)))
}

impl Opened {
    /// The device as the phases see it.
    pub fn device(&mut self) -> &mut dyn Device {
        match self {
            Self::Emulated(device) => device.as_mut(),
            Self::Cuda(device) => device.as_mut(),
        }
    }

    /// Launches a planted fault of `kernels/controls/`.
    ///
    /// # Errors
    /// When there is no such control, its launch fails, or the device is emulated.
    pub fn run_control(&mut self, symbol: &str) -> anyhow::Result<()> {
        match self {
            Self::Emulated(_) => Err(fail(
                ExitCode::Measurement,
                format!("{symbol} is a fault in a GPU kernel; the emulated device has none to run"),
            )),
            Self::Cuda(device) => device.run_control(symbol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    #[test]
    fn words_that_name_no_device_are_refused() {
        for word in ["gpu", "", "0"] {
            assert_eq!(code_of(&open(word, None, "measure").err().unwrap()), ExitCode::Usage, "{word}");
        }
        assert_eq!(code_of(&open("cuda:0", None, "measure").err().unwrap()), ExitCode::Usage);
        let mut emulated = open("emulated", None, "measure").unwrap();
        assert!(emulated.run_control("control_shared_race").is_err());
    }
}
