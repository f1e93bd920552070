//! Which process a container belongs to. A later process with the same id is told apart from the one that started it.

use super::engine::Engine;
use super::removal::{Client, remove};
use anyhow::Result;
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// The label that every container of ours carries.
pub(super) const OWNER_LABEL: &str = "assay.owner";

/// A process on this boot of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    started: u64,
    scope: String,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_time(pid).unwrap_or(0), scope: scope() }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (pid, started) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { pid, started, scope: parts.next()?.to_owned() })
    }

    /// Whether it is certain that the owner is gone. Another machine's or namespace's process cannot be judged from here.
    fn is_gone(&self) -> bool {
        self.scope == scope() && start_time(self.pid) != Some(self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.pid, self.started, self.scope)
    }
}

/// A container of ours that some run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its name.
    pub name: String,
    /// Whether its owner is known to be gone, so that it may be removed.
    pub orphan: bool,
}

/// Containers with our label that are not this process's.
///
/// # Errors
/// When the engine does not answer.
pub fn leftovers(engine: &Engine) -> Result<Vec<Leftover>> {
    let filter = format!("label={OWNER_LABEL}");
    let format = "{{json .}}";
    let listed = engine
        .answer(&["ps", "--all", "--no-trunc", "--filter", &filter, "--format", format], Duration::from_secs(20))?;
    Ok(listed.lines().filter_map(|line| judge(line, &Owner::this())).collect())
}

/// Removes the containers whose owner is gone, and says which.
///
/// # Errors
/// When the engine does not answer or does not remove one.
pub fn sweep(engine: &Engine) -> Result<Vec<String>> {
    let orphans: Vec<String> = leftovers(engine)?.into_iter().filter(|l| l.orphan).map(|l| l.name).collect();
    for name in &orphans {
        remove(engine, name, Client::Badly)?;
    }
    Ok(orphans)
}

fn judge(line: &str, this: &Owner) -> Option<Leftover> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Listed {
        names: String,
        labels: String,
        state: String,
    }
    let listed: Listed = serde_json::from_str(line).ok()?;
    let label = listed.labels.split(',').find_map(|label| label.strip_prefix(OWNER_LABEL)?.strip_prefix('='))?;
    let owner = Owner::parse(label);
    if owner.as_ref() == Some(this) {
        return None;
    }
    let ended = matches!(listed.state.as_str(), "exited" | "dead");
    // An ended container is kept until its owner has read how it ended. If the owner runs elsewhere, only the
    // container's end is visible.
    let orphan = match owner.filter(|owner| owner.scope == this.scope) {
        Some(owner) => owner.is_gone(),
        None => ended,
    };
    Some(Leftover { name: listed.names, orphan })
}

/// When a process started, in ticks since boot; absent when it is gone or dead.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    // proc(5): field 22 is the start time, and the state is field 3.
    fields.nth(18)?.parse().ok()
}

/// This boot and this process namespace: within it, numbers and start times name processes.
fn scope() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}:{}", boot.trim(), Path::new(&namespace).display().to_string().replace(['[', ']', ':'], ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(owner: &str, state: &str) -> String {
        let labels = format!("other=1,{OWNER_LABEL}={owner}");
        serde_json::json!({"Names": "assay-test-1-0", "Labels": labels, "State": state}).to_string()
    }

    fn judged(owner: &Owner, state: &str) -> Option<bool> {
        let this = Owner { started: 1, ..Owner::this() };
        judge(&line(&owner.to_string(), state), &this).map(|leftover| leftover.orphan)
    }

    #[test]
    fn an_owner_survives_its_label() {
        assert_eq!(Owner::parse(&Owner::this().to_string()), Some(Owner::this()));
        assert_eq!(Owner::parse("12"), None);
    }

    #[test]
    fn only_what_is_certainly_orphaned_goes() {
        let alive = Owner::this();
        assert!(!alive.is_gone());
        assert_eq!(judged(&alive, "running"), Some(false));
        assert_eq!(judged(&Owner { started: alive.started + 1, ..alive.clone() }, "running"), Some(true));
        assert_eq!(judged(&Owner { started: 7, scope: "elsewhere".into(), ..alive.clone() }, "running"), Some(false));
        assert_eq!(judged(&Owner { scope: "elsewhere".into(), ..alive.clone() }, "exited"), Some(true));
        assert_eq!(judged(&alive, "created"), Some(false));
        assert_eq!(judged(&alive, "exited"), Some(false));
    }

    #[test]
    fn containers_of_this_process_and_of_others_are_not_listed() {
        assert_eq!(judge(&line(&Owner::this().to_string(), "exited"), &Owner::this()), None);
        assert_eq!(judge(r#"{"Names":"web","Labels":"a=b","State":"exited"}"#, &Owner::this()), None);
    }
}
