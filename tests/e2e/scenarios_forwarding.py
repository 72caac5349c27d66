# SPDX-License-Identifier: BSD-3-Clause
"""Forwarding modes, with real servers as backends of each mode."""
import contextlib
import json
import socket
import subprocess

import clients
import taps
from lab import BACKENDS, VIP4, VIP6, backend_address, echo, lines, make_random_file, service, upload, web
from netns import wait_for
from scenario import scenario
from scenarios_backends import Datagrams
from scenarios_data_path import OPTION, VIA
from scenarios_mtu import go_through, narrow_path, send_error
from scenarios_traffic import all_served

MODES = ("ipip", "l2", "gue", "gre")
CHECK = {"type": "http", "path": "/healthz", "urls": [{"path": "/1k", "status_last": 200}], **VIA}


def each_mode(outer=4):
    """Returns one backend of each mode: web-1 ipip, web-2 l2, web-3 gue, web-4 gre."""
    return [{"name": name, "address": backend_address(number, outer), "forwarding": mode}
            for number, (name, mode) in enumerate(zip(BACKENDS, MODES), 1)]


def services(outer=4):
    more = {"gue_port": 6080, "gre_key": 7}
    result = [web(each_mode(outer), **more), upload(each_mode(outer), **more),
              echo(each_mode(outer), **more)]
    result[0]["health_check"].update(CHECK)
    return result


def backend_findings(lab):
    """Returns doctor's findings about the backends of the service web, in the order of the backends."""
    out = lab.weirctl("doctor", "--config", lab.config_path, "--json", check=False, timeout=30)[1]
    return [f for f in json.loads(out)["findings"] if f["check"] == "backends"
            and f["subject"].startswith("web/")]


def start(lab):
    lab.control_options += (OPTION,)
    lab.start()


def echoes(session, name):
    """Returns whether the server answers a datagram of 10 KB. The first answer may be too big for the
    client's link."""
    payload = bytes(range(256)) * 40
    with contextlib.suppress(TimeoutError):
        session.sock.send(payload)
        return session.sock.recv(1 << 16) == name.encode() + b" " + payload
    return False


def carry_traffic(lab):
    """Every backend serves requests, uploads and datagrams of both families, also large ones."""
    digest = make_random_file(lab.dir + "/upload", 4 << 20)
    wanted = lab.make_file("1mb", 1 << 20)
    for vip in (VIP4, VIP6):
        all_served(clients.curl_batch(lab.client, vip, 100), 100)
        uploads, answers = set(), set()
        while uploads != set(BACKENDS):
            name, received, seen = clients.send_file(lab.client, vip, lab.dir + "/upload")
            assert (received, seen) == (4 << 20, digest), (vip, name, received)
            uploads.add(name)
        while answers != set(BACKENDS):
            with contextlib.closing(clients.Udp(lab.client, vip)) as session:
                name = session.ask()
                wait_for(f"10 KB in fragments to {name} at {vip}", lambda: echoes(session, name), 15)
                answers.add(name)
        download = clients.Download(lab.client, vip, "/files/1mb")
        assert download.finish() == (0, 1 << 20, wanted)
        download.stop()


@scenario(start=False, short=True, services=services(4))
def modes_serve_over_ipv4(lab):
    """A backend of each forwarding mode at an IPv4 address; the one with l2 needs no decapsulation"""
    start(lab)
    lab.programs["agent-2"].stop()
    carry_traffic(lab)
    assert all(b["health"] == "healthy" for b in lab.backends()), lab.backends()
    shown = {b["name"]: b["forwarding"] for b in lab.backends() if b["service"] == "web"}
    assert shown == dict(zip(BACKENDS, MODES)), shown
    found = backend_findings(lab)
    assert [f["level"] for f in found] == ["ok"] * 4, found
    assert "web-2" in found[1]["subject"] and "up to 1500 bytes" in found[1]["found"], found[1]


@scenario(start=False, services=services(6))
def modes_serve_over_ipv6(lab):
    """A backend of each forwarding mode at an IPv6 address; the one with l2 needs no decapsulation"""
    start(lab)
    lab.programs["agent-2"].stop()
    carry_traffic(lab)


def iperf_port(mode):
    return 5201 + MODES.index(mode)


def of_iperf(outer):
    """Returns one service for each mode, with one backend, because a client of iperf3 opens several connections."""
    result = []
    for backend in each_mode(outer):
        port = iperf_port(backend["forwarding"])
        result.append(service("iperf-" + backend["forwarding"], port, backends=[backend],
                              check={"type": "tcp", "port": 7000},
                              binds=[{"address": vip, "protocol": protocol, "port": port}
                                     for vip in (VIP4, VIP6) for protocol in ("tcp", "udp")]))
    return result


def measure(lab, vip, mode, *options):
    """Run iperf3 to the service of the mode. Returns the sums of its report."""
    name, port = f"iperf-{mode}", str(iperf_port(mode))
    # one server for each measurement: one that still ends the last measurement refuses the next; without -B, its
    # answers over UDP would come from the address of the backend
    server = lab.program(name, lab.namespaces[f"b{MODES.index(mode) + 1}"], "iperf3", "-s", "-1", "--forceflush",
                         "-p", port, "-B", vip)
    lab.wait_for_program(name, lambda: "listening" in server.output(), 10)
    with lab.client.inside():
        done = subprocess.run(["iperf3", "-J", "-c", vip, "-p", port, *options], capture_output=True, text=True,
                              check=False)
    assert done.returncode == 0, (vip, mode, options, done.stdout[-500:], done.stderr)
    report = json.loads(done.stdout)
    assert "error" not in report, (vip, mode, options, report["error"])
    wait_for("the server to end", lambda: not server.alive(), 10)
    return report["end"]


def iperf_through_each_mode(lab):
    lab.programs["agent-2"].stop()  # l2 needs no decapsulation
    for mode in MODES:
        for vip in (VIP4, VIP6):
            for options in (("-n", "64M"), ("-n", "64M", "-R")):
                seen = measure(lab, vip, mode, *options)
                # the last bytes may arrive after the end of the measurement
                assert seen["sum_sent"]["bytes"] >= 64 << 20, (mode, vip, seen)
                assert seen["sum_received"]["bytes"] >= 48 << 20, (mode, vip, seen)
            sent = measure(lab, vip, mode, "-u", "-b", "10M", "-n", "500K")["sum"]
            # a server without the CPU for 100 ms loses datagrams in its own socket
            assert sent["packets"] > 300 and sent["lost_packets"] < sent["packets"] / 4, (mode, vip, sent)
    assert not lab.drops(), lab.drops()


@scenario(services=of_iperf(4))
def iperf_over_ipv4(lab):
    """iperf3 over TCP in both directions and UDP, to a backend of each forwarding mode at an IPv4 address: 0 lost"""
    iperf_through_each_mode(lab)


@scenario(services=of_iperf(6))
def iperf_over_ipv6(lab):
    """iperf3 over TCP in both directions and UDP, to a backend of each forwarding mode at an IPv6 address: 0 lost"""
    iperf_through_each_mode(lab)


@scenario(start=False, services=services(4))
def data_path_checks_use_the_mode(lab):
    """A check via the data path fails where clients fail: without decapsulation, or with l2 without the VIP"""
    def states():
        return [lab.backend(name)["health"] for name in BACKENDS]

    start(lab)
    assert states() == ["healthy"] * 4
    for number in (1, 3, 4):
        lab.programs[f"agent-{number}"].stop()
    lab.namespaces["b2"].ip("addr", "del", VIP4 + "/32", "dev", "lo")
    wait_for("every backend to fail", lambda: states() == ["refusing"] * 4, 20)
    for number in (1, 3, 4):
        lab.start_decapsulation(number)
    lab.namespaces["b2"].ip("addr", "add", VIP4 + "/32", "dev", "lo")
    wait_for("every backend to recover", lambda: states() == ["healthy"] * 4, 20)
    carry_traffic(lab)


def modes_on_the_wire(lab, load):
    """Returns the modes of the IPv4 packets that the dataplane sends."""
    protocols = {4: "ipip", 17: "gue", 47: "gre"}
    vip = socket.inet_aton(VIP4)
    with taps.Wire(lab.net, "lb0") as wire:
        load.wait_for_more(50)
        sent = [f for f in wire.read_received() if f[12:14] == b"\x08\x00"]
    return {protocols[f[23]] for f in sent if f[23] in protocols} | {
        "l2" for f in sent if f[30:34] == vip}


@scenario(services=[web()])
def mode_changes_under_load(lab):
    """A reload changes the mode of backends: no request fails, and open connections continue"""
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(contextlib.closing(clients.KeepAlive(lab.client, vip)))
                 for vip in (VIP4, VIP6) for _ in range(8)]
        load = stack.enter_context(clients.Load(lab.client, VIP4))
        for mode in ("gue", "l2", "gre", "ipip"):
            lab.write_config([web(forwarding=mode)])
            lab.weirctl("config", "reload")
            lab.wait_published()
            assert {b["forwarding"] for b in lab.backends()} == {mode}
            load.wait_for_more(200)
            assert modes_on_the_wire(lab, load) == {mode}
            for line in lines:
                assert line.ask() == line.backend
        load.stop()
        assert not load.errors(), load.errors()[:5]


def one(mode, family, **more):
    backends = [{"name": "web-1", "address": backend_address(1, family)}]
    return [kind(backends, forwarding=mode, **more) for kind in (web, upload, echo)]


@scenario(start=False, services=one("gue", 4), hosts=1)
def narrow_gue_path(lab):
    """Routers report the path MTU of a GUE tunnel over IPv4: transfers of 100 MB each way, datagrams of 64 KB"""
    narrow_path(lab)
    lab.start()
    go_through(lab, 4)


@scenario(start=False, services=one("gre", 6, gre_key=9), hosts=1)
def narrow_gre_path(lab):
    """Routers report the path MTU of a GRE tunnel over IPv6: transfers of 100 MB each way, datagrams of 64 KB"""
    narrow_path(lab)
    lab.start()
    go_through(lab, 6)


@scenario(start=False, services=[web(forwarding="l2")])
def l2_needs_the_backend_on_the_link(lab):
    """With l2, a backend behind a gateway gets no packets; status, history and doctor name the reason"""
    narrow_path(lab, 1600)
    lab.start_backends()
    lab.start_dataplane()
    lab.start_control()
    wait_for("three backends on the link", lambda: [b["resolved"] for b in lab.backends()]
             == [False, True, True, True], 10)
    history = [c["why"] for c in lab.api("health.history", service="web", backend="web-1")]
    assert any("forwarding l2 needs a backend on a link of a port" in why for why in history), history
    wait_for("the other backends to be healthy", lambda: sum(
        b["health"] == "healthy" and b["in_selection"] for b in lab.backends()) == 3, 10)
    lab.wait_published()
    all_served(clients.curl_batch(lab.client, VIP4, 100), 100, BACKENDS[1:])
    found = backend_findings(lab)
    assert "route goes through the gateway 10.0.0.1" in found[0]["found"], found[0]
    assert [f["level"] for f in found] == ["fault", "ok", "ok", "ok"], found
    # Now the port sends every packet to one gateway.
    lab.port = {"gateway_mac": lab.mac(lab.net, "br0")}
    lab.write_config()
    lab.weirctl("config", "reload")
    wait_for("no backend on the link", lambda: not any(b["resolved"] for b in lab.backends()), 10)
    found = backend_findings(lab)
    assert all("port wan sends all packets to its gateway_mac" in f["found"] for f in found), found


REJECTED = [{"name": "web-1", "address": backend_address(1, 4), "forwarding": "gue"},
            {"name": "web-2", "address": backend_address(2, 4), "forwarding": "gre"},
            {"name": "web-3", "address": backend_address(3, 6), "forwarding": "gre"},
            {"name": "web-4", "address": backend_address(4, 4), "forwarding": "l2"}]
EJECT = {"outlier_ejection": {"max_ejection_percent": 100}, "panic_threshold_percent": 0}


@scenario(services=[echo(REJECTED, **EJECT), lines(**EJECT)])
def rejected_packets_eject_in_each_mode(lab):
    """ICMP errors of a host that rejects GUE or GRE eject its backend, but not one with another mode at its address"""
    with Datagrams(lab.client, VIP4):
        for number in (1, 2, 3):
            lab.programs[f"agent-{number}"].kill()
        for name, kind in (("web-1", "port unreachable"), ("web-2", "protocol unreachable"),
                           ("web-3", "protocol unreachable")):
            wait_for(f"{name} to be ejected", lambda n=name: lab.backend(n, "echo")["ejected"], 15)
            why = lab.api("health.history", service="echo", backend=name)[-1]["why"]
            assert "host rejects tunnel packets" in why and kind in why, why
        assert not lab.backend("web-4", "echo")["ejected"]
        assert not any(b["ejected"] for b in lab.backends() if b["service"] == "lines")


@scenario(services=[web([{"name": "web-1", "address": "10.0.0.11"},
                         {"name": "web-2", "address": "10.0.0.12", "forwarding": "l2"}])])
def l2_ignores_reports_of_routers(lab):
    """Forged ICMP errors about tunnel packets do not change the path MTU of a backend with l2; its route does"""
    for address in ("10.0.0.12", "10.0.0.11"):
        send_error(lab, "10.0.0.2", address, 1300)
    wait_for("path MTU of web-1", lambda: lab.backend("web-1")["path_mtu"] == 1300, 5)
    assert lab.backend("web-2")["path_mtu"] is None, lab.backend("web-2")
    lab.lb.ip("route", "replace", "10.0.0.12/32", "dev", "lb0", "mtu", 1450)
    wait_for("MTU of the route", lambda: lab.backend("web-2")["path_mtu"] == 1450, 5)
    assert "web-2: path MTU to 10.0.0.12 is 1450" in lab.programs["control"].output()


def to_gateway(tap, mac):
    """Returns the frames from the balancer to its gateway that contain a packet to a VIP without an outer header."""
    vip = socket.inet_aton(VIP4)
    return [frame for frame in tap.read_received()
            if frame[6:12] == mac and frame[12:14] == b"\x08\0" and frame[30:34] == vip]


@scenario(start=False, services=[web(forwarding="l2")])
def l2_never_uses_the_gateway(lab):
    """A backend moves behind a gateway and back under load: the gateway gets no packet to the VIP"""
    lab.start()
    lb = lab.lb
    mac = bytes.fromhex(lab.mac(lb, "lb0").replace(":", ""))
    with contextlib.ExitStack() as stack:
        load = stack.enter_context(clients.Load(lab.client, VIP4))
        tap = stack.enter_context(taps.Wire(lab.net, "br0"))
        for _ in range(3):
            lb.ip("route", "replace", "10.0.0.11/32", "via", "10.0.0.1")
            wait_for("the gateway", lambda: not lab.backend("web-1")["resolved"], 10)
            load.wait_for_more(200)
            lb.ip("route", "del", "10.0.0.11/32", "via", "10.0.0.1")
            wait_for("the link", lambda: lab.backend("web-1")["resolved"], 10)
            load.wait_for_more(200)
            lab.programs["control"].kill()
            lab.start_control()
            lab.wait_ready()
            load.wait_for_more(200)
        load.stop()
        assert not load.errors(), load.errors()[:5]
        assert not to_gateway(tap, mac)
