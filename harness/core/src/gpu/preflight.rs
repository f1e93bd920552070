//! The CUDA driver library before its first use: checks that it exists, that it is not the toolkit's stub, and that
//! it initializes.
//!
//! The bindings panic where the library or a symbol of it is missing. This check turns that into an error that says
//! what to do.
#![expect(unsafe_code, reason = "loads the driver's library")]

use super::choice;
use crate::failure::fail;
use cudarc::driver::{DriverError, result, sys};
use schema::ExitCode;
use schema::driver::{Explained, explain, is_stub};
use std::path::Path;

/// What 999 is often about.
const UVM: &str = "/dev/nvidia-uvm";

/// Loads and initialises the driver.
///
/// # Errors
/// With [`ExitCode::Environment`], what is wrong with it and what to do.
pub(super) fn initialise() -> anyhow::Result<()> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(environment(
            "no CUDA driver library (libcuda.so.1) can be loaded on this machine: in a container, start it with GPU access \
             (it must bring the driver's libraries, capability `compute`); without a GPU, use --device emulated"
                .to_owned(),
        ));
    }
    // SAFETY: it was just found. Loading it runs its initialisers, as any use of it does.
    unsafe { sys::culib() };
    let maps = fs_err::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(path) = choice::libcuda_path(&maps).filter(|path| is_stub(path)) {
        let Explained { why, remedy } = explain(sys::CUresult::CUDA_ERROR_STUB_LIBRARY as u32);
        return Err(environment(format!("{}: {why}; {remedy}", path.display())));
    }
    result::init().map_err(refusal)
}

/// What a refusal to initialise means.
fn refusal(error: DriverError) -> anyhow::Error {
    let code = error.0 as u32;
    let Explained { why, remedy } = explain(code);
    let node = match code {
        999 => format!(" ({})", uvm(Path::new(UVM))),
        _ => String::new(),
    };
    environment(format!("failed to initialise the CUDA driver: error {code}, {why}{node}; {remedy}"))
}

/// Whether the node for unified memory is there and can be opened.
fn uvm(node: &Path) -> String {
    match std::fs::File::options().read(true).write(true).open(node) {
        Ok(_) => format!("{} can be opened", node.display()),
        Err(error) => format!("{} cannot be opened: {error}", node.display()),
    }
}

fn environment(message: String) -> anyhow::Error {
    fail(ExitCode::Environment, message)
}

/// A panic of the bindings about a symbol that the driver lacks becomes an error of this program: the driver is older than what
/// this harness calls. Unwinding through a half-loaded driver may crash, so the program ends at once.
pub fn missing_symbols_are_errors() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        let Some(symbol) = missing_symbol(text) else { return before(panic) };
        eprintln!(
            "error: the CUDA driver lacks {symbol}, which this harness calls: it is older than the harness needs, or no \
             driver at all; install a newer driver, or look which libcuda.so LD_LIBRARY_PATH finds"
        );
        std::process::exit(ExitCode::Environment.status());
    }));
}

/// The symbol that a panic of the bindings names, in the words of any of their versions.
fn missing_symbol(panic: &str) -> Option<&str> {
    let about = |words: &str| panic.split_once(words).map(|(_, rest)| rest);
    let rest = about("undefined symbol: ").or_else(|| about("Missing symbol "))?;
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    Some(name).filter(|name| name.starts_with("cu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_symbol_is_read_from_the_bindings_panic() {
        for (panic, expected) in [
            (
                "Missing symbol cuCtxCreate_v4: /lib/libcuda.so.1: undefined symbol: cuCtxCreate_v4",
                Some("cuCtxCreate_v4"),
            ),
            (
                "Expected symbol in library: DlSym { desc: \"/lib/x86_64-linux-gnu/libcuda.so.1: undefined symbol: cuLogsCurrent\" }",
                Some("cuLogsCurrent"),
            ),
            ("Missing symbol cuInit: gone", Some("cuInit")),
            ("index out of bounds", None),
            ("libfoo.so: undefined symbol: foo", None),
        ] {
            assert_eq!(missing_symbol(panic), expected);
        }
    }

    #[test]
    fn the_node_of_unified_memory_is_looked_at() {
        assert!(uvm(Path::new("/nonexistent/nvidia-uvm")).contains("cannot be opened"));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(uvm(file.path()).ends_with("can be opened"));
    }
}
