#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the TCP statistics of weir-agent run, with connections between two network namespaces."""
import select
import socket
import struct
import sys

from agent_lab import (BACKEND, BACKEND6, BITS, KEYS, PORT, listen, run_scenarios, scenario, seal)
from clients import lose
from netns import wait_for

TCP_BIT = 1 << 30
FAMILY = struct.Struct("!QQQQIIII")
FAMILY_FIELDS = ("segments retransmitted sent_bytes delivery_rate connections rtt_median_us "
                 "rtt_p99_us rated").split()
FIGURES = struct.Struct("!QQ16sQI48s48sB")


def figures(balancer, timeout=1.0):
    """Returns the next TCP statistics, {"age_ms", "ipv4": {...}, "ipv6": {...}, "partial"}, or None."""
    if not select.select([balancer.socket], [], [], timeout)[0]:
        return None
    data = balancer.socket.recv(2048)
    assert len(data) == 256 and data[:6] == b"WEIR\1\5", data[:8]
    assert seal(data[:224], KEYS[balancer.key]) == data, "not authentic"
    assert not any(data[8 + FIGURES.size:224]), "rest"
    agent, number, challenge, _, age_ms, ipv4, ipv6, partial = FIGURES.unpack_from(data, 8)
    assert (agent, number, challenge) == (balancer.agent, balancer.number, balancer.challenge)
    return {"age_ms": age_ms, "partial": partial,
            "ipv4": dict(zip(FAMILY_FIELDS, FAMILY.unpack(ipv4))),
            "ipv6": dict(zip(FAMILY_FIELDS, FAMILY.unpack(ipv6)))}


def measured(balancer):
    """Returns the first TCP statistics that contain connections."""
    found = []

    def ask():
        balancer.ask()
        found.append(figures(balancer, 0.2))
        return found[-1] is not None
    wait_for("TCP statistics", ask)
    return found[-1]


def wait_figures(balancer, what, holds):
    last = [None]

    def ask():
        last[0] = measured(balancer)
        return holds(last[0])
    try:
        wait_for(what, ask, 20)
    except AssertionError as error:
        raise AssertionError(f"{error}; last: {last[0]}") from None
    return last[0]


def sent(family, size):
    """Returns whether `size` bytes were sent. On a busy machine, the kernel may retransmit
    segments, and also counts their bytes."""
    again = family["sent_bytes"] - size
    return again == 0 or 0 < again <= 65536 * family["retransmitted"]


def connect(lab, address, server):
    with lab.client.inside():
        client = socket.create_connection((address, PORT), 10)
    return client, server.accept()[0]


def move(sender, receiver, size):
    """Send data from one end of a connection to the other."""
    sender.setblocking(False)
    sent = received = 0
    while received < size:
        writable = [sender] if sent < size else []
        readable, writable, _ = select.select([receiver], writable, [], 10)
        assert readable or writable, "stalled"
        if writable:
            sent += sender.send(bytes(min(65536, size - sent)))
        if readable:
            received += len(receiver.recv(1 << 20))


@scenario
def nothing_is_looked_at_or_sent_without_a_request(lab):
    lab.start_agent("--port", str(PORT))
    other, stranger = lab.balancer(wants=BITS["port_words"]), lab.balancer(wants=TCP_BIT)
    for _ in range(3):
        other.ask()
        assert figures(other, 0.2) is None
    status = lab.status()
    assert "tcp" not in status and status["datagrams"]["tcp"] == 0, status
    # A probe may be a replay with a forged sender, until a second probe proves that the balancer
    # has received an answer. A probe without this proof gets one datagram without statistics, even
    # if another balancer gets statistics.
    stranger.ask(hear=False), stranger.ask(hear=False)
    assert figures(stranger, 0.2) is None and "tcp" not in lab.status()
    measured(lab.balancer(wants=TCP_BIT))
    stranger.ask(hear=False)
    assert figures(stranger, 0.2) is None
    stranger.ask()
    assert measured(stranger) is not None


@scenario
def connections_of_both_families_are_measured(lab):
    lab.start_agent("--port", str(PORT))
    balancer = lab.balancer(wants=TCP_BIT)
    server, server6 = listen(lab), listen(lab, BACKEND6)
    other = listen(lab, port=PORT + 1)
    pairs = [connect(lab, BACKEND, server) for _ in range(3)] + [connect(lab, BACKEND6, server6)]
    with lab.client.inside():
        unwatched = socket.create_connection((BACKEND, PORT + 1), 10)
    with lab.backend.inside():  # a connection within the host itself
        local = socket.create_connection((BACKEND, PORT), 10)
    assert server.accept()[0] is not None
    first = wait_figures(balancer, "4 connections", lambda now: (
        now["ipv4"]["connections"], now["ipv6"]["connections"]) == (3, 1))
    assert first["ipv4"]["sent_bytes"] == first["ipv6"]["sent_bytes"] == 0, first
    assert 0 < first["ipv4"]["rtt_median_us"] <= first["ipv4"]["rtt_p99_us"], first
    assert first["age_ms"] < 5000 and not first["partial"], first
    move(pairs[0][1], pairs[0][0], 1 << 20)
    move(pairs[3][1], pairs[3][0], 1000)
    # Data from the client does not count as sent by the server
    move(pairs[1][0], pairs[1][1], 1 << 20)
    now = wait_figures(balancer, "bytes", lambda now: sent(now["ipv4"], 1 << 20) and sent(now["ipv6"], 1000))
    assert now["ipv4"]["segments"] > 10 and now["ipv6"]["segments"] == 1 + now["ipv6"]["retransmitted"], now
    # A connection that opens and closes between two requests is also counted, if the agent read the
    # sockets while the connection was open.
    pairs.append(connect(lab, BACKEND, server))
    move(pairs[4][1], pairs[4][0], 2000)
    wait_figures(balancer, "bytes", lambda now: sent(now["ipv4"], (1 << 20) + 2000))
    for pair in pairs:
        pair[1].close(), pair[0].close()
    end = wait_figures(balancer, "no connection", lambda now: now["ipv4"]["connections"] == 0 and
                       now["ipv6"]["connections"] == 0)
    assert sent(end["ipv4"], (1 << 20) + 2000) and end["ipv4"]["rtt_p99_us"] == 0, end
    status = lab.status()["tcp"]
    assert status["looks"] > 2 and status["ipv4_sent_bytes"] == end["ipv4"]["sent_bytes"], status
    wait_for("the line of status", lambda: measured(balancer) and "tcp        ipv4_sent_bytes" in lab.command("status"),
             20)
    for each in (unwatched, local, other, server, server6):
        each.close()


@scenario
def clients_of_ipv4_at_a_socket_of_both_families_are_of_ipv4(lab):
    lab.start_agent("--port", str(PORT))
    balancer = lab.balancer(wants=TCP_BIT)
    with lab.backend.inside():
        server = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True)
        local = socket.create_connection(("127.0.0.1", PORT), 10)
    assert server.accept()[0] is not None
    pairs = [connect(lab, BACKEND, server), connect(lab, BACKEND, server)]
    wait_figures(balancer, "2 connections", lambda now: (
        now["ipv4"]["connections"], now["ipv6"]["connections"]) == (2, 0))
    for pair in pairs:
        pair[0].close(), pair[1].close()
    local.close(), server.close()


@scenario
def lost_packets_show_as_retransmitted(lab):
    lab.start_agent("--port", str(PORT))
    balancer = lab.balancer(wants=TCP_BIT)
    server = listen(lab)
    client, accepted = connect(lab, BACKEND, server)
    measured(balancer)
    move(accepted, client, 1 << 20)
    before = wait_figures(balancer, "bytes", lambda now: now["ipv4"]["sent_bytes"] >= 1 << 20)
    lose(client, 20)
    # A packet on a veth has up to 64 KiB, so 1 MiB is only a few packets and may arrive without a
    # loss.
    for n in range(2, 22):
        move(accepted, client, 1 << 20)
        now = wait_figures(balancer, "bytes", lambda now, sent=n << 20: now["ipv4"]["sent_bytes"] >= sent)
        lost = now["ipv4"]["retransmitted"] - before["ipv4"]["retransmitted"]
        if lost:
            break
    assert 0 < lost < now["ipv4"]["segments"], (before, now)
    client.close(), accepted.close(), server.close()


@scenario
def looks_end_with_the_request_and_go_on_with_the_next(lab):
    lab.start_agent("--port", str(PORT))
    balancer = lab.balancer(wants=TCP_BIT)
    server = listen(lab)
    pair = connect(lab, BACKEND, server)
    measured(balancer)
    move(pair[1], pair[0], 5000)
    wait_figures(balancer, "bytes", lambda now: sent(now["ipv4"], 5000))
    balancer.wants = 0
    balancer.ask()
    assert figures(balancer, 0.2) is None and "tcp" not in lab.status()
    move(pair[1], pair[0], 7000)  # data sent while the agent does not read the sockets
    balancer.wants = TCP_BIT
    again = measured(balancer)
    assert sent(again["ipv4"], 5000) and again["ipv4"]["connections"] == 1, again
    for each in (*pair, server):
        each.close()


if __name__ == "__main__":
    sys.exit(run_scenarios())
