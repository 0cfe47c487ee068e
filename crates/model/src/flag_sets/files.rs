//! Files, descriptors and events on them: names in the order in which they are printed. Flags of
//! several bits come before their parts.

use crate::flags::FlagSet;

/// Flags of open and F_SETFL.
pub static OPEN: FlagSet = FlagSet {
    field_mask: 3,
    fields: &[(0, "O_RDONLY"), (1, "O_WRONLY"), (2, "O_RDWR")],
    bits: &[
        (0x40, "O_CREAT"),
        (0x80, "O_EXCL"),
        (0x100, "O_NOCTTY"),
        (0x200, "O_TRUNC"),
        (0x400, "O_APPEND"),
        (0x800, "O_NONBLOCK"),
        (0x101000, "O_SYNC"),
        (0x1000, "O_DSYNC"),
        (0x4000, "O_DIRECT"),
        (0x8000, "O_LARGEFILE"),
        (0x20000, "O_NOFOLLOW"),
        (0x40000, "O_NOATIME"),
        (0x80000, "O_CLOEXEC"),
        (0x200000, "O_PATH"),
        (0x410000, "O_TMPFILE"),
        (0x10000, "O_DIRECTORY"),
        (0x2000, "FASYNC"),
    ],
};

/// Flags of a new descriptor.
pub static FD: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(0x800, "O_NONBLOCK"), (0x4000, "O_DIRECT"), (0x80000, "O_CLOEXEC")],
};

/// Flags of F_SETFD.
pub static FD_FLAGS: FlagSet = FlagSet { field_mask: 0, fields: &[], bits: &[(1, "FD_CLOEXEC")] };

/// Flags of eventfd2.
pub static EVENTFD: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "EFD_SEMAPHORE"), (0x800, "EFD_NONBLOCK"), (0x80000, "EFD_CLOEXEC")],
};

/// Flags of timerfd_create.
pub static TIMERFD: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(0x800, "TFD_NONBLOCK"), (0x80000, "TFD_CLOEXEC")],
};

/// Starting points of lseek.
pub static WHENCE: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "SEEK_SET"),
        (1, "SEEK_CUR"),
        (2, "SEEK_END"),
        (3, "SEEK_DATA"),
        (4, "SEEK_HOLE"),
    ],
    bits: &[],
};

/// Modes of access.
pub static ACCESS: FlagSet = FlagSet {
    field_mask: 7,
    fields: &[
        (0, "F_OK"),
        (4, "R_OK"),
        (2, "W_OK"),
        (1, "X_OK"),
        (6, "R_OK|W_OK"),
        (5, "R_OK|X_OK"),
        (3, "W_OK|X_OK"),
        (7, "R_OK|W_OK|X_OK"),
    ],
    bits: &[],
};

/// Flags of the `...at` calls.
pub static AT: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (0x100, "AT_SYMLINK_NOFOLLOW"),
        (0x200, "AT_EACCESS"),
        (0x400, "AT_SYMLINK_FOLLOW"),
        (0x800, "AT_NO_AUTOMOUNT"),
        (0x1000, "AT_EMPTY_PATH"),
        (0x2000, "AT_STATX_FORCE_SYNC"),
        (0x4000, "AT_STATX_DONT_SYNC"),
        (0x8000, "AT_RECURSIVE"),
    ],
};

/// Flags of statx. Names how fresh the answer must be, even for the default.
pub static AT_STATX: FlagSet = FlagSet {
    field_mask: 0x6000,
    fields: &[
        (0, "AT_STATX_SYNC_AS_STAT"),
        (0x2000, "AT_STATX_FORCE_SYNC"),
        (0x4000, "AT_STATX_DONT_SYNC"),
    ],
    bits: AT.bits,
};

/// Types of file systems.
pub static FILE_SYSTEM: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0x0000_1cd1, "DEVPTS_SUPER_MAGIC"),
        (0x0000_4d44, "MSDOS_SUPER_MAGIC"),
        (0x0000_6969, "NFS_SUPER_MAGIC"),
        (0x0000_9fa0, "PROC_SUPER_MAGIC"),
        (0x0000_ef53, "EXT2_SUPER_MAGIC"),
        (0x0102_1994, "TMPFS_MAGIC"),
        (0x0102_1997, "V9FS_MAGIC"),
        (0x5049_5045, "PIPEFS_MAGIC"),
        (0x534f_434b, "SOCKFS_MAGIC"),
        (0x5846_5342, "XFS_SUPER_MAGIC"),
        (0x6265_6572, "SYSFS_MAGIC"),
        (0x6367_7270, "CGROUP2_SUPER_MAGIC"),
        (0x6462_6720, "DEBUGFS_MAGIC"),
        (0x6573_5546, "FUSE_SUPER_MAGIC"),
        (0x6e73_6673, "NSFS_MAGIC"),
        (0x7371_7368, "SQUASHFS_MAGIC"),
        (0x794c_7630, "OVERLAYFS_SUPER_MAGIC"),
        (0x8584_58f6, "RAMFS_MAGIC"),
        (0x9123_683e, "BTRFS_SUPER_MAGIC"),
        (0x9584_58f6, "HUGETLBFS_MAGIC"),
        (0xcafe_4a11, "BPF_FS_MAGIC"),
        (0xf2f5_2010, "F2FS_SUPER_MAGIC"),
    ],
    bits: &[],
};

/// Mount flags in the result of statfs.
pub static MOUNTED: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (0x20, "ST_VALID"),
        (1, "ST_RDONLY"),
        (2, "ST_NOSUID"),
        (4, "ST_NODEV"),
        (8, "ST_NOEXEC"),
        (0x10, "ST_SYNCHRONOUS"),
        (0x40, "ST_MANDLOCK"),
        (0x400, "ST_NOATIME"),
        (0x800, "ST_NODIRATIME"),
        (0x1000, "ST_RELATIME"),
        (0x2000, "ST_NOSYMFOLLOW"),
    ],
};

/// Types of file locks.
pub static LOCK: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[(0, "F_RDLCK"), (1, "F_WRLCK"), (2, "F_UNLCK")],
    bits: &[],
};

/// Flags of unlinkat.
pub static UNLINKAT: FlagSet =
    FlagSet { field_mask: 0, fields: &[], bits: &[(0x200, "AT_REMOVEDIR")] };

/// The mask of statx.
pub static STATX: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (0xfff, "STATX_ALL"),
        (0x7ff, "STATX_BASIC_STATS"),
        (1, "STATX_TYPE"),
        (2, "STATX_MODE"),
        (4, "STATX_NLINK"),
        (8, "STATX_UID"),
        (0x10, "STATX_GID"),
        (0x20, "STATX_ATIME"),
        (0x40, "STATX_MTIME"),
        (0x80, "STATX_CTIME"),
        (0x100, "STATX_INO"),
        (0x200, "STATX_SIZE"),
        (0x400, "STATX_BLOCKS"),
        (0x800, "STATX_BTIME"),
        (0x1000, "STATX_MNT_ID"),
        (0x2000, "STATX_DIOALIGN"),
        (0x4000, "STATX_MNT_ID_UNIQUE"),
        (0x8000, "STATX_SUBVOL"),
        (0x10000, "STATX_WRITE_ATOMIC"),
        (0x20000, "STATX_DIO_READ_ALIGN"),
    ],
};

/// Flags of open_tree.
pub static OPEN_TREE: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "OPEN_TREE_CLONE"),
        (0x1000, "AT_EMPTY_PATH"),
        (0x800, "AT_NO_AUTOMOUNT"),
        (0x100, "AT_SYMLINK_NOFOLLOW"),
        (0x8000, "AT_RECURSIVE"),
        (0x80000, "OPEN_TREE_CLOEXEC"),
    ],
};

/// Flags of renameat2.
pub static RENAME: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "RENAME_NOREPLACE"), (2, "RENAME_EXCHANGE"), (4, "RENAME_WHITEOUT")],
};

/// Flags of flock.
pub static FLOCK: FlagSet = FlagSet {
    field_mask: 7,
    fields: &[
        (1, "LOCK_SH"),
        (2, "LOCK_EX"),
        (5, "LOCK_SH|LOCK_NB"),
        (6, "LOCK_EX|LOCK_NB"),
        (4, "LOCK_NB"),
    ],
    bits: &[(8, "LOCK_UN")],
};

/// Flags of setxattr.
pub static XATTR: FlagSet =
    FlagSet { field_mask: 0, fields: &[], bits: &[(1, "XATTR_CREATE"), (2, "XATTR_REPLACE")] };

/// Flags of fallocate.
pub static FALLOCATE: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "FALLOC_FL_KEEP_SIZE"),
        (2, "FALLOC_FL_PUNCH_HOLE"),
        (8, "FALLOC_FL_COLLAPSE_RANGE"),
        (0x10, "FALLOC_FL_ZERO_RANGE"),
        (0x20, "FALLOC_FL_INSERT_RANGE"),
        (0x40, "FALLOC_FL_UNSHARE_RANGE"),
    ],
};

/// Advice of fadvise64.
pub static FADVISE: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "POSIX_FADV_NORMAL"),
        (1, "POSIX_FADV_RANDOM"),
        (2, "POSIX_FADV_SEQUENTIAL"),
        (3, "POSIX_FADV_WILLNEED"),
        (4, "POSIX_FADV_DONTNEED"),
        (5, "POSIX_FADV_NOREUSE"),
    ],
    bits: &[],
};

/// Flags of splice, tee and vmsplice.
pub static SPLICE: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "SPLICE_F_MOVE"),
        (2, "SPLICE_F_NONBLOCK"),
        (4, "SPLICE_F_MORE"),
        (8, "SPLICE_F_GIFT"),
    ],
};

/// Flags of preadv2 and pwritev2.
pub static RWF: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "RWF_HIPRI"),
        (2, "RWF_DSYNC"),
        (4, "RWF_SYNC"),
        (8, "RWF_NOWAIT"),
        (0x10, "RWF_APPEND"),
        (0x20, "RWF_NOAPPEND"),
        (0x40, "RWF_ATOMIC"),
        (0x80, "RWF_DONTCACHE"),
    ],
};

/// Seals of F_ADD_SEALS.
pub static SEALS: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "F_SEAL_SEAL"),
        (2, "F_SEAL_SHRINK"),
        (4, "F_SEAL_GROW"),
        (8, "F_SEAL_WRITE"),
        (0x10, "F_SEAL_FUTURE_WRITE"),
        (0x20, "F_SEAL_EXEC"),
    ],
};

/// Flags of memfd_create.
pub static MEMFD: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "MFD_CLOEXEC"),
        (2, "MFD_ALLOW_SEALING"),
        (4, "MFD_HUGETLB"),
        (8, "MFD_NOEXEC_SEAL"),
        (0x10, "MFD_EXEC"),
    ],
};

/// Flags of close_range.
pub static CLOSE_RANGE: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(2, "CLOSE_RANGE_UNSHARE"), (4, "CLOSE_RANGE_CLOEXEC")],
};

/// Events and flags of inotify_add_watch.
pub static INOTIFY: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (0xfff, "IN_ALL_EVENTS"),
        (1, "IN_ACCESS"),
        (2, "IN_MODIFY"),
        (4, "IN_ATTRIB"),
        (8, "IN_CLOSE_WRITE"),
        (0x10, "IN_CLOSE_NOWRITE"),
        (0x20, "IN_OPEN"),
        (0x40, "IN_MOVED_FROM"),
        (0x80, "IN_MOVED_TO"),
        (0x100, "IN_CREATE"),
        (0x200, "IN_DELETE"),
        (0x400, "IN_DELETE_SELF"),
        (0x800, "IN_MOVE_SELF"),
        (0x1000000, "IN_ONLYDIR"),
        (0x2000000, "IN_DONT_FOLLOW"),
        (0x4000000, "IN_EXCL_UNLINK"),
        (0x10000000, "IN_MASK_CREATE"),
        (0x20000000, "IN_MASK_ADD"),
        (0x40000000, "IN_ISDIR"),
        (0x80000000, "IN_ONESHOT"),
    ],
};

/// Operations of epoll_ctl.
pub static EPOLL_CTL: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")],
    bits: &[],
};

/// Events in a `struct epoll_event`.
pub static EPOLL_EVENTS: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "EPOLLIN"),
        (2, "EPOLLPRI"),
        (4, "EPOLLOUT"),
        (8, "EPOLLERR"),
        (0x10, "EPOLLHUP"),
        (0x40, "EPOLLRDNORM"),
        (0x80, "EPOLLRDBAND"),
        (0x100, "EPOLLWRNORM"),
        (0x200, "EPOLLWRBAND"),
        (0x400, "EPOLLMSG"),
        (0x2000, "EPOLLRDHUP"),
        (0x10000000, "EPOLLEXCLUSIVE"),
        (0x20000000, "EPOLLWAKEUP"),
        (0x40000000, "EPOLLONESHOT"),
        (0x80000000, "EPOLLET"),
    ],
};

/// Events in a `struct pollfd`.
pub static POLL_EVENTS: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "POLLIN"),
        (2, "POLLPRI"),
        (4, "POLLOUT"),
        (8, "POLLERR"),
        (0x10, "POLLHUP"),
        (0x20, "POLLNVAL"),
        (0x40, "POLLRDNORM"),
        (0x80, "POLLRDBAND"),
        (0x100, "POLLWRNORM"),
        (0x200, "POLLWRBAND"),
        (0x400, "POLLMSG"),
        (0x1000, "POLLREMOVE"),
        (0x2000, "POLLRDHUP"),
    ],
};

/// Flags of mount.
pub static MOUNT: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "MS_RDONLY"),
        (2, "MS_NOSUID"),
        (4, "MS_NODEV"),
        (8, "MS_NOEXEC"),
        (0x10, "MS_SYNCHRONOUS"),
        (0x20, "MS_REMOUNT"),
        (0x40, "MS_MANDLOCK"),
        (0x80, "MS_DIRSYNC"),
        (0x100, "MS_NOSYMFOLLOW"),
        (0x400, "MS_NOATIME"),
        (0x800, "MS_NODIRATIME"),
        (0x1000, "MS_BIND"),
        (0x2000, "MS_MOVE"),
        (0x4000, "MS_REC"),
        (0x8000, "MS_SILENT"),
        (0x20000, "MS_UNBINDABLE"),
        (0x40000, "MS_PRIVATE"),
        (0x80000, "MS_SLAVE"),
        (0x100000, "MS_SHARED"),
        (0x200000, "MS_RELATIME"),
        (0x1000000, "MS_STRICTATIME"),
        (0x2000000, "MS_LAZYTIME"),
    ],
};

/// Flags of umount2.
pub static UMOUNT: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[(1, "MNT_FORCE"), (2, "MNT_DETACH"), (4, "MNT_EXPIRE"), (8, "UMOUNT_NOFOLLOW")],
};
