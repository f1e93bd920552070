//! Resource budgets: what each kernel may use and must reach. Every violation is named, not the first.

use anyhow::Result;
use host::failure::fail;
use pure::identity::sass::arch_number;
use schema::ExitCode;
use schema::build::{Budget, BudgetFile, Kernel};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every budget, by kernel file (`preempt/yield`) and symbol.
#[derive(Debug, Default)]
pub(super) struct Budgets(BTreeMap<(String, String), Budget>);

impl Budgets {
    /// Reads the `budget.toml` of each of these folders of `kernels/` that has one.
    pub(super) fn read(kernels: &Path, folders: &BTreeSet<String>) -> Result<Self> {
        let mut all = Self::default();
        for folder in folders {
            let path = kernels.join(folder).join("budget.toml");
            if path.is_file() {
                let text = fs_err::read_to_string(&path)?;
                all.add(folder, &text).map_err(|error| {
                    fail(ExitCode::Config, format!("{}: {error:#}", path.display()), "correct the budget file")
                })?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, folder: &str, text: &str) -> Result<()> {
        let file: BudgetFile = toml::from_str(text)?;
        schema::check_format("budget file", file.format)?;
        for budget in file.kernel {
            for arch in budget.blocks_per_sm_on.keys().chain([&budget.min_arch]) {
                arch_number(arch)?;
            }
            let key = (format!("{folder}/{}", budget.file), budget.symbol.clone());
            let twice = self.0.insert(key, budget);
            anyhow::ensure!(twice.is_none(), "two budgets for kernel {}", twice.map(|b| b.symbol).unwrap_or_default());
        }
        Ok(())
    }

    /// Whether a file has anything for an architecture; a file without budgets has, and fails later by name.
    pub(super) fn file_wants(&self, file: &str, arch: &str) -> bool {
        let mut budgets = self.0.iter().filter(|((of, _), _)| of == file).map(|(_, budget)| budget).peekable();
        budgets.peek().is_none() || budgets.any(|budget| supports(arch, &budget.min_arch))
    }

    /// Whether a kernel is for an architecture; one without a budget is, and fails later by name.
    pub(super) fn kernel_wants(&self, file: &str, symbol: &str, arch: &str) -> bool {
        let budget = self.0.get(&(file.to_owned(), symbol.to_owned()));
        budget.is_none_or(|budget| supports(arch, &budget.min_arch))
    }
}

/// Holds kernels to their budgets.
///
/// # Errors
/// Exit 12, naming every kernel over budget, without a budget, and every budget without a kernel.
pub(super) fn enforce(budgets: &Budgets, files: &[String], archs: &[String], kernels: &[Kernel]) -> Result<()> {
    let mut violations: Vec<String> = kernels.iter().flat_map(|kernel| over(budgets, kernel)).collect();
    violations.extend(unused(budgets, files, archs, kernels));
    if violations.is_empty() {
        return Ok(());
    }
    let message = format!("{} resource budgets do not hold:\n  {}", violations.len(), violations.join("\n  "));
    Err(fail(ExitCode::Build, message, "change the kernel, or its entry in kernels/*/budget.toml"))
}

fn over(budgets: &Budgets, kernel: &Kernel) -> Vec<String> {
    let name = format!("{} {} on {}", kernel.file, kernel.symbol, kernel.arch);
    let Some(budget) = budgets.0.get(&(kernel.file.clone(), kernel.symbol.clone())) else {
        return vec![format!("{name}: no budget for this kernel")];
    };
    let most = [
        ("registers", kernel.registers, budget.registers),
        ("spilled bytes", kernel.spill_bytes, 0),
        ("stack bytes", kernel.stack_bytes, 0),
        ("static shared bytes", kernel.shared_bytes, budget.shared_bytes),
    ];
    let too_many = most.iter().filter(|(_, found, allowed)| found > allowed);
    let mut violations: Vec<String> =
        too_many.map(|(what, found, allowed)| format!("{name}: {found} {what}, {allowed} allowed")).collect();
    let fewest = budget.blocks_per_sm_on.get(&kernel.arch).copied().unwrap_or(budget.blocks_per_sm);
    if kernel.blocks_per_sm < fewest {
        violations.push(format!("{name}: {} resident blocks per SM, {fewest} needed", kernel.blocks_per_sm));
    }
    violations
}

fn unused(budgets: &Budgets, files: &[String], archs: &[String], kernels: &[Kernel]) -> Vec<String> {
    let built: BTreeSet<_> = kernels.iter().map(|k| (k.file.as_str(), k.symbol.as_str(), k.arch.as_str())).collect();
    let mut violations = Vec::new();
    for ((file, symbol), budget) in &budgets.0 {
        if !files.contains(file) {
            violations.push(format!("{file} {symbol}: a budget, but no kernels/{file}.cu"));
            continue;
        }
        let missing = archs.iter().filter(|arch| supports(arch, &budget.min_arch));
        let missing = missing.filter(|arch| !built.contains(&(file.as_str(), symbol.as_str(), arch.as_str())));
        violations.extend(missing.map(|arch| format!("{file} {symbol} on {arch}: a budget, but no such kernel")));
    }
    violations
}

/// Whether code that needs `min` runs on `arch`. Code for `sm_90a` runs nowhere else (PTX ISA, "PTX Module Directives: .target").
fn supports(arch: &str, min: &str) -> bool {
    match (arch_number(arch), arch_number(min)) {
        _ if min.ends_with(['a', 'f']) => arch == min,
        (Ok(arch), Ok(min)) => arch >= min,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;
    use schema::Digest;

    const BUDGET: &str = r#"
        format = 1
        [[kernel]]
        file = "yield"
        symbol = "yield_k64"
        registers = 128
        shared_bytes = 8192
        blocks_per_sm = 4
        blocks_per_sm_on = { sm_86 = 2 }
        min_arch = "sm_80"
    "#;

    fn budgets() -> Budgets {
        let mut budgets = Budgets::default();
        budgets.add("preempt", BUDGET).unwrap();
        budgets
    }

    fn kernel(arch: &str) -> Kernel {
        Kernel {
            file: "preempt/yield".into(),
            symbol: "yield_k64".into(),
            arch: arch.into(),
            sass_digest: Digest::of(b""),
            registers: 128,
            spill_bytes: 0,
            stack_bytes: 0,
            shared_bytes: 8192,
            max_threads: 256,
            blocks_per_sm: 4,
        }
    }

    fn check(kernels: &[Kernel], expected: &[&str]) {
        let archs: Vec<String> = kernels.iter().map(|kernel| kernel.arch.clone()).collect();
        let result = enforce(&budgets(), &["preempt/yield".into()], &archs, kernels);
        let text = result.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert_eq!(result.is_err(), !expected.is_empty(), "{text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        if let Err(error) = result {
            assert_eq!(code_of(&error), ExitCode::Build);
        }
    }

    #[test]
    fn at_its_limits_a_kernel_passes() {
        let small = Kernel { blocks_per_sm: 2, ..kernel("sm_86") };
        check(&[kernel("sm_90"), small], &[]);
    }

    #[test]
    fn every_violation_is_named() {
        let greedy = Kernel { registers: 129, spill_bytes: 4, stack_bytes: 8, shared_bytes: 8193, ..kernel("sm_90") };
        let lonely = Kernel { blocks_per_sm: 3, ..kernel("sm_80") };
        check(
            &[greedy, lonely],
            &[
                "5 resource budgets do not hold",
                "preempt/yield yield_k64 on sm_90: 129 registers, 128 allowed",
                "4 spilled bytes, 0 allowed",
                "8 stack bytes, 0 allowed",
                "8193 static shared bytes, 8192 allowed",
                "on sm_80: 3 resident blocks per SM, 4 needed",
            ],
        );
    }

    #[test]
    fn kernel_and_budget_need_each_other() {
        let stranger = Kernel { symbol: "other".into(), ..kernel("sm_90") };
        check(&[stranger], &["other on sm_90: no budget", "yield_k64 on sm_90: a budget, but no such kernel"]);
        let gone = enforce(&budgets(), &[], &[], &[]).unwrap_err().to_string();
        assert!(gone.contains("no kernels/preempt/yield.cu"), "{gone}");
    }

    #[test]
    fn architectures_order_and_feature_sets_stand_alone() {
        for (arch, min, expected) in [
            ("sm_80", "sm_80", true),
            ("sm_121a", "sm_80", true),
            ("sm_86", "sm_90", false),
            ("sm_90a", "sm_90a", true),
            ("sm_90", "sm_90a", false),
            ("sm_100", "sm_90a", false),
        ] {
            assert_eq!(supports(arch, min), expected, "{arch} {min}");
        }
    }

    #[test]
    fn a_malformed_file_says_what_is_wrong() {
        let mut budgets = budgets();
        assert!(budgets.add("preempt", BUDGET).unwrap_err().to_string().contains("two budgets"));
        assert!(budgets.add("x", &BUDGET.replace("sm_80", "volta")).is_err());
        assert!(budgets.add("x", &BUDGET.replace("registers", "regs")).unwrap_err().to_string().contains("regs"));
        assert!(budgets.add("x", &BUDGET.replace("format = 1", "format = 99")).is_err());
    }
}
