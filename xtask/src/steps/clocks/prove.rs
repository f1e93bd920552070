//! Proof of a lock under load, and the search for the highest clock that holds.
//!
//! A setter that returns success proves nothing: the clock must be read back under load, by NVML and by the GPU's own
//! counters, while no throttle reason is active.

use anyhow::Result;
use host::gpu::nvml::{Answer, Gpu, Violations};
use pure::numbers::clock_class::within_band;
use words::throttle;

/// Something that keeps the GPU busy.
pub trait Load {
    /// Burns for about `seconds`; `on_window` gets the in-band clock in MHz, several times a second, while the GPU is busy.
    ///
    /// # Errors
    /// When the load cannot be started, or did not burn.
    fn burn(&self, seconds: f64, on_window: &mut dyn FnMut(f64)) -> Result<()>;
}

/// How long one burn takes: long enough for the power controller, which averages over about a second, to act.
pub const BURN_S: f64 = 3.0;
/// The fewest windows judged in one burn.
pub const MIN_WINDOWS: usize = 3;

/// What one burn showed.
#[derive(Clone, Debug, PartialEq)]
pub enum Trial {
    /// The clock held.
    Holds(Shown),
    /// It did not.
    Sags {
        /// Why.
        why: String,
        /// The lowest clock seen, where one was seen.
        seen_mhz: Option<f64>,
    },
}

/// What a burn showed of a clock that held.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// NVML's SM clock under load, the farthest from what was asked.
    pub read_back_mhz: u32,
    /// The in-band clock, the farthest from what was asked.
    pub in_band_mhz: f64,
    /// What could not be checked, in words.
    pub notes: Vec<String>,
}

/// One window of a burn, with what NVML said in it.
#[derive(Clone, Debug)]
pub struct Window {
    /// In-band clock.
    pub in_band_mhz: f64,
    /// NVML's SM clock.
    pub sm_mhz: Answer<u32>,
    /// Reason bits.
    pub throttle: Answer<u64>,
    /// Time held down so far.
    pub violations: Answer<Violations>,
    /// Power draw.
    pub power_mw: Answer<u32>,
}

/// Burns once and judges whether `asked_mhz` held.
///
/// # Errors
/// When the load fails.
pub fn try_clock(gpu: &dyn Gpu, load: &dyn Load, asked_mhz: u32) -> Result<Trial> {
    let mut windows = Vec::new();
    load.burn(BURN_S, &mut |in_band_mhz| {
        windows.push(Window {
            in_band_mhz,
            sm_mhz: gpu.sm_mhz(),
            throttle: gpu.throttle(),
            violations: gpu.violations(),
            power_mw: gpu.power_mw(),
        });
    })?;
    Ok(judge(asked_mhz, &windows, gpu.power_cap_mw().ok()))
}

/// Judges the windows of a burn. The first third, while the clock rises, is not judged.
#[must_use]
pub fn judge(asked_mhz: u32, windows: &[Window], power_cap_mw: Option<u32>) -> Trial {
    let judged = &windows[windows.len() / 3..];
    let sags = |why: String| Trial::Sags { why, seen_mhz: lowest(judged) };
    if judged.len() < MIN_WINDOWS {
        return sags(format!("the load showed {} windows, too few to judge", judged.len()));
    }
    let mut read_back_mhz = asked_mhz;
    let mut in_band_mhz = f64::from(asked_mhz);
    for window in judged {
        match check(asked_mhz, window, power_cap_mw) {
            Ok(sm_mhz) if sm_mhz.abs_diff(asked_mhz) >= read_back_mhz.abs_diff(asked_mhz) => read_back_mhz = sm_mhz,
            Ok(_) => {}
            Err(why) => return sags(why),
        }
        let farther = |a: f64, b: f64| (a - f64::from(asked_mhz)).abs() > (b - f64::from(asked_mhz)).abs();
        if farther(window.in_band_mhz, in_band_mhz) {
            in_band_mhz = window.in_band_mhz;
        }
    }
    match held_down(judged) {
        Ok(notes) => Trial::Holds(Shown { read_back_mhz, in_band_mhz, notes }),
        Err(why) => sags(why),
    }
}

fn check(asked_mhz: u32, window: &Window, power_cap_mw: Option<u32>) -> Result<u32, String> {
    let asked = f64::from(asked_mhz);
    let bits = window.throttle.as_ref().map_err(|error| format!("throttle reasons could not be read: {error}"))?;
    if bits & !throttle::HARMLESS != 0 {
        return Err(format!("clocks are throttled: {}", throttle::names(bits & !throttle::HARMLESS)));
    }
    let sm_mhz = *window.sm_mhz.as_ref().map_err(|error| format!("the SM clock could not be read back: {error}"))?;
    if !within_band(f64::from(sm_mhz), asked) {
        return Err(format!("asked for {asked_mhz} MHz, NVML reads back {sm_mhz} MHz"));
    }
    if !within_band(window.in_band_mhz, asked) {
        return Err(format!("asked for {asked_mhz} MHz, the GPU itself counts {:.0} MHz", window.in_band_mhz));
    }
    if let (Ok(power), Some(cap)) = (&window.power_mw, power_cap_mw)
        && *power >= cap
    {
        return Err(format!("power draw {power} mW reaches the cap of {cap} mW"));
    }
    Ok(sm_mhz)
}

/// Whether a violation counter grew; notes when it could not be read.
fn held_down(judged: &[Window]) -> Result<Vec<String>, String> {
    let (first, last) = (&judged[0].violations, &judged[judged.len() - 1].violations);
    match (first, last) {
        (Ok(first), Ok(last)) if first == last => Ok(vec![]),
        (Ok(first), Ok(last)) => {
            let power_us = last.power_ns.saturating_sub(first.power_ns) / 1000;
            let thermal_us = last.thermal_ns.saturating_sub(first.thermal_ns) / 1000;
            Err(format!("clocks were throttled for {power_us} us by power and {thermal_us} us by heat"))
        }
        (Err(error), _) | (_, Err(error)) => Ok(vec![format!("violation counters not checked: {error}")]),
    }
}

fn lowest(windows: &[Window]) -> Option<f64> {
    windows.iter().map(|window| window.in_band_mhz).min_by(f64::total_cmp)
}

/// The highest of `clocks` (ascending) that holds, and what it showed; `None` when none does.
///
/// The highest is tried first, then the one to which it sags, then the middle between what held and what did not.
///
/// # Errors
/// When a trial cannot be made.
pub fn highest(clocks: &[u32], mut trial: impl FnMut(u32) -> Result<Trial>) -> Result<Option<(u32, Shown)>> {
    let mut best = None;
    // Everything below `low` is known or assumed to hold, everything from `high` on is known to sag.
    let (mut low, mut high) = (0, clocks.len());
    let mut next = high.saturating_sub(1);
    while low < high {
        let hint = match trial(clocks[next])? {
            Trial::Holds(shown) => {
                best = Some((clocks[next], shown));
                low = next + 1;
                None
            }
            Trial::Sags { seen_mhz, .. } => {
                let first_fall = high == clocks.len();
                high = next;
                seen_mhz.filter(|_| first_fall).map(|mhz| clocks.partition_point(|clock| f64::from(*clock) <= mhz))
            }
        };
        next = hint
            .map_or(low + high.saturating_sub(low) / 2, |idx| idx.saturating_sub(1).clamp(low, high.max(low + 1) - 1));
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::gpu::nvml::GpuError;

    fn window() -> Window {
        let violations = Ok(Violations { power_ns: 7, thermal_ns: 0 });
        Window { in_band_mhz: 1500.0, sm_mhz: Ok(1500), throttle: Ok(2), violations, power_mw: Ok(600_000) }
    }

    /// Judges nine windows of which the last is changed.
    fn check_last(change: impl Fn(&mut Window), sags_with: Option<&str>) {
        let mut windows = vec![window(); 9];
        change(&mut windows[8]);
        match (judge(1500, &windows, Some(700_000)), sags_with) {
            (Trial::Holds(_), None) => {}
            (Trial::Sags { why, .. }, Some(needle)) => assert!(why.contains(needle), "{why}"),
            (other, _) => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_witness_alone_refuses() {
        check_last(|_| {}, None);
        check_last(|w| w.sm_mhz = Ok(1470), Some("reads back 1470"));
        check_last(|w| w.in_band_mhz = 1484.0, Some("counts 1484"));
        check_last(|w| w.throttle = Ok(4), Some("power cap"));
        check_last(|w| w.power_mw = Ok(700_000), Some("reaches the cap"));
        check_last(|w| w.violations = Ok(Violations { power_ns: 5_000_007, thermal_ns: 0 }), Some("5000 us by power"));
        check_last(|w| w.throttle = Err(GpuError::Unsupported), Some("could not be read"));
        check_last(|w| w.sm_mhz = Err(GpuError::Lost), Some("lost"));
    }

    #[test]
    fn unreadable_violation_counters_are_noted() {
        let windows = vec![Window { violations: Err(GpuError::Unsupported), ..window() }; 9];
        let Trial::Holds(Shown { notes, .. }) = judge(1500, &windows, None) else { panic!() };
        assert!(notes[0].contains("not checked"));
    }

    #[test]
    fn a_load_that_shows_nothing_proves_nothing() {
        assert!(matches!(judge(1500, &[], None), Trial::Sags { .. }));
        assert!(matches!(judge(1500, &[window(), window()], None), Trial::Sags { .. }));
    }

    #[test]
    fn the_highest_that_holds_is_found_in_few_trials() {
        let clocks: Vec<u32> = (0..110).map(|i| 345 + 15 * i).collect();
        for limit in [345, 350, 900, 1604, 1605, 1980, 2500] {
            let mut trials = 0;
            let found = highest(&clocks, |mhz| {
                trials += 1;
                Ok(if mhz <= limit {
                    Trial::Holds(Shown { read_back_mhz: mhz, in_band_mhz: f64::from(mhz), notes: vec![] })
                } else {
                    Trial::Sags { why: String::new(), seen_mhz: Some(f64::from(limit)) }
                })
            });
            let expected = clocks.iter().copied().filter(|mhz| *mhz <= limit).max();
            assert_eq!(found.unwrap().map(|(mhz, _)| mhz), expected);
            assert!(trials <= 9, "{limit} took {trials} trials");
        }
        assert!(highest(&clocks, |_| Ok(Trial::Sags { why: String::new(), seen_mhz: None })).unwrap().is_none());
        assert!(highest(&[], |_| unreachable!()).unwrap().is_none());
    }
}
