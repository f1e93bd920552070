//! The made-up records of a trial: environment, build, budgets, sanitizer verdicts and claims.

use super::DEVICE;
use crate::numbers::clock_class::measured_seconds;
use crate::numbers::summary::CellData;
use crate::records::sanitizer::log::{self, read};
use crate::trial::synthetic::SLOTS;
use schema::build::{Budget, BudgetFile, BuildRecord, Cubin, Kernel};
use schema::cell::{DeviceFacts, LaunchConfig};
use schema::claim::{Claim, ClaimFile, Comparator, MetricRef, Term};
use schema::environment::{ClockRecord, Container, Environment, Host, NvmlFacts, Stamp, Watch};
use schema::progress::{Progress, Sites};
use schema::sanitize::{Printed, SanitizerVerdict, State, Tool, VERDICT_FORMAT};
use schema::{Digest, FORMAT};
use std::collections::{BTreeMap, BTreeSet};
use words::gpu_state::idle;

const ARCH: &str = "sm_90";
/// The toolkit's lock: a wheel that nobody has.
pub const LOCK: &str =
    "nvidia-cuda-nvcc==13.0.88 --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000 # 1\n";

/// Kernel files with their symbols.
const KERNELS: [(&str, &str); 5] = [
    ("timer", "preempt_timer_offset"),
    ("calibrate", "preempt_calibrate"),
    ("drain", "preempt_drain"),
    ("urgent", "preempt_urgent"),
    ("yield", "preempt_yield_p1"),
];

/// The SASS digest of a made-up kernel.
fn kernel_sass(symbol: &str) -> Digest {
    Digest::of(format!("sass of {symbol}"))
}

pub fn measured_cubin(build: &BuildRecord, symbol: &str) -> Digest {
    let file = &build.kernels.iter().find(|kernel| kernel.symbol == symbol).expect("a made-up kernel").file;
    build.cubins.iter().find(|cubin| cubin.file == *file && cubin.flavor == "measure").expect("its cubin").sha256
}

pub fn build() -> BuildRecord {
    let kernel = |(file, symbol): &(&str, &str)| Kernel {
        file: format!("preempt/{file}"),
        symbol: (*symbol).to_owned(),
        arch: ARCH.to_owned(),
        sass_digest: kernel_sass(symbol),
        registers: 64,
        spill_bytes: 0,
        stack_bytes: 0,
        shared_bytes: 8192,
        max_threads: 128,
        blocks_per_sm: 2,
    };
    let cubin = |(file, _): &(&str, &str)| Cubin {
        file: format!("preempt/{file}"),
        arch: ARCH.to_owned(),
        flavor: "measure".to_owned(),
        path: format!("cubins/{file}.{ARCH}.cubin"),
        sha256: Digest::of(format!("preempt/{file}")),
        foreign_paths: 0,
    };
    BuildRecord {
        format: FORMAT,
        nvcc: "Cuda compilation tools, release 13.0, V13.0.88".to_owned(),
        toolkit: "wheels".to_owned(),
        toolkit_lock: Digest::of(LOCK),
        cubins: KERNELS.iter().map(cubin).collect(),
        kernels: KERNELS.iter().map(kernel).collect(),
        harness: Digest::of("harness"),
        flags: vec!["-O3".to_owned()],
        host_compiler: None,
        advisories: Vec::new(),
    }
}

pub fn budgets() -> String {
    let budget = |(file, symbol): &(&str, &str)| Budget {
        file: (*file).to_owned(),
        symbol: (*symbol).to_owned(),
        registers: 96,
        shared_bytes: 16384,
        blocks_per_sm: 2,
        blocks_per_sm_on: BTreeMap::new(),
        min_arch: "sm_80".to_owned(),
    };
    toml::to_string(&BudgetFile { format: FORMAT, kernel: KERNELS.iter().map(budget).collect() }).unwrap()
}

pub fn environment() -> Environment {
    Environment {
        format: FORMAT,
        device: DeviceFacts {
            id: DEVICE.to_owned(),
            name: "Test GPU".to_owned(),
            slug: "test".to_owned(),
            compute_capability: "9.0".to_owned(),
            arch: ARCH.to_owned(),
            slots: SLOTS.clone(),
            max_threads_per_sm: 2048,
            fp32_lanes_per_sm: 128,
            memory_bytes: 1 << 33,
            l2_bytes: 1 << 24,
            driver_cuda: 13000,
            kernel_timeout: false,
            mig: Some(false),
            libcuda: Some(Digest::of("libcuda")),
            pci: Some("0000:3B:00.0".to_owned()),
        },
        runtime: "docker".to_owned(),
        runtime_why: "asked for".to_owned(),
        container: Some(Container {
            engine: "docker 20.10.24".to_owned(),
            base: "rust:1-bookworm".to_owned(),
            base_digest: format!("sha256:{}", Digest::of("base")),
            base_local: false,
            image_id: Some(format!("sha256:{}", Digest::of("image"))),
            storage_driver: Some("overlay2".to_owned()),
            dockerfile: Digest::of("Dockerfile"),
            gpu_access: "cdi".to_owned(),
            hardening: vec!["--network=none".to_owned()],
        }),
        toolkit: "wheels".to_owned(),
        toolkit_lock: Digest::of(LOCK),
        sanitizer: Some("Version 2026.1".to_owned()),
        host: Host {
            os: "Debian GNU/Linux 12".to_owned(),
            kernel: "6.1".to_owned(),
            cpu: "a CPU".to_owned(),
            cpus: 2,
            memory_bytes: 1 << 33,
        },
        nvml: Some(NvmlFacts {
            driver: "580.65".to_owned(),
            library: Some(Digest::of("nvml")),
            ecc: Some(true),
            ecc_uncorrected: Some(0),
            remap_problem: Some(false),
            mig: Some(false),
            power_cap_mw: Some(700_000),
            sm_clock_max_mhz: Some(1980),
            memory_clock_mhz: Some(2619),
            other_processes_before: Some(0),
            other_processes_after: Some(0),
            device: Some(DEVICE.to_owned()),
            pci: Some("00000000:3b:00.0".to_owned()),
            watch: Some(Watch { before: idle(), after: idle(), most_processes: Some(1), lost: None }),
        }),
        clocks: ClockRecord {
            mode: "observe".to_owned(),
            asked_mhz: None,
            read_back_mhz: None,
            memory_locked: None,
            restored: None,
            setter_calls: 0,
            notes: Vec::new(),
        },
        time: None,
    }
}

/// The host's clocks at the begin and end of each cell, which lasted as long as its launches.
pub fn watched(cells: &[CellData]) -> Vec<Stamp> {
    let (mut ms, mut stamps) = (0, vec![stamp(0, 0)]);
    for (index, cell) in (1..).zip(cells) {
        let seconds = cell.launches.as_ref().map_or(0.1, |launches| measured_seconds(launches).unwrap());
        stamps.push(stamp(index, ms + 1_000));
        ms += 1_000 + (seconds * 1e3).ceil() as i64;
        stamps.push(stamp(0, ms));
    }
    stamps
}

/// Clocks that agree, so long after the run began.
fn stamp(cell: u32, ms: i64) -> Stamp {
    Stamp { cell, wall_ms: 1_767_225_600_000 + ms, monotonic_ms: 5_000 + ms, boottime_ms: 9_000 + ms }
}

/// One clean program and one caught control a tool, over every configuration of the cells.
pub fn sanitizer(cells: &[CellData], build: &BuildRecord) -> Vec<SanitizerFiles> {
    let configs: BTreeSet<LaunchConfig> = cells.iter().flat_map(|cell| cell.record.configs.clone()).collect();
    let symbols: BTreeSet<&String> = configs.iter().map(|config| &config.symbol).collect();
    let sass = |symbol: &&String| {
        let kernel = build.kernels.iter().find(|kernel| kernel.symbol == **symbol).expect("a made-up kernel");
        ((*symbol).clone(), kernel.sass_digest)
    };
    let sass: Vec<(String, Digest)> = symbols.iter().map(sass).collect();
    let mut verdicts = Vec::new();
    for tool in Tool::ALL {
        let (clean, control) = logs(tool);
        let mut program = blank(tool, "everything", clean);
        program.configs = configs.iter().cloned().collect();
        program.sass = sass.clone();
        verdicts.push(kept(program, clean));
        let mut caught = blank(tool, tool.control(), control);
        caught.state = State::Finding;
        caught.findings = match read(tool, control) {
            log::Reading::Findings(n) => Some(n),
            log::Reading::Clean | log::Reading::Unclear(_) => None,
        };
        caught.control_caught = Some(true);
        caught.exit_code = Some(86);
        verdicts.push(kept(caught, control));
    }
    verdicts
}

/// A verdict with its log and what the harness printed.
pub type SanitizerFiles = (SanitizerVerdict, String, String);

fn kept(mut verdict: SanitizerVerdict, log: &str) -> SanitizerFiles {
    let end = Progress::End {
        nonce: verdict.nonce.clone(),
        launches: verdict.launches,
        sites: verdict.sites.clone(),
        cubins: Vec::new(),
        configs: verdict.configs.clone(),
        wrong: 0,
    };
    let printed = serde_json::to_string(&end).unwrap() + "\n";
    let file = format!("{}-{}.out", verdict.tool.name(), verdict.program);
    verdict.printed = Some(Printed { file, sha256: Digest::of(&printed) });
    (verdict, log.to_owned(), printed)
}

fn blank(tool: Tool, program: &str, log: &str) -> SanitizerVerdict {
    SanitizerVerdict {
        format: VERDICT_FORMAT,
        tool,
        program: program.to_owned(),
        state: State::Clean,
        why: String::new(),
        findings: Some(0),
        control_caught: None,
        nonce: Digest::of(format!("{} {program}", tool.name())).short(),
        exit_code: Some(0),
        launches: 3,
        sites: Sites::from([("yield".to_owned(), 4), ("claim".to_owned(), 4), ("copy".to_owned(), 64)]),
        configs: Vec::new(),
        sass: Vec::new(),
        tool_version: "Version 2026.1".to_owned(),
        tool_digest: Digest::of("compute-sanitizer"),
        log: format!("{}-{program}.log", tool.name()),
        log_digest: Digest::of(log),
        printed: None,
        seconds: 1.0,
    }
}

fn logs(tool: Tool) -> (&'static str, &'static str) {
    macro_rules! log {
        ($name:literal) => {
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/sanitizer/", $name, ".log"))
        };
    }
    match tool {
        Tool::Memcheck => (log!("captured-2025.3.1-memcheck-clean"), log!("captured-2025.3.1-memcheck-control")),
        Tool::Racecheck => (log!("captured-2025.3.1-racecheck-clean"), log!("captured-2025.3.1-racecheck-control")),
        Tool::Initcheck => (log!("captured-2025.3.1-initcheck-clean"), log!("captured-2025.3.1-initcheck-control")),
        Tool::Synccheck => (log!("captured-2025.3.1-synccheck-clean"), log!("captured-2025.3.1-synccheck-control")),
    }
}

/// One claim over the device-set yield cell, with this threshold in microseconds.
pub fn claims(threshold: &str) -> ClaimFile {
    let value = MetricRef {
        phase: "yield".to_owned(),
        cell: "k=64,blocks={yield_full},poll=1,set=device".to_owned(),
        metric: "preempt_latency_us_p99".to_owned(),
    };
    let term = Term {
        name: "latency".to_owned(),
        value,
        over: None,
        comparator: Comparator::AtMost,
        threshold: threshold.to_owned(),
        unit: "us".to_owned(),
    };
    let claim = Claim {
        id: "T-1".to_owned(),
        statement: "It yields in time.".to_owned(),
        falsifier: "It does not.".to_owned(),
        compute_capability: "9.0".to_owned(),
        prediction: "P-001".to_owned(),
        needs: Vec::new(),
        term: vec![term],
    };
    ClaimFile { format: FORMAT, claim: vec![claim] }
}
