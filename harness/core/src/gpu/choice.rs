//! Pure choices: which GPU, which architecture's cubins, how large a grid may be, what to call things.

use schema::Digest;
use std::path::{Path, PathBuf};

/// The index of the GPU that `selector` names: `cuda:N`, `cuda:GPU-…` or a UUID alone.
///
/// # Errors
/// When none or more than one matches.
pub(super) fn select(selector: &str, uuids: &[String]) -> anyhow::Result<usize> {
    let have = || if uuids.is_empty() { "no GPU".to_owned() } else { format!("{} GPU(s)", uuids.len()) };
    let wanted = selector.strip_prefix("cuda:").unwrap_or(selector);
    if let Ok(ordinal) = wanted.parse::<usize>() {
        anyhow::ensure!(ordinal < uuids.len(), "no GPU {selector}: the driver reports {}, counted from 0", have());
        return Ok(ordinal);
    }
    let found = uuids.iter().position(|uuid| uuid.eq_ignore_ascii_case(wanted));
    found.ok_or_else(|| {
        anyhow::anyhow!("no GPU {selector:?}: the driver reports {}; expected cuda:N or cuda:GPU-<uuid>", have())
    })
}

/// A UUID as NVML writes it.
pub(super) fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// What a GPU is called in records: the first 16 hex digits of its UUID's SHA-256.
pub(super) fn hashed(uuid: &str) -> String {
    Digest::of(uuid).to_string()[..16].to_owned()
}

/// A product's name for run ids: `NVIDIA H200` is `h200`.
pub(super) fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let plain = |word: &&str| !matches!(*word, "" | "nvidia" | "geforce" | "tesla" | "quadro" | "graphics" | "gpu");
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(plain).take(4);
    let slug = words.collect::<Vec<_>>().join("-");
    if slug.is_empty() { "gpu".to_owned() } else { slug }
}

/// The folder of the cubins for a compute capability.
///
/// # Errors
/// When there is none; says which there are.
pub(super) fn arch_folder(
    cubin_dir: &Path,
    flavor: &str,
    (major, minor): (u32, u32),
) -> anyhow::Result<(String, PathBuf)> {
    let plain = format!("sm_{major}{minor}");
    for arch in [plain.clone(), format!("{plain}a")] {
        let folder = cubin_dir.join(&arch).join(flavor);
        if folder.is_dir() {
            return Ok((arch, folder));
        }
    }
    let mut there: Vec<String> = std::fs::read_dir(cubin_dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("sm_"))
        .collect();
    there.sort();
    let there = if there.is_empty() { "none at all".to_owned() } else { there.join(", ") };
    let message = format!(
        "no {flavor} cubins for this GPU's architecture {plain} in {} (there: {there}); \
         build them with cargo xtask build, or use a GPU of an architecture that is there",
        cubin_dir.display()
    );
    Err(crate::failure::fail(schema::ExitCode::Build, message))
}

/// fp32 lanes of an SM, or 0 where unknown (CUDA C++ Programming Guide, arithmetic instruction throughput).
pub(super) fn fp32_lanes(major: u32, minor: u32) -> u32 {
    match (major, minor) {
        (8, 0) => 64,
        (8, _) | (9, 0) | (10, _) | (12, _) => 128,
        _ => 0,
    }
}

/// Refuses a grid that is empty or that the GPU cannot hold at once.
///
/// # Errors
/// When `blocks` is 0 or more than `per_sm * sms`; says how many fit.
pub(super) fn check_residency(symbol: &str, blocks: u32, per_sm: u32, sms: u32) -> anyhow::Result<()> {
    let slots = per_sm * sms;
    anyhow::ensure!(blocks > 0, "{symbol} needs at least one block; up to {slots} fit");
    anyhow::ensure!(
        blocks <= slots,
        "blocks={blocks} exceed the {slots} slots of {symbol} on this GPU ({per_sm} per SM x {sms})"
    );
    Ok(())
}

/// The path of the `libcuda` among a process's mappings (the text of `/proc/self/maps`).
pub(super) fn libcuda_path(maps: &str) -> Option<&Path> {
    maps.lines()
        .filter_map(|line| line.find('/').map(|start| Path::new(line[start..].trim_end_matches(" (deleted)"))))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcuda.so")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuids() -> Vec<String> {
        vec![uuid_text(&[0xAB; 16]), uuid_text(&[0x01; 16])]
    }

    #[test]
    fn a_gpu_is_chosen_by_number_or_uuid() {
        assert_eq!(uuids()[0], "GPU-abababab-abab-abab-abab-abababababab");
        assert_eq!(select("cuda:1", &uuids()).unwrap(), 1);
        assert_eq!(select("cuda:GPU-ABABABAB-abab-abab-abab-abababababab", &uuids()).unwrap(), 0);
        assert_eq!(select("GPU-01010101-0101-0101-0101-010101010101", &uuids()).unwrap(), 1);
    }

    #[test]
    fn an_unknown_gpu_is_refused_with_what_there_is() {
        assert!(select("cuda:2", &uuids()).unwrap_err().to_string().contains("2 GPU(s)"));
        assert!(select("cuda:0", &[]).unwrap_err().to_string().contains("no GPU"));
        assert!(select("cuda:GPU-x", &uuids()).unwrap_err().to_string().contains("cuda:GPU-<uuid>"));
    }

    #[test]
    fn slugs_are_short_and_lower_case() {
        for (name, expected) in [
            ("NVIDIA H200", "h200"),
            ("NVIDIA GeForce RTX 4090", "rtx-4090"),
            ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
            ("", "gpu"),
        ] {
            assert_eq!(slug(name), expected);
        }
    }

    #[test]
    fn the_exact_architecture_is_taken_before_its_a_variant() {
        let dir = tempfile::tempdir().unwrap();
        for arch in ["sm_90", "sm_90a", "sm_121a"] {
            fs_err::create_dir_all(dir.path().join(arch).join("measure")).unwrap();
        }
        assert_eq!(arch_folder(dir.path(), "measure", (9, 0)).unwrap().0, "sm_90");
        assert_eq!(arch_folder(dir.path(), "measure", (12, 1)).unwrap().0, "sm_121a");
        let refusal = arch_folder(dir.path(), "measure", (7, 5)).unwrap_err().to_string();
        assert!(refusal.contains("sm_75") && refusal.contains("there: sm_121a, sm_90, sm_90a"), "{refusal}");
        assert!(arch_folder(dir.path(), "lineinfo", (9, 0)).is_err());
    }

    #[test]
    fn a_grid_above_residency_is_refused_with_the_number_that_fits() {
        assert!(check_residency("made_up", 660, 5, 132).is_ok());
        let refusal = check_residency("made_up", 700, 5, 132).unwrap_err().to_string();
        assert_eq!(refusal, "blocks=700 exceed the 660 slots of made_up on this GPU (5 per SM x 132)");
        assert!(check_residency("made_up", 0, 5, 132).is_err());
    }

    #[test]
    fn libcuda_is_found_among_the_mappings() {
        let maps = "7f00-7f01 r-xp 00000000 00:00 0 \n\
                    7f10-7f11 r--p 00000000 08:01 42    /usr/lib/x86_64-linux-gnu/libcudart.so.13\n\
                    7f20-7f21 r-xp 00000000 08:01 43    /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05\n";
        assert_eq!(libcuda_path(maps), Some(Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05")));
        assert_eq!(libcuda_path(""), None);
    }
}
