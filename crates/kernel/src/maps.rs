//! Reading `/proc/PID/maps`.

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
    /// Path, or a name in brackets; empty for anonymous memory.
    pub name: String,
}

impl Mapping {
    /// PROT_* bits.
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

/// Parses the text of a maps file; lines it does not understand are an error.
///
/// # Errors
/// `InvalidData` with the line.
pub fn parse(text: &str) -> io::Result<Vec<Mapping>> {
    text.lines()
        .map(|line| Mapping::parse(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("unexpected line in maps: {line}"))))
        .collect()
}

/// The mappings of a process.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn of_process(pid: i32) -> io::Result<Vec<Mapping>> {
    let bytes = crate::process::read_proc(pid, "maps")?;
    parse(&String::from_utf8_lossy(&bytes))
}
