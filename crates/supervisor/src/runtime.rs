//! Runtimes: the one that was built with this program, and those that made recordings.
//!
//! A recording has the runtime that made it as a content: its text, the bytes from `RUNTIME_TEXT`
//! on. There is nothing in it to parse. Replayed processes execute a file that is made here around
//! the text. So a runtime that comes from a stranger has no say in how the kernel loads it: no
//! interpreter, no other segment, no address.

use retake_contract::addresses::{ENTRY_RECORD, ENTRY_REPLAY, RUNTIME_TEXT};
use retake_recording::{ContentId, Metadata, Recording};
use std::borrow::Cow;
use std::io::Cursor;

/// The text of this build's runtime.
const OWN_TEXT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.text"));
/// Its hash.
const OWN_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/runtime.hash"));

/// The address of the entry at which an executed program starts while recording.
pub const START_RECORD: u64 = RUNTIME_TEXT + ENTRY_RECORD;

/// A stored text may have this many bytes. This build's has less than a tenth.
pub const MOST_TEXT_BYTES: usize = 4 << 20;

/// In a file made around a text, where the text begins.
const TEXT_OFFSET: usize = 0x1000;

/// Why a recording cannot be replayed by this build.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The supervisor here does not understand that runtime.
    #[error(
        "this retake does not understand the recording's runtime: it was made by retake {retake} \
         with contract {recorded}, and here is contract {here}\n  try       replaying it with \
         {advice}"
    )]
    Contract {
        /// The version of retake that made the recording.
        retake: String,
        /// The contract of the recording.
        recorded: String,
        /// The contract of this build.
        here: String,
        /// Which retake can replay it.
        advice: &'static str,
    },
    /// The recording lacks its runtime.
    #[error(
        "this recording needs the runtime of the retake that made it ({retake}, runtime \
         {recorded}), and does not have it; here is {here}\n  try       replaying it with that \
         retake, or retake dump, which shows its events"
    )]
    Missing {
        /// The version of retake that made the recording.
        retake: String,
        /// The recording's runtime.
        recorded: String,
        /// The runtime of this build.
        here: String,
    },
    /// The stored runtime is not what the recording says.
    #[error(
        "the runtime in the recording cannot be used: {0}\n  try       retake info --verify, which \
         finds all damage"
    )]
    Damaged(#[source] retake_recording::Error),
    /// The stored runtime has no possible size.
    #[error("the runtime in the recording is none: it has {0} bytes")]
    Size(usize),
}

/// A runtime.
#[derive(Debug, Clone)]
pub struct Runtime(Cow<'static, [u8]>);

impl Runtime {
    /// The runtime of this build.
    pub const OWN: Self = Self(Cow::Borrowed(OWN_TEXT));

    /// The runtime that made a recording. Its hash is checked.
    ///
    /// # Errors
    /// See [`RuntimeError`].
    pub fn of(recording: &Recording) -> Result<Self, RuntimeError> {
        check(recording)?;
        let metadata = recording.metadata();
        let Some(id) = metadata.runtime().filter(|_| metadata.runtime_hash != OWN_HASH) else {
            return Ok(Self::OWN);
        };
        let mut text = vec![0; MOST_TEXT_BYTES];
        let mut rest = Cursor::new(&mut text[..]);
        recording.copy_content(id, &mut rest).map_err(RuntimeError::Damaged)?;
        let bytes = rest.position() as usize;
        text.truncate(bytes);
        if text.len() as u64 <= ENTRY_REPLAY {
            return Err(RuntimeError::Size(bytes));
        }
        Ok(Self(Cow::Owned(text)))
    }

    /// The bytes from `RUNTIME_TEXT` on.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// A static executable that begins at the runtime's entry for replay.
    pub fn executable(&self) -> Vec<u8> {
        let text = self.text();
        let mut file = headers(text.len() as u64);
        file.resize(TEXT_OFFSET, 0);
        file.extend_from_slice(text);
        file
    }
}

/// What this build's runtime is called in stores.
pub fn own_id() -> ContentId {
    OWN_HASH.parse().expect("written by the build")
}

/// Checks that this build can replay a recording, as far as its metadata and the list of its files
/// say.
///
/// # Errors
/// `Contract`, `Missing`.
pub fn check(recording: &Recording) -> Result<(), RuntimeError> {
    let metadata = recording.metadata();
    let retake = metadata.retake_version.escape_default().to_string();
    let Metadata { contract_hash, contract_version, contract_revision, .. } = metadata;
    let named = |version: u32, revision: u32, hash: &str| match version {
        0 => format!("that of hash {}", shown_hash(hash)),
        _ => format!("{version}.{revision}"),
    };
    if !retake_contract::serves(contract_hash, *contract_version, *contract_revision) {
        let is_newer = (retake_contract::VERSION, retake_contract::REVISION)
            < (*contract_version, *contract_revision);
        return Err(RuntimeError::Contract {
            retake,
            recorded: named(*contract_version, *contract_revision, contract_hash),
            here: named(
                retake_contract::VERSION,
                retake_contract::REVISION,
                &retake_contract::HASH.to_string(),
            ),
            advice: if is_newer { "a newer retake" } else { "the retake that made it" },
        });
    }
    let has_it = metadata.runtime_hash == OWN_HASH
        || metadata.runtime().is_some_and(|id| recording.has_content(id));
    if has_it {
        return Ok(());
    }
    Err(RuntimeError::Missing {
        retake,
        recorded: shown_hash(&metadata.runtime_hash),
        here: shown_hash(OWN_HASH),
    })
}

/// The beginning of a hash, enough to recognise it. A hostile recording may have any text instead.
fn shown_hash(hash: &str) -> String {
    const SHOWN_DIGITS: usize = 12;
    match hash.chars().take(SHOWN_DIGITS).collect::<String>() {
        shown if shown.is_empty() => "none".to_owned(),
        shown => shown.escape_default().to_string(),
    }
}

/// The ELF header, and two program headers: a segment for the text, and a stack without execution.
fn headers(text_bytes: u64) -> Vec<u8> {
    const HEADER_BYTES: u64 = 64;
    const PROGRAM_HEADER_BYTES: u64 = 56;
    const TYPE_EXECUTABLE: u64 = 2;
    const X86_64: u64 = 62;
    const LOAD: u64 = 1;
    const STACK: u64 = 0x6474_e551;
    const READ_EXECUTE: u64 = 5;
    const READ_WRITE: u64 = 6;
    let header = [
        (TYPE_EXECUTABLE, 2),
        (X86_64, 2),
        (1, 4),
        (RUNTIME_TEXT + ENTRY_REPLAY, 8),
        (HEADER_BYTES, 8),
        (0, 8), // no sections
        (0, 4),
        (HEADER_BYTES, 2),
        (PROGRAM_HEADER_BYTES, 2),
        (2, 2), // program headers
        (0, 6),
    ];
    let text = [
        (LOAD, 4),
        (READ_EXECUTE, 4),
        (TEXT_OFFSET as u64, 8),
        (RUNTIME_TEXT, 8),
        (RUNTIME_TEXT, 8),
        (text_bytes, 8),
        (text_bytes, 8),
        (TEXT_OFFSET as u64, 8),
    ];
    let stack = [(STACK, 4), (READ_WRITE, 4), (0, 8), (0, 8), (0, 8), (0, 8), (0, 8), (16, 8)];
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    for (value, size) in header.into_iter().chain(text).chain(stack) {
        bytes.extend_from_slice(&u64::to_le_bytes(value)[..size]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSegment};

    #[test]
    fn the_text_begins_with_the_entry_table() {
        let text = Runtime::OWN.text();
        assert!(text.len() > 4096 && text.len() < MOST_TEXT_BYTES / 10);
        for entry in 0..5 {
            assert!(matches!(text[entry * 16], 0xe9 | 0xeb), "entry {entry} is a jump");
        }
        assert_eq!(own_id(), ContentId::of(text));
    }

    /// The same source gives the same text wherever it is built.
    #[test]
    fn the_text_does_not_tell_where_it_was_built() {
        let text = Runtime::OWN.text();
        for path in [env!("CARGO_MANIFEST_DIR"), env!("OUT_DIR"), "/runtime/", ".c\0"] {
            let found = text.windows(path.len()).any(|bytes| bytes == path.as_bytes());
            assert!(!found, "{path}");
        }
    }

    #[test]
    fn the_executable_loads_the_text_and_nothing_else() {
        let runtime = Runtime(Cow::Owned(vec![0xcc; 5000]));
        let bytes = runtime.executable();
        let file = object::File::parse(&*bytes).unwrap();
        assert_eq!(file.entry(), RUNTIME_TEXT + ENTRY_REPLAY);
        let segments: Vec<_> = file.segments().collect();
        assert_eq!((segments.len(), segments[0].address()), (1, RUNTIME_TEXT));
        assert_eq!(segments[0].data().unwrap(), runtime.text());
    }
}
