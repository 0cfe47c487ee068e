/* The layout of events, as docs/DESIGN.md defines it and crates/model/src/event.rs parses it. */
#ifndef RETAKE_EVENTS_H
#define RETAKE_EVENTS_H
#include "types.h"

enum event_kind {
	EVENT_CALL = 1,
	EVENT_SIGNAL = 2,
	EVENT_FATAL = 3,
	EVENT_EXIT = 4,
	EVENT_TSC = 5,
	EVENT_EXEC = 6,
	EVENT_START = 7,
	EVENT_TURN = 8,
	EVENT_FORCED = 9,
	EVENT_HASH = 10,
	EVENT_END = 11,
	EVENT_COMPARE = 15, /* sync policy: a compare-and-exchange that failed, for good */
	EVENT_PASSAGE = 16, /* the baton is given away where a function begins whose calls are counted; one TURN event follows */
	EVENT_STATE = 13, /* traces only, written by the supervisor: what a process starts with, and what no call shows */
};

enum { TURN_IN_CALL = 1 /* the call that follows lost the baton: its inputs are from before this turn */,
	TURN_SECTION = 2 /* sync policy: a section begins with it. Body: how many sections of the thread ended in its turn before (8 bytes) */ };
enum { CALL_CONSOLE_OUT = 1, CALL_CONSOLE_ERR = 2 };
enum { SIGNAL_BEFORE_CALL = 1, SIGNAL_FAULT = 2 /* raised by the program's own instruction: it comes by itself */ };
enum { ITEM_INPUT = 0, ITEM_OUTPUT = 1, ITEM_CHILD = 2, ITEM_MAPPING = 3, ITEM_CONSOLE = 4, ITEM_FILE_WRITE = 5, ITEM_TIMES = 6, ITEM_FILL = 7,
	ITEM_FILE_READ = 8 /* the call read a file that somebody maps shared. For traces made of the recording: replay does nothing about it */,
	ITEM_MOVED = 9 /* what the call moved between descriptors, for the same; kept only where it is wanted */,
	ITEM_FILE_DATA = 10 /* behind ITEM_FILE_WRITE: what the file holds there now, if that did not come from the program's memory */ };

struct event {
	u32 size;
	u8 kind;
	u8 flags;
	u16 number;
	i64 value;
};

struct item {
	u8 argument;
	u8 direction;
	u16 flags;
	u32 inline_bytes;
	u32 total_bytes;
	u32 hash;
	u64 address;
};

/* Body of ITEM_MAPPING: which stored file the mapping shows, and what lies over it: patched text, and last the stubs. */
struct mapping_overlay {
	u64 address;
	u64 bytes;
	u8 content[32];
};
#define MAX_OVERLAYS 9
struct mapping_body {
	u8 content[32];
	u64 device, inode; /* as in struct file_identity */
	u32 overlay_count;
	u32 may_change; /* a private mapping of a file that the program can write to: replay maps its copy of the file */
	struct mapping_overlay overlays[MAX_OVERLAYS]; /* so many as are counted */
};

/* Body of ITEM_FILE_WRITE: a call changed a file that somebody maps shared. */
struct file_write {
	u64 device, inode; /* as in struct file_identity */
	u64 offset;   /* where the call's data went */
	u64 new_size; /* ~0: unchanged by other means than the data */
};

/* Body of ITEM_TIMES: in traces only, and the first item of every call there. ITEM_FILL holds nothing: it takes the room that data were to have
 * which another thread made shorter meanwhile. */
struct call_times {
	u64 entered_ns, returned_ns; /* since 1970 */
	u64 processor;
};

/* Body of EVENT_EXEC, written by the supervisor. */
struct exec_mapping {
	u64 start, end;
	u32 protection; /* PROT_* */
	u32 flags;      /* 1: has content; 2: grows down; 4: content is inline bytes of the memory area below */
	u64 offset;     /* in the content */
	u8 content[32];
};
struct exec_body {
	u64 program_counter, stack_pointer, break_start;
	u64 ignored, mask; /* signals */
	u64 stack_limit;   /* RLIMIT_STACK: where growth ends in a fault */
	u64 mapping_count; /* exec_mapping records follow, then memory areas: {address, bytes, data padded to 8} */
	u64 area_count;
};
enum { EXEC_MAPPING_CONTENT = 1, EXEC_MAPPING_GROWS_DOWN = 2 };

#endif
