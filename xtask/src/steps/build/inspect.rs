//! What the compiled cubins hold: kernels with resources and SASS digests, equal in both flavors.

use super::compile::{self, FLAVORS, Job, cubin_path};
use super::inputs::Inputs;
use crate::failure::fail;
use crate::pure::sass::Sass;
use crate::pure::{occupancy, ptxas, sass};
use anyhow::{Context, Result};
use schema::build::{Cubin, Kernel};
use schema::{Digest, ExitCode};
use std::path::Path;

/// What lies in a build folder.
pub(super) struct Made {
    /// Every cubin, by architecture, file and flavor.
    pub(super) cubins: Vec<Cubin>,
    /// Every kernel of the measured cubins that its budget wants there.
    pub(super) kernels: Vec<Kernel>,
}

/// Looks into every cubin that `jobs` made below `dir`.
///
/// # Errors
/// Exit 12, naming every kernel whose flavors differ or whose cubin and compiler log disagree.
pub(super) fn cubins(inputs: &Inputs, jobs: &[Job], dir: &Path) -> Result<Made> {
    let mut made = Made { cubins: Vec::new(), kernels: Vec::new() };
    let mut problems = Vec::new();
    for job in jobs {
        made.cubins.push(Cubin {
            file: job.file.clone(),
            arch: job.arch.clone(),
            flavor: job.flavor.to_owned(),
            path: cubin_path(&job.file, &job.arch, job.flavor),
            sha256: Digest::of_file(job.cubin())?,
        });
    }
    for job in jobs.iter().filter(|job| job.flavor == FLAVORS[0]) {
        match kernels_of(inputs, job, dir) {
            Ok(kernels) => made.kernels.extend(kernels),
            Err(error) => problems.push(format!("kernels/{}.cu for {}: {error:#}", job.file, job.arch)),
        }
    }
    if problems.is_empty() {
        return Ok(made);
    }
    let message = format!("{} cubins are not what they should be:\n  {}", problems.len(), problems.join("\n  "));
    Err(fail(ExitCode::Build, message, "read the build logs; kernels must not depend on their source lines"))
}

fn kernels_of(inputs: &Inputs, job: &Job, dir: &Path) -> Result<Vec<Kernel>> {
    let [measured, lineinfo] = FLAVORS.map(|flavor| kernels_in(dir, job, flavor));
    let (measured, lineinfo) = (measured?, lineinfo?);
    same_sass(&measured, &lineinfo)?;
    let log = ptxas::parse(&compile::read_log(job)?)?;
    let limits = occupancy::limits(sass::arch_number(&job.arch)?)?;
    let wanted = measured.iter().filter(|found| inputs.budgets.kernel_wants(&job.file, &found.symbol, &job.arch));
    wanted
        .map(|found| {
            let spill_bytes = ptxas::cross_check(found, &log)?;
            let usage = log.iter().find(|usage| usage.symbol == found.symbol);
            Ok(Kernel {
                file: job.file.clone(),
                symbol: found.symbol.clone(),
                arch: job.arch.clone(),
                sass_digest: found.digest,
                registers: found.registers,
                spill_bytes,
                stack_bytes: found.stack_bytes.max(usage.map_or(0, |usage| usage.stack_bytes)),
                shared_bytes: found.shared_bytes,
                max_threads: found.max_threads,
                blocks_per_sm: occupancy::blocks_per_sm(limits, found.registers, found.shared_bytes, found.max_threads),
            })
        })
        .collect()
}

fn kernels_in(dir: &Path, job: &Job, flavor: &str) -> Result<Vec<Sass>> {
    let path = dir.join(cubin_path(&job.file, &job.arch, flavor));
    sass::kernels(&fs_err::read(&path)?, &job.arch).with_context(|| format!("{flavor} cubin"))
}

fn same_sass(measured: &[Sass], lineinfo: &[Sass]) -> Result<()> {
    let names = |kernels: &[Sass]| kernels.iter().map(|kernel| kernel.symbol.clone()).collect::<Vec<_>>();
    anyhow::ensure!(names(measured) == names(lineinfo), "flavors hold different kernels");
    let pairs = measured.iter().zip(lineinfo).filter(|(a, b)| a.digest != b.digest);
    let differ: Vec<&str> = pairs.map(|(kernel, _)| kernel.symbol.as_str()).collect();
    anyhow::ensure!(differ.is_empty(), "-lineinfo changes the SASS of {}", differ.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(symbol: &str, code: &str) -> Sass {
        Sass {
            symbol: symbol.into(),
            digest: Digest::of(code),
            registers: 1,
            frame_bytes: 0,
            stack_bytes: 0,
            shared_bytes: 0,
            max_threads: 1,
            calls: Vec::new(),
        }
    }

    #[test]
    fn flavors_that_differ_are_refused_by_name() {
        let measured = [kernel("a", "1"), kernel("b", "2")];
        same_sass(&measured, &measured).unwrap();
        let error = same_sass(&measured, &[kernel("a", "1"), kernel("b", "3")]).unwrap_err().to_string();
        assert!(error.contains("SASS of b"), "{error}");
        assert!(same_sass(&measured, &measured[..1]).is_err());
    }
}
