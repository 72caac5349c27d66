# SPDX-License-Identifier: BSD-3-Clause
"""The frames that a port accepts, and the replies to these frames."""
from scapy.all import (
    ARP,
    Dot1Q,
    Ether,
    ICMP,
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    IP,
    IPerror,
    IPerror6,
    IPv6,
    Raw,
    TCP,
    UDP,
    UDPerror,
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
    service,
)
from outer import check_echo, check_forwarded, check_icmp_checksum, ip_packet, strip_l2

BROADCAST = "ff:ff:ff:ff:ff:ff"
NEIGHBOUR_MAC = "02:00:00:00:0c:02"
BACKEND4 = "10.0.0.11"


def to_a_vip():
    """Returns one packet of each kind that a VIP accepts."""
    return [
        IP(src=CLIENT4, dst=VIP4) / TCP(sport=1025, dport=80, flags="S"),
        IP(src=CLIENT4, dst=VIP4, flags="DF") / TCP(sport=1026, dport=80, flags="A") / Raw(b"x" * 1460),
        IP(src=CLIENT4, dst=VIP4) / UDP(sport=1025, dport=80) / Raw(b"x" * 30),
        IP(src=CLIENT4, dst=VIP4) / ICMP(id=1, seq=1) / Raw(b"x" * 30),
        IP(src=CLIENT4, dst=VIP4, frag=5) / Raw(b"x" * 30),
        IPv6(src=CLIENT6, dst=VIP6) / TCP(sport=1025, dport=80, flags="S"),
        IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=1025, dport=80) / Raw(b"x" * 30),
        IPv6(src=CLIENT6, dst=VIP6) / ICMPv6EchoRequest(id=1, seq=1, data=b"x" * 30),
    ]


def framed(packets, destination, **more):
    eth = Ether(src=CLIENT_MAC, dst=destination)
    tagged = [eth / Dot1Q(vlan=7) / packet for packet in packets]
    return [eth / packet for packet in packets] + (tagged if more.get("tagged") else [])


def test_frames_to_other_hosts_are_dropped(lab):
    """Each frame is sent alone, so that the fast path for its kind parses it, and also in a burst
    with other frames."""
    packets = framed(to_a_vip(), NEIGHBOUR_MAC, tagged=True)
    packets += framed(
        [IP(src=CLIENT4, dst="192.0.2.9") / UDP(sport=1, dport=2), ARP(pdst="192.0.2.9")],
        NEIGHBOUR_MAC,
    )
    run = lab.run(config(), packets, options=["--mac", PORT_MAC])
    for verdict in run:
        expect_equal((verdict.action, verdict.reason), ("dropped", "other_mac"), f"{verdict}")
    # A frame is dropped even if its MAC address differs in only one bit.
    for byte in range(6):
        mac = bytearray(bytes.fromhex(PORT_MAC.replace(":", "")))
        mac[byte] ^= 0x40
        run = lab.run(
            config(), framed(to_a_vip(), bytes(mac).hex(":")), options=["--mac", PORT_MAC]
        )
        expect_equal(run.totals["drops"], {"other_mac": len(run)}, f"byte {byte}")


def test_multicast_frames_reach_no_vip(lab):
    for options in ([], ["--mac", PORT_MAC]):
        for destination in (BROADCAST, "01:00:5e:00:00:01", "33:33:00:00:00:01"):
            packets = to_a_vip() + [
                IP(src=CLIENT4, dst=VIP4, proto=47) / Raw(b"x" * 30),
                IPv6(src=CLIENT6, dst=VIP6, nh=50) / Raw(b"x" * 30),
            ]
            run = lab.run(config(), framed(packets, destination, tagged=True), options=options)
            for verdict in run:
                expect_equal(
                    (verdict.action, verdict.reason), ("dropped", "other_mac"), f"{verdict}"
                )


def test_multicast_frames_for_the_kernel_reach_it(lab):
    packets = [
        Ether(src=CLIENT_MAC, dst=BROADCAST) / ARP(pdst=VIP4),
        Ether(src=CLIENT_MAC, dst="33:33:ff:00:00:10")
        / IPv6(src=CLIENT6, dst="ff02::1:ff00:10")
        / ICMPv6ND_NS(tgt=VIP6),
        Ether(src=CLIENT_MAC, dst="01:00:5e:00:00:05") / IP(src=CLIENT4, dst="224.0.0.5", proto=89),
        Ether(src=CLIENT_MAC, dst=BROADCAST)
        / IP(src="0.0.0.0", dst="255.255.255.255")
        / UDP(sport=68, dport=67)
        / Raw(b"x" * 240),
        Ether(src=CLIENT_MAC, dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(b"lldp" * 12),
    ]
    run = lab.run(config(), packets, options=["--mac", PORT_MAC])
    for verdict in run:
        expect_equal(verdict.action, "kernel", f"{verdict}")


def test_replies_come_from_the_ports_own_address(lab):
    mac = "02:5e:00:00:00:99"
    run = lab.run(config(), framed(to_a_vip(), mac), options=["--mac", mac])
    expect_equal(run.totals["forwarded"], 4, "forwarded")
    for verdict in run:
        if verdict.action in ("replied", "forwarded"):
            expect_equal(strip_l2(verdict.sent)[1], mac, f"{verdict}: source MAC")
    check_echo(run[3])
    check_echo(run[7])
    expect_equal(run[1].why, "too_big", "the second packet")


def test_captures_of_other_hosts_are_accepted(lab):
    run = lab.run(config(), framed(to_a_vip(), NEIGHBOUR_MAC))
    expect("other_mac" not in run.totals["drops"], f"{run.totals}")
    check_forwarded(run[0], BACKEND4)


# --- ports without a bind -----------------------------------------------------------------


def closed(answer):
    return config(service(closed_ports=answer), icmp={"unreachable_per_second": 100000})


def both(l4, **more):
    """Returns a packet to VIP4 and a packet to VIP6."""
    return [IP(src=CLIENT4, dst=VIP4, **more) / l4, IPv6(src=CLIENT6, dst=VIP6) / l4]


def test_closed_ports_go_to_the_kernel(lab):
    packets = both(TCP(sport=1025, dport=81, flags="S")) + both(UDP(sport=1025, dport=81))
    for made in (config(), closed("kernel")):
        for verdict in lab.run(made, packets):
            expect_equal(verdict.action, "kernel", f"{verdict}")


def test_closed_ports_are_dropped(lab):
    packets = both(TCP(sport=1025, dport=81, flags="S")) + both(UDP(sport=1025, dport=81))
    for verdict in lab.run(closed("drop"), packets):
        expect_equal((verdict.action, verdict.reason), ("dropped", "closed_port"), f"{verdict}")
    elsewhere = IP(src=CLIENT4, dst="198.51.100.99") / TCP(sport=1025, dport=81, flags="S")
    open_port = IP(src=CLIENT4, dst=VIP4) / TCP(sport=1025, dport=80, flags="S")
    run = lab.run(closed("drop"), [elsewhere, open_port])
    expect_equal([v.action for v in run], ["kernel", "forwarded"], "the others")


def rejection(verdict):
    expect_equal(
        (verdict.action, verdict.why, verdict.reason),
        ("replied", "rejected", "closed_port"),
        f"{verdict}",
    )
    expect(verdict.sent_length >= 60, f"{verdict}: {verdict.sent_length} bytes")
    got, sent = strip_l2(verdict.received), strip_l2(verdict.sent)
    expect_equal(sent[:4], (got[1], got[0], got[2], got[3]), f"{verdict}: Ethernet header")
    data = ip_packet(verdict.sent)
    packet = (IP if data[0] >> 4 == 4 else IPv6)(data)
    asked = ip_packet(verdict.received)
    asked = (IP if asked[0] >> 4 == 4 else IPv6)(asked)
    expect_equal((packet.src, packet.dst), (asked.dst, asked.src), f"{verdict}: addresses")
    if TCP in packet:
        again = packet.copy()  # let scapy compute lengths and checksums
        again.payload.chksum = None
        if isinstance(packet, IP):
            again.chksum = again.len = None
        expect_equal(bytes(again), data, f"{verdict}: checksums")
    else:
        check_icmp_checksum(data)
    return asked, packet


def test_closed_tcp_ports_get_a_reset(lab):
    """The RST is as in RFC 9293, 3.10.7.1."""
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    cases = [  # flags, payload, and the expected fields of the RST
        ("S", b"", "RA", 0, 1001),
        ("S", b"early data", "RA", 0, 1011),
        ("SEC", b"", "RA", 0, 1001),
        ("A", b"x" * 1000, "R", 77, 0),
        ("PA", b"x", "R", 77, 0),
        ("FA", b"", "R", 77, 0),
        ("SA", b"", "R", 77, 0),
    ]
    for flags, payload, wanted, seq, ack in cases:
        tcp = TCP(sport=1025, dport=81, flags=flags, seq=1000, ack=77, options=[("MSS", 1460)])
        packets = both(tcp / Raw(payload)) if payload else both(tcp)
        packets += [eth / Dot1Q(vlan=5) / packet for packet in list(packets)]
        for verdict in lab.run(closed("reject"), packets):
            asked, packet = rejection(verdict)
            answer = packet[TCP]
            expect_equal((answer.sport, answer.dport), (81, 1025), f"{verdict}: ports")
            expect_equal(
                (str(answer.flags), answer.seq, answer.ack, len(answer.payload)),
                (wanted, seq, ack, 0),
                f"{asked.summary()}",
            )


def test_closed_udp_ports_are_unreachable(lab):
    for size in (0, 1, 100, 1400):
        packets = both(UDP(sport=1025, dport=81) / Raw(b"u" * size))
        run = lab.run(closed("reject"), packets)
        _, packet = rejection(run[0])
        expect_equal((packet[ICMP].type, packet[ICMP].code), (3, 3), f"{run[0]}")
        expect_equal(packet[UDPerror].dport, 81, "quoted port")
        expect_equal(packet[IPerror].dst, VIP4, "quoted address")
        expect(packet.len <= 576, f"{packet.len} bytes")
        _, packet = rejection(run[1])
        expect_equal(packet[ICMPv6DestUnreach].code, 4, f"{run[1]}")
        expect_equal(packet[UDPerror].dport, 81, "quoted port")
        expect_equal(packet[IPerror6].dst, VIP6, "quoted address")
        expect(packet.plen + 40 <= 1280, f"{packet.plen} bytes")


def test_closed_ports_send_no_forbidden_answer(lab):
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    silent = both(TCP(sport=1025, dport=81, flags="R"))
    silent += both(TCP(sport=1025, dport=81, flags="RA"))
    silent += both(TCP(sport=1025, dport=81, flags="S", chksum=0x1234))
    silent += both(UDP(sport=1025, dport=81, chksum=0x1234) / Raw(b"x"))
    for verdict in lab.run(closed("reject"), silent):
        expect_equal((verdict.action, verdict.reason), ("dropped", "closed_port"), f"{verdict}")
    others = [
        (Ether(src="03:00:00:00:00:01", dst=PORT_MAC), "group_mac"),
        (Ether(src=CLIENT_MAC, dst=BROADCAST), "other_mac"),
    ]
    for head, reason in others:
        run = lab.run(closed("reject"), [head / packet for packet in both(UDP(dport=81))])
        for verdict in run:
            expect_equal((verdict.action, verdict.reason), ("dropped", reason), f"{verdict}")
    loops = [
        eth / IP(src="127.0.0.1", dst=VIP4) / UDP(dport=81),
        eth / IP(src="224.0.0.1", dst=VIP4) / UDP(dport=81),
        eth / IP(src=VIP4, dst=VIP4) / UDP(dport=81),
    ]
    for verdict in lab.run(closed("reject"), loops):
        expect_equal((verdict.action, verdict.reason), ("dropped", "source_address"), f"{verdict}")
    run = lab.run(closed("reject"), [IP(src=CLIENT4, dst=VIP4) / UDP(dport=81, chksum=0)])
    expect_equal(run[0].action, "replied", "UDP without a checksum")


def test_rejections_are_limited(lab):
    made = config(service(closed_ports="reject"), icmp={"unreachable_per_second": 10})
    packets = both(TCP(sport=1025, dport=81, flags="S")) * 50 + both(UDP(dport=81)) * 50
    packets += [IP(src=CLIENT4, dst=VIP4) / ICMP(id=1, seq=1)] * 20
    run = lab.run(made, packets, step_ns=1000)
    expect_equal(run.totals["replied"], 10 + 20, "replies")
    expect_equal(run.totals["drops"], {"icmp_rate": 190}, "drops")


# --- loops ------------------------------------------------------------------------------------


def test_a_vip_is_not_a_client(lab):
    """If a VIP could be a client, two UDP services could answer each other forever
    (CVE-2024-2169)."""
    other4, other6 = "198.51.100.20", "2001:db8:100::20"
    binds = [
        {"address": address, "protocol": "udp", "port": 53} for address in (other4, other6)
    ]
    made = config(service(), service("dns", binds, backends=["10.0.0.12"]))
    packets = []
    for source4, source6 in ((other4, other6), (VIP4, VIP6)):
        packets += [
            IP(src=source4, dst=VIP4) / UDP(sport=53, dport=80) / Raw(b"x"),
            IPv6(src=source6, dst=VIP6) / UDP(sport=53, dport=80) / Raw(b"x"),
            IP(src=source4, dst=VIP4) / ICMP(id=1, seq=1),
            IPv6(src=source6, dst=VIP6) / ICMPv6EchoRequest(id=1, seq=1),
        ]
    for verdict in lab.run(made, packets * 2):
        expect_equal((verdict.action, verdict.reason), ("dropped", "source_address"), f"{verdict}")


# --- small frames and tags --------------------------------------------------------------------


def test_short_replies_are_padded(lab):
    """Replies are padded to the 60 bytes that Ethernet requires, because some NICs do not pad
    frames."""
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    packets = [
        eth / IP(src=CLIENT4, dst=VIP4) / ICMP(id=1, seq=1),
        eth / IP(src=CLIENT4, dst=VIP4) / ICMP(id=1, seq=1) / Raw(b"x" * 17),
        eth / Dot1Q(vlan=7) / IP(src=CLIENT4, dst=VIP4) / ICMP(id=1, seq=1),
        eth / IPv6(src=CLIENT6, dst=VIP6) / ICMPv6EchoRequest(id=1, seq=1),
    ]
    for verdict in lab.run(config(), packets):
        check_echo(verdict)
        length = 14 + 4 * len(strip_l2(verdict.sent)[2]) + len(ip_packet(verdict.sent))
        expect_equal(verdict.sent_length, max(length, 60), f"{verdict}")
        expect_equal(verdict.sent[length:], bytes(len(verdict.sent) - length), "padding")


def test_the_vlan_of_arrival_is_not_compared(lab):
    """A trunk can carry clients in several VLANs. Packets to backends use the VLAN of the port."""
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    for vlan in (None, 20):
        made = config(port={"vlan": vlan})
        tags = [(0x8100, vlan)] if vlan else []
        packets = [
            eth / IP(src=CLIENT4, dst=VIP4) / TCP(sport=1, dport=80, flags="S"),
            eth / Dot1Q(vlan=20) / IP(src=CLIENT4, dst=VIP4) / TCP(sport=2, dport=80, flags="S"),
            eth / Dot1Q(vlan=30) / IP(src=CLIENT4, dst=VIP4) / TCP(sport=3, dport=80, flags="S"),
            eth / Dot1Q(vlan=30) / IP(src=CLIENT4, dst=VIP4) / ICMP(id=1, seq=1),
        ]
        run = lab.run(made, packets, options=["--mac", PORT_MAC])
        for verdict in (run[0], run[1], run[2]):
            check_forwarded(verdict, BACKEND4, tags=tags)
        check_echo(run[3])
        expect_equal(strip_l2(run[3].sent)[2], [(0x8100, 30)], "tag of the reply")
