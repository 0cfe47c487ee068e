//! Plain loads by which compiled C++ checks data that other threads may have changed: whether a
//! static variable of a function is ready, and how many pointers share an object. Nothing in the
//! file declares them. They are recognised by the use of the loaded value.

mod callee;
mod counts;
mod guards;

use crate::chunk::Chunk;
use crate::elf::ElfView;
use iced_x86::{Decoder, DecoderOptions, Instruction, Register};

/// The addresses of all such loads, ascending.
pub(crate) fn find(elf: &ElfView, chunks: &[Chunk]) -> Vec<u64> {
    let mut looks = guards::find(elf, chunks);
    looks.extend(counts::find(elf, chunks));
    looks.sort_unstable();
    looks.dedup();
    looks
}

/// The bytes of a chunk that are loaded from the file.
fn bytes_of<'data>(elf: &ElfView<'data>, chunk: &Chunk) -> &'data [u8] {
    let bytes = elf.bytes_from(chunk.start);
    &bytes[..bytes.len().min((chunk.end - chunk.start) as usize)]
}

fn decode(elf: &ElfView, chunk: &Chunk) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes_of(elf, chunk), chunk.start, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// Whether the operand is in memory at a register plus this displacement.
fn is_behind_register(instruction: &Instruction, displacement: u64) -> bool {
    instruction.memory_base().is_gpr64()
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == displacement
        && instruction.segment_prefix() == Register::None
}
