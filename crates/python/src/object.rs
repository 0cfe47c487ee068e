//! Objects: their types, strings, and what containers contain.

use crate::layout::{DICTIONARY, Layout};
use crate::memory::Reader;

/// Where an object has its type, and its size if it has several parts.
const TYPE: u64 = 8;
const SIZE: u64 = 16;
/// Where a type has its name and its flags.
const TYPE_NAME: u64 = 24;
const TYPE_FLAGS: u64 = 168;
/// Where a tuple, a list and a bytes object have their contents.
const TUPLE_ITEMS: u64 = 24;
const LIST_ITEMS: u64 = 24;
const BYTES: u64 = 32;
/// The longest name of a type.
const LONGEST_NAME: u64 = 256;
/// The longest string that is not a value: a name, or a path.
const LONGEST_TEXT: u64 = 4096;
/// The most entries of a dictionary that are looked at.
const MOST_ENTRIES: u64 = 4096;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    List,
    Tuple,
    Bytes,
    Text,
    Dictionary,
    Exception,
    Type,
    Other,
}

/// The bits in a type's flags that say of which type it is or inherits.
const KINDS: [(u32, Kind); 8] = [
    (24, Kind::Integer),
    (25, Kind::List),
    (26, Kind::Tuple),
    (27, Kind::Bytes),
    (28, Kind::Text),
    (29, Kind::Dictionary),
    (30, Kind::Exception),
    (31, Kind::Type),
];

/// An interpreter's objects.
#[derive(Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub reader: Reader<'a>,
    pub layout: &'a Layout,
}

/// Part of a sequence, and how long all of it is.
pub(crate) struct Part<T> {
    pub items: Vec<T>,
    pub count: u64,
}

impl Objects<'_> {
    /// The kind of an object, and the name of its type.
    pub fn kind(self, object: u64) -> Option<(Kind, String)> {
        let its_type = self.reader.pointer(object, TYPE)?;
        let flags = self.reader.word(its_type, TYPE_FLAGS)?;
        let kind = KINDS.iter().find(|(bit, _)| flags >> bit & 1 == 1);
        Some((kind.map_or(Kind::Other, |(_, kind)| *kind), self.name_of_type(its_type)?))
    }

    /// The name of a type, without its module.
    pub fn name_of_type(self, its_type: u64) -> Option<String> {
        let name = self.c_text(self.reader.pointer(its_type, TYPE_NAME)?)?;
        Some(name.rsplit('.').next().unwrap_or_default().replace(char::is_control, "?"))
    }

    /// A text that ends with a zero. The memory behind it may be missing.
    fn c_text(self, address: u64) -> Option<String> {
        const PART: u64 = 16;
        let mut text = Vec::new();
        for at in (0..LONGEST_NAME).step_by(PART as usize) {
            let part = self.reader.bytes(address.checked_add(at)?, PART)?;
            let end = part.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&part[..end.unwrap_or(part.len())]);
            if end.is_some() {
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
        }
        None
    }

    /// A whole string that is a name or a path.
    pub fn name(self, object: u64) -> Option<String> {
        let Part { items, count } = self.text(object, LONGEST_TEXT)?;
        // It is printed to terminals.
        let harmless =
            |sign: char| if sign.is_control() { char::REPLACEMENT_CHARACTER } else { sign };
        (count <= LONGEST_TEXT).then(|| items.into_iter().map(harmless).collect())
    }

    /// The first characters of a string.
    pub fn text(self, object: u64, most: u64) -> Option<Part<char>> {
        const STATE: u64 = 32;
        let count = self.reader.word(object, SIZE)?;
        let state = self.reader.half(object, STATE)?;
        // Two bits say whether the string is shared. Then follow: the bytes of a character, whether
        // the characters lie behind the header, and whether all are ASCII.
        let (width, is_inside, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1);
        let [ascii, other] = self.layout.text;
        let start = match (is_inside, is_ascii) {
            (true, 1) => object.checked_add(ascii)?,
            (true, _) => object.checked_add(other)?,
            (false, _) => self.reader.pointer(object, other)?,
        };
        let bytes = self.reader.bytes(start, count.min(most).checked_mul(width.into())?)?;
        let character = |unit: u32| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
        let items = match width {
            1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
            2 => {
                let units = bytes.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit));
                units.map(|unit| character(unit.into())).collect()
            }
            4 => {
                let units = bytes.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit));
                units.map(character).collect()
            }
            _ => return None,
        };
        Some(Part { items, count })
    }

    /// The first bytes of a bytes object.
    pub fn bytes(self, object: u64, most: u64) -> Option<Part<u8>> {
        let count = self.reader.word(object, SIZE)?;
        let items = self.reader.bytes(object.checked_add(BYTES)?, count.min(most))?;
        Some(Part { items, count })
    }

    /// The first items of a tuple.
    pub fn tuple(self, object: u64, most: u64) -> Option<Part<u64>> {
        let count = self.reader.word(object, SIZE)?;
        let items = self.reader.words(object.checked_add(TUPLE_ITEMS)?, count.min(most))?;
        Some(Part { items, count })
    }

    /// The first items of a list.
    pub fn list(self, object: u64, most: u64) -> Option<Part<u64>> {
        let count = self.reader.word(object, SIZE)?;
        let items = match count {
            0 => Vec::new(),
            _ => {
                let start = self.reader.pointer(object, LIST_ITEMS)?;
                self.reader.words(start, count.min(most))?
            }
        };
        Some(Part { items, count })
    }

    /// The first entries of a dictionary: keys and values.
    pub fn dictionary(self, object: u64, most: usize) -> Option<Part<(u64, u64)>> {
        let count = self.reader.word(object, SIZE)?;
        let keys = self.reader.pointer(object, DICTIONARY.0)?;
        let shared = self.reader.word(object, DICTIONARY.1)?;
        let (start, entries, has_hashes) = self.entries(keys)?;
        let stride = if has_hashes { 3 } else { 2 };
        let words = self.reader.words(start, entries.min(MOST_ENTRIES) * stride)?;
        let before_values = if self.layout.version.0 >= 13 { 8 } else { 0 };
        let mut items = Vec::new();
        for (index, entry) in words.chunks_exact(stride as usize).enumerate() {
            let &[.., key, own] = entry else { continue };
            let value = match shared {
                0 => own,
                _ => self.reader.word(shared, before_values + index as u64 * 8)?,
            };
            if key != 0 && value != 0 && items.len() < most {
                items.push((key, value));
            }
        }
        Some(Part { items, count })
    }

    /// Where a dictionary's entries begin, how many there are, and whether they have hashes.
    fn entries(self, keys: u64) -> Option<(u64, u64, bool)> {
        const SIZE: u64 = 8;
        if self.layout.version.0 < 11 {
            const COUNT: u64 = 32;
            const INDEX: u64 = 40;
            let size = self.reader.word(keys, SIZE)?;
            let width = match size {
                ..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => 8,
            };
            let start = keys.checked_add(INDEX)?.checked_add(size.checked_mul(width)?)?;
            return Some((start, self.reader.word(keys, COUNT)?, true));
        }
        const INDEX_BYTES: u64 = 9;
        const KIND: u64 = 10;
        const COUNT: u64 = 24;
        const INDEX: u64 = 32;
        let index = 1_u64.checked_shl(self.reader.byte(keys, INDEX_BYTES)?.into())?;
        let start = keys.checked_add(INDEX)?.checked_add(index)?;
        Some((start, self.reader.word(keys, COUNT)?, self.reader.byte(keys, KIND)? == 0))
    }

    /// The sign of an integer, and its digits to the base 2^30, the lowest first. `None` if it has
    /// more than `most` digits, too.
    pub fn integer(self, object: u64, most: u64) -> Option<(bool, Vec<u32>)> {
        const DIGITS: u64 = 24;
        let size = self.reader.word(object, SIZE)?;
        let (is_negative, count) = if self.layout.version.0 >= 12 {
            (size & 3 == 2, size >> 3)
        } else {
            ((size as i64) < 0, (size as i64).unsigned_abs())
        };
        if count > most {
            return None;
        }
        let bytes = self.reader.bytes(object.checked_add(DIGITS)?, count * 4)?;
        let digits = bytes.as_chunks().0.iter().map(|digit| u32::from_le_bytes(*digit));
        Some((is_negative, digits.collect()))
    }

    /// The value of a float.
    pub fn float(self, object: u64) -> Option<f64> {
        self.reader.word(object, SIZE).map(f64::from_bits)
    }
}
