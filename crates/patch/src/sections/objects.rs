//! Which functions of the GNU C library work on one object that they are given: they are ordered
//! among those on the same object, not by the baton.
//!
//! Whatever touches such an object has to be listed, or else it would be ordered in two ways that
//! know nothing of each other. The names are those of POSIX; what they call without a name of its
//! own is part of them.

/// The argument that points to a function's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// The first argument. Nothing else of what it touches is known to other threads.
    First,
    /// The second one: it waits on a condition, which the baton orders, and gives up this mutex
    /// meanwhile.
    Second,
    /// A word of the calling thread, so far from where its storage begins.
    Own(u32),
    /// The same word of the thread to which the first argument points. The baton orders it, too.
    OfThread(u32),
}

/// Families of functions, and what follows the family's name in each.
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
