//! The experiments that this harness knows, a line each.

use harness_core::experiment::Experiment;
use harness_core::failure::fail;
use schema::ExitCode;
use schema::plan::Plan;

/// Every experiment.
const EXPERIMENTS: &[&dyn Experiment] = &[&preempt::PREEMPT];

/// The experiment that measures a plan: the one that it is named after, or else one that takes it in other sizes.
///
/// # Errors
/// Ends with [`ExitCode::Config`] when there is none; says which there are.
pub(crate) fn find(plan: &Plan) -> anyhow::Result<&'static dyn Experiment> {
    let named = EXPERIMENTS.iter().find(|experiment| experiment.name() == plan.experiment);
    let found = named.or_else(|| EXPERIMENTS.iter().find(|experiment| experiment.measures(plan)));
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name()).collect();
        let message = format!("this harness has no experiment {:?}; there are {}", plan.experiment, names.join(", "));
        fail(ExitCode::Config, message)
    })
}
