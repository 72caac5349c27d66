# SPDX-License-Identifier: BSD-3-Clause
"""Fragments: packets that Weir fragments, and fragments that it receives."""
import struct

from scapy.all import IP, IPOption, IPv6, Raw, TCP, UDP

from lab import CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, service
from outer import check_outer_ipv4, check_outer_ipv6, check_too_big, checksum, ip_packet, strip_l2

BACKEND4 = "10.0.0.11"
BACKEND6 = "2001:db8:1::11"
SOURCE4 = "192.0.2.1"
SOURCE6 = "2001:db8::1"
COPIED = b"\x94\x04\x00\x00"  # router alert: goes into every fragment
NOT_COPIED = b"\x07\x07\x04\x00\x00\x00\x00"  # record route: only into the first


def decapsulate(data, backend, room):
    """The inner packet of a frame to `backend`, which must not be longer than `room`."""
    _, _, _, kind, outer = strip_l2(data)
    ipv4 = kind == 0x0800
    inner = outer[20 if ipv4 else 40 :]
    if ipv4:
        check_outer_ipv4(outer, inner, backend, SOURCE4)
    else:
        check_outer_ipv6(outer, inner, backend, SOURCE6)
    expect(len(outer) <= room, f"outer packet of {len(outer)} bytes")
    return inner


def reassemble(pieces):
    """The data of IPv4 fragments that neither overlap nor leave a hole (RFC 791), and whether it
    ends the datagram."""
    data, more = b"", True
    for piece in pieces:
        header = (piece[0] & 15) * 4
        length, _, fragment = struct.unpack_from("!HHH", piece, 2)
        expect_equal(length, len(piece), "total length of a fragment")
        expect_equal(checksum(piece[:header]), 0xFFFF, "checksum of a fragment")
        expect_equal((fragment & 0x1FFF) * 8 - start_of(pieces), len(data), "offset of a fragment")
        more = bool(fragment & 0x2000)
        expect(more or piece is pieces[-1], "a fragment behind the last one")
        data += piece[header:]
    return data, more


def start_of(pieces):
    return (struct.unpack_from("!H", pieces[0], 6)[0] & 0x1FFF) * 8


def check_fragmented(verdict, backend, mtu):
    """All pieces fit, and together they are the packet that was received."""
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


def test_a_datagram_of_an_ethernet_frame_gets_through(lab):
    """1,472 bytes of data, the most that a client sends unfragmented over Ethernet."""
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


def test_options_are_copied_as_they_say(lab):
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
