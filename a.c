#include <stdatomic.h>
#include <pthread.h>
volatile int flag; _Atomic long n; static _Atomic int s; volatile double d; _Atomic double ad;
struct big { _Atomic char c; volatile short t; } *p;
int f(_Atomic int *q) { while (!atomic_load_explicit(q, memory_order_acquire)) ; flag = 3; n = 4; return s + p->c + p->t; }
void g(void) { d += 1.5; ad = ad + 1; atomic_store_explicit(&s, 3, memory_order_release); if (flag & 4) flag++; 
 asm volatile("movl $1, %0; addl $3, %0\n\tmovl %0, %%eax" : "+m"(flag) :: "eax"); }
int main(void){ return f(&s); }
