#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""gRPC servers for test_health_grpc. grpc_server.py PLAIN TLS BARE KEY CERTIFICATE

PLAIN and TLS have the health service, BARE has none. A service is what its name says: "serving",
"not-serving"; "" serves; "odd" sends bytes that are no answer; others are not found.
"""
import sys
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


plain, tls, bare = server(True), server(True), server(False)
with open(sys.argv[4], "rb") as key, open(sys.argv[5], "rb") as certificate:
    credentials = grpc.ssl_server_credentials([(key.read(), certificate.read())])
plain.add_insecure_port(f"[::]:{sys.argv[1]}")
tls.add_secure_port(f"[::]:{sys.argv[2]}", credentials)
bare.add_insecure_port(f"[::]:{sys.argv[3]}")
for one in plain, tls, bare:
    one.start()
plain.wait_for_termination()
