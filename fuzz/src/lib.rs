//! What each fuzz target does with the bytes it is given: one function a parser of files that nobody vouches for.
//!
//! A target fails on a panic, on more memory or time than its limits, and where a property does not hold: what is read is
//! written as the same bytes.

use host::wheels::lock;
use pure::book::claims::check_claims;
use pure::book::notebook;
use pure::identity::{nvinfo, ptxas, sass};
use pure::records::attempts::Chain;
use pure::records::json::to_bytes;
use pure::records::sanitizer::log;
use pure::records::{counters, sums};
use schema::Digest;
use schema::build::BudgetFile;
use schema::claim::ClaimFile;
use schema::manifest::Manifest;
use schema::metrics::{from_csv, to_csv};
use schema::plan::{Plan, PlanFile, ProfileName};
use schema::sanitize::Tool;
use schema::verdict::Verdict;
use std::fs::File;
use std::io::Write;
use tables::{MAX_VALUES, Reader};
use words::{altered, names, progress, text};
use xtask::runs::signature::parse as parse_signature;
use xtask::transfer::pack::parse_index;

/// A target: its name, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("attempts", attempts),
    ("budget", budget),
    ("claims", claims),
    ("counters", counters),
    ("cubin", cubin),
    ("lock", lock),
    ("manifest", manifest),
    ("metrics", metrics),
    ("notebook", notebook),
    ("nvinfo", nvinfo),
    ("pack", pack),
    ("plan", plan),
    ("progress", progress),
    ("ptxas", ptxas),
    ("sanitizer", sanitizer),
    ("signature", signature),
    ("sums", sums),
    ("table", table),
    ("words", words),
];

/// The run whose pack index is read.
const RUN: &str = "20260101T000000Z-toy-0123abcd";

/// Manifest and verdict, as `verify` reads them.
pub fn manifest(data: &[u8]) {
    let _ = schema::check_format_of_json("manifest.json", data);
    if let Ok(manifest) = serde_json::from_slice::<Manifest>(data) {
        let bytes = to_bytes(&manifest).unwrap();
        assert_eq!(serde_json::from_slice::<Manifest>(&bytes).unwrap(), manifest);
        let _ = names::collisions(manifest.subject.iter().map(|subject| subject.name.as_str()));
    }
    if let Ok(verdict) = serde_json::from_slice::<Verdict>(data) {
        to_bytes(&verdict).unwrap();
    }
}

/// `metrics.csv`.
pub fn metrics(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(rows) = from_csv(text) {
            assert_eq!(to_csv(&rows), text);
        }
    });
}

/// `NOTEBOOK.md`.
pub fn notebook(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(book) = notebook::parse(text) {
            assert!(book.extends(&book.head));
        }
    });
}

/// Plans, as they are written and as they are frozen.
pub fn plan(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(file) = PlanFile::parse(text) {
            for profile in [ProfileName::Smoke, ProfileName::Quick, ProfileName::Full] {
                let _ = file.freeze(profile, &[]);
            }
        }
        let _ = toml::from_str::<Plan>(text);
    });
}

/// Claims.
pub fn claims(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(claims) = toml::from_str::<ClaimFile>(text) {
            let _ = check_claims(&claims);
        }
    });
}

/// A log of Nsight Compute.
pub fn counters(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(launches) = counters::read(text) {
            assert!(!launches.is_empty() && !text.lines().any(|line| line.starts_with("==ERROR==")));
        }
    });
}

/// Budgets.
pub fn budget(data: &[u8]) {
    with_text(data, |text| drop(toml::from_str::<BudgetFile>(text)));
}

/// What `ptxas -v` prints.
pub fn ptxas(data: &[u8]) {
    with_text(data, |text| drop(ptxas::parse(text)));
}

/// A log of compute-sanitizer.
pub fn sanitizer(data: &[u8]) {
    with_text(data, |text| {
        for tool in [Tool::Memcheck, Tool::Racecheck, Tool::Initcheck, Tool::Synccheck] {
            let _ = log::planted(tool, text, tool.control());
            if log::read(tool, text) == log::Reading::Clean {
                // Three lines and blank ones between them: nothing else is a clean log.
                assert!(text.lines().filter(|line| line.trim_end() != "=========").count() == 2);
            }
        }
    });
}

/// A cubin, down to the digests of its kernels.
pub fn cubin(data: &[u8]) {
    for arch in ["sm_80", "sm_90", "sm_121a"] {
        if let Ok(kernels) = sass::kernels(data, arch) {
            assert!(!kernels.is_empty());
        }
    }
}

/// The records of `.nv.info`.
pub fn nvinfo(data: &[u8]) {
    if let Ok(records) = nvinfo::decode(data) {
        for record in records {
            for n in 0..record.n_symbols() {
                let _ = record.word(n);
            }
        }
    }
}

/// A Parquet table, in pieces and whole.
pub fn table(data: &[u8]) {
    let open = || -> std::io::Result<File> {
        let mut file = File::from(rustix::fs::memfd_create("table", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(data)?;
        Ok(file)
    };
    let file = open().unwrap();
    let Ok(mut reader) = Reader::open(file.try_clone().unwrap()) else { return };
    // What a few kilobytes claim is bounded for the fuzzer's sake alone.
    if reader.rows() > 1 << 20 {
        return;
    }
    let mut rows = 0;
    let pieces = loop {
        match reader.piece() {
            Ok(Some(piece)) => rows += piece.rows(),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let whole = Reader::open(file).unwrap().all(MAX_VALUES);
    assert!(!pieces || rows == reader.rows());
    if let Ok(whole) = whole {
        assert!(pieces && whole.rows() == rows);
    }
}

/// The harness's progress lines.
pub fn progress(data: &[u8]) {
    with_text(data, |text| {
        text.lines().for_each(|line| drop(progress::parse(line)));
        let _ = progress::end_mark(text, "n1");
    });
}

/// The chain of attempts.
pub fn attempts(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(chain) = Chain::parse(text) {
            assert_eq!(chain.links.len(), text.lines().count());
        }
    });
}

/// `SHA256SUMS`.
pub fn sums(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(sums) = sums::parse(text) {
            assert_eq!(sums::to_text(&sums), text);
        }
    });
}

/// The index of a packed run.
pub fn pack(data: &[u8]) {
    if let Ok(index) = parse_index(RUN, data) {
        assert!(index.files.keys().all(|name| names::check_name(name).is_ok()));
    }
}

/// A signature.
pub fn signature(data: &[u8]) {
    let _ = parse_signature(data);
}

/// `docker/toolkit.lock`.
pub fn lock(data: &[u8]) {
    with_text(data, |text| drop(lock::parse(text)));
}

/// Names, quoted text, and why a file changed.
pub fn words(data: &[u8]) {
    let _ = altered::explain(data, Digest::of(b""));
    with_text(data, |text| {
        let acts = |c: char| c.is_control() && c != '\n';
        assert!(!text::plain_lines(text).chars().any(acts) && !text::plain(text).contains('\n'));
        if names::check_name(text).is_ok() {
            let path = std::path::Path::new(text);
            assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    });
}

/// Text parsers never see bytes that are not UTF-8: reading refuses those.
fn with_text(data: &[u8], parse: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        parse(text);
    }
}
