//! The local, air-gapped base: Debian packages plus this machine's Rust, imported as one layer and known by its image id.
//!
//! For machines that reach Debian's packages and no image registry. Needs root, as debootstrap does.

use super::choose::Machine;
use super::hostenv;
use anyhow::{Context, Result};
use host::container::Engine;
use host::failure::{Denied, fail};
use host::files::remove;
use host::paths::Paths;
use host::process::{Child, find_program};
use schema::ExitCode;
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::docker_says::{Kind, refusal};

/// The local, air-gapped base image that [`make_base`] makes.
pub const LOCAL_BASE: &str = "assay-base:local";

/// What the base has beside Debian's minimum.
const PACKAGES: &str = "gcc,g++,libc6-dev,make,ca-certificates,python3";

/// Debian's release, the one of the pinned base image.
const SUITE: &str = "bookworm";

/// What differs from one machine or day to the next and is no part of a base.
const LEFT_OUT: &[&str] = &[
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./var/cache/ldconfig/aux-cache",
    "./etc/hostname",
    "./etc/resolv.conf",
    "./etc/machine-id",
];

/// Makes the local base, or says that it is there; the image's id.
///
/// # Errors
/// [`ExitCode::Environment`] with what to type, when an engine, root or a program is missing, or a program fails.
pub fn make_base(paths: &Paths, anew: bool, quiet: bool) -> Result<String> {
    let machine = Machine::look();
    let (engine, _) = machine.ready().map_err(Denied::into_error)?;
    if let Some(image) = engine.image(LOCAL_BASE)?.filter(|_| !anew) {
        return Ok(image.id.to_string());
    }
    let sysroot = preconditions(&machine, paths)?;
    let maker = Maker { machine: &machine, work: paths.state().join("base.partial"), quiet };
    let made = maker.make(engine, &sysroot);
    let cleaned = remove(&maker.work);
    let id = made?;
    cleaned?;
    Ok(id)
}

fn preconditions(machine: &Machine, paths: &Paths) -> Result<PathBuf> {
    let search = machine.var("PATH").unwrap_or_default();
    for (program, remedy) in [("debootstrap", "apt-get install debootstrap"), ("tar", "apt-get install tar")] {
        if find_program(Path::new(program), &with_sbin(search)).is_none() {
            return Err(fail(ExitCode::Environment, format!("{program} is missing; it makes the local base"), remedy));
        }
    }
    if !rustix::process::geteuid().is_root() {
        let remedy = "sudo -E env PATH=$PATH cargo xtask provision --make-base";
        return Err(fail(
            ExitCode::Environment,
            "the local base can only be made by root (debootstrap makes a root file system)",
            remedy,
        ));
    }
    super::image::host_sysroot(machine, paths).ok_or_else(|| {
        fail(
            ExitCode::Environment,
            "no Rust on PATH to put into the base",
            "install Rust from rust-lang.org with rustup",
        )
    })
}

fn with_sbin(search: &str) -> String {
    format!("{search}:/usr/sbin:/sbin")
}

/// One making of a base.
struct Maker<'a> {
    machine: &'a Machine,
    work: PathBuf,
    quiet: bool,
}

impl Maker<'_> {
    fn make(&self, engine: &Engine, sysroot: &Path) -> Result<String> {
        remove(&self.work)?;
        let (root, archive) = (self.work.join("root"), self.work.join("base.tar"));
        fs_err::create_dir_all(&root)?;
        self.say("making a Debian root file system (about a minute)");
        let root_text = root.display().to_string();
        self.run("debootstrap", &["--variant=minbase", &format!("--include={PACKAGES}"), SUITE, &root_text])?;
        self.say("adding this machine's Rust");
        for part in ["bin", "lib", "libexec"] {
            let from = sysroot.join(part).display().to_string();
            self.run("cp", &["-a", "--no-preserve=ownership", &from, &root.join("usr/local").display().to_string()])?;
        }
        self.say("importing it");
        self.pack(&root, &archive)?;
        let path = "--change=ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let archive = archive.display().to_string();
        let id = engine.answer(&["import", path, &archive, LOCAL_BASE], Duration::from_secs(600))?;
        Ok(id.trim().to_owned())
    }

    /// The same files give the same archive: sorted, dated alike, owned by numbers.
    fn pack(&self, root: &Path, archive: &Path) -> Result<()> {
        let excluded: Vec<String> = LEFT_OUT.iter().map(|path| format!("--exclude={path}")).collect();
        let (archive, root) = (archive.display().to_string(), root.display().to_string());
        let mut args =
            vec!["--create", "--file", &archive, "--directory", &root, "--sort=name", "--mtime=@0", "--numeric-owner"];
        args.extend(["--format=gnu"]);
        args.extend(excluded.iter().map(String::as_str));
        args.push(".");
        self.run("tar", &args)
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<()> {
        let mut env = hostenv::for_pip(self.machine);
        let path = with_sbin(self.machine.var("PATH").unwrap_or_default());
        env.push(("PATH".into(), path));
        env.push(("LC_ALL".into(), "C".into()));
        let child = Child {
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env,
            dir: self.work.clone(),
            deadline: Duration::from_secs(1200),
            hold_stdin: false,
        };
        let ended = child.run(&mut |_| {}).with_context(|| format!("failed to run {program}"))?;
        if ended.code == Some(0) {
            return Ok(());
        }
        // debootstrap prints its errors on stdout, among much else.
        let errors = ended.stdout.lines().filter(|line| line.starts_with("E: ")).collect::<Vec<_>>().join("\n");
        let said = refusal(None, &format!("{}\n{errors}", ended.stderr), "");
        let remedy = match said.kind {
            Kind::Unknown | Kind::Network => {
                "check the network to Debian's packages and the disk (df -h), then run it again"
            }
            kind => kind.remedy(),
        };
        Err(fail(ExitCode::Environment, said.message(&format!("{program} failed")), remedy))
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            host::tell!("{line}");
        }
    }
}
