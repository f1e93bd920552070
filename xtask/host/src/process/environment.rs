//! Reads this process's own environment, which may hold anything. Children get only the variables that are stated.

use std::ffi::OsString;

/// What of it is text. Whatever is not is left out, but for PATH, of which the rest still leads somewhere.
#[must_use]
pub fn own_environment() -> Vec<(String, String)> {
    text(std::env::vars_os())
}

fn text(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let text = |(key, value): (OsString, OsString)| {
        let key = key.into_string().ok()?;
        match value.into_string() {
            Ok(value) => Some((key, value)),
            Err(value) => (key == "PATH").then(|| (key, value.to_string_lossy().into_owned())),
        }
    };
    variables.filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_variable_that_is_no_text_costs_no_other() {
        let latin = |text: &[u8]| OsString::from_vec(text.to_vec());
        let seen = text(
            [
                ("HOME".into(), "/home/u".into()),
                ("PROMPT".into(), latin(b"caf\xe9")),
                (latin(b"\xe9"), "x".into()),
                ("PATH".into(), latin(b"/opt/caf\xe9:/usr/bin")),
            ]
            .into_iter(),
        );
        let path = "/opt/caf\u{fffd}:/usr/bin";
        assert_eq!(seen, [("HOME", "/home/u"), ("PATH", path)].map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
}
