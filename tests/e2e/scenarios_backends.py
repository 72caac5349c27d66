# SPDX-License-Identifier: BSD-3-Clause
"""Backends that cannot serve, found out without a health check."""
import contextlib

import clients
from lab import BACKENDS, VIP4, lines
from netns import wait_for
from scenario import scenario


def connect(lab, times):
    """Connections one after the other. Which backends had them."""
    served = set()
    for _ in range(times):
        with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
            served.add(line.backend)
    return served


def history(lab, name):
    return [(c["source"], c["why"]) for c in lab.api("health.history", backend=name)]


@scenario(services=[lines()])
def unresolved_next_hop_takes_no_flows(lab):
    """A backend gets no flow until its next hop is resolved, nor when that is lost"""
    lab.write_config([lines({name: 100 for name in (*BACKENDS, "web-9")})])
    lab.weirctl("config", "reload")
    assert "web-9" not in connect(lab, 40)
    absent = lab.backend("web-9", "lines")
    assert not absent["resolved"] and not absent["in_selection"], absent
    wait_for("the reason in the history", lambda: any(
        source == "next-hop" and "no ARP/ND reply for 10.0.0.19" in why
        for source, why in history(lab, "web-9")), 10)
    lab.addresses(lab.namespaces["b4"], "eth0", ("10.0.0.19/24",))
    wait_for("web-9 to be used", lambda: lab.backend("web-9", "lines")["in_selection"], 15)
    assert ("next-hop", "next hop resolved") in history(lab, "web-9"), history(lab, "web-9")
    lab.stop_host(2)
    lab.lb.ip("neigh", "del", "10.0.0.12", "dev", "lb0")
    wait_for("web-2 to be left out", lambda: not lab.backend("web-2", "lines")["in_selection"], 10)
    assert "web-2" not in connect(lab, 40)
    lab.start_host(2)
    wait_for("web-2 to be used", lambda: lab.backend("web-2", "lines")["in_selection"], 15)
    assert "web-2" in connect(lab, 100)
    assert "no_neighbour" not in lab.drops(), lab.drops()
