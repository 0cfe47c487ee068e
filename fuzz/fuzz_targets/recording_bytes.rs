//! Any bytes as a recording, as left by a damaged disk or by accident.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    retake_recording::fuzzing::exercise(bytes.to_vec());
});
