//! The pipeline of Assay: config → provision → build → sanitize → clocks → run → record → gate → publish.
//!
//! `reproduce.rs` is that path, top to bottom. This crate never touches the GPU through CUDA.

/// Says a line on stderr. Where nobody can hear it, such as after a hang-up, work goes on all the same.
#[macro_export]
macro_rules! tell {
    ($($what:tt)*) => {
        $crate::world::ui::tell(::std::format_args!($($what)*))
    };
}

pub mod reproduce;

pub mod session;

pub mod commands;

pub mod flags;

pub mod device;

pub mod config;

pub mod permit;

pub mod source;

pub mod rundir;

pub mod journal;

pub mod cache;

pub mod levels;

pub mod tidy;

pub mod ci;

pub mod failure;
pub mod paths;

pub mod steps;

pub mod ask;

pub mod world;

#[cfg(test)]
mod trial;
