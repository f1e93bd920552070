//! `status`: learns what this tree builds, without a GPU, and asks what that makes of the published numbers.

use super::{Context, Done};
use crate::ask::status::{TreeSass, status as judge};
use crate::failure::{code_of, remedy_of};
use crate::flags::Where;
use crate::levels::published_builds;
use crate::session::{Session, build_context};
use crate::steps::build::{kernels, of_this_tree};
use anyhow::Result;
use schema::ExitCode;
use schema::build::BuildRecord;
use std::collections::BTreeSet;

/// `status`.
///
/// # Errors
/// Exit 12 when this tree's kernels or harness do not build, 16 when what is published does not read. Without a toolkit the
/// command says of which numbers nothing is known, and ends with exit 11.
pub fn status(ctx: &Context<'_>, place: &Where) -> Result<Done> {
    let published = published_builds(ctx.paths)?;
    let built = if published.is_empty() { Ok(none()) } else { tree_sass(ctx, place, &published) };
    let built = match built {
        Err(error) if code_of(&error) == ExitCode::Environment => {
            let remedy = remedy_of(&error).unwrap_or("cargo xtask doctor");
            Err(format!("this tree's kernels were not rebuilt here ({error:#}): {remedy}"))
        }
        other => Ok(other?),
    };
    let report = judge(ctx.paths, &built)?;
    Ok(Done { code: report.exit_code(), json: serde_json::to_value(&report)?, text: report.to_string() })
}

fn none() -> TreeSass {
    TreeSass { nvcc: String::new(), kernels: Vec::new() }
}

/// From a build of this very tree, if one with every architecture is at hand; otherwise the kernels alone are compiled.
fn tree_sass(ctx: &Context<'_>, place: &Where, published: &[(String, BuildRecord)]) -> Result<TreeSass> {
    let archs: BTreeSet<String> =
        published.iter().flat_map(|(_, record)| &record.kernels).map(|kernel| kernel.arch.clone()).collect();
    if let Some(record) = of_this_tree(ctx.paths)?
        && archs.iter().all(|arch| record.kernels.iter().any(|kernel| kernel.arch == *arch))
    {
        return Ok(TreeSass { nvcc: record.nvcc, kernels: record.kernels });
    }
    let mut session = Session::new(ctx.paths, ctx.ui, ctx.quiet);
    let provisioned = session.provision(place, &crate::device::choose("emulated")?)?;
    let say = |done: usize, of: usize, what: &str| ctx.ui.line(&format!("kernels {done} of {of}: {what}"));
    let build = build_context(ctx.paths, &provisioned, archs.into_iter().collect(), place.offline, &say);
    let (nvcc, kernels) = kernels(&build, &*provisioned.runtime, &provisioned.toolkit)?;
    ctx.ui.done();
    Ok(TreeSass { nvcc, kernels })
}
