//! What a compiler's output means beyond its exit code: which failures have a remedy of their own, what must not be
//! in the output of a successful compilation, and which parts of it are specific to this machine. It runs nothing.

/// Words of nvcc 12 and 13, of ptxas and of the host compiler, with what each means and the next thing to do; the first that fits counts.
const CAUSES: [(&str, &str, &str); 9] = [
    (
        "unsupported GNU version",
        "the host compiler is newer than this nvcc supports",
        "install an older g++ and name it: NVCC_CCBIN=/usr/bin/g++-13 cargo xtask build",
    ),
    (
        "unsupported clang version",
        "the host compiler is newer than this nvcc supports",
        "name a g++ that it supports: NVCC_CCBIN=/usr/bin/g++-13 cargo xtask build",
    ),
    (
        "Failed to preprocess host compiler properties",
        "nvcc found no host compiler, or no room in its temporary folder",
        "install g++, or name one: NVCC_CCBIN=/usr/bin/g++ cargo xtask build",
    ),
    ("Unsupported gpu architecture", "this nvcc does not know the architecture", "cargo xtask build --arch sm_90"),
    (
        "not supported on .target",
        "an instruction needs another architecture, often one with an `a`",
        "state it as min_arch in kernels/*/budget.toml and build for it, e.g. --arch sm_90a",
    ),
    ("ptxas: not found", "the toolkit lacks its assembler", "cargo xtask clean, then cargo xtask provision"),
    ("cicc: not found", "the toolkit lacks its compiler", "cargo xtask clean, then cargo xtask provision"),
    (
        "died due to signal",
        "a part of the compiler crashed",
        "dmesg | tail; cargo xtask build again, and where it crashes again cargo xtask clean first",
    ),
    ("No space left on device", "the disk is full", "free some disk, then cargo xtask build"),
];

/// What failed in a compilation and what to type, if its output names one of the causes that have a remedy of their own.
#[must_use]
pub fn cause(output: &str) -> Option<(&'static str, &'static str)> {
    CAUSES.iter().find(|(words, ..)| output.contains(words)).map(|(_, what, remedy)| (*what, *remedy))
}

/// The first line in which a compiler names an error. After an exit code of 0 there must be none.
#[must_use]
pub fn error_line(output: &str) -> Option<&str> {
    output.lines().find(|line| is_error(line))
}

fn is_error(line: &str) -> bool {
    let line = line.trim_start();
    let of_tool = ["nvcc", "ptxas", "nvlink", "cicc", "fatbinary", "cudafe++"].iter().any(|tool| {
        let rest = line.strip_prefix(tool).unwrap_or_default().trim_start();
        rest.starts_with("error") || rest.starts_with("fatal")
    });
    // `file(1): error: …`, `file:1:2: fatal error: …`, `file.ptx, line 1; error   : …`
    of_tool
        || [": error:", ": error #", ": fatal error:", "; error ", "; fatal "].iter().any(|words| line.contains(words))
}

/// The text with the names of nvcc's temporary files cut down to what is the same in every build.
#[must_use]
pub fn without_temporaries(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("tmpxft_") {
        let start = rest[..at].rfind([' ', '"', '\'', '\n', '(']).map_or(0, |before| before + 1);
        kept.push_str(&rest[..start]);
        // tmpxft_<process>_<counter>-<number>_<source>.<kind>
        let name = &rest[at + "tmpxft_".len()..];
        let is_counter = |c: char| c.is_ascii_hexdigit() || matches!(c, '_' | '-');
        let source = name.find(|c: char| !is_counter(c)).unwrap_or(name.len());
        let source = name[..source].rfind('_').map_or(source, |before| before + 1);
        rest = &name[source..];
    }
    kept.push_str(rest);
    kept
}

/// The CUDA of a compiler's version line, as drivers count: 13000 for release 13.0.
#[must_use]
pub fn cuda_of(line: &str) -> Option<u32> {
    let release = line.split(", release ").nth(1)?.split(',').next()?;
    let (major, minor) = release.split_once('.')?;
    Some(major.parse::<u16>().map(u32::from).ok()? * 1000 + minor.parse::<u8>().map(u32::from).ok()? * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! captured {
        ($name:literal) => {
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-", $name, ".log"))
        };
    }

    #[test]
    fn captured_failures_name_their_cause() {
        for (log, what, remedy) in [
            (captured!("host-compiler-too-new"), Some("newer than this nvcc supports"), "NVCC_CCBIN="),
            (captured!("no-host-compiler"), Some("no host compiler"), "install g++"),
            (captured!("no-ptxas"), Some("lacks its assembler"), "provision"),
            (captured!("unsupported-arch"), Some("does not know the architecture"), "--arch sm_90"),
            (captured!("wgmma-on-sm_90"), Some("needs another architecture"), "sm_90a"),
            (captured!("syntax-error"), None, ""),
            (captured!("no-source"), None, ""),
            (captured!("unwritable-output"), None, ""),
        ] {
            let found = cause(log);
            assert_eq!(found.is_some(), what.is_some(), "{log}");
            let found = found.unwrap_or_default();
            assert!(found.0.contains(what.unwrap_or_default()) && found.1.contains(remedy), "{found:?}");
        }
    }

    #[test]
    fn every_captured_failure_has_an_error_line_and_no_success_has() {
        for (log, said) in [
            (captured!("host-compiler-too-new"), "unsupported GNU version"),
            (captured!("no-host-compiler"), "nvcc fatal"),
            (captured!("unsupported-arch"), "nvcc fatal"),
            (captured!("wgmma-on-sm_90"), "wgmma.fence"),
            (captured!("syntax-error"), "incomplete type"),
            (captured!("no-source"), "cc1plus: fatal error:"),
            (captured!("unwritable-output"), "could not be opened"),
        ] {
            assert!(error_line(log).is_some_and(|line| line.contains(said)), "{said}: {:?}", error_line(log));
        }
        for log in [
            captured!("toy-sm_80"),
            captured!("toy-sm_90"),
            captured!("serialized-on-sm_90a"),
            captured!("setmaxnreg-on-sm_90a"),
            captured!("maxrregcount-10"),
            "kern.cu(3): warning #177-D: variable \"error\" was declared but never referenced\n",
        ] {
            assert_eq!(error_line(log), None);
        }
    }

    #[test]
    fn a_release_line_gives_the_cuda_that_drivers_count_by() {
        assert_eq!(cuda_of("Cuda compilation tools, release 13.0, V13.0.88"), Some(13_000));
        assert_eq!(cuda_of("Cuda compilation tools, release 12.9, V12.9.86"), Some(12_090));
        for odd in ["", "release 13.0", "x, release 13, V13", "x, release 99999999999.0, V", "x, release 9.999, V"] {
            assert_eq!(cuda_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn temporary_names_are_cut_down_to_their_source() {
        for (text, expected) in [
            ("ptxas /tmp/tmpxft_00000e8f_00000000-6_wgmma.ptx, line 26; error", "ptxas wgmma.ptx, line 26; error"),
            ("\"/tmp/tmpxft_00002b10_00000000-6_kern_90.cudafe1.cpp\"\n", "\"kern_90.cudafe1.cpp\"\n"),
            ("nothing of the kind", "nothing of the kind"),
            ("tmpxft_1-2_a.ptx tmpxft_3-4_b.ptx", "a.ptx b.ptx"),
            ("tmpxft_", ""),
        ] {
            assert_eq!(without_temporaries(text), expected);
        }
    }
}
