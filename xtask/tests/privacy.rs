//! Nothing that names a machine, its user or its GPU is in any file that a publication would commit: names are planted where a
//! run could pick them up, and every byte of its files is searched for them. What NVML tells is in `clocks.rs`.

mod checkout;

use checkout::{Checkout, SMOKE};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use xtask::runs::layout::is_detached;

/// Stands in every planted name.
const MARK: &str = "plantedmark";
const ADDRESS: &str = "10.98.76.54";

#[test]
fn no_file_of_a_run_names_the_machine_it_was_made_on() {
    let Some(checkout) = Checkout::built("host") else { return };
    let home = checkout.path(format!("target/{MARK}home"));
    let bin = home.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    // It cannot reach its daemon, and says where it looked and who asked.
    let docker = format!(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon at tcp://{ADDRESS}:2375 from {MARK}hostname for {MARK}user in {}' >&2\nexit 1\n",
        home.display()
    );
    std::fs::write(bin.join("docker"), docker).unwrap();
    std::fs::set_permissions(bin.join("docker"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let real_home = std::env::var("HOME").unwrap_or_default();
    let tools = |name: &str, folder: &str| std::env::var(name).unwrap_or_else(|_| format!("{real_home}/{folder}"));

    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(SMOKE).args(["auto", "--json"]).current_dir(checkout.path("")).stdin(Stdio::null());
    command.env("PATH", path).env("HOME", &home);
    command.env("CARGO_HOME", tools("CARGO_HOME", ".cargo")).env("RUSTUP_HOME", tools("RUSTUP_HOME", ".rustup"));
    for name in ["USER", "LOGNAME", "SUDO_USER", "HOSTNAME", "API_TOKEN", "RUN_SECRET"] {
        command.env(name, format!("{MARK}{}", name.to_lowercase().replace('_', "")));
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = object["run"].as_str().unwrap();

    let folder = format!("results/raw/{run}");
    let environment = std::fs::read_to_string(checkout.path(&folder).join("environment.json")).unwrap();
    assert!(environment.contains("daemon at tcp://<address>:2375 from <host> for <user> in ~"), "{environment}");
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let root = checkout.path("").display().to_string();
    let mut planted = vec![MARK.to_owned(), ADDRESS.to_owned(), root.trim_end_matches('/').to_owned()];
    // A name of two letters stands in any file.
    planted.extend((hostname.len() > 5).then_some(hostname));
    let files: Vec<String> = checkout.files(&folder).into_iter().filter(|name| !is_detached(name)).collect();
    assert!(files.len() > 30, "{files:?}");
    for name in files {
        let bytes = std::fs::read(checkout.path(&folder).join(&name)).unwrap();
        for word in &planted {
            assert!(!name.contains(word.as_str()) && !holds(&bytes, word), "{name} holds {word}");
        }
    }
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}
