//! Every small corruption of a text in transit, for tests that no corrupted record is read as a different valid one.

/// Lines that tools print and that change what a log says when they get into it.
const FOREIGN_LINES: [&str; 12] = [
    "",
    "=========",
    "========= ",
    "========= ERROR SUMMARY: 0 errors",
    "========= ERROR SUMMARY: 1 error",
    "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
    "========= Error: process didn't terminate successfully",
    "========= COMPUTE-SANITIZER",
    "ptxas info    : Compiling entry function 'other' for 'sm_90'",
    "ptxas info    : Function properties for other",
    "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads",
    "ptxas info    : Used 9 registers, used 0 barriers",
];
/// What a damaged byte may read as.
const FOREIGN_CHARS: [char; 9] = ['0', '1', '9', ' ', '\t', '\r', '\0', '\u{2028}', '\u{feff}'];

/// Calls `each` with every damaged form of `text` and what was done to it.
///
/// Bits flipped, characters replaced, inserted and deleted, the text cut at every place, lines deleted, doubled, exchanged and
/// added.
pub fn each(text: &str, mut each: impl FnMut(&str, &str)) {
    let bytes = text.as_bytes();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << bit;
            each(&format!("bit {bit} of byte {at}"), &String::from_utf8_lossy(&flipped));
        }
    }
    for (at, old) in text.char_indices() {
        let (before, rest) = (&text[..at], &text[at + old.len_utf8()..]);
        each(&format!("cut at {at}"), before);
        each(&format!("without the character at {at}"), &format!("{before}{rest}"));
        for new in FOREIGN_CHARS {
            each(&format!("{new:?} at {at}"), &format!("{before}{new}{rest}"));
            each(&format!("{new:?} before {at}"), &format!("{before}{new}{}", &text[at..]));
        }
    }
    each_line(text, each);
}

/// As [`each()`], with whole lines alone.
pub fn each_line(text: &str, mut each: impl FnMut(&str, &str)) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for at in 0..lines.len() {
        let mut say = |what: &str, lines: Vec<&str>| each(&format!("{what} {at}"), &lines.concat());
        say("without line", [&lines[..at], &lines[at + 1..]].concat());
        say("twice line", [&lines[..=at], &lines[at..]].concat());
        for other in at + 1..lines.len() {
            let mut exchanged = lines.clone();
            exchanged.swap(at, other);
            say(&format!("line {other} for line"), exchanged);
        }
        for foreign in FOREIGN_LINES {
            let foreign = format!("{foreign}\n");
            say("a foreign line before", [&lines[..at], &[foreign.as_str()], &lines[at..]].concat());
            say("a foreign line for", [&lines[..at], &[foreign.as_str()], &lines[at + 1..]].concat());
        }
    }
    for foreign in FOREIGN_LINES {
        each("a foreign line at the end", &format!("{text}{foreign}\n"));
    }
}
