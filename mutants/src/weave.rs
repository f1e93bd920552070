//! Weaves every mutant of a file into its text, behind a question that is answered at run time. It reads no file.

use crate::find::Place;
use std::collections::BTreeSet;
use std::ops::Range;

/// One mutant.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Its number, from 1, over all files.
    pub(crate) id: usize,
    /// Index of its place in its file.
    pub(crate) place: usize,
    /// What stands there instead.
    pub(crate) instead: String,
}

/// Where something of a woven text came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Woven {
    /// Bytes of the woven text.
    pub(crate) range: Range<usize>,
    /// The mutants to drop when this does not compile.
    pub(crate) ids: BTreeSet<usize>,
}

/// A text with its mutants in it, and where they lie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) woven: Vec<Woven>,
}

/// Weaves; `ask` is the path of the function that says whether a mutant is on.
pub(crate) fn weave(text: &str, places: &[Place], mutants: &[Mutant], ask: &str) -> Text {
    let mut order: Vec<usize> = (0..places.len()).collect();
    // Outer before inner; a literal may fill the place of a guard.
    order.sort_by_key(|at| (places[*at].range.start, std::cmp::Reverse(places[*at].range.end)));
    let mut weaver = Weaver { text, places, mutants, ask, order: &order, out: Text::default() };
    weaver.span(0..text.len(), &mut 0);
    weaver.out
}

struct Weaver<'a> {
    text: &'a str,
    places: &'a [Place],
    mutants: &'a [Mutant],
    ask: &'a str,
    order: &'a [usize],
    out: Text,
}

impl Weaver<'_> {
    /// Writes a range of the original with every place in it from the `next`-th on.
    fn span(&mut self, range: Range<usize>, next: &mut usize) {
        let mut at = range.start;
        while let Some(index) = self.order.get(*next).copied() {
            let place = &self.places[index];
            if place.range.end > range.end {
                break;
            }
            *next += 1;
            self.out.text += &self.text[at..place.range.start];
            at = place.range.end;
            self.place(index, next);
        }
        self.out.text += &self.text[at..range.end];
    }

    fn place(&mut self, index: usize, next: &mut usize) {
        let place = &self.places[index];
        let mine: Vec<&Mutant> = self.mutants.iter().filter(|mutant| mutant.place == index).collect();
        let start = self.out.text.len();
        let open = if place.body { " " } else { "(" };
        if !mine.is_empty() {
            self.out.text += open;
        }
        for mutant in &mine {
            self.out.text += &format!("if {}({}) {{ ", self.ask, mutant.id);
            let from = self.out.text.len();
            if place.body {
                self.out.text += "return ";
            }
            self.out.text += &mutant.instead;
            let range = from..self.out.text.len();
            self.out.woven.push(Woven { range, ids: BTreeSet::from([mutant.id]) });
            self.out.text += if place.body { "; } " } else { " } else " };
        }
        if place.body {
            return;
        }
        if !mine.is_empty() {
            self.out.text += "{ ";
        }
        self.span(place.range.clone(), next);
        if !mine.is_empty() {
            self.out.text += " })";
            let ids = mine.iter().map(|mutant| mutant.id).collect();
            self.out.woven.push(Woven { range: start..self.out.text.len(), ids });
        }
    }
}

/// Puts `call` at the start of every test function of a source, also of those in `proptest!`.
pub(crate) fn enter_tests(text: &str, call: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("#[test]") {
        out += before;
        out += "#[test]";
        let Some(at) = body_of(after) else {
            rest = after;
            continue;
        };
        out += &after[..at];
        out += call;
        rest = &after[at..];
    }
    out + rest
}

/// Where the body of the next function begins, behind its brace.
fn body_of(text: &str) -> Option<usize> {
    let open = text.find("fn ")? + text[text.find("fn ")?..].find('(')?;
    let mut depth = 0_usize;
    for (at, c) in text[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '{' if depth == 0 => return Some(open + at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::places;

    fn all(places: &[Place]) -> Vec<Mutant> {
        let pairs = places.iter().enumerate().flat_map(|(i, place)| place.instead.iter().map(move |text| (i, text)));
        pairs.enumerate().map(|(n, (place, text))| Mutant { id: n + 1, place, instead: text.clone() }).collect()
    }

    #[test]
    fn every_mutant_is_behind_a_question_and_knows_its_place() {
        let text = "fn f() -> bool { a + b == 2 }";
        let places = places(text).unwrap();
        let mutants = all(&places);
        let woven = weave(text, &places, &mutants, "on");
        assert_eq!(
            woven.text,
            "fn f() -> bool { if on(1) { return true; } if on(2) { return false; }  (if on(3) { a + b != 2 } else { \
             (if on(4) { a - b } else { a + b }) == (if on(5) { 3 } else { 2 }) }) }"
        );
        syn::parse_file(&woven.text).unwrap();
        let third = woven.woven.iter().find(|w| w.ids == BTreeSet::from([3])).unwrap();
        assert_eq!(&woven.text[third.range.clone()], "a + b != 2");
        let none = weave(text, &places, &[], "on");
        assert_eq!(none.text, text);
    }

    #[test]
    fn tests_are_entered() {
        let text = "#[test]\nfn a() {\n}\nproptest! { #[test] fn b(x in f(|(a, b)| { a })) { g(x) } } fn c() {}";
        assert_eq!(
            enter_tests(text, "E;"),
            "#[test]\nfn a() {E;\n}\nproptest! { #[test] fn b(x in f(|(a, b)| { a })) {E; g(x) } } fn c() {}"
        );
    }
}
