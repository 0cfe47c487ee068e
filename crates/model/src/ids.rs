//! Identifiers, each with its own type.

use std::fmt;
use std::str::FromStr;

/// Identifies the stream of events of one thread. Streams are numbered from 0 in the order in which
/// threads began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// A process or thread ID as the program saw it while recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

/// The BLAKE3 hash of a file's bytes. File names are derived only from its text, so a recording
/// cannot name a file outside its folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub [u8; 32]);

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl ContentId {
    /// Returns the ID of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// All zero: no content. Finding an input with this BLAKE3 hash is infeasible.
    pub const NONE: Self = Self([0; 32]);

    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// Writes 64 lower-case hexadecimal digits.
impl fmt::Display for ContentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ContentId({self})")
    }
}

/// The error for a text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a content id is 64 lower-case hexadecimal digits")]
pub struct ContentIdError;

impl FromStr for ContentId {
    type Err = ContentIdError;

    fn from_str(text: &str) -> Result<Self, ContentIdError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(ContentIdError);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hexadecimal(pair[0])? << 4 | hexadecimal(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// Parses a digit. Refuses upper case, so that a content has exactly one name.
fn hexadecimal(digit: u8) -> Result<u8, ContentIdError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(ContentIdError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ids_survive_their_text() {
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (index * 37) as u8;
        }
        let id = ContentId(bytes);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(!id.is_none());
    }

    #[test]
    fn bad_content_ids_are_refused() {
        let good = ContentId([0xab; 32]).to_string();
        for bad in ["", "ab", &good.to_uppercase(), &good[1..], &format!("{good}0")] {
            assert_eq!(bad.parse::<ContentId>(), Err(ContentIdError), "{bad}");
        }
        assert!("é".repeat(32).parse::<ContentId>().is_err());
    }
}
