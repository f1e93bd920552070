//! Who signed the manifest: which key, and, by a list of allowed signers, whose key it is.

use super::Report;
use crate::runs::layout::{Layout, MANIFEST, SIGNATURE};
use crate::runs::signature::{self, Allowed};
use anyhow::Result;
use host::files;
use std::path::Path;

/// What is said where no key signed.
const UNPROVEN: &str = "unproven";

/// The key that signed the manifest, or `unproven`. A signature that does not hold is a problem.
pub(super) fn key(layout: &Layout, report: &mut Report) -> String {
    if !files::exists(&layout.path(SIGNATURE)) {
        return UNPROVEN.to_owned();
    }
    match signature::signer(&layout.path(MANIFEST), &layout.path(SIGNATURE)) {
        Ok(signer) => signer.fingerprint,
        Err(error) => {
            report.fault(layout.shown(SIGNATURE), "signature", &error);
            UNPROVEN.to_owned()
        }
    }
}

/// Whose `key` it is by a list; that it is nobody's, or that there is no signature, is a problem.
pub(super) fn signer(layout: &Layout, list: &Path, key: &str, report: &mut Report) -> Result<Option<String>> {
    let (manifest, signature) = (layout.path(MANIFEST), layout.path(SIGNATURE));
    if !files::exists(&signature) {
        report.problem(
            layout.shown(SIGNATURE),
            "signature",
            "the manifest is not signed, so no allowed signer signed it",
        );
        return Ok(None);
    }
    if key == UNPROVEN {
        // The problem was reported above.
        return Ok(None);
    }
    match signature::allowed(list, &manifest, &signature)? {
        Allowed::By(principal) => Ok(Some(principal)),
        Allowed::No(why) => {
            report.problem(layout.shown(SIGNATURE), "signature", format!("not signed by an allowed signer: {why}"));
            Ok(None)
        }
    }
}
