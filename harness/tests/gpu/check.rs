//! Tests of structure: which block ran which task how often, what is refused, and what is caught.

use preempt::calibrate::ends;
use preempt::cuda::PreemptGpu;
use preempt::launch::{
    BaselineLaunch, CalibrateLaunch, Device, DrainLaunch, Drainer, LaunchRaw, PreemptLaunch, PreemptRaw,
};
use preempt::plan::{POLL_PERIODS, Setter};

/// A schedule that fits any GPU: 20 events, one urgent tile each, in a queue that outlasts them.
pub(crate) fn schedule(device: &PreemptGpu, set: Setter, poll: u32) -> PreemptLaunch {
    let slots = device.facts().slots.clone();
    let blocks = slots.sms() * slots.per_sm("yield_per_sm");
    PreemptLaunch {
        k: 64,
        blocks,
        poll,
        set,
        tasks: blocks * 150,
        gaps_ns: (0..20).map(|event| 10_000 + 1_000 * event).collect(),
        urgent_tiles: 1,
        first_generation: 0,
        first_event_id: 7_000,
        delay: None,
        storm: false,
        deadline_ns: 20_000_000_000,
    }
}

/// Asserts that a launch did all its work once and rightly.
pub(crate) fn sound(what: &str, launch: &LaunchRaw) {
    assert_eq!(launch.executed, launch.tasks, "{what}: {launch:?}");
    assert_eq!(launch.urgent_executed, launch.urgent_requested, "{what}: {launch:?}");
    let faults = [
        launch.wrong_tiles,
        launch.unwritten_tiles,
        launch.not_once,
        launch.urgent_wrong,
        launch.urgent_not_once,
        launch.deadline_hits,
    ];
    assert_eq!(faults, [0; 6], "{what}: {launch:?}");
    assert!(launch.trace.wall_ns > 0, "{what}");
    assert!(launch.trace.clock.iter().all(|(_, cycles, ns)| *cycles > 0 && *ns > 0), "{what}");
}

/// Runs a schedule and asserts that every event was served once by everyone.
pub(crate) fn served(device: &mut PreemptGpu, what: &str, launch: &PreemptLaunch) -> PreemptRaw {
    let raw = device.preempt(launch).unwrap_or_else(|error| panic!("{what}: {error:#}"));
    sound(what, &raw.launch);
    let (events, columns) = (launch.gaps_ns.len(), launch.blocks as usize);
    assert_eq!(raw.seen.len(), events * columns, "{what}");
    for (event, row) in raw.seen.chunks_exact(columns).enumerate() {
        assert_eq!(row[0], 0, "{what}: column 0 only sets (event {event})");
        assert!(row[1..].iter().all(|seen| *seen == 3), "{what}: a block missed event {event}");
    }
    assert!(raw.set_ns.iter().all(|ns| *ns >= raw.start_ns), "{what}: an event was never set");
    assert!(raw.urgent_executed.iter().all(|times| *times == 1), "{what}: {:?}", raw.urgent_executed);
    assert!(raw.claimer.iter().all(|claimer| *claimer < launch.blocks), "{what}: {:?}", raw.claimer);
    assert!(raw.urgent_done_ns.iter().zip(&raw.urgent_start_ns).all(|(done, start)| done > start), "{what}");
    assert_eq!(raw.launch.trace.block_sm.len(), columns, "{what}");
    raw
}

pub(crate) fn all(device: &mut PreemptGpu) {
    println!("{:#?}", device.facts());
    timer(device);
    calibrate(device);
    drains(device);
    baseline(device);
    events(device);
    refusals(device);
    println!("sites {:?}", device.sites());
    assert!(device.sites().values().all(|times| *times > 0));
    assert_eq!(device.gpu().map(|gpu| gpu.cubins().len()), Some(10));
}

fn timer(device: &mut PreemptGpu) {
    let timer = device.timer(200).unwrap();
    let worst = timer.sms.iter().map(|(_, offset, ..)| offset.abs()).max().unwrap();
    let rtt = timer.sms.iter().map(|(.., rtt, _)| *rtt).max().unwrap();
    println!(
        "timer quantum {} ns, {} SMs, worst offset {worst} ns, worst rtt {rtt} ns",
        timer.quantum_ns,
        timer.sms.len()
    );
    assert_eq!(timer.sms.len(), device.facts().slots.sms() as usize, "one block on each SM");
}

fn calibrate(device: &mut PreemptGpu) {
    let blocks = device.facts().slots.sms();
    for poison in [false, true] {
        let launch = CalibrateLaunch { k: 32, blocks, warmup_tiles: 3, tiles: 10, tail_tiles: 2, poison };
        let raw = device.calibrate(&launch).unwrap();
        assert_eq!(raw.launch.executed, blocks * 15);
        assert_eq!(raw.launch.wrong_tiles, u32::from(poison), "poison is caught, and nothing else");
        assert_eq!(raw.max_relative_error > 0.0, poison);
        let ends = ends(&raw.boundary_ns, launch.tiles);
        assert!(ends.len() > blocks as usize && ends.len() <= blocks as usize * 10, "{}", ends.len());
        assert!(ends.iter().all(|(_, _, ns)| *ns > 0 && *ns < 1_000_000_000));
    }
}

fn drains(device: &mut PreemptGpu) {
    let blocks = device.facts().slots.sms();
    let mut drainers = vec![Drainer::PollFree];
    drainers.extend(POLL_PERIODS.map(Drainer::Polling));
    for drainer in drainers {
        for (k, tasks) in [(32, 1), (64, blocks * 7 + 3), (48, blocks * 3)] {
            let mut launch = DrainLaunch { drainer, k, blocks, tasks, poison: false };
            sound(&format!("{launch:?}"), &device.drain(&launch).unwrap());
            launch.poison = true;
            let raw = device.drain(&launch).unwrap();
            assert_eq!((raw.wrong_tiles, raw.unwritten_tiles), (1, 0), "{launch:?}: poison is caught");
        }
    }
}

fn baseline(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    let blocks = slots.sms() * slots.per_sm("drain_per_sm");
    for event_id in 0..5 {
        let launch = BaselineLaunch { k: 64, blocks, tasks: blocks * 150, arrival_ns: 100_000, event_id };
        let raw = device.baseline(&launch).unwrap();
        sound("baseline", &raw.launch);
        println!("{}", baseline_line(&raw));
        assert_eq!(raw.anomaly, 0);
        assert!(raw.issue_ns < raw.start_ns && raw.start_ns <= raw.done_ns);
    }
}

fn baseline_line(raw: &preempt::launch::BaselineRaw) -> String {
    format!(
        "baseline host issue {} start {} done {} drain done {} | device start {} done {} drain {}",
        raw.issue_ns,
        raw.start_ns,
        raw.done_ns,
        raw.drain_done_ns,
        raw.device_start_ns,
        raw.device_done_ns,
        raw.device_drain_ns
    )
}

fn events(device: &mut PreemptGpu) {
    for set in [Setter::Device, Setter::Host, Setter::Kernel] {
        for poll in POLL_PERIODS {
            let plain = schedule(device, set, poll);
            served(device, &format!("{set:?} poll {poll}"), &plain);
        }
        let base = schedule(device, set, 1);
        for first_generation in [(1 << 31) - 5, u32::MAX - 4] {
            let wrap = PreemptLaunch { first_generation, ..base.clone() };
            served(device, &format!("{set:?} from generation {first_generation}"), &wrap);
        }
        let storm = PreemptLaunch { storm: true, urgent_tiles: 3, ..base.clone() };
        served(device, &format!("{set:?} storm"), &storm);
        let late = PreemptLaunch { tasks: 1, gaps_ns: vec![20_000; 3], ..base.clone() };
        served(device, &format!("{set:?} after the queue is empty"), &late);
        let few = PreemptLaunch { blocks: 2, tasks: 20, gaps_ns: vec![1_000; 2], ..base };
        served(device, &format!("{set:?} with two blocks"), &few);
    }
}

fn refusals(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    let over = slots.sms() * slots.per_sm("yield_per_sm") + 1;
    let launch = PreemptLaunch { blocks: over, ..schedule(device, Setter::Device, 1) };
    let refusal = device.preempt(&launch).unwrap_err().to_string();
    println!("{refusal}");
    assert!(refusal.contains(&format!("blocks={over} exceed the {} slots of preempt_yield_p1", over - 1)), "{refusal}");
    let launch = PreemptLaunch { poll: 3, ..schedule(device, Setter::Device, 1) };
    assert!(device.preempt(&launch).unwrap_err().to_string().contains("every 3 tiles"));
    let launch = DrainLaunch { drainer: Drainer::PollFree, k: 40, blocks: 1, tasks: 1, poison: false };
    assert!(device.drain(&launch).unwrap_err().to_string().contains("K=40 is not a multiple"));
    let launch = DrainLaunch { k: 64, tasks: 0x0FFF_FFFF, ..launch };
    let refusal = device.drain(&launch).unwrap_err().to_string();
    assert!(refusal.contains("of device memory"), "{refusal}");
    assert!(device.gpu().is_some_and(|gpu| gpu.run_control("control_nothing").is_err()));
}
