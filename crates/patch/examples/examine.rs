//! Says what the patcher makes of files, and how long it takes: `examine FILE...`

use retake_patch::{Options, Placement, SiteKind, Verdict, examine};
use std::time::Instant;

/// Runs per file; the shortest time is shown.
const RUNS: usize = 5;

fn main() {
    for path in std::env::args().skip(1) {
        match std::fs::read(&path) {
            Ok(bytes) => report(&path, &bytes),
            Err(error) => println!("{path}: {error}"),
        }
    }
}

fn report(path: &str, bytes: &[u8]) {
    let mut shortest = f64::INFINITY;
    let mut result = None;
    for _ in 0..RUNS {
        let started = Instant::now();
        result = Some(examine(bytes, Placement::After, &Options::default()));
        shortest = shortest.min(started.elapsed().as_secs_f64() * 1e3);
    }
    match result.expect("at least one run") {
        Err(error) => println!("{path}: {error}"),
        Ok(verdict) => {
            println!("{path}: {shortest:.1} ms");
            show(&verdict);
        }
    }
}

fn show(verdict: &Verdict) {
    for kind in SiteKind::ALL {
        let patched = match verdict {
            Verdict::Patched(image) => image.sites.iter().filter(|site| site.kind == kind).count(),
            Verdict::Unpatched(_) => 0,
        };
        let refused = verdict.refused().iter().filter(|site| site.kind == kind).count();
        println!("  {kind:?}: {patched} patched, {refused} refused");
    }
    match verdict {
        Verdict::Patched(image) => println!("  stubs {} bytes at {:#x}", image.stubs.len(), image.stub_address),
        Verdict::Unpatched(unpatched) => println!("  unpatched: {:?}", unpatched.reason),
    }
    println!("  unknown_calls {}", verdict.unknown_calls());
    for site in verdict.refused().iter().take(20) {
        println!("    {:?} at {:#x}: {:?}", site.kind, site.address, site.reason);
    }
}
