//! `build/resources.json`: registers, shared memory, spills and SASS digest of each kernel on each architecture.

use crate::Digest;
use serde::{Deserialize, Serialize};

/// Everything the build step learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildRecord {
    /// Format version.
    pub format: u32,
    /// The compiler's own version line, e.g. `Cuda compilation tools, release 13.0, V13.0.88`.
    pub nvcc: String,
    /// Where the toolkit came from: `wheels`, `image`, `box` or `bundle`.
    pub toolkit: String,
    /// Digest of `docker/toolkit.lock`.
    pub toolkit_lock: Digest,
    /// The files built.
    pub cubins: Vec<Cubin>,
    /// The kernels in them.
    pub kernels: Vec<Kernel>,
    /// Digest of the harness binary.
    pub harness: Digest,
    /// Compiler flags for measured cubins, in order.
    pub flags: Vec<String>,
    /// First line of the host compiler's `--version`, which preprocesses kernels; absent when it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_compiler: Option<String>,
    /// What the compiler said of measured cubins although it made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advisories: Vec<Advisory>,
}

/// Something the compiler said that changes what is measured, e.g. that instructions are serialized or a limit was raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advisory {
    /// Kernel file relative to `kernels/`, without suffix.
    pub file: String,
    /// Architecture.
    pub arch: String,
    /// The kernel or function it speaks of; absent where it speaks of the whole file.
    pub function: Option<String>,
    /// Its number, e.g. `C7510`; absent where it has none.
    pub code: Option<String>,
    /// Its words.
    pub text: String,
}

/// One cubin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cubin {
    /// Kernel file relative to `kernels/`, without suffix, e.g. `preempt/yield`.
    pub file: String,
    /// Architecture, e.g. `sm_90`.
    pub arch: String,
    /// `measure` or `lineinfo`.
    pub flavor: String,
    /// Path below the build folder.
    pub path: String,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Absolute paths in it that are neither its source's nor the toolkit's: with them its bytes depend on where it was built.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub foreign_paths: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One kernel on one architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Kernel file relative to `kernels/`, without suffix.
    pub file: String,
    /// The symbol.
    pub symbol: String,
    /// Architecture.
    pub arch: String,
    /// SASS digest (equal in both flavors, or the build fails).
    pub sass_digest: Digest,
    /// Registers per thread.
    pub registers: u32,
    /// Spilled bytes (stores plus loads).
    pub spill_bytes: u32,
    /// Stack bytes per thread.
    pub stack_bytes: u32,
    /// Static shared memory in bytes.
    pub shared_bytes: u32,
    /// Threads per block from the launch bounds.
    pub max_threads: u32,
    /// Resident blocks per SM, computed from registers, shared memory and threads.
    pub blocks_per_sm: u32,
}

/// `kernels/<experiment>/budget.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetFile {
    /// Format version.
    pub format: u32,
    /// Budgets, one a kernel.
    pub kernel: Vec<Budget>,
}

/// What a kernel may use, and what it must reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Kernel file relative to the budget's folder, without suffix.
    pub file: String,
    /// The symbol.
    pub symbol: String,
    /// Most registers per thread.
    pub registers: u32,
    /// Most static shared bytes.
    pub shared_bytes: u32,
    /// Fewest resident blocks per SM.
    pub blocks_per_sm: u32,
    /// Fewest resident blocks per SM where an architecture has smaller SMs, by architecture.
    #[serde(default)]
    pub blocks_per_sm_on: std::collections::BTreeMap<String, u32>,
    /// Lowest architecture, e.g. `sm_80`.
    pub min_arch: String,
}
