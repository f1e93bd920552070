//! Every gate refuses: one planted fault a test, in a run that passes without it.

use crate::trial::{Trial, refusing};

#[test]
fn the_trial_passes_every_gate() {
    let (_disk, judged) = Trial::passing().judged();
    for gate in judged.verdict().gates.iter().filter(|gate| !gate.passed) {
        eprintln!("{}: {}", gate.name, gate.reason);
    }
    assert_eq!(refusing(&judged), Vec::<String>::new());
    assert!(judged.verdict().passed);
    assert!(judged.pass().is_ok());
}
