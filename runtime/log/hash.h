/* What hash.c offers. */
#ifndef RETAKE_LOG_HASH_H
#define RETAKE_LOG_HASH_H
#include "contract/context.h"

void memory_hash(struct context *context, u64 *hash, u64 *pages);
/* 0: nothing can be said. */
void final_hash(struct context *context, u64 *hash, u64 *pages);
struct page_hash {
	u64 address, hash;
};
/* 80 MB: in larger processes nobody looks for changed pages. */
#define PAGE_LIST_CAPACITY 20000
#define PAGE_LIST_CHANGED 16
struct page_list {
	u64 complete, count, position, changed_count;
	u64 changed[PAGE_LIST_CHANGED];
	struct page_hash pages[PAGE_LIST_CAPACITY];
};
/* Record: a HASH event, if it is time for one. */
void hash_at_interval(struct context *context);
/* Replay: the next event is a HASH event. */
void hash_replay(struct context *context);
/* First: lists all pages. again: those that changed since. */
void memory_list(struct context *context, struct page_list *list);
/* Of all memory, whatever the options say. */
void memory_scan(struct context *context, u64 *hash, u64 *pages);

#endif
