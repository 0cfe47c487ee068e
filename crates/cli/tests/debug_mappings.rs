//! `retake debug`: code that appears and vanishes, and memory that is mapped again, in both
//! directions.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;

/// Makes a function three times: once in memory that it then makes executable, and twice by
/// overwriting it.
const MAKES_CODE: &str = r#"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int total;
/* lea 1(%rdi),%eax; ret */
static const unsigned char made[] = "\x8d\x47\x01\xc3";
int main(void)
{
	unsigned char *code = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memcpy(code, made, sizeof made);
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	int (*call)(int) = (int (*)(int))code;
	for (int i = 0; i < 2; i++)
		total = call(total);
	mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (int i = 2; i < 4; i++) {
		memcpy(code, made, sizeof made);
		code[2] = i;
		total = call(total);
	}
	munmap(code, 4096);
	getpid();
	return total;
}
"#;

/// A breakpoint may be set before its code exists, and stays when the code is overwritten.
#[test]
fn breakpoints_in_code_made_at_run_time() {
    needs!("gdb");
    let place = Place::new("debug-made-code");
    let program = compile(&place, "makes", MAKES_CODE, &[]);
    record(&place, &[&program]);
    let (print, on, back) = ("print total", "continue", "reverse-continue");
    let forth = ["break *0x20000000", on, print, on, print, on, print, on, print, on];
    let backwards = [back, print, back, print, back, print, back, print, back];
    let text = gdb(&place, &[], &[&forth[..], &backwards, &forth[1..]].concat());
    in_order(&text, &["$1 = 0", "$2 = 1", "$3 = 2", "$4 = 4", "No more reverse-execution history"]);
    in_order(&text, &["$4 = 4", "$5 = 4", "$6 = 2", "$7 = 1", "$8 = 0", "No more reverse"]);
    in_order(&text, &["$8 = 0", "$9 = 0", "$10 = 1", "$11 = 2", "$12 = 4", "No more reverse"]);
    assert!(!text.contains("Cannot insert"), "{text}");
}

/// These are more breakpoints than the processor has debug registers.
#[test]
fn many_breakpoints_in_code_made_at_run_time() {
    needs!("gdb");
    let place = Place::new("debug-much-made-code");
    let source = MAKES_CODE.replace("PROT_READ | PROT_WRITE | PROT_EXEC", "PROT_READ | PROT_WRITE");
    let source = source.replace(
        "total = call(total);\n\t}",
        "mprotect(code, 4096, 5);\n\t\ttotal = call(total);\n\t\tmprotect(code, 4096, 3);\n\t}",
    );
    let program = compile(&place, "makes", &source, &[]);
    record(&place, &[&program]);
    let breaks: Vec<String> = (0..6).map(|i| format!("break *(0x20000000 + {i} * 1024)")).collect();
    let breaks: Vec<&str> = breaks.iter().map(String::as_str).collect();
    let (print, on, back) = ("print total", "continue", "reverse-continue");
    let ways =
        [on, print, on, print, on, print, on, print, on, back, print, back, print, back, print];
    let text = gdb(&place, &[], &[&breaks[..4], &["break *0x20000003"], &ways].concat());
    in_order(&text, &["$1 = 0", "$2 = 0", "$3 = 1", "$4 = 1", "$5 = 1", "$6 = 1", "$7 = 0"]);
    assert_eq!(text.matches("in ?? ()").count(), 8, "{text}");
}

/// Changes the content of an address without writing to it.
const REMAPS: &str = r#"
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
static long *map(unsigned long address)
{
	return mmap((void *)address, 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
int main(void)
{
	long *page = map(0x20000000);
	*page = 1;
	map(0x20000000);
	*page = 2;
	madvise(page, 4096, MADV_DONTNEED);
	long *other = map(0x30000000);
	*other = 3;
	mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, page);
	mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, other);
	getpid();
	return 0;
}
"#;

/// A watchpoint reports a new mapping like a write.
#[test]
fn watched_memory_that_is_mapped_anew() {
    needs!("gdb");
    let place = Place::new("debug-remaps");
    let program = compile(&place, "remaps", REMAPS, &[]);
    record(&place, &[&program]);
    let commands = [
        &["break 14", "continue", "watch *(long *)0x20000000"][..],
        &["continue"; 6],
        &["reverse-continue"; 6],
    ]
    .concat();
    let text = gdb(&place, &[], &commands);
    let values = |line: &str| line.split_once(" value = ").map(|(_, value)| value.to_owned());
    let values: Vec<String> = text.lines().filter_map(values).collect();
    let gone = "<unreadable>";
    let forth = ["1", "0", "0", "2", "2", "0", "0", "3", "3", gone];
    let back: Vec<&str> = forth.iter().rev().copied().collect();
    assert_eq!(values, [&forth[..], &back, &["1", "0"]].concat(), "{text}");
}

/// gdb does not see hits with a false condition. Each would cost a packet.
#[test]
fn conditions_in_code_that_can_be_written() {
    needs!("gdb");
    let place = Place::new("debug-made-condition");
    let source = MAKES_CODE.replace("i < 4", "i < 1002").replace("code[2] = i", "code[2] = 1");
    let program = compile(&place, "makes", &source, &[]);
    record(&place, &[&program]);
    let condition = "break *0x20000000 if $rdi == 1000";
    let text = gdb(
        &place,
        &[],
        &["break main", "continue", condition, "set debug remote 1", "continue", "print total"],
    );
    in_order(&text, &["in ?? ()", "$1 = 1000"]);
    assert!(text.matches("$vCont;").count() < 50, "{text}");
}
