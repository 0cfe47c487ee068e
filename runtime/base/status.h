/* Flags of the processor that programs read. */
#ifndef RETAKE_BASE_STATUS_H
#define RETAKE_BASE_STATUS_H

/* Carry, parity, adjust, zero, sign, direction, overflow. */
#define STATUS_FLAGS 0xcd5UL

#endif
