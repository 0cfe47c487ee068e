//! Where the structures of a version of CPython have their fields.
//!
//! The numbers are offsets in bytes, from CPython's headers for x86-64. A version keeps them over
//! its releases. Since 3.13 the interpreter itself describes its larger structures, which is used.

use crate::memory::Reader;
use thiserror::Error;

/// A version of CPython: 3 and this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8);

/// The oldest version that is known.
pub const OLDEST: Version = Version(8);
/// The newest version that is known.
pub const NEWEST: Version = Version(13);

/// Why the frames of an interpreter cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PythonError {
    /// The layout of this version is not known.
    #[error("the frames of Python 3.{0} are not known, only those of 3.{old} to 3.{new}",
        old = OLDEST.0, new = NEWEST.0)]
    Unknown(u8),
    /// The interpreter was built without the lock.
    #[error("the frames of Python without the global lock are not known")]
    FreeThreaded,
    /// The interpreter does not describe itself as this version does.
    #[error("the interpreter at {0:#x} does not describe itself as Python 3.13 does")]
    NotDescribed(u64),
}

/// How a thread leads to its newest frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Newest {
    /// The thread has the frame's address here. Its list of entries, if any, begins there, and an
    /// entry has the next one here.
    Object { at: u64, entries: Option<(u64, u64)> },
    /// The thread has here the address of its newest entry, which has here the address of the
    /// frame and of the next entry.
    Entry { at: u64, frame: u64, next: u64 },
    /// The same, but entries lie between the frames.
    Shims { at: u64, frame: u64 },
    /// The thread has the frame's address here.
    Frame { at: u64 },
}

/// Fields of frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameFields {
    pub code: u64,
    pub previous: u64,
    /// The dictionary of variables of a module or a class body.
    pub names: u64,
    pub instruction: u64,
    /// Who owns the frame; only newer frames have that.
    pub owner: u64,
    pub variables: u64,
}

/// Fields of code objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeFields {
    pub arguments: u64,
    pub keyword_arguments: u64,
    pub flags: u64,
    pub first_line: u64,
    pub file: u64,
    pub name: u64,
    pub lines: u64,
    /// The instructions themselves; only newer code has them inside.
    pub instructions: u64,
    /// The tuple of names of all variables; older code has three tuples.
    pub names: [u64; 3],
}

/// Where a thread has the exception that is on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Raised {
    /// Its type, its value and its traceback are here and in the next two words.
    Parts(u64),
    /// The exception itself is here.
    Object(u64),
}

/// All of a version's fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub version: Version,
    pub interpreters: u64,
    pub next_interpreter: u64,
    pub threads: u64,
    pub next_thread: u64,
    /// The thread's number in the C library, which is its thread pointer.
    pub thread_pointer: u64,
    pub newest: Newest,
    pub raised: Raised,
    pub frame: FrameFields,
    pub code: CodeFields,
    /// Where the text of a string begins that is all ASCII, and of one that is not.
    pub text: [u64; 2],
}

/// The place of a dictionary's keys, and of its values if it shares the keys with others.
pub(crate) const DICTIONARY: (u64, u64) = (32, 40);

/// The owner of a frame that stands for a call from C.
pub(crate) const OWNED_BY_C: u8 = 3;
/// Whether a frame of 3.11 is the first of its entry.
pub(crate) const IS_ENTRY: u64 = 68;

const CODE_UNTIL_3_10: CodeFields = CodeFields {
    arguments: 16,
    keyword_arguments: 24,
    flags: 36,
    first_line: 40,
    file: 104,
    name: 112,
    lines: 120,
    instructions: 0,
    // Local variables, those that inner functions use, too, and those of outer functions.
    names: [72, 88, 80],
};

const CODE_OF_3_11: CodeFields = CodeFields {
    arguments: 56,
    keyword_arguments: 64,
    flags: 48,
    first_line: 72,
    file: 112,
    name: 128,
    lines: 136,
    instructions: 184,
    names: [96, 0, 0],
};

const CODE_OF_3_12: CodeFields = CodeFields {
    arguments: 52,
    keyword_arguments: 60,
    first_line: 68,
    instructions: 192,
    ..CODE_OF_3_11
};

const OBJECT: FrameFields =
    FrameFields { code: 32, previous: 24, names: 56, instruction: 104, owner: 0, variables: 360 };

const OF_3_8: Layout = Layout {
    version: Version(8),
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    next_thread: 8,
    thread_pointer: 176,
    newest: Newest::Object { at: 24, entries: None },
    raised: Raised::Parts(88),
    frame: OBJECT,
    code: CODE_UNTIL_3_10,
    text: [48, 72],
};

const OF_3_10: Layout = Layout {
    version: Version(10),
    newest: Newest::Object { at: 24, entries: Some((48, 8)) },
    frame: FrameFields { instruction: 96, variables: 352, ..OBJECT },
    ..OF_3_8
};

const OF_3_11: Layout = Layout {
    version: Version(11),
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    next_thread: 8,
    thread_pointer: 152,
    newest: Newest::Entry { at: 56, frame: 8, next: 16 },
    raised: Raised::Parts(96),
    frame: FrameFields {
        code: 32,
        previous: 48,
        names: 24,
        instruction: 56,
        owner: 69,
        variables: 72,
    },
    code: CODE_OF_3_11,
    text: [48, 72],
};

const OF_3_12: Layout = Layout {
    version: Version(12),
    threads: 72,
    thread_pointer: 136,
    newest: Newest::Shims { at: 56, frame: 0 },
    raised: Raised::Object(96),
    frame: FrameFields {
        code: 0,
        previous: 8,
        names: 40,
        instruction: 56,
        owner: 70,
        variables: 72,
    },
    code: CODE_OF_3_12,
    text: [40, 56],
    ..OF_3_11
};

impl Layout {
    /// The layout of a version, for an interpreter whose state is at `runtime`.
    pub fn of(reader: Reader<'_>, runtime: u64, version: Version) -> Result<Self, PythonError> {
        match version.0 {
            8 => Ok(OF_3_8),
            9 => Ok(Self { version, ..OF_3_8 }),
            10 => Ok(OF_3_10),
            11 => Ok(OF_3_11),
            12 => Ok(OF_3_12),
            13 => Self::described(reader, runtime),
            other => Err(PythonError::Unknown(other)),
        }
    }

    /// The layout that an interpreter of 3.13 describes.
    fn described(reader: Reader<'_>, runtime: u64) -> Result<Self, PythonError> {
        // `xdebugpy`, the version, and whether the lock is left out. Then follow the offsets.
        const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
        const WORDS: u64 = 44;
        let words = reader.words(runtime, WORDS).filter(|words| {
            words[0] == COOKIE && words[1] >> 16 == 0x030d && words[3..].iter().all(|at| *at < MOST)
        });
        let Some(words) = words else { return Err(PythonError::NotDescribed(runtime)) };
        if words[2] != 0 {
            return Err(PythonError::FreeThreaded);
        }
        let at = |index: usize| words[index];
        Ok(Self {
            version: Version(13),
            interpreters: at(5),
            next_interpreter: at(8),
            threads: at(9),
            next_thread: at(21),
            thread_pointer: at(24),
            newest: Newest::Frame { at: at(23) },
            raised: Raised::Object(112),
            frame: FrameFields {
                previous: at(29),
                code: at(30),
                instruction: at(31),
                variables: at(32),
                owner: at(33),
                ..OF_3_12.frame
            },
            code: CodeFields {
                file: at(35),
                name: at(37),
                lines: at(38),
                first_line: at(39),
                arguments: at(40),
                names: [at(41), 0, 0],
                instructions: at(43),
                ..CODE_OF_3_12
            },
            ..OF_3_12
        })
    }
}

/// No structure is as large as this.
const MOST: u64 = 1 << 24;
