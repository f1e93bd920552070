//! Tests over captured logs of Nsight Compute.

use super::*;
use schema::Digest;
use schema::counters::{CountedProgram, CounterLog};

const DRAIN: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-drain.csv"));
const SPILLING: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-spilling.csv"));

fn kernel(symbol: &str, registers: u32, blocks_per_sm: u32) -> Kernel {
    let mut kernel = crate::trial::records::build().kernels[0].clone();
    (kernel.symbol, kernel.registers, kernel.blocks_per_sm) = (symbol.to_owned(), registers, blocks_per_sm);
    kernel
}

fn report(programs: &[(&str, &str)]) -> CounterReport {
    let programs = programs.iter().map(|(name, log)| CountedProgram {
        program: (*name).to_owned(),
        not_counted: None,
        log: Some(CounterLog { file: format!("{name}.csv"), sha256: Digest::of(log) }),
        launches: read(log).unwrap(),
    });
    CounterReport { format: 1, profiler: Some("Version 1".into()), unreadable: None, programs: programs.collect() }
}

#[test]
fn a_captured_log_of_three_grids_is_read_launch_by_launch() {
    let launches = read(DRAIN).unwrap();
    let fewest = |launch: &CountedLaunch| *launch.fits.values().min().unwrap();
    let told: Vec<_> = launches.iter().map(|l| (l.symbol.as_str(), l.grid, l.block, l.registers, fewest(l))).collect();
    assert_eq!(
        told,
        [
            ("preempt_drain", 3, 128, 91, 5),
            ("preempt_check", 1056, 256, 31, 8),
            ("preempt_yield_p1", 3, 128, 91, 5),
            ("preempt_check", 1056, 256, 31, 8),
            ("preempt_yield_p4", 3, 128, 91, 5),
            ("preempt_check", 1056, 256, 31, 8),
        ]
    );
    let drain = &launches[0];
    assert_eq!((drain.local_loads, drain.local_stores, drain.fits["shared_mem"]), (0, 0, 7));
    assert_eq!(metrics().split(',').filter(|name| DRAIN.contains(&format!("\"{name}\""))).count(), 29);
}

#[test]
fn captured_logs_of_every_program_agree_with_the_cubins() {
    let logs = [
        ("timer", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-timer.csv"))),
        (
            "calibrate",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-calibrate.csv")),
        ),
        ("drain", DRAIN),
        (
            "baseline",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-baseline.csv")),
        ),
        (
            "yield_p1_device",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-yield_p1_device.csv")),
        ),
        ("check", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-check.csv"))),
        ("burn", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-burn.csv"))),
    ];
    let report = report(&logs);
    // As the build of that day recorded them for sm_90.
    let kernels = [
        kernel("preempt_calibrate", 91, 5),
        kernel("preempt_check", 31, 8),
        kernel("preempt_drain", 91, 5),
        kernel("preempt_timer_offset", 26, 32),
        kernel("preempt_timer_quantum", 16, 32),
        kernel("preempt_urgent", 80, 6),
        kernel("preempt_yield_p1", 91, 5),
        kernel("preempt_yield_p4", 91, 5),
    ];
    let all: Vec<&Kernel> = kernels.iter().collect();
    assert_eq!(contradictions(&report, &all), [""; 0]);
    let find =
        |file: &str| logs.iter().find(|(name, _)| file == format!("{name}.csv")).map(|(_, log)| (*log).to_owned());
    assert_eq!(faults(&report, find), [""; 0]);

    let other = [kernel("preempt_drain", 90, 5), kernel("preempt_check", 31, 9)];
    let found = contradictions(&report, &[&other[0], &other[1]]);
    let said = |words: &str| found.iter().any(|reason| reason == words);
    assert!(said("preempt_drain ran with 91 registers; its cubin says 90"), "{found:?}");
    assert!(said("preempt_check: 8 blocks fit on an SM by registers; its record says 9"), "{found:?}");
    assert!(said("preempt_check: 8 blocks fit on an SM by warps; its record says 9"), "{found:?}");
    assert!(said("preempt_urgent was counted and is not in the build record"), "{found:?}");
}

#[test]
fn a_kernel_that_touches_local_memory_is_named() {
    let report = report(&[("spilling", SPILLING)]);
    let spilling = kernel("spilling", 16, 1);
    let launch = &report.programs[0].launches[0];
    let same = kernel("spilling", u32::try_from(launch.registers).unwrap(), 1);
    assert_eq!(contradictions(&report, &[&same]), ["spilling used local memory: 52800 loads and 8448 stores of warps"]);
    assert_eq!(contradictions(&report, &[&spilling]).len(), 1 + usize::from(launch.registers != 16));
}

#[test]
fn captured_refusals_are_told_apart() {
    let why = |log: &str| read(log).unwrap_err();
    assert_eq!(
        why(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-no-kernel.csv"))),
        "no kernel was profiled"
    );
    let killed =
        why(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-killed.csv")));
    assert_eq!(killed, "the profiler says: Failed to profile \"preempt_yield_p1\" in process 1220");
    let home = why(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../testdata/ncu/captured-2025.3.1-unwritable-home.csv"
    )));
    assert!(home.starts_with("the profiler says: Unable to write to file"), "{home}");
    let unknown =
        why(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ncu/captured-2025.3.1-no-such-metric.csv")));
    assert!(unknown.contains("is missing for"), "{unknown}");
    // Synthetic: no box at hand keeps its counters to administrators.
    let kept =
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters";
    assert!(why(kept).contains("NVreg_RestrictProfilingToAdminUsers=0"));
}

#[test]
fn a_damaged_log_is_never_read_as_other_counts() {
    let absent = DRAIN.replace("\"register/thread\",\"91\"", "\"register/thread\",\"n/a\"");
    let unit = DRAIN.replace("\"register/thread\",\"91\"", "\"register\",\"91\"");
    let decimal = DRAIN.replace("\"register/thread\",\"91\"", "\"register/thread\",\"9,1\"");
    let cut = &DRAIN[..DRAIN.rfind("preempt_check").unwrap()];
    let doubled: String = DRAIN.lines().flat_map(|line| [line, line]).collect::<Vec<_>>().join("\n");
    let raw = "\"ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"sm__cycles\"\n";
    for damaged in [&absent, &unit, &decimal, cut, &doubled, raw, ""] {
        assert!(read(damaged).is_err(), "{damaged}");
    }
    let without: String =
        DRAIN.lines().filter(|line| !line.contains("local_ld")).map(|line| format!("{line}\n")).collect();
    assert_eq!(read(&without), Err("smsp__inst_executed_op_local_ld.sum is missing for preempt_drain".to_owned()));
}

#[test]
fn numbers_are_read_with_commas_between_thousands_only() {
    for (text, value) in [("0", 0), ("91", 91), ("1,234", 1234), ("975,287,280", 975_287_280)] {
        assert_eq!(number(text), Some(value));
    }
    for text in ["", ",", "1,23", "1,2345", "1234,567", ",123", "1.5", "-1", "+1", "1e3", "n/a", "1,234.", "1.2,3", "١"]
    {
        assert_eq!(number(text), None, "{text}");
    }
    assert_eq!(
        (product("(128, 2, 3)"), product("(128, 1)"), product("(1, 1, 1, 1)"), product("128")),
        (Some(768), None, None, None)
    );
}

#[test]
fn a_report_that_does_not_follow_from_its_logs_is_found() {
    let good = report(&[("drain", DRAIN)]);
    let find = |_: &str| Some(DRAIN.to_owned());
    assert_eq!(faults(&good, find), [""; 0]);
    assert_eq!(faults(&good, |_| None), ["drain: its log is absent or changed"]);
    let mut told = good.clone();
    told.programs[0].launches[0].local_loads = 1;
    assert_eq!(faults(&told, find), ["drain: the counts are not those of its log"]);
    let mut both = good.clone();
    both.unreadable = Some("no permission".to_owned());
    assert_eq!(faults(&both, find), ["counters are both read and unreadable, or neither"]);
    let mut neither = good;
    neither.programs[0].not_counted = Some("killed".to_owned());
    assert_eq!(
        faults(&neither, find),
        ["counters are both read and unreadable, or neither", "drain: not counted, and yet there are counts"]
    );
}

#[test]
fn what_needs_a_writer_beside_it_is_not_profiled() {
    let programs = ["timer", "calibrate", "drain", "baseline", "yield_p1_device", "yield_p4_device", "check"];
    assert!(programs.into_iter().all(runs_alone));
    assert!(!runs_alone("yield_p1_host") && !runs_alone("yield_p1_kernel"));
}

#[test]
fn a_log_has_so_many_lines_and_no_more() {
    let (head, line) = DRAIN.split_at(DRAIN.find("\"0\",").unwrap());
    let line = line.lines().next().unwrap();
    let of = |lines: usize| {
        let rows: String =
            (0..lines).map(|n| format!("{}\n", line.replacen("\"0\"", &format!("\"{n}\""), 1))).collect();
        read(&format!("{head}{rows}")).unwrap_err()
    };
    // The last one allowed is read as a launch that lacks its other counters.
    assert!(of(MOST_LINES).contains(" is missing for preempt_drain"));
    assert_eq!(of(MOST_LINES + 1), format!("more than {MOST_LINES} lines"));
    assert_eq!(of(MOST_LINES + 5), format!("more than {MOST_LINES} lines"));
}

#[test]
fn one_load_or_store_of_local_memory_is_one_too_many() {
    let with = |loads: u64, stores: u64| {
        let mut report = report(&[("drain", DRAIN)]);
        report.programs[0].launches.truncate(1);
        let launch = &mut report.programs[0].launches[0];
        (launch.local_loads, launch.local_stores) = (loads, stores);
        contradictions(&report, &[&kernel("preempt_drain", 91, 5)])
    };
    assert_eq!(with(0, 0), [""; 0]);
    for (loads, stores) in [(1, 0), (0, 1), (1, 1)] {
        let said = format!("preempt_drain used local memory: {loads} loads and {stores} stores of warps");
        assert_eq!(with(loads, stores), [said]);
    }
}

#[test]
fn what_is_no_number_is_quoted() {
    let absent = DRAIN.replacen("\"register/thread\",\"91\"", "\"register/thread\",\"n/a\"", 1);
    assert_eq!(read(&absent), Err("launch__registers_per_thread is no number: \"n/a\"".to_owned()));
}
