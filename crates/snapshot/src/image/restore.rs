//! Turns a process that has executed nothing of its program yet into the process of an image.
//!
//! All mappings of the program are unmapped. The mappings of the image are made by system calls
//! that the only thread makes for us, and filled. Then the threads are made as in copies of a
//! process. The image also contains the runtime's own memory, except for the windows of the
//! streams: those are read from the recording again, to the same addresses.

use super::Result;
use super::description::{ADDRESS_END, Description, SavedMapping, ScratchFile, Shown};
use super::pieces::{kind, read_json};
use crate::pagemap::PAGE_BYTES;
use crate::process::Process;
use crate::remote::{self, checked};
use crate::threads::SCRATCH;
use retake_contract::header::{ATTACH_RESTORED, GRANT_SCRATCH, GRANT_STORED};
use retake_kernel::context;
use retake_kernel::shared::{
    HEADER_ADDRESS, Header, OPTION_ALONE, REGION_STRIDE, REGIONS, RUNTIME_DATA, RUNTIME_END,
    RUNTIME_TEXT, WINDOWS,
};
use retake_model::table::number;
use retake_recording::{CheckpointReader, ContentId, PieceName, Recording, StreamId};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

const MAP_PRIVATE_FIXED: u64 = (libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
const MAP_SHARED_FIXED: u64 = (libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const MAP_GROWSDOWN: u64 = libc::MAP_GROWSDOWN as u64;
const NO_DESCRIPTOR: u64 = u64::MAX;
const SYS_MSEAL: i64 = number::MSEAL as i64;
const MADV_GUARD_INSTALL: u64 = 102;
/// The size that no window exceeds.
const MOST_WINDOW_BYTES: u64 = 1 << 32;
const PIECE_BYTES: usize = 1 << 20;

/// The things that a restored process needs from the session.
pub struct Surroundings<'a> {
    /// The memory that all processes of the session share.
    pub header: &'a Header,
    /// The folder for copies of shared files.
    pub scratch: PathBuf,
    /// The recording being replayed.
    pub recording: &'a Recording,
    /// Takes a piece that does not belong to the image. Returns false if it belongs nowhere.
    pub other: &'a mut dyn FnMut(PieceName, &[u8]) -> io::Result<bool>,
}

/// A system call by which the supervisor opens a file for its processes, with its arguments.
type Granted = (u64, [u64; 4]);

fn granted_content(content: ContentId) -> Granted {
    let word =
        |at: usize| u64::from_le_bytes(std::array::from_fn(|index| content.0[8 * at + index]));
    (GRANT_STORED, std::array::from_fn(word))
}

/// A process that is being restored.
struct Maker<'a> {
    process: &'a mut Process,
    around: Surroundings<'a>,
    description: Description,
    /// The last file opened, and its descriptor. Mappings of one file often follow each other.
    opened: Option<(Granted, u64)>,
}

/// Turns a process into the one that the rest of a checkpoint describes. The process is stopped and
/// has one thread, which has executed nothing. Returns the signal that was announced at the
/// checkpoint. After an error the process is unusable.
///
/// # Errors
/// The checkpoint is damaged, the machine refuses something, or there is no room for the threads.
pub fn restore<'a>(
    reader: &mut CheckpointReader,
    process: &'a mut Process,
    around: Surroundings<'a>,
) -> Result<Option<i32>> {
    let mut description: Description = read_json(reader, kind::DESCRIPTION)?;
    if let Some(fault) = description.fault() {
        return Err(reader.bad(fault).into());
    }
    let announced = description.announced;
    let Some(former_slots) = description.threads.claim_slots(around.header, process.pid) else {
        return Err(reader.bad("there is no room for its threads").into());
    };
    let Some(filters) = description.filters.put_into(around.header, &description.threads.filters())
    else {
        return Err(reader.bad("there is no room for its filters of system calls").into());
    };
    description.threads = description.threads.with_filters(&filters);
    let mut maker = Maker { process, around, description, opened: None };
    maker.clear()?;
    maker.fill(reader)?;
    if !maker.description.threads.move_to_slots(maker.process, &former_slots)? {
        return Err(reader.bad("its threads do not know their places").into());
    }
    maker.convert().map_err(|why| reader.bad(&why.to_string()))?;
    maker.make_windows().map_err(|why| reader.bad(&why.to_string()))?;
    maker.make_threads()?;
    Ok(announced)
}

impl Maker<'_> {
    /// Unmaps everything that is not the same in every process of the session.
    fn clear(&mut self) -> io::Result<()> {
        for (start, end) in [
            (PAGE_BYTES, RUNTIME_TEXT),
            (RUNTIME_END, ADDRESS_END),
            (RUNTIME_DATA, HEADER_ADDRESS),
            (REGIONS, RUNTIME_END),
        ] {
            self.call(libc::SYS_munmap, [start, end - start])?;
        }
        Ok(())
    }

    fn call<const COUNT: usize>(&self, number: i64, arguments: [u64; COUNT]) -> io::Result<u64> {
        let (result, _) = remote::call(self.process.pid, number, arguments)?;
        checked(result)?;
        Ok(result as u64)
    }

    /// Reads all pieces. Files come first, then memory, for which the mappings must exist.
    fn fill(&mut self, reader: &mut CheckpointReader) -> Result<()> {
        let files = self.make_scratch_files()?;
        let mut is_mapped = false;
        while let Some((name, bytes)) = reader.next_piece()? {
            if name.kind != kind::SCRATCH && !is_mapped {
                self.publish(&files)?;
                self.map_all()?;
                is_mapped = true;
            }
            let is_taken = match name.kind {
                kind::SCRATCH => match files.get(name.which as usize) {
                    Some((file, saved))
                        if name.value.saturating_add(bytes.len() as u64) <= saved.bytes =>
                    {
                        file.write_all_at(bytes, name.value)?;
                        true
                    }
                    _ => false,
                },
                kind::MEMORY => self.put_memory(name.value, bytes)?,
                kind::GUARD => self.put_guard(name.value, bytes)?,
                _ => (self.around.other)(name, bytes)?,
            };
            if !is_taken {
                return Err(reader.bad("it has a piece without a place").into());
            }
        }
        if !is_mapped {
            self.publish(&files)?;
            self.map_all()?;
        }
        self.seal()?;
        Ok(())
    }

    // ---- files of the session ----

    /// Makes each file under another name first, so that processes that have mapped an old file
    /// keep seeing that.
    fn make_scratch_files(&self) -> io::Result<Vec<(File, ScratchFile)>> {
        if self.description.scratch_is_elsewhere {
            return Ok(Vec::new());
        }
        let make = |saved: &ScratchFile| {
            std::fs::create_dir_all(&self.around.scratch)?;
            let path = self.around.scratch.join(new_name(saved));
            let file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)?;
            file.set_len(saved.bytes)?;
            Ok((file, saved.clone()))
        };
        self.description.scratch.iter().map(make).collect()
    }

    fn publish(&self, files: &[(File, ScratchFile)]) -> io::Result<()> {
        for (_, saved) in files {
            std::fs::rename(
                self.around.scratch.join(new_name(saved)),
                self.around.scratch.join(&saved.name),
            )?;
            if let Some(identity) = saved.identity() {
                self.around.header.note_shared_file(identity.0, identity.1);
            }
        }
        Ok(())
    }

    // ---- mappings ----

    /// Makes all mappings. The runtime's own come first: they have room for what call arguments
    /// point to.
    fn map_all(&mut self) -> Result<()> {
        let mappings = std::mem::take(&mut self.description.mappings);
        let (of_runtime, of_program): (Vec<_>, Vec<_>) =
            mappings.iter().partition(|one| (RUNTIME_TEXT..RUNTIME_END).contains(&one.start));
        let mapped = of_runtime.into_iter().chain(of_program).try_for_each(|one| self.map(one));
        self.description.mappings = mappings;
        mapped?;
        if let Some((_, descriptor)) = self.opened.take() {
            self.call(libc::SYS_close, [descriptor])?;
        }
        self.limit_stack()?;
        Ok(())
    }

    fn map(&mut self, one: &SavedMapping) -> io::Result<()> {
        let (flags, descriptor, offset) = match &one.shows {
            Shown::Nothing { grows_down } => {
                let grows = if *grows_down { MAP_GROWSDOWN } else { 0 };
                (MAP_PRIVATE_FIXED | MAP_ANONYMOUS | grows, NO_DESCRIPTOR, 0)
            }
            Shown::Content { content, offset, is_shared } => {
                let flags = if *is_shared { MAP_SHARED_FIXED } else { MAP_PRIVATE_FIXED };
                let content = content.parse().map_err(|_| {
                    io::Error::other("the name of one of its files is not that of a content")
                })?;
                (flags, self.open(granted_content(content))?, *offset)
            }
            Shown::Scratch { file, offset, is_shared } => {
                let (device, inode) = self.description.scratch[*file]
                    .identity()
                    .ok_or_else(|| io::Error::other("one of its files has no number"))?;
                let file = (GRANT_SCRATCH, [device, inode, 0, 0]);
                let is_alone = self.around.header.options.load(Relaxed) & OPTION_ALONE != 0;
                let flags =
                    if *is_shared && !is_alone { MAP_SHARED_FIXED } else { MAP_PRIVATE_FIXED };
                (flags, self.open(file)?, *offset)
            }
        };
        let arguments =
            [one.start, one.end - one.start, u64::from(one.protection), flags, descriptor, offset];
        let at = self.call(libc::SYS_mmap, arguments)?;
        if at == one.start {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "memory was mapped at {at:#x} in place of {:#x}",
                one.start
            )))
        }
    }

    /// Returns the process's descriptor of a file.
    fn open(&mut self, file: Granted) -> io::Result<u64> {
        if let Some((_, descriptor)) = self.opened.as_ref().filter(|(known, _)| *known == file) {
            return Ok(*descriptor);
        }
        if let Some((_, descriptor)) = self.opened.take() {
            self.call(libc::SYS_close, [descriptor])?;
        }
        let descriptor = self.call(file.0 as i64, file.1)?;
        self.opened = Some((file, descriptor));
        Ok(descriptor)
    }

    /// An address where arguments of calls have room: the end of a stack that is hardly ever used
    /// up.
    fn room(&self) -> io::Result<u64> {
        let context = self.description.threads.contexts().next();
        context
            .and_then(|context| context.checked_add(SCRATCH))
            .ok_or_else(|| io::Error::other("its thread has no stack"))
    }

    fn limit_stack(&self) -> io::Result<()> {
        let hard = retake_kernel::resource::limit(self.process.pid, libc::RLIMIT_STACK)
            .map_or(u64::MAX, |limit| limit.1);
        let limits = [self.description.stack_limit.min(hard), hard].map(u64::to_le_bytes).concat();
        let room = self.room()?;
        self.process.memory.write(room, &limits)?;
        self.call(libc::SYS_prlimit64, [0, u64::from(libc::RLIMIT_STACK), room, 0]).map(drop)
    }

    fn seal(&self) -> io::Result<()> {
        let sealed = self.description.mappings.iter().filter(|one| one.is_sealed);
        sealed
            .map(|one| self.call(SYS_MSEAL, [one.start, one.end - one.start, 0]))
            .try_for_each(|result| result.map(drop))
    }

    // ---- contents ----

    fn put_memory(&self, start: u64, bytes: &[u8]) -> io::Result<bool> {
        let range = start..start.saturating_add(bytes.len() as u64);
        if self.description.private_around(&range).is_none() {
            return Ok(false);
        }
        self.process.memory.write(start, bytes).map(|()| true)
    }

    fn put_guard(&self, start: u64, end: &[u8]) -> io::Result<bool> {
        let Ok(end) = end.try_into().map(u64::from_le_bytes) else { return Ok(false) };
        if start >= end || self.description.private_around(&(start..end)).is_none() {
            return Ok(false);
        }
        self.call(libc::SYS_madvise, [start, end - start, MADV_GUARD_INSTALL]).map(|_| true)
    }

    // ---- the session's part ----

    /// Lets the runtime turn its memory from that of a recorded process into what a replay needs.
    fn convert(&self) -> io::Result<()> {
        if !self.description.is_as_recorded {
            return Ok(());
        }
        let pid = self.process.pid;
        let context = self.description.threads.contexts().next().unwrap_or_default();
        let region = context.saturating_sub(REGIONS) / REGION_STRIDE;
        let stack = self.process.memory.word(context + context::STACK_TOP);
        let stack = stack.ok_or_else(|| io::Error::other("its thread has no stack"))?;
        remote::step(pid, stack, [ATTACH_RESTORED, 0, region])
    }

    /// Makes the windows from which the threads go on reading.
    fn make_windows(&mut self) -> io::Result<()> {
        let threads: Vec<(u32, u64)> = self.description.threads.streams().collect();
        for (stream, context) in threads {
            self.make_window(stream, context)?;
            self.process.memory.write(context + context::WINDOW_MAPPED, &[0; 4])?;
            self.process.memory.write(context + context::PAUSE_AT, &[0; 8])?;
        }
        Ok(())
    }

    /// Makes the rest of the window that a thread reads. The runtime makes room for a whole window
    /// when it needs the next one.
    fn make_window(&self, stream: u32, context: u64) -> io::Result<()> {
        let word = |offset: u64| {
            self.process
                .memory
                .word(context.saturating_add(offset))
                .ok_or_else(|| io::Error::other("it has no context for a thread"))
        };
        let (start, end, offset) =
            (word(context::LOG)?, word(context::LOG_END)?, word(context::LOG_OFFSET)?);
        if start == end {
            return Ok(());
        }
        let is_placed = WINDOWS <= start
            && start < end
            && end <= RUNTIME_END
            && end - start <= MOST_WINDOW_BYTES;
        if !is_placed {
            return Err(io::Error::other(
                "one of its threads reads the recording at an impossible address",
            ));
        }
        let (first, last) = (start & !(PAGE_BYTES - 1), end.next_multiple_of(PAGE_BYTES));
        let arguments = [
            first,
            last - first,
            (libc::PROT_READ | libc::PROT_WRITE) as u64,
            MAP_PRIVATE_FIXED | MAP_ANONYMOUS,
            NO_DESCRIPTOR,
            0,
        ];
        self.call(libc::SYS_mmap, arguments)?;
        let mut reader = self.around.recording.stream(StreamId(stream)).map_err(io::Error::from)?;
        reader.seek_to_offset(offset).map_err(io::Error::from)?;
        let mut piece = vec![0; PIECE_BYTES.min((end - start) as usize)];
        for address in (start..end).step_by(PIECE_BYTES) {
            let count = PIECE_BYTES.min((end - address) as usize);
            reader.read_exact(&mut piece[..count])?;
            self.process.memory.write(address, &piece[..count])?;
        }
        Ok(())
    }

    fn make_threads(&mut self) -> io::Result<()> {
        let (pid, header) = (self.process.pid, self.around.header);
        let threads = &self.description.threads;
        threads.give_first_signal_stack(self.process)?;
        let tids = threads.make_in(self.process)?;
        threads.put_into_header(header, pid, pid, &tids);
        threads.wait_at_gates(header);
        Ok(())
    }
}

fn new_name(saved: &ScratchFile) -> String {
    format!(".new-{}", saved.name)
}
