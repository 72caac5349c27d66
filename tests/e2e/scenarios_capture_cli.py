# SPDX-License-Identifier: BSD-3-Clause
"""weirctl capture and trace with real traffic: the files agree with the counters and with the packets
on the wire, and captures and traces cause no loss of traffic."""
import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter

import clients
from captures import Capture, Weirctl, capinfos, packets, send_frames, tshark, weir_pcap
from lab import ROOT, VIP4, VIP6, backend_address, echo, lines, web
from netns import wait_for
from scenario import scenario
from scenarios_access import weirctl_as_member
from taps import Wire

WHOLE = ("--snaplen", "1536")
DROPPED = re.compile(r"drop: (\w+)")


def service_packets(lab, name):
    return next(s for s in lab.api("service.show") if s["name"] == name)["packets"]


def is_to(frame, vip):
    """Returns whether the frame is TCP or UDP to this address."""
    if b":" in vip.encode():
        return frame[12:14] == b"\x86\xdd" and frame[38:54] == socket.inet_pton(
            socket.AF_INET6, vip)
    return frame[12:14] == b"\x08\x00" and frame[30:34] == socket.inet_aton(vip)


def to_lb(lab, *layers):
    """Returns a frame from the router to the balancer."""
    from scapy.all import Ether
    frame = Ether(src=lab.mac(lab.net, "br0"), dst=lab.mac(lab.lb, "lb0"))
    for layer in layers:
        frame = frame / layer
    return bytes(frame)


# --- contents of the files -----------------------------------------------------------------------

@scenario(services=[web(), lines()], two_armed=True)
def captures_agree_with_counters_and_the_wire(lab):
    """A capture of a service or a backend contains each counted packet, byte for byte as on the wire"""
    with Wire(lab.net, "lb0") as wire, Capture(lab, "--service", "web", *WHOLE) as capture:
        before, backend_before = service_packets(lab, "web"), lab.backend("web-2")["packets"]
        for vip in (VIP4, VIP6):
            result = clients.curl_batch(lab.client, vip, 40)
            assert result.ok == 40, result.errors[:5]
        line = clients.Line(lab.client, VIP4)  # a connection of another service
        capture.wait_quiet()  # connections still send packets after the answers
        count = service_packets(lab, "web") - before
        ended = capture.stop()
        sent = Counter(f for f in wire.read() for vip in (VIP4, VIP6) if is_to(f, vip))
    line.close()
    got = packets(capture.file)
    assert ended == (0, count, 0, 0, ""), (ended, count)
    assert len(got) == count == service_packets(lab, "web") - before, (len(got), count)
    missing = Counter(p.data for p in got) - sent
    assert not missing, list(missing)[:3]
    assert all(p.length == len(p.data) and p.port == "wan" for p in got)
    to_backend = [p for p in got if p.comment.startswith("forward to web-2 of web (")]
    assert len(to_backend) == lab.backend("web-2")["packets"] - backend_before
    assert sum("(new flow) on lan" in p.comment for p in got) == 80, Counter(
        p.comment for p in got)
    assert "drop" not in "".join(p.comment for p in got)
    again = weir_pcap(lab, capture.file)
    assert [p["bytes"] for p in again] == [p.length for p in got]
    assert {p["action"] for p in again} == {"forwarded"}, again[:3]
    shown = capinfos(capture.file)
    for line in (f"Number of packets:   {count}\n", "File timestamp precision:  nanoseconds (9)\n",
                 "Capture application: weirctl ", "Name = wan\n", "Name = lan\n",
                 "Capture length = 1536\n"):
        assert line in shown, shown
    capture_of_a_backend(lab)


def capture_of_a_backend(lab):
    with Capture(lab, "--service", "web", "--backend", "web-3", "--snaplen", "64") as capture:
        before = lab.backend("web-3")["packets"]
        clients.curl_batch(lab.client, VIP4, 60)
        capture.wait_quiet()  # connections still send packets after the answers
        count = lab.backend("web-3")["packets"] - before
        ended = capture.stop()
    got = packets(capture.file)
    assert count > 0 and ended[:2] == (0, count) and len(got) == count, (ended, count)
    assert all(p.comment.startswith("forward to web-3 of web (") for p in got), got[:3]
    assert max(len(p.data) for p in got) == 64 < max(p.length for p in got)


def broken_frames(lab):
    """Returns {drop reason: a frame that is dropped for this reason}."""
    from scapy.all import IP, TCP
    there = {"src": "192.0.2.2", "dst": VIP4}
    tcp = {"sport": 40000, "dport": 80}
    return {
        "tcp_flags": to_lb(lab, IP(**there), TCP(flags="SF", **tcp)),
        "ttl_expired": to_lb(lab, IP(ttl=0, **there), TCP(flags="S", **tcp)),
        "ipv4_checksum": to_lb(lab, IP(chksum=1, **there), TCP(flags="S", **tcp)),
        "source_address": to_lb(lab, IP(src="127.0.0.1", dst=VIP4), TCP(flags="S", **tcp)),
        "closed_port": to_lb(lab, IP(**there), TCP(flags="S", sport=40000, dport=81)),
        "no_backend": to_lb(lab, IP(**there), TCP(flags="S", sport=40000, dport=7000)),
    }


@scenario(services=[web(closed_ports="drop"), lines()])
def drops_are_captured_by_reason(lab):
    """A capture of all drops, of two reasons, or of a client contains the counted packets as received"""
    for number in range(1, 5):
        lab.weirctl("backend", "maintenance", f"lines/web-{number}")
    lab.wait_published()
    frames = broken_frames(lab)
    with Capture(lab, "--action", "drop", *WHOLE) as capture:
        before = Counter(lab.drops())
        send_frames(lab.net, "lb0", [f for f in frames.values() for _ in range(3)])
        wait_for("the drops", lambda: all(
            lab.drops().get(r, 0) >= before[r] + 3 for r in frames), 5)
        capture.wait_for(3 * len(frames))
        ended = capture.stop()
    counted = Counter(lab.drops()) - before
    got = packets(capture.file)
    reasons = Counter(DROPPED.match(p.comment)[1] for p in got)
    assert {r: n for r, n in reasons.items() if r in frames} == \
        {r: counted[r] for r in frames}, (reasons, counted)
    assert ended.status == 0 and ended.packets == len(got), ended
    for reason, frame in frames.items():
        assert [p.data for p in got if p.comment.startswith(f"drop: {reason}")] == [frame] * 3, \
            reason
    assert "drop: no_backend, service lines" in {p.comment for p in got}
    two = ("--drop-reason", "no_backend", "--drop-reason", "tcp_flags")
    with Capture(lab, "--packets", "2", *two) as capture:
        send_frames(lab.net, "lb0", frames.values())
        assert capture.ended()[:2] == (0, 2)
    assert {DROPPED.match(p.comment)[1] for p in packets(capture.file)} == \
        {"no_backend", "tcp_flags"}
    with Capture(lab, "--client", "127.0.0.0/8", "--packets", "1") as capture:
        send_frames(lab.net, "lb0", frames.values())
        assert capture.ended()[:2] == (0, 1)
    assert [p.comment for p in packets(capture.file)] == ["drop: source_address"]


@scenario(services=[web(closed_ports="reject")])
def documented_capture_of_drops_has_those_that_are_answered(lab):
    """The capture that docs/guide/troubleshooting.md advises in an outage has all drops, with reasons"""
    with open(ROOT + "/docs/guide/troubleshooting.md", encoding="utf-8") as file:
        outage = file.read().split("\n## During an outage\n")[1].split("\n## ")[0]
    advised = re.search(r"`weirctl capture start (.*) --duration 60s drops", outage)[1].split()
    frames = {reason: frame for reason, frame in broken_frames(lab).items()
              if reason in ("closed_port", "tcp_flags")}
    with Capture(lab, *advised, *WHOLE) as capture:
        before = Counter(lab.drops())
        send_frames(lab.net, "lb0", frames.values())
        wait_for("the drops", lambda: all(
            lab.drops().get(r, 0) > before[r] for r in frames), 5)
        capture.wait_for(2)
        assert capture.stop().status == 0
    comments = {p.data: p.comment for p in packets(capture.file)}
    assert comments.get(frames["closed_port"]) == "reply: rejected (closed_port)", comments
    assert comments.get(frames["tcp_flags"]) == "drop: tcp_flags", comments


@scenario(services=[web(), echo()])
def captures_by_protocol(lab):
    """ICMP, UDP and IPv6 packets are captured, each with a comment that describes its verdict"""
    with Capture(lab, "--protocol", "icmp", "--action", "reply") as capture:
        for vip in (VIP4, VIP6):
            lab.client.run("ping", "-c", "3", "-i", "0.2", vip)
        capture.wait_for(6)
        assert capture.stop()[:2] == (0, 6)
    assert Counter(p.comment for p in packets(capture.file)) == {"reply: echo": 6}
    with Capture(lab, "--protocol", "udp", "--port", "9000", "--destination", VIP6) as capture:
        for vip in (VIP4, VIP6):
            session = clients.Udp(lab.client, vip)
            name = [session.ask() for _ in range(3)][0]
            session.close()
        capture.wait_for(3)
        assert capture.stop()[:2] == (0, 3)
    assert [p.comment for p in packets(capture.file)] == [
        f"forward to {name} of echo ({flow} flow) on wan" for flow in ("new", "known", "known")]


@scenario(services=[web()])
def capture_ends_by_itself(lab):
    """--packets, --duration and a closed pipe end a capture; an unknown name is refused with a suggestion"""
    with Capture(lab, "--service", "web", "--packets", "7") as capture:
        clients.curl_batch(lab.client, VIP4, 5)
        assert capture.ended()[:2] == (0, 7)
    assert len(packets(capture.file)) == 7
    with Capture(lab, "--service", "web", "--duration", "0.5") as capture:
        assert capture.ended()[:4] == (0, 0, 0, 0)
    weirctl = f"{lab.binary('weirctl')} --run-dir {lab.run_dir}"
    with lab.lb.inside():
        pipe = subprocess.Popen(
            f"{weirctl} capture start --service web --packets 3 - | tshark -n -l -r - -T fields "
            "-e frame.comment", shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)

    def asked():
        clients.curl_batch(lab.client, VIP4, 1)
        return pipe.poll() is not None
    wait_for("three packets in the pipe", asked, 20)
    out, err = pipe.communicate()
    assert out.count("forward to web-") == 3 and "standard output: 3 packets" in err, (out, err)
    for options, expected, why in (
            (("--service", "wbe"), 1, 'did you mean "web"'),
            (("--service", "web", "--backend", "web-9"), 1, "web-9"),
            (("--client", "192.0.2.300"), 2, "must be an address, or a prefix")):
        status, _, err = lab.weirctl("capture", "start", *options, lab.dir + "/none", check=False)
        assert status == expected and why in err, (options, status, err)
    assert not os.path.exists(lab.dir + "/none")


# --- killed processes ---------------------------------------------------------------------------

@scenario(services=[web()])
def capture_reports_which_process_ended(lab):
    """If weirctl, weir-control or weir-dataplane is killed during a capture, this is reported; the next capture works"""
    with clients.Load(lab.client, VIP4, pause=0.05) as load:
        with Capture(lab, "--service", "web") as capture:
            capture.wait_for(20)
            capture.kill()
        whole_file(capture)

        def next_one():
            with Capture(lab, "--service", "web", "--packets", "1") as one:
                return one.ended().status == 0
        wait_for("another capture", next_one, 10, 0.2)
        with Capture(lab, "--service", "web") as capture:
            capture.wait_for(20)
            lab.programs["control"].kill()
            ended = capture.ended()
        assert ended.status == 3 and "weir-control" in ended.err, ended
        whole_file(capture)
        lab.start_control()
        lab.wait_ready()
        wait_for("another capture", next_one, 10, 0.2)
        load.wait_for_more(20)
        assert not load.errors(), load.errors()[:5]
    with Capture(lab, "--service", "web") as capture:
        clients.curl_batch(lab.client, VIP4, 5)
        capture.wait_for(20)
        lab.programs["dataplane"].kill()
        ended = capture.ended()
    assert ended.status == 1 and "weir-dataplane has exited or was restarted" in ended.err, ended
    whole_file(capture)
    lab.start_dataplane()
    lab.wait_ready()
    with Capture(lab, "--service", "web", "--packets", "5") as capture:
        clients.curl_batch(lab.client, VIP4, 5)
        assert capture.ended()[:2] == (0, 5)


def whole_file(capture):
    """Check that tshark reads the file without an error."""
    assert len(packets(capture.file)) >= 20
    done = subprocess.run(["tshark", "-n", "-r", capture.file], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "cut short" not in done.stderr, done.stderr


@scenario(services=[web()])
def one_capture_at_a_time(lab):
    """A second capture is refused, and the error names the user of the first; read access does not permit a capture"""
    with Capture(lab, "--service", "web") as capture:
        status, _, err = lab.weirctl("capture", "start", lab.dir + "/second", check=False)
        assert status == 1 and "user 0 is already capturing packets" in err, err
        assert not os.path.exists(lab.dir + "/second")
        status, _, err = lab.weirctl("trace", "tcp", "192.0.2.2:1", f"{VIP4}:80", check=False)
        assert status == 1 and "user 0 is already capturing packets" in err, err
        assert capture.stop().status == 0
    for words in (("capture", "start", "/tmp/none"), ("trace", "tcp", "192.0.2.2:1", f"{VIP4}:80")):
        status, _, err = weirctl_as_member(lab, *words)
        assert status == 1 and "may only read" in err, (words, err)
    assert not os.path.exists("/tmp/none")
    mode = os.stat(capture.file).st_mode & 0o777
    assert mode == 0o600, oct(mode)


# --- under load ---------------------------------------------------------------------------------

@scenario(services=[web()], alone=True)
def capture_of_everything_disturbs_no_traffic(lab):
    """If all packets of wrk are captured, no request of wrk fails, and lost records are counted"""
    drops = lab.drops()
    for rate in ("1000", "1000000"):
        with Capture(lab, "--service", "web", "--rate", rate) as capture:
            before = service_packets(lab, "web")
            with lab.client.inside():
                done = subprocess.run(["wrk", "-t1", "-c16", "-d3s", f"http://{VIP4}/"],
                                      capture_output=True, text=True, check=True)
            assert "Non-2xx" not in done.stdout and "Socket errors" not in done.stdout, done.stdout
            capture.wait_quiet()
            ended = capture.stop()
            count = service_packets(lab, "web") - before
        assert ended.packets + ended.lost + ended.limited == count, (ended, count)
        assert ended.packets == len(tshark(capture.file).splitlines()), ended
        assert rate != "1000" or ended.limited > 0, ended
    assert set(lab.drops()) <= set(drops), (drops, lab.drops())


# --- trace --------------------------------------------------------------------------------------

PORT, PORT6 = 40123, 40124  # client ports; a used port stays in TIME_WAIT for a minute


def curl_from_the_port(lab, vip):
    port = str(PORT6 if ":" in vip else PORT)
    with lab.client.inside():
        subprocess.run(["curl", *clients.CURL, "--local-port", port, "--output", os.devnull,
                        "--header", "Connection: close", f"http://{clients.url_host(vip)}/"],
                       check=True, timeout=10)


def trace_of(vip, *options):
    """Returns the arguments of weirctl trace for a flow from the client's port to the service web."""
    source = f"[2001:db8:c::2]:{PORT6}" if ":" in vip else f"192.0.2.2:{PORT}"
    return ("trace", *options, "tcp", source, f"{clients.url_host(vip)}:80")


def stages(packet):
    return {stage["stage"]: stage["text"] for stage in packet["stages"] if stage["stage"]}


@scenario(services=[web()])
def trace_shows_each_stage(lab):
    """trace shows a connection's stages: SYN, new flow and backend; then the existing flow; then FIN"""
    outer = {4: "IPv4 in IPv4, to ", 6: "IPv6 in IPv4, to "}
    for vip in (VIP4, VIP6):
        with Weirctl(lab, *trace_of(vip, "--json", "--packets", "100", "--duration", "4")) as trace:
            trace.wait_begun()
            clients.curl_batch(lab.client, vip, 5)  # other flows
            curl_from_the_port(lab, vip)
            status, out, err = trace.end(20)
        assert status == 0, err
        found = [json.loads(line) for line in out.splitlines()]
        first, last = found[0], found[-1]
        assert first["headers"].startswith("TCP SYN seq ") and first["event"] == "syn", first
        assert (first["choice"], first["flow_state"]) == ("new", "syn-seen"), first
        assert len({p["backend"] for p in found}) == 1 and {p["choice"] for p in found[1:]} == \
            {"flow"}, found
        number = int(first["backend"].rpartition("-")[2])
        shown = stages(first)
        assert shown["selection"] == f"{first['backend']}, by policy maglev", shown
        assert shown["rewrite"] == outer[6 if ":" in vip else 4] + backend_address(number), shown
        assert shown["sent"] == "on wan" and shown["flow table"] == \
            "not found; added; now syn-seen", shown
        assert stages(found[1])["flow table"].startswith("found"), found[1]
        assert any(p["event"] == "fin" for p in found) and last["event"] in ("fin", "ack", "data"), \
            found
        assert [p["number"] for p in found] == list(range(1, len(found) + 1))


@scenario(services=[web(), lines()])
def trace_text_names_commands(lab):
    """trace of dropped packets, and of a flow without packets, names commands to run next"""
    for number in range(1, 5):
        lab.weirctl("backend", "maintenance", f"lines/web-{number}")
    lab.wait_published()
    from scapy.all import IP, TCP
    frame = to_lb(lab, IP(src="192.0.2.2", dst=VIP4), TCP(flags="S", sport=PORT, dport=7000))
    with Weirctl(lab, "trace", "--packets", "2", "tcp", f"192.0.2.2:{PORT}", f"{VIP4}:7000") as trace:
        trace.wait_begun()
        send_frames(lab.net, "lb0", [frame, frame])
        status, out, err = trace.end()
    assert status == 0, err
    assert out.count("dropped      no_backend: the service has no usable backend\n") == 2, out
    assert out.count("see: weirctl backend show lines/\n") == 2, out
    assert all(len(line) <= 80 for line in out.splitlines()), out
    with Weirctl(lab, *trace_of(VIP4, "--duration", "6")) as trace:
        status, out, err = trace.end(20)
    assert status == 0 and out == "no packets of this flow captured\n", out
    assert err == "weirctl: no packet of this flow for 5.0s; still waiting (press ^C to end)\n", err
    with Weirctl(lab, *trace_of(VIP4)) as trace:
        trace.wait_begun()
        trace.process.send_signal(signal.SIGINT)
        assert trace.end()[:2] == (0, "no packets of this flow captured\n")
    stall_is_reported(lab)


def stall_is_reported(lab):
    """Check that packets missing because of a stalled dataplane do not look like packets that did not arrive."""
    dataplane = lab.programs["dataplane"]
    dataplane.signal(signal.SIGSTOP)
    try:
        wait_for("the stall", lambda: "stalled" in lab.weirctl("status", check=False)[1], 10)
        for command in (trace_of(VIP4, "--duration", "1"), ("capture", "start", "--duration", "1s",
                                                           lab.dir + "/stalled.pcapng")):
            code, _, err = lab.weirctl(*command, check=False)
            assert code == 1 and "weir-dataplane is hung or short of CPU time: its packets are not captured" in err, err
    finally:
        dataplane.signal(signal.SIGCONT)
