#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A link with a delay in one direction, for kernels without netem:

    slow_link.py NEAR FAR DELAY_MS

forwards frames from device FAR to NEAR at once, and frames from NEAR to FAR after DELAY_MS.
"""
import collections
import select
import socket
import sys
import time

ALL, OUTGOING = 3, 4


def open_device(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    sock.bind((name, 0))
    return sock


def frames(sock):
    """Yields the frames received by a socket, except frames that this host has sent to the device."""
    while True:
        try:
            frame, address = sock.recvfrom(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if address[2] != OUTGOING:
            yield frame


def main():
    near, far = (open_device(name) for name in sys.argv[1:3])
    delay, waiting = float(sys.argv[3]) / 1000, collections.deque()
    print("forwarding", flush=True)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            far.send(waiting.popleft()[1])
        readable = select.select([near, far], [], [], waiting[0][0] - now if waiting else None)[0]
        if near in readable:
            waiting.extend((time.monotonic() + delay, frame) for frame in frames(near))
        if far in readable:
            for frame in frames(far):
                near.send(frame)


if __name__ == "__main__":
    main()
