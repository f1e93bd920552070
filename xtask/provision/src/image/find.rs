//! Which base image: the one asked for, else the pinned one, else a local one, else the pinned one pulled.

use crate::patience::patiently;
use crate::toolkit::too_old;
use crate::{LOCAL_BASE, ProvisionOptions};
use anyhow::Result;
use host::container::{Engine, ImageId, RegistryDigest, failed, refused};
use host::failure::{Denied, fail};
use host::paths::Paths;
use host::process::{Child, Ended};
use schema::ExitCode;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use words::docker_says::Kind;

/// The pinned base whose CUDA older drivers run.
const OLDER_BASE: &str = "cuda12";

/// `docker/image.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseLock {
    /// Format version.
    pub format: u32,
    /// The pinned bases; the first is the default.
    pub base: Vec<PinnedBase>,
}

/// One pinned base.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedBase {
    /// The name that `--base` takes.
    pub name: String,
    /// Repository and tag; the tag is for people, only the digest counts.
    pub image: String,
    /// The registry's digest.
    pub digest: RegistryDigest,
}

/// A base that the engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// What `FROM` takes.
    pub(super) reference: String,
    /// The registry's digest; absent for a local image, which is known by its id alone.
    pub(super) pin: Option<RegistryDigest>,
    /// Its id in this engine.
    pub(super) id: ImageId,
}

impl Base {
    /// What names its content: the registry's digest, or the id of a local image.
    pub(super) fn digest(&self) -> String {
        self.pin.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string)
    }
}

impl BaseLock {
    /// Reads the lock.
    ///
    /// # Errors
    /// When it is not a list of images by digest.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs_err::read_to_string(path)?;
        let bad = |what: String| {
            fail(ExitCode::Config, format!("{}: {what}", path.display()), "git checkout -- docker/image.lock")
        };
        let lock: Self = toml::from_str(&text).map_err(|error| bad(error.to_string()))?;
        schema::check_format("docker/image.lock", lock.format)?;
        if lock.base.is_empty() {
            return Err(bad("it pins no base".into()));
        }
        Ok(lock)
    }
}

impl PinnedBase {
    /// The reference by digest alone: an engine then never asks what the tag is today.
    pub fn reference(&self) -> String {
        let repository = self.image.rsplit_once(':').map_or(self.image.as_str(), |(repository, _)| repository);
        format!("{repository}@{}", self.digest)
    }
}

/// The base to take.
pub(super) fn base(paths: &Paths, options: &ProvisionOptions, engine: &Engine) -> Result<Base, Denied> {
    let lock = BaseLock::read(&paths.docker().join("image.lock"))?;
    match &options.base {
        Some(name) => match lock.base.iter().find(|base| base.name == *name) {
            Some(pinned) => here(engine, pinned)?.map_or_else(|| pulled(options, engine, pinned), Ok),
            None => local(engine, name)?.ok_or_else(|| no_such_base(name, &lock)),
        },
        None if too_old(options.driver_cuda).is_some() => {
            let older = lock.base.iter().find(|base| base.name == OLDER_BASE);
            let older = older.ok_or_else(|| no_such_base(OLDER_BASE, &lock))?;
            here(engine, older)?.map_or_else(|| pulled(options, engine, older), Ok)
        }
        None => {
            let pinned = &lock.base[0];
            if let Some(base) = here(engine, pinned)? {
                return Ok(base);
            }
            // Somebody made the local base on purpose; asking a registry that is out of reach takes minutes.
            local(engine, LOCAL_BASE)?.map_or_else(|| pulled(options, engine, pinned), Ok)
        }
    }
}

/// The pinned base, if the engine has it, from whatever registry: the digest is what counts.
fn here(engine: &Engine, pinned: &PinnedBase) -> Result<Option<Base>, Denied> {
    let mut reference = pinned.reference();
    let mut image = engine.image(&reference).map_err(Denied::of)?;
    if image.is_none()
        && let Some(name) = engine.named_by(&pinned.digest).map_err(Denied::of)?
    {
        image = engine.image(&name).map_err(Denied::of)?;
        reference = name;
    }
    let Some(image) = image else { return Ok(None) };
    if !image.is_pinned_as(&pinned.digest) {
        let message = format!(
            "docker gives {} for {reference}, and does not say that a registry gave it under that digest (it lists {:?})",
            image.id,
            image.repo_digests.unwrap_or_default()
        );
        return Err(Denied::Refused(fail(
            ExitCode::Environment,
            message,
            format!("docker rmi {reference}, then again"),
        )));
    }
    Ok(Some(Base { reference, pin: Some(pinned.digest.clone()), id: image.id }))
}

fn local(engine: &Engine, reference: &str) -> Result<Option<Base>, Denied> {
    let image = engine.image(reference).map_err(Denied::of)?;
    Ok(image.map(|image| Base { reference: reference.into(), pin: None, id: image.id }))
}

fn pulled(options: &ProvisionOptions, engine: &Engine, pinned: &PinnedBase) -> Result<Base, Denied> {
    let make = "cargo xtask provision --make-base makes a local one from Debian packages";
    if options.offline {
        let message = format!("the base image {} is not here, and --offline forbids to pull it", pinned.image);
        return Err(Denied::cannot(message, make));
    }
    let reference = pinned.reference();
    if !options.quiet {
        host::tell!("pulling {reference}");
    }
    let child = Child {
        program: engine.docker.clone(),
        args: vec!["pull".into(), reference.clone()],
        env: engine.env.clone(),
        dir: "/".into(),
        deadline: Duration::from_secs(1200),
        hold_stdin: false,
    };
    let ended = patiently(engine, options.quiet, &child)?;
    if ended.code != Some(0) {
        return Err(not_pulled(engine, pinned, &ended));
    }
    here(engine, pinned)?.ok_or_else(|| Denied::cannot(format!("docker pulled {reference} and does not have it"), make))
}

fn not_pulled(engine: &Engine, pinned: &PinnedBase, ended: &Ended) -> Denied {
    let what = format!("the base image {} cannot be pulled", pinned.image);
    let as_id = engine.image(&pinned.digest.to_string());
    if let (Kind::ImageGone, Ok(Some(image))) = (refused(ended).kind, as_id) {
        let message =
            format!("{what}: {} is the id of an image here, and no registry knows an image by its id", image.id);
        let remedy = format!(
            "docker image inspect --format '{{{{.RepoDigests}}}}' {}; that digest goes into docker/image.lock",
            image.id
        );
        return Denied::cannot(message, remedy);
    }
    Denied::Cannot(failed(&what, ended))
}

fn no_such_base(name: &str, lock: &BaseLock) -> Denied {
    let names = lock.base.iter().map(|base| base.name.as_str()).collect::<Vec<_>>().join(", ");
    Denied::cannot(
        format!("no base {name}: it is neither an image of this engine nor pinned in docker/image.lock ({names})"),
        "docker images",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;

    #[test]
    fn the_lock_of_this_tree_pins_by_digest() {
        let lock = BaseLock::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/image.lock")).unwrap();
        assert!(lock.base[0].reference().starts_with("rust@sha256:"));
        assert!(lock.base[1].reference().starts_with("nvidia/cuda@sha256:"));
        assert!(lock.base.iter().any(|base| base.name == OLDER_BASE));
    }

    #[test]
    fn a_base_by_tag_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image.lock");
        for bad in [
            "format = 1\nbase = []\n",
            "format = 1\n[[base]]\nname = \"rust\"\nimage = \"rust:1\"\ndigest = \"latest\"\n",
        ] {
            std::fs::write(&file, bad).unwrap();
            assert_eq!(code_of(&BaseLock::read(&file).unwrap_err()), ExitCode::Config);
        }
    }
}
