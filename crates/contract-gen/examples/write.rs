//! Writes all generated code of `contract/` into a folder, for inspection: `cargo run -p
//! retake-contract-gen --example write -- FOLDER`.

use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract");
    let contract = retake_contract_gen::read(&contract)?;
    std::fs::create_dir_all(&folder)?;
    for (name, text) in retake_contract_gen::c(&contract)? {
        std::fs::write(folder.join(name), text)?;
    }
    std::fs::write(folder.join("contract.rs"), retake_contract_gen::rust(&contract)?)?;
    Ok(())
}
