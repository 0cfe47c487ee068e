//! What V8 says about its structures: each fact is a variable of its own. What it does not say is
//! the same in the versions that are known, or is checked where it is used.

use crate::language::Exports;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};
use retake_python::Reader;
use std::ops::Range;
use thiserror::Error;

/// What shows that a file has V8, and tells about it.
pub const MARK: &str = "v8dbg_class_JSFunction__shared__SharedFunctionInfo";

/// Why the frames of JavaScript cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeError {
    /// V8 says less about itself.
    #[error("this version of V8 does not tell {0}")]
    Unknown(&'static str),
    /// V8 is built in a way that nothing is known of.
    #[error("this V8 compresses its pointers")]
    Compressed,
}

/// Where the structures of one version have their fields. Offsets count from the beginning of an
/// object.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The code that was made when V8 was built.
    pub built_in: Range<u64>,
    /// The sizes of the instructions of bytecode: as they are, and after each of two prefixes.
    pub(super) sizes: [Vec<u8>; 3],
    pub(super) frame: Frame,
    pub(super) shared: u64,
    /// The code of a function.
    pub(super) code: u64,
    pub(super) shared_data: u64,
    pub(super) shared_name: u64,
    pub(super) shared_script: u64,
    pub(super) script_name: u64,
    pub(super) script_source: u64,
    pub(super) instance_type: u64,
    pub(super) length: u64,
    pub(super) bytecode: u64,
    pub(super) offset_table: u64,
    pub(super) interpreted_data: u64,
    pub(super) types: Types,
    pub(super) strings: Strings,
    pub(super) scopes: Scopes,
}

/// What is known of the variables of functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scopes {
    /// How many variables functions share with others.
    pub count: u64,
    /// Where their names begin.
    pub variables: u64,
}

/// The kinds of frames that have more to tell, and the places below their frame pointers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub entry: [u64; 2],
    pub built_in_exit: u64,
    pub context: i64,
    pub function: i64,
    pub bytecode_array: i64,
    pub bytecode_offset: i64,
}

/// The types of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types {
    pub shared: u16,
    pub script: u16,
    pub scope: u16,
    pub bytecode: u16,
    pub bytes: u16,
    pub code: u16,
    pub interpreter_data: u16,
    pub uncompiled: [u16; 2],
    pub first_not_string: u16,
}

/// Strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strings {
    pub length: u64,
    pub chars: u64,
    pub representation: u16,
    pub one_byte: u16,
    pub inferred_name: u64,
}

struct Told<'a>(Reader<'a>, Exports<'a>);

impl Told<'_> {
    fn signed(&self, name: &'static str) -> Result<i64, NodeError> {
        let told = (self.1)(&format!("v8dbg_{name}")).and_then(|one| self.0.half(one.at, 0));
        told.map(|value| i64::from(value as i32)).ok_or(NodeError::Unknown(name))
    }

    fn number(&self, name: &'static str) -> Result<u64, NodeError> {
        u64::try_from(self.signed(name)?).map_err(|_| NodeError::Unknown(name))
    }

    fn short(&self, name: &'static str) -> Result<u16, NodeError> {
        u16::try_from(self.signed(name)?).map_err(|_| NodeError::Unknown(name))
    }
}

impl Layout {
    /// Reads what V8 says.
    ///
    /// # Errors
    /// This version says too little.
    pub fn of(memory: &dyn retake_python::Memory, exports: Exports<'_>) -> Result<Self, NodeError> {
        const UNCOMPRESSED_SHIFT: i64 = 31;
        let told = Told(Reader(memory), exports);
        if told.signed("SmiShiftSize")? != UNCOMPRESSED_SHIFT {
            return Err(NodeError::Compressed);
        }
        let built_in = built_in(told.0, exports).ok_or(NodeError::Unknown("its own code"))?;
        Ok(Self {
            built_in,
            sizes: sizes(told.0, exports).ok_or(NodeError::Unknown("the sizes of bytecode"))?,
            frame: Frame::of(&told)?,
            shared: told.number("class_JSFunction__shared__SharedFunctionInfo")?,
            code: told
                .number("class_JSFunction__raw_feedback_cell__FeedbackCell")?
                .saturating_add(8),
            shared_data: told.number("class_SharedFunctionInfo__function_data__Object")?,
            shared_name: told.number("class_SharedFunctionInfo__name_or_scope_info__Object")?,
            shared_script: told
                .number("class_SharedFunctionInfo__script_or_debug_info__HeapObject")?,
            script_name: told.number("class_Script__name__Object")?,
            script_source: told.number("class_Script__source__Object")?,
            instance_type: told.number("class_Map__instance_type__uint16_t")?,
            length: told.number("class_FixedArrayBase__length__SMI")?,
            bytecode: told.number("class_BytecodeArray__data__uintptr_t")?,
            offset_table: told.number("class_Code__bytecode_offset_table__ByteArray")?,
            interpreted_data: told
                .number("class_Code__bytecode_or_interpreter_data__HeapObject")?,
            types: Types::of(&told)?,
            strings: Strings::of(&told)?,
            scopes: Scopes::of(&told)?,
        })
    }
}

impl Frame {
    fn of(told: &Told<'_>) -> Result<Self, NodeError> {
        Ok(Self {
            entry: [
                told.number("frametype_EntryFrame")?,
                told.number("frametype_ConstructEntryFrame")?,
            ],
            built_in_exit: told.number("frametype_BuiltinExitFrame")?,
            context: told.signed("off_fp_context")?,
            function: told.signed("off_fp_function")?,
            bytecode_array: told.signed("off_fp_bytecode_array")?,
            bytecode_offset: told.signed("off_fp_bytecode_offset")?,
        })
    }
}

impl Types {
    fn of(told: &Told<'_>) -> Result<Self, NodeError> {
        Ok(Self {
            shared: told.short("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            script: told.short("type_Script__SCRIPT_TYPE")?,
            scope: told.short("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            bytecode: told.short("type_BytecodeArray__BYTECODE_ARRAY_TYPE")?,
            bytes: told.short("type_ByteArray__BYTE_ARRAY_TYPE")?,
            code: told.short("type_Code__CODE_TYPE")?,
            interpreter_data: told.short("type_InterpreterData__INTERPRETER_DATA_TYPE")?,
            uncompiled: [
                told.short(concat!(
                    "type_UncompiledDataWithPreparseData",
                    "__UNCOMPILED_DATA_WITH_PREPARSE_DATA_TYPE"
                ))?,
                told.short(concat!(
                    "type_UncompiledDataWithoutPreparseData",
                    "__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA_TYPE"
                ))?,
            ],
            first_not_string: told.short("FirstNonstringType")?,
        })
    }
}

impl Scopes {
    fn of(told: &Told<'_>) -> Result<Self, NodeError> {
        // These are numbers of words, after the first.
        let at = |name| told.number(name)?.checked_mul(8).ok_or(NodeError::Unknown(name));
        Ok(Self {
            count: at("scopeinfo_idx_ncontextlocals")?.saturating_add(8),
            variables: at("scopeinfo_idx_first_vars")?.saturating_add(8),
        })
    }
}

impl Strings {
    fn of(told: &Told<'_>) -> Result<Self, NodeError> {
        Ok(Self {
            length: told.number("class_String__length__int32_t")?,
            chars: told.number("class_SeqOneByteString__chars__char")?,
            representation: told.short("StringRepresentationMask")?,
            one_byte: told.short("OneByteStringTag")?,
            inferred_name: told.number("class_UncompiledData__inferred_name__String")?,
        })
    }
}

/// The code that V8 was built with. Only functions tell where it is: they return a variable.
fn built_in(reader: Reader<'_>, exports: Exports<'_>) -> Option<Range<u64>> {
    let variable = |function| returned_variable(reader, exports(function)?.at);
    let start = variable("_ZN2v88internal7Isolate23CurrentEmbeddedBlobCodeEv")?;
    let bytes = variable("_ZN2v88internal7Isolate27CurrentEmbeddedBlobCodeSizeEv")?;
    let start = reader.pointer(start, 0)?;
    Some(start..start.checked_add(reader.half(bytes, 0)?.into())?)
}

fn sizes(reader: Reader<'_>, exports: Exports<'_>) -> Option<[Vec<u8>; 3]> {
    const SIZES: &str = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE";
    const MOST_INSTRUCTIONS: u64 = 256;
    let table = exports(SIZES)?;
    let count = Some(table.bytes / 3).filter(|count| *count <= MOST_INSTRUCTIONS)?;
    let part = |index: u64| reader.bytes(table.at.checked_add(index * count)?, count);
    Some([part(0)?, part(1)?, part(2)?])
}

/// The address of the variable that a function returns, if it does nothing else.
fn returned_variable(reader: Reader<'_>, function: u64) -> Option<u64> {
    const MOST_BYTES: u64 = 24;
    const MOST_INSTRUCTIONS: usize = 4;
    let bytes = reader.bytes(function, MOST_BYTES)?;
    let decoder = Decoder::with_ip(64, &bytes, function, DecoderOptions::NONE);
    let load = decoder.into_iter().take(MOST_INSTRUCTIONS).find(|instruction| {
        instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Memory
    })?;
    (load.memory_base() == Register::RIP).then(|| load.ip_rel_memory_address())
}

#[cfg(test)]
impl Layout {
    /// What V8 11.3 says, with code at `built_in`.
    pub(super) fn known(built_in: Range<u64>) -> Self {
        Self {
            built_in,
            sizes: [vec![1; 198], vec![3; 198], vec![5; 198]],
            frame: Frame {
                entry: [1, 2],
                built_in_exit: 25,
                context: -8,
                function: -16,
                bytecode_array: -32,
                bytecode_offset: -40,
            },
            shared: 24,
            code: 48,
            shared_data: 8,
            shared_name: 16,
            shared_script: 32,
            script_name: 16,
            script_source: 8,
            instance_type: 12,
            length: 8,
            bytecode: 54,
            offset_table: 24,
            interpreted_data: 16,
            types: Types {
                shared: 262,
                script: 167,
                scope: 261,
                bytecode: 191,
                bytes: 190,
                code: 245,
                interpreter_data: 159,
                uncompiled: [220, 222],
                first_not_string: 128,
            },
            strings: Strings {
                length: 12,
                chars: 16,
                representation: 7,
                one_byte: 8,
                inferred_name: 8,
            },
            scopes: Scopes { count: 24, variables: 32 },
        }
    }
}
