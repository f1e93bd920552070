//! Names of files below a run directory: which are allowed at all, and which cannot both exist on every file system.
//!
//! A run travels between machines, so a name must mean one file on every file system: those that ignore case, those that
//! store accents in another Unicode form (NFC, NFD), those that drop trailing dots and blanks, and those that reserve names
//! for devices. Plain ASCII without such cases does; Assay writes nothing else.

use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The most bytes of a whole name.
const MOST_BYTES: usize = 1024;
/// The most bytes of one part of a name: what common file systems store.
const MOST_PART_BYTES: usize = 255;

/// Refuses a name that could lead out of its directory, or that is not one and the same file everywhere.
///
/// # Errors
/// When it is absolute; has an empty, `.` or `..` part, or one that ends with a dot or blank or is a device on some
/// system; holds anything but printable ASCII, or one of `\ : * ? " < > |`; or is too long.
pub fn check_name(name: &str) -> Result<()> {
    ensure!(name.len() <= MOST_BYTES, "a name of {} bytes is longer than any a run uses", name.len());
    let plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    ensure!(name.chars().all(plain), "{name:?} holds a character no run uses");
    for part in name.split('/') {
        ensure!(!part.is_empty() && part != "." && part != "..", "{name:?} is not a path below a run directory");
        ensure!(part.len() <= MOST_PART_BYTES, "{name:?} has a part longer than any a run uses");
        ensure!(
            !part.ends_with(['.', ' ']) && !part.starts_with(' '),
            "{name:?} has a part that not every system keeps"
        );
        ensure!(!is_device(part), "{name:?} has a part that is a device on some systems");
    }
    Ok(())
}

/// Whether a word can be a run's id, and therefore name a folder.
#[must_use]
pub fn is_id(word: &str) -> bool {
    !word.contains('/') && check_name(word).is_ok()
}

/// Names that Windows keeps for devices, whatever their ending.
fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered =
        |word: &str| stem.strip_prefix(word).is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit());
    ["con", "prn", "aux", "nul"].contains(&stem.as_str()) || numbered("com") || numbered("lpt")
}

/// Names that cannot lie beside an earlier one everywhere, each with that other name: equal, equal but for case (in any
/// folder of the path), or below a file.
#[must_use]
pub fn collisions<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    // Every file and folder by its folded name: its spelling, the name that brought it, and whether it is a file.
    let mut seen: BTreeMap<String, (&str, &str, bool)> = BTreeMap::new();
    let mut found = Vec::new();
    for name in names {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for end in ends {
            let (path, is_file) = (&name[..end], end == name.len());
            match seen.entry(path.to_lowercase()) {
                Entry::Vacant(free) => {
                    free.insert((path, name, is_file));
                }
                Entry::Occupied(known) => {
                    let (known_path, known_name, known_file) = *known.get();
                    if is_file || known_file || known_path != path {
                        found.push((name, known_name));
                        break;
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for bad in
            ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\nb", "a\\b", "out\\..\\x", "a/", "a\0b", "C:/x"]
        {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in
            ["cells/yield/k=64,blocks=528.parquet", "build/bin/libstdc++.so.6", "a b", ".gitkeep", "console.log"]
        {
            check_name(good).unwrap();
        }
    }

    #[test]
    fn names_that_are_not_one_file_everywhere_are_refused() {
        let long = "a/".repeat(600) + "b";
        let (nfc, nfd) = ("r\u{e9}sum\u{e9}.csv", "re\u{301}sume\u{301}.csv");
        for bad in [nfc, nfd, "a.", "a /b", " a", "aux", "cells/NUL.json", "com1.txt", "\u{202e}gpj.exe", &long] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name(&"a".repeat(256)).is_err());
    }

    #[test]
    fn names_that_differ_only_in_case_collide() {
        let check = |names: &[&str], expected: &[(&str, &str)]| assert_eq!(collisions(names.iter().copied()), expected);
        check(&["results/Kern.json", "results/kern.json"], &[("results/kern.json", "results/Kern.json")]);
        check(&["Cells/a", "cells/b"], &[("cells/b", "Cells/a")]);
        check(&["a", "a"], &[("a", "a")]);
        check(&["a", "a/b"], &[("a/b", "a")]);
        check(&["a/b", "A"], &[("A", "a/b")]);
        check(&["a/b", "a/c", "a.b", "ab", "b/a/c"], &[]);
    }

    proptest! {
        // A name that passes stays below the folder when it is joined to it.
        #[test]
        fn a_name_that_passes_never_leads_out(name in "[a-c./\\\\ A\u{e9}\u{0}:]{0,12}") {
            if check_name(&name).is_ok() {
                let path = std::path::Path::new(&name);
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(path.components().count(), name.split('/').count());
            }
        }

        #[test]
        fn names_without_collisions_are_as_many_once_folded(names in proptest::collection::vec("[abAB]{1,2}(/[abAB]{1,2}){0,2}", 0..6)) {
            if collisions(names.iter().map(String::as_str)).is_empty() {
                let folded: std::collections::BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
                prop_assert_eq!(folded.len(), names.len());
            }
        }
    }
}
