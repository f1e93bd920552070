//! Answers of git about small repositories made here.

use super::*;

fn repository() -> (tempfile::TempDir, Git) {
    let dir = tempfile::tempdir().unwrap();
    let git = Git { root: dir.path().to_owned() };
    git.text(&["init", "-q"]).unwrap();
    (dir, git)
}

fn commit(git: &Git, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        files::write_whole(&git.root.join(name), text.as_bytes()).unwrap();
    }
    git.text(&["add", "-A"]).unwrap();
    git.text(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--no-gpg-sign", "-m", "m"]).unwrap();
    git.head().unwrap()
}

#[test]
fn the_source_is_clean_until_a_source_file_differs() {
    let (_dir, git) = repository();
    commit(&git, &[("src/a.rs", "1"), ("RESULTS.md", "x"), ("results/summary/r/m.csv", "x")]);
    let before = git.source_state().unwrap();
    assert!(before.clean);
    for name in ["RESULTS.md", "docs/status.md", "results/summary/r/m.csv", "manifests/new.json"] {
        files::write_whole(&git.root.join(name), b"y").unwrap();
    }
    assert_eq!(git.source_state().unwrap(), before);
    files::write_whole(&git.root.join("src/a.rs"), b"2").unwrap();
    let after = git.source_state().unwrap();
    assert_eq!(after.dirty, ["src/a.rs"]);
    assert_ne!(after.digest, before.digest);
}

/// `git status` trusts what it was told; the digest of the commit does not, whatever else finds it.
#[test]
fn the_source_of_a_commit_is_that_of_a_clean_checkout_and_no_other() {
    let (dir, git) = repository();
    let head = commit(&git, &[("a/b.rs", "1"), ("a-b", "2"), ("README.md", "x"), ("results/m.csv", "x")]);
    std::fs::write(dir.path().join("bytes"), [0xff, 0, b'\n', b'\n', 0xfe]).unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    std::os::unix::fs::symlink("a/b.rs", dir.path().join("link")).unwrap();
    assert_eq!(
        git.source_digest_of(&head).unwrap(),
        Digest::of(format!("{}  a-b\n{}  a/b.rs\n", Digest::of("2"), Digest::of("1")))
    );
    let head = commit(&git, &[("z", "3")]);
    let clean = git.source_state().unwrap();
    assert_eq!((clean.clean, clean.digest), (true, git.source_digest_of(&head).unwrap()));
    for hide in ["--assume-unchanged", "--skip-worktree"] {
        git.text(&["update-index", hide, "a/b.rs"]).unwrap();
        files::write_whole(&dir.path().join("a/b.rs"), hide.as_bytes()).unwrap();
        let hidden = git.source_state().unwrap();
        assert!(!git.text(&["status", "--porcelain"]).unwrap().contains("b.rs"), "git is silent of {hide}");
        assert_ne!(hidden.digest, git.source_digest_of(&head).unwrap());
        assert_eq!(hidden.commit, head);
        git.text(&["update-index", &hide.replacen("--", "--no-", 1), "a/b.rs"]).unwrap();
    }
    assert!(git.source_digest_of(&"0".repeat(40)).is_err());
}

#[test]
fn what_came_into_history_is_found_on_any_line_of_it() {
    let (_dir, git) = repository();
    let root = commit(&git, &[("a", "x")]);
    let first = commit(&git, &[("manifests/a.json", "1")]);
    git.text(&["checkout", "-q", "-b", "side", &root]).unwrap();
    let second = commit(&git, &[("manifests/a.json", "2"), ("b", "x")]);
    commit(&git, &[("manifests/a.json", "edited")]);
    git.text(&["rm", "-q", "manifests/a.json"]).unwrap();
    commit(&git, &[("c", "x")]);
    git.text(&["checkout", "-q", "-"]).unwrap();
    let merge = ["-c", "user.name=t", "-c", "user.email=t@t", "merge", "-q", "--no-commit", "--no-gpg-sign", "side"];
    git.text(&merge).unwrap();
    let third = commit(&git, &[("manifests/b.json", "3")]);
    let of = |commit: &str, name: &str, text: &str| Addition {
        name: format!("manifests/{name}.json"),
        commit: commit.to_owned(),
        digest: Digest::of(text),
    };
    let found = git.additions_below("manifests").unwrap();
    for expected in [of(&first, "a", "1"), of(&second, "a", "2"), of(&third, "b", "3")] {
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(git.additions_below("nowhere").unwrap(), []);
}

/// A repository's own configuration could have git start a program or write other words among its answers.
#[test]
fn a_repository_s_configuration_starts_no_program_and_adds_no_words() {
    let (dir, git) = repository();
    let head = commit(&git, &[("a", "1")]);
    let ran = dir.path().join("ran");
    let program = dir.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = program.display().to_string();
    for (key, value) in [
        ("log.showSignature", "true"),
        ("gpg.program", &program),
        ("gpg.format", "openpgp"),
        ("core.fsmonitor", &program),
        ("core.pager", &program),
        ("diff.external", &program),
    ] {
        git.text(&["config", key, value]).unwrap();
    }
    // A commit that bears a signature, which git would show by asking that program.
    let unsigned = git.text(&["cat-file", "commit", &head]).unwrap();
    let armour = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n\n";
    let signed = unsigned.replacen("\n\n", &format!("\n{armour}"), 1);
    let mut id = Vec::new();
    let write = git.child(&["hash-object", "-t", "commit", "-w", "--stdin"]);
    write.run_on_bytes(signed.as_bytes(), &mut |bytes| id.extend_from_slice(bytes)).unwrap();
    let head = String::from_utf8(id).unwrap().trim().to_owned();
    git.text(&["update-ref", "HEAD", &head]).unwrap();
    assert_eq!(git.commits_touching(&head, "a").unwrap(), std::slice::from_ref(&head));
    git.source_state().unwrap();
    git.changed_since(&head, &["a"]).unwrap();
    git.additions_below("a").unwrap();
    assert!(!ran.exists());
}

/// Shortcuts of a repository could make a commit the ancestor of one that it has nothing to do with.
#[test]
fn no_graft_and_no_replacement_is_history() {
    let (dir, git) = repository();
    let first = commit(&git, &[("a", "1")]);
    git.text(&["checkout", "-q", "--orphan", "other"]).unwrap();
    let other = commit(&git, &[("b", "1")]);
    assert!(!git.is_ancestor(&first, &other).unwrap());
    files::write_whole(&dir.path().join(".git/info/grafts"), format!("{other} {first}\n").as_bytes()).unwrap();
    assert!(!git.is_ancestor(&first, &other).unwrap());
    let tree = format!("{other}^{{tree}}");
    let join = ["-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "-m", "m", "-p", &first, &tree];
    let joined = git.text(&join).unwrap();
    git.text(&["replace", "-f", &other, joined.trim()]).unwrap();
    assert!(!git.is_ancestor(&first, &other).unwrap());
    assert!(!git.commits_touching(&other, "a").unwrap().contains(&first));
}

#[test]
fn an_untracked_source_file_is_dirt() {
    let (_dir, git) = repository();
    commit(&git, &[("a", "1")]);
    files::write_whole(&git.root.join("b b"), b"1").unwrap();
    assert_eq!(git.source_state().unwrap().dirty, ["b b"]);
}

#[test]
fn what_git_is_told_not_to_see_is_dirt_all_the_same() {
    let check = |hide: &dyn Fn(&Git), dirty: &[&str]| {
        let (_dir, git) = repository();
        commit(&git, &[("src/a.rs", "1\n"), ("src/b.rs", "1\n")]);
        hide(&git);
        let shown = git.text(&["status", "--porcelain"]).unwrap();
        assert!(shown.is_empty(), "{shown}");
        let state = git.source_state().unwrap();
        assert_eq!((state.clean, state.dirty), (false, dirty.iter().map(|&name| name.to_owned()).collect()));
    };
    let write = |git: &Git, name: &str, text: &str| {
        files::write_whole(&git.root.join(name), text.as_bytes()).unwrap();
    };
    for mark in ["--assume-unchanged", "--skip-worktree"] {
        check(
            &|git| {
                git.text(&["update-index", mark, "src/a.rs"]).unwrap();
                write(git, "src/a.rs", "2\n");
            },
            &["src/a.rs"],
        );
    }
    // A sparse checkout leaves files out.
    check(
        &|git| {
            git.text(&["update-index", "--skip-worktree", "src/b.rs"]).unwrap();
            fs_err::remove_file(git.root.join("src/b.rs")).unwrap();
        },
        &["src/b.rs"],
    );
    // Line endings that git makes alike again before it compares.
    check(
        &|git| {
            git.text(&["config", "core.autocrlf", "true"]).unwrap();
            fs_err::remove_file(git.root.join("src/a.rs")).unwrap();
            git.text(&["checkout", "-q", "--", "src/a.rs"]).unwrap();
        },
        &["src/a.rs"],
    );
    // What this clone alone excludes.
    check(&|git| (write(git, ".git/info/exclude", "new.cuh\n"), write(git, "src/new.cuh", "1")).0, &["src/new.cuh"]);
    check(
        &|git| {
            write(git, ".git/ignored", "*.cuh\n");
            git.text(&["config", "core.excludesFile", ".git/ignored"]).unwrap();
            write(git, "src/new.cuh", "1");
        },
        &["src/new.cuh"],
    );
}

#[test]
fn a_git_that_does_not_answer_is_no_absence() {
    let (dir, git) = repository();
    assert_eq!(git.file_at(&commit(&git, &[("a", "1")]), "b").unwrap(), None);
    let head = dir.path().join(".git/HEAD");
    let kept = fs_err::read(&head).unwrap();
    fs_err::remove_file(&head).unwrap();
    let error = Git::at(dir.path()).unwrap_err();
    assert_eq!(crate::failure::code_of(&error), ExitCode::Environment);
    assert!(error.to_string().contains("not a git repository"), "{error}");
    fs_err::write(&head, kept).unwrap();
    // An object that is gone is no file that was never there.
    let id = git.text(&["rev-parse", "HEAD:a"]).unwrap();
    let (folder, rest) = id.trim().split_at(2);
    fs_err::remove_file(dir.path().join(".git/objects").join(folder).join(rest)).unwrap();
    let error = git.file_at(&git.head().unwrap(), "a").unwrap_err();
    assert_eq!(crate::failure::code_of(&error), ExitCode::Environment);
    assert!(Git::at(tempfile::tempdir().unwrap().path()).unwrap().is_none());
}

#[test]
fn a_pointer_of_git_lfs_among_the_sources_is_found() {
    let (_dir, git) = repository();
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n", "0".repeat(64));
    commit(&git, &[("kernels/a.cu", "__global__"), ("results/summary/r/m.csv", &pointer)]);
    assert_eq!(git.first_pointer().unwrap(), None);
    commit(&git, &[("kernels/table.bin", &pointer)]);
    assert_eq!(git.first_pointer().unwrap().as_deref(), Some("kernels/table.bin"));
}

#[test]
fn a_folder_of_the_past_is_listed_and_archived_as_it_was() {
    let (dir, git) = repository();
    let first = commit(&git, &[("a/b/c.txt", "old\r\n"), ("a/d.txt", "12"), (".gitattributes", "* text=auto\n")]);
    commit(&git, &[("a/b/c.txt", "new")]);
    let listed = git.folder_at(&first, "a").unwrap().unwrap();
    let listed: Vec<_> = listed.iter().map(|e| (e.mode.as_str(), e.name.as_str())).collect();
    assert_eq!(listed, [("100644", "b/c.txt"), ("100644", "d.txt")]);
    for none in ["b", "a/d.txt", "../a"] {
        assert_eq!(git.folder_at(&first, none).unwrap(), None, "{none}");
    }
    let to = dir.path().join("a.tar");
    git.archive(&first, "a", &to).unwrap();
    let mut archive = tar::Archive::new(std::fs::File::open(&to).unwrap());
    let names = archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string());
    assert_eq!(names.filter(|name| !name.ends_with('/')).collect::<Vec<_>>(), ["b/c.txt", "d.txt"]);
    assert!(git.archive(&first, "b", &to).is_err());
    assert_eq!(tree_entry("100644 blob 00      17\tx y").unwrap().bytes, 17);
    assert_eq!(tree_entry("160000 commit 00       -\tx").unwrap().bytes, 0);
    assert!(tree_entry("[the first 9 bytes were cut]").is_none() && tree_entry("100644 blob\tx").is_none());
}

#[test]
fn the_tree_is_what_is_tracked_and_what_will_be() {
    let (dir, git) = repository();
    commit(&git, &[("a", "1"), ("gone", "1"), (".gitignore", "results/raw/\n")]);
    fs_err::remove_file(dir.path().join("gone")).unwrap();
    for name in ["results/new", "results/raw/r", "elsewhere"] {
        files::write_whole(&dir.path().join(name), b"123").unwrap();
    }
    let tree = git.tree_with(&["results"]).unwrap();
    assert_eq!(
        tree.into_iter().collect::<Vec<_>>(),
        [(".gitignore".into(), 13), ("a".into(), 1), ("results/new".into(), 3)]
    );
}

#[test]
fn history_answers_by_ancestry() {
    let (dir, git) = repository();
    let first = commit(&git, &[("a", "1")]);
    let second = commit(&git, &[("a", "2")]);
    let third = commit(&git, &[("b", "1")]);
    assert!(git.is_ancestor(&first, &third).unwrap());
    assert!(!git.is_ancestor(&third, &first).unwrap());
    assert_eq!(git.commits_touching(&third, "a").unwrap(), [second, first.clone()]);
    assert_eq!(git.file_at(&first, "a").unwrap().as_deref(), Some("1"));
    assert_eq!(git.file_at(&first, "b").unwrap(), None);
    assert!(git.knows(&third).unwrap());
    assert!(!git.knows(&"0".repeat(40)).unwrap());
    assert!(git.knows("HEAD").is_err());
    assert!(Git::at(&dir.path().join("..")).unwrap().is_none());
    assert!(Git::at(dir.path()).unwrap().is_some());
    assert!(!git.is_shallow().unwrap() && !git.is_cut_at(&first).unwrap());
}
