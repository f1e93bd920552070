//! Finds the folder of Nsight Compute on this machine. Whether it works is tried later, in the runtime in which
//! programs run.

use std::path::{Path, PathBuf};

/// Folders that hold one folder per version, and what those are called.
const HOMES: [(&str, &str); 2] = [("/opt/nvidia/nsight-compute", ""), ("/usr/local/cuda", "nsight-compute-")];

/// The folder of the newest whole Nsight Compute: the program `ncu` and what it needs beside it. Absent when there is none.
#[must_use]
pub fn find() -> Option<PathBuf> {
    newest(&HOMES.map(|(home, prefix)| (PathBuf::from(home), prefix)))
}

fn newest(homes: &[(PathBuf, &str)]) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    for (home, prefix) in homes {
        // A home folder that is absent or unreadable is skipped.
        for entry in fs_err::read_dir(home).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(version) = name.strip_prefix(prefix).and_then(numbers) else { continue };
            // Containers mount the folder under its own name.
            if let Some(folder) = entry.path().canonicalize().ok().filter(|folder| is_whole(folder)) {
                found.push((version, folder));
            }
        }
    }
    found.into_iter().max().map(|(_, folder)| folder)
}

/// `2025.3.1` as numbers, so that 2025.10 is newer than 2025.3.
fn numbers(name: &str) -> Option<Vec<u64>> {
    name.split('.').map(|part| part.parse().ok()).collect()
}

/// Toolkits also carry a script of the same name that looks for the real one.
fn is_whole(folder: &Path) -> bool {
    folder.join("ncu").is_file() && folder.join("sections").is_dir() && folder.join("target").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_folder_is_found() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, parts: &[&str]| {
            let folder = root.path().join(name);
            parts.iter().for_each(|part| fs_err::create_dir_all(folder.join(part)).unwrap());
            fs_err::write(folder.join("ncu"), "").unwrap();
        };
        let homes =
            [(root.path().join("opt"), ""), (root.path().join("cuda"), "nsight-compute-"), ("/no/such".into(), "")];
        assert_eq!(newest(&homes), None);
        make("opt/2025.3.1", &["sections", "target"]);
        make("opt/2026.1.0", &["sections"]);
        make("opt/latest", &["sections", "target"]);
        make("cuda/bin", &["sections", "target"]);
        assert_eq!(newest(&homes).unwrap(), root.path().canonicalize().unwrap().join("opt/2025.3.1"));
        make("cuda/nsight-compute-2025.10.0", &["sections", "target"]);
        assert!(newest(&homes).unwrap().ends_with("cuda/nsight-compute-2025.10.0"));
    }
}
