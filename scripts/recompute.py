#!/usr/bin/env python3
"""Recomputes the headline values of a published run from its committed Parquet files and compares them with its metrics.csv.

Every file it reads must have the digest that the run's manifest gives it, so a signature over the manifest covers the values.

Shares no code with Assay: needs only Python and pyarrow (pip install pyarrow).

    scripts/recompute.py RUN [ROOT]      ROOT is the repository, by default the folder above this script

The events of a superseded run left the tree; the script says how git brings them back.

Exit status: 0 when every value compared is equal to the printed digit, 1 otherwise, 2 on a wrong command line or without pyarrow.
"""

import csv
import hashlib
import io
import json
import sys
from pathlib import Path

try:
    import pyarrow.parquet as pq
except ImportError:
    print("needs pyarrow: pip install pyarrow", file=sys.stderr)
    sys.exit(2)

# A quantile is the nearest-rank one: the value at rank ceil(q * n), counted from 1, of the sorted samples.
QUANTILES = {"p50": (1, 2), "p99": (99, 100), "p999": (999, 1000)}
FLOORS = {"p99": 10_000, "p999": 100_000}  # Fewest events behind a tail, over at least 20 launches.
# Metric without its quantile: phase, and from one row of the events the nanoseconds it is about.
TIMES = {
    "tile_wall_us": ("calibrate", lambda e: e["wall_ns"]),
    "urgent_wait_us": ("baseline", lambda e: e["start_ns"] - e["issue_ns"]),
    "preempt_latency_us": ("yield", lambda e: e["last_ready_ns"]),
    "first_observer_us": ("yield", lambda e: e["first_observer_ns"]),
    "last_observer_us": ("yield", lambda e: e["last_observer_ns"]),
    "visibility_us": ("yield", lambda e: e["visibility_ns"]),
    "urgent_e2e_us": ("yield", lambda e: e["urgent_done_ns"]),
    "urgent_tile_us": ("yield", lambda e: e["urgent_done_ns"] - e["urgent_start_ns"]),
}
ON_HOST_CLOCK = ("urgent_wait_us", "host_e2e_us")


def quantile(values, name):
    num, den = QUANTILES[name]
    return sorted(values)[max(-(-num * len(values) // den), 1) - 1]


def host_e2e(event):
    if "issue_ns" in event:
        return event["done_ns"] - event["issue_ns"]
    return None if event["host_issue_ns"] is None else event["host_done_ns"] - event["host_issue_ns"]


class Sealed:
    """The files of a published run, each checked against the manifest before it is used."""

    def __init__(self, root, run):
        self.root, self.run = root, run
        manifest = json.loads((root / "manifests" / f"{run}.json").read_bytes())
        if manifest["predicate"]["run"] != run:
            raise ValueError(f"manifests/{run}.json is of another run")
        self.digests = {subject["name"]: subject["digest"]["sha256"] for subject in manifest["subject"]}

    def read(self, name):
        if name.startswith("summary/"):
            path = self.root / "results" / "summary" / self.run / name.removeprefix("summary/")
        else:
            path = self.root / "results" / "events" / self.run / name
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.digests.get(name):
            raise ValueError(f"{path} is not the file that was sealed")
        return data

    def table(self, name):
        return pq.ParquetFile(io.BytesIO(self.read(name))).read().to_pylist()

    def events(self, phase, cell):
        """The events that count: of no warm-up launch and without an anomaly."""
        base = f"cells/{phase}/{cell}"
        warmup = {row["launch"] for row in self.table(f"{base}.launches.parquet") if row["warmup"]}
        return [e for e in self.table(f"{base}.parquet") if e["launch"] not in warmup and not e.get("anomaly")]


def printed(value, digits):
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def poll_cost(rows):
    quads = {}
    for row in rows:
        quads.setdefault(row["quad"], [0, 0])[row["arm"]] += row["wall_ns"]
    return [(polling / free - 1.0) * 100.0 for free, polling in quads.values()]


def recompute(row, load, quantum_ns):
    """The value and n that `row` should print, or None where this script does not know its metric."""
    phase, cell, metric = row["phase"], row["cell"], row["metric"]
    if row["note"].startswith("refused: "):
        return None  # Measured, and not published: launches off the clock move it too far.
    if metric == "poll_cost_pct":
        costs = poll_cost(load(phase, cell))
        return printed(quantile(costs, "p50"), 3), len(costs)
    if metric == "ratio":
        slow_phase, slow_cell = row["note"].split("; ")[0].removesuffix(" over this cell").split("/", 1)
        slow = [host_e2e(e) for e in load(slow_phase, slow_cell)]
        fast = [host_e2e(e) for e in load(phase, cell)]
        return printed(quantile(slow, "p50") / quantile(fast, "p50"), 3), min(len(slow), len(fast))
    stem, _, q = metric.rpartition("_")
    of = host_e2e if stem == "host_e2e_us" else TIMES.get(stem, (None, None))[1]
    if of is None or q not in QUANTILES or (stem in TIMES and TIMES[stem][0] != phase):
        return None
    rows = [e for e in load(phase, cell) if of(e) is not None]
    if q in FLOORS and (len(rows) < FLOORS[q] or len({e["launch"] for e in rows}) < 20):
        return f"no {q} of {len(rows)} events", len(rows)
    value = quantile([of(e) for e in rows], q)
    if stem not in ON_HOST_CLOCK and quantum_ns:
        value = max(value, 2 * quantum_ns)  # A value under two quanta is printed as that bound.
    return printed(value / 1e3, 3), len(rows)


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).resolve().parent.parent
    manifests = root / "manifests"
    if not (manifests / f"{sys.argv[1]}.json").is_file():
        print(f"no published run {sys.argv[1]} in {manifests}", file=sys.stderr)
        return 2
    record = manifests / f"{sys.argv[1]}.events.json"
    if record.exists() and not (root / "results" / "events" / sys.argv[1]).exists():
        commit = json.loads(record.read_text())["commit"]
        print(f"its events left the tree: git checkout {commit} -- results/events/{sys.argv[1]}", file=sys.stderr)
        return 1
    sealed = Sealed(root, sys.argv[1])
    rows = list(csv.DictReader(io.StringIO(sealed.read("summary/metrics.csv").decode(), newline="")))
    cache = {}

    def load(phase, cell):
        if (phase, cell) not in cache:
            cache[phase, cell] = sealed.events(phase, cell)
        return cache[phase, cell]

    quantum_ns = next((int(r["value"]) for r in rows if r["metric"] == "timer_quantum_ns"), None)
    pairs = [(row, recompute(row, load, quantum_ns)) for row in rows]
    compared = [(row, found) for row, found in pairs if found is not None]
    wrong = [(row, found) for row, found in compared if found != (row["value"], int(row["n"]))]
    for row, (value, n) in wrong:
        print(f"{row['phase']}/{row['cell']} {row['metric']}: metrics.csv says {row['value']} (n {row['n']}), "
              f"the events give {value} (n {n})")
    print(f"{len(compared)} values compared, {len(wrong)} differ")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
