//! Reads the harness's progress lines, above all its end marker. Works on text that has arrived; starts nothing and
//! waits for nothing.

use schema::Digest;
use schema::cell::LaunchConfig;
use schema::progress::{Progress, Sites};

/// The end marker of a harness that finished its work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndMark {
    /// Launches made.
    pub launches: u64,
    /// How often each site was passed.
    pub sites: Sites,
    /// Digests of the cubins handed to the driver, by file stem.
    pub cubins: Vec<(String, Digest)>,
    /// Launch configurations used.
    pub configs: Vec<LaunchConfig>,
    /// Outputs that disagreed with the oracle, or were unwritten.
    pub wrong: u64,
}

/// One progress line; nothing when the line is something else.
pub fn parse(line: &str) -> Option<Progress> {
    serde_json::from_str(line).ok()
}

/// The end marker in all that the harness printed: there is exactly one, it is the last line, and it carries our nonce.
///
/// # Errors
/// Says which of these does not hold.
pub fn end_mark(stdout: &str, nonce: &str) -> Result<EndMark, String> {
    let mut lines = stdout.lines().filter(|line| !line.trim().is_empty());
    let last = lines.next_back().and_then(parse);
    if lines.any(|line| matches!(parse(line), Some(Progress::End { .. }))) {
        return Err("more than one end marker".to_owned());
    }
    match last {
        Some(Progress::End { nonce: found, launches, sites, cubins, configs, wrong }) if found == nonce => {
            Ok(EndMark { launches, sites, cubins, configs, wrong })
        }
        Some(Progress::End { .. }) => Err("the end marker carries another nonce".to_owned()),
        _ => Err("no end marker from the harness".to_owned()),
    }
}

/// The first line that is no progress line. A harness prints nothing else on stdout, so whatever it is, a kernel or a library
/// printed it.
pub fn stray(stdout: &str) -> Option<&str> {
    stdout.lines().find(|line| !line.trim().is_empty() && parse(line).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = r#"{"kind":"end","nonce":"n1","launches":3,"sites":{"yield":1,"claim":2,"copy":3},"cubins":[],"configs":[],"wrong":0}"#;

    #[test]
    fn the_end_marker_is_one_and_last_and_ours() {
        let burn = r#"{"kind":"burn","seconds":1.0,"clock_mhz":1980.0}"#;
        let found = end_mark(&format!("{burn}\nnoise\n{END}\n\n"), "n1").unwrap();
        assert_eq!((found.launches, found.sites["yield"], found.sites["claim"], found.sites["copy"]), (3, 1, 2, 3));
        assert_eq!(end_mark(&format!("{END}\n{END}\n"), "n1").unwrap_err(), "more than one end marker");
        assert_eq!(end_mark(END, "n2").unwrap_err(), "the end marker carries another nonce");
        for missing in ["", burn, &format!("{END}\n{burn}\n"), &END[..END.len() - 1]] {
            assert!(end_mark(missing, "n1").is_err(), "{missing}");
        }
    }

    #[test]
    fn what_a_kernel_prints_is_told_from_progress() {
        let kernel = "Attempting to use wgmma.fence without CUTE_ARCH_MMA_SM90A_ENABLED";
        assert_eq!(stray(&format!("{END}\n\n")), None);
        assert_eq!(stray(&format!("{END}\n{kernel}\n{kernel}\n")), Some(kernel));
        assert_eq!(stray("{\"kind\":\"other\"}"), Some("{\"kind\":\"other\"}"));
    }

    #[test]
    fn a_line_with_something_before_the_marker_is_not_one() {
        assert!(end_mark(&format!("x{END}"), "n1").is_err());
    }
}
