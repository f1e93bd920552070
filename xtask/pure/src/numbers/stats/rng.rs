//! The one source of randomness in `pure`: SplitMix64, seeded by a name.

use schema::Digest;

/// Sebastiano Vigna's SplitMix64; its constants are those of the reference implementation.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that only `name` determines.
    pub(super) fn named(name: &str) -> Self {
        let digest = Digest::of(name).to_string();
        Self(u64::from_str_radix(&digest[..16], 16).expect("a digest is hex"))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must be below 2^32. The bias of the multiplication is under n / 2^32.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_reference_one() {
        let mut rng = SplitMix64(0);
        assert_eq!(rng.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn a_name_determines_the_draws_and_they_stay_below_their_bound() {
        let draw = |name: &str| {
            let mut rng = SplitMix64::named(name);
            (0..100).map(|_| rng.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
        assert!((0..7).all(|n| draw("a").contains(&n)) && draw("a").iter().all(|n| *n < 7));
    }
}
