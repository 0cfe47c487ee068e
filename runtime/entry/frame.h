/* What frame.c offers. */
#ifndef RETAKE_ENTRY_FRAME_H
#define RETAKE_ENTRY_FRAME_H
#include "contract/context.h"

u32 push_frame(struct context *context, u32 number, const struct siginfo *info,
	const struct fault *fault, u64 saved_mask);

#endif
