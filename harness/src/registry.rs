//! The experiments that this harness knows, a line each.

use harness_core::experiment::Experiment;
use harness_core::failure::fail;
use schema::ExitCode;

/// Every experiment.
const EXPERIMENTS: &[&dyn Experiment] = &[&preempt::PREEMPT];

/// The experiment of a plan.
///
/// # Errors
/// Ends with [`ExitCode::Config`] when there is none of that name; says which there are.
pub(crate) fn find(name: &str) -> anyhow::Result<&'static dyn Experiment> {
    let found = EXPERIMENTS.iter().find(|experiment| experiment.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name()).collect();
        fail(ExitCode::Config, format!("this harness has no experiment {name:?}; there are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_core::failure::code_of;

    #[test]
    fn every_experiment_is_found_by_its_name_and_no_other_is() {
        for experiment in EXPERIMENTS {
            assert_eq!(find(experiment.name()).unwrap().name(), experiment.name());
        }
        assert_eq!(code_of(&find("nothing").err().unwrap()), ExitCode::Config);
    }
}
