//! What kernels must not contain, because it would put a path or a line number into their SASS, or hide an instruction.

use anyhow::Result;
use host::files;
use std::path::Path;

/// One forbidden word in a kernel source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the root.
    pub path: String,
    /// What is wrong with it, and in which line.
    pub what: String,
}

/// Words that change SASS with the source's place.
const WORDS: &[&str] = &["assert", "__LINE__", "__FILE__"];
/// Words of inline assembly.
const ASM: &[&str] = &["asm", "__asm", "__asm__"];
/// The one file for inline assembly.
const ASM_FILE: &str = "common/ptx.cuh";

/// Every forbidden word below `kernels/`; comments and strings do not count.
///
/// # Errors
/// When a source cannot be read.
pub fn kernels_forbidden(kernels: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if !kernels.is_dir() {
        return Ok(findings);
    }
    for name in files::scan(kernels)?.files.into_keys() {
        if [".cu", ".cuh", ".h", ".hpp", ".inl"].iter().any(|ending| name.ends_with(ending)) {
            findings.extend(in_source(&name, &files::read_text(&kernels.join(&name))?));
        }
    }
    Ok(findings)
}

fn in_source(name: &str, source: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(code_only(source).lines()) {
        for word in line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let what = if WORDS.contains(&word) {
                format!("line {number}: {word} would make SASS depend on the folder of the source")
            } else if ASM.contains(&word) && name != ASM_FILE {
                format!("line {number}: inline assembly belongs in kernels/{ASM_FILE}")
            } else {
                continue;
            };
            findings.push(Finding { path: format!("kernels/{name}"), what });
        }
    }
    findings
}

/// The source with comments and literals blanked; lines keep their numbers.
fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let skipped = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            '\'' if code.ends_with(|c: char| c.is_ascii_alphanumeric()) => 0, // A digit separator.
            '"' | '\'' => literal_len(rest, next),
            _ => 0,
        };
        if skipped == 0 {
            code.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            code.push(' ');
            code.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
            rest = &rest[skipped..];
        }
    }
    code
}

/// Length of the literal that `rest` begins with; a quote without its end on the line begins none.
fn literal_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' if !escaped => return 0,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, source: &str, expected: &[&str]) {
        let found: Vec<String> = in_source(name, source).into_iter().map(|finding| finding.what).collect();
        let matches = found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| f.contains(e));
        assert!(matches, "{source:?}: {found:?}");
    }

    #[test]
    fn forbidden_words_are_found_with_their_line() {
        check("preempt/x.cu", "int a;\nassert(a);\n", &["line 2: assert"]);
        check("preempt/x.cu", "f(__FILE__, __LINE__);", &["__FILE__", "__LINE__"]);
        check("preempt/x.cu", "/* one\n two */ asm volatile(\"nop;\");", &["line 2: inline assembly"]);
        check("common/ptx.cuh", "asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(sm));", &[]);
        check("common/ptx.cuh", "assert(1);", &["assert"]);
    }

    #[test]
    fn comments_literals_and_longer_words_do_not_count() {
        check("x/y.cu", "// assert\n/* __LINE__ */ static_assert(true, \"asm \\\" assert\"); int asmuth = '\"';", &[]);
        check("x/y.cu", "int n = 1'000; assert(n); char c = 'c';", &["assert"]);
    }
}
