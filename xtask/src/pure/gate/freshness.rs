//! Gate `freshness`: the SASS that was measured is the SASS that this tree builds.

use super::evidence::{Evidence, Facts};
use super::rule::Rule;
use crate::pure::measured::measured_sass;
use schema::verdict::GateResult;

const REBUILD: &str = "cargo xtask build; if the digests still differ, measure the new kernels";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let mut rule = Rule::new("freshness");
    let arch = &evidence.environment.device.arch;
    let measured = evidence.build.as_ref().map(|build| measured_sass(build, arch)).unwrap_or_default();
    rule.must_count("kernels", measured.len() as u64, REBUILD);
    let Some(built) = &facts.built else {
        rule.refuse("this tree was not built, so nothing is known of its SASS", REBUILD);
        return rule.done();
    };
    rule.count("built", built);
    let mut stale = Vec::new();
    for (symbol, digest) in &measured {
        match built.get(symbol) {
            Some(now) if now == digest => {}
            Some(now) => stale.push(format!("{symbol}: measured {}, this tree builds {}", digest.short(), now.short())),
            None => stale.push(format!("{symbol}: this tree builds no such kernel")),
        }
    }
    rule.count("equal", measured.len() - stale.len());
    rule.refuse_all(stale, REBUILD);
    rule.done()
}
