//! The experiments that this harness knows, one line each. Nothing else in the binary names an experiment.

use harness_core::experiment::Experiment;
use harness_core::failure::fail;
use schema::ExitCode;
use schema::plan::Plan;

/// Every experiment.
const EXPERIMENTS: &[&dyn Experiment] = &[&preempt::PREEMPT];

/// The experiment whose code measures a plan.
///
/// # Errors
/// Ends with [`ExitCode::Config`] when there is none; says which there are.
pub(crate) fn find(plan: &Plan) -> anyhow::Result<&'static dyn Experiment> {
    let found = EXPERIMENTS.iter().find(|experiment| experiment.name() == plan.program());
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name()).collect();
        let message = format!("this harness has no experiment {:?}; there are {}", plan.program(), names.join(", "));
        fail(ExitCode::Config, message)
    })
}
