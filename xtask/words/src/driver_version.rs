//! A driver's version. It is neither a fraction nor a semantic version: `418.87.01`, `535.54` and `570.133.7` are all real.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version: ordered by its numbers, shown as it was written.
///
/// Leading zeros say nothing: file names carry them (`570.133.07`) and the kernel module drops them (`570.133.7`).
#[derive(Clone, Debug)]
pub struct DriverVersion {
    numbers: Vec<u32>,
    text: String,
}

impl DriverVersion {
    /// The first number, by which NVIDIA names its release branches.
    #[must_use]
    pub fn series(&self) -> u32 {
        self.numbers[0]
    }

    /// Whether one names the other: the common numbers are equal, and there may be fewer of them on one side.
    ///
    /// For telling a mismatch only: some messages cut the last number off.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.numbers.iter().zip(&other.numbers).all(|(a, b)| a == b)
    }
}

impl FromStr for DriverVersion {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        let numbers: Option<Vec<u32>> = text.split('.').map(number).collect();
        let numbers = numbers.filter(|numbers| (2..=4).contains(&numbers.len()));
        let numbers = numbers.ok_or_else(|| anyhow::anyhow!("{text:?} is no driver version such as 580.95.05"))?;
        Ok(Self { numbers, text: text.to_owned() })
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for DriverVersion {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

impl Eq for DriverVersion {}

impl PartialOrd for DriverVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DriverVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> DriverVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number_and_shown_as_written() {
        for (a, b, expected) in [
            ("570.133.07", "570.133.7", Ordering::Equal),
            ("535.54", "535.54.03", Ordering::Less),
            ("418.87.01", "418.87.1", Ordering::Equal),
            ("570.9.1", "570.133.7", Ordering::Less),
            ("99.1", "580.95.05", Ordering::Less),
            ("580.95.05", "570.133.20", Ordering::Greater),
        ] {
            assert_eq!(version(a).cmp(&version(b)), expected, "{a} {b}");
        }
        assert_eq!(version("570.133.07\n").to_string(), "570.133.07");
        assert_eq!(version("580.95.05").series(), 580);
    }

    #[test]
    fn a_cut_version_agrees_only_with_what_it_was_cut_from() {
        assert!(version("570.133").agrees_with(&version("570.133.20")));
        assert!(version("550.144.03").agrees_with(&version("550.144")));
        assert!(!version("570.133").agrees_with(&version("570.124.06")));
    }

    #[test]
    fn other_words_are_no_version() {
        for text in
            ["", "580", "580.", ".95", "580.95.05-1", "N/A", "580,95", "[Unknown Error]", "5.5e2.1", "1.2.3.4.5"]
        {
            assert!(text.parse::<DriverVersion>().is_err(), "{text}");
        }
    }
}
