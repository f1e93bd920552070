//! Wheels come as the lock says or not at all. pip is a stand-in on PATH.

use super::*;
use crate::failure::{code_of, remedy_of};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/fake");

/// What a stand-in for pip does: `--version` answers, a download puts the file named by the requirement into `--dest`.
const PIP: &str = r#"
case "$*" in *--version*) exit 0;; esac
for word in "$@"; do
  [ "$before" = --dest ] && dest=$word
  [ "$before" = --requirement ] && name=$(cut -d= -f1 "$word")
  before=$word
done
printf '%s' "$name" > "$dest/$name-1-py3-none-any.whl"
"#;

fn wheel(name: &str) -> Wheel {
    Wheel { name: name.into(), version: "1".into(), sha256: Digest::of(name), bytes: name.len() as u64 }
}

fn lock(names: &[&str]) -> Lock {
    Lock { digest: Digest::of(names.concat()), wheels: names.iter().map(|name| wheel(name)).collect() }
}

fn fetcher(dir: &Path, script: &str) -> Fetcher {
    let path = format!("{FAKE}:/usr/bin:/bin");
    let log = dir.join("calls").display().to_string();
    let env = [("PATH", path), ("FAKE_LOG", log), ("FAKE_DO", script.to_owned())];
    let env = env.map(|(key, value)| (key.to_owned(), value)).to_vec();
    Fetcher { dir: dir.to_owned(), env, offline: false, quiet: true }
}

fn downloads(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("calls")).unwrap_or_default().matches("pip download").count()
}

#[test]
fn each_wheel_is_fetched_once_and_hashes_are_required() {
    let dir = tempfile::tempdir().unwrap();
    let fetcher = fetcher(dir.path(), PIP);
    let files = fetcher.fetch(&lock(&["one", "two"])).unwrap();
    assert_eq!(std::fs::read_to_string(&files[1]).unwrap(), "two");
    fetcher.fetch(&lock(&["one", "two"])).unwrap();
    assert_eq!(downloads(dir.path()), 2);
    let calls = std::fs::read_to_string(dir.path().join("calls")).unwrap();
    assert!(calls.contains("--require-hashes --no-deps --only-binary=:all:"), "{calls}");
}

#[test]
fn an_interrupted_fetch_goes_on_with_the_file_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let lost = PIP.replace("printf", "[ \"$name\" = two ] && { echo 'ERROR: connection lost' >&2; exit 1; }\nprintf");
    let error = fetcher(dir.path(), &lost).fetch(&lock(&["one", "two", "three"])).unwrap_err();
    assert!(matches!(&error, Denied::Cannot(e) if e.to_string().contains("connection lost")), "{error:?}");
    assert_eq!(downloads(dir.path()), 2);
    fetcher(dir.path(), PIP).fetch(&lock(&["one", "two", "three"])).unwrap();
    assert_eq!(downloads(dir.path()), 4);
    assert!(
        !std::fs::read_dir(dir.path()).unwrap().flatten().any(|f| f.path().extension() == Some("partial".as_ref()))
    );
}

fn refused(result: Result<Vec<PathBuf>, Denied>) -> anyhow::Error {
    match result {
        Err(Denied::Refused(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_wrong_byte_from_the_index_is_refused_and_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(fetcher(dir.path(), &PIP.replace("'%s'", "'%sx'")).fetch(&lock(&["one"])));
    assert_eq!(code_of(&error), ExitCode::Environment);
    let (expected, found) = (Digest::of("one").to_string(), Digest::of("onex").to_string());
    assert!(error.to_string().contains(&expected) && error.to_string().contains(&found), "{error}");
    assert!(!dir.path().join(wheel("one").file_name()).exists());
}

#[test]
fn a_wrong_byte_in_a_kept_wheel_is_refused_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join(wheel("one").file_name());
    std::fs::write(&kept, "onE").unwrap();
    let error = refused(fetcher(dir.path(), PIP).fetch(&lock(&["one"])));
    assert!(error.to_string().contains(&kept.display().to_string()), "{error}");
    assert!(!kept.exists());
}

#[test]
fn what_pip_refuses_by_hash_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    // The lines of pip 23.2.1, with the digests shortened.
    let said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    x from file:///x:\n        \
                Expected sha256 00\n             Got        ff\n";
    let script = format!("case \"$*\" in *--version*) exit 0;; esac\ncat >&2 <<'END'\n{said}END\nexit 1");
    let error = refused(fetcher(dir.path(), &script).fetch(&lock(&["one"])));
    assert!(error.to_string().ends_with("found ff"), "{error}");
}

/// What `pip download` says and ends with; asked for its version it answers.
fn saying(said: &str, code: i32) -> String {
    format!("case \"$*\" in *--version*) exit 0;; esac\ncat >&2 <<'END'\n{said}\nEND\nexit {code}")
}

#[test]
fn the_cause_is_told_and_not_that_nothing_was_found() {
    // In the shape of pip 23: the cause is a warning, and what ends it says nothing of it.
    let end = "ERROR: Could not find a version that satisfies the requirement one==1 (from versions: none)\n\
               ERROR: No matching distribution found for one==1";
    let broken = |why: &str| {
        format!("WARNING: Retrying (Retry(total=0)) after connection broken by '{why}': /simple/one/\n{end}")
    };
    for (said, words, remedy) in [
        (broken("[Errno -3] Temporary failure in name resolution"), "the network does not reach it", "network"),
        (broken("ProxyError('Cannot connect to proxy.', OSError('x'))"), "Cannot connect to proxy", "network"),
        (broken("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))"), "certificate", "date"),
        (
            format!("WARNING: 401 Error, Credentials not correct for https://index.example/\n{end}"),
            "the index refuses it to this user",
            "pip",
        ),
        ("ERROR: Could not install: [Errno 28] No space left on device".to_owned(), "a disk is full", "df -h"),
        ("ERROR: Could not install: [Errno 122] Disk quota exceeded".to_owned(), "a quota", "df -i"),
        (end.to_owned(), "No matching distribution", "network"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let fetched = fetcher(dir.path(), &saying(&said, 1)).fetch(&lock(&["one"]));
        let Err(Denied::Cannot(error)) = fetched else { panic!("{said}") };
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(error.to_string().contains(words) && remedy_of(&error).unwrap().contains(remedy), "{error:#}");
    }
}

#[test]
fn a_client_that_ends_well_and_leaves_nothing_has_fetched_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fetched = fetcher(dir.path(), &saying("", 0)).fetch(&lock(&["one"]));
    let Err(Denied::Cannot(error)) = fetched else { panic!() };
    assert_eq!(code_of(&error), ExitCode::Environment);
    assert!(error.to_string().contains("left no file of one 1"), "{error}");
}

#[test]
fn offline_uses_what_is_here_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let offline = Fetcher { offline: true, ..fetcher(dir.path(), PIP) };
    assert!(matches!(offline.fetch(&lock(&["one"])), Err(Denied::Cannot(_))));
    std::fs::write(dir.path().join(wheel("one").file_name()), "one").unwrap();
    assert!(offline.fetch(&lock(&["one"])).is_ok());
    assert_eq!(downloads(dir.path()), 0);
}

#[test]
fn without_pip_the_message_says_what_to_type() {
    let dir = tempfile::tempdir().unwrap();
    let Err(Denied::Cannot(error)) = fetcher(dir.path(), "exit 1").fetch(&lock(&["one"])) else { panic!() };
    assert_eq!((code_of(&error), remedy_of(&error)), (ExitCode::Environment, Some("apt-get install python3-pip")));
}
