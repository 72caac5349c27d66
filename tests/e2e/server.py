#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The servers of a backend in the lab, in addition to nginx. server.py NAME VIP...

tcp 7000  lines: answers each line with "NAME <line>"; a connection lives as long as the client's
tcp 7001  upload: reads to the end of the stream, then answers "NAME <bytes> <sha256>"
udp 9000  echo: answers "NAME <payload>", one socket per VIP so that the answer comes from it
"""
import asyncio
import hashlib
import sys


class Echo(asyncio.DatagramProtocol):
    def __init__(self, name):
        self.name, self.transport = name, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(self.name.encode() + b" " + data, addr)


async def main(name, vips):
    async def lines(reader, writer):
        try:
            while line := await reader.readline():
                writer.write(name.encode() + b" " + line)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def upload(reader, writer):
        digest, size = hashlib.sha256(), 0
        try:
            while block := await reader.read(1 << 18):
                digest.update(block)
                size += len(block)
            writer.write(f"{name} {size} {digest.hexdigest()}\n".encode())
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    loop = asyncio.get_running_loop()
    await asyncio.start_server(lines, None, 7000, backlog=512)
    await asyncio.start_server(upload, None, 7001, backlog=64, limit=1 << 20)
    for vip in vips:
        await loop.create_datagram_endpoint(lambda: Echo(name), local_addr=(vip, 9000))
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
