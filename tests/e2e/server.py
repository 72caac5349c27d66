#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The servers of a backend in the lab, in addition to nginx. server.py NAME VIP...

tcp 7000  lines: answers each line with "NAME <line>", until the client closes the connection
tcp 7001  upload: reads until end of file, then answers "NAME <bytes> <sha256>"
udp 9000  echo: answers "NAME <payload>", one socket per VIP so that the answer comes from that VIP

Four of these programs start in nearly every scenario. They do not use asyncio, because its import
takes longer than the work of most of them.
"""
import selectors
import socket
import sys

BLOCK = 1 << 18


class Lines:
    def __init__(self, name):
        self.name, self.begun = name, b""

    def received(self, sock, data):
        *lines, self.begun = (self.begun + data).split(b"\n")
        sock.sendall(b"".join(self.name + b" " + line + b"\n" for line in lines))

    def ended(self, sock):
        pass


class Upload:
    def __init__(self, name):
        import hashlib  # no other server needs hashlib, and its import takes time
        self.name, self.digest, self.size = name, hashlib.sha256(), 0

    def received(self, sock, data):
        self.digest.update(data)
        self.size += len(data)

    def ended(self, sock):
        sock.sendall(b"%s %d %s\n" % (self.name, self.size, self.digest.hexdigest().encode()))


class Servers:
    def __init__(self, name):
        self.name, self.ready = name, selectors.DefaultSelector()

    def listen(self, kind, port, backlog):
        for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "")):
            sock = socket.socket(family)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            sock.listen(backlog)
            sock.setblocking(False)  # accept() must not block if a connection is closed before it is accepted
            self.ready.register(sock, selectors.EVENT_READ, lambda s=sock: self.accept(s, kind))

    def accept(self, listener, kind):
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = kind(self.name)
        self.ready.register(sock, selectors.EVENT_READ, lambda: self.receive(sock, connection))

    def receive(self, sock, connection):
        try:
            data = sock.recv(BLOCK)
            if data:
                connection.received(sock, data)
                return
            connection.ended(sock)
        except OSError:
            pass
        self.ready.unregister(sock)
        sock.close()

    def echo(self, vip, port):
        sock = socket.socket(socket.AF_INET6 if ":" in vip else socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((vip, port))
        self.ready.register(sock, selectors.EVENT_READ, lambda: self.return_datagram(sock))

    def return_datagram(self, sock):
        try:
            data, address = sock.recvfrom(1 << 16)
            sock.sendto(self.name + b" " + data, address)
        except OSError:  # an ICMP error about an earlier answer
            pass


def main(name, vips):
    servers = Servers(name.encode())
    servers.listen(Lines, 7000, 512)
    servers.listen(Upload, 7001, 64)
    for vip in vips:
        servers.echo(vip, 9000)
    print("serving", flush=True)
    while True:
        for key, _ in servers.ready.select():
            key.data()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
