//! The answers of `git cat-file --batch`, taken in as they come: for each object a line with its size, its bytes, a line break.

use anyhow::{Context, Result, bail, ensure};

/// What was answered so far.
#[derive(Default)]
pub(super) struct Blobs {
    whole: Vec<Vec<u8>>,
    header: Vec<u8>,
    /// The object that comes in, and how long it will be with its line break.
    current: Option<(Vec<u8>, usize)>,
    fault: Option<anyhow::Error>,
}

impl Blobs {
    /// Takes in bytes.
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.fault.is_none() {
            match &mut self.current {
                Some((blob, length)) => {
                    let (now, later) = bytes.split_at(bytes.len().min(*length - blob.len()));
                    blob.extend_from_slice(now);
                    bytes = later;
                    if blob.len() == *length {
                        blob.pop();
                        self.whole.extend(self.current.take().map(|(blob, _)| blob));
                    }
                }
                None => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    self.header.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
                    bytes = end.map_or(&[], |end| &bytes[end + 1..]);
                    if end.is_some() {
                        match length(&String::from_utf8_lossy(&std::mem::take(&mut self.header))) {
                            Ok(length) => self.current = Some((Vec::new(), length + 1)),
                            Err(error) => self.fault = Some(error),
                        }
                    }
                }
            }
        }
    }

    /// The contents of `n` objects.
    ///
    /// # Errors
    /// When git lacks one, or an answer is no file's or cut off.
    pub(super) fn all(self, n: usize) -> Result<Vec<Vec<u8>>> {
        self.fault.map_or(Ok(()), Err)?;
        ensure!(self.whole.len() == n && self.current.is_none(), "git's answer was cut off");
        Ok(self.whole)
    }
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

    fn read(pieces: &[&[u8]], n: usize) -> Result<Vec<Vec<u8>>> {
        let mut blobs = Blobs::default();
        pieces.iter().for_each(|piece| blobs.add(piece));
        blobs.all(n)
    }

    #[test]
    fn bytes_come_back_wherever_the_stream_is_cut() {
        let stream = b"aa blob 3\nx\ny\nbb blob 0\n\ncc blob 2\n\xff\x00\n";
        for at in 0..stream.len() {
            let found = read(&[&stream[..at], &stream[at..]], 3).unwrap();
            assert_eq!(found, [b"x\ny".to_vec(), Vec::new(), vec![0xff, 0]]);
            assert!(read(&[&stream[..at]], 3).is_err(), "{at}");
        }
    }

    #[test]
    fn what_git_lacks_is_said() {
        let error = read(&[b"aa missing\nbb blob 0\n\n"], 2).unwrap_err();
        assert!(error.to_string().contains("lacks file aa"), "{error}");
        assert!(read(&[b"aa tree 0\n\n"], 1).is_err());
        assert!(read(&[b"aa blob x\n\n"], 1).is_err());
    }
}
