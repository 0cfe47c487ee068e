//! Tests of the event parser: it reads complete events, reports errors for others, and never
//! panics.

mod common;

use common::{TestItem, call, event, input, items, output};
use proptest::prelude::*;
use retake_model::event::{Console, Fault, event_size};
use retake_model::print::{TextOptions, event_line};
use retake_model::table::number;
use retake_model::{Event, EventError, EventKind, ItemDirection, Pid, StreamId, parse_event};

#[test]
fn a_call_is_read_back() {
    let bytes = call("read", &[3, 0x1000, 832], 4, &[output(1, 0x1000, b"\x7fELF")]);
    let (event, size) = parse_event(&bytes).unwrap();
    assert_eq!(size, bytes.len());
    assert_eq!(event_size(&bytes), Ok(size));
    let call = event.as_call().unwrap();
    assert_eq!((call.number(), call.result()), (0, 4));
    assert_eq!(call.arguments().collect::<Vec<_>>(), [3, 0x1000, 832]);
    assert_eq!(call.argument(2), Some(832));
    assert_eq!(call.argument(3), None);
    let item = call.items_of(1, ItemDirection::Output).next().unwrap();
    assert_eq!(item.inline_bytes(), b"\x7fELF");
    assert_eq!((item.total_bytes(), item.hash(), item.address()), (4, 0x1234_5678, 0x1000));
    assert_eq!((call.child(), call.console()), (None, None));
}

#[test]
fn the_sub_row_decides_how_many_arguments_there_are() {
    // prctl has five arguments; PR_GET_NAME (16) has two.
    let bytes = call("prctl", &[16, 0x1000], 0, &[output(1, 0x1000, b"name\0")]);
    let (event, _) = parse_event(&bytes).unwrap();
    let call = event.as_call().unwrap();
    assert_eq!(call.arguments().len(), 2);
    assert_eq!(call.items().count(), 1);
    assert_eq!(call.row().unwrap().1.unwrap().name, "PR_GET_NAME");
}

#[test]
fn a_number_beyond_the_table_has_no_arguments() {
    let bytes = event(EventKind::Call, 0, 9999, -38, &[]);
    let (event, _) = parse_event(&bytes).unwrap();
    assert_eq!(event.as_call().unwrap().arguments().len(), 0);
    let line = event_line(&event, &TextOptions::default());
    assert_eq!(line, "syscall_9999() = -1 ENOSYS (Function not implemented)");
}

/// The recorder's table may have been older than this one, or newer.
#[test]
fn calls_of_other_tables_are_read_or_named() {
    let older = event(EventKind::Call, 0, number::READ, -38, &[]);
    let (read, _) = parse_event(&older).unwrap();
    let call = read.as_call().unwrap();
    assert_eq!((call.arguments().len(), call.items().count()), (0, 0));
    assert!(call.row().is_none() && call.call_row().is_none());
    let line = event_line(&read, &TextOptions::default());
    assert_eq!(line, "syscall_0() = -1 ENOSYS (Function not implemented)");
    let newer = event(EventKind::Call, 0, 9999, 0, &words(&[1, 0xff00, 3]));
    let error = parse_event(&newer).unwrap_err();
    assert_eq!(error, EventError::UnknownCall { number: 9999 });
    assert!(error.to_string().contains("a newer one made the recording"));
}

#[test]
fn children_and_console_output_are_found() {
    let child = TestItem { direction: 2, ..input(0, 0, &7_u32.to_le_bytes()) };
    let bytes = call("fork", &[], 1234, &[child]);
    assert_eq!(parse_event(&bytes).unwrap().0.as_call().unwrap().child(), Some(StreamId(7)));

    let sequence = TestItem { direction: 4, ..input(0, 0, &99_u64.to_le_bytes()) };
    let mut bytes = call("write", &[1, 0x1000, 2], 2, &[input(1, 0x1000, b"hi"), sequence.clone()]);
    assert_eq!(parse_event(&bytes).unwrap().0.as_call().unwrap().console(), None);
    bytes[5] = 2;
    let console = parse_event(&bytes).unwrap().0.as_call().unwrap().console();
    assert_eq!(console, Some((Console::Err, 99)));

    // Too short for a child or console output.
    let short = [TestItem { data: vec![1], ..sequence }];
    let mut bytes = call("write", &[1, 0x1000, 2], 2, &short);
    bytes[5] = 1;
    assert_eq!(parse_event(&bytes).unwrap().0.as_call().unwrap().console(), None);
}

#[test]
fn mappings_are_read() {
    let mut data = vec![0xaa; 32];
    for word in [8_u64, 9, 1, 0x7000, 0x2000] {
        data.extend(word.to_le_bytes());
    }
    data.extend([0xbb; 32]);
    data.extend([0; 48]);
    let mapping = |data: &[u8]| TestItem { direction: 3, ..input(4, 0x7000, data) };
    let bytes = call("mmap", &[0, 0x2000, 5, 2, 3, 0], 0x7000, &[mapping(&data)]);
    let (event, _) = parse_event(&bytes).unwrap();
    let item = event.as_call().unwrap().items().next().unwrap();
    let read = item.mapping().unwrap();
    assert_eq!((read.device, read.inode), (8, 9));
    assert_eq!(read.content.0, [0xaa; 32]);
    assert_eq!(read.overlays.len(), 1);
    assert_eq!(read.overlays[0].content.0, [0xbb; 32]);

    data[48] = 3;
    let bytes = call("mmap", &[0, 0x2000, 5, 2, 3, 0], 0x7000, &[mapping(&data)]);
    let (event, _) = parse_event(&bytes).unwrap();
    assert_eq!(event.as_call().unwrap().items().next().unwrap().mapping(), None);
}

/// Kind, flags, number, value, body, and the expected line.
type Case = (EventKind, u8, u16, i64, Vec<u8>, &'static str);

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn of_the_program() -> Vec<Case> {
    let mut signal_body = vec![0; 128];
    signal_body[..4].copy_from_slice(&11_u32.to_le_bytes());
    signal_body[8] = 1;
    let mut with_fault = signal_body.clone();
    with_fault.extend(words(&[6, 14, 0x10]));
    vec![
        (
            EventKind::Signal,
            1,
            11,
            0,
            with_fault,
            "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, \
             si_addr=0x0} (before the call) ---",
        ),
        (
            EventKind::Fatal,
            0,
            11,
            5,
            signal_body,
            "+++ killed by SIGSEGV +++ memory 0000000000000005",
        ),
        (
            EventKind::Exit,
            0,
            231,
            3,
            words(&[7, 8]),
            "+++ exited with 3 +++ memory 0000000000000007, 8 pages",
        ),
        (EventKind::Tsc, 0, 0, 100, vec![], "rdtsc = 100"),
        (EventKind::Tsc, 0, 1, 100, words(&[2]), "rdtscp = 100, 0x2"),
        (
            EventKind::Exec,
            0,
            0,
            0,
            words(&[0x401000, 0, 0, 0, 0, 0, 0, 0]),
            "exec: begins at 0x401000 with 0 mappings",
        ),
        (
            EventKind::Start,
            0,
            0,
            2,
            words(&[5 | 6 << 32, 1]),
            "start: process 5, thread 6, made by stream 2",
        ),
        (
            EventKind::Start,
            0,
            0,
            -1,
            words(&[5 | 5 << 32, 0]),
            "start: process 5, thread 5, the first",
        ),
        (EventKind::Turn, 0, 0, 12, vec![], "turn 12"),
        (
            EventKind::Forced,
            0,
            15,
            1,
            vec![],
            "stopped between events by SIGTERM, memory 0000000000000001",
        ),
        (EventKind::End, 0, 0, 9, vec![], "+++ died +++ wait status 0x9"),
    ]
}

/// If no memory hash was taken, none is shown.
fn without_a_hash() -> [Case; 3] {
    [
        (EventKind::Fatal, 0, 11, 0, vec![0; 128], "+++ killed by SIGSEGV +++"),
        (EventKind::Exit, 0, 231, 3, words(&[0, 0]), "+++ exited with 3 +++"),
        (EventKind::Forced, 0, 0, 0, vec![], "stopped between events"),
    ]
}

fn of_the_recorder() -> Vec<Case> {
    vec![
        (EventKind::Hash, 0, 0, -1, words(&[3]), "memory ffffffffffffffff, 3 pages"),
        (EventKind::Turn, 0, 3, 0, vec![], "turn given away"),
        (EventKind::Passage, 0, 0, 77, vec![], "turn given away at passage 77"),
        (EventKind::Passage, 0, 1, 77, vec![], "turn given away in round 77 of spinning"),
        (
            EventKind::Thread,
            0,
            0,
            4,
            words(&[1_000_000, 2_500_000, 30, 2, 1, 7, 3, 5, 1_250_000]),
            "thread of stream 4: from 1.000 to 2.500 ms, 30 calls (2 dispatched), 1 signals, 7 \
            turns, 3 forced, waited 5 times for 1.250 ms",
        ),
        (
            EventKind::Compare,
            0,
            0,
            7,
            words(&[1, 0x246, 3, 5]),
            "compare-and-exchange that failed: saw 0x7, 0x1",
        ),
        (
            EventKind::After,
            0,
            0,
            7,
            words(&[4, 2, 3 | 9 << 32]),
            "operation 4 after 7 of stream 3, by clock 9",
        ),
        (
            EventKind::Time,
            0,
            0,
            7,
            words(&[1000, 30]),
            "counter 7 at 1000 ns since 1970, 30 ns monotonic",
        ),
        (
            EventKind::Time,
            1,
            0,
            7,
            words(&[1000, 30]),
            "counter 7 at 1000 ns since 1970, 30 ns monotonic; all events before it are here",
        ),
        (
            EventKind::Reached,
            0,
            0,
            7,
            words(&[3, 4, 5]),
            "stream 7 had come to turn 3, section 4, operation 5",
        ),
        (EventKind::State, 0, 0, 2, words(&[0x7d7b]), "state: {}"),
        (
            EventKind::Dropped,
            0,
            0,
            0,
            words(&[2, 30, 400, 5_000_000, 1, 0, 0, 4, 6]),
            "dropped: 2 processes, ended by 5.000 ms: 2 streams, the rest of 0, 30 events, 400 \
            bytes",
        ),
    ]
}

#[test]
fn every_kind_is_decoded_and_has_a_line() {
    for (kind, flags, number, value, body, line) in
        of_the_program().into_iter().chain(without_a_hash()).chain(of_the_recorder())
    {
        let bytes = event(kind, flags, number, value, &body);
        let (parsed, size) = parse_event(&bytes).unwrap();
        assert_eq!((size, parsed.kind()), (bytes.len(), kind));
        assert_eq!(event_line(&parsed, &TextOptions::default()), line);
        if kind == EventKind::Signal {
            let Event::Signal(signal) = parsed.decode() else { panic!("not a signal") };
            assert_eq!(
                signal.fault(),
                Some(Fault { error_code: 6, trap_number: 14, address: 0x10 })
            );
            assert!(signal.before_call());
        }
        if kind == EventKind::Start {
            let Event::Start { parent, pid, tid, how } = parsed.decode() else {
                panic!("not a start")
            };
            let expected = if value < 0 {
                (None, Pid(5), Pid(5), 0)
            } else {
                (Some(StreamId(2)), Pid(5), Pid(6), 1)
            };
            assert_eq!((parent, pid, tid, how), expected);
        }
        // A body that lacks one word is refused.
        if !body.is_empty() && !matches!(kind, EventKind::Signal | EventKind::State) {
            let bytes = event(kind, flags, number, value, &body[8..]);
            assert!(parse_event(&bytes).is_err(), "{kind:?}");
        }
    }
}

/// A stamp is the last word, and belongs neither to the body nor to a call's items.
#[test]
fn stamps_lie_behind_the_body() {
    const STAMPED: u8 = 0x80;
    let plain = call("read", &[3, 0x1000, 832], 4, &[output(1, 0x1000, b"\x7fELF")]);
    let stamped = |flags: u8| {
        let mut bytes = plain.clone();
        bytes.extend(3_u64.to_le_bytes());
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[5] = flags;
        bytes
    };
    let bytes = stamped(STAMPED | 1);
    let (event, size) = parse_event(&bytes).unwrap();
    let (without, _) = parse_event(&plain).unwrap();
    assert_eq!((size, event.flags()), (bytes.len(), 1));
    assert_eq!((event.counter(5), without.counter(5)), (Some(5 + (3 << 10)), None));
    assert!(event.has_stamp() && !without.has_stamp());
    assert_eq!(event.body(), without.body());
    let options = TextOptions::default();
    assert_eq!(event_line(&event, &options), event_line(&without, &options));
    assert!(parse_event(&stamped(1)).is_err(), "without the flag it would be an item");
    // There must be room for the stamp.
    let mut short = event_of_turn();
    short[5] = STAMPED;
    assert_eq!(parse_event(&short).unwrap_err(), EventError::Size { size: 16 });
}

fn event_of_turn() -> Vec<u8> {
    event(EventKind::Turn, 0, 0, 12, &[])
}

#[test]
fn malformed_events_name_what_is_wrong() {
    let good = call("read", &[3, 0x1000, 832], 4, &[output(1, 0x1000, b"\x7fELF")]);
    for end in 0..good.len() {
        let needed = if end < 16 { 16 } else { good.len() };
        let error = parse_event(&good[..end]).unwrap_err();
        assert_eq!(error, EventError::Truncated { needed, available: end });
    }
    let with = |offset: usize, bytes: &[u8]| {
        let mut event = good.clone();
        event[offset..offset + bytes.len()].copy_from_slice(bytes);
        parse_event(&event).unwrap_err()
    };
    assert_eq!(with(0, &[0; 4]), EventError::Size { size: 0 });
    assert_eq!(with(0, &[17, 0, 0, 0]), EventError::Size { size: 17 });
    assert!(matches!(with(0, &[0xf8, 0xff, 0xff, 0xff]), EventError::Truncated { .. }));
    assert_eq!(with(4, &[0]), EventError::Kind { kind: 0 });
    assert_eq!(with(4, &[99]), EventError::Kind { kind: 99 });
    assert_eq!(with(40, &[3]), EventError::ItemArgument { offset: 40, argument: 3, count: 3 });
    assert_eq!(with(41, &[200]), EventError::ItemDirection { offset: 40, direction: 200 });
    assert_eq!(
        with(44, &[0xff; 4]),
        EventError::Item { offset: 40, needed: 24 + (1 << 32), available: 32 }
    );
    assert_eq!(with(44, &[9, 0, 0, 0]), EventError::Item { offset: 40, needed: 40, available: 32 });
    assert_eq!(
        with(0, &[24, 0, 0, 0]),
        EventError::Body { kind: EventKind::Call, needed: 24, available: 8 }
    );
}

/// Calls all accessors on all data.
fn exercise(bytes: &[u8]) {
    let Ok((event, size)) = parse_event(bytes) else {
        return;
    };
    assert!(size >= 16 && size <= bytes.len() && size % 8 == 0);
    let line = event_line(
        &event,
        &TextOptions { string_bytes: 16, element_count: 4, ..TextOptions::default() },
    );
    assert!(!line.is_empty());
    match event.decode() {
        Event::Call(call) => {
            let counted: usize =
                call.items().map(|item| 24 + item.inline_bytes().len().next_multiple_of(8)).sum();
            assert_eq!(
                counted + call.arguments().len() * 8 + 16,
                size,
                "every byte belongs to something"
            );
            call.items().for_each(|item| drop(item.mapping()));
            let _ = (call.child(), call.console());
        }
        Event::Exec(exec) => {
            let _ = (exec.mappings().count(), exec.areas().count());
        }
        _ => {}
    }
}

fn any_item() -> impl Strategy<Value = TestItem> {
    let data = prop::collection::vec(any::<u8>(), 0..80);
    (0..7_u8, 0..6_u8, 0..3_u16, any::<u32>(), prop_oneof![0..4096_u64, any::<u64>()], data)
        .prop_map(|(argument, direction, flags, total, address, data)| TestItem {
            argument,
            direction,
            flags,
            total,
            address,
            data,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(kind in 0..16_u8, number in 0..520_u16,
        body in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = vec![0; 16];
        bytes.extend(&body[..body.len() / 8 * 8]);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4] = kind;
        bytes[6..8].copy_from_slice(&number.to_le_bytes());
        exercise(&bytes);
    }

    #[test]
    fn calls_with_any_items_never_panic(
        number in 0..475_u16,
        arguments in prop::collection::vec(prop_oneof![0..4096_u64, any::<u64>()], 0..7),
        result in prop_oneof![-40..4000_i64, any::<i64>()],
        of_call in prop::collection::vec(any_item(), 0..6),
    ) {
        let mut body: Vec<u8> = arguments.iter().flat_map(|argument|
            argument.to_le_bytes()).collect();
        body.extend(items(&of_call));
        exercise(&event(EventKind::Call, 3, number, result, &body));
    }

    #[test]
    fn messages_and_vectors_never_panic(
        name in prop::sample::select(vec!["sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "writev",
            "readv", "execve"]),
        addresses in prop::collection::vec(0..300_u64, 6),
        of_call in prop::collection::vec((any_item(), prop::bool::ANY), 0..6),
    ) {
        let count = retake_model::table::call_by_name(name).unwrap().row.arguments.len();
        let of_call: Vec<TestItem> = of_call.into_iter().map(|(mut item, header)| {
            item.argument = 1;
            item.direction &= 1;
            item.address %= 300;
            if header {
                item.data.resize(56, 0);
                item.total = 56;
            }
            item
        }).collect();
        exercise(&call(name, &addresses[..count], 3, &of_call));
    }
}
