/* What look.c offers. */
#ifndef RETAKE_MODE_LOOK_H
#define RETAKE_MODE_LOOK_H
#include "contract/context.h"

struct call;

u32 look_needed(const struct call *call);
void look_before(struct call *call);
void look_after(struct call *call);
void look_mapped(struct call *call, u32 is_program);
/* Replay: the event of the call was taken, but nothing was done for it yet. */
void look_replayed(struct call *call);

#endif
