//! A made-up repository with a complete run on a made-up GPU that every gate lets pass. For tests; nothing was measured.
//!
//! A test changes one thing, at the point where a fault would enter, and sees that it is refused.

mod sources;

use crate::steps::gate::{Judged, gate};
use crate::steps::seal::{SealInputs, Sealed, seal};
use host::files::write_whole;
use host::git::Git;
use host::paths::Paths;
use preempt::plan::PreemptPlan;
use pure::book::notebook::{Fields, Kind, NewEntry, Status, append, parse};
use pure::gate::{Evidence, Facts, rules};
use pure::identity::measured::sass_digest;
use pure::numbers::summary::CellData;
use pure::records::attempts::{Chain, Intent, MEASURED};
use pure::trial::synthetic::{self, SLOTS};
use pure::trial::{cells, records};
use schema::Digest;
use schema::build::BuildRecord;
use schema::claim::ClaimFile;
use schema::compare::Bands;
use schema::contract::{CONTRACT, Contract};
use schema::environment::Environment;
use schema::manifest::{Source, Step};
use schema::plan::{ClockClass, Plan, PlanFile, ProfileName, Terms};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use tables::Table;

pub(crate) use pure::trial::{LOCK, claims, find};

/// The run's id.
pub(crate) const RUN: &str = "20260101T000000Z-test-00000000";
/// Everything a run is made from, before it is written.
pub(crate) struct Trial {
    /// The run's id.
    pub(crate) run: String,
    /// The numbers of the plan.
    pub(crate) plan: PreemptPlan,
    /// The rest of it.
    pub(crate) clocks: ClockClass,
    pub(crate) terms: BTreeMap<String, Terms>,
    pub(crate) compare: Bands,
    pub(crate) claims: ClaimFile,
    pub(crate) environment: Environment,
    pub(crate) build: BuildRecord,
    pub(crate) cells: Vec<CellData>,
    pub(crate) telemetry: Table,
    /// Verdicts with their logs and what the harness printed.
    pub(crate) sanitizer: Vec<records::SanitizerFiles>,
    pub(crate) clean_before: bool,
    pub(crate) kind: String,
    /// Overrides the commit that the manifest names.
    pub(crate) commit: Option<String>,
    pub(crate) bundle: Option<schema::bundle::BundleRecord>,
    pub(crate) registration: Registration,
    /// The version of the rules in the measured commit; without one it has no such file.
    pub(crate) rules: Option<u32>,
    /// More files of the repository, in the measured commit.
    pub(crate) files: BTreeMap<String, String>,
}

/// When claims and prediction are committed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// Before the measured commit.
    Before,
    /// In the measured commit.
    Same,
    /// After it.
    After,
}

/// A trial on disk.
pub(crate) struct OnDisk {
    pub(crate) root: tempfile::TempDir,
    pub(crate) paths: Paths,
    pub(crate) build: BuildRecord,
}

impl Trial {
    /// A run that passes.
    pub(crate) fn passing() -> Self {
        Self::of_events(10_000)
    }

    /// A run with this many events a cell.
    pub(crate) fn of_events(events: u32) -> Self {
        let plan = small_plan(events);
        let build = records::build();
        let cells = cells::cells(&plan, &build);
        Self {
            run: RUN.to_owned(),
            environment: Environment { time: Some(records::watched(&cells)), ..records::environment() },
            telemetry: cells::telemetry(plan.cells(&SLOTS).len() as u32),
            sanitizer: records::sanitizer(&cells, &build),
            claims: claims("1000"),
            clean_before: true,
            kind: "git".to_owned(),
            commit: None,
            bundle: None,
            registration: Registration::Before,
            rules: Some(rules::rules()),
            files: BTreeMap::new(),
            clocks: ClockClass::Stable,
            terms: BTreeMap::new(),
            compare: Bands::new(),
            plan,
            build,
            cells,
        }
    }

    /// The plan as the run carries it.
    pub(crate) fn frozen(&self) -> Plan {
        let (terms, compare) = (self.terms.clone(), self.compare.clone());
        Plan { clocks: self.clocks, terms, compare, ..synthetic::frozen(&self.plan) }
    }

    /// What the run must contain.
    pub(crate) fn contract(&self) -> Contract {
        synthetic::contract(&self.plan)
    }

    /// The same run measured on kernels of this SASS, by symbol.
    pub(crate) fn of_sass(mut self, sass: &BTreeMap<String, Digest>) -> Self {
        self.build.kernels.iter_mut().for_each(|kernel| kernel.sass_digest = sass[&kernel.symbol]);
        self.sanitizer = records::sanitizer(&self.cells, &self.build);
        self
    }

    /// Writes repository and run directory, unsealed; gives the inputs to seal it with.
    pub(crate) fn write(&self) -> (OnDisk, SealInputs) {
        let (disk, measured) = self.repository();
        self.write_run(&disk);
        let commit = self.commit.clone().unwrap_or(measured);
        let inputs = self.inputs(&disk, commit);
        (disk, inputs)
    }

    /// Writes and seals.
    pub(crate) fn sealed(&self) -> (OnDisk, Sealed) {
        let (disk, inputs) = self.write();
        let sealed = seal(&disk.run(), inputs).unwrap();
        (disk, sealed)
    }

    /// Writes, seals and judges.
    pub(crate) fn judged(&self) -> (OnDisk, Judged) {
        let (disk, sealed) = self.sealed();
        let judged = gate(&disk.paths, sealed, Some(&disk.build)).unwrap();
        (disk, judged)
    }

    /// Writes the repository alone; gives the measured commit.
    pub(crate) fn repository(&self) -> (OnDisk, String) {
        let root = tempfile::tempdir().unwrap();
        let disk = OnDisk { paths: Paths::new(root.path()), build: self.build.clone(), root };
        let measured = self.write_repository(&disk);
        (disk, measured)
    }

    fn write_repository(&self, disk: &OnDisk) -> String {
        disk.git(&["init", "-q"]);
        disk.put(".gitignore", "results/raw/\ntarget/\n");
        disk.put("NOTEBOOK.md", "# Notebook\n");
        disk.put(
            "RESULTS.md",
            "# Results\n\n<!-- assay:begin results -->\nNothing is published yet.\n<!-- assay:end results -->\n",
        );
        disk.put("docker/toolkit.lock", LOCK);
        disk.put("kernels/preempt/budget.toml", &records::budgets());
        if self.registration == Registration::Before {
            self.register(disk);
        }
        disk.commit();
        if self.registration == Registration::Same {
            self.register(disk);
        }
        disk.put("harness/src/main.rs", "fn main() {}\n");
        if let Some(version) = self.rules {
            disk.put(rules::FILE, &format!("{version}\n"));
        }
        sources::files().iter().for_each(|(name, text)| disk.put(name, text));
        self.files.iter().for_each(|(name, text)| disk.put(name, text));
        let measured = disk.commit();
        if self.registration == Registration::After {
            self.register(disk);
            disk.commit();
        }
        measured
    }

    fn register(&self, disk: &OnDisk) {
        let frozen = self.frozen();
        let plan = PlanFile {
            format: frozen.format,
            experiment: frozen.experiment,
            title: "a trial".to_owned(),
            program: frozen.program,
            clocks: frozen.clocks,
            phases: frozen.phases,
            minutes: BTreeMap::new(),
            terms: frozen.terms,
            compare: frozen.compare,
            profile: BTreeMap::from([(frozen.profile_name, frozen.profile)]),
        };
        disk.put("harness/experiments/preempt/plan.toml", &toml::to_string(&plan).unwrap());
        disk.put("harness/experiments/preempt/claims.toml", &toml::to_string(&self.claims).unwrap());
        let mut fields = Fields::new(Kind::Prediction, Status::Proposed);
        fields.claims = vec!["T-1".to_owned()];
        let entry = NewEntry {
            date: "2026-01-01".to_owned(),
            id: "P-001".to_owned(),
            title: "what we expect".to_owned(),
            prose: "Made up.".to_owned(),
            fields,
        };
        disk.put("NOTEBOOK.md", &append("# Notebook\n", entry).unwrap());
    }

    /// Writes and seals this run beside those of a repository that holds the trial; its source is the commit checked out.
    pub(crate) fn sealed_in(&self, disk: &OnDisk) -> Sealed {
        self.write_run(disk);
        let commit = Git::at(disk.root.path()).unwrap().unwrap().head().unwrap();
        seal(&disk.paths.run(&self.run), self.inputs(disk, commit)).unwrap()
    }

    fn write_run(&self, disk: &OnDisk) {
        let run = disk.paths.run(&self.run);
        let file = |name: &str, bytes: &[u8]| write_whole(&run.join(name), bytes).unwrap();
        let plan = toml::to_string(&self.frozen()).unwrap();
        file("plan.toml", plan.as_bytes());
        file(CONTRACT, &self.contract_bytes());
        file("claims.toml", toml::to_string(&self.claims).unwrap().as_bytes());
        file("environment.json", &serde_json::to_vec_pretty(&self.environment).unwrap());
        file("build/resources.json", &serde_json::to_vec_pretty(&self.build).unwrap());
        file("telemetry.parquet", &self.telemetry.to_bytes().unwrap());
        if let Some(bundle) = &self.bundle {
            file("bundle.json", &serde_json::to_vec_pretty(bundle).unwrap());
        }
        for cubin in &self.build.cubins {
            file(&format!("build/{}", cubin.path), cubin.file.as_bytes());
        }
        for (verdict, log, printed) in &self.sanitizer {
            file(&format!("sanitize/{}", verdict.log), log.as_bytes());
            if let Some(kept) = &verdict.printed {
                file(&format!("sanitize/{}", kept.file), printed.as_bytes());
            }
            let name = format!("sanitize/{}-{}.json", verdict.tool.name(), verdict.program);
            file(&name, &serde_json::to_vec_pretty(verdict).unwrap());
        }
        for cell in &self.cells {
            let (mut record, tables) = cells::files(cell, Digest::of(&plan));
            record.seed = schema::cell::seed(&self.run, &record.phase, &record.cell);
            let stem = format!("cells/{}/{}", record.phase, record.cell);
            tables.iter().for_each(|(suffix, bytes)| file(&format!("{stem}{suffix}"), bytes));
            file(&format!("{stem}.json"), &serde_json::to_vec_pretty(&record).unwrap());
        }
    }

    /// The contract as it is written.
    fn contract_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.contract()).unwrap();
        bytes.push(b'\n');
        bytes
    }

    fn inputs(&self, disk: &OnDisk, commit: String) -> SealInputs {
        let mut chain = Chain::default();
        let intent = Intent {
            run: self.run.clone(),
            plan: Digest::of(toml::to_string(&self.frozen()).unwrap()),
            sass: sass_digest(&self.build, &self.environment.device.arch),
            device: self.environment.device.id.clone(),
            contract: Digest::of(self.contract_bytes()),
        };
        let (opened, open_line) = chain.open(intent, "2026-01-01T00:00:00Z".to_owned()).unwrap();
        let (closed, close_line) = chain.close(opened.n, MEASURED).unwrap();
        let git = Git::at(disk.root.path()).unwrap().unwrap();
        let digest = git.source_digest_of(&commit).unwrap_or_else(|_| Digest::of(b"source"));
        let step = |name: &str, began: &str| Step {
            name: name.to_owned(),
            began: began.to_owned(),
            seconds: 1.0,
            cached: false,
            key: Digest::of(name),
        };
        SealInputs {
            source: Source {
                kind: self.kind.clone(),
                commit: Some(commit),
                digest,
                digest_after: digest,
                clean_before: self.clean_before,
                clean_after: true,
            },
            attempts: vec![closed],
            attempts_log: open_line + &close_line,
            steps: vec![step("build", "2026-01-01T00:00:00Z"), step("run", "2026-01-01T00:00:01Z")],
            notebook_head: parse(&fs_err::read_to_string(disk.paths.notebook()).unwrap()).unwrap().head,
        }
    }
}

/// One cell of each kind, so that a test takes seconds.
fn small_plan(events: u32) -> PreemptPlan {
    let mut plan = synthetic::plan(ProfileName::Full, events);
    plan.profile.instrument.delay_events = 2_000;
    plan.profile.calibrate.k = vec![64];
    plan.profile.calibrate.max_blocks_per_sm = 1;
    plan.profile.calibrate.tiles = 13;
    plan.profile.yields.cells.truncate(1);
    plan
}

impl OnDisk {
    /// The run directory.
    pub(crate) fn run(&self) -> PathBuf {
        self.paths.run(RUN)
    }

    /// A copy that a test may damage.
    pub(crate) fn copied(&self) -> Self {
        let root = tempfile::tempdir().unwrap();
        let status =
            std::process::Command::new("cp").arg("-a").arg(self.root.path().join(".")).arg(root.path()).status();
        assert!(status.unwrap().success());
        Self { paths: Paths::new(root.path()), build: self.build.clone(), root }
    }

    /// Writes a file of the repository.
    pub(crate) fn put(&self, name: &str, text: &str) {
        write_whole(&self.root.path().join(name), text.as_bytes()).unwrap();
    }

    /// Commits everything; gives the commit.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--no-gpg-sign", "-m", "m"]);
        Git::at(self.root.path()).unwrap().unwrap().head().unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) {
        let status = std::process::Command::new("git").args(args).current_dir(self.root.path()).status().unwrap();
        assert!(status.success(), "git {args:?}");
    }
}

/// The passing trial on disk, sealed and judged once for all tests of this process.
pub(crate) fn shared() -> &'static (OnDisk, Judged) {
    static SHARED: OnceLock<(OnDisk, Judged)> = OnceLock::new();
    SHARED.get_or_init(|| Trial::passing().judged())
}

/// The passing trial's evidence and facts.
pub(crate) fn evidence() -> (Evidence, Facts) {
    let judged = &shared().1;
    (judged.evidence().clone(), Facts::stored(&judged.verdict().gates))
}

/// A copy of the passing trial on disk that a test may damage.
pub(crate) fn copy() -> OnDisk {
    shared().0.copied()
}
