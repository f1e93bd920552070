//! Output tiles and the arithmetic that fills them, bit for bit what the kernels compute.

use crate::oracle::{Inputs, Pair, TILE, TILE_ELEMENTS};
use harness_core::oracle::{UNWRITTEN, compare};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Inputs of one inner dimension with every pair's reference.
#[derive(Debug)]
pub(super) struct Problem {
    inputs: Inputs,
    reference: Vec<f32>,
}

impl Problem {
    pub(super) fn new(k: u32) -> Self {
        let inputs = Inputs::new(k);
        let reference = inputs.reference();
        Self { inputs, reference }
    }

    /// Chunks of the inner dimension that one tile stages.
    pub(super) fn chunks(&self) -> u64 {
        self.inputs.k as u64 / u64::from(crate::plan::K_CHUNK)
    }

    fn reference(&self, pair: Pair) -> &[f32] {
        &self.reference[pair.index() * TILE_ELEMENTS..][..TILE_ELEMENTS]
    }

    /// The float32 product of a pair.
    fn multiply(&self, pair: Pair, c: &mut [f32; TILE_ELEMENTS]) {
        c.fill(0.0);
        let (a, b) = (self.inputs.a_tile(pair.a), self.inputs.b_tile(pair.b));
        for (a_row, b_row) in a.chunks_exact(TILE).zip(b.chunks_exact(TILE)) {
            for (c_row, a) in c.chunks_exact_mut(TILE).zip(a_row) {
                for (c, b) in c_row.iter_mut().zip(b_row) {
                    *c += a * b;
                }
            }
        }
    }
}

/// Output tiles with a counter each of how often they were executed.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    words: Vec<AtomicU32>,
    executed: Vec<AtomicU32>,
}

/// What a comparison of all outputs with the oracle found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Checked {
    pub(super) executed: u32,
    pub(super) wrong: u32,
    pub(super) unwritten: u32,
    pub(super) not_once: u32,
    pub(super) relative_error: f64,
}

impl Outputs {
    /// Makes room for `tiles` tiles, all unwritten and never executed.
    pub(super) fn reset(&mut self, tiles: usize) {
        self.words.resize_with(tiles * TILE_ELEMENTS, AtomicU32::default);
        self.executed.resize_with(tiles, AtomicU32::default);
        self.words.iter_mut().for_each(|word| *word.get_mut() = UNWRITTEN);
        self.executed.iter_mut().for_each(|count| *count.get_mut() = 0);
    }

    /// Computes one tile and writes it.
    pub(super) fn execute(&self, tile: usize, problem: &Problem, pair: Pair) {
        let mut c = [0.0; TILE_ELEMENTS];
        problem.multiply(pair, &mut c);
        for (word, value) in self.words[tile * TILE_ELEMENTS..][..TILE_ELEMENTS].iter().zip(c) {
            word.store(value.to_bits(), Relaxed);
        }
        self.executed[tile].fetch_add(1, Relaxed);
    }

    /// How often a tile was executed.
    pub(super) fn times(&self, tile: usize) -> u32 {
        self.executed[tile].load(Relaxed)
    }

    /// Changes one element of a tile.
    pub(super) fn poison(&self, tile: usize) {
        self.words[tile * TILE_ELEMENTS + TILE_ELEMENTS / 2].fetch_xor(1, Relaxed);
    }

    /// Compares every tile with the oracle.
    pub(super) fn check(&self, problem: &Problem, pair_of: impl Fn(usize) -> Pair) -> Checked {
        let mut checked = Checked::default();
        for (tile, words) in self.words.chunks_exact(TILE_ELEMENTS).enumerate() {
            let output: Vec<f32> = words.iter().map(|word| f32::from_bits(word.load(Relaxed))).collect();
            let found = compare(&output, problem.reference(pair_of(tile)));
            checked.wrong += u32::from(found.wrong);
            checked.unwritten += u32::from(found.unwritten);
            checked.relative_error = checked.relative_error.max(found.relative_error);
            checked.executed += self.times(tile);
            checked.not_once += u32::from(self.times(tile) != 1);
        }
        checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executed_tiles_are_right_and_others_are_found() {
        let problem = Problem::new(32);
        let mut outputs = Outputs::default();
        outputs.reset(4);
        let pair_of = |tile: usize| Pair::of_task(u32::try_from(tile).unwrap());
        for tile in [0, 1, 2, 2] {
            outputs.execute(tile, &problem, pair_of(tile));
        }
        outputs.poison(1);
        let checked = outputs.check(&problem, pair_of);
        assert_eq!((checked.executed, checked.wrong, checked.unwritten, checked.not_once), (4, 2, 1, 2));
        outputs.reset(2);
        assert_eq!(outputs.check(&problem, pair_of).unwritten, 2);
    }
}
