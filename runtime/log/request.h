/* What request.c offers. */
#ifndef RETAKE_LOG_REQUEST_H
#define RETAKE_LOG_REQUEST_H
#include "contract/context.h"

struct slot *slot_claim(void);
i64 request(struct context *context, u32 kind, u64 a, u64 b, u64 c);

#endif
