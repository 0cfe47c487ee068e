//! The commands. Each has a file with its options, its help, and its code.

pub mod backtrace;
pub mod cc;
pub mod checkpoint;
pub mod ci;
pub mod completions;
pub mod debug;
pub mod doctor;
pub mod ds;
pub mod dump;
pub mod info;
pub mod ls;
pub mod man;
pub mod mv;
pub mod pack;
pub mod ps;
pub mod reanimate;
pub mod record;
pub mod replay;
pub mod rm;
pub mod save;
pub mod trace;
pub mod unpack;
