//! A cubin taken apart: sections, symbols with readable names, relocations. It judges nothing.
//!
//! Every index and offset is checked, so hostile bytes give an error and never a panic.

use anyhow::{Context, Result, ensure};
use object::Endianness;
use object::elf::{FileHeader64, SHN_UNDEF, SHT_NOBITS, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable};
use std::collections::BTreeMap;

/// `e_machine` of CUDA.
const MACHINE_CUDA: u16 = 190;
/// In `st_other`: the symbol is a kernel.
const OTHER_ENTRY: u8 = 0x10;
/// ELF ABI version from which `e_flags` holds the architecture in bits 8..16 (CUDA 13); before, in bits 0..8.
const ABI_SHIFTED_ARCH: u8 = 8;

type Header = FileHeader64<Endianness>;

/// A parsed cubin.
#[derive(Debug)]
pub struct Cubin<'data> {
    /// Architecture number, e.g. 90.
    pub arch: u32,
    /// Sections in file order; the null section included, so that indexes hold.
    pub sections: Vec<Section<'data>>,
    /// Symbols in file order; the null symbol included.
    pub symbols: Vec<Symbol>,
    /// Relocations by index of the section they apply to, sorted.
    pub relocations: BTreeMap<usize, Vec<Relocation>>,
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
        let header = Header::parse(bytes).context("not a 64-bit ELF file")?;
        let endian = header.endian().context("no byte order")?;
        ensure!(header.e_machine(endian).0 == MACHINE_CUDA, "not a cubin: ELF machine {}", header.e_machine(endian).0);
        let table = header.sections(endian, bytes).context("bad section table")?;
        let sections = sections(endian, bytes, &table)?;
        let symbol_table = table.symbols(endian, bytes, SHT_SYMTAB).context("bad symbol table")?;
        let symbols = symbols(endian, &symbol_table, &sections)?;
        let relocations = relocations(endian, bytes, &table, sections.len(), symbols.len())?;
        let flags = header.e_flags(endian).0;
        let shift = if header.e_ident.abi_version >= ABI_SHIFTED_ARCH { 8 } else { 0 };
        Ok(Self { arch: (flags >> shift) & 0xff, sections, symbols, relocations })
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
        let section = match table.symbol_section(endian, symbol, index).context("bad symbol section")? {
            Some(section) if symbol.st_shndx(endian) != SHN_UNDEF => Some(section.0),
            _ => None,
        };
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
    for header in table.iter() {
        let mut found = Vec::new();
        if let Some((rows, _)) = header.rela(endian, bytes).context("bad RELA section")? {
            found.extend(rows.iter().map(|row| Relocation {
                offset: row.r_offset(endian),
                kind: row.r_type(endian, false).0,
                symbol: row.r_sym(endian, false) as usize,
                addend: row.r_addend(endian),
            }));
        }
        if let Some((rows, _)) = header.rel(endian, bytes).context("bad REL section")? {
            use object::read::elf::Rel;
            found.extend(rows.iter().map(|row| Relocation {
                offset: row.r_offset(endian),
                kind: row.r_type(endian).0,
                symbol: row.r_sym(endian) as usize,
                addend: 0,
            }));
        }
        if found.is_empty() {
            continue;
        }
        let target = header.sh_info(endian) as usize;
        ensure!(target < n_sections, "relocations of section {target}, which does not exist");
        ensure!(found.iter().all(|row| row.symbol < n_symbols), "a relocation names a symbol that does not exist");
        all.entry(target).or_default().extend(found);
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

    #[test]
    fn what_is_not_a_cubin_is_an_error() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 64], &[0xff; 4096]] {
            assert!(Cubin::parse(bytes).is_err());
        }
    }
}
