/* Checks which filters the kernel would accept: classic BPF, reduced to what seccomp allows. Pure:
 * no system calls, no memory but its arguments. */
#include "calls/filter.h"

/* A filter may only read memory words that are written on every path to the instruction. */
static u32 memory_is_written(const struct filter_step *steps, u32 count, u16 *written)
{
	u16 valid = 0;
	memset(written, 0xff, count * sizeof *written);
	for (u32 i = 0; i < count; i++) {
		const struct filter_step *step = &steps[i];
		valid &= written[i];
		switch (step->code) {
		case BPF_ST:
		case BPF_STX: valid |= (u16)(1 << step->k); break;
		case BPF_LD | BPF_MEM:
		case BPF_LDX | BPF_MEM:
			if (!(valid >> step->k & 1))
				return 0;
			break;
		case BPF_JMP | BPF_JA:
			written[i + 1 + step->k] &= valid;
			valid = 0xffff;
			break;
		default:
			if ((step->code & 7) == BPF_JMP) {
				written[i + 1 + step->when_true] &= valid;
				written[i + 1 + step->when_false] &= valid;
				valid = 0xffff;
			}
		}
	}
	return 1;
}

static u32 step_is_valid(const struct filter_step *step, u32 following)
{
	switch (step->code) {
	case BPF_LD | BPF_ABS: return step->k < sizeof(struct seccomp_data) && step->k % 4 == 0;
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
	case BPF_ST:
	case BPF_STX: return step->k < FILTER_MEMORY;
	case BPF_ALU | BPF_DIV: return step->k != 0;
	case BPF_ALU | BPF_LSH:
	case BPF_ALU | BPF_RSH: return step->k < 32;
	case BPF_JMP | BPF_JA: return step->k < following;
	case BPF_JMP | BPF_JEQ:
	case BPF_JMP | BPF_JGT:
	case BPF_JMP | BPF_JGE:
	case BPF_JMP | BPF_JSET:
	case BPF_JMP | BPF_JEQ | BPF_X:
	case BPF_JMP | BPF_JGT | BPF_X:
	case BPF_JMP | BPF_JGE | BPF_X:
	case BPF_JMP | BPF_JSET | BPF_X:
		return step->when_true < following && step->when_false < following;
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
	case BPF_LD | BPF_LEN:
	case BPF_LDX | BPF_LEN:
	case BPF_ALU | BPF_ADD:
	case BPF_ALU | BPF_SUB:
	case BPF_ALU | BPF_MUL:
	case BPF_ALU | BPF_AND:
	case BPF_ALU | BPF_OR:
	case BPF_ALU | BPF_XOR:
	case BPF_ALU | BPF_ADD | BPF_X:
	case BPF_ALU | BPF_SUB | BPF_X:
	case BPF_ALU | BPF_MUL | BPF_X:
	case BPF_ALU | BPF_DIV | BPF_X:
	case BPF_ALU | BPF_AND | BPF_X:
	case BPF_ALU | BPF_OR | BPF_X:
	case BPF_ALU | BPF_XOR | BPF_X:
	case BPF_ALU | BPF_LSH | BPF_X:
	case BPF_ALU | BPF_RSH | BPF_X:
	case BPF_ALU | BPF_NEG:
	case BPF_MISC | BPF_TAX:
	case BPF_MISC | BPF_TXA:
	case BPF_RET:
	case BPF_RET | BPF_A: return 1;
	}
	return 0;
}

u32 filter_is_valid(const struct filter_step *steps, u32 count)
{
	u16 written[FILTER_MOST_STEPS];
	for (u32 i = 0; i < count; i++)
		if (!step_is_valid(&steps[i], count - i - 1))
			return 0;
	return (steps[count - 1].code & 7) == BPF_RET && memory_is_written(steps, count, written);
}
