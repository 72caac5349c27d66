#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An application that reports its load. canary_server.py NAME

tcp 8080  HTTP; connections are kept open.
    GET /         200, or 500 for every Nth request (/fail/N); header x-backend: NAME
    GET /load     200, for health checks; the header endpoint-load-metrics (ORCA) has the numbers
                  of requests and failures, and the mean time, since the last GET /load
    GET /fail/N   from now on every Nth request fails; 0 = none
"""
import asyncio
import sys
import time

PORT = 8080


class Application:
    def __init__(self, name):
        self.name, self.every, self.served = name, 0, 0
        self.requests = self.errors = 0
        self.since = time.monotonic()

    def load(self):
        now = time.monotonic()
        seconds = max(now - self.since, 0.001)
        values = (f"rps_fractional={self.requests / seconds:.3f}, eps={self.errors / seconds:.3f}, "
                  "named_metrics.service_time_ms=2.5")
        self.requests, self.errors, self.since = 0, 0, now
        return f"endpoint-load-metrics: TEXT {values}\r\n"

    def respond(self, path):
        """Returns the status and further headers."""
        if path == "/load":
            return "200 OK", self.load()
        if path.startswith("/fail/"):
            self.every = int(path[len("/fail/"):])
            return "200 OK", ""
        self.served += 1
        self.requests += 1
        if self.every and self.served % self.every == 0:
            self.errors += 1
            return "500 Internal Server Error", ""
        return "200 OK", ""

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                status, more = self.respond(head.split()[1].decode())
                writer.write(f"HTTP/1.1 {status}\r\nx-backend: {self.name}\r\n{more}"
                             "content-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()


async def main(name):
    await asyncio.start_server(Application(name).serve, None, PORT, backlog=512)
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
