//! Numbers and checksums of the format.

/// The byte order of a file's integers.
#[derive(Clone, Copy)]
pub(super) struct Order(pub(super) bool);

impl Order {
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.0 { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
    }

    pub(super) fn word(self, bytes: &[u8], at: usize) -> usize {
        self.number(&bytes[at..at + 4]) as usize
    }
}

pub(super) fn adler(bytes: impl Iterator<Item = u8>) -> u32 {
    let (mut low, mut high) = (1, 0);
    for byte in bytes {
        low = (low + u32::from(byte)) % 65521;
        high = (high + low) % 65521;
    }
    high << 16 | low
}

pub(super) fn lookup2(init: u32, bytes: &[u8]) -> u32 {
    let mut state = [0x9e37_79b9_u32, 0x9e37_79b9, init];
    let shifts: [i32; 9] = [-13, 8, -13, -12, 16, -5, -3, 10, -15];
    let stir = |state: &mut [u32; 3]| {
        for (step, &shift) in shifts.iter().enumerate() {
            let (target, first, second) = (step % 3, (step + 1) % 3, (step + 2) % 3);
            let moved = match shift < 0 {
                true => state[second] >> -shift,
                false => state[second] << shift,
            };
            state[target] =
                state[target].wrapping_sub(state[first]).wrapping_sub(state[second]) ^ moved;
        }
    };
    let whole = bytes.len() / 12 * 12;
    for block in bytes[..whole].chunks(12) {
        for (index, &byte) in block.iter().enumerate() {
            state[index / 4] = state[index / 4].wrapping_add(u32::from(byte) << (index % 4 * 8));
        }
        stir(&mut state);
    }
    state[2] = state[2].wrapping_add(bytes.len() as u32);
    for (index, &byte) in bytes[whole..].iter().enumerate() {
        let index = if index < 8 { index } else { index + 1 };
        state[index / 4] = state[index / 4].wrapping_add(u32::from(byte) << (index % 4 * 8));
    }
    stir(&mut state);
    state[2]
}

/// The mixing step alone, with the seed for extents.
pub(super) fn mix3(a: u32, b: u32) -> u32 {
    let (mut a, mut b, mut c) = (a, b, 1972_u32);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
    c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15)
}
