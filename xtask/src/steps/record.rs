//! Step record: adds to the raw events everything else that a run consists of: environment, telemetry, build and
//! sanitizer files.

use super::build::Built;
use super::counters::Counters;
use super::run::Measured;
use super::sanitize::Sanitized;
use anyhow::{Context, Result};
use host::files::{read_plain, scan, write_whole};
use host::machine::personal::names;
use host::paths::Paths;
use provision::Provisioned;
use pure::records::json::to_bytes;
use schema::FORMAT;
use schema::environment::{ClockRecord, Environment, Host, NvmlFacts, Stamp};
use std::path::Path;
use tables::Table;
use words::personal::{Names, impersonal};

/// What was learned beside the events.
pub struct Beside<'a> {
    /// Runtime and toolkit.
    pub provisioned: &'a Provisioned,
    /// What was built.
    pub built: &'a Built,
    /// The sanitizer's verdicts.
    pub sanitized: &'a Sanitized,
    /// What hardware counters said; absent unless they were asked.
    pub counters: Option<&'a Counters>,
    /// What the clocks, the GPU and the host said meanwhile.
    pub watched: Watched,
}

/// What the clocks, the GPU and the host's clocks said while it ran.
pub struct Watched {
    /// How clocks were held.
    pub clocks: ClockRecord,
    /// The GPU as NVML saw it; absent on the emulated device.
    pub nvml: Option<NvmlFacts>,
    /// Telemetry; absent on the emulated device.
    pub telemetry: Option<Table>,
    /// The host's clocks over the run.
    pub time: Vec<Stamp>,
}

/// Writes all of it into the run directory.
///
/// # Errors
/// When a file cannot be read or written.
pub fn record(paths: &Paths, measured: &Measured, beside: Beside<'_>) -> Result<()> {
    let dir = &measured.run_dir;
    copy_build(beside.built, dir)?;
    if beside.sanitized.dir.is_some() {
        beside.sanitized.copy_to(&dir.join("sanitize"))?;
    }
    if let Some(counters) = beside.counters {
        counters.copy_to(&dir.join("counters"))?;
    }
    if let Some(telemetry) = &beside.watched.telemetry {
        telemetry.write(&dir.join("telemetry.parquet"))?;
    }
    if paths.bundle_record().is_file() {
        write_whole(&dir.join("bundle.json"), &read_plain(&paths.bundle_record())?)?;
    }
    // These texts come from programs of this machine and may name it.
    let names = names(paths.root());
    let environment = Environment {
        format: FORMAT,
        device: measured.device.clone(),
        runtime: beside.provisioned.runtime.name().to_owned(),
        runtime_why: impersonal(&beside.provisioned.runtime_why, &names),
        container: beside.provisioned.container.clone(),
        toolkit: beside.provisioned.toolkit.origin.clone(),
        toolkit_lock: beside.provisioned.toolkit.lock,
        sanitizer: beside.sanitized.verdicts.first().map(|verdict| verdict.tool_version.clone()),
        host: host()?,
        nvml: beside.watched.nvml,
        clocks: impersonal_clocks(beside.watched.clocks, &names),
        time: Some(beside.watched.time),
    };
    write_whole(&dir.join("environment.json"), &to_bytes(&environment)?)
}

/// Notes on the clocks quote NVML and the system.
fn impersonal_clocks(clocks: ClockRecord, names: &Names) -> ClockRecord {
    let notes = clocks.notes.iter().map(|note| impersonal(note, names)).collect();
    ClockRecord { notes, ..clocks }
}

/// Copies what the build made, except the harness, whose digest the record holds.
fn copy_build(built: &Built, dir: &Path) -> Result<()> {
    for name in scan(&built.dir)?.files.into_keys() {
        if name.starts_with("bin/") || name == "done.json" {
            continue;
        }
        write_whole(&dir.join("build").join(&name), &read_plain(&built.dir.join(&name))?)?;
    }
    Ok(())
}

fn host() -> Result<Host> {
    let os_release = fs_err::read_to_string("/etc/os-release").unwrap_or_default();
    let cpuinfo = fs_err::read_to_string("/proc/cpuinfo").context("failed to read the CPU's model")?;
    let meminfo = fs_err::read_to_string("/proc/meminfo").context("failed to read the memory's size")?;
    let kernel = fs_err::read_to_string("/proc/sys/kernel/osrelease").context("failed to read the kernel's release")?;
    let kib: u64 = field(&meminfo, "MemTotal:").trim_end_matches(" kB").parse().context("MemTotal is no number")?;
    Ok(Host {
        os: field(&os_release, "PRETTY_NAME=").trim_matches('"').to_owned(),
        kernel: kernel.trim().to_owned(),
        cpu: field(&cpuinfo, "model name").trim_start_matches([' ', '\t', ':']).to_owned(),
        cpus: u32::try_from(std::thread::available_parallelism()?.get())?,
        memory_bytes: kib * 1024,
    })
}

/// What follows `name` on the first line that begins with it; empty when there is none.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_on_the_clocks_name_nobody() {
        let names = Names { hosts: vec!["box17".to_owned()], ..Names::default() };
        let clocks = ClockRecord {
            mode: "lock".to_owned(),
            asked_mhz: Some(1500),
            read_back_mhz: None,
            memory_locked: None,
            restored: None,
            setter_calls: 1,
            notes: vec!["GPU-fa4efa4e-0000-4000-8000-000000000001 on box17: no permission".to_owned()],
        };
        let found = impersonal_clocks(clocks.clone(), &names);
        assert_eq!(found, ClockRecord { notes: vec!["<gpu> on <host>: no permission".to_owned()], ..clocks });
    }

    #[test]
    fn the_host_is_described_without_its_name() {
        let host = host().unwrap();
        assert!(host.cpus > 0 && host.memory_bytes > 1 << 20 && !host.kernel.is_empty());
        let name = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(!serde_json::to_string(&host).unwrap().contains(name.trim()));
    }
}
