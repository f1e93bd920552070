//! Tests of the log reader, on logs that nvcc 13.0.88 wrote and on faults planted in them.

use super::*;
use crate::identity::sass;
use crate::trial::corruption;

/// Captured from nvcc 13.0.88 with `-Xptxas -v,-warn-spills`; one kernel calls a function that spills.
const SM80: &str = include_str!("../fixtures/ptxas-sm80.txt");
const SM90A: &str = include_str!("../fixtures/ptxas-sm90a.txt");

macro_rules! captured {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-", $name, ".log"))
    };
}

/// A cubin and the log it was compiled with.
const TOY: [(&str, &[u8], &str); 3] = [
    (
        "sm_80",
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-toy-sm_80.elf")),
        captured!("toy-sm_80"),
    ),
    (
        "sm_90",
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-toy-sm_90.elf")),
        captured!("toy-sm_90"),
    ),
    (
        "sm_90a",
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/nvcc/captured-13.0.88-toy-sm_90a.elf")),
        captured!("toy-sm_90a"),
    ),
];

fn usage(arch: &str, symbol: &str, registers: u32, frame: u32, stack: u32, spills: u32, shared: u32) -> Usage {
    let (symbol, arch) = (symbol.to_owned(), arch.to_owned());
    let (frame_bytes, stack_bytes) = (frame, stack);
    let functions = Vec::new();
    Usage { symbol, arch, registers, frame_bytes, stack_bytes, spill_bytes: spills, shared_bytes: shared, functions }
}

/// As [`usage()`], of a kernel that calls these.
fn calling(usage: Usage, functions: &[&str]) -> Usage {
    Usage { functions: functions.iter().map(|name| (*name).to_owned()).collect(), ..usage }
}

fn refused(log: &str, said: &str) {
    let error = format!("{:#}", parse(log).unwrap_err());
    assert!(error.contains(said), "{error:?} does not say {said:?}");
}

#[test]
fn real_logs_parse() {
    let log = parse(SM80).unwrap();
    assert_eq!(
        log.kernels,
        [
            calling(usage("sm_80", "first", 42, 144, 144, 64, 512), &["_Z2f1f", "_Z2f2f", "_Z3reci"]),
            calling(usage("sm_80", "plain", 24, 0, 0, 0, 0), &["_Z2f1f"]),
            calling(usage("sm_80", "_Z2tkILi4EEvPf", 25, 0, 32, 64, 0), &["_Z3reci"]),
        ]
    );
    assert_eq!(log.advice, []);
    let newer = parse(SM90A).unwrap().kernels;
    assert_eq!(Usage { functions: Vec::new(), ..newer[0].clone() }, usage("sm_90a", "first", 44, 144, 144, 64, 512));
    assert_eq!(newer.len(), 3);
    let spilling = calling(usage("sm_90", "spills", 32, 160, 160, 896, 0), &["_Z4deepfi"]);
    assert_eq!(parse(TOY[1].2).unwrap().kernels[0], spilling);
}

#[test]
fn a_log_without_kernels_is_empty_and_a_broken_number_an_error() {
    assert_eq!(parse("ptxas info    : 22 bytes gmem\n").unwrap(), Log::default());
    assert!(parse("Compiling entry function 'k' for\nptxas info    : Used many registers\n").is_err());
}

/// A build tool's prefix, a function of another file before the first kernel, a continuation line and no `Used` line for it.
#[test]
fn a_function_s_properties_are_not_its_neighbour_s() {
    let log = "1>  ptxas info    : Function properties for cudaMalloc\n\
        1>      8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n\
        ptxas info    : Function properties for _Z1kPf\n\
        ptxas         .     224 bytes stack frame, 284 bytes spill stores, 532 bytes spill loads\n\
        ptxas info    : Used 64 registers, 372 bytes cmem[0], 1 textures\n\
        ptxas info    : Function properties for _Z3devf(float, int)\n    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n\
        ptxas info    : Compiling entry function '_Z1lPf' for 'sm_80'\n\
        ptxas info    : Function properties for _Z1lPf\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 8 registers\n";
    let first = calling(usage("sm_80", "_Z1kPf", 64, 224, 224, 824, 0), &["_Z3devf(float, int)"]);
    let expected = [first, usage("sm_80", "_Z1lPf", 8, 0, 0, 0, 0)];
    assert_eq!(parse(log).unwrap().kernels, expected);
    assert_eq!(parse(&log.replace('\n', "\r\n")).unwrap().kernels, expected);
    refused(&format!("{log}ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n"), "compiled twice");
    refused(
        &format!("{log}ptxas info    : Compiling entry function '_Z1mPf' for 'sm_90a'\n"),
        "more than one architecture",
    );
    refused(
        &format!("{log}ptxas info    : Compiling entry function '_Z1mPf' for 'sm_80'\n"),
        "_Z1mPf states no registers",
    );
    refused(&log.replace(": Used 8 registers", ": Used 8"), "no \" registers\"");
    refused(&log.replace(": Used 8 registers", ": used"), "_Z1lPf states no registers");
    refused(&log.replace("properties for _Z1lPf", "properties for _Z1xPf"), "_Z1lPf states no frame");
}

#[test]
fn advice_is_kept_with_its_code_and_function() {
    let advice = |function: Option<&str>, code: Option<&str>, text: &str| Advice {
        function: function.map(str::to_owned),
        code: code.map(str::to_owned),
        text: text.to_owned(),
    };
    let injected = "(C7519) warpgroup.arrive is injected in around line 74 by compiler to allow use of registers in GMMA in function 'serialized'";
    let ignored =
        "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";
    let raised = "For profile sm_90 adjusting per thread register count of 10 to lower bound of 24";
    for (log, expected) in [
        (captured!("serialized-on-sm_90a"), advice(Some("serialized"), Some("C7519"), injected)),
        (captured!("setmaxnreg-on-sm_90a"), advice(None, Some("C7508"), ignored)),
        (captured!("maxrregcount-10"), advice(None, None, raised)),
    ] {
        let log = parse(log).unwrap();
        assert_eq!(log.advice.first(), Some(&expected));
    }
    // Shape of a public report; the text is made up.
    let reported = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to wgmma pipeline crossing function boundary at a function call in the function '_Z4kernPf'";
    let found = parse(reported).unwrap().advice;
    assert_eq!((found[0].function.as_deref(), found[0].code.as_deref()), (Some("_Z4kernPf"), Some("C7510")));
}

#[test]
fn lines_of_a_new_kind_are_kept() {
    let log = format!(
        "{SM80}ptxas info    : Used Barriers: 3 of 16\nptxas hint    : something new\nkern.cu(3): warning: unused\n"
    );
    let log = parse(&log.replace("Used Barriers", "Barriers used")).unwrap();
    let said: Vec<&str> = log.advice.iter().map(|advice| advice.text.as_str()).collect();
    assert_eq!(said, ["Barriers used: 3 of 16", "something new"]);
}

#[test]
fn a_spill_is_stated_where_it_is_warned_of() {
    let (_, _, log) = TOY[1];
    for hidden in ["424 bytes spill stores, 472", "424 bytes spill stores, 0", "0 bytes spill stores, 0"] {
        let at = log.rfind("424 bytes spill stores, 472").unwrap();
        let edited = format!("{}{hidden}{}", &log[..at], &log[at + 27..]);
        assert_eq!(parse(&edited).is_ok(), hidden == "424 bytes spill stores, 472", "{hidden}");
    }
}

#[test]
fn disagreement_with_the_cubin_is_refused() {
    for (arch, cubin, log) in TOY {
        let kernels = sass::kernels(cubin, arch).unwrap();
        let log = parse(log).unwrap();
        assert_eq!(kernels.len(), 3);
        for kernel in kernels {
            let spilled = if kernel.symbol == "spills" { if arch == "sm_80" { 888 } else { 896 } } else { 0 };
            assert_eq!(cross_check(&kernel, arch, &log).unwrap(), spilled, "{arch} {}", kernel.symbol);
            let says = |kernel: Sass, arch: &str, said: &str| {
                let error = cross_check(&kernel, arch, &log).unwrap_err().to_string();
                assert!(error.contains(said), "{error}");
            };
            says(Sass { registers: 41, ..kernel.clone() }, arch, "registers are 41 by the cubin and ");
            says(Sass { frame_bytes: 4, ..kernel.clone() }, arch, "frame bytes are 4 by the cubin and ");
            says(Sass { shared_bytes: 4, ..kernel.clone() }, arch, "shared bytes are 4 by the cubin and ");
            let other = vec![format!("${}$_Z5otherv", kernel.symbol), "$__internal_0_$__cuda_div".to_owned()];
            says(Sass { calls: other, ..kernel.clone() }, arch, "calls _Z5otherv by the cubin and not by ptxas");
            says(Sass { symbol: "absent".into(), ..kernel.clone() }, arch, "does not mention kernel absent");
            says(kernel, if arch == "sm_90" { "sm_90a" } else { "sm_90" }, "was compiled for sm_");
        }
    }
}

/// What a build takes from a cubin and its log, or why it refuses.
fn taken(kernels: &[Sass], arch: &str, log: &str) -> Result<Vec<(String, u32, u32)>> {
    let log = parse(log)?;
    let one = |kernel: &Sass| -> Result<(String, u32, u32)> {
        let spilled = cross_check(kernel, arch, &log)?;
        let usage = log.kernels.iter().find(|usage| usage.symbol == kernel.symbol).context("it was checked")?;
        Ok((kernel.symbol.clone(), spilled, kernel.stack_bytes.max(usage.stack_bytes)))
    };
    kernels.iter().map(one).collect()
}

/// Registers, frame and shared memory are the cubin's own; of what the log adds, no corruption takes anything away.
#[test]
fn no_corruption_of_a_log_hides_a_spill_or_a_stack() {
    let mut refused = 0;
    for (arch, cubin, log) in TOY {
        let kernels = sass::kernels(cubin, arch).unwrap();
        let truth = taken(&kernels, arch, log).unwrap();
        corruption::each(log, |what, damaged| match taken(&kernels, arch, damaged) {
            Err(_) => refused += 1,
            Ok(found) => {
                for ((symbol, spilled, stack), (_, true_spilled, true_stack)) in found.iter().zip(&truth) {
                    assert!(spilled >= true_spilled && stack >= true_stack, "{arch} {symbol}, {what}:\n{damaged}");
                }
            }
        });
    }
    assert!(refused > 10_000, "{refused}");
}

/// The line with the registers of one kernel stands where another's belongs: the captured log, its lines moved.
#[test]
fn a_number_from_another_kernel_s_line_is_refused() {
    for (arch, cubin, log) in TOY {
        let used: Vec<&str> = log.lines().filter(|line| line.contains(": Used ")).collect();
        let other = used.iter().find(|line| **line != used[0]).unwrap();
        let moved = log.replace(used[0], "<first>").replace(other, used[0]).replace("<first>", other);
        let kernels = sass::kernels(cubin, arch).unwrap();
        let refused = parse(&moved).is_err()
            || kernels.iter().any(|kernel| cross_check(kernel, arch, &parse(&moved).unwrap()).is_err());
        assert!(refused, "{arch}");
    }
}
