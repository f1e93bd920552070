//! The inputs of every tile and the float64 results they must give; shared by both devices.
//!
//! Inputs are small integers, so that a product's float32 result is exact in any order of summation and is compared bit by bit.
//! Nothing here runs a kernel or decides what a mismatch costs.

use schema::timer::mix;

/// Rows and columns of an output tile. `tile.cuh` holds the same number.
pub const TILE: usize = 64;
/// Elements of an output tile.
pub const TILE_ELEMENTS: usize = TILE * TILE;
/// Distinct A tiles. `tile.cuh` holds the same number.
pub const POOL_A: usize = 16;
/// Distinct B tiles. `tile.cuh` holds the same number.
pub const POOL_B: usize = 16;
/// Inputs are integers from minus this to this.
pub const LARGEST_INPUT: u32 = 4;
/// Largest inner dimension whose sums stay exact in float32 (24 bits).
pub const MOST_K: u32 = (1 << 24) / (LARGEST_INPUT * LARGEST_INPUT);

/// The pools of A and B tiles for one inner dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Inner dimension.
    pub k: usize,
    /// [`POOL_A`] tiles, each `k` rows of [`TILE`] elements.
    pub a: Vec<f32>,
    /// [`POOL_B`] tiles, each `k` rows of [`TILE`] elements.
    pub b: Vec<f32>,
}

impl Inputs {
    /// The pools for inner dimension `k`; the same ones every time.
    ///
    /// # Panics
    /// When `k` exceeds [`MOST_K`].
    #[must_use]
    pub fn new(k: u32) -> Self {
        assert!(k <= MOST_K, "float32 sums are exact only up to K = {MOST_K}");
        let k = k as usize;
        Self { k, a: pool(0x41, POOL_A * k * TILE), b: pool(0x42, POOL_B * k * TILE) }
    }

    /// One A tile: `k` rows of [`TILE`] elements.
    #[must_use]
    pub fn a_tile(&self, index: usize) -> &[f32] {
        &self.a[index * self.k * TILE..][..self.k * TILE]
    }

    /// One B tile: `k` rows of [`TILE`] elements.
    #[must_use]
    pub fn b_tile(&self, index: usize) -> &[f32] {
        &self.b[index * self.k * TILE..][..self.k * TILE]
    }

    /// The product of a pair in float64, [`TILE`] rows of [`TILE`] elements: element (m, n) sums `a[k][m] * b[k][n]`.
    #[must_use]
    pub fn product(&self, pair: Pair) -> Vec<f64> {
        let (a, b) = (self.a_tile(pair.a), self.b_tile(pair.b));
        let mut c = vec![0.0; TILE_ELEMENTS];
        for (a_row, b_row) in a.chunks_exact(TILE).zip(b.chunks_exact(TILE)) {
            for (c_row, a) in c.chunks_exact_mut(TILE).zip(a_row) {
                for (c, b) in c_row.iter_mut().zip(b_row) {
                    *c += f64::from(*a) * f64::from(*b);
                }
            }
        }
        c
    }

    /// Every pair's product, exact in float32, in the order of [`Pair::index`].
    #[must_use]
    pub fn reference(&self) -> Vec<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "integers below 2^24 are exact in float32")]
        let exact = |value: f64| value as f32;
        (0..POOL_A * POOL_B).flat_map(|index| self.product(Pair::at(index))).map(exact).collect()
    }
}

/// Which A and B tile a product takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index of the A tile.
    pub a: usize,
    /// Index of the B tile.
    pub b: usize,
}

impl Pair {
    /// The pair of a background task; neighbours differ.
    #[must_use]
    pub fn of_task(task: u32) -> Self {
        Self::at(task as usize % (POOL_A * POOL_B))
    }

    /// The pair of urgent tile `tile` of an event, so that a stale or a second execution is visible.
    #[must_use]
    pub fn of_urgent(event_id: u32, tile: u32) -> Self {
        let seed = event_id.wrapping_mul(0x9E37_79B9).wrapping_add(tile.wrapping_mul(0x85EB_CA6B));
        Self::at(mix(seed) as usize % (POOL_A * POOL_B))
    }

    /// This pair's place in [`Inputs::reference`].
    #[must_use]
    pub fn index(self) -> usize {
        self.b * POOL_A + self.a
    }

    /// The pair at a place in [`Inputs::reference`].
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self { a: index % POOL_A, b: index / POOL_A }
    }
}

/// `len` integers in `-LARGEST_INPUT..=LARGEST_INPUT`.
fn pool(seed: u32, len: usize) -> Vec<f32> {
    let choices = 2 * LARGEST_INPUT + 1;
    let value = |index: u32| mix(seed.wrapping_mul(0xC2B2_AE35).wrapping_add(index)) % choices;
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "small integers")]
    (0..len).map(|index| value(index as u32) as f32 - LARGEST_INPUT as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_core::oracle::UNWRITTEN;
    use std::collections::BTreeSet;

    #[test]
    fn references_are_distinct_and_never_look_unwritten() {
        let reference = Inputs::new(32).reference();
        let tiles: BTreeSet<Vec<u32>> =
            reference.chunks_exact(TILE_ELEMENTS).map(|tile| tile.iter().map(|x| x.to_bits()).collect()).collect();
        assert_eq!(tiles.len(), POOL_A * POOL_B);
        assert!(reference.iter().all(|x| x.to_bits() != UNWRITTEN));
    }

    #[test]
    fn float32_sums_in_any_order_equal_float64() {
        let inputs = Inputs::new(48);
        let pair = Pair { a: 3, b: 11 };
        let product = inputs.product(pair);
        for (m, n) in [(0, 0), (7, 63), (63, 1)] {
            let term = |k: usize| inputs.a_tile(pair.a)[k * TILE + m] * inputs.b_tile(pair.b)[k * TILE + n];
            let backwards: f32 = (0..48).rev().map(term).sum();
            assert_eq!(f64::from(backwards).to_bits(), (product[m * TILE + n] + 0.0).to_bits());
        }
    }

    #[test]
    fn pairs_round_trip_and_neighbours_differ() {
        for index in 0..POOL_A * POOL_B {
            assert_eq!(Pair::at(index).index(), index);
        }
        assert_ne!(Pair::of_task(0), Pair::of_task(1));
        assert_ne!(Pair::of_urgent(0, 0), Pair::of_urgent(1, 0));
        assert_eq!(Pair::of_task(256), Pair::of_task(0));
    }

    #[test]
    fn inputs_use_their_whole_range() {
        let seen: BTreeSet<i32> = Inputs::new(16).a.iter().map(|x| *x as i32).collect();
        assert_eq!(seen, (-4..=4).collect());
    }
}
