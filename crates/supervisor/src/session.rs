//! The shared memory of one recording or replay, and what the runtime must know before it runs.

use crate::processor;
use crate::runtime::Runtime;
use crate::vdso::Vdso;
use retake_kernel::cpuid;
use retake_kernel::inheritance;
use retake_kernel::segment::{Segment, SegmentCount};
use retake_kernel::shared::{self, Header, HeaderSegment};
use retake_recording::{CpuidAnswer, Processor, Store};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// The user's choices that the runtime must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Patches nothing, so that every call goes through dispatch.
    pub no_fast_path: bool,
    /// Replay: prints no output of the program.
    pub quiet: bool,
    /// Hashes all memory.
    pub check_full: bool,
    /// Hashes no memory.
    pub check_off: bool,
    /// Replay: passes on the whole inputs of calls of which the recording has only a part.
    pub whole_inputs: bool,
    /// Record: keeps the data that calls move between descriptors in the kernel.
    pub moved_data: bool,
    /// The `sync` policy: threads run in parallel.
    pub sync: bool,
    /// With `sync`: only in processes whose code declares all its synchronisation.
    pub auto: bool,
    /// Replay, with `sync`: threads run one at a time.
    pub settled: bool,
    /// Trace: the number of bytes that are kept of each buffer; `None` keeps all.
    pub data_limit: Option<u64>,
}

/// Why a session cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// System V shared memory is not available.
    #[error("cannot make shared memory for the session: {0}\n  try       retake doctor")]
    SharedMemory(#[source] io::Error),
    /// The machine has too few free segments.
    #[error(
        "this machine allows {most} segments of shared memory (kernel.shmmni); {used} are in use, \
        and a recording needs {NEEDED_SEGMENTS}\n  try       sudo sysctl -w kernel.shmmni=4096"
    )]
    FewSegments {
        /// The limit for the number of segments.
        most: u64,
        /// The number of segments in use.
        used: u64,
    },
    /// The vDSO of this kernel cannot be handled.
    #[error(
        "cannot take over this kernel's vDSO: {0}\n  try       booting with vdso=1, or report the \
        kernel version"
    )]
    Vdso(String),
    /// This process is itself being recorded.
    #[error(
        "this retake is itself being recorded, and a recorder cannot be recorded: an address space \
        has room for one runtime\n  try       the inner command alone"
    )]
    Recorded,
    /// This machine cannot replace the recorded processor.
    #[error(
        "this machine's processor cannot replay the recording: {0}\n  try       replaying on a \
        machine of the kind that `retake info` names"
    )]
    Processor(&'static str),
}

/// The segments that a recording of a program with some libraries needs: the session's own, one
/// with rings, and patched text.
pub const NEEDED_SEGMENTS: u64 = 32;

/// The session's segments. Dropping it detaches them. They vanish when the last process that uses
/// them ends.
#[derive(Debug)]
pub struct Session {
    header: HeaderSegment,
    /// Absent at replay, where processes execute the runtime.
    text: Option<Segment>,
    /// Absent at replay, where the recording has the vDSO.
    vdso: Option<Vdso>,
}

impl Session {
    /// Sets up shared memory for `mode` (`shared::MODE_*`), and the processor that programs will
    /// see. `store` caches work for later sessions.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn create(
        mode: u32,
        options: Options,
        processor: &Processor,
        store: Option<&Store>,
    ) -> Result<Self, SessionError> {
        if inheritance::is_recorded() {
            return Err(SessionError::Recorded);
        }
        if mode != shared::MODE_REPLAY
            && let Some(count) = SegmentCount::now()
            && count.free() < NEEDED_SEGMENTS
        {
            return Err(SessionError::FewSegments { most: count.most, used: count.used });
        }
        if mode == shared::MODE_REPLAY
            && let Some(difference) = processor::difference(processor)
        {
            return Err(SessionError::Processor(difference));
        }
        let mut bits = 0;
        for (chosen, bit) in [
            (options.no_fast_path, shared::OPTION_NO_FAST_PATH),
            (options.quiet, shared::OPTION_QUIET),
            (options.check_full, shared::OPTION_CHECK_FULL),
            (options.check_off, shared::OPTION_CHECK_OFF),
            (options.whole_inputs, shared::OPTION_WHOLE_INPUTS),
            (options.moved_data, shared::OPTION_MOVED_DATA),
            (options.sync, shared::OPTION_SYNC),
            (options.auto, shared::OPTION_AUTO),
            (options.settled, shared::OPTION_SETTLED),
            (!processor.traps_cpuid, shared::OPTION_NO_CPUID_FAULT),
            (
                mode == shared::MODE_RECORD && retake_kernel::clock::counter_is_steady(),
                shared::OPTION_STAMPS,
            ),
        ] {
            bits |= if chosen { bit } else { 0 };
        }
        let header = HeaderSegment::create(mode, bits).map_err(SessionError::SharedMemory)?;
        let text = (mode != shared::MODE_REPLAY)
            .then(|| {
                let text = Runtime::OWN.text();
                Segment::with_bytes(text, text.len().next_multiple_of(4096))
            })
            .transpose()
            .map_err(SessionError::SharedMemory)?;
        let vdso = (mode != shared::MODE_REPLAY)
            .then(|| Vdso::own(store))
            .transpose()
            .map_err(SessionError::Vdso)?;
        let session = Self { header, text, vdso };
        session.describe_processor(processor);
        if let Some(vdso) = &session.vdso {
            vdso.describe(session.header());
        }
        if mode == shared::MODE_TRACE {
            session.describe_clock();
            session.header().data_limit.store(options.data_limit.unwrap_or(u64::MAX), Relaxed);
        }
        Ok(session)
    }

    /// The structure in the header segment.
    pub fn header(&self) -> &Header {
        self.header.get()
    }

    /// The id of the header segment.
    pub fn header_id(&self) -> i32 {
        self.header.segment().id()
    }

    /// The id of the segment with the runtime's text; -1 at replay, which has none.
    pub fn text_id(&self) -> i32 {
        self.text.as_ref().map_or(-1, Segment::id)
    }

    /// Lets a process of another user attach the session's fixed segments.
    pub fn give_to(&self, user: u32) {
        self.header.segment().give_to(user);
        self.text.iter().for_each(|text| text.give_to(user));
    }

    /// The vDSO of this boot; `None` at replay.
    pub fn vdso(&self) -> Option<&Vdso> {
        self.vdso.as_ref()
    }

    fn describe_processor(&self, processor: &Processor) {
        let header = self.header();
        for (entry, &CpuidAnswer([leaf, subleaf, eax, ebx, ecx, edx])) in
            header.cpuid.iter().zip(&processor.cpuid)
        {
            entry.leaf.store(leaf, Relaxed);
            entry.subleaf.store(subleaf, Relaxed);
            entry.eax.store(eax, Relaxed);
            entry.ebx.store(ebx, Relaxed);
            entry.ecx.store(ecx, Relaxed);
            entry.edx.store(edx, Relaxed);
        }
        header.cpuid_count.store(processor.cpuid.len().min(shared::MAX_CPUID) as u32, Relaxed);
        header.extended_features.store(processor.extended_features, Relaxed);
        header.extended_bytes.store(processor.extended_bytes, Relaxed);
        if header.mode.load(Relaxed) != shared::MODE_REPLAY {
            header.ticks_per_second.store(cpuid::ticks_per_second(), Relaxed);
        }
    }

    fn describe_clock(&self) {
        let Some(clock) = retake_kernel::clock::measure() else { return };
        let header = self.header();
        header.clock_ns.store(clock.ns, Relaxed);
        header.clock_scale.store(clock.scale, Relaxed);
        header.clock_counter.store(clock.counter, Relaxed);
    }
}
