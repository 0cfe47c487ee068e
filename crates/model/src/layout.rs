//! Formats kernel structures: says which fields are worth reading, and where they are.
//!
//! Only fields that help a reader are listed. A structure without fields here is shown as bytes.

use std::fmt::Write;

use crate::bytes::{read_u32, read_u64};
use crate::flags::{self, FlagSet};
use crate::signal::{self, SiginfoRef};
use crate::status;
use crate::text::{TextOptions, quote};

/// The type of a field.
#[derive(Debug, Clone, Copy)]
enum Type {
    U8,
    U16,
    I16,
    I32,
    U32,
    I64,
    U64,
    Hex32,
    Hex64,
    /// A resource limit: `8192*1024`, `RLIM64_INFINITY`.
    Limit,
    /// An array: `[1, 2, 3]`.
    U64s(usize),
    /// The ID of a file system: `{val=[0x1, 0x2]}`.
    FileSystemId,
    /// The fields from here on are shown only without abbreviation, otherwise as `...`.
    Rest,
    /// A signal handler: `SIG_DFL`, or an address.
    Handler,
    Signal,
    Set,
    Text(usize),
    Flags16(&'static FlagSet),
    Flags32(&'static FlagSet),
    Layout(&'static str),
}

const SA_RESTORER: u32 = 0x400_0000;

type Field = (&'static str, usize, Type);

/// A structure's name, its size in bytes, and its fields.
type Fields = (&'static str, usize, &'static [Field]);

/// The fields after this one are shown only without abbreviation.
const REST: Field = ("", 0, Type::Rest);

const TIME: Type = Type::Layout("timespec");
const MICRO_TIME: Type = Type::Layout("timeval");

const LAYOUTS: &[Fields] = &[
    ("timespec", 16, &[("tv_sec", 0, Type::I64), ("tv_nsec", 8, Type::I64)]),
    ("timeval", 16, &[("tv_sec", 0, Type::I64), ("tv_usec", 8, Type::I64)]),
    ("timezone", 8, &[("tz_minuteswest", 0, Type::I32), ("tz_dsttime", 4, Type::I32)]),
    ("itimerspec", 32, &[("it_interval", 0, TIME), ("it_value", 16, TIME)]),
    ("itimerval", 32, &[("it_interval", 0, MICRO_TIME), ("it_value", 16, MICRO_TIME)]),
    ("utimbuf", 16, &[("actime", 0, Type::I64), ("modtime", 8, Type::I64)]),
    (
        "tms",
        32,
        &[
            ("tms_utime", 0, Type::I64),
            ("tms_stime", 8, Type::I64),
            ("tms_cutime", 16, Type::I64),
            ("tms_cstime", 24, Type::I64),
        ],
    ),
    ("rlimit", 16, &[("rlim_cur", 0, Type::Limit), ("rlim_max", 8, Type::Limit)]),
    (
        "rusage",
        144,
        &[
            ("ru_utime", 0, MICRO_TIME),
            ("ru_stime", 16, MICRO_TIME),
            REST,
            ("ru_maxrss", 32, Type::I64),
            ("ru_ixrss", 40, Type::I64),
            ("ru_idrss", 48, Type::I64),
            ("ru_isrss", 56, Type::I64),
            ("ru_minflt", 64, Type::I64),
            ("ru_majflt", 72, Type::I64),
            ("ru_nswap", 80, Type::I64),
            ("ru_inblock", 88, Type::I64),
            ("ru_oublock", 96, Type::I64),
            ("ru_msgsnd", 104, Type::I64),
            ("ru_msgrcv", 112, Type::I64),
            ("ru_nsignals", 120, Type::I64),
            ("ru_nvcsw", 128, Type::I64),
            ("ru_nivcsw", 136, Type::I64),
        ],
    ),
    (
        "pollfd",
        8,
        &[
            ("fd", 0, Type::I32),
            ("events", 4, Type::Flags16(&flags::POLL_EVENTS)),
            ("revents", 6, Type::Flags16(&flags::POLL_EVENTS)),
        ],
    ),
    (
        "epoll_event",
        12,
        &[("events", 0, Type::Flags32(&flags::EPOLL_EVENTS)), ("data", 4, Type::Hex64)],
    ),
    (
        "statfs",
        120,
        &[
            ("f_type", 0, Type::Flags32(&flags::FILE_SYSTEM)),
            ("f_bsize", 8, Type::I64),
            ("f_blocks", 16, Type::U64),
            ("f_bfree", 24, Type::U64),
            ("f_bavail", 32, Type::U64),
            ("f_files", 40, Type::U64),
            ("f_ffree", 48, Type::U64),
            ("f_fsid", 56, Type::FileSystemId),
            ("f_namelen", 64, Type::I64),
            ("f_frsize", 72, Type::I64),
            ("f_flags", 80, Type::Flags32(&flags::MOUNTED)),
        ],
    ),
    (
        "utsname",
        390,
        &[
            ("sysname", 0, Type::Text(65)),
            ("nodename", 65, Type::Text(65)),
            REST,
            ("release", 130, Type::Text(65)),
            ("version", 195, Type::Text(65)),
            ("machine", 260, Type::Text(65)),
            ("domainname", 325, Type::Text(65)),
        ],
    ),
    (
        "sysinfo",
        112,
        &[
            ("uptime", 0, Type::I64),
            ("loads", 8, Type::U64s(3)),
            ("totalram", 32, Type::U64),
            ("freeram", 40, Type::U64),
            ("sharedram", 48, Type::U64),
            ("bufferram", 56, Type::U64),
            ("totalswap", 64, Type::U64),
            ("freeswap", 72, Type::U64),
            ("procs", 80, Type::U16),
            ("totalhigh", 88, Type::U64),
            ("freehigh", 96, Type::U64),
            ("mem_unit", 104, Type::U32),
        ],
    ),
    (
        "flock",
        32,
        &[
            ("l_type", 0, Type::Flags16(&flags::LOCK)),
            ("l_whence", 2, Type::Flags16(&flags::WHENCE)),
            ("l_start", 8, Type::I64),
            ("l_len", 16, Type::I64),
            ("l_pid", 24, Type::I32),
        ],
    ),
    ("f_owner_ex", 8, &[("type", 0, Type::I32), ("pid", 4, Type::I32)]),
    (
        "sigaction",
        32,
        &[
            ("sa_handler", 0, Type::Handler),
            ("sa_mask", 24, Type::Set),
            ("sa_flags", 8, Type::Flags32(&flags::SIGACTION)),
            ("sa_restorer", 16, Type::Hex64),
        ],
    ),
    (
        "stack",
        24,
        &[("ss_sp", 0, Type::Hex64), ("ss_flags", 8, Type::Hex32), ("ss_size", 16, Type::U64)],
    ),
    (
        "sigevent",
        64,
        &[
            ("sigev_value", 0, Type::Hex64),
            ("sigev_signo", 8, Type::Signal),
            ("sigev_notify", 12, Type::I32),
        ],
    ),
    (
        "siginfo_child",
        28,
        &[
            ("si_signo", 0, Type::Signal),
            ("si_code", 8, Type::I32),
            ("si_pid", 16, Type::I32),
            ("si_uid", 20, Type::U32),
            ("si_status", 24, Type::I32),
        ],
    ),
    (
        "winsize",
        8,
        &[
            ("ws_row", 0, Type::U16),
            ("ws_col", 2, Type::U16),
            ("ws_xpixel", 4, Type::U16),
            ("ws_ypixel", 6, Type::U16),
        ],
    ),
    (
        "termios",
        36,
        &[
            ("c_iflag", 0, Type::Hex32),
            ("c_oflag", 4, Type::Hex32),
            ("c_cflag", 8, Type::Hex32),
            ("c_lflag", 12, Type::Hex32),
            ("c_line", 16, Type::U8),
        ],
    ),
    ("ifreq", 40, &[("ifr_name", 0, Type::Text(16)), ("ifr_value", 16, Type::Hex64)]),
    (
        "sembuf",
        6,
        &[("sem_num", 0, Type::U16), ("sem_op", 2, Type::I16), ("sem_flg", 4, Type::I16)],
    ),
    (
        "mq_attr",
        64,
        &[
            ("mq_flags", 0, Type::Hex64),
            ("mq_maxmsg", 8, Type::I64),
            ("mq_msgsize", 16, Type::I64),
            ("mq_curmsgs", 24, Type::I64),
        ],
    ),
    ("cap_header", 8, &[("version", 0, Type::Hex32), ("pid", 4, Type::I32)]),
    (
        "cap_data",
        12,
        &[
            ("effective", 0, Type::Hex32),
            ("permitted", 4, Type::Hex32),
            ("inheritable", 8, Type::Hex32),
        ],
    ),
    ("sock_fprog", 16, &[("len", 0, Type::U16), ("filter", 8, Type::Hex64)]),
    (
        "futex_waitv",
        24,
        &[("val", 0, Type::U64), ("uaddr", 8, Type::Hex64), ("flags", 16, Type::Hex32)],
    ),
];

/// Formats an element; `None` if the element has no text of its own or `bytes` is too short.
pub fn element_text(element: &str, bytes: &[u8], options: &TextOptions) -> Option<String> {
    let number =
        |count: usize| bytes.first_chunk::<8>().filter(|_| count == 8).map(|_| read_u64(bytes, 0));
    match element {
        "u16" => bytes.first_chunk().map(|bytes| u16::from_le_bytes(*bytes).to_string()),
        "i16" => bytes.first_chunk().map(|bytes| i16::from_le_bytes(*bytes).to_string()),
        "u32" => bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).to_string()),
        "i32" => bytes.first_chunk().map(|bytes| i32::from_le_bytes(*bytes).to_string()),
        "u64" => number(8).map(|value| value.to_string()),
        "i64" => number(8).map(|value| (value as i64).to_string()),
        "sigset" | "sigmask" => number(8).map(signal_set),
        "siginfo" => SiginfoRef::new(bytes).map(|siginfo| siginfo.describe()),
        "stat" => bytes.get(..144).map(|bytes| status::stat(bytes, options)),
        "statx" => bytes.get(..256).map(|bytes| status::statx(bytes, options)),
        name => {
            let (_, size, fields) = LAYOUTS.iter().find(|(other, _, _)| *other == name)?;
            let bytes = bytes.get(..*size)?;
            Some(fields_text(fields, bytes, options))
        }
    }
}

/// Formats a signal set as `[INT TERM]`, or as `~[KILL]` if most signals are set; bit 0 is signal
/// 1.
pub fn signal_set(set: u64) -> String {
    let inverted = set.count_ones() > 32;
    let shown = if inverted { !set } else { set };
    let names = (0..64).filter(|bit| shown >> bit & 1 == 1).map(|bit| signal::name(bit + 1));
    let names: Vec<_> = names.map(|name| name.trim_start_matches("SIG").to_string()).collect();
    format!("{}[{}]", if inverted { "~" } else { "" }, names.join(" "))
}

/// Formats the fields of a structure. `bytes` must be as long as the structure.
fn fields_text(fields: &[Field], bytes: &[u8], options: &TextOptions) -> String {
    let mut text = String::from("{");
    for (index, (name, offset, field_type)) in fields.iter().enumerate() {
        // The restorer has a meaning only with this flag.
        if *name == "sa_restorer" && read_u32(bytes, 8) & SA_RESTORER == 0 {
            continue;
        }
        let separator = if index == 0 { "" } else { ", " };
        if matches!(field_type, Type::Rest) {
            if options.unabbreviated {
                continue;
            }
            text.push_str(", ...");
            break;
        }
        let value = field_text(*field_type, &bytes[*offset..], options);
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{name}={value}");
    }
    text.push('}');
    text
}

/// Formats a field at the beginning of `bytes`. Tests check that every field lies within its
/// structure.
fn field_text(field_type: Type, bytes: &[u8], options: &TextOptions) -> String {
    let short = || u16::from_le_bytes([bytes[0], bytes[1]]);
    match field_type {
        Type::U8 => bytes[0].to_string(),
        Type::U16 => short().to_string(),
        Type::I16 => (short() as i16).to_string(),
        Type::I32 => (read_u32(bytes, 0) as i32).to_string(),
        Type::U32 => read_u32(bytes, 0).to_string(),
        Type::I64 => (read_u64(bytes, 0) as i64).to_string(),
        Type::U64 => read_u64(bytes, 0).to_string(),
        Type::Hex32 => format!("{:#x}", read_u32(bytes, 0)),
        Type::Hex64 => format!("{:#x}", read_u64(bytes, 0)),
        Type::Limit => limit_text(read_u64(bytes, 0)),
        Type::U64s(count) => {
            let numbers: Vec<String> =
                (0..count).map(|index| read_u64(bytes, index * 8).to_string()).collect();
            format!("[{}]", numbers.join(", "))
        }
        Type::FileSystemId => {
            format!("{{val=[{:#x}, {:#x}]}}", read_u32(bytes, 0), read_u32(bytes, 4))
        }
        Type::Rest => String::new(),
        Type::Handler => handler_text(read_u64(bytes, 0)),
        Type::Signal => signal::name(u16::try_from(read_u32(bytes, 0)).unwrap_or(0)).into_owned(),
        Type::Set => signal_set(read_u64(bytes, 0)),
        Type::Text(size) => {
            let text = bytes[..size].split(|byte| *byte == 0).next().unwrap_or(&[]);
            quote(text, text.len(), options)
        }
        Type::Flags16(set) => set.format(u32::from(short())),
        Type::Flags32(set) => set.format(read_u32(bytes, 0)),
        Type::Layout(name) => element_text(name, bytes, options).unwrap_or_default(),
    }
}

fn limit_text(limit: u64) -> String {
    match limit {
        u64::MAX => "RLIM64_INFINITY".to_owned(),
        limit if limit > 1024 && limit.is_multiple_of(1024) => format!("{}*1024", limit / 1024),
        limit => limit.to_string(),
    }
}

fn handler_text(handler: u64) -> String {
    match handler {
        0 => "SIG_DFL".to_owned(),
        1 => "SIG_IGN".to_owned(),
        handler => format!("{handler:#x}"),
    }
}

/// Formats a socket address by family; `None` for families shown as bytes and for truncated
/// addresses.
pub fn socket_address(bytes: &[u8], options: &TextOptions) -> Option<String> {
    let family = u16::from_le_bytes(*bytes.first_chunk()?);
    let name = flags::SOCKET_FAMILY.format(u32::from(family));
    let port = || bytes.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let text = match family {
        1 => {
            let path = &bytes[2..];
            match path.first() {
                None => return Some(format!("{{sa_family={name}}}")),
                Some(0) => format!("sun_path=@{}", quote(&path[1..], path.len() - 1, options)),
                Some(_) => {
                    let path = path.split(|byte| *byte == 0).next().unwrap_or(path);
                    format!("sun_path={}", quote(path, path.len(), options))
                }
            }
        }
        2 => {
            let address: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            let address = std::net::Ipv4Addr::from(address);
            format!("sin_port=htons({}), sin_addr=inet_addr(\"{address}\")", port()?)
        }
        10 => {
            let address: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let address = std::net::Ipv6Addr::from(address);
            format!("sin6_port=htons({}), sin6_addr=\"{address}\"", port()?)
        }
        16 => {
            let numbers = bytes.get(4..12)?;
            format!("nl_pid={}, nl_groups={:#x}", read_u32(numbers, 0), read_u32(numbers, 4))
        }
        _ => return None,
    };
    Some(format!("{{sa_family={name}, {text}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_lies_in_its_structure() {
        for (name, size, fields) in LAYOUTS {
            let bytes = vec![0xff; *size];
            let text = element_text(name, &bytes, &TextOptions::default()).unwrap();
            assert!(text.contains(fields[0].0), "{text}");
            assert_eq!(element_text(name, &bytes[1..], &TextOptions::default()), None, "{name}");
        }
    }

    #[test]
    fn structures_as_text() {
        let options = TextOptions::default();
        let words =
            |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let cases = [
            ("timespec", words(&[3, 5]), "{tv_sec=3, tv_nsec=5}"),
            ("u32", vec![1, 0, 0, 0], "1"),
            ("i32", vec![255; 4], "-1"),
            ("sigset", words(&[0x4002]), "[INT TERM]"),
            ("sigset", words(&[!0x100]), "~[KILL]"),
            (
                "itimerval",
                words(&[0, 0, 1, 500]),
                "{it_interval={tv_sec=0, tv_usec=0}, it_value={tv_sec=1, tv_usec=500}}",
            ),
            (
                "rlimit",
                words(&[8192 * 1024, u64::MAX]),
                "{rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}",
            ),
            ("sigaction", words(&[1, 0, 0, 0]), "{sa_handler=SIG_IGN, sa_mask=[], sa_flags=0}"),
            (
                "sigaction",
                words(&[0x5000, 0x400_0000, 0x7000, 0x1_8000_0000]),
                "{sa_handler=0x5000, sa_mask=[RTMIN RT_1], \
                 sa_flags=SA_RESTORER, sa_restorer=0x7000}",
            ),
            (
                "pollfd",
                vec![3, 0, 0, 0, 1, 0, 5, 0],
                "{fd=3, events=POLLIN, revents=POLLIN|POLLOUT}",
            ),
        ];
        for (element, bytes, text) in cases {
            assert_eq!(element_text(element, &bytes, &options).as_deref(), Some(text));
        }
        assert_eq!(element_text("nothing", &[0; 64], &options), None);
        assert_eq!(element_text("u64", &[0; 7], &options), None);
    }

    #[test]
    fn socket_addresses_as_text() {
        let options = TextOptions::default();
        let text = |bytes: &[u8]| socket_address(bytes, &options);
        let inet = [2, 0, 0, 80, 127, 0, 0, 1];
        let expected = "{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}";
        assert_eq!(text(&inet).as_deref(), Some(expected));
        assert_eq!(text(&inet[..7]), None);
        assert_eq!(
            text(b"\x01\0/run/x\0rest").as_deref(),
            Some("{sa_family=AF_UNIX, sun_path=\"/run/x\"}")
        );
        assert_eq!(text(b"\x01\0\0abc").as_deref(), Some("{sa_family=AF_UNIX, sun_path=@\"abc\"}"));
        assert_eq!(text(b"\x01\0").as_deref(), Some("{sa_family=AF_UNIX}"));
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[77, 0, 1, 2]), None);
    }
}
