//! The build step and the bundle over a small checkout of their own, with the real compiler and cargo.

mod toolkit;

use host::container::HostRuntime;
use host::failure::{code_of, remedy_of};
use host::git::SourceState;
use host::gpu::toolkit::Toolkit;
use host::paths::Paths;
use schema::{Digest, ExitCode};
use std::path::{Path, PathBuf};
use xtask::steps::build::{self, BuildContext, Built};
use xtask::transfer::bundle;

const KERNEL: &str = "#include \"factor.cuh\"
extern \"C\" __global__ void __launch_bounds__(128) scale(float* out) { out[threadIdx.x] *= kFactor; }
extern \"C\" __global__ void __launch_bounds__(256) shared(float* out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
";
const BUDGET: &str = "format = 1
[[kernel]]
file = \"one\"
symbol = \"scale\"
registers = 32
shared_bytes = 0
blocks_per_sm = 8
min_arch = \"sm_80\"
[[kernel]]
file = \"one\"
symbol = \"shared\"
registers = 32
shared_bytes = 1024
blocks_per_sm = 4
min_arch = \"sm_80\"
";

/// A checkout with one kernel file and two programs that do nothing.
struct Checkout {
    dir: tempfile::TempDir,
    toolkit: Toolkit,
}

impl Checkout {
    fn new() -> Option<Self> {
        let checkout = Self::with(&toolkit::find()?);
        checkout.write("kernels/common/factor.cuh", "constexpr float kFactor = 3.0f;\n");
        checkout.write("kernels/toy/one.cu", KERNEL);
        checkout.write("kernels/toy/budget.toml", BUDGET);
        Some(checkout)
    }

    /// One without kernels.
    fn with(toolkit: &Path) -> Self {
        let toolkit = Toolkit {
            origin: "wheels".into(),
            nvcc: toolkit.join("bin/nvcc"),
            root: toolkit.to_owned(),
            sanitizer: None,
            lock: Digest::of("lock"),
        };
        let checkout = Self { dir: tempfile::tempdir().unwrap(), toolkit };
        checkout.write("README.md", "# Toy\n");
        checkout.write("harness/experiments/toy/plan.toml", "format = 1\n");
        checkout.write("harness/experiments/toy/claims.toml", "format = 1\n");
        checkout.write("Cargo.toml", "[workspace]\nmembers = [\"harness\", \"xtask\"]\nresolver = \"3\"\n");
        let mut lock = "version = 4\n".to_owned();
        for name in ["harness", "xtask"] {
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
            checkout.write(&format!("{name}/Cargo.toml"), &manifest);
            checkout.write(&format!("{name}/src/main.rs"), "fn main() {}\n");
            lock.push_str(&format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n"));
        }
        checkout.write("Cargo.lock", &lock);
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rust-toolchain.toml");
        checkout.write("rust-toolchain.toml", &std::fs::read_to_string(ours).unwrap());
        checkout
    }

    /// One whose nvcc is a script that writes what the real one wrote, and `then` in its place or on top.
    fn stubbed(then: &str) -> Self {
        let here = env!("CARGO_MANIFEST_DIR");
        let mut checkout = Self::with(Path::new("/nowhere"));
        let script = format!(
            "#!/bin/sh
case \"$*\" in
  *--version*) exec {here}/fixtures/fake/nvcc;;
  *-dryrun*) echo '#$ gcc -D__CUDA_ARCH__=900 -E -x c++ one.cu' >&2; exit 0;;
esac
env > {root}/env
while [ $1 != -o ]; do [ $1 = -lineinfo ] && lineinfo=-lineinfo; shift; done
out=$2
data={here}/testdata/nvcc/captured-13.0.88
cubin() {{ cp $data-tiny$lineinfo-sm_90.elf $out; }}
log() {{ cat $data-tiny-sm_90.log >&2; }}
{then}
",
            root = checkout.dir.path().display()
        );
        // Another process writes the program: were it open for writing in ours, a child forked meanwhile could keep it busy.
        checkout.write("bin/nvcc.source", &script);
        let at = |name: &str| checkout.dir.path().join(name);
        let mut install = std::process::Command::new("install");
        install.args(["-m", "755"]).args([at("bin/nvcc.source"), at("bin/nvcc")]);
        assert!(install.status().unwrap().success());
        checkout.toolkit.nvcc = at("bin/nvcc");
        checkout.write("kernels/toy/one.cu", "// The script does not read it.\n");
        checkout.write("kernels/toy/budget.toml", &BUDGET[..BUDGET.rfind("[[kernel]]").unwrap()].replace("= 8", "= 2"));
        checkout
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn build(&self) -> anyhow::Result<Built> {
        build_at(self.dir.path(), &["sm_90"], "key", Some(&self.toolkit))
    }

    fn cached(&self) -> bool {
        self.build().unwrap().cached
    }

    fn refused(&self, code: ExitCode, parts: &[&str]) {
        let error = self.build().unwrap_err();
        let text = format!("{error:#}");
        assert_eq!(code_of(&error), code, "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

/// Everything else than a zero exit code, a whole cubin for this architecture, and a log that says the same is refused.
#[test]
fn a_compiler_that_misbehaves_is_refused_with_what_to_do() {
    for (then, code, parts) in [
        ("cubin; log; exit 2", ExitCode::Build, &["toy/one.cu for sm_90"][..]),
        ("cubin; log; kill -9 $$", ExitCode::Build, &["ended by a signal"]),
        ("log", ExitCode::Build, &["exit code 0 without a cubin"]),
        (
            "cat $data-host-compiler-too-new.log >&2; exit 1",
            ExitCode::Build,
            &["gcc versions later than 15", "host compiler is newer"],
        ),
        ("cat $data-no-host-compiler.log >&2; exit 1", ExitCode::Build, &["nvcc found no host compiler"]),
        ("cat $data-unsupported-arch.log >&2; exit 1", ExitCode::Build, &["does not know the architecture"]),
        (
            "cat $data-wgmma-on-sm_90.log >&2; exit 255",
            ExitCode::Build,
            &["Instruction 'wgmma.fence' not supported", "ptxas wgmma.ptx"],
        ),
        ("cat $data-syntax-error.log >&2; exit 1", ExitCode::Build, &["incomplete type"]),
        (
            "cubin; log; echo 'ptxas fatal   : Memory allocation failure' >&2",
            ExitCode::Build,
            &["exit code 0, but it reported: ptxas fatal"],
        ),
        (": > $out; log", ExitCode::Build, &["not a cubin: an empty file"]),
        ("head -c 2000 $data-tiny-sm_90.elf > $out; log", ExitCode::Build, &["measure cubin: bad section table"]),
        ("cp $data-tiny-sm_90.ptx.txt $out; log", ExitCode::Build, &["not a cubin: PTX 9.0"]),
        ("cp /bin/true $out; log", ExitCode::Build, &["ELF machine", "without device code"]),
        ("head -c 4000 /dev/urandom > $out; log", ExitCode::Build, &["measure cubin: not a 64-bit ELF file"]),
        ("ln -s $data-tiny-sm_90.elf $out; log", ExitCode::Build, &["not a plain file"]),
        ("mkfifo $out; log", ExitCode::Build, &["not a plain file"]),
        ("cp $data-tiny-sm_80.elf $out; log", ExitCode::Build, &["cubin is for sm_80, not for sm_90"]),
        ("cp $data-toy-sm_90a.elf $out; log", ExitCode::Build, &["cubin is for sm_90a, not for sm_90"]),
        ("cp $data-toy-sm_90.elf $out; log", ExitCode::Build, &["ptxas -v does not mention kernel calls"]),
        ("cubin", ExitCode::Build, &["ptxas -v does not mention kernel scale"]),
        ("cubin; log; log", ExitCode::Build, &["kernel scale is compiled twice"]),
        ("cubin; log 2>&1 | sed s/sm_90/sm_90a/ >&2", ExitCode::Build, &["compiled for sm_90a and not for sm_90"]),
        (
            "cubin; log 2>&1 | sed 's/Used 8/Used 9/' >&2",
            ExitCode::Build,
            &["registers are 8 by the cubin and 9 by ptxas"],
        ),
        (
            "cubin; log 2>&1 | sed 's/0 bytes spill stores/8 bytes spill stores/' >&2",
            ExitCode::Build,
            &["8 spilled bytes, 0 allowed"],
        ),
        ("cubin; log 2>&1 | sed /Used/d >&2", ExitCode::Build, &["kernel scale states no registers"]),
    ] {
        let checkout = Checkout::stubbed(then);
        let error = checkout.build().unwrap_err();
        let text = format!("{error:#}");
        assert_eq!(code_of(&error), code, "{then}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{then}: {text}");
        assert!(remedy_of(&error).is_some_and(|remedy| !remedy.is_empty()), "{then}");
        assert!(!text.contains("tmpxft"), "{text}");
    }
}

#[test]
fn no_compiler_and_one_that_says_nothing_are_told_apart_from_a_broken_kernel() {
    let mut checkout = Checkout::stubbed("cubin; log");
    checkout.write("bin/nvcc.source", "");
    checkout.toolkit.nvcc = checkout.dir.path().join("bin/no-such-nvcc");
    checkout.refused(ExitCode::Environment, &["no-such-nvcc"]);
    let silent = Checkout::stubbed("cubin; log");
    let said = Toolkit { nvcc: "/bin/true".into(), ..silent.toolkit.clone() };
    let error = build_at(silent.dir.path(), &["sm_90"], "key", Some(&said)).unwrap_err();
    assert!(code_of(&error) == ExitCode::Environment && error.to_string().contains("did not answer"), "{error:#}");
}

#[test]
fn a_stub_s_good_build_records_advice_and_host_compiler_and_gets_no_foreign_flags() {
    let advice = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'scale'";
    let checkout = Checkout::stubbed(&format!("cubin; log; echo \"{advice}\" >&2"));
    // As an image's own environment would have it.
    let flags = ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"]
        .map(|name| (name.to_owned(), "-allow-unsupported-compiler".to_owned()));
    let env = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into_iter().chain(flags).collect();
    let built = with_context(checkout.dir.path(), &["sm_90"], "key", |ctx, _| {
        build::build(ctx, &HostRuntime { name: "host", env }, Some(&checkout.toolkit)).unwrap()
    });
    let seen = std::fs::read_to_string(checkout.dir.path().join("env")).unwrap();
    assert!(seen.contains("NVCC_APPEND_FLAGS=\n") && seen.contains("NVCC_PREPEND_FLAGS=\n"), "{seen}");
    let [said] = &built.record.advisories[..] else { panic!("{:?}", built.record.advisories) };
    assert_eq!(
        (said.file.as_str(), said.function.as_deref(), said.code.as_deref()),
        ("toy/one", Some("scale"), Some("C7510"))
    );
    assert!(build::notes(&built.record)[0].contains("toy/one scale on sm_90: (C7510) Potential"));
    assert!(built.record.host_compiler.is_some_and(|line| line.contains("gcc")));
}

#[test]
fn a_double_build_says_whether_its_bytes_are_the_same() {
    let again = |then: &str| {
        let checkout = Checkout::stubbed(then);
        let built = checkout.build().unwrap();
        with_context(checkout.dir.path(), &["sm_90"], "key", |ctx, runtime| {
            build::twice(ctx, runtime, Some(&checkout.toolkit), &built).unwrap()
        })
    };
    let told = |again: &[build::Again]| again.iter().map(|a| (a.deterministic, a.same_sass)).collect::<Vec<_>>();
    // The captured cubin with line information names the folder it was made in, which is none of this checkout's.
    assert_eq!(told(&again("cubin; log")), [(true, true), (false, true)]);
    assert_eq!(told(&again("cubin; head -c 16 /dev/urandom >> $out; log")), [(false, true); 2]);
    // A path that depends on where it was built, though not on when.
    let foreign = "cubin; printf '\\0/home/someone/kern.cu\\0' >> $out; log";
    assert_eq!(told(&again(foreign)), [(false, true); 2]);
}

#[test]
fn a_real_double_build_gives_the_same_bytes() {
    let Some(checkout) = Checkout::new() else { return };
    let built = checkout.build().unwrap();
    assert!(built.record.host_compiler.is_some() && build::notes(&built.record).is_empty(), "{:?}", built.record);
    let again = with_context(checkout.dir.path(), &["sm_90"], "key", |ctx, runtime| {
        build::twice(ctx, runtime, Some(&checkout.toolkit), &built).unwrap()
    });
    assert!(again.len() == 2 && again.iter().all(|a| a.deterministic && a.same_sass), "{again:?}");
}

fn build_at(root: &Path, archs: &[&str], key: &str, toolkit: Option<&Toolkit>) -> anyhow::Result<Built> {
    with_context(root, archs, key, |ctx, runtime| build::build(ctx, runtime, toolkit))
}

fn with_context<T>(
    root: &Path,
    archs: &[&str],
    key: &str,
    work: impl FnOnce(&BuildContext<'_>, &HostRuntime) -> T,
) -> T {
    let paths = Paths::new(root);
    let runtime = HostRuntime { name: "host", env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())] };
    let ctx = BuildContext {
        paths: &paths,
        archs: archs.iter().map(|arch| (*arch).to_owned()).collect(),
        environment_key: key.to_owned(),
        offline: true,
        jobs: 2,
        progress: &|_, _, _| {},
        experiment: None,
    };
    work(&ctx, &runtime)
}

#[test]
fn a_build_is_reused_until_something_it_depends_on_changes() {
    let Some(checkout) = Checkout::new() else { return };
    let root = checkout.dir.path();
    let first = checkout.build().unwrap();
    assert!(!first.cached);
    assert!(first.harness().is_file() && first.cubin("toy/one", "sm_90", "lineinfo").is_file());
    let kernels = &first.record.kernels;
    let facts: Vec<_> =
        kernels.iter().map(|k| (k.symbol.as_str(), k.shared_bytes, k.max_threads, k.blocks_per_sm)).collect();
    assert_eq!(facts, [("scale", 0, 128, 16), ("shared", 1024, 256, 8)]);
    let log = std::fs::read_to_string(first.dir.join("logs/sm_90/measure/toy/one.log")).unwrap();
    assert!(log.contains("ptxas info") && !log.contains(root.to_str().unwrap()), "{log}");

    assert!(checkout.cached());
    checkout.write("README.md", "# Other words\n");
    checkout.write("harness/experiments/toy/plan.toml", "format = 1 # another plan\n");
    assert!(checkout.cached(), "neither README nor a plan is part of a build");

    checkout.write("kernels/toy/one.cu", &format!("// A comment.\n{KERNEL}"));
    let commented = checkout.build().unwrap();
    assert!(!commented.cached);
    assert_eq!(commented.record.kernels, first.record.kernels, "a comment changes no kernel");
    assert!(checkout.cached());

    assert!(!build_at(root, &["sm_90"], "another base", Some(&checkout.toolkit)).unwrap().cached);
    let both = build_at(root, &["sm_80", "sm_90"], "key", Some(&checkout.toolkit)).unwrap();
    assert!(!both.cached && both.record.kernels.len() == 4);
    let relocked = Toolkit { lock: Digest::of("another lock"), ..checkout.toolkit.clone() };
    assert!(!build_at(root, &["sm_90"], "key", Some(&relocked)).unwrap().cached);
    checkout.write("harness/src/main.rs", "fn main() { std::process::exit(0) }\n");
    assert!(!checkout.cached());
    checkout.write("kernels/common/factor.cuh", "constexpr float kFactor = 4.0f;\n");
    let other = checkout.build().unwrap();
    let digests = |built: &Built| built.record.kernels.iter().map(|k| k.sass_digest).collect::<Vec<_>>();
    assert_ne!(digests(&other)[0], digests(&first)[0], "a constant changes the kernel that uses it");
    assert_eq!(digests(&other)[1], digests(&first)[1], "and no other");
}

#[test]
fn a_tree_finds_only_what_was_built_of_it() {
    let Some(checkout) = Checkout::new() else { return };
    checkout.write("docker/toolkit.lock", "lock");
    let paths = Paths::new(checkout.dir.path());
    let of_this_tree = || build::of_this_tree(&paths, None).unwrap().map(|record| record.kernels);
    assert_eq!(of_this_tree(), None);
    let first = checkout.build().unwrap().record.kernels;
    assert_eq!(of_this_tree(), Some(first.clone()));
    checkout.write("kernels/common/factor.cuh", "constexpr float kFactor = 4.0f;\n");
    assert_eq!(of_this_tree(), None, "an older tree's build says nothing of this one");
    let second = checkout.build().unwrap().record.kernels;
    assert_eq!(of_this_tree(), Some(second));
    checkout.write("kernels/common/factor.cuh", "constexpr float kFactor = 3.0f;\n");
    assert_eq!(of_this_tree(), Some(first), "the newest build is of another tree");
    checkout.write("docker/toolkit.lock", "another lock");
    assert_eq!(of_this_tree(), None);
}

#[test]
fn a_damaged_or_unfinished_build_is_made_anew() {
    let Some(checkout) = Checkout::new() else { return };
    let built = checkout.build().unwrap();
    let cubin = built.cubin("toy/one", "sm_90", "measure");
    let original = std::fs::read(&cubin).unwrap();
    let damage: [&dyn Fn(); 4] = [
        &|| {
            let mut bytes = original.clone();
            bytes[100] ^= 1;
            std::fs::write(&cubin, bytes).unwrap();
        },
        &|| std::fs::remove_file(&cubin).unwrap(),
        &|| std::fs::write(built.dir.join("extra"), "x").unwrap(),
        &|| std::fs::remove_file(built.dir.join("done.json")).unwrap(),
    ];
    for (n, damage) in damage.iter().enumerate() {
        damage();
        let error = build::load(&built.dir).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Integrity, "damage {n}: {error:#}");
        let left = built.dir.parent().unwrap().join(".unfinished-killed");
        std::fs::create_dir_all(&left).unwrap();
        assert!(!checkout.cached(), "damage {n}");
        assert!(!left.exists());
        assert!(build::load(&built.dir).unwrap().cached);
    }
}

#[test]
fn what_does_not_hold_is_refused_with_every_reason() {
    let Some(checkout) = Checkout::new() else { return };
    checkout
        .write("kernels/toy/budget.toml", &BUDGET.replace("registers = 32", "registers = 2").replace("= 1024", "= 4"));
    checkout.refused(
        ExitCode::Build,
        &[
            "toy/one scale on sm_90",
            "2 allowed",
            "1024 static shared bytes, 4 allowed",
            "3 resource budgets",
            "build logs are in",
        ],
    );
    checkout.write("kernels/toy/budget.toml", "format = 1\nkernel = []\n");
    checkout.refused(ExitCode::Build, &["toy/one scale on sm_90: no budget", "toy/one shared on sm_90: no budget"]);
    checkout.write("kernels/toy/budget.toml", "format = \"one\"\n");
    checkout.refused(ExitCode::Config, &["budget.toml", "format"]);
    checkout.write("kernels/toy/budget.toml", BUDGET);
    checkout.write("kernels/toy/two.cu", "extern \"C\" __global__ void broken( {}\n");
    checkout.refused(ExitCode::Build, &["2 compilations failed", "kernels/toy/two.cu for sm_90", "error"]);
    let error = build_at(checkout.dir.path(), &["sm_75"], "key", Some(&checkout.toolkit)).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Usage);
    let error = build_at(checkout.dir.path(), &["sm_90"], "key", None).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Environment);
}

#[test]
fn a_kernel_that_spills_is_refused() {
    let Some(checkout) = Checkout::new() else { return };
    let spills = "extern \"C\" __global__ void __launch_bounds__(1024) scale(float* out) {
        float a[96]; for (int i = 0; i < 96; ++i) a[i] = out[i * 32 + threadIdx.x];
        __syncthreads(); for (int k = 0; k < 96; ++k) for (int i = 0; i < 96; ++i) a[i] = a[i] * a[(i + 7) % 96] + 1.5f;
        for (int i = 0; i < 96; ++i) out[i * 32 + threadIdx.x] = a[i]; }\n";
    checkout.write(
        "kernels/toy/one.cu",
        &KERNEL.replace("scale", "small").replace("#include", &format!("{spills}#include")),
    );
    checkout
        .refused(ExitCode::Build, &["toy/one scale on sm_90", "spilled bytes, 0 allowed", "stack bytes, 0 allowed"]);
}

/// The launch bound is gone, so that the compiler takes as many registers as it likes: fewer blocks fit than were promised.
#[test]
fn a_kernel_that_loses_blocks_to_registers_is_refused() {
    let Some(checkout) = Checkout::new() else { return };
    let greedy = |bound: &str| {
        format!(
            "extern \"C\" __global__ void {bound} scale(float* out) {{
        float a[64]; for (int i = 0; i < 64; ++i) a[i] = out[i * 32 + threadIdx.x];
        __syncthreads(); for (int k = 0; k < 4; ++k) for (int i = 0; i < 64; ++i) a[i] = a[i] * a[(i + 7) % 64] + 1.5f;
        for (int i = 0; i < 64; ++i) out[i * 32 + threadIdx.x] = a[i]; }}\n"
        )
    };
    let with =
        |bound: &str| KERNEL.replace("scale", "small").replace("#include", &format!("{}#include", greedy(bound)));
    let small = BUDGET.replace("[[kernel]]\nfile = \"one\"\nsymbol = \"shared\"", "[[kernel]]\nfile = \"one\"\nsymbol = \"small\"\nregisters = 32\nshared_bytes = 0\nblocks_per_sm = 8\nmin_arch = \"sm_80\"\n[[kernel]]\nfile = \"one\"\nsymbol = \"shared\"");
    // 255 registers are allowed and four blocks promised; without the bound of five blocks a block takes more than its share.
    checkout.write("kernels/toy/budget.toml", &small.replacen("registers = 32", "registers = 255", 1));
    checkout.write("kernels/toy/one.cu", &with("__launch_bounds__(256)"));
    checkout.refused(ExitCode::Build, &["toy/one scale on sm_90", "blocks per SM"]);
}

/// A compiler that builds for another architecture than it was told, and says that all is well.
#[test]
fn a_cubin_of_another_architecture_is_refused() {
    let Some(mut checkout) = Checkout::new() else { return };
    let real = checkout.toolkit.nvcc.clone();
    let stub = checkout.dir.path().join("nvcc");
    let script = format!(
        "#!/bin/sh\nn=$#\nwhile [ $n -gt 0 ]; do a=$1; shift; case $a in -arch=sm_90) a=-arch=sm_80;; esac\n\
         set -- \"$@\" \"$a\"; n=$((n - 1)); done\nexec {} \"$@\"\n",
        real.display()
    );
    std::fs::write(&stub, script).unwrap();
    std::fs::set_permissions(&stub, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    checkout.toolkit.nvcc = stub;
    checkout.refused(ExitCode::Build, &["toy/one", "sm_90"]);
}

fn source(clean: bool) -> SourceState {
    let dirty = if clean { vec![] } else { vec!["kernels/toy/one.cu".into()] };
    SourceState {
        commit: "0123456789abcdef0123456789abcdef01234567".into(),
        digest: Digest::of("source"),
        clean,
        dirty,
    }
}

/// Makes a bundle of a new checkout and unpacks it elsewhere.
fn unpacked(checkout: &Checkout, into: &Path) -> PathBuf {
    let built = checkout.build().unwrap();
    let archive = with_context(checkout.dir.path(), &["sm_90"], "key", |ctx, runtime| {
        let bundle = |before: bool, after: bool| {
            let again = || Ok(source(after));
            bundle::bundle(ctx, runtime, &built, (&source(before), &again), Digest::of("head"))
        };
        for (looks, said) in
            [((false, false), "kernels/toy/one.cu"), ((true, false), "changed while the bundle was made")]
        {
            let refused = bundle(looks.0, looks.1).unwrap_err();
            assert_eq!(code_of(&refused), ExitCode::Refused);
            assert!(refused.to_string().contains(said), "{refused}");
        }
        bundle(true, true).unwrap()
    });
    assert!(archive.ends_with("target/assay/bundle/assay-01234567-sm_90.tar.xz"), "{}", archive.display());
    let status = std::process::Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(into).status().unwrap();
    assert!(status.success());
    into.join("assay-01234567-sm_90")
}

#[test]
fn a_bundle_is_verified_used_and_rebuilt() {
    let Some(checkout) = Checkout::new() else { return };
    let into = tempfile::tempdir().unwrap();
    let root = unpacked(&checkout, into.path());
    let record = bundle::open_bundle(&Paths::new(&root)).unwrap();
    assert_eq!((record.sass.len(), record.plans.len(), record.claims.len()), (2, 1, 1));
    assert_eq!(record.commit, source(true).commit);

    let carried = build_at(&root, &["sm_90"], "box", None).unwrap();
    assert_eq!((carried.record.toolkit.as_str(), carried.cached), ("bundle", false));
    assert!(carried.harness().is_file());
    let on_box = Toolkit { origin: "box".into(), ..checkout.toolkit.clone() };
    let rebuilt = build_at(&root, &["sm_90"], "box", Some(&on_box)).unwrap();
    assert_eq!((rebuilt.record.toolkit.as_str(), rebuilt.cached), ("box", false));
    assert_eq!(rebuilt.record.kernels, carried.record.kernels);
    let compared = std::fs::read_to_string(rebuilt.dir.join("rebuilt.json")).unwrap();
    assert_eq!(compared.matches("\"equal\": true").count(), 2, "{compared}");
    assert!(build_at(&root, &["sm_90"], "box", Some(&on_box)).unwrap().cached);
    let error = build_at(&root, &["sm_80"], "box", None).unwrap_err();
    assert!(code_of(&error) == ExitCode::Build && error.to_string().contains("sm_80"), "{error:#}");

    let source = root.join("kernels/toy/one.cu");
    let text = std::fs::read_to_string(&source).unwrap().replace("^ 1", "^ 3");
    std::fs::write(&source, &text).unwrap();
    let changed = bundle::open_bundle(&Paths::new(&root)).unwrap_err();
    assert!(
        code_of(&changed) == ExitCode::Integrity && changed.to_string().contains("one.cu was changed"),
        "{changed}"
    );
    let mut record = record;
    let sass = record.sass.clone();
    record.sass[0].sass_digest = Digest::of("other");
    record.files.get_mut("kernels/toy/one.cu").unwrap().sha256 = Digest::of(&text);
    std::fs::write(root.join("bundle.json"), serde_json::to_vec(&record).unwrap()).unwrap();
    let differs = build_at(&root, &["sm_90"], "box", Some(&on_box)).unwrap_err();
    assert!(code_of(&differs) == ExitCode::Integrity && differs.to_string().contains("different SASS"), "{differs:#}");
    record.sass = sass;
    std::fs::write(root.join("bundle.json"), serde_json::to_vec(&record).unwrap()).unwrap();
    let other = build_at(&root, &["sm_90"], "box", Some(&on_box)).unwrap_err();
    assert_eq!(code_of(&other), ExitCode::Build);
    let told = format!("{other:#}");
    assert!(told.contains("toy/one shared on sm_90: carried") && !told.contains("scale"), "{told}");
}

#[test]
fn a_damaged_bundle_is_refused_by_name() {
    let Some(checkout) = Checkout::new() else { return };
    let into = tempfile::tempdir().unwrap();
    let root = unpacked(&checkout, into.path());
    let record = bundle::open_bundle(&Paths::new(&root)).unwrap();
    let refused = |name: &str| {
        let error = bundle::open_bundle(&Paths::new(&root)).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Integrity);
        assert!(error.to_string().contains(name), "{name}: {error}");
    };
    for name in record.files.keys() {
        let path = root.join(name);
        let bytes = std::fs::read(&path).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 0x20;
        std::fs::write(&path, flipped).unwrap();
        refused(name);
        std::fs::remove_file(&path).unwrap();
        refused(name);
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        refused(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::write(root.join("kernels/toy/extra.cu"), "").unwrap();
    refused("kernels/toy/extra.cu");
    std::fs::remove_file(root.join("kernels/toy/extra.cu")).unwrap();
    bundle::open_bundle(&Paths::new(&root)).unwrap();
}
