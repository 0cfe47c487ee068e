/* What instruction.c offers. */
#ifndef RETAKE_PLACE_INSTRUCTION_H
#define RETAKE_PLACE_INSTRUCTION_H
#include "contract/context.h"

void emulate_cpuid(struct registers *regs);
void emulate_tsc(struct context *context, struct registers *regs, u32 with_aux);

#endif
