//! Memory: names in the order in which they are printed. Flags of several bits come before their
//! parts.

use crate::flags::FlagSet;

/// Protections of mmap and mprotect.
pub static PROTECTION: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (0, "PROT_NONE"),
        (1, "PROT_READ"),
        (2, "PROT_WRITE"),
        (4, "PROT_EXEC"),
        (8, "PROT_SEM"),
        (0x1000000, "PROT_GROWSDOWN"),
        (0x2000000, "PROT_GROWSUP"),
    ],
};

/// Flags of mmap.
pub static MAP: FlagSet = FlagSet {
    field_mask: 0xf,
    fields: &[(1, "MAP_SHARED"), (2, "MAP_PRIVATE"), (3, "MAP_SHARED_VALIDATE")],
    bits: &[
        (0x10, "MAP_FIXED"),
        (0x20, "MAP_ANONYMOUS"),
        (0x40, "MAP_32BIT"),
        (0x100, "MAP_GROWSDOWN"),
        (0x800, "MAP_DENYWRITE"),
        (0x1000, "MAP_EXECUTABLE"),
        (0x2000, "MAP_LOCKED"),
        (0x4000, "MAP_NORESERVE"),
        (0x8000, "MAP_POPULATE"),
        (0x10000, "MAP_NONBLOCK"),
        (0x20000, "MAP_STACK"),
        (0x40000, "MAP_HUGETLB"),
        (0x80000, "MAP_SYNC"),
        (0x100000, "MAP_FIXED_NOREPLACE"),
    ],
};

/// Flags of mremap.
pub static MREMAP: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")],
};

/// Flags of msync.
pub static MSYNC: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "MS_ASYNC"), (2, "MS_INVALIDATE"), (4, "MS_SYNC")],
};

/// Flags of mlockall.
pub static MLOCKALL: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "MCL_CURRENT"), (2, "MCL_FUTURE"), (4, "MCL_ONFAULT")],
};

/// Advice of madvise.
pub static MADVISE: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "MADV_NORMAL"),
        (1, "MADV_RANDOM"),
        (2, "MADV_SEQUENTIAL"),
        (3, "MADV_WILLNEED"),
        (4, "MADV_DONTNEED"),
        (8, "MADV_FREE"),
        (9, "MADV_REMOVE"),
        (0xa, "MADV_DONTFORK"),
        (0xb, "MADV_DOFORK"),
        (0xc, "MADV_MERGEABLE"),
        (0xd, "MADV_UNMERGEABLE"),
        (0xe, "MADV_HUGEPAGE"),
        (0xf, "MADV_NOHUGEPAGE"),
        (0x10, "MADV_DONTDUMP"),
        (0x11, "MADV_DODUMP"),
        (0x12, "MADV_WIPEONFORK"),
        (0x13, "MADV_KEEPONFORK"),
        (0x14, "MADV_COLD"),
        (0x15, "MADV_PAGEOUT"),
        (0x16, "MADV_POPULATE_READ"),
        (0x17, "MADV_POPULATE_WRITE"),
        (0x18, "MADV_DONTNEED_LOCKED"),
        (0x19, "MADV_COLLAPSE"),
        (0x64, "MADV_HWPOISON"),
        (0x65, "MADV_SOFT_OFFLINE"),
        (0x66, "MADV_GUARD_INSTALL"),
        (0x67, "MADV_GUARD_REMOVE"),
    ],
    bits: &[],
};

/// Flags of shmat.
pub static SHMAT: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (0x1000, "SHM_RDONLY"),
        (0x2000, "SHM_RND"),
        (0x4000, "SHM_REMAP"),
        (0x8000, "SHM_EXEC"),
    ],
};
