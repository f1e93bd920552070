//! Removes names of the machine and its user from free text that programs wrote, before the text becomes part of a
//! run. Fields with a fixed meaning never hold such names and are not filtered.
//!
//! Only names that the machine reports of itself are removed; any other name stays.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What names this machine and its user.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Folders by what stands for them: the checkout and the home folder.
    pub folders: Vec<(String, &'static str)>,
    /// The machine's names.
    pub hosts: Vec<String>,
    /// The user's names.
    pub users: Vec<String>,
}

/// Names shorter than this are words of any text, and say little of anybody.
const SHORTEST: usize = 3;

/// `text` with each such thing replaced by a word in angle brackets.
#[must_use]
pub fn impersonal(text: &str, names: &Names) -> String {
    let mut folders: Vec<&(String, &str)> = names.folders.iter().filter(|(folder, _)| folder.len() > 1).collect();
    // The longer first, since a checkout usually lies in a home folder.
    folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
    let mut text = text.to_owned();
    for (folder, instead) in folders {
        text = without_folder(&text, folder, instead);
    }
    let text =
        words(&text, |c| c.is_alphanumeric() || "._-@".contains(c), |before, word| instead_of(before, word, names));
    words(&text, |c| c.is_ascii_alphanumeric() || ":._".contains(c), |_, word| address6(word))
}

fn without_folder(text: &str, folder: &str, instead: &str) -> String {
    let mut parts = text.split(folder);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for after in parts {
        let whole = !after.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c));
        out += if whole { instead } else { folder };
        out += after;
    }
    out
}

fn instead_of(before: &str, word: &str, names: &Names) -> Option<&'static str> {
    let is = |known: &String| known.len() >= SHORTEST && known != "root" && word == known;
    let within = |host: &String| is(host) || host.len() >= SHORTEST && word.starts_with(&format!("{host}."));
    match word {
        "" => None,
        // Whose home folder it is.
        _ if before.ends_with("/home/") || before.ends_with("/Users/") => Some("<user>"),
        _ if names.hosts.iter().any(within) => Some("<host>"),
        _ if names.users.iter().any(is) => Some("<user>"),
        _ if word.parse::<Ipv4Addr>().is_ok() => Some("<address>"),
        _ if word.split_once('@').is_some_and(|(who, at)| !who.is_empty() && !at.is_empty()) => Some("<address>"),
        _ if is_gpu(word) => Some("<gpu>"),
        _ => None,
    }
}

/// `GPU-` or `MIG-` and a UUID.
fn is_gpu(word: &str) -> bool {
    let uuid = word.strip_prefix("GPU-").or_else(|| word.strip_prefix("MIG-"));
    uuid.is_some_and(|uuid| uuid.split('-').map(str::len).eq([8, 4, 4, 4, 12]))
}

/// Paths of Rust items have colons too, but no digit in a part that would read as a number.
fn address6(word: &str) -> Option<&'static str> {
    let numbered = word.bytes().any(|b| b.is_ascii_digit());
    (numbered && word.parse::<Ipv6Addr>().is_ok()).then_some("<address>")
}

/// Replaces whole words; a full stop or colon at a word's end is none of it.
fn words(text: &str, of_word: impl Fn(char) -> bool, instead: impl Fn(&str, &str) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find(&of_word).unwrap_or(rest.len());
        out += &rest[..start];
        rest = &rest[start..];
        let end = rest.find(|c| !of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let bare = word.trim_end_matches(['.', ':']);
        match instead(&text[..text.len() - rest.len()], bare) {
            Some(instead) => out += &format!("{instead}{}", &word[bare.len()..]),
            None => out += word,
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Names {
        Names {
            folders: vec![("/home/alice".into(), "~"), ("/home/alice/assay".into(), "."), ("/".into(), "x")],
            hosts: vec!["box17".into(), "vm".into()],
            users: vec!["alice".into(), "root".into()],
        }
    }

    #[test]
    fn what_names_a_machine_or_its_user_is_taken_out() {
        let check = |text: &str, expected: &str| assert_eq!(impersonal(text, &names()), expected);
        check("in /home/alice/assay/target/x and /home/alice/.ssh", "in ./target/x and ~/.ssh");
        check("/home/alice2/x, /home/bob: no; /Users/carol", "/home/<user>/x, /home/<user>: no; /Users/<user>");
        check("alice on box17.", "<user> on <host>.");
        check("box17.lan.example says", "<host> says");
        check("malice, box170 and alice_x stay", "malice, box170 and alice_x stay");
        check("dial tcp 10.1.2.3:2375: refused", "dial tcp <address>:2375: refused");
        check("[fe80::1]:22 and 2001:db8::7.", "[<address>]:22 and <address>.");
        check("mail alice@example.org now", "mail <address> now");
        check("GPU-fa4efa4e-0000-4000-8000-000000000001 fell off", "<gpu> fell off");
    }

    #[test]
    fn what_logs_are_read_by_stays() {
        for text in [
            "========= ERROR SUMMARY: 0 errors",
            "=========         Host Frame: std::sys::backtrace::h353284f20c663aa7 [0xe7602] in harness",
            "=========     by thread (0,0,0) in block (0,0,0)",
            "Version 2025.3.1.0 (build 36400806) (public-release)",
            "0000:3B:00.0 dead::beef a@ @b root vm /home/",
            "Address 0x7fdea4e00000\r\n\ttab",
        ] {
            assert_eq!(impersonal(text, &names()), text);
        }
    }

    proptest! {
        #[test]
        fn no_name_survives_as_a_word_and_doing_it_again_changes_nothing(
            parts in proptest::collection::vec("alice|box17|10\\.0\\.0\\.9|/home/alice/assay| |[a-z:/.]{0,5}|é", 0..12)
        ) {
            let text = parts.join(" ");
            let once = impersonal(&text, &names());
            prop_assert!(!once.split(' ').any(|word| ["alice", "box17", "10.0.0.9"].contains(&word)), "{}", once);
            prop_assert_eq!(impersonal(&once, &names()), once);
        }
    }
}
