/* Functions of the C library that work on one object that they are given, such as a mutex or a
 * semaphore. Private stack.
 *
 * Such a function is one operation on its object, or several: a thread must not hold a clock during
 * a system call, so each call divides the function. Nested calls of functions belong to it unless
 * they have an object of their own. A function that waits on a condition is also in the baton's
 * order, because signals to conditions are. It takes the baton before the clock, and no thread
 * waits for the baton while it holds a clock.
 *
 * Where a thread can be cancelled, the C library reads and changes a word of the thread itself.
 * These functions work on that word. Each of them divides its caller, such as the wait for a
 * semaphore, as a call does. The thread that cancels works on the same word and holds the baton.
 *
 * In a process that shares memory with others the baton orders these functions, too. */
#include "order/object.h"
#include "base/state.h"
#include "order/baton.h"
#include "order/operation.h"
#include "order/policy.h"
#include "order/section.h"

#define OF_THREAD_BYTES 4096 /* at least the size of what the C library keeps for a thread */

void object_enter(struct context *context)
{
	if (operation_begin(context, context->within.object)) {
		context->operating = 0; /* `operating` is for instructions */
		context->holds_object = 1;
	} else if (!context->in_section)
		baton_enter_section(context);
}

void object_leave(struct context *context)
{
	context->holds_object = 0;
	operation_end(context);
}

static void leave_if_held(struct context *context)
{
	if (context->holds_object)
		object_leave(context);
}

void object_forget(struct context *context)
{
	leave_if_held(context);
	context->within = context->outer = (struct in_object){.object = 0};
}

void object_end(struct context *context)
{
	leave_if_held(context);
	context->within = context->outer;
	context->outer = (struct in_object){.object = 0};
	if (context->within.object && domain_of(context))
		object_enter(context);
}

static u32 is_own(u64 object)
{
	u64 thread;
	__asm__("mov %%fs:0x10, %0" : "=r"(thread));
	return object - thread < OF_THREAD_BYTES;
}

void object_begin(struct context *context, u64 object, u32 is_condition)
{
	if (context->within.object) {
		if (context->outer.object || !is_own(object))
			return; /* part of the function around it */
		leave_if_held(context);
		context->outer = context->within;
	}
	section_note(context);
	context->within = (struct in_object){.object = object,
		.depth = context->section_depth,
		.has_baton = is_condition || context->in_section};
	if (domain_of(context))
		object_enter(context);
}
