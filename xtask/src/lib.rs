//! The pipeline of Assay: config → provision → build → sanitize → clocks → run → record → gate → publish.
//!
//! `reproduce.rs` is that path, top to bottom. This crate never touches the GPU through CUDA.

pub mod failure;
pub mod paths;

pub mod steps;

pub mod ask;

pub mod pure;

pub mod world;

#[cfg(test)]
mod trial;
