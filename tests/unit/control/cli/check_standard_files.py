#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weirctl with a simulated daemon, while its standard descriptors are closed, or refer to a
full disk or a terminal.

usage: check_standard_files.py WEIRCTL
"""
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TIMEOUT = 20
WHY = "the heap is full"
RESULTS = {
    # The answer is larger than a stdio buffer.
    "health.history": [{"time_ms": n, "service": "web", "backend": f"web-{n}", "from": "starting",
                        "to": "healthy", "source": "check", "why": "HTTP 200"}
                       for n in range(1000)],
    "stats.show": {"time_ms": 0, "workers": {}, "drops": {}, "ports": [], "services": [],
                   "backends": []},
    "status": {"level": "ok", "reasons": []},
    "worker.show": [],
}


class Daemon:
    """A simulated daemon that answers each request, and stores the received lines."""

    def __init__(self, folder):
        os.mkdir(os.path.join(folder, "control"))
        self.run_dir, self.lines = folder, []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(os.path.join(folder, "control", "control.sock"))
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.socket.accept()
            with client, client.makefile("rwb") as stream:
                try:
                    for line in stream:
                        self.lines.append(line)
                        stream.write(self.answer(line))
                        stream.flush()
                except OSError:
                    pass

    @staticmethod
    def answer(line):
        try:
            result = RESULTS[json.loads(line)["command"]]
        except (ValueError, KeyError, TypeError):
            return b'{"ok": false, "code": "bad-request", "error": "no request"}\n'
        return json.dumps({"ok": True, "not_published": WHY, "result": result}).encode() + b"\n"


def run(weirctl, daemon, *words, shell):
    """Run weirctl from a shell command, in which "$@" is weirctl's command line. Returns exit status
    and standard error."""
    daemon.lines.clear()
    done = subprocess.run(["/bin/sh", "-c", shell, "sh", weirctl, "--run-dir", daemon.run_dir,
                           *words], stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, done.stderr


def closed_descriptors_are_not_reused(weirctl, daemon):
    status, err = run(weirctl, daemon, "health", "history", shell='"$@" >&-')
    assert (status, len(daemon.lines)) == (1, 1), (status, daemon.lines[:3])
    assert "weirctl: cannot write to standard output: Bad file descriptor\n" in err, err
    for shell in ('"$@" >/dev/null 2>&-', '"$@" >/dev/null <&-'):
        status, _ = run(weirctl, daemon, "health", "history", shell=shell)
        assert (status, len(daemon.lines)) == (0, 1), (shell, status, daemon.lines[:3])


def full_disk_is_reported_by_commands(weirctl, daemon):
    for words in (("health", "history"), ("health", "history", "--json"), ("--help",)):
        status, err = run(weirctl, daemon, *words, shell='"$@" >/dev/full')
        assert status == 1, (words, status)
        assert err.splitlines()[-1] in (
            "weirctl: cannot write to standard output: No space left on device",
            "weirctl: could not write all output to standard output"), (words, err)


def watched_state_is_printed_once(weirctl, daemon):
    status, err = run(weirctl, daemon, "stats", "show", "--interval", "0.1", "--count", "3",
                      shell='"$@" >/dev/null')
    assert (status, len(daemon.lines)) == (0, 4), (status, daemon.lines)
    assert err == f"weirctl: changes are not published yet: {WHY}\n", err


def terminal(weirctl, daemon):
    """Start weirctl top on a separate terminal. Returns its pid and the other end of the terminal."""
    daemon.lines.clear()
    pid, end = pty.fork()
    if pid == 0:
        os.execv(weirctl, [weirctl, "--run-dir", daemon.run_dir, "top", "--interval", "0.1"])
    return pid, end


def read_until(end, done):
    """Returns the output of a terminal, until done(output) is true or the terminal is closed."""
    text, deadline = b"", time.monotonic() + TIMEOUT
    while not done(text) and time.monotonic() < deadline:
        if select.select([end], [], [], 0.1)[0]:
            try:
                text += os.read(end, 65536)
            except OSError:
                return text
    return text


def terminal_is_restored(weirctl, daemon):
    for keys, number in ((b"q", None), (b"\x03", None), (b"\x1c", None), (None, signal.SIGTERM),
                         (None, signal.SIGQUIT)):
        pid, end = terminal(weirctl, daemon)
        text = read_until(end, lambda t: b"no workers" in t and len(daemon.lines) > 15)
        if keys:
            os.write(end, keys)
        else:
            os.kill(pid, number)
        text += read_until(end, lambda _: False)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(end)
        before, restored, after = text.partition(b"\x1b[?25h\x1b[?1049l")
        assert restored and status == 0, (keys, number, status, before[-100:])
        assert after.count(b"not published yet") <= 1, after


def main():
    weirctl = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="weir-test-") as folder:
        daemon = Daemon(folder)
        for check in (closed_descriptors_are_not_reused, full_disk_is_reported_by_commands,
                      watched_state_is_printed_once, terminal_is_restored):
            check(weirctl, daemon)
            print(f"{check.__name__}: ok")


if __name__ == "__main__":
    main()
