//! Lines about speed: tile walls, drains, latencies, the cost of polling. Nothing here asserts.

use super::check::{schedule, served};
use super::legs::median;
use preempt::calibrate::ends;
use preempt::cuda::PreemptGpu;
use preempt::launch::{BaselineLaunch, CalibrateLaunch, Device, DrainLaunch, Drainer, LaunchRaw, PreemptLaunch};
use preempt::plan::Setter;

const TILE_FLOP_PER_K: f64 = 2.0 * 64.0 * 64.0;

pub(crate) fn all(device: &mut PreemptGpu) {
    burn(device);
    walls(device);
    drains(device);
    baselines(device);
    latencies(device);
    costs(device);
}

fn burn(device: &mut PreemptGpu) {
    println!("burn: {:.0} MHz", device.burn(1.0).unwrap());
}

/// The clock of a launch in MHz, as the median over its windows.
fn mhz(launch: &LaunchRaw) -> f64 {
    median(launch.trace.clock.iter().map(|(_, cycles, ns)| i64::from(*cycles) * 1_000_000 / i64::from(*ns))) as f64
        / 1000.0
}

fn walls(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    for k in [32, 64, 128, 256] {
        for per_sm in 1..=slots.per_sm("calibrate_per_sm") {
            let blocks = per_sm * slots.sms();
            let launch = CalibrateLaunch { k, blocks, warmup_tiles: 20, tiles: 100, tail_tiles: 20, poison: false };
            let raw = device.calibrate(&launch).unwrap();
            let (p50, p99) =
                quantiles(ends(&raw.boundary_ns, launch.tiles).iter().map(|(_, _, ns)| i64::from(*ns)).collect());
            println!("tile wall k={k} blocks/SM={per_sm}: p50 {p50} ns, p99 {p99} ns");
        }
    }
}

fn drains(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    let lanes = f64::from(device.facts().fp32_lanes_per_sm);
    for drainer in [Drainer::PollFree, Drainer::Polling(1), Drainer::Polling(4)] {
        for k in [32, 64, 128, 256] {
            for per_sm in 1..=slots.per_sm("drain_per_sm").min(slots.per_sm("yield_per_sm")) {
                let blocks = per_sm * slots.sms();
                let tasks = 200_000 * 32 / k * per_sm / 2;
                let launch = DrainLaunch { drainer, k, blocks, tasks, poison: false };
                let runs: Vec<LaunchRaw> = (0..7).map(|_| device.drain(&launch).unwrap()).collect();
                let ns = median(runs.iter().map(|run| i64::from(run.trace.wall_ns))) as f64;
                let clock = mhz(&runs[3]);
                let tflops = TILE_FLOP_PER_K * f64::from(k) * f64::from(tasks) / ns / 1e3;
                let peak = f64::from(slots.sms()) * lanes * 2.0 * clock / 1e6;
                println!(
                    "drain {drainer:?} k={k} blocks/SM={per_sm} tasks={tasks}: {:.3} ms, {tflops:.1} TFLOP/s, {:.1} % of {peak:.1} at {clock:.0} MHz, wrong {}",
                    ns / 1e6,
                    100.0 * tflops / peak,
                    runs[0].wrong_tiles
                );
            }
        }
    }
}

/// Tiles that a full poll-free grid drains in about `ns`.
fn tasks_for(device: &mut PreemptGpu, blocks: u32, ns: f64) -> u32 {
    let launch = DrainLaunch { drainer: Drainer::PollFree, k: 64, blocks, tasks: blocks * 100, poison: false };
    let wall = median((0..5).map(|_| i64::from(device.drain(&launch).unwrap().trace.wall_ns)));
    (f64::from(launch.tasks) * ns / wall as f64) as u32
}

fn baselines(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    let full = slots.sms() * slots.per_sm("drain_per_sm");
    for blocks in [full, full - 1, slots.sms()] {
        let tasks = tasks_for(device, blocks, 1.3e6);
        let mut waits = Vec::new();
        let mut on_device = Vec::new();
        let begun = std::time::Instant::now();
        for event in 0..200 {
            let arrival_ns = 1_000_000 / 200 * event;
            let launch = BaselineLaunch { k: 64, blocks, tasks, arrival_ns, event_id: event };
            let raw = device.baseline(&launch).unwrap();
            waits.push(i64::from(raw.done_ns) - i64::from(raw.issue_ns));
            on_device.push(raw.device_done_ns - i64::from(raw.issue_ns));
        }
        let each = begun.elapsed().as_micros() / 200;
        println!(
            "baseline blocks={blocks} tasks={tasks}: host wait p50/p99 {:?} ns, device {:?} ns, {each} us a launch in all",
            quantiles(waits),
            quantiles(on_device)
        );
    }
}

fn latencies(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    let full = slots.sms() * slots.per_sm("yield_per_sm");
    for set in [Setter::Device, Setter::Host, Setter::Kernel] {
        for poll in [1, 4] {
            for blocks in [full, slots.sms() * 4, slots.sms()] {
                if blocks <= full {
                    latency(device, set, poll, blocks);
                }
            }
        }
    }
}

fn latency(device: &mut PreemptGpu, set: Setter, poll: u32, blocks: u32) {
    let columns = blocks as usize;
    let (mut first, mut last, mut ready, mut urgent, mut host) = (vec![], vec![], vec![], vec![], vec![]);
    let mut visible = vec![];
    let mut walls = vec![];
    let tasks = tasks_for(device, blocks, 5e6 * f64::from(poll));
    for launch in 0..5 {
        let gaps_ns = (0..100).map(|event| poll * (8_000 + (event * 7919 + launch * 104_729) % 16_000)).collect();
        let base = schedule(device, set, poll);
        let launch = PreemptLaunch { blocks, tasks, gaps_ns, first_event_id: launch * 100, ..base };
        let raw = served(device, &format!("{set:?} poll {poll} blocks {blocks}"), &launch);
        walls.push(raw.launch.trace.wall_ns / 1000);
        for event in 0..100 {
            let row = event * columns + 1..(event + 1) * columns;
            let set_ns = raw.set_ns[event] as u32;
            let since = |ns: &u32| i64::from(ns.wrapping_sub(set_ns).cast_signed());
            first.push(raw.observed_ns[row.clone()].iter().map(since).min().unwrap());
            last.push(raw.observed_ns[row.clone()].iter().map(since).max().unwrap());
            ready.push(raw.ready_ns[row.clone()].iter().map(since).max().unwrap());
            visible.push(raw.last_old_ns[row].iter().map(since).max().unwrap());
            urgent.push(raw.urgent_done_ns[event].wrapping_sub(raw.set_ns[event]).cast_signed());
            if set == Setter::Host {
                host.push(raw.host_done_ns[event].cast_signed() - raw.host_issue_ns[event].cast_signed());
            }
        }
    }
    let unfinished = last.len();
    println!(
        "latency {set:?} poll={poll} blocks={blocks} tasks={tasks} events={unfinished} walls={walls:?} us: first observer {:?}, last observer {:?}, last ready {:?}, urgent done {:?}, last old poll {:?}, host {:?} (p50, p99 in ns)",
        quantiles(first),
        quantiles(last),
        quantiles(ready),
        quantiles(urgent),
        quantiles(visible),
        if host.is_empty() { (0, 0) } else { quantiles(host) }
    );
}

fn costs(device: &mut PreemptGpu) {
    let slots = device.facts().slots.clone();
    let per_sm = slots.per_sm("drain_per_sm").min(slots.per_sm("yield_per_sm"));
    for (per_sm, drain_ns) in [(per_sm, 1.3e6), (per_sm, 5e6), (per_sm.min(4), 1.3e6), (1, 1.3e6)] {
        let blocks = per_sm * slots.sms();
        let tasks = tasks_for(device, blocks, drain_ns);
        for poll in [1, 4] {
            cost(device, poll, blocks, tasks);
        }
    }
}

fn cost(device: &mut PreemptGpu, poll: u32, blocks: u32, tasks: u32) {
    let mut wall = |drainer| {
        let launch = DrainLaunch { drainer, k: 64, blocks, tasks, poison: false };
        f64::from(device.drain(&launch).unwrap().trace.wall_ns)
    };
    let (free, polling) = (Drainer::PollFree, Drainer::Polling(poll));
    let mut costs = Vec::new();
    let mut frees = Vec::new();
    for _ in 0..40 {
        let quad = [wall(free), wall(polling), wall(polling), wall(free)];
        costs.push(100.0 * ((quad[1] + quad[2]) / (quad[0] + quad[3]) - 1.0));
        frees.push(((quad[0] + quad[3]) / 2.0) as i64);
    }
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    let variance = costs.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / (costs.len() - 1) as f64;
    let half = 1.96 * (variance / costs.len() as f64).sqrt();
    println!(
        "cost poll={poll} blocks={blocks} tasks={tasks}: {mean:.3} % +- {half:.3} % (poll-free p50 {:.3} ms)",
        median(frees.into_iter()) as f64 / 1e6
    );
}

/// Median and 99th percentile.
fn quantiles(mut values: Vec<i64>) -> (i64, i64) {
    values.sort_unstable();
    (values[values.len() / 2], values[values.len() * 99 / 100])
}
