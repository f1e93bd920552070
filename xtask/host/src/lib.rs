//! Everything outside the program that can fail, each behind a small interface: processes, containers, GPUs, git,
//! files.
//!
//! Nothing here knows what an experiment or a run is; only `paths` knows the layout of a checkout.

/// Says a line on stderr. Where nobody can hear it, such as after a hang-up, work goes on all the same.
#[macro_export]
macro_rules! tell {
    ($($what:tt)*) => {
        $crate::ui::tell(::std::format_args!($($what)*))
    };
}

pub mod failure;
pub mod paths;
pub mod ui;

pub mod cache;
pub mod files;
pub mod process;
pub mod program;

pub mod container;
pub mod git;
pub mod gpu;
pub mod machine;
pub mod wheels;
