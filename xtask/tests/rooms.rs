//! Imports run one way: from a room to those below it, and within a room from file to file in no circle.
//!
//! What is a crate of its own needs no test: the compiler keeps its direction. Tests may look anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rooms of `xtask/src`, from the top down.
const ROOMS: [&str; 8] = ["cli", "path", "publish", "ask", "repo", "transfer", "steps", "runs"];

#[test]
fn a_room_imports_only_what_stands_below_it() {
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let found = imports(&source("src"), "crate");
    assert!(found.contains(&("path".to_owned(), "steps".to_owned())), "{found:?}");
    for (from, to) in found {
        let up = place(&from).zip(place(&to)).is_some_and(|(from, to)| to <= from);
        assert!(!up, "{from} imports {to}, which stands above it");
        assert!(place(&from).is_some() || from == "trial", "{from} is no room: give it a place in {}", file!());
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let rooms = ROOMS.map(|room| (source("src").join(room), format!("crate::{room}")));
    for (folder, prefix) in rooms.into_iter().chain([(source("host/src"), "crate".to_owned())]) {
        let mut imports = imports(&folder, &prefix);
        // What imports nothing of the rest is in no circle.
        loop {
            let froms: BTreeSet<String> = imports.iter().map(|(from, _)| from.clone()).collect();
            let n = imports.len();
            imports.retain(|(_, to)| froms.contains(to));
            if imports.len() == n {
                break;
            }
        }
        assert!(imports.is_empty(), "a circle in {}: {imports:?}", folder.display());
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Which modules of a folder name which others of it, tests aside. A module is a file with the folder of its name.
fn imports(folder: &Path, prefix: &str) -> BTreeSet<(String, String)> {
    let mut texts = BTreeMap::<String, String>::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files = if path.is_dir() { below(&path) } else { vec![path.clone()] };
        for file in files.iter().filter(|file| !file.strip_prefix(folder).unwrap().to_str().unwrap().contains("tests"))
        {
            let text = std::fs::read_to_string(file).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let text = if path.is_dir() { text.to_owned() } else { text.replace("super::", &format!("{prefix}::")) };
            texts.entry(module.clone()).or_default().push_str(&text);
        }
    }
    let sign = format!("{prefix}::");
    let named = |text: &str| -> Vec<String> {
        let word =
            |text: &str| text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
        let after = text.split(&sign).skip(1);
        let words = |rest: &str| match rest.strip_prefix('{').and_then(|list| list.split_once('}')) {
            Some((list, _)) => list.split(',').map(word).collect(),
            None => vec![word(rest)],
        };
        after.flat_map(words).collect()
    };
    let all = texts.iter().flat_map(|(from, text)| named(text).into_iter().map(move |to| (from.clone(), to)));
    all.filter(|(from, to)| from != to && !["main", "lib", "mod"].contains(&&**from) && texts.contains_key(to))
        .collect()
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}
