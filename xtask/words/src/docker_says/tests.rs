//! Messages of docker, captured or taken from its source, and the kind that each is recognized as.

use super::*;

/// Texts of real engines (`captured`, with their versions) and in the shape of public reports (`synthetic`).
const REFUSALS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/docker/refusals.toml"));

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    refusal: Vec<Entry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    case: String,
    fixture: String,
    kind: Kind,
    code: i32,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    /// What the clause begins with; absent where it does not matter.
    #[serde(default)]
    said: String,
}

fn entries() -> Vec<Entry> {
    toml::from_str::<File>(REFUSALS).unwrap().refusal
}

/// Every entry of a case is of its kind, also in other letters and behind another version's wrapper.
fn check(case: &str) {
    let mut seen = 0;
    for entry in entries().iter().filter(|entry| entry.case == case) {
        let found = refusal(Some(entry.code), &entry.stderr, &entry.stdout);
        assert_eq!(found.kind, entry.kind, "{case}: {}{}", entry.stderr, entry.stdout);
        assert!(found.said.starts_with(&entry.said), "{case}: {}", found.said);
        assert!(!found.kind.remedy().is_empty() && !found.message("x").contains('\u{1b}'));
        seen += 1;
        if find(&entry.stderr).is_none() {
            continue;
        }
        let shouted = refusal(Some(1), &entry.stderr.to_uppercase(), "");
        assert_eq!(shouted.kind, entry.kind, "{case} in capitals");
        let wrapped =
            format!("time=\"now\" level=error msg=\"some new wrapper\"\n{}\nRun 'docker x --help'\n", entry.stderr);
        assert_eq!(refusal(None, &wrapped, "").kind, entry.kind, "{case} wrapped");
    }
    assert!(seen > 0, "no fixture of {case}");
}

#[test]
fn a_daemon_without_a_gpu_runtime() {
    check("B01");
}

#[test]
fn a_runtime_that_is_not_registered_is_the_same_condition() {
    check("B02");
}

#[test]
fn the_last_clause_of_the_gpu_runtime_tells() {
    check("B03");
}

#[test]
fn a_gpu_that_a_container_lost() {
    check("B05");
}

#[test]
fn a_gpu_that_may_not_be_opened() {
    check("B08");
}

#[test]
fn a_device_specification_that_does_not_resolve() {
    check("B09");
}

#[test]
fn down_and_forbidden_apart() {
    check("B11");
}

#[test]
fn what_docker_says_of_a_program_it_cannot_start() {
    check("B12");
}

#[test]
fn a_registry_that_has_it_no_more_is_not_the_network() {
    check("B14");
}

#[test]
fn a_limit_on_pulls() {
    check("B15");
}

#[test]
fn an_image_id_asked_of_a_registry() {
    check("B16");
}

#[test]
fn an_image_that_is_not_here() {
    check("B18");
}

#[test]
fn package_repositories() {
    check("B19");
}

#[test]
fn a_full_disk_wherever_it_is_said() {
    check("B20");
}

#[test]
fn a_name_that_is_taken() {
    check("B24");
}

#[test]
fn the_network() {
    check("network");
}

#[test]
fn a_daemon_on_another_machine_is_neither_down_nor_forbidden() {
    check("elsewhere");
}

#[test]
fn what_the_kernel_has_no_more_of_is_no_full_disk() {
    check("memory");
}

#[test]
fn others() {
    check("other");
}

#[test]
fn every_fixture_says_where_it_is_from() {
    let known = |entry: &Entry| entry.fixture == "synthetic" || entry.fixture.starts_with("captured client ");
    assert!(entries().iter().all(known));
}

#[test]
fn only_what_waiting_helps_is_tried_again() {
    assert!(RULES.iter().all(|(kind, _)| kind.may_pass() == (*kind == Kind::Busy)));
}

#[test]
fn a_long_line_keeps_its_end_and_escapes_go() {
    let long = format!("docker: {}: no space left on device", "x".repeat(2000));
    let found = refusal(Some(1), &long, "");
    assert!(found.said.ends_with("no space left on device") && found.said.chars().count() == 401);
    let coloured = refusal(Some(1), "\u{1b}[31mmanifest unknown\u{1b}[0m", "");
    assert_eq!((coloured.kind, coloured.said.as_str()), (Kind::ImageGone, "manifest unknown"));
}

#[test]
fn words_in_different_lines_are_not_put_together() {
    let found = refusal(Some(1), "permission denied\nconnect\n", "");
    assert_eq!((found.kind, found.said.as_str()), (Kind::Unknown, "connect"));
    assert_eq!(refusal(Some(1), "", "").said, "it said nothing");
}

#[test]
fn a_program_may_say_what_ran_out() {
    for (line, kind) in [
        ("fatal error: a.o: No space left on device", Kind::DiskFull),
        ("cp: error writing 'a': Disk quota exceeded", Kind::DiskFull),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", Kind::Memory),
        ("g++: fatal error: Killed signal terminated program cc1plus", Kind::Memory),
        ("terminate called after throwing an instance of 'std::bad_alloc'", Kind::Memory),
        ("sh: 1: Cannot fork: Resource temporarily unavailable", Kind::Memory),
        ("open kernels/a.cu: Too many open files", Kind::Memory),
    ] {
        let found = exhausted(&format!("first\n{line}\n")).unwrap();
        assert_eq!((found.kind, found.said.as_str()), (kind, line));
    }
    for other in ["manifest unknown", "nvcc error   : 'ptxas' died due to signal 11", "out of memory"] {
        assert_eq!(exhausted(other), None, "{other}");
    }
}
