# SPDX-License-Identifier: BSD-3-Clause
"""The limit of active flows applies to all workers together."""
import contextlib
import json
import threading
import time

import clients
from lab import VIP4, lines
from netns import wait_for
from scenario import scenario
from scenarios_limits import raw_socket, syn

LIMIT = 10
WORKERS = 4


def limited(when):
    return [lines(backends={"web-1": 100}, policy={"name": "round-robin"},
                  flow_control={"max_active_flows": LIMIT, "when_exhausted": when})]


def backend(lab):
    return json.loads(lab.weirctl("backend", "show", "lines/web-1", "--json")[1])[0]


def counted(lab):
    return backend(lab)["counted_flows"]


def reload(lab, services):
    lab.write_config(services)
    lab.weirctl("config", "reload")


def connect(lab, timeout=0.3):
    """Open a connection to the line server. Returns None if its SYN was rejected."""
    try:
        return clients.Line(lab.client, VIP4, timeout=timeout)
    except TimeoutError:
        return None


def wait_for_count(lab, count):
    wait_for(f"{count} counted flows", lambda: counted(lab) == count, 10)


def worker_of(lab, line):
    source = line.sock.getsockname()
    answer = lab.api("flow.lookup", protocol="tcp", source=source[0], source_port=source[1],
                     destination=VIP4, destination_port=7000)
    return answer["worker"] if answer["found"] else None


@contextlib.contextmanager
def opened():
    """Yields a list for connections, which are closed at the end of the block."""
    found = []
    try:
        yield found
    finally:
        for line in found:
            line.close()


@scenario(services=limited("reject"), workers={"cores": [0, 1, 0, 1]})
def limit_is_that_of_all_workers(lab):
    """With four workers and limit 10, 10 of 30 concurrent connections are served, even if all are on one worker"""
    assert len(lab.api("worker.show")) == WORKERS
    with opened() as found:
        threads = [threading.Thread(target=lambda: found.append(connect(lab)))
                   for _ in range(3 * LIMIT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found[:] = [line for line in found if line is not None]
        assert len(found) == LIMIT, f"{len(found)} of {3 * LIMIT} connections were served"
        assert len({worker_of(lab, line) for line in found}) > 1
        row = backend(lab)
        assert row["max_active_flows"] == LIMIT and row["counted_flows"] == LIMIT, row
        _, out, _ = lab.weirctl("backend", "show", "lines/")
        assert f"at the limit of {LIMIT} active flows" in out, out
    wait_for_count(lab, 0)
    with opened() as found:  # only connections of the same worker
        while len(found) < LIMIT:
            line = clients.Line(lab.client, VIP4)
            if found and worker_of(lab, line) != worker_of(lab, found[0]):
                line.close()
                wait_for_count(lab, len(found))
            else:
                found.append(line)
        assert connect(lab) is None
        assert len({worker_of(lab, line) for line in found}) == 1


@scenario(services=limited("spill"), workers={"cores": [0, 1, 0, 1]})
def limit_follows_a_reload_and_a_restart(lab):
    """Existing flows still count after the limit changes, and after a restart of each process"""
    with opened() as found:
        for _ in range(LIMIT + 2):
            found.append(clients.Line(lab.client, VIP4))
        wait_for_count(lab, LIMIT + 2)  # two flows were spilled
        reload(lab, [lines(backends={"web-1": 100}, policy={"name": "round-robin"})])
        wait_for("no limit", lambda: backend(lab)["max_active_flows"] is None, 10)
        reload(lab, limited("reject"))
        wait_for_count(lab, LIMIT + 2)
        assert connect(lab) is None
        for line in found[:3]:
            line.close()
        del found[:3]
        wait_for_count(lab, LIMIT - 1)
        found.append(clients.Line(lab.client, VIP4))
        lab.programs["control"].kill()
        lab.start_control()
        wait_for_count(lab, LIMIT)
        assert connect(lab) is None
        lab.programs["dataplane"].kill()
        lab.start_dataplane()
        lab.wait_ready()
        for line in found:  # a flow that starts without a SYN is half-open until its second packet
            line.ask()
            line.ask()
        wait_for_count(lab, LIMIT)
        assert connect(lab) is None


@scenario(services=limited("reject"), workers={"cores": [0, 1, 0, 1]})
def forged_syns_do_not_fill_the_limit(lab):
    """During a SYN flood, clients are served, although flows above the limit are rejected"""
    stop = threading.Event()

    def flood():
        n = 0
        with raw_socket(lab.client) as sock:
            while not stop.is_set():
                for _ in range(20):
                    sock.sendto(syn(f"203.0.113.{n % 250 + 1}", 1024 + n // 250 % 60000),
                                (VIP4, 0))
                    n += 1
                time.sleep(0.01)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        wait_for("the flood", lambda: sum(w["flows_half_open"] for w in lab.api("worker.show"))
                 > 10 * LIMIT, 30)
        # Flows of forged SYNs count for up to half a second. A client is served when it
        # retransmits its rejected SYN.
        clients.Line(lab.client, VIP4, timeout=15).close()
        wait_for("reservations to expire", lambda: counted(lab) <= 1, 15)
        for _ in range(20):
            clients.Line(lab.client, VIP4, timeout=0.9).close()  # the first SYN of the client is accepted
        with opened() as found:
            while True:
                line = connect(lab)
                if line is None:
                    break
                found.append(line)
            assert LIMIT <= len(found) <= LIMIT + WORKERS, len(found)
    finally:
        stop.set()
        thread.join()
