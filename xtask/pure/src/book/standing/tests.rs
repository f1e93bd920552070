//! Which changes make a number stale that rests on one kernel. Whole runs are judged in `ask::status`.

use super::*;
use std::collections::BTreeSet;

fn basis() -> Basis {
    Basis {
        id: "tile_wall_us_p50@calibrate/k=64,blocks=4".into(),
        value: "3.392".into(),
        unit: "us".into(),
        kernels: BTreeSet::from(["calibrate".to_owned()]),
        plan: BTreeSet::new(),
    }
}

fn sass(of_calibrate: &str) -> BTreeMap<String, Digest> {
    BTreeMap::from([("calibrate".to_owned(), Digest::of(of_calibrate)), ("drain".to_owned(), Digest::of("drain"))])
}

fn same() -> Differences {
    let none = || Ok(Vec::new());
    Differences { built: Ok(sass("a")), harness: none(), toolkit: none(), image: none(), sources: none() }
}

fn check(now: &Differences, state: State, words: &str) {
    let Standing::Known(found, why) = judge(&basis(), &sass("a"), now, &Entries::default()) else {
        panic!("{now:?} is known");
    };
    assert_eq!(found, state, "{why:?}");
    assert!(why.join("; ").contains(words), "{why:?} lacks {words:?}");
}

#[test]
fn each_difference_makes_it_stale_and_is_named() {
    check(&same(), State::Current, "nothing it rests on has changed");
    check(&Differences { built: Ok(sass("b")), ..same() }, State::Stale, "kernel calibrate: measured");
    check(&Differences { built: Ok(BTreeMap::new()), ..same() }, State::Stale, "builds no such kernel");
    let differs = || Ok(vec!["x".to_owned()]);
    check(&Differences { harness: differs(), ..same() }, State::Stale, "harness: x");
    check(&Differences { toolkit: differs(), ..same() }, State::Stale, "toolkit: x");
    check(&Differences { image: differs(), ..same() }, State::Stale, "image: x");
    check(&Differences { sources: differs(), ..same() }, State::Current, "1 source file changed");
    let other = BTreeMap::from([("calibrate".to_owned(), Digest::of("a"))]);
    check(&Differences { built: Ok(other), ..same() }, State::Current, "nothing");
}

#[test]
fn what_cannot_be_compared_is_unknown_unless_something_else_decides() {
    let unbuilt = Differences { built: Err("not rebuilt".to_owned()), ..same() };
    let judged = judge(&basis(), &sass("a"), &unbuilt, &Entries::default());
    assert_eq!(judged, Standing::Unknown(vec!["not rebuilt".to_owned()]));
    let unbuilt_and_changed = Differences { harness: Ok(vec!["x".to_owned()]), ..unbuilt };
    check(&unbuilt_and_changed, State::Stale, "harness: x");
    let lost = judge(&basis(), &BTreeMap::new(), &same(), &Entries::default());
    assert!(matches!(lost, Standing::Unknown(why) if why[0].contains("does not name kernel calibrate")));
}
