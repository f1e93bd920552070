//! Checks of the repository itself: what is tracked, how large it is, that the notebook only grew, that each source
//! file is a module and says what it is for, that links lead somewhere, and that every figure in prose says what it
//! is. It only reads and repairs nothing.

mod names;

use super::shell;
use crate::runs::published;
use anyhow::Result;
use host::paths::Paths;
use pure::book::prose::{self, Wrong};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xshell::cmd;

/// The tracked tree stays under this, so that it travels to a GPU box together with a Docker engine.
pub(crate) const TREE_LIMIT_BYTES: u64 = 16 << 20;
/// Folders and endings that are never tracked.
const NEVER_TRACKED: &[&str] = &["target/", "results/raw/"];
const NEVER_TRACKED_ENDINGS: &[&str] = &[".cubin", ".fatbin", ".ptx", ".o", ".so", ".partial"];

/// Endings of pages and pictures.
const NEVER_READ: &[&str] = &[
    "markdown", "mdown", "mkd", "mdx", "rst", "adoc", "asciidoc", "org", "textile", "html", "htm", "ipynb", "pdf",
    "svg", "png", "jpg", "jpeg", "gif", "webp",
];

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the root.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
}

/// Every finding in the checkout at `paths`.
///
/// # Errors
/// When git does not answer or a tracked file cannot be read.
pub fn tidy(paths: &Paths) -> Result<Vec<Finding>> {
    let tracked = tracked_files(paths.root())?;
    let mut findings = Vec::new();
    findings.extend(wrongly_tracked(&tracked));
    findings.extend(unread(&tracked));
    findings.extend(too_large(paths.root(), &tracked, TREE_LIMIT_BYTES));
    findings.extend(notebook_shrunk(paths)?);
    for name in &tracked {
        let path = paths.root().join(name);
        if name.ends_with(".rs") && is_module(name) {
            findings.extend(module_without_header(name, &fs_err::read_to_string(&path)?));
        }
        if name.ends_with(".md") {
            findings.extend(dead_links(paths.root(), name, &fs_err::read_to_string(&path)?));
        }
    }
    findings.extend(orphans(paths.root(), &tracked)?);
    findings.extend(names::told(paths, &tracked)?);
    findings.extend(numbers(paths, &tracked)?);
    let kernels = crate::steps::build::kernels_forbidden(&paths.kernels())?;
    findings.extend(kernels.into_iter().map(|found| Finding { path: found.path, what: found.what }));
    Ok(findings)
}

fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let sh = shell(root)?;
    let listed = cmd!(sh, "git {SAFE...} ls-files -z").read()?;
    Ok(listed.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The checkout is the user's own choice, whoever owns its files. Of git only commands are used that no configuration changes.
const SAFE: [&str; 2] = ["-c", "safe.directory=*"];

fn wrongly_tracked(tracked: &[String]) -> Vec<Finding> {
    let wrong = |name: &&String| {
        NEVER_TRACKED.iter().any(|folder| name.starts_with(folder))
            || NEVER_TRACKED_ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let finding = |name: &String| Finding { path: name.clone(), what: "build and raw outputs are not tracked".into() };
    tracked.iter().filter(wrong).map(finding).collect()
}

/// Pages and pictures that people look at and in which no figure is checked. Figures of published runs are recomputed.
fn unread(tracked: &[String]) -> Vec<Finding> {
    let is_unread = |name: &&String| {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let shown = NEVER_READ.contains(&ending.to_lowercase().as_str()) && !name.starts_with("results/summary/");
        shown || (ending != "md" && ending.eq_ignore_ascii_case("md"))
    };
    let what = "a figure in it would not be checked: write it in a file that ends in .md";
    tracked.iter().filter(is_unread).map(|name| Finding { path: name.clone(), what: what.into() }).collect()
}

fn too_large(root: &Path, tracked: &[String], limit: u64) -> Option<Finding> {
    let bytes = |name: &String| fs_err::symlink_metadata(root.join(name)).map_or(0, |meta| meta.len());
    let total: u64 = tracked.iter().map(bytes).sum();
    let what = format!("the tracked tree has {total} bytes, and {limit} are allowed");
    (total > limit).then(|| Finding { path: ".".into(), what })
}

/// Every committed notebook, on any line of history, must be a prefix of the one in the work tree. Full history: a merge that
/// takes the older side would otherwise hide what the other side had added.
fn notebook_shrunk(paths: &Paths) -> Result<Vec<Finding>> {
    let Ok(now) = fs_err::read(paths.notebook()) else {
        return Ok(vec![Finding { path: "NOTEBOOK.md".into(), what: "it is gone, and it is append-only".into() }]);
    };
    let sh = shell(paths.root())?;
    if cmd!(sh, "git {SAFE...} rev-parse --is-shallow-repository").read()? == "true" {
        host::tell!("skipped: NOTEBOOK.md is not compared with commits that this shallow clone lacks");
    }
    let commits = cmd!(sh, "git {SAFE...} rev-list --full-history HEAD -- NOTEBOOK.md").read()?;
    let mut findings = Vec::new();
    for commit in commits.lines() {
        // A commit that removed the file lists nothing.
        if cmd!(sh, "git {SAFE...} ls-tree --name-only {commit} NOTEBOOK.md").read()?.is_empty() {
            continue;
        }
        let old = cmd!(sh, "git {SAFE...} cat-file blob {commit}:NOTEBOOK.md").output()?.stdout;
        if !now.starts_with(&old) {
            let what = format!("it is append-only, and some of what commit {} holds was changed", &commit[..12]);
            findings.push(Finding { path: "NOTEBOOK.md".into(), what });
        }
    }
    Ok(findings)
}

/// Regions and references show what is published, and every figure with a unit says what it is.
///
/// The notebook's prose is left as it is: an entry's kind says whether its numbers are projected or measured, its fields
/// name the run, and nothing in it can be mended later. What it refers to must resolve all the same.
fn numbers(paths: &Paths, tracked: &[String]) -> Result<Vec<Finding>> {
    let runs = published::runs(paths)?;
    let numbers = published::numbers(paths, &runs)?;
    let read = |name: &str| fs_err::read_to_string(paths.root().join(name));
    let mut cited = BTreeSet::new();
    for name in tracked.iter().filter(|name| name.starts_with("harness/experiments/") && name.ends_with("/FINDINGS.md"))
    {
        cited.extend(prose::sources(&read(name)?));
    }
    let mut findings = Vec::new();
    for name in tracked.iter().filter(|name| name.ends_with(".md")) {
        let text = read(name)?;
        let mut wrong = prose::resolve(&text, &numbers).1;
        if paths.root().join(name) != paths.notebook() {
            wrong.extend(prose::untyped(name, &text, &cited, &numbers));
        }
        let finding = |wrong: Wrong| Finding { path: format!("{name}:{}", wrong.line), what: wrong.what };
        findings.extend(wrong.into_iter().map(finding));
    }
    if findings.is_empty() {
        for (path, text) in published::rendered(paths, &runs)? {
            if fs_err::read_to_string(&path)? != text {
                let what = "a region is not what the manifests give: cargo xtask tidy --write".to_owned();
                findings.push(Finding { path: path.strip_prefix(paths.root())?.display().to_string(), what });
            }
        }
    }
    Ok(findings)
}

fn is_module(name: &str) -> bool {
    name.contains("/src/") || name.contains("/tests/")
}

fn module_without_header(name: &str, text: &str) -> Option<Finding> {
    let what = "a module opens with what it is for (//!)".to_owned();
    (!text.starts_with("//!")).then(|| Finding { path: name.to_owned(), what })
}

fn dead_links(root: &Path, name: &str, text: &str) -> Vec<Finding> {
    let folder = root.join(name).parent().map_or_else(|| root.to_path_buf(), Path::to_path_buf);
    let mut findings = Vec::new();
    for target in prose::links(text) {
        let outside = target.contains("://") || target.starts_with('#') || target.starts_with("mailto:");
        let file: PathBuf = folder.join(target.split('#').next().unwrap_or_default());
        if !outside && !file.exists() {
            findings.push(Finding { path: name.to_owned(), what: format!("its link to {target:?} leads nowhere") });
        }
    }
    findings
}

/// Source files that no module names. Cargo does not compile them, so no test in them runs.
fn orphans(root: &Path, tracked: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in tracked.iter().filter(|name| name.ends_with(".rs") && !is_crate_root(name)) {
        // The module's name and folder: `folder/module.rs` or `folder/module/mod.rs`.
        let module = name.strip_suffix("/mod.rs").or_else(|| name.strip_suffix(".rs")).unwrap_or(name);
        let (folder, module) = module.rsplit_once('/').unwrap_or(("", module));
        let in_folder = |other: &str| other.rsplit_once('/').is_some_and(|(other, _)| other == folder);
        let may_name = |other: &&String| {
            **other == format!("{folder}.rs")
                || **other == format!("{folder}/mod.rs")
                || (in_folder(other) && other.ends_with(".rs") && is_crate_root(other))
        };
        let mut named = false;
        for other in tracked.iter().filter(may_name) {
            let text = fs_err::read_to_string(root.join(other))?;
            let declares = |line: &str| line == format!("mod {module};") || line.ends_with(&format!(" mod {module};"));
            named |= text.lines().map(str::trim).any(|line| !line.starts_with("//") && declares(line));
        }
        if !named {
            let what = format!("no module names it, so it is not compiled: add `mod {module};`, or remove the file");
            findings.push(Finding { path: name.clone(), what });
        }
    }
    Ok(findings)
}

/// Whether cargo compiles a file by itself, as it does libraries, programs, and the files directly in `tests/` or `benches/`.
fn is_crate_root(name: &str) -> bool {
    match (name.split_once("/src/"), name.split_once("/tests/")) {
        (Some((_, file)), _) => matches!(file, "lib.rs" | "main.rs") || file.starts_with("bin/"),
        (None, Some((_, file))) => !file.contains('/'),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        if !root.join(".git").exists() {
            eprintln!("skipped: not a git checkout");
            return;
        }
        assert_eq!(tidy(&Paths::new(root)).unwrap(), Vec::new());
    }

    #[test]
    fn tracked_outputs_are_found() {
        let tracked = ["results/raw/x/plan.toml", "a/b.cubin", "src/main.rs"].map(str::to_owned);
        assert_eq!(wrongly_tracked(&tracked).len(), 2);
    }

    #[test]
    fn a_tree_over_its_limit_is_found() {
        let (dir, _) = repository();
        let tracked = tracked_files(dir.path()).unwrap();
        assert_eq!(too_large(dir.path(), &tracked, 14), None);
        let found = too_large(dir.path(), &tracked, 13).unwrap();
        assert_eq!(found.what, "the tracked tree has 14 bytes, and 13 are allowed");
    }

    #[test]
    fn pages_and_pictures_whose_figures_nobody_checks_are_found() {
        let tracked = ["README.MD", "docs/a.html", "docs/b.SVG", "c.rst", "results/events/r/d.png"].map(str::to_owned);
        assert_eq!(unread(&tracked).len(), tracked.len());
        let read = ["README.md", "results/summary/r/wait.svg", "src/md", "a.rs", "cmd"].map(str::to_owned);
        assert_eq!(unread(&read), []);
    }

    #[test]
    fn dead_links_and_missing_headers_are_found() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("there.md"), "").unwrap();
        let text = "[a](there.md) [b](gone.md) [c](https://example.org) [d](#here) `[e](as-code.md)`";
        assert_eq!(dead_links(dir.path(), "x.md", text).len(), 1);
        assert!(module_without_header("src/a.rs", "use std::fs;").is_some());
        assert!(module_without_header("src/a.rs", "//! For something.\n").is_none());
    }

    #[test]
    fn a_source_file_that_no_module_names_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("a/src/main.rs", "//! A.\nmod b;\npub(crate) mod c;\n// mod lost;\n"),
            ("a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
            ("a/src/b/tests.rs", ""),
            ("a/src/b/lost.rs", "mod tests;\n"),
            ("a/src/c/mod.rs", ""),
            ("a/src/lost.rs", ""),
            ("a/tests/whole.rs", "mod shared;\n"),
            ("a/tests/shared/mod.rs", ""),
            ("a/tests/lost/mod.rs", ""),
            ("a/benches/c.rs", ""),
        ];
        for (name, text) in files {
            fs_err::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs_err::write(dir.path().join(name), text).unwrap();
        }
        let found = orphans(dir.path(), &files.map(|(name, _)| name.to_owned())).unwrap();
        let found: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(found, ["a/src/b/lost.rs", "a/src/lost.rs", "a/tests/lost/mod.rs"]);
    }

    #[test]
    fn a_bare_figure_and_a_reference_to_nothing_are_found_by_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let put = |name: &str, text: &str| fs_err::write(dir.path().join(name), text).unwrap();
        fs_err::create_dir_all(dir.path().join("harness/experiments/x")).unwrap();
        put("harness/experiments/x/FINDINGS.md", "## Sources\n\n| key | source |\n|---|---|\n| a | b |\n");
        put("A.md", "# A\n\n5 us, 6 us [cited: a]\n`7 us`\n");
        put("B.md", "# B\n\nIt takes 5 us.\n<!-- assay:measured RUN x@y -->5 us<!-- /assay -->\n");
        put("NOTEBOOK.md", "# Notebook\n\nAbout 5 us.\n");
        let tracked = ["harness/experiments/x/FINDINGS.md", "A.md", "B.md", "NOTEBOOK.md"].map(str::to_owned);
        let found: Vec<String> = numbers(&paths, &tracked).unwrap().into_iter().map(|found| found.path).collect();
        assert_eq!(found, ["B.md:4", "B.md:3"]);
    }

    const IDENTITY: [&str; 4] = ["-c", "user.name=t", "-c", "user.email=t@example.org"];

    fn git(dir: &Path, args: &[&str]) {
        let (sh, path) = (shell(dir).unwrap(), std::env::var_os("PATH").unwrap());
        let git = cmd!(sh, "git {IDENTITY...} {args...}").env_clear().env("PATH", path);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").quiet().run().unwrap();
    }

    fn commit(dir: &Path) {
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "-q", "-m", "x"]);
    }

    /// A repository whose notebook got three entries, one a commit.
    fn repository() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        git(dir.path(), &["init", "-q", "-b", "main"]);
        for text in ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"] {
            fs_err::write(paths.notebook(), text).unwrap();
            commit(dir.path());
        }
        (dir, paths)
    }

    #[test]
    fn a_notebook_that_lost_its_past_is_found() {
        let (dir, paths) = repository();
        fs_err::write(paths.notebook(), "one\ntwo\nthree\nfour\n").unwrap();
        assert!(notebook_shrunk(&paths).unwrap().is_empty());
        for (what, text, findings) in [
            ("edited", "one\nTWO\nthree\n", 2),
            ("moved", "two\none\nthree\n", 3),
            ("cut inside", "one\nthree\n", 2),
            ("cut at the end", "one\ntwo\n", 1),
            ("inserted", "one\nmore\ntwo\nthree\n", 2),
            ("emptied", "", 3),
        ] {
            fs_err::write(paths.notebook(), text).unwrap();
            assert_eq!(notebook_shrunk(&paths).unwrap().len(), findings, "{what}");
        }
        // Committing the change hides nothing, nor does removing the file.
        fs_err::write(paths.notebook(), "one\nthree\n").unwrap();
        commit(dir.path());
        assert_eq!(notebook_shrunk(&paths).unwrap().len(), 2);
        fs_err::remove_file(paths.notebook()).unwrap();
        assert_eq!(notebook_shrunk(&paths).unwrap().len(), 1);
        commit(dir.path());
        assert_eq!(notebook_shrunk(&paths).unwrap().len(), 1);
    }

    #[test]
    fn a_merge_that_takes_the_shorter_notebook_is_found() {
        let (dir, paths) = repository();
        git(dir.path(), &["checkout", "-q", "-b", "side", "main~1"]);
        fs_err::write(dir.path().join("other"), "x").unwrap();
        commit(dir.path());
        git(dir.path(), &["merge", "-q", "--no-ff", "-s", "ours", "-m", "x", "main"]);
        assert_eq!(fs_err::read_to_string(paths.notebook()).unwrap(), "one\ntwo\n");
        assert_eq!(notebook_shrunk(&paths).unwrap().len(), 1);
    }
}
