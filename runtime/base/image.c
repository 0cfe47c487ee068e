/* Saves the registers that the runtime never touches and so has not saved. Private stack. */
#include "base/image.h"

void image_keep_registers(struct context *context)
{
	u8 *area = (u8 *)(region_address(context->region) + REGION_EXTENDED);
	u32 all = ~0U;
	__asm__ volatile("xsave64 (%0)" : : "r"(area), "a"(all), "d"(all) : "memory");
	__asm__ volatile("rdfsbase %0" : "=r"(context->thread_base));
}
