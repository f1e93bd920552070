//! Follows the harness's progress: shows it, passes it to telemetry, and notices a hang.

use host::ui::{Ui, spoken};
use schema::cell::DeviceFacts;
use schema::progress::Progress;
use std::time::{Duration, Instant};
use words::progress::parse;

/// A harness that says nothing for this long hangs: single launches take milliseconds.
const SILENCE: Duration = Duration::from_secs(120);
/// A cell may take so many times its own estimate, and [`SILENCE`] on top.
const PATIENCE: f64 = 4.0;

/// Something that samples the GPU and wants to know which cell runs.
pub trait Telemetry {
    /// From now on cell `cell` runs, counted from 1; 0 is none.
    fn mark(&mut self, cell: u32);
}

impl<F: FnMut(u32)> Telemetry for F {
    fn mark(&mut self, cell: u32) {
        self(cell);
    }
}

/// One harness while it runs.
pub(super) struct Follow<'a> {
    ui: &'a Ui,
    telemetry: &'a mut dyn Telemetry,
    device: Option<DeviceFacts>,
    resumed: u32,
    place: String,
    heard: Instant,
    cell_until: Option<Instant>,
    stray: Option<String>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(ui: &'a Ui, telemetry: &'a mut dyn Telemetry) -> Self {
        let place = "before its first cell".to_owned();
        Self { ui, telemetry, device: None, resumed: 0, place, heard: Instant::now(), cell_until: None, stray: None }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.heard = Instant::now();
        match parse(line) {
            Some(Progress::Device(facts)) => self.device = Some(facts),
            Some(Progress::CellBegin { phase, cell, index, total, events, estimate_s }) => {
                self.place = format!("in cell {index} of {total}, {phase} {cell}");
                self.cell_until = Some(self.heard + allowance(estimate_s));
                self.telemetry.mark(index);
                self.ui.cell(index, total, &format!("{phase} {cell}"), events);
            }
            Some(Progress::Events { done }) => self.ui.events(done),
            Some(Progress::CellEnd { phase, cell, resumed, .. }) => {
                self.place = format!("after {phase} {cell}");
                self.cell_until = None;
                self.resumed += u32::from(resumed);
                self.telemetry.mark(0);
            }
            Some(Progress::Burn { .. } | Progress::End { .. }) => {}
            None if line.trim().is_empty() || self.stray.is_some() => {}
            None => self.stray = Some(line.to_owned()),
        }
    }

    /// Whether the harness hangs.
    pub(super) fn overdue(&self, now: Instant) -> bool {
        now.duration_since(self.heard) > SILENCE || self.cell_until.is_some_and(|until| now > until)
    }

    /// The first line that was none of the harness's own.
    pub(super) fn stray(&self) -> Option<&str> {
        self.stray.as_deref()
    }

    /// Where it was when it was last heard of.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Why it was ended, as far as we can tell.
    pub(super) fn lateness(&self) -> String {
        let silent = self.heard.elapsed();
        match silent > SILENCE {
            true => format!("it printed nothing for {}", spoken(silent)),
            false => "it took longer than its estimate allows".to_owned(),
        }
    }

    pub(super) fn resumed(&self) -> u32 {
        self.resumed
    }
}

impl Follow<'_> {
    /// Nothing runs any more; gives the device.
    pub(super) fn finish(&mut self) -> Option<DeviceFacts> {
        self.telemetry.mark(0);
        self.device.take()
    }
}

fn allowance(estimate_s: f64) -> Duration {
    // A nonsensical estimate gives the least allowance instead of a panic.
    SILENCE + Duration::try_from_secs_f64(estimate_s * PATIENCE).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str =
        r#"{"kind":"cell_begin","phase":"yield","cell":"k=64","index":2,"total":9,"events":10,"estimate_s":5.0}"#;
    const END: &str = r#"{"kind":"cell_end","phase":"yield","cell":"k=64","seconds":4.0,"resumed":true}"#;

    #[test]
    fn silence_and_slowness_are_both_noticed() {
        let (ui, mut marks) = (Ui::new(true), |_| {});
        let mut follow = Follow::new(&ui, &mut marks);
        let after = |follow: &Follow, seconds| follow.overdue(follow.heard + Duration::from_secs(seconds));
        assert!(!after(&follow, 119) && after(&follow, 121));
        follow.line(BEGIN);
        let until = follow.cell_until.unwrap();
        assert_eq!(until - follow.heard, Duration::from_secs(140));
        // Heard of again and again, and still not done.
        follow.heard = until;
        assert!(!follow.overdue(until) && follow.overdue(until + Duration::from_millis(1)));
        follow.line(END);
        assert!(!after(&follow, 119) && after(&follow, 121));
        assert_eq!(allowance(f64::NAN), SILENCE);
    }

    /// What a harness printed on an H200 before a kernel hung that lacks a barrier, and that the deadline in the kernel did not
    /// end.
    #[test]
    fn a_captured_hang_is_noticed_and_placed() {
        let (ui, mut marks) = (Ui::new(true), |_| {});
        let mut follow = Follow::new(&ui, &mut marks);
        let printed = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/audit/captured-h200-barrier.out");
        fs_err::read_to_string(printed).unwrap().lines().for_each(|line| follow.line(line));
        let after = |seconds| follow.overdue(follow.heard + Duration::from_secs(seconds));
        assert!(!after(119) && after(121));
        assert_eq!(follow.place(), "in cell 2 of 8, instrument leg=host_to_set");
        assert_eq!(follow.stray(), None);
    }

    #[test]
    fn cells_are_marked_while_they_run() {
        let mut seen = Vec::new();
        let (ui, mut marks) = (Ui::new(true), |cell| seen.push(cell));
        let mut follow = Follow::new(&ui, &mut marks);
        for line in [BEGIN, "", "noise", "more noise", END] {
            follow.line(line);
        }
        assert_eq!((follow.place(), follow.resumed(), follow.stray()), ("after yield k=64", 1, Some("noise")));
        follow.finish();
        assert_eq!(seen, [2, 0, 0]);
    }
}
