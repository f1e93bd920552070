//! Where things lie below the root: a checkout, or an unpacked bundle. No other module builds these paths.

use std::path::{Path, PathBuf};

/// The root and what lies below it.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// Paths below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Kernel sources.
    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// Plans, budgets and claims of one experiment.
    pub fn experiment(&self, name: &str) -> PathBuf {
        self.root.join("harness/experiments").join(name)
    }

    /// `docker/`.
    pub fn docker(&self) -> PathBuf {
        self.root.join("docker")
    }

    /// The toolkit lock.
    pub fn toolkit_lock(&self) -> PathBuf {
        self.docker().join("toolkit.lock")
    }

    /// What steps keep between commands: toolkit, wheels, builds, sanitizer verdicts, leases. Git-ignored.
    pub fn state(&self) -> PathBuf {
        self.root.join("target/assay")
    }

    /// Run directories.
    pub fn raw(&self) -> PathBuf {
        self.root.join("results/raw")
    }

    /// One run directory.
    pub fn run(&self, run: &str) -> PathBuf {
        self.raw().join(run)
    }

    /// Published manifests.
    pub fn manifests(&self) -> PathBuf {
        self.root.join("manifests")
    }

    /// Committed tables and figures.
    pub fn summary(&self) -> PathBuf {
        self.root.join("results/summary")
    }

    /// Committed events and logs.
    pub fn events(&self) -> PathBuf {
        self.root.join("results/events")
    }

    /// The notebook.
    pub fn notebook(&self) -> PathBuf {
        self.root.join("NOTEBOOK.md")
    }

    /// The record that makes this root an unpacked bundle.
    pub fn bundle_record(&self) -> PathBuf {
        self.root.join("bundle.json")
    }
}
