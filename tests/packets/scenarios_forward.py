# SPDX-License-Identifier: BSD-3-Clause
"""Packets sent to a backend have a new outer header; the inner packet is unchanged."""
import ipaddress
import random
from collections import Counter

from scapy.all import (
    AH,
    ARP,
    Dot1AD,
    Dot1Q,
    Ether,
    ICMP,
    ICMPv6ND_NS,
    IP,
    IPOption,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    Padding,
    Raw,
    TCP,
    UDP,
)

from lab import (
    CLIENT4,
    CLIENT6,
    CLIENT_MAC,
    PORT_MAC,
    VIP4,
    VIP6,
    config,
    expect,
    expect_equal,
    frame,
    frames_from,
    service,
)
from outer import check_forwarded, strip_l2

BACKEND4 = "10.0.0.11"
BACKEND6 = "2001:db8:1::11"


def tcp4(port=4001, flags="S", **more):
    return IP(src=CLIENT4, dst=VIP4, **more) / TCP(sport=port, dport=80, flags=flags)


def tcp6(port=4001, flags="S", **more):
    return IPv6(src=CLIENT6, dst=VIP6, **more) / TCP(sport=port, dport=80, flags=flags)


def test_four_mixes_of_ipv4_and_ipv6(lab):
    packets = [
        tcp4(),
        tcp6(),
        IP(src=CLIENT4, dst=VIP4) / UDP(sport=9, dport=80) / b"hello",
        IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=9, dport=80) / b"hello",
        tcp4(flags="PA") / Raw(b"x" * 999),
        tcp6(flags="PA") / Raw(b"x" * 998),
    ]
    for backend in (BACKEND4, BACKEND6):
        run = lab.run(config(service(backends=[backend])), packets)
        for verdict in run:
            check_forwarded(verdict, backend, mac="02:00:00:01:00:00")
            expect_equal((verdict.service, verdict.backend), ("web", "b0"), "names")


def test_dscp_and_ecn_are_copied(lab):
    packets = [tcp4(port=1000 + tos, tos=tos) for tos in range(256)]
    packets += [tcp6(port=1000 + tos, tc=tos) for tos in range(256)]
    for backend in (BACKEND4, BACKEND6):
        for verdict in lab.run(config(service(backends=[backend])), packets):
            check_forwarded(verdict, backend)


def test_inner_ttl_is_unchanged(lab):
    packets = [tcp4(port=1000 + ttl, ttl=ttl) for ttl in (1, 2, 63, 64, 255)]
    packets += [tcp6(port=1000 + ttl, hlim=ttl) for ttl in (1, 2, 63, 64, 255)]
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)


def test_inner_checksums_are_not_checked(lab):
    packets = [
        IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=80, chksum=0xBAD),
        IP(src=CLIENT4, dst=VIP4) / UDP(sport=5, dport=80, chksum=0) / b"no checksum",
        IP(src=CLIENT4, dst=VIP4, id=4711, flags="DF") / TCP(sport=6, dport=80),
    ]
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)


def test_padding_of_short_frames_is_removed(lab):
    short = Ether(src=CLIENT_MAC, dst=PORT_MAC) / tcp4() / Padding(b"\xee" * 6)
    trailer = Ether(src=CLIENT_MAC, dst=PORT_MAC) / tcp6(port=7) / Padding(b"\xdd" * 100)
    for verdict in lab.run(config(), [short, trailer]):
        check_forwarded(verdict, BACKEND4)


def test_ipv4_options(lab):
    packets = [tcp4(port=1000 + n, options=[IPOption(b"\x01" * n)]) for n in (4, 8, 20, 40)]
    packets.append(
        IP(src=CLIENT4, dst=VIP4, options=[IPOption(b"\x94\x04\0\0")])
        / UDP(sport=7, dport=80)
        / b"router alert"
    )
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)


def test_tcp_options_and_flags(lab):
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    packets = [IP(src=CLIENT4, dst=VIP4) / TCP(sport=1, dport=80, flags="S", options=options)]
    for flags in ("S", "SEC", "A", "PA", "FA", "FPA", "R", "RA", "UA", "SA", "AE"):
        packets.append(tcp4(port=100, flags=flags))
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)


def test_ipv6_extension_headers(lab):
    head = IPv6(src=CLIENT6, dst=VIP6)
    tcp = TCP(sport=5, dport=80, flags="S")
    chains = [
        IPv6ExtHdrHopByHop(),
        IPv6ExtHdrDestOpt(),
        IPv6ExtHdrRouting(),
        IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(),
        IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt(),
        IPv6ExtHdrFragment(offset=0, m=0, id=77),  # an atomic fragment is a whole packet
        IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(offset=0, m=0) / IPv6ExtHdrDestOpt(),
    ]
    packets = [head / chain / tcp for chain in chains]
    packets.append(
        head / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 12)]) / UDP(sport=5, dport=80)
    )
    packets.append(head / AH(nh=6, payloadlen=4, spi=1, seq=1, icv=b"0" * 12) / tcp)
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)


def test_one_flow_with_any_extension_headers(lab):
    head, tcp = IPv6(src=CLIENT6, dst=VIP6), TCP(sport=5, dport=80, flags="S")
    made = config(service(backends=[f"10.0.0.{n}" for n in range(1, 30)]))
    run = lab.run(
        made, [head / tcp, head / IPv6ExtHdrDestOpt() / tcp, head / IPv6ExtHdrHopByHop() / tcp]
    )
    expect_equal([verdict.why for verdict in run], ["new", "flow", "flow"], "why")
    expect_equal(len({verdict.backend for verdict in run}), 1, "backends")


def test_vlan_tags_on_arrival(lab):
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    packets = [
        eth / Dot1Q(vlan=100, prio=3) / tcp4(port=1),
        eth / Dot1Q(vlan=100) / tcp6(port=2),
        eth / Dot1AD(vlan=7) / Dot1Q(vlan=100) / tcp4(port=3),
        eth / Dot1Q(vlan=7) / Dot1Q(vlan=100) / tcp6(port=4),
        eth / Dot1Q(vlan=0, prio=5) / tcp4(port=5),
    ]
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)


def test_vlan_tag_of_the_port_on_departure(lab):
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    packets = [
        eth / Dot1Q(vlan=100) / tcp4(port=1),
        eth / Dot1Q(vlan=100) / tcp6(port=2),
        eth / Dot1AD(vlan=7) / Dot1Q(vlan=100) / tcp4(port=3),
    ]
    for backend in (BACKEND4, BACKEND6):
        made = config(service(backends=[backend]), port={"vlan": 100})
        for verdict in lab.run(made, packets):
            check_forwarded(verdict, backend, tags=[(0x8100, 100)])


def test_gateway_and_source_of_the_port(lab):
    port = {
        "gateway_mac": "02:aa:bb:cc:dd:ee",
        "source_ipv4": "192.0.2.77",
        "source_ipv6": "2001:db8:7::7",
    }
    run = lab.run(config(service(backends=[BACKEND4]), port=port), [tcp4(), tcp6()])
    for verdict in run:
        check_forwarded(verdict, BACKEND4, mac="02:aa:bb:cc:dd:ee", source="192.0.2.77")
    run = lab.run(config(service(backends=[BACKEND6]), port=port), [tcp4(), tcp6()])
    for verdict in run:
        check_forwarded(verdict, BACKEND6, mac="02:aa:bb:cc:dd:ee", source="2001:db8:7::7")


def outer_source(verdict):
    return ipaddress.ip_address(strip_l2(verdict.sent)[4][12:16])


def test_source_prefix_gives_each_flow_an_address(lab):
    flows = [tcp4(port=1000 + i) for i in range(300)] + [tcp6(port=1000 + i) for i in range(300)]
    later = [tcp4(port=1000 + i, flags="PA") / Raw(b"x" * i) for i in range(300)]
    later += [tcp6(port=1000 + i, flags="PA") / Raw(b"x" * i) for i in range(300)]
    flows, later = ([frame(packet) for packet in packets] for packets in (flows, later))
    for text, size in (("192.0.2.64/28", 16), ("192.0.0.0/16", 500), ("192.0.2.77/32", 1)):
        prefix = ipaddress.ip_network(text)
        made = config(service(backends=[BACKEND4]), port={"source_ipv4": text})
        verdicts = lab.run(made, flows + later)
        for verdict in verdicts:
            source = outer_source(verdict)
            expect(source in prefix, f"{source} is not in {prefix}")
            check_forwarded(verdict, BACKEND4, source=str(source))
        sources = [outer_source(verdict) for verdict in verdicts]
        expect_equal(sources[: len(flows)], sources[len(flows) :], "sources of a flow's packets")
        expect(min(size, 300) <= len(set(sources)) <= prefix.num_addresses, f"{text}: spread")
    # The outer header has the address family of the backend. In IPv6 the flow label contains the
    # hash, so the source is not varied.
    made = config(service(backends=[BACKEND6]), port={"source_ipv4": "192.0.2.64/28"})
    for verdict in lab.run(made, flows[::20]):
        check_forwarded(verdict, BACKEND6)


# The key of the Receive Side Scaling specification, as set by most drivers.
TOEPLITZ_KEY = int(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa", 16
)


def receive_queues(addresses, key):
    """Returns the number of packets for each of a backend's 8 receive queues. A NIC cannot read the
    ports of IP in IP packets, so it hashes the two outer addresses. addresses: number of packets
    per pair of addresses."""
    window = [key >> (320 - 32 - i) & 0xFFFFFFFF for i in range(64)]
    queues = [0] * 8
    for pair, packets in addresses.items():
        hashed, bits = 0, int.from_bytes(pair, "big")
        while bits:
            lowest = bits & -bits
            hashed ^= window[64 - lowest.bit_length()]
            bits ^= lowest
        queues[hashed % 128 % 8] += packets
    return queues


def is_even(queues):
    mean = sum(queues) / len(queues)
    return 0.8 * mean <= min(queues) and max(queues) <= 1.2 * mean


def test_source_prefix_fills_a_backends_receive_queues(lab):
    """The Toeplitz hash is linear. With 16 addresses, the low bits of the hash have all 8 values
    for three quarters of the keys, and 4 or fewer values for the other keys. Linux sets a random key
    on most NICs."""
    flows = frames_from(tcp4(), [(CLIENT4, 1000 + i) for i in range(2000)])
    keys = [random.Random(seed).getrandbits(320) for seed in range(200)]
    even = {}
    for length in (32, 28, 24):
        made = config(service(backends=[BACKEND4]), port={"source_ipv4": f"192.0.2.0/{length}"})
        sent = [strip_l2(verdict.sent)[4][12:20] for verdict in lab.run(made, flows)]
        addresses = Counter(sent)
        even[length] = [is_even(receive_queues(addresses, key)) for key in keys]
        if length == 32:
            queues = receive_queues(addresses, TOEPLITZ_KEY)
            expect_equal(sorted(queues)[:7], [0] * 7, "queues without a prefix")
        if length == 24:
            queues = receive_queues(addresses, TOEPLITZ_KEY)
            expect(is_even(queues), f"2,000 flows on 8 queues: {queues}")
    expect_equal(sum(even[32]), 0, "keys that fill the queues with one address")
    expect(sum(even[28]) >= 130, f"{sum(even[28])} of 200 keys fill the queues with a /28")
    expect(sum(even[24]) >= 190, f"{sum(even[24])} of 200 keys fill the queues with a /24")


def test_two_armed(lab):
    ports = [
        {"name": "wan", "device": "net_null0", "mtu": 1500},
        {"name": "lan", "device": "net_null1", "mtu": 9000, "vlan": 20},
    ]
    run = lab.run(
        config(ports=ports),
        [tcp4(), tcp4(flags="PA") / Raw(b"x" * 4000)],
        ["--in-port", "wan", "--out-port", "lan"],
    )
    for verdict in run:
        check_forwarded(verdict, BACKEND4, tags=[(0x8100, 20)], port_mac="02:00:00:00:00:02")
        expect_equal(verdict.port, "lan", "port")


def test_flow_label_of_ipv6_outside(lab):
    packets = [tcp4(port=1000 + n // 2, flags="SA"[n % 2]) for n in range(200)]
    run = lab.run(config(service(backends=[BACKEND6])), packets)
    labels = []
    for verdict in run:
        check_forwarded(verdict, BACKEND6)
        labels.append(int.from_bytes(strip_l2(verdict.sent)[4][1:4], "big") & 0xFFFFF)
    expect_equal(labels[0::2], labels[1::2], "label of a flow's packets")
    expect(len(set(labels)) > 90, f"only {len(set(labels))} labels for 100 flows")


def test_largest_packets_that_fit(lab):
    for mtu in (1280, 1500, 9000):
        for backend, outer in ((BACKEND4, 20), (BACKEND6, 40)):
            made = config(service(backends=[backend]), port={"mtu": mtu})
            packets = [
                tcp4(flags="PA") / Raw(b"x" * (mtu - outer - 40)),
                tcp6(flags="PA") / Raw(b"x" * (mtu - outer - 60)),
            ]
            for verdict in lab.run(made, packets):
                check_forwarded(verdict, backend)
                expect_equal(len(verdict.sent), 14 + mtu, "bytes sent")


def test_other_packets_go_to_the_kernel(lab):
    tcp = TCP(sport=5, dport=80, flags="S")
    packets = [
        Ether(src=CLIENT_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=VIP4),
        IPv6(src="fe80::1", dst="ff02::1:ff00:10") / ICMPv6ND_NS(tgt=VIP6),
        IP(src=CLIENT4, dst="198.51.100.11") / tcp,
        IPv6(src=CLIENT6, dst="2001:db8:100::11") / tcp,
        IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=81, flags="S"),
        IP(src=CLIENT4, dst=VIP4) / UDP(sport=5, dport=81),
        IP(src=CLIENT4, dst="198.51.100.11") / ICMP(),
        IP(src=CLIENT4, dst="198.51.100.11", flags="MF") / tcp,
        IP(src=CLIENT4, dst="224.0.0.5", proto=89) / b"ospf",
        IP(src=CLIENT4, dst=VIP4, proto=47) / b"gre to a VIP",
        IP(src=CLIENT4, dst="198.51.100.11") / TCP(sport=5, dport=80, flags=0),
        Ether(src=CLIENT_MAC, dst="01:80:c2:00:00:0e", type=0x88CC) / (b"lldp" * 10),
        Ether(src=CLIENT_MAC, dst=PORT_MAC, type=0x0100) / (b"802.3" * 10),
    ]
    for verdict in lab.run(config(), packets):
        expect_equal(verdict.action, "kernel", f"{verdict}")


def test_binds_of_ports_ranges_and_addresses(lab):
    all_ports = service(
        "all", [{"address": "198.51.100.20", "protocol": "tcp", "port": 0}], ["10.0.1.1"]
    )
    some = service(
        "some",
        [{"address": "198.51.100.20", "protocol": "tcp", "port_first": 8000, "port_last": 8002}],
        ["10.0.3.1"],
    )
    one = service(
        "one",
        [
            {"address": "198.51.100.20", "protocol": "tcp", "port": 443},
            {"address": "198.51.100.21", "protocol": "udp", "port": 53},
        ],
        ["10.0.2.1"],
    )
    cases = [
        ("198.51.100.20", TCP(dport=443), "10.0.2.1"),
        ("198.51.100.20", TCP(dport=442), "10.0.1.1"),
        ("198.51.100.20", TCP(dport=7999), "10.0.1.1"),
        ("198.51.100.20", TCP(dport=8000), "10.0.3.1"),
        ("198.51.100.20", TCP(dport=8002), "10.0.3.1"),
        ("198.51.100.20", TCP(dport=8003), "10.0.1.1"),
        ("198.51.100.20", TCP(dport=1), "10.0.1.1"),
        ("198.51.100.20", TCP(dport=65535), "10.0.1.1"),
        ("198.51.100.21", UDP(dport=53), "10.0.2.1"),
        ("198.51.100.20", UDP(dport=443), None),
        ("198.51.100.21", TCP(dport=53), None),
        ("198.51.100.22", TCP(dport=443), None),
    ]
    run = lab.run(
        config(all_ports, some, one), [IP(src=CLIENT4, dst=vip) / l4 for vip, l4, _ in cases]
    )
    for verdict, (_, _, backend) in zip(run, cases):
        if backend:
            check_forwarded(verdict, backend)
        else:
            expect_equal(verdict.action, "kernel", f"{verdict}")
