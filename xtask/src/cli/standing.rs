//! `status`: builds this tree's kernels, without a GPU, and reports what that means for the published numbers.

use super::{Context, Done};
use crate::ask::status::{TreeSass, status as judge};
use crate::cli::flags::Where;
use crate::path::device::choose;
use crate::path::levels::published_builds;
use crate::path::subject::provision;
use crate::steps::build::{BuildContext, kernels, of_this_tree};
use anyhow::Result;
use host::failure::{code_of, remedy_of};
use schema::ExitCode;
use schema::build::BuildRecord;
use std::collections::BTreeSet;

/// `status`.
///
/// # Errors
/// Exit 12 when this tree's kernels or harness do not build, 16 when what is published does not read. Without a toolkit the
/// command says of which numbers nothing is known, and ends with exit 11.
pub fn status(ctx: &Context<'_>, place: &Where) -> Result<Done> {
    let published = published_builds(ctx.paths)?.records;
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
    if let Some(record) = of_this_tree(ctx.paths, None)?
        && archs.iter().all(|arch| record.kernels.iter().any(|kernel| kernel.arch == *arch))
    {
        return Ok(TreeSass { nvcc: record.nvcc, kernels: record.kernels });
    }
    let provisioned = provision(ctx, place, &choose("emulated")?)?;
    let say = |done: usize, of: usize, what: &str| ctx.ui.line(&format!("kernels {done} of {of}: {what}"));
    let build = BuildContext::new(ctx.paths, &provisioned.key, archs.into_iter().collect(), place.offline, &say);
    let (nvcc, kernels) = kernels(&build, &*provisioned.runtime, &provisioned.toolkit)?;
    ctx.ui.done();
    Ok(TreeSass { nvcc, kernels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::publish;
    use crate::steps::gate::gate;
    use crate::steps::seal::Sealed;
    use crate::trial::{LOCK, OnDisk, copy};
    use host::ui::Ui;
    use provision::{Machine, RuntimeChoice, box_toolkit};

    fn ask(disk: &OnDisk) -> Result<Done> {
        let ui = Ui::new(true);
        let place = Where { runtime: RuntimeChoice::Host, base: None, offline: true };
        status(&Context::new(&disk.paths, &ui, true), &place)
    }

    #[test]
    fn without_a_toolkit_nothing_is_guessed() {
        if box_toolkit(&Machine::look()).is_some() {
            eprintln!("skipped: this box has a CUDA toolkit of its own");
            return;
        }
        let disk = copy();
        let nothing = ask(&disk).unwrap();
        assert_eq!((nothing.code, nothing.text.as_str()), (ExitCode::Done, "nothing is published yet"));

        let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
        publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
        disk.put("docker/toolkit.lock", &LOCK.replace("13.0.88", "13.1.0"));
        let stale = ask(&disk).unwrap();
        assert_eq!(stale.code, ExitCode::Done, "{}", stale.text);
        assert!(stale.text.contains("docker/toolkit.lock: nvidia-cuda-nvcc==13.1.0"), "{}", stale.text);
        disk.put("docker/toolkit.lock", LOCK);
        let done = ask(&disk).unwrap();
        assert_eq!(done.code, ExitCode::Environment, "{}", done.text);
        assert!(done.json["unknown"].as_array().unwrap().len() > 20 && done.json["numbers"] == serde_json::json!([]));
        assert!(done.text.contains("this tree's kernels were not rebuilt here"), "{}", done.text);
    }
}
