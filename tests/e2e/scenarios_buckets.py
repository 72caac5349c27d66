# SPDX-License-Identifier: BSD-3-Clause
"""Workers take buckets of flows from each other, with skewed traffic through the real dataplane.

The port is a tap device, where worker 0 receives all packets. Sending takes most of the CPU time, and
each worker sends on its own queue. An AF_XDP port is not suitable, because it has as many transmit
queues as receive queues. With one queue, the worker of this queue would always have most of the work."""
import contextlib
import ipaddress
import os
import random
import time

from lab import VIP4, lines, web
from netns import sh, wait_for
from scenario import scenario
from scenarios_ports import STATIC_MAC, start_with_tap

FLOWS = 2000
HOT = 16
PER_SECOND = 250_000
CHUNK = 500
EVEN = 1.2  # maximum load of the busiest worker, divided by the mean load
EVEN_READINGS = 5  # consecutive readings that must be even; readings with unchanged shares count once
UNCHANGED = ("flow_new", "flow_untracked")
ROUND_ROBIN = {"name": "round-robin"}  # with round robin, a flow lost from the table gets another backend
SERVICES = [web(policy=ROUND_ROBIN), lines()]
TWO = {"cores": [0, 1], "steal": False}
FOUR = {"cores": [0, 1, 0, 1], "steal": False}


def flood_command(lab, *arguments):
    return [os.path.join(lab.build, "tests", "e2e", "flood"), "lb0", lab.port_mac or STATIC_MAC,
            VIP4, "80", *(str(a) for a in arguments)]


def total(lab, counter):
    return sum(w[counter] for w in lab.api("worker.show"))


def establish(lab):
    """Start FLOWS flows with a handshake and data. Packets lost because the CPU was too busy are sent again."""
    def all_there():
        for first in range(0, FLOWS, CHUNK):
            for kind in ("syn", "ack", "data"):
                with lab.net.inside():
                    sh(*flood_command(lab, "flows", kind, first, CHUNK, 20_000))
        return total(lab, "flows") >= FLOWS and total(lab, "flows_half_open") == 0
    wait_for("all flows", all_there, 60)


def look_up(lab, flow):
    """Returns (worker, backend) of an existing flow of the flood. Repeats the request
    if the flow is not found, because a worker had no CPU time, or the bucket moved between the
    answers of two workers."""
    source = ipaddress.ip_address(0x0ac00000 + 256 + flow // 4)

    def found():
        answer = lab.api("flow.lookup", protocol="tcp", source=str(source),
                         source_port=20000 + flow % 4, destination=VIP4, destination_port=80)
        return answer["found"] and (answer["worker"], answer["backend"])
    return wait_for(f"flow {flow} to be found", found, 20)


def hot_flows(lab, of_worker, count=HOT):
    """Returns {number: backend} of `count` flows of a worker."""
    found = {}
    for flow in range(FLOWS):
        worker, backend = look_up(lab, flow)
        if worker == of_worker:
            found[flow] = backend
        if len(found) == count:
            return found
    raise AssertionError(f"worker {of_worker} has {len(found)} of {FLOWS} flows")


@contextlib.contextmanager
def skewed_traffic(lab, flows, per_second=PER_SECOND):
    program = lab.program("hot", lab.net, *flood_command(lab, "hot", 170, per_second, *flows))
    try:
        yield
    finally:
        program.kill()


def busy_shares(lab):
    return [w["busy_percent"] or 0 for w in lab.api("worker.show")]


def unevenness(lab):
    shares = busy_shares(lab)
    return max(shares) * len(shares) / max(sum(shares), 1)


def enough_moved(lab):
    return total(lab, "buckets_taken") >= HOT // 4


def stays_even(lab):
    """Returns a condition: the last EVEN_READINGS readings were even. One reading is not enough: a worker
    that waits for a CPU counts as busy, so the shares can be even for a moment without any move."""
    in_a_row = []

    def condition():
        shares = busy_shares(lab)
        if max(shares) * len(shares) > EVEN * sum(shares) or sum(shares) < len(shares):
            in_a_row.clear()
        elif shares not in in_a_row[-1:]:
            in_a_row.append(shares)
        return len(in_a_row) >= EVEN_READINGS and enough_moved(lab)
    return condition


def check_counters(lab):
    def settled():
        rows = lab.api("worker.show")
        taken, given = (sum(w[c] for w in rows) for c in ("buckets_taken", "buckets_given"))
        assert enough_moved(lab) and taken == given, (taken, given)
        assert sum(w["buckets"] for w in rows) == 1024, rows
        return True
    wait_for("as many buckets given as taken", settled, 5)
    _, out, _ = lab.weirctl("worker", "show")
    assert "stealing on" in out, out


def spread(lab, workers):
    start_with_tap(lab, workers)
    establish(lab)
    flows = hot_flows(lab, 1)
    with skewed_traffic(lab, flows):
        wait_for("one worker to have most of the load",
                 lambda: busy_shares(lab)[1] > 6 and unevenness(lab) > 1.4, 60)
        before, counts = busy_shares(lab), [total(lab, name) for name in UNCHANGED]
        assert "switched off" in lab.api("worker.show")[0]["stealing_why"]
        assert total(lab, "buckets_taken") == 0
        lab.weirctl("worker", "steal", "on")
        began = time.monotonic()
        wait_for("even shares", lambda: enough_moved(lab) and unevenness(lab) <= EVEN, 90)
        wait_for("shares that stay even", stays_even(lab), 90)
        print(f"busy shares {before}, after {time.monotonic() - began:.1f} s {busy_shares(lab)}; "
              f"{total(lab, 'buckets_taken')} buckets moved, {total(lab, 'held_packets')} packets "
              "held")
        where = {flow: look_up(lab, flow) for flow in flows}
    assert len({worker for worker, _ in where.values()}) > 1, where
    assert {flow: backend for flow, (_, backend) in where.items()} == flows, (where, flows)
    assert [total(lab, name) for name in UNCHANGED] == counts, "flows were lost"
    check_counters(lab)


@scenario(start=False, lb_mtu=1500, workers=TWO, alone=True, services=SERVICES)
def two_workers_share_hot_flows(lab):
    """If a few flows of one worker have most packets, another worker takes half of the load; no flow is lost"""
    spread(lab, 2)


@scenario(start=False, lb_mtu=1500, workers=FOUR, alone=True, services=SERVICES)
def four_workers_share_hot_flows(lab):
    """If a few flows of one of four workers have most packets, each worker gets a share"""
    spread(lab, 4)


KILLS = 10
# Packets per second. At this rate a worker can wait an eighth of a second for a CPU before its
# ring is full.
GENTLE = 8_000
STEALING = {"cores": [0, 1], "steal": True}


def all_accounted_for(lab):
    """Returns True if no received packet is in flight between workers."""
    return total(lab, "rx_packets") == sum(total(lab, c) for c in (
        "forwarded", "replied", "to_kernel", "dropped", "handed_over"))


def put_first(lab):
    """Give workers priority over all other programs of the machine, as if they had their own cores. A worker
    that waits for a CPU until its ring is full loses packets, with or without moves."""
    pid = lab.programs["dataplane"].process.pid
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(1))


def lost(lab):
    """Returns the drop counts by reason, without no_exception_port: only ARP packets are dropped for this reason."""
    return {reason: n for reason, n in lab.drops().items() if reason != "no_exception_port"}


@scenario(start=False, lb_mtu=1500, workers=STEALING, pair=True, services=SERVICES, seconds=400)
def bucket_moves_survive_kills(lab):
    """If control is killed repeatedly while buckets move, no packet is lost and flows keep their backends"""
    chance, moved_by_killed = random.Random(4711), 0
    start_with_tap(lab, 2)
    put_first(lab)
    establish(lab)
    where = {}
    wait_for("everything forwarded", lambda: all_accounted_for(lab), 10)
    counts, before_all = [total(lab, name) for name in UNCHANGED], lost(lab)
    for _ in range(KILLS):
        flows = hot_flows(lab, 0)  # worker 0 also receives and passes on all packets
        assert all(where.setdefault(flow, backend) == backend for flow, backend in flows.items())
        before = total(lab, "buckets_taken")
        with skewed_traffic(lab, flows, GENTLE):
            wait_for("buckets to move", lambda b=before: total(lab, "buckets_taken") > b, 30, 0.001)
            time.sleep(chance.choice((0, 0.005, 0.02)))  # a random moment for the kill
            moved_by_killed += total(lab, "buckets_taken") - before
            lab.programs["control"].kill()
            lab.start_control()
            wait_for("control attached",
                     lambda: lab.api("version")["dataplane"]["attached"], 15)
    wait_for("everything forwarded", lambda: all_accounted_for(lab), 10)
    assert [total(lab, name) for name in UNCHANGED] == counts, "flows were lost"
    assert lost(lab) == before_all, (lost(lab), before_all)
    for flow, backend in where.items():
        assert look_up(lab, flow)[1] == backend, flow
    rows = lab.api("worker.show")
    assert sum(w["buckets_taken"] for w in rows) == sum(w["buckets_given"] for w in rows), rows
    assert sum(w["buckets"] for w in rows) == 1024, rows
    print(f"{KILLS} kills, {moved_by_killed} buckets moved by then, "
          f"{total(lab, 'buckets_taken')} in all, {total(lab, 'held_packets')} packets held, "
          f"{total(lab, 'rx_packets')} received", flush=True)
