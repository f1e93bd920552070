//! The output of a child: whole lines to the caller as they come, and the last bytes to keep.

use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, Read};
use std::time::Duration;

/// How much of each stream is kept.
const KEPT_BYTES: usize = 8 << 20;
/// A longer line comes in pieces.
const LONGEST_LINE_BYTES: usize = 1 << 20;

/// One stream of a child's output.
pub(super) struct Stream {
    /// Absent once the stream has ended.
    pipe: Option<PipeReader>,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The last bytes, and how many came before them.
    tail: VecDeque<u8>,
    n_cut: usize,
}

impl Stream {
    pub(super) fn of(pipe: PipeReader) -> Self {
        Self { pipe: Some(pipe), line: Vec::new(), tail: VecDeque::new(), n_cut: 0 }
    }

    /// Whether nothing more can come.
    pub(super) fn ended(&self) -> bool {
        self.pipe.is_none()
    }

    /// Takes what the pipe holds now; `each` gets every line that is whole, its newline included.
    pub(super) fn take(&mut self, each: &mut dyn FnMut(&[u8])) {
        let mut piece = [0; 1 << 16];
        let Some(pipe) = &mut self.pipe else { return };
        let n = match pipe.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            read => read.unwrap_or(0),
        };
        self.keep(&piece[..n], KEPT_BYTES);
        for part in piece[..n].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= LONGEST_LINE_BYTES {
                each(&self.line);
                self.line.clear();
            }
        }
        if n == 0 {
            self.pipe = None;
            if !self.line.is_empty() {
                each(&std::mem::take(&mut self.line));
            }
        }
    }

    fn keep(&mut self, bytes: &[u8], most: usize) {
        self.tail.extend(bytes);
        let over = self.tail.len().saturating_sub(most);
        self.tail.drain(..over);
        self.n_cut += over;
    }

    /// The end of what was written, with a first line that says what was cut.
    pub(super) fn text(&mut self) -> String {
        let text = String::from_utf8_lossy(self.tail.make_contiguous());
        match self.n_cut {
            0 => text.into_owned(),
            cut => format!("[the first {cut} bytes were cut]\n{text}"),
        }
    }
}

/// Which streams have output to read, waiting for at most `patience`.
pub(super) fn ready(streams: [&Stream; 2], patience: Duration) -> [bool; 2] {
    let pipes = streams.iter().filter_map(|stream| stream.pipe.as_ref());
    let mut asked: Vec<PollFd> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
    // If a signal ends the wait early, no stream is marked as ready.
    let _ = poll(&mut asked, patience.try_into().ok().as_ref());
    let mut asked = asked.iter();
    streams.map(|stream| !stream.ended() && asked.next().is_some_and(|pipe| !pipe.revents().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_long_stream_keeps_its_end_and_says_so() {
        let mut stream = Stream::of(std::io::pipe().unwrap().0);
        stream.keep(b"abcdef", 4);
        stream.keep(b"gh", 4);
        assert_eq!(stream.text(), "[the first 4 bytes were cut]\nefgh");
    }

    #[test]
    fn a_line_without_newline_is_a_line() {
        let (pipe, mut writer) = std::io::pipe().unwrap();
        let (mut stream, silent) = (Stream::of(pipe), std::io::pipe().unwrap());
        let mut seen = Vec::new();
        let mut take =
            |stream: &mut Stream| stream.take(&mut |line| seen.push(String::from_utf8_lossy(line).into_owned()));
        for written in ["one\n\nt", "wo"] {
            writer.write_all(written.as_bytes()).unwrap();
            assert_eq!(
                ready([&Stream::of(silent.0.try_clone().unwrap()), &stream], Duration::from_secs(9)),
                [false, true]
            );
            take(&mut stream);
        }
        drop(writer);
        take(&mut stream);
        assert!(stream.ended());
        assert_eq!(seen, ["one\n", "\n", "two"]);
        assert_eq!(stream.text(), "one\n\ntwo");
    }
}
