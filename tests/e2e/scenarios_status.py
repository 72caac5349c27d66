# SPDX-License-Identifier: BSD-3-Clause
"""weirctl status: whether the balancer should get traffic, also if processes are stopped, hang or have exited."""
import contextlib
import ctypes
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time

import clients
from lab import VIP4, lines, web
from netns import wait_for
from scenario import scenario
from scenarios_doctor import weirctl_doctor

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
LIMIT = 3.5  # seconds; the limit of weirctl is 2


def status(lab, *options):
    """Returns (exit status, line) of weirctl status, which must answer in time."""
    began = time.monotonic()
    code, line, error = lab.weirctl("status", *options, check=False)
    assert time.monotonic() - began < LIMIT and not error, (time.monotonic() - began, error)
    return code, line


def expect(lab, code, words, *options):
    def matches():
        found = status(lab, *options)
        assert found[0] == code and words in found[1], found
        return found[1]
    return wait_for(f"status {code}: {words}", matches, 20)


@contextlib.contextmanager
def frozen_worker(pid):
    """Freeze one worker thread. The other threads of the process continue."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
            if "worker" in file.read():
                break
    libc, thread = ctypes.CDLL(None, use_errno=True), int(thread)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        assert libc.ptrace(request, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        libc.ptrace(PTRACE_DETACH, thread, None, None)


def count(lab, name, words):
    return lab.programs[name].output().count(words)


def status_as(lab, user, group):
    """Returns (exit status, line) of weirctl status, run by another user."""
    with lab.lb.inside():
        done = subprocess.run(["setpriv", "--reuid", user, "--regid", group, "--clear-groups",
                               lab.binary("weirctl"), "--run-dir", lab.run_dir, "status"],
                              capture_output=True, text=True, timeout=10, check=False)
    return done.returncode, done.stdout


def check_users(lab, dataplane):
    """Check that without weir-control, users other than root get less information about the dataplane."""
    code, line = status_as(lab, "daemon", "nogroup")  # the group of the run directory
    assert code == 1 and "only root can check whether the workers" in line, (code, line)
    dataplane.signal(signal.SIGSTOP)
    wait_for("stopped", lambda: status_as(lab, "daemon", "nogroup")[1].startswith(
        f"CRITICAL: weir-dataplane (pid {dataplane.pid}) is stopped"), 10)
    dataplane.signal(signal.SIGCONT)
    code, line = status_as(lab, "daemon", "daemon")
    assert code == 3 and line.startswith("UNKNOWN: no permission"), (code, line)


@scenario(services=[web({"web-1": 100, "web-2": 100}), lines({"web-1": 100})], hosts=2, short=True,
          workers={"cores": [0, os.cpu_count() - 1]})
def status_shows_whether_to_send_traffic(lab):
    """weirctl status exits with 0, 1 or 2 for stopped, hung or absent processes, and services without backends"""
    dataplane, control = lab.programs["dataplane"], lab.programs["control"]
    expect(lab, 0, "OK: workers: 2, services: 2, eligible backends: 3 of 3\n")

    dataplane.signal(signal.SIGSTOP)
    expect(lab, 2, "CRITICAL: weir-dataplane has been stalled for ")
    code, _, error = lab.weirctl("worker", "show", check=False)
    assert code == 1 and "2 of 2 workers stalled" in error, (code, error)
    control.signal(signal.SIGSTOP)
    expect(lab, 2, f"weir-dataplane (pid {dataplane.pid}) is stalled")
    dataplane.signal(signal.SIGCONT)
    expect(lab, 1, "WARNING: weir-dataplane forwards with its last tables")
    control.signal(signal.SIGCONT)
    expect(lab, 0, "OK")
    wait_for("the log", lambda: count(lab, "control", "weir-dataplane runs again after"), 5)
    assert count(lab, "control", "error weir-dataplane stalled for") == 1, control.tail()
    # Both workers were stalled. If their last heartbeats differ in age, there may already be a log line
    # about one worker.
    single = count(lab, "control", " of weir-dataplane stalled for ")

    with frozen_worker(dataplane.pid):
        expect(lab, 2, "CRITICAL: 1 of 2 workers of weir-dataplane stalled, the first for ")
        control.signal(signal.SIGSTOP)
        expect(lab, 2, f"CRITICAL: 1 of 2 workers of weir-dataplane (pid {dataplane.pid}) stalled")
        control.signal(signal.SIGCONT)
    expect(lab, 0, "OK")
    assert count(lab, "control", " of weir-dataplane stalled for ") == single + 1, control.tail()

    for number in (1, 2):
        lab.kill_backend(number)
    expect(lab, 1, "WARNING: no eligible backend in 1 of 2 services: web")
    expect(lab, 2, "CRITICAL: no eligible backend in the service: web", "--service", "web")
    expect(lab, 0, "OK", "--service", "lines")
    expect(lab, 3, "UNKNOWN: no such service", "--service", "x")
    for number in (1, 2):
        lab.start_nginx(number)
    expect(lab, 0, "OK")

    lab.net.ip("link", "set", "lb0", "down")  # removes the carrier of the balancer's lb0
    expect(lab, 2, "port wan has no link: interface lb0 is up without a carrier")
    found = weirctl_doctor(lab)[0]
    assert "has no carrier" in found["interface", "lb0"]["found"], found
    assert found["backends", "web/web-1"]["found"] == "was not reached, because lb0 has no carrier", found
    assert lab.api("port.show")[0]["link"] == "no-carrier"
    lab.net.ip("link", "set", "lb0", "up")
    expect(lab, 0, "OK")
    assert lab.api("port.show")[0]["link"] == "up"

    control.kill()
    expect(lab, 1, "weir-control is not running")
    assert clients.curl_batch(lab.client, VIP4, 5).ok == 5
    check_users(lab, dataplane)
    dataplane.kill()
    expect(lab, 2, "CRITICAL: weir-dataplane is not running")
    assert os.path.exists(os.path.join(lab.run_dir, "dataplane.lock"))  # after SIGKILL this file remains
    lab.start_dataplane()
    expect(lab, 2, "has no tables")
    lab.start_control()
    expect(lab, 0, "OK")


@scenario(services=[web({"web-1": 100, "web-2": 100, "web-3": 100})], hosts=3)
def status_explains_a_dataplane_that_is_too_small(lab):
    """weirctl status has the reason and the remedy if a dataplane has no room for the configuration in use"""
    whole, small = lab.config_path, os.path.join(lab.dir, "small.json")
    lab.programs["dataplane"].kill()
    with open(small, "w", encoding="ascii") as file:
        json.dump({**lab.config(), "segment": {"max_backends": 2},
                   "services": [web({"web-1": 100, "web-2": 100})]}, file)
    lab.config_path = small
    lab.start_dataplane()
    lab.config_path = whole
    dataplane, ready = lab.programs["dataplane"], time.monotonic()
    line = expect(lab, 2, f"CRITICAL: weir-dataplane (pid {dataplane.pid}) has no tables: no packet is forwarded; "
                          "weir-control cannot attach to weir-dataplane: ")
    reason = "its segment.max_services or segment.max_backends is too small for the configuration: raise it and " \
             "restart weir-dataplane, or reload a smaller configuration"
    assert reason in line, line
    code, _, error = lab.weirctl("worker", "show", check=False)
    assert code == 1 and reason in error, (code, error)
    assert reason in weirctl_doctor(lab)[0]["control", "weir-control"]["found"]
    # weir-control retries every two seconds; the log of weir-dataplane has the first attempt only.
    wait_for("retries", lambda: time.monotonic() - ready > 5, 10)
    assert count(lab, "dataplane", "weir-control attached") == 1, dataplane.tail()
    assert count(lab, "dataplane", "weir-control detached") == 1, dataplane.tail()
    assert count(lab, "dataplane", "; there are no tables: no packet is forwarded") == 1, dataplane.tail()

    lab.programs["control"].kill()
    lab.start_control()
    line = expect(lab, 2, "CRITICAL: weir-dataplane has no tables yet: the configuration does not fit the running "
                          "weir-dataplane: service \"web\" backend \"web-3\": no free backend id: the maximum is 2")
    assert "correct the file and reload it, or raise the setting in segment and restart weir-dataplane" in line, line
    lab.write_config([web({"web-1": 100, "web-2": 100})])
    lab.weirctl("config", "reload")
    expect(lab, 0, "OK")
    assert clients.curl_batch(lab.client, VIP4, 5).ok == 5
    lab.programs["control"].kill()
    wait_for("the log", lambda: count(lab, "dataplane", "; forwarding continues with its last tables"), 5)


class Top:
    """weirctl top on a separate terminal."""
    def __init__(self, lab):
        self.terminal, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self.process = subprocess.Popen([lab.binary("weirctl"), "--run-dir", lab.run_dir, "top"], stdin=slave,
                                        stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        self.text = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with contextlib.suppress(OSError):  # read fails when the process has exited
            while data := os.read(self.terminal, 65536):
                self.text += data.decode()

    def wait(self, words, without="\0"):
        """Wait until a screen drawn from now on contains `words`, and does not contain `without`."""
        begin = len(self.text)

        def drawn():
            screens = self.text[begin:].split("\033[H")[1:-1]
            assert any(words in s and without not in s for s in screens), (words, self.text[begin:])
            return True
        wait_for(words, drawn, 20)

    def end(self):
        os.write(self.terminal, b"q")
        code = self.process.wait(10)
        self.reader.join(10)
        os.close(self.terminal)
        return code


@scenario(services=[web({"web-1": 100, "web-2": 100})], hosts=2)
def top_stays_during_outages(lab):
    """weirctl top shows which process is down, and since when; it continues when the process runs again"""
    grey = "\033[90m"
    top = Top(lab)
    top.wait("no drops since weir-dataplane started, ", without=grey)
    lab.programs["control"].kill()
    top.wait("WARNING: weir-control has been down since ")
    top.wait("; weir-dataplane forwards with its last tables, without health checks; ")
    lab.start_control()
    lab.wait_ready()
    top.wait("web-2", without=grey)
    lab.programs["dataplane"].signal(signal.SIGSTOP)
    top.wait("CRITICAL: weir-dataplane has been stalled for ")
    top.wait(grey + "web ")
    lab.programs["dataplane"].signal(signal.SIGCONT)
    top.wait("web-2", without=grey)
    lab.programs["dataplane"].kill()
    top.wait("CRITICAL: no new values since ")
    top.wait(": weir-dataplane is not running: no packet is forwarded; ")
    lab.start_dataplane()
    top.wait("web-2", without=grey)
    assert top.end() == 0


@scenario(services=[web({"web-1": 100, "web-2": 100})], hosts=3, config={"segment": {"max_backends": 2}})
def file_with_larger_limits_is_used_after_a_restart(lab):
    """A file that needs more ids than the dataplane has is not used until the dataplane restarts; every command says so"""
    lab.extra = {"segment": {"max_backends": 16}}
    lab.write_config([web({"web-1": 100, "web-2": 100, "web-3": 100})])
    remedy = "the file has larger limits: restart weir-dataplane, then "
    status, output, errors = lab.weirctl("config", "diff")
    assert "warning: segment: a reload of this file is refused: " in errors, errors
    assert remedy + "reload the file\n" in errors, errors
    remedy += "weir-control reloads the file"
    status, output, errors = lab.weirctl("config", "reload", check=False)
    assert status == 1 and remedy in errors, errors
    status, output, _ = lab.weirctl("status", check=False)
    unused = f"{lab.config_path} does not fit the running weir-dataplane: "
    assert status == 1 and unused in output and remedy in output, output
    assert f"\n                {unused}" in lab.weirctl("version")[1]
    found, _ = weirctl_doctor(lab)
    row = found["config", lab.config_path]
    assert row["level"] == "warning" and row["found"].startswith(unused), row
    assert row["found"].endswith("; checking the configuration in use instead"), row
    assert ("backends", "web/web-2") in found and ("backends", "web/web-3") not in found, found
    row = found["restart", "segment max_backends"]
    assert "2 is in use, 16 takes effect after a restart" in row["found"], row
    waits = lab.weirctl("config", "waiting")[1]
    assert "~ segment max_backends: 2 -> 16 (needs a restart" in waits and "+ service web backend web-3: " in waits, waits
    connections = [clients.KeepAlive(lab.client, VIP4) for _ in range(12)]
    wait_for("open flows", lambda: lab.api("config.waiting")["restart"]["open_flows"] >= 12, 5)
    breaks = [re.search(r"the restart breaks (up to [^)]*)", lab.weirctl("config", verb)[1])[1]
              for verb in ("waiting", "diff")]
    found, _ = weirctl_doctor(lab)
    assert breaks[0] == breaks[1] and breaks[0] in found["restart", "segment max_backends"]["found"], (breaks, found)
    for each in connections:
        each.close()
    lab.programs["dataplane"].stop()
    lab.start_dataplane()
    wait_for("the file to be used", lambda: len(lab.api("backend.show")) == 3, 10)
    lab.wait_ready()
    assert lab.weirctl("status")[1].startswith("OK"), lab.weirctl("status")[1]
    assert lab.api("config.waiting")["changes"] == []
    lab.extra = {"segment": {"max_backends": 32}}  # the dataplane starts with a file that control has not read
    lab.write_config()
    epoch = lab.api("version")["dataplane"]["epoch"]
    lab.programs["dataplane"].stop()
    lab.start_dataplane()
    wait_for("the dataplane", lambda: lab.api("version")["dataplane"].get("epoch", epoch) != epoch, 10)
    assert lab.api("config.waiting")["changes"] == []
    assert "needs a restart" not in lab.programs["control"].output()
