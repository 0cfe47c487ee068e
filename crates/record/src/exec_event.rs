//! The events that the supervisor itself writes into streams.

use retake_contract::events::{
    END_ANYWHERE, END_IN_TURN, EVENT_CALL, EVENT_END, EVENT_EXEC, EVENT_STAMPED, EVENT_START,
    EVENT_TURN, EXEC_MAPPING_CONTENT, EXEC_MAPPING_GROWS_DOWN, ITEM_TIMES, STAMP_SHIFT,
    TURN_SHARED, call_times, event, exec_area, exec_body, exec_mapping, item,
};
use retake_contract::put;
use retake_kernel::clock;
use retake_kernel::maps::Mapping;
use retake_kernel::shared::{Header, ImagePart, OPTION_STAMPS, Slot, load_content};
use std::sync::atomic::Ordering::Relaxed;

const READ_EXECUTE: u32 = (libc::PROT_READ | libc::PROT_EXEC) as u32;

fn encode(kind: u8, number: u16, value: u64, body: &[u8]) -> Vec<u8> {
    let size = event::LAYOUT_BYTES + body.len().next_multiple_of(8);
    let mut bytes = vec![0; size];
    put(&mut bytes, event::SIZE, &(size as u32).to_le_bytes());
    bytes[event::KIND] = kind;
    put(&mut bytes, event::NUMBER, &number.to_le_bytes());
    put(&mut bytes, event::VALUE, &value.to_le_bytes());
    put(&mut bytes, event::LAYOUT_BYTES, body);
    bytes
}

/// Adds a stamp to an event, on behalf of a thread that stands still.
pub(crate) fn stamped(mut bytes: Vec<u8>, header: &Header, slot: &Slot) -> Vec<u8> {
    if header.options.load(Relaxed) & OPTION_STAMPS == 0 {
        return bytes;
    }
    let now = clock::counter() >> STAMP_SHIFT;
    let before = slot.producer.stamped.swap(now, Relaxed);
    bytes.extend(now.wrapping_sub(before).to_le_bytes());
    let size = bytes.len() as u32;
    put(&mut bytes, event::SIZE, &size.to_le_bytes());
    bytes[event::FLAGS] |= EVENT_STAMPED;
    bytes
}

/// Encodes the first event of the first process.
pub(crate) fn start_event(pid: i32) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
    // Start kind and time. The exec event that follows gives them.
    body.extend([0; 16]);
    encode(EVENT_START, 0, u64::MAX, &body)
}

/// Encodes the end of a thread that did not log it. `in_turn`: the thread held the baton. `counts`:
/// under the sync policy, the sections that it ended in its last turn and the operations that it
/// ended.
pub(crate) fn end_event(status: i32, in_turn: bool, counts: Option<[u64; 2]>) -> Vec<u8> {
    encode(
        EVENT_END,
        if in_turn { END_IN_TURN } else { END_ANYWHERE },
        status as u64,
        &counts.map_or(Vec::new(), |counts| counts.map(u64::to_le_bytes).concat()),
    )
}

/// Encodes a turn of the domain that several processes share, for a thread that was killed before
/// it logged the turn.
pub(crate) fn turn_event(turn: u64) -> Vec<u8> {
    encode(EVENT_TURN, TURN_SHARED, turn, &[])
}

/// While tracing: encodes the call in which a thread died, without a return time.
pub(crate) fn unfinished_call(slot: &Slot) -> Vec<u8> {
    let entered = slot.traced.entered_ns.swap(0, Relaxed);
    let number = slot.traced.number.load(Relaxed) as u16;
    let arguments = slot.traced.arguments.each_ref().map(|argument| argument.load(Relaxed));
    let Some(row) = retake_model::table::call(number).filter(|_| entered != 0) else {
        return Vec::new();
    };
    let count = row.resolve(&arguments).0.arguments.len();
    let mut body: Vec<u8> =
        arguments[..count].iter().flat_map(|argument| argument.to_le_bytes()).collect();
    let mut times = [0; item::LAYOUT_BYTES + call_times::LAYOUT_BYTES];
    let bytes = (call_times::LAYOUT_BYTES as u32).to_le_bytes();
    times[item::DIRECTION] = ITEM_TIMES;
    put(&mut times, item::INLINE_BYTES, &bytes);
    put(&mut times, item::TOTAL_BYTES, &bytes);
    put(&mut times, item::LAYOUT_BYTES + call_times::ENTERED_NS, &entered.to_le_bytes());
    body.extend(times);
    encode(EVENT_CALL, number, 0, &body)
}

/// The exec event: an address space right after exec.
pub(crate) struct ExecEvent {
    head: [u8; exec_body::LAYOUT_BYTES],
    program_counter: u64,
    mappings: Vec<u8>,
    mapping_count: u64,
    areas: Vec<u8>,
    area_count: u64,
}

impl ExecEvent {
    pub fn new(
        registers: &libc::user_regs_struct,
        break_start: u64,
        stack_limit: u64,
        slot: &Slot,
    ) -> Self {
        let (ignored, mask) =
            (slot.carried.ignored_signals.load(Relaxed), slot.carried.altered_mask.load(Relaxed));
        let mut head = [0; exec_body::LAYOUT_BYTES];
        for (offset, value) in [
            (exec_body::PROGRAM_COUNTER, registers.rip),
            (exec_body::STACK_POINTER, registers.rsp),
            (exec_body::BREAK_START, break_start),
            (exec_body::IGNORED, ignored),
            (exec_body::MASK, mask),
            (exec_body::STACK_LIMIT, stack_limit),
        ] {
            put(&mut head, offset, &value.to_le_bytes());
        }
        Self {
            head,
            program_counter: registers.rip,
            mappings: Vec::new(),
            mapping_count: 0,
            areas: Vec::new(),
            area_count: 0,
        }
    }

    fn add(
        &mut self,
        start: u64,
        end: u64,
        protection: u32,
        flags: u32,
        offset: u64,
        content: &[u8; 32],
    ) {
        let mut bytes = [0; exec_mapping::LAYOUT_BYTES];
        put(&mut bytes, exec_mapping::START, &start.to_le_bytes());
        put(&mut bytes, exec_mapping::END, &end.to_le_bytes());
        put(&mut bytes, exec_mapping::PROTECTION, &protection.to_le_bytes());
        put(&mut bytes, exec_mapping::FLAGS, &flags.to_le_bytes());
        put(&mut bytes, exec_mapping::OFFSET, &offset.to_le_bytes());
        put(&mut bytes, exec_mapping::CONTENT, content);
        self.mappings.extend(bytes);
        self.mapping_count += 1;
    }

    pub fn add_anonymous(&mut self, mapping: &Mapping, grows_down: bool) {
        self.add(
            mapping.start,
            mapping.end,
            mapping.protection(),
            if grows_down { EXEC_MAPPING_GROWS_DOWN } else { 0 },
            0,
            &[0; 32],
        );
    }

    pub fn add_file(&mut self, header: &Header, mapping: &Mapping, index: usize) {
        let content = load_content(&header.files[index].content);
        self.add(
            mapping.start,
            mapping.end,
            mapping.protection(),
            EXEC_MAPPING_CONTENT,
            mapping.offset,
            &content,
        );
    }

    /// Adds the patched text that overlays a file's own text, and the stubs.
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
        self.add(
            start,
            start + part.bytes.load(Relaxed),
            READ_EXECUTE,
            EXEC_MAPPING_CONTENT,
            0,
            &load_content(&part.content),
        );
    }

    pub fn add_area(&mut self, address: u64, bytes: &[u8]) {
        let mut head = [0; exec_area::LAYOUT_BYTES];
        put(&mut head, exec_area::ADDRESS, &address.to_le_bytes());
        put(&mut head, exec_area::BYTES, &(bytes.len() as u64).to_le_bytes());
        self.areas.extend(head);
        self.areas.extend(bytes);
        self.areas.resize(self.areas.len().next_multiple_of(8), 0);
        self.area_count += 1;
    }

    pub fn encode(mut self) -> Vec<u8> {
        put(&mut self.head, exec_body::MAPPING_COUNT, &self.mapping_count.to_le_bytes());
        put(&mut self.head, exec_body::AREA_COUNT, &self.area_count.to_le_bytes());
        encode(
            EVENT_EXEC,
            0,
            self.program_counter,
            &[&self.head[..], &self.mappings, &self.areas].concat(),
        )
    }
}
