//! The contract of a run, made by the experiment's own code in the harness before anything is measured.
//!
//! Nothing is launched on a device here: the harness only opens it, since the cells follow from what it holds.

use super::sanitize::Program;
use anyhow::{Context, Result};
use host::container::{Runtime, Task};
use host::failure::{Failure, fail};
use host::files;
use schema::contract::{CONTRACT, Contract};
use schema::{Digest, ExitCode};
use std::path::Path;
use std::time::Duration;
use words::text::quoted;

/// The harness opens a device and prints; a driver that takes longer does not answer.
const DEADLINE: Duration = Duration::from_secs(120);
/// The most of the harness's own words that a message repeats.
const MOST_CHARS: usize = 300;

/// What a run must contain, with the digest of its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// The contract.
    pub contract: Contract,
    /// Digest of `contract.json`.
    pub digest: Digest,
}

/// Asks the harness for the contract of the plan on this device and freezes it in the run directory. A run that is gone on with
/// must still have the contract it began with.
///
/// # Errors
/// 10 when the experiment's code refuses the plan; 17 when the harness prints no contract, or the run began with another one.
pub fn describe(runtime: &dyn Runtime, program: &Program, experiment: &str, run_dir: &Path) -> Result<Frozen> {
    let bytes = asked(runtime, program, experiment, run_dir)?;
    let contract = Contract::parse(&bytes).map_err(|error| unusable(&format!("{error:#}")))?;
    if contract.experiment != experiment {
        return Err(unusable(&format!(
            "it is of experiment {:?}, and the plan of {experiment:?}",
            contract.experiment
        )));
    }
    let file = run_dir.join(CONTRACT);
    if files::exists(&file) && files::read_plain(&file)? != bytes {
        let message = format!("{} is not what this harness asks of the run", file.display());
        return Err(fail(ExitCode::Measurement, message, "cargo xtask reproduce --fresh"));
    }
    files::write_whole(&file, &bytes)?;
    Ok(Frozen { contract, digest: Digest::of(&bytes) })
}

/// Reads the contract that a run was begun with.
///
/// # Errors
/// When the file is absent or holds no contract.
pub fn load(run_dir: &Path) -> Result<Contract> {
    let file = run_dir.join(CONTRACT);
    Contract::parse(&files::read_plain(&file)?).with_context(|| format!("failed to read {}", file.display()))
}

fn asked(runtime: &dyn Runtime, program: &Program, experiment: &str, run_dir: &Path) -> Result<Vec<u8>> {
    let text =
        |path: &Path| path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()));
    let (plan, cubins) = (text(&program.plan)?, text(&program.cubins)?);
    let args = ["describe", "--plan", &plan, "--device", &program.device, "--cubins", &cubins, "--flavor", "measure"];
    let folder = |file: &Path| file.parent().map(Path::to_owned).context("a file has a folder");
    let task = Task {
        label: "describe".to_owned(),
        program: text(&program.harness)?,
        args: args.map(str::to_owned).to_vec(),
        env: Vec::new(),
        readable: vec![folder(&program.harness)?, program.cubins.clone()],
        writable: run_dir.to_owned(),
        gpu: !program.is_emulated(),
        deadline: DEADLINE,
        hold_stdin: true,
    };
    let ended = runtime.run(&task, &mut |_| {})?;
    // An error about a number of the plan has several lines.
    let lines: Vec<&str> = ended.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.iter().rposition(|line| line.starts_with("error: ")).unwrap_or(lines.len().saturating_sub(1));
    let said = lines[from..].join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let said = quoted(said, MOST_CHARS);
    match ended.code {
        Some(0) => {
            let line = ended.stdout.lines().find(|line| line.starts_with('{'));
            let line = line.context("it printed none").map_err(|error| unusable(&error.to_string()))?;
            let value: serde_json::Value = serde_json::from_str(line).map_err(|error| unusable(&error.to_string()))?;
            let mut bytes = serde_json::to_vec_pretty(&value)?;
            bytes.push(b'\n');
            Ok(bytes)
        }
        Some(code) if code == ExitCode::Config.status() => Err(Failure {
            code: ExitCode::Config,
            message: format!("the experiment's code refuses the plan: {said}"),
            remedy: replan(experiment),
        }
        .into()),
        _ if ended.timed_out => Err(unusable("the harness was killed, since its device did not answer")),
        code => Err(unusable(&format!("the harness ended with {code:?}: {said}"))),
    }
}

/// What to do about a plan that the experiment's own code refuses.
pub(super) fn replan(experiment: &str) -> String {
    format!(
        "edit harness/experiments/{experiment}/plan.toml or choose other phases, then cargo xtask reproduce {experiment}"
    )
}

fn unusable(why: &str) -> anyhow::Error {
    let message = format!("there is no contract for this run: {why}");
    fail(ExitCode::Measurement, message, "cargo xtask build, then cargo xtask reproduce --fresh")
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::{code_of, remedy_of};
    use host::process::Ended;
    use pure::trial::synthetic;
    use schema::plan::ProfileName;

    /// A harness that prints this and ends so.
    struct Fake {
        stdout: String,
        stderr: &'static str,
        code: Option<i32>,
    }

    impl Runtime for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn run(&self, task: &Task, _: &mut dyn FnMut(&str)) -> Result<Ended> {
            assert_eq!(task.args[0], "describe");
            let (stdout, stderr) = (self.stdout.clone(), self.stderr.to_owned());
            Ok(Ended { code: self.code, timed_out: self.code.is_none(), stdout, stderr })
        }
    }

    fn contract() -> Contract {
        synthetic::contract(&synthetic::plan(ProfileName::Smoke, 40))
    }

    fn prints(stdout: impl Into<String>) -> Fake {
        Fake { stdout: stdout.into(), stderr: "", code: Some(0) }
    }

    fn says(contract: &Contract) -> Fake {
        prints(serde_json::to_string(contract).unwrap() + "\n")
    }

    fn ask(fake: &Fake, run_dir: &Path) -> Result<Frozen> {
        let program = Program {
            harness: "/build/bin/harness".into(),
            harness_digest: Digest::of("harness"),
            cubins: "/build".into(),
            plan: run_dir.join("plan.toml"),
            kernels: vec![],
            built: vec![],
            arch: "sm_90".into(),
            device: "emulated".into(),
        };
        describe(fake, &program, "preempt", run_dir)
    }

    fn refused(fake: &Fake, code: ExitCode, words: &str) {
        let dir = tempfile::tempdir().unwrap();
        let error = ask(fake, dir.path()).unwrap_err();
        assert!(code_of(&error) == code && error.to_string().contains(words), "{words}: {error:#}");
        assert!(remedy_of(&error).is_some_and(|remedy| remedy.contains("cargo xtask")), "{error:#}");
        assert!(!dir.path().join(CONTRACT).exists(), "nothing is frozen");
    }

    #[test]
    fn a_contract_is_frozen_byte_for_byte_and_a_second_call_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let frozen = ask(&says(&contract()), dir.path()).unwrap();
        let bytes = files::read_plain(&dir.path().join(CONTRACT)).unwrap();
        assert_eq!((frozen.digest, bytes.last()), (Digest::of(&bytes), Some(&b'\n')));
        assert_eq!(load(dir.path()).unwrap(), frozen.contract);
        let beside = prints(format!("a word from the driver\n{}\n", serde_json::to_string(&contract()).unwrap()));
        assert_eq!(ask(&beside, dir.path()).unwrap(), frozen);
    }

    #[test]
    fn what_is_no_contract_is_refused() {
        refused(&prints(""), ExitCode::Measurement, "it printed none");
        refused(&prints("no contract\n"), ExitCode::Measurement, "it printed none");
        refused(&prints("{\"format\": 1, \n"), ExitCode::Measurement, "there is no contract for this run");
        refused(&prints("{}\n"), ExitCode::Measurement, "there is no contract for this run");
        let newer = Contract { format: 2, ..contract() };
        refused(&says(&newer), ExitCode::Measurement, "format 2");
        let weaker = Contract { programs: Vec::new(), ..contract() };
        refused(&says(&weaker), ExitCode::Measurement, "no sanitizer program is named");
        let other = Contract { experiment: "other".to_owned(), ..contract() };
        refused(&says(&other), ExitCode::Measurement, "it is of experiment \"other\"");
    }

    #[test]
    fn a_harness_that_ends_badly_is_refused_with_its_last_word() {
        let ends = |code| Fake { stderr: "first\nk is 65, and a tile has 64\n\n", code, ..says(&contract()) };
        let words = "the experiment's code refuses the plan: k is 65, and a tile has 64";
        refused(&ends(Some(ExitCode::Config.status())), ExitCode::Config, words);
        refused(&ends(Some(101)), ExitCode::Measurement, "k is 65, and a tile has 64");
        refused(&ends(None), ExitCode::Measurement, "its device did not answer");
        let stderr = "first\nerror: in `yield.k`\ninvalid type: expected u32\n\n";
        let several = Fake { stderr, code: Some(ExitCode::Config.status()), ..says(&contract()) };
        let words = "refuses the plan: in `yield.k` invalid type: expected u32";
        refused(&several, ExitCode::Config, words);
    }

    #[test]
    fn a_run_does_not_go_on_with_another_contract() {
        let dir = tempfile::tempdir().unwrap();
        ask(&says(&contract()), dir.path()).unwrap();
        let before = files::read_plain(&dir.path().join(CONTRACT)).unwrap();
        let mut other = contract();
        other.cells[1].expects.events += 1;
        let error = ask(&says(&other), dir.path()).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Measurement);
        assert!(error.to_string().contains("is not what this harness asks of the run"), "{error:#}");
        assert_eq!(files::read_plain(&dir.path().join(CONTRACT)).unwrap(), before);
    }
}
