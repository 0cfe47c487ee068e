/* Walks /proc/self/maps. Private stack; the walk needs 16 KB of it. */
#include "base/map_lines.h"
#include "base/state.h"
#include "base/sys.h"
#include "gen/numbers.h"

#define BUFFER_BYTES 0x4000

i64 open_own(u64 grant, const char *path)
{
	return executes() ? sys4(NR_openat, -100L, path, 02000000 /* O_CLOEXEC */, 0) : sys0(grant);
}

u64 hexadecimal(const char **text)
{
	u64 value = 0;
	for (;; (*text)++) {
		char c = **text;
		if (c >= '0' && c <= '9')
			value = value << 4 | (u64)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (u64)(c - 'a' + 10);
		else
			return value;
	}
}

struct map_line read_map_line(const char *text)
{
	struct map_line line;
	line.start = hexadecimal(&text);
	text++;
	line.end = hexadecimal(&text);
	line.permissions = ++text;
	text += 5;
	line.offset = hexadecimal(&text);
	line.rest = text;
	text++;
	u64 major = hexadecimal(&text);
	text++;
	line.device = major << 32 | hexadecimal(&text);
	line.inode = 0;
	for (text++; *text >= '0' && *text <= '9'; text++)
		line.inode = line.inode * 10 + (u64)(*text - '0');
	return line;
}

void walk_maps(void (*visit)(void *closure, const struct map_line *line), void *closure)
{
	char buffer[BUFFER_BYTES + 1];
	u64 held = 0;
	i64 maps = open_own(GRANT_MAPS, "/proc/self/maps");
	if (maps < 0)
		return;
	for (;;) {
		i64 got = sys3(NR_read, maps, buffer + held, BUFFER_BYTES - held);
		if (got <= 0)
			break;
		u64 end = held + (u64)got, at = 0;
		for (u64 i = held; i < end; i++) {
			if (buffer[i] != '\n')
				continue;
			buffer[i] = 0;
			struct map_line line = read_map_line(buffer + at);
			visit(closure, &line);
			at = i + 1;
		}
		held = end - at;
		memmove(buffer, buffer + at, held);
		if (held == BUFFER_BYTES)
			break;
	}
	sys1(NR_close, maps);
}

/* The ioctl PROCMAP_QUERY of /proc/PID/maps, since Linux 6.11. The sizes and addresses of the
 * buffers for the name and the build id stay 0. */
#define PROCMAP_QUERY 0xc0686611UL
enum { MAP_READABLE = 1, MAP_WRITABLE = 2, COVERING_OR_NEXT = 16 };
struct map_query {
	u64 size, flags, address, start, end, permissions, page_bytes, offset, inode, device,
		name_bytes, name, build_id;
};
_Static_assert(sizeof(struct map_query) == 104, "struct procmap_query");

struct writable_walk {
	u64 from, to;
	void (*visit)(void *closure, u64 start, u64 end);
	void *closure;
};

/* Returns 0 if the kernel does not support the query. */
static u32 query_writable(i64 maps, const struct writable_walk *walk)
{
	struct map_query query = {.size = sizeof query,
		.flags = MAP_READABLE | MAP_WRITABLE | COVERING_OR_NEXT,
		.address = walk->from};
	i64 result = 0;
	while (query.address < walk->to &&
		!(result = sys3(NR_ioctl, maps, PROCMAP_QUERY, &query))) {
		if (query.start < walk->to)
			walk->visit(walk->closure, query.start, query.end);
		query.address = query.end;
	}
	return !result || result == -2; /* ENOENT: no further mapping */
}

static void visit_if_writable(void *closure, const struct map_line *line)
{
	const struct writable_walk *walk = closure;
	if (line->permissions[0] == 'r' && line->permissions[1] == 'w' && line->start < walk->to &&
		line->end > walk->from)
		walk->visit(walk->closure, line->start, line->end);
}

void walk_writable(
	u64 from, u64 to, void (*visit)(void *closure, u64 start, u64 end), void *closure)
{
	struct writable_walk walk = {from, to, visit, closure};
	i64 maps = open_own(GRANT_MAPS, "/proc/self/maps");
	u32 known = maps >= 0 && query_writable(maps, &walk);
	if (maps >= 0)
		sys1(NR_close, maps);
	if (!known)
		walk_maps(visit_if_writable, &walk);
}

struct search {
	u64 at, limit;
};

static void pass_writable(void *closure, u64 start, u64 end)
{
	struct search *search = closure;
	if (start <= search->at && search->at < end)
		search->at = minimum(end, search->limit);
}

u64 writable_end(u64 from, u64 limit)
{
	struct search search = {from, limit};
	walk_writable(from, limit, pass_writable, &search);
	return search.at;
}
