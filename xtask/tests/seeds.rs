//! The fuzz targets' seeds, and thousands of damaged copies of them, through every parser: nothing panics.
//!
//! It knows nothing of coverage; `fuzz/` does. `ASSAY_SEEDS_SECONDS` runs each target for so long instead of a moment.

#[expect(unreachable_pub, reason = "a library of its own in fuzz/, and a module here")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

/// Damaged copies of each target's seeds.
const COPIES: u64 = 300;
/// What parsers trip over more often than over noise.
const WORDS: [&[u8]; 12] = [
    b"\0",
    b"\r\n",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"\"",
    b"[[[[[[[[",
    b"../",
    b"\xcc\x81",
    b"========= ERROR SUMMARY: 99999999999999999999 errors\n",
];

#[test]
fn no_seed_and_no_damaged_copy_of_one_makes_a_parser_panic() {
    let seconds = std::env::var("ASSAY_SEEDS_SECONDS").ok().map(|text| text.parse().unwrap());
    for (name, target) in targets::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name);
        let mut paths: Vec<_> = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs_err::read(path).unwrap()).collect();
        assert!(!seeds.is_empty(), "{name} has no seed");
        seeds.iter().for_each(|seed| target(seed));
        let (began, mut noise, mut copies) = (Instant::now(), Noise(0x9e37_79b9_7f4a_7c15), 0);
        while seconds.map_or(copies < COPIES, |seconds| began.elapsed() < Duration::from_secs(seconds)) {
            let copy = damaged(&seeds, &mut noise);
            if std::panic::catch_unwind(|| target(&copy)).is_err() {
                let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-panics"));
                fs_err::write(&at, &copy).unwrap();
                panic!("{name} panics on {}", at.display());
            }
            copies += 1;
        }
        if seconds.is_some() {
            eprintln!("{name}: {copies} copies in {:.0} s", began.elapsed().as_secs_f64());
        }
    }
}

/// Numbers that are the same every time (xorshift, 64 bits).
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

fn damaged(seeds: &[Vec<u8>], noise: &mut Noise) -> Vec<u8> {
    let mut copy = seeds[noise.below(seeds.len())].clone();
    for _ in 0..=noise.below(4) {
        let at = noise.below(copy.len() + 1);
        match noise.below(6) {
            0 => copy.truncate(at),
            1 if at < copy.len() => copy[at] = noise.below(256) as u8,
            2 if at < copy.len() => copy[at] ^= 1 << noise.below(8),
            3 => drop(copy.splice(at..at, WORDS[noise.below(WORDS.len())].iter().copied())),
            4 => {
                let until = (at + noise.below(32)).min(copy.len());
                copy.drain(at..until);
            }
            _ => {
                let other = &seeds[noise.below(seeds.len())];
                let from = noise.below(other.len() + 1);
                let until = (from + noise.below(64)).min(other.len());
                drop(copy.splice(at..at, other[from..until].iter().copied()));
            }
        }
    }
    copy
}
