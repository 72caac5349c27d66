# SPDX-License-Identifier: BSD-3-Clause
"""Packets captured from a dataplane under traffic, over the control socket."""
import base64
import contextlib

import clients
from lab import VIP4, lines, web
from netns import wait_for
from scenario import scenario


class Capture:
    """A capture with the packets that have been read."""

    def __init__(self, lab, **arguments):
        self.lab, self.packets, self.last = lab, [], None
        self.sock = lab.api_connect()
        self.number = self.ask("capture.start", **arguments)["capture"]

    def ask(self, command, **arguments):
        answer = self.lab.api_ask(self.sock, command, **arguments)
        assert answer.get("ok"), f"{command}: {answer}"
        return answer["result"]

    def read(self):
        """Read all available packets."""
        more = True
        while more:
            self.last = self.ask("capture.read", capture=self.number)
            self.packets += self.last["packets"]
            more = self.last["more"]
        return self.packets

    def close(self):
        self.sock.close()


def address(packet):
    """Returns source, destination and TCP ports of an untagged IPv4 packet."""
    frame = base64.b64decode(packet["data"])
    assert frame[12:14] == b"\x08\x00", frame.hex()
    l4 = 14 + (frame[14] & 15) * 4
    return (".".join(map(str, frame[26:30])), int.from_bytes(frame[l4:l4 + 2], "big"),
            ".".join(map(str, frame[30:34])), int.from_bytes(frame[l4 + 2:l4 + 4], "big"))


@scenario(short=True, services=[web(), lines(policy={"name": "round-robin"})])
def capture_follows_a_connection(lab):
    """Each packet of a connection is captured as received, with the backend that answers"""
    with clients.Load(lab.client, VIP4) as load:  # other packets, which the filter excludes
        load.wait_for_more(20)
        with contextlib.closing(Capture(lab, filter={"service": "lines"})) as capture:
            line = clients.Line(lab.client, VIP4)
            assert line.ask() == line.backend
            wait_for("packets of the connection",
                     lambda: sum(p["path"] == "fast" for p in capture.read()) > 0, 10)
            assert line.ask() == line.backend
            packets = capture.read()
            mine = ("192.0.2.2", line.port(), VIP4, 7000)
            assert all(address(p) == mine for p in packets), [address(p) for p in packets]
            first = packets[0]
            assert (first["event"], first["choice"], first["path"], first["flow_state"]) == \
                ("syn", "new", "slow", "syn-seen"), first
            assert packets[-1]["flow_state"] == "established", packets[-1]
            assert all(p["action"] == "forward" and p["service"] == "lines" and
                       p["backend"] == line.backend and p["port"] == p["out_port"]
                       for p in packets)
            assert len({p["hash"] for p in packets}) == 1
            times = [p["time_ns"] for p in packets]
            assert times == sorted(times)
            assert capture.last["lost"] == capture.last["limited"] == 0
    assert not load.errors(), load.errors()[:5]


@scenario(services=[web()])
def capture_shows_why_packets_are_dropped(lab):
    """A capture of one drop reason contains the dropped packets, and no forwarded packets"""
    for backend in lab.backends("web"):
        lab.api("backend.maintenance", service="web", backend=backend["name"])
    with contextlib.closing(Capture(lab, filter={"reasons": ["no_backend"]})) as capture:
        before = lab.drops().get("no_backend", 0)
        result = clients.curl_batch(lab.client, VIP4, 1, timeout=2)
        assert result.failed == 1
        wait_for("records of all drops", lambda: len(capture.read()) >=
                 lab.drops().get("no_backend", 0) - before > 0, 10)
        assert {(p["action"], p["reason"], p["service"], p["backend"]) for p in capture.packets} \
            == {("drop", "no_backend", "web", None)}, capture.packets[:3]


@scenario(services=[web()])
def capture_ends_with_its_client(lab):
    """A capture ends when its client disconnects or the control process is killed"""
    capture = Capture(lab)
    other = lab.api_connect()
    answer = lab.api_ask(other, "capture.start")
    assert answer["code"] == "busy", answer
    capture.close()
    wait_for("the next capture", lambda: lab.api_ask(other, "capture.start").get("ok"), 10)
    other.close()
    capture = Capture(lab)
    lab.programs["control"].kill()
    capture.close()
    lab.start_control()
    lab.wait_ready()
    assert clients.curl_batch(lab.client, VIP4, 10).ok == 10
    with contextlib.closing(Capture(lab)) as again:
        assert clients.curl_batch(lab.client, VIP4, 1).ok == 1
        wait_for("packets", lambda: len(again.read()) > 0, 10)
