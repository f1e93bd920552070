//! What people read and write: the notebook, claims, prose with numbers, published runs as Markdown, and
//! which published numbers still stand.

pub mod claims;
pub mod notebook;
pub mod prose;
pub mod render;
pub mod standing;
