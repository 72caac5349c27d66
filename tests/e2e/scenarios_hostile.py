# SPDX-License-Identifier: BSD-3-Clause
"""Forged packets together with real flows and clients.

WEIR_FLOOD_SECONDS sets how long each flood lasts (default 1).
"""
import contextlib
import os
import re
import time

from lab import VIP4, echo, web
from netns import sh, wait_for
from scenario import scenario

SECONDS = int(os.environ.get("WEIR_FLOOD_SECONDS", "1"))
FLOWS = 100_000
CHUNK = 1_000
CONNECTIONS = 16  # connections of wrk
# Room for all FLOWS flows, in addition to the quarter of the table for half-open flows. If the table
# were full, idle flows would be evicted.
TABLE = {"flow_table": {"flows_per_worker": 150_000}}
ROUND_ROBIN = {"name": "round-robin"}  # with round robin, a flow lost from the table gets another backend
FORGED = ("syn", "ack", "rst", "fin", "data", "udp", "fragment", "icmp")


def worker(lab):
    return lab.api("worker.show")[0]


def flood(lab, *arguments, port=80):
    """Run flood. Returns the number of packets sent."""
    program = os.path.join(lab.build, "tests", "e2e", "flood")
    lab.port_mac = lab.port_mac or lab.mac(lab.lb, "lb0")
    with lab.net.inside():
        return int(sh(program, "lb0", lab.port_mac, VIP4, str(port),
                      *(str(a) for a in arguments)))


def send_chunk(lab, kind, first):
    """Send a packet of each of CHUNK flows and wait until all have arrived: the worker has no dedicated core."""
    for _ in range(20):
        before = worker(lab)["rx_packets"]
        flood(lab, "flows", kind, first, CHUNK)
        try:
            wait_for("packets to arrive", lambda: worker(lab)["rx_packets"] >= before + CHUNK, 1)
            return
        except AssertionError:
            continue
    raise AssertionError(f"{CHUNK} packets never arrived together")


def establish(lab):
    """Start FLOWS flows with a handshake and data."""
    for first in range(0, FLOWS, CHUNK):
        for kind in ("syn", "ack", "data"):
            send_chunk(lab, kind, first)
    w = worker(lab)
    assert w["flows"] == FLOWS and w["flows_half_open"] == 0, w


@contextlib.contextmanager
def clients_silenced(lab):
    """Keep the clients from sending, because late retransmissions of their connections would start new flows."""
    vips = ("blackhole", "198.51.100.0/24")

    def silent():
        before = worker(lab)["rx_packets"]
        time.sleep(1)
        return worker(lab)["rx_packets"] == before
    lab.client.ip("route", "add", *vips)
    try:
        wait_for("no more packets of clients", silent, 30)
        yield
    finally:
        lab.client.ip("route", "del", *vips)


def check_flows(lab):
    """Check that a packet of each flow finds its flow."""
    with clients_silenced(lab):
        before = worker(lab)
        for first in range(0, FLOWS, CHUNK):
            send_chunk(lab, "data", first)
        after = worker(lab)
    lost = {key: after[key] - before[key] for key in ("flow_new", "flow_untracked")}
    assert not any(lost.values()), f"flows were lost: {lost}"
    assert after["flow_hits"] - before["flow_hits"] >= FLOWS, (before, after)


def resident_kib(lab):
    with open(f"/proc/{lab.programs['dataplane'].pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))


def check_sums(lab):
    """Check that each received packet was sent, or dropped with a counted reason."""
    def adds_up():
        w = worker(lab)
        return w["rx_packets"] == w["forwarded"] + w["replied"] + w["to_kernel"] + w["dropped"] \
            and w["dropped"] == sum(lab.drops().values())
    wait_for("counters to add up", adds_up, 5)


def start_wrk(lab, name):
    """Run wrk, and wait until it has all its connections: a handshake at the start of a flood may
    fail (docs/design/threat-model.md). Its timeout is long: with few CPUs, most packets of the
    flood, and also packets of wrk, are lost before they reach the dataplane, and TCP retransmits
    with growing delays."""
    def connected():
        with lab.client.inside():
            return len(sh("ss", "-Htn", "state", "established", "dst", VIP4).splitlines())
    program = lab.program(name, lab.client, "wrk", "-t1", f"-c{CONNECTIONS}",
                          f"-d{SECONDS + 2}s", "--timeout", f"{SECONDS + 30}s",
                          f"http://{VIP4}/")
    wait_for("wrk's connections", lambda: connected() >= CONNECTIONS, 2)
    return program


def check_wrk(text):
    assert "Non-2xx" not in text, text
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)",
                       text)
    assert not errors, text
    assert int(re.search(r"(\d+) requests in", text).group(1)) > 20 * SECONDS, text


@scenario(services=[web(policy=ROUND_ROBIN), echo(policy=ROUND_ROBIN)], config=TABLE, alone=True,
          seconds=180 + 2 * SECONDS * len(FORGED))
def forged_packets_cost_no_flow_and_no_request(lab):
    """During floods of each kind, none of 100,000 flows is lost and no request of wrk fails"""
    establish(lab)
    check_flows(lab)
    resident = resident_kib(lab)
    for kind in FORGED:
        program = start_wrk(lab, f"wrk-{kind}")
        sent = flood(lab, kind, SECONDS, port=9000 if kind in ("udp", "fragment") else 80)
        print(f"{kind}: {sent / SECONDS / 1000:.0f} kpps")
        wait_for("wrk to end", lambda p=program: not p.alive(), 30)
        check_wrk(program.output())
        check_sums(lab)
        check_flows(lab)
    grown = resident_kib(lab) - resident
    assert grown < 1024, f"the dataplane took {grown} KiB more"
