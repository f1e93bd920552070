//! The docker way: a base by digest, the toolkit in it or copied in, and a container runtime over the result.

mod facts;
mod find;
mod probe;

pub use facts::BaseFacts;
pub(super) use facts::host_sysroot;
pub use find::BaseLock;

use super::choose::Machine;
use super::patience::patiently;
use super::toolkit::{cuda_of, no_older_toolkit, sanitizer_below, too_old, wheels};
use super::{ProvisionOptions, Provisioned};
use anyhow::Result;
use find::Base;
use host::container::{DockerRuntime, Engine, EngineFacts, GpuAccess, HARDENING, ImageId, failed, sweep};
use host::failure::{Denied, fail};
use host::gpu::toolkit::Toolkit;
use host::machine::disk::{Disks, Place};
use host::paths::Paths;
use host::process::Child;
use host::wheels::Lock;
use schema::environment::Container;
use schema::{Digest, ExitCode};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the toolkit lies in an image that we built.
const TOOLKIT_ROOT: &str = "/opt/assay/cuda";

/// The label that names all an image was made from.
pub(super) const KEY_LABEL: &str = "assay.key";

/// The label that says where compute-sanitizer is.
const SANITIZER_LABEL: &str = "assay.sanitizer";

/// An image to run, and the toolkit in it.
struct Ready {
    image: ImageId,
    toolkit: Toolkit,
    why: String,
    key: Digest,
    cached: bool,
}

/// Runtime and toolkit in a container.
pub(super) fn provision(
    paths: &Paths,
    options: &ProvisionOptions,
    machine: &Machine,
    why: &str,
) -> Result<Provisioned, Denied> {
    let (engine, engine_facts) = machine.ready()?;
    let gpu_access = gpu_access(options, machine, engine_facts)?;
    let user = match engine_facts.rootless() {
        // A rootless engine maps the container's root to the caller, and every other user to nobody the caller knows.
        true => (0, 0),
        false => (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
    };
    std::thread::scope(|scope| {
        let swept = scope.spawn(|| sweep(engine));
        Place::docker(Path::new(&engine_facts.docker_root_dir)).require(&Disks).map_err(Denied::of)?;
        let base = find::base(paths, options, engine)?;
        let bare = plain(engine, &base, user);
        let probed = probe::probe(paths, &bare, engine_facts, &base, &gpu_access, options.need_gpu)?;
        if !options.quiet {
            host::tell!("{}", probed.line());
        }
        let plain = DockerRuntime { limits: probed.limits, ..bare };
        let facts = facts::of_base(paths, &plain, &base)?;
        let ready = ready(paths, options, machine, engine, &base, &facts)?;
        say_swept(options, swept.join())?;
        let (env, readable) = environment(machine, paths, &ready, &facts);
        let dockerfile = Digest::of_file(paths.docker().join("Dockerfile")).map_err(anyhow::Error::from)?;
        let image = ready.image;
        let container = record(engine_facts, &base, &image, dockerfile, &gpu_access, &plain.limits);
        Ok(Provisioned {
            runtime: Box::new(DockerRuntime { image, gpu_access, env, readable, ..plain }),
            runtime_why: why.to_owned(),
            toolkit: ready.toolkit,
            toolkit_why: ready.why,
            container: Some(container),
            key: ready.key,
            cached: ready.cached,
        })
    })
}

fn gpu_access(options: &ProvisionOptions, machine: &Machine, facts: &EngineFacts) -> Result<GpuAccess, Denied> {
    let access = GpuAccess::find(&machine.root, machine.var("PATH").unwrap_or_default(), facts);
    match access {
        GpuAccess::None if options.need_gpu => Err(Denied::cannot(
            "no way for a GPU into a container: no CDI specification, no nvidia runtime and no /dev/nvidia0",
            "cargo xtask doctor, or --runtime host",
        )),
        access => Ok(access),
    }
}

/// The runtime over the bare base: no GPU, the image's own environment.
fn plain(engine: &Engine, base: &Base, user: (u32, u32)) -> DockerRuntime {
    DockerRuntime {
        engine: engine.clone(),
        image: base.id.clone(),
        user,
        limits: Vec::new(),
        gpu_access: GpuAccess::None,
        env: vec![("HOME".into(), "/tmp".into()), ("LC_ALL".into(), "C.UTF-8".into())],
        readable: Vec::new(),
    }
}

fn ready(
    paths: &Paths,
    options: &ProvisionOptions,
    machine: &Machine,
    engine: &Engine,
    base: &Base,
    facts: &BaseFacts,
) -> Result<Ready, Denied> {
    let lock = Lock::read(&paths.toolkit_lock())?;
    let old = too_old(options.driver_cuda);
    if let Some(ready) = in_the_base(options, base, facts, &lock) {
        return Ok(ready);
    }
    if let Some(why) = old {
        return Err(Denied::Cannot(no_older_toolkit(&why)));
    }
    if facts.cxx.is_none() {
        return Err(Denied::cannot(
            format!("the base {} has no g++, which nvcc needs", base.reference),
            "take another --base",
        ));
    }
    built(paths, options, machine, engine, base, &lock)
}

/// The base's own toolkit, where it has one that the driver runs.
fn in_the_base(options: &ProvisionOptions, base: &Base, facts: &BaseFacts, lock: &Lock) -> Option<Ready> {
    let nvcc = facts.nvcc.clone()?;
    let fits = options
        .driver_cuda
        .is_none_or(|driver| cuda_of(&facts.nvcc_version).is_some_and(|c| c / 1000 <= driver / 1000));
    let root = nvcc.parent()?.parent()?.to_owned();
    fits.then(|| Ready {
        image: base.id.clone(),
        toolkit: Toolkit { origin: "image".into(), root, nvcc, sanitizer: facts.sanitizer.clone(), lock: lock.digest },
        why: format!("the base {} has its own: {}", base.reference, facts.nvcc_version),
        key: Digest::of(format!("docker\n{}\n", base.digest())),
        cached: true,
    })
}

/// The base with the wheels copied in, built if it is not there.
fn built(
    paths: &Paths,
    options: &ProvisionOptions,
    machine: &Machine,
    engine: &Engine,
    base: &Base,
    lock: &Lock,
) -> Result<Ready, Denied> {
    let dockerfile = paths.docker().join("Dockerfile");
    let recipe = Digest::of_file(&dockerfile).map_err(anyhow::Error::from)?;
    let key = Digest::of(format!("docker\n{}\n{}\n{recipe}\n", base.digest(), lock.digest));
    let tag = format!("assay:{}", key.short());
    let (made, cached) = match made(engine, &tag, &key)? {
        Some(made) => (made, true),
        None => {
            let (context, _) = wheels(paths, options, machine, lock)?;
            build(options, engine, base, &dockerfile, &context, &key, &tag)?;
            let made = made(engine, &tag, &key)?;
            (
                made.ok_or_else(|| {
                    fail(ExitCode::Environment, format!("docker build made no {tag}"), "docker images assay")
                })?,
                false,
            )
        }
    };
    let root = PathBuf::from(TOOLKIT_ROOT);
    let toolkit = Toolkit {
        origin: "wheels".into(),
        nvcc: root.join("bin/nvcc"),
        root,
        sanitizer: made.sanitizer,
        lock: lock.digest,
    };
    let why = format!("the wheels of docker/toolkit.lock, in {tag} on {}", base.reference);
    Ok(Ready { image: made.id, toolkit, why, key, cached })
}

/// An image that we built.
struct Made {
    id: ImageId,
    sanitizer: Option<PathBuf>,
}

fn made(engine: &Engine, tag: &str, key: &Digest) -> Result<Option<Made>> {
    let image = engine.image(tag)?;
    Ok(image.and_then(|image| {
        let labels = image.config.labels.unwrap_or_default();
        let sanitizer = labels.get(SANITIZER_LABEL).filter(|path| !path.is_empty()).map(PathBuf::from);
        (labels.get(KEY_LABEL) == Some(&key.to_string())).then_some(Made { id: image.id, sanitizer })
    }))
}

fn build(
    options: &ProvisionOptions,
    engine: &Engine,
    base: &Base,
    dockerfile: &Path,
    context: &Path,
    key: &Digest,
    tag: &str,
) -> Result<()> {
    let sanitizer = sanitizer_below(&context.join("nvidia/cu13"))
        .and_then(|path| Some(Path::new(TOOLKIT_ROOT).join(path.strip_prefix(context.join("nvidia/cu13")).ok()?)));
    let sanitizer = sanitizer.unwrap_or_default();
    let args = [
        "build".to_owned(),
        "--network=none".to_owned(),
        format!("--file={}", dockerfile.display()),
        format!("--build-arg=BASE={}", base.reference),
        format!("--label={KEY_LABEL}={key}"),
        format!("--label={SANITIZER_LABEL}={}", sanitizer.display()),
        format!("--tag={tag}"),
        context.display().to_string(),
    ];
    let child = Child {
        program: engine.docker.clone(),
        args: args.to_vec(),
        env: engine.env.clone(),
        dir: context.to_owned(),
        deadline: Duration::from_secs(900),
        hold_stdin: false,
    };
    let ended = patiently(engine, options.quiet, &child)?;
    if ended.code == Some(0) {
        return Ok(());
    }
    Err(failed(&format!("docker build of {tag}"), &ended))
}

/// PATH is stated, not inherited: the toolkit, then a Rust past rustup's proxies (they would look for the network), then the base's.
fn environment(
    machine: &Machine,
    paths: &Paths,
    ready: &Ready,
    facts: &BaseFacts,
) -> (Vec<(String, String)>, Vec<PathBuf>) {
    let own = facts.sysroot.clone();
    let mounted = if own.is_none() { host_sysroot(machine, paths) } else { None };
    let mut path = vec![ready.toolkit.root.join("bin")];
    path.extend(own.iter().chain(&mounted).map(|sysroot| sysroot.join("bin")));
    path.extend(std::env::split_paths(&facts.path));
    let path = path.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(":");
    let mut env = vec![("PATH".into(), path), ("HOME".into(), "/tmp".into()), ("LC_ALL".into(), "C.UTF-8".into())];
    env.extend(machine.var("CUDA_VISIBLE_DEVICES").map(|gpus| ("CUDA_VISIBLE_DEVICES".into(), gpus.into())));
    (env, mounted.into_iter().collect())
}

fn record(
    facts: &EngineFacts,
    base: &Base,
    image: &ImageId,
    dockerfile: Digest,
    gpu_access: &GpuAccess,
    limits: &[String],
) -> Container {
    Container {
        engine: facts.line(),
        base: base.reference.clone(),
        base_digest: base.digest(),
        base_local: base.pin.is_none(),
        image_id: Some(image.to_string()),
        storage_driver: Some(facts.driver.clone()).filter(|driver| !driver.is_empty()),
        dockerfile,
        gpu_access: gpu_access.name().into(),
        hardening: HARDENING.iter().map(|flag| (*flag).to_owned()).chain(limits.iter().cloned()).collect(),
    }
}

fn say_swept(options: &ProvisionOptions, swept: std::thread::Result<Result<Vec<String>>>) -> Result<()> {
    let swept = swept.map_err(|_| anyhow::anyhow!("sweeping old containers panicked"))??;
    if !options.quiet {
        swept.iter().for_each(|name| host::tell!("removed container {name}, which a killed run left"));
    }
    Ok(())
}
