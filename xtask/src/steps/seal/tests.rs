//! Tests of sealing.

use super::*;
use crate::trial::{Trial, copy, shared};
use host::failure::code_of;

fn inputs(manifest: &Manifest, dir: &Path) -> SealInputs {
    let predicate = manifest.predicate.clone();
    SealInputs {
        source: predicate.source,
        attempts: predicate.attempts,
        attempts_log: files::read_text(&dir.join("attempts.jsonl")).unwrap(),
        steps: predicate.steps,
        notebook_head: predicate.notebook_head,
    }
}

#[test]
fn a_manifest_names_every_file_and_says_which_are_detached() {
    let (disk, judged) = shared();
    let manifest = judged.sealed().manifest();
    let names: Vec<&str> = manifest.subject.iter().map(|subject| subject.name.as_str()).collect();
    assert!(names.is_sorted());
    for name in files::scan(&disk.run()).unwrap().files.keys() {
        assert_eq!(names.contains(&name.as_str()), !UNSEALED.contains(&name.as_str()), "{name}");
    }
    let detached: Vec<&str> = manifest.predicate.detached.iter().map(|file| file.name.as_str()).collect();
    assert!(detached.contains(&"build/cubins/yield.sm_90.cubin"));
    assert!(detached.contains(&"cells/yield/k=64,blocks=8,poll=1,set=device.blocks.parquet"));
    assert!(detached.iter().all(|name| is_detached(name)));
    assert_eq!(files::read_plain(&disk.run().join(MANIFEST)).unwrap(), to_bytes(manifest).unwrap());
}

#[test]
fn sealing_again_changes_nothing_and_as_something_else_is_refused() {
    let disk = copy();
    let sealed = Sealed::load(&disk.run()).unwrap();
    let again = seal(&disk.run(), inputs(sealed.manifest(), &disk.run())).unwrap();
    assert_eq!(again.digest(), sealed.digest());
    let mut other = inputs(sealed.manifest(), &disk.run());
    other.source.clean_before = false;
    assert_eq!(code_of(&seal(&disk.run(), other).unwrap_err()), ExitCode::Integrity);
    files::write_whole(&disk.run().join("extra"), b"x").unwrap();
    let error = seal(&disk.run(), inputs(sealed.manifest(), &disk.run())).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Integrity);
}

#[test]
fn loading_hashes_again_and_names_what_differs() {
    let disk = copy();
    fs_err::write(disk.run().join("telemetry.parquet"), b"x").unwrap();
    let error = Sealed::load(&disk.run()).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Integrity);
    assert!(error.to_string().contains("telemetry.parquet"), "{error:#}");
    fs_err::remove_file(disk.run().join(MANIFEST)).unwrap();
    assert!(Sealed::load(&disk.run()).unwrap_err().to_string().contains("is not sealed"));
}

#[test]
fn what_no_run_holds_is_not_sealed() {
    let plant = |name: &str, words: &str, damage: &dyn Fn(&Path)| {
        let (disk, inputs) = Trial::passing().write();
        damage(&disk.run().join(name));
        let error = seal(&disk.run(), inputs).unwrap_err();
        assert!(format!("{error:#}").contains(words), "{error:#}");
        assert!(!disk.run().join(MANIFEST).exists());
    };
    plant("link", "symlink", &|path| std::os::unix::fs::symlink("plan.toml", path).unwrap());
    plant("cells/a.partial", "half-written", &|path| fs_err::write(path, b"x").unwrap());
    plant("claims.toml", "claims.toml", &|path| fs_err::remove_file(path).unwrap());
    plant("contract.json", "contract.json", &|path| fs_err::remove_file(path).unwrap());
    plant("contract.json", "contract.json", &|path| fs_err::write(path, b"{").unwrap());
}

#[test]
fn a_manifest_that_was_not_sealed_here_is_refused() {
    let disk = copy();
    let path = disk.run().join(MANIFEST);
    let whole = fs_err::read(&path).unwrap();
    let plant = |words: &str, change: &dyn Fn(&mut Manifest)| {
        let mut manifest: Manifest = serde_json::from_slice(&whole).unwrap();
        change(&mut manifest);
        fs_err::write(&path, to_bytes(&manifest).unwrap()).unwrap();
        let error = Sealed::load(&disk.run()).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Integrity);
        assert!(error.to_string().contains(words), "{error:#}");
    };
    plant("another run", &|manifest| manifest.predicate.run = "../../../elsewhere".to_owned());
    plant("no in-toto Statement", &|manifest| manifest.statement_type.clear());
    plant("no Statement of a run", &|manifest| manifest.predicate_type.clear());
    plant("other detached files", &|manifest| drop(manifest.predicate.detached.pop()));
    plant("twice, or out of order", &|manifest| manifest.subject.push(manifest.subject[0].clone()));
    plant("twice, or out of order", &|manifest| manifest.subject.swap(0, 1));
    plant("is not as it was sealed", &|manifest| manifest.subject[0].name = "../x".to_owned());
    fs_err::write(&path, [whole.as_slice(), b"\n"].concat()).unwrap();
    assert!(Sealed::load(&disk.run()).unwrap_err().to_string().contains("not the bytes that Assay writes"));
}
