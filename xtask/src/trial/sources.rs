//! The made-up sources of a trial's repository: a harness of a few lines, a kernel, and a container.

use schema::Digest;

/// Every file by its path below the root, with its text.
pub(super) fn files() -> Vec<(&'static str, String)> {
    let image = format!("[[base]]\nname = \"rust\"\ndigest = \"sha256:{}\"\n", Digest::of("base"));
    let text = |name, text: &str| (name, text.to_owned());
    vec![
        text("Cargo.toml", "[workspace]\n"),
        text("Cargo.lock", "[[package]]\nname = \"harness\"\nversion = \"0.1.0\"\n"),
        text("docker/Dockerfile", "Dockerfile"),
        ("docker/image.lock", image),
        text("harness/Cargo.toml", "[dependencies]\n"),
        text("harness/schema/Cargo.toml", "[dependencies]\n"),
        text("harness/schema/src/lib.rs", "pub const FORMAT: u32 = 1;\n"),
        text("harness/core/Cargo.toml", "[dependencies]\n"),
        text("harness/core/src/lib.rs", "pub mod timing;\n"),
        text("harness/core/src/timing.rs", "/// How long.\npub fn settle_ns() -> u32 {\n    100\n}\n"),
        text("kernels/preempt/made_up.cu", "// Made up.\n"),
    ]
}
