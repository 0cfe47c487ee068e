//! Which children are reaped.

use std::process::Command;
use std::sync::mpsc;

use retake_kernel::process;

/// A debugger is the child of another thread. If it ends at the same moment as the replay, only
/// that thread may reap it.
#[test]
fn children_of_other_threads_are_theirs() {
    let (ended, has_ended) = mpsc::channel();
    let (taken, is_taken) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(process::ended(&process::watch(pid).unwrap(), 10_000));
        ended.send(()).unwrap();
        is_taken.recv().unwrap();
        child.wait()
    });
    let mine = Command::new("true").spawn().unwrap().id() as i32;
    assert!(process::ended(&process::watch(mine).unwrap(), 10_000));
    has_ended.recv().unwrap();
    process::reap_adopted(-1);
    taken.send(()).unwrap();
    assert!(other.join().unwrap().unwrap().success());
    assert_eq!(process::state(mine), None, "its own child is not reaped");
}
