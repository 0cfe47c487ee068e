//! The bodies of the events that the supervisor writes itself, as `runtime/include/events.h` lays them out.

use retake_kernel::maps::Mapping;
use retake_kernel::shared::{Header, ImagePart, Slot, load_content};
use std::sync::atomic::Ordering::Relaxed;

const KIND_CALL: u8 = 1;
const KIND_EXEC: u8 = 6;
const KIND_START: u8 = 7;
const KIND_TURN: u8 = 8;
const KIND_END: u8 = 11;
const TURN_SHARED: u8 = 2;
const TIMES: u8 = 6;
const HAS_CONTENT: u32 = 1;
const GROWS_DOWN: u32 = 2;
const READ_EXECUTE: u32 = 5;

fn event(kind: u8, value: u64, body: &[u8]) -> Vec<u8> {
    let size = 16 + body.len().next_multiple_of(8);
    let mut bytes = Vec::with_capacity(size);
    bytes.extend((size as u32).to_le_bytes());
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend(value.to_le_bytes());
    bytes.extend(body);
    bytes.resize(size, 0);
    bytes
}

/// The first event of the first process.
pub(crate) fn start_event(pid: i32) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
    body.extend([0; 16]); // how, and the time, which an exec event says
    event(KIND_START, u64::MAX, &body)
}

/// A thread ended without saying so. `sections`: under the sync policy, how many it ended in its last turn.
pub(crate) fn end_event(status: i32, sections: Option<u64>) -> Vec<u8> {
    event(KIND_END, status as u64, &sections.map_or(Vec::new(), |count| count.to_le_bytes().to_vec()))
}

/// A turn among processes that share memory, taken by a thread that was killed before it could say so.
pub(crate) fn turn_event(turn: u64) -> Vec<u8> {
    let mut bytes = event(KIND_TURN, turn, &[]);
    bytes[6] = TURN_SHARED;
    bytes
}

/// While tracing: the call in which a thread was when it died, without a time at which it returned.
pub(crate) fn unfinished_call(slot: &Slot) -> Vec<u8> {
    let entered = slot.lines.call_entered_ns.swap(0, Relaxed);
    let number = slot.lines.call_number.load(Relaxed) as u16;
    let arguments = slot.lines.call_arguments.each_ref().map(|argument| argument.load(Relaxed));
    let Some(row) = retake_model::table::call(number).filter(|_| entered != 0) else { return Vec::new() };
    let count = row.resolve(&arguments).0.arguments.len();
    let mut body: Vec<u8> = arguments[..count].iter().flat_map(|argument| argument.to_le_bytes()).collect();
    body.extend([0, TIMES, 0, 0, 24, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0]);
    for word in [0, entered, 0, 0] {
        body.extend(word.to_le_bytes());
    }
    let mut bytes = event(KIND_CALL, 0, &body);
    bytes[6..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// An address space right after exec.
pub(crate) struct ExecEvent {
    head: [u64; 6],
    mappings: Vec<u8>,
    mapping_count: u64,
    areas: Vec<u8>,
    area_count: u64,
}

impl ExecEvent {
    pub fn new(registers: &libc::user_regs_struct, break_start: u64, stack_limit: u64, slot: &Slot) -> Self {
        let (ignored, mask) = (slot.lines.ignored_signals.load(Relaxed), slot.lines.altered_mask.load(Relaxed));
        let head = [registers.rip, registers.rsp, break_start, ignored, mask, stack_limit];
        Self { head, mappings: Vec::new(), mapping_count: 0, areas: Vec::new(), area_count: 0 }
    }

    fn add(&mut self, start: u64, end: u64, protection: u32, flags: u32, offset: u64, content: &[u8; 32]) {
        for value in [start, end] {
            self.mappings.extend(value.to_le_bytes());
        }
        for value in [protection, flags] {
            self.mappings.extend(value.to_le_bytes());
        }
        self.mappings.extend(offset.to_le_bytes());
        self.mappings.extend(content);
        self.mapping_count += 1;
    }

    pub fn add_anonymous(&mut self, mapping: &Mapping, grows_down: bool) {
        self.add(mapping.start, mapping.end, mapping.protection(), if grows_down { GROWS_DOWN } else { 0 }, 0, &[0; 32]);
    }

    pub fn add_file(&mut self, header: &Header, mapping: &Mapping, index: usize) {
        let content = load_content(&header.files[index].content);
        self.add(mapping.start, mapping.end, mapping.protection(), HAS_CONTENT, mapping.offset, &content);
    }

    /// The patched text over a file's own, and its stubs.
    pub fn add_overlays(&mut self, header: &Header, index: usize, bias: u64) {
        let file = &header.files[index];
        let parts = file.part_count.load(Relaxed) as usize;
        if parts == 0 {
            return;
        }
        for part in file.parts[..parts].iter().chain([&file.stubs]) {
            self.add_part(part, bias);
        }
    }

    fn add_part(&mut self, part: &ImagePart, bias: u64) {
        let start = bias.wrapping_add(part.address.load(Relaxed));
        self.add(start, start + part.bytes.load(Relaxed), READ_EXECUTE, HAS_CONTENT, 0, &load_content(&part.content));
    }

    pub fn add_area(&mut self, address: u64, bytes: &[u8]) {
        self.areas.extend(address.to_le_bytes());
        self.areas.extend((bytes.len() as u64).to_le_bytes());
        self.areas.extend(bytes);
        self.areas.resize(self.areas.len().next_multiple_of(8), 0);
        self.area_count += 1;
    }

    pub fn encode(self) -> Vec<u8> {
        let mut body: Vec<u8> = self.head.iter().chain([&self.mapping_count, &self.area_count]).flat_map(|value| value.to_le_bytes()).collect();
        body.extend(self.mappings);
        body.extend(self.areas);
        event(KIND_EXEC, self.head[0], &body)
    }
}
