//! The question a cleaned-up tree asks, with the real compiler and no GPU: after a pass over comments and headers, which
//! numbers still stand?

use super::{check_all, check_stale, of_phase, publish_run};
use crate::ask::status::{Report, TreeSass, status};
use crate::steps::build::{BuildContext, kernels};
use crate::trial::{OnDisk, Trial};
use host::paths::Paths;
use provision::{ProvisionOptions, Provisioned, RuntimeChoice, provision};
use pure::book::standing::State;
use pure::identity::measured::measured_sass;
use std::collections::BTreeMap;
use std::path::Path;

/// The kernel files of which the trial measures a kernel.
const FILES: [&str; 5] = ["common/timer", "preempt/calibrate", "preempt/drain", "preempt/urgent", "preempt/yield"];
/// What nobody uses, at the end of a header of the measured tree.
const UNUSED: &str = "\n#include <cstdio>\nstatic inline void say_version() { printf(\"made up\\n\"); }\n";

#[test]
fn a_pass_over_comments_and_headers_keeps_every_number_and_a_constant_takes_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    if !root.join("target/toolkit").is_dir() {
        eprintln!("skipped: no toolkit (run cargo xtask provision --runtime host)");
        return;
    }
    let options = ProvisionOptions {
        runtime: RuntimeChoice::Host,
        base: None,
        offline: true,
        need_gpu: false,
        driver_cuda: None,
        quiet: true,
    };
    let provisioned = provision(&Paths::new(root), &options).unwrap();
    let mut sources = real_kernels(root);
    *sources.get_mut("kernels/common/timer.cuh").unwrap() += UNUSED;

    let (disk, _) = Trial { files: sources.clone(), ..Trial::passing() }.repository();
    let measured = built(&disk, &provisioned);
    let mut record = disk.build.clone();
    record.kernels = measured.kernels;
    record.nvcc = measured.nvcc;
    let mut trial = Trial { files: sources, ..Trial::passing() }.of_sass(&measured_sass(&record, "sm_90"));
    trial.build.nvcc = record.nvcc;
    let (disk, _) = trial.judged();
    publish_run(&disk);
    check_all(&ask(&disk, &provisioned), State::Current, "nothing it rests on has changed");

    for (name, text) in real_kernels(root) {
        disk.put(&name, &format!("// A remark.\n{}", text.replace("// ", "//  Reworded: ")));
    }
    check_all(&ask(&disk, &provisioned), State::Current, "source files changed, but SASS, protocol");

    let calibrate = &real_kernels(root)["kernels/preempt/calibrate.cu"];
    assert!(calibrate.contains("mov_globaltimer_lo() | 1"));
    disk.put(
        "kernels/preempt/calibrate.cu",
        &calibrate.replace("mov_globaltimer_lo() | 1", "mov_globaltimer_lo() | 3"),
    );
    check_stale(&ask(&disk, &provisioned), "kernel preempt_calibrate: measured", |id| of_phase(id, "calibrate"));
}

fn real_kernels(root: &Path) -> BTreeMap<String, String> {
    let mut names: Vec<String> = FILES.iter().map(|file| format!("kernels/{file}.cu")).collect();
    for folder in ["kernels/common", "kernels/preempt"] {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let headers = files.filter_map(|file| file.into_string().ok()).filter(|file| file.ends_with(".cuh"));
        names.extend(headers.map(|header| format!("{folder}/{header}")));
    }
    let read = |name: String| (name.clone(), std::fs::read_to_string(root.join(&name)).unwrap());
    let mut sources: BTreeMap<String, String> = names.into_iter().map(read).collect();
    // In place of the made-up one, which is no CUDA.
    sources.insert("kernels/preempt/made_up.cu".to_owned(), "extern \"C\" __global__ void made_up() {}\n".to_owned());
    sources
}

fn built(disk: &OnDisk, provisioned: &Provisioned) -> TreeSass {
    let context = BuildContext::new(&disk.paths, &provisioned.key, vec!["sm_90".to_owned()], true, &|_, _, _| {});
    let (nvcc, kernels) = kernels(&context, &*provisioned.runtime, &provisioned.toolkit).unwrap();
    TreeSass { nvcc, kernels }
}

fn ask(disk: &OnDisk, provisioned: &Provisioned) -> Report {
    status(&disk.paths, &Ok(built(disk, provisioned))).unwrap()
}
