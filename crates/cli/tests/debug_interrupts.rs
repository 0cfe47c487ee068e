//! Interrupting the debugger's work, and what is left when gdb or retake is killed.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{BUSY, CALLED, compile, left_behind, record};
use retake_testing::needs;

/// A minimal debugger: it exchanges packets over a socket.
struct Client(std::net::TcpStream);

impl Client {
    fn send(&mut self, body: &str) {
        use std::io::Write;
        let sum = body.bytes().fold(0u8, u8::wrapping_add);
        self.0.write_all(format!("${body}#{sum:02x}").as_bytes()).unwrap();
    }

    /// The next packet other than output.
    fn receive(&mut self) -> String {
        use std::io::{Read, Write};
        let mut byte = [0];
        loop {
            let mut packet = Vec::new();
            while self.0.read(&mut byte).unwrap() == 1 && byte[0] != b'$' {}
            while self.0.read(&mut byte).unwrap() == 1 && byte[0] != b'#' {
                packet.push(byte[0]);
            }
            self.0.read_exact(&mut [0; 2]).unwrap();
            self.0.write_all(b"+").unwrap();
            if packet.first() != Some(&b'O') {
                return String::from_utf8_lossy(&packet).into_owned();
            }
        }
    }

    fn ask(&mut self, body: &str) -> String {
        self.send(body);
        self.receive()
    }
}

/// Serves a session on the latest recording, and connects to it.
fn serve(place: &Place) -> (std::process::Child, Client) {
    use std::io::{BufRead, BufReader};
    let mut child = place
        .command(&["debug", "--at", "begin", "--serve", "127.0.0.1:0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let stream = std::net::TcpStream::connect(&address).unwrap();
    // Without this, each interrupt waits for an acknowledgement.
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    (child, Client(stream))
}

/// Sends a command, and after a while an interrupt. Returns the time until the stop.
fn interrupted(client: &mut Client, command: &str) -> std::time::Duration {
    use std::io::Write;
    client.send(command);
    std::thread::sleep(std::time::Duration::from_millis(60));
    client.0.write_all(&[3]).unwrap();
    let since = std::time::Instant::now();
    let reply = client.receive();
    // A fast machine may reach an end before that.
    assert!(reply.starts_with("T02") || reply.contains("replaylog"), "{command}: {reply}");
    since.elapsed()
}

#[test]
fn an_interrupt_stops_what_takes_long() {
    let place = Place::new("debug-interrupt");
    let program = compile(&place, "busy", BUSY, &[]);
    record(&place, &[&program, "100000000"]);
    let (mut child, mut client) = serve(&place);
    // The machine may be busy, so only one of three tries must be quick.
    let quickest = |client: &mut Client, command: &str| {
        (0..3).map(|_| interrupted(client, command)).min().unwrap()
    };
    let forth = quickest(&mut client, "vCont;c");
    let back = quickest(&mut client, "bc");
    // A late interrupt is answered when it is read.
    let mut registers = client.ask("g");
    while registers.starts_with('T') {
        registers = client.receive();
    }
    // Runs of equal digits are compressed.
    assert!(registers.len() > 100 && !registers.starts_with('E'), "{registers}");
    assert!(forth.as_millis() < 300 && back.as_millis() < 300, "{forth:?} {back:?}");
    drop(client);
    child.wait().unwrap();
}

/// Writes about every five milliseconds, with a slowly growing interval. That is about the rate at
/// which replay looks for a debugger's interrupt.
const WRITES: &str = r#"
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static void compute(long rounds)
{
	for (volatile long i = 0; i < rounds; i++)
		;
}
static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}
int main(void)
{
	volatile long *watched = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	double since = now();
	compute(100000000);
	double in_a_second = 100000000 / (now() - since);
	for (int i = 1; i <= 500; i++) {
		compute(in_a_second * (4.75e-3 + i * 1e-6));
		*watched = i;
	}
	return 0;
}
"#;

/// A stop that coincides with an interrupt is reported like any other.
#[test]
fn an_interrupt_hides_no_stop() {
    use std::io::Write;
    let place = Place::new("debug-coincidence");
    let program = compile(&place, "writes", WRITES, &["-O1"]);
    record(&place, &[&program]);
    let (mut child, mut client) = serve(&place);
    // `receive` takes the answer for output.
    client.send("Z2,20000000,8");
    let (mut hits, mut interrupts) = (0, 0);
    loop {
        client.send("vCont;c");
        client.0.write_all(&[3]).unwrap();
        let stop = client.receive();
        if stop.contains("replaylog") {
            break;
        }
        hits += u32::from(stop.contains("watch:"));
        interrupts += u32::from(stop.starts_with("T02"));
        // A late interrupt is answered when it is read.
        let mut answer = client.ask("qAttached");
        while answer.starts_with('T') {
            answer = client.receive();
        }
        assert!(hits <= 500 && interrupts < 5000, "{hits} {interrupts}");
    }
    assert_eq!(hits, 500, "with {interrupts} interrupts");
    drop(client);
    child.wait().unwrap();
}

/// A debugger that has waited for long asks for the answer again.
#[test]
fn impatience_is_no_end() {
    let place = Place::new("debug-impatient");
    let program = compile(&place, "called", CALLED, &[]);
    record(&place, &[&program]);
    let (mut child, mut client) = serve(&place);
    std::io::Write::write_all(&mut client.0, b"-").unwrap();
    let stopped = client.ask("?");
    assert!(stopped.starts_with('T'), "{stopped}");
    drop(client);
    assert!(child.wait().unwrap().success());
}

#[test]
fn nobody_is_left_when_gdb_or_we_are_killed() {
    needs!("gdb");
    let place = Place::new("debug-killed");
    let program = compile(&place, "busy", BUSY, &[]);
    record(&place, &[&program, "100000000"]);
    for kills_gdb in [true, false] {
        let mut child = place
            .command(&[
                "debug",
                "--at",
                "begin",
                "--",
                "-nx",
                "-batch",
                "-ex",
                "continue",
                "-ex",
                "reverse-continue",
                "-ex",
                "continue",
                "-ex",
                "shell sleep 5",
            ])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // This waits for the gdb that stays, not for the one that is asked for its version.
        let mut before = None;
        let gdb = loop {
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
            let children: String = tasks
                .map(|task| {
                    std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
                })
                .collect();
            let is_gdb = |pid: &&str| {
                std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim() == "gdb")
            };
            let found = children.split_whitespace().find(is_gdb).map(str::to_owned);
            match found {
                Some(gdb) if before.as_ref() == Some(&gdb) => break gdb,
                found => before = found,
            }
        };
        let victim = if kills_gdb { gdb } else { child.id().to_string() };
        let killed = std::process::Command::new("kill").args(["-9", &victim]).status().unwrap();
        assert!(killed.success(), "{victim:?}");
        // retake ends as gdb ends.
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
        if kills_gdb {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
            assert!(!said.contains("error:"), "{said}");
        }
        let since = std::time::Instant::now();
        while since.elapsed().as_secs() < 10 && !left_behind(&place).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(left_behind(&place).is_empty(), "{:?}", left_behind(&place));
    }
}
