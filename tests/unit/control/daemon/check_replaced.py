#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-control with dataplanes of other versions, as during an upgrade.

usage: check_replaced.py WEIR_CONTROL CONFIG

The test has no dataplane of another version, so it answers on the socket as such a dataplane does
(segment/handover.c): with another layout, and then with weir-control's own layout and EBUSY.
"""
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

DEADLINE_S = 60
MAGIC = 0x3247455352494557
EBUSY = 16


class Dataplane(threading.Thread):
    """A simulated dataplane that answers every connection."""

    def __init__(self, run_dir):
        super().__init__(daemon=True)
        self.layout, self.error = (4000000000, 1), 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(run_dir + "/dataplane.sock")
        self.socket.listen(16)
        self.start()

    def run(self):
        while True:
            peer = self.socket.accept()[0]
            abi, fingerprint = self.layout
            peer.send(struct.pack("=QQIIIIII", MAGIC, fingerprint, abi, self.error, 1, 0, 0, 0))
            peer.close()


class Control:
    def __init__(self, folder, config):
        self.program, self.run_dir = folder + "/weir-control", folder + "/run"
        user = str(os.getuid())
        self.command = [self.program, "--config", config, "--run-dir", self.run_dir,
                        "--user", user, "--group", str(os.getgid())]
        self.process = None

    def check(self):
        """Returns (exit status, output) of --check-dataplane."""
        done = subprocess.run(self.command + ["--check-dataplane"], text=True, check=False,
                              capture_output=True, timeout=DEADLINE_S)
        return done.returncode, done.stdout + done.stderr

    def start(self):
        self.process = subprocess.Popen(self.command, text=True, stderr=subprocess.PIPE)

    def wait_for(self, text):
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"weir-control ended without saying: {text}")


def expect(found, status, text):
    if found[0] != status or text not in found[1]:
        raise AssertionError(f"found {found}, expected {status}: {text}")


def check_versions(control):
    expect(control.check(), 0, "no weir-dataplane is running")
    dataplane = Dataplane(control.run_dir)
    status, said = control.check()
    expect((status, said), 1, "run the same version of both")
    own = re.search(r"this program needs ABI (\d+), layout ([0-9a-f]+);", said)
    dataplane.layout, dataplane.error = (int(own[1]), int(own[2], 16)), EBUSY
    expect(control.check(), 0, "supports the running weir-dataplane")
    dataplane.layout, dataplane.error = (4000000000, 1), 0


def check_replaced(control, program):
    """weir-control tries again until its program file is replaced, and then exits."""
    control.start()
    control.wait_for("run the same version of both")
    shutil.copy(program, control.program + ".new")
    os.rename(control.program + ".new", control.program)
    control.wait_for("replaced on disk")
    status = control.process.wait(timeout=DEADLINE_S)
    if status != 0:
        raise AssertionError(f"exit {status}")


def main():
    program, config = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="weir-replaced-") as folder:
        os.mkdir(folder + "/run", 0o750)
        shutil.copy(program, folder)
        control = Control(folder, config)
        killer = threading.Timer(DEADLINE_S, lambda: control.process and control.process.kill())
        killer.start()
        try:
            check_versions(control)
            check_replaced(control, program)
        finally:
            killer.cancel()
            if control.process is not None and control.process.poll() is None:
                control.process.kill()
    print("passed")


if __name__ == "__main__":
    main()
