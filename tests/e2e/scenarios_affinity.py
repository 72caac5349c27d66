# SPDX-License-Identifier: BSD-3-Clause
"""Affinity: new flows of a client go to its previous backend, also after drains, failures and reloads."""
import contextlib
import json
import subprocess

import clients
from lab import BACKENDS, VIP4, VIP6, backend_address, echo, web
from netns import wait_for
from scenario import scenario
from scenarios_other_flows import second_instance

SOURCES = [f"192.0.2.{n}" for n in range(100, 108)] + [f"2001:db8:c::{n}" for n in range(100, 108)]
ROUND_ROBIN = {"policy": {"name": "round-robin"}}
AFFINITY = {"affinity": {"by": "source", "timeout_ms": 5000}}


def add_sources(lab):
    for source in SOURCES:
        lab.client.ip("addr", "add", source + ("/64" if ":" in source else "/24"), "dev", "eth0",
                      *(("nodad",) if ":" in source else ()))


def serve(lab, source):
    """Send a request from this address; return the backend."""
    vip = f"[{VIP6}]" if ":" in source else VIP4
    with lab.client.inside():
        done = subprocess.run(["curl", "-gsS", "--interface", source, "--max-time", "5", "-o", "/dev/null",
                               "-w", "%{http_code} %header{x-backend}", f"http://{vip}/"],
                              capture_output=True, text=True, check=False)
    code, _, name = done.stdout.partition(" ")
    assert code == "200" and name in BACKENDS, (source, done.stdout, done.stderr)
    return name


def places(lab):
    return {source: serve(lab, source) for source in SOURCES}


def known(lab):
    return sum(w["affinity_known"] for w in lab.api("worker.show"))


@scenario(short=True, services=[web(**ROUND_ROBIN, **AFFINITY)])
def clients_stay_at_their_backend(lab):
    """With round robin and affinity, each of 16 clients stays at its backend until the backend is drained or dead"""
    add_sources(lab)
    first = places(lab)
    assert set(first.values()) == set(BACKENDS), first
    for _ in range(2):
        assert places(lab) == first
    wait_for("sources to be counted", lambda: known(lab) == 2 * len(SOURCES), 3)
    lab.weirctl("backend", "drain", "web/web-1")
    lab.wait_published()
    after = places(lab)
    assert "web-1" not in after.values(), after
    assert {s: b for s, b in after.items() if first[s] != "web-1"} == \
        {s: b for s, b in first.items() if b != "web-1"}, "other clients moved"
    lab.weirctl("backend", "ready", "web/web-1")
    lab.wait_published()
    assert places(lab) == after, "a client returned"
    lab.kill_backend(2)
    wait_for("web-2 to be in state refusing", lambda: lab.backend("web-2")["health"] == "refusing", 10)
    lab.wait_published()
    last = places(lab)
    assert "web-2" not in last.values(), last
    lab.weirctl("config", "reload")
    lab.wait_published()
    assert places(lab) == last


@scenario(services=[web(**ROUND_ROBIN, **AFFINITY)])
def affinity_ends_after_its_timeout(lab):
    """The policy chooses again for a client that returns after the timeout"""
    add_sources(lab)
    assert set(places(lab).values()) == set(BACKENDS)
    wait_for("entries of the clients to expire", lambda: not_known(lab), 40, 7)


def not_known(lab):
    before = known(lab)
    places(lab)
    return known(lab) == before


@scenario(services=[web(affinity={"by": "source"}), echo(hash_fields="source")])
def maglev_keeps_clients_by_hash(lab):
    """With Maglev the hash of the client's address chooses the backend of TCP and UDP flows, without entries"""
    add_sources(lab)
    first = places(lab)
    assert set(first.values()) == set(BACKENDS), first
    assert places(lab) == first
    assert known(lab) == 0
    for vip in (VIP4, VIP6):
        names = set()
        for _ in range(20):
            with contextlib.closing(clients.Udp(lab.client, vip)) as session:
                names.add(session.ask())
        assert len(names) == 1, names


@scenario(services=[web(affinity={"by": "source"})])
def clients_keep_their_backend_at_another_instance(lab):
    """With Maglev, a second balancer sends the packets of open and new connections to the same backends"""
    other = second_instance(lab)
    other.write_config(lab.services)
    other.start_dataplane()
    other.start_control()
    other.wait_ready()
    add_sources(lab)
    sources = [source for source in SOURCES if ":" not in source]
    first = {source: serve(lab, source) for source in sources}
    assert len(set(first.values())) > 1, first
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(contextlib.closing(clients.KeepAlive(lab.client, VIP4))) for _ in range(4)]
        before = [connection.ask() for connection in kept]
        lab.net.ip("rule", "add", "from", "192.0.2.0/24", "table", "100")  # the route to the second balancer
        assert [connection.ask() for connection in kept] == before
        assert {source: serve(lab, source) for source in sources} == first
    flows = sum(row["new_flows"] for row in other.api("backend.show"))
    assert flows >= len(sources) + len(kept), flows


def with_backups():
    """The service web with affinity, whose last two backends are backups."""
    return web(backends=[{"name": name, "address": backend_address(name.rpartition("-")[2]),
                          "backup": name in BACKENDS[2:]} for name in BACKENDS], affinity={"by": "source"}, **ROUND_ROBIN)


@scenario(services=[with_backups()])
def clients_leave_backups(lab):
    """Clients go to backups with their next flow when these take over, and back when primary backends return"""
    add_sources(lab)
    assert set(places(lab).values()) == set(BACKENDS[:2])
    for name in BACKENDS[:2]:
        lab.weirctl("backend", "drain", f"web/{name}", check=False)
    lab.wait_published()
    at_backups = places(lab)
    assert set(at_backups.values()) == set(BACKENDS[2:]), at_backups
    assert places(lab) == at_backups, "a client moved"
    for name in BACKENDS[:2]:
        lab.weirctl("backend", "ready", f"web/{name}")
    lab.wait_published()
    why = show(lab, "web", SOURCES[0])["why"]
    assert why.startswith("the remembered backend takes no new flows: a backup, and enough other backends"), why
    assert set(places(lab).values()) == set(BACKENDS[:2])


def show(lab, *words):
    return json.loads(lab.weirctl("affinity", "show", *words, "--json")[1])


def count(lab):
    """Return the number of remembered clients of each backend that has any."""
    return {row["backend"]: row["clients"] for row in show(lab, "web")["backends"] if row["clients"]}


@scenario(short=True, services=[web(affinity={"by": "source"}, **ROUND_ROBIN), echo(affinity={"by": "source"})])
def affinity_is_shown_and_cleared(lab):
    """weirctl affinity shows remembered clients; the policy chooses again for a client that it has forgotten"""
    add_sources(lab)
    client = "192.0.2.2"
    with contextlib.closing(clients.KeepAlive(lab.client, VIP4)) as line:
        first = line.ask()
        others = {source: serve(lab, source) for source in SOURCES}
        assert sum(count(lab).values()) == 1 + len(SOURCES), count(lab)
        shown = show(lab)
        assert [(s["service"], s["by"], s["clients"], s["proven"]) for s in shown["services"]] == \
            [("web", "table", 1 + len(SOURCES), 1 + len(SOURCES)), ("echo", "hash", None, None)], shown
        assert (shown["table"]["used"], shown["table"]["unproven"]) == (1 + len(SOURCES), 0), shown
        found = show(lab, "web", client)
        assert found["backend"] == found["remembered"] == first and found["proven"], found
        assert 290000 < found["left_ms"] <= 301000, found
        with contextlib.closing(clients.Udp(lab.client, VIP4)) as session:
            assert show(lab, "echo", client)["backend"] == session.ask()
        flow = ("flow", "lookup", "tcp", f"{client}:9", f"{VIP4}:80")
        assert json.loads(lab.weirctl(*flow, "--json")[1])["backend"] == first
        for _ in range(len(BACKENDS) + 1):  # the turn of the policy may be at the same backend
            assert lab.weirctl("affinity", "clear", "web", client)[1].startswith("1 client forgotten, of web/")
            assert show(lab, "web", client)["remembered"] is None
            now = serve(lab, client)
            if now != first:
                break
        assert now != first, "the policy did not choose again"
        assert serve(lab, client) == now
        assert line.ask() == first, "the open connection moved"
        assert {source: serve(lab, source) for source in SOURCES} == others
    gone = others[SOURCES[0]]
    before = count(lab)
    assert lab.weirctl("affinity", "clear", f"web/{gone}")[1] == \
        f"{before[gone]} clients forgotten, of web/{gone}\n"
    assert count(lab) == {name: n for name, n in before.items() if name != gone}
    assert show(lab, "web", SOURCES[0])["remembered"] is None
    left = sum(count(lab).values())
    assert lab.weirctl("affinity", "clear", "web")[1] == f"{left} clients forgotten\n"
    assert not count(lab)
    audit = [(e["object"], e["after"]) for e in lab.api("audit.show") if e["command"] == "affinity.clear"]
    assert audit[0] == (f"web {client}", "1 client forgotten"), audit
    assert audit[-2:] == [(f"web/{gone}", f"{before[gone]} clients forgotten"),
                          ("web", f"{left} clients forgotten")], audit
