//! A text of Markdown taken apart, as far as it matters for what a reader sees: fenced blocks by line, and within a line code,
//! comments and escapes (CommonMark 0.31, sections 2.4, 4.5, 6.1 and 6.6).
//!
//! What would need a whole parser of Markdown to read is no piece of its own: the lint refuses it instead.

use super::Wrong;
use std::ops::Range;

/// A part of a line, in bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Anything else.
    Text(Range<usize>),
    /// A backslash and the character that it takes the meaning from.
    Escaped(Range<usize>),
    /// Inline code with its backticks, and what is inside.
    Code(Range<usize>, Range<usize>),
    /// Backticks that are not closed on the line, so that what is code depends on the lines around.
    Ticks(Range<usize>),
    /// A comment.
    Comment(Range<usize>),
    /// A comment that does not end on the line.
    OpenComment(Range<usize>),
}

/// The pieces of a line, in order and without gaps.
pub(super) fn pieces(line: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut at, mut text) = (0, 0);
    while at < line.len() {
        let piece = special(line, at);
        let length = line[at..].chars().next().map_or(1, char::len_utf8);
        let Some((piece, end)) = piece else {
            at += length;
            continue;
        };
        if text < at {
            pieces.push(Piece::Text(text..at));
        }
        pieces.push(piece);
        (at, text) = (end, end);
    }
    if text < line.len() {
        pieces.push(Piece::Text(text..line.len()));
    }
    pieces
}

/// The piece that begins at a place, if it is none of plain text, and where it ends.
fn special(line: &str, at: usize) -> Option<(Piece, usize)> {
    let rest = &line[at..];
    if let Some(after) = rest.strip_prefix('\\') {
        let end = at + 2;
        return after.starts_with(|c: char| c.is_ascii_punctuation()).then_some((Piece::Escaped(at..end), end));
    }
    if rest.starts_with("<!--") {
        let end = rest.find("-->").map(|found| at + found + "-->".len());
        return Some(
            end.map_or((Piece::OpenComment(at..line.len()), line.len()), |end| (Piece::Comment(at..end), end)),
        );
    }
    let ticks = run(rest, '`');
    if ticks == 0 {
        return None;
    }
    let inside = at + ticks;
    let mut from = inside;
    while let Some(found) = line[from..].find('`') {
        let closing = from + found;
        let length = run(&line[closing..], '`');
        if length == ticks {
            return Some((Piece::Code(at..closing + length, inside..closing), closing + length));
        }
        from = closing + length;
    }
    Some((Piece::Ticks(at..inside), inside))
}

/// How often a character stands at the beginning.
fn run(text: &str, character: char) -> usize {
    text.chars().take_while(|c| *c == character).count()
}

/// For each line of a text, whether it belongs to a fenced block; and fences that leave it open what does.
pub(super) fn fenced(text: &str) -> (Vec<bool>, Vec<Wrong>) {
    let (mut inside, mut wrong) = (Vec::new(), Vec::new());
    let mut open: Option<(char, usize, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        match (open, fence(body)) {
            (Some((character, length, _)), found) => {
                inside.push(true);
                let closes = found.is_some_and(|(c, n, info)| c == character && n >= length && info.trim().is_empty());
                open = open.filter(|_| !(closes && indent <= MOST_INDENT));
            }
            (None, Some((character, length, info))) if character == '~' || !info.contains('`') => {
                if indent > MOST_INDENT {
                    let what = "a fence set in by more than three blanks is one only in some lists: set it in less";
                    wrong.push(Wrong { line: at + 1, what: what.to_owned() });
                }
                inside.push(true);
                open = Some((character, length, at + 1));
            }
            (None, _) => inside.push(false),
        }
    }
    wrong.extend(open.map(|(_, _, line)| Wrong { line, what: "a fence that does not end".to_owned() }));
    (inside, wrong)
}

/// The blanks before a fence.
const MOST_INDENT: usize = 3;

/// Character, length and rest of a line that begins like a fence.
fn fence(body: &str) -> Option<(char, usize, &str)> {
    let character = body.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let length = run(body, character);
    (length >= 3).then(|| (character, length, &body[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> Vec<&str> {
        let inside = |piece: &Piece| match piece {
            Piece::Code(_, inside) => Some(&line[inside.clone()]),
            _ => None,
        };
        pieces(line).iter().filter_map(inside).collect()
    }

    #[test]
    fn code_ends_at_as_many_backticks_as_it_began_with() {
        assert_eq!(code("a `b` c ``d ` e`` f"), ["b", "d ` e"]);
        assert_eq!(code("a `b c ``d"), [""; 0]);
        assert_eq!(code("a \\`b `c` d"), ["c"]);
        assert_eq!(code("<!-- ` --> a `b`"), ["b"]);
        assert_eq!(code("`<!--` a `-->`"), ["<!--", "-->"]);
        assert!(pieces("it's a ` tick").iter().any(|piece| matches!(piece, Piece::Ticks(_))));
        assert!(matches!(pieces("a <!-- b").last(), Some(Piece::OpenComment(_))));
    }

    #[test]
    fn pieces_leave_no_gap() {
        for line in ["", "a", "µ `é` \\* <!-- x --> ` <!--", "\\", "\\é", "``", "-->"] {
            let mut at = 0;
            for piece in pieces(line) {
                let range = match piece {
                    Piece::Text(r) | Piece::Escaped(r) | Piece::Code(r, _) | Piece::Ticks(r) => r,
                    Piece::Comment(r) | Piece::OpenComment(r) => r,
                };
                assert_eq!(range.start, at, "{line:?}");
                at = range.end;
            }
            assert_eq!(at, line.len(), "{line:?}");
        }
    }

    #[test]
    fn a_fence_is_closed_by_its_own_kind() {
        let lines = |text: &str| fenced(text).0.iter().map(|inside| u8::from(*inside)).collect::<Vec<_>>();
        assert_eq!(lines("a\n```sh\nb\n```\nc"), [0, 1, 1, 1, 0]);
        assert_eq!(lines("~~~\n```\n~~~\nc"), [1, 1, 1, 0]);
        assert_eq!(lines("````\n```\n````\nc"), [1, 1, 1, 0]);
        assert_eq!(lines("```\n``` x\n```\nc"), [1, 1, 1, 0]);
        assert_eq!(lines("``` a ``` b\nc"), [0, 0]);
        for (text, said) in [("```\nx", "does not end"), ("- a\n    ```\n    ```", "more than three blanks")] {
            assert!(fenced(text).1.iter().any(|wrong| wrong.what.contains(said)), "{text:?}");
        }
    }
}
