//! Tests of the log parser, on logs captured on a GPU and on faults planted in them.

use super::log::{Reading, planted, read};
use super::*;

/// The sites of a program of this name: every tile is copied, a yield is also met and claimed.
fn needs(program: &str) -> Vec<String> {
    let sites: &[&str] = match program {
        "timer" => &[],
        name if name.contains("yield") => &["yield", "claim", "copy"],
        _ => &["copy"],
    };
    sites.iter().map(|site| (*site).to_owned()).collect()
}
use proptest::prelude::*;
use schema::cell::LaunchConfig;
use schema::progress::{Progress, Sites};

const NONCE: &str = "00112233";

fn fixture(name: &str) -> String {
    let path = format!("{}/../testdata/sanitizer/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn clean_log(tool: Tool) -> String {
    fixture(&format!("captured-2025.3.1-{}-clean.log", tool.name()))
}

fn control_log(tool: Tool) -> String {
    fixture(match tool {
        Tool::Memcheck => "captured-2025.3.1-memcheck-control.log",
        Tool::Racecheck => "captured-2025.3.1-racecheck-control.log",
        Tool::Initcheck => "captured-2025.3.1-initcheck-control.log",
        Tool::Synccheck => "captured-2025.3.1-synccheck-control.log",
    })
}

fn known() -> Known {
    Known { sass: [("yield_kernel".to_owned(), Digest::of("sass"))].into(), cubins: [Digest::of("cubin")].into() }
}

fn config() -> LaunchConfig {
    LaunchConfig {
        symbol: "yield_kernel".into(),
        mode: "event_device".into(),
        grid: 4,
        block: 64,
        shared_bytes: 0,
        cooperative: true,
        cubin: Some(Digest::of("cubin")),
    }
}

fn good_end() -> EndMark {
    EndMark {
        launches: 3,
        sites: Sites::from([("yield".to_owned(), 1), ("claim".to_owned(), 1), ("copy".to_owned(), 1)]),
        cubins: vec![("yield".into(), Digest::of("cubin"))],
        configs: vec![config()],
        wrong: 0,
    }
}

fn stdout(end: EndMark) -> String {
    let EndMark { launches, sites, cubins, configs, wrong } = end;
    let line = Progress::End { nonce: NONCE.into(), launches, sites, cubins, configs, wrong };
    format!("{}\n", serde_json::to_string(&line).unwrap())
}

/// The verdict over a yield program with this log and end.
fn verdict(tool: Tool, log: &str, code: Option<i32>, stdout: &str) -> Judgement {
    let seen = Seen { tool, log, code, timed_out: false, stdout, nonce: NONCE };
    judge_program(&seen, &needs("yield"), &known())
}

fn state_of(tool: Tool, log: &str) -> State {
    verdict(tool, log, Some(0), &stdout(good_end())).state
}

#[test]
fn full_evidence_is_clean() {
    for tool in Tool::ALL {
        let verdict = verdict(tool, &clean_log(tool), Some(0), &stdout(good_end()));
        assert_eq!(verdict.state, State::Clean, "{tool:?}: {}", verdict.why);
        assert_eq!((verdict.findings, verdict.why.as_str(), verdict.control_caught), (Some(0), "", None));
        assert_eq!(verdict.sass, [("yield_kernel".to_owned(), Digest::of("sass"))]);
    }
}

#[test]
fn no_deleted_line_leaves_a_clean_log() {
    for tool in Tool::ALL {
        let log = clean_log(tool);
        let lines: Vec<&str> = log.lines().collect();
        for gone in 0..lines.len() {
            let kept: Vec<&str> = (0..lines.len()).filter(|i| *i != gone).map(|i| lines[i]).collect();
            assert_eq!(state_of(tool, &format!("{}\n", kept.join("\n"))), State::Inconclusive, "{tool:?} {gone}");
        }
    }
}

#[test]
fn no_truncated_log_is_clean() {
    for tool in Tool::ALL {
        let log = clean_log(tool);
        for length in 0..log.len() {
            assert_ne!(state_of(tool, &log[..length]), State::Clean, "{tool:?} {:?}", &log[..length]);
        }
    }
}

#[test]
fn no_changed_byte_leaves_a_clean_log() {
    for tool in Tool::ALL {
        let log = clean_log(tool);
        for at in 0..log.len() {
            for byte in b'!'..=b'~' {
                let mut bytes = log.clone().into_bytes();
                if std::mem::replace(&mut bytes[at], byte) != byte {
                    assert_ne!(
                        state_of(tool, &String::from_utf8(bytes).unwrap()),
                        State::Clean,
                        "{tool:?} {at} {byte}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_second_summary_or_one_of_another_tool_is_not_clean() {
    for tool in Tool::ALL {
        let log = clean_log(tool);
        let summary = log.lines().last().unwrap();
        assert_eq!(state_of(tool, &format!("{log}{summary}\n")), State::Inconclusive, "{tool:?}");
        for other in Tool::ALL.into_iter().filter(|other| clean_log(*other) != log) {
            assert_eq!(state_of(tool, &clean_log(other)), State::Inconclusive, "{tool:?} {other:?}");
            assert_eq!(state_of(other, &format!("{log}{summary}\n")), State::Inconclusive, "{tool:?} {other:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_added_line_leaves_a_clean_log(tool in 0..4_usize, at in 0..3_usize, line in "(========= ?)?[ -~]{1,60}") {
        prop_assume!(line.trim_end() != "=========");
        let tool = Tool::ALL[tool];
        let log = clean_log(tool);
        let mut lines: Vec<&str> = log.lines().collect();
        lines.insert(at, &line);
        prop_assert_ne!(state_of(tool, &format!("{}\n", lines.join("\n"))), State::Clean);
    }

    #[test]
    fn no_log_whatsoever_breaks_the_reader(log in "(=========[ -~]{0,40}\n|\\PC{0,20}\n){0,6}") {
        for tool in Tool::ALL {
            read(tool, &log);
            planted(tool, &log, tool.control());
        }
    }
}

#[test]
fn every_count_above_zero_is_a_finding() {
    let race = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: ";
    let error = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: ";
    for (tool, log, expected) in [
        (Tool::Memcheck, format!("{error}1 error\n"), 1),
        (Tool::Synccheck, format!("{error}2 errors\n"), 2),
        (Tool::Initcheck, format!("{error}1,024 errors\n"), 1024),
        (Tool::Racecheck, format!("{race}1 hazard displayed (1 error, 0 warnings)\n"), 1),
        (Tool::Racecheck, format!("{race}3 hazards displayed (0 errors, 3 warnings)\n"), 3),
        (Tool::Racecheck, format!("{race}2 hazard(s) displayed (2 errors, 0 warnings)\n"), 2),
        (Tool::Racecheck, format!("{race}0 hazards displayed (0 errors, 4 warnings)\n"), 4),
        // A clean process beside one that is not.
        (Tool::Memcheck, format!("{error}0 errors\n========= ERROR SUMMARY: 1 error\n"), 1),
        (
            Tool::Memcheck,
            format!(
                "{error}257 errors\n========= ERROR SUMMARY: 157 errors were not printed. Use --print-limit option\n"
            ),
            257,
        ),
    ] {
        // Whatever the exit code says.
        for code in [Some(0), Some(FOUND), Some(1), None] {
            let verdict = verdict(tool, &log, code, &stdout(good_end()));
            assert_eq!((verdict.state, verdict.findings), (State::Finding, Some(expected)), "{log}");
        }
    }
}

#[test]
fn what_says_that_nothing_was_checked_is_inconclusive() {
    let zero = "========= ERROR SUMMARY: 0 errors\n";
    for (body, said) in [
        ("", "no summary"),
        ("========= ERROR SUMMARY: unknown\n", "not the summary of a clean memcheck"),
        ("========= Error: Target application terminated before first instrumented API call\n", "terminated before"),
        (&format!("========= Error: process didn't terminate successfully\n{zero}"), "didn't terminate"),
        (&format!("========= Target application returned an error\n{zero}"), "returned an error"),
        (&format!("========= Error: Device not supported. Please refer to\n=========\n{zero}"), "Device not supported"),
        (
            &format!("========= Internal Sanitizer Error: Errors might go undetected.\n{zero}"),
            "Internal Sanitizer Error",
        ),
        (&format!("========= Error: Unable to find injection library\n{zero}"), "Unable to find injection"),
        (&format!("========= Invalid __global__ read of size 4 bytes\n{zero}"), "Invalid __global__ read"),
        (&format!("{zero}a word of the program's own\n"), "a word of the program's own"),
    ] {
        let log = format!("========= COMPUTE-SANITIZER\n{body}");
        let verdict = verdict(Tool::Memcheck, &log, Some(0), &stdout(good_end()));
        assert_eq!(verdict.state, State::Inconclusive, "{log}");
        assert!(verdict.why.contains(said), "{:?} does not say {said:?}", verdict.why);
    }
}

#[test]
fn captured_logs_of_tools_that_checked_nothing_are_inconclusive() {
    for name in [
        "captured-2025.3.1-launcher-missing.log",
        "captured-2026.4.0-driver-missing.log",
        "captured-2026.4.0-program-missing.log",
    ] {
        for tool in Tool::ALL {
            assert!(matches!(read(tool, &fixture(name)), Reading::Unclear(_)), "{name}");
            assert_eq!(state_of(tool, &fixture(name)), State::Inconclusive, "{name}");
        }
    }
}

#[test]
fn captured_logs_of_clean_programs_are_clean() {
    for (tool, name) in [
        (Tool::Memcheck, "captured-2025.3.1-memcheck-clean.log"),
        (Tool::Racecheck, "captured-2025.3.1-racecheck-clean.log"),
        (Tool::Initcheck, "captured-2025.3.1-initcheck-clean.log"),
        (Tool::Synccheck, "captured-2025.3.1-synccheck-clean.log"),
        (Tool::Racecheck, "captured-2026.4.0-racecheck-clean.log"),
    ] {
        assert_eq!(read(tool, &fixture(name)), Reading::Clean, "{name}");
        assert_eq!(state_of(tool, &fixture(name)), State::Clean, "{name}");
    }
}

#[test]
fn captured_logs_of_planted_faults_are_caught_as_what_they_are() {
    for (tool, name, findings, headline) in [
        (Tool::Memcheck, "captured-2025.3.1-memcheck-control.log", 7, "Invalid __global__ write of size 4 bytes"),
        (Tool::Memcheck, "captured-2026.4.0-memcheck-control.log", 12, "Invalid __global__ write of size 4 bytes"),
        // The summary counts 100 hazards displayed and 125 errors.
        (
            Tool::Racecheck,
            "captured-2025.3.1-racecheck-control.log",
            125,
            "Potential RAW hazard detected at __shared__",
        ),
        (
            Tool::Initcheck,
            "captured-2025.3.1-initcheck-control.log",
            31,
            "Uninitialized __global__ memory read of size 4",
        ),
    ] {
        let log = fixture(name);
        assert_eq!(read(tool, &log), Reading::Findings(findings), "{name}");
        let caught = control(tool, &log, Some(FOUND), false);
        assert_eq!((caught.state, caught.control_caught), (State::Finding, Some(true)), "{name}: {}", caught.why);
        assert!(caught.why.contains(headline), "{name}: {}", caught.why);
    }
}

/// What a tool printed of a planted fault never reads as clean, whatever its summary is made to say.
#[test]
fn no_summary_makes_the_log_of_a_planted_fault_clean() {
    for tool in Tool::ALL {
        let log = control_log(tool);
        let clean = clean_log(tool);
        let body: String = log.lines().filter(|l| !l.contains("SUMMARY")).map(|l| format!("{l}\n")).collect();
        let forged = format!("{body}{}\n", clean.lines().last().unwrap());
        assert_eq!(state_of(tool, &forged), State::Inconclusive, "{tool:?}");
        assert_eq!(control(tool, &forged, Some(FOUND), false).control_caught, Some(false), "{tool:?}");
        for (at, _) in log.match_indices('\n') {
            assert_ne!(state_of(tool, &log[..=at]), State::Clean, "{tool:?} {at}");
        }
    }
}

#[test]
fn a_clean_log_without_the_harness_s_evidence_is_inconclusive() {
    let log = clean_log(Tool::Memcheck);
    let with = |change: fn(&mut EndMark)| {
        let mut end = good_end();
        change(&mut end);
        stdout(end)
    };
    for (stdout, said) in [
        (String::new(), "no end marker"),
        (stdout(good_end()).replace(NONCE, "ff"), "another nonce"),
        (stdout(good_end()).repeat(2), "more than one end marker"),
        (with(|end| end.launches = 0), "no launch"),
        (with(|end| end.sites.retain(|site, _| site != "yield")), "site yield was never passed"),
        (with(|end| end.sites.retain(|site, _| site != "claim")), "site claim was never passed"),
        (with(|end| end.sites.retain(|site, _| site != "copy")), "site copy was never passed"),
        (with(|end| end.wrong = 2), "2 outputs wrong"),
        (with(|end| end.configs.clear()), "no launch configuration"),
        (with(|end| end.configs[0].symbol = "other".into()), "kernel other is not in the build"),
        (with(|end| end.configs[0].cubin = None), "the cubin of yield_kernel"),
        (with(|end| end.configs[0].cubin = Some(Digest::of("x"))), "the cubin of yield_kernel"),
    ] {
        let verdict = verdict(Tool::Memcheck, &log, Some(0), &stdout);
        assert_eq!(verdict.state, State::Inconclusive, "{said}");
        assert!(verdict.why.contains(said), "{:?} does not say {said:?}", verdict.why);
    }
}

#[test]
fn a_program_without_yields_needs_only_copies() {
    let mut end = good_end();
    end.sites = Sites::from([("yield".to_owned(), 0), ("claim".to_owned(), 0), ("copy".to_owned(), 1)]);
    let (log, out) = (clean_log(Tool::Memcheck), stdout(end));
    let seen = Seen { tool: Tool::Memcheck, log: &log, code: Some(0), timed_out: false, stdout: &out, nonce: NONCE };
    assert_eq!(judge_program(&seen, &needs("drain_64"), &known()).state, State::Clean);
    assert_eq!(judge_program(&seen, &needs("poll_yield_64"), &known()).state, State::Inconclusive);
}

/// What the harness printed of each program on an H200, run under racecheck.
#[test]
fn captured_end_markers_hold_what_their_programs_need() {
    for program in ["timer", "calibrate", "baseline", "yield_p1_device"] {
        let out = fixture(&format!("captured-2025.3.1-racecheck-{program}.out"));
        let end = words::progress::end_mark(&out, "NONCE").unwrap();
        let known = Known {
            sass: end.configs.iter().map(|config| (config.symbol.clone(), Digest::of("sass"))).collect(),
            cubins: end.configs.iter().filter_map(|config| config.cubin).collect(),
        };
        let log = clean_log(Tool::Racecheck);
        let seen =
            Seen { tool: Tool::Racecheck, log: &log, code: Some(0), timed_out: false, stdout: &out, nonce: "NONCE" };
        let verdict = judge_program(&seen, &needs(program), &known);
        assert_eq!(verdict.state, State::Clean, "{program}: {}", verdict.why);
    }
}

#[test]
fn a_clean_log_with_another_ending_is_inconclusive() {
    let (log, out) = (clean_log(Tool::Racecheck), stdout(good_end()));
    for (code, timed_out, said) in [
        (Some(FOUND), false, "exit code 86 instead of 0"),
        (Some(7), false, "exit code 7"),
        (None, false, "signal"),
        (None, true, "deadline"),
        (Some(0), true, "deadline"),
    ] {
        let seen = Seen { tool: Tool::Racecheck, log: &log, code, timed_out, stdout: &out, nonce: NONCE };
        let verdict = judge_program(&seen, &needs("yield"), &known());
        assert_eq!(verdict.state, State::Inconclusive);
        assert!(verdict.why.contains(said), "{}", verdict.why);
    }
}

fn control(tool: Tool, log: &str, code: Option<i32>, timed_out: bool) -> Judgement {
    judge_control(&Seen { tool, log, code, timed_out, stdout: "", nonce: NONCE }, &known())
}

#[test]
fn each_planted_fault_is_caught_by_its_own_tool_only() {
    for tool in Tool::ALL {
        let caught = control(tool, &control_log(tool), Some(FOUND), false);
        assert_eq!((caught.state, caught.control_caught), (State::Finding, Some(true)), "{}", caught.why);
        for other in Tool::ALL.into_iter().filter(|other| *other != tool) {
            assert_eq!(control(tool, &control_log(other), Some(FOUND), false).control_caught, Some(false));
        }
    }
}

#[test]
fn a_planted_fault_is_not_caught_by_half_the_evidence() {
    for tool in Tool::ALL {
        let log = control_log(tool);
        let symbol = tool.control();
        for (log, code, timed_out, said) in [
            (log.clone(), Some(0), false, "exit code 0 instead of 86"),
            (log.clone(), Some(1), false, "exit code 1 instead of 86"),
            (log.clone(), None, true, "deadline"),
            (log.replace(symbol, "another_kernel"), Some(FOUND), false, "no finding of the planted kind"),
            (log.replace(symbol, &format!("{symbol}_2")), Some(FOUND), false, "no finding of the planted kind"),
            (clean_log(tool), Some(FOUND), false, "the summary counts nothing"),
            (clean_log(tool), Some(0), false, "the summary counts nothing"),
            (
                log.lines().filter(|line| !line.contains("SUMMARY")).collect::<Vec<_>>().join("\n"),
                Some(FOUND),
                false,
                "log",
            ),
            (String::new(), Some(FOUND), false, "no log"),
        ] {
            let missed = control(tool, &log, code, timed_out);
            assert_eq!(missed.control_caught, Some(false), "{tool:?} {said}");
            assert!(missed.why.contains(said), "{:?} does not say {said:?}", missed.why);
        }
    }
}

/// Whether two logs differ in nothing but lines that hold only the tool's prefix.
fn same_but_blank(log: &str, other: &str) -> bool {
    let said = |log: &str| -> Vec<String> {
        let lines = log.split('\n').filter(|line| !matches!(*line, "=========" | "========= "));
        lines.map(str::to_owned).collect()
    };
    said(log) == said(other)
}

#[test]
fn no_corruption_of_a_clean_log_is_clean() {
    let mut tried = 0;
    for tool in Tool::ALL {
        let log = clean_log(tool);
        crate::trial::corruption::each(&log, |what, damaged| {
            tried += 1;
            let clean = read(tool, damaged) == Reading::Clean;
            assert!(!clean || same_but_blank(&log, damaged), "{tool:?}, {what}: {damaged:?}");
        });
    }
    assert!(tried > 8_000, "{tried}");
}

/// Nor when it is damaged twice, wherever and however.
#[test]
fn no_second_corruption_mends_a_log() {
    let tool = Tool::Racecheck;
    let log = clean_log(tool);
    crate::trial::corruption::each_line(&log, |first, once| {
        crate::trial::corruption::each_line(once, |second, twice| {
            let clean = read(tool, twice) == Reading::Clean;
            assert!(!clean || same_but_blank(&log, twice), "{first}, then {second}: {twice:?}");
        });
    });
}

#[test]
fn no_corruption_of_a_finding_is_clean() {
    for tool in Tool::ALL {
        let whole = control_log(tool);
        let (banner, rest) = whole.split_once('\n').unwrap();
        let report: Vec<&str> = rest.lines().take(4).collect();
        let log = format!("{banner}\n{}\n{}\n", report.join("\n"), whole.lines().last().unwrap());
        crate::trial::corruption::each(&log, |what, damaged| {
            assert_ne!(read(tool, damaged), Reading::Clean, "{tool:?}, {what}: {damaged:?}");
        });
    }
}

/// The tool's own errors are counted in its summary; they are no findings, and the program's output is between its lines.
#[test]
fn what_was_not_checked_is_no_finding() {
    for (body, said) in [
        (
            "Error: Failed to initialize WDDM debugger interface. Please run EnableDebuggerInterface.bat as an administrator",
            "not checked: Error: Failed to initialize WDDM",
        ),
        (
            "Error: Device not supported. Please refer to the \"Supported Devices\" section",
            "not checked: Error: Device not",
        ),
        ("Confidential compute mode detected. compute-sanitizer will be disabled.", "not checked: Confidential"),
        ("CUDA initialized before the Sanitizer. The Sanitizer will be disabled", "not checked: CUDA initialized"),
        ("Error: Unable to find injection library libsanitizer-collection.so", "not checked: Error: Unable to find"),
    ] {
        let log = format!(
            "========= COMPUTE-SANITIZER\n========= {body}\n========= \nPASS N=1000\n========= ERROR SUMMARY: 2 errors\n"
        );
        let verdict = verdict(Tool::Memcheck, &log, Some(0), &stdout(good_end()));
        assert_eq!((verdict.state, verdict.findings), (State::Inconclusive, None), "{log}");
        assert!(verdict.why.contains(said), "{}", verdict.why);
    }
    // A report beside it stays a finding.
    let both = "========= COMPUTE-SANITIZER\n========= Warning: Device not supported\n========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 1 error\n";
    assert_eq!(read(Tool::Memcheck, both), Reading::Findings(1));
}

#[test]
fn captured_logs_of_programs_that_made_no_cuda_call_say_not_checked() {
    // The second ended with exit code 0, since `--require-cuda-init no` asked for it.
    for name in ["captured-2026.4.0-no-cuda-call.log", "captured-2026.4.0-no-cuda-call-not-required.log"] {
        for (tool, code) in Tool::ALL.into_iter().flat_map(|tool| [(tool, 0), (tool, 255)]) {
            let verdict = verdict(tool, &fixture(name), Some(code), &stdout(good_end()));
            assert_eq!(verdict.state, State::Inconclusive, "{name}");
            assert!(verdict.why.contains("not checked: "), "{}", verdict.why);
        }
    }
}

#[test]
fn a_failed_call_is_told_from_a_bad_access() {
    let why = |log: &str| verdict(Tool::Memcheck, log, Some(FOUND), &stdout(good_end())).why;
    let mixed = why(&fixture("captured-2026.4.0-memcheck-control.log"));
    assert!(mixed.contains("12 findings (printed: API error 11 times, memory error 1 times)"), "{mixed}");
    let api = "========= COMPUTE-SANITIZER\n\
        ========= Program hit CUDA_ERROR_NOT_FOUND (error 500) due to \"named symbol not found\" on CUDA API call to cuGetProcAddress_v2.\n\
        =========     Saved host backtrace up to driver entry point at error\n========= ERROR SUMMARY: 1 error\n";
    assert!(why(api).contains("1 finding (printed: API error 1 times)"), "{}", why(api));
    let odd = "========= COMPUTE-SANITIZER\n========= Invalid __shared__ ? of size 2048 bytes\n\
        =========     at kern_gemm+0x1a40 in gemm.cu:118\n=========     Address 0x1a400 is out of bounds\n\
        ========= \n========= Barrier error detected. Missing wait.\n========= ERROR SUMMARY: 2 errors\n";
    assert!(why(odd).contains("2 findings (printed: barrier error 1 times, memory error 1 times)"), "{}", why(odd));
    let sorts: Vec<_> = Tool::ALL.map(|tool| super::log::sorts(&control_log(tool))).to_vec();
    assert_eq!(sorts[1]["race"], 100);
    assert_eq!(sorts[2]["uninitialised access"], 31);
    assert_eq!(sorts[3]["barrier error"], 16);
}

#[test]
fn a_count_that_stopped_is_the_least_there_is() {
    let log = "========= COMPUTE-SANITIZER\n\
        ========= Warning: Maximum number of hazards reached. Environment variable NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS can be used to increase this count.\n\
        ========= \n========= Warning: Race reported between Read access at kern+0x260\n\
        =========     and Write access at kern+0x200 [120345 hazards]\n";
    let summary = "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n";
    let capped = verdict(Tool::Racecheck, &format!("{log}{summary}"), Some(0), &stdout(good_end()));
    assert_eq!((capped.state, capped.findings), (State::Finding, Some(1)));
    assert!(capped.why.starts_with("at least 1 finding (printed: race 1 times)"), "{}", capped.why);
    // Neither without a summary nor with a clean one is it clean.
    let clean = clean_log(Tool::Racecheck).lines().last().unwrap().to_owned();
    for log in [log.to_owned(), format!("{log}{clean}\n")] {
        assert_eq!(state_of(Tool::Racecheck, &log), State::Inconclusive, "{log}");
    }
    let printed = why_of_limit("========= ERROR SUMMARY: 157 errors were not printed. Use --print-limit option\n");
    assert!(printed.starts_with("at least 257 findings"), "{printed}");
    assert!(why_of_limit("").starts_with("257 findings"), "{}", why_of_limit(""));
}

fn why_of_limit(more: &str) -> String {
    let log = format!("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 257 errors\n{more}");
    verdict(Tool::Memcheck, &log, Some(FOUND), &stdout(good_end())).why
}

#[test]
fn what_a_kernel_prints_is_no_clean_run() {
    let log = clean_log(Tool::Memcheck);
    let said = "Attempting to use wgmma.fence without CUTE_ARCH_MMA_SM90A_ENABLED\n";
    for printed in [format!("{said}{}", stdout(good_end())), format!("\u{1b}[2Jx\n{}", stdout(good_end()))] {
        let verdict = verdict(Tool::Memcheck, &log, Some(0), &printed);
        assert_eq!(verdict.state, State::Inconclusive);
        assert!(verdict.why.contains("stdout holds a line that the harness does not print: "), "{}", verdict.why);
        assert!(!verdict.why.contains('\u{1b}'));
    }
}

/// A kept verdict with the files it was made from.
fn kept(tool: Tool, control: bool) -> (schema::sanitize::SanitizerVerdict, String, String) {
    let log = if control { control_log(tool) } else { clean_log(tool) };
    let printed = stdout(good_end());
    let seen = Seen {
        tool,
        log: &log,
        code: Some(if control { FOUND } else { 0 }),
        timed_out: false,
        stdout: &printed,
        nonce: NONCE,
    };
    let judged = if control { judge_control(&seen, &known()) } else { judge_program(&seen, &needs("yield"), &known()) };
    let verdict = schema::sanitize::SanitizerVerdict {
        format: schema::sanitize::VERDICT_FORMAT,
        tool,
        program: "yield".into(),
        state: judged.state,
        why: judged.why,
        findings: judged.findings,
        control_caught: judged.control_caught,
        nonce: NONCE.into(),
        exit_code: seen.code,
        launches: judged.end.launches,
        sites: judged.end.sites,
        configs: judged.end.configs,
        sass: judged.sass,
        tool_version: "Version 2026.4.0.0".into(),
        tool_digest: Digest::of("tool"),
        log: "x.log".into(),
        log_digest: Digest::of(&log),
        printed: None,
        seconds: 1.0,
    };
    (verdict, log, printed)
}

#[test]
fn a_kept_verdict_is_borne_out_by_its_files_alone() {
    for tool in Tool::ALL {
        let (program, clean, printed) = kept(tool, false);
        let (control, caught, _) = kept(tool, true);
        let holds = |verdict: &schema::sanitize::SanitizerVerdict, log: &str, printed: &str| {
            faults(verdict, log, Some(printed)).is_empty()
        };
        assert!(holds(&program, &clean, &printed) && holds(&control, &caught, &printed));
        for log in [&caught, &clean[..clean.len() / 2], ""] {
            assert!(!holds(&program, log, &printed), "{log}");
        }
        assert!(!holds(&control, &clean, &printed));
        for other in [
            String::new(),
            printed.replace(NONCE, "ff"),
            printed.replace("\"launches\":3", "\"launches\":4"),
            printed.replace("\"copy\":1", "\"copy\":2"),
            printed.replace("event_device", "plain"),
            printed.replace("\"wrong\":0", "\"wrong\":1"),
            format!("a kernel's word\n{printed}"),
            printed.repeat(2),
        ] {
            assert!(other != printed && !holds(&program, &clean, &other), "{other}");
        }
        let mut counted = program.clone();
        counted.findings = None;
        assert!(!holds(&counted, &clean, &printed));
        let mut counted = control.clone();
        counted.findings = Some(70_000);
        assert!(!holds(&counted, &caught, &printed));
        // Whether it may have kept its log alone is the gate's to say.
        assert!(faults(&program, &clean, None).is_empty());
        assert!(!faults(&program, &caught, None).is_empty());
    }
}

/// The verdict over a planted kernel that was run on an H200 under a tool, judged as the pipeline would have judged it.
fn audited(fault: &str, tool: Tool, code: i32) -> Judgement {
    let stem = format!("{}/../testdata/audit/captured-h200-{fault}-{}", env!("CARGO_MANIFEST_DIR"), tool.name());
    let [log, stdout] = ["log", "out"].map(|end| fs_err::read_to_string(format!("{stem}.{end}")).unwrap());
    let nonce = "captured";
    let configs = end_mark(&stdout, nonce).map(|end| end.configs).unwrap_or_default();
    let known = Known {
        sass: configs.iter().map(|config| (config.symbol.clone(), Digest::of("sass"))).collect(),
        cubins: configs.iter().filter_map(|config| config.cubin).collect(),
    };
    let seen = Seen { tool, log: &log, code: Some(code), timed_out: false, stdout: &stdout, nonce };
    judge_program(&seen, &needs("yield_p1_device"), &known)
}

/// No tool sees a flag that is polled with a plain load or a claim that is no exchange: both are in global memory, and racecheck looks at
/// shared memory. Slowed down by a tool, most of these runs even did their work right. Without one both programs ended with 17,
/// and that counts.
#[test]
fn captured_faults_of_unsynchronised_kernels_are_clean_or_inconclusive_to_the_tools() {
    let clean = [
        ("flag", [Tool::Racecheck, Tool::Synccheck, Tool::Memcheck].as_slice()),
        ("claim", &[Tool::Racecheck, Tool::Synccheck]),
    ];
    for (fault, tool) in clean.iter().flat_map(|(fault, tools)| tools.iter().map(move |tool| (fault, *tool))) {
        let mut judged = audited(fault, tool, 0);
        assert_eq!((judged.state, judged.findings), (State::Clean, Some(0)), "{fault} {tool:?}: {}", judged.why);
        judged.fails_without_a_tool("exit code 17: error: 0 of 3 events were served");
        assert_eq!((judged.state, judged.findings), (State::Inconclusive, Some(0)));
        assert_eq!(judged.why, "without a tool: exit code 17: error: 0 of 3 events were served");
    }
    // Here the fault showed: the harness missed an event and ended with 17. The tool's count is zero all the same.
    let failed = audited("claim", Tool::Memcheck, 17);
    assert_eq!(failed.state, State::Inconclusive);
    for said in ["no end marker from the harness", "exit code 17 instead of 0"] {
        assert!(failed.why.contains(said), "{}", failed.why);
    }
    // A finding stays one.
    let mut found = verdict(Tool::Racecheck, &control_log(Tool::Racecheck), Some(FOUND), &stdout(good_end()));
    found.fails_without_a_tool("exit code 17");
    assert_eq!(found.state, State::Finding);
    assert!(found.why.ends_with("; without a tool: exit code 17"), "{}", found.why);
}
