//! Gate `numerics`: every output was checked, in every launch, by an oracle that catches a planted wrong element.

use super::evidence::Evidence;
use super::rule::Rule;
use super::table::{over_launches, poisoned, sum, sum_where, u32s, working_cells};
use schema::plan::Phase;
use schema::table::Table;
use schema::verdict::GateResult;

const FIND_IT: &str = "find the wrong output before measuring again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("numerics");
    let (mut outputs, mut launches_seen, mut spoiled) = (0, 0, 0);
    let reasons = over_launches(working_cells(evidence), |cell, launches| {
        launches_seen += launches.rows() as u64;
        outputs += sum(launches, "executed")? + sum(launches, "urgent_executed")?;
        let poisoned = poisoned(cell, launches)?;
        spoiled += poisoned.iter().filter(|poisoned| **poisoned).count() as u64;
        let mut reasons = wrong_outputs(launches, &poisoned)?;
        reasons.extend(missed_poison(launches, &poisoned)?);
        reasons.extend(measured_poison(launches, &poisoned)?);
        Ok(reasons)
    });
    rule.must_count("launches", launches_seen, "measure again");
    rule.must_count("outputs_checked", outputs, "measure again");
    rule.must_count("poisoned_launches", spoiled, FIND_IT);
    rule.refuse_all(reasons, FIND_IT);
    judge_poison(&mut rule, evidence);
    rule.done()
}

fn wrong_outputs(launches: &Table, poisoned: &[bool]) -> Result<Vec<String>, String> {
    let sound: Vec<bool> = poisoned.iter().map(|poisoned| !poisoned).collect();
    let mut reasons = Vec::new();
    for (column, what) in [
        ("wrong_tiles", "tiles disagree with the oracle"),
        ("unwritten_tiles", "tiles were never written"),
        ("urgent_wrong", "urgent tiles disagree with the oracle"),
    ] {
        let found = sum_where(launches, column, &sound)?;
        if found > 0 {
            reasons.push(format!("{found} {what}"));
        }
    }
    Ok(reasons)
}

/// One tile of a spoiled launch is wrong; an oracle that sees none, or more, does not see what was planted.
fn missed_poison(launches: &Table, poisoned: &[bool]) -> Result<Option<String>, String> {
    let wrong = u32s(launches, "wrong_tiles")?.iter().zip(poisoned);
    let missed = wrong.filter(|(wrong, poisoned)| **poisoned && **wrong != 1).count();
    Ok((missed > 0).then(|| format!("the oracle missed the wrong element in {missed} spoiled launches")))
}

/// A spoiled launch says nothing of the kernel's own output, so nothing may be measured with it.
fn measured_poison(launches: &Table, poisoned: &[bool]) -> Result<Option<String>, String> {
    let kept =
        u32s(launches, "warmup")?.iter().zip(poisoned).filter(|(warm, poisoned)| **poisoned && **warm == 0).count();
    Ok((kept > 0).then(|| format!("{kept} spoiled launches were measured")))
}

fn judge_poison(rule: &mut Rule, evidence: &Evidence) {
    let facts = || evidence.cells.iter().map(|cell| (cell, &cell.data.record.facts));
    let caught = facts().filter(|(_, f)| f.flag("poison_caught") == Some(true)).count() as u64;
    rule.must_count("poison_caught", caught, FIND_IT);
    let missed = facts().filter(|(_, f)| f.flag("poison_caught") == Some(false));
    let mut reasons: Vec<String> =
        missed.map(|(cell, _)| format!("{}: the oracle missed a planted wrong element", cell.name())).collect();
    let unproven =
        facts().filter(|(cell, f)| cell.data.record.phase == Phase::Calibrate && f.flag("poison_caught").is_none());
    reasons.extend(unproven.map(|(cell, _)| format!("{}: no wrong element was planted", cell.name())));
    rule.refuse_all(reasons, FIND_IT);
    let worst = facts()
        .filter_map(|(_, f)| f.number("max_relative_error"))
        .fold(None, |worst: Option<f64>, error| Some(worst.map_or(error, |known| known.max(error))));
    rule.count("max_relative_error", worst);
}
