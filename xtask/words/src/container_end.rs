//! How a container ended, from what its engine recorded and what the client returned. Calls no program.
//!
//! A client's exit codes 125 to 127 may be docker's or the program's own, and 137 has several causes; only the
//! engine's record tells them apart.

use super::docker_says::{Kind, Refusal, refusal};

/// What an engine records of a container that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The exit code of its program.
    pub exit_code: i32,
    /// Whether the kernel killed something in it for want of memory.
    pub oom_killed: bool,
    /// Why it could not be started; empty when it was.
    pub error: String,
    /// Whether its program began; absent when the engine does not say.
    pub began: Option<bool>,
}

/// What `docker inspect` is asked to print, one value after the other.
pub const STATE_FORMAT: &str =
    "{{.State.ExitCode}} {{.State.OOMKilled}} {{json .State.Error}} {{.State.StartedAt}} {{.State.FinishedAt}}";

/// How an end is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program's own, whatever its code.
    Own,
    /// Docker's: the program never ran, or its end is not known.
    Refused(Refusal),
    /// Memory ran out in the container.
    Starved,
    /// Something outside of us killed it.
    Killed,
    /// A bus error: shared memory, or a file on a full disk.
    Bus,
}

/// 128 + SIGKILL.
const KILLED: i32 = 137;
/// 128 + SIGBUS.
const BUS: i32 = 135;

/// Reads what `docker inspect` printed for [`STATE_FORMAT`]; more or fewer values behind the first three change nothing.
///
/// Absent when it is not that: an engine without the container prints an empty line.
pub fn read_state(text: &str) -> Option<State> {
    let (code, rest) = text.trim().split_once(' ')?;
    let (oom, rest) = rest.split_once(' ')?;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let error = values.next()?.ok()?;
    let mut times = rest[values.byte_offset()..].split_whitespace();
    // An engine that never started the container reports Go's zero time.
    let began = times.next().map(|time| !time.starts_with("0001-01-01"));
    Some(State { exit_code: code.parse().ok()?, oom_killed: oom.parse().ok()?, error, began })
}

/// Judges an end by the client's exit code, its stderr, and the engine's record where there is one.
pub fn judge(code: i32, stderr: &str, state: Option<&State>) -> End {
    let refused = |error: &str| {
        let Refusal { kind, said } = refusal(Some(code), &format!("{error}\n{stderr}"), "");
        // Starting a container needs no network, so it is the engine that does not answer.
        End::Refused(Refusal { kind: if kind == Kind::Network { Kind::Down } else { kind }, said })
    };
    match (code, state) {
        (0, _) => End::Own,
        (_, Some(state)) if state.began == Some(false) => refused(&state.error),
        (_, Some(state)) if state.oom_killed => End::Starved,
        // The client reports an error of its own, not the program's end.
        (125, Some(state)) if state.exit_code != code => refused(&state.error),
        (125, None) => refused(""),
        (126 | 127, state) if state.is_none_or(|state| state.began.is_none()) && speaks_for_docker(stderr) => {
            refused(state.map_or("", |state| state.error.as_str()))
        }
        (KILLED, _) => End::Killed,
        (BUS, _) => End::Bus,
        // Other codes of docker's own, on an engine that has no record of the container.
        (_, None) if stderr.lines().any(|line| line.starts_with("docker: ")) => refused(""),
        _ => End::Own,
    }
}

/// Whether docker or a runtime below it says something, not the program.
fn speaks_for_docker(stderr: &str) -> bool {
    const MARKS: [&str; 4] = ["docker: ", "Error response from daemon", "OCI runtime", "Error: "];
    stderr.lines().any(|line| MARKS.iter().any(|mark| line.starts_with(mark)) || line.contains("OCI runtime"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Captured from client 28.2.2 and engine 20.10.24 with STATE_FORMAT.
    const STARVED: &str = "137 true \"\" 2026-01-01T16:04:19.13293396Z 2026-01-01T16:04:19.213180072Z\n";
    const KILLED_OUTSIDE: &str = "137 false \"\" 2026-01-01T16:04:19.889956422Z 2026-01-01T16:04:21.467428727Z\n";
    const NEVER_BEGAN: &str = "127 false \"failed to create shim task: OCI runtime create failed: runc create failed: unable to \
                               start container process: exec: \\\"nosuch\\\": executable file not found in $PATH: unknown\" \
                               0001-01-01T00:00:00Z 0001-01-01T00:00:00Z\n";
    const OWN_125: &str = "125 false \"\" 2026-01-01T16:04:19.889956422Z 2026-01-01T16:04:21.467428727Z\n";

    #[test]
    fn what_an_engine_records_is_read() {
        let state = read_state(STARVED).unwrap();
        assert_eq!((state.exit_code, state.oom_killed, state.began), (137, true, Some(true)));
        let never = read_state(NEVER_BEGAN).unwrap();
        assert!(never.error.contains("\"nosuch\"") && never.began == Some(false));
        assert_eq!(read_state("137 true \"\"").unwrap().began, None);
        for odd in ["", "\n", "[]", "137", "137 true", "137 true x", "x true \"\"", "137 maybe \"\""] {
            assert_eq!(read_state(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn memory_a_kill_and_a_bus_error_are_three_ends() {
        let check = |code, state: &str, expected: &End| {
            assert_eq!(&judge(code, "", read_state(state).as_ref()), expected, "{code} {state}");
        };
        check(137, STARVED, &End::Starved);
        check(137, "137 true \"\"", &End::Starved);
        // A child was killed, and its parent ended in its own way.
        check(1, "1 true \"\" 2026-01-01T00:00:00Z x", &End::Starved);
        check(137, KILLED_OUTSIDE, &End::Killed);
        check(137, "", &End::Killed);
        check(135, "135 false \"\" 2026-01-01T00:00:00Z x", &End::Bus);
        check(0, "0 true \"\"", &End::Own);
        check(1, "", &End::Own);
        check(139, "139 false \"\"", &End::Own);
    }

    #[test]
    fn dockers_codes_are_dockers_only_when_the_program_never_began() {
        let kind = |code, stderr: &str, state: &str| match judge(code, stderr, read_state(state).as_ref()) {
            End::Refused(refusal) => Some(refusal.kind),
            _ => None,
        };
        assert_eq!(kind(125, "", OWN_125), None);
        assert_eq!(kind(125, "unknown flag: --x\n", ""), Some(Kind::Unknown));
        assert_eq!(kind(125, "", ""), Some(Kind::Unknown));
        assert_eq!(kind(127, "docker: Error response from daemon: x\n", NEVER_BEGAN), Some(Kind::NoProgram));
        assert_eq!(kind(127, "", NEVER_BEGAN), Some(Kind::NoProgram));
        assert_eq!(kind(127, "sh: 1: x: not found\n", ""), None);
        assert_eq!(
            kind(255, "docker: Error response from daemon: no space left on device\n", ""),
            Some(Kind::DiskFull)
        );
        assert_eq!(kind(255, "docker: words\n", "255 false \"\" 2026-01-01T00:00:00Z x"), None);
        assert_eq!(kind(127, "sh: 1: x: not found\n", "127 false \"\" 2026-01-01T00:00:00Z x"), None);
        assert_eq!(
            kind(126, "docker: permission denied while trying to connect to x.sock\n", ""),
            Some(Kind::Forbidden)
        );
        assert_eq!(kind(126, "docker: words of its program\n", "126 false \"\" 2026-01-01T00:00:00Z x"), None);
        // The daemon went away while the program ran on.
        let lost = "docker: error waiting for container: unexpected EOF\n";
        assert_eq!(kind(125, lost, "0 false \"\" 2026-01-01T00:00:00Z x"), Some(Kind::Down));
        let hangs = "docker: Error response from daemon: context deadline exceeded\n";
        assert_eq!(kind(125, hangs, ""), Some(Kind::Down));
    }
}
