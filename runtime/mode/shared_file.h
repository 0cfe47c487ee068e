/* What shared_file.c offers. */
#ifndef RETAKE_MODE_SHARED_FILE_H
#define RETAKE_MODE_SHARED_FILE_H
#include "base/state.h"
#include "contract/context.h"
#include "gen/numbers.h"

struct call;
struct extra_item;
struct view;

/* The identity of a file. Times and size are set as far as they were queried. */
struct file_identity {
	/* The high half holds bits of the file's birth time, since inodes are reused. */
	u64 device;
	u64 inode, size, modified_ns, changed_ns;
	u32 regular;
};
/* Returns 0 if the kernel does not tell. */
u32 identify_file(u64 descriptor, struct file_identity *identity, u32 with_times);
/* How a file is mapped: it may be written through the mapping; the process takes turns with others
 * that share memory. */
enum { FILE_CHANGES = 1, FILE_ORDERED = 2 };
void shared_file_note(u64 device, u64 inode, u32 how);
u32 shared_file_is(u64 device, u64 inode);
u32 shared_file_changes(u64 device, u64 inode);
/* Record: returns 0 if the call can neither have read nor changed such a file. */
u32 shared_file_concerns(struct process *process, u64 number, u64 first_argument);
/* Returns whether a call changes a file of one of its descriptors. */
static inline u32 changes_file(u64 number)
{
	switch (number) {
	case NR_write:
	case NR_writev:
	case NR_pwrite64:
	case NR_pwritev:
	case NR_pwritev2:
	case NR_ftruncate:
	case NR_fallocate:
	case NR_sendfile:
	case NR_splice:
	case NR_copy_file_range: return 1;
	default: return 0;
	}
}
/* Record: returns whether the call is to be made in turn with processes that have mapped the file.
 */
u32 shared_file_turn(struct context *context);
/* Record: returns the number of items added, at most two. */
u32 shared_file_write(
	struct call *call, struct file_write *write, struct view *view, struct extra_item *extra);
/* Record: returns the number of items added. */
u32 shared_file_read(const struct call *call, struct extra_item *extra);
/* Replay: repeats a write on the scratch copy. */
void shared_file_rewrite(struct call *call, const struct item *item);
i64 scratch_open(u64 device, u64 inode);

#endif
