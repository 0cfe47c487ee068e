//! Sockets: names in the order in which they are printed. Flags of several bits come before their parts.

use crate::flags::FlagSet;

/// For socket.
pub static SOCKET_FAMILY: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "AF_UNSPEC"),
        (1, "AF_UNIX"),
        (2, "AF_INET"),
        (3, "AF_AX25"),
        (4, "AF_IPX"),
        (5, "AF_APPLETALK"),
        (0xa, "AF_INET6"),
        (0xf, "AF_KEY"),
        (0x10, "AF_NETLINK"),
        (0x11, "AF_PACKET"),
        (0x15, "AF_RDS"),
        (0x1a, "AF_LLC"),
        (0x1d, "AF_CAN"),
        (0x1e, "AF_TIPC"),
        (0x1f, "AF_BLUETOOTH"),
        (0x26, "AF_ALG"),
        (0x27, "AF_NFC"),
        (0x28, "AF_VSOCK"),
        (0x29, "AF_KCM"),
        (0x2a, "AF_QIPCRTR"),
        (0x2b, "AF_SMC"),
        (0x2c, "AF_XDP"),
        (0x2d, "AF_MCTP"),
    ],
    bits: &[],
};

/// For socket, accept4.
pub static SOCKET_TYPE: FlagSet = FlagSet {
    field_mask: 0xf,
    fields: &[(1, "SOCK_STREAM"), (2, "SOCK_DGRAM"), (3, "SOCK_RAW"), (4, "SOCK_RDM"), (5, "SOCK_SEQPACKET"), (6, "SOCK_DCCP"), (0xa, "SOCK_PACKET")],
    bits: &[(0x800, "SOCK_NONBLOCK"), (0x80000, "SOCK_CLOEXEC")],
};

/// For setsockopt.
pub static SOCKET_LEVEL: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "SOL_IP"),
        (1, "SOL_SOCKET"),
        (6, "SOL_TCP"),
        (0x11, "SOL_UDP"),
        (0x29, "SOL_IPV6"),
        (0x3a, "SOL_ICMPV6"),
        (0xff, "SOL_RAW"),
        (0x107, "SOL_PACKET"),
        (0x10e, "SOL_NETLINK"),
        (0x117, "SOL_ALG"),
        (0x11a, "SOL_TLS"),
        (0x11b, "SOL_XDP"),
        (0x11c, "SOL_MPTCP"),
    ],
    bits: &[],
};

/// For shutdown.
pub static SHUTDOWN: FlagSet = FlagSet { field_mask: u32::MAX, fields: &[(0, "SHUT_RD"), (1, "SHUT_WR"), (2, "SHUT_RDWR")], bits: &[] };

/// For send, recv.
pub static MESSAGE: FlagSet = FlagSet {
    field_mask: 0,
    fields: &[],
    bits: &[
        (1, "MSG_OOB"),
        (2, "MSG_PEEK"),
        (4, "MSG_DONTROUTE"),
        (8, "MSG_CTRUNC"),
        (0x20, "MSG_TRUNC"),
        (0x40, "MSG_DONTWAIT"),
        (0x80, "MSG_EOR"),
        (0x100, "MSG_WAITALL"),
        (0x800, "MSG_CONFIRM"),
        (0x2000, "MSG_ERRQUEUE"),
        (0x4000, "MSG_NOSIGNAL"),
        (0x8000, "MSG_MORE"),
        (0x10000, "MSG_WAITFORONE"),
        (0x4000000, "MSG_ZEROCOPY"),
        (0x20000000, "MSG_FASTOPEN"),
        (0x40000000, "MSG_CMSG_CLOEXEC"),
    ],
};
