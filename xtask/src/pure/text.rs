//! Text that came from elsewhere, made safe to print on a terminal and to quote in a record.

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
            c if c.is_control() || reorders(c) => {}
            c => out.push(c),
        }
    }
    out.trim().to_owned()
}

/// `text` as [`plain`], cut to `most` characters.
pub fn quoted(text: &str, most: usize) -> String {
    let text = plain(text);
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
    fn long_text_is_cut_between_characters() {
        assert_eq!(quoted("äöü", 2), "äö…");
        assert_eq!(quoted("äöü", 3), "äöü");
    }
}
