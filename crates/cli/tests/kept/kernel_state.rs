//! A checkpoint restores the kernel's state of a process, not only its memory.

use super::cli_support::Place;
use super::cli_support::debugging::{compile, gdb, in_order, record};
use super::{both, same};
use retake_testing::needs;

/// Installs a filter for one system call. Makes that call before and after.
const FILTERED: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int before, behind;
void filtered(int i) {}
int main(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, steps };
	before = getppid();
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	for (int i = 0; i < 300; i++) {
		filtered(i);
		getuid();
	}
	behind = getppid();
	printf("%d %d\n", before > 0, behind);
	return 0;
}
"#;

/// Filters are in memory that all processes of a session share. At a place before them they are not
/// in force, whichever way the debugger gets there.
#[test]
fn filters_of_system_calls_come_and_go() {
    needs!("gdb");
    let place = Place::new("kept-filters");
    let program = compile(&place, "filtered", FILTERED, &[]);
    record(&place, &[&program]);
    let text = gdb(
        &place,
        &["--at", "exit"],
        &[
            "print behind",
            "seek begin",
            "break filtered",
            "continue",
            "print before > 0",
            "delete",
            "seek exit",
            "print behind",
        ],
    );
    in_order(&text, &["= -1", "filtered (i=0)", "= 1", "= -1"]);
    place.run_well(&["checkpoint", "--at", "150"]);
    let commands =
        ["print before > 0", "seek exit", "print behind", "seek begin", "seek 160", "seek exit"];
    let (plain, used) = both(&place, &["--at", "200"], &commands);
    in_order(&plain, &["= 1", "= -1"]);
    assert!(same(&plain, &used).contains("begins at checkpoint 1: event 150"), "{used}");
}

/// Has guard pages, sealed memory and a growing stack: properties of mappings that their listing
/// does not show. Older kernels refuse the first two.
const NATURES: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static sigjmp_buf back;
static int faults;
static void handle(int number) { faults++; siglongjmp(back, number); }
static int deep(int n)
{
	volatile char room[8192];
	room[0] = n;
	return n ? deep(n - 1) + room[0] : 0;
}
int main(void)
{
	char *pages = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(pages, 5, 16 * 4096);
	madvise(pages + 4 * 4096, 2 * 4096, 102 /* MADV_GUARD_INSTALL */);
	char *sealed = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(sealed, "sealed");
	mprotect(sealed, 4096, PROT_READ);
	syscall(462 /* mseal */, sealed, 4096, 0);
	signal(SIGSEGV, handle);
	for (int i = 0; i < 300; i++)
		getppid();
	int sum = deep(300);
	if (!sigsetjmp(back, 1))
		pages[4 * 4096] = 1;
	if (!sigsetjmp(back, 1))
		sealed[0] = 1;
	int unmapped = munmap(sealed, 4096);
	printf("faults %d sum %d unmapped %d\n", faults, sum, unmapped);
	fflush(stdout);
	return 0;
}
"#;

#[test]
fn mappings_have_the_same_nature() {
    needs!("gdb");
    let place = Place::new("kept-natures");
    let program = compile(&place, "natures", NATURES, &[]);
    record(&place, &[&program]);
    place.run_well(&["checkpoint", "--at", "150"]);
    let (plain, used) =
        both(&place, &["--at", "180"], &["seek exit", "monitor output", "seek 160"]);
    in_order(&plain, &["faults ", "sum 862"]);
    assert!(same(&plain, &used).contains("begins at checkpoint 1: event 150"), "{used}");
}
