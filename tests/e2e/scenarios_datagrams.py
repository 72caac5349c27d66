# SPDX-License-Identifier: BSD-3-Clause
"""Services with "udp": "datagram": a backend is chosen for each datagram of a socket."""
import contextlib
import time
from collections import Counter

import clients
from lab import VIP4, VIP6, echo
from netns import wait_for
from scenario import scenario

THREE = ("web-1", "web-2", "web-3")
SENT = 200


def dns(udp="datagram", **more):
    return echo({name: 100 for name in THREE}, udp=udp, policy={"name": "round-robin"},
                check={"type": "tcp", "port": 7000}, **more)


def ask(session, count=SENT):
    """Send datagrams from one socket, each after the answer to the one before; return the number of
    answers of each backend. Fails if an answer is missing."""
    return Counter(session.ask() for _ in range(count))


def is_even(counts, names):
    return set(counts) == set(names) and max(counts.values()) - min(counts.values()) <= 1


def open_flows(lab):
    return sum(lab.backend(name, "echo")["open_flows"] for name in THREE)


def datagrams(lab):
    return sum(w["datagrams"] for w in lab.api("worker.show"))


def settled(lab):
    """Wait until the counter no longer changes: workers publish their counters later. Returns it."""
    seen = [-1]

    def unchanged():
        time.sleep(0.3)
        seen.append(datagrams(lab))
        return seen[-1] == seen[-2]
    wait_for("a constant number of datagrams", unchanged, 10)
    return seen[-1]


def publish(lab, service):
    lab.write_config([service])
    lab.weirctl("config", "reload")
    lab.wait_published()


@scenario(short=True, services=[dns()])
def datagrams_of_a_socket_are_spread(lab):
    """200 datagrams of one socket reach three backends in turn, none is lost over a drain, and none once a
    dead backend is detected"""
    for vip in (VIP4, VIP6):
        with contextlib.closing(clients.Udp(lab.client, vip)) as session:
            before = settled(lab)
            counts = ask(session)
            assert is_even(counts, THREE), counts
            wait_for("datagrams to be counted", lambda: datagrams(lab) == before + SENT, 3)
            assert open_flows(lab) == 0
            lab.weirctl("backend", "drain", "web-2")
            lab.wait_published()
            counts = ask(session)
            assert is_even(counts, ("web-1", "web-3")), counts
            lab.weirctl("backend", "ready", "web-2")
            lab.wait_published()
            counts = ask(session)
            assert is_even(counts, THREE), counts
            lab.stop_host(1)
            wait_for("web-1 to be in state refusing",
                     lambda: lab.backend("web-1", "echo")["health"] == "refusing", 10)
            lab.wait_published()
            counts = ask(session)
            assert is_even(counts, ("web-2", "web-3")), counts
            lab.start_host(1)
            wait_for("every backend usable", lab.all_usable, 10)
            lab.wait_published()
            counts = ask(session)
            assert is_even(counts, THREE), counts
    assert lab.api("service.show", service="echo")[0]["udp"] == "datagram"


@scenario(services=[dns("flow")])
def udp_changes_at_a_reload(lab):
    """A reload ends UDP flows, and the next datagrams are spread; another one lets the socket keep its backend"""
    for vip in (VIP4, VIP6):
        with contextlib.closing(clients.Udp(lab.client, vip)) as session:
            assert len(ask(session)) == 1
            publish(lab, dns())
            counts = ask(session)
            assert is_even(counts, THREE), counts
            wait_for("the flows to end", lambda: open_flows(lab) == 0, 5)
            publish(lab, dns("flow"))
            assert len(ask(session)) == 1
            with contextlib.closing(clients.Udp(lab.client, vip)) as other:
                assert len(ask(other)) == 1
