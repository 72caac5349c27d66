# SPDX-License-Identifier: BSD-3-Clause
"""Behaviour at the limits: floods, full tables, fragments, invalid packets."""
import json
import os
import random
import re
import socket
import struct

import clients
from lab import BACKENDS, VIP4, backend_address, lines, web
from netns import wait_for
from scenario import scenario

SMALL_TABLE = {"flow_table": {"flows_per_worker": 1024}}


def syn(source, port, destination=VIP4, destination_port=7000, flags=2, payload=b""):
    """Returns an IPv4 packet with a TCP segment; the kernel fills in the IP checksum."""
    tcp = struct.pack("!HHIIBBHHH", port, destination_port, random.getrandbits(32), 0, 5 << 4,
                      flags, 65535, 0, 0)
    pseudo = socket.inet_aton(source) + socket.inet_aton(destination) \
        + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(tcp) + len(payload))
    data = pseudo + tcp + payload + b"\0" * (len(payload) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    tcp = tcp[:16] + struct.pack("!H", ~total & 0xffff) + tcp[18:]
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + len(payload), 0, 0x4000, 64,
                         socket.IPPROTO_TCP, 0, socket.inet_aton(source),
                         socket.inet_aton(destination))
    return header + tcp + payload


def raw_socket(namespace):
    with namespace.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    return sock


def worker_sum(lab, counter):
    return sum(w[counter] for w in lab.api("worker.show"))


@scenario(short=True, services=[lines(), web()], config=SMALL_TABLE)
def syn_flood_evicts_no_established_flow(lab):
    """After 20,000 forged SYNs to a table of 1,024 flows, open connections continue and new connections work"""
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    with raw_socket(lab.client) as sock:
        for n in range(20000):
            source = f"203.0.113.{n % 250 + 1}"
            sock.sendto(syn(source, 1024 + n // 250), (VIP4, 0))
            if n % 2000 == 0:
                clients.check_lines(found)
    wait_for("half-open flows evicted or not entered",
             lambda: worker_sum(lab, "flow_half_open_evicted") + worker_sum(lab, "flow_untracked")
             > 1000, 10)
    assert worker_sum(lab, "flows") <= 1024
    clients.check_lines(found)
    result = clients.curl_batch(lab.client, VIP4, 50)
    assert result.ok == 50, result.errors[:5]
    clients.check_lines(found)


@scenario(services=[lines()], config=SMALL_TABLE)
def flood_takes_the_share_of_half_open_flows(lab):
    """A SYN flood uses up the share of half-open flows: status, doctor and the log do not call the table full"""
    no_room = "has no room for half-open flows"
    with raw_socket(lab.client) as sock:
        for n in range(20000):
            sock.sendto(syn(f"203.0.113.{n % 250 + 1}", 1024 + n // 250), (VIP4, 0))
            if n % 100 == 0 and worker_sum(lab, "flow_untracked") > 0:
                break
    wait_for("the line in the log", lambda: f"the flow table {no_room}" in lab.programs["control"].output(), 5)
    status = json.loads(lab.weirctl("status", "--json", check=False)[1])
    assert status["no_room_for"] == "half-open" and f"the flow table {no_room}: " in status["summary"], status
    assert "is full" not in status["summary"] + lab.programs["control"].output(), status
    _, out, _ = lab.weirctl("doctor", check=False)
    assert re.search(f"warning +dataplane +flow table +{no_room}: .* flow_table.half_open_percent", out), out


@scenario(services=[lines()], config=SMALL_TABLE)
def full_table_refuses_no_connection(lab):
    """If only 1,024 of 1,500 connections fit into the table, the others use the Maglev fallback and are counted"""
    opened = []
    try:
        for _ in range(1500):
            opened.append(clients.Line(lab.client, VIP4))
        assert worker_sum(lab, "flow_untracked") > 0
        for line in opened:
            assert line.ask() == line.backend, "a connection moved"
        assert lab.api("status")["no_room_for"] == "flows"
        code, out, _ = lab.weirctl("status", check=False)
        assert code == 1 and "WARNING: the flow table is full: " in out, (code, out)
        wait_for("the line in the log", lambda: "the flow table is full: packets are forwarded without" in
                 lab.programs["control"].output(), 5)
        _, out, _ = lab.weirctl("doctor", check=False)
        assert re.search("warning +dataplane +flow table +is full: ", out), out
    finally:
        for line in opened:
            line.close()


@scenario(short=True, services=[lines()])
def broken_packets_are_counted_drops(lab):
    """Packets with invalid flags or lengths, and fragments without a first fragment, are dropped and counted"""
    line = clients.Line(lab.client, VIP4)
    cases = (("tcp_flags", syn("192.0.2.2", 4000, flags=3)),
             ("tcp_flags", syn("192.0.2.2", 4001, flags=0)))
    fragment = bytearray(syn("192.0.2.2", 4002, payload=b"x" * 64))
    fragment[6:8] = struct.pack("!H", 100)  # makes this packet the last fragment of a datagram, at byte 800
    header_length = bytearray(syn("192.0.2.2", 4003))
    header_length[20 + 12] = 4 << 4
    cases += (("fragment_first_missing", bytes(fragment)), ("tcp_header_length", bytes(header_length)))
    with raw_socket(lab.client) as sock:
        for name, packet in cases:
            before = lab.drops().get(name, 0)
            sock.sendto(packet, (VIP4, 0))
            wait_for(f"{name} counted", lambda k=name, b=before: lab.drops().get(k, 0) > b, 5)
        for _ in range(2000):  # random bytes after a valid IP header
            junk = bytearray(syn("192.0.2.2", 4004, payload=os.urandom(random.randrange(64))))
            junk[20:40] = os.urandom(20)
            sock.sendto(bytes(junk), (VIP4, 0))
    assert line.ask() == line.backend
    assert lab.programs["dataplane"].alive()
    line.close()


def many_binds(services):
    """Returns services with 256 ports each, each service on its own address."""
    return [{"name": f"many-{i}", "table_size": 2,
             "binds": [{"address": f"203.0.{i // 200}.{i % 200 + 1}", "protocol": "tcp",
                        "port": 1000 + port} for port in range(256)],
             "health_check": {"type": "none"},
             "backends": [{"name": "web-1", "address": backend_address(1)}]}
            for i in range(services)]


@scenario()
def binds_beyond_the_vip_map_are_reported(lab):
    """weirctl reports a reload with more binds than the VIP map of AF_XDP can hold; other binds work"""
    lab.extra = {"instance": {"hash_seed": "0x0123456789abcdef"}}

    def reload(services, status):
        lab.write_config([web()] + many_binds(services))
        done, _, error = lab.weirctl("config", "reload", check=False, timeout=30)
        assert done == status, (done, error)
        return error
    error = reload(258, 1)
    assert error.startswith("weirctl: changes are not published yet: XDP VIP maps: the binds need "), error
    assert "XDP VIP maps" in lab.weirctl("version", check=False)[2]
    result = clients.curl_batch(lab.client, VIP4, 20)
    assert result.ok == 20, result.errors[:5]
    assert reload(1, 0) == ""
    assert lab.weirctl("version")[2] == ""
