//! What changes a SASS digest and what does not, with the real compiler.

mod toolkit;

use proptest::prelude::*;
use pure::identity::{ptxas, sass};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const ARCHS: [&str; 3] = ["sm_80", "sm_90", "sm_121a"];

const SOURCE: &str = "
__constant__ float scale[4] = {1.f, 2.f, 3.f, 4.f};
static __device__ float hidden[2] = {5.f, 6.f};
static __device__ __noinline__ float helper(float x) { return x * 3.0f + scale[1] + hidden[0]; }
extern \"C\" __global__ void __launch_bounds__(128, 2) probe(float* out, const float* in, int n) {
  __shared__ float tile[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = in[i];
  __syncthreads();
  float x = tile[threadIdx.x ^ 1];
  if (i < n) out[i] = helper(x) + helper(x * x);
}
";

struct Bench {
    toolkit: PathBuf,
    folder: tempfile::TempDir,
    /// The original's digest on each architecture.
    originals: BTreeMap<&'static str, schema::Digest>,
}

impl Bench {
    fn new() -> Option<Self> {
        let mut bench =
            Self { toolkit: toolkit::find()?, folder: tempfile::tempdir().unwrap(), originals: BTreeMap::new() };
        bench.originals = ARCHS.map(|arch| (arch, bench.digest("a", SOURCE, arch, &[]))).into();
        Some(bench)
    }

    /// The digest of `probe` when `source` is compiled in `sub`.
    fn digest(&self, sub: &str, source: &str, arch: &str, more: &[&str]) -> schema::Digest {
        let folder = self.folder.path().join(arch).join(sub);
        let (cubin, log) = compile(&self.toolkit, &folder, "probe.cu", source, arch, more);
        let kernels = sass::kernels(&cubin, arch).unwrap();
        let usages = ptxas::parse(&log).unwrap();
        for kernel in &kernels {
            ptxas::cross_check(kernel, arch, &usages).unwrap();
        }
        kernels.into_iter().find(|kernel| kernel.symbol == "probe").unwrap().digest
    }

    /// Compares an edited source's digest with the original's, for every architecture.
    fn check(&self, what: &str, edited: &str, same: bool) {
        for arch in ARCHS {
            let equal = self.originals[arch] == self.digest("a", edited, arch, &[]);
            assert_eq!(equal, same, "{what} on {arch}");
        }
    }
}

/// Compiles `source`, written as `folder/name`, as the build step does; gives the cubin and ptxas' log.
fn compile(toolkit: &Path, folder: &Path, name: &str, source: &str, arch: &str, more: &[&str]) -> (Vec<u8>, String) {
    std::fs::create_dir_all(folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, source).unwrap();
    let out = folder.join("out.cubin");
    let mut command = Command::new(toolkit.join("bin/nvcc"));
    command.args(["-cubin", "-O3", "-std=c++17", "-Xptxas", "-v,-warn-spills"]).arg(format!("-arch={arch}"));
    let Output { status, stderr, .. } = command.args(more).arg("-o").arg(&out).arg(&file).output().unwrap();
    let log = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{log}");
    (std::fs::read(&out).unwrap(), log)
}

fn edit(from: &str, to: &str) -> String {
    assert!(SOURCE.contains(from), "{from}");
    SOURCE.replacen(from, to, 1)
}

#[test]
fn what_only_describes_keeps_the_digest() {
    let Some(bench) = Bench::new() else { return };
    bench.check("a comment", &edit("const int i", "/* why */ const int i"), true);
    bench.check("blank lines", &edit("\n", "\n\n\n"), true);
    for arch in ARCHS {
        let original = bench.originals[arch];
        assert_eq!(bench.digest("a", SOURCE, arch, &["-lineinfo"]), original, "-lineinfo on {arch}");
        assert_eq!(bench.digest("some/other folder", SOURCE, arch, &[]), original, "another folder on {arch}");
    }
}

#[test]
fn a_sibling_kernel_keeps_the_digest() {
    let Some(bench) = Bench::new() else { return };
    let sibling = "extern \"C\" __global__ void sibling(float* out) {
        extern __shared__ float dynamic[]; dynamic[threadIdx.x] = 1.f; __syncthreads(); out[0] = dynamic[threadIdx.x ^ 3]; }\n";
    bench.check("a kernel after", &format!("{SOURCE}{sibling}"), true);
    bench.check("a kernel before", &format!("{sibling}{SOURCE}"), true);
}

#[test]
fn what_is_executed_changes_the_digest() {
    let Some(bench) = Bench::new() else { return };
    bench.check("an instruction", &edit("helper(x * x)", "helper(x * x + 1.0f)"), false);
    bench.check("a launch bound", &edit("(128, 2)", "(256, 2)"), false);
    bench.check("a __constant__ initialiser", &edit("4.f}", "4.5f}"), false);
    bench.check("a __device__ initialiser", &edit("6.f}", "6.5f}"), false);
    bench.check("a called function", &edit("x * 3.0f", "x * 3.5f"), false);
    bench.check("the shared size", &edit("tile[128]", "tile[160]"), false);
    bench.check("a parameter", &edit("int n)", "int n, int unused)"), false);
}

#[test]
fn resources_are_those_the_compiler_states() {
    let Some(bench) = Bench::new() else { return };
    for arch in ARCHS {
        let (cubin, _) = compile(&bench.toolkit, bench.folder.path(), "probe.cu", SOURCE, arch, &[]);
        let kernels = sass::kernels(&cubin, arch).unwrap();
        let probe = &kernels[0];
        assert_eq!(
            (kernels.len(), probe.shared_bytes, probe.max_threads, probe.stack_bytes),
            (1, 512, 128, 0),
            "{arch}"
        );
        assert!((8..=64).contains(&probe.registers), "{}", probe.registers);
        assert!(probe.calls.iter().any(|name| name.contains("helper")), "{:?}", probe.calls);
        let wrong = sass::kernels(&cubin, "sm_86").unwrap_err().to_string();
        assert!(wrong.contains("not for sm_86"), "{wrong}");
    }
}

/// One cubin per architecture for the properties below, compiled once.
fn cubins() -> &'static BTreeMap<&'static str, Vec<u8>> {
    static CUBINS: OnceLock<BTreeMap<&'static str, Vec<u8>>> = OnceLock::new();
    CUBINS.get_or_init(|| {
        let Some(bench) = Bench::new() else { return BTreeMap::new() };
        let one = |arch| compile(&bench.toolkit, bench.folder.path(), "probe.cu", SOURCE, arch, &[]).0;
        ARCHS.into_iter().map(|arch| (arch, one(arch))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_cubins_never_panic(
        arch in prop::sample::select(&ARCHS[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        if let Some(real) = cubins().get(arch) {
            let mut bytes = real.clone();
            for (at, byte) in edits {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let _ = sass::kernels(&bytes, arch);
        }
    }
}

#[test]
fn every_damaged_header_byte_gives_an_answer() {
    for (arch, real) in cubins() {
        let tables = usize::try_from(u64::from_le_bytes(real[40..48].try_into().unwrap())).unwrap();
        for at in (0..64).chain(tables..real.len().min(tables + 3000)) {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = real.clone();
                bytes[at] = byte;
                let _ = sass::kernels(&bytes, arch);
            }
        }
    }
}
