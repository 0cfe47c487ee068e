//! `retake debug`: places that are hard to find again on the way back over a long computation.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{compile, gdb, in_order, record};
use retake_testing::needs;

/// Goes back over the whole computation to a breakpoint that was hit once at its beginning, and
/// further.
fn goes_back(test: &str, source: &str) {
    needs!("gdb");
    let place = Place::new(test);
    let program = compile(&place, "program", source, &["-O1"]);
    record(&place, &[&program]);
    let back = [
        "break once",
        "reverse-continue",
        "print value",
        "monitor hash",
        "reverse-continue",
        "continue",
        "monitor hash",
        "continue",
    ];
    let text = gdb(&place, &["--at", "exit"], &back);
    assert!(!text.contains("has not gone back"), "{text}");
    in_order(
        &text,
        &[
            "once (value=",
            "$1 = 7",
            "No more reverse-execution history",
            "once (value=",
            "No more reverse-execution history",
        ],
    );
    let hashes: Vec<&str> = text
        .lines()
        .filter(|line| line.len() == 16 && line.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .collect();
    assert!(hashes.len() == 2 && hashes[0] == hashes[1], "{text}");
}

/// Copies memory by one repeated instruction, in which it spends nearly all its time.
#[test]
fn in_the_midst_of_a_repeated_instruction() {
    goes_back(
        "place-repeated",
        r#"
        #include <stdlib.h>
        #include <unistd.h>
        enum { BYTES = 16 << 20 };
        __attribute__((noinline)) int once(int value) { return value + (int)getpid(); }
        int main(void)
        {
            char *from = calloc(1, BYTES), *to = calloc(1, BYTES);
            volatile int started = once(7);
            for (int i = 0; i < 300; i++) {
                char *source = from + i % 5, *target = to + i % 3;
                unsigned long count = BYTES - 8;
                __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
            }
            return started == 0;
        }"#,
    );
}

/// Code runs at one place, is copied to another and runs there. The old place is overwritten.
#[test]
fn in_code_that_moves() {
    goes_back(
        "place-moving",
        r#"
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        typedef long work(long);
        enum { CODE_BYTES = 64 };
        __attribute__((noinline, aligned(256))) int once(int value) { return value + (int)getpid(); }
        __attribute__((noinline, aligned(256))) long spin(long count)
        {
            unsigned long sum = 1;
            for (long i = 0; i < count; i++)
                sum = (sum ^ i) * 31;
            return sum;
        }
        __attribute__((aligned(256))) int main(void)
        {
            unsigned char *code = mmap(NULL, 1 << 16, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            volatile long sum = once(7);
            memcpy(code, spin, CODE_BYTES);
            for (int i = 0; i < 60; i++) {
                unsigned char *here = code + i % 8 * 4096, *next = code + (i + 1) % 8 * 4096;
                sum += ((work *)here)(20000000);
                memcpy(next, here, CODE_BYTES);
                memset(here, 0xcc, CODE_BYTES);
                getpid();
            }
            return sum == 0;
        }"#,
    );
}

/// Replay stops a process after a system call. A breakpoint on that instruction must be hit all the
/// same.
#[test]
fn behind_a_system_call() {
    needs!("gdb");
    const PROGRAM: &str = r#"
        #include <sys/syscall.h>
        volatile long number, sum;
        int main(void)
        {
            for (number = 0; number < 10; number++) {
                long result;
                __asm__ volatile("syscall\nbehind: nop" : "=a"(result) : "0"((long)SYS_getppid) : "rcx", "r11", "memory");
                for (int i = 0; i < 1000; i++)
                    sum += i;
            }
            for (long i = 0; i < 100000000; i++)
                sum += i;
            return 0;
        }"#;
    let place = Place::new("place-behind-call");
    let program = compile(&place, "program", PROGRAM, &["-O1"]);
    record(&place, &[&program]);
    let back = [
        "break *&behind",
        "reverse-continue",
        "print number",
        "reverse-continue",
        "print number",
        "continue",
        "print number",
    ];
    in_order(&gdb(&place, &["--at", "exit"], &back), &["$1 = 9", "$2 = 8", "$3 = 9"]);
    let some = [
        "break *&behind if number % 4 == 3",
        "reverse-continue",
        "print number",
        "reverse-continue",
        "print number",
    ];
    in_order(&gdb(&place, &["--at", "exit"], &some), &["$1 = 7", "$2 = 3"]);
}

/// Jumps to probes need a page near the text. The program may occupy it at some times only.
#[test]
fn near_memory_that_is_taken() {
    needs!("gdb");
    const PROGRAM: &str = r#"
        #include <sys/mman.h>
        volatile unsigned long sum;
        __attribute__((noinline)) void work(unsigned long rounds)
        {
            for (unsigned long i = 0; i < rounds; i++) {
                sum = sum * 6364136223846793005UL + i;
                __asm__ volatile("inside: nop");
            }
        }
        int main(void)
        {
            unsigned long here = (unsigned long)main & ~0xfffUL, most = 0x7f000000UL, near = 0x1000000UL;
            int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
            char *below = mmap((char *)here - most, most - near, PROT_NONE, flags, -1, 0);
            char *above = mmap((char *)here + near, most - near, PROT_NONE, flags, -1, 0);
            work(300000);
            munmap(below, most - near);
            munmap(above, most - near);
            work(300000);
            return 0;
        }"#;
    let place = Place::new("place-taken");
    let program = compile(&place, "program", PROGRAM, &["-O1"]);
    record(&place, &[&program]);
    let inside = "break *&inside if i == 1000";
    let later = [
        "break work",
        "continue",
        "checkpoint",
        "continue",
        "delete",
        inside,
        "continue",
        "print i",
        "delete",
    ];
    let sooner = ["restart 1", inside, "continue", "print i", "reverse-stepi", "stepi", "print i"];
    in_order(
        &gdb(&place, &[], &[&later[..], &sooner].concat()),
        &["$1 = 1000", "$2 = 1000", "$3 = 1000"],
    );
    // Starting at the end, the debugger does not know which places for stubs were occupied earlier.
    let back = ["break work", "reverse-continue", "reverse-continue", "bt 1", "reverse-continue"];
    in_order(
        &gdb(&place, &["--at", "exit"], &back),
        &["1, work", "1, work", "#0  work", "No more reverse-execution history"],
    );
}

/// Fills memory by one repeated instruction, again and again.
const FILLS: &str = r#"
#include <unistd.h>
char area[4096];
int fills;
__attribute__((noinline)) void fill(void *to, long count)
{
	__asm__ volatile(".globl filling\nfilling: rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
}
int main(void)
{
	getpid();
	for (int i = 0; i < 5; i++) {
		fill(area, 300);
		fills++;
	}
	getpid();
	return 0;
}
"#;

/// A breakpoint on such an instruction is hit once, before its first repetition.
#[test]
fn a_breakpoint_at_a_repeated_instruction() {
    needs!("gdb");
    let place = Place::new("place-breakpoint-repeated");
    let program = compile(&place, "fills", FILLS, &["-O0"]);
    record(&place, &[&program]);
    let (back, fills, left) = ("reverse-continue", "print fills", "print $rcx");
    let forth = ["break *filling if fills == 3", "continue", fills, "delete", "stepi 20", left];
    let backwards = [&["break *filling"], &[back, fills, left].repeat(4)[..]].concat();
    let last = [back, "delete", "break *filling if fills == 4", "continue", fills, left];
    let text = gdb(&place, &[], &[&forth[..], &backwards, &last].concat());
    in_order(&text, &["$1 = 3", "$2 = 280"]);
    in_order(&text, &["$3 = 3", "$4 = 300", "$5 = 2", "$6 = 300", "$7 = 1", "$8 = 300"]);
    in_order(&text, &["$9 = 0", "$10 = 300", "No more reverse", "$11 = 4", "$12 = 300"]);
}
