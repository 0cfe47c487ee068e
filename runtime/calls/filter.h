/* The program's own seccomp filters: classic BPF over a description of one call. */
#ifndef RETAKE_CALLS_FILTER_H
#define RETAKE_CALLS_FILTER_H
#include "base/types.h"

#define FILTER_MEMORY 16u
#define FILTER_MOST_STEPS 4096u
struct seccomp_data {
	i32 number;
	u32 architecture;
	u64 instruction_pointer;
	u64 arguments[6];
};
/* The layout of struct sock_filter. */
struct filter_step {
	u16 code;
	u8 when_true, when_false;
	u32 k;
};
/* Fields of a code: class, then size and mode, or operation and source. Zeros (BPF_W, BPF_K) are
 * left out. */
enum {
	BPF_LD = 0,
	BPF_LDX = 1,
	BPF_ST = 2,
	BPF_STX = 3,
	BPF_ALU = 4,
	BPF_JMP = 5,
	BPF_RET = 6,
	BPF_MISC = 7
};
enum { BPF_IMM = 0x00, BPF_ABS = 0x20, BPF_MEM = 0x60, BPF_LEN = 0x80 };
enum {
	BPF_ADD = 0x00,
	BPF_SUB = 0x10,
	BPF_MUL = 0x20,
	BPF_DIV = 0x30,
	BPF_OR = 0x40,
	BPF_AND = 0x50,
	BPF_LSH = 0x60,
	BPF_RSH = 0x70,
	BPF_NEG = 0x80,
	BPF_XOR = 0xa0
};
enum { BPF_JA = 0x00, BPF_JEQ = 0x10, BPF_JGT = 0x20, BPF_JGE = 0x30, BPF_JSET = 0x40 };
enum { BPF_X = 0x08, BPF_A = 0x10, BPF_TAX = 0x00, BPF_TXA = 0x80 };
/* Returns whether the kernel would accept the filter. `count`: 1 to FILTER_MOST_STEPS. */
u32 filter_is_valid(const struct filter_step *steps, u32 count);
/* Runs a valid filter. Returns its answer. */
u32 filter_run(const struct filter_step *steps, const struct seccomp_data *data);

#endif
