//! The name of a file's bytes.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// The BLAKE3 hash of a file's bytes. Written as 64 lower-case hexadecimal digits, which is also the only file name ever
/// derived from one: whatever a recording says, it cannot name a file outside its folder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 32]);

impl ContentId {
    /// The content of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

// Events carry the same hash as `retake_model::ContentId`, which can neither compute it nor name a file.
impl From<retake_model::ContentId> for ContentId {
    fn from(id: retake_model::ContentId) -> Self {
        Self(id.0)
    }
}

impl From<ContentId> for retake_model::ContentId {
    fn from(id: ContentId) -> Self {
        Self(id.0)
    }
}

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

impl FromStr for ContentId {
    type Err = Error;

    /// Reads the 64 digits back; upper case is refused, so that every content has one name only.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |reason| Error::BadName { name: text.chars().take(80).collect(), reason };
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(bad("a content name has 64 hexadecimal digits"));
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            match (digit_value(pair[0]), digit_value(pair[1])) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => return Err(bad("a content name has lower-case hexadecimal digits only")),
            }
        }
        Ok(Self(bytes))
    }
}

fn digit_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        let id = ContentId::of(b"abc");
        assert_eq!(id.to_string().parse::<ContentId>().unwrap(), id);
    }

    #[test]
    fn other_names_are_refused() {
        let upper = ContentId::of(b"abc").to_string().to_uppercase();
        for name in ["", "../../etc/passwd", &upper, &"g".repeat(64), &"é".repeat(32)] {
            assert!(name.parse::<ContentId>().is_err(), "{name}");
        }
    }
}
