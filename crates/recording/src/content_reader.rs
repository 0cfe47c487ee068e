//! Reads pieces of the files in a recording, to which its events refer.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::contents::{open_own, packed};
use crate::error::{Error, Result};
use crate::opened::Shared;
use crate::{ContentId, Recording};

/// Reads pieces of files. Keeps the last file open, since events often refer to the same file
/// again.
#[derive(Debug)]
pub struct ContentReader {
    shared: Arc<Shared>,
    file: Option<(ContentId, File)>,
    /// For a packed recording: the content and the number of the frame that `bytes` holds.
    frame: Option<(ContentId, usize)>,
    bytes: Vec<u8>,
    stored: Vec<u8>,
}

impl ContentReader {
    /// Creates a reader for the files of a recording.
    pub fn new(recording: &Recording) -> Self {
        Self::of(Arc::clone(&recording.shared))
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared, file: None, frame: None, bytes: Vec::new(), stored: Vec::new() }
    }

    /// Reads `count` bytes from `offset` on. Does not check them against the hash of the file;
    /// [`Recording::check`] does that.
    ///
    /// # Errors
    /// `NoContent`; `BadContent` if the file is shorter; `Damaged`; `Io`.
    pub fn read(&mut self, id: ContentId, offset: u64, count: u64) -> Result<Vec<u8>> {
        if self.shared.directory.is_some() {
            self.read_own(id, offset, count)
        } else {
            self.read_packed(id, offset, count)
        }
    }

    fn read_own(&mut self, id: ContentId, offset: u64, count: u64) -> Result<Vec<u8>> {
        let (_, file) = match self.file.take() {
            Some(open) if open.0 == id => self.file.insert(open),
            _ => self.file.insert((id, open_own(&self.shared, id)?)),
        };
        let failed = |error| Error::io("read a file of", self.shared.source.path(), error);
        let bytes = file.metadata().map_err(failed)?.len();
        check_range(&self.shared, id, (offset, count), bytes)?;
        let mut piece = vec![0; count as usize];
        file.read_exact_at(&mut piece, offset).map_err(failed)?;
        Ok(piece)
    }

    fn read_packed(&mut self, id: ContentId, mut offset: u64, count: u64) -> Result<Vec<u8>> {
        let content = packed(&self.shared, id)?;
        let frames = &content.pieces.frames;
        check_range(&self.shared, id, (offset, count), content.pieces.bytes)?;
        let mut piece = Vec::new();
        while (piece.len() as u64) < count {
            let number =
                frames.partition_point(|(_, header)| header.offset <= offset).wrapping_sub(1);
            let Some((place, header)) = frames.get(number) else { break };
            if self.frame != Some((id, number)) {
                self.frame = None;
                self.shared.source.read_frame(*place, header, &mut self.stored, &mut self.bytes)?;
                self.frame = Some((id, number));
            }
            let from = offset.saturating_sub(header.offset) as usize;
            let rest = self.bytes.get(from..).unwrap_or_default();
            let wanted = (count - piece.len() as u64).min(rest.len() as u64) as usize;
            if wanted == 0 {
                break;
            }
            piece.extend_from_slice(&rest[..wanted]);
            offset += wanted as u64;
        }
        check_range(&self.shared, id, (0, count), piece.len() as u64)?;
        Ok(piece)
    }
}

/// Checks that a file has the bytes to be read, before a buffer for them is allocated.
fn check_range(
    shared: &Shared,
    id: ContentId,
    (offset, count): (u64, u64),
    bytes: u64,
) -> Result<()> {
    let end = offset.checked_add(count).filter(|end| *end <= bytes);
    if end.is_some() && usize::try_from(count).is_ok() {
        return Ok(());
    }
    let path = shared.directory.as_deref().unwrap_or_else(|| shared.source.path()).to_path_buf();
    let reason =
        format!("an event refers to {count} bytes from byte {offset} on, and it has {bytes}");
    Err(Error::BadContent { path, id, reason })
}
