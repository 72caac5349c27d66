# SPDX-License-Identifier: BSD-3-Clause
"""Packets of clients, sent and captured outside of the balancer.

A packet socket is open on the far end of the balancer's link. Packets sent on this socket
arrive at the balancer. The socket receives the encapsulated packets that the balancer sends. Every
packet has a number, to check that it was forwarded exactly once, and to which backend.
"""
import ipaddress
import select
import socket
import struct
import threading
import time

from netns import LabError

ETH_P_ALL, PACKET_OUTGOING = 3, 4
IPIP, TCP, UDP = 4, 6, 17
SYN, ACK, FIN, PSH = 2, 16, 1, 8
BUFFER_BYTES = 8 << 20


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return 0xffff - total


def packed(address):
    return ipaddress.IPv4Address(address).packed


def ipv4(source, destination, protocol, payload):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                       packed(source), packed(destination))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


class Wire:
    def __init__(self, namespace, device, mac):
        with namespace.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.socket.bind((device, ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.head = bytes.fromhex(mac.replace(":", "")) + b"\x02\0\0\0\x0c\x01" + b"\x08\0"
        self.sent, self.number = 0, 0

    def close(self):
        self.socket.close()

    def send(self, source, port, vip, protocol, flags=0, correct=False):
        """Returns the number of the packet. correct: whether the TCP checksum is correct; the
        balancer sends no RST for a packet with a wrong checksum."""
        self.number += 1
        if protocol == TCP:
            segment = struct.pack("!HHIIBBHHH", port, 80, self.number, 1, 0x50, flags, 8192, 0, 0)
            if correct:
                pseudo = packed(source) + packed(vip) + struct.pack("!HH", TCP, len(segment))
                segment = segment[:16] + struct.pack("!H", checksum(pseudo + segment)) + segment[18:]
        else:
            segment = struct.pack("!HHHHI", port, 80, 12, 0, self.number)
        self.socket.send(self.head + ipv4(source, vip, protocol, segment))
        self.sent += 1
        return self.number

    def receive(self, wanted, timeout):
        """Returns {number: address of the backend} for the wanted packets, or for fewer packets
        after the timeout. Raises AssertionError for a duplicate or unexpected packet."""
        found, deadline = {}, time.monotonic() + timeout
        while len(found) < len(wanted):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                break
            number, backend = self.parse(*self.socket.recvfrom(2048))
            if number is None:
                continue
            assert number in wanted, f"packet {number} came out, at {backend}, and should not have"
            assert number not in found, f"packet {number} came out twice"
            found[number] = backend
        return found

    def unexpected(self):
        """Returns the numbers of received packets that no caller waits for."""
        numbers = []
        while select.select([self.socket], [], [], 0)[0]:
            number, backend = self.parse(*self.socket.recvfrom(2048))
            if number is not None:
                numbers.append((number, backend))
        return numbers

    @staticmethod
    def parse(frame, address):
        """Returns (number, backend) of an encapsulated packet, or (None, None) for any other
        frame."""
        if address[2] == PACKET_OUTGOING or frame[12:14] != b"\x08\0" or frame[23] != IPIP:
            return None, None
        backend, inner = str(ipaddress.IPv4Address(frame[30:34])), frame[34:]
        at = 24 if inner[9] == TCP else 28
        return struct.unpack_from("!I", inner, at)[0], backend


class Hosts:
    """Targets of health checks: the namespace of each backend that is up has a listening socket."""

    def __init__(self, lab, port):
        self.lab, self.port, self.listeners = lab, port, {}
        self.lock, self.stopping = threading.Lock(), False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        for number in lab.hosts:
            self.open(number)
        self.thread.start()

    def open(self, number):
        with self.lab.namespaces[f"b{number}"].inside():
            listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", self.port))
        listener.listen(64)
        listener.setblocking(False)
        with self.lock:
            self.listeners[number] = listener

    def shut(self, number):
        with self.lock:
            self.listeners.pop(number).close()

    def serve(self):
        while not self.stopping:
            with self.lock:
                sockets = list(self.listeners.values())
                ready = select.select(sockets, [], [], 0)[0]
                for listener in ready:
                    try:
                        listener.accept()[0].close()
                    except (BlockingIOError, ConnectionError):
                        pass
                    except OSError as error:
                        raise LabError(f"accept: {error}") from error
            time.sleep(0.01)

    def close(self):
        self.stopping = True
        self.thread.join()
        for listener in self.listeners.values():
            listener.close()
