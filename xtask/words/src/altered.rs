//! Explains why a file no longer has the digest it was sealed with, where its bytes show the reason. The file still
//! fails.
//!
//! Two tools change files silently: git, which may rewrite line endings at checkout, and Git LFS, which puts a short
//! text in place of a file that it has not fetched.

use schema::Digest;

/// How the first line of a Git LFS pointer begins (the LFS pointer specification).
const POINTER: &str = "version https://git-lfs.github.com/spec/";
/// The most bytes of a pointer.
pub const MOST_POINTER_BYTES: u64 = 1024;

/// The digest of the file that a Git LFS pointer stands for; nothing when these bytes are no pointer. An unreadable digest
/// in a pointer is `Some(None)`.
#[must_use]
pub fn lfs_pointer(bytes: &[u8]) -> Option<Option<Digest>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= MOST_POINTER_BYTES)?;
    text.starts_with(POINTER).then(|| {
        let oid = text.lines().find_map(|line| line.strip_prefix("oid sha256:"));
        oid.and_then(|oid| oid.parse().ok())
    })
}

/// What became of a file that was sealed as `sealed` and now has these bytes; nothing when they do not show it.
#[must_use]
pub fn explain(bytes: &[u8], sealed: Digest) -> Option<String> {
    if let Some(oid) = lfs_pointer(bytes) {
        let which = if oid == Some(sealed) { "the sealed" } else { "another" };
        return Some(format!("a Git LFS pointer to {which} file: git lfs pull"));
    }
    let lines: Vec<&[u8]> =
        bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    let ways = [("LF to CRLF", lines.join(&b"\n"[..])), ("CRLF to LF", lines.join(&b"\r\n"[..]))];
    let (way, _) = ways.into_iter().find(|(_, bytes)| Digest::of(bytes) == sealed)?;
    Some(format!("only its line endings changed ({way}); git does so with core.autocrlf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(oid: &str) -> String {
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 5242880\n")
    }

    #[test]
    fn a_pointer_is_told_from_a_file_that_is_merely_short() {
        let content = Digest::of("the content");
        let of = |text: &str| lfs_pointer(text.as_bytes());
        assert_eq!(of(&pointer(&content.to_string())), Some(Some(content)));
        assert_eq!(of(&pointer("cut off")), Some(None));
        for other in
            ["", "version 1\n", "see version https://git-lfs.github.com/spec/v1\n", &pointer(&"x".repeat(2000))]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_git_did_is_said_and_nothing_else() {
        let (lf, crlf) = (b"run,value\na,1\n".as_slice(), b"run,value\r\na,1\r\n".as_slice());
        let check = |bytes: &[u8], sealed: &[u8], expected: Option<&str>| {
            let said = explain(bytes, Digest::of(sealed));
            assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check(crlf, lf, Some("LF to CRLF"));
        check(lf, crlf, Some("CRLF to LF"));
        check(b"run,value\r\na,2\r\n", lf, None);
        check(b"a\rb", b"ab", None);
        check(pointer(&Digest::of(lf).to_string()).as_bytes(), lf, Some("to the sealed file"));
        check(pointer(&Digest::of(crlf).to_string()).as_bytes(), lf, Some("to another file"));
    }
}
