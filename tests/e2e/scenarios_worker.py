# SPDX-License-Identifier: BSD-3-Clause
"""Workers make no system calls, except system calls of the driver (S1). strace under load checks this."""
import ctypes
import os
import re
import signal
import socket
import time

import clients
from lab import BACKENDS, VIP4, VIP6, echo, lines, upload, web
from netns import wait_for
from scenario import scenario
from scenarios_ports import (attach_testpmd, memif_device, requests_and_upload,
                             start_with_static_gateway, start_with_tap)

AF_XDP, SO_DOMAIN = 44, 39
SYS_PIDFD_GETFD = 438
POLL = {"cores": [os.cpu_count() - 1], "idle": "poll"}
SLEEP = {**POLL, "idle": "sleep"}
WOKEN = re.compile(r"epoll_p?wait\(.*\) += [1-9]")
# Flows end during the trace, so that the workers also remove expired flows.
SHORT_FLOWS = {"flow_table": {"flows_per_worker": 65536,
                              "timeout_ms": {"closing": 200, "udp": 200}}}
# Counters of a worker's activities. Each must increase while strace is attached.
COUNTED = ("forwarded", "replied", "dropped", "flow_hits", "flow_new", "flow_expired")

# System calls with which the AF_XDP driver makes the kernel send or receive packets. The groups
# match the descriptor.
MOVES_PACKETS = re.compile(r"(?:recvfrom|sendto|sendmsg)\((\d+), |"
                           r"poll\(\[\{fd=(\d+), [^}]*\}\], 1, ")

libc = ctypes.CDLL(None, use_errno=True)


class Strace:
    """strace on every worker thread of the dataplane."""

    def __init__(self, lab):
        self.pid = lab.programs["dataplane"].pid
        self.threads = [tid for tid in os.listdir(f"/proc/{self.pid}/task")
                        if "worker" in self.about(tid, "comm")]
        assert self.threads, "the dataplane has no thread that is called a worker"
        self.path = os.path.join(lab.dir, "strace")
        attach = [word for tid in self.threads for word in ("-p", tid)]
        # one file per thread: in a common file, a call can be split over two lines
        self.program = lab.program("strace", lab.lb, "strace", "-ff", "-o", self.path, *attach)
        wait_for("strace to be attached to the workers", self.attached)

    def about(self, tid, name):
        with open(f"/proc/{self.pid}/task/{tid}/{name}", encoding="ascii") as file:
            return file.read()

    def attached(self):
        tracer = f"TracerPid:\t{self.program.pid}\n"
        return all(tracer in self.about(tid, "status") for tid in self.threads)

    def calls(self):
        """Returns the completed system calls, one line of text each."""
        found = []
        for tid in self.threads:
            with open(f"{self.path}.{tid}", encoding="utf-8") as file:
                found += [line for line in file if re.match(r"\w+\(.*\n", line)]
        return found

    def divide(self, is_drivers):
        """Returns two lists: system calls that move packets through a descriptor for which is_drivers() is true,
        and all other system calls."""
        known, drivers, rest = {}, [], []
        for call in self.calls():
            match = MOVES_PACKETS.match(call)
            fd = int(match.group(1) or match.group(2)) if match else -1
            if fd not in known:
                known[fd] = match is not None and is_drivers(fd)
            (drivers if known[fd] else rest).append(call)
        return drivers, rest


def is_xdp_socket(pid, fd):
    """Returns whether the descriptor `fd` of another process is an AF_XDP socket."""
    process = os.pidfd_open(pid)
    try:
        copy = libc.syscall(SYS_PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    if copy < 0:
        return False
    family, size = ctypes.c_int(-1), ctypes.c_uint(ctypes.sizeof(ctypes.c_int))
    known = libc.getsockopt(copy, socket.SOL_SOCKET, SO_DOMAIN, ctypes.byref(family),
                            ctypes.byref(size)) == 0
    os.close(copy)
    return known and family.value == AF_XDP


def ping(lab, vip, size=56):
    out = lab.client.run("ping", "-c", "1", "-W", "1", "-s", size, vip, check=False)
    return " 0% packet loss" in out


def use_everything(lab):
    """Make the workers execute all their functions: traffic, tables, queries."""
    before = {name: sum(w[name] for w in lab.api("worker.show")) for name in COUNTED}
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    with clients.Load(lab.client, VIP6) as load:
        load.wait_for_more(50, 60)
        lab.weirctl("backend", "drain", "web/web-4")
        lab.weirctl("weight", "set", "web/web-3", "7")
        lab.weirctl("service", "set", "web", "policy=least-loaded")
        load.wait_for_more(200, 60)
        lab.weirctl("flow", "count")
        lab.weirctl("flow", "lookup", "tcp", f"192.0.2.2:{found['web-1'].port()}", f"{VIP4}:7000")
        for vip in (VIP4, VIP6):
            wait_for("a datagram answered",
                     lambda v=vip: clients.Udp(lab.client, v).ask() in BACKENDS, 20)
            wait_for("a ping answered", lambda v=vip: ping(lab, v), 20)
        clients.check_lines(found)
        load.wait_for_more(50, 60)
    assert not load.errors(), load.errors()[:5]

    def all_seen():
        assert not ping(lab, VIP4, 3000), "fragments were answered"
        after = {name: sum(w[name] for w in lab.api("worker.show")) for name in COUNTED}
        same = [name for name in COUNTED if after[name] == before[name]]
        assert not same, f"not counted by any worker under strace: {same}"
        return True
    wait_for("everything a worker does", all_seen, 20)


def end_under_strace(lab, strace):
    """Stop the dataplane. strace must show the system calls that a worker makes when it exits."""
    assert strace.attached(), "strace is no longer attached to every worker"
    before = len(strace.calls())
    lab.programs["dataplane"].signal(signal.SIGTERM)
    wait_for("strace to end with the workers", lambda: not strace.program.alive(), 20)
    assert len(strace.calls()) > before, "strace recorded no system call of a worker that ends"


@scenario(short=True, alone=True, start=False, lb_mtu=1500, workers=POLL, services=[web(), lines(), echo()],
          config=SHORT_FLOWS)
def s1_no_system_call(lab):
    """strace shows no system call of a worker that polls a memif port, under load (S1)"""
    path = os.path.join(lab.dir, "memif.sock")
    start_with_static_gateway(lab, memif_device(path), after=lambda: attach_testpmd(lab, path))
    wait_for("link up", lambda: "link up" in lab.programs["dataplane"].output(), 20)
    strace = Strace(lab)
    use_everything(lab)
    assert not strace.calls(), strace.calls()[:5]
    end_under_strace(lab, strace)


@scenario(alone=True, workers={"cores": [os.cpu_count() - 1] * 2, "idle": "poll"},
          services=[web(), lines(), echo()], config=SHORT_FLOWS)
def s1_af_xdp_driver_calls_only(lab):
    """Under load, strace of two AF_XDP workers shows only system calls of the driver on its sockets (S1)"""
    strace = Strace(lab)
    use_everything(lab)
    of_driver, own = strace.divide(lambda fd: is_xdp_socket(strace.pid, fd))
    assert not own, f"{len(own)} of {len(own) + len(of_driver)} system calls: {own[:5]}"
    assert of_driver, "the driver sent and received without a system call?"
    end_under_strace(lab, strace)


def loops(lab):
    [row] = lab.api("worker.show")
    return row["loops"]


def sleeps(lab):
    """Returns a condition: the worker makes about one iteration per millisecond. In idle mode yield, it would
    make ten times as many iterations."""
    before, since = loops(lab), time.monotonic()

    def condition():
        nonlocal before, since
        turned, took = loops(lab) - before, time.monotonic() - since
        before, since = before + turned, since + took
        return took > 0.2 and turned < 4000 * took
    return condition


def sleeps_and_is_woken(lab):
    wait_for("the worker to sleep", sleeps(lab), 30, 0.5)
    strace = Strace(lab)
    assert ping(lab, VIP4)
    wait_for("packets that wake the worker",
             lambda: ping(lab, VIP4) and any(WOKEN.match(call) for call in strace.calls()), 20)
    end_under_strace(lab, strace)


@scenario(workers=SLEEP, services=[web(), upload()])
def sleeping_worker_is_woken_by_af_xdp(lab):
    """In idle mode sleep, a worker makes few iterations without traffic, and a packet in an AF_XDP socket wakes it"""
    assert "worker 0: woken by packets" in lab.programs["dataplane"].output()
    requests_and_upload(lab)
    sleeps_and_is_woken(lab)


@scenario(start=False, lb_mtu=1500, workers=SLEEP, services=[web(), upload()])
def sleeping_worker_is_woken_by_a_tap(lab):
    """In idle mode sleep, the receive interrupt of a DPDK driver (tap) wakes a worker"""
    start_with_tap(lab)
    assert "worker 0: woken by packets" in lab.programs["dataplane"].output()
    requests_and_upload(lab)
    sleeps_and_is_woken(lab)


@scenario(workers={"cores": [os.cpu_count() - 1] * 2, "idle": "sleep"}, services=[web(), upload()])
def worker_without_wakeups_keeps_polling(lab):
    """In idle mode sleep, a worker that gets packets from a distributor keeps polling"""
    output = lab.programs["dataplane"].output()
    assert "worker 0: woken by packets" in output, output
    assert "worker 1: falls back to idle mode yield" in output, output
    requests_and_upload(lab)
