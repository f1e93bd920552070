//! What differs in how two runs were made, in the order in which one depends on another: source, plan, kernels,
//! tools, machine, clocks. The list is shown beside a comparison's words and changes none of them.

use crate::gate::Evidence;
use crate::identity::measured::measured_sass;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

/// One input that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What: `commit`, `plan`, `sass <kernel>`, `toolkit`, `image`, `driver`, `gpu`, `clocks`, …
    pub key: String,
    /// In the first run.
    pub a: String,
    /// In the second run.
    pub b: String,
}

/// Every input that differs.
#[must_use]
pub fn differences(a: &Evidence, b: &Evidence) -> Vec<Difference> {
    let (inputs_a, inputs_b) = (inputs(a), inputs(b));
    let mut keys: Vec<&String> = inputs_a.iter().map(|(key, _)| key).collect();
    // Only kernels can exist on one side alone; they are listed among the kernels.
    let known: BTreeSet<&String> = keys.iter().copied().collect();
    let extra: Vec<&String> = inputs_b.iter().map(|(key, _)| key).filter(|key| !known.contains(key)).collect();
    let at = keys.iter().position(|key| *key == "nvcc").unwrap_or(keys.len());
    keys.splice(at..at, extra);
    let value = |inputs: &[(String, String)], key: &String| {
        inputs.iter().find(|(k, _)| k == key).map_or_else(|| ABSENT.to_owned(), |(_, value)| value.clone())
    };
    let both = keys.into_iter().map(|key| (key, value(&inputs_a, key), value(&inputs_b, key)));
    both.filter(|(_, a, b)| a != b).map(|(key, a, b)| Difference { key: key.clone(), a, b }).collect()
}

const ABSENT: &str = "absent";

fn inputs(run: &Evidence) -> Vec<(String, String)> {
    let mut list = List(Vec::new());
    source(run, &mut list);
    kernels(run, &mut list);
    place(run, &mut list);
    device(run, &mut list);
    list.0
}

struct List(Vec<(String, String)>);

impl List {
    fn add(&mut self, key: impl Display, value: impl Display) {
        self.0.push((key.to_string(), value.to_string()));
    }

    fn maybe(&mut self, key: &str, value: Option<impl Display>) {
        self.add(key, value.map_or_else(|| ABSENT.to_owned(), |value| value.to_string()));
    }

    fn words(&mut self, key: &str, value: &impl Debug) {
        self.add(key, format!("{value:?}").to_lowercase());
    }
}

fn source(run: &Evidence, list: &mut List) {
    let source = &run.manifest.predicate.source;
    list.maybe("commit", source.commit.as_ref());
    list.add("source", source.digest);
    list.add("plan", run.plan_digest);
    list.words("profile", &run.plan.profile_name);
}

fn kernels(run: &Evidence, list: &mut List) {
    let arch = &run.environment.device.arch;
    for (symbol, digest) in run.build.iter().flat_map(|build| measured_sass(build, arch)) {
        list.add(format!("sass {symbol}"), digest);
    }
    let build = run.build.as_ref();
    list.maybe("nvcc", build.map(|build| &build.nvcc));
    list.maybe("flags", build.map(|build| build.flags.join(" ")));
    list.maybe("harness", build.map(|build| build.harness));
    list.add("toolkit", &run.environment.toolkit);
    list.add("toolkit lock", run.environment.toolkit_lock);
}

fn place(run: &Evidence, list: &mut List) {
    let environment = &run.environment;
    list.add("runtime", &environment.runtime);
    let container = environment.container.as_ref();
    list.maybe("image", container.map(|container| &container.base_digest));
    list.maybe("dockerfile", container.map(|container| container.dockerfile));
    list.maybe("engine", container.map(|container| &container.engine));
    list.maybe("GPU access", container.map(|container| &container.gpu_access));
    let nvml = environment.nvml.as_ref();
    list.maybe("driver", nvml.map(|nvml| &nvml.driver));
    list.maybe("libcuda", environment.device.libcuda);
    list.add("driver CUDA", environment.device.driver_cuda);
}

fn device(run: &Evidence, list: &mut List) {
    let environment = &run.environment;
    let device = &environment.device;
    list.add("GPU model", &device.name);
    list.add("GPU", &device.id);
    list.words("GPU slots", &device.slots);
    let nvml = environment.nvml.as_ref();
    list.maybe("ECC", nvml.and_then(|nvml| nvml.ecc));
    list.maybe("power cap mW", nvml.and_then(|nvml| nvml.power_cap_mw));
    list.maybe("memory clock MHz", nvml.and_then(|nvml| nvml.memory_clock_mhz));
    list.maybe("other GPU processes", nvml.and_then(|nvml| nvml.other_processes_before));
    list.add("clocks", &environment.clocks.mode);
    list.maybe("clock asked MHz", environment.clocks.asked_mhz);
    list.maybe("clock read back MHz", environment.clocks.read_back_mhz);
    let host = &environment.host;
    list.add("OS", &host.os);
    list.add("kernel", &host.kernel);
    list.add("CPU", format!("{} x {}", host.cpus, host.cpu));
}
