# SPDX-License-Identifier: BSD-3-Clause
"""Ports: whose frames they take, and what comes back from them."""
from scapy.all import (
    ARP,
    Dot1Q,
    Ether,
    ICMP,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    IP,
    IPv6,
    Raw,
    TCP,
    UDP,
)

from lab import CLIENT4, CLIENT6, CLIENT_MAC, PORT_MAC, VIP4, VIP6, config, expect, expect_equal
from outer import check_echo, check_forwarded, strip_l2

BROADCAST = "ff:ff:ff:ff:ff:ff"
NEIGHBOUR_MAC = "02:00:00:00:0c:02"
BACKEND4 = "10.0.0.11"


def to_a_vip():
    """One packet of each kind that a VIP takes."""
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
    """Alone, so that each meets the parser of its own kind, and within bursts of others."""
    packets = framed(to_a_vip(), NEIGHBOUR_MAC, tagged=True)
    packets += framed(
        [IP(src=CLIENT4, dst="192.0.2.9") / UDP(sport=1, dport=2), ARP(pdst="192.0.2.9")],
        NEIGHBOUR_MAC,
    )
    run = lab.run(config(), packets, options=["--mac", PORT_MAC])
    for verdict in run:
        expect_equal((verdict.action, verdict.reason), ("dropped", "other_mac"), f"{verdict}")
    # One bit is enough, in any of the six bytes.
    for byte in range(6):
        mac = bytearray(bytes.fromhex(PORT_MAC.replace(":", "")))
        mac[byte] ^= 0x40
        run = lab.run(
            config(), framed(to_a_vip(), bytes(mac).hex(":")), options=["--mac", PORT_MAC]
        )
        expect_equal(run.totals["drops"], {"other_mac": len(run)}, f"byte {byte}")


def test_group_frames_reach_no_vip(lab):
    for options in ([], ["--mac", PORT_MAC]):
        for destination in (BROADCAST, "01:00:5e:00:00:01", "33:33:00:00:00:01"):
            run = lab.run(
                config(), framed(to_a_vip(), destination, tagged=True), options=options
            )
            for verdict in run:
                expect_equal(
                    (verdict.action, verdict.reason), ("dropped", "other_mac"), f"{verdict}"
                )


def test_group_frames_for_the_kernel_reach_it(lab):
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


def test_captures_from_elsewhere_are_taken(lab):
    run = lab.run(config(), framed(to_a_vip(), NEIGHBOUR_MAC))
    expect("other_mac" not in run.totals["drops"], f"{run.totals}")
    check_forwarded(run[0], BACKEND4)
