//! Kills and removes a container of ours, and checks that it is gone.
//!
//! Ending the docker client does not end the container, and the engine may still be working on a request of the
//! client when the client is killed.

use super::engine::{Engine, last, refused};
use crate::failure::fail;
use crate::process::Ended;
use anyhow::Result;
use schema::ExitCode;
use std::time::{Duration, Instant};
use words::docker_says::Kind;

/// How the client of a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// Well: the container has ended, and the engine's word for its removal will do.
    Well,
    /// Badly, by itself: the engine has nothing of it under way.
    Badly,
    /// By us: a container that it asked for may still appear.
    Killed,
}

/// The label by which a single container is found again.
pub(super) const NAME_LABEL: &str = "assay.name";

/// How long after its client was killed a container may still appear.
const LATE: Duration = Duration::from_secs(2);

/// Kills and removes a container, also after we were asked to stop, and looks whether it is gone.
///
/// # Errors
/// When it is still there, or cannot be looked for, at the end of the engine's `removal`.
pub(super) fn remove(engine: &Engine, name: &str, client: Client) -> Result<()> {
    let until = Instant::now() + engine.removal;
    let late = Instant::now() + LATE;
    let mut pause = Duration::from_millis(50);
    loop {
        let tried = call(engine, &["rm", "--force", "--volumes", name], until)?;
        let removed = tried.code == Some(0) && tried.stdout.lines().any(|line| line.trim() == name);
        if removed && client == Client::Well {
            return Ok(());
        }
        let listed = list(engine, name, until)?;
        let why = match listed.code {
            Some(0) if listed.stdout.trim().is_empty() => {
                if removed || client != Client::Killed || Instant::now() >= late {
                    return Ok(());
                }
                None
            }
            Some(0) => Some(last(&tried.stderr)),
            _ => Some(refused(&listed).message("docker ps")),
        };
        let unreachable = listed.code != Some(0) && matches!(refused(&listed).kind, Kind::Down | Kind::Forbidden);
        if let (Some(why), true) = (why, unreachable || Instant::now() >= until) {
            return Err(fail(
                ExitCode::Environment,
                format!("container {name} could not be removed: {why}"),
                format!("docker rm --force {name}; a program that waits for a hung driver ends only with a reboot"),
            ));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// The container in any state, if the engine has it.
fn list(engine: &Engine, name: &str, until: Instant) -> Result<Ended> {
    call(engine, &["ps", "--all", "--quiet", "--filter", &format!("label={NAME_LABEL}={name}")], until)
}

fn call(engine: &Engine, args: &[&str], until: Instant) -> Result<Ended> {
    let left = until.saturating_duration_since(Instant::now());
    let deadline = left.clamp(Duration::from_millis(200), Duration::from_secs(30));
    engine.child(args.iter().map(|arg| (*arg).to_owned()).collect(), deadline).run_cleanup()
}
