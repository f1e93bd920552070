//! Compares an output with its reference, bit by bit. What is computed, and what follows from a mismatch, is decided
//! by the caller.

/// Output buffers are filled with this word before a launch; it is a NaN, so an element nobody wrote is found. `check.cuh` holds
/// the same number.
pub const UNWRITTEN: u32 = 0xFFFF_FFFF;

/// How one output compares with its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Some element's bits differ (or nobody wrote it).
    pub wrong: bool,
    /// Some element still holds [`UNWRITTEN`].
    pub unwritten: bool,
    /// Largest error relative to `max(1, |reference|)`; infinite where the output is a NaN.
    pub relative_error: f64,
}

/// Compares an output, bit by bit, with its reference.
#[must_use]
pub fn compare(output: &[f32], reference: &[f32]) -> Comparison {
    let mut found = Comparison { wrong: output.len() != reference.len(), unwritten: false, relative_error: 0.0 };
    for (got, want) in output.iter().zip(reference) {
        found.unwritten |= got.to_bits() == UNWRITTEN;
        if got.to_bits() != want.to_bits() {
            found.wrong = true;
            let error = (f64::from(*got) - f64::from(*want)).abs() / f64::from(want.abs()).max(1.0);
            found.relative_error = found.relative_error.max(if error.is_nan() { f64::INFINITY } else { error });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_an_unwritten_and_a_right_output_are_told_apart() {
        let right: Vec<f32> = (0..64_u8).map(|i| f32::from(i) - 9.0).collect();
        let found = compare(&right, &right);
        assert_eq!(found, Comparison { wrong: false, unwritten: false, relative_error: 0.0 });
        let mut wrong = right.clone();
        wrong[5] += 1.0;
        let found = compare(&wrong, &right);
        assert!(found.wrong && !found.unwritten && found.relative_error > 0.0);
        let mut unwritten = right.clone();
        unwritten[63] = f32::from_bits(UNWRITTEN);
        let found = compare(&unwritten, &right);
        assert!(found.wrong && found.unwritten && found.relative_error.is_infinite());
        assert!(compare(&right[1..], &right).wrong, "a missing element");
    }
}
