/* What image.c offers. */
#ifndef RETAKE_CALLS_IMAGE_H
#define RETAKE_CALLS_IMAGE_H
#include "base/image.h"

/* Takes the image from which the recording of a program begins that ran already. The supervisor is
 * told if that is impossible. */
void image_take_first(struct context *context);
void image_at_call(struct context *context);
/* Turns the memory of a copy of a recorded process, or what is restored from it, into what a replay
 * needs. `turn`: the one that the thread that took the image holds. */
void image_as_replayed(const struct context *context, u64 turn);

/* Recording, before a call is handled: takes an image of the process if one is wanted. */
static inline void image_come_by(struct context *context)
{
	if (UNLIKELY(HEADER->images_wanted))
		image_at_call(context);
}

#endif
