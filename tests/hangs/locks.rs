//! Two threads take two locks in opposite orders.

use std::sync::{Arc, Barrier, Mutex};

fn lock_both(one: &Mutex<u32>, both: &Barrier, other: &Mutex<u32>) -> u32 {
    let held = one.lock().unwrap();
    if both.wait().is_leader() {
        println!("ready");
    }
    let second = other.lock().unwrap();
    *held + *second
}

fn main() {
    let (first, second) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
    let both = Arc::new(Barrier::new(2));
    let (one, other, barrier) = (first.clone(), second.clone(), both.clone());
    let thread = std::thread::spawn(move || lock_both(&other, &barrier, &one));
    println!("{}", lock_both(&first, &both, &second));
    thread.join().unwrap();
}
