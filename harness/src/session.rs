//! A device in use: every launch goes through here and is counted for the end marker; progress goes out as JSON lines.
//!
//! Decides nothing about what is measured.

use crate::device::{
    BaselineLaunch, BaselineRaw, CalibrateLaunch, CalibrateRaw, Device, DrainLaunch, LaunchRaw, PreemptLaunch,
    PreemptRaw, TimerRaw,
};
use crate::steady::Steady;
use schema::cell::{DeviceFacts, LaunchConfig};
use schema::progress::Progress;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Event counts are reported this often.
const REPORT_EVERY: Duration = Duration::from_millis(400);
/// The mode of launches whose output is spoiled on purpose.
pub const POISON_MODE: &str = "poison";

/// A device with its tally and somewhere to report to.
pub struct Session<'a> {
    device: &'a mut dyn Device,
    say: &'a mut dyn FnMut(&Progress) -> anyhow::Result<()>,
    launches: u64,
    wrong: u64,
    configs: BTreeSet<LaunchConfig>,
    steady: Steady,
    reported: Instant,
}

impl<'a> Session<'a> {
    /// Takes the device into use and reports what it is.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn begin(
        device: &'a mut dyn Device,
        say: &'a mut dyn FnMut(&Progress) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        say(&Progress::Device(device.facts().clone()))?;
        Ok(Self {
            device,
            say,
            launches: 0,
            wrong: 0,
            configs: BTreeSet::new(),
            steady: Steady::default(),
            reported: Instant::now(),
        })
    }

    /// What the device is.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        self.device.facts()
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

    /// Outputs so far that were wrong, unwritten or not executed exactly once, planted faults apart.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.wrong
    }

    /// Whether a launch's clock left that of the launches so far.
    #[must_use]
    pub fn off_clock(&self, raw: &LaunchRaw) -> bool {
        self.steady.left_by(&raw.clock)
    }

    /// Reports the end marker.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn finish(&mut self, nonce: &str) -> anyhow::Result<()> {
        self.say(&Progress::End {
            nonce: nonce.to_owned(),
            launches: self.launches,
            sites: self.device.sites(),
            cubins: self.device.cubins(),
            configs: self.configs.iter().cloned().collect(),
            wrong: self.wrong,
        })
    }

    /// See [`Device::timer`].
    ///
    /// # Errors
    /// As the device says.
    pub fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerRaw> {
        let raw = self.device.timer(rounds)?;
        self.count(&raw.launch);
        Ok(raw)
    }

    /// See [`Device::calibrate`]. A poisoned launch gets a mode of its own.
    ///
    /// # Errors
    /// As the device says.
    pub fn calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw> {
        let mut raw = self.device.calibrate(launch)?;
        self.count_poisoned(&mut raw.launch, launch.poison);
        Ok(raw)
    }

    /// See [`Device::drain`]. A poisoned launch gets a mode of its own.
    ///
    /// # Errors
    /// As the device says.
    pub fn drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw> {
        let mut raw = self.device.drain(launch)?;
        self.count_poisoned(&mut raw, launch.poison);
        Ok(raw)
    }

    /// See [`Device::baseline`].
    ///
    /// # Errors
    /// As the device says.
    pub fn baseline(&mut self, launch: &BaselineLaunch) -> anyhow::Result<BaselineRaw> {
        let raw = self.device.baseline(launch)?;
        self.count(&raw.launch);
        self.configs.insert(raw.urgent.clone());
        self.launches += 1;
        Ok(raw)
    }

    /// See [`Device::preempt`].
    ///
    /// # Errors
    /// As the device says.
    pub fn preempt(&mut self, launch: &PreemptLaunch) -> anyhow::Result<PreemptRaw> {
        let raw = self.device.preempt(launch)?;
        self.count(&raw.launch);
        if let Some(setter) = &raw.setter {
            self.configs.insert(setter.clone());
            self.launches += 1;
        }
        Ok(raw)
    }

    /// See [`Device::burn`].
    ///
    /// # Errors
    /// As the device says.
    pub fn burn(&mut self, seconds: f64) -> anyhow::Result<f64> {
        self.launches += 1;
        self.device.burn(seconds)
    }

    fn count_poisoned(&mut self, raw: &mut LaunchRaw, poison: bool) {
        if poison {
            raw.config.mode = POISON_MODE.to_owned();
            self.launches += 1;
            self.configs.insert(raw.config.clone());
        } else {
            self.count(raw);
        }
    }

    fn count(&mut self, raw: &LaunchRaw) {
        self.launches += 1;
        self.steady.add(&raw.clock);
        self.configs.insert(raw.config.clone());
        let outputs = [raw.wrong_tiles, raw.not_once, raw.urgent_wrong, raw.urgent_not_once];
        self.wrong += outputs.iter().map(|count| u64::from(*count)).sum::<u64>();
    }
}
