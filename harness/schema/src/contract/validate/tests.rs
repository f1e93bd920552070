//! A small made-up contract, and every way in which one is refused.

use super::*;
use crate::contract::{
    Balance, BlocksSpec, ColumnSpec, Derivation, Derive, Expects, Kind, LaunchKind, LaunchSpec, MetricSpec, Only,
    ProgramSpec, Q, Redraws, Tally, Unit, Warmup,
};
use crate::timer;
use std::collections::BTreeMap;

fn column(name: &str, kind: Kind, role: Role) -> ColumnSpec {
    ColumnSpec { name: name.into(), kind, role }
}

fn table() -> TableSpec {
    let columns = [
        ("launch", Kind::U32, Role::Index),
        ("event", Kind::U32, Role::Index),
        ("arm", Kind::U32, Role::Index),
        ("begin_ns", Kind::I64, Role::DeviceInstant),
        ("end_ns", Kind::I64, Role::DeviceInstant),
        ("asked_ns", Kind::I64, Role::HostInstant),
        ("wall_ns", Kind::U32, Role::DeviceDuration),
    ];
    let derived = vec![Derivation { event: "end_ns".into(), how: Derive::Max("end_ns".into()) }];
    let columns_of_blocks = ["launch", "event", "block", "end_ns"].map(str::to_owned).into();
    TableSpec {
        columns: columns.map(|(name, kind, role)| column(name, kind, role)).into(),
        key: vec!["launch".into(), "event".into()],
        blocks: Some(BlocksSpec { columns: columns_of_blocks, derived }),
    }
}

fn cell(name: &str) -> CellSpec {
    let warmup = Warmup::new(Some(2), Redraws::None);
    CellSpec {
        phase: "forward".into(),
        name: name.into(),
        role: name.into(),
        table: "events".into(),
        outputs: true,
        poison: true,
        estimate_s: 1.0,
        launches: vec![LaunchKind {
            mode: "forward".into(),
            grid: Some(8),
            symbol_end: String::new(),
            slot: Some("forward_per_sm".into()),
        }],
        guest: None,
        expects: Expects { events: 10, launches: 10, tails: false, warmup },
        checks: vec![Check::Ordered { from: Some("begin_ns".into()), to: "end_ns".into() }],
        metrics: vec![metric(time(between("begin_ns", "end_ns")))],
    }
}

fn between(from: &str, to: &str) -> Expr {
    Expr::Between(from.into(), to.into())
}

fn time(of: Expr) -> Recipe {
    Recipe::Quantiles {
        stem: "kernel".into(),
        unit: Unit::DeviceUs,
        of,
        quantiles: vec![Q::P50],
        by: "launch".into(),
        only: None,
    }
}

fn metric(recipe: Recipe) -> MetricSpec {
    MetricSpec { recipe, ends: None, shown: true }
}

fn sound() -> Contract {
    let tally = |column: &str| Tally { column: column.into(), what: column.into(), warmup: true };
    let work = vec![Balance { asked: "asked".into(), done: "done".into(), what: "rows".into(), warmup: true }];
    Contract {
        format: crate::FORMAT,
        experiment: "gelu".into(),
        slots: BTreeMap::from([("forward_per_sm".into(), "forward".into())]),
        launches: LaunchSpec {
            work,
            wrong: vec![tally("wrong")],
            poison: Some("wrong".into()),
            once: vec![tally("not_once")],
            zero: Vec::new(),
        },
        tables: BTreeMap::from([(timer::TABLE.into(), timer::table()), ("events".into(), table())]),
        cells: vec![timer::cell("instrument", 4, 8), cell("n=1"), cell("n=2")],
        programs: vec![ProgramSpec { name: "forward".into(), sites: Vec::new() }],
        figures: Vec::new(),
        headline: Vec::new(),
    }
}

/// Breaks a sound contract and expects a reader's refusal to say so.
fn check_refused(break_it: impl FnOnce(&mut Contract), expected: &str) {
    let mut contract = sound();
    break_it(&mut contract);
    let bytes = serde_json::to_vec(&contract).unwrap();
    let message = format!("{:#}", Contract::parse(&bytes).expect_err(expected));
    assert!(message.contains(expected), "{message:?} lacks {expected:?}");
}

/// As [`check_refused`], of the cell `forward/n=1`.
fn check_cell_refused(break_it: impl FnOnce(&mut CellSpec), expected: &str) {
    check_refused(|contract| break_it(&mut contract.cells[1]), &format!("cell forward/n=1: {expected}"));
}

fn events(contract: &mut Contract) -> &mut TableSpec {
    contract.tables.get_mut("events").unwrap()
}

#[test]
fn a_sound_contract_comes_back_as_written() {
    let contract = sound();
    assert_eq!(Contract::parse(&serde_json::to_vec(&contract).unwrap()).unwrap(), contract);
    let columns = contract.all_launch_columns();
    assert_eq!(columns[..7], ["launch", "config", "warmup", "host_start_ns", "wall_ns", "asked", "done"]);
    assert_eq!(columns[7..10], ["wrong", "not_once", "sms"]);
}

#[test]
fn what_no_contract_may_leave_out() {
    check_refused(|c| drop(c.cells.remove(0)), "one cell of the timer, and this one has 0");
    check_refused(|c| c.cells.push(timer::cell("again", 4, 8)), "one cell of the timer, and this one has 2");
    check_refused(|c| drop(c.tables.remove(timer::TABLE)), "the timer's table has columns of its own");
    let widen = |c: &mut Contract| {
        c.tables.get_mut(timer::TABLE).unwrap().columns.push(column("more", Kind::U32, Role::Count));
    };
    check_refused(widen, "the timer's table has columns of its own");
    check_refused(|c| c.cells.iter_mut().for_each(|cell| cell.poison = false), "no cell plants a wrong element");
    check_refused(|c| c.programs.clear(), "no sanitizer program");
    check_refused(|c| c.launches.work.clear(), "no launch column counts work");
    check_refused(|c| c.launches.poison = None, "launches.poison names no column");
    check_refused(|c| c.launches.poison = Some("not_once".into()), "launches.poison names no column");
    check_refused(|c| c.format = crate::FORMAT + 1, "newer");
    check_refused(|c| c.cells[0].outputs = true, "cell instrument/timer: every cell but the timer's makes outputs");
    check_cell_refused(|cell| cell.outputs = false, "every cell but the timer's makes outputs");
}

#[test]
fn names_are_given_once_and_known() {
    check_refused(|c| c.launches.once[0].column = "asked".into(), "launch columns: \"asked\" comes twice");
    check_refused(|c| c.launches.once[0].column = "warmup".into(), "launch columns: \"warmup\" comes twice");
    check_refused(|c| c.cells[2].name = "n=1".into(), "cells: \"forward/n=1\" comes twice");
    check_refused(|c| events(c).columns[3].name = "end_ns".into(), "table events: columns: \"end_ns\" comes twice");
    check_cell_refused(|cell| cell.table = "tiles".into(), "it fills a table \"tiles\" that is not there");
    check_cell_refused(|cell| cell.launches[0].slot = Some("backward_per_sm".into()), "slot \"backward_per_sm\"");
}

#[test]
fn a_table_names_its_rows() {
    check_refused(|c| events(c).key.clear(), "table events: a key has one to three columns");
    check_refused(|c| events(c).key = vec!["launch".into(); 4], "table events: a key has one to three columns");
    check_refused(|c| events(c).key = vec!["block".into()], "table events: the table has no column \"block\"");
    check_refused(|c| events(c).blocks.as_mut().unwrap().columns.swap(0, 1), "begin with launch, event, block");
    let derive = |event: &str, column: &str| Derivation { event: event.into(), how: Derive::Min(column.into()) };
    let derived = |derivation| move |c: &mut Contract| events(c).blocks.as_mut().unwrap().derived.push(derivation);
    check_refused(derived(derive("seen_ns", "end_ns")), "table events: the table has no column \"seen_ns\"");
    check_refused(derived(derive("begin_ns", "seen_ns")), "rows of blocks have no column \"seen_ns\"");
}

#[test]
fn a_cell_runs_something() {
    check_cell_refused(|cell| cell.launches.clear(), "it promises no launch");
    check_cell_refused(|cell| cell.expects.launches = 0, "it expects no launch");
}

#[test]
fn a_check_names_columns_that_are_there() {
    let gone = || "gone".to_owned();
    let checks = [
        Check::Ordered { from: Some(gone()), to: "end_ns".into() },
        Check::Ordered { from: None, to: gone() },
        Check::InsideLaunch { begin: gone(), ends: vec!["end_ns".into()] },
        Check::InsideLaunch { begin: "begin_ns".into(), ends: vec!["end_ns".into(), gone()] },
        Check::Increasing { column: gone() },
        Check::Present { column: gone() },
        Check::TakesLaunch { column: gone() },
        Check::AddUpWithinLaunch { column: gone(), by: "arm".into() },
        Check::AddUpWithinLaunch { column: "wall_ns".into(), by: gone() },
        Check::MakeThroughput { column: "wall_ns".into(), by: gone(), done: "executed".into() },
        Check::ArmOfLaunch { column: gone(), symbol_end: String::new() },
        Check::Positive { column: gone(), what: String::new() },
        Check::SameForAll { column: gone(), what: String::new() },
        Check::OneState { column: gone(), by: None },
        Check::OneState { column: "wall_ns".into(), by: Some(gone()) },
    ];
    for check in checks {
        let words = format!("check {}: the table has no column \"gone\"", check.kind());
        check_cell_refused(|cell| cell.checks.push(check), &words);
    }
    for check in [Check::LaunchesHaveFact { column: gone(), fact: gone() }, Check::RowsAsAsked { column: gone() }] {
        let words = format!("check {}: the launch tables have no column \"gone\"", check.kind());
        check_cell_refused(|cell| cell.checks.push(check), &words);
    }
}

#[test]
fn a_recipe_names_columns_that_are_there() {
    let check = |recipe: Recipe, expected: &str| {
        let words = format!("{}: {expected}", recipe.names().join(", "));
        check_cell_refused(|cell| cell.metrics.push(metric(recipe)), &words);
    };
    let gone = || "gone".to_owned();
    let missing = "the table has no column \"gone\"";
    check(time(Expr::Column(gone())), missing);
    check(time(between("begin_ns", "gone")), missing);
    check(time(Expr::Rest("begin_ns".into(), "end_ns".into(), gone())), missing);
    check(
        Recipe::Correlation { name: "c".into(), a: Expr::Column("wall_ns".into()), b: Expr::Column(gone()) },
        missing,
    );
    check(Recipe::Largest { name: "l".into(), column: "wall_ns".into(), note: (gone(), String::new()) }, missing);
    check(Recipe::Largest { name: "l".into(), column: gone(), note: ("wall_ns".into(), String::new()) }, missing);
    let rate = |by: &str, only: Option<&str>| Recipe::Rate {
        name: "r".into(),
        work: Vec::new(),
        of: Expr::Column("wall_ns".into()),
        by: by.into(),
        only: only.map(|column| Only { column: column.into(), is: 0 }),
        peak: None,
    };
    check(rate("gone", None), missing);
    check(rate("launch", Some("gone")), missing);
    let abba = |[quad, position, arm, wall]: [&str; 4]| Recipe::Abba {
        name: "a".into(),
        quad: quad.into(),
        position: position.into(),
        arm: arm.into(),
        wall: wall.into(),
        against: None,
    };
    for place in 0..4 {
        let mut columns = ["launch", "event", "arm", "wall_ns"];
        columns[place] = "gone";
        check(abba(columns), missing);
    }
    let delay = |column: &str, spent: &str, of: &str| Recipe::PlantedDelay {
        leg: "l".into(),
        column: column.into(),
        number: 1,
        spent: spent.into(),
        planted_ns: 1,
        of: Expr::Column(of.into()),
        host: false,
    };
    check(delay("gone", "wall_ns", "end_ns"), missing);
    check(delay("arm", "gone", "end_ns"), missing);
    check(delay("arm", "wall_ns", "gone"), missing);
}

#[test]
fn instants_of_two_clocks_are_never_subtracted() {
    let check = |of: Expr| {
        let words = "kernel_us_p50: \"asked_ns\" and \"end_ns\" are not two instants of one clock";
        check_cell_refused(|cell| cell.metrics.push(metric(time(of))), words);
    };
    check(between("asked_ns", "end_ns"));
    check(Expr::Rest("asked_ns".into(), "end_ns".into(), "wall_ns".into()));
    let durations = metric(time(between("wall_ns", "wall_ns")));
    check_cell_refused(|cell| cell.metrics.push(durations), "kernel_us_p50: \"wall_ns\" and \"wall_ns\" are not two");
    // What another clock timed of an interval may be taken off it.
    let mut contract = sound();
    let rest = Expr::Rest("begin_ns".into(), "end_ns".into(), "wall_ns".into());
    contract.cells[1].metrics.push(metric(time(rest)));
    contract.check().unwrap();
}

#[test]
fn a_ratio_is_taken_over_a_cell_of_the_contract() {
    let ratio = |over: &str, over_of: Expr, of: Expr| metric(Recipe::Ratio { over: over.into(), over_of, of });
    let whole = || between("begin_ns", "end_ns");
    let mut contract = sound();
    contract.cells[1].metrics.push(ratio("forward/n=2", whole(), whole()));
    contract.check().unwrap();
    let check = |spec, words: &str| check_cell_refused(|cell| cell.metrics.push(spec), words);
    check(ratio("forward/n=3", whole(), whole()), "the ratio is taken over forward/n=3, which is no cell");
    check(ratio("forward/n=2", between("begin_ns", "gone"), whole()), "ratio: the table has no column \"gone\"");
    check(ratio("forward/n=2", between("asked_ns", "end_ns"), whole()), "ratio: \"asked_ns\" and \"end_ns\" are not");
    check(ratio("forward/n=2", whole(), Expr::Column("gone".into())), "ratio: the table has no column \"gone\"");
}

#[test]
fn launches_discarded_since_they_met_no_event_are_few() {
    let check = |redraws: Redraws, launches: u64, most: u64| assert_eq!(redraws.most(launches), most, "{redraws:?}");
    check(Redraws::None, 10_000, 0);
    check(Redraws::Missed, 10_000, 1_000);
    check(Redraws::Missed, 199, 20);
    check(Redraws::Missed, 210, 21);
    check(Redraws::Missed, 0, 20);
    check(Redraws::Dry, 10_000, 5);
    check(Redraws::Dry, 0, 5);
}
