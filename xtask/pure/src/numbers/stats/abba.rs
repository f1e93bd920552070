//! The cost of one arm over another from launches in ABBA order, which cancels linear drift within a quad.

use super::{Estimate, P50, Resamples};
use anyhow::ensure;
use std::collections::BTreeMap;

/// One launch of a quad.
#[derive(Clone, Copy, Debug)]
pub struct QuadLaunch {
    /// Its quad.
    pub quad: u32,
    /// Its position in the quad, 0 to 3.
    pub position: u32,
    /// Its arm: 0 the reference, 1 the one whose cost is asked for.
    pub arm: u32,
    /// How long it took.
    pub wall_ns: u32,
}

/// The median over quads of ((B1 + B2) / (A1 + A2) - 1) * 100, with an interval that draws quads; nothing without quads.
///
/// # Errors
/// When a quad is not four launches in the order ABBA, or its reference took no time.
pub fn abba_cost(name: &str, launches: &[QuadLaunch]) -> anyhow::Result<Option<Estimate<f64>>> {
    let mut quads: BTreeMap<u32, Vec<QuadLaunch>> = BTreeMap::new();
    for launch in launches {
        quads.entry(launch.quad).or_default().push(*launch);
    }
    let costs: Vec<(u32, f64)> =
        quads.into_iter().map(|(quad, launches)| Ok((quad, cost(quad, launches)?))).collect::<anyhow::Result<_>>()?;
    let resamples = Resamples::new(name, costs.iter().map(|(quad, _)| *quad));
    Ok(resamples.quantiles(&costs, &[P50]).pop())
}

fn cost(quad: u32, mut launches: Vec<QuadLaunch>) -> anyhow::Result<f64> {
    launches.sort_by_key(|launch| launch.position);
    let order: Vec<(u32, u32)> = launches.iter().map(|launch| (launch.position, launch.arm)).collect();
    ensure!(
        order == [(0, 0), (1, 1), (2, 1), (3, 0)],
        "quad {quad} is not four launches in the order ABBA: (position, arm) = {order:?}"
    );
    let sum = |a: usize, b: usize| f64::from(launches[a].wall_ns) + f64::from(launches[b].wall_ns);
    ensure!(sum(0, 3) > 0.0, "the reference launches of quad {quad} took no time");
    Ok((sum(1, 2) / sum(0, 3) - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(quad: u32, walls: [u32; 4]) -> Vec<QuadLaunch> {
        let launch = |(position, wall_ns)| {
            let position = position as u32;
            QuadLaunch { quad, position, arm: u32::from(position == 1 || position == 2), wall_ns }
        };
        walls.into_iter().enumerate().map(launch).collect()
    }

    #[test]
    fn linear_drift_cancels() {
        let launches: Vec<QuadLaunch> = (0..9).flat_map(|i| quad(i, [1000, 1110, 1210, 1300 + 20])).collect();
        let cost = abba_cost("t", &launches).unwrap().unwrap();
        assert_eq!(cost.value, (2320.0 / 2320.0 - 1.0) * 100.0);
        assert_eq!((cost.interval, cost.n), (Some((0.0, 0.0)), 9));
    }

    #[test]
    fn the_median_quad_is_reported_with_an_interval_around_it() {
        let launches: Vec<QuadLaunch> = (0..101).flat_map(|i| quad(i, [1000, 1000 + i, 1000 + i, 1000])).collect();
        let cost = abba_cost("t", &launches).unwrap().unwrap();
        assert!((cost.value - 5.0).abs() < 1e-9);
        let (lo, hi) = cost.interval.unwrap();
        assert!(3.0 < lo && lo < cost.value && cost.value < hi && hi < 7.0, "{lo} {hi}");
    }

    #[test]
    fn an_incomplete_or_reordered_quad_is_an_error() {
        assert!(abba_cost("t", &quad(0, [1; 4])[..3]).is_err());
        assert!(abba_cost("t", &quad(0, [0; 4])).is_err());
        let mut reordered = quad(0, [1; 4]);
        reordered[0].arm = 1;
        assert!(abba_cost("t", &reordered).unwrap_err().to_string().contains("quad 0"));
        assert_eq!(abba_cost("t", &[]).unwrap(), None);
    }
}
