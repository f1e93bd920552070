//! Whether a GPU was idle and healthy around a run. A state that could not be read counts as neither.

use schema::environment::{Reading, Snapshot, Watch};

/// The most that a GPU without work is busy: sampling itself may show.
pub const MOST_BUSY_PCT: u32 = 5;
/// The most memory that is in use on a GPU without work: the driver's own, or a small desktop's.
pub const MOST_IDLE_BYTES: u64 = 1 << 30;
/// The most corrected ECC errors in a run. Single ones cost nothing; a storm of them slows the memory they occur in.
pub const MOST_CORRECTED: u64 = 100;

/// What stands against the GPU being idle. Without any evidence it is not idle, it is unknown.
#[must_use]
pub fn against_idle(snapshot: &Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    match &snapshot.busy_pct {
        Reading::Value(pct) if *pct > MOST_BUSY_PCT => reasons.push(format!("something keeps the GPU busy ({pct} %)")),
        Reading::Value(_) => {}
        other => reasons.push(format!("how busy the GPU is {}", unread(other))),
    }
    match &snapshot.memory_used_bytes {
        Reading::Value(bytes) if *bytes > MOST_IDLE_BYTES => {
            reasons.push(format!("{} MiB of GPU memory are in use by others", bytes >> 20));
        }
        Reading::Value(_) => {}
        other => reasons.push(format!("the GPU's memory in use {}", unread(other))),
    }
    if let Reading::Value(n @ 1..) = &snapshot.processes {
        reasons.push(format!("{n} other processes have a compute context on the GPU"));
    }
    reasons
}

/// What stands against a run between these two looks at the GPU.
#[must_use]
pub fn against(watch: &Watch) -> Vec<String> {
    let mut reasons = Vec::new();
    for (when, snapshot) in [("before the run", &watch.before), ("after the run", &watch.after)] {
        let faults = against_idle(snapshot).into_iter().chain(against_health(snapshot));
        reasons.extend(faults.map(|fault| format!("{when}, {fault}")));
    }
    reasons.extend(watch.lost.iter().map(|said| format!("the GPU was lost during the run: {said}")));
    if let Some(most @ 2..) = watch.most_processes {
        reasons.push(format!("{most} processes were on the GPU at once during the run, ours among them"));
    }
    reasons.extend(errors_grew(watch));
    reasons.extend(cap_changed(watch));
    reasons
}

/// ECC and row remapping: a GPU without them is fine, one that does not say is not.
fn against_health(snapshot: &Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    for (what, reading) in [("corrected", &snapshot.ecc_corrected), ("uncorrected", &snapshot.ecc_uncorrected)] {
        if let Reading::Failed(_) = reading {
            reasons.push(format!("the count of {what} ECC errors {}", unread(reading)));
        }
    }
    match &snapshot.remap_problem {
        Reading::Value(true) => reasons.push("a row remap was pending or had failed".to_owned()),
        Reading::Failed(_) => reasons.push(format!("the state of row remapping {}", unread(&snapshot.remap_problem))),
        Reading::Value(false) | Reading::Unsupported => {}
    }
    reasons
}

/// Errors are counted since the driver was loaded, so the two counts are compared.
fn errors_grew(watch: &Watch) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some((before, after)) = both(watch, |s| &s.ecc_uncorrected)
        && after != before
    {
        reasons.push(format!("uncorrected ECC errors went from {before} to {after} during the run"));
    }
    if let Some((before, after)) = both(watch, |s| &s.ecc_corrected) {
        match after.checked_sub(before) {
            Some(grown) if grown > MOST_CORRECTED => {
                reasons.push(format!("{grown} ECC errors were corrected during the run, more than {MOST_CORRECTED}"));
            }
            Some(_) => {}
            None => reasons.push("the count of corrected ECC errors was reset during the run".to_owned()),
        }
    }
    reasons
}

fn cap_changed(watch: &Watch) -> Option<String> {
    let (before, after) = both(watch, |s| &s.power_cap_mw)?;
    (before != after).then(|| format!("the power cap went from {before} to {after} mW during the run"))
}

fn both<T: Copy>(watch: &Watch, reading: impl Fn(&Snapshot) -> &Reading<T>) -> Option<(T, T)> {
    Some((*reading(&watch.before).value()?, *reading(&watch.after).value()?))
}

fn unread<T>(reading: &Reading<T>) -> String {
    match reading {
        Reading::Failed(why) => format!("could not be read: {why}"),
        Reading::Value(_) | Reading::Unsupported => "cannot be read on this GPU".to_owned(),
    }
}

/// A GPU on which nothing runs, with more corrected errors so far than 32 bits hold.
#[cfg(any(test, feature = "trial"))]
pub fn idle() -> Snapshot {
    Snapshot {
        ecc_corrected: Reading::Value(7_012_345_678),
        ecc_uncorrected: Reading::Value(0),
        remap_problem: Reading::Value(false),
        memory_used_bytes: Reading::Value(4 << 20),
        busy_pct: Reading::Value(0),
        processes: Reading::Value(0),
        power_cap_mw: Reading::Value(700_000),
        persistence: Reading::Value(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed<T>() -> Reading<T> {
        Reading::Failed("the GPU is lost".to_owned())
    }

    /// Changes the look after the run and expects a reason with `words`, or none.
    fn check(words: Option<&str>, change: impl Fn(&mut Watch)) {
        let mut watch = Watch { before: idle(), after: idle(), most_processes: Some(1), lost: None };
        change(&mut watch);
        let reasons = against(&watch);
        match words {
            None => assert!(reasons.is_empty(), "{reasons:?}"),
            Some(words) => assert!(reasons.iter().any(|reason| reason.contains(words)), "{words}: {reasons:?}"),
        }
    }

    #[test]
    fn an_idle_and_whole_gpu_passes() {
        check(None, |_| {});
        check(None, |w| w.after.busy_pct = Reading::Value(MOST_BUSY_PCT));
        check(None, |w| w.after.ecc_corrected = Reading::Value(7_012_345_678 + MOST_CORRECTED));
    }

    #[test]
    fn a_gpu_without_ecc_or_remapping_passes_and_one_that_does_not_say_does_not() {
        check(None, |w| {
            for s in [&mut w.before, &mut w.after] {
                (s.ecc_corrected, s.ecc_uncorrected) = (Reading::Unsupported, Reading::Unsupported);
                s.remap_problem = Reading::Unsupported;
            }
        });
        check(Some("corrected ECC errors could not be read"), |w| w.after.ecc_corrected = failed());
        check(Some("uncorrected ECC errors could not be read"), |w| w.before.ecc_uncorrected = failed());
        check(Some("row remapping could not be read"), |w| w.after.remap_problem = failed());
    }

    #[test]
    fn somebody_else_refuses_each_way_it_shows() {
        check(Some("busy (6 %)"), |w| w.before.busy_pct = Reading::Value(6));
        check(Some("after the run, 119800 MiB"), |w| w.after.memory_used_bytes = Reading::Value(119_800 << 20));
        check(Some("2 other processes"), |w| w.before.processes = Reading::Value(2));
        check(Some("3 processes were on the GPU at once"), |w| w.most_processes = Some(3));
    }

    #[test]
    fn unknown_is_not_idle() {
        check(Some("busy the GPU is cannot be read"), |w| w.before.busy_pct = Reading::Unsupported);
        check(Some("busy the GPU is could not be read"), |w| w.before.busy_pct = failed());
        check(Some("memory in use cannot be read"), |w| w.before.memory_used_bytes = Reading::Unsupported);
        // Processes may be invisible from inside a container; memory in use and utilization must then show that the
        // GPU is idle.
        check(None, |w| (w.before.processes, w.most_processes) = (failed(), None));
    }

    #[test]
    fn errors_and_caps_that_changed_meanwhile_refuse() {
        check(Some("uncorrected ECC errors went from 0 to 1"), |w| w.after.ecc_uncorrected = Reading::Value(1));
        check(Some("101 ECC errors were corrected"), |w| {
            w.after.ecc_corrected = Reading::Value(7_012_345_678 + MOST_CORRECTED + 1);
        });
        check(Some("was reset"), |w| w.after.ecc_corrected = Reading::Value(0));
        check(Some("row remap was pending"), |w| w.after.remap_problem = Reading::Value(true));
        check(Some("from 700000 to 500000 mW"), |w| w.after.power_cap_mw = Reading::Value(500_000));
        check(Some("lost during the run"), |w| w.lost = Some("the GPU is lost".to_owned()));
    }
}
