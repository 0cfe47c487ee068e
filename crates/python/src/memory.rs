//! Reading memory that may contain anything.

/// The memory of a process.
pub trait Memory {
    /// Fills `bytes` from `address`. Returns whether all of it could be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// The most bytes that are read at once.
const MOST_BYTES: u64 = 1 << 20;

/// Little-endian numbers from memory. Each method returns `None` if the memory is not there.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a dyn Memory);

impl Reader<'_> {
    fn array<const COUNT: usize>(self, address: u64) -> Option<[u8; COUNT]> {
        let mut bytes = [0; COUNT];
        self.0.read(address, &mut bytes).then_some(bytes)
    }

    /// The word at an offset from a base that may be anything.
    pub fn word(self, base: u64, offset: u64) -> Option<u64> {
        self.array(base.checked_add(offset)?).map(u64::from_le_bytes)
    }

    /// The same, if it is an address: not null.
    pub fn pointer(self, base: u64, offset: u64) -> Option<u64> {
        self.word(base, offset).filter(|pointer| *pointer != 0)
    }

    /// Four bytes.
    pub fn half(self, base: u64, offset: u64) -> Option<u32> {
        self.array(base.checked_add(offset)?).map(u32::from_le_bytes)
    }

    /// Two bytes.
    pub fn short(self, base: u64, offset: u64) -> Option<u16> {
        self.array(base.checked_add(offset)?).map(u16::from_le_bytes)
    }

    /// One byte.
    pub fn byte(self, base: u64, offset: u64) -> Option<u8> {
        self.array::<1>(base.checked_add(offset)?).map(|[byte]| byte)
    }

    /// `count` bytes, but not if there are too many to be true.
    pub fn bytes(self, address: u64, count: u64) -> Option<Vec<u8>> {
        let count = usize::try_from(count).ok().filter(|_| count <= MOST_BYTES)?;
        let mut bytes = vec![0; count];
        self.0.read(address, &mut bytes).then_some(bytes)
    }

    /// `count` words.
    pub fn words(self, address: u64, count: u64) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, count.checked_mul(8)?)?;
        Some(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}
