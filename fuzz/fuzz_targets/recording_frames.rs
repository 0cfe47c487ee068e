//! Any bytes as a recording whose checksums are right: what somebody makes who means harm.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    retake_recording::fuzzing::repair(&mut bytes);
    retake_recording::fuzzing::exercise(bytes);
});
