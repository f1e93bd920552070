//! Checks of this repository itself: `tidy`, and the commands that make up CI. No run is looked at here.

pub mod ci;
pub mod tidy;

/// A shell whose commands run in `root`.
fn shell(root: &std::path::Path) -> xshell::Result<xshell::Shell> {
    let sh = xshell::Shell::new()?;
    sh.change_dir(root);
    Ok(sh)
}
