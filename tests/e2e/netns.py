# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces, processes in them, and waits for conditions.

A thread can be inside a namespace (`with ns.inside()`): sockets that it opens and programs that
it starts then belong to that namespace, and stay in it. Other threads stay in their namespaces.
"""
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import time

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
NAMES = re.compile(r"weir-(\d+)-\w+$")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """The lab does not work, so the scenario has neither passed nor failed."""


def sh(*command, check=True, **options):
    """Run a command and wait until it exits. Returns its output."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stdout}")
    return done.stdout


def ip_batch(commands, namespace=None):
    """Run `ip` commands in this order, in one process: starting ip takes longer than one command."""
    text = "".join(" ".join(map(str, command)) + "\n" for command in commands)
    if text:
        sh("ip", *(("-n", namespace) if namespace else ()), "-batch", "-", input=text)


# scripts/test multiplies the timeouts of scenarios, because they need more time on a busy machine.
PATIENCE = float(os.environ.get("WEIR_PATIENCE", "1"))


def wait_for(what, condition, timeout=10.0, interval=0.02):
    """Poll until condition() is true, and return its value. Raises AssertionError after PATIENCE * timeout.

    If condition() raises AssertionError or OSError, it counts as false; the message shows the last error.
    """
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    last = ""
    while True:
        try:
            value = condition()
            if value:
                return value
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            last = f" (last: {error})"
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout:g} s{last}")
        time.sleep(interval)


def set_netns(fd):
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise LabError(f"setns: {os.strerror(ctypes.get_errno())}")


class Namespace:
    def __init__(self, name):
        self.name = name
        self.path = f"/run/netns/{name}"

    def create(self):
        sh("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        return self

    def ip(self, *args):
        return sh("ip", "-n", self.name, *args)

    @contextlib.contextmanager
    def inside(self):
        """Put this thread into the namespace within the block. Other threads are not affected."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            set_netns(there)
            yield self
        finally:
            set_netns(before)
            os.close(there)
            os.close(before)

    def run(self, *command, check=True, **options):
        with self.inside():
            return sh(*command, check=check, **options)

    def sysctl(self, **values):
        """Set values like net__ipv4__ip_forward=1. A thread's /proc/sys/net belongs to its namespace."""
        with self.inside():
            for key, value in values.items():
                path = "/proc/sys/" + key.replace("__", "/")
                try:
                    with open(path, "w", encoding="ascii") as file:
                        file.write(f"{value}\n")
                except OSError as error:
                    raise LabError(f"{self.name}: {path}: {error}") from error

    def remove(self):
        remove_namespaces([self])


def pids_in(namespaces):
    """Returns the processes in any of these namespaces."""
    inodes, found = set(), []
    for namespace in namespaces:
        with contextlib.suppress(OSError):
            inodes.add(os.stat(namespace.path).st_ino)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/net").st_ino in inodes:
                found.append(int(pid))
    return found


def remove_namespaces(namespaces):
    """Stop the programs in the namespaces, wait until they have exited, then delete the namespaces."""
    for sign, timeout in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + timeout
        for pid in pids_in(namespaces):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        while (left := pids_in(namespaces)) and time.monotonic() < deadline:
            reap()
            time.sleep(0.02)
        if not left:
            break
    text = "".join(f"netns del {namespace.name}\n" for namespace in namespaces)
    sh("ip", "-force", "-batch", "-", input=text, check=False)


def reap():
    """Reap exited children that no other code waits for, so that they do not count as running."""
    for pid in children():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def children():
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


class Program:
    """A long-running program with a log file. It has its own session, so that a signal can kill
    it with its children."""

    def __init__(self, name, namespace, command, log, dies_with_us=True, env=None):
        self.name, self.log, self.command = name, log, [str(c) for c in command]
        self.started = time.monotonic()

        def prepare():
            if dies_with_us:
                ended_with_parent(signal.SIGKILL)

        with namespace.inside(), open(log, "ab") as file:
            self.log_start = file.tell()  # the log file may contain output of earlier runs
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, preexec_fn=prepare, env=env)
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def output(self):
        """Returns the output of this run of the program."""
        try:
            with open(self.log, "rb") as file:
                file.seek(self.log_start)
                return file.read().decode(errors="replace")
        except OSError as error:
            return f"{error}\n"

    def tail(self, lines=25):
        return "".join(self.output().splitlines(keepends=True)[-lines:])

    def signal(self, number):
        """Send a signal to the process itself, not its children."""
        if self.alive():
            os.kill(self.pid, number)

    def kill(self):
        """Send SIGKILL to the program and all its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, timeout=5.0):
        """Send SIGTERM, and SIGKILL after the timeout. Returns the exit status."""
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        self.kill()
        return self.process.returncode


def sweep():
    """Remove the namespaces of runs that were killed."""
    for line in sh("ip", "netns", "list", check=False).splitlines():
        name = line.split()[0] if line.split() else ""
        match = NAMES.match(name)
        if match and not os.path.exists(f"/proc/{match.group(1)}") \
                and not os.path.exists(f"/run/weir-lab-{match.group(1)}.json"):
            Namespace(name).remove()


def on_signals_raise():
    """Make Ctrl-C, SIGTERM and SIGHUP raise an exception, so that every `finally` runs. This also
    works if the run was started with SIGINT ignored, as background jobs of a shell are."""
    def handler(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)
    for number in SIGNALS:
        signal.signal(number, handler)


def ended_with_parent(number):
    """Make the kernel send this process a signal when the thread that created the process exits."""
    libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


@contextlib.contextmanager
def undisturbed():
    """Ignore signals within the block, so that a second Ctrl-C does not stop the clean-up."""
    old = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
