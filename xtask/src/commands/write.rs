//! `publish`: one of the two commands that write into the tracked tree; `notebook` is the other.

use super::{Context, Done};
use crate::failure::fail;
use crate::flags::Publish;
use crate::paths::Paths;
use crate::steps::build::of_this_tree;
use crate::steps::gate::gate;
use crate::steps::publish::publish as publish_run;
use crate::steps::seal::Sealed;
use anyhow::Result;
use schema::ExitCode;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// `publish RUN`: judges again, then publishes.
///
/// # Errors
/// Exit 15 with every reason when a gate refuses, 16 when the run is not as it was sealed.
pub fn publish(ctx: &Context<'_>, ask: &Publish) -> Result<Done> {
    let dir = ctx.paths.run(&ask.run);
    if !dir.is_dir() {
        let message = format!("there is no run directory {}", dir.display());
        return Err(fail(ExitCode::Usage, message, "cargo xtask unpack DIR brings a run home from a box"));
    }
    let sealed = Sealed::load(&dir)?;
    let built = of_this_tree(ctx.paths)?;
    let passed = gate(ctx.paths, sealed, built.as_ref())?;
    let gates = passed.verdict().gates.clone();
    let passed = passed.pass()?;
    let key = ask.sign.clone().or_else(|| signing_key(ctx.paths));
    let written = publish_run(ctx.paths, &passed, key.as_deref())?;
    let object = json!({"published": true, "run": written.run, "gates": gates, "written": written.paths});
    let what = if written.already { "was published before" } else { "published" };
    let text = format!(
        "run {} {what}: {} files, {} bytes\n{}",
        written.run,
        written.paths.len(),
        written.bytes,
        written.next.join("\n")
    );
    Ok(Done::said(object, text))
}

/// The key that git signs with, when it signs with ssh.
fn signing_key(paths: &Paths) -> Option<PathBuf> {
    let ask = |name: &str| {
        let output = Command::new("git").arg("-C").arg(paths.root()).args(["config", "--get", name]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let key = PathBuf::from(ask("gpg.format").filter(|format| format == "ssh").and_then(|_| ask("user.signingkey"))?);
    key.is_file().then_some(key)
}
