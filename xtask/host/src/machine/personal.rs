//! The names of this machine and its user, so that they can be removed from published text.

use std::path::Path;
use words::personal::Names;

/// The names that text of this machine may hold. `root` is the checkout or unpacked bundle.
#[must_use]
pub fn names(root: &Path) -> Names {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let folder = |path: String, instead| (path.trim_end_matches('/').to_owned(), instead);
    let folders = [Some((root.display().to_string(), ".")), var("HOME").map(|home| (home, "~"))];
    Names {
        folders: folders.into_iter().flatten().map(|(path, instead)| folder(path, instead)).collect(),
        hosts: [Some(node), var("HOSTNAME")].into_iter().flatten().collect(),
        users: ["USER", "LOGNAME", "SUDO_USER"].into_iter().filter_map(var).collect(),
    }
}
