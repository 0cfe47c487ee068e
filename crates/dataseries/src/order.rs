//! The byte order of a file: that of the machine that wrote it, unless the writer chose another
//! one.

/// Byte order of all multi-byte values of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// Reads and writes values of one width. The caller has checked the bounds.
macro_rules! accessors {
    ($($get:ident, $put:ident, $kind:ty, $bytes:literal;)*) => {
        impl ByteOrder {$(
            #[doc = concat!("The `", stringify!($kind), "` at `at`; the caller has checked that \
            it is inside.")]
            #[inline]
            pub(crate) fn $get(self, bytes: &[u8], at: usize) -> $kind {
                let mut value = [0; $bytes];
                value.copy_from_slice(&bytes[at..at + $bytes]);
                match self {
                    Self::Little => <$kind>::from_le_bytes(value),
                    Self::Big => <$kind>::from_be_bytes(value),
                }
            }

            #[doc = concat!("Stores the `", stringify!($kind), "` at `at`, which is inside.")]
            #[inline]
            pub(crate) fn $put(self, bytes: &mut [u8], at: usize, value: $kind) {
                let stored = match self {
                    Self::Little => value.to_le_bytes(),
                    Self::Big => value.to_be_bytes(),
                };
                bytes[at..at + $bytes].copy_from_slice(&stored);
            }
        )*}
    };
}

accessors! {
    i32, put_i32, i32, 4;
    u32, put_u32, u32, 4;
    i64, put_i64, i64, 8;
    f64, put_f64, f64, 8;
}
