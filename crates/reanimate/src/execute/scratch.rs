//! A buffer to read into, aligned for direct input and output.

/// The most bytes read or written at once, however many the trace asks for.
pub const MAXIMUM_BYTES: usize = 1 << 20;

/// The largest alignment that direct input and output need.
const ALIGNMENT: usize = 4096;

/// A reusable buffer.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Vec<u8>,
}

impl Scratch {
    /// Returns `count` bytes, at most [`MAXIMUM_BYTES`], with undefined content.
    pub fn bytes(&mut self, count: usize) -> &mut [u8] {
        let count = count.min(MAXIMUM_BYTES);
        let needed = count + ALIGNMENT;
        if self.memory.len() < needed {
            self.memory.resize(needed.next_power_of_two(), 0);
        }
        let start = self.memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        &mut self.memory[start..start + count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_bounded() {
        let mut scratch = Scratch::default();
        for count in [1, 512, 4096, 100_000, usize::MAX] {
            let bytes = scratch.bytes(count);
            assert_eq!(bytes.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(bytes.len(), count.min(MAXIMUM_BYTES));
        }
    }
}
