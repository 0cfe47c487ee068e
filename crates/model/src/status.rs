//! Formats the results of `stat` and `statx`: the important fields for the kind of file, or all
//! fields.

use crate::bytes::{read_u32, read_u64};
use crate::calendar;
use crate::flags;
use crate::text::TextOptions;
use std::fmt::Write;

const KIND: u32 = 0o170_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
const BLOCK_DEVICE: u32 = 0o060_000;
const STATX_BIRTH: u32 = 0x800;
const STATX_ATIME: u32 = 0x20;
const STATX_MTIME: u32 = 0x40;
const STATX_CTIME: u32 = 0x80;

/// Formats a number in hexadecimal; zero has no prefix.
pub(crate) fn hexadecimal(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

/// Formats a device number: `makedev(0xfe, 0)`.
fn device(number: u64) -> String {
    let (major, minor) = (
        (number >> 8 & 0xfff) | (number >> 32 & !0xfff),
        (number & 0xff) | (number >> 12 & 0xffff_ff00),
    );
    format!("makedev({}, {})", hexadecimal(major), hexadecimal(minor))
}

/// Formats a file's kind and permissions: `S_IFDIR|0755`.
pub(crate) fn file_mode(mode: u32) -> String {
    let kind = match mode >> 12 & 0xf {
        0o1 => "S_IFIFO|",
        0o2 => "S_IFCHR|",
        0o4 => "S_IFDIR|",
        0o6 => "S_IFBLK|",
        0o10 => "S_IFREG|",
        0o12 => "S_IFLNK|",
        0o14 => "S_IFSOCK|",
        _ => return format!("0{mode:o}"),
    };
    let bits = [(0o4000, "S_ISUID|"), (0o2000, "S_ISGID|"), (0o1000, "S_ISVTX|")];
    let bits: String =
        bits.iter().filter(|(bit, _)| mode & bit != 0).map(|(_, name)| *name).collect();
    format!("{kind}{bits}0{:03o}", mode & 0o777)
}

fn is_device(mode: u32) -> bool {
    matches!(mode & KIND, CHARACTER_DEVICE | BLOCK_DEVICE)
}

/// Formats a complete `struct stat`.
pub(crate) fn stat(bytes: &[u8], options: &TextOptions) -> String {
    let mode = read_u32(bytes, 24);
    let extent = match is_device(mode) {
        true => format!("st_rdev={}", device(read_u64(bytes, 40))),
        false => format!("st_size={}", read_u64(bytes, 48) as i64),
    };
    if !options.unabbreviated {
        return format!("{{st_mode={}, {extent}, ...}}", file_mode(mode));
    }
    let mut text = format!(
        "{{st_dev={}, st_ino={}, st_mode={}",
        device(read_u64(bytes, 0)),
        read_u64(bytes, 8),
        file_mode(mode)
    );
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        ", st_nlink={}, st_uid={}, st_gid={}",
        read_u64(bytes, 16),
        read_u32(bytes, 28),
        read_u32(bytes, 32)
    );
    let _ = write!(
        text,
        ", st_blksize={}, st_blocks={}, {extent}",
        read_u64(bytes, 56),
        read_u64(bytes, 64)
    );
    for (name, at) in [("st_atime", 72), ("st_mtime", 88), ("st_ctime", 104)] {
        let (seconds, nanoseconds) = (read_u64(bytes, at) as i64, read_u64(bytes, at + 8));
        let _ = write!(
            text,
            ", {name}={seconds}{}, {name}_nsec={nanoseconds}",
            date(seconds, nanoseconds, options)
        );
    }
    text + "}"
}

/// Formats a complete `struct statx`.
pub(crate) fn statx(bytes: &[u8], options: &TextOptions) -> String {
    let mode = u32::from(u16::from_le_bytes([bytes[28], bytes[29]]));
    let mask = read_u32(bytes, 0);
    let attributes = hexadecimal(read_u64(bytes, 8));
    let head = format!("{{stx_mask={}", flags::STATX.format(mask));
    let (kind, size) = (file_mode(mode), read_u64(bytes, 40));
    if !options.unabbreviated {
        return format!(
            "{head}, stx_attributes={attributes}, stx_mode={kind}, stx_size={size}, ...}}"
        );
    }
    let mut text =
        format!("{head}, stx_blksize={}, stx_attributes={attributes}", read_u32(bytes, 4));
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        ", stx_nlink={}, stx_uid={}, stx_gid={}",
        read_u32(bytes, 16),
        read_u32(bytes, 20),
        read_u32(bytes, 24)
    );
    let _ = write!(
        text,
        ", stx_mode={kind}, stx_ino={}, stx_size={size}, stx_blocks={}",
        read_u64(bytes, 32),
        read_u64(bytes, 48)
    );
    let _ = write!(text, ", stx_attributes_mask={}", hexadecimal(read_u64(bytes, 56)));
    for (name, at, bit) in [
        ("stx_atime", 64, STATX_ATIME),
        ("stx_btime", 80, STATX_BIRTH),
        ("stx_ctime", 96, STATX_CTIME),
        ("stx_mtime", 112, STATX_MTIME),
    ] {
        if mask & bit != 0 {
            let (seconds, nanoseconds) =
                (read_u64(bytes, at) as i64, u64::from(read_u32(bytes, at + 8)));
            let _ = write!(
                text,
                ", {name}={{tv_sec={seconds}, tv_nsec={nanoseconds}}}{}",
                date(seconds, nanoseconds, options)
            );
        }
    }
    let _ = write!(
        text,
        ", stx_rdev_major={}, stx_rdev_minor={}",
        read_u32(bytes, 128),
        read_u32(bytes, 132)
    );
    let _ = write!(
        text,
        ", stx_dev_major={}, stx_dev_minor={}",
        read_u32(bytes, 136),
        read_u32(bytes, 140)
    );
    let _ = write!(text, ", stx_mnt_id={}", hexadecimal(read_u64(bytes, 144)));
    text + "}"
}

/// Formats a date: ` /* 2026-11-23T03:30:23.858274177+0000 */`; empty for time 0.
pub(crate) fn date(seconds: i64, nanoseconds: u64, options: &TextOptions) -> String {
    // A date after the year 9999 is meaningless.
    const LATEST: i64 = 253_402_300_799;
    if (seconds == 0 && nanoseconds == 0) || !(-LATEST..=LATEST).contains(&seconds) {
        return String::new();
    }
    let text = calendar::date(seconds, nanoseconds, options.utc_offset_s);
    text.map_or_else(String::new, |text| format!(" /* {text} */"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let options = TextOptions::default();
        let cases = [
            (1_700_000_000, 5, " /* 2023-11-14T22:13:20.000000005+0000 */"),
            (951_782_400, 0, " /* 2000-02-29T00:00:00+0000 */"),
            (951_868_800, 0, " /* 2000-03-01T00:00:00+0000 */"),
            (-1, 0, " /* 1969-12-31T23:59:59+0000 */"),
            (0, 0, ""),
            (i64::MAX, 0, ""),
        ];
        for (seconds, nanoseconds, text) in cases {
            assert_eq!(date(seconds, nanoseconds, &options), text);
        }
        let options = TextOptions { utc_offset_s: -12_600, ..options };
        assert_eq!(date(1_700_000_000, 0, &options), " /* 2023-11-14T18:43:20-0330 */");
    }

    #[test]
    fn files_have_sizes_and_devices_numbers() {
        let mut bytes = [0; 144];
        bytes[24..28].copy_from_slice(&0o100_644_u32.to_le_bytes());
        bytes[48] = 7;
        assert_eq!(stat(&bytes, &TextOptions::default()), "{st_mode=S_IFREG|0644, st_size=7, ...}");
        bytes[24..28].copy_from_slice(&0o020_666_u32.to_le_bytes());
        bytes[40..48].copy_from_slice(&0x103_u64.to_le_bytes());
        assert_eq!(
            stat(&bytes, &TextOptions::default()),
            "{st_mode=S_IFCHR|0666, st_rdev=makedev(0x1, 0x3), ...}"
        );
        let whole = stat(&bytes, &TextOptions { unabbreviated: true, ..TextOptions::default() });
        assert!(
            whole.starts_with("{st_dev=makedev(0, 0), st_ino=0, st_mode=S_IFCHR|0666, st_nlink=0")
                && whole.ends_with("st_ctime_nsec=0}"),
            "{whole}"
        );
    }
}
