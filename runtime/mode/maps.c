/* /proc/PID/maps without the runtime: the program gets a memfd with the filtered text in place of
 * the file that it opened. Record only; the program's reads of it are recorded like any others.
 * Private stack. */
#include "mode/maps.h"
#include "base/decimal.h"
#include "base/map_lines.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/unreached.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "mode/call.h"
#include "place/forced.h"

#define CAPACITY 0x400000UL

static u32 contains(const char *text, const char *end, const char *part)
{
	for (; text < end; text++) {
		u64 i = 0;
		while (part[i] && text + i < end && text[i] == part[i])
			i++;
		if (!part[i])
			return 1;
	}
	return 0;
}

static char *put_hex(char *to, u64 value, u32 least)
{
	char digits[16];
	u32 count = 0;
	do
		digits[count++] = "0123456789abcdef"[value & 15];
	while (value >>= 4);
	while (count < least)
		digits[count++] = '0';
	while (count)
		*to++ = digits[--count];
	return to;
}

/* The line before, as it was written. */
struct written {
	struct map_line line;
	char *at;
	/* NULL: there is no line before. */
	const char *rest_end;
	/* The end of the range shows patched or hidden text. */
	u32 patched;
};

static char *put_line(struct written *written)
{
	const struct map_line *line = &written->line;
	char *to = put_hex(written->at, line->start, 8);
	*to++ = '-';
	to = put_hex(to, line->end, 8);
	*to++ = ' ';
	memcpy(to, line->permissions, 4);
	to[4] = ' ';
	to = put_hex(to + 5, line->offset, 8);
	memcpy(to, line->rest, (u64)(written->rest_end - line->rest));
	return to + (written->rest_end - line->rest);
}

static u32 is_text(const struct map_line *line)
{
	return memcmp(line->permissions, "r-xp", 4) == 0;
}

/* Patched text lies over a mapping of its file, and parts of that mapping may remain before and
 * after it. The patched text gets the file's name, and an offset that continues the part before. */
static char *put_overlay(struct written *written, const struct map_line *line, char *at)
{
	if (!is_text(&written->line)) {
		written->at = at;
		written->line.offset += written->line.end - written->line.start;
		written->line.start = line->start;
		written->line.permissions = "r-xp";
	}
	written->line.end = line->end;
	written->patched = 1;
	return put_line(written);
}

static u32 continues(const struct written *written, const struct map_line *line, u32 hidden)
{
	const struct map_line *before = &written->line;
	return (written->patched || hidden) && line->start == before->end && is_text(line) &&
	       line->device == before->device && line->inode == before->inode &&
	       line->offset == before->offset + before->end - before->start;
}

static u64 filter(const char *from, u64 bytes, char *to)
{
	char *at = to;
	struct written written = {.rest_end = NULL};
	const char *limit = from + bytes;
	while (from < limit) {
		const char *end = from;
		while (end < limit && *end != '\n')
			end++;
		end++;
		struct map_line line = read_map_line(from);
		u32 hidden = unreached_holds(context_self()->process, line.start);
		if (hidden)
			line.permissions = "r-xp";
		u32 ours = contains(line.rest, end, "/SYSV00000000") && line.permissions[2] == 'x';
		if ((line.start >= RUNTIME_TEXT && line.start < RUNTIME_END) ||
			(ours && in_stubs(context_self()->process, line.start))) {
			/* dropped */
		} else if (!ours && written.rest_end && continues(&written, &line, hidden)) {
			written.line.end = line.end;
			written.patched |= hidden;
			at = put_line(&written);
		} else if (!ours) {
			written = (struct written){line, at, end, hidden};
			at = put_line(&written);
		} else if (written.rest_end && written.line.end == line.start &&
			   !contains(written.line.rest, written.rest_end, "[")) {
			at = put_overlay(&written, &line, at);
		}
		from = end;
	}
	return (u64)(at - to);
}

static u32 ends_with(const char *text, u64 length, const char *end)
{
	u64 count = 0;
	while (end[count])
		count++;
	return length >= count && memcmp(text + length - count, end, count) == 0;
}

/* Reopens the file for reading, so that a program that writes to a map of memory, or polls for
 * that, gets an error. */
static i64 only_to_read(i64 file)
{
	char path[32];
	i64 reader = sys4(
		NR_openat, -100L /* AT_FDCWD */, descriptor_link(path, (u32)file), O_CLOEXEC, 0);
	if (reader < 0)
		return file;
	sys1(NR_close, file);
	return reader;
}

static void replace_descriptor(i64 descriptor, const char *text, u64 bytes)
{
	i64 file = sys2(NR_memfd_create, "maps", 1);
	if (file < 0)
		return;
	u64 done = 0;
	while (done < bytes) {
		i64 written = sys3(NR_write, file, text + done, bytes - done);
		if (written <= 0)
			break;
		done += (u64)written;
	}
	sys3(NR_lseek, file, 0, 0);
	file = only_to_read(file);
	i64 close_on_exec = sys3(NR_fcntl, descriptor, 1 /* F_GETFD */, 0);
	sys3(NR_dup3, file, descriptor, close_on_exec > 0 ? O_CLOEXEC : 0);
	sys1(NR_close, file);
}

/* Called after an open. Replaces the descriptor if the path is a map of memory. */
void filter_open(struct call *call)
{
	char path[64];
	u64 address = call->arguments[call->number == NR_open ? 0 : 1];
	if (call->result < 0 || copy_user(path, (const void *)address, 6) ||
		memcmp(path, "/proc/", 6))
		return;
	i64 length = string_length_user((const char *)address, sizeof path);
	if (length < 0 || length >= (i64)sizeof path ||
		copy_user(path, (const void *)address, (u64)length))
		return;
	if (!ends_with(path, (u64)length, "/maps"))
		return;
	i64 memory = sys6(NR_mmap, RUNTIME_TEXT + 0x30000000UL, 2 * CAPACITY,
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0UL, 0);
	if (memory < 0)
		return;
	char *text = (char *)memory, *filtered = text + CAPACITY;
	u64 bytes = 0;
	for (;;) {
		i64 got = sys3(NR_read, call->result, text + bytes, CAPACITY - bytes - 1);
		if (got <= 0)
			break;
		bytes += (u64)got;
	}
	if (bytes)
		replace_descriptor(call->result, filtered, filter(text, bytes, filtered));
	sys2(NR_munmap, memory, 2 * CAPACITY);
}
