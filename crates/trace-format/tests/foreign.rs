//! Checks agreement with RE-ANIMATOR: its types, the rules of its replayer, and its own files.

mod common;

use std::collections::HashMap;
use std::io::Cursor;
use std::path::PathBuf;

use common::{WithBuffers, buffer, call, write};
use retake_dataseries::{ExtentType, FieldType, ReadOptions, StreamReader, Value};
use retake_trace_format::{
    BufferDirection, Credentials, ProcessStart, StartKind, TraceReader, TraceReaderOptions,
    TraceRecord, TraceWriterOptions, TracedCall,
};

const PREFIX: &str = "IOTTAFSL::Trace::Syscall::";

fn field_text(extent_type: &ExtentType) -> Vec<String> {
    let text = |field: &retake_dataseries::Field| {
        assert!(!matches!(field.field_type, FieldType::FixedWidth(_)), "no type uses it");
        format!(
            "{}:{}{}",
            field.name,
            field.field_type.name(),
            if field.nullable { "?" } else { "" }
        )
    };
    extent_type.fields().iter().map(text).collect()
}

/// The rows of a file by the last part of the type's name. Each maps names of fields to values.
type Rows = HashMap<String, Vec<HashMap<String, String>>>;

fn rows(bytes: &[u8]) -> Rows {
    let mut reader = StreamReader::open(bytes, ReadOptions::default()).expect("a sound file");
    let mut rows = Rows::new();
    while let Some(extent) = reader.next_extent().expect("a sound extent") {
        let name = extent.extent_type().name().rsplit("::").next().unwrap_or_default().to_owned();
        let fields = extent.extent_type().fields();
        let of_type = rows.entry(name).or_default();
        of_type.extend(extent.rows().map(|row| {
            let named = fields.iter().zip(row.values()).filter(|(_, value)| *value != Value::Null);
            named.map(|(field, value)| (field.name.clone(), text(value))).collect()
        }));
    }
    rows
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        value => value.as_i64().map_or_else(|| format!("{value:?}"), |number| number.to_string()),
    }
}

fn start(id: u64) -> ProcessStart {
    ProcessStart {
        id,
        time_ns: 5,
        process: 100,
        thread: 100,
        parent: 99,
        session: 90,
        process_group: 91,
        how: StartKind::Exec,
        working_directory: b"/home/user".to_vec(),
        root: b"/".to_vec(),
        umask: 0o22,
        descriptors: vec![retake_trace_format::StartDescriptor {
            number: 7,
            path: b"/data".to_vec(),
            kind: retake_trace_format::DescriptorKind::Directory,
            offset: 0,
            flags: 0,
        }],
        limits: Vec::new(),
        credentials: Credentials { uid: 1000, ..Credentials::default() },
        executable: b"/bin/true".to_vec(),
        arguments: vec![b"true".to_vec()],
    }
}

#[test]
fn every_type_of_reanimator_is_there_with_its_fields() {
    let file = write(&[], TraceWriterOptions::default());
    let reader = StreamReader::open(file.as_slice(), ReadOptions::default()).expect("a sound file");
    let table = include_str!("fixtures/reanimator_types.txt");
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let common: Vec<&str> =
        lines.next().expect("a line of common fields").split(' ').skip(1).collect();
    let mut count = 0;
    for line in lines {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let expected: Vec<&str> = common.iter().copied().chain(words).collect();
        let own = reader
            .library()
            .get(&format!("{PREFIX}{name}"))
            .unwrap_or_else(|| panic!("no type for {name}"));
        assert_eq!(
            (own.namespace(), own.version()),
            (Some("iotta.snia.org"), Some((1, 0))),
            "{name}"
        );
        let fields = field_text(own);
        assert_eq!(fields[..expected.len()], expected, "{name}");
        assert!(
            fields[expected.len()..].iter().all(|field| field.starts_with("retake_")),
            "{name}: {fields:?}"
        );
        count += 1;
    }
    assert_eq!(count, 103);
}

fn one(name: &str, call: TracedCall) -> HashMap<String, String> {
    let rows = rows(&write(&[TraceRecord::Call(call)], TraceWriterOptions::default()));
    let mut of_type = rows.get(name).cloned().unwrap_or_else(|| panic!("no row of {name}"));
    assert_eq!(of_type.len(), 1, "{name}");
    of_type.remove(0)
}

fn expect(row: &HashMap<String, String>, fields: &[(&str, &str)]) {
    for (name, expected) in fields {
        assert_eq!(row.get(*name).map(String::as_str), Some(*expected), "{name} in {row:?}");
    }
}

#[test]
fn fields_have_the_values_of_the_call() {
    let open = call(1, "openat", &[-100_i64 as u64, 0x1000, 0x8_0241, 0o4640], 3).input(1, b"file");
    expect(
        &one("openat", open),
        &[
            ("descriptor", "-100"),
            ("descriptor_current_working_directory", "1"),
            ("given_pathname", "file\0"),
            ("open_value", "524865"),
            ("flag_write_only", "1"),
            ("flag_read_only", "0"),
            ("flag_create", "1"),
            ("flag_truncate", "1"),
            ("flag_append", "0"),
            ("flag_close_on_exec", "1"),
            ("mode_value", "2464"),
            ("mode_uid", "1"),
            ("mode_R_user", "1"),
            ("mode_R_others", "0"),
            ("return_value", "3"),
            ("errno_number", "0"),
        ],
    );
    let without_mode = one("open", call(1, "open", &[0x1000, 0, 0o777], -2).input(0, b"none"));
    expect(
        &without_mode,
        &[
            ("return_value", "-1"),
            ("errno_number", "2"),
            ("errno_string", "ENOENT"),
            ("flag_read_only", "1"),
        ],
    );
    assert!(!without_mode.contains_key("mode_value"), "no mode without O_CREAT");
}

#[test]
fn fields_have_the_values_of_structures() {
    let mut status = vec![0; 144];
    status[24..28].copy_from_slice(&0o100_644_u32.to_le_bytes());
    status[48..56].copy_from_slice(&12345_u64.to_le_bytes());
    status[88..96].copy_from_slice(&1_700_000_000_u64.to_le_bytes());
    status[96..104].copy_from_slice(&500_000_000_u64.to_le_bytes());
    let stat = one("fstat", call(1, "fstat", &[3, 0x1000], 0).output(1, &status));
    let half = ((1_700_000_000_i64 << 32) + (1 << 31)).to_string();
    expect(
        &stat,
        &[
            ("stat_result_mode", "33188"),
            ("stat_result_size", "12345"),
            ("stat_result_mtime", half.as_str()),
        ],
    );

    let lock = [
        &1_u16.to_le_bytes()[..],
        &2_u16.to_le_bytes(),
        &[0; 4],
        &10_u64.to_le_bytes(),
        &20_u64.to_le_bytes(),
        &[0; 8],
    ]
    .concat();
    let fcntl = one("fcntl", call(1, "fcntl", &[3, 6, 0x1000], 0).input(2, &lock));
    expect(
        &fcntl,
        &[
            ("command_set_lock", "1"),
            ("lock_type_write", "1"),
            ("lock_whence_end", "1"),
            ("lock_start", "10"),
            ("lock_length", "20"),
        ],
    );
    assert!(!fcntl.contains_key("argument_value"), "an address is no argument value");

    let fds = [5_i32.to_le_bytes(), 6_i32.to_le_bytes()].concat();
    expect(
        &one("pipe", call(1, "pipe", &[0x1000], 0).output(0, &fds)),
        &[("read_descriptor", "5"), ("write_descriptor", "6")],
    );
    expect(
        &one("pipe2", call(1, "pipe2", &[0x1000, 0x800], 0).output(0, &fds)),
        &[("read_descriptor", "5"), ("flags_value", "2048")],
    );
    let other = one("other", call(1, "getpriority", &[1, 2], 20));
    expect(
        &other,
        &[("call_name", "getpriority"), ("retake_argument_1", "2"), ("return_value", "20")],
    );
}

#[test]
fn data_fields_are_as_long_as_the_result() {
    let written = one("write", call(1, "write", &[1, 0x1000, 10], 4).input(1, b"0123456789"));
    expect(
        &written,
        &[("data_written", "0123"), ("bytes_requested", "10"), ("buffer_not_captured", "0")],
    );
    let failed = one("write", call(1, "write", &[1, 0x1000, 10], -5).input(1, b"0123456789"));
    assert!(!failed.contains_key("data_written"));
    let end = one("read", call(1, "read", &[1, 0x1000, 10], 0));
    expect(&end, &[("data_read", ""), ("buffer_not_captured", "0")]);
    let lost = one("read", call(1, "read", &[1, 0x1000, 10], 7));
    expect(&lost, &[("buffer_not_captured", "1")]);
    assert!(!lost.contains_key("data_read"));
}

#[test]
fn vectors_and_programs_take_several_rows() {
    let array: Vec<u8> =
        [0x5000_u64, 3, 0x6000, 5].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut vector = call(4, "writev", &[1, 0x1000, 2], 8).input(1, &array);
    vector.buffers.push(buffer(1, BufferDirection::Input, 0x5000, b"abc"));
    vector.buffers.push(buffer(1, BufferDirection::Input, 0x6000, b"defgh"));
    let file = rows(&write(&[TraceRecord::Call(vector)], TraceWriterOptions::default()));
    let vector = &file["writev"];
    assert_eq!(vector.len(), 3);
    assert!(vector.iter().all(|row| row["unique_id"] == "4"));
    expect(
        &vector[0],
        &[("iov_number", "-1"), ("bytes_requested", "8"), ("count", "2"), ("descriptor", "1")],
    );
    expect(
        &vector[2],
        &[("iov_number", "1"), ("bytes_requested", "5"), ("iov_data_written", "defgh")],
    );
    assert!(!vector[2].contains_key("descriptor"));

    let mut exec =
        call(5, "execve", &[0x1000, 0x2000, 0x3000], 0).input(0, b"/bin/ls").input(1, &[0; 16]);
    exec.buffers.push(buffer(1, BufferDirection::Input, 0x2100, b"ls"));
    exec.buffers.push(buffer(1, BufferDirection::Input, 0x2200, b"-l"));
    exec = exec.input(2, &[0; 8]);
    exec.buffers.push(buffer(2, BufferDirection::Input, 0x3100, b"A=1"));
    let file = rows(&write(&[TraceRecord::Call(exec)], TraceWriterOptions::default()));
    let exec = &file["execve"];
    let numbers: Vec<&str> = exec.iter().map(|row| row["continuation_number"].as_str()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "-1"]);
    expect(&exec[0], &[("given_pathname", "/bin/ls\0")]);
    expect(&exec[2], &[("argument", "-l\0")]);
    expect(&exec[3], &[("environment", "A=1\0")]);
    expect(&exec[4], &[("return_value", "0")]);
    assert!(!exec[0].contains_key("return_value"));
}

#[test]
fn processes_and_paths_are_known() {
    let open = call(1, "openat", &[7, 0x1000, 0, 0], 8).input(1, b"below/file");
    let inside = call(2, "openat", &[-100_i64 as u64, 0x1000, 0, 0], 9).input(1, b"./here");
    let change = call(3, "chdir", &[0x1000], 0).input(0, b"/tmp");
    let moved = call(4, "mkdir", &[0x1000, 0o755], 0).input(0, b"new");
    let child = call(5, "fork", &[], 200);
    let mut in_child = call(6, "rmdir", &[0x1000], 0).input(0, b"old");
    in_child.process = 200;
    let calls = [open, inside, change, moved, child, in_child].map(TraceRecord::Call);
    let records: Vec<TraceRecord> =
        [TraceRecord::ProcessStart(Box::new(start(0)))].into_iter().chain(calls).collect();
    let file = write(&records, TraceWriterOptions::default());
    assert_eq!(common::read(&file), records);
    let rows = rows(&file);
    expect(
        &rows["openat"][0],
        &[
            ("full_pathname", "/data/below/file\0"),
            ("executing_ppid", "99"),
            ("executing_uid", "1000"),
        ],
    );
    expect(
        &rows["openat"][1],
        &[
            ("full_pathname", "/home/user/here\0"),
            ("executing_sid", "90"),
            ("executing_pgid", "91"),
        ],
    );
    expect(&rows["mkdir"][0], &[("full_pathname", "/tmp/new\0")]);
    expect(&rows["rmdir"][0], &[("full_pathname", "/tmp/old\0"), ("executing_ppid", "100")]);
    // The first records that its replayer expects.
    expect(
        &rows["umask"][0],
        &[
            ("unique_id", "0"),
            ("mode_value", "18"),
            ("return_value", "18"),
            ("executing_pid", "100"),
        ],
    );
}

#[test]
#[ignore = "needs a trace of RE-ANIMATOR's own tool, reanimator-strace.ds in the folder \
DATASERIES_SAMPLES"]
fn its_own_traces_are_read() {
    let folder = PathBuf::from(
        std::env::var_os("DATASERIES_SAMPLES").expect("DATASERIES_SAMPLES names a folder"),
    );
    let bytes = std::fs::read(folder.join("reanimator-strace.ds")).expect("the sample");
    let reader =
        TraceReader::new(Cursor::new(&bytes), &TraceReaderOptions::default()).expect("a trace");
    let mut by_number: HashMap<u32, Vec<TracedCall>> = HashMap::new();
    for record in reader {
        match record.expect("a sound record") {
            TraceRecord::Call(call) => by_number.entry(call.number).or_default().push(call),
            other => panic!("nothing but calls: {other:?}"),
        }
    }
    let of =
        |name: &str| by_number.get(&call(0, name, &[], 0).number).map_or(&[][..], Vec::as_slice);
    let total: usize = by_number.values().map(Vec::len).sum();
    println!("{total} calls of {} kinds", by_number.len());
    assert!(total > 10_000);
    for read in of("read").iter().filter(|call| call.result > 0) {
        let data = read.buffers_of(1, BufferDirection::Output).next().expect("data");
        assert_eq!((data.data.len() as i64, data.total_bytes as i64), (read.result, read.result));
    }
    for program in of("execve") {
        let path = program.buffers_of(0, BufferDirection::Input).next().expect("a path");
        assert!(!path.data.contains(&0) && !path.data.is_empty());
        assert!(
            program.buffers_of(1, BufferDirection::Input).count() >= 2,
            "the array and the name of the program"
        );
    }
    for pipe in of("pipe").iter().filter(|call| call.result == 0) {
        assert_eq!(pipe.buffers.len(), 1);
    }
    for open in of("openat") {
        assert!(open.entered_ns > 1_600_000_000_000_000_000 && open.returned_ns >= open.entered_ns);
        assert_eq!(open.arguments[0] as i32, -100);
    }
    for stat in of("newfstatat").iter().filter(|call| call.result == 0) {
        assert_eq!(
            stat.buffers_of(2, BufferDirection::Output).next().expect("the structure").data.len(),
            144
        );
    }
}
