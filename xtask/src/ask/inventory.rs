//! `verify --inventory`: artifacts that are kept elsewhere, hashed again and compared with the inventory that lists
//! them.
//!
//! The folder is not trusted: no symlink is followed, no name leads out of it, and whatever is not a plain file is
//! reported.

use anyhow::{Context, Result};
use host::failure::{does_not_hold, fail, of_the_machine};
use host::files::{self, Odd};
use pure::records::inventory::{Inventory, Listed, parse};
use schema::ExitCode;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use words::text::plain;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every listed artifact is there, as it is listed.
    pub ok: bool,
    /// Artifacts that are as they are listed.
    pub matched: Vec<String>,
    /// Artifacts that are there and differ, or are no plain files.
    pub differing: Vec<Differing>,
    /// Artifacts that are not there.
    pub missing: Vec<String>,
    /// What is there and not listed.
    pub unlisted: Vec<String>,
    /// Bytes that were hashed.
    pub checked_bytes: u64,
}

/// An artifact that is not as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// Its name.
    pub name: String,
    /// In which way.
    pub why: String,
}

impl Report {
    /// The exit code this report ends with. A file that is not listed is reported, and does not make the listed ones
    /// fail.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        if self.ok { ExitCode::Done } else { ExitCode::Integrity }
    }
}

/// For people: what does not match, one a line, then the counts.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Differing { name, why } in &self.differing {
            writeln!(f, "differing: {}: {}", plain(name), plain(why))?;
        }
        for (word, names) in [("missing", &self.missing), ("unlisted", &self.unlisted)] {
            for name in names {
                writeln!(f, "{word}: {}", plain(name))?;
            }
        }
        let Self { matched, differing, missing, unlisted, checked_bytes, .. } = self;
        let listed = matched.len() + differing.len() + missing.len();
        write!(
            f,
            "{listed} listed: {} matched, {} differing, {} missing; {} unlisted; {checked_bytes} bytes hashed",
            matched.len(),
            differing.len(),
            missing.len(),
            unlisted.len()
        )
    }
}

/// Compares what lies below `root`, or below the inventory's own folder, with the inventory.
///
/// # Errors
/// Exit 2 when there is no such inventory or folder, 16 when the inventory is malformed or lists a name that is no plain path, 11
/// when a file that is there cannot be read here.
pub fn verify(inventory: &Path, root: Option<&Path>) -> Result<Report> {
    let usage = |error: anyhow::Error| {
        fail(ExitCode::Usage, format!("{error:#}"), "cargo xtask verify --inventory FILE --root DIR")
    };
    let file = fs_err::canonicalize(inventory).context("no inventory is there").map_err(usage)?;
    let root = root.map_or_else(|| file.parent().unwrap_or(Path::new("/")).to_owned(), Path::to_owned);
    let root = fs_err::canonicalize(root).context("no folder of artifacts is there").map_err(usage)?;
    let listed = read(&file).map_err(|error| {
        let what = format!("inventory {} is malformed", file.display());
        does_not_hold(&what, &error, "sha256sum FILE... writes one")
    })?;
    let scan = files::scan(&root).map_err(usage)?;
    let own = file.strip_prefix(&root).ok().map(|name| name.to_string_lossy().into_owned());
    let odd: BTreeMap<String, Odd> = scan.odd.into_iter().map(|odd| (odd.name.clone(), odd)).collect();
    compare(&root, &listed, &scan.files, odd, own.as_deref())
}

fn read(file: &Path) -> Result<Inventory> {
    let listed = parse(&files::read_text(file)?)?;
    listed.keys().try_for_each(|name| files::check_name(name))?;
    Ok(listed)
}

fn compare(
    root: &Path,
    listed: &Inventory,
    found: &BTreeMap<String, u64>,
    odd: BTreeMap<String, Odd>,
    own: Option<&str>,
) -> Result<Report> {
    let mut report = Report::default();
    let mut at_hand: Vec<(&String, &Listed)> = Vec::new();
    for (name, artifact) in listed {
        let differing = |why: String| Differing { name: name.clone(), why };
        match (found.get(name), on_the_way(name, &odd)) {
            // A file whose name differs from another's only in case is a file all the same.
            (Some(there), _) => match artifact.bytes {
                Some(bytes) if bytes != *there => {
                    report.differing.push(differing(format!("it has {there} bytes, and {bytes} are listed")));
                }
                _ => at_hand.push((name, artifact)),
            },
            (None, Some(odd)) => report.differing.push(differing(odd.detail.clone())),
            (None, None) => report.missing.push(name.clone()),
        }
    }
    let paths: Vec<PathBuf> = at_hand.iter().map(|(name, _)| root.join(name)).collect();
    for ((name, artifact), digest) in at_hand.into_iter().zip(files::digest_all(&paths)) {
        let why = match digest {
            Ok((digest, bytes)) => {
                report.checked_bytes += bytes;
                (digest != artifact.digest)
                    .then(|| format!("it has digest {digest}, and {} is listed", artifact.digest))
            }
            // Nothing is known of a file that this machine cannot read.
            Err(error) if of_the_machine(&error) => return Err(error),
            Err(error) => Some(format!("{error:#}")),
        };
        match why {
            None => report.matched.push(name.clone()),
            Some(why) => report.differing.push(Differing { name: name.clone(), why }),
        }
    }
    let there = found.keys().chain(odd.keys()).filter(|name| !listed.contains_key(*name) && own != Some(name.as_str()));
    report.unlisted = there.cloned().collect();
    report.unlisted.sort_unstable();
    report.unlisted.dedup();
    report.differing.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    report.ok = report.differing.is_empty() && report.missing.is_empty();
    Ok(report)
}

/// What stands in the place of an artifact, or of a folder on the way to it.
fn on_the_way<'a>(name: &str, odd: &'a BTreeMap<String, Odd>) -> Option<&'a Odd> {
    let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
    ends.filter_map(|end| odd.get(&name[..end])).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;
    use schema::Digest;

    /// A folder with ten artifacts and their inventory.
    fn ten() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let mut text = "# ten retained artifacts\n".to_owned();
        for i in 0..10 {
            let (name, bytes) = (format!("timing/{i}.json"), format!("artifact {i}"));
            files::write_whole(&dir.path().join(&name), bytes.as_bytes()).unwrap();
            text += &format!("# bytes {} {name}\n{}  {name}\n", bytes.len(), Digest::of(&bytes));
        }
        let inventory = dir.path().join("reference.sha256");
        fs_err::write(&inventory, text).unwrap();
        (dir, inventory)
    }

    fn why(report: &Report, name: &str) -> String {
        let found = report.differing.iter().find(|differing| differing.name == name);
        found.unwrap_or_else(|| panic!("{name} is not named: {report}")).why.clone()
    }

    #[test]
    fn ten_artifacts_match_here_and_where_a_root_is_given() {
        let (dir, inventory) = ten();
        let report = verify(&inventory, None).unwrap();
        assert!(report.ok && report.exit_code() == ExitCode::Done);
        assert_eq!((report.matched.len(), report.unlisted.len(), report.checked_bytes), (10, 0, 100));
        assert_eq!(report.to_string(), "10 listed: 10 matched, 0 differing, 0 missing; 0 unlisted; 100 bytes hashed");
        let elsewhere = tempfile::tempdir().unwrap();
        let moved = elsewhere.path().join("inventory");
        fs_err::copy(&inventory, &moved).unwrap();
        assert_eq!(verify(&moved, None).unwrap().missing.len(), 10);
        let report = verify(&moved, Some(dir.path())).unwrap();
        assert!(report.ok && report.unlisted == ["reference.sha256"]);
    }

    #[test]
    fn differing_missing_and_unlisted_artifacts_are_named() {
        let (dir, inventory) = ten();
        let at = |name: &str| dir.path().join(name);
        fs_err::write(at("timing/1.json"), "artifact I").unwrap();
        fs_err::write(at("timing/2.json"), "longer than listed").unwrap();
        fs_err::remove_file(at("timing/3.json")).unwrap();
        fs_err::rename(at("timing/4.json"), at("timing/four.json")).unwrap();
        let report = verify(&inventory, None).unwrap();
        assert_eq!(report.exit_code(), ExitCode::Integrity);
        assert_eq!((report.matched.len(), report.differing.len()), (6, 2));
        assert!(why(&report, "timing/1.json").starts_with("it has digest "));
        assert_eq!(why(&report, "timing/2.json"), "it has 18 bytes, and 10 are listed");
        assert_eq!(report.missing, ["timing/3.json", "timing/4.json"]);
        assert_eq!(report.unlisted, ["timing/four.json"]);
    }

    #[test]
    fn one_flipped_bit_of_any_artifact_is_found() {
        let (dir, inventory) = ten();
        for i in 0..10 {
            let path = dir.path().join(format!("timing/{i}.json"));
            let mut bytes = fs_err::read(&path).unwrap();
            bytes[i] ^= 1;
            fs_err::write(&path, &bytes).unwrap();
            let report = verify(&inventory, None).unwrap();
            assert!(!report.ok && report.differing.len() == 1 && report.matched.len() == 9, "{report}");
            bytes[i] ^= 1;
            fs_err::write(&path, &bytes).unwrap();
        }
    }

    #[test]
    fn links_folders_and_devices_are_no_artifacts() {
        let (dir, inventory) = ten();
        let away = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs_err::rename(at("timing/0.json"), away.path().join("0.json")).unwrap();
        std::os::unix::fs::symlink(away.path().join("0.json"), at("timing/0.json")).unwrap();
        fs_err::remove_file(at("timing/1.json")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("timing/1.json")).unwrap());
        fs_err::remove_file(at("timing/2.json")).unwrap();
        fs_err::create_dir(at("timing/2.json")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("stray")).unwrap();
        let report = verify(&inventory, None).unwrap();
        assert!(why(&report, "timing/0.json").contains("symlink"));
        assert!(why(&report, "timing/1.json").contains("neither a file nor a folder"));
        assert_eq!((report.missing, report.unlisted), (vec!["timing/2.json".to_owned()], vec!["stray".to_owned()]));
        // A folder on the way is a link: nothing behind it is read.
        fs_err::rename(at("timing"), away.path().join("timing")).unwrap();
        std::os::unix::fs::symlink(away.path().join("timing"), at("timing")).unwrap();
        let report = verify(&inventory, None).unwrap();
        assert!(report.matched.is_empty() && report.differing.len() == 10, "{report}");
    }

    #[test]
    fn an_inventory_that_leads_elsewhere_or_is_none_is_refused() {
        let (dir, inventory) = ten();
        let digest = Digest::of("x");
        for name in ["/etc/passwd", "../x", "a/../b", "a//b", "a\\b", "a\u{1b}[2J", "a\r", "./a", "a/"] {
            fs_err::write(&inventory, format!("{digest}  {name}\n")).unwrap();
            let error = verify(&inventory, None).unwrap_err();
            assert_eq!(code_of(&error), ExitCode::Integrity, "{name:?}: {error:#}");
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
        fs_err::write(&inventory, "").unwrap();
        assert_eq!(code_of(&verify(&inventory, None).unwrap_err()), ExitCode::Integrity);
        fs_err::write(&inventory, [0xff, 0xfe]).unwrap();
        assert_eq!(code_of(&verify(&inventory, None).unwrap_err()), ExitCode::Integrity);
        assert_eq!(code_of(&verify(&dir.path().join("absent"), None).unwrap_err()), ExitCode::Usage);
        let nowhere = dir.path().join("nowhere");
        assert_eq!(code_of(&verify(&inventory, Some(&nowhere)).unwrap_err()), ExitCode::Usage);
    }

    #[test]
    fn coreutils_reads_the_same_inventory() {
        let (dir, inventory) = ten();
        let mut check = std::process::Command::new("sha256sum");
        check.args(["--check", "--quiet", "--strict"]).arg(inventory).current_dir(dir.path());
        assert!(check.status().unwrap().success());
    }
}
