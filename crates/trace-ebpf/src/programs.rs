//! Loading the programs into the kernel, and marking the threads that they follow.

use crate::rings::Rings;
use crate::{Error, system};
use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use std::io;
use std::os::fd::AsFd;

/// The trace points and the programs, whose names mostly agree.
const PROGRAMS: [(&str, &str); 6] = [
    ("thread_made", "sched_process_fork"),
    ("thread_ended", "sched_process_exit"),
    ("program_begins", "sched_process_exec"),
    ("signal_delivered", "signal_deliver"),
    ("call_returned", "sys_exit"),
    ("call_entered", "sys_enter"),
];

/// The most processors for which rings are large. With more processors, each ring is small, so that
/// all of them need no more memory.
const FEW_PROCESSORS: usize = 16;

#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static LARGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/large.o")));
static SMALL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/small.o")));
const LARGE_BYTES: usize = 1 << 25;
const SMALL_BYTES: usize = 1 << 22;

/// Identity of the PID namespace that the kernel itself uses.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

pub(crate) fn is_built() -> bool {
    !LARGE.0.is_empty()
}

/// How threads are followed.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes that are kept of each buffer of plain data.
    pub data_limit: u64,
    /// Whether threads are held ([`crate::Body::Held`]) after calls that moved data between
    /// descriptors or concern mapped files, so that all this can be looked at.
    pub looks: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { data_limit: u64::MAX, looks: false }
    }
}

/// The counters of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Records for which there was no room.
    pub lost: u64,
    /// Calls of 32-bit code, which are not followed.
    pub foreign: u64,
}

/// Processes that have mapped files. A thread is held when such a process may lose mapped pages.
#[derive(Debug)]
pub struct Mappers(HashMap<MapData, u32, u32>);

impl Mappers {
    /// Adds a process.
    ///
    /// # Errors There are too many.
    pub fn add(&mut self, process: i32) -> Result<(), Error> {
        self.0.insert(process as u32, 1, 0).map_err(|error| refused("mappers", &error))
    }

    /// Removes a process that has ended or executed another program.
    pub fn remove(&mut self, process: i32) {
        // The process may be missing.
        let _ = self.0.remove(&(process as u32));
    }
}

/// The programs in the kernel. They see nothing before [`Programs::attach`], and then only the
/// threads that [`Programs::follow`] names, with their descendants.
pub struct Programs {
    kernel: Ebpf,
    next_thread: u64,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Programs")
    }
}

impl Programs {
    /// Loads the programs, and maps the rings that they write to.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn load(settings: &Settings) -> Result<(Self, Rings), Error> {
        if !is_built() {
            return Err(Error::NotBuilt(env!("RETAKE_BPF_ABSENT")));
        }
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        if namespace.as_os_str() != FIRST_NAMESPACE {
            return Err(Error::Namespace);
        }
        let processors = aya::util::nr_cpus().map_err(|(_, error)| error)?;
        let (object, ring_bytes) =
            if processors <= FEW_PROCESSORS { (LARGE, LARGE_BYTES) } else { (SMALL, SMALL_BYTES) };
        let types = Btf::from_sys_fs().map_err(|error| Error::Types(error.to_string()))?;
        let offset = system::real_time_offset_ns();
        let looks = u64::from(settings.looks);
        let mut kernel = EbpfLoader::new()
            .btf(Some(&types))
            .override_global("REAL_TIME_OFFSET", &offset, true)
            .override_global("DATA_LIMIT", &settings.data_limit, true)
            .override_global("LOOKS", &looks, true)
            .map_max_entries("rings", processors as u32)
            // The storage of threads, which only the programs read.
            .allow_unsupported_maps()
            .load(&object.0)
            .map_err(|error| refused("maps", &error))?;
        for (program, point) in PROGRAMS {
            trace_point(&mut kernel, program)?
                .load(point, &types)
                .map_err(|error| refused(program, &error))?;
        }
        let rings = match kernel.map("rings") {
            Some(Map::Array(map)) => Rings::map(map.fd().as_fd(), processors, ring_bytes)?,
            _ => return Err(missing("rings")),
        };
        Ok((Self { kernel, next_thread: FIRST_NAMED }, rings))
    }

    /// Attaches the programs. From now on, they see all threads that are followed.
    ///
    /// # Errors The kernel refuses.
    pub fn attach(&mut self) -> Result<(), Error> {
        for (program, _) in PROGRAMS {
            trace_point(&mut self.kernel, program)?
                .attach()
                .map_err(|error| refused(program, &error))?;
        }
        Ok(())
    }

    /// Follows a thread and its descendants. If `awaits_exec`, it is followed from its next exec
    /// on. Returns its number in records.
    ///
    /// # Errors The thread is gone.
    pub fn follow(&mut self, tid: i32, awaits_exec: bool) -> Result<u64, Error> {
        let Some(Map::Unsupported(threads)) = self.kernel.map("threads") else {
            return Err(missing("threads"));
        };
        let mut value = [0u64; THREAD_WORDS];
        value[0] = self.next_thread;
        value[1] = u64::from(awaits_exec) << 32;
        let mark = |source| Error::Mark { tid, source };
        let descriptor = system::thread_descriptor(tid).map_err(mark)?;
        system::keep_with_thread(threads.fd().as_fd(), &descriptor, &value).map_err(mark)?;
        self.next_thread += 1;
        Ok(value[0])
    }

    /// Returns the set of processes that have mapped files. It can be taken once.
    ///
    /// # Errors It was taken before.
    pub fn take_mappers(&mut self) -> Result<Mappers, Error> {
        let map = self.kernel.take_map("mappers").ok_or_else(|| missing("mappers"))?;
        Ok(Mappers(HashMap::try_from(map).map_err(|error| refused("mappers", &error))?))
    }

    /// Returns the present counters.
    pub fn counters(&self) -> Counters {
        let read = || {
            let counts: Array<_, [u64; 3]> = Array::try_from(self.kernel.map("counts")?).ok()?;
            counts.get(&0, 0).ok()
        };
        let [lost, foreign, _] = read().unwrap_or_default();
        Counters { lost, foreign }
    }
}

/// The first number of threads named from here. Threads whose start the programs see count from 0.
const FIRST_NAMED: u64 = 1 << 63;
/// Words of the value that is stored with a thread.
const THREAD_WORDS: usize = 16;

fn trace_point<'kernel>(
    kernel: &'kernel mut Ebpf,
    name: &str,
) -> Result<&'kernel mut BtfTracePoint, Error> {
    let program = kernel.program_mut(name).ok_or_else(|| missing(name))?;
    program.try_into().map_err(|error: ProgramError| refused(name, &error))
}

fn missing(what: &str) -> Error {
    Error::Refused { what: what.to_owned(), reason: "not in the object".to_owned() }
}

/// Makes a short error message. The verifier's message has thousands of lines, of which the last
/// ones matter.
fn refused(what: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let mut cause = Some(error);
    while let Some(this) = cause {
        if let Some(system) = this.downcast_ref::<io::Error>()
            && system.raw_os_error() == Some(libc::EPERM)
        {
            return Error::Privilege(io::Error::from_raw_os_error(libc::EPERM));
        }
        cause = this.source();
    }
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let shown = if std::env::var_os("RETAKE_VERIFIER_LOG").is_some() {
        lines.len()
    } else {
        LAST_LINES.min(lines.len())
    };
    Error::Refused { what: what.to_owned(), reason: lines[lines.len() - shown..].join("\n") }
}

const LAST_LINES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_do_not_name_the_folder_where_they_were_built() {
        let folder = env!("CARGO_MANIFEST_DIR").as_bytes();
        for program in [&LARGE.0, &SMALL.0] {
            assert!(!program.windows(folder.len()).any(|bytes| bytes == folder));
        }
    }

    #[test]
    fn the_kernel_takes_the_programs() {
        match Programs::load(&Settings::default()) {
            Ok((mut programs, mut rings)) => {
                programs.attach().unwrap();
                rings.drain(|record| Err(format!("{record:?}"))).unwrap();
                assert_eq!(programs.counters(), Counters { lost: 0, foreign: 0 });
            }
            Err(
                error @ (Error::NotBuilt(_)
                | Error::Privilege(_)
                | Error::Types(_)
                | Error::Namespace),
            ) => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
