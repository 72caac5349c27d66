#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""gRPC servers for test_health_grpc. grpc_server.py PLAIN TLS BARE REFUSING KEY CERTIFICATE

PLAIN and TLS have the health service, BARE has none, REFUSING refuses each request. The name of a
service determines its answer: "serving", "not-serving"; "" serves; "odd" sends bytes that are
not a valid answer; other names are not found.
"""
import contextlib
import socket
import sys
import threading
from concurrent import futures

import grpc

ANSWERS = {b"": b"\x08\x01", b"serving": b"\x08\x01", b"not-serving": b"\x08\x02",
           b"long-" + 200 * b"x": b"\x08\x01", b"odd": b"\x08"}


def check(request, context):
    name = request[2:] if len(request) < 130 else request[3:]
    if name not in ANSWERS:
        context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
    context.set_trailing_metadata((("x-weir-spare", "1"),))
    return ANSWERS[name]


def server(health):
    made = grpc.server(futures.ThreadPoolExecutor(4))
    if health:
        method = grpc.unary_unary_rpc_method_handler(check)
        made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": method}),))
    return made


def refuse(port):
    """HTTP/2: SETTINGS, and for each HEADERS an RST_STREAM with REFUSED_STREAM."""
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        connection = listener.accept()[0]
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            stream.read(24)
            connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            while len(head := stream.read(9)) == 9:
                stream.read(int.from_bytes(head[:3], "big"))
                if head[3] == 1:
                    connection.sendall(bytes((0, 0, 4, 3, 0)) + head[5:] + bytes((0, 0, 0, 7)))


plain, tls, bare = server(True), server(True), server(False)
with open(sys.argv[5], "rb") as key, open(sys.argv[6], "rb") as certificate:
    credentials = grpc.ssl_server_credentials([(key.read(), certificate.read())])
plain.add_insecure_port(f"[::]:{sys.argv[1]}")
tls.add_secure_port(f"[::]:{sys.argv[2]}", credentials)
bare.add_insecure_port(f"[::]:{sys.argv[3]}")
for one in plain, tls, bare:
    one.start()
threading.Thread(target=refuse, args=(int(sys.argv[4]),), daemon=True).start()
plain.wait_for_termination()
