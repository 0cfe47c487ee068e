//! Calls on sockets.

use super::describe_type::{CallType, Rows, call};
use super::rule::Part;
use super::rule::Source::{self, Argument};
use crate::BufferDirection::{Input, Output};

const CMSG_CLOEXEC: u64 = 0x4000_0000;

/// Returns RE-ANIMATOR's types for these calls.
pub(super) fn types() -> Vec<CallType> {
    let mut types = addresses();
    types.extend(options());
    types.extend(messages());
    types
}

fn given_address(name: &'static str) -> CallType {
    call(name).descriptor().whole("sockaddr_buffer", 1, Input).i32("sockaddr_length", Argument(2))
}

fn returned_address(name: &'static str) -> CallType {
    call(name)
        .descriptor()
        .whole("sockaddr_buffer", 1, Output)
        .opt_i32("sockaddr_length", CallType::output_member(2, 0, Part::I32))
}

fn addresses() -> Vec<CallType> {
    vec![
        call("socket")
            .i32("domain", Argument(0))
            .i32("type", Argument(1))
            .i32("protocol", Argument(2)),
        call("socketpair")
            .i32("domain", Argument(0))
            .i32("type", Argument(1))
            .i32("protocol", Argument(2))
            .i32("read_descriptor", CallType::output_member(3, 0, Part::I32))
            .i32("write_descriptor", CallType::output_member(3, 4, Part::I32)),
        given_address("connect"),
        given_address("bind"),
        returned_address("accept"),
        returned_address("accept4").opt_i32("flags", Argument(3)),
        returned_address("getsockname"),
        returned_address("getpeername"),
        call("listen").descriptor().i32("backlog", Argument(1)),
        call("shutdown").descriptor().i32("how", Argument(1)),
    ]
}

fn options() -> Vec<CallType> {
    let option =
        |name| call(name).descriptor().i32("level", Argument(1)).i32("optname", Argument(2));
    vec![
        option("getsockopt")
            .whole("option_value", 3, Output)
            .opt_i32("buffer_size", CallType::output_member(4, 0, Part::I32)),
        option("setsockopt").whole("option_value", 3, Input).i32("buffer_size", Argument(4)),
    ]
}

fn receive_flags(this: CallType, argument: u8) -> CallType {
    this.opt_i32("flags_value", Argument(argument)).bits(
        argument,
        &[
            ("flag_cmsg_cloexec", CMSG_CLOEXEC),
            ("flag_dontwait", 0x40),
            ("flag_errqueue", 0x2000),
            ("flag_oob", 1),
            ("flag_peek", 2),
            ("flag_trunc", 0x20),
            ("flag_waitall", 0x100),
        ],
    )
}

fn send_flags(this: CallType, argument: u8) -> CallType {
    this.opt_i32("flags_value", Argument(argument)).bits(
        argument,
        &[
            ("flag_confirm", 0x800),
            ("flag_dontroute", 4),
            ("flag_dontwait", 0x40),
            ("flag_eor", 0x80),
            ("flag_more", 0x8000),
            ("flag_nosignal", 0x4000),
            ("flag_oob", 1),
        ],
    )
}

fn messages() -> Vec<CallType> {
    let sized = |name| call(name).descriptor().i64("bytes_requested", Argument(2));
    let vector = |name| {
        call(name)
            .descriptor()
            .i32("iov_number", Source::VectorIndex)
            .i64("bytes_requested", Source::VectorBytes)
    };
    vec![
        // x86-64 has no calls `recv` and `send`. The C library makes the next two instead.
        misspelt_dontwait(receive_flags(sized("recv").of(&[]).read("data_read", 1, 2), 3)),
        receive_flags(
            sized("recvfrom")
                .read("data_read", 1, 2)
                .i32("sockaddr_length", CallType::output_member(5, 0, Part::I32)),
            3,
        ),
        send_flags(sized("send").of(&[]).written("data_written", 1, 2), 3),
        send_flags(
            sized("sendto")
                .written("data_written", 1, 2)
                .whole("sockaddr_buffer", 4, Input)
                .i32("sockaddr_length", Argument(5)),
            3,
        ),
        receive_flags(vector("recvmsg").bytes("iov_data_read", Source::VectorData), 2)
            .rows(Rows::Vector { argument: 1, message: true, direction: Output }),
        send_flags(vector("sendmsg").bytes("iov_data_written", Source::VectorData), 2)
            .rows(Rows::Vector { argument: 1, message: true, direction: Input }),
    ]
}

/// The schema spells this field of `recv` differently.
fn misspelt_dontwait(mut this: CallType) -> CallType {
    for rule in this.fields.iter_mut().filter(|rule| rule.name == "flag_dontwait") {
        rule.name = "flag_donwait";
    }
    this
}
