/* Functions of the C library that work on one object that they are given: a mutex, a semaphore.
 * Private stack.
 *
 * Such a function is one operation on its object, or several: nobody has a clock while it is in a
 * system call, so each call divides it. What it calls without a name of its own belongs to it. One
 * that waits on a condition is in the baton's order as well: signals to conditions are. It has the
 * baton before it takes the clock, and nobody waits for the baton who has a clock.
 *
 * In a process that shares memory with others the baton orders these functions, too. */
#include "order/object.h"
#include "base/state.h"
#include "order/baton.h"
#include "order/operation.h"
#include "order/policy.h"
#include "order/section.h"

void object_enter(struct context *context)
{
	if (operation_begin(context, context->object)) {
		context->operating = 0; /* that is for instructions */
		context->holds_object = 1;
	} else if (!context->in_section)
		baton_enter_section(context);
}

void object_leave(struct context *context)
{
	context->holds_object = 0;
	operation_end(context);
}

void object_forget(struct context *context)
{
	if (context->holds_object)
		object_leave(context);
	context->object = context->object_depth = context->is_condition = 0;
}

void object_begin(struct context *context, u64 object, u32 is_condition)
{
	if (context->object)
		return; /* part of the other one */
	section_note(context);
	context->object = object;
	context->object_depth = context->section_depth;
	context->is_condition = is_condition;
	if (domain_of(context))
		object_enter(context);
}
