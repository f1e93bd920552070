//! Tests of loading a run as evidence.

use super::*;
use crate::pure::synthetic::set_column;
use crate::trial::{copy, shared};
use schema::table::Column;

const YIELD: &str = "yield/k=64,blocks=8,poll=1,set=device";

fn cell() -> (CellEvidence, Table, Table) {
    let (disk, judged) = shared();
    let cell = judged.evidence().cells.iter().find(|cell| cell.name() == YIELD).unwrap().clone();
    let table = |suffix: &str| Table::read(&disk.run().join(format!("cells/{YIELD}{suffix}"))).unwrap();
    (cell, table(".blocks.parquet"), table(".clock.parquet"))
}

/// A table on disk, as it is read.
fn reader(table: &Table) -> Reader {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &table.to_bytes().unwrap()).unwrap();
    Reader::open(file).unwrap()
}

/// Adds to one value of a column.
fn shifted(table: &Table, name: &str, by: u32) -> Table {
    let mut table = table.clone();
    let mut values = table.u32(name).unwrap().to_vec();
    values[4] = values[4].wrapping_add(by);
    set_column(&mut table, name, Column::U32(values));
    table
}

#[test]
fn events_and_clocks_follow_from_the_detached_tables() {
    let (cell, block_rows, windows) = cell();
    let found = blocks(&cell, reader(&block_rows)).unwrap().and(clock(&cell, reader(&windows)).unwrap());
    assert_eq!(found.faults, Vec::<String>::new());
    assert_eq!((found.events, found.clock_launches), (10_000, 22));
}

#[test]
fn a_changed_detached_table_is_a_fault() {
    let (cell, block_rows, windows) = cell();
    for name in ["observed_ns", "last_old_ns", "event"] {
        assert!(!blocks(&cell, reader(&shifted(&block_rows, name, 64))).unwrap().faults.is_empty(), "{name}");
    }
    for (name, by) in [("cycles", 900), ("launch", 1), ("launch", 90)] {
        assert!(!clock(&cell, reader(&shifted(&windows, name, by))).unwrap().faults.is_empty(), "{name}");
    }
}

#[test]
fn without_all_detached_tables_nothing_is_said() {
    let disk = copy();
    let layout = Layout::Raw(disk.run());
    let evidence = &shared().1.evidence();
    assert!(detached(&layout, evidence).unwrap().is_some());
    fs_err::remove_file(disk.run().join(format!("cells/{YIELD}.clock.parquet"))).unwrap();
    assert_eq!(detached(&layout, evidence).unwrap(), None);
}

#[test]
fn a_clock_s_median_follows_from_its_windows() {
    let (mut cell, _, windows) = cell();
    let launches = cell.data.launches.as_mut().unwrap();
    *launches = shifted(launches, "clock_khz_p50", 50);
    assert_eq!(clock(&cell, reader(&windows)).unwrap().faults.len(), 1);
}

#[test]
fn a_detached_table_that_was_never_written_is_a_fault() {
    let (disk, judged) = shared();
    for suffix in [".clock.parquet", ".blocks.parquet"] {
        let mut evidence = judged.evidence().clone();
        let name = format!("cells/{YIELD}{suffix}");
        evidence.manifest.subject.retain(|subject| subject.name != name);
        let found = detached(&Layout::Raw(disk.run()), &evidence).unwrap().unwrap();
        assert_eq!(found.faults, [format!("{name} was never written")]);
    }
}

#[test]
fn a_verdict_that_its_log_does_not_bear_out_is_a_fault() {
    let evidence = shared().1.evidence();
    let mut program = evidence.sanitizer.iter().find(|s| s.verdict.control_caught.is_none()).unwrap().verdict.clone();
    let mut control = evidence
        .sanitizer
        .iter()
        .find(|s| s.verdict.tool == program.tool && s.verdict.control_caught.is_some())
        .unwrap()
        .verdict
        .clone();
    let log = |verdict: &SanitizerVerdict| {
        fs_err::read_to_string(shared().0.run().join("sanitize").join(&verdict.log)).unwrap()
    };
    let (clean, caught) = (log(&program), log(&control));
    assert!(log_faults(&program, &clean).is_empty() && log_faults(&control, &caught).is_empty());
    assert!(!log_faults(&program, &caught).is_empty());
    assert!(!log_faults(&control, &clean).is_empty());
    assert!(!log_faults(&program, &clean[..clean.len() / 2]).is_empty());
    program.findings = None;
    control.findings = Some(7);
    assert!(!log_faults(&program, &clean).is_empty() && !log_faults(&control, &caught).is_empty());
}

#[test]
fn a_header_that_names_other_files_is_a_fault() {
    let disk = copy();
    let path = disk.run().join(format!("cells/{YIELD}.json"));
    let text = fs_err::read_to_string(&path).unwrap();
    let mut record: CellRecord = serde_json::from_str(&text).unwrap();
    record.files[0].sha256 = Digest::of(b"x");
    record.files.retain(|file| file.suffix != ".clock.parquet");
    fs_err::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    let evidence = load(&Layout::Raw(disk.run())).unwrap();
    let faults = &evidence.cells.iter().find(|cell| cell.name() == YIELD).unwrap().faults;
    assert_eq!(faults.len(), 2, "{faults:?}");
}
