//! Gate `numerics`: every output was checked, in every launch, by an oracle that catches a planted wrong element.

use super::evidence::Evidence;
use super::rule::Rule;
use super::table::{over_launches, sum, working_cells};
use schema::plan::Phase;
use schema::verdict::GateResult;

const FIND_IT: &str = "find the wrong output before measuring again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("numerics");
    let (mut outputs, mut launches_seen) = (0, 0);
    let reasons = over_launches(working_cells(evidence), |_, launches| {
        launches_seen += launches.rows() as u64;
        outputs += sum(launches, "executed")? + sum(launches, "urgent_executed")?;
        let mut reasons = Vec::new();
        for (column, what) in [
            ("wrong_tiles", "tiles disagree with the oracle"),
            ("unwritten_tiles", "tiles were never written"),
            ("urgent_wrong", "urgent tiles disagree with the oracle"),
        ] {
            let found = sum(launches, column)?;
            if found > 0 {
                reasons.push(format!("{found} {what}"));
            }
        }
        Ok(reasons)
    });
    rule.must_count("launches", launches_seen, "measure again");
    rule.must_count("outputs_checked", outputs, "measure again");
    rule.refuse_all(reasons, FIND_IT);
    judge_poison(&mut rule, evidence);
    rule.done()
}

fn judge_poison(rule: &mut Rule, evidence: &Evidence) {
    let facts = || evidence.cells.iter().map(|cell| (cell, &cell.data.record.facts));
    let caught = facts().filter(|(_, f)| f.poison_caught == Some(true)).count() as u64;
    rule.must_count("poison_caught", caught, FIND_IT);
    let missed = facts().filter(|(_, f)| f.poison_caught == Some(false));
    let mut reasons: Vec<String> =
        missed.map(|(cell, _)| format!("{}: the oracle missed a planted wrong element", cell.name())).collect();
    let unproven = facts().filter(|(cell, f)| cell.data.record.phase == Phase::Calibrate && f.poison_caught.is_none());
    reasons.extend(unproven.map(|(cell, _)| format!("{}: no wrong element was planted", cell.name())));
    rule.refuse_all(reasons, FIND_IT);
    let worst = facts()
        .filter_map(|(_, f)| f.max_relative_error)
        .fold(None, |worst: Option<f64>, error| Some(worst.map_or(error, |known| known.max(error))));
    rule.count("max_relative_error", worst);
}
