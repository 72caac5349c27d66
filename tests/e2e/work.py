# SPDX-License-Identifier: BSD-3-Clause
"""Load for the backends: servers with a fixed service time, and clients that keep them busy.

One connection is one request and one flow: connect, wait for the answer, close.
"""
import contextlib
import os
import socket
import threading
import time
from collections import Counter, namedtuple

from lab import BACKENDS, HERE, PYTHON, VIP4, service
from netns import wait_for
from work_server import COMMAND_PORT, PORT

# start, end: monotonic seconds; who: name of the serving backend, "" on an error
Sample = namedtuple("Sample", "start end who error")


def work(backends=None, **more):
    return service("work", PORT, backends=backends, **more)


class Servers:
    """One work_server.py per backend of the lab."""

    def __init__(self, lab, milliseconds=(10, 20, 40, 80)):
        self.lab = lab
        for number, (name, each) in enumerate(zip(BACKENDS, milliseconds), 1):
            lab.program(f"work-{number}", lab.namespaces[f"b{number}"], PYTHON,
                        os.path.join(HERE, "work_server.py"), name, str(each))
        for number in range(1, 5):
            name = f"work-{number}"
            lab.wait_for_program(name, lambda n=name: "serving" in lab.programs[n].output(), 10)

    def tell(self, name, command="count"):
        """Send a command to a server; returns the number of connections that it has accepted."""
        with self.lab.namespaces["b" + name[-1]].inside():
            sock = socket.create_connection(("127.0.0.1", COMMAND_PORT), 5)
        with sock, sock.makefile("rwb") as file:
            file.write(command.encode() + b"\n")
            file.flush()
            return int(file.readline())

    def accepted(self):
        return Counter({name: self.tell(name) for name in BACKENDS})


class Work:
    """Requests from several clients at once, each on a new connection.

    With a count, makes this many requests in total, and join() waits for them. Without a count,
    makes requests until stop() is called.
    """

    def __init__(self, namespace, clients=12, count=None, timeout=30, vip=VIP4):
        self.namespace, self.timeout, self.vip = namespace, timeout, vip
        self.samples = []  # finished requests, in the order in which they finished
        self.tickets, self.lock = count, threading.Lock()
        self.stopping = False
        self.waiting = {}  # socket of each waiting client, by thread
        self.threads = [threading.Thread(target=self.client, daemon=True)
                        for _ in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def ticket(self):
        """Returns whether another request is allowed to start."""
        with self.lock:
            if self.tickets is not None:
                self.tickets -= 1
                return self.tickets >= 0 and not self.stopping
            return not self.stopping

    def client(self):
        with self.namespace.inside():
            while self.ticket():
                self.samples.append(self.request())

    def request(self):
        start, answer, error = time.monotonic(), b"", ""
        family = socket.AF_INET6 if ":" in self.vip else socket.AF_INET
        with socket.socket(family) as sock:
            sock.settimeout(self.timeout)
            self.waiting[threading.get_ident()] = sock
            try:
                sock.connect((self.vip, PORT))
                while block := sock.recv(64):
                    answer += block
                if not answer:
                    error = "closed without a response"
            except OSError as problem:
                error = f"{type(problem).__name__}: {problem}"
            del self.waiting[threading.get_ident()]
        return Sample(start, time.monotonic(), answer.decode(), error)

    def join(self, timeout=60):
        """Wait until all requests have finished. Raises AssertionError if a request failed."""
        deadline = time.monotonic() + timeout
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
            assert not thread.is_alive(), f"after {timeout} s {len(self.waiting)} requests wait"
        assert not self.errors(), f"{len(self.errors())} failed: {self.errors()[:3]}"
        return self

    def stop(self):
        """Stop now, and abort requests that wait for an answer."""
        self.stopping = True
        for thread in self.threads:
            while thread.is_alive():
                for sock in list(self.waiting.values()):
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                thread.join(0.05)

    def wait_for_more(self, count, timeout=20):
        """Wait until `count` more requests have finished."""
        goal = len(self.samples) + count
        wait_for(f"{count} more requests", lambda: len(self.samples) >= goal, timeout)

    def wait_until(self, moment, timeout=20):
        """Wait until a request that started at or after `moment` has finished."""
        wait_for("requests to continue", lambda: self.samples and self.samples[-1].start >= moment,
                 moment - time.monotonic() + timeout)

    def began(self, first, last=float("inf")):
        """Returns the finished requests that started in [first, last)."""
        return [s for s in list(self.samples) if first <= s.start < last]

    def errors(self, since=0.0):
        return [s.error for s in self.began(since) if s.error]

    def served(self, since=0.0):
        return Counter(s.who for s in self.began(since) if not s.error)

    def mean_ms(self, name=None):
        """Returns the mean duration of a request, as measured by clients."""
        times = [s.end - s.start for s in list(self.samples)
                 if not s.error and name in (None, s.who)]
        return 1000 * sum(times) / len(times) if times else 0.0

    def seconds(self):
        return max(s.end for s in self.samples) - min(s.start for s in self.samples)


class Steady(Work):
    """Makes `per_second` requests per second while a client is free, even if earlier requests are unfinished."""

    def __init__(self, namespace, per_second, clients=40, **more):
        super().__init__(namespace, clients, **more)
        self.per_second, self.next = per_second, time.monotonic()

    def ticket(self):
        with self.lock:
            self.next = max(self.next, time.monotonic() - 1) + 1 / self.per_second
            moment = self.next
        while not self.stopping and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return not self.stopping
