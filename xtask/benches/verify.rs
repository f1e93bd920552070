//! How fast `verify` hashes a run directory, beside `sha256sum -c` on the same one: both sides in one go, interleaved.
//!
//! `cargo bench -p xtask --bench verify [-- --gib 8 --files 100000 --repeats 5]` makes the directories below `target/` and
//! removes them at the end. A made-up run is hashed whole and then not judged, since it holds no evidence; the bench checks
//! that every byte of it was counted and that nothing but the judgement is missing. Files are in the page cache for both.

use anyhow::{Context, Result, ensure};
use host::paths::Paths;
use pure::records::json::to_bytes;
use pure::records::sums;
use schema::manifest::{Manifest, PREDICATE_TYPE, Predicate, STATEMENT_TYPE, Source, Subject, SubjectDigest};
use schema::plan::ProfileName;
use schema::verdict::Verdict;
use schema::{Digest, FORMAT};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xtask::ask::verify::verify;
use xtask::runs::layout::{MANIFEST, SUMS, SUMS_DETACHED, VERDICT};

const RUN: &str = "20260101T000000Z-bench-00000000";
/// The first argument of the child that verifies.
const CHILD: &str = "verify-in-this-process";
const MIB: u64 = 1 << 20;
/// Sizes of large files, over and over: a run's tables have from some to a hundred mebibytes.
const LARGE_MIB: [u64; 5] = [8, 128, 32, 96, 64];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.first().is_some_and(|arg| arg == CHILD) {
        return child(args.get(1).context("no root")?);
    }
    let number = |flag: &str, default: u64| -> Result<u64> {
        let at = args.iter().position(|arg| arg == flag);
        at.map_or(Ok(default), |at| Ok(args.get(at + 1).context("a flag without a value")?.parse()?))
    };
    let (gib, files, repeats) = (number("--gib", 8)?, number("--files", 100_000)?, number("--repeats", 5)?);
    ensure!(repeats > 0, "at least one repeat");
    let cores = std::thread::available_parallelism()?;
    let speed = one_core_mb_s();
    println!(
        "{cores} cores, {} SHA instructions; one core hashes {speed:.0} MB/s",
        if has_sha() { "with" } else { "without" }
    );
    if gib > 0 {
        let sizes = LARGE_MIB.iter().cycle().scan(gib << 10, |left, mib| {
            let mib = (*mib).min(*left);
            *left -= mib;
            (mib > 0).then_some(mib * MIB)
        });
        compare(&format!("{gib} GiB in large files"), sizes.collect(), repeats)?;
    }
    if files > 0 {
        let sizes = (0..files).map(|i| 100 + i * 37 % 1000).collect();
        compare(&format!("{files} small files"), sizes, repeats)?;
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn has_sha() -> bool {
    std::arch::is_x86_feature_detected!("sha")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_sha() -> bool {
    false
}

/// What tells whether the CPU's instructions are used: in software a core hashes some hundred megabytes a second.
fn one_core_mb_s() -> f64 {
    let bytes = vec![7; 256 << 20];
    let began = Instant::now();
    let digest = Digest::of(&bytes);
    let speed = bytes.len() as f64 / 1e6 / began.elapsed().as_secs_f64();
    std::hint::black_box(digest);
    speed
}

/// Times both sides on a made-up run of files of these sizes.
fn compare(what: &str, sizes: Vec<u64>, repeats: u64) -> Result<()> {
    let at = std::env::current_exe()?;
    let target = at.ancestors().find(|dir| dir.ends_with("target")).context("not below target/")?;
    let root = tempfile::Builder::new().prefix("bench-verify-").tempdir_in(target)?;
    let n = made_up_run(root.path(), &sizes)?;
    let ours = || {
        let mut command = Command::new(&at);
        command.args([CHILD, &root.path().display().to_string()]);
        command
    };
    let theirs = || {
        let mut command = Command::new("sha256sum");
        command.args(["--check", "--quiet", "--strict", SUMS]).current_dir(Paths::new(root.path()).run(RUN));
        command
    };
    let (mut verify, mut coreutils) = (Vec::new(), Vec::new());
    // The first of each fills the page cache and is not counted.
    for round in 0..=repeats {
        let pair = if round % 2 == 0 { (timed(ours())?, timed(theirs())?) } else { swapped(timed(theirs())?, ours)? };
        if round > 0 {
            verify.push(pair.0);
            coreutils.push(pair.1);
        }
    }
    println!("\n{what} ({n} files, {} bytes), {repeats} repeats, interleaved", sizes.iter().sum::<u64>());
    let ours = print("verify", &verify);
    let theirs = print("sha256sum -c", &coreutils);
    let mut ratios: Vec<f64> =
        verify.iter().zip(&coreutils).map(|(a, b)| b.time.as_secs_f64() / a.time.as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
    println!("ratio of medians {:.2}; of pairs {low:.2} to {high:.2}", theirs / ours);
    Ok(())
}

/// The other side first.
fn swapped(theirs: Ran, ours: impl Fn() -> Command) -> Result<(Ran, Ran)> {
    Ok((timed(ours())?, theirs))
}

struct Ran {
    time: Duration,
    /// What it used of all cores: on a machine with other work this says more than the time.
    cpu: f64,
    peak_kib: u64,
}

/// Runs a side to its end; its peak memory is what the kernel last said of it.
fn timed(mut command: Command) -> Result<Ran> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let child_id = child.id();
    let of_child = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child_id)).unwrap_or_default();
    let (mut peak_kib, mut ticks) = (0, 0);
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        let (text, stat) = (of_child("status"), of_child("stat"));
        // User and system time are the 12th and 13th field after the name, in ticks of which a second has a hundred.
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
        ticks = ticks.max(fields.filter_map(|field| field.parse::<u64>().ok()).sum());
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    };
    let time = began.elapsed();
    ensure!(ended.success(), "{command:?} ended with {ended}");
    Ok(Ran { time, cpu: ticks as f64 / 100.0, peak_kib })
}

/// Gives the median in seconds.
fn print(side: &str, runs: &[Ran]) -> f64 {
    let mut seconds: Vec<f64> = runs.iter().map(|run| run.time.as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let (low, median, high) = (seconds[0], seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
    let mut cpu: Vec<f64> = runs.iter().map(|run| run.cpu).collect();
    cpu.sort_by(f64::total_cmp);
    let (cpu, peak) = (cpu[cpu.len() / 2], runs.iter().map(|run| run.peak_kib).max().unwrap_or(0) / 1024);
    println!("{side:>14}: median {median:.2} s, {low:.2} to {high:.2} s, CPU {cpu:.2} s, peak memory {peak} MiB");
    median
}

/// Verifies the run below `root`; everything but its judgement must hold.
fn child(root: &str) -> Result<()> {
    let report = verify(&Paths::new(root), &[RUN.to_owned()])?;
    let problems: Vec<&str> = report.problems.iter().map(|problem| problem.detail.as_str()).collect();
    ensure!(matches!(problems[..], [one] if one.contains("plan.toml does not read")), "{problems:?}");
    let bytes: u64 = std::fs::read_to_string(Path::new(root).join("bytes"))?.parse()?;
    ensure!(report.checked_bytes >= bytes, "{} bytes were hashed of {bytes}", report.checked_bytes);
    Ok(())
}

/// Writes a run of files of these sizes, with manifest, verdict and sums that hold; gives the number of files.
fn made_up_run(root: &Path, sizes: &[u64]) -> Result<usize> {
    let dir = Paths::new(root).run(RUN);
    let mut noise = vec![0; MIB as usize];
    let mut state = 1_u64;
    for byte in &mut noise {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    let mut names = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        let name = format!("cells/made-up/{:03}/{i:06}.bin", i / 1000);
        let path = dir.join(&name);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        let mut file = File::create(path)?;
        file.write_all(&(i as u64).to_le_bytes())?;
        let mut left = size - 8;
        while left > 0 {
            let n = left.min(noise.len() as u64);
            file.write_all(&noise[..n as usize])?;
            left -= n;
        }
        names.push(name);
    }
    let paths: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    let digests = host::files::digest_all(&paths);
    let mut lines: BTreeMap<String, Digest> = BTreeMap::new();
    for (name, digest) in names.iter().zip(digests) {
        lines.insert(name.clone(), digest?.0);
    }
    let manifest = to_bytes(&manifest(&lines))?;
    let verdict = Verdict {
        rules: pure::gate::rules(),
        format: FORMAT,
        manifest: Digest::of(&manifest),
        passed: false,
        gates: Vec::new(),
        claims: Vec::new(),
    };
    for (name, bytes) in [(MANIFEST, manifest), (VERDICT, to_bytes(&verdict)?)] {
        lines.insert(name.to_owned(), Digest::of(&bytes));
        std::fs::write(dir.join(name), bytes)?;
    }
    std::fs::write(dir.join(SUMS), sums::to_text(&lines))?;
    std::fs::write(dir.join(SUMS_DETACHED), "")?;
    std::fs::write(root.join("bytes"), sizes.iter().sum::<u64>().to_string())?;
    Ok(sizes.len())
}

fn manifest(lines: &BTreeMap<String, Digest>) -> Manifest {
    let nothing = Digest::of(b"");
    let subject =
        |(name, digest): (&String, &Digest)| Subject { name: name.clone(), digest: SubjectDigest { sha256: *digest } };
    Manifest {
        statement_type: STATEMENT_TYPE.to_owned(),
        subject: lines.iter().map(subject).collect(),
        predicate_type: PREDICATE_TYPE.to_owned(),
        predicate: Predicate {
            format: FORMAT,
            run: RUN.to_owned(),
            experiment: "made-up".to_owned(),
            profile: ProfileName::Smoke,
            source: Source {
                kind: "none".to_owned(),
                commit: None,
                digest: nothing,
                digest_after: nothing,
                clean_before: false,
                clean_after: false,
            },
            plan: nothing,
            claims: nothing,
            detached: Vec::new(),
            attempts: Vec::new(),
            steps: Vec::new(),
            notebook_head: nothing,
        },
    }
}
