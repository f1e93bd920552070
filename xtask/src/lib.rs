//! The pipeline of Assay: config → provision → build → sanitize → clocks → run → record → gate → publish.
//!
//! `path/reproduce.rs` is that path, top to bottom. This crate never touches the GPU through CUDA. Imports run one
//! way: each of these modules imports only those below it, and then the crates `host`, `pure` and `schema`.

pub mod cli;

pub mod path;

pub mod publish;

pub mod repo;

pub mod ask;

pub mod steps;

pub mod transfer;

pub mod runs;

#[cfg(test)]
mod trial;
