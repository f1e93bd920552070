//! A line as its reader sees it, and what on it could show the reader another figure than the one that is checked.

use super::pieces::{Piece, pieces};
use super::references::reference_at;
use crate::text::is_unseen;
use std::ops::Range;

/// What is read of a line.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Without comments, references, targets of links and marks of emphasis, and with one blank for white space.
    pub(super) text: String,
    /// Where in it code stands.
    code: Vec<Range<usize>>,
    /// What could show something else than is checked.
    pub(super) hides: Vec<&'static str>,
}

impl Seen {
    /// Reads a line that is in no fenced block.
    pub(super) fn of(line: &str) -> Self {
        let mut seen = Self::default();
        let mut skipped = 0;
        for piece in pieces(line) {
            match piece {
                // Part of a reference that was left out.
                Piece::Text(r) | Piece::Escaped(r) | Piece::Comment(r) if r.end <= skipped => {}
                Piece::Text(range) => seen.words(&line[range.start.max(skipped)..range.end]),
                Piece::Escaped(range) => seen.push(&line[range.start + 1..range.end]),
                Piece::Code(_, inside) => seen.code(&line[inside]),
                Piece::Ticks(range) => {
                    seen.hides.push(
                        "a backtick that is not closed on its line: whether it begins code depends on the others",
                    );
                    seen.push(&line[range]);
                }
                Piece::Comment(range) => {
                    if let Some(end) = reference_at(line, range.start) {
                        seen.reference(line, end);
                        skipped = end;
                    }
                }
                Piece::OpenComment(_) => seen.hides.push("a comment that does not end on its line"),
            }
        }
        seen
    }

    /// Whether all of a part of the text is code.
    pub(super) fn is_code(&self, part: &Range<usize>) -> bool {
        self.code.iter().any(|code| code.start <= part.start && part.end <= code.end)
    }

    /// The text with what is read on the next line, of which figures may be a part.
    pub(super) fn continued(&self, next: &str) -> String {
        let next = next.trim_start_matches(['>', ' ']);
        if next.is_empty() { self.text.clone() } else { format!("{} {}", self.text.trim_end(), Self::of(next).text) }
    }

    fn push(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                c if c.is_whitespace() => {
                    if !self.text.ends_with(' ') {
                        self.text.push(' ');
                    }
                }
                c if c.is_control() || is_unseen(c) => self.hides.push("a character that cannot be seen"),
                c => {
                    if c.is_numeric() && !c.is_ascii() {
                        self.hides.push("a digit other than 0 to 9");
                    }
                    self.text.push(c);
                }
            }
        }
    }

    fn code(&mut self, text: &str) {
        let from = self.text.len();
        self.push(text);
        self.code.push(from..self.text.len());
    }

    /// A value that is compared with what it refers to, and must stand by itself.
    fn reference(&mut self, line: &str, end: usize) {
        let before = self.text.chars().next_back().unwrap_or(' ');
        let after = line[end..].trim_start_matches(['*', '_', '~']).chars().next().unwrap_or(' ');
        let joins = |c: char| c.is_alphanumeric() || "_+-−–±^".contains(c);
        if joins(before) || ".,".contains(before) || after.is_alphanumeric() || "^%<".contains(after) {
            self.hides.push("a reference with something close to it, which a reader takes for a part of its value");
        }
        self.text.push(' ');
    }

    /// Plain text: links show their words, emphasis shows nothing, and what could be anything is not let pass.
    fn words(&mut self, text: &str) {
        let (mut rest, mut before) = (text, self.text.chars().next_back().unwrap_or(' '));
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            let next = after.chars().next().unwrap_or(' ');
            let mut left = after;
            match c {
                '*' | '~' => {}
                '_' if !(before.is_alphanumeric() && next.is_alphanumeric()) => {}
                '[' if is_link(after) => {}
                ']' => match target(after).filter(|_| text[..text.len() - rest.len()].contains('[')) {
                    Some(end) => left = &after[end..],
                    None => self.push("]"),
                },
                '<' if after.starts_with("br>") => {
                    self.push(" ");
                    left = &after["br>".len()..];
                }
                '<' if next.is_ascii_alphabetic() || "/!?".contains(next) => match autolink(after) {
                    Some(end) => left = &after[end..],
                    None => self.hides.push("HTML, which is not read here"),
                },
                '&' if is_entity(after) => self.hides.push("an entity: write the character itself"),
                c => self.push(c.encode_utf8(&mut [0; 4])),
            }
            before = c;
            rest = left;
        }
    }
}

/// Whether a bracket opened here is closed by one with a target.
fn is_link(text: &str) -> bool {
    text.split_once(']').is_some_and(|(words, rest)| !words.contains('[') && target(rest).is_some())
}

/// Where the target of a link ends that begins here. One with a blank in it is none, or has a title.
fn target(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('(')?;
    let end = inside.find(')')?;
    (!inside[..end].contains(char::is_whitespace)).then_some(end + "()".len())
}

/// Where an address in angle brackets ends.
fn autolink(text: &str) -> Option<usize> {
    let end = text.find('>')?;
    let is_address = text.starts_with("http://") || text.starts_with("https://");
    (is_address && !text[..end].contains([' ', '<'])).then_some(end + 1)
}

fn is_entity(text: &str) -> bool {
    let name = text.split_once(';').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '#')
}
