//! Tools for DataSeries files: they print, describe, rewrite and summarise them.
//!
//! Each tool reads a stream and writes to a stream. Its memory is limited by one extent, and for
//! [`stat`] by the groups. A command only has to parse options.

mod expression;
mod info;
mod quantile;
mod render;
mod repack;
mod stat;
mod txt;

pub use expression::{BoundExpression, Expression, Scalar};
pub use info::{InfoOptions, info};
pub use render::{BytesStyle, Format};
pub use repack::{RepackOptions, RepackReport, repack};
pub use stat::{StatOptions, stat};
pub use txt::{TxtOptions, TxtReport, txt};

use crate::{Error, Result, TypeLibrary};

/// Whether `text` matches `pattern`, in which `*` stands for any bytes and `?` for one.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where matching continues if the part after the last `*` does not match: one byte later.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else {
                    return false;
                };
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Tells for each type of the library whether a pattern selects it. Without patterns, all are
/// selected.
///
/// # Errors
/// [`Error::UnknownType`] for a pattern that selects nothing.
pub(crate) fn select_types(library: &TypeLibrary, patterns: &[String]) -> Result<Vec<bool>> {
    let mut selected = vec![patterns.is_empty(); library.types().len()];
    for pattern in patterns {
        let found = library.matching(pattern);
        if found.is_empty() {
            return Err(Error::UnknownType { name: pattern.clone() });
        }
        for number in found.iter().filter_map(|extent_type| library.number(extent_type.name())) {
            selected[number] = true;
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*a?", "xxaxab", true),
            ("?", "", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }
}
