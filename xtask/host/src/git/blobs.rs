//! The answers of `git cat-file --batch`: for each object a line with its size, its bytes, a line break.

use anyhow::{Context, Result, bail, ensure};

/// The contents of `n` objects.
///
/// # Errors
/// When git lacks one, or an answer is no file's or cut off.
pub(super) fn contents(mut answers: &[u8], n: usize) -> Result<Vec<Vec<u8>>> {
    const CUT: &str = "git's answer was cut off";
    let mut contents = Vec::new();
    while !answers.is_empty() {
        let end = answers.iter().position(|byte| *byte == b'\n').context(CUT)?;
        let length = length(&String::from_utf8_lossy(&answers[..end]))?;
        let (content, rest) = answers[end + 1..].split_at_checked(length.saturating_add(1)).context(CUT)?;
        contents.push(content[..length].to_vec());
        answers = rest;
    }
    ensure!(contents.len() == n, CUT);
    Ok(contents)
}

/// The length in `ID blob LENGTH`.
fn length(header: &str) -> Result<usize> {
    let words: Vec<&str> = header.split(' ').collect();
    match words.as_slice() {
        [_, "blob", length] => length.parse().with_context(|| format!("git said {header:?}")),
        [id, "missing"] => bail!("this repository lacks file {id}: git fetch --refetch brings it back"),
        _ => bail!("git said {header:?} of a file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_unless_the_answer_is_cut() {
        let answers = b"aa blob 3\nx\ny\nbb blob 0\n\ncc blob 2\n\xff\x00\n";
        assert_eq!(contents(answers, 3).unwrap(), [b"x\ny".to_vec(), Vec::new(), vec![0xff, 0]]);
        for at in 0..answers.len() {
            assert!(contents(&answers[..at], 3).is_err(), "{at}");
        }
    }

    #[test]
    fn what_git_lacks_is_said() {
        let error = contents(b"aa missing\nbb blob 0\n\n", 2).unwrap_err();
        assert!(error.to_string().contains("lacks file aa"), "{error}");
        assert!(contents(b"aa tree 0\n\n", 1).is_err());
        assert!(contents(b"aa blob x\n\n", 1).is_err());
    }
}
