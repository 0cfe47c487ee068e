//! Strings, functions and scripts. Addresses of objects have their lowest bit set.

use super::Node;

/// The most bytes of a name, and of a script in which lines are counted.
const LONGEST_NAME: u64 = 1024;
const MOST_SCRIPT_BYTES: u64 = 16 << 20;
/// The most strings that one is made of.
const MOST_PARTS: usize = 64;
/// The lowest bit of the address of an object.
pub const TAG: u64 = 1;

/// Some characters of a string.
struct Part {
    string: u64,
    /// Those before, and how many these are.
    skipped: u64,
    length: u64,
}

impl Node<'_> {
    /// The word at an offset in an object, if this is one.
    pub fn word(&self, object: u64, offset: u64) -> Option<u64> {
        (object & 3 == TAG).then_some(())?;
        self.reader.word(object - TAG, offset)
    }

    /// The small integer at an offset in an object.
    pub fn small(&self, object: u64, offset: u64) -> Option<u64> {
        integer(self.word(object, offset)?)
    }

    pub fn kind(&self, object: u64) -> Option<u16> {
        let map = self.word(object, 0)?;
        (map & 3 == TAG).then_some(())?;
        self.reader.short(map - TAG, self.layout.instance_type)
    }

    /// The first characters of a string, in UTF-16 unless it has one byte for each.
    fn characters(&self, string: u64, most: u64) -> Option<(Vec<u8>, bool)> {
        let kind = self.kind(string)?;
        let is_short = kind & self.layout.strings.one_byte != 0;
        let (mut bytes, mut parts) = (Vec::new(), 0);
        let length = self.string_length(string)?.min(most);
        self.add(Part { string, skipped: 0, length }, is_short, &mut parts, &mut bytes)?;
        Some((bytes, is_short))
    }

    /// Adds a part of a string. Strings may be made of others.
    fn add(
        &self,
        part: Part,
        is_short: bool,
        parts: &mut usize,
        bytes: &mut Vec<u8>,
    ) -> Option<()> {
        const CONSTRUCTED: u16 = 1;
        const EXTERNAL: u16 = 2;
        const SLICED: u16 = 3;
        const THIN: u16 = 5;
        const REFERRED: u64 = 16;
        const SECOND: u64 = 24;
        *parts += 1;
        if part.length == 0 {
            return Some(());
        }
        let (Part { string, skipped, length }, strings) = (part, self.layout.strings);
        let kind = self.kind(string).filter(|kind| *kind < self.layout.types.first_not_string)?;
        if *parts > MOST_PARTS {
            return None;
        }
        let (referred, second) = (self.word(string, REFERRED), self.word(string, SECOND));
        let start = match kind & strings.representation {
            0 => string - TAG + strings.chars,
            EXTERNAL => second?,
            CONSTRUCTED => {
                let first = self.string_length(referred?)?;
                let here = first.saturating_sub(skipped).min(length);
                let part = Part { string: referred?, skipped, length: here };
                self.add(part, is_short, parts, bytes)?;
                let skipped = skipped.saturating_sub(first);
                let part = Part { string: second?, skipped, length: length - here };
                return self.add(part, is_short, parts, bytes);
            }
            SLICED => {
                let skipped = skipped.checked_add(integer(second?)?)?;
                let part = Part { string: referred?, skipped, length };
                return self.add(part, is_short, parts, bytes);
            }
            THIN => {
                let part = Part { string: referred?, skipped, length };
                return self.add(part, is_short, parts, bytes);
            }
            _ => return None,
        };
        let is_own_short = kind & strings.one_byte != 0;
        let width = if is_own_short { 1 } else { 2 };
        let start = start.checked_add(skipped.checked_mul(width)?)?;
        let own = self.bytes(start, length.checked_mul(width)?)?;
        match (is_own_short, is_short) {
            (true, false) => bytes.extend(own.into_iter().flat_map(|byte| [byte, 0])),
            (false, true) => return None,
            _ => bytes.extend(own),
        }
        Some(())
    }

    fn string_length(&self, string: u64) -> Option<u64> {
        (string & 3 == TAG).then_some(())?;
        self.reader.half(string - TAG, self.layout.strings.length).map(u64::from)
    }

    /// More bytes than can be read at once.
    pub fn bytes(&self, start: u64, count: u64) -> Option<Vec<u8>> {
        const AT_ONCE: u64 = 1 << 20;
        let count = Some(count).filter(|count| *count <= 2 * MOST_SCRIPT_BYTES)?;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count {
            let read = bytes.len() as u64;
            bytes.extend(self.reader.bytes(start.checked_add(read)?, AT_ONCE.min(count - read))?);
        }
        Some(bytes)
    }

    /// The text of a name.
    pub fn text(&self, string: u64) -> Option<String> {
        let (bytes, is_short) = self.characters(string, LONGEST_NAME)?;
        if is_short {
            return Some(bytes.into_iter().map(char::from).collect());
        }
        let units: Vec<u16> =
            bytes.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        Some(String::from_utf16_lossy(&units))
    }

    /// The name of a function, by what all functions of its code share.
    pub fn name(&self, shared: u64) -> Option<String> {
        let named = self.word(shared, self.layout.shared_name)?;
        let name = if self.kind(named) == Some(self.layout.types.scope) {
            self.name_in_scope(named)
        } else {
            self.text(named)
        };
        let inferred = || {
            let data = self.word(shared, self.layout.shared_data)?;
            let kind = self.kind(data).filter(|kind| self.layout.types.uncompiled.contains(kind));
            self.text(self.word(data, kind.map(|_| self.layout.strings.inferred_name)?)?)
        };
        name.filter(|name| !name.is_empty()).or_else(inferred)
    }

    /// The name of a function, from what is known of its variables. After their names, and a number
    /// for each, this has the name of the function, if it has one, or what V8 calls it instead.
    fn name_in_scope(&self, scope: u64) -> Option<String> {
        const MOST_INLINE: u64 = 75;
        const MOST_FIELDS: u64 = 4;
        let scopes = self.layout.scopes;
        let count = self.small(scope, scopes.count)?;
        let names = if count < MOST_INLINE { count } else { 1 };
        let rest = scopes.variables.checked_add(names.checked_add(count)?.checked_mul(8)?)?;
        for index in 0..MOST_FIELDS {
            let field = self.word(scope, rest + index * 8)?;
            match integer(field) {
                Some(_) => {}
                None => match self.text(field)? {
                    name if name.is_empty() => {}
                    name => return Some(name),
                },
            }
        }
        None
    }

    /// The script of a function. Functions that are part of V8 have none.
    pub fn script(&self, shared: u64) -> Option<u64> {
        let script = self.word(shared, self.layout.shared_script)?;
        (self.kind(script) == Some(self.layout.types.script)).then_some(script)
    }

    /// The path of a script, as V8 knows it. Modules have addresses of files.
    pub fn file(&self, script: u64) -> Option<String> {
        let name = self.text(self.word(script, self.layout.script_name)?)?;
        Some(name.strip_prefix("file://").map_or_else(|| name.clone(), str::to_owned))
    }

    /// The line of a position in a script.
    pub fn line(&self, script: u64, position: u64) -> Option<u32> {
        let source = self.word(script, self.layout.script_source)?;
        let (bytes, is_short) = self.characters(source, MOST_SCRIPT_BYTES)?;
        let position = usize::try_from(position).ok()?;
        let before = if is_short {
            bytes.get(..position)?.iter().filter(|byte| **byte == b'\n').count()
        } else {
            let units = bytes.as_chunks().0;
            units.get(..position)?.iter().filter(|unit| **unit == [b'\n', 0]).count()
        };
        u32::try_from(before).ok()?.checked_add(1)
    }
}

/// The value of a small integer.
pub fn integer(word: u64) -> Option<u64> {
    const SHIFT: u32 = 32;
    (word & 0xffff_ffff == 0).then_some(word >> SHIFT)
}
