//! Where the structures that frames need have their fields.

use super::JavaError;
use super::vm::Tables;
use retake_python::Reader;

/// Where the structures of one version have their fields.
#[derive(Debug)]
pub struct Layout {
    pub(super) heaps: Heaps,
    pub(super) blob: Blob,
    pub(super) compiled: Compiled,
    pub(super) method: Method,
    /// The variable with the queue of the interpreter's code.
    pub(super) interpreter: u64,
    pub(super) queue_buffer: u64,
    pub(super) queue_bytes: u64,
    /// The variable with the address where Java returns to native code.
    pub(super) call_stub: u64,
    /// Whether no byte of a compressed number is zero.
    pub(super) has_no_zeros: bool,
}

/// The heaps of code.
#[derive(Debug)]
pub(super) struct Heaps {
    /// The variable with the list of heaps.
    pub list: u64,
    pub list_items: u64,
    pub memory: u64,
    pub map: u64,
    /// The logarithm of the bytes of a segment.
    pub segment: u64,
    pub low: u64,
    pub high: u64,
    /// The size of what stands before a blob.
    pub header_bytes: u64,
}

/// A piece of code.
#[derive(Debug)]
pub(super) struct Blob {
    pub name: u64,
    pub bytes: u64,
    pub code: CodeAt,
    pub frame_words: u64,
    pub frame_complete: u64,
}

/// How a blob tells where something lies.
#[derive(Debug, Clone, Copy)]
pub(super) enum CodeAt {
    /// By its address.
    Address(u64),
    /// By the distance from the blob's beginning.
    Offset(u64),
    /// The same, in two bytes, and from where its code begins.
    ShortFromCode(u64),
}

/// A compiled method.
#[derive(Debug)]
pub(super) struct Compiled {
    pub method: u64,
    pub entry: CodeAt,
    pub deoptimized: [CodeAt; 2],
    pub original_pc: u64,
    pub tables: Debugging,
}

/// Where a compiled method has what debuggers need.
#[derive(Debug)]
pub(super) enum Debugging {
    /// In itself, by offsets. The scopes are at an address.
    Own { places: u64, places_end: u64, scopes: u64, metadata: u64 },
    /// In memory of their own: what never changes, and the rest.
    Apart { fixed: u64, fixed_bytes: u64, places: u64, scopes: u64, rest: u64, metadata: u64 },
}

/// A method and its class.
#[derive(Debug)]
pub(super) struct Method {
    pub fixed: u64,
    pub access: u64,
    pub pool: u64,
    pub flags: u64,
    pub has_lines: u32,
    pub code_bytes: u64,
    pub name: u64,
    /// The size of what stands before the instructions.
    pub header_bytes: u64,
    pub pool_holder: u64,
    pub pool_file: u64,
    pub pool_bytes: u64,
    pub class_name: u64,
    pub symbol_bytes: u64,
    pub symbol_text: u64,
}

impl Layout {
    /// Takes what frames need from a machine's tables.
    ///
    /// # Errors
    /// This version has no such structures.
    pub(super) fn of(tables: &Tables, reader: Reader<'_>) -> Result<Self, JavaError> {
        // The tables of versions before 19 tell this number.
        const FIRST_WITHOUT_ZEROS: u32 = 19;
        let version = tables.has("Abstract_VM_Version::_vm_major_version");
        let version = version.and_then(|at| reader.half(at, 0));
        Ok(Self {
            heaps: Heaps::of(tables)?,
            blob: Blob::of(tables)?,
            compiled: Compiled::of(tables)?,
            method: Method::of(tables)?,
            interpreter: tables.field("AbstractInterpreter::_code")?,
            queue_buffer: tables.field("StubQueue::_stub_buffer")?,
            queue_bytes: tables.field("StubQueue::_buffer_limit")?,
            call_stub: tables.field("StubRoutines::_call_stub_return_address")?,
            has_no_zeros: version.is_none_or(|version| version >= FIRST_WITHOUT_ZEROS),
        })
    }
}

impl Heaps {
    fn of(tables: &Tables) -> Result<Self, JavaError> {
        Ok(Self {
            list: tables.field("CodeCache::_heaps")?,
            list_items: tables.field("GrowableArray<int>::_data")?,
            memory: tables.field("CodeHeap::_memory")?,
            map: tables.field("CodeHeap::_segmap")?,
            segment: tables.field("CodeHeap::_log2_segment_size")?,
            low: tables.field("VirtualSpace::_low")?,
            high: tables.field("VirtualSpace::_high")?,
            header_bytes: tables.size("HeapBlock")?,
        })
    }
}

impl Blob {
    fn of(tables: &Tables) -> Result<Self, JavaError> {
        Ok(Self {
            name: tables.field("CodeBlob::_name")?,
            bytes: tables.field("CodeBlob::_size")?,
            code: match tables.has("CodeBlob::_code_begin") {
                Some(at) => CodeAt::Address(at),
                None => CodeAt::Offset(tables.field("CodeBlob::_code_offset")?),
            },
            frame_words: tables.field("CodeBlob::_frame_size")?,
            frame_complete: tables.field("CodeBlob::_frame_complete_offset")?,
        })
    }
}

impl Compiled {
    fn of(tables: &Tables) -> Result<Self, JavaError> {
        let handler = |address, offset| match tables.has(address) {
            Some(at) => Ok(CodeAt::Address(at)),
            None => tables.field(offset).map(CodeAt::Offset),
        };
        Ok(Self {
            method: tables.one_of(["CompiledMethod::_method", "nmethod::_method"])?,
            entry: match tables.has("nmethod::_verified_entry_point") {
                Some(at) => CodeAt::Address(at),
                None => CodeAt::ShortFromCode(tables.field("nmethod::_verified_entry_offset")?),
            },
            deoptimized: [
                handler("CompiledMethod::_deopt_handler_begin", "nmethod::_deopt_handler_offset")?,
                handler(
                    "CompiledMethod::_deopt_mh_handler_begin",
                    "nmethod::_deopt_mh_handler_offset",
                )?,
            ],
            original_pc: tables.field("nmethod::_orig_pc_offset")?,
            tables: Debugging::of(tables)?,
        })
    }
}

impl Debugging {
    fn of(tables: &Tables) -> Result<Self, JavaError> {
        let places = tables.field("nmethod::_scopes_pcs_offset")?;
        Ok(match tables.has("CompiledMethod::_scopes_data_begin") {
            Some(scopes) => Self::Own {
                places,
                places_end: tables.field("nmethod::_dependencies_offset")?,
                scopes,
                metadata: tables.field("nmethod::_metadata_offset")?,
            },
            None => Self::Apart {
                fixed: tables.field("nmethod::_immutable_data")?,
                fixed_bytes: tables.field("nmethod::_immutable_data_size")?,
                places,
                scopes: tables.field("nmethod::_scopes_data_offset")?,
                rest: tables.field("CodeBlob::_mutable_data")?,
                metadata: tables.field("CodeBlob::_relocation_size")?,
            },
        })
    }
}

impl Method {
    fn of(tables: &Tables) -> Result<Self, JavaError> {
        let has_lines =
            ["ConstMethod::_has_linenumber_table", "ConstMethodFlags::_misc_has_linenumber_table"];
        let has_lines = has_lines.into_iter().find_map(|name| tables.constant(name));
        Ok(Self {
            fixed: tables.field("Method::_constMethod")?,
            access: tables.field("Method::_access_flags")?,
            pool: tables.field("ConstMethod::_constants")?,
            flags: tables.one_of(["ConstMethod::_flags", "ConstMethod::_flags._flags"])?,
            has_lines: has_lines.unwrap_or_default() as u32,
            code_bytes: tables.field("ConstMethod::_code_size")?,
            name: tables.field("ConstMethod::_name_index")?,
            header_bytes: tables.size("ConstMethod")?,
            pool_holder: tables.field("ConstantPool::_pool_holder")?,
            pool_file: tables.field("ConstantPool::_source_file_name_index")?,
            pool_bytes: tables.size("ConstantPool")?,
            class_name: tables.field("Klass::_name")?,
            symbol_bytes: tables.field("Symbol::_length")?,
            symbol_text: tables.one_of(["Symbol::_body", "Symbol::_body[0]"])?,
        })
    }
}
