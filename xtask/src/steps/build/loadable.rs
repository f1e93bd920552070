//! Whether a GPU can load what was built, checked before anything is started on it: the driver would refuse only at
//! load time, or would compile again.

use super::Built;
use super::compile::FLAVORS;
use anyhow::{Result, ensure};
use host::failure::fail;
use pure::identity::sass;
use schema::{Digest, ExitCode};
use std::collections::BTreeSet;
use words::nvcc::cuda_of;

/// Refuses a build unless it holds cubins of both flavors for exactly this architecture, whose bytes are for it, made
/// by a compiler that the driver is not too old for. `driver_cuda` is the newest CUDA that the driver runs, if known.
///
/// # Errors
/// Exit 12, naming the file and both architectures, or 11, naming both versions.
pub fn check_loadable(built: &Built, arch: &str, driver_cuda: Option<u32>) -> Result<()> {
    let refuse = |what: String| fail(ExitCode::Build, what, format!("cargo xtask build --arch {arch}"));
    for flavor in FLAVORS {
        if !built.record.cubins.iter().any(|cubin| cubin.arch == arch && cubin.flavor == flavor) {
            let archs: BTreeSet<&str> = built.record.cubins.iter().map(|cubin| cubin.arch.as_str()).collect();
            let archs: Vec<&str> = archs.into_iter().collect();
            return Err(refuse(format!(
                "the GPU runs {arch}, and this build holds {flavor} cubins for {}",
                archs.join(", ")
            )));
        }
    }
    for cubin in built.record.cubins.iter().filter(|cubin| cubin.arch == arch) {
        let checked = fs_err::read(built.dir.join(&cubin.path)).map_err(Into::into).and_then(|bytes| {
            ensure!(Digest::of(&bytes) == cubin.sha256, "it is not the file that was built");
            sass::kernels(&bytes, arch)
        });
        checked.map_err(|error| refuse(format!("the GPU cannot load {}: {error:#}", cubin.path)))?;
    }
    // Cubins load on drivers of their own major version and later ones (CUDA Compatibility, "Minor Version Compatibility").
    let newer = cuda_of(&built.record.nvcc).zip(driver_cuda).filter(|(made, driver)| made / 1000 > driver / 1000);
    newer.map_or(Ok(()), |(_, driver)| {
        let driver = format!("{}.{}", driver / 1000, driver % 1000 / 10);
        let message = format!("the cubins are of {:?}, and the driver runs CUDA up to {driver}", built.record.nvcc);
        Err(fail(ExitCode::Environment, message, "install a newer driver, or build with an older toolkit"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::{code_of, remedy_of};
    use schema::FORMAT;
    use schema::build::{BuildRecord, Cubin};

    macro_rules! captured {
        ($name:literal) => {
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/nvcc/captured-13.0.88-", $name)).as_slice()
        };
    }

    /// A build for `arch` with these bytes in the place of its cubins.
    fn built(dir: &std::path::Path, arch: &str, bytes: &[u8]) -> Built {
        let cubin = |flavor: &str| {
            let path = format!("cubins/{arch}/{flavor}/toy/one.cubin");
            host::files::write_whole(&dir.join(&path), bytes).unwrap();
            let (file, arch, flavor) = ("toy/one".to_owned(), arch.to_owned(), flavor.to_owned());
            Cubin { file, arch, flavor, path, sha256: Digest::of(bytes), foreign_paths: 0 }
        };
        let record = BuildRecord {
            format: FORMAT,
            nvcc: "Cuda compilation tools, release 13.0, V13.0.88".into(),
            toolkit: "wheels".into(),
            toolkit_lock: Digest::of("lock"),
            cubins: FLAVORS.map(cubin).to_vec(),
            kernels: Vec::new(),
            harness: Digest::of("harness"),
            flags: Vec::new(),
            host_compiler: None,
            advisories: Vec::new(),
        };
        Built { dir: dir.to_owned(), record, key: Digest::of("key"), cached: false }
    }

    #[test]
    fn only_cubins_of_the_very_architecture_are_loaded() {
        let dir = tempfile::tempdir().unwrap();
        check_loadable(&built(dir.path(), "sm_90", captured!("toy-sm_90.elf")), "sm_90", Some(13_000)).unwrap();
        let text = |arch: &str, bytes: &[u8], device: &str| {
            let error = check_loadable(&built(dir.path(), arch, bytes), device, None).unwrap_err();
            assert_eq!(code_of(&error), ExitCode::Build);
            assert_eq!(remedy_of(&error), Some(format!("cargo xtask build --arch {device}").as_str()));
            error.to_string()
        };
        for (arch, bytes, said) in [
            ("sm_80", captured!("toy-sm_80.elf"), "the GPU runs sm_90, and this build holds measure cubins for sm_80"),
            ("sm_90a", captured!("toy-sm_90a.elf"), "holds measure cubins for sm_90a"),
            ("sm_90", captured!("toy-sm_80.elf"), "one.cubin: cubin is for sm_80, not for sm_90"),
            ("sm_90", captured!("toy-sm_90a.elf"), "one.cubin: cubin is for sm_90a, not for sm_90"),
            ("sm_90", captured!("tiny-sm_90.ptx.txt"), "one.cubin: not a cubin: PTX 9.0"),
            ("sm_90", &captured!("toy-sm_90.elf")[..9000], "one.cubin: bad section table"),
            ("sm_90", b"", "one.cubin: not a cubin: an empty file"),
        ] {
            let text = text(arch, bytes, "sm_90");
            assert!(text.contains(said), "{text:?} does not say {said:?}");
        }
        let swapped = built(dir.path(), "sm_90", captured!("toy-sm_90.elf"));
        fs_err::write(dir.path().join(&swapped.record.cubins[1].path), captured!("tiny-sm_90.elf")).unwrap();
        assert!(
            check_loadable(&swapped, "sm_90", None).unwrap_err().to_string().contains("not the file that was built")
        );
    }

    #[test]
    fn a_driver_older_than_the_compiler_is_refused_with_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let built = built(dir.path(), "sm_90", captured!("toy-sm_90.elf"));
        for (driver, fine) in [(13_000, true), (13_020, true), (14_000, true), (12_090, false), (11_080, false)] {
            let found = check_loadable(&built, "sm_90", Some(driver));
            assert_eq!(found.is_ok(), fine, "{driver}");
            if let Err(error) = found {
                assert_eq!(code_of(&error), ExitCode::Environment);
                assert!(
                    error.to_string().contains("release 13.0") && error.to_string().contains("CUDA up to 1"),
                    "{error}"
                );
            }
        }
    }
}
