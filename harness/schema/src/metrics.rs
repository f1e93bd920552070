//! `summary/metrics.csv`: every summary value in long form.
//!
//! Header and columns: `run,experiment,phase,cell,metric,unit,value,lo,hi,n,note`. A cell that holds a comma is quoted.

use anyhow::{Context, ensure};
use std::fmt::Write as _;

/// The header line, without its line break.
pub const HEADER: &str = "run,experiment,phase,cell,metric,unit,value,lo,hi,n,note";

/// One row. Values are decimal strings as printed; `lo` and `hi` are the 95 % interval, or empty where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Run id.
    pub run: String,
    /// Experiment.
    pub experiment: String,
    /// Phase name.
    pub phase: String,
    /// Cell name.
    pub cell: String,
    /// Metric name; its unit ends it.
    pub metric: String,
    /// Unit: `us`, `ms`, `ns`, `%`, `MHz`, `1`, …
    pub unit: String,
    /// The value.
    pub value: String,
    /// Lower end of the interval, or empty.
    pub lo: String,
    /// Upper end of the interval, or empty.
    pub hi: String,
    /// How many samples it rests on.
    pub n: u64,
    /// Anything to say beside it, e.g. `bound: under two quanta`.
    pub note: String,
}

impl Metric {
    /// What the note of a number that does not stand begins with; its row has no value.
    pub const REFUSED: &str = "refused: ";

    /// Stands in the note of a cost whose interval lies below zero, which tells nothing of what it was to cost.
    pub const REFERENCE_SLOWER: &str = "the reference was slower than what it is to be compared with";

    /// Whether the row is of a number that was measured and does not stand.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.note.starts_with(Self::REFUSED)
    }
}

/// The file's bytes.
#[must_use]
pub fn to_csv(metrics: &[Metric]) -> String {
    let mut text = format!("{HEADER}\n");
    for metric in metrics {
        let _ = writeln!(text, "{}", to_line(metric));
    }
    text
}

fn to_line(m: &Metric) -> String {
    let n = m.n.to_string();
    let fields = [&m.run, &m.experiment, &m.phase, &m.cell, &m.metric, &m.unit, &m.value, &m.lo, &m.hi, &n, &m.note];
    fields.map(|field| quote(field)).join(",")
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Reads what [`to_csv`] wrote.
///
/// # Errors
/// When the header differs, a line has not 11 fields, the last one is cut off, or anything is written in another way.
pub fn from_csv(text: &str) -> anyhow::Result<Vec<Metric>> {
    let text = text.strip_suffix('\n').context("the last line is cut off")?;
    let mut lines = text.split('\n');
    ensure!(lines.next() == Some(HEADER), "the first line is not {HEADER:?}");
    lines.enumerate().map(|(i, line)| parse_line(line).with_context(|| format!("line {}", i + 2))).collect()
}

fn parse_line(line: &str) -> anyhow::Result<Metric> {
    let fields = split(line)?;
    let [run, experiment, phase, cell, metric, unit, value, lo, hi, n, note] =
        <[String; 11]>::try_from(fields).map_err(|f| anyhow::anyhow!("{} fields instead of 11", f.len()))?;
    let n = n.parse().context("n is not a whole number")?;
    let row = Metric { run, experiment, phase, cell, metric, unit, value, lo, hi, n, note };
    // There is one way to write a row, so that all readers agree on it.
    ensure!(to_line(&row) == line, "it is not written as Assay writes it");
    Ok(row)
}

fn split(line: &str) -> anyhow::Result<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                fields.last_mut().expect("there is always a field").push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("there is always a field").push(c),
        }
    }
    ensure!(!quoted, "an open quotation mark");
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_written() {
        let row = Metric {
            run: "r".into(),
            experiment: "preempt".into(),
            phase: "yield".into(),
            cell: "k=64,blocks=528,poll=1,set=device".into(),
            metric: "preempt_latency_us_p50".into(),
            unit: "us".into(),
            value: "7.168".into(),
            lo: String::new(),
            hi: "7.2".into(),
            n: 10_000,
            note: "said \"so\"".into(),
        };
        assert_eq!(from_csv(&to_csv(std::slice::from_ref(&row))).unwrap(), vec![row]);
    }

    #[test]
    fn a_wrong_header_or_field_count_is_refused() {
        assert!(from_csv("run,experiment\n").is_err());
        assert!(from_csv(&format!("{HEADER}\na,b\n")).is_err());
        assert!(from_csv(&format!("{HEADER}\n\"a,b\n")).is_err());
        assert!(from_csv(HEADER).is_err() && from_csv(&format!("{HEADER}\r\n")).is_err());
    }

    #[test]
    fn a_row_has_one_way_to_be_written() {
        let row = |note: &str| format!("{HEADER}\nr,e,p,c,m,us,1,,,7,{note}\n");
        assert_eq!(from_csv(&row("plain")).unwrap().len(), 1);
        assert_eq!(from_csv(&row("\"a,b\"")).unwrap()[0].note, "a,b");
        for bad in ["\"plain\"", "pl\"ai\"n", "plain\r", "\"a\"b", "a\"b"] {
            assert!(from_csv(&row(bad)).is_err(), "{bad}");
        }
        assert!(from_csv(&row("plain").replace(",7,", ",+7,")).is_err());
        assert!(from_csv(&row("plain").replace(",7,", ",07,")).is_err());
    }
}
