#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests what weir-agent doctor reports about forwarding modes, on a veth with VIPs on lo.

Tunnel devices are tun devices with the ARPHRD type of the device in question: doctor looks at the
type only, and not each kernel has all modules.
"""
import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "e2e"))
from netns import Namespace, Program, wait_for  # noqa: E402

TUNSETIFF, TUNSETLINK, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x400454CD, 0x0001, 0x1000
TUNNEL, TUNNEL6, SIT, GRE, IP6GRE = 768, 769, 776, 778, 823
VIP4, VIP6 = "198.51.100.10", "2001:db8:f::10"


class Lab:
    def __init__(self, agent):
        self.agent = agent
        self.dir = tempfile.TemporaryDirectory(prefix="weir-doctor-")
        self.backend = Namespace(f"weir-{os.getpid()}-doctor").create()
        ip = self.backend.ip
        ip("link", "add", "eth0", "mtu", "1540", "type", "veth", "peer", "name", "peer0")
        for name in ("eth0", "peer0"):
            ip("link", "set", name, "up")
        self.backend.sysctl(net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__all__arp_ignore=0,
                            net__ipv4__conf__all__arp_announce=0,
                            net__ipv4__conf__default__rp_filter=0,
                            net__ipv4__conf__eth0__rp_filter=0)
        ip("addr", "add", "10.9.0.2/24", "dev", "eth0")
        ip("addr", "add", "2001:db8:9::2/64", "dev", "eth0", "nodad")
        ip("addr", "add", f"{VIP4}/32", "dev", "lo")
        ip("addr", "add", f"{VIP6}/128", "dev", "lo", "nodad")

    def close(self):
        self.backend.remove()
        self.dir.cleanup()

    def look(self, *options, before=()):
        """Returns {check: [(subject, level, text, cure)]}. ip netns exec mounts the /sys of the namespace."""
        found = subprocess.run(["ip", "netns", "exec", self.backend.name, *before, self.agent, "doctor",
                                "eth0", "--json", *options], check=False, stdout=subprocess.PIPE).stdout
        checks = {}
        for row in json.loads(found)["findings"]:
            checks.setdefault(row["check"], []).append(
                (row["subject"], row["level"], row["found"], row["cure"] or ""))
        return checks

    def expect(self, check, *expected, options=(), before=()):
        """Check the findings of a check: (level, part of the text). before: words before the command."""
        found = self.look(*options, before=before)[check]
        assert len(found) == len(expected), (options, found)
        for (_, level, text, _), (expected_level, part) in zip(found, expected):
            assert level == expected_level and part in text, (options, found, expected)
        return found

    @contextlib.contextmanager
    def decap(self, *options):
        program = Program("decap", self.backend, (self.agent, "decap", "eth0", *options),
                          os.path.join(self.dir.name, "decap.log"))
        try:
            wait_for("decap", lambda: "accepts packets to" in program.output()
                     or not program.alive())
            yield program
        finally:
            program.stop()

    @contextlib.contextmanager
    def tunnel(self, name, kind):
        with self.backend.inside():
            tun = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
            fcntl.ioctl(tun, TUNSETLINK, kind)
        try:
            self.backend.ip("link", "set", name, "up")
            yield
        finally:
            os.close(tun)

    @contextlib.contextmanager
    def udp_port(self, port):
        with self.backend.inside():
            bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with bound:
            bound.bind(("", port))
            yield


def doctor_shows_the_modes_of_decap(lab):
    with lab.decap():
        lab.expect("decap", ("ok", "accepts ipip, gue (port 6080), gre; decapsulated packets so far: 0"),
                   options=("--forwarding", "ipip", "--forwarding", "gue", "--forwarding", "gre",
                            "--forwarding", "l2"))
        found = lab.expect("decap", ("ok", "accepts"),
                           ("fault", "passes packets of the forwarding mode gue (port 6081) to the kernel"),
                           options=("--forwarding", "gue", "--gue-port", "6081"))
        assert found[1][3] == "editor /etc/weir/decap.env && systemctl restart weir-decap", found
        with lab.udp_port(6080):
            found = lab.expect("decap", ("ok", "accepts"), ("notice", "a socket is bound to UDP port 6080"))
            assert found[1][3] == "ss -ulnp sport = :6080", found
    with lab.decap("--forwarding", "gue", "--gue-port", "6081"), lab.udp_port(6080):
        lab.expect("decap", ("ok", "accepts gue (port 6081); "),
                   ("fault", "the forwarding mode ipip to the kernel"),
                   ("fault", "the forwarding mode gre to the kernel"),
                   options=("--forwarding", "ipip", "--forwarding", "gue", "--gue-port", "6081",
                            "--forwarding", "gre"))


def send_tunnel_packet(lab, source):
    """Send an IPv4 packet of protocol 4 to eth0."""
    addresses = socket.inet_aton(source) + socket.inet_aton("10.9.0.2")
    words = struct.unpack("!10H", struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 4, 0) + addresses)
    total = sum(words) % 0xffff
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 4, 0xffff - total) + addresses
    mac = json.loads(lab.backend.ip("-json", "link", "show", "eth0"))[0]["address"].replace(":", "")
    with lab.backend.inside():
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with sender:
        sender.bind(("peer0", 0))
        sender.send(bytes.fromhex(mac) + bytes(6) + b"\x08\x00" + header + bytes(20))


def doctor_names_refused_sources(lab):
    """XDP drops refused packets before tcpdump sees them: the finding itself has their source."""
    with lab.decap("--from", "10.9.0.1"):
        send_tunnel_packet(lab, "10.9.0.6")
        lab.expect("decap", ("ok", "accepts"), (
            "notice", "1 tunnel packet refused so far, because their source is not in --from (last: 10.9.0.6); none in"))
        later = threading.Timer(1, send_tunnel_packet, (lab, "10.9.0.7"))
        later.start()
        found = lab.expect("decap", ("ok", "accepts"), (
            "warning", "2 tunnel packets refused: their source is not in --from (last: 10.9.0.7"))
        later.join()
        assert found[1][3] == "editor /etc/weir/decap.env && systemctl restart weir-decap", found


def doctor_of_l2_needs_no_decapsulation(lab):
    found = lab.expect("decap", ("fault", "packets are not decapsulated: weir-agent decap is not attached, "
                                 "and there is no tunnel device; only the forwarding mode l2 needs no decapsulation"))
    assert found[0][3] == "systemctl enable --now weir-decap", found
    lab.expect("decap", ("ok", "l2 need no decapsulation"), options=("--forwarding", "l2"))
    lab.expect("decap", ("fault", "weir-agent decap is not attached, and there is no tunnel device"),
               options=("--forwarding", "l2", "--forwarding", "gre"))


def doctor_shows_the_modes_of_tunnel_devices(lab):
    fault = "packets of the forwarding mode {} are not decapsulated: there is no tunnel device of type {}"
    for name, kind, kind_name in (("t4", TUNNEL, "ipip"), ("t6", TUNNEL6, "ip6tnl"), ("s", SIT, "sit")):
        with lab.tunnel(name, kind):
            listed = ("ok", f"not attached; tunnel devices that decapsulate: {name} ({kind_name})")
            lab.expect("decap", listed)
            lab.expect("decap", listed, options=("--forwarding", "ipip"))
            lab.expect("decap", listed, ("fault", fault.format("gre", "gre or ip6gre")),
                       options=("--forwarding", "gre"))
            found = lab.expect("decap", listed, ("fault", "no socket is bound to UDP port 6081"),
                               options=("--forwarding", "gue", "--gue-port", "6081"))
            assert found[1][3] == "ip fou add port 6081 gue; ip -6 fou add port 6081 gue", found
            with lab.udp_port(6080):
                lab.expect("decap", listed, options=("--forwarding", "gue"))
    for name, kind, kind_name in (("g4", GRE, "gre"), ("g6", IP6GRE, "ip6gre")):
        with lab.tunnel(name, kind), lab.udp_port(6080):
            listed = ("ok", f"decapsulate: {name} ({kind_name})")
            lab.expect("decap", listed, options=("--forwarding", "gre"))
            lab.expect("decap", listed, ("fault", fault.format("ipip", "ipip, sit or ip6tnl")),
                       ("fault", fault.format("gue", "ipip, sit or ip6tnl")),
                       options=("--forwarding", "gue", "--forwarding", "ipip"))


def doctor_without_privileges_does_not_check_decap(lab):
    """A tunnel device does not mean that weir-agent decap is not attached."""
    with lab.decap(), lab.tunnel("g4", GRE):
        found = lab.expect("decap", ("notice", "not checked: cannot query the XDP program of eth0: Operation not"),
                           options=("--forwarding", "ipip"), before=("setpriv", "--bounding-set=-all"))
        assert found[0][3] == "sudo weir-agent doctor eth0", found


def doctor_checks_the_filter_of_each_tunnel_device(lab):
    with lab.tunnel("g4", GRE), lab.tunnel("s", SIT):
        lab.expect("rp-filter", ("ok", "rp_filter is 0"))
        lab.backend.sysctl(net__ipv4__conf__g4__rp_filter=1)
        found = lab.expect("rp-filter", ("fault", "rp_filter is 1"))
        assert found[0][0] == "g4" and found[0][3] == "sysctl -w net.ipv4.conf.g4.rp_filter=2", found


def doctor_finds_vips_that_are_announced(lab):
    ip, both = lab.backend.ip, ("--vip", VIP4, "--vip", VIP6)
    silent = ("ok", "no address of lo is in a subnet of this interface")
    lab.expect("arp", silent, options=both)
    found = lab.expect("loopback", ("fault", "is not an address of this host"), options=("--vip", "10.9.0.100"))
    assert found[0][3] == ("sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 && "
                           "ip addr add 10.9.0.100/32 dev lo"), found
    ip("addr", "add", "10.9.0.100/32", "dev", "lo")
    for value, level, text in ((0, "fault", "answers ARP for 10.9.0.100"),
                               (3, "fault", "answers ARP for 10.9.0.100"),
                               (1, "ok", "does not answer"), (2, "ok", "does not answer"),
                               (8, "ok", "does not answer")):
        lab.backend.sysctl(net__ipv4__conf__eth0__arp_ignore=value,
                           net__ipv4__conf__eth0__arp_announce=2)
        lab.expect("arp", (level, text), options=both)
    lab.backend.sysctl(net__ipv4__conf__eth0__arp_ignore=0, net__ipv4__conf__all__arp_ignore=3)
    found = lab.expect("arp", ("fault", "answers ARP for 10.9.0.100"))
    lab.backend.run("bash", "-ec", found[0][3])
    lab.expect("arp", ("ok", "does not answer"))
    lab.backend.sysctl(net__ipv4__conf__all__arp_ignore=0)
    ip("addr", "del", "10.9.0.100/32", "dev", "lo")


def doctor_finds_vips_on_the_interface(lab):
    """Linux replies to ARP requests for a VIP on eth0 with any value of arp_ignore. Whether hosts
    send such requests for a VIP outside of the subnets of eth0 depends on their routes."""
    ip, silent = lab.backend.ip, ("ok", "no address of lo is in a subnet of this interface")
    asked = "answers ARP requests for this address: clients may bypass"
    elsewhere = "if the VIP is in a subnet of another host on the link"
    for vip, bits, level, said in (("10.9.0.100", 32, "fault", asked), ("10.9.0.101", 24, "fault", asked),
                                   ("2001:db8:9::100", 128, "fault", "answers neighbour solicitations"),
                                   ("2001:db8:e::100", 128, "fault", "answers neighbour solicitations"),
                                   ("198.51.100.77", 32, "warning", elsewhere),
                                   ("198.51.100.77", 24, "warning", elsewhere)):
        six, both = ":" in vip, ("--vip", vip, "--vip", VIP4)
        lo = (vip + ("/128" if six else "/32"), "dev", "lo", *(["nodad"] if six else []))
        for label in ((), ("label", "eth0:vip")) if not six else ((),):
            for on_lo in (False, True):
                ip("addr", "add", f"{vip}/{bits}", "dev", "eth0", *label, *(["nodad"] if six else []))
                if on_lo:
                    ip("addr", "add", *lo)
                arp = [(row[1], row[2]) for row in lab.look(*both)["arp"] if row[0] == vip]
                assert len(arp) == 1 and arp[0][0] == level and said in arp[0][1], (vip, label, on_lo, arp)
                lab.backend.run("bash", "-ec", lab.look(*both)["arp"][0][3])
                lab.expect("loopback", ("ok", "is an address of this host"), ("ok", ""), options=both)
                assert vip not in ip("addr", "show", "dev", "eth0"), vip
                lab.backend.sysctl(net__ipv4__conf__eth0__arp_ignore=1,
                                   net__ipv4__conf__eth0__arp_announce=2)
                lab.expect("arp", ("ok", ""), options=both)
                ip("addr", "del", *lo[:3])
    lab.expect("arp", silent, options=("--vip", VIP4))


def doctor_keeps_other_addresses_of_the_interface(lab):
    """The kernel removes the later addresses of a subnet with the first one, unless it promotes them."""
    ip = lab.backend.ip
    lab.backend.sysctl(net__ipv4__conf__all__promote_secondaries=0,
                       net__ipv4__conf__eth0__promote_secondaries=0)
    ip("addr", "add", "10.8.0.100/24", "dev", "eth0")
    ip("addr", "add", "10.8.0.2/24", "dev", "eth0")
    lab.backend.run("bash", "-ec", lab.look("--vip", "10.8.0.100")["arp"][0][3])
    left = ip("addr", "show", "dev", "eth0")
    assert "10.8.0.2/24" in left and "10.8.0.100" not in left, left
    ip("addr", "del", "10.8.0.100/32", "dev", "lo")
    ip("addr", "del", "10.8.0.2/24", "dev", "eth0")


def doctor_refuses_keys_that_root_without_capabilities_cannot_read(lab):
    """The unit starts weir-agent as root without CAP_DAC_READ_SEARCH."""
    keys = os.path.join(lab.dir.name, "agent.keys")
    with open(keys, "w", encoding="ascii") as file:
        file.write("1 " + "5a" * 32 + "\n")
    os.chmod(keys, 0o640)
    os.chown(keys, 0, 65534)
    lab.expect("key-file", ("ok", "is valid"), options=("--key-file", keys))
    os.chown(keys, 65534, 65534)
    found = lab.expect("key-file", ("fault", "owned by user 65534; the owner must be root"),
                       options=("--key-file", keys))
    assert found[0][3] == f"chown root {keys} && chmod 0640 {keys}", found


def doctor_knows_the_headers_of_each_mode(lab):
    ip = lab.backend.ip
    for mode, outer in (("l2", 0), ("ipip", 40), ("gue", 52), ("gre", 48)):
        ip("link", "set", "eth0", "mtu", str(1500 + outer))
        lab.expect("mtu", ("ok", f"MTU {1500 + outer}: packets of 1500 bytes fit with {outer} bytes of outer "
                           f"headers ({mode})"), options=("--forwarding", mode))
        if outer:
            ip("link", "set", "eth0", "mtu", str(1499 + outer))
            small = f"too small for packets of 1500 bytes plus {outer} bytes of outer headers ({mode})"
            found = lab.expect("mtu", ("notice", small), ("notice", small), options=("--forwarding", mode))
            assert f"needs advmss {1499 - 40}" in found[0][2] and "advmss 1439" in found[1][2], found
    ip("link", "set", "eth0", "mtu", "1540")
    lab.expect("mtu", ("ok", "40 bytes of outer headers (ipip)"))
    lab.expect("mtu", ("notice", "52 bytes of outer headers (gue)"), ("notice", "(gue)"),
               options=("--forwarding", "ipip", "--forwarding", "gue", "--forwarding", "gre"))


SCENARIOS = (doctor_shows_the_modes_of_decap, doctor_names_refused_sources, doctor_of_l2_needs_no_decapsulation,
             doctor_shows_the_modes_of_tunnel_devices, doctor_without_privileges_does_not_check_decap,
             doctor_checks_the_filter_of_each_tunnel_device, doctor_finds_vips_that_are_announced,
             doctor_finds_vips_on_the_interface, doctor_keeps_other_addresses_of_the_interface,
             doctor_refuses_keys_that_root_without_capabilities_cannot_read, doctor_knows_the_headers_of_each_mode)


def main(agent):
    lab, failed = Lab(agent), 0
    try:
        for scenario in SCENARIOS:
            try:
                scenario(lab)
                print(f"ok {scenario.__name__}", flush=True)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print(f"FAILED {scenario.__name__}: {type(error).__name__}: {error}", flush=True)
    finally:
        lab.close()
    print(f"{len(SCENARIOS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
