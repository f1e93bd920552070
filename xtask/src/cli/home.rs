//! `bundle`, `pack` and `unpack`: carry Assay to a GPU box and a run back.

use super::{Context, Done, built};
use crate::cli::flags;
use crate::steps::build::BuildContext;
use crate::transfer;
use anyhow::Result;
use host::failure::fail;
use host::git::Git;
use pure::book::notebook::parse;
use schema::ExitCode;
use serde_json::json;

/// `bundle`.
///
/// # Errors
/// Exit 15 for a dirty tree, 12 when it does not build or is too large.
pub fn bundle(ctx: &Context<'_>, ask: &flags::Build) -> Result<Done> {
    let git = Git::at(ctx.paths.root())?.ok_or_else(|| {
        fail(
            ExitCode::Usage,
            "a bundle is made from a commit, and this is not a git checkout",
            "cd into a clone; git --version",
        )
    })?;
    let source = git.source_state()?;
    let (provisioned, built) = built(ctx, ask)?;
    let head = parse(&fs_err::read_to_string(ctx.paths.notebook())?)?.head;
    let say = |done: usize, of: usize, what: &str| ctx.ui.line(&format!("bundle {done} of {of}: {what}"));
    let build = BuildContext::new(ctx.paths, &provisioned.key, Vec::new(), ask.place.offline, &say);
    let again = || git.source_state();
    let archive = transfer::bundle::bundle(&build, &*provisioned.runtime, &built, (&source, &again), head)?;
    let bytes = fs_err::metadata(&archive)?.len();
    let text = format!("{} ({:.1} MB)", archive.display(), bytes as f64 / 1e6);
    Ok(Done::said(json!({"archive": archive, "bytes": bytes, "commit": source.commit}), text))
}

/// `pack`.
///
/// # Errors
/// Exit 16 when the run is not what its manifest says.
pub fn pack(ctx: &Context<'_>, ask: &flags::Pack) -> Result<Done> {
    let packed = transfer::pack::pack(ctx.paths, &ask.run, &ask.dir)?;
    let text = format!("{} parts, {} bytes, index {}", packed.n_parts, packed.bytes, packed.index.display());
    Ok(Done::said(json!({"index": packed.index, "parts": packed.n_parts, "bytes": packed.bytes}), text))
}

/// `unpack`.
///
/// # Errors
/// Exit 16 naming the part or file that is not what it was.
pub fn unpack(ctx: &Context<'_>, ask: &flags::Unpack) -> Result<Done> {
    let runs = transfer::pack::unpack(ctx.paths, &ask.dir)?;
    let line =
        |run: &transfer::pack::Unpacked| format!("{}: {} files hold; the box can be released", run.run, run.n_files);
    let text: Vec<String> = runs.iter().map(line).collect();
    let object: Vec<_> = runs.iter().map(|run| json!({"run": run.run, "dir": run.dir, "files": run.n_files})).collect();
    Ok(Done::said(json!({"runs": object}), text.join("\n")))
}
