#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A backend that logs its clients. id_server.py NAME LOG BACKLOG

tcp 7004  reads a line, the client's id, appends it to LOG, answers "NAME" and closes. BACKLOG is
          the backlog of its listening socket: the number of connections that can wait.
"""
import os
import socket
import sys
import threading

PORT = 7004


def serve(name, log, connection):
    with connection:
        line = b""
        while not line.endswith(b"\n"):
            block = connection.recv(100)
            if not block:
                return
            line += block
        os.write(log, line)
        connection.sendall(name)


def main(name, log, backlog):
    listener = socket.create_server(("", PORT), backlog=backlog, family=socket.AF_INET6,
                                    dualstack_ipv6=True)
    log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    print("serving", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(name.encode(), log, connection), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
