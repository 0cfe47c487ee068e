//! The text of calls.

mod common;

use common::{TestItem, call, input, output};
use retake_model::describe::describe_call;
use retake_model::parse_event;
use retake_model::print::{TextOptions, event_line};

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn line(name: &str, arguments: &[u64], result: i64, items: &[TestItem]) -> String {
    let bytes = call(name, arguments, result, items);
    let (event, _) = parse_event(&bytes).unwrap();
    event_line(&event, &TextOptions::default())
}

#[test]
fn files() {
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0\x80\0\0\0\0\0\0\0@\0";
    let mut read = output(1, 0x1000, elf);
    read.total = 832;
    assert_eq!(
        line("read", &[3, 0x1000, 832], 832, &[read]),
        r#"read(3, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0>\0\1\0\0\0\200\0\0\0\0\0\0\0"..., 832) = 832"#
    );
    let path = input(1, 0x2000, b"/etc/passwd");
    assert_eq!(
        line(
            "openat",
            &[-100_i32 as u32 as u64, 0x2000, 0o2000000, 0],
            3,
            std::slice::from_ref(&path)
        ),
        r#"openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3"#
    );
    assert_eq!(
        line("openat", &[5, 0x2000, 0o101, 0o644], -2, &[path]),
        r#"openat(5, "/etc/passwd", O_WRONLY|O_CREAT, 0644) = -1 ENOENT (No such file or directory)"#
    );
    assert_eq!(line("close", &[3], 0, &[]), "close(3) = 0");
    assert_eq!(line("lseek", &[3, -5_i64 as u64, 2], 95, &[]), "lseek(3, -5, SEEK_END) = 95");
    assert_eq!(
        line("pipe2", &[0x1000, 0o2000000], 0, &[output(0, 0x1000, &words32(&[3, 4]))]),
        "pipe2([3, 4], O_CLOEXEC) = 0"
    );
    assert_eq!(line("fcntl", &[3, 2, 1], 0, &[]), "fcntl(3, F_SETFD, FD_CLOEXEC) = 0");
}

#[test]
fn what_a_type_does_not_tell_is_as_strace_has_it() {
    assert_eq!(line("fcntl", &[4, 1, 77], 0, &[]), "fcntl(4, F_GETFD) = 0");
    assert_eq!(
        line("futex", &[0x1000, 0x81, 1], 0, &[]),
        "futex(0x1000, FUTEX_WAKE_PRIVATE, 1) = 0"
    );
    assert_eq!(line("read", &[3, 0x1000, 64], 0, &[]), r#"read(3, "", 64) = 0"#);
    assert_eq!(
        line("getrandom", &[0x1000, 2, 1], 2, &[output(0, 0x1000, b"a!")]),
        r#"getrandom("\x61\x21", 2, GRND_NONBLOCK) = 2"#
    );
    let mapped = line("mmap", &[0, 4096, 1, 2, 3, 0x2000], 0x7000, &[]);
    assert_eq!(mapped, "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0x2000) = 0x7000");
    let path = [b'p'; 60];
    assert!(
        line("access", &[0x2000, 4], 0, &[input(0, 0x2000, &path)]).contains(&"p".repeat(60)),
        "paths are whole"
    );
}

#[test]
fn waiting_is_told_as_what_was_asked_and_what_came() {
    let asked = input(0, 0x1000, &[3, 0, 0, 0, 1, 0, 9, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let nothing = output(0, 0x1000, &[3, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(
        line("poll", &[0x1000, 2, 5], 0, &[asked.clone(), nothing]),
        "poll([{fd=3, events=POLLIN}, {fd=-1}], 2, 5) = 0 (Timeout)"
    );
    assert_eq!(
        line("poll", &[0x1000, 2, 5], -4, std::slice::from_ref(&asked)),
        "poll([{fd=3, events=POLLIN}, {fd=-1}], 2, 5) = -1 EINTR (Interrupted system call)"
    );
    let hung_up =
        output(0, 0x1000, &[3, 0, 0, 0, 1, 0, 0x10, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let (before, left) =
        (input(2, 0x2000, &words64(&[1, 0])), output(2, 0x2000, &words64(&[0, 7])));
    assert_eq!(
        line("ppoll", &[0x1000, 2, 0x2000, 0, 8], 1, &[asked, before, hung_up, left]),
        "ppoll([{fd=3, events=POLLIN}, {fd=-1}], 2, {tv_sec=1, tv_nsec=0}, NULL, 8) = 1 \
        ([{fd=3, revents=POLLHUP}], left {tv_sec=0, tv_nsec=7})"
    );
    let set = |bits: u64| words64(&[bits]);
    let items = [
        input(1, 0x10, &set(0x18)),
        input(2, 0x20, &set(0x10)),
        output(1, 0x10, &set(0x8)),
        output(2, 0x20, &set(0)),
    ];
    assert_eq!(
        line("select", &[5, 0x10, 0x20, 0, 0], 1, &items),
        "select(5, [3 4], [4], NULL, NULL) = 1 (in [3])"
    );
    let mask = [input(5, 0x30, &words64(&[0x40, 8])), input(5, 0x40, &words64(&[2]))];
    assert_eq!(
        line("pselect6", &[0, 0, 0, 0, 0, 0x30], -4, &mask),
        "pselect6(0, NULL, NULL, NULL, NULL, {sigmask=[INT], sigsetsize=8}) = -1 EINTR \
        (Interrupted system call)"
    );
    // Nothing was recorded of the sets.
    assert_eq!(
        line("select", &[5, 0x10, 0, 0, 0], 1, &[]),
        "select(5, 0x10, NULL, NULL, NULL) = 1"
    );
}

#[test]
fn threads_are_made_as_strace_tells_it() {
    let told = output(2, 0x50, &words32(&[77]));
    assert_eq!(
        line("clone", &[0x3d0f00, 0x9000, 0x50, 0x60, 0x70], 77, &[told]),
        "clone(child_stack=0x9000, \
        flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM|CLONE_SETTLS|CLONE_PARENT_SETTID|\
         CLONE_CHILD_CLEARTID, parent_tid=[77], tls=0x70, child_tidptr=0x60) = 77"
    );
    let arguments = words64(&[0x10_0100, 0, 0, 0x50, 17, 0x9000, 0x1000, 0, 0, 0, 0]);
    assert_eq!(
        line("clone3", &[0x1000, 88], 77, &[input(0, 0x1000, &arguments)]),
        "clone3({flags=CLONE_VM|CLONE_PARENT_SETTID, parent_tid=0x50, exit_signal=SIGCHLD, \
         stack=0x9000, stack_size=0x1000} => {parent_tid=[77]}, 88) = 77"
    );
    let mut cut = input(0, 0x1000, &arguments[..32]);
    cut.total = 88;
    assert_eq!(
        line("clone3", &[0x1000, 88], -38, &[cut]).split(" = ").next(),
        Some("clone3({flags=CLONE_VM|CLONE_PARENT_SETTID, parent_tid=0x50, ...}, 88)")
    );
    assert_eq!(
        line("clone3", &[0x1000, 88], -14, &[]),
        "clone3(0x1000, 88) = -1 EFAULT (Bad address)"
    );
    assert_eq!(
        line("rseq", &[0x7000, 32, 0, 0x5305_3053], 0, &[]),
        "rseq(0x7000, 0x20, 0, 0x53053053) = 0"
    );
    assert_eq!(line("epoll_create1", &[0o2_000_000], 5, &[]), "epoll_create1(EPOLL_CLOEXEC) = 5");
    assert_eq!(
        line("mremap", &[0x1000, 8192, 4096, 1, 9], 0x1000, &[]),
        "mremap(0x1000, 8192, 4096, MREMAP_MAYMOVE) = 0x1000"
    );
    assert!(line("fcntl", &[3, 3, 0], 0o2, &[]).ends_with(" = 0x2 (flags O_RDWR)"));
    assert!(line("fcntl", &[3, 3, 0], 0, &[]).ends_with(" = 0 (flags O_RDONLY)"));
}

#[test]
fn memory_and_processes() {
    assert_eq!(
        line("mmap", &[0, 8192, 3, 0x22, -1_i32 as u32 as u64, 0], 0x7f00_0000_0000, &[]),
        "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000"
    );
    assert_eq!(
        line("mprotect", &[0x1000, 4096, 0], 0, &[]),
        "mprotect(0x1000, 4096, PROT_NONE) = 0"
    );
    assert_eq!(line("brk", &[0], 0x5555_0000, &[]), "brk(NULL) = 0x55550000");
    assert_eq!(
        line("clone", &[0x1200011, 0, 0, 0x7000, 0], 4321, &[]),
        "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, \
        child_tidptr=0x7000) = 4321"
    );
    assert_eq!(
        line(
            "wait4",
            &[-1_i32 as u32 as u64, 0x1000, 1, 0],
            4321,
            &[output(1, 0x1000, &words32(&[256]))]
        ),
        "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 1}], WNOHANG, NULL) = 4321"
    );
    assert_eq!(line("kill", &[77, 15], 0, &[]), "kill(77, SIGTERM) = 0");
    let strings = [
        input(0, 0x10, b"/bin/ls"),
        input(1, 0x100, &words64(&[0x200, 0x300])),
        input(1, 0x200, b"ls\0"),
        input(1, 0x300, b"-l\0"),
        TestItem { data: vec![], ..input(2, 0x400, &words64(&[1])) },
    ];
    assert_eq!(
        line("execve", &[0x10, 0x100, 0x400], 0, &strings),
        r#"execve("/bin/ls", ["ls", "-l"], 0x400 /* 1 vars */) = 0"#
    );
}

#[test]
fn time_signals_and_waiting() {
    let time = output(1, 0x1000, &words64(&[5, 7]));
    assert_eq!(
        line("clock_gettime", &[1, 0x1000], 0, &[time]),
        "clock_gettime(CLOCK_MONOTONIC, {tv_sec=5, tv_nsec=7}) = 0"
    );
    let set = input(1, 0x1000, &words64(&[2]));
    assert_eq!(
        line("rt_sigprocmask", &[2, 0x1000, 0, 8], 0, &[set]),
        "rt_sigprocmask(SIG_SETMASK, [INT], NULL, 8) = 0"
    );
    let before = [3, 0, 0, 0, 1, 0, 0, 0];
    let after = [3, 0, 0, 0, 1, 0, 1, 0];
    assert_eq!(
        line("poll", &[0x1000, 1, 500], 1, &[input(0, 0x1000, &before), output(0, 0x1000, &after)]),
        "poll([{fd=3, events=POLLIN}], 1, 500) = 1 ([{fd=3, revents=POLLIN}])"
    );
    let events = output(1, 0x1000, &[1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        line("epoll_wait", &[4, 0x1000, 8, -1_i32 as u32 as u64], 1, &[events]),
        "epoll_wait(4, [{events=EPOLLIN, data=0x9}], 8, -1) = 1"
    );
    assert_eq!(
        line("futex", &[0x1000, 0x80, 2, 0], -11, &[]),
        "futex(0x1000, FUTEX_WAIT_PRIVATE, 2, NULL) = -1 EAGAIN (Resource temporarily unavailable)"
    );
}

#[test]
fn listings_are_counted_and_told_whole_if_asked() {
    let mut listing = Vec::new();
    for (name, kind) in [("file", 8), ("folder", 4)] {
        listing.extend(words64(&[77, 5]));
        listing.extend([32, 0, kind]);
        listing.extend(name.as_bytes());
        listing.resize(listing.len().next_multiple_of(32), 0);
    }
    let whole = output(1, 0x1000, &listing);
    assert_eq!(
        line("getdents64", &[3, 0x1000, 100], 64, std::slice::from_ref(&whole)),
        "getdents64(3, 0x1000 /* 2 entries */, 100) = 64"
    );
    let bytes = call("getdents64", &[3, 0x1000, 100], 64, &[whole]);
    let options = TextOptions { unabbreviated: true, ..TextOptions::default() };
    assert_eq!(
        event_line(&parse_event(&bytes).unwrap().0, &options),
        "getdents64(3, [{d_ino=77, d_off=5, d_reclen=32, d_type=DT_REG, d_name=\"file\"}, \
         {d_ino=77, d_off=5, d_reclen=32, d_type=DT_DIR, d_name=\"folder\"}], 100) = 64"
    );
    let cut_off = TestItem { total: 640, ..output(1, 0x1000, &listing[..40]) };
    assert_eq!(
        line("getdents64", &[3, 0x1000, 1000], 640, &[cut_off]),
        "getdents64(3, 0x1000 /* entries in 640 bytes */, 1000) = 640"
    );
    assert_eq!(
        line("getdents64", &[3, 0x1000, 100], 0, &[]),
        "getdents64(3, 0x1000 /* 0 entries */, 100) = 0"
    );
    assert_eq!(
        line("getdents64", &[3, 0x1000, 100], -20, &[]),
        "getdents64(3, 0x1000, 100) = -1 ENOTDIR (Not a directory)"
    );
    // An entry that claims to be longer than the data, or has no length.
    for size in [0, 255] {
        let mut bad = listing.clone();
        bad[16] = size;
        let text = line("getdents64", &[3, 0x1000, 100], 64, &[output(1, 0x1000, &bad)]);
        assert_eq!(text, "getdents64(3, 0x1000 /* entries in 64 bytes */, 100) = 64");
    }
}

#[test]
fn sockets() {
    let address = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        line("connect", &[3, 0x1000, 16], -115, &[input(1, 0x1000, &address)]),
        "connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}, \
        16) = \
         -1 EINPROGRESS (Operation now in progress)"
    );
    assert_eq!(
        line("socket", &[1, 0x80801, 0], 3, &[]),
        "socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 0) = 3"
    );
    let header = words64(&[0x2000, 16, 0x3000, 1, 0, 0, 0]);
    let sent = [
        input(1, 0x1000, &header),
        input(1, 0x3000, &words64(&[0x4000, 5])),
        input(1, 0x2000, &address),
        input(1, 0x4000, b"hello"),
    ];
    assert_eq!(
        line("sendmsg", &[3, 0x1000, 0x4000], 5, &sent),
        "sendmsg(3, \
        {msg_name={sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}, \
         msg_iov=[\"hello\"], msg_control=NULL, msg_flags=0}, MSG_NOSIGNAL) = 5"
    );
    let vectors = [
        input(1, 0x1000, &words64(&[0x2000, 3, 0x3000, 2])),
        input(1, 0x2000, b"abc"),
        input(1, 0x3000, b"de"),
    ];
    assert_eq!(line("writev", &[1, 0x1000, 2], 5, &vectors), r#"writev(1, ["abc", "de"], 2) = 5"#);
}

#[test]
fn commands() {
    let size = output(2, 0x1000, &[24, 0, 80, 0, 0, 0, 0, 0]);
    assert_eq!(
        line("ioctl", &[1, 0x5413, 0x1000], 0, &[size]),
        "ioctl(1, TIOCGWINSZ, {ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}) = 0"
    );
    assert_eq!(
        line("ioctl", &[1, 0x8004_7a01, 0x1000], 0, &[output(2, 0x1000, &[1, 2, 3, 4])]),
        r#"ioctl(1, _IOC(_IOC_READ, 0x7a, 0x1, 0x4), "\1\2\3\4") = 0"#
    );
    assert_eq!(
        line("ioctl", &[1, 0xae00, 0], -25, &[]),
        "ioctl(1, 0xae00 /* KVM_* */, NULL) = -1 ENOTTY (Inappropriate ioctl for device)"
    );
    assert_eq!(
        line("prctl", &[15, 0x1000], 0, &[input(1, 0x1000, b"worker")]),
        r#"prctl(PR_SET_NAME, "worker") = 0"#
    );
}

#[test]
fn descriptions_keep_the_data() {
    let bytes = call("read", &[3, 0x1000, 8], 2, &[output(1, 0x1000, b"hi")]);
    let (event, _) = parse_event(&bytes).unwrap();
    let description = describe_call(&event.as_call().unwrap(), &TextOptions::default());
    assert_eq!(
        (description.name.as_str(), description.result, description.error),
        ("read", 2, None)
    );
    let buffer = &description.arguments[1];
    assert_eq!((buffer.name, buffer.value, buffer.outputs.len()), ("buffer", 0x1000, 1));
    assert_eq!(buffer.outputs[0].inline_bytes(), b"hi");
}
