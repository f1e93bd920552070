//! Finds figures with a unit in the words of a block.

use std::ops::Range;

/// A number with its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    /// Sign and digits, as a published number has them.
    pub(super) value: String,
    /// Its unit.
    pub(super) unit: &'static str,
    /// Where both stand.
    pub(super) range: Range<usize>,
}

/// The units of everything that is measured, limited or cited here, by what they measure.
const UNITS: [&[&str]; 6] = [
    &["nanoseconds", "nanosecond", "microseconds", "microsecond", "milliseconds", "millisecond", "seconds", "second"],
    &["nsec", "usec", "µsec", "μsec", "msec", "secs", "sec", "ns", "us", "µs", "μs", "ms", "s"],
    &["minutes", "minute", "min", "hours", "hour", "h", "days", "day", "cycles", "kHz", "MHz", "GHz", "Hz"],
    &["TFLOP/s", "GFLOP/s", "MFLOP/s", "TFLOPS", "GFLOPS", "TFLOP", "GFLOP", "MFLOP", "FLOP", "TOPS"],
    &["bytes", "byte", "B", "KiB", "MiB", "GiB", "TiB", "KB", "kB", "MB", "GB", "TB", "mW", "kW", "W", "mJ", "J", "°C"],
    &["mV", "V", "per cent", "percent", "percentage points", "%", "times", "-fold", "fold", "×", "x"],
];

/// Every figure of a text, from left to right.
pub(super) fn figures(text: &str) -> Vec<Figure> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let free = !(before.is_alphanumeric() || "_#".contains(before));
        if !(c.is_ascii_digit() && free) {
            before = c;
            at += c.len_utf8();
            continue;
        }
        let number = number(&text[at..]);
        if let Some((unit, length)) = unit(&text[at + number.len()..]) {
            let sign = if before == '-' || before == '−' { "-" } else { "" };
            let value = format!("{sign}{}", number.replace([',', '_'], ""));
            found.push(Figure { value, unit, range: at..at + number.len() + length });
        }
        before = '0';
        at += number.len();
    }
    found
}

/// The number at the beginning: digits, and points, commas and underscores between digits; then an exponent, if any.
fn number(text: &str) -> &str {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while is_digit(end) || (matches!(bytes.get(end), Some(b'.' | b',' | b'_')) && is_digit(end + 1)) {
        end += 1;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let digits = (end + 1 + sign..).take_while(|at| is_digit(*at)).count();
        end += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    &text[..end]
}

/// The unit that follows a number, behind at most one blank or hyphen and one bracket, and where it ends.
fn unit(text: &str) -> Option<(&'static str, usize)> {
    let close = text.strip_prefix([' ', '-', '\u{2011}', '–']).unwrap_or(text);
    let close = close.strip_prefix(['(', '[']).unwrap_or(close);
    let fits = |unit: &&str| {
        let after = |text: &str| text.strip_prefix(*unit).is_some_and(|rest| ends(unit, rest));
        after(close) || after(text)
    };
    let unit = UNITS.into_iter().flatten().copied().find(fits)?;
    Some((unit, text.find(unit)? + unit.len()))
}

/// Whether a unit ends there. A product of two numbers, `64 x 64`, is no multiple.
fn ends(unit: &str, rest: &str) -> bool {
    let next = rest.chars().next().unwrap_or(' ');
    let product = matches!(unit, "x" | "×") && rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
    !product && (!(next.is_alphanumeric() || next == '_') || matches!(unit, "%" | "×"))
}
