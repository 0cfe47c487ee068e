//! Sockets: names in the order in which they are printed. Flags of several bits come before their
//! parts.

use crate::flags::FlagSet;

/// Address families of sockets.
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

/// Socket types, with the flags of socket and accept4.
pub static SOCKET_TYPE: FlagSet = FlagSet {
    field_mask: 0xf,
    fields: &[
        (1, "SOCK_STREAM"),
        (2, "SOCK_DGRAM"),
        (3, "SOCK_RAW"),
        (4, "SOCK_RDM"),
        (5, "SOCK_SEQPACKET"),
        (6, "SOCK_DCCP"),
        (0xa, "SOCK_PACKET"),
    ],
    bits: &[(0x80000, "SOCK_CLOEXEC"), (0x800, "SOCK_NONBLOCK")],
};

/// Protocols of internet sockets.
pub static INTERNET_PROTOCOL: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "IPPROTO_IP"),
        (1, "IPPROTO_ICMP"),
        (6, "IPPROTO_TCP"),
        (17, "IPPROTO_UDP"),
        (41, "IPPROTO_IPV6"),
        (58, "IPPROTO_ICMPV6"),
        (132, "IPPROTO_SCTP"),
        (255, "IPPROTO_RAW"),
        (262, "IPPROTO_MPTCP"),
    ],
    bits: &[],
};

/// Protocols of netlink sockets.
pub static NETLINK_PROTOCOL: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (0, "NETLINK_ROUTE"),
        (4, "NETLINK_SOCK_DIAG"),
        (7, "NETLINK_SELINUX"),
        (9, "NETLINK_AUDIT"),
        (12, "NETLINK_NETFILTER"),
        (15, "NETLINK_KOBJECT_UEVENT"),
        (16, "NETLINK_GENERIC"),
    ],
    bits: &[],
};

/// Socket options at SOL_SOCKET.
pub static SOCKET_OPTION: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (1, "SO_DEBUG"),
        (2, "SO_REUSEADDR"),
        (3, "SO_TYPE"),
        (4, "SO_ERROR"),
        (5, "SO_DONTROUTE"),
        (6, "SO_BROADCAST"),
        (7, "SO_SNDBUF"),
        (8, "SO_RCVBUF"),
        (9, "SO_KEEPALIVE"),
        (10, "SO_OOBINLINE"),
        (11, "SO_NO_CHECK"),
        (12, "SO_PRIORITY"),
        (13, "SO_LINGER"),
        (15, "SO_REUSEPORT"),
        (16, "SO_PASSCRED"),
        (17, "SO_PEERCRED"),
        (18, "SO_RCVLOWAT"),
        (19, "SO_SNDLOWAT"),
        (20, "SO_RCVTIMEO_OLD"),
        (21, "SO_SNDTIMEO_OLD"),
        (25, "SO_BINDTODEVICE"),
        (26, "SO_ATTACH_FILTER"),
        (27, "SO_DETACH_FILTER"),
        (28, "SO_PEERNAME"),
        (29, "SO_TIMESTAMP_OLD"),
        (30, "SO_ACCEPTCONN"),
        (31, "SO_PEERSEC"),
        (32, "SO_SNDBUFFORCE"),
        (33, "SO_RCVBUFFORCE"),
        (34, "SO_PASSSEC"),
        (36, "SO_MARK"),
        (38, "SO_PROTOCOL"),
        (39, "SO_DOMAIN"),
        (46, "SO_BUSY_POLL"),
        (49, "SO_INCOMING_CPU"),
        (59, "SO_PEERGROUPS"),
        (60, "SO_ZEROCOPY"),
    ],
    bits: &[],
};

/// Socket options at SOL_TCP.
pub static TCP_OPTION: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (1, "TCP_NODELAY"),
        (2, "TCP_MAXSEG"),
        (3, "TCP_CORK"),
        (4, "TCP_KEEPIDLE"),
        (5, "TCP_KEEPINTVL"),
        (6, "TCP_KEEPCNT"),
        (7, "TCP_SYNCNT"),
        (8, "TCP_LINGER2"),
        (9, "TCP_DEFER_ACCEPT"),
        (10, "TCP_WINDOW_CLAMP"),
        (11, "TCP_INFO"),
        (12, "TCP_QUICKACK"),
        (13, "TCP_CONGESTION"),
        (18, "TCP_USER_TIMEOUT"),
        (23, "TCP_FASTOPEN"),
        (30, "TCP_FASTOPEN_CONNECT"),
    ],
    bits: &[],
};

/// Socket options at SOL_IPV6.
pub static IPV6_OPTION: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[
        (16, "IPV6_UNICAST_HOPS"),
        (26, "IPV6_V6ONLY"),
        (49, "IPV6_RECVPKTINFO"),
        (66, "IPV6_RECVTCLASS"),
        (67, "IPV6_TCLASS"),
    ],
    bits: &[],
};

/// Levels of socket options.
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

/// Directions of shutdown.
pub static SHUTDOWN: FlagSet = FlagSet {
    field_mask: u32::MAX,
    fields: &[(0, "SHUT_RD"), (1, "SHUT_WR"), (2, "SHUT_RDWR")],
    bits: &[],
};

/// Flags of send and recv.
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
