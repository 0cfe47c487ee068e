//! Copies and hashes whole files, through any descriptor and without moving its position.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::ContentId;
use crate::error::{Error, Result};

const BLOCK_BYTES: usize = 1 << 20;

/// Makes the empty file `target` share the bytes of `file`, if the file system can. Later writes to
/// `file` do not change `target`. Returns whether it did; otherwise `target` stays empty.
pub(crate) fn clone_file(file: &File, target: &File) -> bool {
    rustix::fs::ioctl_ficlone(target, file).is_ok()
}

/// Returns the content and size of a file, which is read to its end.
pub(crate) fn hash_file(file: &File, path: &Path) -> Result<(ContentId, u64)> {
    for_each_block(file, path, |_| Ok(()))
}

/// Copies a file to the empty file `target`, whose path is `path`. Returns the content of the bytes
/// written, even if the file changed meanwhile.
pub(crate) fn copy_file(file: &File, target: &mut File, path: &Path) -> Result<(ContentId, u64)> {
    for_each_block(file, path, |block| target.write_all(block))
}

fn for_each_block(
    file: &File,
    path: &Path,
    mut action: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(ContentId, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    loop {
        let count = match file.read_at(&mut block, offset) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io("read a file to be stored in", path, error)),
        };
        hasher.update(&block[..count]);
        action(&block[..count]).map_err(|error| Error::io("write to", path, error))?;
        offset += count as u64;
    }
    Ok((ContentId(*hasher.finalize().as_bytes()), offset))
}

/// As [`copy_file`], for a file of `bytes` bytes that no process changes. It reserves room first:
/// writing without reserved blocks takes many times as long.
pub(crate) fn copy_unchanging(
    file: &File,
    target: &mut File,
    bytes: u64,
    path: &Path,
) -> Result<(ContentId, u64)> {
    match rustix::fs::fallocate(&*target, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => copy_file(file, target, path),
        Err(error) => Err(Error::io("write to", path, error.into())),
    }
}
