# SPDX-License-Identifier: BSD-3-Clause
"""The whole dataplane on a device that spreads flows by RSS (tests/nic): buckets move between
workers, and the device's redirection table (RETA) is updated.

The device numbers the packets that it receives from the wire, and checks the packets that it sends.
So it detects each packet that is lost, reordered within its flow, or sent to another backend than
the previous packet."""
import contextlib
import os
import time

from clients import Line, Threads, curl_batch
from lab import VIP4, lines, web
from netns import wait_for
from rss_nic import ENTRIES, RssNic
from scenario import scenario
from scenarios_buckets import (EVEN, FOUR, HOT, ROUND_ROBIN, TWO, UNCHANGED, all_accounted_for,
                               establish, hot_flows, look_up, lost, put_first, skewed_traffic,
                               total)

SERVICES = [web(policy=ROUND_ROBIN), lines(policy=ROUND_ROBIN)]
WITHIN = 2.0  # seconds until the load is even
WITHIN_SHARED = 60.0  # longer if workers share CPUs, because a worker that waits for a CPU counts as busy
TX_NS = 10_000  # time to send a packet, as if each packet needed a system call
PER_SECOND = 10_000
FEW = 50  # allowed number of other packets, for example of neighbour discovery
WINDOW = 0.25  # seconds over which the shares of workers are measured
# Busy flows of each worker. There are so few flows that each flow has several packets while a
# queue pauses.
FEW_HOT = 2
PAUSE_US = 500  # pause of a transmit queue, while the other queues continue
FAULTS = ("unsent", "unknown", "reordered", "strayed")


def start(lab):
    nic = RssNic(lab)
    lab.start()
    workers = len(lab.workers["cores"])
    said = lab.programs["dataplane"].output()
    assert f"{workers} receive queues, spread by RSS" in said, said
    (put_before if shares_cpus(lab) else put_first)(lab)
    nic.put_first(lab.programs["dataplane"].process.pid)
    return nic


def shares_cpus(lab):
    """Returns whether workers share CPUs. If so, the rings of a worker that waits for a CPU can overflow."""
    return len(lab.workers["cores"]) > len(set(lab.workers["cores"]))


def put_before(lab):
    """Give workers priority like put_first() of scenarios_buckets.py, but by their nice value, so
    that workers on the same CPU share it."""
    pid = lab.programs["dataplane"].process.pid
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), -20)


def check_faults(nic, missed=0):
    """Check that no packet was lost, reordered or sent to another backend, and that no packet is in
    flight. missed: packets counted as lost because a queue or a ring was full."""
    def settled():
        assert nic["judged"] > 0 and nic["lost"] + nic["pending"] <= missed, nic.show()
        assert not any(nic[name] for name in FAULTS), nic.show()
        return True
    wait_for("no packet in flight, and no fault", settled, 10)


def table_follows(lab, nic):
    """Returns a condition: each worker's queue has as many RETA entries as the worker has buckets."""
    def condition():
        buckets = [w["buckets"] for w in lab.api("worker.show")]
        table = nic.table()
        found = [table.count(queue) for queue in range(len(buckets))]
        assert sum(buckets) == ENTRIES and found == buckets, (found, buckets)
        return True
    return condition


# --- shares ------------------------------------------------------------------------------------

def shares(lab):
    """Returns the number of packets that each worker forwards within WINDOW."""
    before = [w["forwarded"] for w in lab.api("worker.show")]
    time.sleep(WINDOW)  # the length of the measurement
    return [w["forwarded"] - b for w, b in zip(lab.api("worker.show"), before)]


def unevenness(forwarded):
    return max(forwarded) * len(forwarded) / max(sum(forwarded), 1)


def even(lab):
    """Returns a condition: the shares of a window are even. If workers share CPUs, it is enough
    that each worker gets some packets, because a worker that waits for a CPU counts as busy."""
    def condition():
        found = shares(lab)
        if shares_cpus(lab):
            assert min(found) * len(found) * 4 >= sum(found) > 0, found
        else:
            assert unevenness(found) <= EVEN, found
        return True
    return condition


def becomes_even(lab):
    """Wait until the shares of a window are even. Returns the time in seconds."""
    began = time.monotonic()
    wait_for("even shares", even(lab), 60, 0)
    return time.monotonic() - began - WINDOW / 2


def spread(lab, hot, within):
    nic = start(lab)
    establish(lab)
    flows = hot_flows(lab, 1, hot)
    nic["tx_ns"] = TX_NS
    with skewed_traffic(lab, flows, PER_SECOND):
        wait_for("one worker to get all packets", lambda: shares(lab)[1] > PER_SECOND * WINDOW / 2, 30)
        wait_for("control to measure the load", lambda: (lab.api("worker.show")[1]["busy_percent"] or 0) > 6, 30)
        before, counts = shares(lab), [total(lab, name) for name in UNCHANGED]
        assert total(lab, "buckets_taken") == 0
        lab.weirctl("worker", "steal", "on")
        seconds = becomes_even(lab)
        assert seconds <= within, f"{before} even after {seconds:.1f} s"
        lab.weirctl("worker", "steal", "off")
        wait_for("the RETA to be updated", table_follows(lab, nic), 10)
        handed = total(lab, "handed_over")
        after, more = shares(lab), total(lab, "handed_over") - handed
        assert min(after) > 0 and more < FEW, f"{after}; {more} came to other workers' queues"
        where = {flow: look_up(lab, flow) for flow in flows}
    assert len({worker for worker, _ in where.values()}) == len(lab.workers["cores"]), where
    assert {flow: backend for flow, (_, backend) in where.items()} == flows, (where, flows)
    assert [total(lab, name) for name in UNCHANGED] == counts, "flows were lost"
    # Packets can be lost while one worker has all hot flows and is overloaded.
    check_faults(nic, nic["missed"] + sum(lost(lab).values()))
    print(f"packets of workers {before}, after {seconds:.1f} s {after}; "
          f"{total(lab, 'buckets_taken')} buckets moved, {nic['updates']} changes of the table, "
          f"{handed} packets passed on")


@scenario(start=False, workers=TWO, alone=True, services=SERVICES)
def rss_two_workers_share_hot_flows(lab):
    """If a few flows of one queue have most packets, the load is even within 2 s, and the RETA is updated"""
    spread(lab, 16, WITHIN)


@scenario(start=False, workers=FOUR, alone=True, services=SERVICES)
def rss_four_workers_share_hot_flows(lab):
    """If four workers share two CPUs, and one queue has the hot flows, each worker gets some hot flows"""
    spread(lab, 32, WITHIN_SHARED)


# --- moves under load --------------------------------------------------------------------------

MOVES, KILLS, STREAMS = 1000, 10, 24
STEALING2 = {"cores": [0, 1], "steal": True}
STEALING4 = {"cores": [0, 1, 0, 1], "steal": True}


class Streams(Threads):
    """Connections that make requests without a pause. Each response has the number of its request."""

    def __init__(self, lab, count):
        self.lines = [Line(lab.client, VIP4) for _ in range(count)]
        self.asked, self.errors = [0] * count, []
        super().__init__(count)

    def work(self, number):
        line = self.lines[number]
        try:
            while not self.stopping.is_set():
                backend = line.ask()
                assert backend == line.backend, (backend, line.backend)
                self.asked[number] += 1
        except (OSError, AssertionError) as problem:
            self.errors.append(f"{type(problem).__name__}: {problem}")

    def stop(self):
        super().stop()
        for line in self.lines:
            line.close()


def forced(lab):
    """Returns the number of buckets taken so far, from the output of force_moves."""
    said = lab.programs["force_moves"].output().split()
    return int(said[-1]) if said else 0


def force_moves(lab):
    """Force MOVES moves with a control process that is killed repeatedly."""
    for kill in range(1, KILLS + 1):
        program = lab.program("force_moves", lab.lb,
                              os.path.join(lab.build, "tests", "e2e", "force_moves"), lab.run_dir,
                              10 * MOVES)
        wait_for("moves", lambda goal=kill * MOVES // KILLS: forced(lab) >= goal, 60, 0.001)
        program.kill()
    return forced(lab)


def moves_under_load(lab, hot=HOT, pause_us=0):
    nic = start(lab)
    establish(lab)
    flows = {flow: backend for worker in range(len(lab.workers["cores"]))
             for flow, backend in hot_flows(lab, worker, hot).items()}
    nic["apart"] = pause_us
    streams = Streams(lab, STREAMS)
    wait_for("everything forwarded", lambda: all_accounted_for(lab), 10)
    counts, before = [total(lab, name) for name in UNCHANGED], sum(lost(lab).values())
    with streams:
        with skewed_traffic(lab, flows, PER_SECOND):
            wait_for("a request of each connection", lambda: min(streams.asked) > 10, 20)
            lab.programs["control"].kill()
            moved = force_moves(lab)
            asked = list(streams.asked)
            wait_for("each connection to continue",
                     lambda: streams.errors or all(a > b for a, b in zip(streams.asked, asked)), 20)
            lab.start_control()
            wait_for("control attached",
                     lambda: lab.api("version")["dataplane"]["attached"], 15)
            lab.weirctl("worker", "steal", "off")
            wait_for("the RETA to be updated", table_follows(lab, nic), 20)
        assert not streams.errors, streams.errors
        assert [total(lab, name) for name in UNCHANGED] == counts, "flows were lost"
    where = {flow: look_up(lab, flow)[1] for flow in flows}
    assert where == flows, (where, flows)
    dropped = nic["missed"] + sum(lost(lab).values()) - before
    assert dropped == 0 or shares_cpus(lab), (lost(lab), nic.show())
    check_faults(nic, dropped)
    rows = lab.api("worker.show")
    assert moved >= MOVES and sum(w["buckets_taken"] for w in rows) >= moved, (moved, rows)
    assert sum(w["buckets_taken"] for w in rows) == sum(w["buckets_given"] for w in rows), rows
    print(f"{moved} buckets moved, {KILLS + 1} kills, {nic['updates']} changes of the table, "
          f"{nic['judged']} packets, {dropped} dropped and counted, {sum(streams.asked)} of them questions, "
          f"{total(lab, 'held_packets')} held, {total(lab, 'handed_over')} passed on")


@scenario(start=False, workers=STEALING2, alone=True, services=SERVICES, seconds=300)
def rss_moves_lose_nothing(lab):
    """While 1,000 buckets with TCP connections move and control is killed, no packet is lost"""
    moves_under_load(lab)


@scenario(start=False, workers=STEALING4, alone=True, services=SERVICES, seconds=300)
def rss_moves_lose_nothing_with_four_workers(lab):
    """While 1,000 buckets move between four workers that share two CPUs, all lost packets are counted"""
    moves_under_load(lab)


@scenario(start=False, workers=STEALING2, alone=True, services=SERVICES, seconds=300)
def rss_moves_keep_order_between_queues(lab):
    """While 1,000 buckets move and transmit queues pause in turn, no packets of a flow are reordered"""
    moves_under_load(lab, FEW_HOT, PAUSE_US)


# --- devices without support -------------------------------------------------------------------

@scenario(start=False, workers=STEALING2, services=SERVICES)
def rss_table_that_is_refused(lab):
    """If the device refuses to change its table, this is logged, and workers pass packets to each other"""
    nic = start(lab)
    establish(lab)
    flows = hot_flows(lab, 1)
    nic["refuses"] = 1
    time.sleep(0.2)  # until the device has read this setting
    table = nic.table()  # buckets may have moved before
    nic["tx_ns"] = TX_NS
    before = nic["updates"]
    with skewed_traffic(lab, flows, PER_SECOND):
        wait_for("a bucket to move", lambda: total(lab, "buckets_taken") > 0, 30)
        wait_for("the refusal in the log", lambda: "cannot update the RSS redirection table"
                 in lab.programs["dataplane"].output(), 30)
        handed = total(lab, "handed_over")
        wait_for("packets passed on", lambda: total(lab, "handed_over") > handed + PER_SECOND, 30)
    assert nic.table() == table, "it has changed"
    assert nic["updates"] > before
    check_faults(nic)


@scenario(start=False, workers=STEALING2, services=SERVICES)
def rss_table_that_cannot_be_set(lab):
    """Without a configurable redirection table, flows stay on their queues; worker show displays the reason"""
    nic = RssNic(lab)
    nic["refuses"] = 1
    lab.start()
    result = curl_batch(lab.client, VIP4, 100)
    assert result.ok == 100 and not result.failed, result.errors
    assert all(nic.queue_received()[:2]), nic.queue_received()
    _, out, _ = lab.weirctl("worker", "show")
    assert "its redirection table (RETA) cannot be updated" in out, out
    with contextlib.closing(Line(lab.client, VIP4)) as line:
        assert line.ask() == line.backend
    check_faults(nic)
