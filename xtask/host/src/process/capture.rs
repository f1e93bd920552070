//! What is kept of a child's output: its last bytes, whole lines to the caller as they come.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    cut: u64,
}

/// How much of each stream is kept.
const KEPT_BYTES: usize = 8 << 20;

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.push_within(bytes, KEPT_BYTES);
    }

    fn push_within(&mut self, bytes: &[u8], kept: usize) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(kept);
        self.bytes.drain(..over);
        self.cut += over as u64;
    }

    /// The text, with a first line that says what was cut.
    pub(super) fn text(&mut self) -> String {
        let text = String::from_utf8_lossy(self.bytes.make_contiguous());
        match self.cut {
            0 => text.into_owned(),
            cut => format!("[the first {cut} bytes were cut]\n{text}"),
        }
    }
}

/// Calls `each` with every line, its newline included; a line longer than 1 MiB comes in pieces.
pub(super) fn each_line(stream: impl Read, mut each: impl FnMut(&[u8]) -> bool) {
    const PIECE_BYTES: u64 = 1 << 20;
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(PIECE_BYTES).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && each(&line) => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stream_keeps_its_end_and_says_so() {
        let mut tail = Tail::default();
        tail.push_within(b"abcdef", 4);
        tail.push_within(b"gh", 4);
        assert_eq!(tail.text(), "[the first 4 bytes were cut]\nefgh");
    }

    #[test]
    fn a_line_without_newline_is_a_line() {
        let mut seen = Vec::new();
        each_line(&b"one\n\ntwo"[..], |line| {
            seen.push(String::from_utf8_lossy(line).into_owned());
            true
        });
        assert_eq!(seen, ["one\n", "\n", "two"]);
    }
}
