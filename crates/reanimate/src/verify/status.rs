//! `struct stat` and `struct statx`, as far as they can be the same on another file system.

use libc as sys;

use crate::action::StatusLayout;
use crate::calls::{u16_at, u32_at, u64_at};

/// The fields of the two structures. Times, device and inode numbers and blocks depend on the
/// machine and are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Number of names.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Number of the device.
    pub device: u64,
    /// Inode number on the device.
    pub inode: u64,
}

impl Status {
    /// Reads one of the structures. `None` if it is incomplete.
    pub fn parse(layout: StatusLayout, bytes: &[u8]) -> Option<Self> {
        match layout {
            StatusLayout::Stat => Some(Self {
                mode: u32_at(bytes, 24)?,
                user: u32_at(bytes, 28)?,
                group: u32_at(bytes, 32)?,
                links: u64_at(bytes, 16)?,
                size: u64_at(bytes, 48)?,
                device: u64_at(bytes, 0)?,
                inode: u64_at(bytes, 8)?,
            }),
            StatusLayout::Statx => Some(Self {
                mode: u32::from(u16_at(bytes, 28)?),
                user: u32_at(bytes, 20)?,
                group: u32_at(bytes, 24)?,
                links: u64::from(u32_at(bytes, 16)?),
                size: u64_at(bytes, 40)?,
                device: u64::from(u32_at(bytes, 136)?) << 32 | u64::from(u32_at(bytes, 140)?),
                inode: u64_at(bytes, 32)?,
            }),
        }
    }

    /// The present status of a file.
    pub fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            mode: stat.st_mode,
            user: stat.st_uid,
            group: stat.st_gid,
            links: stat.st_nlink,
            size: stat.st_size as u64,
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// Whether owners are compared: the replay runs as root, and could set them.
    pub owners: bool,
    /// Whether the number of names is compared: the trace has every name of the file.
    pub links: bool,
}

/// The fields that differ, as text: expected and actual. Sizes and link counts of directories
/// depend on the file system.
pub fn status_differences(
    expected: &Status,
    actual: &Status,
    compared: Compared,
) -> Vec<(String, String)> {
    let is_directory = expected.mode & sys::S_IFMT == sys::S_IFDIR;
    let has_size = matches!(expected.mode & sys::S_IFMT, sys::S_IFREG | sys::S_IFLNK);
    let number = |name: &str, expected: u64, actual: u64| {
        (format!("{name} {expected}"), format!("{name} {actual}"))
    };
    let mut differences = Vec::new();
    // The permissions of a link have no meaning.
    let mask = if expected.mode & sys::S_IFMT == sys::S_IFLNK { sys::S_IFMT } else { u32::MAX };
    if expected.mode & mask != actual.mode & mask {
        differences.push((format!("mode {:o}", expected.mode), format!("mode {:o}", actual.mode)));
    }
    if has_size && expected.size != actual.size {
        differences.push(number("size", expected.size, actual.size));
    }
    if compared.links && !is_directory && expected.links != actual.links {
        differences.push(number("links", expected.links, actual.links));
    }
    if compared.owners && (expected.user, expected.group) != (actual.user, actual.group) {
        let text = |status: &Status| format!("owners {}:{}", status.user, status.group);
        differences.push((text(expected), text(actual)));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<T>(_: &T, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; std::mem::size_of::<T>()];
        fields.iter().for_each(|(offset, field)| {
            bytes[*offset..*offset + field.len()].copy_from_slice(field)
        });
        bytes
    }

    #[test]
    fn both_structures_are_read_as_the_kernel_writes_them() {
        use std::mem::offset_of;
        // The offsets are those of the C library's declarations.
        assert_eq!(offset_of!(sys::stat, st_mode), 24);
        assert_eq!(offset_of!(sys::stat, st_nlink), 16);
        assert_eq!(offset_of!(sys::stat, st_size), 48);
        assert_eq!(offset_of!(sys::statx, stx_mode), 28);
        assert_eq!(offset_of!(sys::statx, stx_nlink), 16);
        assert_eq!(offset_of!(sys::statx, stx_size), 40);
        assert_eq!(offset_of!(sys::statx, stx_ino), 32);
        assert_eq!(offset_of!(sys::statx, stx_dev_major), 136);
        let stat = rustix::fs::stat("/").unwrap();
        let fields: [(usize, &[u8]); 2] =
            [(24, &0o100644_u32.to_le_bytes()), (48, &7_u64.to_le_bytes())];
        let status = Status::parse(StatusLayout::Stat, &bytes_of(&stat, &fields)).unwrap();
        assert_eq!((status.mode, status.size), (0o100644, 7));
        assert_eq!(Status::parse(StatusLayout::Stat, &[0; 40]), None);
        assert_eq!(Status::parse(StatusLayout::Statx, &[0; 140]), None);
    }

    #[test]
    fn only_what_can_be_the_same_is_compared() {
        let file =
            Status { mode: 0o100644, user: 1, group: 2, links: 1, size: 5, device: 9, inode: 9 };
        let all = Compared { owners: true, links: true };
        assert!(status_differences(&file, &Status { device: 1, inode: 1, ..file }, all).is_empty());
        assert_eq!(
            status_differences(
                &file,
                &Status { size: 6, links: 2, user: 0, mode: 0o100600, ..file },
                all
            )
            .len(),
            4
        );
        let some = Compared { owners: false, links: false };
        assert!(status_differences(&file, &Status { links: 2, user: 0, ..file }, some).is_empty());
        let directory = Status { mode: 0o040755, ..file };
        assert!(
            status_differences(&directory, &Status { size: 4096, links: 7, ..directory }, all)
                .is_empty()
        );
        let link = Status { mode: 0o120777, ..file };
        assert!(status_differences(&link, &Status { mode: 0o120755, ..link }, all).is_empty());
    }
}
