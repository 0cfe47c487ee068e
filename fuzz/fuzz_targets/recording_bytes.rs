//! Any bytes as a recording: what a damaged disk or a careless hand makes of one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    retake_recording::fuzzing::exercise(bytes.to_vec());
});
