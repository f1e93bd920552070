//! From where to where an interval was timed. A ratio of two intervals means something only when both begin and end alike.

/// Each interval by its metric's name without unit and quantile: where it begins and where it ends.
const INTERVALS: [(&str, &str, &str); 11] = [
    ("tile_wall", "tile boundary", "next tile boundary"),
    ("urgent_wait", "host issue", "host sees the urgent kernel start"),
    ("host_e2e", "host issue", "host-observed done"),
    ("drain", "first block's start", "last block's end"),
    ("poll_free_drain", "first block's start", "last block's end"),
    ("preempt_latency", "set", "last ready"),
    ("first_observer", "set", "first observer"),
    ("last_observer", "set", "last observer"),
    ("visibility", "set", "last poll of the old generation"),
    ("urgent_e2e", "set", "urgent done"),
    ("urgent_tile", "urgent start", "urgent done"),
];

/// Begin, end and quantile of a timed metric, e.g. of `host_e2e_us_p50`; absent for what is no interval.
#[must_use]
pub fn end_points(metric: &str) -> Option<(&'static str, &'static str, &str)> {
    let (named, quantile) = metric.rsplit_once('_')?;
    let (stem, unit) = named.rsplit_once('_')?;
    let timed = ["ns", "us", "ms"].contains(&unit);
    let found = INTERVALS.iter().find(|(name, ..)| timed && *name == stem)?;
    Some((found.1, found.2, quantile))
}
