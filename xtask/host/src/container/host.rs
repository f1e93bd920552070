//! Runs programs directly on this machine, or in the provider's container that we are already in.
//!
//! Nothing is isolated here, but the environment is still stated and deadlines still hold.

use super::{Runtime, Task, unless_exhausted};
use crate::process::{Child, Ended};
use anyhow::Result;

/// This machine without a container of ours: ours alone (`host`), or the container of a provider that we are already in
/// (`inside`), where there is no daemon of ours and usually no clock control.
#[derive(Clone, Debug)]
pub struct HostRuntime {
    /// `host` or `inside`.
    pub name: &'static str,
    /// The stated environment of every program, PATH with the toolkit first.
    pub env: Vec<(String, String)>,
}

impl Runtime for HostRuntime {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, task: &Task, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        self.run_watched(task, on_line, &|| false)
    }

    fn run_watched(&self, task: &Task, on_line: &mut dyn FnMut(&str), overdue: &dyn Fn() -> bool) -> Result<Ended> {
        let child = Child {
            program: (&task.program).into(),
            args: task.args.clone(),
            env: self.env.iter().chain(&task.env).cloned().collect(),
            dir: task.writable.clone(),
            deadline: task.deadline,
            hold_stdin: task.hold_stdin,
        };
        unless_exhausted(&task.label, child.run_watched(on_line, overdue)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_task_runs_in_its_writable_folder_with_the_added_environment() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = HostRuntime { name: "host", env: vec![("PATH".into(), "/usr/bin:/bin".into())] };
        let task = Task {
            label: "test".into(),
            program: "sh".into(),
            args: vec!["-c".into(), "pwd; echo $ADDED".into()],
            env: vec![("ADDED".into(), "1".into())],
            readable: vec![],
            writable: dir.path().to_owned(),
            gpu: false,
            deadline: Duration::from_secs(5),
            hold_stdin: false,
        };
        let ended = runtime.run(&task, &mut |_| {}).unwrap();
        assert_eq!(ended.stdout, format!("{}\n1\n", dir.path().canonicalize().unwrap().display()));
    }
}
