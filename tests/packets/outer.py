# SPDX-License-Identifier: BSD-3-Clause
"""An independent check of forwarded packets and of replies, byte by byte.

This file was written only from RFCs 791, 792, 2003, 2473, 4443, 6040 and 8200, not from Weir's sources.
"""
import ipaddress
import struct

from scapy.all import Ether, ICMPv6EchoReply, ICMPv6PacketTooBig, IP, IPv6, ICMP

from lab import PORT_MAC, SOURCE4, SOURCE6, expect, expect_equal


def checksum(data):
    """Returns the ones' complement sum of data: 0xffff if data contains a correct Internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def strip_l2(data):
    """Returns (destination, source, [tags], EtherType, rest) of a frame."""
    at, tags = 12, []
    kind = struct.unpack_from("!H", data, at)[0]
    while kind in (0x8100, 0x88A8, 0x9100):
        tags.append((kind, struct.unpack_from("!H", data, at + 2)[0]))
        at += 4
        kind = struct.unpack_from("!H", data, at)[0]
    return data[0:6].hex(":"), data[6:12].hex(":"), tags, kind, data[at + 2 :]


def ip_packet(data):
    """Returns the IP packet in a frame, without padding."""
    _, _, _, kind, rest = strip_l2(data)
    if kind == 0x0800:
        return rest[: struct.unpack_from("!H", rest, 2)[0]]
    expect_equal(kind, 0x86DD, "EtherType")
    return rest[: 40 + struct.unpack_from("!H", rest, 4)[0]]


def sent_packet(data):
    """Returns the IP packet in a sent frame. Only a short frame is padded, with zeroes."""
    packet = ip_packet(data)
    frame = data[: len(data) - len(strip_l2(data)[4])] + packet
    expect_equal(data, frame.ljust(60, b"\0"), "frame with its padding")
    return packet


def inner_tos(packet):
    if packet[0] >> 4 == 4:
        return packet[1]
    return struct.unpack_from("!I", packet)[0] >> 20 & 0xFF


def check_outer_ipv4(outer, inner, backend, source):
    expect_equal(outer[0], 0x45, "outer version and header length")
    expect_equal(struct.unpack_from("!H", outer, 2)[0], 20 + len(inner), "outer total length")
    expect_equal(struct.unpack_from("!H", outer, 6)[0], 0x4000, "outer DF, no fragment")
    expect_equal(outer[8], 64, "outer TTL")
    expect_equal(outer[9], 4 if inner[0] >> 4 == 4 else 41, "outer protocol")
    expect_equal(checksum(outer[:20]), 0xFFFF, "outer header checksum")
    expect_equal(str(ipaddress.ip_address(outer[12:16])), source, "outer source")
    expect_equal(str(ipaddress.ip_address(outer[16:20])), backend, "outer destination")
    return outer[1], outer[20:]


def check_outer_ipv6(outer, inner, backend, source):
    word, length, next_header, hop_limit = struct.unpack_from("!IHBB", outer)
    expect_equal(word >> 28, 6, "outer version")
    expect(word & 0xFFFFF, "outer flow label is 0")
    expect_equal(length, len(inner), "outer payload length")
    expect_equal(next_header, 4 if inner[0] >> 4 == 4 else 41, "outer next header")
    expect_equal(hop_limit, 64, "outer hop limit")
    expect_equal(str(ipaddress.ip_address(outer[8:24])), source, "outer source")
    expect_equal(str(ipaddress.ip_address(outer[24:40])), backend, "outer destination")
    return word >> 20 & 0xFF, outer[40:]


def check_forwarded(verdict, backend, mac=None, tags=(), source=None, port_mac=PORT_MAC):
    """Check that the frame was sent to `backend`, encapsulated, and that the inner packet is unchanged."""
    expect_equal(verdict.action, "forwarded", f"{verdict}")
    destination, sender, sent_tags, kind, _ = strip_l2(verdict.sent)
    outer = sent_packet(verdict.sent)
    inner = ip_packet(verdict.received)
    ipv4 = ipaddress.ip_address(backend).version == 4
    if mac is not None:
        expect_equal(destination, mac, "destination MAC")
    expect_equal(sender, port_mac, "source MAC")
    expect_equal(sent_tags, list(tags), "VLAN tags")
    expect_equal(kind, 0x0800 if ipv4 else 0x86DD, "EtherType")
    if ipv4:
        tos, payload = check_outer_ipv4(outer, inner, backend, source or SOURCE4)
    else:
        tos, payload = check_outer_ipv6(outer, inner, backend, source or SOURCE6)
    expect_equal(tos, inner_tos(inner), "outer DSCP and ECN")
    expect_equal(payload, inner, "inner packet")
    # A second check by scapy: it must find one IP packet inside another IP packet.
    seen = Ether(verdict.sent)
    layers = [layer for layer in seen.layers() if layer in (IP, IPv6)]
    expect_equal(
        layers[:2],
        [IP if ipv4 else IPv6, IP if inner[0] >> 4 == 4 else IPv6],
        "layers found by scapy",
    )


def check_reply_l2(verdict):
    """Check that the reply goes back to the sender: the MAC addresses are swapped, and the tags are
    the same."""
    got, sent = strip_l2(verdict.received), strip_l2(verdict.sent)
    expect_equal(sent[:2], (got[1], got[0]), "MAC addresses of the reply")
    expect_equal(sent[2:4], got[2:4], "tags and EtherType of the reply")


def check_icmp_checksum(packet):
    if packet[0] >> 4 == 4:
        expect_equal(checksum(packet[:20]), 0xFFFF, "reply's IPv4 header checksum")
        expect_equal(checksum(packet[20:]), 0xFFFF, "reply's ICMP checksum")
    else:
        pseudo = packet[8:40] + struct.pack("!II", len(packet) - 40, 58)
        expect_equal(checksum(pseudo + packet[40:]), 0xFFFF, "reply's ICMPv6 checksum")


def check_echo(verdict):
    """Check that an echo reply from the VIP was sent, with identifier, sequence number and data of
    the request."""
    expect_equal((verdict.action, verdict.why), ("replied", "echo"), f"{verdict}")
    check_reply_l2(verdict)
    request, reply = ip_packet(verdict.received), ip_packet(verdict.sent)
    length = len(reply) + len(verdict.sent) - len(strip_l2(verdict.sent)[4])
    expect_equal(verdict.sent_length, max(length, 60), "nothing but padding behind the reply")
    check_icmp_checksum(reply)
    if request[0] >> 4 == 4:
        start = (request[0] & 15) * 4
        expect_equal((reply[12:16], reply[16:20]), (request[16:20], request[12:16]), "addresses")
        expect_equal(reply[20:22], b"\0\0", "type and code of the reply")
        expect_equal(reply[24:], request[start + 4 :], "identifier, sequence, data")
    else:
        seen = IPv6(reply)
        expect(seen.haslayer(ICMPv6EchoReply), "no ICMPv6 echo reply")
        asked = IPv6(request).payload
        while not hasattr(asked, "seq"):
            asked = asked.payload
        expect_equal((reply[8:24], reply[24:40]), (request[24:40], request[8:24]), "addresses")
        echo = seen[ICMPv6EchoReply]
        expect_equal(
            (echo.id, echo.seq, bytes(echo.data)),
            (asked.id, asked.seq, bytes(asked.data)),
            "identifier, sequence, data",
        )
    expect(reply[8 if reply[0] >> 4 == 4 else 7] >= 64, "TTL of the reply")


def check_too_big(verdict, mtu):
    """Check "fragmentation needed" (RFC 792, 1191) or "packet too big" (RFC 4443), from the VIP."""
    expect_equal(
        (verdict.action, verdict.why, verdict.reason),
        ("replied", "too_big", "mtu_exceeded"),
        f"{verdict}",
    )
    check_reply_l2(verdict)
    refused, reply = ip_packet(verdict.received), ip_packet(verdict.sent)
    check_icmp_checksum(reply)
    if refused[0] >> 4 == 4:
        expect_equal((reply[12:16], reply[16:20]), (refused[16:20], refused[12:16]), "addresses")
        seen = IP(reply)[ICMP]
        expect_equal((seen.type, seen.code, seen.nexthopmtu), (3, 4, mtu), "type, code, MTU")
        expect_equal(seen.unused if isinstance(seen.unused, int) else 0, 0, "unused field")
        expect(len(reply) <= 576, "reply longer than 576 bytes")
        quoted = reply[28:]
        expect(len(quoted) >= (refused[0] & 15) * 4 + 8, "too little quoted")
    else:
        expect_equal((reply[8:24], reply[24:40]), (refused[24:40], refused[8:24]), "addresses")
        seen = IPv6(reply)[ICMPv6PacketTooBig]
        expect_equal((seen.type, seen.code, seen.mtu), (2, 0, mtu), "type, code, MTU")
        expect(len(reply) <= 1280, "reply longer than 1280 bytes")
        quoted = reply[48:]
        expect_equal(len(reply), min(1280, 48 + len(refused)), "as much quoted as fits")
    expect_equal(quoted, refused[: len(quoted)], "quoted packet")


def check_reset(verdict):
    """Check that the sender got an RST that its TCP accepts (RFC 9293, 3.10.7.1)."""
    expect_equal((verdict.action, verdict.why), ("replied", "reset"), f"{verdict}")
    expect_equal(verdict.reason, "backend_down", f"{verdict}")
    segment = bytes(Ether(verdict.received)["TCP"])
    check_segment(verdict, 0x04, segment[8:12], bytes(4))


def check_challenge(verdict):
    """Check that the sender got a challenge ACK, which acknowledges the sequence number of its SYN
    (RFC 5961, 4.2)."""
    expect_equal((verdict.action, verdict.why), ("replied", "challenge"), f"{verdict}")
    expect_equal(verdict.reason, None, f"{verdict}")
    segment = bytes(Ether(verdict.received)["TCP"])
    check_segment(verdict, 0x10, bytes(4), segment[4:8])


def check_segment(verdict, flags, sequence, acknowledged):
    """Check that the reply is a TCP segment from the VIP without data, with these fields."""
    check_reply_l2(verdict)
    asked = ip_packet(verdict.received)
    kind, answer = strip_l2(verdict.sent)[3], ip_packet(verdict.sent)
    if kind == 0x0800:
        expect_equal(answer[0], 0x45, "version and header length")
        expect_equal(struct.unpack_from("!H", answer, 2)[0], 40, "total length")
        expect_equal(struct.unpack_from("!HH", answer, 4), (0, 0x4000), "identification, DF")
        expect_equal((answer[8], answer[9]), (64, 6), "TTL and protocol")
        expect_equal(checksum(answer[:20]), 0xFFFF, "IPv4 checksum")
        expect_equal(answer[12:20], asked[16:20] + asked[12:16], "addresses")
        pseudo, tcp = answer[12:20] + struct.pack("!HH", 6, 20), answer[20:]
    else:
        expect_equal(struct.unpack_from("!IHBB", answer), (6 << 28, 20, 6, 64), "IPv6 header")
        expect_equal(answer[8:40], asked[24:40] + asked[8:24], "addresses")
        pseudo, tcp = answer[8:40] + struct.pack("!II", 20, 6), answer[40:]
    segment = bytes(Ether(verdict.received)["TCP"])
    expect_equal(len(tcp), 20, "TCP header alone")
    expect_equal(checksum(pseudo + tcp), 0xFFFF, "TCP checksum")
    expect_equal(tcp[0:4], segment[2:4] + segment[0:2], "ports")
    expect_equal(tcp[4:8], sequence, "sequence number")
    expect_equal(tcp[8:12], acknowledged, "acknowledgement number")
    expect_equal((tcp[12], tcp[13]), (0x50, flags), "data offset, flags")
    expect_equal(tcp[14:16] + tcp[18:20], bytes(4), "window, urgent pointer")
