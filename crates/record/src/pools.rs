//! The pools of a recording, the users who may attach them, and the tokens that identify threads in
//! PID namespaces.

use crate::rings::{self, Plan, Shape};
use retake_kernel::segment::Segment;
use retake_kernel::shared::Header;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Pools {
    plan: Plan,
    all: Mutex<Vec<(Shape, Arc<Segment>)>>,
    /// The user who owns all of them.
    user: AtomicU64,
    /// The tokens that threads in PID namespaces attach, by slot.
    tokens: Mutex<HashMap<usize, Segment>>,
}

/// The owner is not known.
const NO_USER: u64 = u64::MAX;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pools {
    pub fn new(plan: Plan) -> Self {
        let user = AtomicU64::new(NO_USER);
        Self { plan, all: Mutex::default(), user, tokens: Mutex::default() }
    }

    /// Creates the next pool, and passes it to `enter` before another thread can create one.
    ///
    /// # Errors
    /// All possible slots exist, or the kernel has no room.
    pub fn add(
        &self,
        header: &Header,
        enter: impl FnOnce(usize, &Shape, &Arc<Segment>),
    ) -> io::Result<()> {
        let mut all = lock(&self.all);
        let index = all.len();
        let next = self.plan.shapes().nth(index);
        let shape = next
            .filter(|shape| shape.slots().end <= header.slot_limit())
            .ok_or_else(|| io::Error::other("more threads at once than a recording can hold"))?;
        let pool = rings::create(&shape)?;
        let about = &header.pools[index];
        about.id.store(pool.id(), Relaxed);
        about.offset.store(shape.offset, Relaxed);
        about.bytes.store(shape.bytes() as u64, Relaxed);
        header.pool_count.store(index as u32 + 1, Release);
        enter(index, &shape, &pool);
        all.push((shape, pool));
        Ok(())
    }

    /// Takes over the next pool from a supervisor that is gone.
    pub fn adopt(&self, shape: Shape, pool: Arc<Segment>) {
        lock(&self.all).push((shape, pool));
    }

    /// Lets a process that changed its user attach one pool.
    pub fn give_to(&self, index: usize, user: u32) {
        if let Some((_, pool)) = lock(&self.all).get(index) {
            pool.give_to(user);
        }
        // Makes the next exec give all pools to its own user again.
        self.user.store(NO_USER, Release);
    }

    /// Lets processes of another user attach all pools.
    pub fn give_all_to(&self, user: u32) {
        if self.user.swap(u64::from(user), AcqRel) == u64::from(user) {
            return;
        }
        for (_, pool) in lock(&self.all).iter() {
            pool.give_to(user);
        }
    }

    /// Creates a token for the thread of a slot. Returns the ID of its segment.
    pub fn make_token(&self, slot: usize) -> io::Result<i32> {
        let token = Segment::token()?;
        let id = token.id();
        lock(&self.tokens).insert(slot, token);
        Ok(id)
    }

    /// Removes the token of a slot. Returns the process that attached it.
    pub fn take_token(&self, slot: usize) -> Option<i32> {
        lock(&self.tokens).remove(&slot)?.last_user()
    }
}
