/* Interprets one valid filter. Pure: no system calls, no memory but its arguments. */
#include "calls/filter.h"

static u32 calculate(u16 operation, u32 a, u32 b)
{
	switch (operation) {
	case BPF_ADD: return a + b;
	case BPF_SUB: return a - b;
	case BPF_MUL: return a * b;
	case BPF_AND: return a & b;
	case BPF_OR: return a | b;
	case BPF_XOR: return a ^ b;
	case BPF_LSH: return a << (b & 31);
	case BPF_RSH: return a >> (b & 31);
	case BPF_NEG: return -a;
	}
	return a;
}

static u32 holds(u16 comparison, u32 a, u32 b)
{
	switch (comparison) {
	case BPF_JEQ: return a == b;
	case BPF_JGT: return a > b;
	case BPF_JGE: return a >= b;
	}
	return (a & b) != 0;
}

static u32 load(const struct filter_step *step, const struct seccomp_data *data, const u32 *memory)
{
	u32 value;
	switch (step->code & 0xe0) {
	case BPF_ABS: memcpy(&value, (const u8 *)data + step->k, sizeof value); return value;
	case BPF_MEM: return memory[step->k];
	case BPF_LEN: return sizeof *data;
	}
	return step->k;
}

/* Terminates, because jumps only go forward. */
u32 filter_run(const struct filter_step *steps, const struct seccomp_data *data)
{
	u32 a = 0, x = 0, memory[FILTER_MEMORY] = {0};
	for (const struct filter_step *step = steps;; step++) {
		u16 operation = step->code & 0xf0;
		u32 operand = step->code & BPF_X ? x : step->k;
		switch (step->code & 7) {
		case BPF_LD: a = load(step, data, memory); break;
		case BPF_LDX: x = load(step, data, memory); break;
		case BPF_ST: memory[step->k] = a; break;
		case BPF_STX: memory[step->k] = x; break;
		case BPF_ALU:
			if (operation == BPF_DIV && operand == 0)
				return 0; /* as in the kernel; 0 kills the thread */
			a = operation == BPF_DIV ? a / operand : calculate(operation, a, operand);
			break;
		case BPF_JMP:
			if (operation == BPF_JA)
				step += step->k;
			else
				step += holds(operation, a, operand) ? step->when_true
								     : step->when_false;
			break;
		case BPF_RET: return step->code & BPF_A ? a : step->k;
		case BPF_MISC:
			if (step->code & BPF_TXA)
				a = x;
			else
				x = a;
		}
	}
}
