# SPDX-License-Identifier: BSD-3-Clause
"""Fragments: packets that Weir fragments, and fragments that it receives."""
import functools
import struct

from scapy.all import (
    AH,
    ICMP,
    IP,
    IPOption,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    Raw,
    TCP,
    UDP,
    fragment,
    fragment6,
)

from lab import CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, frame, service
from outer import (
    check_forwarded,
    check_outer_ipv4,
    check_outer_ipv6,
    check_too_big,
    checksum,
    ip_packet,
    sent_packet,
    strip_l2,
)

BACKEND4 = "10.0.0.11"
BACKEND6 = "2001:db8:1::11"
SOURCE4 = "192.0.2.1"
SOURCE6 = "2001:db8::1"
COPIED = b"\x94\x04\x00\x00"  # router alert: copied to every fragment
NOT_COPIED = b"\x07\x07\x04\x00\x00\x00\x00"  # record route: only in the first fragment


def decapsulate(data, backend, room):
    """Returns the inner packet of a frame to `backend`. Checks that the outer packet is not longer
    than `room`."""
    kind, outer = strip_l2(data)[3], sent_packet(data)
    ipv4 = kind == 0x0800
    inner = outer[20 if ipv4 else 40 :]
    if ipv4:
        check_outer_ipv4(outer, inner, backend, SOURCE4)
    else:
        check_outer_ipv6(outer, inner, backend, SOURCE6)
    expect(len(outer) <= room, f"outer packet of {len(outer)} bytes")
    return inner


def reassemble(pieces):
    """Returns the data of IPv4 fragments, and whether the last fragment is included. The fragments
    must not overlap or leave a gap (RFC 791)."""
    data, more = b"", True
    for piece in pieces:
        header = (piece[0] & 15) * 4
        length, _, fragment = struct.unpack_from("!HHH", piece, 2)
        expect_equal(length, len(piece), "total length of a fragment")
        expect_equal(checksum(piece[:header]), 0xFFFF, "checksum of a fragment")
        expect_equal((fragment & 0x1FFF) * 8 - start_of(pieces), len(data), "offset of a fragment")
        more = bool(fragment & 0x2000)
        expect(more or piece is pieces[-1], "a fragment beyond the last fragment")
        data += piece[header:]
    return data, more


def start_of(pieces):
    return (struct.unpack_from("!H", pieces[0], 6)[0] & 0x1FFF) * 8


def check_fragmented(verdict, backend, mtu):
    """Check that all fragments fit the MTU, and that their reassembly gives the received packet."""
    expect_equal(verdict.action, "forwarded", f"{verdict}")
    received = ip_packet(verdict.received)
    frames = [verdict.sent, *verdict.sent_fragments]
    pieces = [decapsulate(data, backend, mtu) for data in frames]
    expect(len(pieces) > 1, "not fragmented")
    header = (received[0] & 15) * 4
    data, more = reassemble(pieces)
    expect_equal(data, received[header:], "data of all fragments")
    expect_equal(more, bool(received[6] & 0x20), "more fragments")
    for piece in pieces:
        expect_equal(piece[1], received[1], "DSCP and ECN")
        expect_equal(piece[4:6], received[4:6], "identification")
        expect_equal(piece[8:10], received[8:10], "TTL and protocol")
        expect_equal(piece[12:20], received[12:20], "addresses")
    expect_equal(pieces[0][20:header], received[20:header], "options of the first fragment")
    return pieces


def udp4(payload, **more):
    return IP(src=CLIENT4, dst=VIP4, id=0x1234, **more) / UDP(sport=9, dport=80) / Raw(payload)


def pattern(length):
    return bytes(n * 7 % 251 for n in range(length))


def test_packets_without_df_are_fragmented(lab):
    for mtu in (1320, 1500, 9000):
        for backend, outer in ((BACKEND4, 20), (BACKEND6, 40)):
            made = config(service(backends=[backend]), port={"mtu": mtu})
            first = mtu - outer - 28  # payload of the longest datagram that fits
            sizes = (first + 1, first + 7, first + 8, first + 9, 2 * first, 5 * first, 60000)
            packets = [udp4(pattern(size), tos=0xB9) for size in sizes]
            packets.append(
                IP(src=CLIENT4, dst=VIP4, id=7)
                / TCP(sport=9, dport=80, flags="S")
                / Raw(pattern(2 * mtu))
            )
            for verdict in lab.run(made, packets):
                pieces = check_fragmented(verdict, backend, mtu)
                for piece in pieces[:-1]:
                    expect(len(piece) + 8 > mtu - outer, "a fragment shorter than needed")


def test_a_datagram_of_an_ethernet_frame_is_forwarded(lab):
    """A datagram with 1,472 bytes of data, the maximum that fits in an Ethernet frame without
    fragmentation."""
    run = lab.run(config(), [udp4(pattern(1472))])
    check_fragmented(run[0], BACKEND4, 1500)
    expect_equal(run[0].fragments, 2, "fragments")
    expect_equal(run[0].why, "new", "why")


def test_df_and_ipv6_get_an_answer_instead(lab):
    packets = [
        udp4(pattern(1472), flags="DF"),
        IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=9, dport=80) / Raw(pattern(1472)),
    ]
    for verdict in lab.run(config(), packets):
        check_too_big(verdict, 1480)
        expect_equal(verdict.fragments, None, "fragments")


def test_options_are_copied_by_their_flag(lab):
    options = NOT_COPIED + b"\x01" + COPIED
    packet = udp4(pattern(3000), options=[IPOption(options)])
    pieces = check_fragmented(lab.run(config(), [packet])[0], BACKEND4, 1500)
    expect_equal(pieces[0][20:32], options, "options of the first fragment")
    for piece in pieces[1:]:
        expect_equal(piece[0], 0x46, "header length of a later fragment")
        expect_equal(piece[20:24], COPIED, "options of a later fragment")


def test_malformed_options_end_the_copying(lab):
    packet = udp4(pattern(3000), options=[IPOption(COPIED + b"\x99\x20\x00\x00")])
    pieces = check_fragmented(lab.run(config(), [packet])[0], BACKEND4, 1500)
    expect_equal(pieces[1][20:24], COPIED, "options of a later fragment")
    expect_equal(pieces[1][0], 0x46, "header length of a later fragment")


# --- received fragments ------------------------------------------------------------------

MANY = [f"10.0.0.{n}" for n in range(1, 20)]


def pieces4(size=4000, number=1, port=9, fragsize=1400, **more):
    whole = IP(src=CLIENT4, dst=VIP4, id=number, **more)
    return fragment(whole / UDP(sport=port, dport=80) / Raw(pattern(size)), fragsize=fragsize)


def pieces6(size=4000, number=1, port=9):
    whole = IPv6(src=CLIENT6, dst=VIP6) / IPv6ExtHdrFragment(id=number)
    return fragment6(whole / UDP(sport=port, dport=80) / Raw(pattern(size)), 1400)


def check_dropped(verdict, reason):
    expect_equal((verdict.action, verdict.reason), ("dropped", reason), f"{verdict}")


def test_fragments_follow_the_flow_of_their_datagram(lab):
    """Send a fragmented datagram in each of 40 flows, with several policies, in both families."""
    for policy in ("maglev", "round-robin", "random"):
        made = config(service(backends=MANY, policy={"name": policy}))
        packets, flows = [], []
        for port in range(1, 21):
            for whole, pieces in (
                (IP(src=CLIENT4, dst=VIP4), pieces4(4000, port, port)),
                (IPv6(src=CLIENT6, dst=VIP6), pieces6(4000, port, port)),
            ):
                flow = [whole / UDP(sport=port, dport=80) / b"short", *pieces]
                flows.append(range(len(packets), len(packets) + len(flow)))
                packets += flow
        run = lab.run(made, packets)
        for flow in flows:
            backend = run[flow[0]].backend
            for index in flow:
                expect_equal(run[index].backend, backend, f"{run[index]}: backend ({policy})")
                check_forwarded(run[index], MANY[int(backend[1:])])
        expect_equal(sum(backend["new_flows"] for backend in run.totals["backends"]), 40, "flows")


def test_a_flow_may_start_with_fragments(lab):
    made = config(service(backends=MANY, policy={"name": "round-robin"}))
    for pieces in (pieces4(), pieces6()):
        whole = pieces[0].copy()
        run = lab.run(made, [*pieces, *pieces, whole])
        expect_equal(run[0].why, "new", "why of the first")
        expect_equal({verdict.backend for verdict in run}, {run[0].backend}, "backends")
        expect_equal(run.totals["forwarded"], len(run), "forwarded")


def test_fragments_may_arrive_in_any_order_after_the_first(lab):
    for pieces in (pieces4(9000), pieces6(9000)):
        first, *others = pieces
        swapped = [others[1], others[0], others[3], others[2], *others[4:]]
        run = lab.run(config(), [first, *swapped])
        for verdict in run:
            check_forwarded(verdict, BACKEND4)
        run = lab.run(config(), [first, *reversed(others)])
        expect_equal(run.totals["forwarded"], len(run), "forwarded in reverse")


def test_fragments_without_their_first_are_dropped(lab):
    for pieces in (pieces4(), pieces6()):
        run = lab.run(config(), [pieces[1], pieces[0], pieces[2]])
        check_dropped(run[0], "fragment_first_missing")
        for verdict in run[1:]:
            check_forwarded(verdict, BACKEND4)
        late = config(fragments={"timeout_ms": 200})
        run = lab.run(late, [pieces[0], (150_000_000, pieces[1]), (60_000_000, pieces[2])])
        check_forwarded(run[1], BACKEND4)
        check_dropped(run[2], "fragment_first_missing")
        other = config(fragments={"entries": 0})
        for verdict in lab.run(other, pieces):
            check_dropped(verdict, "fragment")


def test_datagrams_are_distinguished(lab):
    """Fragments match by identification, addresses and, in IPv4, protocol. If any of these differs,
    fragments do not belong to the first fragment."""
    first, second = pieces4(2000, 7)[:2]
    for key, value in (("id", 8), ("src", "203.0.113.8"), ("proto", 6)):
        other = second.copy()
        setattr(other, key, value)
        run = lab.run(config(), [first, other, second])
        check_dropped(run[1], "fragment_first_missing")
        check_forwarded(run[2], BACKEND4)
    first, second = pieces6(2000, 7)[:2]
    second[IPv6ExtHdrFragment].id = 8
    check_dropped(lab.run(config(), [first, second])[1], "fragment_first_missing")


OPTIONS = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])


def test_ipv6_fragments_that_start_with_another_header(lab):
    """The Next Header of the fragment header is the first header of the fragmentable part. Only the
    first fragment contains this header, and the protocol follows it."""
    made = config(service(backends=MANY, policy={"name": "round-robin"}))
    tcp = TCP(sport=9, dport=80, flags="A")
    chains = [
        (None, OPTIONS / UDP(sport=9, dport=80)),
        (None, AH(nh=17, payloadlen=4, spi=1, seq=1, icv=b"0" * 12) / UDP(sport=9, dport=80)),
        (None, AH(nh=6, payloadlen=4, spi=1, seq=1, icv=b"0" * 12) / tcp),
        (None, IPv6ExtHdrRouting() / OPTIONS / UDP(sport=9, dport=80)),
        (OPTIONS, OPTIONS / UDP(sport=9, dport=80)),
        (IPv6ExtHdrHopByHop(), AH(nh=60, payloadlen=1, spi=1, seq=1) / OPTIONS / tcp),
    ]
    for before, behind in chains:
        head = IPv6(src=CLIENT6, dst=VIP6)
        head = head / before.copy() if before else head
        whole = head / IPv6ExtHdrFragment(id=7) / behind / Raw(pattern(4000))
        first, *others = fragment6(whole, 1280)
        for order in (others, others[::-1]):
            run = lab.run(made, [first, *order, head / behind / b"short"])
            for verdict in run:
                check_forwarded(verdict, MANY[int(run[0].backend[1:])])
        run = lab.run(made, [others[0], first, *others])
        check_dropped(run[0], "fragment_first_missing")
        expect_equal(run.totals["forwarded"], 1 + len(others), "forwarded")


def test_the_next_header_of_later_ipv6_fragments_does_not_count(lab):
    """Only the next header of the first fragment counts (RFC 8200, 4.5)."""
    first, *others = pieces6(9000)
    for piece, nh in zip(others, (6, 58, 59, 60, 0, 44, 50, 255)):
        piece[IPv6ExtHdrFragment].nh = nh
    run = lab.run(config(), [first, *others])
    for verdict in run:
        check_forwarded(verdict, BACKEND4)
    for verdict, reason in zip(
        lab.run(config(), others), ("first_missing", None, None, *["first_missing"] * 3)
    ):
        check_dropped(verdict, f"fragment_{reason}" if reason else "fragment")


def test_a_first_ipv6_fragment_has_its_whole_chain(lab):
    """The first fragment must contain all extension headers (RFC 7112). Otherwise the protocol and
    the ports could be in any fragment."""
    head = IPv6(src=CLIENT6, dst=VIP6) / IPv6ExtHdrFragment(id=7, m=1, nh=60)
    long = bytes(IPv6ExtHdrDestOpt(nh=17, options=[PadN(optdata=b"\0" * 60)]))
    later = raw6(64, pattern(64), False, 7, 60)
    for data, reason in (
        (long[:8], "ipv6_extension"),
        (long[:56], "ipv6_extension"),
        (bytes(IPv6ExtHdrDestOpt(nh=17)), "fragment_tiny"),
        (bytes(IPv6ExtHdrDestOpt(nh=58)) + bytes(56), "fragment"),
    ):
        run = lab.run(config(), [head / Raw(data), later])
        check_dropped(run[0], reason)
        check_dropped(run[1], "fragment_first_missing")


def raw4(offset, data, more=True, number=5, proto=17):
    """Returns an IPv4 fragment; offset in bytes, a multiple of 8."""
    return IP(
        src=CLIENT4, dst=VIP4, id=number, flags="MF" if more else 0, frag=offset // 8, proto=proto
    ) / Raw(data)


def raw6(offset, data, more=True, number=5, proto=17):
    return (
        IPv6(src=CLIENT6, dst=VIP6)
        / IPv6ExtHdrFragment(offset=offset // 8, m=int(more), id=number, nh=proto)
        / Raw(data)
    )


@functools.cache
def datagram(size=64):
    return bytes(UDP(sport=9, dport=80, len=500) / Raw(pattern(size - 8)))


def test_overlapping_fragments_drop_their_datagram(lab):
    for raw in (raw4, raw6):
        middle, last = raw(64, pattern(64)), raw(128, b"end", False)
        for before, wrong in (
            ([], raw(32, pattern(64))),  # overlaps the first fragment
            ([], raw(0, datagram(80))),  # a longer first fragment
            ([middle], raw(120, pattern(32))),  # overlaps the end of the second fragment
            ([middle], raw(56, pattern(80))),  # overlaps the second fragment on both sides
        ):
            run = lab.run(config(), [raw(0, datagram()), *before, wrong, last])
            actions = ["forwarded"] * (1 + len(before)) + ["dropped"] * 2
            expect_equal([v.action for v in run], actions, "overlap")
            expect_equal(run.totals["drops"], {"fragment_overlap": 2}, "drops")
        # A fragment beyond the end of the datagram, or a last fragment with a different end.
        for wrong in (raw(136, pattern(8)), raw(72, b"end", False), raw(200, b"end", False)):
            run = lab.run(config(), [raw(0, datagram()), last, wrong, middle])
            expect_equal(run.totals["drops"], {"fragment_overlap": 2}, "drops behind the end")
        # A fragment beyond the maximum size of a datagram.
        run = lab.run(config(), [raw(0, datagram()), raw(65528, pattern(16), False), last])
        expect_equal(run.totals["drops"], {"fragment_overlap": 1}, "drops beyond 65,535")


def test_only_copies_are_dropped(lab):
    for raw in (raw4, raw6):
        packets = [raw(0, datagram()), raw(64, pattern(64)), raw(128, b"end", False)]
        run = lab.run(config(), [packets[0], packets[1], packets[1], packets[0], packets[2]])
        expect_equal(run.totals["drops"], {"fragment_overlap": 2}, "drops")
        check_forwarded(run[4], BACKEND4)
        # After the datagram is complete, its identification can be reused.
        run = lab.run(config(), packets * 3)
        expect_equal(run.totals["forwarded"], 9, "forwarded")


def test_tiny_fragments_are_dropped(lab):
    tcp = bytes(TCP(sport=9, dport=80, flags="S", options=[("MSS", 1460)]))
    for raw in (raw4, raw6):
        packets = [
            raw(0, tcp[:8], proto=6, number=1),
            raw(0, tcp[:16], proto=6, number=2),
            raw(0, tcp[:20] + b"\0" * 2, proto=6, number=3),  # the length is not a multiple of 8
            # TCP options are incomplete
            raw(0, (tcp[:12] + b"\xf0" + tcp[13:])[:24], proto=6, number=4),
            raw(8, tcp, proto=6, number=5),  # overlaps the TCP flags
            raw(64, pattern(60), number=6),
        ]
        run = lab.run(config(), packets)
        expect_equal(run.totals["drops"], {"fragment_tiny": len(packets)}, "drops")
        whole = raw(0, tcp, proto=6, number=9)
        check_forwarded(lab.run(config(), [whole])[0], BACKEND4)


def test_fragments_of_other_protocols_are_dropped(lab):
    ping = fragment(IP(src=CLIENT4, dst=VIP4) / ICMP() / Raw(pattern(3000)), fragsize=1400)
    for verdict in lab.run(config(), [*ping, raw4(0, b"x" * 64, proto=47), raw6(64, b"x", proto=58)]):
        check_dropped(verdict, "fragment")


def test_fragments_to_other_ports_go_to_the_kernel(lab):
    whole = IP(src=CLIENT4, dst=VIP4) / UDP(sport=9, dport=81) / Raw(pattern(3000))
    away = IP(src=CLIENT4, dst="198.51.100.99") / UDP(sport=9, dport=80) / Raw(pattern(3000))
    for verdict in lab.run(config(), [*fragment(whole, 1400), *fragment(away, 1400)]):
        expect_equal(verdict.action, "kernel", f"{verdict}")


def test_many_holes_are_too_many(lab):
    packets = [raw4(0, datagram())]
    packets += [raw4(64 + 128 * n, pattern(64)) for n in range(1, 4)]
    run = lab.run(config(), packets + [raw4(64, pattern(128)), packets[3]])
    expect_equal([v.action for v in run], ["forwarded"] * 3 + ["dropped"] + ["forwarded"] * 2, "")
    check_dropped(run[3], "fragment_table")


def test_the_table_is_bounded(lab):
    """If there are more datagrams than entries, the oldest entries are evicted. The newest datagram
    is always forwarded."""
    made = config(fragments={"entries": 16})
    firsts = [frame(raw4(0, datagram(), number=n)) for n in range(1, 1001)]
    run = lab.run(made, firsts + [raw4(64, b"end", False, number=1000)], step_ns=1000)
    check_forwarded(run[1000], BACKEND4)
    ends = [raw4(64, b"end", False, number=n) for n in range(1, 1001)]
    run = lab.run(made, firsts + ends, step_ns=1000)
    expect_equal(run.totals["forwarded"], 1016, "first ones, and the ends of those remembered")
    expect_equal(run.totals["drops"], {"fragment_first_missing": 984}, "drops")


def test_long_fragments_are_fragmented_again_or_answered(lab):
    made = config(port={"mtu": 1400})
    first, *others = pieces4(3000, fragsize=1400)
    run = lab.run(made, [first, *others])
    for verdict in run[:2]:
        check_fragmented(verdict, BACKEND4, 1400)
    check_forwarded(run[2], BACKEND4)
    big = fragment6(
        IPv6(src=CLIENT6, dst=VIP6) / IPv6ExtHdrFragment(id=3) / UDP(dport=80) / Raw(pattern(2600)),
        1400,
    )
    run = lab.run(made, big)
    check_too_big(run[0], 1380)
    check_forwarded(run[1], BACKEND4)


# --- IPv6 packets and ports with a small MTU ---------------------------------------------------


def outer_pieces(verdict):
    """Yields (header of the outer packet without the fields that vary, data) of each fragment."""
    for data in (verdict.sent, *verdict.sent_fragments):
        kind, outer = strip_l2(data)[3], sent_packet(data)
        if kind == 0x0800:
            expect_equal(checksum(outer[:20]), 0xFFFF, "outer header checksum")
            length, number, field = struct.unpack_from("!HHH", outer, 2)
            expect_equal(length, len(outer), "outer total length")
            expect_equal(outer[9], 41, "outer protocol")
            expect_equal(field & 0x4000, 0, "outer DF")
            yield number, (field & 0x1FFF) * 8, bool(field & 0x2000), outer[20:], len(outer)
        else:
            length, nxt = struct.unpack_from("!HB", outer, 4)
            expect_equal((length, nxt), (len(outer) - 40, 44), "outer length and next header")
            inner, zero, field, number = struct.unpack_from("!BBHI", outer, 40)
            expect_equal((inner, zero), (41, 0), "fragment header")
            yield number, field & 0xFFF8, bool(field & 1), outer[48:], len(outer)


def test_ipv6_of_1280_bytes_passes_a_small_mtu(lab):
    """The sender ignores an MTU below 1,280 in "packet too big", so the outer packet is fragmented."""
    for backend, mtu in ((BACKEND6, 1280), (BACKEND6, 1319), (BACKEND4, 1280), (BACKEND4, 1299)):
        made = config(service(backends=[backend]), port={"mtu": mtu})
        outer = 40 if backend == BACKEND6 else 20
        sizes = {1280, mtu - outer + 1}
        whole = IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=9, dport=80)
        packets = [whole / Raw(pattern(size - 48)) for size in sizes]
        run = lab.run(made, [*packets, packets[0]])
        numbers = set()
        for verdict in run:
            expect_equal(verdict.action, "forwarded", f"{verdict}")
            data, expected_more = b"", True
            pieces = list(outer_pieces(verdict))
            for number, offset, more, part, size in pieces:
                expect_equal(offset, len(data), "offset")
                expect(size <= mtu, f"outer packet of {size} bytes")
                expected_more = more
                data += part
                numbers.add(number)
            expect_equal(expected_more, False, "more fragments behind the last")
            expect_equal(data, ip_packet(verdict.received), "inner packet")
            expect_equal(len(pieces), 2, "fragments")
        expect_equal(len(numbers), len(run), "identifications")
        fits = whole / Raw(pattern(mtu - outer - 48))
        check_forwarded(lab.run(made, [fits])[0], backend)
        big = whole / Raw(pattern(1281 - 48))
        check_too_big(lab.run(made, [big])[0], max(1280, mtu - outer))
