//! Names for the bits of flag arguments and the values of enumerations. `flag_sets.rs` has the
//! data.

pub use crate::flag_sets::*;

/// The names of one kind of argument.
///
/// The bits of `field_mask` hold one of `fields`. Each other bit has its own meaning. For an
/// enumeration, the field is the whole number and `bits` is empty. A name for 0 in `bits` stands
/// for no flags at all.
#[derive(Debug)]
pub struct FlagSet {
    pub field_mask: u32,
    pub fields: &'static [(u32, &'static str)],
    pub bits: &'static [(u32, &'static str)],
}

impl FlagSet {
    /// Formats a value as names, such as `O_RDWR|O_CREAT`, followed by unnamed bits in hexadecimal.
    /// Kernel flags of this kind have 32 bits.
    pub fn format(&self, value: u32) -> String {
        let mut parts = Vec::new();
        let field = value & self.field_mask;
        let mut rest = value & !self.field_mask;
        if self.field_mask != 0 {
            match self.fields.iter().find(|(number, _)| *number == field) {
                Some((_, name)) => parts.push((*name).to_string()),
                // An enumeration without a name for the value: show the number.
                None if self.field_mask == u32::MAX => return (field as i32).to_string(),
                None => rest |= field,
            }
        }
        for (bits, name) in self.bits {
            if *bits != 0 && rest & bits == *bits {
                parts.push((*name).to_string());
                rest &= !bits;
            }
        }
        if rest != 0 {
            parts.push(format!("{rest:#x}"));
        }
        if parts.is_empty() {
            let zero = self.bits.iter().find(|(bits, _)| *bits == 0);
            return zero.map_or("0", |(_, name)| name).to_string();
        }
        parts.join("|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_remainders() {
        let cases: [(&FlagSet, u32, &str); 12] = [
            (&OPEN, 0, "O_RDONLY"),
            (&OPEN, 0o2000102, "O_RDWR|O_CREAT|O_CLOEXEC"),
            // Two bits that have a common name.
            (&OPEN, 0o4210000, "O_RDONLY|O_SYNC|O_DIRECTORY"),
            (&PROTECTION, 0, "PROT_NONE"),
            (&PROTECTION, 5, "PROT_READ|PROT_EXEC"),
            (&MAP, 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
            (&MAP, 0x4000_0022, "MAP_PRIVATE|MAP_ANONYMOUS|0x40000000"),
            (&WHENCE, 2, "SEEK_END"),
            (&WHENCE, 77, "77"),
            (&CLONE, 0x11, "SIGCHLD"),
            (&CLONE, 0x100, "CLONE_VM"),
            (&ACCESS, 0, "F_OK"),
        ];
        for (set, value, text) in cases {
            assert_eq!(set.format(value), text);
        }
    }
}
