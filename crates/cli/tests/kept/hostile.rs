//! Damaged, foreign or forged checkpoints are not used.

use super::cli_support::Place;
use super::cli_support::debugging::{compile, gdb, in_order, record};
use super::{CRASH, STATE, files};
use retake_recording::{Checkpoints, PieceName, Recording};
use retake_testing::needs;

#[test]
fn what_is_damaged_or_foreign_is_not_used() {
    needs!("gdb");
    let place = Place::new("kept-damaged");
    let program = compile(&place, "crash", CRASH, &[]);
    record(&place, &[&program]);
    place.run_well(&["checkpoint", "--at", "crash"]);
    let path = files(&place).remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let commands = ["reverse-stepi", "seek crash"];
    let plain =
        gdb(&place, &["--at", "crash", "--no-checkpoints"], &[&STATE[..], &commands].concat());
    for at in [bytes.len() / 3, bytes.len() / 2, bytes.len() - 10] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        let text = gdb(&place, &["--at", "crash"], &[&STATE[..], &commands].concat());
        let (said, rest): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("retake: "));
        assert!(
            said.len() == 1
                && said[0].contains("is damaged")
                && said[0].contains("is replayed instead"),
            "{said:?}"
        );
        assert_eq!(rest.join("\n"), plain.trim_end());
    }
    // This checkpoint belongs to another recording.
    std::fs::write(&path, &bytes).unwrap();
    record(&place, &[&program]);
    let other = place.recording("crash-2").join("checkpoints");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(&path, other.join("1")).unwrap();
    std::fs::write(other.join("2"), b"RTKC").unwrap();
    let listed = place.run_well(&["checkpoint", "--list"]);
    in_order(&listed, &["NUMBER", "1", "another recording", "2", "cut off"]);
    let text = gdb(&place, &["--at", "crash"], &["monitor when"]);
    assert!(!text.contains("begins at"), "{text}");
}

/// The pieces of a checkpoint, each with its name and its bytes.
type Pieces = Vec<(PieceName, Vec<u8>)>;

/// A function that changes the pieces.
type Forge<'a> = &'a dyn Fn(&mut Pieces);

/// The kind of the piece that describes a process. A checkpoint has one.
const DESCRIPTION: u8 = 2;

const MEMORY: u8 = 4;

/// Replaces a checkpoint by one with changed pieces. All its checksums are right.
fn forge(place: &Place, change: Forge<'_>) {
    let recording = Recording::open(&place.recording("crash-1")).unwrap();
    let places = Checkpoints::of(&recording, None);
    let kept = places.list().unwrap().pop().unwrap();
    let mut reader = places.open(&kept).unwrap();
    let mut pieces = Pieces::new();
    while let Some((name, bytes)) = reader.next_piece().unwrap() {
        pieces.push((name, bytes.to_vec()));
    }
    change(&mut pieces);
    let mut writer = places.create().unwrap();
    for (name, bytes) in &pieces {
        writer.put(*name, bytes).unwrap();
    }
    let forged = places.finish(writer).unwrap();
    std::fs::rename(&forged.path, &kept.path).unwrap();
}

/// Replaces the first value of a key in the description.
fn with_value(pieces: &mut Pieces, key: &str, value: &str) {
    let (_, bytes) = pieces.iter_mut().find(|(name, _)| name.kind == DESCRIPTION).unwrap();
    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
    let (before, rest) = text.split_once(&format!("\"{key}\":")).unwrap();
    let end = rest.find([',', '}']).unwrap();
    *bytes = format!("{before}\"{key}\":{value}{}", &rest[end..]).into_bytes();
}

/// Checkpoints may come from anywhere, like recordings. One that makes no sense is not used,
/// without further effect.
#[test]
fn forged_checkpoints_are_not_used() {
    needs!("gdb");
    let place = Place::new("kept-forged");
    let program = compile(&place, "crash", CRASH, &[]);
    record(&place, &[&program]);
    place.run_well(&["checkpoint", "--at", "crash"]);
    let original = std::fs::read(&files(&place)[0]).unwrap();
    let plain = gdb(&place, &["--at", "crash", "--no-checkpoints"], &STATE);
    let runtime = 0x5500_0000_0000u64;
    let forgeries: [(&str, Forge<'_>); 12] = [
        ("a mapping over the runtime", &|pieces| with_value(pieces, "start", &runtime.to_string())),
        ("a mapping without end", &|pieces| with_value(pieces, "end", "0")),
        ("a slot beyond all", &|pieces| with_value(pieces, "index", "99999999")),
        ("another slot", &|pieces| with_value(pieces, "index", "77")),
        ("a dead thread", &|pieces| with_value(pieces, "state", "1")),
        ("a stream that there is not", &|pieces| with_value(pieces, "stream", "4000000000")),
        ("a filter that there is not", &|pieces| with_value(pieces, "filter", "7")),
        ("half an extended state", &|pieces| with_value(pieces, "extended", "\"00ff\"")),
        ("registers that are none", &|pieces| with_value(pieces, "registers", "7")),
        ("no text", &|pieces| {
            pieces
                .iter_mut()
                .filter(|piece| piece.0.kind == DESCRIPTION)
                .for_each(|piece| piece.1 = b"{}".to_vec())
        }),
        ("memory of the runtime's text", &|pieces| {
            pieces
                .iter_mut()
                .filter(|piece| piece.0.kind == MEMORY)
                .for_each(|piece| piece.0.value = runtime)
        }),
        ("no memory", &|pieces| pieces.retain(|piece| piece.0.kind != MEMORY)),
    ];
    for (what, change) in forgeries {
        std::fs::write(&files(&place)[0], &original).unwrap();
        forge(&place, change);
        let text = gdb(&place, &["--at", "crash"], &STATE);
        let (said, rest): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("retake: "));
        assert!(said.len() == 1 && said[0].contains("is replayed instead"), "{what}: {said:?}");
        assert_eq!(rest.join("\n"), plain.trim_end(), "{what}");
    }
}
