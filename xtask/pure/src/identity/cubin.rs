//! Parses a cubin into sections, symbols with readable names, and relocations. It judges nothing.
//!
//! Every index and offset is checked, so hostile bytes give an error and never a panic.

use anyhow::{Context, Result, anyhow, bail, ensure};
use object::Endianness;
use object::elf::{FileHeader64, SHT_NOBITS, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, Rel, Rela, SectionHeader, SectionTable, Sym, SymbolTable};
use std::collections::BTreeMap;

/// `e_machine` of CUDA.
const MACHINE_CUDA: u16 = 190;
/// In `st_other`: the symbol is a kernel.
const OTHER_ENTRY: u8 = 0x10;
/// ELF ABI version from which `e_flags` holds the architecture in bits 8..16 (CUDA 13); before, in bits 0..8.
const ABI_SHIFTED_ARCH: u8 = 8;

type Header = FileHeader64<Endianness>;

/// Section in which ptxas says who it is and what it was asked for; nvcc 13 writes it.
const TOOL_NOTE: &str = ".note.nv.tkinfo";

/// A parsed cubin.
#[derive(Debug)]
pub struct Cubin<'data> {
    /// Architecture number, e.g. 90.
    pub arch: u32,
    /// What the compiler says of itself; absent in cubins of compilers that say nothing.
    pub made_by: Option<MadeBy>,
    /// Sections in file order; the null section included, so that indexes hold.
    pub sections: Vec<Section<'data>>,
    /// Symbols in file order; the null symbol included.
    pub symbols: Vec<Symbol>,
    /// Relocations by index of the section they apply to, sorted.
    pub relocations: BTreeMap<usize, Vec<Relocation>>,
}

/// What a compiler says of itself in a cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeBy {
    /// Its version line, as `nvcc --version` prints it.
    pub version: String,
    /// The architecture it was asked for, suffix included, e.g. `sm_90a`; absent when its arguments name none.
    pub arch: Option<String>,
}

/// A section.
#[derive(Debug)]
pub struct Section<'data> {
    /// Its name.
    pub name: String,
    /// Its bytes; empty for NOBITS.
    pub data: &'data [u8],
    /// Its size.
    pub size: u64,
    /// Its alignment.
    pub align: u64,
    /// Whether it has no bytes in the file.
    pub nobits: bool,
    /// `sh_info`.
    pub info: u32,
}

/// A symbol.
#[derive(Debug)]
pub struct Symbol {
    /// Its name; a nameless section symbol has its section's.
    pub name: String,
    /// The section it lies in; absent for undefined ones.
    pub section: Option<usize>,
    /// Whether it is a function.
    pub function: bool,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Its offset in the section.
    pub value: u64,
    /// Its size.
    pub size: u64,
}

/// A relocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relocation {
    /// Offset in the section it applies to.
    pub offset: u64,
    /// Its type.
    pub kind: u32,
    /// Index of the symbol it names.
    pub symbol: usize,
    /// Added to the symbol's address; zero where the addend lies in the section (REL).
    pub addend: i64,
}

impl<'data> Cubin<'data> {
    /// Parses the bytes of a cubin.
    ///
    /// # Errors
    /// When they are not a well-formed cubin.
    pub fn parse(bytes: &'data [u8]) -> Result<Self> {
        if let Some(what) = something_else(bytes) {
            bail!("not a cubin: {what}");
        }
        let header = Header::parse(bytes).context("not a 64-bit ELF file")?;
        let endian = header.endian().context("no byte order")?;
        let machine = header.e_machine(endian).0;
        ensure!(
            machine == MACHINE_CUDA,
            "not a cubin: a program or library for ELF machine {machine}, without device code"
        );
        let table = header.sections(endian, bytes).context("bad section table")?;
        for segment in header.program_headers(endian, bytes).context("bad program headers")? {
            segment.data(endian, bytes).map_err(|()| anyhow!("a segment leaves the file"))?;
        }
        let sections = sections(endian, bytes, &table)?;
        let symbol_table = table.symbols(endian, bytes, SHT_SYMTAB).context("bad symbol table")?;
        let symbols = symbols(endian, &symbol_table, &sections)?;
        let relocations = relocations(endian, bytes, &table, sections.len(), symbols.len())?;
        let flags = header.e_flags(endian).0;
        let shift = if header.e_ident.abi_version >= ABI_SHIFTED_ARCH { 8 } else { 0 };
        let note = sections.iter().find(|section| section.name == TOOL_NOTE);
        let made_by = note.and_then(|section| made_by(section.data));
        Ok(Self { arch: (flags >> shift) & 0xff, made_by, sections, symbols, relocations })
    }

    /// The section of that name, with its index.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<(usize, &Section<'data>)> {
        self.sections.iter().enumerate().find(|(_, section)| section.name == name)
    }

    /// A symbol's name.
    ///
    /// # Errors
    /// When there is no such symbol.
    pub fn symbol_name(&self, index: u32) -> Result<&str> {
        let symbol = self.symbols.get(index as usize).with_context(|| format!("symbol {index} does not exist"))?;
        Ok(&symbol.name)
    }
}

/// What bytes that are no ELF file are, as far as their beginning tells.
fn something_else(bytes: &[u8]) -> Option<String> {
    const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
    if bytes.is_empty() {
        // ptxas 13.0 leaves one on a full disk, with exit code 0.
        return Some("an empty file, which a full disk leaves behind".to_owned());
    }
    if bytes.starts_with(&FATBIN) {
        return Some("a fatbin, from which a driver would choose one cubin".to_owned());
    }
    let version = ptx_version(bytes)?;
    Some(format!("PTX {version}, which a driver would compile by itself"))
}

/// The version that a PTX text states before anything else than comments.
fn ptx_version(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"))?;
    first.strip_prefix(".version ").map(str::trim)
}

/// The note's description: a format, the offsets of five texts, the texts. The third is the version, the fifth the arguments.
fn made_by(note: &[u8]) -> Option<MadeBy> {
    const NAME_END: usize = 24;
    const TEXTS: usize = NAME_END + 24;
    let text = |n: usize| -> Option<&str> {
        let offset = note.get(NAME_END + 4 * n..NAME_END + 4 * n + 4)?;
        let offset = u32::from_le_bytes(offset.try_into().ok()?) as usize;
        let rest = note.get(TEXTS..)?.get(offset..)?;
        std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()
    };
    let mut arguments = text(5)?.split_whitespace();
    let arch = arguments.find(|argument| *argument == "-arch").and_then(|_| arguments.next());
    Some(MadeBy { version: text(3)?.to_owned(), arch: arch.map(str::to_owned) })
}

/// The absolute paths that a file holds in readable text, sorted; a cubin with line information names its sources.
#[must_use]
pub fn paths_in(bytes: &[u8]) -> Vec<String> {
    const LEAST_PARTS: usize = 2;
    const LEAST_CHARS: usize = 6;
    let readable = bytes.split(|byte| !(b' '..=b'~').contains(byte)).filter_map(|run| std::str::from_utf8(run).ok());
    let words = readable.flat_map(|run| run.split([' ', '"', '\'', '=', ':', ',', ';', '(', ')', '<', '>']));
    let is_path = |word: &&str| {
        let parts = word.strip_prefix('/').map_or(0, |rest| rest.split('/').filter(|part| !part.is_empty()).count());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | '~');
        parts >= LEAST_PARTS && word.len() >= LEAST_CHARS && !word.contains("//") && word.chars().all(plain)
    };
    let mut found: Vec<String> = words.filter(is_path).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

fn sections<'data>(
    endian: Endianness,
    bytes: &'data [u8],
    table: &SectionTable<'data, Header>,
) -> Result<Vec<Section<'data>>> {
    let one = |header: &'data <Header as FileHeader>::SectionHeader| -> Result<Section<'data>> {
        let name = text(table.section_name(endian, header).context("bad section name")?)?;
        let data = header.data(endian, bytes).with_context(|| format!("section {name} leaves the file"))?;
        Ok(Section {
            name,
            data,
            size: header.sh_size(endian),
            align: header.sh_addralign(endian),
            nobits: header.sh_type(endian) == SHT_NOBITS,
            info: header.sh_info(endian),
        })
    };
    table.iter().map(one).collect()
}

fn symbols(endian: Endianness, table: &SymbolTable<'_, Header>, sections: &[Section<'_>]) -> Result<Vec<Symbol>> {
    let one = |(index, symbol): (object::SymbolIndex, &<Header as FileHeader>::Sym)| -> Result<Symbol> {
        let section =
            table.symbol_section(endian, symbol, index).context("bad symbol section")?.map(|section| section.0);
        ensure!(
            section.is_none_or(|section| section < sections.len()),
            "symbol {} in a section that is not there",
            index.0
        );
        let mut name = text(table.symbol_name(endian, symbol).context("bad symbol name")?)?;
        if let (true, Some(section)) = (name.is_empty(), section) {
            name.clone_from(&sections[section].name);
        }
        let function = symbol.st_type() == STT_FUNC;
        let entry = function && symbol.st_other().0 & OTHER_ENTRY != 0;
        Ok(Symbol { name, section, function, entry, value: symbol.st_value(endian), size: symbol.st_size(endian) })
    };
    table.enumerate().map(one).collect()
}

fn relocations<'data>(
    endian: Endianness,
    bytes: &'data [u8],
    table: &SectionTable<'data, Header>,
    n_sections: usize,
    n_symbols: usize,
) -> Result<BTreeMap<usize, Vec<Relocation>>> {
    let mut all = BTreeMap::<usize, Vec<Relocation>>::new();
    let relocation = |offset, kind, symbol: u32, addend| Relocation { offset, kind, symbol: symbol as usize, addend };
    for header in table.iter() {
        let mut found = Vec::new();
        if let Some((rows, _)) = header.rela(endian, bytes).context("bad RELA section")? {
            found.extend(rows.iter().map(|row| {
                let (kind, symbol) = (row.r_type(endian, false).0, row.r_sym(endian, false));
                relocation(row.r_offset(endian), kind, symbol, row.r_addend(endian))
            }));
        }
        if let Some((rows, _)) = header.rel(endian, bytes).context("bad REL section")? {
            let rows = rows.iter().map(|row| (row.r_offset(endian), row.r_type(endian).0, row.r_sym(endian)));
            found.extend(rows.map(|(offset, kind, symbol)| relocation(offset, kind, symbol, 0)));
        }
        let target = header.sh_info(endian) as usize;
        ensure!(found.is_empty() || target < n_sections, "relocations of section {target}, which does not exist");
        ensure!(found.iter().all(|row| row.symbol < n_symbols), "a relocation names a symbol that does not exist");
        if !found.is_empty() {
            all.entry(target).or_default().extend(found);
        }
    }
    all.values_mut().for_each(|rows| rows.sort());
    Ok(all)
}

fn text(bytes: &[u8]) -> Result<String> {
    Ok(std::str::from_utf8(bytes).context("a name is not UTF-8")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captured: nvcc 13.0.88 -O3 -arch=sm_90, a kernel `probe` that calls a function, with constants and 512 shared bytes.
    const PROBE: &[u8] = include_bytes!("fixtures/probe-sm90.elf");
    /// Where its section headers begin, and how long each is.
    const HEADERS: usize = 0xd28;
    const HEADER: usize = 64;
    /// Where its symbols begin, and how long each is.
    const SYMBOLS: usize = 0x360;
    const SYMBOL: usize = 24;

    /// The captured cubin with some bytes replaced.
    fn patched(patches: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = PROBE.to_vec();
        for (at, new) in patches {
            bytes[*at..*at + new.len()].copy_from_slice(new);
        }
        bytes
    }

    fn refused(patches: &[(usize, &[u8])], words: &str) {
        let error = Cubin::parse(&patched(patches)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn a_captured_cubin_is_taken_apart() {
        let cubin = Cubin::parse(PROBE).unwrap();
        assert_eq!((cubin.arch, cubin.sections.len(), cubin.symbols.len()), (90, 18, 15));
        let (at, text) = cubin.section(".text.probe").unwrap();
        assert_eq!((at, text.data.len(), text.size, text.align, text.nobits), (14, 0x300, 0x300, 128, false));
        let (_, shared) = cubin.section(".nv.shared.probe").unwrap();
        assert_eq!((shared.data.len(), shared.size, shared.nobits, shared.info), (0, 0x600, true, 14));
        assert!(cubin.section(".text.other").is_none());
        let kinds = |name: &str| {
            let symbol = cubin.symbols.iter().find(|symbol| symbol.name.ends_with(name)).unwrap();
            (symbol.section, symbol.function, symbol.entry, symbol.value, symbol.size)
        };
        assert_eq!(kinds("probe"), (Some(14), false, false, 0, 0), "the section's own symbol has its name");
        assert_eq!(kinds("helperEf"), (Some(14), true, false, 0x220, 224));
        assert_eq!(kinds("scale"), (Some(13), false, false, 0, 16));
        assert_eq!(kinds("offset0"), (None, false, false, 0, 4));
        assert_eq!(cubin.symbol_name(13).unwrap(), "probe");
        assert!(cubin.symbols[13].function && cubin.symbols[13].entry);
        assert!(cubin.symbol_name(15).is_err());
        let row = |offset, addend| Relocation { offset, kind: 2, symbol: 13, addend };
        assert_eq!(cubin.relocations, [(4, vec![row(0x44, 0), row(0xa0, 0), row(0xc4, 0x220)])].into());
    }

    #[test]
    fn an_older_cubin_has_its_architecture_elsewhere() {
        let arch =
            |abi: u8, flags: u32| Cubin::parse(&patched(&[(8, &[abi]), (48, &flags.to_le_bytes())])).unwrap().arch;
        assert_eq!((arch(7, 0x6005_0056), arch(8, 0x6005_5600), arch(9, 0x6005_7904)), (86, 86, 121));
    }

    #[test]
    fn rel_rows_have_no_addend_of_their_own() {
        // The relocations of section 12, four of 16 bytes instead of three of 24.
        let header = HEADERS + 12 * HEADER;
        let bytes = patched(&[(header + 4, &[9]), (header + 32, &[0x40]), (header + 56, &[16])]);
        let cubin = Cubin::parse(&bytes).unwrap();
        let rows = &cubin.relocations[&4];
        assert_eq!((rows.len(), rows.iter().all(|row| row.addend == 0)), (4, true));
    }

    #[test]
    fn what_points_outside_is_an_error() {
        refused(&[(18, &[62, 0])], "ELF machine 62");
        refused(&[(HEADERS + 12 * HEADER + 44, &[18])], "relocations of section 18, which does not exist");
        refused(&[(HEADERS + 12 * HEADER + 44, &[99])], "relocations of section 99");
        refused(&[(0x770 + 12, &[15])], "a relocation names a symbol that does not exist");
        refused(&[(0x770 + 12, &[99])], "a relocation names a symbol that does not exist");
        refused(&[(SYMBOLS + 13 * SYMBOL + 6, &[18])], "symbol 13 in a section that is not there");
        refused(&[(SYMBOLS + 13 * SYMBOL + 6, &[99])], "symbol 13 in a section that is not there");
        refused(&[(0x40 + 1, &[0xff])], "a name is not UTF-8");
        Cubin::parse(&patched(&[(HEADERS + 12 * HEADER + 44, &[17])])).unwrap();
        Cubin::parse(&patched(&[(0x770 + 12, &[14])])).unwrap();
        Cubin::parse(&patched(&[(SYMBOLS + 13 * SYMBOL + 6, &[17])])).unwrap();
    }

    macro_rules! captured {
        ($name:literal) => {
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-", $name))
        };
    }

    #[test]
    fn what_is_not_a_cubin_is_an_error() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 64], &[0xff; 4096]] {
            assert!(Cubin::parse(bytes).is_err());
        }
    }

    #[test]
    fn what_lies_in_a_cubin_s_place_is_named() {
        let toy: &[u8] = captured!("toy-sm_90.elf");
        let host = [&toy[..18], &[0x3e, 0], &toy[20..]].concat();
        for (bytes, said) in [
            (&b""[..], "an empty file"),
            (captured!("tiny-sm_90.ptx.txt"), "PTX 9.0"),
            (b"\x50\xed\x55\xba\x01\x00", "a fatbin"),
            (&host, "ELF machine 62, without device code"),
            (&toy[..toy.len() / 2], "bad section table"),
            (b"#!/bin/sh\n", "not a 64-bit ELF file"),
        ] {
            let error = format!("{:#}", Cubin::parse(bytes).unwrap_err());
            assert!(error.contains(said), "{error:?} does not say {said:?}");
        }
    }

    #[test]
    fn a_cubin_says_who_made_it_and_for_what() {
        for (bytes, number, arch) in [
            (&captured!("toy-sm_80.elf")[..], 80, "sm_80"),
            (captured!("toy-sm_90.elf"), 90, "sm_90"),
            (captured!("toy-sm_90a.elf"), 90, "sm_90a"),
        ] {
            let cubin = Cubin::parse(bytes).unwrap();
            let made_by = cubin.made_by.unwrap();
            assert_eq!((cubin.arch, made_by.arch.as_deref()), (number, Some(arch)));
            assert_eq!(made_by.version, "Cuda compilation tools, release 13.0, V13.0.88");
        }
        for cut in [0, 23, 40, 60] {
            let note = [&[0; 24][..], &2_u32.to_le_bytes(), &[0xff; 20], b"ptxas\0"].concat();
            assert_eq!(made_by(&note[..cut.min(note.len())]), None);
        }
    }

    #[test]
    fn paths_are_found_where_line_information_puts_them() {
        assert_eq!(paths_in(captured!("tiny-lineinfo-sm_90.elf")), ["/tmp/src"]);
        assert_eq!(paths_in(captured!("toy-sm_90.elf")), Vec::<String>::new());
        let text = b"\x01/home/someone/kern.cu\x00x=/work/run-7/out \"/opt/a b\" // no /x /a/b http://host/path\x00";
        assert_eq!(paths_in(text), ["/home/someone/kern.cu", "/opt/a", "/work/run-7/out"]);
    }
}
