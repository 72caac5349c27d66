# SPDX-License-Identifier: BSD-3-Clause
"""Agents report the flows of other workers and instances, which a worker cannot count itself."""
import collections
import contextlib
import copy
import os
import time

import clients
from agents import Agents
from lab import VIP4, lines
from netns import Namespace, ip_batch, wait_for
from scenario import scenario

AGENT = {"interval_ms": 200, "timeout_ms": 200, "inactive_interval_ms": 200}
FOUR_WORKERS = {"cores": [0, 1, 0, 1]}
OWN = 48  # flows of the first instance, on four backends
OTHERS = 144  # flows of the second instance, all on web-1


def counted(policy, backends=None):
    return lines(backends, policy={"name": policy}, agent=AGENT)


def second_instance(lab):
    """Returns a second lab with another balancer, and another client whose packets to the VIP are
    routed to this balancer. It uses the backends of `lab`, and is removed with `lab`."""
    other = copy.copy(lab)
    other.dir = os.path.join(lab.dir, "second")
    os.mkdir(other.dir)
    os.chmod(other.dir, 0o755)
    other.run_dir = os.path.join(other.dir, "run")
    other.config_path = os.path.join(other.dir, "weir.json")
    other.programs = {}
    other.lb, other.client = (Namespace(lab.prefix + name) for name in ("lb2", "client2"))
    lab.namespaces.update(lb2=other.lb, client2=other.client)
    ip_batch(("netns", "add", each.name) for each in (other.lb, other.client))
    for namespace in (other.lb, other.client):
        namespace.sysctl(net__ipv4__conf__all__rp_filter=0)
        lab.later(namespace, "link", "set", "lo", "up")
    lab.link(other.client, "eth0", "client2", ("192.0.3.2/24", "2001:db8:d::2/64"),
             ("192.0.3.1/24", "2001:db8:d::1/64"))
    lab.default_route(other.client, "192.0.3.1", "2001:db8:d::1")
    lab.link(other.lb, "lb0", "lb2", ("10.0.0.4/24", "2001:db8:a::4/64"), bridge="br0", mtu=1600)
    lab.default_route(other.lb, "10.0.0.1", "2001:db8:a::1")
    lab.later(lab.net, "rule", "add", "from", "192.0.3.0/24", "table", "100")
    lab.later(lab.net, "route", "add", "198.51.100.0/24", "via", "10.0.0.4", "table", "100")
    lab.apply()
    return other


@contextlib.contextmanager
def two_instances(lab, policy):
    """Two instances with four workers each; the second instance has only web-1. Yields the second instance."""
    agents = Agents(lab, "--port", "7000")
    lab.extra = Agents.configuration(lab)
    lab.write_config()
    lab.start_backends()
    agents.start_all()
    other = second_instance(lab)
    other.write_config([counted(policy, {"web-1": 100})])
    for each in (lab, other):
        each.start_dataplane()
        each.start_control()
        each.wait_ready()
    agents.wait_answered(service="lines")
    yield other


def reported(lab, name):
    """Returns the number of requests in progress in the last report of a backend."""
    return (lab.backend(name, "lines")["report"] or {}).get("active_requests", 0)


def use_of_reports(lab):
    return lab.api("service.show", service="lines")[0]["settings"]["reported_requests"]


def serve(lab, count, opened):
    """Open `count` connections. Returns {backend: number of these connections}."""
    new = [clients.Line(lab.client, VIP4) for _ in range(count)]
    opened.extend(new)
    return collections.Counter(line.backend for line in new)


def flows_of_the_other_instance_count(lab, policy):
    with two_instances(lab, policy) as other, contextlib.ExitStack() as stack:
        own, others = [], []
        stack.callback(lambda: [line.close() for line in own + others])
        serve(lab, OWN, own)
        wait_for("reports to be used", lambda: use_of_reports(lab) == "used", 20)
        assert serve(other, OTHERS, others) == {"web-1": OTHERS}
        wait_for("a report of the other flows", lambda: reported(lab, "web-1") >= OTHERS, 10)
        given = serve(lab, OWN, own)
        assert given["web-1"] <= OWN / 24, (given, use_of_reports(lab))  # without reports web-1 would get a quarter
        while others:
            others.pop().close()
        wait_for("a report without the ended flows", lambda: reported(lab, "web-1") < OTHERS / 2, 10)
        given = serve(lab, OWN // 2, own)
        # web-1 now has the fewest flows, so it gets many of the new flows
        assert given["web-1"] >= OWN / 16, given


@scenario(start=False, services=[counted("least-loaded")], workers=FOUR_WORKERS)
def least_loaded_counts_flows_of_another_instance(lab):
    """With two instances of four workers, least-loaded avoids a backend while the other instance loads it"""
    flows_of_the_other_instance_count(lab, "least-loaded")


@scenario(start=False, services=[counted("power-of-two")], workers=FOUR_WORKERS)
def power_of_two_counts_flows_of_another_instance(lab):
    """With two instances of four workers, power-of-two avoids a backend while the other instance loads it"""
    flows_of_the_other_instance_count(lab, "power-of-two")


def burst(lab, count, opened):
    """Open `count` connections faster than four backends with service times of 0.3 s end them. Returns
    {backend: number of these connections}, and ends them."""
    given = serve(lab, count, opened)
    time.sleep(0.3)
    while opened:
        opened.pop().close()
    return given


@scenario(start=False, services=[counted("fair-share")], workers=FOUR_WORKERS)
def fair_share_counts_requests_of_another_instance(lab):
    """With two instances of four workers, fair-share sends fewer flows to a backend while the other instance loads it"""
    with two_instances(lab, "fair-share") as other, contextlib.ExitStack() as stack:
        own, others = [], []
        stack.callback(lambda: [line.close() for line in own + others])

        def known():
            burst(lab, OWN, own)
            return all(row["service_time_ms"] for row in lab.api("service.show", service="lines")[0]["shares"])
        wait_for("service times", known, 20)
        assert burst(lab, OWN, own)["web-1"] >= OWN / 8
        assert serve(other, OTHERS, others) == {"web-1": OTHERS}
        serve(lab, OWN, own)
        wait_for("a report of the other flows", lambda: reported(lab, "web-1") >= OTHERS, 10)
        while own:
            own.pop().close()
        # without reports web-1 would get a quarter
        wait_for("few flows to web-1", lambda: burst(lab, OWN, own)["web-1"] <= OWN / 8, 10)
        while others:
            others.pop().close()
        wait_for("a report without the ended flows", lambda: reported(lab, "web-1") < OTHERS / 2, 10)
        wait_for("web-1 to get its share", lambda: burst(lab, OWN, own)["web-1"] >= OWN / 8, 10)
