//! What the harness is compiled with: its manifests as far as they decide code, the packages that the lock file pins for
//! them, and the compiler's version. Dependencies of tests are left out.

use super::{Reader, SHARED};
use anyhow::{Context, Result};
use schema::Digest;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// What of a manifest decides code.
const DECISIVE: [&str; 4] = ["dependencies", "build-dependencies", "features", "target"];

pub(super) fn parts(experiment: &str, read: &mut Reader<'_>) -> Result<BTreeMap<String, Digest>> {
    let mut parts = BTreeMap::new();
    let mut names = BTreeSet::new();
    let crates = SHARED.into_iter().chain([experiment]).map(|name| format!("harness/{name}/Cargo.toml"));
    for path in std::iter::once("harness/Cargo.toml".to_owned()).chain(crates) {
        let Some(mut manifest) = table(&path, read)? else { continue };
        manifest.retain(|section, _| DECISIVE.contains(&section));
        for section in ["dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get_mut(section).and_then(Value::as_table_mut) else { continue };
            let others: Vec<String> = dependencies.keys().filter(|name| *name != experiment).cloned().collect();
            for name in others {
                if is_experiment(&name, read)? {
                    dependencies.remove(&name);
                }
            }
            names.extend(dependencies.keys().cloned());
        }
        parts.insert(path, digest(&manifest)?);
    }
    let root = table("Cargo.toml", read)?.unwrap_or_default();
    parts.insert("Cargo.toml".to_owned(), digest(&workspace(root, &names))?);
    let lock = table("Cargo.lock", read)?.unwrap_or_default();
    parts.insert("Cargo.lock".to_owned(), digest(&locked(&lock, &names)?)?);
    if let Some(mut compiler) = table("rust-toolchain.toml", read)? {
        let channel = compiler.remove("toolchain").and_then(|toolchain| toolchain.get("channel").cloned());
        parts.insert("rust-toolchain.toml".to_owned(), digest(&channel)?);
    }
    Ok(parts)
}

/// Whether a dependency of the harness is an experiment's crate: it lies below `harness/` under its own name, and is not shared.
fn is_experiment(name: &str, read: &mut Reader<'_>) -> Result<bool> {
    Ok(!SHARED.contains(&name) && read(&format!("harness/{name}/Cargo.toml"))?.is_some())
}

fn table(path: &str, read: &mut Reader<'_>) -> Result<Option<Table>> {
    let text = read(path)?;
    text.map(|text| text.parse().with_context(|| format!("{path} does not parse"))).transpose()
}

fn digest(value: &impl serde::Serialize) -> Result<Digest> {
    // Keys of a table come sorted.
    Ok(Digest::of(serde_json::to_vec(value)?))
}

/// Of the workspace: the edition, the profiles, and what it says of these dependencies.
fn workspace(mut root: Table, names: &BTreeSet<String>) -> (Option<Value>, Option<Value>, Vec<(String, Value)>) {
    let profiles = root.remove("profile");
    let mut workspace = root.remove("workspace").and_then(|it| it.as_table().cloned()).unwrap_or_default();
    let edition = workspace.remove("package").and_then(|package| package.get("edition").cloned());
    let all = workspace.remove("dependencies").and_then(|it| it.as_table().cloned()).unwrap_or_default();
    (edition, profiles, all.into_iter().filter(|(name, _)| names.contains(name)).collect())
}

/// The packages of these names and all they depend on: name, version and checksum.
fn locked(lock: &Table, names: &BTreeSet<String>) -> Result<Vec<String>> {
    let packages = lock.get("package").and_then(Value::as_array).context("Cargo.lock names no package")?;
    let text = |package: &Value, key: &str| package.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut wanted: Vec<String> = names.iter().cloned().collect();
    let mut found = BTreeSet::new();
    while let Some(wish) = wanted.pop() {
        // A dependency is a name, and its version where the lock file holds several.
        let mut words = wish.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        let fits = |package: &&Value| {
            text(package, "name") == name && version.is_none_or(|version| text(package, "version") == version)
        };
        for package in packages.iter().filter(fits) {
            // The project's own crates are read as sources, and the tests of one would lead to what is not compiled in.
            let line = [text(package, "name"), text(package, "version"), text(package, "checksum")].join(" ");
            if package.get("source").is_some() && found.insert(line) {
                let more = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
                wanted.extend(more.filter_map(|it| it.as_str().map(str::to_owned)));
            }
        }
    }
    Ok(found.into_iter().collect())
}
