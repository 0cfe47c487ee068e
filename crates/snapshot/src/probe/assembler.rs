//! An assembler for the few instructions that stubs consist of, and the layout of a stub's page.

/// Offsets in the stub's page.
pub(super) const DATA_OFFSET: u64 = 0x500;
pub(super) const DISPLACED_OFFSET: u64 = 0x600;
pub(super) const SLOT_RAX: u64 = DATA_OFFSET;
pub(super) const SLOT_RCX: u64 = DATA_OFFSET + 8;
pub(super) const SLOT_RDX: u64 = DATA_OFFSET + 16;
pub(super) const SLOT_RSP: u64 = DATA_OFFSET + 24;
pub(super) const SLOT_FLAGS: u64 = DATA_OFFSET + 32;
/// The number of hits to pass before the one that stops. The counter of the first probe serves all.
pub(super) const COUNTER_OFFSET: u64 = DATA_OFFSET + 40;
pub(super) const STACK_TOP: u64 = DISPLACED_OFFSET;

/// The machine numbers of the registers, in the order of a context.
pub(super) const MACHINE_NUMBERS: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];

/// A condition that holds at the place, but not on most visits of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// A register, by its index in a context.
    Register { index: usize, value: u64 },
    /// The lower half of a vector register.
    Vector { index: usize, value: u64 },
    /// A word of memory.
    Word { address: u64, value: u64 },
}

/// Machine code for an address.
pub(super) struct Assembler {
    page: u64,
    pub bytes: Vec<u8>,
}

/// A jump whose target is still unknown.
pub(super) struct Pending(usize);

impl Assembler {
    pub fn new(page: u64) -> Self {
        Self { page, bytes: Vec::new() }
    }

    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub fn here(&self) -> u64 {
        self.page + self.bytes.len() as u64
    }

    /// Emits an instruction that ends with the distance to an offset in the page.
    pub fn relative(&mut self, opcode: &[u8], offset: u64) {
        self.put(opcode);
        let after = self.bytes.len() as i64 + 4;
        self.put(&(offset as i64 - after).to_le_bytes()[..4]);
    }

    pub fn pending(&mut self, opcode: &[u8]) -> Pending {
        self.put(opcode);
        self.put(&[0; 4]);
        Pending(self.bytes.len())
    }

    pub fn land(&mut self, pending: Pending) {
        let here = self.bytes.len() as u64;
        self.land_at(pending, here);
    }

    pub fn land_at(&mut self, pending: Pending, offset: u64) {
        let distance = (offset as i64 - pending.0 as i64) as i32;
        self.bytes[pending.0 - 4..pending.0].copy_from_slice(&distance.to_le_bytes());
    }

    pub fn save(&mut self) {
        self.relative(&[0x48, 0x89, 0x05], SLOT_RAX);
        self.relative(&[0x48, 0x89, 0x0d], SLOT_RCX);
    }

    pub fn restore(&mut self) {
        self.relative(&[0x48, 0x8b, 0x0d], SLOT_RCX);
        self.relative(&[0x48, 0x8b, 0x05], SLOT_RAX);
    }

    /// Emits a push of a register of the program, by machine number.
    pub fn push_register(&mut self, number: u8) {
        match number {
            0 => self.relative(&[0xff, 0x35], SLOT_RAX),
            1 => self.relative(&[0xff, 0x35], SLOT_RCX),
            2 => self.relative(&[0xff, 0x35], SLOT_RDX),
            4 => self.relative(&[0xff, 0x35], SLOT_RSP),
            8.. => self.put(&[0x41, 0x50 | (number & 7)]),
            _ => self.put(&[0x50 | number]),
        }
    }

    /// Emits code that sets rcx to the tested value minus the expected one.
    pub fn difference(&mut self, test: &Test) {
        let (number, value) = match *test {
            Test::Register { index, value } => match MACHINE_NUMBERS[index] {
                0 => (self.load(SLOT_RAX), value),
                1 => (self.load(SLOT_RCX), value),
                number => (number, value),
            },
            Test::Vector { index, value } => {
                let high = u8::from(index >= 8) << 2;
                // movq %xmm, %rax
                self.put(&[0x66, 0x48 | high, 0x0f, 0x7e, 0xc0 | ((index as u8 & 7) << 3)]);
                (0, value)
            }
            Test::Word { address, value } => {
                self.put(&[0x48, 0xb8]); // movabs $address, %rax
                self.put(&address.to_le_bytes());
                self.put(&[0x48, 0x8b, 0x00]); // mov (%rax), %rax
                (0, value)
            }
        };
        self.put(&[0x48, 0xb9]); // movabs $-value, %rcx
        self.put(&value.wrapping_neg().to_le_bytes());
        // lea 0(%number, %rcx), %rcx
        self.put(&[0x48 | u8::from(number >= 8), 0x8d, 0x4c, 0x08 | (number & 7), 0]);
    }

    pub fn load(&mut self, slot: u64) -> u8 {
        self.relative(&[0x48, 0x8b, 0x05], slot);
        0
    }
}
