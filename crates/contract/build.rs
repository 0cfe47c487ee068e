//! Generates the Rust side of the contract.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../contract");
    println!("cargo:rerun-if-changed={}", folder.display());
    println!("cargo:rerun-if-env-changed={}", retake_contract_gen::SCRAMBLE);
    let contract = retake_contract_gen::read(&folder)?;
    let output = PathBuf::from(std::env::var("OUT_DIR")?).join("contract.rs");
    std::fs::write(output, retake_contract_gen::rust(&contract)?)?;
    Ok(())
}
