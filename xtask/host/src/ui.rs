//! What people see while steps work: a bar on a terminal, plain lines elsewhere, nothing when quiet. Always on stderr.
//!
//! It never touches stdout, which belongs to the one JSON object, and it decides nothing.

pub use words::text::plain;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Without a terminal, progress inside a step is said at most this often.
const PLAIN_PAUSE: Duration = Duration::from_secs(10);
const TEMPLATE: &str = "{spinner} {prefix} {wide_bar} {msg}";

/// Says a line on stderr, or to nobody where that is gone: see [`crate::tell!`].
pub fn tell(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Where progress goes. Shared by reference: every method takes `&self`.
pub struct Ui {
    state: Mutex<State>,
}

struct State {
    out: Out,
    work: Work,
}

enum Out {
    Quiet,
    Bar(ProgressBar),
    Plain { to: Box<dyn Write + Send>, said: Option<Instant> },
}

/// What is being worked on.
#[derive(Default)]
struct Work {
    step: String,
    began: Option<Instant>,
    cell: Option<Cell>,
}

struct Cell {
    index: u32,
    total: u32,
    name: String,
    events: u64,
    done: u64,
}

impl Ui {
    /// A bar when stderr is a terminal, plain lines when it is not, nothing when `quiet` (also for `--json`).
    pub fn new(quiet: bool) -> Self {
        if quiet {
            return Self::from(Out::Quiet);
        }
        if !std::io::stderr().is_terminal() {
            return Self::plain_to(std::io::stderr());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self::from(Out::Bar(bar))
    }

    /// Plain lines to a writer.
    pub fn plain_to(to: impl Write + Send + 'static) -> Self {
        Self::from(Out::Plain { to: Box::new(to), said: None })
    }

    fn from(out: Out) -> Self {
        Self { state: Mutex::new(State { out, work: Work::default() }) }
    }

    /// A step begins.
    pub fn step(&self, name: &str) {
        let mut state = self.state();
        state.work = Work { step: plain(name), began: Some(Instant::now()), cell: None };
        match &mut state.out {
            Out::Quiet => {}
            Out::Bar(bar) => {
                bar.reset();
                bar.unset_length();
                bar.enable_steady_tick(Duration::from_millis(200));
            }
            Out::Plain { said, .. } => *said = None,
        }
        state.show(true);
    }

    /// One line that stays, such as a warning or a result.
    pub fn line(&self, text: &str) {
        let text = plain(text);
        match &mut self.state().out {
            Out::Quiet => {}
            Out::Bar(bar) => bar.suspend(|| crate::tell!("{text}")),
            Out::Plain { to, .. } => drop(writeln!(to, "{text}")),
        }
    }

    /// Cell `index` of `total` begins; it will have this many events, or 0 when they are not counted.
    pub fn cell(&self, index: u32, total: u32, name: &str, events: u64) {
        let mut state = self.state();
        state.work.cell = Some(Cell { index, total, name: plain(name), events, done: 0 });
        state.show(false);
    }

    /// So many events of the current cell are done.
    pub fn events(&self, done: u64) {
        let mut state = self.state();
        if let Some(cell) = &mut state.work.cell {
            cell.done = done;
        }
        state.show(false);
    }

    /// The step is over: the bar goes away.
    pub fn done(&self) {
        let mut state = self.state();
        state.work = Work::default();
        if let Out::Bar(bar) = &state.out {
            bar.disable_steady_tick();
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn show(&mut self, at_once: bool) {
        let now = Instant::now();
        let message = self.work.message(now);
        match &mut self.out {
            Out::Quiet => {}
            Out::Bar(bar) => {
                bar.set_prefix(self.work.step.clone());
                bar.set_message(message);
                if let Some(share) = self.work.share() {
                    const STEPS: u64 = 1000;
                    bar.set_length(STEPS);
                    bar.set_position((share * STEPS as f64) as u64);
                }
            }
            Out::Plain { to, said } => {
                let due = said.is_none_or(|said| now.duration_since(said) >= PLAIN_PAUSE);
                if at_once || due {
                    // A step's own line does not start the pause, so that its first cell is printed too.
                    *said = (!at_once).then_some(now);
                    let _ = writeln!(to, "{} {message}", self.work.step).and_then(|()| to.flush());
                }
            }
        }
    }
}

impl Work {
    /// How much of the step's cells is done, from 0 to 1; nothing without cells.
    fn share(&self) -> Option<f64> {
        let cell = self.cell.as_ref().filter(|cell| cell.total > 0)?;
        let within = if cell.events == 0 { 0.0 } else { cell.done.min(cell.events) as f64 / cell.events as f64 };
        let before = f64::from(cell.index.saturating_sub(1).min(cell.total));
        Some(((before + within) / f64::from(cell.total)).min(1.0))
    }

    fn message(&self, now: Instant) -> String {
        let Some(cell) = &self.cell else { return "…".to_owned() };
        let events = match cell.events {
            0 => String::new(),
            events => format!(", {}/{events} events", cell.done),
        };
        let left = self.left(now).map_or_else(String::new, |left| format!(", {} left", spoken(left)));
        format!("{}/{} {}{events}{left}", cell.index, cell.total, cell.name)
    }

    /// Time left if the rest goes as fast as what is done; nothing before a twentieth is done.
    fn left(&self, now: Instant) -> Option<Duration> {
        let share = self.share().filter(|share| *share >= 0.05)?;
        Some(now.duration_since(self.began?).mul_f64((1.0 - share) / share))
    }
}

/// A duration as people say it.
pub fn spoken(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn plain_lines_come_at_step_changes_and_seldom_between() {
        let paper = Paper::default();
        let ui = Ui::plain_to(paper.clone());
        ui.step("build");
        ui.step("run");
        for index in 1..=50 {
            ui.cell(index, 50, "k=64", 100);
            ui.events(50);
        }
        ui.line("a \u{1b}[31mwarning\u{1b}[0m");
        ui.done();
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "build …\nrun …\nrun 1/50 k=64, 0/100 events\na warning\n");
    }

    #[test]
    fn time_left_follows_the_share_done() {
        let began = Instant::now();
        let cell = |index, done| Some(Cell { index, total: 4, name: "c".into(), events: 10, done });
        let left = |cell, elapsed| {
            let work = Work { step: String::new(), began: Some(began), cell };
            work.left(began + Duration::from_secs(elapsed)).map(|left| left.as_secs())
        };
        assert_eq!(left(cell(1, 0), 5), None);
        assert_eq!(left(cell(2, 0), 10), Some(30));
        assert_eq!(left(cell(3, 5), 50), Some(30));
        assert_eq!(left(None, 50), None);
    }

    #[test]
    fn durations_are_said_in_two_units() {
        for (seconds, said) in [(7, "7 s"), (75, "1 min 15 s"), (3720, "1 h 2 min")] {
            assert_eq!(spoken(Duration::from_secs(seconds)), said);
        }
    }
}
