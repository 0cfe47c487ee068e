//! Records for tests.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::Cursor;

use proptest::prelude::*;
use retake_model::table::{self, ArgumentKind, Direction, Pointer, Shape};
use retake_trace_format::{
    BufferDirection, Credentials, DescriptorKind, MappedPages, ProcessStart, ResourceLimit,
    StartDescriptor, StartKind, TraceReader, TraceReaderOptions, TraceRecord, TraceWriter,
    TraceWriterOptions, TracedBuffer, TracedCall,
};

/// Writes records and returns the file.
pub fn write(records: &[TraceRecord], options: TraceWriterOptions) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), options).expect("a new trace");
    for record in records {
        writer.write(record).expect("a record in order");
    }
    writer.finish().expect("a whole trace")
}

/// Reads all records of a file.
pub fn read(bytes: &[u8]) -> Vec<TraceRecord> {
    let reader =
        TraceReader::new(Cursor::new(bytes), &TraceReaderOptions::default()).expect("a trace");
    reader.map(|record| record.expect("a record")).collect()
}

/// Returns a call with arguments and a result only.
pub fn call(id: u64, name: &str, arguments: &[u64], result: i64) -> TracedCall {
    let mut registers = [0; 6];
    registers[..arguments.len()].copy_from_slice(arguments);
    TracedCall {
        id,
        process: 100,
        thread: 101,
        entered_ns: 1_700_000_000_000_000_000 + id * 1000,
        returned_ns: 1_700_000_000_000_000_500 + id * 1000,
        processor: 1,
        number: u32::from(table::call_by_name(name).expect("a call of the table").number),
        result,
        arguments: registers,
        buffers: Vec::new(),
    }
}

/// Returns a whole buffer.
pub fn buffer(argument: u8, direction: BufferDirection, address: u64, data: &[u8]) -> TracedBuffer {
    TracedBuffer { argument, direction, address, total_bytes: data.len() as u64, data: data.into() }
}

/// Adds buffers at the address of their argument.
pub trait WithBuffers: Sized {
    /// Adds a buffer that the call read.
    fn input(self, argument: u8, data: &[u8]) -> Self;
    /// Adds a buffer that the kernel wrote.
    fn output(self, argument: u8, data: &[u8]) -> Self;
}

impl WithBuffers for TracedCall {
    fn input(mut self, argument: u8, data: &[u8]) -> Self {
        let address = self.arguments[usize::from(argument)];
        self.buffers.push(buffer(argument, BufferDirection::Input, address, data));
        self
    }

    fn output(mut self, argument: u8, data: &[u8]) -> Self {
        let address = self.arguments[usize::from(argument)];
        self.buffers.push(buffer(argument, BufferDirection::Output, address, data));
        self
    }
}

fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), range)
}

/// Adds buffers as the table describes them, as real calls have them.
fn plausible_buffers(call: &mut TracedCall, seed: &[u8]) {
    let row = table::call(call.number as u16).expect("a number of the table");
    let (row, _) = row.resolve(&call.arguments);
    for (index, argument) in row.arguments.iter().enumerate() {
        if let ArgumentKind::Pointer(pointer) = &argument.kind {
            add_plausible(call, index as u8, pointer, seed);
        }
    }
    call.buffers.sort_by_key(|buffer| buffer.direction);
}

fn add_plausible(call: &mut TracedCall, index: u8, pointer: &Pointer, seed: &[u8]) {
    let address = call.arguments[usize::from(index)];
    let failed = call.failed();
    match pointer.shape {
        Shape::String => call.buffers.push(buffer(index, BufferDirection::Input, address, seed)),
        Shape::Iovec => {
            let vector: Vec<u8> = [0x5000_u64, 3, 0x6000, 0, 0x7000, 9]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            call.buffers.push(buffer(index, BufferDirection::Input, address, &vector));
            let direction = if pointer.direction == Direction::In {
                BufferDirection::Input
            } else {
                BufferDirection::Output
            };
            call.buffers.push(buffer(index, direction, 0x5000, b"abc"));
            call.buffers.push(buffer(index, direction, 0x7000, &seed[..seed.len().min(9)]));
        }
        Shape::Strings => {
            call.buffers.push(buffer(index, BufferDirection::Input, address, &[7; 16]));
            call.buffers.push(buffer(index, BufferDirection::Input, 0x8000, b"one"));
            call.buffers.push(buffer(index, BufferDirection::Input, 0x8100, b""));
        }
        _ => {
            let wanted = usize::from(pointer.element_bytes) * pointer.count.max(1) as usize;
            let counted = call.result.clamp(0, 600) as usize;
            let bytes = if pointer.element_bytes == 1 { counted } else { wanted };
            let data: Vec<u8> =
                seed.iter().copied().chain(std::iter::repeat(1)).take(bytes).collect();
            if pointer.direction != Direction::Out {
                call.buffers.push(buffer(index, BufferDirection::Input, address, &data));
            }
            if pointer.direction != Direction::In && !failed {
                call.buffers.push(buffer(index, BufferDirection::Output, address, &data));
            }
        }
    }
}

fn any_buffer() -> impl Strategy<Value = TracedBuffer> {
    (0..6_u8, any::<bool>(), prop_oneof![Just(0x1000), any::<u64>()], 0..9_u64, bytes(0..40))
        .prop_map(|(argument, output, address, more, data)| {
            let direction = if output { BufferDirection::Output } else { BufferDirection::Input };
            TracedBuffer {
                argument,
                direction,
                address,
                total_bytes: data.len() as u64 + more / 6,
                data: data.into(),
            }
        })
}

/// Generates calls: plausible ones, and ones that no kernel would make.
pub fn any_call() -> impl Strategy<Value = TracedCall> {
    let number = prop_oneof![
        4 => 0..table::CALLS.len() as u32,
        3 => proptest::sample::select(vec![0_u32, 1, 2, 4, 16, 17, 19, 20, 22, 46, 47, 59, 72, 257,
            280, 295, 322, 332, 437]),
        1 => Just(5000_u32),
    ];
    let result = prop_oneof![Just(0), 1..64_i64, -40..0_i64, any::<i64>()];
    let times = (any::<u64>(), prop_oneof![3 => 1..u64::MAX, 1 => Just(0)]);
    let arguments =
        proptest::array::uniform6(prop_oneof![Just(0_u64), Just(0x1000), 0..64_u64, any::<u64>()]);
    let buffers = proptest::collection::vec(any_buffer(), 0..5);
    (
        number,
        result,
        times,
        arguments,
        buffers,
        bytes(0..30),
        any::<bool>(),
        any::<(u32, u32, u32)>(),
    )
        .prop_map(
            |(
                number,
                result,
                (entered_ns, returned_ns),
                mut arguments,
                buffers,
                seed,
                is_plausible,
                (process, thread, processor),
            )| {
                let row = u16::try_from(number).ok().and_then(table::call);
                // Registers beyond the arguments are 0. Calls without a type of their own keep all
                // six.
                let count = row.filter(|row| row.named).map_or(6, |row| row.row.arguments.len());
                arguments[count..].fill(0);
                let mut call = TracedCall {
                    id: 0,
                    process,
                    thread,
                    entered_ns,
                    returned_ns,
                    processor,
                    number,
                    result,
                    arguments,
                    buffers: Vec::new(),
                };
                match row.filter(|_| is_plausible) {
                    Some(_) => plausible_buffers(&mut call, &seed),
                    None => call.buffers = buffers,
                }
                call
            },
        )
}

fn any_start() -> impl Strategy<Value = ProcessStart> {
    let descriptor = (any::<u32>(), bytes(0..20), 0..9_usize, any::<u64>(), any::<u32>());
    let descriptors = proptest::collection::vec(descriptor, 0..4);
    let limits = proptest::collection::vec(any::<(u32, u64, u64)>(), 0..4);
    let arguments = proptest::collection::vec(proptest::collection::vec(1..255_u8, 0..5), 0..4);
    let ids = any::<(u64, u32, u32, u32, u32, u32, u32)>();
    (
        ids,
        0..3_usize,
        bytes(0..20),
        descriptors,
        limits,
        arguments,
        any::<[u32; 8]>(),
        proptest::collection::vec(any::<u32>(), 0..4),
    )
        .prop_map(
            |(
                (time_ns, process, thread, parent, session, process_group, umask),
                how,
                path,
                descriptors,
                limits,
                arguments,
                ids,
                groups,
            )| ProcessStart {
                id: 0,
                time_ns,
                process,
                thread,
                parent,
                session,
                process_group,
                how: [StartKind::Exec, StartKind::Fork, StartKind::Attach][how],
                working_directory: path.clone(),
                root: b"/".to_vec(),
                umask,
                descriptors: descriptors.into_iter().map(start_descriptor).collect(),
                limits: limits
                    .into_iter()
                    .map(|(resource, soft, hard)| ResourceLimit { resource, soft, hard })
                    .collect(),
                credentials: Credentials {
                    uid: ids[0],
                    effective_uid: ids[1],
                    saved_uid: ids[2],
                    filesystem_uid: ids[3],
                    gid: ids[4],
                    effective_gid: ids[5],
                    saved_gid: ids[6],
                    filesystem_gid: ids[7],
                    groups,
                },
                executable: path,
                arguments,
            },
        )
}

fn start_descriptor(
    (number, path, kind, offset, flags): (u32, Vec<u8>, usize, u64, u32),
) -> StartDescriptor {
    const KINDS: [DescriptorKind; 9] = [
        DescriptorKind::File,
        DescriptorKind::Directory,
        DescriptorKind::CharacterDevice,
        DescriptorKind::BlockDevice,
        DescriptorKind::Pipe,
        DescriptorKind::Socket,
        DescriptorKind::SymbolicLink,
        DescriptorKind::Anonymous,
        DescriptorKind::Unknown,
    ];
    StartDescriptor { number, path, kind: KINDS[kind], offset, flags }
}

fn any_pages() -> impl Strategy<Value = MappedPages> {
    (any::<(u64, u32, u32, bool, u64, u64)>(), bytes(0..9), bytes(0..50)).prop_map(
        |((time_ns, process, thread, write, file_offset, address), path, data)| MappedPages {
            id: 0,
            time_ns,
            process,
            thread,
            write,
            path,
            file_offset,
            address,
            data,
        },
    )
}

/// Generates whole traces. Ids rise by one from `first`.
pub fn any_trace(records: std::ops::Range<usize>) -> impl Strategy<Value = Vec<TraceRecord>> {
    let record = prop_oneof![
        12 => any_call().prop_map(TraceRecord::Call),
        1 => any_start().prop_map(|start| TraceRecord::ProcessStart(Box::new(start))),
        1 => any_pages().prop_map(TraceRecord::MappedPages),
        1 => "[a-z]{0,9}".prop_map(TraceRecord::Incomplete),
    ];
    (proptest::collection::vec(record, records), 0..3_u64).prop_map(|(mut records, mut id)| {
        for record in &mut records {
            match record {
                TraceRecord::Call(call) => call.id = id,
                TraceRecord::ProcessStart(start) => start.id = id,
                TraceRecord::MappedPages(pages) => pages.id = id,
                TraceRecord::Incomplete(_) => continue,
            }
            id += 1;
        }
        records
    })
}
