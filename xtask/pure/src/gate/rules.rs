//! The version of the rules: which gates there are, what they count, which metrics follow from the events, and every word of a
//! verdict.
//!
//! `xtask/pure/rules-version` holds the number. Raise it by one, in the same commit, with any change by which a run that was
//! judged before could get another byte in its verdict: a gate, an evidence key, a threshold, a metric, a figure, a message.
//! The number never falls, and the file never moves: the rules of a run are those of the commit that was measured, read from
//! its tree. A commit without the file has rules 1.

use anyhow::{Context, Result, ensure};

/// Where the number stands, below the repository's root.
pub const FILE: &str = "xtask/pure/rules-version";

/// The version of this tree's rules.
///
/// # Panics
/// When the file holds no number.
#[must_use]
pub fn rules() -> u32 {
    parse(include_str!("../../rules-version")).expect("the file holds a number, as a test says")
}

/// Reads the file as of some commit.
///
/// # Errors
/// When it holds anything but one number and a line break.
pub fn parse(text: &str) -> Result<u32> {
    let number = text.strip_suffix('\n').context("no line break ends it")?;
    let rules: u32 = number.parse().with_context(|| format!("{number:?} is no version"))?;
    ensure!(rules > 0 && rules.to_string() == number, "{number:?} is no version");
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_one_way_to_be_written() {
        assert!(rules() > 1);
        assert_eq!(parse("17\n").unwrap(), 17);
        for text in ["", "\n", "2", "02\n", "+2\n", "0\n", "-1\n", "2\n\n", "two\n", "4294967296\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
