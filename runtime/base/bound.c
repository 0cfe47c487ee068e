/* Slots of functions that the dynamic linker binds at the first call. Any stack.
 *
 * Code calls a function of another file by way of its entry in the procedure linkage table, and the
 * entry jumps to where the slot leads. That is at first the rest of the entry: it pushes the number
 * of a relocation, then the file's `struct link_map`, and jumps to the linker (System V ABI for
 * x86-64, section 5.2). */
#include "base/bound.h"
#include "base/user.h"

#define PUSH_NUMBER 0x68
#define MARK_BYTES 4 /* of `endbr64`, which may come first */
#define MOST_TAGS 256
enum { DT_NULL = 0, DT_JMPREL = 23 };

struct link_map_head {
	u64 base, name, dynamic;
};

struct dynamic {
	u64 tag, value;
};

struct relocation {
	u64 offset, info, addend;
};

u32 is_bound(u64 slot)
{
	static const u8 mark[MARK_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa};
	u64 to;
	u8 code[MARK_BYTES + 1];
	if (copy_user(&to, (const void *)slot, sizeof to) ||
		copy_user(code, (const void *)to, sizeof code))
		return 1;
	for (u32 i = 0; i < MARK_BYTES; i++)
		if (code[i] != mark[i])
			return code[0] != PUSH_NUMBER;
	return code[MARK_BYTES] != PUSH_NUMBER;
}

/* The linker has added the base to this address, unless the table cannot be written. */
static u64 relocations_of(const struct link_map_head *map)
{
	struct dynamic entry;
	for (u32 i = 0; i < MOST_TAGS; i++) {
		const void *at = (const void *)(map->dynamic + i * sizeof entry);
		if (copy_user(&entry, at, sizeof entry) || entry.tag == DT_NULL)
			return 0;
		if (entry.tag == DT_JMPREL)
			return entry.value < map->base ? entry.value + map->base : entry.value;
	}
	return 0;
}

u64 slot_of_call(u64 stack)
{
	struct {
		u64 map, number;
	} arguments;
	struct link_map_head map;
	struct relocation relocation;
	if (copy_user(&arguments, (const void *)stack, sizeof arguments) ||
		copy_user(&map, (const void *)arguments.map, sizeof map))
		return 0;
	u64 relocations = relocations_of(&map);
	const void *at = (const void *)(relocations + arguments.number * sizeof relocation);
	if (!relocations || copy_user(&relocation, at, sizeof relocation))
		return 0;
	return map.base + relocation.offset;
}
