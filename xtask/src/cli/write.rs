//! `publish`: one of the two commands that write into the tracked tree; `notebook` is the other.

use super::{Context, Done};
use crate::cli::flags::Publish;
use crate::publish::publish as publish_run;
use crate::runs::signature::SigningKey;
use crate::steps::build::of_this_tree;
use crate::steps::gate::gate;
use crate::steps::seal::{Sealed, plan_of};
use anyhow::Result;
use host::failure::fail;
use schema::ExitCode;
use serde_json::json;

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
    let built = of_this_tree(ctx.paths, Some(plan_of(&dir)?.program()))?;
    let passed = gate(ctx.paths, sealed, built.as_ref())?;
    if passed.evidence().environment.device.is_emulated() {
        let message = format!("run {} was made on the emulated device, and such a run is never published", ask.run);
        return Err(fail(ExitCode::Refused, message, "cargo xtask reproduce, on a GPU"));
    }
    let gates = passed.verdict().gates.clone();
    let passed = passed.pass()?;
    let key = match &ask.sign {
        _ if ask.unsigned => None,
        Some(key) => Some(SigningKey::named(key)),
        None => SigningKey::of_git(ctx.paths.root()),
    };
    let written = publish_run(ctx.paths, &passed, key.as_ref())?;
    let object = json!({
        "published": true,
        "run": written.run,
        "gates": gates,
        "written": written.paths,
        "left_the_tree": written.left.iter().map(|left| &left.run).collect::<Vec<_>>(),
        "signed_by": written.signer.as_ref().map(|signer| &signer.fingerprint),
        "check": written.check,
    });
    let what = if written.already { "was published before" } else { "published" };
    let (files, bytes) = (written.paths.len(), written.bytes);
    let mut text = format!("run {} {what}: {files} files, {bytes} bytes\n{}", written.run, written.next.join("\n"));
    for left in &written.left {
        text += &format!("\nthe events of {} left the tree to make room, and stay in {}", left.run, left.record.commit);
    }
    text += &format!("\na stranger checks it without Assay by\n  {}", written.check.join("\n  "));
    text += &match &written.signer {
        Some(signer) => format!("\nwith allowed_signers holding: author {}", signer.public_key.trim()),
        None => "\nauthorship: unproven (--sign KEY, or git config gpg.format ssh, signs)".to_owned(),
    };
    Ok(Done::said(object, text))
}
