# SPDX-License-Identifier: BSD-3-Clause
"""All forwarding modes: the bytes of every packet to a backend, and the MTU of "too big" messages.

The expected frames are built here from RFCs 791, 2003, 2784, 2890, 4213, 6040, 6935, 8200 and the
draft of GUE (draft-ietf-intarea-gue-09), not from Weir's sources. Weir chooses three fields by the
flow: the source port of GUE, the IPv6 flow label and, with a prefix, the low bits of the IPv4 source
address. They are taken from the sent frame. Their ranges are checked, and that they are the same in
all packets of a flow."""
import collections
import ipaddress
import struct

from scapy.all import (
    Dot1Q,
    Ether,
    ICMP,
    ICMPv6PacketTooBig,
    IP,
    IPv6,
    IPv6ExtHdrFragment,
    Raw,
    TCP,
    UDP,
    fragment,
    fragment6,
)

from lab import (
    CLIENT4,
    CLIENT6,
    CLIENT_MAC,
    PORT_MAC,
    SOURCE4,
    SOURCE6,
    VIP4,
    VIP6,
    config,
    expect,
    expect_equal,
    frame,
    frames_from,
    service,
    write_pcap,
)
from outer import check_too_big, checksum, inner_tos, ip_packet, strip_l2

# name, keys of the service, bytes between the outer IP header and the packet
Mode = collections.namedtuple("Mode", "forwarding keys tail")
MODES = [
    Mode("ipip", {}, 0),
    Mode("l2", {}, 0),
    Mode("gue", {}, 12),
    Mode("gue", {"gue_port": 7777}, 12),
    Mode("gre", {}, 4),
    Mode("gre", {"gre_key": 0xA1B2C3D4}, 8),
]
FIRST_PORT = 1000
PREFIX = ipaddress.ip_network("192.0.2.64/28")


class Backend:
    """A backend: its mode, its number in the configuration, and its address."""

    def __init__(self, mode, number, family):
        self.mode = mode
        self.number = number
        self.family = family
        self.address = f"10.0.1.{1 + number}" if family == 4 else f"2001:db8:1::{1 + number:x}"
        self.mac = bytes((2, 0, 0, 1, 0, number))
        self.tunnel = mode.forwarding != "l2"
        outer = 20 if family == 4 else 40
        self.overhead = mode.tail + outer if self.tunnel else 0  # bytes in front of the packet

    def __repr__(self):
        return f"{self.mode.forwarding} {self.mode.keys} to {self.address}"


# Each is the only backend of a service, which has port FIRST_PORT + number.
BACKENDS = [Backend(mode, 2 * i + k, family) for i, mode in enumerate(MODES) for k, family in enumerate((4, 6))]
CASES = [(backend, inner) for backend in BACKENDS for inner in (4, 6)]  # inner: family of the packet


def binds_of(number):
    return [
        {"address": vip, "protocol": protocol, "port": FIRST_PORT + number}
        for vip in (VIP4, VIP6)
        for protocol in ("tcp", "udp")
    ]


def all_services(port):
    made = []
    for backend in BACKENDS:
        keys = {"forwarding": backend.mode.forwarding, **backend.mode.keys}
        made.append(service(f"s{backend.number}", binds_of(backend.number), [backend.address], **keys))
    return config(*made, port=port)


# --- expected frames --------------------------------------------------------------------------


def tail_of(mode, inner, source_port):
    """Returns what the mode puts between the outer IP header and the packet."""
    ipv4 = inner[0] >> 4 == 4
    if mode.forwarding == "gue":
        port = mode.keys.get("gue_port", 6080)
        udp = struct.pack("!HHHH", source_port, port, 8 + 4 + len(inner), 0)
        return udp + struct.pack("!BBH", 0, 4 if ipv4 else 41, 0)
    if mode.forwarding == "gre":
        key = mode.keys.get("gre_key")
        kind = 0x0800 if ipv4 else 0x86DD
        return struct.pack("!HH", 0x2000 if key else 0, kind) + (struct.pack("!I", key) if key else b"")
    return b""


def outer_of(backend, inner, payload, chosen):
    """Returns the outer IP header."""
    own = {"gue": 17, "gre": 47, "ipip": 4 if inner[0] >> 4 == 4 else 41}[backend.mode.forwarding]
    tos, to = inner_tos(inner), ipaddress.ip_address(backend.address).packed
    if backend.family == 6:
        word = 6 << 28 | tos << 20 | chosen["label"]
        source = ipaddress.ip_address(SOURCE6).packed
        return struct.pack("!IHBB", word, len(payload), own, 64) + source + to
    header = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload), 0, 0x4000, 64, own, 0)
    header += chosen["source"] + to
    return header[:10] + struct.pack("!H", 0xFFFF ^ checksum(header)) + header[12:]


def read_chosen(backend, data, prefix=None, behind=0):
    """Returns the fields of a sent frame that Weir chooses by the flow, after a check of their ranges. behind:
    bytes of headers between the outer IP header and what the mode puts there."""
    outer, chosen = strip_l2(data)[4], {}
    if not backend.tunnel:
        return chosen
    if backend.family == 6:
        chosen["label"] = struct.unpack_from("!I", outer)[0] & 0xFFFFF
        expect(chosen["label"], "flow label is 0")
    else:
        chosen["source"] = outer[12:16]
        source = ipaddress.ip_address(outer[12:16])
        expect(source in (prefix or ipaddress.ip_network(SOURCE4)), f"outer source {source}")
    if backend.mode.forwarding == "gue":
        at = (20 if backend.family == 4 else 40) + behind
        chosen["port"] = struct.unpack_from("!H", outer, at)[0]
        expect(chosen["port"] >= 0xC000, f"source port {chosen['port']:#x}")
    return chosen


def frame_of(backend, inner, chosen, tags=()):
    """Returns a frame that carries `inner`, without padding."""
    packet = tail_of(backend.mode, inner, chosen.get("port")) + inner
    if backend.tunnel:
        packet = outer_of(backend, inner, packet, chosen) + packet
    wanted = backend.mac + bytes.fromhex(PORT_MAC.replace(":", ""))
    wanted += b"".join(struct.pack("!HH", 0x8100, tag) for tag in tags)
    return wanted + struct.pack("!H", 0x0800 if packet[0] >> 4 == 4 else 0x86DD) + packet


def check_frame(backend, data, inner, tags=(), prefix=None):
    """Check every byte of a frame that carries `inner`. Returns the fields that Weir chooses by the
    flow."""
    chosen = read_chosen(backend, data, prefix)
    wanted = frame_of(backend, inner, chosen, tags)
    # Frames that are shorter than Ethernet permits are padded.
    expect_equal(data.hex(), wanted.ljust(60, b"\0").hex(), f"{backend}: frame")
    return chosen


def check_whole(verdict, backend, **more):
    expect_equal(verdict.action, "forwarded", f"{verdict}")
    expect_equal(verdict.sent_fragments, [], f"{verdict}: fragments")
    return check_frame(backend, verdict.sent, ip_packet(verdict.received), **more)


# --- packets ----------------------------------------------------------------------------------


def head_of(inner, tos=0, **more):
    if inner == 4:
        return IP(src=CLIENT4, dst=VIP4, tos=tos, **more)
    return IPv6(src=CLIENT6, dst=VIP6, tc=tos)


def quoting(inner, port):
    """Returns an ICMP error of a router, about a packet of the flow from source port 4001 (TCP)."""
    if inner == 4:
        quoted = bytes(IP(src=VIP4, dst=CLIENT4) / TCP(sport=port, dport=4001))[:28]
        return IP(src="192.0.2.254", dst=VIP4) / ICMP(type=3, code=4, nexthopmtu=1400) / quoted
    quoted = bytes(IPv6(src=VIP6, dst=CLIENT6) / TCP(sport=port, dport=4001) / Raw(b"x" * 40))
    return IPv6(src="2001:db8:ff::1", dst=VIP6) / ICMPv6PacketTooBig(mtu=1400) / Raw(quoted)


def pieces(inner, port):
    """Returns three fragments of a datagram."""
    udp = UDP(sport=4002, dport=port) / Raw(b"0123456789abcdef" * 200)
    if inner == 4:
        return fragment(head_of(4, 0x2E, id=port) / udp, fragsize=1200)
    return fragment6(head_of(6, 0x2E) / IPv6ExtHdrFragment(id=port) / udp, 1280)


def flows_of(inner, port):
    """Returns (name of the flow, packet) of packets that are forwarded whole."""
    tcp = [
        head_of(inner) / TCP(sport=4001, dport=port, flags="S"),
        head_of(inner, 0xB9) / TCP(sport=4001, dport=port, flags="A"),
        head_of(inner, 0x03) / TCP(sport=4001, dport=port, flags="PA") / Raw(b"x" * 333),
        quoting(inner, port),
    ]
    udp = [head_of(inner, 0x48) / UDP(sport=4002, dport=port) / b"hello", *pieces(inner, port)]
    return [("tcp", packet) for packet in tcp] + [("udp", packet) for packet in udp]


def sized(inner, port, bytes_of_packet):
    """Returns a TCP packet of this length that must not be fragmented."""
    head = head_of(4, flags="DF") if inner == 4 else head_of(6)
    header = (20 if inner == 4 else 40) + 20
    return head / TCP(sport=4001, dport=port, flags="A") / Raw(b"y" * (bytes_of_packet - header))


# --- scenarios --------------------------------------------------------------------------------


def run_flows(lab, port, tags=(), prefix=None):
    """Send packets of two flows in each case; returns the number of packets."""
    flows, packets = [], []
    for backend, inner in CASES:
        for flow, packet in flows_of(inner, FIRST_PORT + backend.number):
            flows.append((backend, inner, flow))
            if tags:
                packet = Ether(src=CLIENT_MAC, dst=PORT_MAC) / Dot1Q(vlan=tags[0]) / packet
            packets.append(packet)
    run, seen = lab.run(all_services(port), packets), {}
    for verdict, flow in zip(run, flows):
        chosen = check_whole(verdict, flow[0], tags=tags, prefix=prefix)
        expect_equal(seen.setdefault(flow, chosen), chosen, f"{flow}: fields chosen by the flow")
    return len(run), 0


def test_each_packet_in_each_mode(lab):
    return run_flows(lab, {})


def test_vlan_tag_and_source_prefix(lab):
    port = {"vlan": 9, "source_ipv4": str(PREFIX)}
    return run_flows(lab, port, tags=[9], prefix=PREFIX)


def check_too_long(verdict, backend):
    check_too_big(verdict, 1500 - backend.overhead)


def check_fits(verdict, backend):
    check_whole(verdict, backend)
    expect_equal(len(strip_l2(verdict.sent)[4]), 1500, "bytes of the outer packet")


def check_split(verdict, backend):
    data = b""
    for sent in (verdict.sent, *verdict.sent_fragments):
        inner = strip_l2(sent)[4][backend.overhead :]
        inner = inner[: struct.unpack_from("!H", inner, 2)[0]]
        expect_equal(checksum(inner[:20]), 0xFFFF, "checksum of a fragment")
        expect(len(inner) <= 1500 - backend.overhead, f"{len(inner)} bytes in a fragment")
        check_frame(backend, sent, inner)
        data += inner[20:]
    expect_equal(len(verdict.sent_fragments), 1, "further fragments")
    expect_equal(data, ip_packet(verdict.received)[20:], "data of all fragments")


def test_mtu_and_fragments(lab):
    """The largest packet that fits, one byte more with DF or IPv6, and without DF."""
    checks, packets = [], []
    for backend, inner in CASES:
        port, mtu = FIRST_PORT + backend.number, 1500 - backend.overhead
        checks += [(check_fits, backend), (check_too_long, backend)]
        packets += [sized(inner, port, mtu), sized(inner, port, mtu + 1)]
        if inner == 4:
            checks.append((check_split, backend))
            udp = UDP(sport=4002, dport=port) / Raw(b"z" * (mtu + 1 - 28))
            packets.append(head_of(4, id=7) / udp)
    run = lab.run(all_services({}), packets)
    for verdict, (check, backend) in zip(run, checks):
        check(verdict, backend)
    return len(run), 0


def check_outer_fragments(verdict, backend):
    """Check the fragments of an outer packet. scenarios_fragments.py checks their headers."""
    inner, whole = ip_packet(verdict.received), b""
    headers = 20 if backend.family == 4 else 40 + 8
    chosen = read_chosen(backend, verdict.sent, None, headers - (20 if backend.family == 4 else 40))
    wanted = {"gue": 17, "gre": 47, "ipip": 41}[backend.mode.forwarding]
    for sent in (verdict.sent, *verdict.sent_fragments):
        outer = ip_packet(sent)
        expect(len(outer) <= 1280 and len(sent) >= 60, f"{len(outer)} bytes in a fragment")
        expect_equal(outer[9 if backend.family == 4 else 40], wanted, f"{backend}: protocol")
        whole += outer[headers:]
    expect_equal(len(verdict.sent_fragments), 1, f"{backend}: further fragments")
    expect_equal(whole, tail_of(backend.mode, inner, chosen.get("port")) + inner, f"{backend}: data")


def test_small_ipv6_packets_are_never_refused(lab):
    """An IPv6 packet of 1,280 bytes: the outer packet is fragmented where it does not fit."""
    packets = [sized(6, FIRST_PORT + backend.number, 1280) for backend in BACKENDS]
    run = lab.run(all_services({"mtu": 1280}), packets)
    for verdict, backend in zip(run, BACKENDS):
        if backend.tunnel:
            check_outer_fragments(verdict, backend)
        else:
            check_whole(verdict, backend)
    return len(run), 0


def test_l2_does_not_use_a_gateway(lab):
    packets = [sized(4, FIRST_PORT + backend.number, 100) for backend in BACKENDS]
    run = lab.run(all_services({"gateway_mac": "02:aa:bb:cc:dd:ee"}), packets)
    for verdict, backend in zip(run, BACKENDS):
        if backend.tunnel:
            expect_equal(strip_l2(verdict.sent)[0], "02:aa:bb:cc:dd:ee", f"{backend}: next hop")
        else:
            expect_equal(verdict.reason, "no_neighbour", f"{backend}: reason")
    return len(run), 0


def test_truncated_packets(lab):
    """A capture file without the last 15 bytes of each packet: they are missing in the output, too,
    where no padding follows them."""
    packets = [
        frame(head_of(inner) / UDP(sport=4002, dport=FIRST_PORT + backend.number) / (b"t" * 17))
        for backend, inner in CASES
    ]
    path = lab.path("truncated.pcap")
    write_pcap(path, [(n, packet[:-15], len(packet)) for n, packet in enumerate(packets)])
    run = lab.run_file(all_services({}), path)
    for verdict, (backend, _), packet in zip(run, CASES, packets):
        wanted = frame_of(backend, ip_packet(packet), read_chosen(backend, verdict.sent))
        expect_equal(verdict.sent, wanted[:-15], f"{backend}: truncated frame")
        expect_equal(verdict.sent_length, max(60, len(wanted)), f"{backend}: length")
    return len(run), 0


def test_a_backend_can_have_another_mode(lab):
    """All modes in one service. Also, the source port of GUE varies over flows."""
    keys = {"forwarding": "gue", **MODES[3].keys, **MODES[5].keys}
    modes = [MODES[3], MODES[0], MODES[1], MODES[5]]
    backends = [Backend(mode, number, 4) for number, mode in enumerate(modes)]
    made = [{"address": backend.address, "forwarding": backend.mode.forwarding} for backend in backends]
    del made[0]["forwarding"]
    sources = [(CLIENT4, 2000 + n) for n in range(200)]
    packets = frames_from(head_of(4) / UDP(dport=FIRST_PORT) / b"hello", sources) * 2
    run = lab.run(config(service("mixed", binds_of(0), made, **keys)), packets)
    chosen = [[] for _ in backends]
    for verdict in run:
        number = int(verdict.backend[1:])
        chosen[number].append(check_whole(verdict, backends[number]).get("port"))
    expect(all(chosen), "a backend without flows")
    ports, again = chosen[0][: len(chosen[0]) // 2], chosen[0][len(chosen[0]) // 2 :]
    expect_equal(ports, again, "source port of a flow")
    expect(len(set(ports)) > len(ports) * 0.9, f"{len(set(ports))} source ports")
