//! The files that processes map. Each is stored once, its patched image is made once, and both are
//! listed in the header for the runtime.

use crate::image_note::{ImageNote, ImagePlaces, Piece};
use crate::session::Session;
use retake_contract::files::lasting_device;
use retake_kernel::segment::Segment;
use retake_kernel::shared::{self, FileEntry, Header, ImagePart, load_content, store_bytes};
use retake_patch::{Options, Placement, image_version};
use retake_recording::{ContentId, FileIdentity, Store};
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Mutex, PoisonError};

/// The size up to which files are searched for system calls. No program text is larger, and the
/// search needs it in memory.
const LARGEST_PATCHED_BYTES: u64 = 1 << 30;
const SMALLEST_ELF_BYTES: u64 = 64;

/// The identity of a file during a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: u64,
    changed_ns: u64,
    before: bool,
}

impl Identity {
    fn new(metadata: &Metadata, placement: Placement) -> Self {
        Self {
            device: lasting_device(metadata),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: (metadata.mtime() as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(metadata.mtime_nsec() as u64),
            changed_ns: (metadata.ctime() as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(metadata.ctime_nsec() as u64),
            before: placement == Placement::Before,
        }
    }
}

/// A mapped file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreseen {
    /// The path where it was found.
    pub path: PathBuf,
    /// Where its stubs go.
    pub placement: Placement,
}

/// A file of the header, with its path.
struct Found {
    file: Foreseen,
    /// Whether the file will likely exist in the next recording.
    lasts: bool,
}

/// There is no memory for patched text.
#[derive(Debug, thiserror::Error)]
#[error("there is no room for patched text (kernel.shmmni, kernel.shmall): {0}")]
struct NoSegment(io::Error);

/// A function that gets content that is new to the table.
type OnContent = dyn Fn(&Store, ContentId) -> io::Result<()> + Send + Sync;

/// The table of files. `on_content` gets each new content once, and links it into the recording.
pub struct FileTable {
    store: Store,
    known: Mutex<HashMap<Identity, usize>>,
    segments: Mutex<Vec<Segment>>,
    /// Whether the user has been told that no more segments can be made.
    was_short: AtomicBool,
    /// The path of each file of the header, if known.
    places: Mutex<Vec<Option<Found>>>,
    on_content: Box<OnContent>,
}

impl std::fmt::Debug for FileTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTable").field("store", &self.store).finish_non_exhaustive()
    }
}

impl FileTable {
    /// An empty table over a store.
    pub fn new(
        store: Store,
        on_content: impl Fn(&Store, ContentId) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            known: Mutex::default(),
            segments: Mutex::default(),
            was_short: AtomicBool::new(false),
            places: Mutex::default(),
            on_content: Box::new(on_content),
        }
    }

    /// The store of file contents.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the header's index of a file that is already stored, and marks it as used.
    pub fn known(
        &self,
        header: &Header,
        metadata: &Metadata,
        placement: Placement,
    ) -> Option<usize> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let index = *known.get(&Identity::new(metadata, placement))?;
        header.files[index].used.store(1, Relaxed);
        Some(index)
    }

    /// Returns the header's index of a file, and marks it as used. Stores and patches the file if
    /// it is new. `placement` says where its stubs go.
    ///
    /// # Errors
    /// The file cannot be read or stored, or the table is full.
    pub fn index_of(
        &self,
        session: &Session,
        file: &File,
        placement: Placement,
    ) -> io::Result<usize> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let index = self.index_by(session, file, Identity::new(&metadata, placement), placement)?;
        session.header().files[index].used.store(1, Relaxed);
        Ok(index)
    }

    /// Enters a file that will probably be mapped, so that no thread has to wait for that later.
    /// Does nothing for a file that is not stored yet, because it would have to be read.
    ///
    /// # Errors
    /// The file does not exist any more, or the table is full.
    pub fn foresee(
        &self,
        session: &Session,
        Foreseen { path, placement }: &Foreseen,
    ) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && self.store.lookup(&FileIdentity::of_metadata(&metadata)).is_some()
        {
            self.index_by(session, &file, Identity::new(&metadata, *placement), *placement)?;
        }
        Ok(())
    }

    /// The number of used files.
    pub fn used_count(&self, header: &Header) -> usize {
        entries(header).iter().filter(|entry| is_used(entry)).count()
    }

    /// Describes code that the runtime names: by the index of its file in the header, plus 1.
    /// Returns `None` if it names none.
    pub fn code(&self, name: u32) -> Option<String> {
        let index = name.checked_sub(1)? as usize;
        if name == u32::MAX {
            return Some("code made at run time".to_owned());
        }
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let found = places.get(index).and_then(Option::as_ref);
        Some(found.map_or("a file".to_owned(), |found| found.file.path.display().to_string()))
    }

    /// The used files that a later session can enter by [`FileTable::foresee`].
    pub fn used(&self, header: &Header) -> Vec<Foreseen> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places
            .iter()
            .zip(entries(header))
            .filter(|(_, entry)| is_used(entry))
            .filter_map(|(place, _)| place.as_ref().filter(|found| found.lasts))
            .map(|found| found.file.clone())
            .collect()
    }

    /// Files that the program has changed through mappings: their numbers in the header, device
    /// and inode, and where they were.
    pub fn changed(&self, header: &Header) -> Vec<((u64, u64), PathBuf)> {
        let is_changed = |identity: (u64, u64)| {
            header.shared_files().unwrap_or_default().iter().any(|shared| {
                shared.changes.load(Relaxed) != 0
                    && (shared.device.load(Relaxed), shared.inode.load(Relaxed)) == identity
            })
        };
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let followed = places
            .iter()
            .zip(entries(header))
            .filter(|(_, entry)| entry.followed.load(Relaxed) != 0);
        followed
            .filter_map(|(place, entry)| {
                let identity = (entry.device.load(Relaxed), entry.inode.load(Relaxed));
                Some((identity, place.as_ref()?.file.path.clone()))
            })
            .filter(|(identity, _)| is_changed(*identity))
            .collect()
    }

    /// Contents that were foreseen but not used.
    pub fn unused_contents(&self, header: &Header) -> HashSet<ContentId> {
        let (mut used, mut unused) = (HashSet::new(), HashSet::new());
        for entry in entries(header) {
            if is_used(entry) { &mut used } else { &mut unused }.extend(contents(entry));
        }
        &unused - &used
    }

    fn index_by(
        &self,
        session: &Session,
        file: &File,
        identity: Identity,
        placement: Placement,
    ) -> io::Result<usize> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&index) = known.get(&identity) {
            return Ok(index);
        }
        let index = self.add(session, file, &identity, placement)?;
        known.insert(identity, index);
        Ok(index)
    }

    fn add(
        &self,
        session: &Session,
        file: &File,
        identity: &Identity,
        placement: Placement,
    ) -> io::Result<usize> {
        let header = session.header();
        let index = header.file_count.load(Relaxed) as usize;
        let entry = header
            .files
            .get(index)
            .ok_or_else(|| io::Error::other("more files are mapped than a recording can list"))?;
        let content = self.store.add_file(file)?;
        (self.on_content)(&self.store, content)?;
        entry.device.store(identity.device, Relaxed);
        entry.inode.store(identity.inode, Relaxed);
        entry.size.store(identity.size, Relaxed);
        entry.modified_ns.store(identity.modified_ns, Relaxed);
        entry.changed_ns.store(identity.changed_ns, Relaxed);
        store_bytes(&entry.content, &content.0);
        let note = self.note(session, file, identity.size, content, placement)?;
        entry.calls.store(note.as_ref().map_or(shared::CALLS_UNKNOWN, |note| note.calls), Relaxed);
        entry.tells_all.store(u32::from(note.as_ref().is_some_and(|note| note.tells_all)), Relaxed);
        if let Some(places) = note.and_then(|note| note.image)
            && let Err(error) = self.publish_image(entry, &places)
        {
            if !error.get_ref().is_some_and(|inner| inner.is::<NoSegment>()) {
                return Err(error);
            }
            // The calls of this file will be caught by dispatch.
            entry.calls.store(shared::CALLS_UNKNOWN, Relaxed);
            entry.tells_all.store(0, Relaxed);
            if !self.was_short.swap(true, Relaxed) {
                retake_kernel::tell!("retake: {error}: further programs and libraries run slower");
            }
        }
        // A file that was just written may not exist the next time.
        let lasts = FileIdentity::of(file)?.is_settled();
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        self.places
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.map(|path| Found { file: Foreseen { path, placement }, lasts }));
        header.enter_file(index);
        Ok(index)
    }

    /// The note on a file, from the store's cache or by examining it. `None` if the file is no
    /// program, or if this session patches nothing.
    fn note(
        &self,
        session: &Session,
        file: &File,
        size: u64,
        content: ContentId,
        placement: Placement,
    ) -> io::Result<Option<ImageNote>> {
        let mut magic = [0; 4];
        if !(SMALLEST_ELF_BYTES..=LARGEST_PATCHED_BYTES).contains(&size)
            || file.read_at(&mut magic, 0)? < 4
            || magic != *b"\x7fELF"
        {
            return Ok(None);
        }
        let Some((options, variant)) =
            patching(session.header().mode.load(Relaxed), session.header().options.load(Relaxed))
        else {
            return Ok(None);
        };
        let key = format!(
            "{content}-{}{variant}-{}",
            if placement == Placement::Before { "before" } else { "after" },
            image_version()
        );
        if let Some(cached) = self.store.named_cache("images", &key)?
            && let Some(note) = ImageNote::from_bytes(&self.store, &read_all(&cached)?)
        {
            return Ok(Some(note));
        }
        let bytes = read_all(&self.store.open_content(content)?)?;
        let note = ImageNote::examine(&self.store, &bytes, placement, &options)?;
        self.store.put_named_cache("images", &key, &serde_json::to_vec(&note)?)?;
        Ok(Some(note))
    }

    fn publish_image(&self, entry: &FileEntry, places: &ImagePlaces) -> io::Result<()> {
        entry.low.store(places.low, Relaxed);
        entry.high.store(places.high, Relaxed);
        let pieces = || std::iter::once(&places.stubs).chain(&places.parts);
        let segments = pieces().map(|piece| self.load(piece)).collect::<io::Result<Vec<_>>>()?;
        let parts = std::iter::once(&entry.stubs).chain(&entry.parts);
        for ((part, piece), segment) in parts.zip(pieces()).zip(&segments) {
            describe_piece(part, piece, segment.id());
        }
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).extend(segments);
        for (range, (start, end)) in entry.unreached.iter().zip(&places.unreached) {
            range.start.store(*start, Relaxed);
            range.end.store(*end, Relaxed);
        }
        entry.part_count.store(places.parts.len() as u32, Release);
        Ok(())
    }

    fn load(&self, piece: &Piece) -> io::Result<Segment> {
        (self.on_content)(&self.store, piece.content())?;
        let mut segment = Segment::create(piece.bytes as usize)
            .map_err(|error| io::Error::other(NoSegment(error)))?;
        segment.populate();
        self.store.open_content(piece.content())?.read_exact_at(segment.bytes_mut(), 0)?;
        Ok(segment)
    }

    /// Lets a process of another user attach the images.
    pub fn give_to(&self, user: u32) {
        for segment in self.segments.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            segment.give_to(user);
        }
    }
}

fn describe_piece(part: &ImagePart, piece: &Piece, segment_id: i32) {
    part.text_offset.store(piece.text_offset, Relaxed);
    part.text_bytes.store(piece.text_bytes, Relaxed);
    part.offset.store(piece.offset, Relaxed);
    part.address.store(piece.address, Relaxed);
    part.bytes.store(piece.bytes, Relaxed);
    part.segment_id.store(segment_id, Relaxed);
    store_bytes(&part.content, &piece.content().0);
}

/// The listed files. The rest of the table is left alone, as it has many pages that are not in use.
fn entries(header: &Header) -> &[FileEntry] {
    &header.files[..header.file_count.load(Relaxed) as usize]
}

fn is_used(entry: &FileEntry) -> bool {
    entry.used.load(Relaxed) != 0
}

/// A file's own content, and the contents of its image.
fn contents(entry: &FileEntry) -> impl Iterator<Item = ContentId> {
    let parts = &entry.parts[..entry.part_count.load(Relaxed) as usize];
    let image =
        parts.iter().chain((!parts.is_empty()).then_some(&entry.stubs)).map(|part| &part.content);
    std::iter::once(&entry.content).chain(image).map(|content| ContentId(load_content(content)))
}

/// What this session patches, and the suffix of that choice in cache keys. Without the fast path,
/// that is only what nothing else catches.
fn patching(mode: u32, session_options: u32) -> Option<(Options, &'static str)> {
    let fast = session_options & shared::OPTION_NO_FAST_PATH == 0;
    if mode == shared::MODE_TRACE {
        return fast.then(|| {
            (
                Options {
                    time_stamp_counter: false,
                    cpuid: false,
                    trap_others: false,
                    ..Options::default()
                },
                "-calls",
            )
        });
    }
    let trap_cpuid = session_options & shared::OPTION_NO_CPUID_FAULT != 0;
    let sections = session_options & shared::OPTION_SYNC != 0;
    let all = Options { trap_cpuid, sections, ..Options::default() };
    match (fast, trap_cpuid, sections) {
        (true, false, false) => Some((all, "")),
        (true, true, false) => Some((all, "-cpuid")),
        (true, false, true) => Some((all, "-sync")),
        (true, true, true) => Some((all, "-cpuid-sync")),
        (false, false, _) => Some((Options::never_trapping(), "-only-traps")),
        (false, true, _) => Some((Options::untrappable(), "-only-cpuid")),
    }
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
