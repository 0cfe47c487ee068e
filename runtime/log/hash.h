/* What hash.c offers. */
#ifndef RETAKE_LOG_HASH_H
#define RETAKE_LOG_HASH_H
#include "contract/context.h"

/* The hash of the process's memory where it ends; 0 if it is unknown. `ends_all`: other threads
 * end, too. If only this one ends, hashing would cost too much. */
void final_hash(struct context *context, u32 ends_all, u64 *hash, u64 *pages);
struct page_hash {
	u64 address, hash;
};
/* 32 MB: changed pages of larger processes are not listed. */
#define PAGE_LIST_CAPACITY 8000
struct page_list {
	u64 complete, count, position, changed_count;
	u64 changed[FORCE_PAGES];
	struct page_hash pages[PAGE_LIST_CAPACITY];
};
/* Record: logs a HASH event, if one is due. */
void hash_at_interval(struct context *context);
/* Replay: the next event is a HASH event. */
void hash_replay(struct context *context);
/* The first call lists all pages. Later calls list those that changed since. */
void memory_list(struct context *context, struct page_list *list);
/* Hashes all memory, whatever the options say. */
void memory_scan(struct context *context, u64 *hash, u64 *pages);

#endif
