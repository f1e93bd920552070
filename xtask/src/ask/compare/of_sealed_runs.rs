//! Two sealed runs compared: the same one, one of other inputs, and one of another GPU model.

use crate::trial::evidence;
use pure::compare::{Word, compare, differences};
use pure::gate::Evidence;
use schema::Digest;

#[test]
fn a_run_compared_with_itself_is_reproduced() {
    let (run, _) = evidence();
    let compared = compare(&run, &run);
    let not = compared.metrics.iter().filter(|m| m.verdict != Some(Word::Reproduced)).collect::<Vec<_>>();
    assert!(compared.verdict == Some(Word::Reproduced) && compared.environment.is_empty(), "{not:?}");
    assert!(compared.metrics.len() > 20);
}

#[test]
fn the_first_difference_is_named_in_the_order_of_the_path() {
    let (a, _) = evidence();
    let mut b = a.clone();
    b.environment.clocks.mode = "lock".to_owned();
    b.environment.nvml.as_mut().unwrap().driver = "999.1".to_owned();
    let build = b.build.as_mut().unwrap();
    build.kernels.iter_mut().find(|k| k.symbol == "preempt_urgent").unwrap().sass_digest = Digest::of(b"x");
    let keys = |a: &Evidence, b: &Evidence| differences(a, b).into_iter().map(|d| d.key).collect::<Vec<_>>();
    assert_eq!(keys(&a, &b), ["sass preempt_urgent", "driver", "clocks"]);
    b.manifest.predicate.source.commit = Some("0".repeat(40));
    b.plan_digest = Digest::of(b"another plan");
    assert_eq!(keys(&a, &b)[..3], ["commit", "plan", "sass preempt_urgent"]);
    b.build.as_mut().unwrap().kernels.retain(|kernel| kernel.symbol != "preempt_drain");
    assert!(differences(&a, &b).iter().any(|d| d.key == "sass preempt_drain" && d.b == "absent"));
    assert!(differences(&b, &a).iter().any(|d| d.key == "sass preempt_drain" && d.a == "absent"));
}

#[test]
fn numbers_of_two_gpu_models_stand_side_by_side_without_a_word() {
    let (a, _) = evidence();
    let mut b = a.clone();
    b.environment.device.name = "Another GPU".to_owned();
    b.environment.device.slots = b.environment.device.slots.clone().with("sms", 8);
    let twice = |cell: &str| cell.replace("blocks=8", "blocks=16").replace("blocks=4", "blocks=8");
    b.recomputed.drawn.iter_mut().for_each(|row| row.metric.cell = twice(&row.metric.cell));
    b.contract.cells.iter_mut().for_each(|spec| spec.name = twice(&spec.name));
    let compared = compare(&a, &b);
    assert_eq!(compared.verdict, None);
    assert!(compared.why.contains("Test GPU and Another GPU"));
    assert!(compared.metrics.iter().all(|m| m.verdict.is_none() && m.effect.is_none() && m.band.is_none()));
    let latency = compared.metrics.iter().find(|m| m.id == "preempt_latency_us_p50").unwrap();
    assert_eq!(latency.cell, "yield/k=64,blocks=full,poll=1,set=device");
    assert!(latency.a.is_some() && latency.a == latency.b);
    assert!(compared.environment.iter().any(|d| d.key == "GPU model"));
}
