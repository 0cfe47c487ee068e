//! The metadata of a recording: `recording.json`, and the same text in a frame of the events file.
//!
//! The file begins with a checksum of the rest, so that a changed byte is noticed. The copy inside
//! the events file counts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use crate::ContentId;
use crate::cut::CutEnd;
use crate::frame::MAX_CHUNK_BYTES;

/// The largest metadata text that is written or read: one frame. The arguments of a program easily
/// fit.
pub(crate) const MAX_METADATA_BYTES: usize = MAX_CHUNK_BYTES;

/// Bytes that are nearly always text: a path, an argument. In JSON they are a string if they are
/// UTF-8, and otherwise `{"hex": "..."}`, so that nothing is lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct ByteText(pub Vec<u8>);

impl ByteText {
    /// Returns the text for display. Invalid UTF-8 is replaced.
    pub fn to_string_lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Returns the bytes as an operating-system string.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl From<&str> for ByteText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<OsString> for ByteText {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ByteTextForm {
    Text(String),
    Hex { hex: String },
}

impl Serialize for ByteText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match std::str::from_utf8(&self.0) {
            Ok(text) => ByteTextForm::Text(text.to_owned()),
            Err(_) => {
                ByteTextForm::Hex { hex: self.0.iter().map(|byte| format!("{byte:02x}")).collect() }
            }
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ByteText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match ByteTextForm::deserialize(deserializer)? {
            ByteTextForm::Text(text) => Ok(Self(text.into_bytes())),
            ByteTextForm::Hex { hex } => bytes_of_hex(&hex)
                .map(Self)
                .ok_or_else(|| serde::de::Error::custom("expected pairs of hexadecimal digits")),
        }
    }
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    let pair = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    hex.as_bytes().chunks_exact(2).map(pair).collect()
}

/// The machine that made a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The kernel release, as in `uname -r`.
    pub kernel: String,
    /// The name of the processor model.
    pub cpu_model: String,
    /// Processor features without which the recording cannot be replayed.
    pub features_needed: Vec<String>,
    /// Everything else about the processor that programs can see.
    pub processor: Processor,
}

/// What programs can see of a processor. Replay reproduces it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// The answers of CPUID.
    pub cpuid: Vec<CpuidAnswer>,
    /// The state components that signal frames save (XCR0).
    pub extended_features: u64,
    /// The size of these components in bytes.
    pub extended_bytes: u32,
    /// Whether CPUID trapped during recording, so that code was not patched for it.
    pub traps_cpuid: bool,
}

/// A CPUID leaf, subleaf (`u32::MAX`: any), and the values of eax, ebx, ecx, edx. The text form is
/// six hexadecimal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuidAnswer(pub [u32; 6]);

impl From<CpuidAnswer> for String {
    fn from(answer: CpuidAnswer) -> Self {
        answer.0.map(|word| format!("{word:x}")).join(" ")
    }
}

impl TryFrom<String> for CpuidAnswer {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let words: Option<Vec<u32>> =
            text.split(' ').map(|word| u32::from_str_radix(word, 16).ok()).collect();
        words
            .and_then(|words| words.try_into().ok())
            .map(Self)
            .ok_or("expected six hexadecimal numbers")
    }
}

/// How often replay compares memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// At every point where a hash was recorded.
    Full,
    /// At some of these points.
    #[default]
    Sampled,
    /// Never.
    Off,
}

/// Which orderings between threads that share memory are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// All orderings: threads take turns, and one of them runs user code at a time.
    #[default]
    Serial,
    /// The orderings of system calls, of atomic instructions and of the C library's thread
    /// functions. User code runs in parallel.
    Sync,
    /// As `Sync` in processes whose code shows how its threads synchronise; otherwise as `Serial`.
    Auto,
}

impl Policy {
    /// Whether threads of a process may run in parallel.
    pub fn is_parallel(self) -> bool {
        self != Self::Serial
    }
}

/// How the recorded program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// Recording was stopped before the program ended.
    Stopped,
}

/// What is known only at the end of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How the first process ended.
    pub exit: Exit,
    /// The duration of the recording in milliseconds.
    pub duration_ms: u64,
    /// Counters by name, such as "calls" and "ptrace_stops". The writer adds "streams", "chunks",
    /// "events", "stream_bytes" and "file_bytes".
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// The files that the program may have changed while it had them mapped: device (its upper half
    /// has some bits of the file's creation time) and inode. Absent if that is unknown.
    #[serde(default)]
    pub changed_files: Option<Vec<(u64, u64)>>,
    /// Under the policy `Auto`: the code that made a process with threads take turns.
    #[serde(default)]
    pub serial_because: Option<String>,
    /// The same, for code that was loaded when the threads already ran in parallel. It is unknown
    /// whether replay is exact.
    #[serde(default)]
    pub untold_late: Option<String>,
    /// As [`Metadata::began`], at the end of the recording.
    #[serde(default)]
    pub ended: Option<[u64; 3]>,
}

impl Outcome {
    /// Returns an outcome with only the end of the first process set.
    pub fn of_exit(exit: Exit) -> Self {
        Self {
            exit,
            duration_ms: 0,
            counters: BTreeMap::new(),
            changed_files: None,
            serial_because: None,
            untold_late: None,
            ended: None,
        }
    }
}

/// The metadata of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The version of the format; set by the writer.
    pub format_version: u16,
    /// Sixteen hexadecimal digits that are in every frame; set by the writer.
    pub recording_id: String,
    /// The version of retake that made the recording.
    pub retake_version: String,
    /// The path of the program.
    pub command: ByteText,
    /// The arguments, beginning with the program's name.
    pub arguments: Vec<ByteText>,
    /// The directory in which the program started.
    pub working_directory: ByteText,
    /// The number of environment variables.
    pub environment_count: u32,
    /// When the program started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// The clocks when recording began: ticks of the time-stamp counter, nanoseconds since 1970,
    /// and nanoseconds on the monotonic clock.
    pub began: Option<[u64; 3]>,
    /// The rate of the time-stamp counter. 0 if the counter does not run evenly; then events have
    /// no stamps.
    pub ticks_per_second: u64,
    /// The machine.
    pub machine: Machine,
    /// The hash of the system-call table.
    pub table_hash: String,
    /// The hash of the contract between runtime and supervisor.
    pub contract_hash: String,
    /// The contract's version; 0 if it is no version's.
    pub contract_version: u32,
    /// The contract's revision.
    pub contract_revision: u32,
    /// The hash of the runtime's text.
    pub runtime_hash: String,
    /// Whether the text is among the files.
    pub has_runtime: bool,
    /// How often memory hashes were recorded.
    pub check_level: CheckLevel,
    /// Which orderings between threads are recorded.
    pub policy: Policy,
    /// Whether the program ran already when recording began. Its first process then begins at its
    /// first image.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attached: bool,
    /// Other settings, by name.
    pub settings: BTreeMap<String, String>,
    /// How the recording ended. Absent while it is made, and if the recorder was killed.
    pub outcome: Option<Outcome>,
    /// What was known of the end of a recording that was cut off, when it was packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutEnd>,
    /// In a copy of a recording that begins at images: their contents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

const PREFIX: &str = "{\n  \"checksum\": \"";
const CHECKSUM_DIGITS: usize = 16;

#[derive(Serialize)]
struct WithChecksum<'a> {
    checksum: &'a str,
    #[serde(flatten)]
    metadata: &'a Metadata,
}

impl Metadata {
    /// The content that is the runtime; `None` if the recording does not claim to have it.
    pub fn runtime(&self) -> Option<ContentId> {
        self.runtime_hash.parse().ok().filter(|_| self.has_runtime)
    }

    /// Whether the program went on when recording ended.
    pub fn program_went_on(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.exit == Exit::Stopped)
    }

    /// Returns the text of `recording.json`. The error says that it is too long.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, String> {
        let zeros = "0".repeat(CHECKSUM_DIGITS);
        let form = WithChecksum { checksum: &zeros, metadata: self };
        let mut text = serde_json::to_string_pretty(&form)
            .expect("metadata has string keys only")
            .into_bytes();
        text.push(b'\n');
        let checksum = format!("{:016x}", xxh3_64(&text));
        text[PREFIX.len()..PREFIX.len() + CHECKSUM_DIGITS].copy_from_slice(checksum.as_bytes());
        if text.len() > MAX_METADATA_BYTES {
            return Err(format!(
                "they have {} bytes, more than the {MAX_METADATA_BYTES} possible",
                text.len()
            ));
        }
        Ok(text)
    }

    /// Parses the text. The error says what is wrong with it.
    pub(crate) fn from_json(text: &[u8]) -> Result<Self, String> {
        let digits = PREFIX.len()..PREFIX.len() + CHECKSUM_DIGITS;
        let stated = text.get(digits.clone()).ok_or("it is too short")?;
        if !text.starts_with(PREFIX.as_bytes()) {
            return Err("it does not begin with a checksum".to_owned());
        }
        let mut zeroed = text.to_vec();
        zeroed[digits].fill(b'0');
        if format!("{:016x}", xxh3_64(&zeroed)).as_bytes() != stated {
            return Err("its checksum is wrong".to_owned());
        }
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Metadata {
        Metadata {
            command: "/bin/cat".into(),
            arguments: vec!["cat".into(), ByteText(vec![0xff, 0x00, 0x61])],
            outcome: Some(Outcome {
                exit: Exit::Killed(11),
                duration_ms: 12,
                counters: [("calls".to_owned(), 3)].into(),
                changed_files: Some(vec![(1, 2)]),
                serial_because: Some("code made at run time".to_owned()),
                untold_late: None,
                ended: Some([5, 6, u64::MAX]),
            }),
            ..Metadata::default()
        }
    }

    #[test]
    fn metadata_reads_back() {
        for metadata in [example(), Metadata::default()] {
            assert_eq!(Metadata::from_json(&metadata.to_json().unwrap()).unwrap(), metadata);
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let good = example().to_json().unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(Metadata::from_json(&bad).is_err(), "byte {at}");
            assert!(Metadata::from_json(&good[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn fields_come_and_go() {
        let zeros = "0".repeat(CHECKSUM_DIGITS);
        let text = format!(
            "{PREFIX}{zeros}\",\n  \"command\": \"/bin/cat\", \"of_another_version\": [1]\n}}\n"
        );
        let checksum = format!("{:016x}", xxh3_64(text.as_bytes()));
        let read = Metadata::from_json(text.replacen(&zeros, &checksum, 1).as_bytes()).unwrap();
        assert_eq!(read, Metadata { command: "/bin/cat".into(), ..Metadata::default() });
    }
}
