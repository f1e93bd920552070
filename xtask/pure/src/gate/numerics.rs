//! Gate `numerics`: every output was checked, in every launch, by an oracle that catches a planted wrong element.

use super::evidence::Evidence;
use super::rule::Rule;
use super::table::{over_launches, poisoned, sum, sum_where, u32s, working_cells};
use schema::contract::{LaunchSpec, Tally};
use schema::facts::{MAX_RELATIVE_ERROR, POISON_CAUGHT};
use schema::verdict::GateResult;
use tables::Table;

const FIND_IT: &str = "find the wrong output before measuring again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("numerics");
    let spec = &evidence.contract.launches;
    let (mut outputs, mut launches_seen, mut spoiled) = (0, 0, 0);
    let reasons = over_launches(working_cells(evidence), |cell, launches| {
        launches_seen += launches.rows() as u64;
        for balance in &spec.work {
            outputs += sum(launches, &balance.done)?;
        }
        let poisoned = poisoned(cell, launches)?;
        spoiled += poisoned.iter().filter(|poisoned| **poisoned).count() as u64;
        let mut reasons = wrong_outputs(spec, launches, &poisoned)?;
        reasons.extend(missed_poison(spec, launches, &poisoned)?);
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

fn wrong_outputs(spec: &LaunchSpec, launches: &Table, poisoned: &[bool]) -> Result<Vec<String>, String> {
    let sound: Vec<bool> = poisoned.iter().map(|poisoned| !poisoned).collect();
    let mut reasons = Vec::new();
    for Tally { column, what, .. } in &spec.wrong {
        let found = sum_where(launches, column, &sound)?;
        if found > 0 {
            reasons.push(format!("{found} {what}"));
        }
    }
    Ok(reasons)
}

/// In a launch with a planted wrong element exactly one output is wrong. An oracle that reports none, or more than
/// one, did not catch what was planted.
fn missed_poison(spec: &LaunchSpec, launches: &Table, poisoned: &[bool]) -> Result<Option<String>, String> {
    let column = spec.poison.as_ref().ok_or("the contract names no column for a planted wrong element")?;
    let wrong = u32s(launches, column)?.iter().zip(poisoned);
    let missed = wrong.filter(|(wrong, poisoned)| **poisoned && **wrong != 1).count();
    Ok((missed > 0).then(|| format!("the oracle missed the planted wrong element in {missed} launches")))
}

/// A launch with a planted wrong element must not be measured.
fn measured_poison(launches: &Table, poisoned: &[bool]) -> Result<Option<String>, String> {
    let kept =
        u32s(launches, "warmup")?.iter().zip(poisoned).filter(|(warm, poisoned)| **poisoned && **warm == 0).count();
    Ok((kept > 0).then(|| format!("{kept} launches with a planted wrong element were counted as measurements")))
}

fn judge_poison(rule: &mut Rule, evidence: &Evidence) {
    let caught = |cell: &super::evidence::CellEvidence| cell.data.record.facts.flag(POISON_CAUGHT);
    rule.must_count(
        POISON_CAUGHT,
        evidence.cells.iter().filter(|cell| caught(cell) == Some(true)).count() as u64,
        FIND_IT,
    );
    let mut reasons = Vec::new();
    for cell in &evidence.cells {
        let owed = cell.spec(&evidence.contract).is_some_and(|spec| spec.poison);
        match caught(cell) {
            Some(false) => reasons.push(format!("{}: the oracle missed a planted wrong element", cell.name())),
            None if owed => reasons.push(format!("{}: no wrong element was planted", cell.name())),
            _ => {}
        }
    }
    rule.refuse_all(reasons, FIND_IT);
    let errors = evidence.cells.iter().filter_map(|cell| cell.data.record.facts.number(MAX_RELATIVE_ERROR));
    rule.count(MAX_RELATIVE_ERROR, errors.reduce(f64::max));
}
