//! The frame of a program of ours: the root that it works in, and its end with one JSON object and the documented exit
//! code.

use crate::failure::{code_of, fail, remedy_of};
use crate::process::watch_interrupts;
use anyhow::Result;
use schema::ExitCode;
use serde_json::{Value, json};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use words::text::{plain, plain_json, plain_lines};

/// How a command that did not fail ended.
pub struct Done {
    /// Its exit code.
    pub code: ExitCode,
    /// Its `--json` object.
    pub json: Value,
    /// What a person reads last; may be empty.
    pub text: String,
}

impl Done {
    /// Done, with nothing more to say.
    pub fn silent() -> Self {
        Self::said(json!({}), String::new())
    }

    /// Done, with an object and a text.
    pub fn said(json: Value, text: impl Into<String>) -> Self {
        Self { code: ExitCode::Done, json, text: text.into() }
    }
}

/// Calls a command's function with interrupts watched; a panic becomes the exit code of a bug.
///
/// # Errors
/// The command's own.
pub fn guarded(command: impl FnOnce() -> Result<Done>) -> Result<Done> {
    let result = catch_unwind(AssertUnwindSafe(|| watch_interrupts().and_then(|()| command())));
    result.unwrap_or_else(|_| Err(bug()))
}

/// A panic, which was told where it happened. Unwinding has put back and removed what was ours to put back and remove.
fn bug() -> anyhow::Error {
    let message = "a bug in Assay, told above; everything complete is kept";
    fail(ExitCode::Bug, message, "report what is told above; the same command again goes on")
}

/// An unpacked bundle is its own root; otherwise the checkout that this program was built in.
///
/// # Errors
/// Exit 2 outside of both.
pub fn root() -> Result<PathBuf> {
    let beside = std::env::current_exe()?.parent().map(PathBuf::from).unwrap_or_default();
    if beside.join("bundle.json").is_file() {
        return Ok(beside);
    }
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|dir| dir.join("bundle.json").is_file() || dir.join("harness/schema").is_dir());
    found.map(PathBuf::from).ok_or_else(|| {
        fail(
            ExitCode::Usage,
            format!("{} is in no checkout of Assay and in no unpacked bundle", here.display()),
            "cd into the checkout",
        )
    })
}

/// A message of several lines: a gate's reasons come one a line.
fn indented(text: &str) -> String {
    plain_lines(text).replace('\n', "\n  ")
}

/// Prints what a command gave and ends the program with its exit code.
pub fn finish(as_json: bool, quiet: bool, result: Result<Done>) -> ! {
    let (mut code, object) = match result {
        Ok(done) => {
            if !as_json && !quiet && !done.text.is_empty() {
                tell!("{}", plain_lines(&done.text));
            }
            (done.code, done.json)
        }
        Err(error) => {
            tell!("error: {}", indented(&format!("{error:#}")));
            if let Some(remedy) = remedy_of(&error) {
                tell!("  try: {}", indented(remedy));
            }
            let code = code_of(&error);
            (code, json!({"error": plain(&format!("{error:#}")), "exit": code.status(), "remedy": remedy_of(&error)}))
        }
    };
    if as_json {
        let mut stdout = std::io::stdout().lock();
        let written = writeln!(stdout, "{}", plain_json(&object.to_string())).and_then(|()| stdout.flush());
        if let Err(error) = written {
            tell!("error: the answer cannot be written to stdout: {error}");
            code = if code == ExitCode::Done { ExitCode::Environment } else { code };
        }
    }
    std::process::exit(code.status());
}
