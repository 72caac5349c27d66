# SPDX-License-Identifier: BSD-3-Clause
"""The processes of the rig, and how long they wait for a CPU that other processes use."""
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


class RigError(Exception):
    """An error that prevents the rig from running. The message is shown to the user."""


class Process:
    """A program with a log file, in a separate session. It is killed when this process exits."""

    def __init__(self, name, command, folder, talk=False, priority=0):
        self.name, self.log = name, os.path.join(folder, f"{name}.log")

        def prepare():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        pipe = subprocess.PIPE if talk else None
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [str(word) for word in command], stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or log, stderr=log, start_new_session=True, preexec_fn=prepare)
        if priority:
            self.set_priority(priority)

    def set_priority(self, priority):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, priority)
        # If autogroup scheduling is on, the nice value of the session's group applies.
        with contextlib.suppress(OSError):
            with open(f"/proc/{self.process.pid}/autogroup", "w", encoding="ascii") as file:
                file.write(str(priority))

    def alive(self):
        return self.process.poll() is None

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def tail(self, lines=15):
        return "\n".join(self.output().splitlines()[-lines:])

    def wait_until(self, condition, what, seconds=20):
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.alive():
                raise RigError(f"{self.name} ended with status {self.process.returncode}:\n"
                               f"{self.tail()}")
            if time.monotonic() > deadline:
                raise RigError(f"{self.name}: {what}: not within {seconds} s:\n{self.tail()}")
            time.sleep(0.02)

    def ask(self, line, seconds):
        """Send a line to the process. Returns the answer."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        answer = self.process.stdout.readline() if ready else b""
        if not answer:
            raise RigError(f"{self.name} did not answer \"{line}\":\n{self.tail()}")
        return answer.decode()

    def stop(self, seconds=5):
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.alive():
                self.process.send_signal(sign)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    # --- scheduling -----------------------------------------------------------------------

    def busiest_thread(self):
        """Returns the /proc path of the thread that has used the most CPU time: the polling
        thread."""
        return max((f"/proc/{self.process.pid}/task/{tid}"
                    for tid in os.listdir(f"/proc/{self.process.pid}/task")), key=ran_ns)


def schedstat(thread):
    """Returns (ns on a CPU, ns ready but waiting for a CPU) of a thread."""
    with open(f"{thread}/schedstat", encoding="ascii") as file:
        ran, waited, _ = file.read().split()
    return int(ran), int(waited)


def ran_ns(thread):
    try:
        return schedstat(thread)[0]
    except (OSError, ValueError):
        return 0
