//! Gate `freshness`: the SASS that was measured is the SASS that this tree builds.

use super::evidence::{Evidence, Facts};
use super::rule::Rule;
use crate::book::standing::compare;
use crate::identity::measured::measured_sass;
use schema::verdict::GateResult;

const REBUILD: &str = "cargo xtask build; if the digests still differ, measure the new kernels";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let mut rule = Rule::new("freshness");
    let arch = &evidence.environment.device.arch;
    let measured = evidence.build.as_ref().map(|build| measured_sass(build, arch)).unwrap_or_default();
    rule.must_count("kernels", measured.len() as u64, REBUILD);
    let Some(built) = &facts.built else {
        rule.refuse("this tree was not built, so its SASS is unknown", REBUILD);
        return rule.done();
    };
    rule.count("built", built);
    let stale = compare(&measured, built);
    rule.count("equal", measured.len() - stale.len());
    rule.refuse_all(stale.iter().map(ToString::to_string).collect(), REBUILD);
    rule.done()
}
