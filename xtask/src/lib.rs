//! The repository's own tasks, as a library so that the tests can call them.
//!
//! `table` and `parse` read `tables/`. `generate` turns them into the committed C, Rust and
//! Markdown. `tidy` checks the style of the sources. Nothing here depends on the product, so the
//! tables can always be regenerated.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod emit_c;
pub mod emit_docs;
pub mod emit_rust;
pub mod generate;
pub mod parse;
pub mod quoted;
pub mod signature;
pub mod table;
pub mod tidy;
