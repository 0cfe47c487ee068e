//! Data that replay supplies and the recording lacks: inputs of calls, and what programs have read
//! and stored through mapped files. They are on disk until the streams are put in order.

use crate::events::EventBuffer;
use crate::look::{Looker, pages_of};
use crate::many_files::ManyFiles;
use crate::{Error, Result};
use retake_model::StreamId;
use retake_record::Moment;
use retake_replay::{Onlooker, Stage, Standing};
use retake_trace_format::MappedPages;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the data during replay.
#[derive(Debug)]
pub(super) struct Aside {
    folder: PathBuf,
    /// Present if the contents of mapped files are wanted.
    looker: Option<Looker>,
    files: Mutex<Files>,
}

/// The files being written: one of each kind per stream.
#[derive(Debug, Default)]
struct Files {
    open: ManyFiles<(u32, Kind)>,
    /// The first error of all.
    failure: Option<io::Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Inputs, one after another.
    Inputs,
    /// Pages of mapped files: the number of the thread's events before them, then a STATE event
    /// with the pages.
    Pages,
}

impl Aside {
    /// Makes the folder and an empty collection in it.
    pub fn create(folder: &Path, looks: bool) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            looker: looks.then(Looker::default),
            files: Mutex::default(),
        })
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// Some data could not be written.
    pub fn finish(&self) -> io::Result<()> {
        let mut files = self.files();
        files.open.close()?;
        files.failure.take().map_or(Ok(()), Err)
    }

    /// Returns a reader of a stream's data.
    pub fn reader(&self, stream: StreamId) -> AsideReader {
        let open = |kind| File::open(self.path(stream.0, kind)).ok().map(BufReader::new);
        AsideReader {
            stream: stream.0,
            inputs: open(Kind::Inputs),
            pages: open(Kind::Pages),
            next: None,
        }
    }

    fn path(&self, stream: u32, kind: Kind) -> PathBuf {
        self.folder.join(match kind {
            Kind::Inputs => stream.to_string(),
            Kind::Pages => format!("{stream}.pages"),
        })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, stream: StreamId, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
        let mut files = self.files();
        let result = files.open.append((stream.0, kind), &self.path(stream.0, kind), parts);
        if let Err(error) = &result {
            files.failure.get_or_insert(io::Error::new(error.kind(), error.to_string()));
        }
        result
    }
}

impl Onlooker for Aside {
    fn take_input(&self, stream: StreamId, bytes: &[u8]) -> io::Result<()> {
        self.append(stream, Kind::Inputs, &[bytes])
    }

    fn look(&self, at: &Standing) -> io::Result<()> {
        let Some(looker) = &self.looker else { return Ok(()) };
        let stage = match at.stage {
            Stage::Mapped => retake_record::Stage::Mapped,
            Stage::BeforeUnmap => retake_record::Stage::BeforeUnmap,
            Stage::UsesMappedFile => retake_record::Stage::UsesMappedFile,
        };
        let moment = Moment {
            stage,
            pid: at.pid,
            tid: at.pid,
            time_ns: 0,
            number: 0,
            arguments: [0; 6],
            result: 0,
        };
        let events = at.events.to_le_bytes();
        looker
            .at_call(&moment, &mut |event| self.append(at.stream, Kind::Pages, &[&events, event]))
            .map(|_| ())
    }
}

/// Reads the data of one stream.
#[derive(Debug)]
pub(super) struct AsideReader {
    stream: u32,
    inputs: Option<BufReader<File>>,
    pages: Option<BufReader<File>>,
    /// Pages already read from the file, and the number of events before them.
    next: Option<(u64, MappedPages)>,
}

impl AsideReader {
    /// Returns the next input, of `bytes` bytes.
    pub fn input(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut input = vec![0; bytes];
        self.inputs.as_mut()?.read_exact(&mut input).ok().map(|()| input)
    }

    /// Returns the next pages that were taken after at most `events` events of the thread.
    pub fn stored_before(&mut self, events: u64) -> Result<Option<MappedPages>> {
        if self.next.is_none() {
            self.next = self.read_pages()?;
        }
        Ok(self.next.take_if(|next| next.0 <= events).map(|next| next.1))
    }

    fn read_pages(&mut self) -> Result<Option<(u64, MappedPages)>> {
        let Some(file) = &mut self.pages else { return Ok(None) };
        let mut head = [0; 12];
        match file.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        let [events @ .., a, b, c, d] = head;
        let mut event = vec![0; u32::from_le_bytes([a, b, c, d]).max(4) as usize];
        event[..4].copy_from_slice(&[a, b, c, d]);
        file.read_exact(&mut event[4..])?;
        let mut buffer = EventBuffer::default();
        buffer.extend(&event);
        let pages =
            buffer.next(self.stream)?.and_then(|event| pages_of(event.number(), event.body()));
        let pages = pages.ok_or_else(|| Error::System(io::ErrorKind::InvalidData.into()))?;
        Ok(Some((u64::from_le_bytes(events), pages)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::pages_event;

    #[test]
    fn what_was_put_aside_comes_back_where_it_belongs() {
        let folder = std::env::temp_dir().join(format!("retake-aside-{}", std::process::id()));
        let aside = Aside::create(&folder, true).unwrap();
        let pages = |file_offset| MappedPages {
            id: 0,
            time_ns: 0,
            process: 5,
            thread: 5,
            write: true,
            path: b"/x".to_vec(),
            file_offset,
            address: 0x7000,
            data: vec![1; 5000],
        };
        let (first, second) = (StreamId(1), StreamId(2));
        aside.take_input(first, b"abc").unwrap();
        for (events, offset) in [(3_u64, 0), (3, 4096), (9, 8192)] {
            aside
                .append(first, Kind::Pages, &[&events.to_le_bytes(), &pages_event(&pages(offset))])
                .unwrap();
        }
        aside.take_input(second, b"xyz").unwrap();
        aside.take_input(first, b"de").unwrap();
        aside.finish().unwrap();
        let mut reader = aside.reader(first);
        assert_eq!(
            (reader.input(3).as_deref(), reader.input(2).as_deref(), reader.input(1)),
            (Some(&b"abc"[..]), Some(&b"de"[..]), None)
        );
        assert_eq!(reader.stored_before(2).unwrap(), None);
        assert_eq!(
            [3, 3, 3].map(|events| reader.stored_before(events).unwrap()),
            [Some(pages(0)), Some(pages(4096)), None]
        );
        assert_eq!(
            [u64::MAX; 2].map(|events| reader.stored_before(events).unwrap()),
            [Some(pages(8192)), None]
        );
        assert_eq!(aside.reader(second).stored_before(u64::MAX).unwrap(), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
