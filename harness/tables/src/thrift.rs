//! Walks a structure in Thrift's compact protocol, in which Parquet's footer and page headers are written, before
//! anything is allocated for what it claims to hold. It does not interpret the fields; it only bounds depth, lengths
//! and counts.

use anyhow::{Context, bail, ensure};

/// Structures nest this deep in Parquet at most, with room to spare.
const MAX_DEPTH: usize = 12;

/// Walks the structure that `bytes` begin with; calls `each` with the field numbers that lead to every integer, and its value.
/// Gives its length in bytes.
///
/// # Errors
/// When the structure does not end within `bytes`, nests too deep, or its lists hold more than `elements` in all.
pub(super) fn walk(bytes: &[u8], elements: usize, each: &mut dyn FnMut(&[i16], i64)) -> anyhow::Result<usize> {
    let mut walk = Walk { rest: bytes, elements, path: Vec::new(), each };
    walk.structure()?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a, 'b> {
    rest: &'a [u8],
    elements: usize,
    path: Vec<i16>,
    each: &'b mut dyn FnMut(&[i16], i64),
}

impl<'a> Walk<'a, '_> {
    fn structure(&mut self) -> anyhow::Result<()> {
        ensure!(self.path.len() < MAX_DEPTH, "a structure nests too deep");
        let mut field = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            let delta = i16::from(head >> 4);
            field = match delta {
                0 => i16::try_from(self.integer()?).context("a field number is out of range")?,
                _ => field.checked_add(delta).context("a field number is out of range")?,
            };
            self.path.push(field);
            // A boolean field's value is its type.
            if !matches!(head & 15, 1 | 2) {
                self.value(head & 15)?;
            }
            self.path.pop();
        }
    }

    fn value(&mut self, kind: u8) -> anyhow::Result<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => {
                let value = self.integer()?;
                (self.each)(&self.path, value);
                Ok(())
            }
            7 => self.skip(8),
            8 => {
                let length = self.unsigned()?;
                self.skip(usize::try_from(length)?)
            }
            9 | 10 => self.list(),
            12 => self.structure(),
            other => bail!("a value of the unknown kind {other}"),
        }
    }

    fn list(&mut self) -> anyhow::Result<()> {
        let head = self.byte()?;
        let size = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
        let size = usize::try_from(size).ok().filter(|size| *size <= self.elements);
        let size = size.context("more list elements than such a file may have")?;
        self.elements -= size;
        (0..size).try_for_each(|_| self.value(head & 15))
    }

    fn skip(&mut self, n: usize) -> anyhow::Result<()> {
        self.rest = self.rest.get(n..).context("a value is cut off")?;
        Ok(())
    }

    fn byte(&mut self) -> anyhow::Result<u8> {
        let (first, rest) = self.rest.split_first().context("a structure is cut off")?;
        self.rest = rest;
        Ok(*first)
    }

    /// Seven bits a byte, the lowest first.
    fn unsigned(&mut self) -> anyhow::Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        bail!("a number is too long")
    }

    /// Zigzag: 0, -1, 1, -2, …
    fn integer(&mut self) -> anyhow::Result<i64> {
        let raw = self.unsigned()?;
        Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(bytes: &[u8]) -> anyhow::Result<Vec<(Vec<i16>, i64)>> {
        let mut found = Vec::new();
        let length = walk(bytes, 100, &mut |path, value| found.push((path.to_vec(), value)))?;
        assert!(length <= bytes.len());
        Ok(found)
    }

    #[test]
    fn integers_are_found_by_their_fields() {
        // Field 1: i32 -2; field 3: a structure whose field 1 is i64 300; field 4: a list of two i32, 1 and -1; true in 5.
        let bytes = [0x15, 3, 0x2c, 0x16, 0xd8, 4, 0, 0x19, 0x25, 2, 1, 0x11, 0];
        let expected = [(vec![1], -2), (vec![3, 1], 300), (vec![4], 1), (vec![4], -1)];
        assert_eq!(integers(&bytes).unwrap(), expected);
    }

    #[test]
    fn what_claims_more_than_it_holds_is_refused() {
        let endless = [0x15, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        let long_text = [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        let long_list = [0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        let deep = [0x1c; 64];
        for bytes in [&endless[..], &long_text, &long_list, &deep, &[], &[0x15], &[0x1b, 0]] {
            assert!(integers(bytes).is_err(), "{bytes:?}");
        }
    }
}
