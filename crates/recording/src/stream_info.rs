//! The declaration of a stream, and its layout in a declaration frame.

pub use retake_model::StreamId;

/// The kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Unknown, because the declaration was damaged.
    Unknown,
    /// The first thread of the first process.
    Initial,
    /// The first thread of a process created by fork, vfork or clone.
    Process,
    /// A further thread of a process.
    Thread,
    /// A stream that the supervisor writes about the whole session.
    Supervisor,
}

/// The declaration of a stream. It must precede the stream's first chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The number of the stream.
    pub id: StreamId,
    /// The stream of the thread that created this one.
    pub parent: Option<StreamId>,
    /// The process ID outside the program's own PID namespaces.
    pub pid: i32,
    /// The thread ID outside the program's own PID namespaces.
    pub tid: i32,
    /// The kind of the stream.
    pub kind: StreamKind,
    /// A name for people. At most [`StreamInfo::MAX_LABEL_BYTES`] of it are stored.
    pub label: String,
}

const FIXED_BYTES: usize = 20;
const HAS_PARENT: u32 = 1;

impl StreamInfo {
    /// The most bytes of a label that are stored. Longer labels are cut.
    pub const MAX_LABEL_BYTES: usize = 256;

    /// Returns a label for the first thread of a process that ran before it was recorded: its
    /// program and its arguments, with a zero byte before each argument. If there is no room for
    /// all of them, `...` stands for the rest.
    pub fn label_of_command(program: &str, arguments: &[String]) -> String {
        const REST: &str = "\0...";
        let mut label = program.to_owned();
        let most = Self::MAX_LABEL_BYTES - REST.len();
        for argument in arguments {
            if label.len() + 1 + argument.len() > most {
                return label + REST;
            }
            label.push('\0');
            label += argument;
        }
        label
    }

    /// Returns the program and the arguments in the label, if it has them.
    pub fn command(&self) -> Option<(&str, Vec<&str>)> {
        let mut words = self.label.split('\0');
        let program = words.next().filter(|program| !program.is_empty())?;
        Some((program, words.collect()))
    }

    /// Returns a substitute for a lost declaration.
    pub(crate) fn lost(id: StreamId) -> Self {
        Self { id, parent: None, pid: 0, tid: 0, kind: StreamKind::Unknown, label: String::new() }
    }

    /// Encodes the payload of the declaration frame: kind, flags, parent, pid, tid (4 bytes each),
    /// label.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut label_bytes = self.label.len().min(Self::MAX_LABEL_BYTES);
        while !self.label.is_char_boundary(label_bytes) {
            label_bytes -= 1;
        }
        let mut bytes = Vec::with_capacity(FIXED_BYTES + label_bytes);
        bytes.extend_from_slice(&kind_number(self.kind).to_le_bytes());
        let flags = if self.parent.is_some() { HAS_PARENT } else { 0 };
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&self.parent.map_or(0, |parent| parent.0).to_le_bytes());
        bytes.extend_from_slice(&self.pid.to_le_bytes());
        bytes.extend_from_slice(&self.tid.to_le_bytes());
        bytes.extend_from_slice(&self.label.as_bytes()[..label_bytes]);
        bytes
    }

    /// Decodes the payload of a declaration frame of stream `id`. The error says what is wrong with
    /// it.
    pub(crate) fn decode(id: StreamId, bytes: &[u8]) -> Result<Self, &'static str> {
        let (fixed, label) =
            bytes.split_at_checked(FIXED_BYTES).ok_or("the stream declaration is too short")?;
        if label.len() > Self::MAX_LABEL_BYTES {
            return Err("the label of the stream is too long");
        }
        let word = |index: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&fixed[index * 4..index * 4 + 4]);
            u32::from_le_bytes(word)
        };
        let kind = kind_of_number(word(0)).ok_or("the kind of the stream is unknown")?;
        if word(1) & !HAS_PARENT != 0 {
            return Err("the stream declaration has unknown flags");
        }
        let label =
            std::str::from_utf8(label).map_err(|_| "the label of the stream is not UTF-8")?;
        Ok(Self {
            id,
            parent: (word(1) & HAS_PARENT != 0).then(|| StreamId(word(2))),
            pid: word(3).cast_signed(),
            tid: word(4).cast_signed(),
            kind,
            label: label.to_owned(),
        })
    }
}

fn kind_number(kind: StreamKind) -> u32 {
    match kind {
        StreamKind::Unknown => 0,
        StreamKind::Initial => 1,
        StreamKind::Process => 2,
        StreamKind::Thread => 3,
        StreamKind::Supervisor => 4,
    }
}

fn kind_of_number(number: u32) -> Option<StreamKind> {
    Some(match number {
        0 => StreamKind::Unknown,
        1 => StreamKind::Initial,
        2 => StreamKind::Process,
        3 => StreamKind::Thread,
        4 => StreamKind::Supervisor,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(label: &str) -> StreamInfo {
        StreamInfo {
            id: StreamId(7),
            parent: Some(StreamId(3)),
            pid: 100,
            tid: -1,
            kind: StreamKind::Thread,
            label: label.to_owned(),
        }
    }

    #[test]
    fn declarations_read_back() {
        for info in [example("worker"), StreamInfo { parent: None, ..example("") }] {
            assert_eq!(StreamInfo::decode(info.id, &info.encode()).unwrap(), info);
        }
    }

    #[test]
    fn long_labels_are_cut_between_characters() {
        let info = example(&"é".repeat(200));
        let back = StreamInfo::decode(info.id, &info.encode()).unwrap();
        assert_eq!(back.label, "é".repeat(128));
    }

    #[test]
    fn labels_tell_commands() {
        let back = |program: &str, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&one| one.to_owned()).collect();
            let info = example(&StreamInfo::label_of_command(program, &arguments));
            let info = StreamInfo::decode(info.id, &info.encode()).unwrap();
            let (program, arguments) = info.command().unwrap();
            format!("{program}|{}", arguments.join("|"))
        };
        assert_eq!(back("/bin/sleep", &["sleep", "1"]), "/bin/sleep|sleep|1");
        assert_eq!(back("/bin/true", &[]), "/bin/true|");
        let long = "x".repeat(242);
        assert_eq!(back("/bin/a", &["a", &long, "b"]), format!("/bin/a|a|{long}|..."));
        assert_eq!(back("/bin/a", &["a", &"x".repeat(250), "b"]), "/bin/a|a|...");
        assert_eq!(example("").command(), None);
    }

    #[test]
    fn bad_declarations_are_refused() {
        let good = example("x").encode();
        assert!(StreamInfo::decode(StreamId(1), &good[..19]).is_err());
        for (at, value) in [(0, 9), (4, 2), (20, 0xff)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(StreamInfo::decode(StreamId(1), &bad).is_err(), "byte {at}");
        }
    }
}
