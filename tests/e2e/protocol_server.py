#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Servers of text protocols on all addresses. protocol_server.py FILE ADDRESS...

tcp 25    greets as an SMTP server
tcp 6379  replies to the PING of a Redis client, which is complete with its line end
udp 7007  replies "pong" to "ping", on each ADDRESS

If FILE exists, all answer with its content instead. After its answer the Redis server resets the
connection, as a server does that closes a connection with unread data.
"""
import asyncio
import os
import socket
import struct
import sys


def answer(usual):
    if not os.path.exists(sys.argv[1]):
        return usual
    with open(sys.argv[1], "rb") as file:
        return file.read()


async def smtp(reader, writer):
    try:
        writer.write(answer(b"220 mx.example ESMTP\r\n"))
        await reader.read()
    except ConnectionError:
        pass
    writer.close()


async def redis(reader, writer):
    try:
        if await reader.readuntil(b"\r\n") == b"PING\r\n":
            writer.write(answer(b"+PONG\r\n"))
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    writer.close()


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        if data == b"ping":
            self.transport.sendto(answer(b"pong"), addr)


async def main():
    for address in sys.argv[2:]:  # a socket of all addresses would answer from another one than the VIP
        await asyncio.get_running_loop().create_datagram_endpoint(Echo, (address, 7007))
    await asyncio.start_server(smtp, None, 25)
    await asyncio.start_server(redis, None, 6379)
    print("serving", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
