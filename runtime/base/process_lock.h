/* What process_lock.c offers. */
#ifndef RETAKE_BASE_PROCESS_LOCK_H
#define RETAKE_BASE_PROCESS_LOCK_H

/* Trace: locks what the threads of an address space share and change. Does nothing in other modes,
 * where the baton protects that data. */
void process_lock(void);
void process_unlock(void);

#endif
