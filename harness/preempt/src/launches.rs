//! Makes the launches of one program through the device, and counts each in the session.

use crate::launch::{
    BaselineLaunch, BaselineRaw, CalibrateLaunch, CalibrateRaw, Device, DrainLaunch, LaunchRaw, PreemptLaunch,
    PreemptRaw,
};
use harness_core::launch::TimerTrace;
use harness_core::session::Session;
use schema::cell::DeviceFacts;

/// A device in use.
pub struct Launches<'a, 's> {
    /// Makes the launches.
    pub device: &'a mut dyn Device,
    /// Counts them.
    pub session: &'a mut Session<'s>,
}

impl Launches<'_, '_> {
    /// What the device is.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        self.device.facts()
    }

    /// Reports how many events are recorded.
    ///
    /// # Errors
    /// When the report cannot be delivered.
    pub fn events(&mut self, done: u64) -> anyhow::Result<()> {
        self.session.events(done)
    }

    /// See [`Device::timer`].
    ///
    /// # Errors
    /// As the device says.
    pub fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerTrace> {
        let timer = self.device.timer(rounds)?;
        self.session.count(&timer.launch, 0);
        Ok(timer)
    }

    /// See [`Device::calibrate`]. A poisoned launch gets a mode of its own.
    ///
    /// # Errors
    /// As the device says.
    pub fn calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw> {
        let mut raw = self.device.calibrate(launch)?;
        self.count(&mut raw.launch, launch.poison);
        Ok(raw)
    }

    /// See [`Device::drain`]. A poisoned launch gets a mode of its own.
    ///
    /// # Errors
    /// As the device says.
    pub fn drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw> {
        let mut raw = self.device.drain(launch)?;
        self.count(&mut raw, launch.poison);
        Ok(raw)
    }

    /// See [`Device::baseline`].
    ///
    /// # Errors
    /// As the device says.
    pub fn baseline(&mut self, launch: &BaselineLaunch) -> anyhow::Result<BaselineRaw> {
        let mut raw = self.device.baseline(launch)?;
        self.count(&mut raw.launch, false);
        self.session.count_config(&raw.urgent);
        Ok(raw)
    }

    /// See [`Device::preempt`].
    ///
    /// # Errors
    /// As the device says.
    pub fn preempt(&mut self, launch: &PreemptLaunch) -> anyhow::Result<PreemptRaw> {
        let mut raw = self.device.preempt(launch)?;
        self.count(&mut raw.launch, false);
        if let Some(setter) = &raw.setter {
            self.session.count_config(setter);
        }
        Ok(raw)
    }

    fn count(&mut self, raw: &mut LaunchRaw, poison: bool) {
        if poison {
            self.session.count_spoiled(&mut raw.trace);
        } else {
            self.session.count(&raw.trace, raw.wrong());
        }
    }
}
