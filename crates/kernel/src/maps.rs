//! Parses `/proc/PID/maps`.
//!
//! Only this one format of `/proc` is needed, so a library for all of it would be too much.

use std::collections::HashMap;
use std::io;

/// One mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    pub shared: bool,
    pub offset: u64,
    pub device: u64,
    pub inode: u64,
    /// The path, or a name in brackets; empty for anonymous memory.
    pub name: String,
}

impl Mapping {
    /// Returns the PROT_* bits.
    pub fn protection(&self) -> u32 {
        u32::from(self.readable) | u32::from(self.writable) << 1 | u32::from(self.executable) << 2
    }

    fn parse(line: &str) -> Option<Self> {
        let mut rest = line;
        let mut field = || -> Option<&str> {
            rest = rest.trim_start_matches(' ');
            let end = rest.find(' ').unwrap_or(rest.len());
            let (head, tail) = rest.split_at(end);
            rest = tail;
            Some(head)
        };
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?.as_bytes();
        let offset = field()?;
        let (major, minor) = field()?.split_once(':')?;
        let inode = field()?;
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            readable: *permissions.first()? == b'r',
            writable: *permissions.get(1)? == b'w',
            executable: *permissions.get(2)? == b'x',
            shared: *permissions.get(3)? == b's',
            offset: hexadecimal(offset)?,
            device: libc::makedev(hexadecimal(major)? as u32, hexadecimal(minor)? as u32),
            inode: inode.parse().ok()?,
            name: rest.trim_start_matches(' ').to_owned(),
        })
    }
}

/// Parses the text of a maps file. A line that cannot be parsed is an error.
///
/// # Errors
/// `InvalidData` with the line.
pub fn parse(text: &str) -> io::Result<Vec<Mapping>> {
    text.lines()
        .map(|line| {
            Mapping::parse(line).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("unexpected line in maps: {line}"),
                )
            })
        })
        .collect()
}

/// Returns the mappings of a process.
///
/// # Errors
/// The process is gone, or may not be inspected.
pub fn of_process(pid: i32) -> io::Result<Vec<Mapping>> {
    let bytes = crate::process::read_proc(pid, "maps")?;
    parse(&String::from_utf8_lossy(&bytes))
}

/// What `/proc/PID/maps` does not say of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nature {
    /// It grows downwards when memory below it is touched.
    pub grows_down: bool,
    /// It is sealed against changes.
    pub sealed: bool,
    /// It has a protection key other than the default one.
    pub has_key: bool,
    /// Forked copies of the process do not have it.
    pub missing_in_copies: bool,
    /// Forked copies of the process have zeros there.
    pub wiped_in_copies: bool,
}

/// Returns the natures of unusual mappings, by start address. Reads all page tables, which takes a
/// while.
///
/// # Errors
/// The process is gone, or may not be inspected.
pub fn natures(pid: i32) -> io::Result<HashMap<u64, Nature>> {
    let bytes = crate::process::read_proc(pid, "smaps")?;
    Ok(parse_natures(&String::from_utf8_lossy(&bytes)))
}

fn parse_natures(text: &str) -> HashMap<u64, Nature> {
    let mut natures: HashMap<u64, Nature> = HashMap::new();
    let mut start = 0;
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((first, _)) = word.split_once('-') {
            start = u64::from_str_radix(first, 16).unwrap_or(0);
        } else if word == "ProtectionKey:" && rest.trim() != "0" {
            natures.entry(start).or_default().has_key = true;
        } else if word == "VmFlags:" {
            let has = |flag: &str| rest.split_ascii_whitespace().any(|word| word == flag);
            let known = natures.get(&start).copied().unwrap_or_default();
            let nature = Nature {
                grows_down: has("gd"),
                sealed: has("sl"),
                missing_in_copies: has("dc") && !has("io"),
                wiped_in_copies: has("wf"),
                ..known
            };
            natures.insert(start, nature);
        }
    }
    natures.retain(|_, nature| *nature != Nature::default());
    natures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natures_are_those_of_their_mappings() {
        let text = "\
1000-3000 rw-p 00000000 00:00 0\nSize:                  8 kB\nProtectionKey:         0\nVmFlags: rd wr mr mw me gd ac\n\
5000-6000 r--p 00000000 08:01 7                          /data\nVmFlags: rd mr mw me sl\n\
7000-8000 rw-p 00000000 00:00 0\nProtectionKey:         3\nVmFlags: rd wr\n\
9000-a000 rw-p 00000000 00:00 0\nProtectionKey:         0\nVmFlags: rd wr\n";
        let found = parse_natures(text);
        assert_eq!(found.get(&0x1000), Some(&Nature { grows_down: true, ..Nature::default() }));
        assert_eq!(found.get(&0x5000), Some(&Nature { sealed: true, ..Nature::default() }));
        assert_eq!(found.get(&0x7000), Some(&Nature { has_key: true, ..Nature::default() }));
        assert_eq!(found.len(), 3);
        let own = natures(std::process::id() as i32).unwrap();
        assert!(own.values().any(|nature| nature.grows_down), "the stack of this process");
    }
}
