//! Gate `structure`: every task and every event happened once, and the tables agree with each other, as the
//! contract's checks say.

use super::checks::{Story, timer_slack_ns};
use super::evidence::Evidence;
use super::rule::Rule;
use super::table::{over_launches, sum, sum_where, u32s, working_cells};
use schema::contract::{Check, LaunchSpec};
use schema::verdict::GateResult;
use std::collections::BTreeMap;
use tables::Table;

const AGAIN: &str = "measure again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("structure");
    let spec = &evidence.contract.launches;
    let (mut done, mut launch_count) = (BTreeMap::<&str, u64>::new(), 0);
    let reasons = over_launches(working_cells(evidence), |_, launches| {
        launch_count += launches.rows() as u64;
        for balance in &spec.work {
            *done.entry(&balance.done).or_default() += sum(launches, &balance.done)?;
        }
        unbalanced(spec, launches)
    });
    rule.must_count("launches", launch_count, AGAIN);
    rule.must_count("work_done", done.values().sum(), AGAIN);
    rule.count("work", done);
    rule.refuse_all(reasons, AGAIN);
    judge_checks(&mut rule, evidence);
    rule.done()
}

/// Carries out the contract's checks of tables, and shows the kinds of check that no cell asks for.
fn judge_checks(rule: &mut Rule, evidence: &Evidence) {
    let slack = timer_slack_ns(evidence);
    let (mut counted, mut reasons): (BTreeMap<&str, u64>, Vec<String>) = (BTreeMap::new(), Vec::new());
    for cell in &evidence.cells {
        let found = Story::new(evidence, cell, slack).and_then(|story| match story {
            Some(story) => {
                let mut found = story.told_by_all()?;
                for check in story.spec.checks.iter().filter(|check| !matches!(check, Check::OneState { .. })) {
                    *counted.entry(check.kind()).or_default() += 1;
                    found.extend(story.failed(check)?);
                }
                Ok(found)
            }
            None => Ok(Vec::new()),
        });
        let found = found.unwrap_or_else(|error| vec![error]);
        reasons.extend(found.into_iter().map(|reason| format!("{}: {reason}", cell.name())));
    }
    let unasked: Vec<&str> =
        Check::KINDS.into_iter().filter(|kind| *kind != "one_state" && !counted.contains_key(kind)).collect();
    rule.count("checks", counted);
    rule.count("checks_not_asked_for", unasked);
    rule.refuse_all(reasons, AGAIN);
}

/// Launch by launch, since two errors of opposite sign must not cancel.
fn unbalanced(spec: &LaunchSpec, launches: &Table) -> Result<Vec<String>, String> {
    let every = vec![true; launches.rows()];
    let measured: Vec<bool> = u32s(launches, "warmup")?.iter().map(|warmup| *warmup == 0).collect();
    let counts = |warmup: bool| if warmup { &every } else { &measured };
    let mut reasons = Vec::new();
    for balance in &spec.work {
        let pairs = u32s(launches, &balance.asked)?.iter().zip(u32s(launches, &balance.done)?);
        let judged = pairs.zip(counts(balance.warmup)).filter(|(_, counts)| **counts);
        let differing = judged.filter(|((asked, done), _)| asked != done).count();
        if differing > 0 {
            reasons.push(format!("{differing} launches did not execute exactly the {}", balance.what));
        }
    }
    for tally in spec.once.iter().chain(&spec.zero) {
        let found = sum_where(launches, &tally.column, counts(tally.warmup))?;
        if found > 0 {
            reasons.push(format!("{found} {}", tally.what));
        }
    }
    Ok(reasons)
}
