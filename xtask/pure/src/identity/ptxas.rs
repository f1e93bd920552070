//! What `ptxas -v` says: registers, stack, spills and shared memory of each kernel, and advice that changes what is
//! measured.
//!
//! Spills are stated nowhere else; the rest is there to be compared with the cubin's own attributes. A log is a
//! sequence of entries: what follows `Compiling entry function` belongs to that kernel, and functions it calls are
//! told from it by name. Build tools and other compilers print lines of their own before and between, so a line is
//! recognized by its words, not by its position.

use super::sass::{Sass, stable_name};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;

/// A kernel as `ptxas -v` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The symbol.
    pub symbol: String,
    /// The architecture, suffix included, e.g. `sm_90a`.
    pub arch: String,
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
    /// Functions it calls without inlining, by names that do not depend on the source's path, sorted.
    pub functions: Vec<String>,
}

/// Something that the compiler said although it went on: it may change what is measured. Whatever ptxas says that is not known
/// here is such advice, so that a new release's words are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The kernel or function it speaks of; absent where it speaks of the whole file.
    pub function: Option<String>,
    /// Its number, e.g. `C7510`; absent where it has none.
    pub code: Option<String>,
    /// Its words.
    pub text: String,
}

/// A log, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Kernels, in the order the log has them.
    pub kernels: Vec<Usage>,
    /// Advice, in the order the log has it.
    pub advice: Vec<Advice>,
}

/// Reads a compiler log.
///
/// # Errors
/// When a line that should state a number does not, a kernel is stated twice, for two architectures, or in part, or a function
/// is warned of as spilling and states no such spills.
pub fn parse(log: &str) -> Result<Log> {
    let mut reader = Reader::default();
    for line in log.lines() {
        reader.line(line).with_context(|| format!("ptxas line {line:?}"))?;
    }
    reader.done()
}

/// Spilled bytes of a kernel compiled for `arch`, after its cubin and the log agreed on everything that both state.
///
/// # Errors
/// When they disagree, or the log does not name the kernel.
pub fn cross_check(sass: &Sass, arch: &str, log: &Log) -> Result<u32> {
    let usage = log.kernels.iter().find(|usage| usage.symbol == sass.symbol);
    let usage = usage.with_context(|| format!("ptxas -v does not mention kernel {}", sass.symbol))?;
    ensure!(usage.arch == arch, "kernel {} was compiled for {} and not for {arch}", sass.symbol, usage.arch);
    for (what, cubin, ptxas) in [
        ("registers", sass.registers, usage.registers),
        ("frame bytes", sass.frame_bytes, usage.frame_bytes),
        ("shared bytes", sass.shared_bytes, usage.shared_bytes),
    ] {
        ensure!(cubin == ptxas, "kernel {}: {what} are {cubin} by the cubin and {ptxas} by ptxas -v", sass.symbol);
    }
    let own = format!("${}$", stable_name(&sass.symbol));
    for called in sass.calls.iter().filter_map(|name| name.strip_prefix(&own)) {
        let stated = usage.functions.iter().any(|name| name == called);
        ensure!(stated, "kernel {} calls {called} by the cubin and not by ptxas -v", sass.symbol);
    }
    Ok(usage.spill_bytes)
}

/// What a function states under one entry: its frame, then its spills.
type Properties = (u32, u32);

#[derive(Default)]
struct Reader {
    log: Log,
    /// Functions of the open entry, or of none: each with what it states, once it did.
    functions: BTreeMap<String, Option<Properties>>,
    /// The function that the next properties are of.
    function: Option<String>,
    /// Whether the open entry stated its registers.
    used: bool,
    /// Spills warned of, with their function.
    warned: Vec<(String, u32)>,
    /// The spills that each function stated, once for each kernel that calls it.
    stated: BTreeMap<String, Vec<u32>>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(rest) = after(line, "Compiling entry function '") {
            let (symbol, rest) = rest.split_once("' for '").context("entry function without an architecture")?;
            let (arch, _) = rest.split_once('\'').context("architecture without an end")?;
            self.open(symbol, arch)
        } else if let Some(name) = after(line, "Function properties for ") {
            self.function = Some(name.trim().to_owned());
            let twice = self.functions.insert(name.trim().to_owned(), None);
            ensure!(twice.is_none(), "properties of one function twice");
            Ok(())
        } else if line.contains(" bytes stack frame, ") {
            self.properties(line)
        } else if let Some(rest) = after(line, ": Used ") {
            self.resources(rest)
        } else if let Some(rest) = after(line, "Registers are spilled to local memory in function '") {
            let (name, rest) = rest.split_once('\'').context("a function without an end")?;
            self.warned.push((name.to_owned(), spills(rest)?));
            Ok(())
        } else {
            self.other(line);
            Ok(())
        }
    }

    fn open(&mut self, symbol: &str, arch: &str) -> Result<()> {
        self.close()?;
        let kernels = &self.log.kernels;
        ensure!(kernels.iter().all(|kernel| kernel.symbol != symbol), "kernel {symbol} is compiled twice");
        ensure!(kernels.iter().all(|kernel| kernel.arch == arch), "more than one architecture in one compilation");
        self.log.kernels.push(Usage { symbol: symbol.to_owned(), arch: arch.to_owned(), ..Usage::default() });
        Ok(())
    }

    fn properties(&mut self, line: &str) -> Result<()> {
        let found = (before(line, " bytes stack frame")?, spills(line)?);
        let function = self.function.take().context("a stack frame without its function")?;
        self.stated.entry(function.clone()).or_default().push(found.1);
        self.functions.insert(function, Some(found));
        Ok(())
    }

    fn resources(&mut self, rest: &str) -> Result<()> {
        let Some(usage) = self.log.kernels.last_mut() else { bail!("registers of no kernel") };
        ensure!(!self.used, "registers of one kernel twice");
        self.used = true;
        usage.registers = before(rest, " registers")?;
        if rest.contains(" bytes smem") {
            usage.shared_bytes = before(rest, " bytes smem")?;
        }
        if rest.contains(" bytes cumulative stack size") {
            usage.stack_bytes = before(rest, " bytes cumulative stack size")?;
        }
        Ok(())
    }

    /// Ends the open entry: it stated its registers and its own properties, and every function it names stated its own.
    fn close(&mut self) -> Result<()> {
        let functions = std::mem::take(&mut self.functions);
        let used = std::mem::take(&mut self.used);
        if let Some(name) = self.function.take() {
            bail!("function {name} states no properties");
        }
        // Functions of other files come before the first entry; no measured kernel uses them.
        let Some(usage) = self.log.kernels.last_mut() else { return Ok(()) };
        ensure!(used, "kernel {} states no registers", usage.symbol);
        let own = functions.get(&usage.symbol).copied().flatten();
        usage.frame_bytes = own.with_context(|| format!("kernel {} states no frame", usage.symbol))?.0;
        let called = functions.keys().filter(|name| **name != usage.symbol).map(|name| stable_name(name));
        usage.functions = called.collect();
        usage.functions.sort();
        for (frame, spilled) in functions.values().flatten() {
            usage.stack_bytes = usage.stack_bytes.max(*frame);
            usage.spill_bytes = usage.spill_bytes.saturating_add(*spilled);
        }
        Ok(())
    }

    fn other(&mut self, line: &str) {
        let code = after(line, "(C").and_then(|rest| rest.split_once(')')).map(|(digits, _)| digits);
        let code = code.filter(|digits| digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        let of_ptxas = line.contains("ptxas ") && !line.starts_with("nvcc ") && !is_known(line);
        if code.is_some() || of_ptxas {
            let (_, text) = line.split_once(": ").unwrap_or(("", line));
            let function = after(line, "function '").and_then(|rest| rest.split_once('\''));
            self.log.advice.push(Advice {
                function: function.map(|(name, _)| name.to_owned()),
                code: code.map(|digits| format!("C{digits}")),
                text: text.trim().to_owned(),
            });
        }
    }

    fn done(mut self) -> Result<Log> {
        self.close()?;
        for (name, warned) in &self.warned {
            let stated = self.stated.get(name).is_some_and(|stated| stated.contains(warned));
            ensure!(stated, "{name} is warned of as spilling {warned} bytes, and does not state it");
        }
        Ok(self.log)
    }
}

/// Lines of ptxas that say nothing of a kernel.
fn is_known(line: &str) -> bool {
    line.contains(" bytes gmem") || line.contains("Compile time = ")
}

/// Bytes spilled: stores and loads.
fn spills(line: &str) -> Result<u32> {
    Ok(before(line, " bytes spill stores")?.saturating_add(before(line, " bytes spill loads")?))
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
mod tests;
