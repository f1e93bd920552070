//! `publish` and `notebook`: the two commands that write into the tracked tree.

use super::{Context, Done};
use crate::failure::fail;
use crate::flags::{Entry, Notebook, Publish};
use crate::paths::Paths;
use crate::pure::notebook::{Draft, append, outcome, parse, prediction};
use crate::steps::build::of_this_tree;
use crate::steps::gate::gate;
use crate::steps::publish::publish as publish_run;
use crate::steps::seal::Sealed;
use crate::world::files::write_whole;
use crate::world::signature::SigningKey;
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use schema::ExitCode;
use schema::verdict::ClaimResult;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read as _;

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
        "signed_by": written.signer.as_ref().map(|signer| &signer.fingerprint),
        "check": written.check,
    });
    let what = if written.already { "was published before" } else { "published" };
    let (files, bytes) = (written.paths.len(), written.bytes);
    let mut text = format!("run {} {what}: {files} files, {bytes} bytes\n{}", written.run, written.next.join("\n"));
    text += &format!("\na stranger checks it without Assay by\n  {}", written.check.join("\n  "));
    text += &match &written.signer {
        Some(signer) => format!("\nwith allowed_signers holding: author {}", signer.public_key.trim()),
        None => "\nauthorship: unproven (--sign KEY, or git config gpg.format ssh, signs)".to_owned(),
    };
    Ok(Done::said(object, text))
}

/// `notebook`: appends one entry.
///
/// # Errors
/// Exit 2 for parts that do not make an entry, 16 when the notebook's chain does not hold.
pub fn notebook(ctx: &Context<'_>, ask: &Notebook) -> Result<Done> {
    let path = ctx.paths.notebook();
    let text = fs_err::read_to_string(&path)?;
    let book = parse(&text)?;
    let entry = match ask {
        Notebook::Predict(parts) => {
            prediction(&book, draft(parts)?, parts.claims.clone(), values(parts)?, parts.informed)
        }
        Notebook::Outcome(parts) => {
            let run = parts.run.as_deref().context("an outcome needs --run")?;
            let claims: Vec<ClaimResult> = claims_of(ctx.paths, run)?
                .into_iter()
                .filter(|claim| parts.claims.is_empty() || parts.claims.contains(&claim.id))
                .collect();
            outcome(&book, draft(parts)?, run, &claims)
        }
    };
    let id = entry.id.clone();
    write_whole(&path, append(&text, entry)?.as_bytes())?;
    Ok(Done::said(json!({"id": id}), format!("NOTEBOOK.md: {id}")))
}

fn draft(parts: &Entry) -> Result<Draft> {
    let mut prose = parts.text.clone();
    if prose == "-" {
        prose.clear();
        std::io::stdin().read_to_string(&mut prose)?;
    }
    let date = Timestamp::now().strftime("%Y-%m-%d").to_string();
    Ok(Draft { date, title: parts.title.clone(), prose })
}

fn values(parts: &Entry) -> Result<BTreeMap<String, String>> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(fail(ExitCode::Usage, format!("{text:?} is not NAME=DECIMAL"), "--value latency_us_p50=9")),
    };
    parts.values.iter().map(pair).collect()
}

/// The claims of a run as its verdict has them: published, or in its run directory.
fn claims_of(paths: &Paths, run: &str) -> Result<Vec<ClaimResult>> {
    let published = paths.manifests().join(format!("{run}.verdict.json"));
    let path = if published.is_file() { published } else { paths.run(run).join("verdict.json") };
    let bytes = fs_err::read(&path).map_err(|error| {
        fail(ExitCode::Usage, format!("run {run} has no verdict: {error}"), "cargo xtask reproduce writes one")
    })?;
    let verdict: schema::verdict::Verdict = serde_json::from_slice(&bytes)?;
    Ok(verdict.claims)
}
