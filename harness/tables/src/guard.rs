//! Turns a panic of the Parquet decoder into an error.
//!
//! The Parquet library reads untrusted pages, and some damaged ones make it panic instead of returning an error.
//! Either way, a table that it cannot read is reported as a damaged table.

use anyhow::bail;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread is in the decoder, whose panics are told as errors and not printed.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// What `decode` gives. What it worked on must not be used again after an error.
///
/// # Errors
/// As `decode`, and when it panics.
pub(super) fn guarded<T>(decode: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                before(panic);
            }
        }));
    });
    let outside = DECODING.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(outside);
    match outcome {
        Ok(result) => result,
        Err(_) => bail!("its pages are damaged in a way that the Parquet library does not survive"),
    }
}

#[cfg(test)]
mod tests {
    use super::guarded;

    #[test]
    fn a_panic_inside_is_an_error_and_one_outside_is_still_a_panic() {
        assert_eq!(guarded(|| Ok(7)).unwrap(), 7);
        let error = guarded(|| -> anyhow::Result<()> { panic!("attempt to shift left with overflow") }).unwrap_err();
        assert!(error.to_string().contains("does not survive"), "{error}");
        assert!(std::panic::catch_unwind(|| panic!("ours")).is_err());
    }
}
