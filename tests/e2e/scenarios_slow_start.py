# SPDX-License-Identifier: BSD-3-Clause
"""Slow start: checks the share of a backend in each second after it has become healthy, with
flows at an even rate."""
import time

from lab import BACKENDS
from netns import wait_for
from scenario import scenario
from work import Servers, Steady, work

WINDOW_S, LEAST, STEPS = 8, 0.1, 20
NEW, OTHERS = BACKENDS[-1], BACKENDS[:-1]
PER_SECOND = 300
# Refused connections count as active flows until the timeout of 300 ms, then as errors for at least a
# second.
QUICK = {"flow_table": {"flows_per_worker": 65536, "timeout_ms": {"syn_seen": 300}}}
ERRORS_S = 2
SLOW_START = {"slow_start": {"window_ms": WINDOW_S * 1000, "min_weight_percent": round(100 * LEAST)}}


def ramped(names, policy="weighted-round-robin"):
    return work({name: 100 for name in names}, policy={"name": policy}, **SLOW_START,
                check={"type": "tcp", "port": 7002})


def start(lab):
    """Start everything, servers first, so that their checks pass at once. Wait until the slow
    start of these backends is over."""
    lab.start_backends()
    servers = Servers(lab, (20, 20, 20, 20))
    lab.start_dataplane()
    lab.start_control()
    lab.wait_ready()
    wait_for("the first slow starts to be over",
             lambda: all(each["since_ms"] > WINDOW_S * 1000 for each in lab.backends("work")),
             WINDOW_S + 10)
    return servers


def refuse(lab, servers):
    """Make the server refuse connections. Wait until its backend gets no new flows and its
    refused flows have expired."""
    servers.tell(NEW, "refuse")
    wait_for("refusal", lambda: lab.backend(NEW, "work")["health"] == "refusing", 15)
    wait_for("no flow there", lambda: lab.backend(NEW, "work")["open_flows"] == 0, 15)
    time.sleep(ERRORS_S)


def share_after(seconds):
    """Returns the backend's expected share of flows beside three others (docs/reference/policies.md)."""
    part = min(max(max(seconds, 1) / WINDOW_S, LEAST), 1)
    return part / (len(OTHERS) + part)


def healthy_since(lab):
    """Wait until the backend is healthy. Returns the time when it became healthy, as time.monotonic()."""
    def changed():
        last = lab.api("health.history", service="work", backend=NEW)[-1]
        return last["to"] == "healthy" and last["time_ms"] / 1000
    return wait_for(f"{NEW} to be healthy", changed, 15) - time.time() + time.monotonic()


def check_ramp(load, since, name):
    """Check that the share in each second until one second after the ramp is correct, within 20 % and two flows."""
    time.sleep(max(0, since + WINDOW_S + 1 - time.monotonic()))
    load.wait_until(since + WINDOW_S + 1)
    assert not load.errors(since), load.errors(since)[:3]
    rows = []
    for second in range(WINDOW_S + 1):
        began = load.began(since + second, since + second + 1)
        wanted = sum(share_after(second + (i + 0.5) / STEPS) for i in range(STEPS)) / STEPS
        rows.append((sum(s.who == NEW for s in began), wanted * len(began)))
    text = " ".join(f"{got}/{wanted:.0f}" for got, wanted in rows)
    assert all(abs(got - wanted) <= 0.2 * wanted + 2 for got, wanted in rows), f"{name}: {text}"
    print(f"{name}: {text}; ", end="", flush=True)


@scenario(services=[ramped(OTHERS)], pair=True, start=False)
def slow_start_gives_a_growing_part_to_a_backend_that_a_reload_adds(lab):
    """A backend that a reload adds gets, in each second, the part of its share that the ramp specifies"""
    start(lab)
    with Steady(lab.client, PER_SECOND) as load:
        load.wait_for_more(PER_SECOND)
        lab.write_config([ramped(BACKENDS)])
        lab.weirctl("config", "reload")
        check_ramp(load, healthy_since(lab), "weighted-round-robin")


@scenario(services=[ramped(BACKENDS)], config=QUICK, pair=True, start=False)
def slow_start_gives_a_growing_part_to_a_backend_that_returns(lab):
    """The share of a backend that recovers follows the ramp, with policies by weight, by load and by service time"""
    servers = start(lab)
    with Steady(lab.client, PER_SECOND) as load:
        for name in ("weighted-round-robin", "least-loaded", "fair-share"):
            lab.weirctl("service", "set", "work", f"policy={name}")
            refuse(lab, servers)
            servers.tell(NEW, "work")
            check_ramp(load, healthy_since(lab), name)
