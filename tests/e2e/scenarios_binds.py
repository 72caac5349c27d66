# SPDX-License-Identifier: BSD-3-Clause
"""When a bind is removed or drained, its open connections continue, on any kind of device."""
import contextlib
import os
import socket
import time

import clients
from lab import HERE, PYTHON, VIP4, VIP6, echo, lines, web
from netns import wait_for
from scenario import scenario
from scenarios_ports import start_with_tap


AT_ONCE = {"drain": {"removed_ms": 0}}  # binds and services are removed at once, without a drain
REMOVED_S = 8
SLOWLY = {"on_backend_down": "reset", "drain": {"removed_ms": REMOVED_S * 1000}}


def other_port(**more):
    """Returns the service "lines" on a port where no server listens."""
    service = lines(**more)
    for bind in service["binds"]:
        bind["port"] = 7001
    return service


def reload_with(lab, *services):
    lab.write_config([web(), *services])
    lab.weirctl("config", "reload")
    lab.wait_published()


def is_reset(line):
    try:
        line.ask()
    except ConnectionResetError:
        return True
    return False


def remove_binds(lab):
    open_lines = [clients.Line(lab.client, vip) for vip in (VIP4, VIP6) for _ in range(4)]
    reload_with(lab, other_port(**AT_ONCE))
    for _ in range(3):
        for line in open_lines:
            assert line.ask() == line.backend, "another backend"
    for vip in (VIP4, VIP6):
        try:
            clients.Line(lab.client, vip, timeout=1)
        except OSError:
            continue
        raise AssertionError(f"a new connection to {vip}, which has no bind")
    reload_with(lab, lines())
    open_lines += [clients.Line(lab.client, vip) for vip in (VIP4, VIP6)]
    for line in open_lines:
        assert line.ask() == line.backend, "another backend"
    reload_with(lab, lines(on_backend_down="reset", **AT_ONCE))
    reload_with(lab)
    for line in open_lines:
        wait_for("RST of a deleted service", lambda line=line: is_reset(line), 5)


@scenario(services=[web(), lines()])
def removed_bind_keeps_open_connections(lab):
    """AF_XDP: connections of a removed bind continue, or get an RST (on_backend_down); new connections go to the kernel"""
    remove_binds(lab)


@scenario(start=False, lb_mtu=1500, services=[web(), lines()])
def removed_bind_keeps_open_connections_with_tap(lab):
    """tap device: connections of a removed bind continue, new connections go to the kernel"""
    start_with_tap(lab)
    remove_binds(lab)


@scenario(services=[web(), lines()])
def removed_bind_leaves_the_kernel_its_syn_cookies(lab):
    """A server on the balancer can use a removed bind's port, with SYN cookies; open connections continue"""
    open_lines = [clients.Line(lab.client, vip) for vip in (VIP4, VIP6)]
    reload_with(lab, other_port(**AT_ONCE))
    lab.lb.ip("address", "add", VIP4 + "/32", "dev", "lo")
    lab.lb.ip("address", "add", VIP6 + "/128", "dev", "lo", "nodad")
    lab.lb.run("sysctl", "-q", "-w", "net.ipv4.tcp_syncookies=2")
    server = lab.program("server-lb", lab.lb, PYTHON, os.path.join(HERE, "server.py"), "lb")
    wait_for("the server", lambda: "serving" in server.output())
    for vip in (VIP4, VIP6):
        assert clients.Line(lab.client, vip).ask() == "lb"
    for line in open_lines:
        assert line.ask() == line.backend, "another backend"


def is_refused(lab, vip, port=7000):
    try:
        with lab.client.inside(), contextlib.closing(socket.create_connection((vip, port), 3)):
            pass
    except ConnectionRefusedError:
        return True
    except OSError as error:
        raise AssertionError(f"not refused at once: {error}") from error
    return False


def check_existing(flows):
    for flow, backend in flows.items():
        assert flow.ask() == backend, "another backend"


@scenario(services=[lines(drain={"at_deadline": "drop"}), echo()])
def drained_vip_refuses_new_flows(lab):
    """A drained VIP or service refuses new flows, also after control restarts; open flows continue until the deadline"""
    flows = {}
    for vip in (VIP4, VIP6):
        for _ in range(3):
            for flow in (clients.Line(lab.client, vip), clients.Udp(lab.client, vip)):
                flows[flow] = flow.ask()
    lab.weirctl("vip", "drain", VIP4)
    assert is_refused(lab, VIP4) and not is_refused(lab, VIP6)
    check_existing(flows)
    try:
        clients.Udp(lab.client, VIP4).ask()
        raise AssertionError("a new UDP flow to a drained VIP")
    except ConnectionRefusedError:
        pass
    lab.programs["control"].kill()
    lab.start_control()
    lab.wait_ready()
    assert is_refused(lab, VIP4) and not is_refused(lab, VIP6)
    lab.weirctl("config", "reload")
    assert is_refused(lab, VIP4)
    check_existing(flows)
    lab.weirctl("vip", "ready", VIP4)
    assert not is_refused(lab, VIP4)
    code, text, _ = lab.weirctl("service", "drain", "--interval=1s", "--wait", "lines", check=False)
    assert code == 0 and " dropped" in text.splitlines()[-1], (code, text)
    for flow, backend in flows.items():
        if isinstance(flow, clients.Line):
            wait_for("an RST after the deadline", lambda flow=flow: is_reset(flow), 5)
        else:
            assert flow.ask() == backend
    assert is_refused(lab, VIP4) and is_refused(lab, VIP6)
    code, text, _ = lab.weirctl("status", check=False)
    assert code == 0 and text.rstrip().endswith("; 1 of 2 services drained: lines"), (code, text)
    lab.weirctl("service", "ready", "lines")
    assert not is_refused(lab, VIP4) and not is_refused(lab, VIP6)


@scenario(services=[lines()])
def vip_drain_waits_for_a_renamed_service(lab):
    """vip drain --wait also waits for connections that began before a reload renamed the service of the VIP"""
    line = clients.Line(lab.client, VIP4)
    lab.write_config([dict(lines(), name="renamed")])
    lab.weirctl("config", "reload")
    code, text, _ = lab.weirctl("vip", "drain", "--interval=300ms", "--wait", VIP4, check=False)
    assert code == 4 and "includes the flows of lines, which a reload removed from this VIP" in text, (code, text)
    assert " 1 open flow kept" in text and line.ask() == line.backend, text
    line.close()
    code, text, _ = lab.weirctl("vip", "drain", "--wait", VIP4, check=False)
    assert code == 0 and f"{VIP4}: drained after " in text, (code, text)


class Removal:
    """Downloads that run during a reload, which removes the VIP or service of the first download."""

    def __init__(self, lab, *vips):
        self.lab = lab
        self.downloads = [clients.Download(lab.client, vip, "/slow/big") for vip in vips]
        for download in self.downloads:
            download.backend()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for download in self.downloads:
            download.stop()

    def reload(self, *services):
        self.lab.write_config(services)
        self.began = time.monotonic()
        _, text, _ = self.lab.weirctl("config", "reload")
        assert f"TCP flows drain for {REMOVED_S}.0s, then are reset" in text, text
        return text

    def restart_control(self):
        self.lab.programs["control"].kill()
        self.lab.start_control()
        wait_for("control attached to the dataplane",
                 lambda: self.lab.api("version")["dataplane"]["attached"])
        self.lab.wait_published()
        assert time.monotonic() - self.began < REMOVED_S, "the machine is too slow"

    def are_reset(self, *downloads):
        """Check that the curl of each of these downloads gets an RST at the deadline."""
        assert all(download.running() for download in downloads), "ended before the deadline"
        for download in downloads:
            wait_for("end of a download", lambda download=download: not download.running(),
                     self.began + REMOVED_S + 5 - time.monotonic())
        assert time.monotonic() - self.began > REMOVED_S - 0.2
        return all(download.finish()[0] == 56 for download in downloads)


def ends_of_drains(lab):
    return [event["why"] for event in lab.api("health.history")
            if event["source"] == "drain" and (event["service"], event["backend"]) == ("web", None)]


@scenario(services=[web(**SLOWLY), lines()])
def removed_vip_drains_then_resets(lab):
    """A removed VIP refuses new flows, and keeps downloads until the deadline, even if control is killed"""
    lab.make_file("big", 200 << 20)
    one_vip = web(**SLOWLY)
    one_vip["binds"] = [bind for bind in one_vip["binds"] if bind["address"] != VIP4]
    with Removal(lab, VIP4, VIP6) as removal:
        text = removal.reload(one_vip, lines())
        # The text contains the number of open flows of the whole service: the two downloads.
        assert "up to 2 open flows of all binds of the service: " in text, text
        assert is_refused(lab, VIP4, 80) and not is_refused(lab, VIP6, 80)
        removal.restart_control()
        assert is_refused(lab, VIP4, 80) and not is_refused(lab, VIP4)
        assert removal.are_reset(removal.downloads[0])
        assert removal.downloads[1].running(), "a download from the VIP that stays"
        ends = ends_of_drains(lab)
        assert ends == [f"removed bind tcp {VIP4}:80: drain deadline reached: its open flows reset; "
                        "the whole service has 2 open flows"], ends
        assert is_refused(lab, VIP4, 80)  # new flows are still refused, while old flows get an RST
        lab.write_config([web(**SLOWLY), lines()])
        lab.weirctl("config", "reload")
        wait_for("the VIP", lambda: not is_refused(lab, VIP4, 80), 5)


@scenario(services=[web(**SLOWLY), lines()])
def removed_service_drains_then_resets(lab):
    """A removed service refuses new flows, and keeps downloads until the deadline, even if control is killed"""
    lab.make_file("big", 200 << 20)
    with Removal(lab, VIP4, VIP6) as removal:
        removal.reload(lines())
        assert is_refused(lab, VIP4, 80) and is_refused(lab, VIP6, 80)
        removal.restart_control()
        assert is_refused(lab, VIP4, 80) and not is_refused(lab, VIP4)
        _, notes, _ = lab.weirctl("backend", "show")
        assert "drain" in notes and "leaving" in notes, notes
        for words in (("service", "show", "web"), ("backend", "show", "web/"),
                      ("flow", "list", "--service", "web")):
            code, _, error = lab.weirctl(*words, check=False)
            assert code == 1 and "the service was removed, and drains for at most " in error, (words, error)
        flows = [line.split() for line in lab.weirctl("flow", "list")[1].splitlines()]
        assert sum(row[3:4] == ["web"] for row in flows) >= 2, flows
        assert removal.are_reset(*removal.downloads)
        assert ends_of_drains(lab) == ["drain deadline reached: 2 open flows reset"], ends_of_drains(lab)
        assert is_refused(lab, VIP4, 80)
        wait_for("the reason why its backends are listed",
                 lambda: "leaving, no open flow, removed binds refuse packets for another "
                 in lab.weirctl("backend", "show")[1], 5)
