#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent decap with TCP transfers through a tunnel that the agent decapsulates.

    client  tun0 --- this script wraps each packet --- c0 ===== veth ===== eth0  backend
            packets to the VIPs                        10.9.0.1        10.9.0.2  weir-agent decap
                                                       2001:db8:9::1    ...::2   VIPs on lo, server

The backend answers the client's tun0 address directly, not through the tunnel.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import re
import resource
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "e2e"))
from netns import Namespace, Program, sh, wait_for  # noqa: E402

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
VIP = {4: "198.51.100.10", 6: "2001:db8:f::10"}
CLIENT = {4: "192.0.2.2", 6: "2001:db8:c::2"}
BALANCER = {4: "10.9.0.1", 6: "2001:db8:9::1"}
BACKEND = {4: "10.9.0.2", 6: "2001:db8:9::2"}
AF = {4: socket.AF_INET, 6: socket.AF_INET6}
PORT = 8000
MIXES = [(outer, inner) for outer in (4, 6) for inner in (4, 6)]
MODES = ("ipip", "gue", "gre")
GUE_PORT, GRE_KEY = 6080, 7
SO_NO_CHECK, UDP_NO_CHECK6_TX = 11, 101


def serve():
    """A server that reads to the end of the stream, and replies with the SHA-256 of the data,
    followed by the data."""
    listeners = [socket.create_server((VIP[family], PORT), family=AF[family]) for family in VIP]
    while True:
        for listener in select.select(listeners, [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                data = b"".join(iter(lambda c=connection: c.recv(65536), b""))
                connection.sendall(hashlib.sha256(data).digest() + data)


def between(mode, inner):
    """Returns the headers between the outer IP header, or the UDP header, and the packet."""
    if mode == "gue":
        return struct.pack("!BBH", 0, 4 if inner == 4 else 41, 0)
    if mode == "gre":
        return struct.pack("!HHI", 0x2000, 0x0800 if inner == 4 else 0x86dd, GRE_KEY)
    return b""


def open_socket(mode, outer, inner):
    """Returns a socket whose packets have the outer IP header, and for gue the UDP header."""
    if mode != "gue":
        protocol = 47 if mode == "gre" else 4 if inner == 4 else 41
        return socket.socket(AF[outer], socket.SOCK_RAW, protocol)
    made = socket.socket(AF[outer], socket.SOCK_DGRAM)
    if outer == 4:
        made.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
    else:
        made.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)
    return made


class Tunnel(threading.Thread):
    """Encapsulates packets routed to tun0 and sends them to the backend, like a balancer."""

    def __init__(self, namespace):
        super().__init__(daemon=True)
        self.outer, self.mode = 4, "ipip"
        self.ended = threading.Event()
        with namespace.inside():
            self.tun = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
            self.sockets = {(mode, outer, inner): open_socket(mode, outer, inner)
                            for mode in MODES for outer, inner in MIXES}

    def run(self):
        while not self.ended.is_set():
            if select.select([self.tun], [], [], 0.1)[0]:
                packet = os.read(self.tun, 65536)
                mode, inner = self.mode, packet[0] >> 4
                with contextlib.suppress(OSError):
                    self.sockets[mode, self.outer, inner].sendto(
                        between(mode, inner) + packet,
                        (BACKEND[self.outer], GUE_PORT if mode == "gue" else 0))

    def close(self):
        self.ended.set()
        self.join()
        os.close(self.tun)
        for made in self.sockets.values():
            made.close()


class Lab:
    def __init__(self, agent):
        self.agent_binary = agent
        self.dir = tempfile.mkdtemp(prefix="weir-decap-")
        self.client = Namespace(f"weir-{os.getpid()}-client").create()
        self.backend = Namespace(f"weir-{os.getpid()}-backend").create()
        self.programs = []
        self.tunnel = None

    def build(self):
        self.client.ip("link", "add", "c0", "type", "veth", "peer", "name", "eth0", "netns",
                       self.backend.name)
        self.tunnel = Tunnel(self.client)
        for namespace, name, addresses in ((self.client, "c0", BALANCER),
                                           (self.backend, "eth0", BACKEND)):
            namespace.sysctl(net__ipv4__conf__all__rp_filter=0)
            namespace.ip("link", "set", name, "up")
            namespace.ip("addr", "add", f"{addresses[4]}/24", "dev", name)
            namespace.ip("addr", "add", f"{addresses[6]}/64", "dev", name, "nodad")
        self.client.ip("link", "set", "tun0", "mtu", "1448", "up")
        self.client.run("sysctl", "-q", "-w", "net.ipv4.conf.c0.rp_filter=0",
                        "net.ipv4.conf.tun0.rp_filter=0")
        for family, bits in ((4, 32), (6, 128)):
            self.client.ip("addr", "add", f"{CLIENT[family]}/{bits}", "dev", "tun0", *(
                ["nodad"] if family == 6 else []))
            self.client.ip(f"-{family}", "route", "add", VIP[family], "dev", "tun0",
                           "src", CLIENT[family])
            self.backend.ip("addr", "add", f"{VIP[family]}/{bits}", "dev", "lo", *(
                ["nodad"] if family == 6 else []))
            self.backend.ip(f"-{family}", "route", "add", CLIENT[family], "via",
                            BALANCER[family])
        self.start("server", self.backend, sys.executable, __file__, "--server")
        wait_for("server", lambda: len(self.backend.run(
            "ss", "-ltnH", f"sport = :{PORT}").splitlines()) == len(VIP))
        self.tunnel.start()

    def start(self, name, namespace, *command):
        log = os.path.join(self.dir, f"{len(self.programs)}-{name}.log")
        program = Program(name, namespace, command, log)
        self.programs.append(program)
        return program

    def start_agent(self, *options):
        agent = self.start("agent", self.backend, self.agent_binary, "decap", "eth0", *options)
        wait_for(f"agent {options}", lambda: "accepts packets" in agent.tail() or self.died(agent))
        return agent

    @staticmethod
    def died(program):
        if not program.alive():
            raise RuntimeError(f"{program.name} ended: {program.tail()}")
        return False

    def stats(self):
        return json.loads(self.backend.run(self.agent_binary, "stats", "eth0", "--json"))

    def connect(self, family, timeout=10.0):
        with self.client.inside():
            connection = socket.socket(AF[family], socket.SOCK_STREAM)
        connection.settimeout(timeout)
        connection.connect((VIP[family], PORT))
        return connection

    def transfer(self, family, size):
        data = os.urandom(size)
        with self.connect(family) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer[:32] == hashlib.sha256(data).digest(), "server got other bytes"
        assert answer[32:] == data, "client got other bytes"

    def close(self):
        for program in self.programs:
            program.stop()
        if self.tunnel:
            self.tunnel.close()
        self.client.remove()
        self.backend.remove()
        sh("rm", "-rf", self.dir)


def carry_tcp_in_all_four_mixes(lab, mode):
    for outer, inner in MIXES:
        before = lab.stats()
        lab.tunnel.outer, lab.tunnel.mode = outer, mode
        lab.transfer(inner, 3_000_000)
        now = lab.stats()
        for counter in ["decapsulated"] + [mode] * (mode != "ipip"):
            got = now[counter]["packets"] - before[counter]["packets"]
            assert got > 1000, f"{counter}: {got} packets, {mode}, IPv{inner} in IPv{outer}"


def decap_carries_tcp_in_all_modes(lab, xdp_mode):
    agent = lab.start_agent("--mode", xdp_mode)
    assert f"{xdp_mode} mode" in agent.tail(), agent.tail()
    assert "packets of ipip, gue (port 6080), gre from any source" in agent.output(), agent.output()
    try:
        for mode in MODES:
            carry_tcp_in_all_four_mixes(lab, mode)
    finally:
        lab.tunnel.mode = "ipip"
    stats = lab.stats()
    dropped = {key: value for key, value in stats.items() if isinstance(value, dict) and
               value["packets"] and key not in ("decapsulated", "gue", "gre", "congestion_marked")}
    assert not dropped, dropped
    assert agent.stop() == 0, agent.tail()


def decap_native_carries_tcp_in_all_modes(lab):
    decap_carries_tcp_in_all_modes(lab, "native")


def decap_skb_carries_tcp_in_all_modes(lab):
    decap_carries_tcp_in_all_modes(lab, "skb")


def decap_accepts_the_modes_of_its_options(lab):
    """Without a mode, with another port or another key, packets are passed to the kernel."""
    def refused(mode, counter, *options):
        agent = lab.start_agent(*options)
        lab.tunnel.mode = mode
        try:
            lab.connect(4, timeout=0.5).close()
        except OSError:
            stats = lab.stats()
            counted = {key for key, value in stats.items() if isinstance(value, dict)
                       and value["packets"]}
            assert counted == counter, (mode, options, stats)
        else:
            raise AssertionError(f"{mode} accepted with {options}")
        finally:
            lab.tunnel.mode = "ipip"
        assert agent.stop() == 0
        return agent.output()

    lab.tunnel.outer = 4
    said = refused("ipip", set(), "--forwarding", "gue", "--forwarding", "gre")
    assert "packets of gue (port 6080), gre from" in said, said
    said = refused("gue", set(), "--forwarding", "ipip")
    assert "packets of ipip from" in said, said
    refused("gre", set(), "--forwarding", "ipip", "--forwarding", "gue")
    refused("gue", set(), "--gue-port", "6081")
    said = refused("gre", {"other_gre_key"}, "--gre-key", str(GRE_KEY + 1))
    assert f"gre (key {GRE_KEY + 1}) from" in said, said
    lab.tunnel.mode = "gre"
    agent = lab.start_agent("--gre-key", str(GRE_KEY), "--forwarding", "gre")
    try:
        lab.transfer(6, 1000)
    finally:
        lab.tunnel.mode = "ipip"
    assert agent.stop() == 0


def decap_ends_with_the_agent(lab):
    """After SIGTERM or SIGKILL has ended the agent, no BPF program remains attached to the
    interface."""
    lab.tunnel.outer = 4
    for number in (15, 9):
        agent = lab.start_agent()
        lab.transfer(4, 1000)
        agent.signal(number)
        agent.process.wait(10)
        wait_for("no XDP", lambda: "xdp" not in lab.backend.ip("link", "show", "eth0"))
        try:
            lab.connect(4, timeout=0.5).close()
        except OSError:
            continue
        raise AssertionError("connected without decapsulation")


def decap_survives_the_reader_of_its_output(lab):
    lab.tunnel.outer = 4
    reader, output = os.pipe()
    os.close(reader)
    with lab.backend.inside():
        agent = subprocess.Popen([lab.agent_binary, "decap", "eth0"], stdout=output,
                                 stderr=subprocess.PIPE)
    os.close(output)
    try:
        wait_for("decapsulation", lambda: transferred(lab) or agent.poll() is not None)
        assert agent.poll() is None, agent.returncode
    finally:
        agent.terminate()
        error = agent.communicate(timeout=10)[1].decode()
    assert "standard output" in error, error


def transferred(lab):
    with contextlib.suppress(OSError):
        lab.transfer(4, 1000)
        return True
    return False


def decap_refuses_strangers(lab):
    agent = lab.start_agent("--from", "10.9.0.3", "--from", "2001:db8:9::/64")
    lab.tunnel.outer = 6
    lab.transfer(4, 1000)
    lab.tunnel.outer = 4
    try:
        lab.connect(4, timeout=0.5).close()
    except OSError:
        pass
    else:
        raise AssertionError("a stranger got through")
    assert lab.stats()["source_refused"]["packets"] > 0, lab.stats()
    # tcpdump does not show dropped packets, so the program keeps their source.
    assert lab.stats()["last_refused"] == [BALANCER[4]], lab.stats()
    text = lab.backend.run(lab.agent_binary, "stats", "eth0")
    assert text.endswith(f"last refused: {BALANCER[4]}\n"), text
    assert agent.stop() == 0
    agent = lab.start_agent("--from", "10.9.0.0/24", "--stats")
    assert lab.stats()["last_refused"] == [], lab.stats()
    lab.tunnel.outer = 6
    with contextlib.suppress(OSError):
        lab.connect(4, timeout=0.5).close()
    wait_for("statistics", lambda: f"last refused: {BALANCER[6]}\n" in agent.output())
    assert agent.stop() == 0


def decap_follows_the_addresses_of_the_interface(lab):
    agent = lab.start_agent()
    lab.tunnel.outer = 4
    lab.backend.ip("addr", "add", "10.9.0.7/24", "dev", "eth0")
    wait_for("10.9.0.7", lambda: "10.9.0.7" in agent.tail(1))
    old, BACKEND[4] = BACKEND[4], "10.9.0.7"
    try:
        lab.transfer(4, 1000)
    finally:
        BACKEND[4] = old
    lab.backend.ip("addr", "del", "10.9.0.7/24", "dev", "eth0")
    wait_for("10.9.0.7 gone", lambda: "10.9.0.7" not in agent.tail(1))
    lab.transfer(4, 1000)
    assert agent.stop() == 0


def decap_follows_the_name_of_the_interface(lab):
    lab.backend.ip("link", "add", "extra0", "type", "veth", "peer", "name", "extra1")
    agent = lab.start("extra", lab.backend, lab.agent_binary, "decap", "extra0", "--stats")
    wait_for("attached", lambda: "accepts packets" in agent.tail() or lab.died(agent))
    lab.backend.ip("link", "set", "extra0", "name", "extra2", "up")
    lab.backend.ip("addr", "add", "10.8.0.1/24", "dev", "extra2")
    wait_for("its address", lambda: "decap: extra2 accepts packets to 10.8.0.1" in agent.tail())
    assert agent.stop() == 0
    assert "detached from extra2" in agent.tail(), agent.tail()
    lab.backend.ip("link", "del", "extra2")


def decap_keeps_its_addresses_after_a_failed_lookup(lab):
    """If the agent has no free descriptors, it cannot list the addresses of the interface. It then
    keeps the addresses in its map."""
    agent = lab.start_agent()
    lab.tunnel.outer = 4
    lab.transfer(4, 1000)
    before = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    wait_for("the error in the log", lambda: "cannot list the addresses of eth0" in agent.tail())
    lab.transfer(4, 1000)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, before)
    lab.backend.ip("addr", "add", "10.9.0.7/24", "dev", "eth0")
    wait_for("10.9.0.7", lambda: "10.9.0.7" in agent.tail(1))
    lab.backend.ip("addr", "del", "10.9.0.7/24", "dev", "eth0")
    assert agent.tail().count("cannot list") == 1, agent.tail()
    assert agent.stop() == 0


def decap_of_one_interface_runs_once(lab):
    agent = lab.start_agent()
    second = lab.start("second", lab.backend, lab.agent_binary, "decap", "eth0")
    assert second.process.wait(10) == 1, second.tail()
    assert "already has an XDP program" in second.tail(), second.tail()
    removal = lab.start("removal", lab.backend, lab.agent_binary, "decap", "eth0", "--detach")
    assert removal.process.wait(10) == 1, removal.tail()
    assert "uses it" in removal.tail(), removal.tail()
    lab.tunnel.outer = 4
    lab.transfer(4, 1000)
    assert agent.stop() == 0


def agent_reports_errors(lab):
    """Each error gives a nonzero exit status and a message of one line."""
    for status, expected, *words in (
            (3, "no decap program on eth0", "stats", "eth0"),
            (3, "no decap program on eth0", "decap", "eth0", "--detach"),
            (1, "no such interface: eth7", "decap", "eth7"),
            (2, "unknown command", "encap", "eth0")):
        program = lab.start("words", lab.backend, lab.agent_binary, *words)
        assert program.process.wait(10) == status, (words, program.tail())
        assert expected in program.tail(), (words, program.tail())


def agent_ends_with_its_interface(lab):
    lab.backend.ip("link", "add", "extra0", "type", "veth", "peer", "name", "extra1")
    agent = lab.start("extra", lab.backend, lab.agent_binary, "decap", "extra0")
    wait_for("attached", lambda: "no address: the interface has no address yet" in agent.tail()
             or lab.died(agent))
    lab.backend.ip("link", "del", "extra0")
    assert agent.process.wait(10) == 1, agent.tail()
    assert "the interface was removed" in agent.tail(), agent.tail()


def hints_of(lab, interface):
    """Returns [(hint, command)] of an agent that starts. Checks that weir-agent doctor has the same findings."""
    agent = lab.start("agent", lab.backend, lab.agent_binary, "decap", interface)
    wait_for("its addresses", lambda: "accepts packets to" in agent.output()
             or lab.died(agent))
    with lab.backend.inside():
        found = subprocess.run([lab.agent_binary, "doctor", interface, "--json"], check=False,
                               stdout=subprocess.PIPE).stdout
    assert agent.stop() == 0, agent.tail()
    hints = re.findall("^hint: (.*)\n(?:      (.*)\n)?", agent.output(), re.M)
    expected = [(f"{row['subject']}: {row['found']}", row["cure"] or "")
                for row in json.loads(found)["findings"] if row["level"] != "ok" and
                row["check"] in ("loopback", "rp-filter", "arp", "mtu", "offloads")]
    assert hints == expected, (hints, expected)
    return hints


def expect_hints(lab, *expected, cure=True, interface="eth0"):
    """Check the text of each hint. Then run the commands of the hints; after that there must be no
    hints."""
    hints = hints_of(lab, interface)
    assert len(hints) == len(expected), hints
    for (hint, command), text in zip(hints, expected):
        assert text in hint, (text, hints)
        if cure:
            lab.backend.run("bash", "-ec", command)
    if expected and cure:
        assert hints_of(lab, interface) == []


def decap_hints_are_findings_of_the_doctor(lab):
    """Settings that are correct, or have no effect on this host, give no hint."""
    ip = lab.backend.ip
    vips = [(f"{VIP[family]}/{bits}", "dev", "lo") for family, bits in ((4, 32), (6, 128))]
    lab.backend.sysctl(net__ipv4__conf__all__arp_ignore=0, net__ipv4__conf__all__arp_announce=0,
                       net__ipv4__conf__eth0__rp_filter=2)
    small = "MTU 1500 is too small for packets of 1500 bytes plus 40 bytes of outer headers (ipip), and "
    expect_hints(lab, f"eth0: {small}there is no default route",
                 f"eth0 IPv6: {small}there is no IPv6 default",
                 cure=False)
    ip("route", "add", "default", "via", BALANCER[4], "metric", "100", "advmss", "1420")
    ip("-6", "route", "add", "default", "via", BALANCER[6], "advmss", "1400")
    expect_hints(lab)  # no hints: the MSS fits, and no VIP is in the subnet of eth0
    ip("route", "change", "default", "via", BALANCER[4], "metric", "100", "advmss", "1421")
    ip("-6", "route", "change", "default", "via", BALANCER[6], "expires", "600")
    expect_hints(lab, f"eth0: {small}the default route", f"eth0 IPv6: {small}the IPv6 default route")
    for option, metric, two in (("-4", "100", ("10.9.0.1", "10.9.0.3")),
                                ("-6", "1024", ("2001:db8:9::1", "2001:db8:9::3"))):
        nexthops = [word for each in two for word in ("nexthop", "via", each, "dev", "eth0")]
        ip(option, "route", "del", "default")
        ip(option, "route", "add", "default", "metric", metric, "advmss", "1421", *nexthops)
    expect_hints(lab, f"eth0: {small}the default route", f"eth0 IPv6: {small}the IPv6 default route")
    assert ip("route", "show", "default").count("nexthop") == 2

    ip("-6", "route", "del", "default")
    ip("addr", "del", *vips[1])
    expect_hints(lab)  # no hints: the host serves no IPv6
    ip("addr", "del", *vips[0])
    expect_hints(lab, "lo: has no VIP", cure=False)
    for vip in vips:
        ip("addr", "add", *vip, *(["nodad"] if ":" in vip[0] else []))
    ip("link", "set", "eth0", "mtu", "1540")
    lab.backend.sysctl(net__ipv4__conf__eth0__rp_filter=1)
    expect_hints(lab, "eth0: rp_filter is 1")
    ip("addr", "add", "10.9.0.100/32", "dev", "lo")
    expect_hints(lab, "eth0: answers ARP for 10.9.0.100")
    ip("addr", "del", "10.9.0.100/32", "dev", "lo")
    ip("link", "set", "eth0", "mtu", "1500")
    ip("route", "del", "default")

    # sysctl would read the dot in eth0.20 as a separator, so the command has to write eth0/20.
    ip("link", "add", "eth0.20", "mtu", "1540", "type", "veth", "peer", "name", "extra1")
    lab.backend.sysctl(**{"net__ipv4__conf__eth0.20__rp_filter": 1})
    expect_hints(lab, "eth0.20: rp_filter is 1", interface="eth0.20")
    ip("link", "del", "eth0.20")


SCENARIOS = (decap_native_carries_tcp_in_all_modes, decap_skb_carries_tcp_in_all_modes,
             decap_accepts_the_modes_of_its_options, decap_ends_with_the_agent, decap_survives_the_reader_of_its_output,
             decap_refuses_strangers,
             decap_follows_the_addresses_of_the_interface, decap_follows_the_name_of_the_interface,
             decap_keeps_its_addresses_after_a_failed_lookup, decap_of_one_interface_runs_once,
             agent_reports_errors, agent_ends_with_its_interface,
             decap_hints_are_findings_of_the_doctor)


def main(agent):
    lab, failed = Lab(agent), 0
    try:
        lab.build()
        for scenario in SCENARIOS:
            try:
                scenario(lab)
                print(f"ok {scenario.__name__}", flush=True)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print(f"FAILED {scenario.__name__}: {type(error).__name__}: {error}", flush=True)
                for program in lab.programs[1:]:
                    program.stop()
    finally:
        lab.close()
    print(f"{len(SCENARIOS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--server"]:
        serve()
    sys.exit(main(sys.argv[1]))
