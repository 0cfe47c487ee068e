/* The kernel's interface as it is used here: helper functions by number, and the few fields that
 * are read. The loader finds these by BTF, wherever they are. */
#ifndef RETAKE_BPF_KERNEL_H
#define RETAKE_BPF_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* A function that the verifier checks once, for all arguments. */
#define APART __attribute__((noinline))

/* Keeps the checked number and the used number in one register, because the verifier follows
 * only registers. */
#define AS_CHECKED(number) __asm__ volatile("" : "+r"(number))

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE 1024
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

/* Describes a map to the loader, by the types of a structure's members. */
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, type) type *name

/* Fields are found by name in the running kernel's BTF. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, cs;
};
typedef struct {
	unsigned long sig[1];
} sigset_t;
struct sigpending {
	sigset_t signal;
};
typedef struct {
	int counter;
} atomic_t;
struct address_space {
	atomic_t i_mmap_writable; /* number of shared mappings that may be written to */
};
struct file {
	struct address_space *f_mapping;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct task_struct {
	int pid, tgid, exit_code;
	unsigned int ptrace;
	struct files_struct *files;
	struct sigpending pending;
};
struct linux_binprm {
	const char *filename;
};
#pragma clang attribute pop

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(
	void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const now_ns)(void) = (void *)5;
static u32 (*const processor)(void) = (void *)8;
static u64 (*const current_ids)(void) = (void *)14;
static long (*const read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*const read_user_string)(void *to, u32 bytes, const void *from) = (void *)114;
static long (*const read_kernel_string)(void *to, u32 bytes, const void *from) = (void *)115;
static long (*const signal_thread)(u32 signal) = (void *)117;
static void *(*const task_storage)(void *map, void *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const repeat)(u32 count, void *function, void *context, u64 flags) = (void *)181;

#endif
