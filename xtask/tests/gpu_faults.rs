//! What goes wrong with GPUs, drivers and their libraries, through fakes of both: each fault has its own answer, and none is zero.

mod fake_nvml;

use fake_nvml::{Fake, doctor, fake_cuda, xtask};
use host::gpu::driver::Driver;
use host::gpu::nvml::{Answer, Gpu, GpuChoice, GpuError, Library, Look, NvmlGpu, device_id, snapshot};
use schema::environment::{Reading, Snapshot};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::Table;
use words::gpu_state::{against, against_idle};
use xtask::steps::clocks::telemetry::Sampler;

const UUID: &str = "GPU-fa4efa4e-0000-4000-8000-000000000001";
const SECOND: &str = "GPU-fa4efa4e-0000-4000-8000-000000000002";

/// Every reading of a GPU, as text: the value, or the error.
fn readings(gpu: &NvmlGpu) -> Vec<(&'static str, Result<String, GpuError>)> {
    fn text<T: Debug>(answer: Answer<T>) -> Result<String, GpuError> {
        answer.map(|value| format!("{value:?}"))
    }
    vec![
        ("pci", text(gpu.pci())),
        ("name", text(gpu.name())),
        ("arch", text(gpu.arch())),
        ("sm_mhz", text(gpu.sm_mhz())),
        ("memory_mhz", text(gpu.memory_mhz())),
        ("sm_max_mhz", text(gpu.sm_max_mhz())),
        ("memory_max_mhz", text(gpu.memory_max_mhz())),
        ("supported_sm_mhz", text(gpu.supported_sm_mhz())),
        ("power_mw", text(gpu.power_mw())),
        ("power_cap_mw", text(gpu.power_cap_mw())),
        ("temperature_c", text(gpu.temperature_c())),
        ("throttle", text(gpu.throttle())),
        ("violations", text(gpu.violations())),
        ("ecc", text(gpu.ecc())),
        ("ecc_uncorrected", text(gpu.ecc_uncorrected())),
        ("ecc_corrected", text(gpu.ecc_corrected())),
        ("row_remap", text(gpu.row_remap())),
        ("mig", text(gpu.mig())),
        ("memory", text(gpu.memory())),
        ("busy_pct", text(gpu.busy_pct())),
        ("persistence", text(gpu.persistence())),
        ("compute_processes", text(gpu.compute_processes())),
    ]
}

#[test]
fn every_return_code_of_every_query_is_an_answer_of_its_own_and_never_a_value() {
    let fake = Fake::new("");
    let gpu = fake.open();
    assert!(readings(&gpu).iter().all(|(_, answer)| answer.is_ok()), "{:?}", readings(&gpu));
    let lost = |error: &GpuError| *error == GpuError::Lost;
    let unsupported = |error: &GpuError| *error == GpuError::Unsupported;
    let forbidden = |error: &GpuError| *error == GpuError::NoPermission;
    let mismatch = |error: &GpuError| *error == GpuError::Mismatch;
    let absent = |error: &GpuError| matches!(error, GpuError::NotFound(_));
    let other = |error: &GpuError| matches!(error, GpuError::Other(_));
    type Kind<'a> = &'a dyn Fn(&GpuError) -> bool;
    let kinds: [(u32, Kind<'_>); 19] = [
        (1, &other),
        (2, &other),
        (3, &unsupported),
        (4, &forbidden),
        (6, &absent),
        (8, &other),
        (9, &absent),
        (10, &other),
        (12, &absent),
        (13, &unsupported),
        (14, &other),
        (15, &lost),
        (16, &lost),
        (17, &forbidden),
        (18, &mismatch),
        (19, &other),
        (26, &unsupported),
        (28, &lost),
        (999, &other),
    ];
    for (code, is) in kinds {
        fake.set(&format!("fail {code}"));
        for (what, answer) in readings(&gpu) {
            let error = answer.expect_err(&format!("{what} with code {code}"));
            assert!(is(&error), "{what} with code {code}: {error:?}");
        }
    }
}

#[test]
fn the_library_s_word_for_not_available_is_no_value() {
    let fake = Fake::new("not_available 1");
    let gpu = fake.open();
    for (what, answer) in readings(&gpu) {
        let numbers = [
            "sm_mhz",
            "memory_mhz",
            "sm_max_mhz",
            "memory_max_mhz",
            "power_mw",
            "power_cap_mw",
            "temperature_c",
            "ecc_uncorrected",
            "ecc_corrected",
            "memory",
            "busy_pct",
        ];
        if numbers.contains(&what) {
            assert_eq!(answer, Err(GpuError::Unsupported), "{what}");
        }
    }
    let seen = snapshot(&gpu);
    assert_eq!((seen.busy_pct.clone(), seen.power_cap_mw.clone()), (Reading::Unsupported, Reading::Unsupported));
    assert_eq!(against_idle(&seen).len(), 2, "unknown is not idle");
    fake.set("empty 1");
    assert!(matches!(gpu.name(), Err(GpuError::Other(_))) && matches!(gpu.pci(), Err(GpuError::Other(_))));
}

#[test]
fn a_query_that_the_driver_does_not_know_costs_no_other() {
    let gpu = Fake::old("").open();
    for (what, answer) in readings(&gpu) {
        match what {
            "memory" | "violations" => assert_eq!(answer, Err(GpuError::Unsupported), "{what}"),
            _ => assert!(answer.is_ok(), "{what}: {answer:?}"),
        }
    }
}

#[test]
fn a_missing_value_is_absent_in_the_records_with_its_reason() {
    let fake = Fake::new("fail_power 26\nfail_temperature 999\nfail_throttle 3");
    let sampler = Sampler::start(fake.gpu(), Instant::now());
    std::thread::sleep(Duration::from_millis(150));
    let telemetry = sampler.finish();
    let table: &Table = &telemetry.table;
    assert!(table.opt_u32("power_mw").unwrap().iter().all(Option::is_none), "deprecated is no number");
    assert!(table.opt_u32("temperature_c").unwrap().iter().all(Option::is_none));
    assert!(table.opt_i64("throttle").unwrap().iter().all(Option::is_none));
    assert_eq!(table.opt_u32("sm_mhz").unwrap()[0], Some(1980));
    assert!(telemetry.notes.iter().any(|note| note.contains("power: not supported")), "{:?}", telemetry.notes);
    assert!(telemetry.notes.iter().any(|note| note.starts_with("temperature: ")), "{:?}", telemetry.notes);
    assert_eq!(telemetry.lost, None);
}

#[test]
fn of_several_gpus_the_one_of_our_uuid_is_read() {
    for count in [2, 8] {
        let fake = Fake::new(&format!("gpus {count}"));
        let library = Library::open(Some(&fake.library)).unwrap();
        assert_eq!(library.uuids().unwrap().len(), count);
        for choice in [
            GpuChoice::Uuid(SECOND.to_lowercase().replace("gpu-", "GPU-")),
            GpuChoice::DeviceId(device_id(SECOND)),
            GpuChoice::Index(1),
        ] {
            let gpu = library.gpu(&choice).unwrap();
            assert_eq!((gpu.uuid(), gpu.pci().unwrap().as_str()), (SECOND, "00000000:3C:00.0"));
        }
        assert!(matches!(library.gpu(&GpuChoice::Index(8)), Err(GpuError::NotFound(_))));
    }
}

#[test]
fn two_gpus_of_one_name_are_refused_and_one_that_is_lost_hides_no_other() {
    let fake = Fake::new("gpus 2\nsame_uuid 1");
    let library = Library::open(Some(&fake.library)).unwrap();
    for choice in [GpuChoice::Uuid(UUID.to_owned()), GpuChoice::Index(0)] {
        assert!(matches!(library.gpu(&choice), Err(GpuError::Other(said)) if said.contains("2 GPUs answer")));
    }
    fake.set("gpus 3\nsilent 0");
    assert!(library.gpu(&GpuChoice::Uuid(SECOND.to_owned())).is_ok());
    assert_eq!(library.gpu(&GpuChoice::Index(0)).err(), Some(GpuError::Lost));
    let lost = library.gpu(&GpuChoice::Uuid(UUID.to_owned())).err();
    assert!(matches!(&lost, Some(GpuError::NotFound(said)) if said.contains("1 do not answer")), "{lost:?}");
    let driver = Driver::of(&library).unwrap();
    assert_eq!(driver.gpus.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
}

fn look(fake: &Fake) -> Look {
    let words = [xtask().display().to_string(), "probe".to_owned(), "nvml".to_owned()].to_vec();
    Look { words, library: Some(fake.library.clone()) }
}

fn watch(before: Snapshot, after: Snapshot) -> schema::environment::Watch {
    schema::environment::Watch { before, after, most_processes: Some(1), lost: None }
}

#[test]
fn a_look_opens_the_library_anew_and_sees_what_an_old_handle_does_not() {
    let fake = Fake::new("init_again 999");
    let gpu = fake.open();
    assert_eq!(gpu.sm_mhz(), Ok(1980), "the handle that was open keeps answering");
    let blind = look(&fake).once(UUID).unwrap();
    let Reading::Failed(why) = &blind.busy_pct else { panic!("{blind:?}") };
    assert!(why.contains("could not be opened anew (exit Some(11))"), "{why}");
    let good = snapshot(&gpu);
    assert!(!against(&watch(good.clone(), blind)).is_empty());
    assert!(against(&watch(good.clone(), good)).is_empty());
}

#[test]
fn a_look_that_dies_or_says_nothing_is_blind() {
    let fake = Fake::new("");
    assert_eq!(look(&fake).once(UUID).unwrap(), snapshot(&fake.open()));
    for words in [["sh", "-c", "kill -9 $$"], ["sh", "-c", "echo All done."], ["sh", "-c", "exit 0"]] {
        let look = Look { words: words.map(str::to_owned).to_vec(), library: None };
        let seen = look.once(UUID).unwrap();
        assert!(
            matches!(seen.busy_pct, Reading::Failed(_)) && matches!(seen.remap_problem, Reading::Failed(_)),
            "{seen:?}"
        );
    }
}

#[test]
fn a_storm_of_corrected_errors_a_remap_and_a_new_uncorrected_error_refuse() {
    let fake = Fake::new("ecc_corrected 7012345678");
    let gpu = fake.open();
    let before = snapshot(&gpu);
    assert_eq!(before.ecc_corrected, Reading::Value(7_012_345_678));
    for (state, words) in [
        ("ecc_corrected 7012350000", "4322 ECC errors were corrected"),
        ("ecc_corrected 7012345678\necc_errors 1", "went from 0 to 1"),
        ("ecc_corrected 7012345678\nremap_pending 1", "row remap"),
        ("ecc_corrected 7012345678\nremap_failed 1", "row remap"),
        ("ecc_corrected 7012345678\nfail_ecc 999", "could not be read"),
        ("ecc_corrected 7012345678\nfail_remap 15", "could not be read"),
        ("ecc_corrected 7012345678\npower_cap_mw 500000", "power cap went from 700000 to 500000"),
    ] {
        fake.set(state);
        let reasons = against(&watch(before.clone(), snapshot(&gpu)));
        assert!(reasons.iter().any(|reason| reason.contains(words)), "{state}: {reasons:?}");
    }
    // A consumer card has neither, which is said and is fine.
    fake.set("unsupported ecc\nunsupported remap");
    let consumer = snapshot(&gpu);
    assert_eq!((&consumer.ecc_corrected, &consumer.remap_problem), (&Reading::Unsupported, &Reading::Unsupported));
    assert!(against(&watch(consumer.clone(), consumer)).is_empty());
}

#[test]
fn a_gpu_that_others_use_is_not_idle_whatever_shows_it() {
    let fake = Fake::new("");
    let gpu = fake.open();
    assert!(against_idle(&snapshot(&gpu)).is_empty());
    for (state, words) in [
        ("memory_used 119800", "119800 MiB"),
        ("busy 99", "99 %"),
        ("process 81234", "1 other processes"),
        ("fail_memory 999", "could not be read"),
        ("unsupported busy", "cannot be read"),
    ] {
        fake.set(state);
        let reasons = against_idle(&snapshot(&gpu));
        assert!(reasons.iter().any(|reason| reason.contains(words)), "{state}: {reasons:?}");
    }
    // It comes to rest in a while, and is waited for.
    fake.set("busy 99");
    let resting = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            fake.set("");
        });
        look(&fake).at_rest(UUID).unwrap()
    });
    assert_eq!(resting.busy_pct, Reading::Value(0));
}

#[test]
fn a_gpu_lost_under_a_run_is_evidence() {
    let fake = Fake::new("");
    let gpu: Arc<dyn Gpu> = fake.gpu();
    let before = snapshot(&*gpu);
    let sampler = Sampler::start(gpu, Instant::now());
    sampler.mark(1);
    std::thread::sleep(Duration::from_millis(150));
    fake.set("lost_after 0");
    std::thread::sleep(Duration::from_millis(250));
    let lost = sampler.finish().lost;
    assert!(lost.as_ref().is_some_and(|lost| lost.starts_with("the GPU is lost, at ")), "{lost:?}");
    // Even where it comes back.
    let watch = schema::environment::Watch { lost, ..watch(before.clone(), before) };
    assert!(against(&watch)[0].contains("lost during the run"));
}

#[test]
fn what_cuda_may_not_see_is_not_measured_on() {
    let fake = Fake::new("");
    fake_cuda(fake.dir.path(), "libcuda.so.1", "hidden 1", &[]);
    let status = |visible: Option<&str>| {
        let mut command = fake_nvml::command(fake.dir.path(), &["clocks", "status"]);
        command.env_remove("CUDA_VISIBLE_DEVICES").env("CUDA_DEVICE_ORDER", "FASTEST_FIRST");
        command.envs(visible.map(|visible| ("CUDA_VISIBLE_DEVICES", visible))).output().unwrap()
    };
    assert!(status(None).status.success(), "the caller's order of GPUs does not matter: {:?}", status(None));
    let hidden = status(Some("7"));
    let said = String::from_utf8_lossy(&hidden.stderr);
    assert!(hidden.status.code() == Some(11) && said.contains("CUDA_VISIBLE_DEVICES"), "{said}");
}

#[test]
fn no_duration_is_taken_from_the_wall_clock() {
    fn sources(dir: &std::path::Path, into: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, into),
                path if path.extension().is_some_and(|e| e == "rs") => into.push(path),
                _ => {}
            }
        }
    }
    let mut files = Vec::new();
    for dir in
        ["src", "host/src", "../harness/src", "../harness/core/src", "../harness/preempt/src", "../harness/schema/src"]
    {
        sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut files);
    }
    assert!(files.len() > 100);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // Time stamps are labels: they are made, written, and never subtracted.
        for word in ["SystemTime", "duration_since(UNIX", "timestamp.since", "Timestamp::since", "Zoned::now"] {
            assert!(!text.contains(word), "{} uses {word}", file.display());
        }
    }
}

/// The doctor's check of this name on a machine with these libraries.
fn check(nvml: &Fake, cuda: Option<(&str, &[&str])>, name: &str) -> serde_json::Value {
    if let Some((state, flags)) = cuda {
        fake_cuda(nvml.dir.path(), "libcuda.so.1", state, flags);
    }
    let checks = doctor(nvml.dir.path());
    let found = checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
    found.cloned().unwrap_or_else(|| panic!("no check {name}: {checks}"))
}

fn says(check: &serde_json::Value, state: &str, words: &[&str]) {
    assert_eq!(check["state"], state, "{check}");
    let said = format!("{} {}", check["found"], check["remedy"]);
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn doctor_asks_cuda_too_and_blocks_where_it_does_not_work() {
    let fake = Fake::new("");
    says(&check(&fake, Some(("", &[])), "cuda"), "ok", &["lists 1 GPUs"]);
    says(&check(&fake, None, "gpu"), "ok", &["1 by driver 580.95.05"]);
    for (state, words) in [
        ("init 802", ["fabric manager", "nvidia-fabricmanager"]),
        ("init 34", ["stub", "LD_LIBRARY_PATH"]),
        ("init 999", ["nvidia-uvm", "nvidia_uvm"]),
        ("count 100", ["cuDeviceGetCount returned 100", "GPU access"]),
        ("gpus 0", ["CUDA lists 0 GPUs", "none of them"]),
        ("bus 10", ["0000:0a:00.0 for CUDA", "00000000:3B:00.0 for NVML"]),
        ("crash 1", ["not usable", "crashed"]),
    ] {
        says(&check(&fake, Some((state, &[])), "cuda"), "block", &words);
    }
    says(&check(&fake, Some(("", &["-DOLD"])), "cuda"), "block", &["lacks cuDeviceGetCount", "too old"]);
}

#[test]
fn doctor_names_a_stub_and_a_missing_driver_library() {
    let fake = Fake::new("");
    says(&check(&fake, None, "cuda"), "block", &["no CUDA driver library", "GPU access"]);
    let stubs = fake.dir.path().join("stubs");
    std::fs::create_dir(&stubs).unwrap();
    std::fs::copy(&fake.library, stubs.join("libnvidia-ml.so.1")).unwrap();
    fake_cuda(&stubs, "libcuda.so", "", &[]);
    let checks = doctor(&stubs);
    let cuda = checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "cuda").unwrap();
    says(cuda, "block", &["/stubs/libcuda.so is a stub"]);
}

#[test]
fn doctor_tells_the_ways_in_which_nvml_fails_apart() {
    for (state, words) in [
        ("init 18", ["driver/library version mismatch", "reboot"]),
        ("init 999", ["NVML does not answer", "start a fresh one"]),
        ("init 4", ["no permission", "/dev/nvidia*"]),
        ("init 17", ["no permission", "/dev/nvidia*"]),
        ("init 15", ["the GPU is lost", "reset"]),
        ("silent 0", ["none of 1 GPUs answers", "dmesg"]),
    ] {
        says(&check(&Fake::new(state), None, "gpu"), "block", &words);
    }
    let two = Fake::new("gpus 2\nsilent 1");
    says(&check(&two, Some(("", &[])), "gpu"), "ok", &["2 by driver"]);
    let lost = doctor(two.dir.path());
    let said = lost["checks"].to_string();
    assert!(said.contains("GPU 1 of 2 does not answer: the GPU is lost"), "{said}");
}

#[test]
fn a_gpu_on_which_cuda_does_not_work_or_is_another_is_refused_before_anything_runs() {
    for (nvml, cuda, words) in [
        ("", "init 802", "fabric manager"),
        ("", "bus 10", "for NVML"),
        ("init 18", "", "version mismatch"),
        ("init 999", "", "does not work"),
        ("fail_uuid 15", "", "lost"),
        ("virtualization 2", "", "is shared (a vGPU"),
        ("virtualization 3", "", "is shared (a vGPU"),
        ("fail_virtualization 999", "", "cannot be asked"),
        ("fail_mig 999", "", "a slice (MIG) cannot be asked"),
    ] {
        let fake = Fake::new(nvml);
        fake_cuda(fake.dir.path(), "libcuda.so.1", cuda, &[]);
        let ended = fake_nvml::run(fake.dir.path(), &["clocks", "status"]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(11), "{said}");
        assert!(said.contains(words) && said.contains("try: "), "{said}");
        assert_eq!(fake.setters(), Vec::<String>::new(), "no clock is touched");
    }
}

#[test]
fn without_any_driver_the_reading_commands_work() {
    let empty = tempfile::tempdir().unwrap();
    for args in [&["--help"][..], &["verify", "--help"], &["list"], &["verify"]] {
        let ended = fake_nvml::run(empty.path(), args);
        assert!(ended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    std::fs::write(empty.path().join("libcuda.so.1"), "no library").unwrap();
    std::fs::write(empty.path().join("libnvidia-ml.so.1"), "no library").unwrap();
    let checks = doctor(empty.path());
    assert!(checks["checks"].as_array().unwrap().iter().any(|check| check["name"] == "gpu"), "{checks}");
    assert!(fake_nvml::run(empty.path(), &["verify"]).status.success());
}
