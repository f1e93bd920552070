//! The bytes: every file that the manifest names is there, as it was, and nothing else is; manifest, verdict and sums bind
//! each other.

use super::Report;
use crate::pure::json::to_bytes;
use crate::pure::sample;
use crate::pure::sums;
use crate::world::files;
use crate::world::layout::{
    Layout, MANIFEST, PROVENANCE, SIGNATURE, SUMS, SUMS_DETACHED, UNSEALED, VERDICT, is_detached,
};
use anyhow::Result;
use schema::manifest::{Manifest, PREDICATE_TYPE, STATEMENT_TYPE};
use schema::verdict::Verdict;
use schema::{Digest, FORMAT};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Manifest and verdict of a run whose bytes were looked at.
pub(super) struct SealedBytes {
    pub(super) manifest_digest: Digest,
    pub(super) notebook_head: Digest,
    pub(super) verdict: Verdict,
    pub(super) verdict_bytes: Vec<u8>,
}

/// Checks every byte of a run; absent when there is no manifest or verdict to go by.
pub(super) fn check(layout: &Layout, report: &mut Report) -> Result<Option<SealedBytes>> {
    let Some((manifest, manifest_bytes)) = canonical::<Manifest>(layout, MANIFEST, report) else { return Ok(None) };
    check_manifest(layout, &manifest, report);
    if manifest.predicate.format > FORMAT {
        return Ok(None);
    }
    let found = check_subjects(layout, &manifest, report)?;
    let manifest_digest = Digest::of(&manifest_bytes);
    let verdict = canonical::<Verdict>(layout, VERDICT, report);
    if let Some((verdict, _)) = &verdict
        && verdict.manifest != manifest_digest
    {
        report.problem(layout.shown(VERDICT), "unbound", "it judges another manifest");
    }
    check_sums(layout, &manifest, &found, report);
    let notebook_head = manifest.predicate.notebook_head;
    Ok(verdict.map(|(verdict, verdict_bytes)| SealedBytes { manifest_digest, notebook_head, verdict, verdict_bytes }))
}

/// A JSON file of ours, which has exactly one way to be written.
fn canonical<T: DeserializeOwned + Serialize>(
    layout: &Layout,
    name: &str,
    report: &mut Report,
) -> Option<(T, Vec<u8>)> {
    let path = layout.path(name);
    let shown = layout.shown(name);
    if !files::exists(&path) {
        report.problem(shown, "missing", "without it nothing says what this run is");
        return None;
    }
    let parsed = files::read_plain(&path).and_then(|bytes| Ok((serde_json::from_slice::<T>(&bytes)?, bytes)));
    match parsed {
        Err(error) => {
            let detail = newer_format(&path).unwrap_or_else(|| format!("{error:#}"));
            report.problem(shown, "malformed", detail);
            None
        }
        Ok((value, bytes)) => {
            if to_bytes(&value).ok().as_ref() != Some(&bytes) {
                report.problem(shown, "changed", "not the bytes that Assay writes for this content");
            }
            Some((value, bytes))
        }
    }
}

/// What to say of a file whose format is newer than ours, which need not parse as ours.
fn newer_format(path: &Path) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(&files::read_plain(path).ok()?).ok()?;
    let format = value.pointer("/predicate/format").or_else(|| value.get("format"))?.as_u64()?;
    let newer = format > u64::from(FORMAT);
    newer.then(|| format!("format {format} is newer than this Assay reads ({FORMAT}); use a newer one"))
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
    let newer = format!("format {} is newer than this Assay reads ({FORMAT}); use a newer one", predicate.format);
    wrong(predicate.format <= FORMAT, "malformed", newer);
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
    let detached: Vec<&str> = predicate.detached.iter().map(|file| file.name.as_str()).collect();
    let expected: Vec<&str> = names.iter().copied().filter(|name| is_detached(name)).collect();
    wrong(detached == expected, "malformed", "its list of detached files is not that of its subjects".to_owned());
}

/// Hashes every subject; gives the files that lie where the run's lie, for the sums.
fn check_subjects(layout: &Layout, manifest: &Manifest, report: &mut Report) -> Result<BTreeMap<String, u64>> {
    let (found, odd) = layout.listing()?;
    for odd in odd {
        report.problem(layout.shown(&odd.name), odd.kind, odd.detail);
    }
    let (mut missing, mut at_hand) = (Vec::new(), Vec::new());
    for subject in manifest.subject.iter().filter(|subject| files::check_name(&subject.name).is_ok()) {
        let detached = is_detached(&subject.name) && matches!(layout, Layout::Published { .. });
        let path = if detached { layout.detached_path(&subject.name) } else { layout.path(&subject.name) };
        match (files::exists(&path), detached) {
            (true, _) => at_hand.push((subject, path, detached)),
            (false, true) => report.detached_absent += 1,
            (false, false) => missing.push(subject),
        }
    }
    let paths: Vec<PathBuf> = at_hand.iter().map(|(_, path, _)| path.clone()).collect();
    for ((subject, _, detached), digest) in at_hand.iter().zip(files::digest_all(&paths)) {
        let shown = if *detached {
            format!("results/raw/{}/{}", layout.run(), subject.name)
        } else {
            layout.shown(&subject.name)
        };
        match digest {
            Err(error) => report.problem(shown, "changed", format!("{error:#}")),
            Ok((digest, bytes)) => {
                report.checked_files += 1;
                report.checked_bytes += bytes;
                report.detached_checked += u64::from(*detached);
                if digest != subject.digest.sha256 {
                    report.problem(
                        shown,
                        "changed",
                        format!("has digest {digest}, was sealed as {}", subject.digest.sha256),
                    );
                }
            }
        }
    }
    report_missing_and_extra(layout, manifest, &missing, &found, report);
    Ok(found)
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
    let extra: Vec<(&String, Option<Digest>)> = found
        .keys()
        .filter(|name| !known(name))
        .map(|name| (name, files::digest_plain(&layout.path(name)).ok().map(|(digest, _)| digest)))
        .collect();
    for subject in missing {
        let twin = extra.iter().find(|(_, digest)| *digest == Some(subject.digest.sha256));
        match twin {
            Some((name, _)) => report.problem(
                layout.shown(&subject.name),
                "renamed",
                format!("its bytes lie at {}", layout.shown(name)),
            ),
            None => report.problem(layout.shown(&subject.name), "missing", "the manifest names it"),
        }
    }
    for (name, _) in extra {
        report.problem(layout.shown(name), "extra", "the manifest does not name it");
    }
}

/// Regenerates both sums and compares bytes; each line that differs names its file.
fn check_sums(layout: &Layout, manifest: &Manifest, found: &BTreeMap<String, u64>, report: &mut Report) {
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
    for name in [MANIFEST, SIGNATURE, VERDICT, PROVENANCE].into_iter().chain(beside) {
        if let Ok((digest, bytes)) = files::digest_plain(&layout.path(name)) {
            committed.insert(shown(name), digest);
            report.checked_files += 1;
            report.checked_bytes += bytes;
        }
    }
    for (name, sums) in [(SUMS, committed), (SUMS_DETACHED, detached)] {
        compare_sums(layout, name, &sums::to_text(&sums), report);
    }
}

fn compare_sums(layout: &Layout, name: &str, expected: &str, report: &mut Report) {
    let path = layout.path(name);
    if !files::exists(&path) {
        return report.problem(layout.shown(name), "missing", "the sums of this run");
    }
    let stored = match files::read_plain(&path) {
        Ok(stored) => stored,
        Err(error) => return report.problem(layout.shown(name), "malformed", format!("{error:#}")),
    };
    report.checked_files += 1;
    report.checked_bytes += stored.len() as u64;
    if stored == expected.as_bytes() {
        return;
    }
    for file in sums::differing(&String::from_utf8_lossy(&stored), expected) {
        report.problem(file, "sums", format!("{} says otherwise", layout.shown(name)));
    }
    report.problem(layout.shown(name), "sums", "not the sums of the files that are there");
}
