//! What CUDA itself reports of this machine's GPUs. NVML may list a GPU on which CUDA does not even initialize.
//!
//! The driver's library is loaded in a process of its own, which may crash or hang in it. No context is made and
//! nothing is launched; only the harness measures.
#![expect(unsafe_code, reason = "calls five functions of the driver's library")]

use crate::process::{Child, own_environment};
use anyhow::Result;
use libloading::{Library, Symbol};
use schema::driver::{explain, is_stub};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::pci;

/// How long the driver may take to initialise: with eight GPUs and no persistence it takes several seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The names that the harness's bindings try, in their order.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cuda {
    /// It initialises and lists these GPUs.
    Works(Vec<CudaGpu>),
    /// No library can be loaded; in the loader's words.
    Absent(String),
    /// The library refuses.
    Refuses {
        /// Its return code.
        code: u32,
        /// The function that returned it.
        call: String,
    },
    /// It is not usable at all: a stub, an old one, one that crashes or hangs.
    Broken(String),
}

/// A GPU as CUDA sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaGpu {
    /// `GPU-…`, as NVML writes it.
    pub uuid: String,
    /// PCI address, as CUDA writes it.
    pub pci: String,
}

impl Cuda {
    /// Asks in a process of its own.
    ///
    /// # Errors
    /// When this program cannot be started again, or we were asked to stop.
    pub fn look() -> Result<Self> {
        let child = Child {
            program: std::env::current_exe()?,
            args: vec!["probe".into(), "cuda".into()],
            env: environment(),
            dir: "/".into(),
            deadline: PATIENCE,
            hold_stdin: false,
        };
        let ended = child.run(&mut |_| {})?;
        Ok(match ended.stdout.lines().rev().find_map(|line| serde_json::from_str(line).ok()) {
            Some(seen) if ended.code == Some(0) => seen,
            _ if ended.timed_out => Self::Broken(format!("it did not initialise within {} s", PATIENCE.as_secs())),
            _ => Self::Broken(match ended.code {
                Some(code) => format!("the process that loads it ended with exit {code}"),
                None => "the process that loads it crashed".to_owned(),
            }),
        })
    }

    /// What is wrong with CUDA for the GPU that NVML names so, and what to do; `None` when CUDA sees the same GPU.
    #[must_use]
    pub fn against(&self, uuid: &str, nvml_pci: Option<&str>) -> Option<(String, String)> {
        const SAME: &str = "name a GPU that CUDA sees (--device cuda:GPU-…), or look what CUDA_VISIBLE_DEVICES hides; \
                            where the addresses differ, restart";
        let wrong = |found: String, remedy: &str| Some((found, remedy.to_owned()));
        match self {
            Self::Works(gpus) => {
                let Some(gpu) = gpus.iter().find(|gpu| gpu.uuid.eq_ignore_ascii_case(uuid)) else {
                    return wrong(format!("CUDA lists {} GPUs, and {uuid} is none of them", gpus.len()), SAME);
                };
                match nvml_pci {
                    Some(seen) if pci::same(seen, &gpu.pci) => None,
                    Some(seen) => wrong(format!("{uuid} is at {} for CUDA and at {seen} for NVML", gpu.pci), SAME),
                    None => wrong(format!("NVML does not say at which PCI address {uuid} is"), SAME),
                }
            }
            Self::Absent(said) => wrong(
                format!("no CUDA driver library (libcuda.so.1) can be loaded: {said}"),
                "in a container, start it with GPU access (capability `compute`); otherwise install the driver's libraries",
            ),
            Self::Refuses { code, call } => {
                let explained = explain(*code);
                wrong(format!("{call} returned {code}: {}", explained.why), explained.remedy)
            }
            Self::Broken(said) => wrong(
                format!("the CUDA driver library is not usable: {said}"),
                "look which libcuda.so LD_LIBRARY_PATH finds; install or restart the driver",
            ),
        }
    }
}

/// What the harness sees too: where a provider put the driver, and which GPUs the user lets CUDA see.
fn environment() -> Vec<(String, String)> {
    const PASSED_ON: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"];
    let mut env: Vec<(String, String)> =
        own_environment().into_iter().filter(|(key, _)| PASSED_ON.contains(&key.as_str())).collect();
    env.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
    env
}

/// Asks in this process, which may crash.
#[must_use]
pub fn probe() -> Cuda {
    let mut said = String::new();
    for name in NAMES {
        // SAFETY: running the library's initialisers is what this process is for.
        match unsafe { Library::new(name) } {
            Ok(library) => return ask(&library).unwrap_or_else(|wrong| wrong),
            Err(error) => said = error.to_string(),
        }
    }
    Cuda::Absent(said)
}

type Init = unsafe extern "C" fn(c_uint) -> u32;
type Count = unsafe extern "C" fn(*mut c_int) -> u32;
type Handle = unsafe extern "C" fn(*mut c_int, c_int) -> u32;
type Uuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> u32;
type BusId = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32;

fn ask(library: &Library) -> Result<Cuda, Cuda> {
    if let Some(path) = loaded().filter(|path| is_stub(path)) {
        return Err(Cuda::Broken(format!("{} is a stub, made for linking only", path.display())));
    }
    let (init, count): (Symbol<'_, Init>, Symbol<'_, Count>) =
        (function(library, "cuInit")?, function(library, "cuDeviceGetCount")?);
    // SAFETY: as cuda.h declares it.
    returned("cuInit", unsafe { init(0) })?;
    let mut n = 0;
    // SAFETY: a valid out-parameter.
    returned("cuDeviceGetCount", unsafe { count(&raw mut n) })?;
    (0..n).map(|ordinal| gpu(library, ordinal)).collect::<Result<_, _>>().map(Cuda::Works)
}

fn gpu(library: &Library, ordinal: c_int) -> Result<CudaGpu, Cuda> {
    let get: Symbol<'_, Handle> = function(library, "cuDeviceGet")?;
    let get_uuid: Symbol<'_, Uuid> = function(library, "cuDeviceGetUuid_v2")?;
    let get_pci: Symbol<'_, BusId> = function(library, "cuDeviceGetPCIBusId")?;
    let (mut handle, mut uuid, mut pci) = (0, [0_u8; 16], [0_u8; 32]);
    // SAFETY: valid out-parameters, and the length of the text is given and leaves its last byte zero.
    unsafe {
        returned("cuDeviceGet", get(&raw mut handle, ordinal))?;
        returned("cuDeviceGetUuid", get_uuid(&raw mut uuid, handle))?;
        returned("cuDeviceGetPCIBusId", get_pci(pci.as_mut_ptr().cast(), 31, handle))?;
    }
    let pci = CStr::from_bytes_until_nul(&pci).map(|text| text.to_string_lossy().into_owned());
    Ok(CudaGpu { uuid: uuid_text(&uuid), pci: pci.unwrap_or_default() })
}

fn function<'a, F>(library: &'a Library, name: &str) -> Result<Symbol<'a, F>, Cuda> {
    // SAFETY: the types above are those of cuda.h.
    unsafe { library.get(name.as_bytes()) }.map_err(|_| {
        let file = loaded().map_or_else(|| "it".to_owned(), |path| path.display().to_string());
        Cuda::Broken(format!("{file} lacks {name}: it is too old, or no driver"))
    })
}

fn returned(call: &str, code: u32) -> Result<(), Cuda> {
    if code == 0 { Ok(()) } else { Err(Cuda::Refuses { code, call: call.to_owned() }) }
}

/// A UUID as NVML writes it.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The file that the loader took.
fn loaded() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut mapped = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let is_driver =
        |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so"));
    mapped.find(is_driver).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-fa4efa4e-0000-4000-8000-000000000001";

    fn works(pci: &str) -> Cuda {
        Cuda::Works(vec![
            CudaGpu { uuid: "GPU-other".into(), pci: "0000:0a:00.0".into() },
            CudaGpu { uuid: UUID.into(), pci: pci.into() },
        ])
    }

    #[test]
    fn the_same_gpu_is_known_by_uuid_and_address_in_either_spelling() {
        assert_eq!(works("0000:3b:00.0").against(UUID, Some("00000000:3B:00.0")), None);
        let moved = works("0000:0a:00.0").against(UUID, Some("00000000:3B:00.0")).unwrap().0;
        assert!(moved.contains("0000:0a:00.0 for CUDA and at 00000000:3B:00.0 for NVML"), "{moved}");
        assert!(
            works("0000:3b:00.0").against("GPU-third", Some("00000000:3B:00.0")).unwrap().0.contains("none of them")
        );
        assert!(works("0000:3b:00.0").against(UUID, None).unwrap().0.contains("does not say"));
    }

    #[test]
    fn a_uuid_is_written_as_nvml_writes_it() {
        let mut bytes = [0; 16];
        (bytes[0], bytes[15]) = (0xfa, 0x01);
        assert_eq!(uuid_text(&bytes), "GPU-fa000000-0000-0000-0000-000000000001");
    }

    #[test]
    fn each_refusal_comes_with_its_own_remedy() {
        for (code, word) in [(802, "fabricmanager"), (999, "nvidia_uvm"), (34, "stubs"), (100, "GPU access")] {
            let (found, remedy) = Cuda::Refuses { code, call: "cuInit".into() }.against(UUID, None).unwrap();
            assert!(
                found.starts_with(&format!("cuInit returned {code}")) && remedy.contains(word),
                "{found}; {remedy}"
            );
        }
    }
}
