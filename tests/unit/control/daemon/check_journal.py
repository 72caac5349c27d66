#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-control with its log in a real journal.

usage: check_journal.py WEIR_CONTROL WEIRCTL

systemd-journald runs in separate namespaces, with an empty /run. systemd-cat connects weir-control
to it, as systemd does for a service. Then journalctl must find records by their fields, and text
that a client has written into a name must not become a field or a record.
"""
import json
import os
import socket
import subprocess
import sys
import time

DEADLINE_S = 60
SKIPPED = 77
JOURNALD = ("/usr/lib/systemd/systemd-journald", "/lib/systemd/systemd-journald")
# systemd-cat does not set JOURNAL_STREAM before systemd 254.
CAT = ("systemd-cat", "sh", "-c",
       'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"', "sh")
HOSTILE = "x\nMESSAGE=forged\nWEIR_OUTCOME=done\n\x1b[2J\u2028\u202e"

CONFIG = {
    "ports": [{"name": "wan", "device": "net_null0", "gateway_mac": "02:00:00:00:00:01"}],
    "services": [{"name": "web", "binds": [{"address": "198.51.100.10", "protocol": "tcp",
                                            "port": 80}],
                  "backends": [{"name": "w-1", "address": "10.0.0.11"}]}]}


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    sys.exit(f"still not: {what}")


def found(*fields):
    """Returns the records that have these fields, as objects."""
    done = subprocess.run(["journalctl", "-D", "/run/log/journal", "-o", "json", "--no-pager",
                           *fields], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def expect(record, **fields):
    for name, value in fields.items():
        assert record.get(name) == value, (name, value, record)


def ask(run_dir, **request):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE_S)
        client.connect(run_dir + "/control/control.sock")
        client.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(client.makefile().readline())


def check(weir_control, weirctl, folder):
    config, run_dir = folder + "/weir.json", folder + "/run"
    options = ["--config", config, "--run-dir", run_dir, "--user", "root", "--group", "root"]
    with open(config, "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    control = subprocess.Popen([*CAT, weir_control, *options])
    try:
        wait_for("weir-control listens",
                 lambda: os.path.exists(run_dir + "/control/control.sock"))
        subprocess.run([weirctl, "--run-dir", run_dir, "config", "reload"], check=True)
        [record] = wait_for("reload in the journal", lambda: found("WEIR_COMMAND=config.reload"))
        expect(record, WEIR_OUTCOME="done", WEIR_OBJECT=config, WEIR_PEER_UID="0", PRIORITY="6",
               SYSLOG_IDENTIFIER="weir-control", _TRANSPORT="journal", WEIR_AFTER="0 changes",
               _PID=str(control.pid))
        assert record["MESSAGE"].startswith(f"audit: config.reload {config}: 0 changes (uid 0,")
        ask(run_dir, command="backend.drain", backend=HOSTILE)
        [record] = wait_for("refusal in the journal", lambda: found("WEIR_COMMAND=backend.drain"))
        shown = "x?MESSAGE=forged?WEIR_OUTCOME=done??[2J??????"
        expect(record, WEIR_OUTCOME="no-dataplane", WEIR_OBJECT=shown, PRIORITY="4")
        assert record["MESSAGE"].startswith(f"audit: backend.drain {shown}: no-dataplane: ")
        assert not found("MESSAGE=forged")
    finally:
        control.terminate()
        control.wait()
    with open(config, "w", encoding="utf-8") as file:
        file.write("{")
    assert subprocess.run([*CAT, weir_control, *options], check=False).returncode == 2
    wait_for("the error in the journal", lambda: [
        r for r in found("SYSLOG_IDENTIFIER=weir-control", "PRIORITY=3")
        if r["MESSAGE"].startswith(config + ":")])


def main():
    journald = next((path for path in JOURNALD if os.path.exists(path)), None)
    if os.environ.get("WEIR_OWN_RUN") != "yes":
        if os.geteuid() != 0 or journald is None:
            print("skipped: needs root and systemd-journald")
            sys.exit(SKIPPED)
        os.execvpe("unshare", ["unshare", "--mount", "--net", "--propagation", "private",
                               sys.executable, *map(os.path.abspath, sys.argv)],
                   {**os.environ, "WEIR_OWN_RUN": "yes"})
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    os.makedirs("/run/systemd/journal")
    os.makedirs("/run/log/journal")
    os.makedirs("/run/test")
    server = subprocess.Popen([journald], stderr=subprocess.DEVNULL)
    try:
        wait_for("journald listens", lambda: os.path.exists("/run/systemd/journal/stdout"))
        check(*sys.argv[1:], "/run/test")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
