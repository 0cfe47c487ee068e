//! How the program is linked.

fn main() {
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    // At a fixed address the loader has nothing to relocate: a millisecond less at each start. A
    // static program has no loader, and rustc links it in another way.
    if !is_static {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
