//! Functions that are sections because of their names, and functions that never are.

use super::cancellation;
use super::objects::{Object, object_of};
use crate::chunk::Chunk;
use crate::elf::ElfView;

/// The kind of a file, as far as sections are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// The shared C library. All its functions that synchronise are sections.
    C,
    /// The dynamic linker.
    Linker,
    /// A program that contains a C library.
    Static,
    /// Anything else.
    Other,
}

impl Library {
    /// The kind of a file, by the symbols that it defines.
    pub fn of(elf: &ElfView) -> Self {
        let [lock, start, linker, main] =
            elf.defines([b"pthread_mutex_lock", b"__libc_start_main", b"_rtld_global", b"main"]);
        match (lock, start) {
            (false, _) if linker => Library::Linker,
            (false, false) => Library::Other,
            _ if !elf.fixed_address && !main => Library::C,
            (true, _) => Library::Static,
            (false, true) => Library::Other,
        }
    }
}

/// What the symbols tell about each chunk.
pub(crate) struct Names {
    pub library: Library,
    /// Whether it begins with a symbol other than that of a cold part.
    pub named: Vec<bool>,
    /// Whether it should be a section.
    pub wanted: Vec<bool>,
    /// Whether it is surely of the C library, in a program that contains one.
    pub of_library: Vec<bool>,
    /// Whether it must not be a section, whatever it does.
    pub unwanted: Vec<bool>,
    /// Its object, in the GNU C library.
    pub objects: Vec<Option<Object>>,
    /// Whether it may be a section although it calls code of the program.
    pub may_call: Vec<bool>,
}

impl Names {
    pub fn of(elf: &ElfView, library: Library, chunks: &[Chunk]) -> Self {
        let none = || vec![false; chunks.len()];
        let mut names = Self {
            library,
            named: none(),
            wanted: none(),
            of_library: none(),
            unwanted: none(),
            objects: vec![None; chunks.len()],
            may_call: none(),
        };
        let [is_gnu] = elf.defines([b"gnu_get_libc_version"]);
        let knows_objects = is_gnu && library == Library::C;
        for symbol in elf.function_symbols() {
            let Ok(index) = chunks.binary_search_by_key(&symbol.address, |chunk| chunk.start)
            else {
                continue;
            };
            names.named[index] |= !symbol.name.ends_with(b".cold");
            names.wanted[index] |= is_wanted(symbol.name, library);
            names.of_library[index] |= is_of_library(symbol.name, library);
            names.unwanted[index] |= NEVER.contains(&symbol.name);
            names.may_call[index] |= ONCE.contains(&symbol.name);
            if knows_objects {
                names.objects[index] = names.objects[index].or(object_of(symbol.name));
            }
        }
        if knows_objects {
            for (index, object) in cancellation::find(elf, chunks) {
                names.objects[index] = Some(object);
            }
        }
        names
    }
}

/// Functions that are sections although they call functions of the program.
const ONCE: [&[u8]; 4] = [b"pthread_once", b"__pthread_once", b"call_once", b"__pthread_once_slow"];

/// Functions that are called too often and only concern their own thread, and those on spin locks.
/// One of these waits without the kernel's help, and would wait for ever in a section. The
/// accesses of these are operations instead.
const NEVER: [&[u8]; 14] = [
    b"pthread_self",
    b"pthread_equal",
    b"pthread_getspecific",
    b"__pthread_getspecific",
    b"pthread_setspecific",
    b"__pthread_setspecific",
    b"thrd_current",
    b"thrd_equal",
    b"__errno_location",
    b"__tls_get_addr",
    b"pthread_spin_init",
    b"pthread_spin_lock",
    b"pthread_spin_trylock",
    b"pthread_spin_unlock",
];

/// Families of functions of the C library. In other files, such names may mean anything.
const PREFIXES: [&[u8]; 10] = [
    b"pthread_",
    b"__pthread_",
    b"sem_",
    b"__new_sem_",
    b"__old_sem_",
    b"mtx_",
    b"cnd_",
    b"thrd_",
    b"__lll_",
    b"__futex_",
];

const ALLOCATOR: [&[u8]; 20] = [
    b"malloc",
    b"free",
    b"calloc",
    b"realloc",
    b"memalign",
    b"aligned_alloc",
    b"posix_memalign",
    b"valloc",
    b"pvalloc",
    b"reallocarray",
    b"malloc_trim",
    b"mallopt",
    b"mallinfo",
    b"mallinfo2",
    b"cfree",
    b"__libc_malloc",
    b"__libc_free",
    b"__libc_calloc",
    b"__libc_realloc",
    b"__libc_memalign",
];

/// Beginnings of the C library's own names. Programs must not use them.
const RESERVED: [&[u8]; 4] = [b"__", b"_IO_", b"_dl_", b"_nl_"];

/// As `RESERVED`, but of the library of C++.
const OF_CXX: &[u8] = b"__cxa_";

fn is_of_library(name: &[u8], library: Library) -> bool {
    library == Library::Static
        && RESERVED.iter().any(|prefix| name.starts_with(prefix))
        && !name.starts_with(OF_CXX)
}

fn is_wanted(name: &[u8], library: Library) -> bool {
    let of_family =
        library != Library::Other && PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    of_family || ONCE.contains(&name) || ALLOCATOR.contains(&name)
}
