/* What referred.c offers. */
#ifndef RETAKE_MODE_REFERRED_H
#define RETAKE_MODE_REFERRED_H
#include "contract/context.h"

/* Replay: fills memory with the bytes of the stored file that an item refers to. */
void referred_read(struct context *context, const struct item *item);

#endif
