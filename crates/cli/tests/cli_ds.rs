//! `retake ds` on a DataSeries file that another program wrote.

mod cli_support;

use std::path::Path;

use cli_support::Place;
use retake_model::table::number;
use retake_testing::needs;
use retake_testing::needs::python_with;
use retake_trace_format::{
    BufferDirection, TraceRecord, TraceWriter, TraceWriterOptions, TracedBuffer, TracedCall,
};

/// The type of nearly all records of the sample.
const PACKETS: &str = "Network trace: IP packets";

/// The sample's records.
fn packets(place: &Place, file: &str) -> String {
    place.run_well(&["ds", "txt", "-t", PACKETS, file])
}

/// The path of a test file of the dataseries crate.
fn sample(name: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../dataseries/tests/fixtures").join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn files_are_described_and_printed() {
    let place = Place::new("ds-print");
    let file = sample("nfs-1.set-0.ip.ds");
    let info = place.run_well(&["ds", "info", "--verify", "--json", &file]);
    assert_eq!(info.lines().count(), 2, "{info}");
    let info: serde_json::Value =
        serde_json::from_str(info.lines().last().expect("a line")).expect("JSON");
    assert_eq!((info["type"].as_str(), info["records"].as_u64()), (Some(PACKETS), Some(55127)));
    let counted = place.run_json(&["ds", "stat", "--json", "-t", PACKETS, &file]);
    assert_eq!(counted["records"].as_u64(), Some(55127));
    let lines = place.run_well(&["ds", "txt", "-n", "5", "--no-header", &file]);
    assert_eq!(lines.lines().count(), 5);
    let csv = place.run_well(&["ds", "txt", "--csv", "-n", "2", "-t", PACKETS, &file]);
    assert_eq!(csv.lines().count(), 3, "a line of names comes first");
}

#[test]
fn files_are_filtered_repacked_and_summarised() {
    let place = Place::new("ds-repack");
    let file = sample("nfs-1.set-0.ip.ds");
    let all = packets(&place, &file);
    for arguments in [
        &["-c", "zlib", "-e", "4k"][..],
        &["-c", "none", "--order", "big"],
        &["-c", "snappy,lz4,bz2"],
    ] {
        let out = place.work("new.ds");
        let out = out.to_str().expect("a path in UTF-8");
        place.run_well(&[&["ds", "repack", &file, "-o", out], arguments].concat());
        assert_eq!(packets(&place, out), all, "{arguments:?}");
        place.run_badly(&["ds", "repack", &file, "-o", out], 125, &["exists already"]);
        std::fs::remove_file(out).expect("the new file");
    }
    place.run_badly(
        &["ds", "txt", "-w", "no_such = 1", &file],
        125,
        &["no_such", "retake ds info"],
    );
    place.run_badly(&["ds", "txt", "-t", "no-such", &file], 125, &["no-such"]);
    place.run_badly(&["ds", "stat", "-q", "1.5", &file], 125, &["0 to 1"]);
    place.run_badly(&["ds", "repack", &file, "-o", "x", "-c", "lzo"], 125, &["lz4, snappy"]);
    assert!(!place.work("x").exists());
}

#[test]
fn damaged_files_are_recovered() {
    let place = Place::new("ds-recover");
    let file = sample("nfs-1.set-0.ip.ds");
    let whole = std::fs::read(&file).expect("the sample");
    std::fs::write(place.work("cut.ds"), &whole[..whole.len() - 100]).expect("a file");
    place.run_badly(&["ds", "txt", "cut.ds"], 125, &["cut.ds", "retake ds recover"]);
    let said = place.run_well(&["ds", "recover", "cut.ds", "-o", "saved.ds"]);
    assert!(said.contains("the end of the file is missing"), "{said}");
    place.run_well(&["ds", "info", "--verify", "saved.ds"]);
    assert_eq!(packets(&place, "saved.ds"), packets(&place, &file), "only the index was lost");
    std::fs::write(place.work("text"), "no DataSeries").expect("a file");
    place.run_badly(&["ds", "info", "text"], 125, &["not a DataSeries file"]);
    place.run_badly(
        &["ds", "recover", "text", "-o", "nothing.ds"],
        125,
        &["nothing can be saved", "--types-from"],
    );
    assert!(!place.work("nothing.ds").exists());
    place.run_badly(&["ds", "info", "no-such-file"], 125, &["no-such-file"]);
}

#[test]
fn parquet_files_go_both_ways() {
    let place = Place::new("ds-parquet");
    let file = sample("nfs-1.set-0.ip.ds");
    let all = packets(&place, &file);
    place.run_well(&["ds", "export", &file, "--parquet", "tables"]);
    place.run_well(&["ds", "import", "tables", "-o", "tables.ds"]);
    assert_eq!(packets(&place, "tables.ds"), all);
    place.run_well(&["ds", "export", &file, "--wide", "wide.parquet", "--group-size", "64k"]);
    place.run_well(&["ds", "import", "wide.parquet", "-o", "wide.ds"]);
    assert_eq!(packets(&place, "wide.ds"), all);
    place.run_badly(&["ds", "export", &file], 125, &["--parquet"]);
    place.run_badly(&["ds", "import", "wide.ds", "-o", "x.ds"], 125, &["wide.ds"]);
}

/// Writes a small trace that opens some files, one of which does not exist.
fn write_trace(path: &Path) {
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = TraceWriter::new(file, TraceWriterOptions::default()).expect("a trace");
    for id in 0..20 {
        let name = format!("/file/{id}").into_bytes();
        let text = TracedBuffer {
            argument: 1,
            direction: BufferDirection::Input,
            address: 4096,
            total_bytes: name.len() as u64,
            data: name.into(),
        };
        let call = TracedCall {
            id,
            process: 7,
            thread: 7,
            entered_ns: 1_700_000_000_000_000_000 + id * 1000,
            returned_ns: 1_700_000_000_000_000_300 + id * 1000,
            number: number::OPENAT.into(),
            result: if id == 3 { -2 } else { 5 },
            arguments: [-100_i64 as u64, 4096, 0, 0, 0, 0],
            buffers: vec![text],
            ..TracedCall::default()
        };
        writer.write(&TraceRecord::Call(call)).expect("a record");
    }
    writer.finish().expect("a whole trace");
}

#[test]
fn traces_are_printed_and_asked_questions() {
    let place = Place::new("ds-trace");
    write_trace(&place.work("trace.ds"));
    let failed = place.run_well(&[
        "ds",
        "txt",
        "trace.ds",
        "-t",
        "openat",
        "-w",
        "errno_number > 0",
        "-c",
        "given_pathname,errno_string",
        "--no-header",
    ]);
    assert_eq!(failed, "/file/3\\0\tENOENT\n");
    let counts = place.run_json(&[
        "ds",
        "stat",
        "trace.ds",
        "-t",
        "openat",
        "-v",
        "time_returned - time_called",
        "-q",
        "0.5",
        "--json",
    ]);
    assert_eq!((counts["count"].as_u64(), counts["max"].as_f64()), (Some(20), Some(300.0)));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/trace_parquet.py");
    needs!("python:duckdb");
    let python = python_with("duckdb").unwrap();
    let ran = std::process::Command::new(python)
        .arg(script)
        .arg(place.work("trace.ds"))
        .arg(env!("CARGO_BIN_EXE_retake"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && text.contains("openat") && text.contains("what failed"),
        "{ran:?}"
    );
}
