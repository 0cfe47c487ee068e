//! The process of a replay that a debugger wants, and that process once it waits to be taken over.

/// The one process of the tree that a debugger wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The stream of its first thread.
    pub stream: u32,
    /// It is held once that thread has consumed this many events: the start of the process, or of a
    /// program it executes.
    pub events: u64,
    /// The streams from the first process to it. The processes of others are made only if they
    /// share memory.
    pub path: Vec<u32>,
    /// What it maps shared, nobody else ever sees: it is mapped so that copies of the process have
    /// copies of it.
    pub is_alone: bool,
}

/// The wanted process, waiting to be released before anything of the program has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its process number.
    pub pid: i32,
    /// Its first thread's slot in the header.
    pub slot: usize,
}
