//! The pipeline of Assay: config → provision → build → sanitize → clocks → run → record → gate → publish.
//!
//! `reproduce.rs` is that path, top to bottom. This crate never touches the GPU through CUDA.

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

pub mod pure;

pub mod world;

#[cfg(test)]
mod trial;
