//! Calls that the eBPF programs could not read whole: those of held threads, and those that end
//! with another program.

use super::thread::Thread;
use crate::call;
use crate::walk::{self, Memory};
use crate::{Error, Result};
use retake_model::event::EXEC_COMMITTED;
use retake_model::table::number;
use retake_model::{CallRef, parse_event};
use retake_record::EventLog;
use retake_trace_format::{BufferDirection, TracedBuffer, TracedCall};
use std::fs;

const EXECVEAT: u32 = number::EXECVEAT as u32;
const ITEM_HEADER_BYTES: usize = 24;

/// Returns the arguments that items belong to, as a bit mask.
fn arguments_of(items: &[u8]) -> u32 {
    let (mut rest, mut found) = (items, 0);
    while let Some(header) = rest.get(..ITEM_HEADER_BYTES) {
        found |= 1 << u32::from(header[0]).min(31);
        let bytes = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        rest = rest.get(ITEM_HEADER_BYTES + bytes.next_multiple_of(8)..).unwrap_or_default();
    }
    found
}

/// Makes the event of a call, with data from the memory of its thread. Data taken at entry are not
/// read again. `before` has the value-result lengths at entry. They are unknown if `is_faulted`.
pub(super) fn held_call(
    memory: Memory,
    thread: &Thread,
    event: &[u8],
    before: [u64; 6],
    is_faulted: bool,
) -> Result<Vec<u8>> {
    let malformed = |error| Error::Malformed { stream: thread.stream, index: 0, error };
    let (event, _) = parse_event(event).map_err(malformed)?;
    let Some(call) = event.as_call() else { return Ok(Vec::new()) };
    let mut traced = of_thread(&call, thread);
    traced.buffers.clear();
    walk::inputs(memory, &mut traced);
    let taken = arguments_of(&thread.inputs);
    traced.buffers.retain(|buffer| taken & 1 << buffer.argument == 0);
    walk::outputs(memory, &mut traced, if is_faulted { [u64::MAX; 6] } else { before });
    Ok(call::to_event(&traced))
}

/// Makes the record of a thread's call, without its data.
pub(super) fn of_thread(call: &CallRef<'_>, thread: &Thread) -> TracedCall {
    call::from_event(call, thread.process as u32, thread.tid as u32, &mut |_| None)
}

/// Adds the call that led to a new program, if there is one. It is reported when the program
/// begins.
pub(super) fn end_exec(thread: &mut Thread, log: &dyn EventLog) -> Result<()> {
    let Some(exec) = thread.exec.take() else { return Ok(()) };
    let Some(asked) = exec.call else { return Ok(()) };
    let (process, tid) = (thread.process as u32, thread.tid as u32);
    let mut call = TracedCall {
        process,
        thread: tid,
        number: asked.number,
        entered_ns: asked.entered_ns,
        ..TracedCall::default()
    };
    (call.arguments, call.result) = (asked.arguments, EXEC_COMMITTED);
    call::forget_unused_arguments(&mut call);
    if exec.is_faulted {
        thread.inputs.clear();
        call.buffers = inputs_of_exec(&call, &exec.path, thread.process);
    }
    thread.call(log, &call::to_event(&call))
}

/// Reads the inputs of an exec from the new program, because the memory of the old one is gone.
fn inputs_of_exec(call: &TracedCall, path: &[u8], process: i32) -> Vec<TracedBuffer> {
    let first = u8::from(call.number == EXECVEAT);
    let input = |argument: u8, address: u64, data: Vec<u8>| {
        let total_bytes = data.len() as u64;
        TracedBuffer {
            argument,
            direction: BufferDirection::Input,
            address,
            total_bytes,
            data: data.into(),
        }
    };
    let mut buffers = vec![input(first, call.arguments[usize::from(first)], path.to_vec())];
    for (argument, file) in [(first + 1, "cmdline"), (first + 2, "environ")] {
        let array = call.arguments[usize::from(argument)];
        let text = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let strings: Vec<&[u8]> = text
            .split_inclusive(|byte| *byte == 0)
            .map(|string| string.strip_suffix(&[0]).unwrap_or(string))
            .collect();
        // Their addresses are unknown. Numbers instead of addresses tell them apart.
        let pointers: Vec<u8> = (1..=strings.len() as u64).flat_map(u64::to_le_bytes).collect();
        buffers.push(input(argument, array, pointers));
        buffers.extend(
            strings
                .iter()
                .zip(1..)
                .map(|(string, address)| input(argument, address, string.to_vec())),
        );
    }
    buffers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_items_are_found() {
        let item = |argument: u8, bytes: u8| {
            [
                &[argument, 0, 0, 0, bytes, 0, 0, 0][..],
                &[0; 16],
                &vec![7; usize::from(bytes).next_multiple_of(8)],
            ]
            .concat()
        };
        assert_eq!(arguments_of(&[item(1, 3), item(4, 16), item(5, 0)].concat()), 0b11_0010);
        assert_eq!(arguments_of(&[]), 0);
        assert_eq!(arguments_of(&[0xff; 30]), 1 << 31);
    }
}
