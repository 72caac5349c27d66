# SPDX-License-Identifier: BSD-3-Clause
"""ICMP: packets that the balancer answers, passes to backends, or drops."""
from scapy.all import (
    Dot1AD,
    Dot1Q,
    Ether,
    ICMP,
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IP,
    IPerror,
    IPerror6,
    IPOption,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrHopByHop,
    Raw,
    TCP,
    TCPerror,
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
    frame,
    replace_in_checksum,
    service,
)
from outer import check_echo, check_forwarded, check_too_big

ROUTER4 = "192.0.2.254"
ROUTER6 = "2001:db8:ff::1"
BACKEND4 = "10.0.0.11"
MANY = [f"10.0.0.{n}" for n in range(1, 20)]


def echo4(size=56, number=1, **more):
    return IP(src=CLIENT4, dst=VIP4, **more) / ICMP(id=0xBEEF, seq=number) / Raw(b"p" * size)


def echoes(count):
    """Returns frames of echo4(8, n). They are not made with scapy, which needs half a millisecond for each
    frame."""
    first, made = frame(echo4(8, 0)), []
    for n in range(count):
        other, number = bytearray(first), n.to_bytes(2, "big")
        other[40:42] = number
        replace_in_checksum(other, 36, first[40:42], number)
        made.append(bytes(other))
    return made


def echo6(size=56, number=1, **more):
    return IPv6(src=CLIENT6, dst=VIP6, **more) / ICMPv6EchoRequest(
        id=0xBEEF, seq=number, data=b"p" * size
    )


def test_echo_to_a_vip_gets_a_reply(lab):
    packets = []
    for size in (0, 1, 2, 3, 17, 18, 55, 56, 1000, 1400, 1452):
        packets += [echo4(size, size), echo6(size, size)]
    for verdict in lab.run(config(), packets):
        check_echo(verdict)


def test_echo_with_options_and_extension_headers(lab):
    packets = [echo4(options=[IPOption(b"\x01" * n)]) for n in (4, 20, 40)]
    head = IPv6(src=CLIENT6, dst=VIP6)
    packets += [
        head / chain / ICMPv6EchoRequest(id=1, seq=2, data=b"data")
        for chain in (
            IPv6ExtHdrHopByHop(),
            IPv6ExtHdrDestOpt(),
            IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(),
        )
    ]
    for verdict in lab.run(config(), packets):
        check_echo(verdict)


def test_echo_keeps_vlan_tags(lab):
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    packets = [
        eth / Dot1Q(vlan=9) / echo4(),
        eth / Dot1AD(vlan=3) / Dot1Q(vlan=9) / echo4(),
        eth / Dot1Q(vlan=9, prio=6) / echo6(),
    ]
    for verdict in lab.run(config(port={"vlan": 9}), packets):
        check_echo(verdict)


def test_echo_with_a_wrong_checksum_is_dropped(lab):
    packets = [
        IP(src=CLIENT4, dst=VIP4) / ICMP(chksum=1) / b"x",
        IPv6(src=CLIENT6, dst=VIP6) / ICMPv6EchoRequest(cksum=1, data=b"x"),
    ]
    for verdict in lab.run(config(), packets):
        expect_equal((verdict.action, verdict.reason), ("dropped", "icmp_checksum"), f"{verdict}")


def test_echo_to_other_addresses_goes_to_the_kernel(lab):
    packets = [
        IP(src=CLIENT4, dst="198.51.100.99") / ICMP() / b"x",
        IPv6(src=CLIENT6, dst="2001:db8:100::99") / ICMPv6EchoRequest(data=b"x"),
        IP(src=CLIENT4, dst=VIP4) / ICMP(type=0) / b"a reply nobody asked for",
        IP(src=CLIENT4, dst=VIP4) / ICMP(type=13),
        IPv6(src=CLIENT6, dst=VIP6) / ICMPv6EchoReply(data=b"x"),
    ]
    for verdict in lab.run(config(), packets):
        expect_equal(verdict.action, "kernel", f"{verdict}")


def test_echo_floods_are_limited(lab):
    run = lab.run(config(), echoes(3000), step_ns=1000)
    replied = run.totals["replied"]
    expect(900 <= replied <= 1100, f"{replied} replies in 3 ms; one second's worth is 1000")
    expect_equal(run.totals["drops"], {"icmp_rate": 3000 - replied}, "drops")
    run = lab.run(config(), echoes(500), step_ns=2_000_000)
    expect_equal(run.totals["replied"], 500, "replies at 500 a second")


def test_each_kind_of_reply_has_its_own_limit(lab):
    """Replies to 1,000 pings do not use the rate limit of "too big" messages."""
    big = IP(src=CLIENT4, dst=VIP4, flags="DF") / TCP(dport=80, flags="A") / Raw(b"x" * 1460)
    packets = echoes(1000) + [frame(big)] * 100
    run = lab.run(config(icmp={"echo_per_second": 10}), packets, step_ns=1000)
    expect_equal(run.totals["replied"], 10 + 100, "replies")
    expect_equal(run.totals["drops"], {"icmp_rate": 990}, "drops")
    run = lab.run(config(icmp={"too_big_per_second": 7}), packets, step_ns=1000)
    expect_equal(run.totals["replied"], 1000 + 7, "replies with few too big")
    run = lab.run(config(icmp={"echo_per_second": 0}), packets, step_ns=1000)
    expect_equal(run.totals["replied"], 100, "replies without echo")


def test_one_byte_too_many_gets_a_reply(lab):
    for mtu in (1280, 1500, 9000):
        for backend, outer in ((BACKEND4, 20), ("2001:db8:1::1", 40)):
            tcp = TCP(sport=5, dport=80, flags="PA")
            packets = [
                IP(src=CLIENT4, dst=VIP4, flags="DF") / tcp / Raw(b"x" * (mtu - outer - 39)),
                IPv6(src=CLIENT6, dst=VIP6) / tcp / Raw(b"x" * (max(1280, mtu - outer) - 59)),
                IP(src=CLIENT4, dst=VIP4, flags="DF") / UDP(sport=5, dport=80) / Raw(b"x" * mtu),
            ]
            run = lab.run(config(service(backends=[backend]), port={"mtu": mtu}), packets)
            for verdict in run:
                ipv6 = IPv6 in Ether(verdict.received)
                check_too_big(verdict, max(1280, mtu - outer) if ipv6 else mtu - outer)


def test_too_big_keeps_vlan_tags(lab):
    big = Raw(b"x" * 1460)
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    packets = [
        eth / Dot1Q(vlan=9) / IP(src=CLIENT4, dst=VIP4, flags="DF") / TCP(dport=80, flags="A") / big,
        eth
        / Dot1AD(vlan=4)
        / Dot1Q(vlan=9)
        / IPv6(src=CLIENT6, dst=VIP6)
        / TCP(dport=80, flags="A")
        / big,
    ]
    for verdict in lab.run(config(port={"vlan": 9}), packets):
        check_too_big(verdict, 1480)


def test_the_reported_mtu_fits(lab):
    tcp = TCP(sport=5, dport=80, flags="PA")
    first = IP(src=CLIENT4, dst=VIP4, flags="DF") / tcp / Raw(b"x" * 1460)
    run = lab.run(config(), [first])
    mtu = IP(run[0].sent[14:])[ICMP].nexthopmtu
    second = IP(src=CLIENT4, dst=VIP4, flags="DF") / tcp / Raw(b"x" * (mtu - 40))
    check_forwarded(lab.run(config(), [second])[0], BACKEND4)


def quote4(l4, **more):
    """Returns the first 28 bytes of a packet from the VIP to the client, as quoted by an ICMP error."""
    return IPerror(bytes(IP(src=VIP4, dst=CLIENT4, **more) / l4)[:28])


def test_icmp_errors_reach_the_flow_s_backend(lab):
    made = config(service(backends=MANY))
    syn = IP(src=CLIENT4, dst=VIP4) / TCP(sport=4711, dport=80, flags="S")
    syn6 = IPv6(src=CLIENT6, dst=VIP6) / TCP(sport=4711, dport=80, flags="S")
    quoted6 = IPerror6(
        bytes(IPv6(src=VIP6, dst=CLIENT6) / TCP(sport=80, dport=4711) / Raw(b"x" * 99))
    )
    packets = [syn, syn6]
    for kind, code in ((3, 4), (3, 1), (3, 3), (11, 0), (12, 0)):
        packets.append(
            IP(src=ROUTER4, dst=VIP4)
            / ICMP(type=kind, code=code)
            / quote4(TCP(sport=80, dport=4711))
        )
    for error in (ICMPv6PacketTooBig(mtu=1280), ICMPv6DestUnreach(), ICMPv6TimeExceeded()):
        packets.append(IPv6(src=ROUTER6, dst=VIP6) / error / quoted6)
    run = lab.run(made, packets)
    for verdict in run:
        wanted = run[1 if IPv6 in Ether(verdict.received) else 0].backend
        expect_equal(verdict.backend, wanted, f"{verdict}: backend")
        check_forwarded(verdict, MANY[int(wanted[1:])])
    expect_equal([verdict.why for verdict in run], ["new", "new"] + ["flow"] * 8, "why")


def test_icmp_errors_about_unknown_flows_go_to_the_flows_backend(lab):
    made = config(service(backends=MANY))
    error = (
        IP(src=ROUTER4, dst=VIP4)
        / ICMP(type=3, code=4)
        / quote4(UDP(sport=80, dport=99) / b"12345678")
    )
    packet = IP(src=CLIENT4, dst=VIP4) / UDP(sport=99, dport=80)
    run = lab.run(made, [error, packet])
    expect_equal(run[0].backend, run[1].backend, "backend")
    expect_equal([verdict.why for verdict in run], ["untracked", "new"], "why")


def test_icmp_errors_that_match_no_service_are_dropped(lab):
    head = IP(src=ROUTER4, dst=VIP4) / ICMP(type=3, code=4)
    other = IPerror(bytes(IP(src="198.51.100.99", dst=CLIENT4) / TCP(sport=80, dport=9))[:28])
    packets = [
        head / quote4(TCP(sport=81, dport=4711)),
        head / other,
        head / quote4(Raw(b"12345678"), proto=47),
        head / quote4(TCP(sport=80), frag=5),
    ]
    for verdict in lab.run(config(), packets):
        expect_equal((verdict.action, verdict.reason), ("dropped", "icmp_unmatched"), f"{verdict}")


def test_icmp_errors_never_cause_errors(lab):
    quoted = bytes(IP(src=VIP4, dst=CLIENT4) / TCP(sport=80, dport=4711) / Raw(b"x" * 1444))
    run = lab.run(config(), [IP(src=ROUTER4, dst=VIP4, flags="DF") / ICMP(type=3, code=4) / quoted])
    expect_equal((run[0].action, run[0].reason), ("dropped", "mtu_exceeded"), "verdict")


def test_quotes_of_scapy_s_own_classes(lab):
    packets = [
        IP(src=ROUTER4, dst=VIP4)
        / ICMP(type=11)
        / IPerror(src=VIP4, dst=CLIENT4)
        / TCPerror(sport=80, dport=5),
        IP(src=ROUTER4, dst=VIP4)
        / ICMP(type=11)
        / IPerror(src=VIP4, dst=CLIENT4)
        / UDPerror(sport=80, dport=5),
    ]
    for verdict in lab.run(config(), packets):
        check_forwarded(verdict, BACKEND4)
