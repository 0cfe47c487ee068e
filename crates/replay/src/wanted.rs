//! The process of a replay that a debugger wants, before and after it is found.

/// The one process of the tree that a debugger wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The stream of its first thread.
    pub stream: u32,
    /// The number of events after which the first thread is held: at the start of the process, or
    /// of a program that it executes.
    pub events: u64,
    /// The streams from the first process to this one. Other processes are made only if they share
    /// memory.
    pub path: Vec<u32>,
    /// Whether no other process ever sees what this one maps shared. Such memory is then mapped in
    /// a way that gives copies of the process their own copies of it.
    pub is_alone: bool,
}

impl Wanted {
    /// The first process at its first program, behind its START and EXEC events. An image of any
    /// process can be restored in it.
    pub fn first_program() -> Self {
        Self { stream: 0, events: 2, path: vec![0], is_alone: false }
    }
}

/// The wanted process, waiting to be released before anything of the program has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its process number.
    pub pid: i32,
    /// The index in the header of its first thread's slot.
    pub slot: usize,
}
