//! Tests that faults are never published. Each is planted where it would enter: in what a run is made from, before it
//! is sealed.

use crate::steps::gate::gate;
use crate::trial::{Registration, Trial};
use host::failure::code_of;
use pure::trial::synthetic::{set_column, take_rows};
use rayon::prelude::*;
use schema::bundle::BundleRecord;
use schema::{Digest, ExitCode};
use std::collections::BTreeMap;
use tables::{Column, Table};

type Plant = fn(&mut Trial);

/// The gate that must refuse, words of its reason, and the fault.
const FAULTS: [(&str, &str, Plant); 16] = [
    ("environment", "emulated device", |trial| trial.environment.device.id = "emulated".to_owned()),
    ("source", "not clean when the run began", |trial| trial.clean_before = false),
    ("sanitizer", "no verdict for this configuration", |trial| drop(trial.sanitizer.remove(0))),
    ("sanitizer", "other SASS", |trial| trial.sanitizer[0].0.sass.iter_mut().for_each(|s| s.1 = Digest::of(b"x"))),
    ("sanitizer", "no verdict for this configuration", |trial| {
        trial.sanitizer[0].0.configs.iter_mut().for_each(|config| config.block *= 2);
    }),
    ("sanitizer", "did not catch its planted fault", |trial| {
        // The log of the clean program beside the claim that the fault was caught.
        trial.sanitizer[1].1 = trial.sanitizer[0].1.clone();
        trial.sanitizer[1].0.log_digest = trial.sanitizer[0].0.log_digest;
        trial.sanitizer[1].0.findings = Some(0);
    }),
    ("build", "spills 4 bytes", |trial| trial.build.kernels[0].spill_bytes = 4),
    ("clocks", "NVML's SM clock", |trial| {
        let mut mhz = trial.telemetry.opt_u32("sm_mhz").unwrap().to_vec();
        mhz[25] = Some(1_500);
        set_column(&mut trial.telemetry, "sm_mhz", Column::OptU32(mhz));
    }),
    ("clocks", "in-band clock left", |trial| {
        // Two of three launches are off the clock, so that no number stands.
        for launches in trial.cells.iter_mut().filter_map(|cell| cell.launches.as_mut()) {
            let khz = launches.u32("clock_khz_max").unwrap().iter().enumerate();
            let khz = khz.map(|(row, khz)| if row % 3 == 0 { *khz } else { 2_100_000 }).collect();
            set_column(launches, "clock_khz_max", Column::U32(khz));
        }
    }),
    ("samples", "9999 unique events", |trial| *trial = Trial::of_events(9_999)),
    ("structure", "another number of events", |trial| {
        let events = yield_events(trial);
        *events = take_rows(events, &(1..events.rows()).collect::<Vec<_>>());
    }),
    ("registration", "written after the data", |trial| trial.registration = Registration::After),
    ("registration", "was committed with the measured commit", |trial| trial.registration = Registration::Same),
    ("samples", "was planned and is not there", |trial| drop(trial.cells.pop())),
    ("source", "unknown commit", |trial| trial.commit = Some("0".repeat(40))),
    ("source", "a bundle this repository does not know", |trial| {
        trial.kind = "bundle".to_owned();
        trial.commit = Some("0".repeat(40));
        trial.bundle = Some(BundleRecord {
            format: 1,
            commit: "0".repeat(40),
            source: Digest::of(b"source"),
            plans: BTreeMap::new(),
            claims: BTreeMap::new(),
            notebook_head: Digest::of(b""),
            sass: Vec::new(),
            files: BTreeMap::new(),
        });
    }),
];

fn yield_events(trial: &mut Trial) -> &mut Table {
    &mut trial.cells.iter_mut().find(|cell| cell.record.cell.contains("set=device")).unwrap().events
}

#[test]
fn no_planted_fault_is_published() {
    FAULTS.par_iter().for_each(|(name, words, plant)| {
        let mut trial = Trial::passing();
        plant(&mut trial);
        let (disk, sealed) = trial.sealed();
        let judged = gate(&disk.paths, sealed, Some(&disk.build)).unwrap();
        let found = judged.verdict().gates.iter().find(|gate| gate.name == *name).unwrap().clone();
        assert!(!found.passed && found.reason.contains(words), "{name} should refuse for {words:?}: {found:?}");
        assert_eq!(code_of(&judged.pass().unwrap_err()), ExitCode::Refused, "{name}: {words}");
    });
}
