/* What shared_file.c offers. */
#ifndef RETAKE_MODE_SHARED_FILE_H
#define RETAKE_MODE_SHARED_FILE_H
#include "base/state.h"
#include "contract/context.h"

struct call;
struct extra_item;
struct view;

/* Times and size as far as they were asked for. */
struct file_identity {
	/* In its high half: some bits of when the file was made, since inodes are used again. */
	u64 device;
	u64 inode, size, modified_ns, changed_ns;
	u32 regular;
};
/* 0: it cannot be asked. */
u32 identify_file(u64 descriptor, struct file_identity *identity, u32 with_times);
void shared_file_note(u64 device, u64 inode, u32 changes);
u32 shared_file_is(u64 device, u64 inode);
u32 shared_file_changes(u64 device, u64 inode);
/* Record: 0: the call can neither have read nor changed one of them. */
u32 shared_file_concerns(struct process *process, u64 number, u64 first_argument);
/* Record: items added, two at most. */
u32 shared_file_write(
	struct call *call, struct file_write *write, struct view *view, struct extra_item *extra);
/* Record: items added. */
u32 shared_file_read(const struct call *call, struct extra_item *extra);
/* Replay. */
void shared_file_rewrite(struct call *call, const struct item *item);
i64 scratch_open(u64 device, u64 inode);

#endif
