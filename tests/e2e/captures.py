# SPDX-License-Identifier: BSD-3-Clause
"""Runs weirctl capture start and weirctl trace in the background, and reads their files with
tshark, scapy and weir-pcap."""
import contextlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
from collections import namedtuple

from netns import sh, wait_for

SUMMARY = re.compile(r": (\d+) packets?, (\d+) lost, (\d+) over the rate limit\n")
FIELDS = ("frame.comment", "frame.interface_name", "frame.len", "frame.cap_len",
          "frame.packet_flags_direction")
INBOUND = 1

# comment: what the dataplane did with the packet; length: length of the frame; data: the captured
# bytes
Packet = namedtuple("Packet", "comment port length data")
Ended = namedtuple("Ended", "status packets lost limited err")


class Weirctl:
    """A weirctl that runs until it exits by itself or is stopped."""

    def __init__(self, lab, *arguments):
        self.lab = lab
        with lab.lb.inside():
            self.process = subprocess.Popen(
                [lab.binary("weirctl"), "--run-dir", lab.run_dir, *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def wait_begun(self):
        """Wait until the audit list shows that the capture of this weirctl has begun."""
        wait_for("the capture to begin", lambda: any(
            (entry["command"], entry["pid"], entry["outcome"]) ==
            ("capture.start", self.process.pid, "done") for entry in self.lab.api("audit.show")))

    def end(self, timeout=10):
        """Wait until weirctl exits. Returns (exit status, standard output, standard error)."""
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err


class Capture(Weirctl):
    """A running capture. Its file is kept until the lab ends."""

    def __init__(self, lab, *options):
        self.file = os.path.join(lab.dir, f"capture-{len(os.listdir(lab.dir))}.pcapng")
        super().__init__(lab, "capture", "start", *options, self.file)
        try:
            wait_for("the capture to begin", self.has_begun)
        except AssertionError as problem:
            self.kill()
            raise AssertionError(f"{problem}: {self.process.returncode}") from problem

    def has_begun(self):
        return os.path.exists(self.file) and os.path.getsize(self.file) > 100

    def wait_for(self, count, timeout=10):
        """Wait until `count` packets are in the file."""
        wait_for(f"{count} captured packets",
                 lambda: len(tshark(self.file).splitlines()) >= count, timeout, 0.2)

    def wait_quiet(self):
        """Wait until the file has not grown for a second. weir-control delivers a captured packet
        within that time."""
        sizes = []

        def quiet():
            sizes.append(os.path.getsize(self.file))
            return sizes[-5:].count(sizes[-1]) == 5
        wait_for("no more packets", quiet, 20, 0.25)

    def stop(self):
        """Interrupt weirctl, as ^C does. Returns Ended."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self, timeout=10):
        status, out, err = self.end(timeout)
        found = SUMMARY.search(out)
        assert found, (status, out, err)
        return Ended(status, *map(int, found.groups()), err)


def packets(file):
    """Returns the packets as tshark reads them, with their bytes from scapy. Both must read the whole file."""
    # no warnings about comments without a final newline
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.utils import RawPcapNgReader  # this import takes half a second
    text = tshark(file)
    with contextlib.closing(RawPcapNgReader(file)) as reader:
        frames = [data for data, _ in reader]
    rows = [line.split("\t") for line in text.splitlines()]
    assert len(rows) == len(frames), (len(rows), len(frames))
    for row, data in zip(rows, frames):
        assert int(row[3]) == len(data) and int(row[4], 16) == INBOUND, row
    return [Packet(row[0], row[1], int(row[2]), data) for row, data in zip(rows, frames)]


def tshark(file):
    return subprocess.run(
        ["tshark", "-n", "-r", file, "-T", "fields", "-E", "occurrence=f",
         *(word for field in FIELDS for word in ("-e", field))],
        check=True, capture_output=True, text=True, timeout=60).stdout


def capinfos(file):
    return sh("capinfos", file)


def weir_pcap(lab, file):
    """Returns the verdicts of weir-pcap for the packets of a file, one object per packet."""
    out = file + ".out"
    return json.loads(sh(lab.binary("weir-pcap"), "--json", lab.config_path, file, out))["packets"]


def send_frames(namespace, device, frames):
    with namespace.inside():
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with contextlib.closing(sock):
        sock.bind((device, 0))
        for frame in frames:
            sock.send(bytes(frame))
