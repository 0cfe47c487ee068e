//! The frames of languages whose code is interpreted, or made while the program runs, wherever the
//! process stands.
//!
//! * `process`: the process, and what its files export of such languages.
//! * `python`: the threads of Python. See `retake_python`.
//! * `languages`: the other languages. See `retake_interpreters`.

mod languages;
mod process;
mod python;

pub(crate) use process::{Known, Scripts};
