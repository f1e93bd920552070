//! Facts of this repository, through the git program: no user configuration, no hooks, no network, a deadline.
//!
//! It only reads, except that it can make a worktree, which is removed when its value is dropped. What counts as
//! source is decided here: every tracked file but `manifests/`, `results/` and the Markdown at the root, which
//! commands append to or render.

mod blobs;

use super::files;
use super::process::{Child, Ended, find_program};
use crate::failure::fail;
use anyhow::{Context, Result, ensure};
use schema::{Digest, ExitCode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::altered::{MOST_POINTER_BYTES, lfs_pointer};

/// A repository's work tree.
#[derive(Clone, Debug)]
pub struct Git {
    root: PathBuf,
}

/// A file, link or submodule of a folder as of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its mode as git writes it: `100644` and `100755` are plain files.
    pub mode: String,
    /// The id of its content, or the commit of a submodule.
    pub id: String,
    /// Its bytes, where they were asked for; none for what is no file.
    pub bytes: u64,
    /// Its name below the folder.
    pub name: String,
}

/// The state of the source at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceState {
    /// The commit checked out, 40 hex digits.
    pub commit: String,
    /// Digest over the tracked source files as they lie on disk.
    pub digest: Digest,
    /// Whether every source file holds the committed bytes, and none is untracked.
    pub clean: bool,
    /// The source files that differ or are untracked, sorted.
    pub dirty: Vec<String>,
}

impl Git {
    /// The repository whose work tree has its root exactly at `root`; absent when there is none, or no git program.
    ///
    /// # Errors
    /// When there is a repository and git does not answer for it, which is not the same as its absence.
    pub fn at(root: &Path) -> Result<Option<Self>> {
        let git = Self { root: root.to_owned() };
        if !files::exists(&root.join(".git")) || find_program(Path::new("git"), &search()).is_none() {
            return Ok(None);
        }
        let top = git.text(&["rev-parse", "--show-toplevel"])?;
        ensure!(!top.trim_end().is_empty(), git.failed("rev-parse", "it said nothing"));
        Ok((fs_err::canonicalize(top.trim_end())? == fs_err::canonicalize(root)?).then_some(git))
    }

    /// The commit checked out.
    ///
    /// # Errors
    /// When there is no commit yet.
    pub fn head(&self) -> Result<String> {
        Ok(self.text(&["rev-parse", "--verify", "HEAD^{commit}"])?.trim().to_owned())
    }

    /// Whether history is cut off somewhere, so that "not known" and "no ancestor" mean nothing.
    ///
    /// # Errors
    /// When git fails.
    pub fn is_shallow(&self) -> Result<bool> {
        Ok(self.text(&["rev-parse", "--is-shallow-repository"])?.trim() == "true")
    }

    /// Whether history is cut off right at this commit, so that all it holds seems to have come with it.
    ///
    /// # Errors
    /// When git fails, or the list of such commits cannot be read.
    pub fn is_cut_at(&self, commit: &str) -> Result<bool> {
        let file = self.root.join(self.text(&["rev-parse", "--git-path", "shallow"])?.trim_end());
        Ok(files::exists(&file) && files::read_text(&file)?.lines().any(|line| line == commit))
    }

    /// Whether the repository holds this commit.
    ///
    /// # Errors
    /// When git cannot be run.
    pub fn knows(&self, commit: &str) -> Result<bool> {
        ensure!(is_commit_id(commit), "{commit:?} is not a commit id of 40 hex digits");
        Ok(self.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")])?.code == Some(0))
    }

    /// Whether `ancestor` is `descendant` or one of its ancestors.
    ///
    /// # Errors
    /// When git cannot be run or does not know a commit.
    pub fn is_ancestor(&self, ancestor: &str, descendant: &str) -> Result<bool> {
        let ended = self.run(&["merge-base", "--is-ancestor", ancestor, descendant])?;
        match ended.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(self.failed("merge-base", &ended.stderr)),
        }
    }

    /// The commits reachable from `commit` that changed `path`, children before parents.
    ///
    /// # Errors
    /// When git fails.
    pub fn commits_touching(&self, commit: &str, path: &str) -> Result<Vec<String>> {
        let text = self.text(&["log", "--topo-order", "--format=%H", commit, "--", path])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// A text file as of a commit; absent when the commit has no such file.
    ///
    /// # Errors
    /// When git cannot be run, or cannot read a file that the commit has.
    pub fn file_at(&self, commit: &str, path: &str) -> Result<Option<String>> {
        let ended = self.run(&["cat-file", "blob", &format!("{commit}:{path}")])?;
        if ended.code == Some(0) {
            return Ok(Some(ended.stdout));
        }
        let listed = self.text(&["ls-tree", "-z", "--full-tree", commit, "--", path])?;
        if listed.is_empty() { Ok(None) } else { Err(self.failed("cat-file", &ended.stderr)) }
    }

    /// What a folder holds as of a commit, to all depths; absent when the commit has no such folder.
    ///
    /// # Errors
    /// When git cannot be run, or lists more than is kept of what it prints.
    pub fn folder_at(&self, commit: &str, folder: &str) -> Result<Option<Vec<TreeEntry>>> {
        let tree = format!("{commit}:{folder}");
        let kind = self.run(&["cat-file", "-t", &tree])?;
        if kind.code != Some(0) || kind.stdout.trim() != "tree" {
            return Ok(None);
        }
        self.tree(&["-l"], &tree).map(Some)
    }

    /// Writes a folder as of a commit into a tar archive, by names below that folder.
    ///
    /// # Errors
    /// When git fails.
    pub fn archive(&self, commit: &str, folder: &str, to: &Path) -> Result<()> {
        let to = to.to_str().context("the archive's path is not UTF-8")?;
        self.text(&["archive", "--format=tar", "-o", to, &format!("{commit}:{folder}")]).map(drop)
    }

    /// The files that git tracks once everything below `folders` is added, as far as they are there, with their bytes.
    ///
    /// # Errors
    /// When git fails.
    pub fn tree_with(&self, folders: &[&str]) -> Result<BTreeMap<String, u64>> {
        let others = ["ls-files", "-z", "--others", "--exclude-standard", "--"];
        let mut names = self.names(&["ls-files", "-z", "--cached"])?;
        names.extend(self.names(&[&others[..], folders].concat())?);
        let there = |name: String| Some((fs_err::symlink_metadata(self.root.join(&name)).ok()?.len(), name));
        Ok(names.into_iter().filter_map(there).map(|(bytes, name)| (name, bytes)).collect())
    }

    /// Digest over the source files as a commit holds them: that of a checkout in which no byte differs from it. What git was told
    /// not to look at differs all the same, and so does what a filter of git's wrote in a file's place.
    ///
    /// # Errors
    /// When git cannot be run, does not know the commit, or lacks a file of it.
    pub fn source_digest_of(&self, commit: &str) -> Result<Digest> {
        let sources = self.sources_of(commit)?;
        let is_blob = |entry: &TreeEntry| entry.mode != "160000";
        let ids: Vec<&str> = sources.iter().filter(|entry| is_blob(entry)).map(|entry| entry.id.as_str()).collect();
        let mut contents = self.blobs(&ids)?.into_iter();
        let mut listing = String::new();
        for entry in &sources {
            let content = if is_blob(entry) { contents.next() } else { None };
            let _ = writeln!(listing, "{}  {}", on_disk(&entry.mode, content.as_deref()), entry.name);
        }
        Ok(Digest::of(listing))
    }

    /// Every version with which a file below `folder` came into history, on any line of it, with the commit that brought it.
    ///
    /// # Errors
    /// When git cannot be run, or lacks a version.
    pub fn additions_below(&self, folder: &str) -> Result<Vec<Addition>> {
        let format = "--format=commit %H";
        // For merges, list what is in none of their parents.
        let args =
            ["log", "-c", "--full-history", "--no-renames", "--raw", "--no-abbrev", format, "HEAD", "--", folder];
        let text = self.text(&args)?;
        let (mut commit, mut found) = ("", BTreeMap::new());
        for line in text.lines() {
            if let Some(id) = line.strip_prefix("commit ") {
                commit = id;
            }
            let Some((facts, name)) = line.split_once('\t').filter(|_| line.starts_with(':')) else { continue };
            // One colon for each parent; then the mode of each parent and of the merge, as many ids, and one letter
            // for each parent.
            let parents = facts.bytes().take_while(|byte| *byte == b':').count();
            let words: Vec<&str> = facts[parents..].split(' ').collect();
            let (id, status) = (words.get(2 * parents + 1), words.last());
            if let (Some(id), true) = (id, status.is_some_and(|status| status.bytes().all(|letter| letter == b'A'))) {
                found.insert((name.to_owned(), (*id).to_owned()), commit.to_owned());
            }
        }
        let ids: Vec<&str> = found.keys().map(|(_, id)| id.as_str()).collect();
        let digests = self.blobs(&ids)?.into_iter().map(Digest::of);
        let addition = |(((name, _), commit), digest): ((&(String, String), &String), Digest)| Addition {
            name: name.clone(),
            commit: commit.clone(),
            digest,
        };
        Ok(found.iter().zip(digests).map(addition).collect())
    }

    /// Checks a commit out into a new folder below `folder`.
    ///
    /// # Errors
    /// When git fails.
    pub fn worktree(&self, commit: &str, folder: &Path) -> Result<Worktree> {
        let dir = tempfile::tempdir_in(folder)?;
        let tree = Worktree { git: self.clone(), dir };
        let place = tree.path().to_str().context("the worktree's path is not UTF-8")?;
        self.text(&["worktree", "add", "--quiet", "--detach", place, commit])?;
        Ok(tree)
    }

    /// The contents of blobs, in the order given.
    fn blobs(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>> {
        let wanted: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let mut said = Vec::new();
        let batch = self.child(&["cat-file", "--batch"]);
        let ended = batch.run_on_bytes(wanted.as_bytes(), &mut |bytes| said.extend_from_slice(bytes));
        let ended = ended.context("failed to run git")?;
        ensure!(ended.code == Some(0), self.failed("cat-file", &ended.stderr));
        blobs::contents(&said, ids.len())
    }

    /// The files below these paths that differ between a commit and the work tree.
    ///
    /// # Errors
    /// When git cannot be run or does not know the commit.
    pub fn changed_since(&self, commit: &str, paths: &[&str]) -> Result<Vec<String>> {
        let diff = ["diff", "--name-only", "--no-renames", "-z", commit, "--"];
        self.names(&[&diff[..], paths].concat())
    }

    /// Commit, digest and cleanliness of the source as it lies on disk.
    ///
    /// # Errors
    /// When git fails or a tracked file cannot be read.
    pub fn source_state(&self) -> Result<SourceState> {
        let commit = self.head()?;
        let dirty = self.dirty()?;
        Ok(SourceState { commit, digest: self.source_digest()?, clean: dirty.is_empty(), dirty })
    }

    /// The first tracked source file in whose place Git LFS left a pointer, because it has not fetched it.
    ///
    /// # Errors
    /// When git fails or a file cannot be read.
    pub fn first_pointer(&self) -> Result<Option<String>> {
        for name in self.sources()? {
            let path = self.root.join(&name);
            let small = fs_err::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MOST_POINTER_BYTES);
            if small && lfs_pointer(&files::read_plain(&path)?).is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// What differs from the commit. `git status` alone believes marks in the index (assume-unchanged, skip-worktree), compares
    /// what its filters make of a file, and leaves out what this clone alone excludes; so bytes and names are compared too.
    fn dirty(&self) -> Result<Vec<String>> {
        let status =
            ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames"];
        let status = self.names(&status)?;
        let mut dirty: BTreeSet<String> = status.iter().filter_map(|entry| entry.get(3..)).map(str::to_owned).collect();
        dirty.extend(self.names(&["ls-files", "--others", "-z", "--exclude-per-directory=.gitignore"])?);
        dirty.retain(|name| is_source(name));
        dirty.extend(self.altered()?);
        Ok(dirty.into_iter().collect())
    }

    /// The source files of the commit whose bytes on disk are others, or that are no plain files there.
    fn altered(&self) -> Result<Vec<String>> {
        let is_plain = |name: &str| fs_err::symlink_metadata(self.root.join(name)).is_ok_and(|m| m.is_file());
        let committed = self.sources_of("HEAD")?.into_iter();
        // Links and submodules are as `git status` says.
        let committed = committed.filter(|entry| entry.mode.starts_with("100"));
        let (there, gone): (Vec<TreeEntry>, Vec<_>) = committed.partition(|entry| is_plain(&entry.name));
        let mut altered: Vec<String> = gone.into_iter().map(|entry| entry.name).collect();
        for some in there.chunks(MOST_NAMES) {
            let mut args = vec!["hash-object", "--no-filters", "--"];
            args.extend(some.iter().map(|entry| entry.name.as_str()));
            let text = self.text(&args)?;
            let mut ids = text.lines();
            let others = some.iter().filter(|entry| ids.next() != Some(&entry.id));
            altered.extend(others.map(|entry| entry.name.clone()));
        }
        Ok(altered)
    }

    fn source_digest(&self) -> Result<Digest> {
        let names = self.sources()?;
        let paths: Vec<PathBuf> = names.iter().map(|name| self.root.join(name)).collect();
        let mut listing = String::new();
        for ((name, path), digest) in names.iter().zip(&paths).zip(files::digest_all(&paths)) {
            // A tracked symlink counts by its target; a tracked file that is missing counts as absent.
            let digest = match digest {
                Ok((digest, _)) => digest.to_string(),
                Err(_) => match fs_err::read_link(path) {
                    Ok(target) => format!("link {}", target.display()),
                    Err(_) => "absent".to_owned(),
                },
            };
            let _ = writeln!(listing, "{digest}  {name}");
        }
        Ok(Digest::of(listing))
    }

    /// The tracked source files, by name.
    fn sources(&self) -> Result<BTreeSet<String>> {
        let tracked = self.names(&["ls-files", "-z", "--cached"])?;
        Ok(tracked.into_iter().filter(|name| is_source(name)).collect())
    }

    /// The source files of a commit, by name.
    fn sources_of(&self, commit: &str) -> Result<Vec<TreeEntry>> {
        let mut sources = self.tree(&[], commit)?;
        sources.retain(|entry| is_source(&entry.name));
        sources.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(sources)
    }

    /// All that lies below a tree, to all depths.
    fn tree(&self, options: &[&str], tree: &str) -> Result<Vec<TreeEntry>> {
        let entries = self.names(&[&["ls-tree", "-r", "-z", "--full-tree"], options, &[tree]].concat())?;
        entries.iter().map(|entry| tree_entry(entry).with_context(|| format!("git lists {entry:?}"))).collect()
    }

    /// What git prints with `-z`, in its pieces.
    fn names(&self, args: &[&str]) -> Result<Vec<String>> {
        let text = self.text(args)?;
        Ok(text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    fn text(&self, args: &[&str]) -> Result<String> {
        let ended = self.run(args)?;
        if ended.code == Some(0) { Ok(ended.stdout) } else { Err(self.failed(args[0], &ended.stderr)) }
    }

    /// A git that fails is this machine's fault, and says nothing of what it was asked.
    fn failed(&self, what: &str, said: &str) -> anyhow::Error {
        let root = self.root.display();
        let message = format!("git {what} failed in {root}: {}", said.trim());
        fail(ExitCode::Environment, message, format!("git -C {root} status; git -C {root} fsck"))
    }

    fn run(&self, args: &[&str]) -> Result<Ended> {
        let ended = self.child(args).run(&mut |_| {}).context("failed to run git")?;
        match ended.code {
            _ if ended.timed_out => Err(self.failed(args[0], "no answer within a minute")),
            None => Err(self.failed(args[0], "it was killed")),
            Some(_) => Ok(ended),
        }
    }

    fn child(&self, args: &[&str]) -> Child {
        // Command-line configuration is the only one that git trusts for `safe.directory`, and it wins over the repository's.
        let safe = format!("safe.directory={}", self.root.display());
        // Turns off everything in a repository's own configuration that could make git start programs, add to its
        // answers or change what counts as history.
        let fixed = [
            safe.as_str(),
            "core.fsmonitor=false",
            "core.hooksPath=/dev/null",
            "core.quotePath=false",
            "core.commitGraph=false",
            "log.showSignature=false",
            "log.follow=false",
        ];
        let fixed = fixed.into_iter().flat_map(|set| ["-c", set]);
        Child {
            program: "git".into(),
            args: fixed.chain(args.iter().copied()).map(str::to_owned).collect(),
            env: stated_environment(),
            dir: self.root.clone(),
            deadline: Duration::from_secs(60),
            hold_stdin: false,
        }
    }
}

/// A commit's files in a folder of their own, which knows the repository's history. Both are gone with this value.
#[derive(Debug)]
pub struct Worktree {
    git: Git,
    dir: tempfile::TempDir,
}

impl Worktree {
    /// Its root.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        let place = self.path().display().to_string();
        // This runs after an interruption too. If git fails, the folder is removed anyway, and git prunes its record
        // later.
        let _ = self.git.child(&["worktree", "remove", "--force", &place]).run_cleanup();
    }
}

/// So many names go on one command line.
const MOST_NAMES: usize = 500;

/// A file as it came into history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Its path below the root.
    pub name: String,
    /// The commit that brought it.
    pub commit: String,
    /// Digest of its bytes.
    pub digest: Digest,
}

/// What `source_digest` says of a file that was checked out from this content. Absent content is another repository's commit.
fn on_disk(mode: &str, content: Option<&[u8]>) -> String {
    let Some(content) = content else { return "absent".to_owned() };
    if mode == "120000" {
        return format!("link {}", String::from_utf8_lossy(content));
    }
    Digest::of(content).to_string()
}

/// Whether a tracked file counts as source.
#[must_use]
pub fn is_source(name: &str) -> bool {
    let prose = name.ends_with(".md") && (!name.contains('/') || name.starts_with("docs/"));
    !(prose || name.starts_with("manifests/") || name.starts_with("results/"))
}

/// `MODE TYPE OBJECT<tab>NAME`, with ` SIZE` before the tab where it was asked for: `-` of what has no bytes of its own.
fn tree_entry(line: &str) -> Option<TreeEntry> {
    let (facts, name) = line.split_once('\t')?;
    let (mode, id, bytes) = match facts.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [mode, _, id] | [mode, _, id, "-"] => (mode, id, 0),
        [mode, _, id, bytes] => (mode, id, bytes.parse().ok()?),
        _ => return None,
    };
    Some(TreeEntry { mode: mode.to_owned(), id: id.to_owned(), bytes, name: name.to_owned() })
}

/// Whether a text is a commit's whole id, 40 hex digits.
pub fn is_commit_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn stated_environment() -> Vec<(String, String)> {
    let fixed = [
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_GRAFT_FILE", "/dev/null"),
        // Both keep git from fetching; older versions know only the second.
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
    ];
    let fixed = fixed.map(|(key, value)| (key.to_owned(), value.to_owned()));
    fixed.into_iter().chain([("PATH".to_owned(), search())]).collect()
}

fn search() -> String {
    std::env::var_os("PATH").map_or_else(|| "/usr/bin:/bin".to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
