//! Names and lines of methods.

use super::Java;
use super::compressed::{Compressed, line};
use retake_python::Frame;

/// The most bytes of a name.
const LONGEST_NAME: u64 = 1024;
/// The most bytes of a table of lines that are read.
const MOST_TABLE_BYTES: u64 = 256 << 10;
const PAGE_BYTES: u64 = 4096;

/// The name of a class as Java shows it. A hidden class has a number after its name.
fn shown(class: &str) -> String {
    match class.rsplit_once('+') {
        Some((name, number)) if number.starts_with("0x") => {
            format!("{}/{number}", name.replace('/', "."))
        }
        _ => class.replace('/', "."),
    }
}

impl Java<'_> {
    /// A frame that executes a method at a place in it. `None` if this is no method.
    pub fn method(&self, method: u64, bci: Option<i32>) -> Option<Frame> {
        const NATIVE: u16 = 0x100;
        let (reader, fields) = (self.reader, &self.layout.method);
        let fixed = reader.pointer(method, fields.fixed)?;
        let pool = reader.pointer(fixed, fields.pool)?;
        let class = reader.pointer(pool, fields.pool_holder)?;
        let class = self.symbol(reader.pointer(class, fields.class_name)?)?;
        let name = self.constant(pool, reader.short(fixed, fields.name)?)?;
        let is_native = reader.short(method, fields.access)? & NATIVE != 0;
        let file = reader.short(pool, fields.pool_file).filter(|index| *index != 0);
        let file = match file.and_then(|index| self.constant(pool, index)) {
            _ if is_native => "<native method>".to_owned(),
            Some(file) => match class.rsplit_once('/') {
                Some((package, _)) if !file.contains('/') => format!("{package}/{file}"),
                _ => file,
            },
            None => "<unknown source>".to_owned(),
        };
        let line = bci.filter(|_| !is_native).and_then(|bci| self.line(fixed, bci));
        let function = format!("{}.{name}", shown(&class));
        Some(Frame { function, file, line, ..Frame::default() })
    }

    /// The place in a method that a pointer to its instructions stands for.
    pub fn bci(&self, method: u64, pointer: u64) -> Option<i32> {
        let fields = &self.layout.method;
        let fixed = self.reader.pointer(method, fields.fixed)?;
        let bytes = u64::from(self.reader.short(fixed, fields.code_bytes)?);
        let offset = pointer.checked_sub(fixed)?.checked_sub(fields.header_bytes)?;
        (offset < bytes).then_some(offset as i32)
    }

    fn line(&self, fixed: u64, bci: i32) -> Option<u32> {
        let (reader, fields) = (self.reader, &self.layout.method);
        if u32::from(reader.short(fixed, fields.flags)?) & fields.has_lines == 0 {
            return None;
        }
        let code_bytes = u64::from(reader.short(fixed, fields.code_bytes)?);
        let table = fixed.checked_add(fields.header_bytes)?.checked_add(code_bytes)?;
        let bci = bci.max(0);
        // The table tells its end only by its contents: take one page after the other.
        let (mut bytes, mut at) = (Vec::new(), table);
        while (bytes.len() as u64) < MOST_TABLE_BYTES {
            let count = PAGE_BYTES - at % PAGE_BYTES;
            bytes.extend(reader.bytes(at, count)?);
            at = at.checked_add(count)?;
            let found = line(Compressed::new(&bytes, self.layout.has_no_zeros), bci);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn constant(&self, pool: u64, index: u16) -> Option<String> {
        let entries = pool.checked_add(self.layout.method.pool_bytes)?;
        self.symbol(self.reader.pointer(entries, u64::from(index) * 8)?)
    }

    /// A name, cut where it is long.
    fn symbol(&self, symbol: u64) -> Option<String> {
        let fields = &self.layout.method;
        let count = u64::from(self.reader.short(symbol, fields.symbol_bytes)?).min(LONGEST_NAME);
        let bytes = self.reader.bytes(symbol.checked_add(fields.symbol_text)?, count)?;
        let text = String::from_utf8_lossy(&bytes);
        let is_name = !text.is_empty() && !text.contains(char::is_control);
        is_name.then(|| text.into_owned())
    }
}
