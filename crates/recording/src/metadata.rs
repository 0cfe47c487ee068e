//! What a recording says about itself as a whole: `recording.json`, and the same text in a frame of
//! the events file.
//!
//! The file begins with a checksum of the rest, so that a changed byte is noticed; the copy inside
//! the events file is the one that counts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use crate::frame::MAX_CHUNK_BYTES;

/// The largest metadata text that is written or read: a frame's worth. The arguments of a program
/// fit easily.
pub(crate) const MAX_METADATA_BYTES: usize = MAX_CHUNK_BYTES;

/// Bytes that are nearly always text: a path, an argument. JSON has them as a string where they are
/// UTF-8, otherwise as `{"hex": "..."}`, so that nothing is lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct ByteText(pub Vec<u8>);

impl ByteText {
    /// The text for people; what is not UTF-8 is replaced.
    pub fn to_string_lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// As the system's own kind of string.
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

/// The machine a recording was made on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Kernel release, as `uname -r` says it.
    pub kernel: String,
    /// Name of the processor model.
    pub cpu_model: String,
    /// Processor features without which the recording cannot be replayed.
    pub features_needed: Vec<String>,
    /// What else programs can see of the processor.
    pub processor: Processor,
}

/// What programs can see of a processor, and replay repeats.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// The answers of CPUID.
    pub cpuid: Vec<CpuidAnswer>,
    /// The state components that signal frames save (XCR0).
    pub extended_features: u64,
    /// Size of that area, in bytes.
    pub extended_bytes: u32,
    /// CPUID was made to trap while recording, so that code was not patched for its sake.
    pub traps_cpuid: bool,
}

/// Leaf, subleaf (`u32::MAX`: any), eax, ebx, ecx, edx. In text: six hexadecimal numbers.
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
    /// At some.
    #[default]
    Sampled,
    /// Never.
    Off,
}

/// Which orderings between threads that share memory are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// All: they take turns, and one of them runs user code at a time.
    #[default]
    Serial,
    /// That of system calls, of atomic instructions and of the C library's functions for threads;
    /// user code runs in parallel.
    Sync,
    /// As `Sync` in processes whose code tells by what its threads synchronise, else as `Serial`.
    Auto,
}

impl Policy {
    /// Whether threads of some process may run in parallel.
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
    /// The recording was stopped before the program ended.
    Stopped,
}

/// What is known only when a recording ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How the first process ended.
    pub exit: Exit,
    /// From start to end, in milliseconds.
    pub duration_ms: u64,
    /// Counts by name: "calls", "ptrace_stops" and so on. The writer adds "streams", "chunks",
    /// "events", "stream_bytes" and "file_bytes".
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Device (in its high half: some bits of when the file was made) and inode of the files that
    /// the program may have changed while it had them mapped; absent: nobody knows.
    #[serde(default)]
    pub changed_files: Option<Vec<(u64, u64)>>,
    /// Under the policy `Auto`: the code because of which a process with threads went in turns.
    #[serde(default)]
    pub serial_because: Option<String>,
    /// The same, of code that came when its threads ran in parallel already: whether replay is
    /// exact is not known.
    #[serde(default)]
    pub untold_late: Option<String>,
    /// As [`Metadata::began`], at the end.
    #[serde(default)]
    pub ended: Option<[u64; 3]>,
}

impl Outcome {
    /// How the first process ended, and nothing else.
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

/// Everything a recording says about itself as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Version of the format; set by the writer.
    pub format_version: u16,
    /// Sixteen hexadecimal digits which are in every frame; set by the writer.
    pub recording_id: String,
    /// The version of retake that recorded.
    pub retake_version: String,
    /// The program, as a path.
    pub command: ByteText,
    /// Its arguments, with the name it was called by.
    pub arguments: Vec<ByteText>,
    /// The directory it was started in.
    pub working_directory: ByteText,
    /// How many environment variables it got.
    pub environment_count: u32,
    /// When it started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// When recording began: ticks of the time-stamp counter, nanoseconds since 1970, nanoseconds
    /// on the monotonic clock.
    pub began: Option<[u64; 3]>,
    /// How fast the time-stamp counter runs; 0: not evenly, so that events have no stamps.
    pub ticks_per_second: u64,
    /// Where it ran.
    pub machine: Machine,
    /// Hash of the system-call table.
    pub table_hash: String,
    /// Hash of the contract between runtime and supervisor.
    pub contract_hash: String,
    /// Hash of the runtime.
    pub runtime_hash: String,
    /// How often memory hashes were recorded.
    pub check_level: CheckLevel,
    /// Which orderings it has.
    pub policy: Policy,
    /// Further settings, by name.
    pub settings: BTreeMap<String, String>,
    /// How it ended; absent while it is being recorded, and if the recorder was killed.
    pub outcome: Option<Outcome>,
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
    /// The text of `recording.json`; the error says that it is too long.
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

    /// Reads the text back; the error says what is wrong with it.
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
