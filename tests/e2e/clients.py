# SPDX-License-Identifier: BSD-3-Clause
"""Clients of the lab: curl for HTTP, plain sockets for connections that must stay open.

All functions open their sockets inside the client namespace; see netns.py.
"""
import ctypes
import hashlib
import os
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections import Counter

from netns import wait_for


CURL = ("--silent", "--globoff", "--noproxy", "*")


def url_host(address):
    return f"[{address}]" if ":" in address else address


class Result:
    """Results of requests: for each request, the backend that served it, or the error."""

    def __init__(self):
        self.served = Counter()
        self.errors = []  # text of each failure
        self.lock = threading.Lock()

    def add(self, other):
        with self.lock:
            self.served += other.served
            self.errors += other.errors

    @property
    def ok(self):
        return sum(self.served.values())

    @property
    def failed(self):
        return len(self.errors)


def curl_batch(namespace, host, count, path="/", timeout=5):
    """`count` HTTP requests by one curl, each on a new connection. Returns a Result."""
    mark = "%{http_code} %{num_connects} %{exitcode} %header{x-backend} %{errormsg}\n"
    with namespace.inside():
        done = subprocess.run(
            ["curl", *CURL, "--header", "Connection: close", "--max-time", str(timeout),
             "--write-out", mark]
            + ["--output", os.devnull, f"http://{url_host(host)}{path}"] * count,
            capture_output=True, text=True, check=False)
    result = Result()
    for line in done.stdout.splitlines():
        code, connects, exit_code, who, error = (line.split(" ", 4) + [""] * 4)[:5]
        if code == "200" and connects == "1" and exit_code == "0" and who:
            result.served[who] += 1
        else:
            result.errors.append(f"http {code}, curl exit {exit_code}: {error or line}")
    missing = count - result.ok - result.failed
    result.errors += [f"curl gave no result: {done.stderr.strip()}"] * missing
    return result


def http_get(namespace, host, path="/", timeout=5, port=80):
    """Send one HTTP request on a new connection. Returns (backend, body), or raises OSError."""
    with namespace.inside():
        sock = socket.create_connection((host, port), timeout)
    with sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while block := sock.recv(1 << 16):
            answer += block
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator or b" 200 " not in head.split(b"\r\n")[0]:
        raise ConnectionError(f"bad answer: {answer[:80]!r}")
    found = re.search(rb"X-Backend: (\S+)", head)
    return found.group(1).decode() if found else "", body


class Threads:
    """Threads that call work(number) repeatedly. They exit when stop() sets `stopping`, or at the end of
    a `with` block."""

    def __init__(self, count):
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True)
                        for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def work(self, number):
        raise NotImplementedError

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()


class Load(Threads):
    """HTTP requests from several threads, each on a new connection, until stop() is called."""

    def __init__(self, namespace, host, threads=4, pause=0.004, path="/"):
        super().__init__(threads)
        self.namespace, self.host, self.path, self.pause = namespace, host, path, pause
        self.samples = []  # (start, end, backend or None, error text)

    def work(self, number):
        while not self.stopping.is_set():
            start, who, error = time.monotonic(), None, ""
            try:
                who, _ = http_get(self.namespace, self.host, self.path)
            except OSError as problem:
                error = f"{type(problem).__name__}: {problem}"
            self.samples.append((start, time.monotonic(), who, error))
            self.stopping.wait(self.pause)

    def wait_for_more(self, count, timeout=20):
        """Wait until `count` more requests have succeeded or failed."""
        goal = len(self.samples) + count
        wait_for(f"{count} more requests", lambda: len(self.samples) >= goal, timeout)

    def errors(self, since=0.0):
        return [error for start, _, _, error in self.samples if error and start >= since]

    def served(self, since=0.0):
        return Counter(who for start, _, who, error in self.samples
                       if not error and start >= since)


class Line:
    """A TCP connection to the line server (port 7000). ask() returns the backend. source: the
    client's port; an earlier connection may have used the same port."""

    def __init__(self, namespace, host, port=7000, timeout=5, source=0):
        with namespace.inside():
            self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.sock.bind(("", source))
            self.sock.settimeout(timeout)
            self.sock.connect((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rwb")
        self.count = 0
        self.backend = self.ask()

    def ask(self):
        self.count += 1
        self.file.write(b"line %d\n" % self.count)
        self.file.flush()
        answer = self.file.readline().decode().split()
        if answer[1:] != ["line", str(self.count)]:
            raise ConnectionError(f"line {self.count} answered by {answer}")
        return answer[0]

    def port(self):
        return self.sock.getsockname()[1]

    def close(self):
        self.file.close()
        self.sock.close()


class KeepAlive:
    """An HTTP connection that stays open. ask() returns the backend."""

    def __init__(self, namespace, host, timeout=5):
        with namespace.inside():
            self.sock = socket.create_connection((host, 80), timeout)
        self.file = self.sock.makefile("rwb")
        self.host = host
        self.backend = self.ask()

    def get(self, path):
        """Send one request. Returns (backend, body)."""
        self.file.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        self.file.flush()
        head = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(": ")
            head[name.lower()] = value
        if "x-backend" not in head:
            raise ConnectionError(f"bad answer: {head}")
        return head["x-backend"], self.file.read(int(head["content-length"]))

    def ask(self):
        return self.get("/")[0]

    def port(self):
        return self.sock.getsockname()[1]

    def close(self):
        self.file.close()
        self.sock.close()


def line_per_backend(namespace, host, names, kind=Line):
    """Open connections until each backend in `names` serves one. Returns {name: connection}."""
    found = {}
    for _ in range(50 * len(names)):
        line = kind(namespace, host)
        if line.backend in names and line.backend not in found:
            found[line.backend] = line
        else:
            line.close()
        if len(found) == len(names):
            return found
    raise AssertionError(f"only {sorted(found)} of {sorted(names)} ever answered")


def check_lines(found):
    """Check that each connection still exists and is still served by its first backend."""
    for name, line in found.items():
        who = line.ask()
        assert who == name, f"connection of {name} is now answered by {who}"


def lose(sock, one_of):
    """Attach a filter to the client's socket. It drops random packets, so the server must retransmit them."""
    code = [(0x20, 0, 0, 0xfffff000 + 56), (0x94, 0, 0, one_of), (0x15, 0, 1, 0), (0x06, 0, 0, 0),
            (0x06, 0, 0, 0xffffffff)]  # a random number modulo one_of: drop if 0, otherwise accept
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *op) for op in code))
    sock.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", len(code), ctypes.addressof(program)))


class Udp:
    """One UDP session to the echo server (port 9000). source_port: 0 = any."""

    def __init__(self, namespace, host, port=9000, timeout=2, source_port=0):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with namespace.inside():
            self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.settimeout(timeout)
        self.sock.bind(("", source_port))
        self.sock.connect((host, port))
        self.count = 0

    def ask(self):
        """Send one datagram; returns the backend's name. Raises OSError if no answer arrives."""
        self.count += 1
        payload = b"datagram %d" % self.count
        self.sock.send(payload)
        name, _, rest = self.sock.recv(2048).partition(b" ")
        if rest != payload:
            raise ConnectionError(f"sent {payload}, got back {rest}")
        return name.decode()

    def close(self):
        self.sock.close()


HELD_AFTER = 8 << 20  # bytes


class Download:
    """One curl that downloads a file and hashes it, in the background.

    With `held` the download stops after 8 MB, and finish() reads the remaining bytes. Until
    then the server still has to send much of a 24 MB file.
    """

    def __init__(self, namespace, host, path, timeout=300, held=False):
        self.head, self.go_on = tempfile.NamedTemporaryFile(), threading.Event()
        if not held:
            self.go_on.set()
        self.timeout, self.sha256, self.size, self.exit = timeout, "", 0, None
        with namespace.inside():
            self.process = subprocess.Popen(
                ["curl", *CURL, "--show-error", "--max-time", str(timeout), "--dump-header",
                 self.head.name, f"http://{url_host(host)}{path}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        digest = hashlib.sha256()
        while block := self.process.stdout.read(1 << 20):
            digest.update(block)
            self.size += len(block)
            if self.size >= HELD_AFTER:
                self.go_on.wait()
        self.sha256 = digest.hexdigest()
        self.exit = self.process.wait()

    def backend(self):
        """Returns the backend that serves the download, from the headers of the response."""
        def named():
            with open(self.head.name, "rb") as file:
                return re.search(rb"X-Backend: (\S+)", file.read())
        return wait_for("head of the download", named, 10).group(1).decode()

    def running(self):
        return self.thread.is_alive()

    def finish(self):
        """Wait until curl exits. Returns (exit status of curl, bytes, sha256)."""
        self.go_on.set()
        self.thread.join(self.timeout)
        return self.exit, self.size, self.sha256

    def stop(self):
        self.go_on.set()
        if self.process.poll() is None:
            self.process.kill()
        self.thread.join()
        self.process.stderr.close()
        self.head.close()


def send_file(namespace, host, path, port=7001, timeout=120):
    """Upload a file to the upload server. Returns (backend, bytes, sha256), all as reported by
    the server."""
    with namespace.inside():
        sock = socket.create_connection((host, port), timeout)
    with sock, open(path, "rb") as file:
        sock.sendfile(file)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while block := sock.recv(4096):
            answer += block
    name, size, digest = answer.decode().split()
    return name, int(size), digest
