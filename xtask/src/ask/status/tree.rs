//! Compares this tree with a run's measured commit: protocol, toolkit, image, and which sources changed at all.

use super::{Run, TreeSass};
use anyhow::Result;
use host::failure::fail;
use host::files;
use host::git::Git;
use host::paths::Paths;
use pure::book::standing::{Compared, Differences, compare};
use pure::identity::measured::measured_sass;
use pure::identity::protocol::{Protocol, protocol};
use schema::build::BuildRecord;
use schema::plan::{Plan, PlanFile};
use schema::{Digest, ExitCode};
use std::collections::{BTreeMap, BTreeSet};

/// Where everything lies that a measurement of an experiment is made from.
fn sources(experiment: &str, program: &str) -> Vec<String> {
    let own = [
        format!("kernels/{program}"),
        format!("harness/{program}"),
        format!("harness/experiments/{experiment}/plan.toml"),
    ];
    let shared = [
        "kernels/common",
        "kernels/controls",
        "harness/src",
        "harness/core",
        "harness/tables",
        "harness/schema/src",
        "harness/Cargo.toml",
        "harness/schema/Cargo.toml",
        "Cargo.toml",
        "Cargo.lock",
        "rust-toolchain.toml",
        "docker",
    ];
    own.into_iter().chain(shared.map(str::to_owned)).collect()
}

const LOCK: &str = "docker/toolkit.lock";
const DOCKERFILE: &str = "docker/Dockerfile";
const BASES: &str = "docker/image.lock";

/// The tree that is asked about.
pub(super) struct Tree<'a> {
    paths: &'a Paths,
    git: Option<Git>,
    /// This tree's protocol of each experiment that was asked about.
    now: BTreeMap<String, Protocol>,
    /// Protocols of measured commits, by commit and experiment, which are read once each.
    then: BTreeMap<(String, String), Result<Protocol, String>>,
}

impl<'a> Tree<'a> {
    pub(super) fn read(paths: &'a Paths) -> Result<Self> {
        Ok(Self { paths, git: Git::at(paths.root())?, now: BTreeMap::new(), then: BTreeMap::new() })
    }

    /// What this tree's plan file gives for the profile and phases of a measured plan; absent when it gives none.
    pub(super) fn plan_like(&self, plan: &Plan) -> Result<Option<Plan>> {
        let text = read(self.paths, &format!("harness/experiments/{}/plan.toml", plan.experiment))?;
        let file = text.and_then(|text| PlanFile::parse(&text).ok());
        Ok(file.and_then(|file| file.freeze(plan.profile_name, &plan.phases).ok()))
    }

    pub(super) fn differences(&mut self, run: &Run, built: &Result<TreeSass, String>) -> Result<Differences> {
        let (commit, program) = (self.commit_of(run), run.plan.program().to_owned());
        self.read_protocol(&program)?;
        let sources = sources(&run.plan.experiment, &program);
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        Ok(Differences {
            built: built.as_ref().map_err(Clone::clone).and_then(|built| same_compiler(run, built)),
            harness: commit.clone().and_then(|commit| self.harness(&commit, &program)),
            toolkit: self.file(&commit, LOCK, run.build.toolkit_lock),
            image: self.image(&commit, run),
            sources: commit.and_then(|(git, commit)| told(git.changed_since(&commit, &sources))),
        })
    }

    fn read_protocol(&mut self, program: &str) -> Result<()> {
        if self.now.contains_key(program) {
            return Ok(());
        }
        let paths = self.paths;
        let now = protocol(program, &mut |name: &str| read(paths, name)).map_err(|error| {
            fail(ExitCode::Build, format!("this tree's harness cannot be read: {error:#}"), "cargo check -p harness")
        })?;
        self.now.insert(program.to_owned(), now);
        Ok(())
    }

    /// The measured commit, as far as this repository holds it.
    fn commit_of(&self, run: &Run) -> Result<(Git, String), String> {
        let named = run.manifest.predicate.source.commit.clone();
        let commit = named.ok_or_else(|| "the manifest names no commit to compare with".to_owned())?;
        let git = self.git.clone().ok_or_else(|| "no git repository to look up the measured commit in".to_owned())?;
        if git.knows(&commit).map_err(|error| format!("{error:#}"))? {
            return Ok((git, commit));
        }
        let shallow = git.is_shallow().unwrap_or(false);
        let remedy = if shallow { "git fetch --unshallow".to_owned() } else { format!("git fetch origin {commit}") };
        Err(format!("this repository does not hold the measured commit {}: {remedy}", &commit[..12]))
    }

    fn harness(&mut self, (git, commit): &(Git, String), program: &str) -> Compared {
        let read = || told(protocol(program, &mut |name: &str| git.file_at(commit, name)));
        let then = self.then.entry((commit.clone(), program.to_owned())).or_insert_with(read);
        Ok(then.as_ref().map_err(Clone::clone)?.changed_to(&self.now[program]))
    }

    /// How a file that was measured with differs now, comments aside: the lines that came or went.
    fn file(&self, commit: &Result<(Git, String), String>, name: &str, measured: Digest) -> Compared {
        let now = told(read(self.paths, name))?.unwrap_or_default();
        if Digest::of(&now) == measured {
            return Ok(Vec::new());
        }
        let (git, commit) = commit.as_ref().map_err(Clone::clone)?;
        let then = told(git.file_at(commit, name))?.filter(|text| Digest::of(text) == measured);
        let Some(then) = then else {
            return Ok(vec![format!("{name} is not the one it was measured with")]);
        };
        let (then, now) = (meaning(&then), meaning(&now));
        let differ: Vec<&str> = then.symmetric_difference(&now).copied().collect();
        let first = differ.iter().map(|line| line.split(' ').next().unwrap_or(line)).collect::<BTreeSet<_>>();
        Ok(first.into_iter().map(|line| format!("{name}: {line}")).collect())
    }

    fn image(&self, commit: &Result<(Git, String), String>, run: &Run) -> Compared {
        let Some(container) = &run.environment.container else { return Ok(Vec::new()) };
        let mut differ = self.file(commit, DOCKERFILE, container.dockerfile)?;
        let bases = told(read(self.paths, BASES))?.unwrap_or_default();
        // A local base is named by an image's id, which no tree holds.
        let held = meaning(&bases).iter().any(|line| line.contains(&container.base_digest));
        if !container.base_local && !held {
            differ.push(format!("{} is no longer a base of {BASES}", container.base));
        }
        Ok(differ)
    }
}

fn told<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{error:#}"))
}

fn read(paths: &Paths, name: &str) -> Result<Option<String>> {
    let path = paths.root().join(name);
    if files::exists(&path) { files::read_text(&path).map(Some) } else { Ok(None) }
}

/// The lines of a text that mean something: comments and blank ones left out.
fn meaning(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// What this tree builds for a run's architecture. Another compiler's SASS says nothing where it differs.
fn same_compiler(run: &Run, built: &TreeSass) -> Result<BTreeMap<String, Digest>, String> {
    let arch = &run.environment.device.arch;
    let record = BuildRecord { kernels: built.kernels.clone(), ..run.build.clone() };
    let (measured, now) = (measured_sass(&run.build, arch), measured_sass(&record, arch));
    if now.is_empty() {
        return Err(format!("no kernels were built for {arch} here: cargo xtask build --arch {arch}"));
    }
    if built.nvcc != run.build.nvcc && !compare(&measured, &now).is_empty() {
        let (ours, theirs) = (&built.nvcc, &run.build.nvcc);
        return Err(format!(
            "measured with {theirs}, and this machine has {ours}: cargo xtask provision --runtime host"
        ));
    }
    Ok(now)
}
