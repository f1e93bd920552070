//! Tests of loading a run as evidence.

use super::*;
use crate::trial::{copy, shared};
use pure::trial::synthetic::set_column;
use schema::counters::CountedProgram;
use tables::Column;

const YIELD: &str = "yield/k=64,blocks=8,poll=1,set=device";

/// A cell of the passing trial with its detached tables, block rows first, and what the contract says of its events.
fn cell() -> (CellEvidence, TableSpec, Table, Table) {
    let (disk, judged) = shared();
    let cell = judged.evidence().cells.iter().find(|cell| cell.name() == YIELD).unwrap().clone();
    let table = |suffix: &str| Table::read(&disk.run().join(format!("cells/{YIELD}{suffix}"))).unwrap();
    let spec = table_of(judged.evidence(), &cell).unwrap().clone();
    (cell, spec, table(".blocks.parquet"), table(".clock.parquet"))
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
    let (cell, spec, block_rows, windows) = cell();
    let found = blocks(&cell, Some(&spec), reader(&block_rows))
        .unwrap()
        .and(clock(&cell, Some(&spec), reader(&windows)).unwrap());
    assert_eq!(found.faults, Vec::<String>::new());
    assert_eq!((found.events, found.clock_launches), (10_000, 22));
}

#[test]
fn a_changed_detached_table_is_a_fault() {
    let (cell, spec, block_rows, windows) = cell();
    for name in ["observed_ns", "last_old_ns", "event"] {
        assert!(
            !blocks(&cell, Some(&spec), reader(&shifted(&block_rows, name, 64))).unwrap().faults.is_empty(),
            "{name}"
        );
    }
    for (name, by) in [("cycles", 900), ("launch", 1), ("launch", 90)] {
        assert!(!clock(&cell, Some(&spec), reader(&shifted(&windows, name, by))).unwrap().faults.is_empty(), "{name}");
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
    let (mut cell, spec, _, windows) = cell();
    let launches = cell.data.launches.as_mut().unwrap();
    *launches = shifted(launches, "clock_khz_p50", 50);
    assert_eq!(clock(&cell, Some(&spec), reader(&windows)).unwrap().faults.len(), 1);
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

/// The faults of the first clean program's verdict after `change` to the run on disk.
fn sanitizer_faults(change: impl FnOnce(&std::path::Path, &mut SanitizerVerdict)) -> Vec<String> {
    let disk = copy();
    let folder = disk.run().join("sanitize");
    let path = folder.join("memcheck-everything.json");
    let mut verdict: SanitizerVerdict = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    change(&folder, &mut verdict);
    fs_err::write(&path, serde_json::to_vec(&verdict).unwrap()).unwrap();
    let evidence = load(&Layout::Raw(disk.run())).unwrap();
    evidence.sanitizer.into_iter().find(|s| s.name.ends_with("/memcheck-everything.json")).unwrap().log_faults
}

#[test]
fn a_verdict_whose_files_are_others_is_a_fault() {
    let says = |faults: Vec<String>, words: &str| {
        assert!(faults.iter().any(|fault| fault.contains(words)), "{words}: {faults:?}");
    };
    assert_eq!(sanitizer_faults(|_, _| ()), Vec::<String>::new());
    says(sanitizer_faults(|_, verdict| verdict.log_digest = Digest::of(b"x")), "is not the file it was made from");
    says(sanitizer_faults(|_, verdict| verdict.log = "elsewhere.log".to_owned()), "is absent");
    let printed = |verdict: &mut SanitizerVerdict| verdict.printed.clone().unwrap();
    says(
        sanitizer_faults(|_, verdict| verdict.printed = Some(Printed { sha256: Digest::of(b"x"), ..printed(verdict) })),
        "is not the file it was made from",
    );
    says(
        sanitizer_faults(|_, verdict| verdict.printed = Some(Printed { file: "no.out".into(), ..printed(verdict) })),
        "is absent",
    );
    says(sanitizer_faults(|_, verdict| verdict.launches += 1), "other launches");
}

#[test]
fn a_verdict_that_kept_its_log_alone_is_read_against_that() {
    let faults = sanitizer_faults(|_, verdict| (verdict.format, verdict.printed) = (1, None));
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn a_newer_verdict_is_refused() {
    let disk = copy();
    let path = disk.run().join("sanitize/memcheck-everything.json");
    let text = fs_err::read_to_string(&path).unwrap();
    fs_err::write(&path, text.replace("\"format\": 2", "\"format\": 3")).unwrap();
    let error = format!("{:#}", load(&Layout::Raw(disk.run())).unwrap_err());
    assert!(error.contains("has format 3"), "{error}");
}

/// What is wrong with counters whose files are changed by `change` after the report named them.
fn counter_faults(change: impl FnOnce(&std::path::Path)) -> Vec<String> {
    let disk = copy();
    let folder = disk.run().join("counters");
    fs_err::create_dir_all(&folder).unwrap();
    let log = include_str!("../../../testdata/ncu/captured-2025.3.1-burn.csv");
    let program = CountedProgram {
        program: "burn".into(),
        not_counted: None,
        log: Some(CounterLog { file: "burn.csv".into(), sha256: Digest::of(log) }),
        launches: counters::read(log).unwrap(),
    };
    let report = CounterReport { format: 1, profiler: None, unreadable: None, programs: vec![program] };
    fs_err::write(folder.join("burn.csv"), log).unwrap();
    fs_err::write(folder.join("counters.json"), serde_json::to_vec(&report).unwrap()).unwrap();
    change(&folder);
    let layout = Layout::Raw(disk.run());
    let names: Vec<String> =
        fs_err::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let names: Vec<String> = names.iter().map(|name| format!("counters/{name}")).collect();
    let digests = names.iter().map(|name| (name.as_str(), Digest::of_file(disk.run().join(name)).unwrap())).collect();
    super::counters(&layout, &digests).unwrap().faults
}

#[test]
fn counters_are_read_again_from_the_logs_that_the_manifest_names() {
    assert_eq!(counter_faults(|_| {}), [""; 0]);
    let absent = "burn: its log is absent or changed";
    assert_eq!(counter_faults(|folder| fs_err::remove_file(folder.join("burn.csv")).unwrap()), [absent]);
    let other = include_str!("../../../testdata/ncu/captured-2025.3.1-timer.csv");
    assert_eq!(counter_faults(|folder| fs_err::write(folder.join("burn.csv"), other).unwrap()), [absent]);
    let forged = counter_faults(|folder| {
        let text = fs_err::read_to_string(folder.join("counters.json")).unwrap();
        fs_err::write(folder.join("counters.json"), text.replace("\"registers\":91", "\"registers\":90")).unwrap();
    });
    assert_eq!(forged, ["burn: the counts are not those of its log"]);
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

/// A manifest that does not name a table that its cell owes has none elsewhere, however many others lie there.
#[test]
fn a_detached_table_that_nobody_names_is_missing_and_not_elsewhere() {
    let disk = copy();
    let mut evidence = shared().1.evidence().clone();
    let rows = format!("cells/{YIELD}.blocks.parquet");
    evidence.manifest.subject.retain(|subject| subject.name != rows);
    let said = || detached(&Layout::Raw(disk.run()), &evidence).unwrap().unwrap().faults;
    assert_eq!(said(), [format!("{rows} was never written")]);
    fs_err::remove_file(disk.run().join(format!("cells/{YIELD}.clock.parquet"))).unwrap();
    assert_eq!(said(), [format!("{rows} was never written")]);
}
