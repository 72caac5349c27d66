#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Servers for the health checks of a backend. check_server.py FOLDER

tcp 8443  HTTPS with FOLDER/web.pem: 200 or 503 with X-Weir-State, depending on the file
FOLDER/state
tcp 9777  an agent of HAProxy's agent-check: sends the line in FOLDER/line
"""
import asyncio
import os
import ssl
import sys

FOLDER = sys.argv[1]


def text(name):
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="ascii") as file:
        return file.read()


async def web(reader, writer):
    try:
        await reader.readuntil(b"\r\n\r\n")
        state = text("state")
        head = f"503 Draining\r\nX-Weir-State: {state}" if state else "200 OK"
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 3\r\n\r\nok\n".encode())
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    writer.close()


async def agent(_, writer):
    try:
        writer.write(text("line").encode() + b"\n")
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(FOLDER, "web.pem"), os.path.join(FOLDER, "web.key"))
    await asyncio.start_server(web, None, 8443, ssl=context)
    await asyncio.start_server(agent, None, 9777)
    await asyncio.Event().wait()


asyncio.run(main())
