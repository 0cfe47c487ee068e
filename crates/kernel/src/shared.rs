//! The header segment, as `runtime/include/shared.h` lays it out. A test compares every offset with the C side.
//!
//! Every field is an atomic: the runtime of many processes changes them at any time, and nothing here can then be undefined behaviour.

use crate::segment::Segment;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

pub const RUNTIME_TEXT: u64 = 0x5500_0000_0000;
/// Private memory of the runtime: what the threads of a process have in common,
pub const RUNTIME_DATA: u64 = 0x5500_1000_0000;
pub const HEADER_ADDRESS: u64 = 0x5500_2000_0000;
/// and what each thread has for itself.
pub const REGIONS: u64 = 0x5500_4000_0000;
pub const RUNTIME_END: u64 = 0x5550_0000_0000;
pub const RING_BYTES: usize = 0x10_0000;
pub const MAX_SLOTS: usize = 4096;
pub const MAX_FILES: usize = 0x4000;
pub(crate) const FILE_BUCKETS: usize = 0x400;
const MAX_SHARED_FILES: usize = 0x10000;
pub(crate) const SHARED_FILE_BUCKETS: usize = 0x1000;
pub const MAX_CPUID: usize = 256;
pub const MAX_VDSO_PATCHES: usize = 16;
pub const VDSO_CODE_BYTES: usize = 48;
pub const VDSO_CLOCKS: usize = 4;
pub const MAX_PARTS: usize = 8;
/// Ranges of a file's text that no known code reaches.
pub const MAX_UNREACHED: usize = 4;
pub const TURN_GATES: usize = 128;
pub const MAX_FILTERS: usize = 4096;
pub const MAX_FILTER_STEPS: usize = 0x2_0000;
pub const LOW_DESCRIPTORS: usize = 256;
pub const HIGH_DESCRIPTORS: usize = 16;
pub const PATH_BYTES: usize = 1024;
pub const HEADER_MAGIC: u64 = 0x3165_6b61_7465_7221;

pub const MODE_RECORD: u32 = 1;
pub const MODE_REPLAY: u32 = 2;
pub const MODE_TRACE: u32 = 3;

pub const OPTION_NO_FAST_PATH: u32 = 1;
pub const OPTION_QUIET: u32 = 2;
pub const OPTION_CHECK_FULL: u32 = 4;
pub const OPTION_CHECK_OFF: u32 = 8;
pub const OPTION_NO_TSC_TRAP: u32 = 16;
pub const OPTION_NO_CPUID_FAULT: u32 = 32;
pub const OPTION_WHOLE_INPUTS: u32 = 64;
pub const OPTION_DEBUG: u32 = 128;
pub const OPTION_DROPPED: u32 = 256;
pub const OPTION_ALONE: u32 = 512;
pub const OPTION_MOVED_DATA: u32 = 1024;
pub const OPTION_SYNC: u32 = 2048;

pub const TIE_MEMORY: u32 = 1;
pub const TIE_FILE: u32 = 2;
pub const TIE_PARENT: u32 = 4;

pub const SLOT_UNUSED: u32 = 0;
/// Values of `ready_low`: nobody waits for a slot, somebody does, and there will be none until a thread ends.
pub const READY_ENOUGH: u32 = 0;
pub const READY_WANTED: u32 = 1;
pub const READY_NONE: u32 = 2;
pub const SLOT_READY: u32 = 1;
pub const SLOT_CLAIMED: u32 = 2;
pub const SLOT_LIVE: u32 = 3;
pub const SLOT_EXITED: u32 = 4;
pub const SLOT_DYING: u32 = 5;

pub const FORCE_IDLE: u32 = 0;
pub const FORCE_WANTED: u32 = 1;
pub const FORCE_SENDING: u32 = 2;
pub const FORCE_SENT: u32 = 3;

pub const BATON_WAITING: u32 = 1;
pub const BATON_HOLDING: u32 = 2;
/// It waits as well, but it was computing when it was stopped.
pub const BATON_STOPPED: u32 = 3;
/// It waits as well, and a signal waits for it.
pub const BATON_SIGNALLED: u32 = 4;

pub const REQUEST_EXEC: u32 = 1;
pub const REQUEST_FILE: u32 = 3;
pub const REQUEST_WINDOW: u32 = 4;
pub const REQUEST_DIVERGED: u32 = 5;
pub const REQUEST_OWN_RING: u32 = 6;
pub const REQUEST_SHARED_FILE: u32 = 7;
pub const REQUEST_FORCE: u32 = 8;
pub const REQUEST_WATCH: u32 = 9;
pub const REQUEST_INPUT: u32 = 10;
pub const REQUEST_DEBUG: u32 = 11;
pub const REQUEST_CHILD: u32 = 12;
pub const REQUEST_CONSOLE: u32 = 13;
pub const REQUEST_LOOK: u32 = 14;
pub const REQUEST_IDENTITY: u32 = 15;

/// Answers `REQUEST_SHARED_FILE`: there is no copy, the stored file will do.
pub const SHARED_FILE_UNCHANGED: i64 = 1;

#[repr(C)]
pub struct SharedFile {
    pub device: AtomicU64,
    pub inode: AtomicU64,
    pub changes: AtomicU32,
    pub next: AtomicU32,
}

#[repr(C)]
pub struct ImagePart {
    pub text_offset: AtomicU64,
    pub text_bytes: AtomicU64,
    pub offset: AtomicU64,
    pub address: AtomicU64,
    pub bytes: AtomicU64,
    pub segment_id: AtomicI32,
    pub reserved: AtomicU32,
    pub content: [AtomicU8; 32],
}

/// What calls the text of a file can make: some that are not patched, ...
pub const CALLS_UNKNOWN: u32 = 0;
/// ... only patched ones, where the image lies over the text, ...
pub const CALLS_PATCHED: u32 = 1;
/// ... none.
pub const CALLS_NONE: u32 = 2;

#[repr(C)]
pub struct FileEntry {
    pub part_count: AtomicU32,
    pub calls: AtomicU32,
    pub followed: AtomicU32,
    pub used: AtomicU32,
    pub next: AtomicU32,
    pub reserved: AtomicU32,
    pub device: AtomicU64,
    pub inode: AtomicU64,
    pub size: AtomicU64,
    pub modified_ns: AtomicU64,
    pub changed_ns: AtomicU64,
    pub content: [AtomicU8; 32],
    pub low: AtomicU64,
    pub high: AtomicU64,
    pub parts: [ImagePart; MAX_PARTS],
    pub stubs: ImagePart,
    pub unreached: [AddressRange; MAX_UNREACHED],
}

/// Empty where there is none.
#[repr(C)]
pub struct AddressRange {
    pub start: AtomicU64,
    pub end: AtomicU64,
}

#[repr(C)]
pub struct Filter {
    pub ready: AtomicU32,
    pub before: AtomicU32,
    pub first_step: AtomicU32,
    pub step_count: AtomicU32,
}

#[repr(C, align(64))]
pub struct ProducerLine {
    pub head: AtomicU64,
    pub kicked: AtomicU32,
    pub filter: AtomicU32,
}

#[repr(C, align(64))]
pub struct ConsumerLine {
    pub tail: AtomicU64,
    pub tail_futex: AtomicU32,
    pub tail_waiting: AtomicU32,
}

/// What descriptors of a process are, of which more is to be known.
#[repr(C)]
pub struct DescriptorUses {
    /// Of each low descriptor: `DESCRIPTOR_*`, or 0.
    pub low: [AtomicU8; LOW_DESCRIPTORS],
    pub high_count: AtomicU32,
    /// Others: the descriptor, and its use.
    pub high: [[AtomicU32; 2]; HIGH_DESCRIPTORS],
}

pub const DESCRIPTOR_CONSOLE_OUT: u8 = 1;
pub const DESCRIPTOR_CONSOLE_ERR: u8 = 2;

/// One of the original outputs, by identity.
#[repr(C)]
pub struct Console {
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// Its device number as a terminal; 0: it is none.
    pub terminal: AtomicU32,
    reserved: AtomicU32,
}

#[repr(C, align(64))]
pub struct RequestLines {
    pub request: AtomicU32,
    pub reply: AtomicU32,
    pub request_arguments: [AtomicU64; 6],
    pub reply_values: [AtomicI64; 2],
    pub uses: DescriptorUses,
    pub altered_mask: AtomicU64,
    pub ignored_signals: AtomicU64,
    pub recorded_pid: AtomicU32,
    pub recorded_tid: AtomicU32,
    pub event_count: AtomicU64,
    pub slow_calls: AtomicU64,
    pub next_window_offset: AtomicU64,
    pub console_waiting: AtomicU32,
    pub baton_state: AtomicU32,
    pub console_ticket: AtomicU64,
    pub turn: AtomicU64,
    pub turn_logged: AtomicU64,
    pub turn_sections: AtomicU64,
    pub started_ns: AtomicU64,
    pub ended_ns: AtomicU64,
    pub home: AtomicU32,
    pub core_count: AtomicU32,
    pub cores: [AtomicU64; 16],
    pub baton_waits: AtomicU64,
    pub baton_wait_ns: AtomicU64,
    pub slice_us: AtomicU32,
    pub stop_us: AtomicU32,
    pub kept: AtomicU32,
    pub forced_found: AtomicU64,
    pub forced_misses: AtomicU64,
    pub forced_search_ns: AtomicU64,
    pub call_entered_ns: AtomicU64,
    pub call_number: AtomicU64,
    pub call_arguments: [AtomicU64; 6],
    pub diverged_event: AtomicU64,
    pub diverged_offset: AtomicU64,
    pub diverged_why: AtomicU64,
    pub diverged_number: AtomicU64,
    pub diverged_arguments: [AtomicU64; 6],
    pub diverged_registers: [AtomicU64; 18],
    pub diverged_expected: AtomicU64,
    pub diverged_actual: AtomicU64,
}

impl RequestLines {
    /// Where the thread of the other slot runs a copy of it begins to run.
    pub fn take_core(&self, original: &Self) {
        self.home.store(original.home.load(Ordering::Relaxed), Ordering::Relaxed);
        self.core_count.store(original.core_count.load(Ordering::Relaxed), Ordering::Relaxed);
        for (own, word) in self.cores.iter().zip(&original.cores) {
            own.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

#[repr(C)]
pub struct Slot {
    pub state: AtomicU32,
    pub next_ready: AtomicU32,
    pub ring_id: AtomicI32,
    pub stream: AtomicU32,
    pub parent_stream: AtomicU32,
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    pub exec_pending: AtomicU32,
    pub force_state: AtomicU32,
    pub force_sequence: AtomicU32,
    pub priority: AtomicU32,
    pub baton_domain: AtomicU32,
    pub ties: AtomicU32,
    pub pid_space: AtomicU32,
    pub pid_space_children: AtomicU32,
    pub inner_tid: AtomicU32,
    pub producer: ProducerLine,
    pub consumer: ConsumerLine,
    pub lines: RequestLines,
}

#[repr(C)]
pub struct TurnGate {
    pub word: AtomicU32,
    pub waiters: AtomicU32,
}

#[repr(C, align(64))]
pub struct Domain {
    pub lock: AtomicU32,
    pub waiters: AtomicU32,
    pub wake_pending: AtomicU32,
    pub last: AtomicU32,
    pub turn: AtomicU64,
    pub completed: AtomicU64,
    pub identity: AtomicU32,
    pub merged: AtomicU32,
    pub core: AtomicU32,
    pub home: AtomicU32,
    pub looked_ns: AtomicU64,
    pub round_ns: AtomicU64,
    pub expected: AtomicU32,
    pub callers: AtomicU32,
    pub credit_until_ns: AtomicU64,
    pub stopped_turn: AtomicU64,
    pub late_ns: AtomicU64,
    pub lent: AtomicU64,
    pub gates: [TurnGate; TURN_GATES],
}

#[repr(C)]
pub struct Chaos {
    pub seed: AtomicU64,
    pub yield_one_in: AtomicU32,
    pub step_one_in: AtomicU32,
    pub delay_one_in: AtomicU32,
    pub delay_most_us: AtomicU32,
}

#[repr(C)]
pub struct CpuidEntry {
    pub leaf: AtomicU32,
    pub subleaf: AtomicU32,
    pub eax: AtomicU32,
    pub ebx: AtomicU32,
    pub ecx: AtomicU32,
    pub edx: AtomicU32,
}

#[repr(C)]
pub struct VdsoEdit {
    pub offset: AtomicU32,
    pub bytes: AtomicU32,
    pub code: [AtomicU8; VDSO_CODE_BYTES],
}

#[repr(C)]
pub struct VdsoClock {
    pub number: AtomicU32,
    pub offset: AtomicU32,
}

#[repr(C)]
pub struct Header {
    pub magic: AtomicU64,
    pub mode: AtomicU32,
    pub options: AtomicU32,
    pub supervisor_pid: AtomicI32,
    pub guardian_pid: AtomicI32,
    pub drain_doorbell: AtomicU32,
    pub drain_sleeping: AtomicU32,
    pub request_doorbell: AtomicU32,
    pub request_taken: AtomicU32,
    pub ready_top: AtomicU64,
    pub ready_futex: AtomicU32,
    pub ready_low: AtomicU32,
    pub next_stream: AtomicU32,
    pub slots_used: AtomicU32,
    pub console_sequence: AtomicU64,
    pub console_printed: AtomicU64,
    pub console_futex: AtomicU32,
    pub file_count: AtomicU32,
    pub cpuid_count: AtomicU32,
    pub vdso_patch_count: AtomicU32,
    pub vdso_bytes: AtomicU32,
    pub force_doorbell: AtomicU32,
    pub extended_features: AtomicU64,
    pub extended_bytes: AtomicU32,
    pub stopping: AtomicU32,
    pub ticks_per_second: AtomicU64,
    pub chaos: Chaos,
    pub header_id: AtomicI32,
    pub host_descriptor: AtomicI32,
    pub yield_tick: AtomicU32,
    pub dying: AtomicU32,
    pub console_lock: AtomicU32,
    pub shared_file_count: AtomicU32,
    pub clock_counter: AtomicU64,
    pub clock_ns: AtomicU64,
    pub clock_scale: AtomicU64,
    pub data_limit: AtomicU64,
    pub console_gap: AtomicU64,
    pub consoles: [Console; 2],
    pub shared_domain: Domain,
    pub cpuid: [CpuidEntry; MAX_CPUID],
    pub vdso_patches: [VdsoEdit; MAX_VDSO_PATCHES],
    pub vdso_clocks: [VdsoClock; VDSO_CLOCKS],
    pub request_queue: [AtomicU32; MAX_SLOTS],
    pub store: [AtomicU8; PATH_BYTES],
    pub scratch: [AtomicU8; PATH_BYTES],
    pub files: [FileEntry; MAX_FILES],
    pub slots: [Slot; MAX_SLOTS],
    pub is_on_one_core: AtomicU32,
    pub homes_watched: AtomicU32,
    pub crowded_domain: AtomicU32,
    pub roomy_home: AtomicU32,
    pub crowded_home: AtomicU32,
    pub shared_file_places: AtomicU32,
    pub filter_count: AtomicU32,
    pub filter_step_count: AtomicU32,
    pub filters: [Filter; MAX_FILTERS],
    pub turn_patience_ns: AtomicU64,
    pub filter_steps: [AtomicU64; MAX_FILTER_STEPS],
    pub file_buckets: [AtomicU32; FILE_BUCKETS],
    pub shared_file_buckets: [AtomicU32; SHARED_FILE_BUCKETS],
    pub shared_files: [SharedFile; MAX_SHARED_FILES],
}

/// A header segment of this supervisor.
#[derive(Debug)]
pub struct HeaderSegment {
    segment: Segment,
}

impl HeaderSegment {
    /// Makes one of zeros with its magic number and its own id.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn create(mode: u32, options: u32) -> io::Result<Self> {
        let this = Self { segment: Segment::create(std::mem::size_of::<Header>())? };
        let header = this.get();
        header.magic.store(HEADER_MAGIC, Ordering::Relaxed);
        header.mode.store(mode, Ordering::Relaxed);
        header.options.store(options, Ordering::Relaxed);
        header.header_id.store(this.segment.id(), Ordering::Relaxed);
        header.supervisor_pid.store(std::process::id() as i32, Ordering::Relaxed);
        Ok(this)
    }

    /// The shared structure.
    pub fn get(&self) -> &Header {
        // SAFETY: the segment is as large as the structure, page-aligned, and every bit pattern is a valid value of atomics.
        unsafe { &*self.segment.address().cast::<Header>() }
    }

    /// The segment itself.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }
}

/// Stores bytes into an array of atomics, cut at its end.
pub fn store_bytes(target: &[AtomicU8], bytes: &[u8]) {
    for (to, from) in target.iter().zip(bytes) {
        to.store(*from, Ordering::Relaxed);
    }
}

/// A content's name, as [`store_bytes`] wrote it.
pub fn load_content(source: &[AtomicU8; 32]) -> [u8; 32] {
    std::array::from_fn(|at| source[at].load(Ordering::Relaxed))
}

/// Takes the next request out of the queue; `None` if there is none. Several threads may call it.
pub fn take_request(header: &Header) -> Option<usize> {
    loop {
        let taken = header.request_taken.load(Ordering::Acquire);
        if taken == header.request_doorbell.load(Ordering::Acquire) {
            return None;
        }
        let entry = &header.request_queue[taken as usize % MAX_SLOTS];
        let value = entry.load(Ordering::Acquire);
        if value == 0 {
            std::hint::spin_loop(); // counted, but not yet written
            continue;
        }
        if header.request_taken.compare_exchange(taken, taken.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire).is_ok() {
            entry.store(0, Ordering::Release);
            return Some(value as usize - 1).filter(|&index| index < MAX_SLOTS);
        }
    }
}

impl Header {
    /// The slots that have ever been ready or claimed.
    pub fn used_slots(&self) -> &[Slot] {
        let used = self.slots_used.load(Ordering::Acquire) as usize;
        &self.slots[..used.min(MAX_SLOTS)]
    }
}

/// Takes these slots off the list of ready ones, where they are on it. For a moment others find none there, and look again.
pub fn withdraw_ready(header: &Header, withdrawn: &[usize]) {
    let taken = header.ready_top.fetch_update(Ordering::AcqRel, Ordering::Acquire, |top| Some(((top >> 32) + 1) << 32));
    let mut next = taken.unwrap_or_else(|top| top) as u32;
    while let Some(index) = (next as usize).checked_sub(1) {
        next = header.slots[index].next_ready.load(Ordering::Relaxed);
        if !withdrawn.contains(&index) {
            push_ready(header, index);
        }
    }
}

/// Puts a slot on the list of ready ones.
pub fn push_ready(header: &Header, index: usize) {
    let slot = &header.slots[index];
    slot.state.store(SLOT_READY, Ordering::Release);
    let mut top = header.ready_top.load(Ordering::Acquire);
    loop {
        slot.next_ready.store(top as u32, Ordering::Relaxed);
        let fresh = ((top >> 32) + 1) << 32 | (index as u64 + 1);
        match header.ready_top.compare_exchange(top, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => top = now,
        }
    }
}
