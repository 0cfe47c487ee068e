//! The parts of an ELF file that patching needs: loadable segments, sections by name, symbols.
//!
//! Sections are optional: they may be stripped or wrong. The kernel maps segments, so only segments
//! decide what is text.

use crate::bytes::{page_ceiling, page_floor};
use crate::{PAGE_BYTES, PatchError};
use object::LittleEndian;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_W, PF_X, PT_GNU_EH_FRAME, PT_LOAD,
    R_X86_64_JUMP_SLOT, Rela64, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, STT_FUNC,
    STT_GNU_IFUNC, Sym64,
};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

/// The limit of user-space addresses, which keeps all later sums far from overflow.
const ADDRESS_LIMIT: u64 = 1 << 47;

/// The most loadable segments. No linker makes more.
const SEGMENT_LIMIT: usize = 256;

const DYNAMIC_ENTRY_BYTES: usize = 16;
const DT_SONAME: u64 = 14;
const DT_BIND_NOW: u64 = 24;
const DT_FLAGS: u64 = 30;
const DF_BIND_NOW: u64 = 8;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_NOW: u64 = 1;

/// A loadable segment that was checked: its bytes are inside the file, and its addresses are below
/// [`ADDRESS_LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadSegment {
    pub address: u64,
    pub file_offset: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    pub executable: bool,
    pub writable: bool,
}

impl LoadSegment {
    /// End of the part that is loaded from the file.
    pub fn file_end(&self) -> u64 {
        self.address + self.file_bytes
    }

    /// Whether `address` is in the part that is loaded from the file.
    pub fn holds(&self, address: u64) -> bool {
        (self.address..self.file_end()).contains(&address)
    }

    /// Whether an image of the segment can be made: it is executable, not writable, and loaded from
    /// the file alone.
    fn patchable(&self) -> bool {
        self.executable
            && !self.writable
            && self.file_bytes == self.memory_bytes
            && self.file_bytes > 0
            && self.address % PAGE_BYTES == self.file_offset % PAGE_BYTES
    }
}

/// A symbol that names code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionSymbol<'data> {
    pub name: &'data [u8],
    pub address: u64,
    /// Size in bytes, 0 if the assembler source gave none.
    pub bytes: u64,
}

/// The address and bytes of a named section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'data> {
    pub address: u64,
    pub bytes: &'data [u8],
}

/// A parsed file.
pub(crate) struct ElfView<'data> {
    pub data: &'data [u8],
    /// All loadable segments, by address, not overlapping.
    pub segments: Vec<LoadSegment>,
    /// Whether addresses in the file are final (not position independent).
    pub fixed_address: bool,
    pub entry: u64,
    pub low: u64,
    pub high: u64,
    header: &'data Header,
    sections: Option<SectionTable<'data, Header>>,
}

impl<'data> ElfView<'data> {
    /// Parses the headers.
    ///
    /// # Errors If the file is not a well-formed x86-64 program or library.
    pub fn parse(data: &'data [u8]) -> Result<Self, PatchError> {
        let header = Header::parse(data).map_err(|_| PatchError::NotElf)?;
        if !header.is_class_64() || !header.is_little_endian() {
            return Err(PatchError::NotElf);
        }
        let (machine, file_type) = (header.e_machine(ENDIAN), header.e_type(ENDIAN));
        if machine != EM_X86_64 || !(file_type == ET_EXEC || file_type == ET_DYN) {
            return Err(PatchError::Unsuitable { machine, file_type });
        }
        let segments = load_segments(header, data)?;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return Err(PatchError::Malformed { what: "no loadable segment", position: 0 });
        };
        let low = page_floor(first.address);
        let high =
            page_ceiling(last.address + last.memory_bytes).expect("addresses are below the limit");
        Ok(Self {
            data,
            fixed_address: file_type == ET_EXEC,
            entry: header.e_entry(ENDIAN),
            low,
            high,
            segments,
            header,
            sections: header.sections(ENDIAN, data).ok(),
        })
    }

    /// Segments of which an image can be made.
    pub fn text_segments(&self) -> impl Iterator<Item = &LoadSegment> {
        self.segments.iter().filter(|segment| segment.patchable())
    }

    /// Whether `address` is in a segment of which an image can be made.
    pub fn is_text(&self, address: u64) -> bool {
        self.text_segments().any(|segment| segment.holds(address))
    }

    /// The file bytes of a segment.
    pub fn segment_bytes(&self, segment: &LoadSegment) -> &'data [u8] {
        let start = segment.file_offset as usize;
        &self.data[start..start + segment.file_bytes as usize]
    }

    /// The bytes loaded from `address` to the end of its segment. Empty if nothing is loaded there
    /// from the file.
    pub fn bytes_from(&self, address: u64) -> &'data [u8] {
        let Some(segment) = self.segments.iter().find(|segment| segment.holds(address)) else {
            return &[];
        };
        &self.segment_bytes(segment)[(address - segment.address) as usize..]
    }

    /// A section that has bytes in the file.
    pub fn section(&self, name: &[u8]) -> Option<Section<'data>> {
        let (_, section) = self.sections.as_ref()?.section_by_name(ENDIAN, name)?;
        if section.sh_type(ENDIAN) == SHT_NOBITS {
            return None;
        }
        Some(Section {
            address: section.sh_addr(ENDIAN),
            bytes: section.data(ENDIAN, self.data).ok()?,
        })
    }

    /// The segment that points to the unwinding tables, for files without sections.
    pub fn unwind_header(&self) -> Option<Section<'data>> {
        let headers = self.header.program_headers(ENDIAN, self.data).ok()?;
        let header = headers.iter().find(|header| header.p_type(ENDIAN) == PT_GNU_EH_FRAME)?;
        Some(Section {
            address: header.p_vaddr(ENDIAN),
            bytes: header.data(ENDIAN, self.data).ok()?,
        })
    }

    /// The soname of a library.
    pub fn soname(&self) -> Option<&'data [u8]> {
        let name = self.dynamic_entries().find(|(tag, _)| *tag == DT_SONAME)?.1;
        let from = self.section(b".dynstr")?.bytes.get(usize::try_from(name).ok()?..)?;
        from.split(|byte| *byte == 0).next()
    }

    /// Whether the dynamic linker binds all functions of the file when it loads it.
    fn binds_at_once(&self) -> bool {
        self.dynamic_entries().any(|(tag, value)| match tag {
            DT_BIND_NOW => true,
            DT_FLAGS => value & DF_BIND_NOW != 0,
            DT_FLAGS_1 => value & DF_1_NOW != 0,
            _ => false,
        })
    }

    /// The tags and values for the dynamic linker.
    fn dynamic_entries(&self) -> impl Iterator<Item = (u64, u64)> + use<'data> {
        let bytes = self.section(b".dynamic").map_or(&[][..], |section| section.bytes);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let entries = bytes.chunks_exact(DYNAMIC_ENTRY_BYTES);
        entries.map(move |entry| (word(&entry[..8]), word(&entry[8..])))
    }

    /// All defined function symbols of both symbol tables.
    pub fn function_symbols(&self) -> Vec<FunctionSymbol<'data>> {
        let mut found = Vec::new();
        self.each_symbol(|name, symbol| {
            if matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) {
                found.push(FunctionSymbol {
                    name,
                    address: symbol.st_value(ENDIAN),
                    bytes: symbol.st_size(ENDIAN),
                });
            }
        });
        found
    }

    /// For each name, whether the file defines a symbol with that name.
    pub fn defines<const N: usize>(&self, names: [&[u8]; N]) -> [bool; N] {
        let mut found = [false; N];
        self.each_symbol(|name, _| {
            if let Some(index) = names.iter().position(|wanted| *wanted == name) {
                found[index] = true;
            }
        });
        found
    }

    /// The words into which the dynamic linker writes the address of the symbol with that name.
    pub fn slots_of(&self, name: &[u8]) -> Vec<u64> {
        let Some(sections) = self.sections.as_ref() else { return Vec::new() };
        let Ok(symbols) = sections.symbols(ENDIAN, self.data, SHT_DYNSYM) else {
            return Vec::new();
        };
        let is_named = |index| {
            let symbol = symbols.symbol(index).ok()?;
            (symbol.name(ENDIAN, symbols.strings()).ok()? == name).then_some(())
        };
        let mut slots = Vec::new();
        self.each_relocation(|one| {
            let named = one.symbol(ENDIAN, false).and_then(is_named);
            slots.extend(named.map(|()| one.r_offset(ENDIAN)));
        });
        slots
    }

    /// The words with addresses of functions that the dynamic linker binds at the first call.
    pub fn lazy_slots(&self) -> Vec<u64> {
        let mut slots = Vec::new();
        if self.binds_at_once() {
            return slots;
        }
        self.each_relocation(|one| {
            if one.r_type(ENDIAN, false) == R_X86_64_JUMP_SLOT {
                slots.push(one.r_offset(ENDIAN));
            }
        });
        slots
    }

    /// Calls `take` with every relocation with an addend.
    fn each_relocation(&self, mut take: impl FnMut(&Rela64<LittleEndian>)) {
        // The limit keeps many sections with the same bytes from taking much time.
        let mut left = self.data.len() / size_of::<Rela64<LittleEndian>>();
        for section in self.sections.iter().flat_map(|sections| sections.iter()) {
            let Ok(Some((relocations, _))) = section.rela(ENDIAN, self.data) else { continue };
            let relocations = &relocations[..relocations.len().min(left)];
            left -= relocations.len();
            relocations.iter().for_each(&mut take);
        }
    }

    /// Calls `take` with every defined symbol of both symbol tables.
    fn each_symbol(&self, mut take: impl FnMut(&'data [u8], &Sym64<LittleEndian>)) {
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            let Some(Ok(table)) =
                self.sections.as_ref().map(|sections| sections.symbols(ENDIAN, self.data, kind))
            else {
                continue;
            };
            for symbol in table.iter().filter(|symbol| symbol.st_shndx(ENDIAN) != SHN_UNDEF) {
                take(symbol.name(ENDIAN, table.strings()).unwrap_or_default(), symbol);
            }
        }
    }
}

fn load_segments(header: &Header, data: &[u8]) -> Result<Vec<LoadSegment>, PatchError> {
    let malformed = |what, position| PatchError::Malformed { what, position };
    let headers = header
        .program_headers(ENDIAN, data)
        .map_err(|_| malformed("program headers outside the file", 0))?;
    let mut segments = Vec::new();
    for program_header in
        headers.iter().filter(|program_header| program_header.p_type(ENDIAN) == PT_LOAD)
    {
        let segment = LoadSegment {
            address: program_header.p_vaddr(ENDIAN),
            file_offset: program_header.p_offset(ENDIAN),
            file_bytes: program_header.p_filesz(ENDIAN),
            memory_bytes: program_header.p_memsz(ENDIAN),
            executable: program_header.p_flags(ENDIAN) & PF_X != 0,
            writable: program_header.p_flags(ENDIAN) & PF_W != 0,
        };
        let end = segment.address.checked_add(segment.memory_bytes);
        if end.is_none_or(|end| end > ADDRESS_LIMIT) || segment.memory_bytes < segment.file_bytes {
            return Err(malformed("segment with impossible addresses", segment.address));
        }
        let file_end = segment.file_offset.checked_add(segment.file_bytes);
        if file_end.is_none_or(|end| end > data.len() as u64) {
            return Err(malformed("segment outside the file", segment.file_offset));
        }
        segments.push(segment);
    }
    // The limit keeps many segments with the same bytes from taking much memory.
    let total = segments.iter().map(|segment| segment.file_bytes).fold(0, u64::saturating_add);
    if segments.len() > SEGMENT_LIMIT || total > 2 * data.len() as u64 {
        return Err(malformed("too many segments, or segments sharing the file's bytes", total));
    }
    segments.sort_by_key(|segment| segment.address);
    for pair in segments.windows(2) {
        if pair[0].address + pair[0].memory_bytes > pair[1].address {
            return Err(malformed("overlapping segments", pair[1].address));
        }
    }
    Ok(segments)
}
