# SPDX-License-Identifier: BSD-3-Clause
"""Backends that cannot serve, detected without a health check."""
import contextlib
import threading

import clients
from lab import BACKENDS, VIP4, echo, lines
from netns import wait_for
from scenario import scenario


def connect(lab, times):
    """Open connections one after the other. Returns the backends of the connections."""
    served = set()
    for _ in range(times):
        with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
            served.add(line.backend)
    return served


def history(lab, name):
    return [(c["source"], c["why"]) for c in lab.api("health.history", backend=name)]


@scenario(services=[lines()])
def unresolved_next_hop_gets_no_flows(lab):
    """A backend gets no flows before its next hop is resolved, or after its next hop is lost"""
    lab.write_config([lines({name: 100 for name in (*BACKENDS, "web-9")})])
    lab.weirctl("config", "reload")
    assert "web-9" not in connect(lab, 40)
    absent = lab.backend("web-9", "lines")
    assert not absent["resolved"] and not absent["in_selection"], absent
    wait_for("the reason in the history", lambda: any(
        source == "next-hop" and "no ARP/ND reply for 10.0.0.19" in why
        for source, why in history(lab, "web-9")), 10)
    lab.addresses(lab.namespaces["b4"], "eth0", ("10.0.0.19/24",))
    lab.apply()
    wait_for("web-9 to be used", lambda: lab.backend("web-9", "lines")["in_selection"], 15)
    assert ("next-hop", "next hop resolved") in history(lab, "web-9"), history(lab, "web-9")
    lab.stop_host(2)
    lab.lb.ip("neigh", "del", "10.0.0.12", "dev", "lb0")
    wait_for("web-2 to be unused", lambda: not lab.backend("web-2", "lines")["in_selection"], 10)
    lab.wait_published()
    assert "web-2" not in connect(lab, 40)
    lab.start_host(2)
    wait_for("web-2 to be used", lambda: lab.backend("web-2", "lines")["in_selection"], 15)
    assert "web-2" in connect(lab, 100)
    assert "no_neighbour" not in lab.drops(), lab.drops()


# --- ejection ----------------------------------------------------------------------------------

EJECTION = {"outlier_ejection": {"base_ejection_ms": 4000}}
QUICK = {"flow_table": {"flows_per_worker": 65536, "timeout_ms": {"syn_seen": 500}}}


def try_to_connect(lab, times, timeout):
    """Open `times` connections, one after the other. Returns how many failed."""
    failed = 0
    for _ in range(times):
        try:
            clients.Line(lab.client, VIP4, timeout=timeout).close()
        except OSError:
            failed += 1
    return failed


def ejected(lab, name):
    return lab.backend(name, "lines")["ejected"]


def ejected_for_failures(lab, name, timeout):
    """Connect until the backend is ejected. Check that it then gets no new flows."""
    lost = 0

    def is_ejected():
        nonlocal lost
        if not ejected(lab, name):
            lost += try_to_connect(lab, 10, timeout)
        return ejected(lab, name)

    wait_for(f"{name} to be ejected", is_ejected, 30)
    assert lost >= 5, lost
    assert try_to_connect(lab, 40, timeout) == 0
    state = lab.backend(name, "lines")
    assert state["health"] == "healthy" and not state["in_selection"], state
    changes = history(lab, name)
    assert changes[-1][0] == "outliers" and "ejected for 4.0s: consecutive failures" in changes[-1][1], changes
    row = next(r for r in lab.api("health.show", service="lines") if r["backend"] == name)
    assert row["ejections"] == 1 and 0 < row["ejected_ms"] <= 4000, row
    assert not any(ejected(lab, other) for other in BACKENDS if other != name)


@scenario(services=[lines(**EJECTION)], config=QUICK)
def refusing_backend_is_ejected(lab):
    """Without a health check, a stopped server is ejected; the second ejection lasts longer"""
    server = lab.programs["server-3"]
    server.kill()
    ejected_for_failures(lab, "web-3", 2)
    wait_for("the ejection to be over", lambda: not ejected(lab, "web-3"), 10)
    wait_for("web-3 to be ejected again",
             lambda: try_to_connect(lab, 10, 2) >= 0 and ejected(lab, "web-3"), 20)
    assert "ejected for 8.0s" in history(lab, "web-3")[-1][1], history(lab, "web-3")
    lab.start_server(3)
    lab.wait_for_program("server-3", lambda: "serving" in lab.programs["server-3"].output(), 10)
    lab.weirctl("backend", "ready", "lines/web-3")
    assert not ejected(lab, "web-3")
    wait_for("web-3 to be used", lambda: "web-3" in connect(lab, 20), 10)
    assert try_to_connect(lab, 40, 2) == 0 and not ejected(lab, "web-3")


@scenario(services=[lines(**EJECTION)], config=QUICK)
def silent_backend_is_ejected(lab):
    """Without a health check, a host that answers no SYN is ejected, and used again later"""
    host = lab.namespaces["b2"]
    host.ip("route", "add", "blackhole", "192.0.2.0/24")  # the network of the clients
    ejected_for_failures(lab, "web-2", 0.7)
    host.ip("route", "del", "blackhole", "192.0.2.0/24")
    wait_for("the ejection to be over", lambda: not ejected(lab, "web-2"), 10)
    assert history(lab, "web-2")[-1] == ("outliers", "ejection has ended")
    wait_for("web-2 to be used", lambda: "web-2" in connect(lab, 20), 10)
    assert try_to_connect(lab, 40, 2) == 0 and not ejected(lab, "web-2")


@scenario(services=[lines()], config=QUICK)
def backends_are_ejected_only_on_demand(lab):
    """Without outlier_ejection a stopped server is not ejected and still gets flows"""
    lab.programs["server-3"].kill()
    assert try_to_connect(lab, 60, 2) >= 5
    wait_for("the errors to be counted",
             lambda: lab.backend("web-3", "lines")["errors"] >= 5, 5)
    assert not ejected(lab, "web-3") and lab.backend("web-3", "lines")["in_selection"]
    assert all(r["ejections"] is None for r in lab.api("health.show", service="lines"))


# --- tunnels without decapsulation -------------------------------------------------------------------

class Datagrams:
    """Sends a datagram to the echo service every 10 ms, each from a new source port, like a DNS resolver."""

    def __init__(self, namespace, vip):
        self.namespace, self.vip, self.sent, self.stopping = namespace, vip, 0, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def work(self):
        while not self.stopping.wait(0.01):
            with contextlib.closing(clients.Udp(self.namespace, self.vip)) as session:
                session.sock.send(b"query")
                self.sent += 1


REJECTED = "host rejects tunnel packets"
ONE_OF_IPV6 = [{"name": name, "address": address} for name, address in (
    ("web-1", "10.0.0.11"), ("web-2", "10.0.0.12"), ("web-3", "10.0.0.13"),
    ("web-4", "2001:db8:a::14"))]
HALF = {"outlier_ejection": {"base_ejection_ms": 20000, "max_ejection_percent": 50}}


@scenario(services=[echo(ONE_OF_IPV6, **HALF), lines(**HALF)])
def backend_without_decapsulation_is_ejected(lab):
    """Without a health check, a backend whose decapsulator was killed is ejected, for UDP and TCP"""
    def why(service, name):
        return [c["why"] for c in lab.api("health.history", service=service, backend=name)]

    def used(name):
        return lab.backend(name, "echo")["in_selection"]

    with Datagrams(lab.client, VIP4):
        lab.programs["agent-3"].kill()  # its address is IPv4
        lab.programs["agent-4"].kill()
        for service, name, kind in (("echo", "web-3", "protocol unreachable"),
                                    ("echo", "web-4", "protocol unreachable"),
                                    ("lines", "web-3", "protocol unreachable")):
            wait_for(f"{service}/{name} to be ejected",
                     lambda s=service, n=name: lab.backend(n, s)["ejected"], 10)
            last = why(service, name)[-1]
            assert REJECTED in last and kind in last, last
        assert not used("web-3") and not used("web-4")
        lab.wait_published()
        # New sessions reach only other backends. Ports from 20000 on are lower than the ports of
        # Datagrams, so the sessions are new.
        for port in range(20000, 20040):
            with contextlib.closing(clients.Udp(lab.client, VIP4, source_port=port)) as session:
                assert session.ask() in ("web-1", "web-2")
        lab.start_decapsulation(3)
        lab.wait_for_program("agent-3", lambda: "accepts" in lab.programs["agent-3"].output(), 10)
        lab.weirctl("backend", "ready", "echo/web-3")
        wait_for("web-3 to be used", lambda: used("web-3"), 5)
    assert not used("web-4") and used("web-1") and used("web-2")
