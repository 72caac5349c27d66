# SPDX-License-Identifier: BSD-3-Clause
"""Invalid packets at every layer: truncated, too long, or with contradictory fields.

One table of (name, frame, verdict). The verdict is a drop reason, or kernel, forwarded, replied. All
frames are in one run, so that the state after each frame affects the next frames. Frames are made
with scapy and then damaged with put(), because scapy corrects fields.
"""
import struct

from scapy.all import (
    AH,
    Dot1Q,
    Ether,
    ICMP,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    IP,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    Raw,
    TCP,
    UDP,
)

from lab import CLIENT4, CLIENT6, CLIENT_MAC, PORT_MAC, VIP4, VIP6, config, frame

ETH = bytes(Ether(src=CLIENT_MAC, dst=PORT_MAC, type=0x0800))
ETH6 = bytes(Ether(src=CLIENT_MAC, dst=PORT_MAC, type=0x86DD))
OTHER4 = "198.51.100.99"  # not a VIP
OTHER6 = "2001:db8:100::99"


def ip4(l4=b"", **more):
    return frame(IP(**{"src": CLIENT4, "dst": VIP4, **more}) / l4)


def ip6(l4=b"", **more):
    return frame(IPv6(**{"src": CLIENT6, "dst": VIP6, **more}) / l4)


def tcp(**more):
    return TCP(**{"sport": 4711, "dport": 80, "flags": "S", **more})


def udp(**more):
    return UDP(**{"sport": 4711, "dport": 80, **more})


TCP4, TCP6 = ip4(tcp()), ip6(tcp())
UDP4, UDP6 = ip4(udp() / b"data"), ip6(udp() / b"data")
ECHO4, ECHO6 = ip4(ICMP() / b"data"), ip6(ICMPv6EchoRequest(data=b"data"))
ERROR4 = ip4(ICMP(type=3, code=4) / bytes(IP(src=VIP4, dst=CLIENT4) / tcp(sport=80, dport=9)))
ERROR6 = ip6(ICMPv6PacketTooBig() / bytes(IPv6(src=VIP6, dst=CLIENT6) / tcp(sport=80, dport=9)))
SEEDS = [
    TCP4,
    TCP6,
    UDP4,
    UDP6,
    ECHO4,
    ECHO6,
    ERROR4,
    ERROR6,
    ip6(IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / tcp()),
    frame(
        Ether(src=CLIENT_MAC, dst=PORT_MAC)
        / Dot1Q(vlan=5)
        / Dot1Q(vlan=6)
        / IP(src=CLIENT4, dst=VIP4)
        / tcp()
    ),
]


def put(data, at, value, size=1):
    """Returns a copy of the data with an unsigned big-endian number written at an offset."""
    return data[:at] + value.to_bytes(size, "big") + data[at + size :]


def fix4(data):
    """Returns the frame with a correct IPv4 header checksum; other fields may be wrong."""
    head = 14 + max((data[14] & 15) * 4, 20)
    data = put(data, 24, 0, 2)
    words = data[14:head] + b"\0" * ((head - 14) % 2)
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return put(data, 24, ~total & 0xFFFF, 2)


def patch4(at, value, size=1, data=TCP4):
    return fix4(put(data, at, value, size))


def vlan(*tags, kind=0x0800):
    data = bytes.fromhex((PORT_MAC + CLIENT_MAC).replace(":", ""))
    for tag in tags:
        data += struct.pack("!HH", tag, 100)
    return data + struct.pack("!H", kind)


def ethernet():
    yield "empty frame", b"", "frame_too_short"
    yield "one byte", b"\x02", "frame_too_short"
    yield "addresses only", TCP4[:12], "frame_too_short"
    yield "half an EtherType", TCP4[:13], "frame_too_short"
    yield "no payload, IPv4", TCP4[:14], "ipv4_truncated"
    yield "no payload, IPv6", TCP6[:14], "ipv6_truncated"
    yield "no payload, unknown EtherType", vlan(kind=0x1234), "kernel"
    yield "EtherType 0", vlan(kind=0) + TCP4[14:], "kernel"
    yield "802.3 length instead of a type", vlan(kind=46) + TCP4[14:], "kernel"
    yield "truncated ARP", vlan(kind=0x0806) + b"\0", "kernel"
    yield "tag without its end", vlan(0x8100)[:-2], "vlan_truncated"
    yield "tag type alone", vlan(0x8100)[:14], "vlan_truncated"
    yield "half a tag", vlan(0x8100)[:15], "vlan_truncated"
    yield "second tag cut", vlan(0x88A8, 0x8100)[:19], "vlan_truncated"
    yield "three tags", vlan(0x8100, 0x8100, 0x8100) + TCP4[14:], "vlan_too_deep"
    yield "three tags, mixed kinds", vlan(0x88A8, 0x9100, 0x8100) + TCP4[14:], "vlan_too_deep"
    yield "thirty tags", vlan(*[0x8100] * 30) + TCP4[14:], "vlan_too_deep"
    yield "three tags, cut in the third", vlan(0x8100, 0x8100, 0x8100)[:23], "vlan_too_deep"
    yield "tagged, no payload", vlan(0x8100), "ipv4_truncated"
    yield "two tags, no payload, IPv6", vlan(0x88A8, 0x8100, kind=0x86DD), "ipv6_truncated"
    yield "tag of type 0x9100", vlan(0x9100) + TCP4[14:], "forwarded"


def ipv4():
    yield "one byte of IPv4", TCP4[:15], "ipv4_truncated"
    yield "19 bytes of IPv4", TCP4[:33], "ipv4_truncated"
    for version in (0, 1, 5, 6, 15):
        yield f"IPv4 with version {version}", patch4(14, version << 4 | 5), "ipv4_version"
    yield "IPv6 packet as IPv4", ETH + TCP6[14:], "ipv4_version"
    for words in (0, 1, 4):
        yield f"IPv4 header of {words * 4} bytes", put(TCP4, 14, 0x40 | words), "ipv4_header_length"
    yield "IPv4 header beyond the frame", put(TCP4[:34], 14, 0x4F), "ipv4_header_length"
    yield "IPv4 options cut off", put(TCP4[:36], 14, 0x46), "ipv4_header_length"
    yield "IPv4 header beyond the total length", patch4(
        16, 40, 2, put(TCP4 + bytes(60), 14, 0x4F)
    ), "ipv4_total_length"
    for length in (0, 1, 19):
        yield f"IPv4 total length {length}", patch4(16, length, 2), "ipv4_total_length"
    yield "IPv4 total length one too long", patch4(16, 41, 2), "ipv4_total_length"
    yield "IPv4 total length 65535", patch4(16, 65535, 2), "ipv4_total_length"
    yield "IPv4 frame cut by one byte", TCP4[:-1], "ipv4_total_length"
    yield "IPv4 checksum 0", put(TCP4, 24, 0, 2), "ipv4_checksum"
    yield "IPv4 checksum off by one", put(TCP4, 25, TCP4[25] ^ 1), "ipv4_checksum"
    yield "IPv4 checksum wrong, not a VIP", put(ip4(tcp(), dst=OTHER4), 24, 1, 2), "ipv4_checksum"
    yield "IPv4 destination changed on the way", put(
        ip4(tcp(), dst=OTHER4), 33, 10
    ), "ipv4_checksum"
    yield "IPv4 ends at its header, TCP", patch4(16, 20, 2, TCP4[:34]), "tcp_truncated"
    yield "IPv4 reserved flag set", patch4(20, 0x8000, 2), "forwarded"
    yield "TTL 0", ip4(tcp(), ttl=0), "ttl_expired"
    yield "TTL 0, not a VIP", ip4(tcp(), ttl=0, dst=OTHER4), "kernel"
    for name, source in (
        ("multicast", "224.0.0.1"),
        ("multicast, last", "239.255.255.255"),
        ("loopback", "127.0.0.1"),
        ("unspecified", "0.0.0.0"),
        ("of network 0", "0.1.2.3"),
        ("broadcast", "255.255.255.255"),
        ("the VIP itself", VIP4),
    ):
        yield f"IPv4 source {name}", ip4(tcp(), src=source), "source_address"
    yield "IPv4 source loopback, not a VIP", ip4(tcp(), src="127.0.0.1", dst=OTHER4), "kernel"
    yield "first fragment", ip4(tcp(), flags="MF"), "fragment_tiny"
    yield "last fragment", ip4(b"x" * 8, frag=3, proto=6), "fragment_first_missing"
    yield "fragment at the largest offset", ip4(b"x" * 8, frag=8191, proto=17), "fragment_first_missing"
    yield "tiny first fragment", ip4(bytes(tcp())[:8], flags="MF", proto=6), "fragment_tiny"
    yield "fragment with DF", ip4(tcp(), flags="DF+MF"), "fragment_tiny"
    yield "protocol 0", ip4(b"x" * 20, proto=0), "kernel"
    yield "protocol 255", ip4(b"x" * 20, proto=255), "kernel"
    yield "IPv6 in IPv4 to a VIP", ip4(TCP6[14:], proto=41), "kernel"
    yield "ICMPv6 over IPv4", ip4(ECHO6[54:], proto=58), "kernel"


def ipv6():
    yield "one byte of IPv6", TCP6[:15], "ipv6_truncated"
    yield "39 bytes of IPv6", TCP6[:53], "ipv6_truncated"
    for version in (0, 4, 5, 7, 15):
        yield f"IPv6 with version {version}", put(TCP6, 14, version << 4), "ipv6_version"
    yield "IPv4 packet as IPv6", ETH6 + (TCP4 + bytes(40))[14:], "ipv6_version"
    yield "IPv6 payload one too long", put(TCP6, 18, 21, 2), "ipv6_payload_length"
    yield "IPv6 payload length 65535", put(TCP6, 18, 65535, 2), "ipv6_payload_length"
    yield "IPv6 frame cut by one byte", TCP6[:-1], "ipv6_payload_length"
    yield "IPv6 without payload, TCP", put(TCP6, 18, 0, 2), "tcp_truncated"
    yield "hop limit 0", ip6(tcp(), hlim=0), "ttl_expired"
    for name, source in (
        ("multicast", "ff02::1"),
        ("multicast, global", "ff0e::1"),
        ("loopback", "::1"),
        ("unspecified", "::"),
        ("mapped", "::ffff:192.0.2.7"),
        ("mapped loopback", "::ffff:127.0.0.1"),
        ("the VIP itself", VIP6),
    ):
        yield f"IPv6 source {name}", ip6(tcp(), src=source), "source_address"
    yield "IPv6 source unspecified, not a VIP", ip6(tcp(), src="::", dst=OTHER6), "kernel"
    yield "IPv6 source mapped, not a VIP", ip6(tcp(), src="::ffff:192.0.2.7", dst=OTHER6), "kernel"
    yield "IPv6 source translated", ip6(tcp(), src="::ffff:0:192.0.2.7"), "forwarded"
    yield "no next header", ip6(b"x" * 8, nh=59), "kernel"
    yield "next header 255", ip6(b"x" * 8, nh=255), "kernel"
    yield "ICMP over IPv6", ip6(ECHO4[34:], nh=1), "kernel"
    yield "IPv4 in IPv6 to a VIP", ip6(TCP4[14:], nh=4), "kernel"


def extensions():
    def chain(*headers, last=6, tail=bytes(tcp())):
        """Returns an IPv6 packet with extension headers. headers: (kind, bytes); this function sets
        the next-header byte."""
        kinds = [kind for kind, _ in headers[1:]] + [last]
        body = b"".join(bytes([nxt]) + data[1:] for (_, data), nxt in zip(headers, kinds))
        return ip6(body + tail, nh=headers[0][0])

    empty = bytes(8)
    yield "destination options, missing", ip6(b"", nh=60), "ipv6_extension"
    yield "destination options, one byte", ip6(b"\x06", nh=60), "ipv6_extension"
    yield "destination options, seven bytes", ip6(bytes([6]) + bytes(6), nh=60), "ipv6_extension"
    yield "destination options beyond the packet", chain(
        (60, b"\0\xff" + bytes(6))
    ), "ipv6_extension"
    yield "destination options, length one too far", chain(
        (60, b"\0\x03" + bytes(6))
    ), "ipv6_extension"
    yield "destination options eat the TCP header", chain(
        (60, b"\0\x02" + bytes(6)), tail=bytes(20)[:16]
    ), "tcp_truncated"
    yield "hop-by-hop after another", chain((60, empty), (0, empty)), "ipv6_extension"
    yield "hop-by-hop twice", chain((0, empty), (0, empty)), "ipv6_extension"
    yield "eight headers", chain(*[(60, empty)] * 8), "forwarded"
    yield "nine headers", chain(*[(60, empty)] * 9), "ipv6_extension"
    yield "a hundred headers", chain(*[(60, empty)] * 100), "ipv6_extension"
    yield "routing header cut", ip6(bytes([6, 2]) + bytes(6), nh=43), "ipv6_extension"
    yield "authentication header cut", ip6(bytes([6, 4]) + bytes(10), nh=51), "ipv6_extension"
    yield "authentication header of no length", frame(
        IPv6(src=CLIENT6, dst=VIP6) / AH(nh=6, payloadlen=0, spi=1, seq=1) / Raw(bytes(tcp()))
    ), "tcp_header_length"
    yield "fragment header cut", ip6(bytes([6, 0, 0, 1]), nh=44), "ipv6_extension"
    yield "IPv6 first fragment", ip6(IPv6ExtHdrFragment(m=1) / tcp()), "fragment_tiny"
    yield "IPv6 last fragment", ip6(IPv6ExtHdrFragment(offset=9, nh=6) / b"x"), "fragment_first_missing"
    yield "IPv6 fragment behind options", ip6(
        IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(m=1) / tcp()
    ), "fragment_tiny"
    yield "IPv6 fragment, not a VIP", ip6(IPv6ExtHdrFragment(m=1) / tcp(), dst=OTHER6), "kernel"
    yield "broken options, not a VIP", ip6(b"\x06", nh=60, dst=OTHER6), "kernel"
    yield "options, then nothing", chain((60, empty), tail=b""), "tcp_truncated"
    yield "options, then no next header", chain((60, empty), last=59, tail=b""), "kernel"
    yield "routing, then half a UDP header", ip6(
        IPv6ExtHdrRouting(nh=17) / bytes(4)
    ), "udp_truncated"
    yield "ESP", ip6(b"x" * 40, nh=50), "kernel"


def tcp_cases():
    head = ip4(b"", proto=6)[:34]
    for size in (0, 1, 4, 13, 19):
        yield f"{size} bytes of TCP", fix4(
            put(head + bytes(tcp())[:size], 16, 20 + size, 2)
        ), "tcp_truncated"
        yield f"{size} bytes of TCP over IPv6", ip6(bytes(tcp())[:size], nh=6), "tcp_truncated"
    yield "TCP cut by the total length, padding behind", patch4(16, 39, 2), "tcp_truncated"
    for words in (0, 4):
        yield f"TCP header of {words * 4} bytes", put(TCP4, 46, words << 4), "tcp_header_length"
        yield f"TCP header of {words * 4} bytes over IPv6", put(
            TCP6, 66, words << 4
        ), "tcp_header_length"
    yield "TCP header beyond the packet", put(TCP4, 46, 0xF0), "tcp_header_length"
    yield "TCP header one word beyond the packet", put(TCP4, 46, 0x60), "tcp_header_length"
    yield "TCP header beyond the total length, padding behind", put(
        TCP4 + bytes(40), 46, 0x60
    ), "tcp_header_length"
    for flags in (
        "",
        "SF",
        "SR",
        "SFR",
        "FR",
        "F",
        "P",
        "U",
        "FPU",
        "FSRPAU",
        "PU",
        "SAR",
        "SAF",
        "RFA",
        "FPUEC",
        "EC",
    ):
        yield f"TCP flags {flags or 'none'}", ip4(tcp(flags=flags)), "tcp_flags"
    yield "TCP flags none over IPv6", ip6(tcp(flags="")), "tcp_flags"
    yield "TCP flags none, not a VIP", ip4(tcp(flags=""), dst=OTHER4), "kernel"
    yield "TCP cut, not a VIP", ip4(b"x", proto=6, dst=OTHER4), "kernel"
    yield "TCP with reserved bits", put(TCP4, 46, 0x5E), "forwarded"
    yield "TCP source port 0", ip4(tcp(sport=0)), "forwarded"
    yield "TCP destination port 0", ip4(tcp(dport=0)), "kernel"
    yield "TCP broken options", ip4(bytes(tcp(dataofs=6)) + b"\x02\xff\0\0", proto=6), "forwarded"


def udp_cases():
    for size in (0, 1, 7):
        yield f"{size} bytes of UDP", ip4(bytes(udp())[:size], proto=17), "udp_truncated"
        yield f"{size} bytes of UDP over IPv6", ip6(bytes(udp())[:size], nh=17), "udp_truncated"
    for length in (0, 1, 7):
        yield f"UDP length {length}", ip4(udp(len=length) / b"data"), "udp_length"
        yield f"UDP length {length} over IPv6", ip6(udp(len=length) / b"data"), "udp_length"
    yield "UDP length one too long", ip4(udp(len=13) / b"data"), "udp_length"
    yield "UDP length 65535", ip4(udp(len=65535) / b"data"), "udp_length"
    yield "UDP shorter than its packet", ip4(udp(len=9) / b"data"), "forwarded"
    yield "UDP of 8 bytes", ip4(udp(len=8)), "forwarded"
    yield "UDP length 0, not a VIP", ip4(udp(len=0) / b"data", dst=OTHER4), "kernel"
    yield "UDP ports 0", ip4(udp(sport=0, dport=0)), "kernel"


def icmp_cases():
    for size in (0, 1, 4, 7):
        yield f"{size} bytes of ICMP", ip4(bytes(ICMP())[:size], proto=1), "icmp_truncated"
        yield f"{size} bytes of ICMPv6", ip6(
            bytes(ICMPv6EchoRequest())[:size], nh=58
        ), "icmp_truncated"
    yield "echo with checksum 0", put(ECHO4, 36, 0, 2), "icmp_checksum"
    yield "echo, one data byte changed", ECHO4[:-1] + b"\xff", "icmp_checksum"
    yield "ICMPv6 echo with checksum 0", put(ECHO6, 56, 0, 2), "icmp_checksum"
    yield "ICMPv6 echo, source changed", put(ECHO6, 37, 0xEE), "icmp_checksum"
    yield "echo from the VIP", ip4(ICMP() / b"x", src=VIP4), "source_address"
    yield "echo from multicast", ip4(ICMP() / b"x", src="224.0.0.9"), "source_address"
    yield "echo request in a fragment", ip4(ICMP() / b"x", flags="MF"), "fragment"
    yield "cut echo, not a VIP", ip4(b"\x08", proto=1, dst=OTHER4), "kernel"
    yield "echo with an unknown code", ip4(ICMP(code=200) / b"x"), "replied"
    for size in (0, 8, 19, 20, 24, 27):
        yield f"ICMP error with {size} bytes quoted", ip4(
            ERROR4[34 : 42 + size], proto=1
        ), "icmp_truncated"
    for size in (0, 20, 39, 40, 47):
        yield f"ICMPv6 error with {size} bytes quoted", ip6(
            ERROR6[54 : 62 + size], nh=58
        ), "icmp_truncated"
    quoted = 42
    yield "quoted IPv4 of another version", put(ERROR4, quoted, 0x65), "icmp_truncated"
    yield "quoted IPv4 header too short", put(ERROR4, quoted, 0x41), "icmp_truncated"
    yield "quoted IPv4 header beyond the packet", put(ERROR4, quoted, 0x4F), "icmp_truncated"
    yield "quoted total length below its header", put(ERROR4, quoted + 2, 10, 2), "icmp_truncated"
    yield "quoted fragment", put(ERROR4, quoted + 6, 0x0010, 2), "icmp_unmatched"
    yield "quoted GRE", put(ERROR4, quoted + 9, 47), "icmp_unmatched"
    yield "quoted packet from elsewhere", put(ERROR4, quoted + 15, 99), "icmp_unmatched"
    yield "quoted port of no service", put(ERROR4, quoted + 20, 81, 2), "icmp_unmatched"
    yield "quoted IPv6 with broken options", put(ERROR6, 62 + 6, 60), "icmp_truncated"
    yield "quoted IPv6 of another version", put(ERROR6, 62, 0x45), "icmp_truncated"
    yield "quoted IPv6 from elsewhere", put(ERROR6, 62 + 23, 0x99), "icmp_unmatched"
    yield "ICMP error, not a VIP", ip4(ERROR4[34:42], proto=1, dst=OTHER4), "kernel"
    yield "redirect to a VIP", ip4(ICMP(type=5, gw="192.0.2.9") / bytes(20)), "kernel"
    yield "ICMPv6 type 0", ip6(b"\0" * 16, nh=58), "kernel"
    yield "ICMPv6 type 127, an error of tomorrow", ip6(b"\x7f" + bytes(60), nh=58), "kernel"


def table():
    cases = []
    for group in (ethernet, ipv4, ipv6, extensions, tcp_cases, udp_cases, icmp_cases):
        cases += list(group())
    return cases


def test_malformed_packets(lab):
    cases = table()
    names = [name for name, _, _ in cases]
    assert len(set(names)) == len(names) >= 100
    run = lab.run(config(), [data for _, data, _ in cases])
    passed = failed = 0
    for verdict, (name, _, wanted) in zip(run, cases):
        got = verdict.reason if verdict.action == "dropped" else verdict.action
        if got == wanted:
            passed += 1
        else:
            failed += 1
            print(f"FAILED malformed: {name}: got {got}, wanted {wanted}")
    return passed, failed
