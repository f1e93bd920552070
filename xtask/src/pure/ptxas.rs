//! What `ptxas -v` says about each kernel: registers, stack, spills and shared memory.
//!
//! Spills are stated nowhere else; the rest is there to be compared with the cubin's own attributes.

use super::sass::Sass;
use anyhow::{Context, Result, ensure};

/// A kernel as `ptxas -v` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The symbol.
    pub symbol: String,
    /// Registers per thread.
    pub registers: u32,
    /// Stack bytes of the kernel's own frame.
    pub frame_bytes: u32,
    /// The largest frame among the kernel and the functions it calls.
    pub stack_bytes: u32,
    /// Bytes spilled, stores plus loads, by the kernel and the functions it calls.
    pub spill_bytes: u32,
    /// Static shared memory in bytes.
    pub shared_bytes: u32,
}

/// Reads the kernels from a compiler log, in the order the log has them.
///
/// # Errors
/// When a line that should state a number does not.
pub fn parse(log: &str) -> Result<Vec<Usage>> {
    let mut found: Vec<Usage> = Vec::new();
    let mut function = String::new();
    for line in log.lines() {
        if let Some(rest) = after(line, "Compiling entry function '") {
            let (symbol, _) = rest.split_once('\'').context("entry function without a name")?;
            found.push(Usage { symbol: symbol.to_owned(), ..Usage::default() });
        } else if let Some(name) = after(line, "Function properties for ") {
            function = name.trim().to_owned();
        } else if let Some(usage) = found.last_mut() {
            resources(line, &function, usage).with_context(|| format!("ptxas line {line:?}"))?;
        }
    }
    Ok(found)
}

/// Spilled bytes of a kernel, after its cubin and the log agreed on everything that both state.
///
/// # Errors
/// When they disagree, or the log does not name the kernel.
pub fn cross_check(sass: &Sass, log: &[Usage]) -> Result<u32> {
    let usage = log.iter().find(|usage| usage.symbol == sass.symbol);
    let usage = usage.with_context(|| format!("ptxas -v does not mention kernel {}", sass.symbol))?;
    for (what, cubin, ptxas) in [
        ("registers", sass.registers, usage.registers),
        ("frame bytes", sass.frame_bytes, usage.frame_bytes),
        ("shared bytes", sass.shared_bytes, usage.shared_bytes),
    ] {
        ensure!(cubin == ptxas, "kernel {}: {what} are {cubin} by the cubin and {ptxas} by ptxas -v", sass.symbol);
    }
    Ok(usage.spill_bytes)
}

fn resources(line: &str, function: &str, usage: &mut Usage) -> Result<()> {
    if line.contains(" bytes stack frame, ") {
        let frame = before(line, " bytes stack frame")?;
        let spills = [before(line, " bytes spill stores")?, before(line, " bytes spill loads")?];
        if function == usage.symbol {
            usage.frame_bytes = frame;
        }
        usage.stack_bytes = usage.stack_bytes.max(frame);
        usage.spill_bytes = usage.spill_bytes.saturating_add(spills[0].saturating_add(spills[1]));
    } else if let Some(rest) = after(line, ": Used ") {
        usage.registers = before(rest, " registers")?;
        if rest.contains(" bytes smem") {
            usage.shared_bytes = before(rest, " bytes smem")?;
        }
        if rest.contains(" bytes cumulative stack size") {
            usage.stack_bytes = usage.stack_bytes.max(before(rest, " bytes cumulative stack size")?);
        }
    }
    Ok(())
}

fn after<'line>(line: &'line str, marker: &str) -> Option<&'line str> {
    line.split_once(marker).map(|(_, rest)| rest)
}

/// The number that stands right before `marker`.
fn before(line: &str, marker: &str) -> Result<u32> {
    let (head, _) = line.split_once(marker).with_context(|| format!("no {marker:?}"))?;
    let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().with_context(|| format!("no number before {marker:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::Digest;

    /// Captured from nvcc 13.0.88 with `-Xptxas -v,-warn-spills`; one kernel calls a function that spills.
    const SM80: &str = include_str!("fixtures/ptxas-sm80.txt");
    const SM90A: &str = include_str!("fixtures/ptxas-sm90a.txt");

    fn usage(symbol: &str, registers: u32, frame: u32, stack: u32, spills: u32, shared: u32) -> Usage {
        let symbol = symbol.to_owned();
        let (frame_bytes, stack_bytes) = (frame, stack);
        Usage { symbol, registers, frame_bytes, stack_bytes, spill_bytes: spills, shared_bytes: shared }
    }

    #[test]
    fn real_logs_parse() {
        assert_eq!(
            parse(SM80).unwrap(),
            [
                usage("first", 42, 144, 144, 64, 512),
                usage("plain", 24, 0, 0, 0, 0),
                usage("_Z2tkILi4EEvPf", 25, 0, 32, 64, 0),
            ]
        );
        let newer = parse(SM90A).unwrap();
        assert_eq!(newer[0], usage("first", 44, 144, 144, 64, 512));
        assert_eq!(newer.len(), 3);
    }

    #[test]
    fn a_log_without_kernels_is_empty_and_a_broken_number_an_error() {
        assert_eq!(parse("ptxas info    : 22 bytes gmem\n").unwrap(), []);
        assert!(parse("Compiling entry function 'k' for\nptxas info    : Used many registers\n").is_err());
    }

    #[test]
    fn disagreement_with_the_cubin_is_refused() {
        let log = parse(SM80).unwrap();
        let mut sass = Sass {
            symbol: "first".into(),
            digest: Digest::of(b""),
            registers: 42,
            frame_bytes: 144,
            stack_bytes: 144,
            shared_bytes: 512,
            max_threads: 128,
            calls: Vec::new(),
        };
        assert_eq!(cross_check(&sass, &log).unwrap(), 64);
        sass.registers = 41;
        let error = cross_check(&sass, &log).unwrap_err().to_string();
        assert!(error.contains("registers are 41 by the cubin and 42 by ptxas"), "{error}");
        sass.symbol = "absent".into();
        assert!(cross_check(&sass, &log).is_err());
    }
}
