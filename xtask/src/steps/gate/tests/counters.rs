//! Gate `build` with hardware counters: they must follow from their logs, agree with the cubins, and show no local memory.

use super::{evidence, refuses};
use pure::gate::evidence::{CounterEvidence, Evidence};
use pure::gate::judge;
use schema::counters::{CountedLaunch, CountedProgram, CounterReport};

/// Counters that agree with every kernel of the trial.
fn agreeing(evidence: &Evidence) -> CounterEvidence {
    let kernels = &evidence.build.as_ref().unwrap().kernels;
    let arch = &evidence.environment.device.arch;
    let launches = kernels.iter().filter(|kernel| kernel.arch == *arch).map(|kernel| CountedLaunch {
        symbol: kernel.symbol.clone(),
        grid: 3,
        block: 128,
        registers: kernel.registers.into(),
        fits: [("registers".to_owned(), kernel.blocks_per_sm.into()), ("shared_mem".to_owned(), 1)].into(),
        local_loads: 0,
        local_stores: 0,
    });
    let program =
        CountedProgram { program: "drain".into(), not_counted: None, log: None, launches: launches.collect() };
    let report = CounterReport { format: 1, profiler: None, unreadable: None, programs: vec![program] };
    CounterEvidence { report, faults: Vec::new() }
}

fn plant(change: impl FnOnce(&mut CountedLaunch)) -> impl FnOnce(&mut Evidence, &mut pure::gate::Facts) {
    move |evidence, _| {
        let mut counters = agreeing(evidence);
        change(&mut counters.report.programs[0].launches[0]);
        evidence.counters = Some(counters);
    }
}

#[test]
fn counters_that_agree_are_counted_and_unreadable_ones_are_told() {
    let build = |evidence: &Evidence, facts: &_| judge(evidence, facts).remove(2);
    let (mut evidence, facts) = evidence();
    assert!(!build(&evidence, &facts).evidence.contains_key("counted_launches"));
    evidence.counters = Some(agreeing(&evidence));
    let n = evidence.counters.as_ref().unwrap().report.programs[0].launches.len();
    let found = build(&evidence, &facts);
    assert!(found.passed && n > 0, "{}", found.reason);
    assert_eq!(found.evidence["counted_launches"], n);
    assert!(!found.evidence.contains_key("counters_unreadable"));
    let report =
        CounterReport { format: 1, profiler: None, unreadable: Some("no permission".into()), programs: vec![] };
    evidence.counters = Some(CounterEvidence { report, faults: Vec::new() });
    let found = build(&evidence, &facts);
    assert!(found.passed && found.evidence["counters_unreadable"] == "no permission", "{}", found.reason);
}

#[test]
fn counters_that_contradict_the_build_are_refused() {
    refuses("build", "used local memory: 1 loads and 0 stores", plant(|launch| launch.local_loads = 1));
    refuses("build", "used local memory: 0 loads and 2 stores", plant(|launch| launch.local_stores = 2));
    refuses("build", "registers; its cubin says", plant(|launch| launch.registers += 1));
    refuses(
        "build",
        "blocks fit on an SM by registers",
        plant(|launch| {
            *launch.fits.get_mut("registers").unwrap() -= 1;
        }),
    );
    refuses("build", "is not in the build record", plant(|launch| launch.symbol = "other".to_owned()));
    refuses("build", "its log is absent", |evidence, _| {
        let mut counters = agreeing(evidence);
        counters.faults.push("drain: its log is absent or changed".to_owned());
        evidence.counters = Some(counters);
    });
}
