# SPDX-License-Identifier: BSD-3-Clause
"""Captures packets at devices with the kernel's timestamps, which are exact even if this or
another process waits for a CPU."""
import contextlib
import socket
import struct
from collections import namedtuple

SO_TIMESTAMPNS, SO_RCVBUFFORCE, PACKET_STATISTICS = 35, 33, 6
SOL_PACKET, ETH_P_ALL, PACKET_OUTGOING = 263, 3, 4
BUFFER_BYTES = 64 << 20
ETHERNET_BYTES, IPIP = 14, 4

# at: seconds since 1970; sent: whether the device's host sent the packet; to: address; source,
# destination: ports; data: after the UDP or TCP header; flags: TCP flags
Seen = namedtuple("Seen", "at sent protocol to source destination flags data")


def stamping():
    """Returns a socket that makes the kernel timestamp received packets while the socket is open. The kernel starts
    timestamping a moment after the request. Earlier packets get the time at which they are read."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return sock


class Listening:
    """Captures the packets of a device after the call. They stay in the kernel until they are read,
    so that no code here runs during a measurement. STAMPED: 1 = with timestamps."""

    def __init__(self, namespace, device):
        with namespace.inside():
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
            self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, self.STAMPED)
            self.sock.bind((device, ETH_P_ALL))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


class Wire(Listening):
    """Captures the frames of a device after the call."""
    STAMPED = 0

    def read(self):
        return self._read(True)

    def read_received(self):
        """Returns the frames that the device received."""
        return self._read(False)

    def _read(self, sent):
        frames = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, address = self.sock.recvfrom(65536)
                if (address[2] == PACKET_OUTGOING) == sent:
                    frames.append(frame)
        return frames


class Tap(Listening):
    """Captures the IPv4 packets of a device, from now on. Needs an open socket of stamping()."""
    STAMPED = 1

    def read(self):
        """Returns the packets since the last call, ordered by time."""
        seen = []
        while True:
            try:
                frame, ancillary, _, name = self.sock.recvmsg(2048, 64)
            except BlockingIOError:
                break
            seconds, ns = struct.unpack("qq", ancillary[0][2][:16])
            packet = parse(frame, seconds + ns / 1e9, name[2] == PACKET_OUTGOING)
            if packet:
                seen.append(packet)
        lost = struct.unpack("II", self.sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        assert lost == 0, f"{lost} packets did not fit into the buffer"
        return sorted(seen, key=lambda packet: packet.at)


def parse(frame, at, sent):
    """Returns a Seen for a complete TCP or UDP packet in IPv4, also in a tunnel packet; None for other frames."""
    if frame[12:14] != b"\x08\x00":
        return None
    packet = frame[ETHERNET_BYTES:]
    if packet[9] == IPIP:
        packet = packet[(packet[0] & 15) * 4:]
    protocol, segment = packet[9], packet[(packet[0] & 15) * 4:]
    if protocol not in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        return None
    tcp = protocol == socket.IPPROTO_TCP
    begin = (segment[12] >> 4) * 4 if tcp else 8
    source, destination = struct.unpack_from("!HH", segment)
    return Seen(at, sent, protocol, socket.inet_ntoa(packet[16:20]), source, destination,
                segment[13] if tcp else 0, bytes(segment[begin:]))
