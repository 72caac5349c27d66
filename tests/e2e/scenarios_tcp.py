# SPDX-License-Identifier: BSD-3-Clause
"""TCP statistics of connections, from the backends; with direct server return, the balancer cannot measure them."""
import contextlib
import json
import os
import re
import secrets

from agent import Serving
from agents import KEY_ID, Agents
from clients import KeepAlive, http_get, lose
from lab import HERE, PYTHON, VIP4, VIP6, backend_address, lines, web
from netns import Namespace, wait_for
from scenario import scenario

AGENT = {"interval_ms": 100, "inactive_interval_ms": 200, "timeout_ms": 100}
DELAY_MS = 20
FAR4, FAR6 = ("192.0.3.2", "192.0.3.1"), ("2001:db8:d::2", "2001:db8:d::1")


def make_far_client(lab):
    """Create a client for which packets from the servers take DELAY_MS longer than for lab.client."""
    far, link = Namespace(lab.prefix + "far"), Namespace(lab.prefix + "link")
    lab.namespaces.update(far=far, link=link)  # removed with the other namespaces
    far.create(), link.create()
    for namespace, device, peer in ((far, "eth0", "far"), (lab.net, "far0", "near")):
        namespace.ip("link", "add", device, "type", "veth", "peer", "name", peer, "netns", link.name)
        namespace.run("ethtool", "-K", device, "tx", "off")
        link.ip("link", "set", peer, "up")
        namespace.ip("link", "set", device, "up")
    for own, gateway in (FAR4, FAR6):
        bits, nodad = ("64", ["nodad"]) if ":" in own else ("24", [])
        far.ip("addr", "add", f"{own}/{bits}", "dev", "eth0", *nodad)
        lab.net.ip("addr", "add", f"{gateway}/{bits}", "dev", "far0", *nodad)
        far.ip("route", "add", "::/0" if ":" in own else "default", "via", gateway)
    lab.program("link", link, PYTHON, os.path.join(HERE, "slow_link.py"), "near", "far", str(DELAY_MS))
    lab.wait_for_program("link", lambda: "forwarding" in lab.programs["link"].output(), 10)
    return far


def figures(lab, name, family="ipv4"):
    """Wait for TCP statistics of a backend, and return them."""
    found = []

    def reported():
        found.append(lab.backend(name)["tcp"][family])
        return found[-1] is not None
    wait_for(f"TCP statistics of {name}", reported, 20)
    return found[-1]


def most_used(connections):
    names = [each.backend for each in connections]
    return max(set(names), key=names.count)


@scenario(start=False, services=[web(agent={**AGENT, "tcp": True}), lines(agent=AGENT)])
def round_trips_and_losses_of_clients_are_shown(lab):
    """weirctl and metrics show the round trips and lost packets of a client that is 20 ms away, by backend
    and family. Services without the option have no such statistics."""
    agents = Agents(lab, "--port", "80").start_lab()
    lab.start_metrics()
    far = make_far_client(lab)
    lab.make_file("some", 2 << 20)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(KeepAlive(far, VIP4, 20)))
                       for _ in range(12)]
        near = stack.enter_context(contextlib.closing(KeepAlive(lab.client, VIP6, 20))).backend
        name = most_used(connections)
        # A report may include the connection of a health check, which has a short round trip.
        # With three connections the median is still the value of a client.
        wait_for("the round trip of the far clients", lambda: figures(lab, name)["connections"] >= 3 and
                 DELAY_MS * 970 <= figures(lab, name)["rtt_median_us"] <= 3 * DELAY_MS * 1000, 30)
        assert 0 < figures(lab, near, "ipv6")["rtt_median_us"] < DELAY_MS * 970, figures(lab, near, "ipv6")
        check_texts(lab, name)
        wait_for("the same values in metrics", lambda: metrics_agree(lab, name), 20, 0.5)
        lost_before = figures(lab, name)["retransmitted_segments"]
        far_one = next(each for each in connections if each.backend == name)
        lose(far_one.sock, 10)
        sent_before = figures(lab, name)["sent_bytes"]
        assert len(far_one.get("/files/some")[1]) == 2 << 20
        wait_for("retransmits", lambda: figures(lab, name)["retransmitted_segments"] > lost_before, 20)
        wait_for("bytes", lambda: figures(lab, name)["sent_bytes"] >= sent_before + (2 << 20), 20)
        assert 0 < figures(lab, name)["retransmitted_percent"] <= 100, figures(lab, name)
    assert all(row["tcp"] is None for row in lab.backends("lines"))
    lab.services[0]["agent"] = AGENT
    lab.write_config()
    lab.api("config.reload")
    assert all(row["tcp"] is None for row in lab.backends())
    wait_for("no reading of the sockets", lambda: "tcp" not in json.loads(lab.namespaces["b1"].run(
        lab.binary("weir-agent"), "status", "--json", "--run-dir", agents.run_dir(1))), 10)
    assert "no backend whose service has" in lab.weirctl("backend", "show", "--tcp")[1]


def check_texts(lab, name):
    out = lab.weirctl("backend", "show", "--tcp", "web/")[1]
    assert out.split("\n")[0].split() == [
        "SERVICE", "BACKEND", "CLIENTS", "CONNECTIONS", "RTT-MS", "P99-MS", "RETRANS-%",
        "SENT-MBIT/S", "RATE-MBIT/S", "AGE"], out
    assert {line.split()[1] for line in out.splitlines()[1:]} == {f"web-{n}" for n in lab.hosts}, out
    one = lab.weirctl("backend", "show", "--tcp", name)[1].splitlines()
    assert re.match(rf"web +{name} +ipv4 +\d+ +\d\d\.\d +\d+", one[1]), one
    assert "\nTCP\nSERVICE" in lab.weirctl("backend", "show", f"web/{name}")[1]
    assert "no backend whose service has" in lab.weirctl("backend", "show", "--tcp", "lines/")[1]


def metrics_agree(lab, name):
    _, body = http_get(lab.lb, "127.0.0.1", "/metrics", port=9479)
    text = body.decode()
    labels = f'service="web",backend="{name}",clients="ipv4"'
    found = dict(re.findall(rf'^(weir_backend_tcp_\S+?){{{labels}}} (\S+)$', text, re.M))
    assert float(found.get("weir_backend_tcp_connections", 0)) >= 3, text
    for counter in ("segments", "retransmitted_segments", "sent_bytes"):
        assert float(found[f"weir_backend_tcp_{counter}_total"]) >= 0, found
    for quantile in ("0.5", "0.99"):
        [value] = re.findall(rf'weir_backend_tcp_rtt_seconds{{{labels},quantile="{quantile}"}} (\S+)', text)
        assert 0.0194 <= float(value) < 1, value
    assert not re.search(r'weir_backend_tcp_\S+service="lines"', text)
    return True


@scenario(start=False, services=[web(agent={**AGENT, "tcp": True})])
def agents_of_an_earlier_version_send_no_tcp_figures(lab):
    """If older agents ignore the request for TCP statistics, weirctl shows none, and everything else works"""
    lab.extra = Agents.configuration(lab)
    lab.write_config()
    with open(os.path.join(lab.dir, "agent.keys"), encoding="ascii") as file:
        secret = bytes.fromhex(file.read().split()[1])
    with contextlib.ExitStack() as stack:
        served = {number: stack.enter_context(Serving(
            lab.namespaces[f"b{number}"], backend_address(number), 4777, KEY_ID, secret))
            for number in lab.hosts}
        lab.start()
        assert served[1].wait_for_probe().wants & 1 << 30
        wait_for("reports", lambda: all(row["agent"] == "answers" for row in lab.backends("web")), 20)
        for row in lab.backends("web"):
            assert row["tcp"] == {"age_ms": None, "partial": None, "ipv4": None, "ipv6": None}, row
        out = lab.weirctl("backend", "show", "--tcp", "web-1")[1]
        assert out.splitlines()[1].split() == ["web", "web-1", *"--------"], out
        # An authenticated datagram with TCP statistics changes nothing if its challenge is wrong.
        with served[2].lock:
            agent, balancer = served[2].agent, served[2].newest()
            agent.sock.sendto(agent.tcp_figures(balancer, challenge=secrets.token_bytes(16)),
                              balancer.address)
        wait_for("the refusal", lambda: lab.api("stats.show")["agents"]["refused"].get("challenge"), 10)
        assert lab.backend("web-2")["tcp"]["age_ms"] is None
        with served[2].lock:
            agent.sock.sendto(agent.tcp_figures(balancer), balancer.address)
        wait_for("TCP statistics", lambda: lab.backend("web-2")["tcp"]["age_ms"] is not None, 10)
        assert lab.backend("web-2")["tcp"]["ipv4"]["rtt_median_us"] == 1234
