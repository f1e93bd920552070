//! The attribute records of `.nv.info` sections: a format byte, an attribute byte, and a value or a size with bytes.
//!
//! NVIDIA does not document them; the numbers below are those that nvcc 12 and 13 write and `cuobjdump -elf` names.

use anyhow::{Context, Result, bail};

/// Most threads per block (three u32), from `__launch_bounds__`.
pub const MAX_THREADS: u8 = 0x05;
/// Symbol of the parameter bank, then its offset and size.
pub const PARAM_CBANK: u8 = 0x0a;
/// Symbols of the functions it needs from outside.
pub const EXTERNS: u8 = 0x0f;
/// Exact threads per block (three u32), from `__block_size__` or `.reqntid`.
pub const REQUIRED_THREADS: u8 = 0x10;
/// Symbol and its own stack bytes.
pub const FRAME_SIZE: u8 = 0x11;
/// Symbol and the stack bytes of the deepest chain of calls below it.
pub const MIN_STACK_SIZE: u8 = 0x12;
/// Symbol and an upper bound of its stack bytes.
pub const MAX_STACK_SIZE: u8 = 0x23;
/// Symbol and its registers per thread.
pub const REGISTERS: u8 = 0x2f;

const FORMAT_NONE: u8 = 1;
const FORMAT_BYTE: u8 = 2;
const FORMAT_HALF: u8 = 3;
const FORMAT_SIZED: u8 = 4;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute<'data> {
    /// How the value is stored.
    pub format: u8,
    /// What it says.
    pub attribute: u8,
    /// Its value.
    pub value: &'data [u8],
}

impl Attribute<'_> {
    /// The value's `n`-th u32; absent past its end.
    #[must_use]
    pub fn word(&self, n: usize) -> Option<u32> {
        let bytes = self.value.get(4 * n..4 * n + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// How many of its leading u32 are symbol indexes.
    #[must_use]
    pub fn n_symbols(&self) -> usize {
        match (self.format, self.attribute) {
            (FORMAT_SIZED, EXTERNS) => self.value.len() / 4,
            (FORMAT_SIZED, PARAM_CBANK | FRAME_SIZE | MIN_STACK_SIZE | MAX_STACK_SIZE | REGISTERS) => 1,
            _ => 0,
        }
    }
}

/// Decodes a section.
///
/// # Errors
/// When a record is cut short or of a format we do not know.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (&[format, attribute, low, high], rest) = bytes.split_first_chunk::<4>().context("record cut short")?;
        let (value, rest) = match format {
            FORMAT_NONE | FORMAT_BYTE | FORMAT_HALF => (&bytes[2..4], rest),
            FORMAT_SIZED => {
                let size = usize::from(u16::from_le_bytes([low, high]));
                rest.split_at_checked(size).context("record's value cut short")?
            }
            other => bail!("record of unknown format {other}"),
        };
        found.push(Attribute { format, attribute, value });
        bytes = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first records of `.nv.info.K` as nvcc 13.0 wrote them for sm_90.
    const REAL: &[u8] = &[4, 0x37, 4, 0, 0x82, 0, 0, 0, 1, 0x3e, 0, 0, 3, 0x50, 0, 0, 4, 0xf, 4, 0, 0x19, 0, 0, 0];

    #[test]
    fn real_records_decode() {
        let found = decode(REAL).unwrap();
        assert_eq!(found.iter().map(|a| a.attribute).collect::<Vec<_>>(), [0x37, 0x3e, 0x50, EXTERNS]);
        assert_eq!(found[0].word(0), Some(130));
        assert_eq!((found[3].n_symbols(), found[3].word(0), found[3].word(1)), (1, Some(0x19), None));
    }

    #[test]
    fn words_and_symbols_are_counted() {
        let value = &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        let of = |format, attribute| Attribute { format, attribute, value };
        let words = (0..4).map(|n| of(FORMAT_SIZED, MAX_THREADS).word(n)).collect::<Vec<_>>();
        assert_eq!(words, [Some(1), Some(2), Some(3), None]);
        assert_eq!(of(FORMAT_SIZED, EXTERNS).n_symbols(), 3);
        for one in [PARAM_CBANK, FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE, REGISTERS] {
            assert_eq!((of(FORMAT_SIZED, one).n_symbols(), of(FORMAT_HALF, one).n_symbols()), (1, 0));
        }
        assert_eq!(of(FORMAT_SIZED, MAX_THREADS).n_symbols(), 0);
    }

    #[test]
    fn short_values_lie_in_the_record_itself() {
        for format in [FORMAT_NONE, FORMAT_BYTE, FORMAT_HALF] {
            let bytes = [format, 0x3e, 7, 8, FORMAT_NONE, 0x50, 0, 0];
            let found = decode(&bytes).unwrap();
            assert_eq!((found.len(), found[0].value, found[0].format), (2, &[7, 8][..], format));
        }
    }

    #[test]
    fn cut_or_unknown_records_are_errors() {
        for bad in [&[4][..], &[4, 0x37, 9, 0, 1], &[9, 0, 0, 0]] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }
}
