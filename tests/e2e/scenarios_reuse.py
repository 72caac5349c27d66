# SPDX-License-Identifier: BSD-3-Clause
"""Reaction of real kernels to Weir's challenge ACK, when a client reuses its port while the
backend of its previous connection drains, or when an attacker forges a SYN of a connection to
that backend."""
import clients
from lab import VIP4, VIP6, lines
from netns import wait_for
from scenario import scenario
from scenarios_limits import raw_socket, syn
from scenarios_ports import start_with_tap

PORT = 40000  # port of the client
ROUND_ROBIN = {"name": "round-robin"}


def kill(namespace, *which):
    """Kill a connection in the kernel of one host. This kernel then sends an RST."""
    killed = namespace.run("ss", "--no-header", "--kill", "--tcp", "--numeric", *which)
    assert "ESTAB" in killed, (which, killed)


def ended_by_backend(lab, line, _vip):
    """End the connection at the backend. The backend's RST goes directly to the client, not through Weir."""
    kill(lab.namespaces["b" + line.backend[-1]], "sport", "=", ":7000", "and",
         "dport", "=", f":{PORT}")
    wait_for("the RST", lambda: "ESTAB" not in lab.client.run(
        "ss", "--no-header", "--tcp", "--numeric", "dport", "=", ":7000"))


def forgotten_by_client(lab, _line, vip):
    """End the connection at the client. The client's RST is lost, so the backend keeps the connection."""
    route = ("-6" if ":" in vip else "-4", "route")
    lab.client.ip(*route, "add", "blackhole", vip)
    kill(lab.client, "dport", "=", ":7000")
    lab.client.ip(*route, "del", "blackhole", vip)


def use_port_again(lab, vip, end):
    line = clients.Line(lab.client, vip, source=PORT)
    name, before = line.backend, lab.api("worker.show")[0]["replied"]
    end(lab, line, vip)
    line.close()
    lab.weirctl("backend", "drain", f"lines/{name}")
    lab.wait_published()
    again = clients.Line(lab.client, vip, source=PORT)
    assert again.backend != name, f"{end.__name__}: {name} drains, and has the new connection"
    assert again.ask() == again.backend
    again.close()
    wait_for("a challenge", lambda: lab.api("worker.show")[0]["replied"] == before + 1, 2)
    lab.weirctl("backend", "ready", f"lines/{name}")
    lab.wait_published()


def forge_syns(lab):
    """Forge SYNs of a connection to a draining backend. Check that the client of the connection gets challenge
    ACKs, and that the connection continues."""
    line = clients.Line(lab.client, VIP4, source=PORT)
    before = lab.api("worker.show")[0]
    lab.weirctl("backend", "drain", f"lines/{line.backend}")
    lab.wait_published()
    with raw_socket(lab.client) as sock:
        for count in range(1, 4):
            sock.sendto(syn("192.0.2.2", PORT), (VIP4, 0))
            wait_for("a challenge", lambda n=count: lab.api("worker.show")[0]["replied"]
                     == before["replied"] + n, 2)
            assert line.ask() == line.backend, "the connection moved"
        for _ in range(20):
            sock.sendto(syn("192.0.2.2", PORT), (VIP4, 0))
        for _ in range(5):
            assert line.ask() == line.backend, "the connection moved"
    assert lab.api("worker.show")[0]["flow_new"] == before["flow_new"]
    line.close()


def check_all(lab):
    for vip in (VIP4, VIP6):
        for end in (ended_by_backend, forgotten_by_client):
            use_port_again(lab, vip, end)
    forge_syns(lab)


@scenario(services=[lines(policy=ROUND_ROBIN)])
def reused_port_leaves_a_draining_backend(lab):
    """A client reuses its port, or an attacker forges the client's SYN, while the backend drains; AF_XDP"""
    check_all(lab)


@scenario(start=False, lb_mtu=1500, services=[lines(policy=ROUND_ROBIN)])
def reused_port_leaves_a_draining_backend_with_tap(lab):
    """A client reuses its port, or an attacker forges the client's SYN, while the backend drains; tap device"""
    start_with_tap(lab)
    check_all(lab)
