# SPDX-License-Identifier: BSD-3-Clause
"""An operator lists and deletes flows under traffic."""
import json

import clients
from lab import VIP4, lines, web
from netns import wait_for
from scenario import scenario
from scenarios_hostile import flood, worker

FLOWS = 120_000
CHUNK = 20_000
PER_SECOND = 60_000  # a worker of this lab has no dedicated core
LARGE = {"flow_table": {"flows_per_worker": 262144}}


def establish(lab):
    """Start FLOWS flows with a handshake and data. Packets lost because the CPU was busy are sent
    again, because a flow whose SYN and data were lost is "young" and expires soon."""
    def all_there():
        for first in range(0, FLOWS, CHUNK):
            for kind in ("syn", "ack", "data"):
                flood(lab, "flows", kind, first, CHUNK, PER_SECOND)
        return worker(lab)["flows"] >= FLOWS and worker(lab)["flows_half_open"] == 0 and \
            lab.weirctl("flow", "list", "--state", "young", check=False)[1] == "no flows\n"
    wait_for("all flows", all_there, 120)


def list_flows(lab, *options):
    _, out, _ = lab.weirctl("flow", "list", "--json", *options, timeout=120)
    return [json.loads(line) for line in out.splitlines()]


def tuple_of(flow):
    return (flow["protocol"], flow["source"], flow["source_port"], flow["destination"],
            flow["destination_port"])


def check_list(flows, tolerance=0):
    """Check that the list has each flow of the flood once. tolerance: number of flows that may be missing or
    repeated, because concurrent insertions can move flows within the table."""
    ours = [f for f in flows if not f["source"].startswith("192.0.2.")]
    different = len({tuple_of(f) for f in ours})
    assert different >= FLOWS - tolerance and len(ours) <= different + tolerance, \
        (len(ours), different)
    odd = [f for f in ours if f["state"] != "established" or f["service"] != "web"]
    assert not odd, (len(odd), odd[:3])
    return ours


@scenario(services=[web(), lines()], config=LARGE, alone=True)
def flows_are_listed_while_traffic_flows(lab):
    """flow list works with more than 100,000 flows, and no request fails while it runs"""
    establish(lab)
    line = clients.Line(lab.client, VIP4)
    before = lab.drops()
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(50)
        check_list(list_flows(lab), tolerance=FLOWS // 1000)
        load.wait_for_more(50)
    assert not load.errors(), load.errors()[:5]
    assert lab.drops() == before
    assert line.ask() == line.backend
    ours = check_list(list_flows(lab))
    for backend in lab.backends("web"):
        name = backend["name"]
        assert len(list_flows(lab, "--service", "web", "--backend", name, "--client",
                              "10.192.0.0/10")) == sum(f["backend"] == name for f in ours), name
    assert len(list_flows(lab, "--limit", "5000")) == 5000


@scenario(services=[web(), lines(policy={"name": "round-robin"})])
def deleted_flows_start_again(lab):
    """flow list, lookup and delete agree on a flow; after flow delete, its next packet starts a new flow"""
    line = clients.Line(lab.client, VIP4)
    asked = ("tcp", f"192.0.2.2:{line.port()}", f"{VIP4}:7000")
    listed = list_flows(lab, "--service", "lines")
    assert [tuple_of(f) for f in listed] == [("tcp", "192.0.2.2", line.port(), VIP4, 7000)], listed
    found = json.loads(lab.weirctl("flow", "lookup", *asked, "--json")[1])
    assert found["found"] and found["backend"] == listed[0]["backend"] == line.backend
    assert found["state"] == listed[0]["state"] == "established"
    assert lab.weirctl("flow", "delete", *asked)[1] == f"1 flow deleted, of lines/{line.backend}\n"
    assert lab.weirctl("flow", "delete", *asked)[1] == "0 flows deleted\n"
    assert not json.loads(lab.weirctl("flow", "lookup", *asked, "--json")[1])["found"]
    assert lab.weirctl("flow", "list", "--service", "lines")[1] == "no flows\n"
    others = [clients.Line(lab.client, VIP4) for _ in range(8)]
    gone = [o for o in others if o.backend == "web-1"]
    assert gone, "web-1 got no flow"
    assert lab.weirctl("flow", "clear", "lines/web-1")[1] == \
        f"{len(gone)} flow{'' if len(gone) == 1 else 's'} deleted\n"
    clients.check_lines({o.backend: o for o in others if o.backend != "web-1"})
    assert {f["backend"] for f in list_flows(lab, "--service", "lines")} == \
        {o.backend for o in others} - {"web-1"}
    audit = lab.api("audit.show")
    assert [e["after"] for e in audit if e["command"] == "flow.clear"] == \
        [f"{len(gone)} flow{'' if len(gone) == 1 else 's'} deleted"]
