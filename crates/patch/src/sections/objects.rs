//! Functions of the GNU C library that work on one object, to which an argument points. They are
//! ordered among the functions on the same object, not by the baton.
//!
//! Every function that accesses such an object must be listed. Otherwise, the object would be
//! ordered in two independent ways. The names are those of POSIX. Functions without a name of their
//! own belong to their callers.

/// The object of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// The one that the first argument points to. Other threads know nothing else that the function
    /// accesses.
    First,
    /// The one that the second argument points to: the mutex that is released while the function
    /// waits on a condition, which the baton orders.
    Second,
    /// A word of the calling thread, by its offset in the thread's storage.
    Own(u32),
    /// The same word of another thread, to which the first argument points. The baton orders it,
    /// too.
    OfThread(u32),
}

/// Families of functions: the prefix of their names, and the rest of each name.
const OF_FIRST: [(&[u8], &[&[u8]]); 4] = [
    (
        b"pthread_mutex_",
        &[
            b"lock",
            b"unlock",
            b"trylock",
            b"timedlock",
            b"clocklock",
            b"cond_lock",
            b"init",
            b"destroy",
            b"consistent",
            b"setprioceiling",
            b"getprioceiling",
        ],
    ),
    (
        b"pthread_rwlock_",
        &[
            b"rdlock",
            b"wrlock",
            b"tryrdlock",
            b"trywrlock",
            b"timedrdlock",
            b"timedwrlock",
            b"clockrdlock",
            b"clockwrlock",
            b"unlock",
            b"init",
            b"destroy",
        ],
    ),
    (b"pthread_barrier_", &[b"wait", b"init", b"destroy"]),
    (
        b"sem_",
        &[
            b"post",
            b"wait",
            b"trywait",
            b"timedwait",
            b"clockwait",
            b"getvalue",
            b"init",
            b"destroy",
        ],
    ),
];

const OF_SECOND: [&[u8]; 3] =
    [b"pthread_cond_wait", b"pthread_cond_timedwait", b"pthread_cond_clockwait"];

/// The object of a function with that name.
pub(crate) fn object_of(name: &[u8]) -> Option<Object> {
    let name = name.strip_prefix(b"__").unwrap_or(name);
    if OF_SECOND.contains(&name) {
        return Some(Object::Second);
    }
    let is_listed = |(family, rest): &(&[u8], &[&[u8]])| {
        name.strip_prefix(*family).is_some_and(|last| rest.contains(&last))
    };
    OF_FIRST.iter().any(is_listed).then_some(Object::First)
}
