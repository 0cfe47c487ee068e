//! Prints the patcher's verdict on files, and the time it took: `examine [--sections] FILE...`

use retake_patch::{Options, Placement, Refusal, SiteKind, Verdict, examine};
use std::collections::BTreeMap;
use std::time::Instant;

/// Runs for each file. The shortest time is shown.
const RUNS: usize = 5;

fn main() {
    let (flags, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument == "--sections");
    let options = Options { sections: !flags.is_empty(), ..Options::default() };
    for path in paths {
        match std::fs::read(&path) {
            Ok(bytes) => report(&path, &bytes, &options),
            Err(error) => println!("{path}: {error}"),
        }
    }
}

fn report(path: &str, bytes: &[u8], options: &Options) {
    let mut shortest = f64::INFINITY;
    let mut result = None;
    for _ in 0..RUNS {
        let started = Instant::now();
        result = Some(examine(bytes, Placement::After, options));
        shortest = shortest.min(started.elapsed().as_secs_f64() * 1e3);
    }
    match result.expect("at least one run") {
        Err(error) => println!("{path}: {error}"),
        Ok(verdict) => {
            println!("{path}: {shortest:.1} ms");
            show(&verdict, options);
        }
    }
}

fn show(verdict: &Verdict, options: &Options) {
    for kind in SiteKind::ALL.into_iter().filter(|kind| options.sections || !kind.is_of_section()) {
        let patched = match verdict {
            Verdict::Patched(image) => image.sites.iter().filter(|site| site.kind == kind).count(),
            Verdict::Unpatched(_) => 0,
        };
        let refused = verdict.refused().iter().filter(|site| site.kind == kind).count();
        println!("  {kind:?}: {patched} patched, {refused} refused{}", reasons(verdict, kind));
    }
    match verdict {
        Verdict::Patched(image) => {
            println!("  stubs {} bytes at {:#x}", image.stubs.len(), image.stub_address)
        }
        Verdict::Unpatched(unpatched) => println!("  unpatched: {:?}", unpatched.reason),
    }
    println!("  unknown_calls {}", verdict.unknown_calls());
    let most = if options.sections { usize::MAX } else { 20 };
    for site in verdict.refused().iter().take(most) {
        println!("    {:?} at {:#x}: {:?}", site.kind, site.address, site.reason);
    }
}

/// The number of refusals for each reason, among sites of a kind.
fn reasons(verdict: &Verdict, kind: SiteKind) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for site in verdict
        .refused()
        .iter()
        .filter(|site| site.kind == kind && site.reason != Refusal::NotWanted)
    {
        *counts.entry(format!("{:?}", site.reason)).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) }
}
