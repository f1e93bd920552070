//! A run directory in parts, and what happens when one does not arrive whole.

use host::failure::{code_of, remedy_of};
use host::paths::Paths;
use schema::ExitCode;
use std::path::{Path, PathBuf};
use xtask::transfer::pack::{self, PART_BYTES, Unpacked};

const RUN: &str = "20260101T000000Z-toy-0123abcd";

/// Damages the folder of parts, and what the refusal must say.
type Damage<'a> = (&'a dyn Fn(&Path), Vec<String>);

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn paths(&self) -> Paths {
        Paths::new(self.dir.path().join("root"))
    }

    fn parts(&self) -> PathBuf {
        self.dir.path().join("parts")
    }

    /// A home with a packed run, of eight parts.
    fn packed() -> Self {
        let home = Self::new();
        let run = home.paths().run(RUN);
        write(&run.join("manifest.json"), b"{}");
        write(&run.join("cells/yield/k=64,blocks=528.parquet"), &noise(300_000));
        write(&run.join("empty"), b"");
        let packed = pack::pack_in_parts_of(&home.paths(), RUN, &home.parts(), 40 << 10).unwrap();
        assert_eq!(packed.n_parts, 8);
        home
    }

    fn refused(&self, names: &[&str]) {
        let away = Self::new();
        let error = pack::unpack(&away.paths(), &self.parts()).unwrap_err();
        let text = format!("{error:#}");
        assert_eq!(code_of(&error), ExitCode::Integrity, "{text}");
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
        assert!(remedy_of(&error).unwrap().contains("do not release the box yet"));
        let raw = std::fs::read_dir(away.paths().raw()).map_or(0, Iterator::count);
        assert_eq!(raw, 0, "nothing appears in results/raw");
    }
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn noise(n: u32) -> Vec<u8> {
    (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_run_comes_home_whole() {
    let home = Home::packed();
    let away = Home::new();
    let left = away.paths().raw().join(".unpacking-killed");
    write(&left.join("half"), b"x");
    let unpacked = pack::unpack(&away.paths(), &home.parts()).unwrap();
    let expected = Unpacked { run: RUN.into(), dir: away.paths().run(RUN), n_files: 3, was_there: false };
    assert_eq!(unpacked, std::slice::from_ref(&expected));
    let cell = std::fs::read(away.paths().run(RUN).join("cells/yield/k=64,blocks=528.parquet")).unwrap();
    assert_eq!(cell, noise(300_000));
    assert!(!left.exists(), "what a killed unpack left is removed");
    let again = pack::unpack(&away.paths(), &home.parts()).unwrap();
    assert_eq!(again, [Unpacked { was_there: true, ..expected }]);
    std::fs::write(away.paths().run(RUN).join("empty"), "not").unwrap();
    let differs = pack::unpack(&away.paths(), &home.parts()).unwrap_err();
    assert_eq!(code_of(&differs), ExitCode::Integrity);
}

#[test]
fn parts_stay_below_what_a_box_returns() {
    const { assert!(PART_BYTES <= 15 << 20) };
    let home = Home::new();
    write(&home.paths().run(RUN).join("large"), &vec![7; PART_BYTES + 1]);
    let packed = pack::pack(&home.paths(), RUN, &home.parts()).unwrap();
    assert_eq!(packed.n_parts, 2);
    let first = std::fs::metadata(home.parts().join(format!("{RUN}.part-000"))).unwrap();
    assert_eq!(first.len(), PART_BYTES as u64);
}

/// A shell joins the parts in the order of their names.
#[test]
fn more_than_a_thousand_parts_keep_their_order() {
    let home = Home::new();
    write(&home.paths().run(RUN).join("large"), &noise(1_024 * 64));
    let packed = pack::pack_in_parts_of(&home.paths(), RUN, &home.parts(), 64).unwrap();
    assert!(packed.n_parts > 1_000);
    let names = std::fs::read_dir(home.parts()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<String> = names.filter(|name| name.contains(".part-")).collect();
    parts.sort();
    assert_eq!(parts[999], format!("{RUN}.part-0999"));
    let joined: Vec<u8> = parts.iter().flat_map(|part| std::fs::read(home.parts().join(part)).unwrap()).collect();
    assert!(joined.windows(64 * 1_024).any(|window| window == noise(1_024 * 64)));
    let away = Home::new();
    assert_eq!(pack::unpack(&away.paths(), &home.parts()).unwrap()[0].n_files, 1);
}

#[test]
fn a_folder_that_is_not_there_is_a_slip_of_the_command_line() {
    let home = Home::new();
    let error = pack::unpack(&home.paths(), Path::new("/no/such/folder")).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Usage, "{error:#}");
}

#[test]
fn what_is_not_whole_is_refused_by_name() {
    let part = |n: usize| format!("{RUN}.part-{n:03}");
    let damage: [Damage<'_>; 7] = [
        (&|dir| flip(&dir.join(part(3))), vec![format!("{} was changed", part(3))]),
        (&|dir| std::fs::remove_file(dir.join(part(7))).unwrap(), vec![format!("{} is missing", part(7))]),
        (&|dir| std::fs::write(dir.join(part(8)), "x").unwrap(), vec![format!("{} does not belong", part(8))]),
        (&|dir| std::fs::write(dir.join(part(0)), "x").unwrap(), vec![format!("{} has 1 bytes of 40960", part(0))]),
        (
            &|dir| {
                flip(&dir.join(part(1)));
                std::fs::remove_file(dir.join(part(2))).unwrap();
            },
            vec![part(1), part(2)],
        ),
        (
            &|dir| std::fs::remove_file(dir.join(format!("{RUN}.pack.json"))).unwrap(),
            vec!["which pack writes last".into()],
        ),
        (&|dir| std::fs::write(dir.join(format!("{RUN}.pack.json")), "{").unwrap(), vec!["malformed".into()]),
    ];
    for (damage, names) in damage {
        let home = Home::packed();
        damage(&home.parts());
        home.refused(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_file_that_differs_from_the_index_is_refused() {
    let home = Home::packed();
    let path = home.parts().join(format!("{RUN}.pack.json"));
    let index: schema::bundle::PackIndex = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let renamed = |to: &str| {
        let mut index = index.clone();
        let facts = index.files.remove("empty").unwrap();
        index.files.insert(to.to_owned(), facts);
        std::fs::write(&path, serde_json::to_vec_pretty(&index).unwrap()).unwrap();
    };
    renamed("other");
    home.refused(&["not what was packed", "empty", "other"]);
    renamed("../other");
    home.refused(&["pack.json", "is not a path below"]);
}

#[test]
fn packing_again_replaces_and_unknown_or_odd_runs_are_refused() {
    let home = Home::packed();
    std::fs::write(home.parts().join(format!("{RUN}.part-099")), "left over").unwrap();
    pack::pack(&home.paths(), RUN, &home.parts()).unwrap();
    assert_eq!(std::fs::read_dir(home.parts()).unwrap().count(), 2);
    for unknown in ["nothing", "..", "-x", ""] {
        let error = pack::pack(&home.paths(), unknown, &home.parts()).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Usage, "{unknown}");
    }
    std::os::unix::fs::symlink("manifest.json", home.paths().run(RUN).join("link")).unwrap();
    let error = pack::pack(&home.paths(), RUN, &home.parts()).unwrap_err();
    assert!(code_of(&error) == ExitCode::Integrity && error.to_string().contains("link"), "{error}");
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Parts made by somebody who means harm: one part, whose digest and files the index names as they are.
fn forged(archive: &[u8], files: &[(&str, &[u8])]) -> Home {
    let home = Home::new();
    let facts =
        |bytes: &[u8]| schema::bundle::FileFacts { bytes: bytes.len() as u64, sha256: schema::Digest::of(bytes) };
    let index = schema::bundle::PackIndex {
        format: schema::FORMAT,
        run: RUN.to_owned(),
        parts: [(format!("{RUN}.part-000"), facts(archive))].into(),
        files: files.iter().map(|(name, bytes)| ((*name).to_owned(), facts(bytes))).collect(),
    };
    write(&home.parts().join(format!("{RUN}.part-000")), archive);
    write(&home.parts().join(format!("{RUN}.pack.json")), &serde_json::to_vec_pretty(&index).unwrap());
    home
}

fn entry(builder: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, name: &str, link: &str, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    // Written as it is: the library refuses some of these names.
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

#[test]
fn an_archive_that_holds_more_than_its_files_is_refused() {
    use tar::EntryType::{Block, Char, Fifo, GNUSparse, Link, Regular, Symlink};
    let (there, x) = (format!("{RUN}/a"), b"x".as_slice());
    let (below, outside) = (format!("{RUN}/link/a"), "../../outside");
    let link = format!("{RUN}/link");
    type Entries<'a> = Vec<(tar::EntryType, &'a str, &'a str, &'a [u8])>;
    let cases: Vec<(Entries<'_>, &str)> = vec![
        (vec![(Symlink, &link, "/tmp", b""), (Regular, &below, "", x)], "neither a file nor a folder"),
        (vec![(Link, &there, "/etc/passwd", b"")], "neither a file nor a folder"),
        (vec![(Fifo, &there, "", b"")], "neither a file nor a folder"),
        (vec![(Char, &there, "", b"")], "neither a file nor a folder"),
        (vec![(Block, &there, "", b"")], "neither a file nor a folder"),
        (vec![(GNUSparse, &there, "", x)], "neither a file nor a folder"),
        (vec![(Regular, outside, "", x)], "does not lie below the run"),
        (vec![(Regular, "/etc/passwd", "", x)], "does not lie below the run"),
        (vec![(Regular, &there, "", x), (Regular, &there, "", x)], "is there twice"),
        (vec![(Regular, &there, "", b"xy")], "not what was packed: a"),
        (vec![], "not what was packed: a"),
    ];
    for (entries, said) in cases {
        let mut builder = tar::Builder::new(Vec::new());
        entries.iter().for_each(|(kind, name, link, data)| entry(&mut builder, *kind, name, link, data));
        forged(&builder.into_inner().unwrap(), &[("a", x)]).refused(&[said]);
    }
    let mut builder = tar::Builder::new(Vec::new());
    let up = format!("{RUN}/../../../outside");
    entry(&mut builder, Regular, &up, "", x);
    forged(&builder.into_inner().unwrap(), &[("a", x)]).refused(&["is not a path below"]);
}

#[test]
fn an_index_that_promises_what_cannot_be_is_refused() {
    let mut builder = tar::Builder::new(Vec::new());
    entry(&mut builder, tar::EntryType::Regular, &format!("{RUN}/a"), "", b"x");
    let archive = builder.into_inner().unwrap();
    let home = forged(&archive, &[("a", b"x")]);
    pack::unpack(&Home::new().paths(), &home.parts()).unwrap();
    forged(&archive, &[("a", b"x"), ("A", b"x")]).refused(&["cannot both exist"]);
    forged(&archive, &[("a", &vec![0; archive.len() + 1])]).refused(&["larger than its parts"]);
    let index = home.parts().join(format!("{RUN}.pack.json"));
    let text = std::fs::read_to_string(&index).unwrap();
    let twice = text.replacen("\"files\": {", "\"files\": {\n    \"a\": {\"bytes\": 9, \"sha256\": \"SHA\"},", 1);
    std::fs::write(&index, twice.replace("SHA", &"0".repeat(64))).unwrap();
    home.refused(&["not the bytes that pack writes"]);
    std::fs::write(&index, "[".repeat(100_000)).unwrap();
    home.refused(&["malformed"]);
}

/// Names longer than a header's hundred bytes come back whole.
#[test]
fn a_long_name_comes_home() {
    let home = Home::new();
    let name = format!("cells/{}/{}.json", "p".repeat(90), "c".repeat(200));
    write(&home.paths().run(RUN).join(&name), b"x");
    pack::pack(&home.paths(), RUN, &home.parts()).unwrap();
    let away = Home::new();
    pack::unpack(&away.paths(), &home.parts()).unwrap();
    assert_eq!(std::fs::read(away.paths().run(RUN).join(&name)).unwrap(), b"x");
}
