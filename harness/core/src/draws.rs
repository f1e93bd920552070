//! The seed of a cell's schedule and the numbers drawn from it. Launches nothing, reads no clock.

/// The seed of one cell's schedule, see [`schema::cell::seed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed of a cell.
    #[must_use]
    pub fn of(run: &str, phase: &str, cell: &str) -> Self {
        let digits = schema::cell::seed(run, phase, cell);
        Self(u64::from_str_radix(&digits, 16).expect("16 hex digits"))
    }

    /// As the cell's header carries it.
    #[must_use]
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }

    /// The numbers drawn from this seed, in order.
    #[must_use]
    pub fn draws(self) -> Draws {
        Draws { seed: self.0, counter: 0 }
    }
}

/// A counter-based generator: the SplitMix64 finaliser over seed and counter.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    counter: u64,
}

impl Draws {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.counter += 1;
        let mut z = self.seed.wrapping_add(self.counter.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number uniform in `0..bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = u128::from(self.bits()) * u128::from(bound);
        u32::try_from(scaled >> 64).expect("below a 32-bit bound")
    }

    /// `n` numbers in `0..bound`, one in each of `n` equal parts of it, in random order: as even as a grid, and as unforeseen as
    /// numbers drawn one by one.
    pub fn stratified(&mut self, n: u32, bound: u32) -> Vec<u32> {
        let part =
            |i: u32| u32::try_from(u64::from(bound) * u64::from(i) / u64::from(n)).expect("within a 32-bit bound");
        let mut numbers: Vec<u32> = (0..n).map(|i| part(i) + self.below(part(i + 1) - part(i))).collect();
        for last in (1..n).rev() {
            numbers.swap(last as usize, self.below(last + 1) as usize);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seeds_differ_by_run_phase_and_cell_and_repeat() {
        let seeds = [("a", "yield", "x"), ("b", "yield", "x"), ("a", "baseline", "x"), ("a", "yield", "y")]
            .map(|(r, p, c)| Seed::of(r, p, c));
        for (i, seed) in seeds.iter().enumerate() {
            assert!(!seeds[..i].contains(seed));
        }
        assert_eq!(seeds[0].draws().bits(), Seed::of("a", "yield", "x").draws().bits());
        assert_eq!(seeds[0].hex(), schema::cell::seed("a", "yield", "x"));
    }

    #[test]
    fn draws_are_the_published_splitmix64_sequence() {
        let mut draws = Draws { seed: 1_234_567, counter: 0 };
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423_u64];
        assert_eq!([draws.bits(), draws.bits(), draws.bits()], known);
    }

    proptest! {
        #[test]
        fn draws_stay_below_their_bound(seed: u64, bound in 1_u32..) {
            prop_assert!(Seed(seed).draws().below(bound) < bound);
        }

        #[test]
        fn stratified_numbers_are_one_in_each_part(seed: u64, n in 1_u32..300, bound: u32) {
            let mut numbers = Seed(seed).draws().stratified(n, bound);
            numbers.sort_unstable();
            let (n, bound) = (u64::from(n), u64::from(bound));
            for (i, number) in (0..).zip(numbers) {
                let number = u64::from(number);
                prop_assert!(bound * i / n <= number && number <= bound * (i + 1) / n);
            }
        }
    }
}
