//! Finds figures with a unit in a line of Markdown: what is inside inline code, and what stands free.

/// A number with its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    /// As it would be printed: number, one space, unit.
    pub(super) text: String,
    /// Whether it is inside inline code.
    pub(super) in_code: bool,
}

/// The units of everything that is measured, limited or cited here, longest first where one begins another.
const UNITS: [&str; 66] = [
    "nanoseconds",
    "nanosecond",
    "microseconds",
    "microsecond",
    "milliseconds",
    "millisecond",
    "seconds",
    "second",
    "minutes",
    "minute",
    "hours",
    "hour",
    "days",
    "day",
    "per cent",
    "percent",
    "percentage points",
    "cycles",
    "times",
    "TFLOP/s",
    "GFLOP/s",
    "MFLOP/s",
    "TFLOPS",
    "GFLOPS",
    "TFLOP",
    "GFLOP",
    "MFLOP",
    "FLOP",
    "TOPS",
    "bytes",
    "byte",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "KB",
    "kB",
    "MB",
    "GB",
    "TB",
    "kHz",
    "MHz",
    "GHz",
    "Hz",
    "min",
    "ns",
    "us",
    "µs",
    "μs",
    "ms",
    "s",
    "h",
    "%",
    "mW",
    "kW",
    "W",
    "mJ",
    "J",
    "°C",
    "mV",
    "V",
    "-fold",
    "fold",
    "×",
    "x",
    "B",
];

/// Every figure of a line, from left to right.
pub(super) fn figures(line: &str) -> Vec<Figure> {
    let mut found = Vec::new();
    let mut in_code = false;
    let mut before = ' ';
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let free = !(before.is_alphanumeric() || "_=.#".contains(before));
        if c.is_ascii_digit() && free {
            let number = number(rest);
            let after = &rest[number.len()..];
            if let Some(unit) = unit(after) {
                let sign = if before == '-' || before == '−' { "-" } else { "" };
                let plain = number.replace([',', '_'], "");
                found.push(Figure { text: format!("{sign}{plain} {unit}"), in_code });
            }
            before = '0';
            rest = after;
            continue;
        }
        in_code ^= c == '`';
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    found
}

/// The number at the beginning: digits, and points, commas and underscores between digits.
fn number(text: &str) -> &str {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while is_digit(end) || (matches!(bytes.get(end), Some(b'.' | b',' | b'_')) && is_digit(end + 1)) {
        end += 1;
    }
    &text[..end]
}

/// The unit that follows a number, behind at most one space or hyphen.
fn unit(text: &str) -> Option<&'static str> {
    let close = text.strip_prefix([' ', '\u{a0}', '\u{202f}', '\u{2009}', '-']).unwrap_or(text);
    let fits = |unit: &&&str| {
        let after = |text: &str| text.strip_prefix(**unit).is_some_and(|rest| ends(unit, rest));
        after(close) || after(text)
    };
    UNITS.iter().find(fits).copied()
}

/// Whether a unit ends there. A product of two numbers, `64 x 64`, is no multiple.
fn ends(unit: &str, rest: &str) -> bool {
    let next = rest.chars().next().unwrap_or(' ');
    let product = matches!(unit, "x" | "×") && rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
    !product && (!(next.is_alphanumeric() || next == '_') || matches!(unit, "%" | "×"))
}
