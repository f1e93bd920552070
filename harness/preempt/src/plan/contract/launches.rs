//! What the launch tables count beside what every launch records, and which counts must be what.

use schema::contract::{Balance, LaunchSpec, Tally};

pub(super) fn launches() -> LaunchSpec {
    LaunchSpec {
        // What a launch discarded as warm-up did not serve is the reason it was discarded; its tasks count like any other's.
        work: vec![
            Balance::new("tasks", "executed", "tasks", true),
            Balance::new("urgent_requested", "urgent_executed", "urgent tasks requested", false),
        ],
        wrong: vec![
            Tally::new("wrong_tiles", "tiles disagree with the oracle", true),
            Tally::new("unwritten_tiles", "tiles were never written", true),
            Tally::new("urgent_wrong", "urgent tiles disagree with the oracle", true),
        ],
        poison: Some("wrong_tiles".to_owned()),
        once: vec![
            Tally::new("not_once", "tasks were not executed exactly once", true),
            Tally::new("urgent_not_once", "urgent tasks were not executed exactly once", false),
        ],
        zero: vec![Tally::new("deadline_hits", "blocks hit their deadline", false)],
    }
}
