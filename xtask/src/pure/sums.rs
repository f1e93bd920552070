//! `SHA256SUMS`: the lines that coreutils checks, in one fixed order.

use schema::Digest;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file's bytes: `digest  path`, sorted by path.
#[must_use]
pub fn to_text(sums: &BTreeMap<String, Digest>) -> String {
    let mut text = String::new();
    for (path, digest) in sums {
        let _ = writeln!(text, "{digest}  {path}");
    }
    text
}

/// The paths whose lines differ between two such files, or whose line only one of them has.
#[must_use]
pub fn differing(stored: &str, expected: &str) -> Vec<String> {
    let (stored, expected) = (lines(stored), lines(expected));
    let mut paths: Vec<String> = stored
        .symmetric_difference(&expected)
        .filter_map(|line| line.split_once("  "))
        .map(|(_, p)| p.to_owned())
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn lines(text: &str) -> std::collections::BTreeSet<&str> {
    text.lines().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_and_differences_name_the_path() {
        let sums = |a: &str| BTreeMap::from([("b".to_owned(), Digest::of(b"")), ("a".to_owned(), Digest::of(a))]);
        let text = to_text(&sums("1"));
        assert!(text.lines().next().unwrap().ends_with("  a"));
        assert_eq!(differing(&text, &to_text(&sums("2"))), ["a"]);
        assert!(differing(&text, &text).is_empty());
    }
}
