//! Any bytes as a recording with correct checksums, as an attacker would make it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    retake_recording::fuzzing::repair(&mut bytes);
    retake_recording::fuzzing::exercise(bytes);
});
