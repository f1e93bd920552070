//! An inventory: digests, and where known sizes, of artifacts that are kept elsewhere. Whether a name may be used as
//! a path is not decided here.
//!
//! The format is what `sha256sum` prints, `DIGEST NAME` a line, so coreutils checks it too. A line `# bytes N NAME`
//! gives an artifact's size; other lines that begin with `#` are comments, and coreutils skips all of these.

use anyhow::{Context, Result, bail, ensure};
use schema::Digest;
use std::collections::BTreeMap;

/// What an inventory lists, by name.
pub type Inventory = BTreeMap<String, Listed>;

/// One artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its SHA-256.
    pub digest: Digest,
    /// Its length, where the inventory gives one.
    pub bytes: Option<u64>,
}

/// Reads an inventory.
///
/// # Errors
/// Names the first line that is none of its forms, lists a name twice or in another case, or sizes what is not listed; an
/// inventory that lists nothing is an error.
pub fn parse(text: &str) -> Result<Inventory> {
    ensure!(text.is_empty() || text.ends_with('\n'), "the last line has no line break, so the file was cut off");
    let (mut inventory, mut sizes, mut folded) = (Inventory::new(), BTreeMap::new(), BTreeMap::new());
    for (i, line) in text.split_terminator('\n').enumerate() {
        let mut read = || -> Result<()> {
            if let Some(size) = line.strip_prefix("# bytes ") {
                let (bytes, name) = size.split_once(' ').context("a size is `# bytes N NAME`")?;
                let bytes: u64 = bytes.parse().with_context(|| format!("{bytes:?} is no number of bytes"))?;
                ensure!(sizes.insert(name.to_owned(), bytes).is_none(), "{name:?} has two sizes");
            } else if !line.starts_with('#') {
                let (name, digest) = artifact(line)?;
                if let Some(other) = folded.insert(name.to_lowercase(), name.to_owned()) {
                    bail!("{name:?} is listed beside {other:?}");
                }
                inventory.insert(name.to_owned(), Listed { digest, bytes: None });
            }
            Ok(())
        };
        read().with_context(|| format!("line {}", i + 1))?;
    }
    ensure!(!inventory.is_empty(), "it lists nothing");
    for (name, bytes) in sizes {
        let listed = inventory.get_mut(&name).with_context(|| format!("it sizes {name:?}, which it does not list"))?;
        listed.bytes = Some(bytes);
    }
    Ok(inventory)
}

/// `DIGEST  NAME`, or `DIGEST *NAME` as coreutils writes a file read in binary.
fn artifact(line: &str) -> Result<(&str, Digest)> {
    ensure!(!line.starts_with('\\'), "a name that had to be escaped is no name of an artifact");
    let (digest, name) = line.split_once(' ').with_context(|| format!("{line:?} is not `DIGEST  NAME`"))?;
    let name = name.strip_prefix([' ', '*']).with_context(|| format!("{line:?} is not `DIGEST  NAME`"))?;
    Ok((name, digest.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn lines_of_coreutils_with_sizes_and_comments_are_read() {
        let text = format!("# ten artifacts\n# bytes 3 a b/c.json\n{ABC}  a b/c.json\n{ABC} *d\n");
        let inventory = parse(&text).unwrap();
        let digest = Digest::of("abc");
        assert_eq!(inventory["a b/c.json"], Listed { digest, bytes: Some(3) });
        assert_eq!(inventory["d"], Listed { digest, bytes: None });
        assert_eq!(inventory.len(), 2);
    }

    #[test]
    fn what_is_no_inventory_is_refused_with_its_line() {
        let line = format!("{ABC}  a\n");
        for (text, words) in [
            (String::new(), "lists nothing"),
            ("# only a comment\n".to_owned(), "lists nothing"),
            (format!("{ABC}  a"), "cut off"),
            (format!("{line}{line}"), "line 2"),
            (format!("{line}{ABC}  A\n"), "\"A\" is listed beside \"a\""),
            (format!("{line}\n"), "line 2"),
            (format!("{line}# bytes 1 b\n"), "sizes \"b\", which it does not list"),
            (format!("{line}# bytes 1 a\n# bytes 1 a\n"), "two sizes"),
            (format!("{line}# bytes many a\n"), "no number of bytes"),
            (format!("{line}# bytes 1\n"), "`# bytes N NAME`"),
            (format!("\\{ABC}  a\\nb\n"), "escaped"),
            (format!("{ABC} a\n"), "is not `DIGEST  NAME`"),
            (format!("{ABC}\n"), "is not `DIGEST  NAME`"),
            (format!("{}  a\n", &ABC[1..]), "line 1"),
            (format!("\u{feff}{line}"), "line 1"),
            (format!("SHA256 (a) = {ABC}\n"), "line 1"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(words), "{text:?}: {error:?} lacks {words:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = parse(&text);
            let _ = parse(&format!("{ABC}  {text}\n# bytes 1 {text}\n"));
        }
    }
}
