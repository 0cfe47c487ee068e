//! Temporary driver, replaced by the real command.
use retake_recording::*;
use std::path::PathBuf;
fn main() -> anyhow::Result<()> {
    let a: Vec<String> = std::env::args().collect();
    let loc = Location::from_environment()?;
    loc.prepare()?;
    if a[1] == "record" {
        let full = a[2] == "--check=full";
        let slow = a.iter().any(|x| x == "--no-fast-path");
        let at = a.iter().position(|x| x == "--").unwrap() + 1;
        let dir = PathBuf::from(std::env::var("OUT").unwrap_or("/tmp/exp/rec".into()));
        let _ = std::fs::remove_dir_all(&dir);
        let store = Store::open(&loc.store)?;
        let m = Metadata { check_level: if full { CheckLevel::Full } else { CheckLevel::Sampled }, ..Default::default() };
        let w = RecordingWriter::create(&dir, &m)?;
        let prog = if a[at].contains('/') { PathBuf::from(&a[at]) } else { std::env::split_paths(&std::env::var_os("PATH").unwrap()).map(|p| p.join(&a[at])).find(|p| p.exists()).unwrap() };
        let r = retake_record::Request { program: prog, arguments: a[at..].iter().map(Into::into).collect(), environment: std::env::vars_os().collect(),
            options: retake_supervisor::Options { check_full: full, no_fast_path: slow, ..Default::default() } };
        let st = retake_record::record(&r, w, store)?;
        retake_kernel::signals::end_as(st);
    } else {
        let rec = Recording::open(&PathBuf::from(std::env::var("OUT").unwrap_or("/tmp/exp/rec".into())))?;
        let dir = std::env::temp_dir().join(format!("replay-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let o = retake_replay::replay(rec, retake_replay::Request::default(), &dir);
        let _ = std::fs::remove_dir_all(&dir);
        match o? {
            retake_replay::Outcome::Finished(s) => retake_kernel::signals::end_as(s),
            retake_replay::Outcome::Diverged(r) => { eprintln!("{r}"); std::process::exit(120) }
        }
    }
}
