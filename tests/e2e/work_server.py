#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A backend with a fixed service time. work_server.py NAME MILLISECONDS

tcp 7002            one connection is one request: waits for the service time, answers "NAME" and
closes
tcp 127.0.0.1:7003  commands, one per line; each is answered with the number of accepted connections:
    count       nothing else
    time MS     service time from now on
    burn MS     additional CPU time that each request takes first
    stuck       accept connections, never answer them
    refuse      stop listening: the kernel answers a SYN with RST
    work        answer again: undoes stuck and refuse
"""
import asyncio
import sys
import time

PORT, COMMAND_PORT = 7002, 7003


class Request(asyncio.Protocol):
    """One connection: accepted now, answered after the service time."""

    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.server.accepted += 1
        self.server.burn()
        if not self.server.stuck:
            asyncio.get_running_loop().call_later(self.server.seconds, self.answer, transport)

    def answer(self, transport):
        transport.write(self.server.answer)
        transport.close()


class Server:
    def __init__(self, name, milliseconds):
        self.answer, self.seconds = name.encode(), milliseconds / 1000
        self.accepted, self.stuck, self.listener = 0, False, None
        self.burn_seconds = 0.0

    def burn(self):
        end = time.process_time() + self.burn_seconds
        while time.process_time() < end:
            pass

    async def listen(self):
        if not self.listener:
            self.listener = await asyncio.get_running_loop().create_server(
                lambda: Request(self), None, PORT, backlog=512)

    async def refuse(self):
        if self.listener:
            self.listener.close()
            self.listener = None

    async def obey(self, reader, writer):
        while line := await reader.readline():
            word, *arguments = line.decode().split()
            if word == "time":
                self.seconds = float(arguments[0]) / 1000
            elif word == "burn":
                self.burn_seconds = float(arguments[0]) / 1000
            elif word == "stuck":
                self.stuck = True
            elif word == "refuse":
                await self.refuse()
            elif word == "work":
                self.stuck = False
                await self.listen()
            elif word != "count":
                break
            writer.write(b"%d\n" % self.accepted)
            await writer.drain()
        writer.close()


async def main(name, milliseconds):
    server = Server(name, milliseconds)
    await server.listen()
    await asyncio.start_server(server.obey, "127.0.0.1", COMMAND_PORT)
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
