//! Reads the compiled cubins: kernels with resources and SASS digests, which must be equal in both flavors.

use super::compile::{self, FLAVORS, Job, cubin_path};
use super::inputs::Inputs;
use anyhow::{Context, Result};
use host::failure::fail;
use pure::identity::cubin::paths_in;
use pure::identity::sass::Sass;
use pure::identity::{occupancy, ptxas, sass};
use schema::build::{Advisory, Cubin, Kernel};
use schema::{Digest, ExitCode};
use std::path::Path;

/// What lies in a build folder.
pub(super) struct Made {
    /// Every cubin, by architecture, file and flavor.
    pub(super) cubins: Vec<Cubin>,
    /// Every kernel of the measured cubins that its budget wants there.
    pub(super) kernels: Vec<Kernel>,
    /// What the compiler said of the measured cubins although it made them.
    pub(super) advisories: Vec<Advisory>,
}

/// The compiler that made what lies there.
pub(super) struct Compiler<'a> {
    /// Its version line.
    pub(super) nvcc: &'a str,
    /// Folders whose names a cubin with line information may hold: the sources' and the toolkit's.
    pub(super) own: [&'a Path; 2],
}

impl Compiler<'_> {
    fn foreign_paths(&self, job: &Job) -> Result<u32> {
        let found = paths_in(&fs_err::read(job.cubin())?);
        let is_own = |path: &String| self.own.iter().any(|own| Path::new(path).starts_with(own));
        Ok(u32::try_from(found.iter().filter(|path| !is_own(path)).count())?)
    }

    /// Refuses a cubin that another compiler made than the one that was asked.
    fn check_maker(&self, bytes: &[u8]) -> Result<()> {
        let said = pure::identity::cubin::Cubin::parse(bytes)?.made_by.map(|made_by| made_by.version);
        let other = said.filter(|said| said != self.nvcc);
        anyhow::ensure!(other.is_none(), "made by {:?}, and nvcc is {:?}", other.unwrap_or_default(), self.nvcc);
        Ok(())
    }
}

/// Looks into every cubin that `jobs` made.
///
/// # Errors
/// Exit 12, naming every kernel whose flavors differ or whose cubin and compiler log disagree.
pub(super) fn cubins(inputs: &Inputs, jobs: &[Job], by: &Compiler<'_>) -> Result<Made> {
    let mut made = Made { cubins: Vec::new(), kernels: Vec::new(), advisories: Vec::new() };
    let mut problems = Vec::new();
    for job in jobs {
        made.cubins.push(Cubin {
            file: job.file.clone(),
            arch: job.arch.clone(),
            flavor: job.flavor.to_owned(),
            path: cubin_path(&job.file, &job.arch, job.flavor),
            sha256: Digest::of_file(job.cubin())?,
            foreign_paths: by.foreign_paths(job)?,
        });
    }
    for job in jobs.iter().filter(|job| job.flavor == FLAVORS[0]) {
        match kernels_of(inputs, job, by, &mut made.advisories) {
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

fn kernels_of(inputs: &Inputs, job: &Job, by: &Compiler<'_>, advice: &mut Vec<Advisory>) -> Result<Vec<Kernel>> {
    let [measured, lineinfo] = FLAVORS.map(|flavor| kernels_in(job, flavor, by));
    let (measured, lineinfo) = (measured?, lineinfo?);
    same_sass(&measured, &lineinfo)?;
    let log = ptxas::parse(&compile::read_log(job)?)?;
    advice.extend(log.advice.iter().map(|said| advisory(job, said)));
    let limits = occupancy::limits(sass::arch_number(&job.arch)?)?;
    let wanted = measured.iter().filter(|found| inputs.budgets.kernel_wants(&job.file, &found.symbol, &job.arch));
    wanted
        .map(|found| {
            let spill_bytes = ptxas::cross_check(found, &job.arch, &log)?;
            let usage = log.kernels.iter().find(|usage| usage.symbol == found.symbol);
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

fn advisory(job: &Job, said: &ptxas::Advice) -> Advisory {
    Advisory {
        file: job.file.clone(),
        arch: job.arch.clone(),
        function: said.function.clone(),
        code: said.code.clone(),
        text: said.text.clone(),
    }
}

fn kernels_in(job: &Job, flavor: &str, by: &Compiler<'_>) -> Result<Vec<Sass>> {
    let bytes = fs_err::read(job.in_build(&cubin_path(&job.file, &job.arch, flavor)))?;
    let found = by.check_maker(&bytes).and_then(|()| sass::kernels(&bytes, &job.arch));
    found.with_context(|| format!("{flavor} cubin"))
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
