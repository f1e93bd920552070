//! A run directory in parts, and what happens when one does not arrive whole.

use schema::ExitCode;
use std::path::{Path, PathBuf};
use xtask::failure::{code_of, remedy_of};
use xtask::paths::Paths;
use xtask::steps::pack::{self, PART_BYTES, Unpacked};

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
    let index = home.parts().join(format!("{RUN}.pack.json"));
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("\"empty\"", "\"other\"")).unwrap();
    home.refused(&["not what was packed", "empty", "other"]);
    std::fs::write(&index, text.replace("\"empty\"", "\"../other\"")).unwrap();
    home.refused(&["pack.json"]);
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
