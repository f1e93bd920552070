//! Decimals as they are printed, compared exactly.

use anyhow::ensure;
use std::fmt;
use std::str::FromStr;

const DIGITS_BEFORE: usize = 12;
const DIGITS_AFTER: usize = 6;
const SCALE: i128 = 1_000_000;

/// A decimal of at most 12 digits before and 6 behind the point, held in millionths, so that a product of two fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decimal(i128);

impl Decimal {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(SCALE);

    /// The exact product, in millionths of millionths: only good for comparing with another.
    pub(crate) fn times(self, other: Self) -> i128 {
        self.0 * other.0
    }

    /// The quotient in floating point, for showing.
    pub(crate) fn over(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }

    /// The nearest floating-point number, for showing.
    pub(crate) fn to_f64(self) -> f64 {
        self.over(Self::ONE)
    }
}

impl FromStr for Decimal {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let digits = |part: &str, most| (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        ensure!(
            digits(whole, DIGITS_BEFORE) && digits(fraction, DIGITS_AFTER),
            "{text:?} is not a decimal such as -12.5 (at most {DIGITS_BEFORE} digits before and {DIGITS_AFTER} behind the point)"
        );
        let millionths = whole.parse::<i128>()? * SCALE + format!("{fraction:0<DIGITS_AFTER$}").parse::<i128>()?;
        Ok(Self(if text.starts_with('-') { -millionths } else { millionths }))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = (self.0.abs() / SCALE, self.0.abs() % SCALE);
        let fraction = format!("{fraction:06}");
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            fraction => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn only_plain_decimals_are_read() {
        for bad in ["", "-", ".", "1.", ".5", "+1", "1e3", "1,5", " 1", "--1", "1.0000001", "1234567890123", "NaN", "٣"]
        {
            assert!(bad.parse::<Decimal>().is_err(), "{bad:?}");
        }
        for good in ["0", "-0.25", "10", "999999999999.999999", "0.1"] {
            assert_eq!(parse(good).to_string(), good);
        }
    }

    #[test]
    fn comparison_is_exact_where_binary_fractions_are_not() {
        assert_eq!(parse("0.3").times(Decimal::ONE), parse("0.1").times(parse("3")));
        assert_ne!(0.3, 0.1 * 3.0);
        assert_eq!(parse("1.50"), parse("1.5"));
        assert!(parse("-0.000001") < Decimal::ZERO);
        let large = parse("999999999999.999999");
        assert!(large.times(large) > 0, "the largest product fits");
    }
}
