#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Servers for test_health_resets that answer and then reset the connection.

reset_server.py FIRST_PORT KEY CERTIFICATE

Port FIRST_PORT + n has the properties whose bits are set in n: 1 = does not read the request,
2 = TLS, 4 = gRPC (HTTP/2) instead of HTTP/1.1, 8 = failing answer, 16 = truncated answer. Each
answer contains a load report.
"""
import http.server
import select
import socket
import socketserver
import ssl
import struct
import sys
import threading

UNREAD, TLS, GRPC, BAD, CUT, PORTS = 1, 2, 4, 8, 16, 24
LOAD = "TEXT rps_fractional=7"


def reset_on_close(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def wait_for_request(connection):
    """Wait until the request has arrived, because the kernel resets a connection that is closed
    with unread data."""
    select.select([connection], [], [], 5)


class Web(http.server.BaseHTTPRequestHandler):
    # Nagle's algorithm is off, because otherwise the answer might still wait for an ACK when the connection is reset
    disable_nagle_algorithm = True

    def answer(self):
        self.send_response(503 if self.server.kind & BAD else 200)
        self.send_header("endpoint-load-metrics", LOAD)
        if not self.server.kind & CUT:
            self.end_headers()
            self.wfile.write(b"synced")
        else:
            self.flush_headers()

    def do_GET(self):
        self.answer()
        reset_on_close(self.connection)

    def handle(self):
        if not self.server.kind & UNREAD:
            super().handle()
            return
        wait_for_request(self.connection)
        self.request_version, self.requestline, self.command = "HTTP/1.1", "", "GET"
        self.answer()

    def log_message(self, *_):
        pass


# --- HTTP/2 ---------------------------------------------------------------------------------

PREFACE = 24
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    length = struct.pack("!I", len(payload))[1:]
    return length + bytes((kind, flags)) + struct.pack("!I", stream) + payload


def field(name, value):
    """Returns a literal header field (HPACK) that is not indexed."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


class Grpc(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def read_request(self):
        self.rfile.read(PREFACE)
        while True:
            head = self.rfile.read(9)
            self.rfile.read(int.from_bytes(head[:3], "big"))
            if head[3] in (DATA, HEADERS) and head[4] & END_STREAM:
                return

    def handle(self):
        kind = self.server.kind
        serving = b"\x08\x02" if kind & BAD else b"\x08\x01"
        head = b"\x88" + field("content-type", "application/grpc")  # status 200
        answer = [frame(SETTINGS, 0, 0), frame(HEADERS, END_HEADERS, 1, head),
                  frame(DATA, 0, 1, struct.pack("!BI", 0, len(serving)) + serving)]
        if not kind & CUT:
            answer.append(frame(HEADERS, END_HEADERS | END_STREAM, 1,
                                field("grpc-status", "0") + field("endpoint-load-metrics", LOAD)))
        if kind & UNREAD:
            wait_for_request(self.connection)
        else:
            self.read_request()
        self.wfile.write(b"".join(answer))
        if not kind & UNREAD:
            reset_on_close(self.connection)


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, kind, port, context):
        super().__init__(("127.0.0.1", port), Grpc if kind & GRPC else Web)
        self.kind = kind
        self.context = context

    def finish_request(self, request, client_address):
        if not self.kind & TLS:
            super().finish_request(request, client_address)
            return
        with self.context.wrap_socket(request, server_side=True) as connection:
            super().finish_request(connection, client_address)

    def shutdown_request(self, request):
        self.close_request(request)  # socketserver would send a FIN first

    def handle_error(self, *_):
        pass  # the client has reset the connection first


tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(sys.argv[3], sys.argv[2])
tls.set_alpn_protocols(["h2", "http/1.1"])
servers = [Server(kind, int(sys.argv[1]) + kind, tls) for kind in range(PORTS)]
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
servers[0].serve_forever()
