//! Names of mapped files in the trace. Replay maps copies of the files, and their pages get the
//! files' own names, as long as these exist.

use crate::look::has_name;
use crate::observation::Observation;
use crate::tracker::Tracker;
use retake_model::item::Mapping;
use retake_model::table::number;
use retake_trace_format::{TraceRecord, TracedCall};
use std::collections::HashMap;

const MMAP: u32 = number::MMAP as u32;
const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 1;
const MAP_ANONYMOUS: u64 = 0x20;

const RENAME: u32 = number::RENAME as u32;
const UNLINK: u32 = number::UNLINK as u32;
const UNLINKAT: u32 = number::UNLINKAT as u32;
const RENAMEAT: u32 = number::RENAMEAT as u32;
const RENAMEAT2: u32 = number::RENAMEAT2 as u32;
const RENAME_EXCHANGE: u64 = 2;

/// Follows mappings, and later changes of the files' names.
#[derive(Debug, Default)]
pub(super) struct MappedNames {
    tracker: Tracker,
    /// The file's name for each name of a copy.
    names: HashMap<String, Vec<u8>>,
    /// How many writable mappings have no copy in the recording.
    without_copy: u64,
}

impl MappedNames {
    /// Follows an observation. `mapping` is what a call mapped. Pages get the name of their file,
    /// and are dropped if it has none.
    pub fn follow(
        &mut self,
        mut observation: Observation,
        mapping: Option<&Mapping>,
    ) -> Option<Observation> {
        match &mut observation {
            Observation::Record(TraceRecord::MappedPages(pages)) => {
                let copy = pages
                    .path
                    .rsplit(|byte| *byte == b'/')
                    .next()
                    .and_then(|name| std::str::from_utf8(name).ok())?;
                pages.path = self.names.get(copy)?.clone();
            }
            Observation::Record(TraceRecord::Call(call)) if !call.failed() => {
                self.mapped(call, mapping);
                self.renamed(call);
            }
            _ => {}
        }
        self.tracker.follow(&mut observation);
        Some(observation)
    }

    /// Returns what is missing, if anything.
    pub fn missing(&self) -> Option<String> {
        let count = self.without_copy;
        (count > 0).then(|| {
            format!(
                "the program mapped files for writing {count} times; the recording has no copies \
                of these files"
            )
        })
    }

    fn mapped(&mut self, call: &TracedCall, mapping: Option<&Mapping>) {
        if call.number != MMAP {
            return;
        }
        let path = self
            .tracker
            .opened_path(call.process, call.arguments[4] as i32)
            .filter(|path| has_name(&String::from_utf8_lossy(path)));
        let Some(path) = path.map(<[u8]>::to_vec) else { return };
        match mapping {
            Some(mapping) => copies(mapping)
                .into_iter()
                .for_each(|copy| _ = self.names.insert(copy, path.clone())),
            None => self.without_copy += u64::from(maps_to_write(call)),
        }
    }

    fn renamed(&mut self, call: &TracedCall) {
        if !matches!(call.number, RENAME | UNLINK | UNLINKAT | RENAMEAT | RENAMEAT2)
            || self.names.is_empty()
        {
            return;
        }
        match self.tracker.named_paths(call).as_slice() {
            [gone] => self.names.retain(|_, path| path != gone),
            [from, to] => {
                let exchanged =
                    call.number == RENAMEAT2 && call.arguments[4] & RENAME_EXCHANGE != 0;
                self.names.retain(|_, path| exchanged || path != to);
                for path in self.names.values_mut() {
                    let there = moved(path, from, to)
                        .or_else(|| moved(path, to, from).filter(|_| exchanged));
                    *path = there.unwrap_or_else(|| std::mem::take(path));
                }
            }
            _ => {}
        }
    }
}

/// Returns the new name of `path` if it is `from`, or is below it, when `from` becomes `to`.
fn moved(path: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest[0] == b'/')?;
    Some([to, rest].concat())
}

/// Returns the names of a file's copies: the one that all processes share, named by device and
/// inode, and the stored one.
fn copies(mapping: &Mapping) -> [String; 2] {
    let shared = [mapping.device, mapping.inode]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    [shared, mapping.content.to_string()]
}

fn maps_to_write(call: &TracedCall) -> bool {
    let (protection, flags) = (call.arguments[2], call.arguments[3]);
    protection & PROT_WRITE != 0 && flags & MAP_SHARED != 0 && flags & MAP_ANONYMOUS == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::ContentId;
    use retake_trace_format::{
        BufferDirection, MappedPages, ProcessStart, StartKind, TracedBuffer,
    };

    fn call(number: u32, arguments: [u64; 6], result: i64, paths: &[(u8, &str)]) -> Observation {
        let buffer = |(argument, path): &(u8, &str)| TracedBuffer {
            argument: *argument,
            direction: BufferDirection::Input,
            address: 1,
            total_bytes: path.len() as u64,
            data: path.as_bytes().into(),
        };
        let buffers = paths.iter().map(buffer).collect();
        Observation::Record(TraceRecord::Call(TracedCall {
            process: 1,
            number,
            arguments,
            result,
            returned_ns: 1,
            buffers,
            ..TracedCall::default()
        }))
    }

    /// The mapped file is `/w/file`, with descriptor 3 and the numbers 1 and 2.
    fn mapped() -> (MappedNames, Mapping) {
        let mut names = MappedNames::default();
        let start = ProcessStart {
            process: 1,
            working_directory: b"/w".to_vec(),
            ..crate::state::of_process(std::process::id().cast_signed(), StartKind::Exec).unwrap()
        };
        names.follow(Observation::Record(TraceRecord::ProcessStart(Box::new(start))), None);
        names.follow(call(2, [1, 2, 0, 0, 0, 0], 3, &[(0, "file")]), None);
        let mapping = Mapping {
            content: ContentId([7; 32]),
            device: 1,
            inode: 2,
            may_change: false,
            overlays: Vec::new(),
        };
        names.follow(call(MMAP, [0, 4096, 3, 1, 3, 0], 0x7000, &[]), Some(&mapping));
        (names, mapping)
    }

    fn name_of(names: &mut MappedNames, copy: &str) -> Option<String> {
        let path = format!("/tmp/scratch/{copy}").into_bytes();
        let pages = MappedPages {
            id: 0,
            time_ns: 0,
            process: 1,
            thread: 1,
            write: true,
            path,
            file_offset: 0,
            address: 0,
            data: Vec::new(),
        };
        match names.follow(Observation::Record(TraceRecord::MappedPages(pages)), None)? {
            Observation::Record(TraceRecord::MappedPages(pages)) => {
                String::from_utf8(pages.path).ok()
            }
            _ => None,
        }
    }

    #[test]
    fn copies_have_the_names_of_their_files() {
        let (mut names, mapping) = mapped();
        let [shared, stored] = copies(&mapping);
        assert_eq!((shared.as_str(), stored.len()), ("01000000000000000200000000000000", 64));
        assert_eq!(
            (name_of(&mut names, &shared).as_deref(), name_of(&mut names, &stored).as_deref()),
            (Some("/w/file"), Some("/w/file"))
        );
        assert_eq!((name_of(&mut names, "other"), names.missing()), (None, None));
        names.follow(call(MMAP, [0, 4096, 3, 1, 3, 0], 0x7000, &[]), None);
        assert!(names.missing().unwrap().contains("1 times"));
    }

    #[test]
    fn renamed_files_have_their_new_names_and_removed_ones_none() {
        let (mut names, mapping) = mapped();
        let copy = &copies(&mapping)[0];
        names.follow(call(RENAME, [1, 1, 0, 0, 0, 0], -2, &[(0, "file"), (1, "failed")]), None);
        names.follow(call(RENAME, [1, 1, 0, 0, 0, 0], 0, &[(0, "/w"), (1, "/v")]), None);
        assert_eq!(name_of(&mut names, copy).as_deref(), Some("/v/file"));
        let here = -100_i32 as u32 as u64;
        let exchange = [here, 1, here, 1, RENAME_EXCHANGE, 0];
        names.follow(call(RENAMEAT2, exchange, 0, &[(1, "/other"), (3, "/v/file")]), None);
        assert_eq!(name_of(&mut names, copy).as_deref(), Some("/other"));
        names.follow(call(UNLINK, [1, 0, 0, 0, 0, 0], 0, &[(0, "/other")]), None);
        assert_eq!(name_of(&mut names, copy), None);
    }
}
