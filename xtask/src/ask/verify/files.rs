//! Checks the bytes of a run: every file that the manifest names is there and unchanged, no other file is there, and
//! manifest, verdict and sums refer to each other.

use super::{Report, UNREADABLE};
use crate::runs::layout::{
    Layout, MANIFEST, PROVENANCE, SIGNATURE, SUMS, SUMS_DETACHED, UNSEALED, VERDICT, is_detached,
};
use crate::runs::past;
use anyhow::Result;
use host::failure::{of_the_machine, remedy_of};
use host::files;
use pure::numbers::sample;
use pure::records::json::to_bytes;
use pure::records::sums;
use schema::manifest::{Manifest, PREDICATE_TYPE, STATEMENT_TYPE};
use schema::verdict::Verdict;
use schema::{Digest, FORMAT, check_format_of_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use words::altered::explain;
use words::names::collisions;

/// Manifest and verdict of a run whose bytes were looked at.
pub(super) struct SealedBytes {
    pub(super) manifest: Manifest,
    pub(super) manifest_digest: Digest,
    pub(super) verdict: Verdict,
    pub(super) verdict_bytes: Vec<u8>,
}

/// Checks every byte of a run; absent when there is no manifest or verdict to go by.
pub(super) fn check(layout: &Layout, report: &mut Report) -> Result<Option<SealedBytes>> {
    if let Err(error) = layout.folder() {
        report.fault(layout.shown("."), "symlink", &error);
        return Ok(None);
    }
    if let Err(error) = layout.past() {
        let remedy = remedy_of(&error).map_or_else(String::new, |remedy| format!(": {remedy}"));
        report.problem(past::record_name(&layout.run()), "history", format!("{error:#}{remedy}"));
        return Ok(None);
    }
    let Some((manifest, manifest_bytes)) = canonical::<Manifest>(layout, MANIFEST, report) else { return Ok(None) };
    check_manifest(layout, &manifest, report);
    if manifest.predicate.format > FORMAT {
        return Ok(None);
    }
    let Some(found) = check_subjects(layout, &manifest, report)? else { return Ok(None) };
    let manifest_digest = Digest::of(&manifest_bytes);
    let verdict = canonical::<Verdict>(layout, VERDICT, report);
    if let Some((verdict, _)) = &verdict
        && verdict.manifest != manifest_digest
    {
        report.problem(layout.shown(VERDICT), "unbound", "it judges another manifest");
    }
    check_sums(layout, &manifest, &found, report)?;
    Ok(verdict.map(|(verdict, verdict_bytes)| SealedBytes { manifest, manifest_digest, verdict, verdict_bytes }))
}

/// A JSON file of ours, which has exactly one way to be written.
fn canonical<T: DeserializeOwned + Serialize>(
    layout: &Layout,
    name: &str,
    report: &mut Report,
) -> Option<(T, Vec<u8>)> {
    let shown = layout.shown(name);
    let bytes = match layout.read(name) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            report.problem(shown, "missing", "without it, nothing says what this run is");
            return None;
        }
        Err(error) => {
            report.fault(shown, "malformed", &error);
            return None;
        }
    };
    // A file whose format is newer than ours need not parse as ours.
    let parsed = check_format_of_json(name, &bytes).and_then(|()| Ok(serde_json::from_slice::<T>(&bytes)?));
    match parsed {
        Err(error) => {
            report.fault(shown, "malformed", &error);
            None
        }
        Ok(value) => {
            if to_bytes(&value).ok().as_ref() != Some(&bytes) {
                report.problem(shown, "changed", "not the bytes that Assay writes for this content");
            }
            Some((value, bytes))
        }
    }
}

fn check_manifest(layout: &Layout, manifest: &Manifest, report: &mut Report) {
    let shown = layout.shown(MANIFEST);
    let predicate = &manifest.predicate;
    let mut wrong = |holds: bool, kind: &str, detail: String| {
        if !holds {
            report.problem(shown.clone(), kind, detail);
        }
    };
    let typed = manifest.statement_type == STATEMENT_TYPE && manifest.predicate_type == PREDICATE_TYPE;
    wrong(typed, "malformed", "not a Statement of a run".to_owned());
    wrong(predicate.run == layout.run(), "renamed", format!("it is the manifest of run {}", predicate.run));
    let names: Vec<&str> = manifest.subject.iter().map(|subject| subject.name.as_str()).collect();
    wrong(
        names.is_sorted_by(|a, b| a < b),
        "malformed",
        "its subjects are not sorted, or one is named twice".to_owned(),
    );
    for name in &names {
        let plain = files::check_name(name).is_ok() && !UNSEALED.contains(name);
        wrong(plain, "malformed", format!("{name:?} is no file of a run"));
    }
    for (name, other) in collisions(names.iter().copied()).into_iter().filter(|(name, other)| name != other) {
        wrong(
            false,
            "case-collision",
            format!("its subjects {name:?} and {other:?} cannot both exist on every file system"),
        );
    }
    let detached: Vec<&str> = predicate.detached.iter().map(|file| file.name.as_str()).collect();
    let expected: Vec<&str> = names.iter().copied().filter(|name| is_detached(name)).collect();
    wrong(detached == expected, "malformed", "its list of detached files does not match its subjects".to_owned());
}

/// Hashes every subject; gives the files that lie where the run's lie, for the sums. Absent when they cannot all be listed.
fn check_subjects(layout: &Layout, manifest: &Manifest, report: &mut Report) -> Result<Option<BTreeMap<String, u64>>> {
    let listing = match layout.listing() {
        Ok(listing) => listing,
        Err(error) => {
            report.fault(layout.shown("."), "malformed", &error);
            return Ok(None);
        }
    };
    let whole = !listing.odd.iter().any(|odd| odd.kind == UNREADABLE);
    for odd in listing.odd {
        report.problem(layout.shown(&odd.name), odd.kind, odd.detail);
    }
    if let Some(first) = listing.linked.first() {
        let n = listing.linked.len();
        let note = format!(
            "{n} of its files have a second name on this disk (the first is {first}), through which they can be changed"
        );
        report.notes.push(format!("{}: {note}", layout.run()));
    }
    let (mut missing, mut at_hand) = (Vec::new(), Vec::new());
    let sizes: BTreeMap<&str, u64> = manifest.predicate.detached.iter().map(|d| (d.name.as_str(), d.bytes)).collect();
    for subject in manifest.subject.iter().filter(|subject| files::check_name(&subject.name).is_ok()) {
        let detached = is_detached(&subject.name) && matches!(layout, Layout::Published { .. });
        let there = if detached {
            files::exists(&layout.detached_path(&subject.name))
        } else {
            listing.files.contains_key(&subject.name) || files::exists(&layout.path(&subject.name))
        };
        match (there, detached) {
            (true, _) => at_hand.push((subject, detached)),
            (false, true) => report.detached_absent += 1,
            (false, false) => missing.push(subject),
        }
    }
    let names: Vec<&str> = at_hand.iter().map(|(subject, _)| subject.name.as_str()).collect();
    for ((subject, detached), digest) in at_hand.iter().zip(layout.digests(&names)?) {
        let shown = if *detached {
            format!("results/raw/{}/{}", layout.run(), subject.name)
        } else {
            layout.shown(&subject.name)
        };
        match digest {
            Err(error) => report.fault(shown, "changed", &error),
            Ok((digest, bytes)) => {
                report.checked_files += 1;
                report.checked_bytes += bytes;
                report.detached_checked += u64::from(*detached);
                if sizes.get(subject.name.as_str()).is_some_and(|sealed| *sealed != bytes) {
                    let sealed = sizes[subject.name.as_str()];
                    report.problem(shown.clone(), "changed", format!("has {bytes} bytes, was sealed with {sealed}"));
                }
                if digest != subject.digest.sha256 {
                    let sealed = subject.digest.sha256;
                    let why =
                        explanation(layout, &subject.name, sealed).map_or_else(String::new, |why| format!(": {why}"));
                    report.problem(shown, "changed", format!("has digest {digest}, was sealed as {sealed}{why}"));
                }
            }
        }
    }
    report_missing_and_extra(layout, manifest, &missing, &listing.files, report);
    Ok(whole.then_some(listing.files))
}

/// The most bytes of a changed file that is read to see why: what git rewrites is text, and ours is small.
const MOST_EXPLAINED_BYTES: u64 = 16 << 20;

fn explanation(layout: &Layout, name: &str, sealed: Digest) -> Option<String> {
    explain(&layout.open(name).ok()??.read(MOST_EXPLAINED_BYTES).ok()?, sealed)
}

fn report_missing_and_extra(
    layout: &Layout,
    manifest: &Manifest,
    missing: &[&schema::manifest::Subject],
    found: &BTreeMap<String, u64>,
    report: &mut Report,
) {
    let sealed: BTreeSet<&str> = manifest.subject.iter().map(|subject| subject.name.as_str()).collect();
    let published = matches!(layout, Layout::Published { .. });
    let known = |name: &str| sealed.contains(name) || UNSEALED.contains(&name) || published && sample::is_sample(name);
    let extra: Vec<&String> = found.keys().filter(|name| !known(name)).collect();
    // Extra files are hashed only if a file is missing, since one may be the other under a new name.
    let hashed: &[&String] = if missing.is_empty() { &[] } else { &extra };
    let digests = layout.digests(&hashed.iter().map(|name| name.as_str()).collect::<Vec<_>>()).unwrap_or_default();
    let digests = digests.into_iter().map(|digest| digest.ok().map(|(digest, _)| digest));
    let twins: BTreeMap<Option<Digest>, &String> = digests.zip(hashed.iter().copied()).collect();
    for subject in missing {
        match twins.get(&Some(subject.digest.sha256)) {
            Some(name) => report.problem(
                layout.shown(&subject.name),
                "renamed",
                format!("its bytes lie at {}", layout.shown(name)),
            ),
            None => report.problem(layout.shown(&subject.name), "missing", "the manifest names it"),
        }
    }
    for name in extra {
        report.problem(layout.shown(name), "extra", "the manifest does not name it");
    }
}

/// Regenerates both sums and compares bytes; each line that differs names its file.
fn check_sums(layout: &Layout, manifest: &Manifest, found: &BTreeMap<String, u64>, report: &mut Report) -> Result<()> {
    let subjects = || manifest.subject.iter().map(|subject| (subject.name.as_str(), subject.digest.sha256));
    let shown = |name: &str| match layout {
        Layout::Published { run, .. } if is_detached(name) => format!("results/raw/{run}/{name}"),
        _ => layout.shown(name),
    };
    let detached: BTreeMap<String, Digest> =
        subjects().filter(|(name, _)| is_detached(name)).map(|(name, digest)| (shown(name), digest)).collect();
    let mut committed: BTreeMap<String, Digest> =
        subjects().filter(|(name, _)| !is_detached(name)).map(|(name, digest)| (shown(name), digest)).collect();
    let beside = found.keys().filter(|name| sample::is_sample(name)).map(String::as_str);
    let about: Vec<&str> = [MANIFEST, SIGNATURE, VERDICT, PROVENANCE].into_iter().chain(beside).collect();
    for (name, digest) in about.iter().zip(layout.digests(&about)?) {
        match digest {
            Ok((digest, bytes)) => {
                committed.insert(shown(name), digest);
                report.checked_files += 1;
                report.checked_bytes += bytes;
            }
            // Some of these need not be there.
            Err(error) if !of_the_machine(&error) => {}
            Err(error) => {
                report.fault(shown(name), UNREADABLE, &error);
                return Ok(());
            }
        }
    }
    for (name, sums) in [(SUMS, committed), (SUMS_DETACHED, detached)] {
        compare_sums(layout, name, &sums, report);
    }
    Ok(())
}

fn compare_sums(layout: &Layout, name: &str, expected: &BTreeMap<String, Digest>, report: &mut Report) {
    let stored = match layout.read(name) {
        Ok(Some(stored)) => stored,
        Ok(None) => return report.problem(layout.shown(name), "missing", "the sums of this run"),
        Err(error) => return report.fault(layout.shown(name), "malformed", &error),
    };
    report.checked_files += 1;
    report.checked_bytes += stored.len() as u64;
    if stored == sums::to_text(expected).as_bytes() {
        return;
    }
    let parsed = String::from_utf8(stored).map_err(anyhow::Error::from).and_then(|text| sums::parse(&text));
    match parsed {
        Ok(stored) => {
            for file in sums::differing(&stored, expected) {
                report.problem(file, "sums", format!("{} says otherwise", layout.shown(name)));
            }
            report.problem(layout.shown(name), "sums", "not the sums of the files that are there");
        }
        Err(error) => report.fault(layout.shown(name), "sums", &error),
    }
}
