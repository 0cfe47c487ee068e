//! The registers of an x86-64 thread, as the target description names them.

use gdbstub::arch;
use retake_kernel::ptrace;
use retake_snapshot::probe::numbered;

const GENERAL: usize = 16;
const SEGMENTS: usize = 6;
const FLOATING: usize = 8;
const FLOATING_BYTES: usize = 10;
const VECTORS: usize = 16;
const VECTOR_BYTES: usize = 16;

/// Offsets in an XSAVE area that is not compacted.
const STACK_OFFSET: usize = 32;
const VECTOR_OFFSET: usize = 160;
const MXCSR_OFFSET: usize = 24;
const UPPER_OFFSET: usize = 576;

/// x86-64, with the registers of [`DESCRIPTION`].
pub(crate) enum X86_64 {}

impl arch::Arch for X86_64 {
    type Usize = u64;
    type Registers = Registers;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(DESCRIPTION)
    }
}

/// All registers of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Registers {
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 to r15
    pub general: [u64; GENERAL],
    pub program_counter: u64,
    pub flags: u32,
    /// cs ss ds es fs gs
    pub segments: [u32; SEGMENTS],
    pub original_call: u64,
    /// fs gs
    pub bases: [u64; 2],
    /// The XSAVE area.
    pub extended: Vec<u8>,
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            general: [0; GENERAL],
            program_counter: 0,
            flags: 0,
            segments: [0; SEGMENTS],
            original_call: u64::MAX,
            bases: [0; 2],
            extended: Vec::new(),
        }
    }
}

impl Registers {
    /// Makes them from ptrace's registers.
    pub fn new(r: &ptrace::Registers, extended: Vec<u8>) -> Self {
        let [general @ .., program_counter] = numbered(r);
        Self {
            general,
            program_counter,
            flags: r.eflags as u32,
            segments: [r.cs, r.ss, r.ds, r.es, r.fs, r.gs].map(|selector| selector as u32),
            original_call: r.orig_rax,
            bases: [r.fs_base, 0], // the program's gs base is 0; the actual one is the runtime's
            extended,
        }
    }

    fn extended_bytes(&self, offset: usize, count: usize) -> Vec<u8> {
        let mut bytes =
            self.extended.get(offset..offset + count).map(<[u8]>::to_vec).unwrap_or_default();
        bytes.resize(count, 0);
        bytes
    }

    fn extended_word(&self, offset: usize) -> u16 {
        let bytes = self.extended_bytes(offset, 2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// The x87 registers that the debugger knows by name: control, status and tag words, and the
    /// position of the last instruction.
    fn floating_words(&self) -> [u32; 8] {
        let pointer = |offset| {
            u32::from(self.extended_word(offset)) | u32::from(self.extended_word(offset + 2)) << 16
        };
        let (control, status, opcode) =
            (self.extended_word(0), self.extended_word(2), self.extended_word(6));
        [
            u32::from(control),
            u32::from(status),
            self.tags(),
            pointer(12) & 0xffff,
            pointer(8),
            pointer(20) & 0xffff,
            pointer(16),
            u32::from(opcode),
        ]
    }

    /// The tag word: two bits for each physical register. XSAVE only stores whether a register is
    /// empty.
    fn tags(&self) -> u32 {
        const EMPTY: u32 = 3;
        const SPECIAL: u32 = 2;
        const ZERO: u32 = 1;
        let used = self.extended_bytes(4, 1)[0];
        let top = usize::from(self.extended_word(2) >> 11 & 7);
        let tag = |physical: usize| {
            if used >> physical & 1 == 0 {
                return EMPTY;
            }
            let value = self.extended_bytes(
                STACK_OFFSET + 16 * ((physical + FLOATING - top) % FLOATING),
                FLOATING_BYTES,
            );
            let exponent = u16::from_le_bytes([value[8], value[9]]) & 0x7fff;
            match (exponent, value[7] & 0x80, value[..8].iter().all(|byte| *byte == 0)) {
                (0, _, true) => ZERO,
                (0 | 0x7fff, ..) | (_, 0, _) => SPECIAL,
                _ => 0,
            }
        };
        (0..FLOATING).map(|physical| tag(physical) << (2 * physical)).sum()
    }

    /// The reverse of [`Registers::bytes`]. Some registers stay because users may not change them:
    /// the segment selectors, and those x87 registers that are not data registers.
    fn take(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        for register in self.general.iter_mut().chain([&mut self.program_counter]) {
            *register = u64::from_le_bytes(next(&mut rest)?);
        }
        self.flags = u32::from_le_bytes(next(&mut rest)?);
        for selector in &mut self.segments {
            *selector = u32::from_le_bytes(next(&mut rest)?);
        }
        self.extended = vec![0; UPPER_OFFSET + VECTOR_BYTES * VECTORS];
        for index in 0..FLOATING {
            self.put_extended(STACK_OFFSET + 16 * index, &next::<FLOATING_BYTES>(&mut rest)?);
        }
        next::<{ 4 * FLOATING }>(&mut rest)?;
        for index in 0..VECTORS {
            self.put_extended(
                VECTOR_OFFSET + VECTOR_BYTES * index,
                &next::<VECTOR_BYTES>(&mut rest)?,
            );
        }
        self.put_extended(MXCSR_OFFSET, &next::<4>(&mut rest)?);
        self.original_call = u64::from_le_bytes(next(&mut rest)?);
        for base in &mut self.bases {
            *base = u64::from_le_bytes(next(&mut rest)?);
        }
        for index in 0..VECTORS {
            self.put_extended(
                UPPER_OFFSET + VECTOR_BYTES * index,
                &next::<VECTOR_BYTES>(&mut rest)?,
            );
        }
        Some(())
    }

    fn put_extended(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.extended.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// The registers in the kernel's form, if they differ from those of the thread.
    pub fn for_kernel(
        &self,
        before: &ptrace::Registers,
        extended: &[u8],
    ) -> (ptrace::Registers, Vec<u8>) {
        let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15] =
            self.general;
        let general = ptrace::Registers {
            rax,
            rbx,
            rcx,
            rdx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip: self.program_counter,
            eflags: u64::from(self.flags),
            fs_base: self.bases[0],
            ..*before
        };
        let mut changed = Self { extended: extended.to_vec(), ..Self::default() };
        let places = (0..FLOATING).map(|index| (STACK_OFFSET + 16 * index, FLOATING_BYTES));
        let places = places
            .chain((0..VECTORS).map(|index| (VECTOR_OFFSET + VECTOR_BYTES * index, VECTOR_BYTES)));
        let places = places
            .chain([(MXCSR_OFFSET, 4)])
            .chain((0..VECTORS).map(|index| (UPPER_OFFSET + VECTOR_BYTES * index, VECTOR_BYTES)));
        let known = Self { extended: extended.to_vec(), ..Self::default() };
        for (offset, count) in places {
            let bytes = self.extended_bytes(offset, count);
            if bytes != known.extended_bytes(offset, count) {
                changed.put_extended(offset, &bytes);
                changed.use_components();
            }
        }
        (general, changed.extended)
    }

    /// Marks the components as used. Unused ones would be cleared.
    fn use_components(&mut self) {
        const USED_OFFSET: usize = 512;
        const X87_SSE_AVX: u8 = 7;
        let used = self.extended_bytes(USED_OFFSET, 1)[0];
        self.put_extended(USED_OFFSET, &[used | X87_SSE_AVX]);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(
            self.general
                .iter()
                .chain([&self.program_counter])
                .flat_map(|value| value.to_le_bytes()),
        );
        bytes.extend(
            [self.flags].iter().chain(&self.segments).flat_map(|value| value.to_le_bytes()),
        );
        for index in 0..FLOATING {
            bytes.extend(self.extended_bytes(STACK_OFFSET + 16 * index, FLOATING_BYTES));
        }
        bytes.extend(self.floating_words().iter().flat_map(|value| value.to_le_bytes()));
        for index in 0..VECTORS {
            bytes.extend(self.extended_bytes(VECTOR_OFFSET + VECTOR_BYTES * index, VECTOR_BYTES));
        }
        bytes.extend(self.extended_bytes(MXCSR_OFFSET, 4));
        bytes.extend(self.original_call.to_le_bytes());
        bytes.extend(self.bases.iter().flat_map(|value| value.to_le_bytes()));
        for index in 0..VECTORS {
            bytes.extend(self.extended_bytes(UPPER_OFFSET + VECTOR_BYTES * index, VECTOR_BYTES));
        }
        bytes
    }
}

impl arch::Registers for Registers {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.program_counter
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.bytes().into_iter().for_each(|byte| write_byte(Some(byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.take(bytes).ok_or(())
    }
}

/// Takes this many bytes from the front.
fn next<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

/// The registers in the order of [`Registers::gdb_serialize`].
pub(crate) const DESCRIPTION: &str = include_str!("x86_64.xml");
