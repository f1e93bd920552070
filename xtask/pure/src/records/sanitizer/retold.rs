//! Makes a stored verdict again from the log and the output that lie beside it, so that the stored one need not be
//! trusted.

use super::log::{Reading, planted, read};
use schema::sanitize::{SanitizerVerdict, State};
use words::progress::{end_mark, stray};

/// How a verdict differs from its log and from what the harness printed, both read again; empty when it does not.
///
/// `printed` is absent where the verdict names no such file, which the gate refuses.
pub fn faults(verdict: &SanitizerVerdict, log: &str, printed: Option<&str>) -> Vec<String> {
    let reading = read(verdict.tool, log);
    let findings = reading.findings();
    let mut faults = Vec::new();
    if findings != verdict.findings {
        faults.push(format!("its log counts {findings:?} findings, the verdict {:?}", verdict.findings));
    }
    if verdict.state == State::Clean && reading != Reading::Clean {
        faults.push("its log is not that of a clean run".to_owned());
    }
    if verdict.control_caught == Some(true) && planted(verdict.tool, log, verdict.tool.control()).is_none() {
        faults.push("its log does not show the planted fault".to_owned());
    }
    let Some(printed) = printed else { return faults };
    let end = end_mark(printed, &verdict.nonce);
    if verdict.state == State::Clean && verdict.control_caught.is_none() {
        match &end {
            Err(why) => faults.push(format!("the output of the harness does not show a clean run: {why}")),
            Ok(end) if end.wrong > 0 => faults.push(format!("the harness counted {} wrong outputs", end.wrong)),
            Ok(_) => {}
        }
        faults.extend(stray(printed).map(|_| "something else than the harness printed".to_owned()));
    }
    // A planted fault may end the program before its end marker; the verdict then lists no launch.
    let end = end.unwrap_or_default();
    if (end.launches, &end.sites, &end.configs) != (verdict.launches, &verdict.sites, &verdict.configs) {
        faults.push("the end marker names other launches, sites or configurations than the verdict".to_owned());
    }
    faults
}
