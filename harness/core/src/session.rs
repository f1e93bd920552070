//! Counts a program's launches for its end marker, and prints its progress as JSON lines.
//!
//! Launches nothing itself, and decides nothing about what is measured.

use crate::launch::LaunchTrace;
use schema::Digest;
use schema::cell::{DeviceFacts, LaunchConfig};
use schema::contract::POISON_MODE;
use schema::progress::{Progress, Sites};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Event counts are reported this often.
const REPORT_EVERY: Duration = Duration::from_millis(400);

/// What was launched so far, and somewhere to report to.
pub struct Session<'a> {
    say: &'a mut dyn FnMut(&Progress) -> anyhow::Result<()>,
    launches: u64,
    wrong: u64,
    configs: BTreeSet<LaunchConfig>,
    reported: Instant,
}

impl<'a> Session<'a> {
    /// Takes a device into use and reports what it is.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn begin(facts: &DeviceFacts, say: &'a mut dyn FnMut(&Progress) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        say(&Progress::Device(facts.clone()))?;
        Ok(Self { say, launches: 0, wrong: 0, configs: BTreeSet::new(), reported: Instant::now() })
    }

    /// Reports progress.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn say(&mut self, progress: &Progress) -> anyhow::Result<()> {
        (self.say)(progress)
    }

    /// Reports how many events are recorded, at most every 0.4 seconds.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn events(&mut self, done: u64) -> anyhow::Result<()> {
        if self.reported.elapsed() < REPORT_EVERY {
            return Ok(());
        }
        self.reported = Instant::now();
        self.say(&Progress::Events { done })
    }

    /// Counts a launch, and its outputs that were wrong, unwritten or not made exactly once.
    pub fn count(&mut self, launch: &LaunchTrace, wrong: u64) {
        self.wrong += wrong;
        self.count_config(&launch.config);
    }

    /// Counts a launch whose output was spoiled on purpose, and gives it the mode of such launches. What is wrong with it was
    /// planted.
    pub fn count_spoiled(&mut self, launch: &mut LaunchTrace) {
        launch.config.mode = POISON_MODE.to_owned();
        self.count_config(&launch.config);
    }

    /// Counts a launch that has no outputs or clock of its own to judge: one beside another.
    pub fn count_config(&mut self, config: &LaunchConfig) {
        self.launches += 1;
        self.configs.insert(config.clone());
    }

    /// Outputs so far that were wrong, planted faults apart.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.wrong
    }

    /// Reports the end marker.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn finish(&mut self, nonce: &str, sites: Sites, cubins: Vec<(String, Digest)>) -> anyhow::Result<()> {
        self.say(&Progress::End {
            nonce: nonce.to_owned(),
            launches: self.launches,
            sites,
            cubins,
            configs: self.configs.iter().cloned().collect(),
            wrong: self.wrong,
        })
    }
}
