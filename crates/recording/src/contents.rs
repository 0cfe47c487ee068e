//! The files in a recording: in its `files` folder, or inside a packed recording.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ContentId;
use crate::catalogue::CataloguedContent;
use crate::error::{Error, Result};
use crate::opened::Shared;
use crate::source::open_regular;
use crate::store::temporary::{TemporaryFile, make_private_directories};
use crate::writer::FILES_NAME;

const BLOCK_BYTES: usize = 64 << 10;

/// Lists all files with their sizes, in the order of their names.
pub(crate) fn list(shared: &Shared) -> Result<Vec<(ContentId, u64)>> {
    let Some(directory) = &shared.directory else {
        return Ok(shared
            .catalogue
            .contents
            .iter()
            .map(|(id, content)| (*id, content.bytes))
            .collect());
    };
    let mut contents = Vec::new();
    let Some(files) = files_folder(directory) else {
        return Ok(contents);
    };
    for entry in fs::read_dir(&files).map_err(|error| Error::io("list", &files, error))? {
        let entry = entry.map_err(|error| Error::io("list", &files, error))?;
        // A file with any other name is left over from an interrupted copy.
        if let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            let metadata =
                entry.metadata().map_err(|error| Error::io("inspect", &entry.path(), error))?;
            if metadata.is_file() {
                contents.push((id, metadata.len()));
            }
        }
    }
    contents.sort_unstable();
    Ok(contents)
}

/// Whether the recording holds a file with this content.
pub(crate) fn has(shared: &Shared, id: ContentId) -> bool {
    match &shared.directory {
        Some(directory) => files_folder(directory).is_some_and(|files| {
            let metadata = fs::symlink_metadata(files.join(id.to_string()));
            metadata.is_ok_and(|metadata| metadata.is_file())
        }),
        None => shared.catalogue.contents.contains_key(&id),
    }
}

/// Returns a path to the file with this content. Extracts it into `cache` if there is none yet.
pub(crate) fn path(shared: &Shared, id: ContentId, cache: &Path) -> Result<PathBuf> {
    if let Some(directory) = &shared.directory {
        if !has(shared, id) {
            return Err(no_content(shared, id));
        }
        return Ok(own_path(directory, id));
    }
    let content = packed(shared, id)?;
    make_private_directories(cache)?;
    let target = cache.join(id.to_string());
    let there = fs::symlink_metadata(&target);
    if there.is_ok_and(|metadata| metadata.is_file() && metadata.len() == content.bytes) {
        return Ok(target);
    }
    extract(shared, id, cache)?.replace(&target)?;
    Ok(target)
}

/// Extracts the file into a new one in `folder`, and checks its hash.
pub(crate) fn extract(shared: &Shared, id: ContentId, folder: &Path) -> Result<TemporaryFile> {
    let mut temporary = TemporaryFile::create_in(folder)?;
    let path = temporary.path().to_path_buf();
    let file = temporary.file();
    for_each_block(shared, id, &mut |block| {
        file.write_all(block).map_err(|error| Error::io("write to", &path, error))
    })?;
    // After a power loss the file must not exist without its bytes: later, only its existence is
    // checked.
    temporary.sync()?;
    Ok(temporary)
}

/// A callback for each block of a file.
pub(crate) type BlockAction<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// Passes the blocks of a file to `action` and checks the hash at the end. Returns the file's size.
pub(crate) fn for_each_block(
    shared: &Shared,
    id: ContentId,
    action: BlockAction<'_>,
) -> Result<u64> {
    match &shared.directory {
        Some(directory) => own_blocks(shared, &own_path(directory, id), id, action),
        None => packed_blocks(shared, id, packed(shared, id)?, action),
    }
}

fn own_blocks(shared: &Shared, path: &Path, id: ContentId, action: BlockAction<'_>) -> Result<u64> {
    if !has(shared, id) {
        return Err(no_content(shared, id));
    }
    blocks_of(&open_regular(path)?, path, id, action)
}

/// As [`for_each_block`], for an open file at this path.
pub(crate) fn blocks_of(
    file: &File,
    path: &Path,
    id: ContentId,
    action: BlockAction<'_>,
) -> Result<u64> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut total = 0;
    loop {
        let read = file.read_at(&mut buffer, total);
        let count = read.map_err(|error| Error::io("read", path, error))?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        action(&buffer[..count])?;
        total += count as u64;
    }
    check_hash(path, id, &hasher)?;
    Ok(total)
}

fn packed_blocks(
    shared: &Shared,
    id: ContentId,
    content: &CataloguedContent,
    action: BlockAction<'_>,
) -> Result<u64> {
    let path = shared.source.path();
    if content.pieces.bytes != content.bytes {
        let reason =
            format!("only {} of its {} bytes are there", content.pieces.bytes, content.bytes);
        return Err(Error::BadContent { path: path.to_path_buf(), id, reason });
    }
    let mut hasher = blake3::Hasher::new();
    let (mut stored, mut bytes) = (Vec::new(), Vec::new());
    for (offset, header) in &content.pieces.frames {
        shared.source.read_frame(*offset, header, &mut stored, &mut bytes)?;
        hasher.update(&bytes);
        action(&bytes)?;
    }
    check_hash(path, id, &hasher)?;
    Ok(content.bytes)
}

fn check_hash(path: &Path, id: ContentId, hasher: &blake3::Hasher) -> Result<()> {
    let found = ContentId(*hasher.finalize().as_bytes());
    if found == id {
        return Ok(());
    }
    Err(Error::BadContent {
        path: path.to_path_buf(),
        id,
        reason: format!("its content is {found}"),
    })
}

/// Returns the folder of a recording's files, unless it is a symbolic link, which could lead
/// anywhere.
pub(crate) fn files_folder(directory: &Path) -> Option<PathBuf> {
    folder_in(directory, FILES_NAME)
}

/// Returns a subfolder of this name, if there is one and it is not a symbolic link.
pub(crate) fn folder_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let folder = directory.join(name);
    let metadata = fs::symlink_metadata(&folder);
    metadata.is_ok_and(|metadata| metadata.is_dir()).then_some(folder)
}

fn own_path(directory: &Path, id: ContentId) -> PathBuf {
    directory.join(FILES_NAME).join(id.to_string())
}

/// Opens the recording's own file with this content.
pub(crate) fn open_own(shared: &Shared, id: ContentId) -> Result<File> {
    match &shared.directory {
        Some(directory) if has(shared, id) => open_regular(&own_path(directory, id)),
        _ => Err(no_content(shared, id)),
    }
}

pub(crate) fn packed(shared: &Shared, id: ContentId) -> Result<&CataloguedContent> {
    shared.catalogue.contents.get(&id).ok_or_else(|| no_content(shared, id))
}

fn no_content(shared: &Shared, id: ContentId) -> Error {
    let path = shared.directory.as_deref().unwrap_or_else(|| shared.source.path());
    Error::NoContent { path: path.to_path_buf(), id }
}
