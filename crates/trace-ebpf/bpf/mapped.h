/* The calls that concern mapped files. Their threads are held at return, so that user space can
 * look at what was read and stored without a call. */
#ifndef RETAKE_BPF_MAPPED_H
#define RETAKE_BPF_MAPPED_H

#include "record.h"
#include "../../../runtime/gen/numbers.h"

#define MAP_FIXED 0x10
#define MAP_ANONYMOUS 0x20
/* The loader sets this flag for the segments of programs and libraries, which are not data. It
 * has no other effect. */
#define MAP_DENYWRITE 0x800

INLINE u32 has_mappings(u32 process) { return map_lookup(&mappers, &process) != 0; }

INLINE void inherit_mappings(u32 parent, u32 child)
{
	u32 yes = 1;
	if (parent != child && has_mappings(parent))
		map_update(&mappers, &child, &yes, 0);
}

/* Whether a descriptor refers to a file with a shared mapping that may be written to. */
INLINE u32 is_mapped_to_write(u32 descriptor)
{
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	struct file **descriptors = 0, *file = 0;
	struct address_space *mapping = 0;
	u32 count = 0;
	i32 writers = 0;
	read_kernel(&files, sizeof files, &current_task()->files);
	read_kernel(&table, sizeof table, &files->fdt);
	read_kernel(&count, sizeof count, &table->max_fds);
	read_kernel(&descriptors, sizeof descriptors, &table->fd);
	if (descriptor >= count)
		return 0;
	read_kernel(&file, sizeof file, descriptors + descriptor);
	read_kernel(&mapping, sizeof mapping, &file->f_mapping);
	read_kernel(&writers, sizeof writers, &mapping->i_mmap_writable.counter);
	return writers > 0;
}

/* Whether a successful call concerns mapped files. Writes to a file do not count: what they
 * leave of earlier stores is seen later. */
INLINE u32 concerns_mapped_file(struct thread *thread, i64 result)
{
	u32 process = current_ids() >> 32;
	u64 flags = thread->arguments[3];
	switch (thread->number) {
	case NR_mmap:
		return !(flags & (MAP_ANONYMOUS | MAP_DENYWRITE)) ||
		       (flags & MAP_FIXED && has_mappings(process));
	case NR_munmap:
	case NR_mremap:
	case NR_msync:
	case NR_madvise: return has_mappings(process);
	case NR_read:
	case NR_pread64:
	case NR_readv:
	case NR_preadv:
	case NR_preadv2: return result > 0 && is_mapped_to_write((u32)thread->arguments[0]);
	}
	return 0;
}

#endif
