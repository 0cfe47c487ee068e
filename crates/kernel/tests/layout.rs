//! The C and the Rust view of the header segment must be the same.

use retake_kernel::context;
use retake_kernel::shared::*;
use std::mem::{offset_of, size_of};
use std::process::Command;

#[test]
fn c_and_rust_agree_on_every_offset() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/include");
    let wanted = [
        ("struct slot", "head", offset_of!(Slot, producer)),
        ("struct slot", "kicked", offset_of!(Slot, producer) + 8),
        ("struct slot", "filter", offset_of!(Slot, producer) + 12),
        ("struct slot", "tail", offset_of!(Slot, consumer)),
        ("struct slot", "tail_waiting", offset_of!(Slot, consumer) + 12),
        ("struct slot", "exec_pending", offset_of!(Slot, exec_pending)),
        ("struct slot", "force_sequence", offset_of!(Slot, force_sequence)),
        ("struct slot", "baton_domain", offset_of!(Slot, baton_domain)),
        ("struct slot", "ties", offset_of!(Slot, ties)),
        ("struct shared_header", "console_gap", offset_of!(Header, console_gap)),
        ("struct slot", "request", offset_of!(Slot, lines)),
        ("struct slot", "forced_search_ns", offset_of!(Slot, lines) + offset_of!(RequestLines, forced_search_ns)),
        ("struct shared_header", "chaos.delay_most_us", offset_of!(Header, chaos) + offset_of!(Chaos, delay_most_us)),
        ("struct shared_header", "force_doorbell", offset_of!(Header, force_doorbell)),
        ("struct slot", "uses", offset_of!(Slot, lines) + offset_of!(RequestLines, uses)),
        ("struct slot", "event_count", offset_of!(Slot, lines) + offset_of!(RequestLines, event_count)),
        ("struct slot", "console_ticket", offset_of!(Slot, lines) + offset_of!(RequestLines, console_ticket)),
        ("struct slot", "diverged_actual", offset_of!(Slot, lines) + offset_of!(RequestLines, diverged_actual)),
        ("struct file_entry", "parts", offset_of!(FileEntry, parts)),
        ("struct file_entry", "stubs", offset_of!(FileEntry, stubs)),
        ("struct shared_header", "ready_top", offset_of!(Header, ready_top)),
        ("struct shared_header", "console_printed", offset_of!(Header, console_printed)),
        ("struct shared_header", "host_descriptor", offset_of!(Header, host_descriptor)),
        ("struct shared_header", "cpuid", offset_of!(Header, cpuid)),
        ("struct shared_header", "vdso_patches", offset_of!(Header, vdso_patches)),
        ("struct shared_header", "store", offset_of!(Header, store)),
        ("struct shared_header", "files", offset_of!(Header, files)),
        ("struct shared_header", "slots", offset_of!(Header, slots)),
        ("struct shared_header", "filter_steps", offset_of!(Header, filter_steps)),
        ("struct shared_header", "file_buckets", offset_of!(Header, file_buckets)),
        ("struct shared_header", "shared_files", offset_of!(Header, shared_files)),
    ];
    let of_context = [
        ("scratch", context::SCRATCH),
        ("regs", context::REGISTERS),
        ("event_count", context::EVENT_COUNT),
        ("pause_at", context::PAUSE_AT),
        ("caught", context::CAUGHT),
        ("told_from", context::TOLD_FROM),
        ("slot", context::SLOT),
        ("turn", context::TURN),
        ("sigmask", context::SIGNAL_MASK),
        ("pid", context::NUMBERS),
        ("tid", context::NUMBERS + 4),
        ("log", context::LOG),
        ("log_end", context::LOG_END),
        ("passages", context::PASSAGES),
        ("watch.armed", context::WATCH_ARMED),
        ("watch.answer.stub", context::WATCH_STUB),
        ("domain", context::DOMAIN),
        ("window_segments", context::WINDOW_SEGMENTS),
        ("log_offset", context::LOG_OFFSET),
        ("printed", context::PRINTED),
    ];
    let mut source = format!("#include \"{0}/context.h\"\n#include \"{0}/shared.h\"\n", root.display());
    for (name, address) in [("RUNTIME_TEXT", RUNTIME_TEXT), ("RUNTIME_DATA", RUNTIME_DATA), ("HEADER_ADDRESS", HEADER_ADDRESS), ("REGIONS", REGIONS)]
    {
        source += &format!("_Static_assert({name} == {address}, \"{name}\");\n");
    }
    for (field, offset) in of_context {
        source += &format!("_Static_assert(__builtin_offsetof(struct context, {field}) == {offset}, \"context.{field}\");\n");
    }
    for (kind, field, offset) in wanted {
        source += &format!("_Static_assert(__builtin_offsetof({kind}, {field}) == {offset}, \"{kind}.{field}\");\n");
    }
    for (kind, size) in
        [("struct slot", size_of::<Slot>()), ("struct file_entry", size_of::<FileEntry>()), ("struct shared_header", size_of::<Header>())]
    {
        source += &format!("_Static_assert(sizeof({kind}) == {size}, \"{kind}\");\n");
    }
    let mut child = Command::new("gcc")
        .args(["-std=gnu11", "-ffreestanding", "-fsyntax-only", "-x", "c", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("gcc is needed to build the runtime");
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}
