//! What made a piece of code, by its address.

use super::Java;
use super::compressed::Compressed;
use super::layout::{CodeAt, Debugging};
use super::vm::text;
use retake_python::Frame;
use std::ops::Range;

/// HotSpot has three heaps of code at most.
const MOST_HEAPS: u64 = 8;
/// The most hops back through the map of a heap.
const MOST_HOPS: usize = 1 << 16;
/// The most methods that are compiled into each other.
const MOST_INLINED: usize = 256;
/// The most bytes of a table of a method.
const MOST_TABLE_BYTES: u64 = 1 << 20;

/// A piece of code.
#[derive(Debug, Clone)]
pub struct Blob {
    pub at: u64,
    /// Where its instructions begin.
    pub code: u64,
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Interpreter,
    /// What native code enters Java through.
    CallStub,
    /// A compiled method, or what calls a native one.
    Method,
    /// Anything else.
    Stub,
}

impl Java<'_> {
    /// The heaps of code, with their addresses.
    pub fn heaps(&self) -> Vec<(u64, Range<u64>)> {
        let (reader, fields) = (self.reader, &self.layout.heaps);
        let found = reader.pointer(fields.list, 0).and_then(|list| {
            let count = u64::from(reader.half(list, 0)?).min(MOST_HEAPS);
            reader.words(reader.pointer(list, fields.list_items)?, count)
        });
        let heaps = found.unwrap_or_default().into_iter().filter_map(|heap| {
            let memory = heap.checked_add(fields.memory)?;
            let low = reader.pointer(memory, fields.low)?;
            let high = reader.pointer(memory, fields.high)?;
            Some((heap, low..high))
        });
        heaps.collect()
    }

    /// What an address belongs to.
    pub fn blob(&self, pc: u64) -> Option<Blob> {
        let reader = self.reader;
        let (heap, memory) = self.heaps().into_iter().find(|(_, memory)| memory.contains(&pc))?;
        let at = self.block(heap, &memory, pc)?.checked_add(self.layout.heaps.header_bytes)?;
        let fields = &self.layout.blob;
        let bytes = reader.half(at, fields.bytes)?;
        if pc < at || pc - at >= u64::from(bytes) {
            return None;
        }
        let name = text(reader, reader.pointer(at, fields.name)?)?;
        let code = match fields.code {
            CodeAt::Address(field) => reader.pointer(at, field)?,
            CodeAt::Offset(field) | CodeAt::ShortFromCode(field) => {
                at.checked_add(reader.half(at, field)?.into())?
            }
        };
        let kind = match name.as_str() {
            "nmethod" | "native nmethod" => Kind::Method,
            _ if self.interpreter().is_some_and(|code| code.contains(&pc)) => Kind::Interpreter,
            _ if reader.word(self.layout.call_stub, 0) == Some(pc) => Kind::CallStub,
            _ => Kind::Stub,
        };
        Some(Blob { at, code, name, kind })
    }

    /// Where the block in a heap begins that has an address. For each segment, the map says how far
    /// back to go, until zero.
    fn block(&self, heap: u64, memory: &Range<u64>, pc: u64) -> Option<u64> {
        const FREE: u8 = 0xff;
        const MOST_BITS: u32 = 20;
        let fields = &self.layout.heaps;
        let map = self.reader.pointer(heap.checked_add(fields.map)?, fields.low)?;
        let bits = self.reader.half(heap, fields.segment).filter(|bits| *bits < MOST_BITS)?;
        let mut segment = (pc - memory.start) >> bits;
        for _ in 0..MOST_HOPS {
            match self.reader.byte(map, segment)? {
                0 => return memory.start.checked_add(segment << bits),
                FREE => return None,
                back => segment = segment.checked_sub(back.into())?,
            }
        }
        None
    }

    fn interpreter(&self) -> Option<Range<u64>> {
        let queue = self.reader.pointer(self.layout.interpreter, 0)?;
        let start = self.reader.pointer(queue, self.layout.queue_buffer)?;
        let bytes = self.reader.half(queue, self.layout.queue_bytes)?;
        Some(start..start.checked_add(bytes.into())?)
    }

    /// The address of something in a compiled method.
    pub(super) fn place(&self, blob: &Blob, place: CodeAt) -> Option<u64> {
        match place {
            CodeAt::Address(field) => self.reader.pointer(blob.at, field),
            CodeAt::Offset(field) => blob.at.checked_add(self.reader.half(blob.at, field)?.into()),
            CodeAt::ShortFromCode(field) => {
                blob.code.checked_add(self.reader.short(blob.at, field)?.into())
            }
        }
    }

    /// Whether a compiled method is left when its call returns to this address. Then its frame has
    /// the address where it called.
    pub fn is_deoptimized(&self, blob: &Blob, pc: u64) -> bool {
        let handlers = self.layout.compiled.deoptimized;
        handlers.into_iter().any(|handler| self.place(blob, handler) == Some(pc))
    }

    /// The methods that a compiled method executes at an address, the innermost first.
    pub fn compiled_frames(&self, blob: &Blob, pc: u64) -> Vec<Frame> {
        let inlined = self.scopes(blob, pc).unwrap_or_default();
        let frames = inlined.into_iter().filter_map(|(method, bci)| self.method(method, bci));
        let mut frames: Vec<Frame> = frames.collect();
        if frames.is_empty() {
            // It calls a native method, or is about to begin or to end.
            let method = self.reader.pointer(blob.at, self.layout.compiled.method);
            frames.extend(method.and_then(|method| self.method(method, None)));
        }
        frames
    }

    /// Methods with the places in them.
    fn scopes(&self, blob: &Blob, pc: u64) -> Option<Vec<(u64, Option<i32>)>> {
        const FIRST_METADATA: u32 = 1;
        let tables = self.tables(blob)?;
        let scopes = self.reader.bytes(tables.scopes.start, bytes_of(&tables.scopes)?)?;
        let mut at = self.scope_at(&tables.places, pc.checked_sub(blob.code)?)?;
        let mut found = Vec::new();
        // The outermost scope has none around it.
        while at != 0 && found.len() < MOST_INLINED {
            let bytes = scopes.get(at as usize..)?;
            let mut scope = Compressed::new(bytes, self.layout.has_no_zeros);
            let around = scope.number()?;
            let method = scope.number()?.checked_sub(FIRST_METADATA)?;
            let bci = scope.number()?.wrapping_sub(1) as i32;
            let method = self.reader.pointer(tables.metadata, u64::from(method) * 8)?;
            found.push((method, Some(bci)));
            at = around;
        }
        Some(found)
    }

    /// The scope of the instruction at a distance from the beginning of a method's code. Only calls
    /// and checks have one: for another instruction, that of the next call or check.
    fn scope_at(&self, places: &Range<u64>, offset: u64) -> Option<u32> {
        const PLACE_BYTES: usize = 16;
        let offset = i32::try_from(offset).ok()?;
        let bytes = self.reader.bytes(places.start, bytes_of(places)?)?;
        let number = |place: &[u8], at: usize| {
            Some(i32::from_le_bytes(place.get(at..at + 4)?.try_into().ok()?))
        };
        let mut places = bytes.chunks_exact(PLACE_BYTES);
        let found = places.find(|place| number(place, 0).is_some_and(|at| at >= offset))?;
        number(found, 4)?.try_into().ok()
    }

    fn tables(&self, blob: &Blob) -> Option<Tables> {
        let reader = self.reader;
        let at = |base: u64, field| base.checked_add(reader.half(blob.at, field)?.into());
        match self.layout.compiled.tables {
            Debugging::Own { places, places_end, scopes, metadata } => {
                let places = at(blob.at, places)?..at(blob.at, places_end)?;
                let scopes = reader.pointer(blob.at, scopes)?..places.start;
                Some(Tables { places, scopes, metadata: at(blob.at, metadata)? })
            }
            Debugging::Apart { fixed, fixed_bytes, places, scopes, rest, metadata } => {
                let fixed = reader.pointer(blob.at, fixed)?;
                let scopes = at(fixed, scopes)?..at(fixed, fixed_bytes)?;
                let metadata = at(reader.pointer(blob.at, rest)?, metadata)?;
                Some(Tables { places: at(fixed, places)?..scopes.start, scopes, metadata })
            }
        }
    }
}

/// Where a compiled method has its tables.
struct Tables {
    places: Range<u64>,
    scopes: Range<u64>,
    metadata: u64,
}

fn bytes_of(range: &Range<u64>) -> Option<u64> {
    range.end.checked_sub(range.start).filter(|bytes| *bytes <= MOST_TABLE_BYTES)
}
