//! Makes untrusted text safe to print on a terminal and to quote in a record.

use std::fmt::Write as _;

/// `text` without terminal escapes and control characters; line breaks and tabs become single spaces.
///
/// Marks that reorder text on a screen go too: a quoted line must read as the bytes it holds.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() || is_unseen(c) => {}
            c => out.push(c),
        }
    }
    out.trim().to_owned()
}

/// Text of several lines, each made safe as by [`plain`], with its indentation.
pub fn plain_lines(text: &str) -> String {
    let line = |line: &str| format!("{}{}", &line[..line.len() - line.trim_start_matches(' ').len()], plain(line));
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// JSON whose strings, once printed, do nothing to a terminal. It stands for the same value.
pub fn plain_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // What is below a blank is written so already; all of these lie in the first plane, and in strings only.
        if c.is_control() || is_unseen(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// `text` as [`plain`], cut to `most` characters.
pub fn quoted(text: &str, most: usize) -> String {
    let text = plain(text);
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// Marks that reorder text, break lines or cannot be seen at all.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars>) {
    match chars.next() {
        Some('[') => skip_csi(chars),
        // Operating-system commands and other strings end with BEL or ESC \ (ECMA-48, 5.6).
        Some(']' | 'P' | '^' | '_' | 'X') => skip_string(chars),
        // Intermediate bytes come before the one final byte.
        Some(' '..='/') => while chars.next().is_some_and(|c| matches!(c, ' '..='/')) {},
        _ => {}
    }
}

/// A control sequence ends with a byte from `@` to `~` (ECMA-48, 5.4).
fn skip_csi(chars: &mut std::iter::Peekable<std::str::Chars>) {
    let _ = chars.find(|c| matches!(c, '@'..='~'));
}

fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars>) {
    while let Some(c) = chars.next() {
        if c == '\u{7}' || c == '\u{9c}' {
            return;
        }
        if c == '\u{1b}' && chars.peek() == Some(&'\\') {
            chars.next();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_can_be_read_is_left() {
        for (input, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m text", "red text"),
            ("\u{1b}]0;title\u{7}shown", "shown"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{1b}(Bascii", "ascii"),
            ("\u{9b}2Jcleared", "cleared"),
            ("a\r\nb\tc\u{8}\u{0}", "a  b c"),
            ("abc\u{202e}fed", "abcfed"),
            ("cut \u{1b}", "cut"),
            ("cut \u{1b}[31", "cut"),
            ("grün µs", "grün µs"),
        ] {
            assert_eq!(plain(input), expected, "{input:?}");
        }
    }

    #[test]
    fn lines_keep_their_indentation_and_nothing_else() {
        assert_eq!(plain_lines("a\n  \u{1b}[2Jb\r\n\n\u{9b}Kc"), "a\n  b\n\nc");
    }

    #[test]
    fn json_printed_on_a_terminal_is_the_same_value() {
        let value = serde_json::json!({"a\u{9b}2J": "\u{1b}[31m \u{202e}gpj\u{7f} µ"});
        let printed = plain_json(&value.to_string());
        assert!(!printed.chars().any(|c| c.is_control() || is_unseen(c)), "{printed:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }

    proptest! {
        #[test]
        fn nothing_that_acts_on_a_terminal_is_left(text in any::<String>()) {
            let acts = |c: char| c != '\n' && (c.is_control() || is_unseen(c));
            prop_assert!(!plain(&text).chars().any(|c| c == '\n' || acts(c)));
            prop_assert!(!plain_lines(&text).chars().any(acts));
            prop_assert!(!plain_json(&text).chars().any(acts));
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(quoted("äöü", 2), "äö…");
        assert_eq!(quoted("äöü", 3), "äöü");
    }
}
