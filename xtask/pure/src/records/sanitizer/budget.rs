//! How long a program may take under a tool: a multiple of its time without a tool, so that a slow tool is not taken
//! for a hang.

use schema::sanitize::Tool;
use std::time::Duration;

/// Bounds of every deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least: for what ends at once without a tool.
    pub least: Duration,
    /// The most, whatever the program took without a tool.
    pub most: Duration,
}

impl Bounds {
    /// Minutes at least, an hour at most.
    pub const STATED: Self = Self { least: Duration::from_secs(180), most: Duration::from_secs(3600) };
}

/// The deadline of a program under `tool` that took `plain` without any; the least one where that is not known.
pub fn deadline(tool: Tool, plain: Option<Duration>, bounds: Bounds) -> Duration {
    // Users report slowdowns of a few tens under racecheck and of a few under the others; these are an order of magnitude above.
    let times = match tool {
        Tool::Racecheck => 600,
        Tool::Memcheck | Tool::Initcheck | Tool::Synccheck => 100,
    };
    plain.unwrap_or_default().saturating_mul(times).clamp(bounds.least, bounds.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_program_gets_longer_and_racecheck_longest() {
        let seconds =
            |tool, plain: Option<u64>| deadline(tool, plain.map(Duration::from_secs), Bounds::STATED).as_secs();
        assert_eq!((seconds(Tool::Memcheck, None), seconds(Tool::Racecheck, None)), (180, 180));
        assert_eq!((seconds(Tool::Memcheck, Some(1)), seconds(Tool::Racecheck, Some(1))), (180, 600));
        assert_eq!((seconds(Tool::Initcheck, Some(4)), seconds(Tool::Racecheck, Some(4))), (400, 2400));
        assert_eq!(seconds(Tool::Racecheck, Some(9)), 3600);
        assert_eq!(deadline(Tool::Racecheck, Some(Duration::MAX), Bounds::STATED), Bounds::STATED.most);
    }
}
