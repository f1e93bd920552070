//! What differs in how two runs were made, in the order in which one depends on another: source, plan, kernels,
//! tools, machine, clocks. The list is shown beside a comparison's words and changes none of them.

use crate::gate::Evidence;
use crate::identity::measured::measured_sass;
use crate::records::json;
use schema::environment::Environment;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Display;

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

/// Every input of a run, in the order in which one depends on another.
fn inputs(run: &Evidence) -> Vec<(String, String)> {
    let mut list = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        list.push((key.to_owned(), value.unwrap_or_else(|| ABSENT.to_owned())));
    };
    let Environment { device, clocks, host, .. } = &run.environment;
    let source = &run.manifest.predicate.source;
    add("commit", source.commit.clone());
    add("source", text(source.digest));
    add("plan", text(run.plan_digest));
    add("profile", Some(json::word(run.plan.profile_name)));
    let build = run.build.as_ref();
    for (symbol, digest) in build.into_iter().flat_map(|build| measured_sass(build, &device.arch)) {
        add(&format!("sass {symbol}"), text(digest));
    }
    add("nvcc", build.map(|build| build.nvcc.clone()));
    add("flags", build.map(|build| build.flags.join(" ")));
    add("harness", build.and_then(|build| text(build.harness)));
    add("toolkit", text(&run.environment.toolkit));
    add("toolkit lock", text(run.environment.toolkit_lock));
    add("runtime", text(&run.environment.runtime));
    let container = run.environment.container.as_ref();
    add("image", container.map(|container| container.base_digest.clone()));
    add("dockerfile", container.and_then(|container| text(container.dockerfile)));
    add("engine", container.and_then(|container| text(&container.engine)));
    add("GPU access", container.and_then(|container| text(&container.gpu_access)));
    let nvml = run.environment.nvml.as_ref();
    add("driver", nvml.and_then(|nvml| text(&nvml.driver)));
    add("libcuda", device.libcuda.and_then(text));
    add("driver CUDA", text(device.driver_cuda));
    add("GPU model", text(&device.name));
    add("GPU", text(&device.id));
    add("GPU slots", Some(format!("{:?}", device.slots).to_lowercase()));
    add("ECC", nvml.and_then(|nvml| nvml.ecc).and_then(text));
    add("power cap mW", nvml.and_then(|nvml| nvml.power_cap_mw).and_then(text));
    add("memory clock MHz", nvml.and_then(|nvml| nvml.memory_clock_mhz).and_then(text));
    add("other GPU processes", nvml.and_then(|nvml| nvml.other_processes_before).and_then(text));
    add("clocks", text(&clocks.mode));
    add("clock asked MHz", clocks.asked_mhz.and_then(text));
    add("clock read back MHz", clocks.read_back_mhz.and_then(text));
    add("OS", text(&host.os));
    add("kernel", text(&host.kernel));
    add("CPU", Some(format!("{} x {}", host.cpus, host.cpu)));
    list
}

fn text(value: impl Display) -> Option<String> {
    Some(value.to_string())
}
