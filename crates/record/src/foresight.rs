//! Foresight: while a program starts, enters the files that its processes mapped the last time it
//! was recorded into the list of files. The processes then find them there and need not wait.

use crate::shared_state::Recorder;
use retake_kernel::process;
use retake_patch::Placement;
use retake_supervisor::files::Foreseen;
use retake_supervisor::worker::{Stop, Worker};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of cache entry in the store.
const KIND: &str = "foresight";
/// The most files that are remembered: the first ones.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 1 << 20;
const AFTER: u8 = b'a';
const BEFORE: u8 = b'b';

pub(crate) struct Foresight {
    recorder: Arc<Recorder>,
    key: String,
    before: Vec<Foreseen>,
    worker: Option<Worker>,
}

impl Foresight {
    pub fn start(recorder: &Arc<Recorder>, program: &Path) -> Self {
        let path = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
        let key = path.to_string_lossy().into_owned();
        let before = remembered(recorder, &key);
        let (for_thread, files) = (Arc::clone(recorder), before.clone());
        let worker = (!files.is_empty())
            .then(|| Worker::start(|| {}, move |stop| enter(&for_thread, &files, stop)));
        Self { recorder: Arc::clone(recorder), key, before, worker }
    }

    /// Removes files that were entered but not mapped, and remembers the files that were. Called
    /// after the last process has ended.
    pub fn finish(self) {
        let Self { recorder, key, before, worker } = self;
        let _ = worker.map(Worker::end);
        recorder
            .files
            .unused_contents(recorder.header())
            .into_iter()
            .filter(|content| !recorder.leases.has_kept(*content))
            .for_each(|content| recorder.log.drop_file(content));
        let mut now = recorder.files.used(recorder.header());
        now.truncate(MOST_FILES);
        if now != before {
            let bytes = now.iter().map(to_bytes).collect::<Vec<_>>().join(&0);
            // On failure, the next recording only starts more slowly.
            let _ = recorder.files.store().put_named_hint(KIND, &key, &bytes);
        }
    }
}

fn enter(recorder: &Recorder, files: &[Foreseen], stop: &Stop) {
    process::let_waking_threads_go_first();
    for file in files {
        if stop.is_told() {
            return;
        }
        // If this fails, the same error appears and is reported when the file is mapped.
        let _ = recorder.files.foresee(&recorder.session, file);
    }
}

/// Reads the remembered files. The cache may hold anything: its contents are only expectations.
fn remembered(recorder: &Recorder, key: &str) -> Vec<Foreseen> {
    let mut bytes = Vec::new();
    if let Ok(Some(file)) = recorder.files.store().named_cache(KIND, key) {
        let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
    }
    bytes.split(|&byte| byte == 0).filter_map(from_bytes).take(MOST_FILES).collect()
}

/// Encodes a file as a letter for the placement, then the path.
fn to_bytes(file: &Foreseen) -> Vec<u8> {
    let letter = if file.placement == Placement::Before { BEFORE } else { AFTER };
    [&[letter], file.path.as_os_str().as_bytes()].concat()
}

fn from_bytes(bytes: &[u8]) -> Option<Foreseen> {
    let (letter, path) = bytes.split_first()?;
    let placement = match *letter {
        AFTER => Placement::After,
        BEFORE => Placement::Before,
        _ => return None,
    };
    let path = PathBuf::from(OsStr::from_bytes(path));
    path.is_absolute().then_some(Foreseen { path, placement })
}
