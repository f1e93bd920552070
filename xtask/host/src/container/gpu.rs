//! How a GPU gets into a container: CDI, else `--gpus`, else device nodes and the driver's libraries one by one.

use super::engine::EngineFacts;
use crate::process::find_program;
use std::path::{Path, PathBuf};

/// One of the ways, with what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuAccess {
    /// The engine reads the vendor's device specification.
    Cdi,
    /// The vendor's runtime hook.
    Gpus,
    /// Device nodes, and the driver's libraries mounted read-only.
    DeviceNodes {
        /// The nodes.
        nodes: Vec<PathBuf>,
        /// The libraries.
        libraries: Vec<PathBuf>,
    },
    /// No GPU.
    None,
}

/// Where mounted driver libraries appear in a container.
const DRIVER_DIR: &str = "/opt/assay/driver";

/// What of the driver a CUDA program loads: by these names, with any version behind.
const LIBRARIES: &[&str] = &[
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-ml.so",
    "libnvidia-ptxjitcompiler.so",
    "libnvidia-nvvm.so",
    "libnvidia-nvvm70.so",
    "libnvidia-gpucomp.so",
];

/// Device nodes beside the GPUs' own.
const CONTROL_NODES: &[&str] = &["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"];

impl GpuAccess {
    /// The best way that this machine offers; `root` is `/` and `search` the caller's PATH.
    pub fn find(root: &Path, search: &str, facts: &EngineFacts) -> Self {
        let names_gpus =
            |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text.contains("nvidia.com/gpu"));
        if cdi_files(root, facts).iter().any(names_gpus) {
            return Self::Cdi;
        }
        let registered = facts.runtimes.iter().flatten().any(|(name, _)| name == "nvidia");
        if registered || find_program(Path::new("nvidia-container-runtime-hook"), search).is_some() {
            return Self::Gpus;
        }
        let nodes = device_nodes(root);
        match nodes.is_empty() {
            true => Self::None,
            false => Self::DeviceNodes { nodes, libraries: driver_libraries(root) },
        }
    }

    /// The word that is recorded.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cdi => "cdi",
            Self::Gpus => "gpus",
            Self::DeviceNodes { .. } => "device-nodes",
            Self::None => "none",
        }
    }

    /// The arguments of `docker run`.
    pub fn args(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Cdi => words(&["--device", "nvidia.com/gpu=all"]),
            Self::Gpus => words(&["--gpus", "all", "--env", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]),
            Self::DeviceNodes { nodes, libraries } => {
                let nodes = nodes.iter().flat_map(|node| ["--device".into(), node.display().to_string()]);
                let libraries = libraries.iter().flat_map(|library| ["--volume".into(), mount(library)]);
                let path = ["--env".into(), format!("LD_LIBRARY_PATH={DRIVER_DIR}")];
                nodes.chain(libraries).chain(path).collect()
            }
            Self::None => Vec::new(),
        }
    }
}

/// A library's file, under the name by which it is looked for.
fn mount(library: &Path) -> String {
    let file = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    format!("{}:{DRIVER_DIR}/{name}:ro", file.display())
}

/// The device specifications in the folders that this engine reads; none where it reads none.
pub fn cdi_files(root: &Path, facts: &EngineFacts) -> Vec<PathBuf> {
    let dirs = facts.cdi_spec_dirs.iter().flatten();
    dirs.flat_map(|dir| files(&root.join(dir.trim_start_matches('/')))).collect()
}

/// The GPUs' device nodes and the control nodes beside them; none where there is no GPU.
pub fn device_nodes(root: &Path) -> Vec<PathBuf> {
    let dev = root.join("dev");
    let is_gpu = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix("nvidia").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut nodes: Vec<PathBuf> = files(&dev).into_iter().filter(is_gpu).collect();
    if !nodes.is_empty() {
        nodes.extend(CONTROL_NODES.iter().map(|name| dev.join(name)).filter(|node| node.exists()));
    }
    nodes
}

/// The driver's libraries; all from the one folder that holds libcuda.so.1.
pub fn driver_libraries(root: &Path) -> Vec<PathBuf> {
    let Some(dir) = library_dirs(root).into_iter().find(|dir| dir.join("libcuda.so.1").exists()) else {
        return Vec::new();
    };
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        LIBRARIES.iter().any(|library| name.strip_prefix(library).is_some_and(|rest| rest.starts_with('.')))
    };
    files(&dir).into_iter().filter(wanted).collect()
}

/// Where drivers put their libraries: what the loader's configuration names, then the usual places.
fn library_dirs(root: &Path) -> Vec<PathBuf> {
    let configured = files(&root.join("etc/ld.so.conf.d")).into_iter().flat_map(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().filter(|line| line.starts_with('/')).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    });
    let usual = ["/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64", "/usr/lib64", "/usr/lib/wsl/lib"];
    configured.chain(usual.map(String::from)).map(|dir| root.join(dir.trim_start_matches('/'))).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|f| f.path()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const NODES: &[(&str, &str)] = &[
        ("dev/nvidia0", ""),
        ("dev/nvidia1", ""),
        ("dev/nvidiactl", ""),
        ("dev/nvidia-uvm", ""),
        ("dev/nvidia-caps", ""),
        ("etc/ld.so.conf.d/driver.conf", "/opt/driver/lib64\n"),
        ("opt/driver/lib64/libcuda.so.1", ""),
        ("opt/driver/lib64/libcuda.so.580.95.05", ""),
        ("opt/driver/lib64/libnvidia-ml.so.1", ""),
        ("opt/driver/lib64/libc.so.6", ""),
        ("opt/driver/lib64/libnvidia-opticalflow.so.1", ""),
    ];

    fn facts(cdi: bool, nvidia: bool) -> EngineFacts {
        EngineFacts {
            cdi_spec_dirs: cdi.then(|| vec!["/etc/cdi".into()]),
            runtimes: nvidia.then(|| [("nvidia".into(), serde_json::json!({}))].into()),
            ..EngineFacts::default()
        }
    }

    #[test]
    fn cdi_goes_before_gpus_before_nodes() {
        let root = machine(&[NODES, &[("etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n")]].concat());
        let found = |facts: &EngineFacts| GpuAccess::find(root.path(), "", facts).name();
        assert_eq!(found(&facts(true, true)), "cdi");
        assert_eq!(found(&facts(false, true)), "gpus");
        assert_eq!(found(&facts(false, false)), "device-nodes");
        assert_eq!(GpuAccess::find(machine(&[]).path(), "", &facts(true, false)), GpuAccess::None);
    }

    #[test]
    fn nodes_and_libraries_are_only_what_cuda_needs() {
        let root = machine(NODES);
        let args = GpuAccess::find(root.path(), "", &facts(false, false)).args().join(" ");
        for wanted in [
            "nvidia0",
            "nvidia1",
            "nvidiactl",
            "nvidia-uvm",
            "libcuda.so.1:ro",
            "libcuda.so.580.95.05:ro",
            "libnvidia-ml",
        ] {
            assert!(args.contains(wanted), "{wanted} in {args}");
        }
        for unwanted in ["libc.so", "opticalflow", "nvidia-caps"] {
            assert!(!args.contains(unwanted), "{unwanted} in {args}");
        }
        assert!(args.ends_with("--env LD_LIBRARY_PATH=/opt/assay/driver"));
    }
}
