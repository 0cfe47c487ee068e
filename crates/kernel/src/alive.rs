//! Whether a thread is alive, told by a word of shared memory. Processes in another PID namespace
//! cannot see the thread, but they can read the word.

use crate::shared::THREAD_DIED;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The kernel's `struct robust_list_head`.
#[derive(Debug)]
#[repr(C)]
struct RobustList {
    next: *const RobustList,
    offset: i64,
    pending: AtomicPtr<AtomicU32>,
}

// SAFETY: only the kernel follows its first pointer.
unsafe impl Sync for RobustList {}

/// A thread that is alive, and the word that says so.
#[derive(Debug)]
pub struct Alive<'word> {
    number: i32,
    word: &'word AtomicU32,
    list: &'static RobustList,
}

impl<'word> Alive<'word> {
    /// Puts the calling thread's ID into `word`, until this value is dropped. If the thread dies in
    /// any way, the kernel clears the ID and sets `THREAD_DIED`. A thread has one such word.
    pub fn begin(word: &'word AtomicU32) -> Self {
        let number = crate::signals::own_tid();
        let list = Box::leak(Box::new(RobustList {
            next: ptr::null(),
            offset: 0,
            pending: AtomicPtr::new(ptr::from_ref(word).cast_mut()),
        }));
        // The list is empty except for the pending entry.
        list.next = ptr::from_ref(list);
        // SAFETY: the list is never freed, and refers to the word only while it is borrowed. It
        // replaces the C library's list for robust mutexes, which nothing here uses.
        unsafe {
            let bytes = size_of::<RobustList>();
            libc::syscall(libc::SYS_set_robust_list, ptr::from_ref(list), bytes);
        }
        word.store(number as u32, Ordering::Release);
        Self { number, word, list }
    }

    /// Returns the thread ID.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.word.store(THREAD_DIED, Ordering::SeqCst);
        self.list.pending.store(ptr::null_mut(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;
    use std::time::Duration;

    /// The word is on a page that both processes share, and the child is killed.
    #[test]
    fn the_kernel_tells_of_a_thread_that_was_killed() {
        // SAFETY: new memory, used as atomics, for which every bit pattern is valid. The child
        // makes calls that are allowed after a fork, and allocates while no thread holds that lock.
        unsafe {
            let page = libc::mmap(
                ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            let word = &*page.cast::<AtomicU32>();
            let number = &*page.cast::<AtomicI32>().add(1);
            let child = libc::fork();
            if child == 0 {
                let alive = Alive::begin(word);
                number.store(alive.number(), Ordering::SeqCst);
                loop {
                    libc::pause();
                }
            }
            while number.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(word.load(Ordering::SeqCst), child as u32);
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
            assert_eq!(word.load(Ordering::SeqCst), THREAD_DIED);
            libc::munmap(page, 4096);
        }
    }
}
