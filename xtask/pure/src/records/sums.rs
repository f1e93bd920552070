//! `SHA256SUMS`: the lines that coreutils checks, in one fixed order. There is one way to write them, and a file
//! written otherwise is refused.

use anyhow::{Context, Result, ensure};
use schema::Digest;
use std::collections::{BTreeMap, BTreeSet};
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

/// Reads what [`to_text`] wrote.
///
/// # Errors
/// Names the first line that is not exactly 64 lower-case hex digits, two blanks and a path, or does not come after the line
/// before it.
pub fn parse(text: &str) -> Result<BTreeMap<String, Digest>> {
    let mut sums = BTreeMap::new();
    for (i, line) in text.split_inclusive('\n').enumerate() {
        let (path, digest) = parse_line(line).with_context(|| format!("line {}", i + 1))?;
        let after = sums.last_key_value().is_none_or(|(last, _): (&String, _)| *last < path);
        ensure!(after, "line {}: {path} is named twice, or out of order", i + 1);
        sums.insert(path, digest);
    }
    Ok(sums)
}

fn parse_line(line: &str) -> Result<(String, Digest)> {
    let line = line.strip_suffix('\n').context("it is cut off")?;
    let (digest, path) = line.split_once("  ").context("it is not a digest, two blanks and a path")?;
    let plain = !path.is_empty() && !path.starts_with([' ', '*']) && !path.chars().any(char::is_control);
    ensure!(plain, "{path:?} is no plain path");
    Ok((path.to_owned(), digest.parse()?))
}

/// The paths whose digests differ between two such files, or that only one of them names.
#[must_use]
pub fn differing(stored: &BTreeMap<String, Digest>, expected: &BTreeMap<String, Digest>) -> Vec<String> {
    let paths: BTreeSet<&String> = stored.keys().chain(expected.keys()).collect();
    paths.into_iter().filter(|path| stored.get(*path) != expected.get(*path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(a: &str) -> BTreeMap<String, Digest> {
        BTreeMap::from([("b".to_owned(), Digest::of(b"")), ("a".to_owned(), Digest::of(a))])
    }

    #[test]
    fn lines_are_sorted_and_differences_name_the_path() {
        let text = to_text(&sums("1"));
        assert!(text.lines().next().unwrap().ends_with("  a"));
        assert_eq!(differing(&parse(&text).unwrap(), &sums("2")), ["a"]);
        assert!(differing(&parse(&text).unwrap(), &sums("1")).is_empty());
        assert_eq!(differing(&parse(&text).unwrap(), &BTreeMap::new()), ["a", "b"]);
        assert_eq!(differing(&BTreeMap::new(), &parse(&text).unwrap()), ["a", "b"]);
    }

    #[test]
    fn a_line_that_a_lenient_checker_skips_is_refused_by_its_number() {
        let digest = Digest::of(b"").to_string();
        let good = format!("{digest}  a\n");
        assert_eq!(parse(&good).unwrap().len(), 1);
        for (bad, said) in [
            (format!("{good}{}  b\n", &digest[..63]), "line 2"),
            (format!("{good}{}  b\n", digest.to_uppercase()), "line 2"),
            (format!("{good}{digest} b\n"), "line 2"),
            (format!("{good}{digest} *b\n"), "line 2"),
            (format!("{good}{digest}  *b\n"), "line 2"),
            (format!("{good}{digest}   b\n"), "line 2"),
            (format!("{good}{digest}  b\r\n"), "line 2"),
            (format!("{good}{digest}  b"), "cut off"),
            (format!("{good}\n"), "line 2"),
            (format!("# made by hand\n{good}"), "line 1"),
            (format!("{good}{good}"), "named twice"),
            (format!("{digest}  b\n{good}"), "out of order"),
            (format!("\\{digest}  b\\nc\n"), "line 1"),
        ] {
            let error = format!("{:#}", parse(&bad).unwrap_err());
            assert!(error.contains(said), "{bad:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_the_same_bytes(lines in proptest::collection::vec("([0-9a-f]{64}|[0-9a-fA-F]{62,66}) {1,3}[a-c*]{0,2}[\r]?\n?", 0..4)) {
            let text = lines.concat();
            if let Ok(sums) = parse(&text) {
                prop_assert_eq!(to_text(&sums), text);
            }
        }
    }
}
