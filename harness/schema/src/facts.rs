//! Single facts of a cell that are neither events nor launches, by name. The experiment defines what a name means.
//!
//! A fact that is `null` counts as absent, since earlier releases wrote every name they knew.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether the oracle caught a wrong element that was planted in the cell's own output.
pub const POISON_CAUGHT: &str = "poison_caught";
/// The largest relative error of the cell's outputs against the float64 oracle.
pub const MAX_RELATIVE_ERROR: &str = "max_relative_error";

/// Facts by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<String, Value>);

impl Facts {
    /// The same with one more fact, which replaces an earlier one of that name.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Records a fact; `null` counts as absent.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A fact as it was recorded.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A number; absent also where the fact is none.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_f64)
    }

    /// A number that is whole and not negative; absent also where the fact is none.
    #[must_use]
    pub fn whole(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::as_u64)
    }

    /// Yes or no; absent also where the fact is neither.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_another_type_are_absent() {
        let text =
            r#"{"timer_quantum_ns": 32, "fp32_peak_tflops": null, "poison_caught": true, "pilot": [[132, 900]]}"#;
        let facts: Facts = serde_json::from_str(text).unwrap();
        assert_eq!((facts.whole("timer_quantum_ns"), facts.number("timer_quantum_ns")), (Some(32), Some(32.0)));
        assert_eq!((facts.flag("poison_caught"), facts.whole("poison_caught")), (Some(true), None));
        assert!(
            facts.get("fp32_peak_tflops").is_none() && facts.get("pilot").is_some() && facts.get("other").is_none()
        );
        assert_eq!(serde_json::from_str::<Facts>(&serde_json::to_string(&facts).unwrap()).unwrap(), facts);
    }
}
