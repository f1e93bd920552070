//! What is part of a protocol and what is not, on this tree's own harness and on small made-up ones.

use super::*;
use std::path::Path;

/// This tree's harness, with edits: a file, what stands there, and what takes its place.
fn of_this_tree(edits: &[(&str, &str, &str)]) -> Protocol {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    protocol("preempt", &mut |path: &str| {
        let Ok(mut text) = std::fs::read_to_string(root.join(path)) else { return Ok(None) };
        for (_, from, to) in edits.iter().filter(|(file, ..)| *file == path) {
            assert!(text.contains(from), "{path} does not hold {from:?}");
            text = text.replacen(from, to, 1);
        }
        Ok(Some(text))
    })
    .unwrap()
}

#[test]
fn comments_formatting_and_tests_are_no_part_of_it() {
    let plain = of_this_tree(&[]);
    assert!(plain.parts.keys().any(|path| path.contains("preempt/src/cuda/events.rs")), "{plain:?}");
    let timer = "harness/core/src/gpu/timer.rs";
    let events = "harness/preempt/src/cuda/events.rs";
    let edits = [
        (timer, "//!", "//! Other words.\n//!"),
        (timer, "use ", "\n\n\nuse "),
        (timer, " = ", "  =  "),
        (events, "fn ", "/* a\n comment */ fn "),
        (events, ";\n", "; // why\n"),
        ("Cargo.toml", "[workspace.dependencies]", "[workspace.dependencies]\n# a remark"),
        ("harness/preempt/src/pilots.rs", "mod tests {", "mod tests { const X: u32 = 1;"),
    ];
    assert_eq!(of_this_tree(&edits), plain);
}

#[test]
fn code_dependencies_and_compiler_are_part_of_it_and_named() {
    let plain = of_this_tree(&[]);
    let edits = [
        ("harness/core/src/gpu/timer.rs", "let ", "let _extra = 1; let "),
        ("harness/schema/src/cell.rs", "pub seed: String", "pub seed: u64"),
        ("harness/core/Cargo.toml", "fs-err.workspace = true\n", ""),
        ("rust-toolchain.toml", "1.95", "1.96"),
    ];
    let changed = plain.changed_to(&of_this_tree(&edits));
    for (path, ..) in edits {
        assert!(changed.iter().any(|part| part == path), "{path}: {changed:?}");
    }
    assert!(changed.iter().all(|part| part.starts_with("Cargo.") || edits.iter().any(|(path, ..)| part == path)));
}

#[test]
fn what_the_harness_does_not_use_is_no_part_of_it() {
    let plain = of_this_tree(&[]);
    for absent in ["harness/schema/src/manifest.rs", "harness/schema/src/verdict.rs", "harness/preempt/src/emulated.rs"]
    {
        assert!(!plain.parts.contains_key(absent), "{absent}");
    }
    for present in ["harness/schema/src/plan.rs", "harness/tables/src/reader.rs", "harness/schema/src/digest.rs"] {
        assert!(plain.parts.contains_key(present), "{present}: {plain:?}");
    }
    let lib = [("harness/schema/src/lib.rs", "pub mod manifest;", "pub mod manifest;\npub mod more;")];
    assert_eq!(of_this_tree(&lib), plain);
}

#[test]
fn tokens_tell_apart_what_differs_and_nothing_else() {
    let digest = |text: &str| Source::parse(text).unwrap().digest();
    for (a, b, same) in [
        ("fn f() { g(a, b); }", "fn f() {\n    g(\n        a,\n        b,\n    );\n}", true),
        ("/// Doc.\nfn f() {}", "fn f() {}", true),
        ("//! Module.\nfn f() {}", "#![doc = \"Other.\"]\nfn f() {}", true),
        ("fn f() {} #[cfg(test)] mod tests { fn g() {} }", "fn f() {}", true),
        ("struct S; impl S { #[cfg(test)] fn t() {} }", "struct S; impl S {}", true),
        ("fn f() { #[cfg(test)] let x = 1; }", "fn f() {}", true),
        ("fn f() { x(1); }", "fn f() { x(2); }", false),
        ("fn f() { (a,) }", "fn f() { (a) }", false),
        ("fn f() { a & &b }", "fn f() { a && b }", false),
        ("#[inline] fn f() {}", "fn f() {}", false),
        ("#[cfg(not(test))] fn f() {}", "fn f() {}", false),
        ("#[cfg(not(test))] fn f() {}", "", false),
    ] {
        assert_eq!(digest(a) == digest(b), same, "{a:?} {b:?}");
    }
}

#[test]
fn a_missing_or_broken_file_is_an_error_that_names_it() {
    let error = protocol("preempt", &mut |path: &str| Ok((path == MAIN).then(|| "mod gone;".to_owned()))).unwrap_err();
    assert!(format!("{error:#}").contains("harness/src/gone/mod.rs is absent"), "{error:#}");
    let error = protocol("preempt", &mut |_: &str| Ok(Some("fn (".to_owned()))).unwrap_err();
    assert!(format!("{error:#}").contains("harness/src/main.rs does not parse"), "{error:#}");
}
