//! What a kernel is: its SASS digest and the resources that its cubin states.
//!
//! The digest covers what the GPU executes and nothing that only describes it (DESIGN.md section 6), so it stays across
//! a comment, `-lineinfo`, another folder or a sibling kernel. Spills are not in a cubin: `pure::identity::ptxas` has them.

use super::cubin::{Cubin, Section};
use super::nvinfo::{self, Attribute};
use anyhow::{Context, Result, ensure};
use schema::Digest;
use std::collections::BTreeSet;

/// Static shared memory that the system keeps in every `.nv.shared.K` from sm_90 on (CUDA Programming Guide, "Compute Capabilities").
const RESERVED_SHARED_BYTES: u64 = 1024;
/// A sibling's `extern __shared__` raises the alignment of every kernel's shared section to this, and moves nothing.
const SIBLING_ALIGN: u64 = 16;
/// Largest block where no launch bound says less (CUDA Programming Guide, "Technical Specifications").
const MAX_BLOCK_THREADS: u32 = 1024;

/// A kernel in a cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sass {
    /// The symbol.
    pub symbol: String,
    /// Its SASS digest.
    pub digest: Digest,
    /// Registers per thread.
    pub registers: u32,
    /// Stack bytes of its own frame, as `ptxas -v` counts them.
    pub frame_bytes: u32,
    /// Stack bytes of its deepest chain of calls.
    pub stack_bytes: u32,
    /// Static shared memory in bytes, without what the system reserves.
    pub shared_bytes: u32,
    /// Most threads per block.
    pub max_threads: u32,
    /// Device functions it calls without inlining.
    pub calls: Vec<String>,
}

/// The kernels of a cubin that was compiled for `arch` (e.g. `sm_90`), sorted by symbol.
///
/// # Errors
/// When the bytes are not a well-formed cubin, are for another architecture, or hold no kernel.
pub fn kernels(bytes: &[u8], arch: &str) -> Result<Vec<Sass>> {
    let cubin = Cubin::parse(bytes)?;
    let wanted = arch_number(arch)?;
    ensure!(cubin.arch == wanted, "cubin is for sm_{}, not for {arch}", cubin.arch);
    // The number alone does not tell sm_90 from sm_90a.
    let exact = cubin.made_by.as_ref().and_then(|made_by| made_by.arch.as_deref()).unwrap_or(arch);
    ensure!(exact == arch, "cubin is for {exact}, not for {arch}");
    let names: BTreeSet<&str> = cubin.symbols.iter().filter(|s| s.entry).map(|s| s.name.as_str()).collect();
    ensure!(!names.is_empty(), "cubin holds no kernel");
    names.into_iter().map(|name| kernel(&cubin, arch, name).with_context(|| format!("kernel {name}"))).collect()
}

/// The number in an architecture's name: 90 for `sm_90a`.
///
/// # Errors
/// When it is not such a name.
pub fn arch_number(arch: &str) -> Result<u32> {
    let digits = arch.strip_prefix("sm_").map(|rest| rest.trim_end_matches(['a', 'f']));
    digits
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("{arch:?} is not an architecture such as sm_90"))
}

/// The name with the digits zeroed that nvcc derives from the source's path.
#[must_use]
pub fn stable_name(name: &str) -> String {
    let mut stable = name.to_owned();
    for marker in ["_INTERNAL_", "_GLOBAL__N__"] {
        let starts: Vec<usize> = stable.match_indices(marker).map(|(at, _)| at + marker.len()).collect();
        for start in starts {
            let digits = stable.as_bytes().get(start..start + 8);
            if digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                stable.replace_range(start..start + 8, "00000000");
            }
        }
    }
    stable
}

fn kernel(cubin: &Cubin<'_>, arch: &str, name: &str) -> Result<Sass> {
    let (text_index, text) = cubin.section(&format!(".text.{name}")).context("no .text section")?;
    let rows = own_rows(cubin, name)?;
    let own_info = info_of(cubin, name)?;
    let functions = called_functions(cubin, text_index);
    let registers = row(&rows, nvinfo::REGISTERS).context("no register count")?;
    // Before CUDA 13's ELF, bits 24..32 of the section's info hold the registers as well.
    let in_header = text.info >> 24;
    ensure!(in_header == 0 || in_header == registers, "{registers} registers by .nv.info, {in_header} by its section");
    let frame_bytes = row(&rows, nvinfo::FRAME_SIZE).unwrap_or(0);
    Ok(Sass {
        symbol: name.to_owned(),
        digest: digest(cubin, arch, name, &functions, &own_info, &rows)?,
        registers,
        frame_bytes,
        stack_bytes: stack_bytes(cubin, &functions, frame_bytes, &rows)?,
        shared_bytes: shared_bytes(cubin, name)?,
        max_threads: max_threads(&own_info)?,
        calls: functions.iter().map(|&index| stable_name(&cubin.symbols[index].name)).collect(),
    })
}

/// Functions reached from a text section: those that lie in it, and by call graph those with sections of their own.
fn called_functions(cubin: &Cubin<'_>, text_index: usize) -> Vec<usize> {
    let edges = call_edges(cubin);
    let mut texts = vec![text_index];
    let mut found = BTreeSet::new();
    while let Some(text) = texts.pop() {
        let inside = |index: &usize| cubin.symbols[*index].section == Some(text);
        let related = cubin.relocations.get(&text).into_iter().flatten().map(|row| row.symbol);
        let called = edges.iter().filter(|(caller, _)| inside(caller)).map(|&(_, callee)| callee);
        let reached = (0..cubin.symbols.len()).filter(inside).chain(related).chain(called);
        for index in reached.filter(|&i| cubin.symbols[i].function && !cubin.symbols[i].entry).collect::<Vec<_>>() {
            if found.insert(index) {
                texts.extend(cubin.symbols[index].section.filter(|&section| section != text));
            }
        }
    }
    let mut found: Vec<usize> = found.into_iter().collect();
    found.sort_by(|&a, &b| cubin.symbols[a].name.cmp(&cubin.symbols[b].name));
    found
}

/// Pairs of caller and callee; a negative number marks a class and no function.
fn call_edges(cubin: &Cubin<'_>) -> Vec<(usize, usize)> {
    let Some((_, section)) = cubin.section(".nv.callgraph") else { return Vec::new() };
    let n = cubin.symbols.len();
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let pairs = section.data.chunks_exact(8).map(|row| (word(row), word(&row[4..])));
    pairs.filter(|&(caller, callee)| caller < n && callee < n).collect()
}

fn own_rows<'data>(cubin: &Cubin<'data>, name: &str) -> Result<Vec<Attribute<'data>>> {
    let Some((_, section)) = cubin.section(".nv.info") else { return Ok(Vec::new()) };
    let rows = nvinfo::decode(section.data).context(".nv.info")?;
    let is_own = |row: &Attribute<'_>| {
        let symbol = row.word(0).filter(|_| row.n_symbols() > 0).and_then(|i| cubin.symbols.get(i as usize));
        symbol.is_some_and(|symbol| symbol.name == name)
    };
    let mut own: Vec<_> = rows.into_iter().filter(is_own).collect();
    own.sort_by_key(|row| row.attribute);
    Ok(own)
}

fn info_of<'data>(cubin: &Cubin<'data>, name: &str) -> Result<Vec<Attribute<'data>>> {
    let section = format!(".nv.info.{name}");
    cubin.section(&section).map_or(Ok(Vec::new()), |(_, found)| nvinfo::decode(found.data).context(section.clone()))
}

fn row(rows: &[Attribute<'_>], attribute: u8) -> Option<u32> {
    rows.iter().find(|row| row.attribute == attribute)?.word(1)
}

fn stack_bytes(cubin: &Cubin<'_>, functions: &[usize], frame: u32, rows: &[Attribute<'_>]) -> Result<u32> {
    let mut most = frame.max(row(rows, nvinfo::MIN_STACK_SIZE).unwrap_or(0));
    // A recursive chain has no bound and so no row of the kernel's own: the callees' frames still show that stack is used.
    for &function in functions {
        let frames = own_rows(cubin, &cubin.symbols[function].name)?;
        most = most.max(row(&frames, nvinfo::FRAME_SIZE).unwrap_or(0));
    }
    Ok(most)
}

fn shared_bytes(cubin: &Cubin<'_>, name: &str) -> Result<u32> {
    let reserved = if cubin.arch >= 90 { RESERVED_SHARED_BYTES } else { 0 };
    let size = cubin.section(&format!(".nv.shared.{name}")).map_or(0, |(_, section)| section.size);
    u32::try_from(size.saturating_sub(reserved)).context("shared memory of more than 4 GiB")
}

fn max_threads(info: &[Attribute<'_>]) -> Result<u32> {
    let bounds = info.iter().find(|row| matches!(row.attribute, nvinfo::MAX_THREADS | nvinfo::REQUIRED_THREADS));
    let Some(bounds) = bounds else { return Ok(MAX_BLOCK_THREADS) };
    let sides = [bounds.word(0), bounds.word(1), bounds.word(2)];
    let product = sides.iter().try_fold(1u32, |product, side| product.checked_mul((*side)?));
    product.filter(|n| (1..=MAX_BLOCK_THREADS).contains(n)).context("launch bound out of range")
}

fn digest(
    cubin: &Cubin<'_>,
    arch: &str,
    name: &str,
    functions: &[usize],
    own_info: &[Attribute<'_>],
    rows: &[Attribute<'_>],
) -> Result<Digest> {
    let mut hashed = Canonical::default();
    hashed.field("assay sass 1", arch.as_bytes());
    hashed.field("kernel", stable_name(name).as_bytes());
    for (label, index) in included(cubin, name, functions) {
        hashed.section(&stable_name(&label), &cubin.sections[index]);
        for row in cubin.relocations.get(&index).into_iter().flatten() {
            let symbol = &cubin.symbols[row.symbol];
            let section = symbol.section.map_or("", |section| cubin.sections[section].name.as_str());
            hashed.field("relocation", &row.offset.to_le_bytes());
            hashed.field("type", &row.kind.to_le_bytes());
            hashed.field("symbol", stable_name(&symbol.name).as_bytes());
            hashed.field("in", stable_name(section).as_bytes());
            hashed.field("at", &symbol.value.to_le_bytes());
            hashed.field("addend", &row.addend.to_le_bytes());
        }
    }
    for (label, attributes) in [("info of kernel", own_info), ("rows of kernel", rows)] {
        hashed.field(label, &attributes.len().to_le_bytes());
        attributes.iter().try_for_each(|attribute| hashed.attribute(cubin, attribute))?;
    }
    Ok(Digest::of(hashed.0))
}

/// The sections that K's digest covers, with the label each is hashed under, in an order that does not depend on the file's.
fn included(cubin: &Cubin<'_>, name: &str, functions: &[usize]) -> Vec<(String, usize)> {
    let own = [".text", ".nv.constant0", ".nv.constant2", ".nv.shared"].map(|prefix| format!("{prefix}.{name}"));
    let homes = functions.iter().filter_map(|&function| cubin.symbols[function].section);
    let names: BTreeSet<String> = homes.map(|home| cubin.sections[home].name.clone()).chain(own).collect();
    let is_module_wide =
        |section: &str| matches!(section, ".nv.constant3" | ".nv.constant4") || section.starts_with(".nv.global");
    let sections =
        cubin.sections.iter().enumerate().filter(|(_, s)| names.contains(&s.name) || is_module_wide(&s.name));
    let mut found: Vec<(String, usize)> = sections.map(|(index, section)| (section.name.clone(), index)).collect();
    found.sort();
    found
}

/// Bytes that mean one thing: every field with its label, each with its length.
#[derive(Default)]
struct Canonical(Vec<u8>);

impl Canonical {
    fn field(&mut self, label: &str, value: &[u8]) {
        for part in [label.as_bytes(), value] {
            self.0.extend((part.len() as u64).to_le_bytes());
            self.0.extend(part);
        }
    }

    fn section(&mut self, label: &str, section: &Section<'_>) {
        self.field("section", label.as_bytes());
        if section.nobits {
            self.field("size", &section.size.to_le_bytes());
            self.field("align", &section.align.max(SIBLING_ALIGN).to_le_bytes());
        } else {
            self.field("bytes", section.data);
        }
    }

    fn attribute(&mut self, cubin: &Cubin<'_>, attribute: &Attribute<'_>) -> Result<()> {
        self.field("attribute", &[attribute.format, attribute.attribute]);
        let n_symbols = attribute.n_symbols();
        for n in 0..n_symbols {
            let index = attribute.word(n).context("attribute without its symbol")?;
            self.field("symbol", stable_name(cubin.symbol_name(index)?).as_bytes());
        }
        self.field("value", attribute.value.get(4 * n_symbols..).unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOY: &[u8] =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-toy-sm_90.elf"));

    #[test]
    fn a_cubin_is_for_its_very_architecture() {
        let accelerated =
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-toy-sm_90a.elf"));
        assert!(kernels(TOY, "sm_90").is_ok() && kernels(accelerated, "sm_90a").is_ok());
        for (bytes, arch, said) in [
            (TOY, "sm_80", "cubin is for sm_90, not for sm_80"),
            (TOY, "sm_90a", "cubin is for sm_90, not for sm_90a"),
            (accelerated, "sm_90", "cubin is for sm_90a, not for sm_90"),
        ] {
            assert_eq!(kernels(bytes, arch).unwrap_err().to_string(), said);
        }
    }

    /// Whatever byte of a cubin changes: it no longer parses, a kernel's identity changes, or nothing that counts did.
    #[test]
    fn no_changed_byte_gives_the_same_identity_other_resources() {
        use rayon::prelude::*;
        let truth = kernels(TOY, "sm_90").unwrap();
        let (refused, other): (Vec<usize>, Vec<usize>) = (0..TOY.len())
            .into_par_iter()
            .map(|at| {
                let mut bytes = TOY.to_vec();
                bytes[at] ^= 1 << (at % 8);
                let Ok(found) = kernels(&bytes, "sm_90") else { return (1, 0) };
                let digests =
                    |kernels: &[Sass]| kernels.iter().map(|k| (k.symbol.clone(), k.digest)).collect::<Vec<_>>();
                if digests(&found) != digests(&truth) {
                    return (0, 1);
                }
                for (found, truth) in found.iter().zip(&truth) {
                    let told = |k: &Sass| (k.registers, k.frame_bytes, k.shared_bytes, k.max_threads);
                    assert_eq!(told(found), told(truth), "byte {at}");
                    // Stack frames of called functions are not part of the identity; any budget refuses a kernel with
                    // a stack.
                    assert!(found.stack_bytes >= truth.stack_bytes, "byte {at}");
                }
                (0, 0)
            })
            .unzip();
        let (refused, other) = (refused.iter().sum::<usize>(), other.iter().sum::<usize>());
        assert!(refused > 300 && other > 10_000, "{refused} refused, {other} of another identity");
    }

    #[test]
    fn no_cut_cubin_is_one() {
        for length in (0..TOY.len()).step_by(37) {
            assert!(kernels(&TOY[..length], "sm_90").is_err(), "{length} bytes");
        }
    }

    #[test]
    fn only_path_digits_are_zeroed() {
        let check = |name: &str, expected: &str| assert_eq!(stable_name(name), expected);
        check("_ZN31_INTERNAL_491ac3a3_4_a_cu_scale7shelperEf", "_ZN31_INTERNAL_00000000_4_a_cu_scale7shelperEf");
        check("_ZN39_GLOBAL__N__deadbeef_4_a_cu1fEv", "_ZN39_GLOBAL__N__00000000_4_a_cu1fEv");
        check("_INTERNAL_short", "_INTERNAL_short");
        check("_INTERNAL_zzzzzzzz_", "_INTERNAL_zzzzzzzz_");
        check("a_INTERNAL_01234567_INTERNAL_89abcdef", "a_INTERNAL_00000000_INTERNAL_00000000");
        check("plain_kernel", "plain_kernel");
    }

    #[test]
    fn architectures_have_numbers() {
        for (arch, number) in [("sm_80", 80), ("sm_90a", 90), ("sm_121a", 121), ("sm_100f", 100)] {
            assert_eq!(arch_number(arch).unwrap(), number);
        }
        for bad in ["", "sm_", "90", "sm_x", "compute_90"] {
            assert!(arch_number(bad).is_err(), "{bad}");
        }
    }
}
