# SPDX-License-Identifier: BSD-3-Clause
"""Ports: VLAN, two arms, several workers and queues, other DPDK devices."""
import json
import os
import re
import signal
import socket
import struct
import time

import clients
from lab import BACKENDS, VIP4, VIP6, echo, lines, make_random_file, service, upload, web
from netns import wait_for
from scenario import scenario
from scenarios_doctor import cure, find, inside
from scenarios_metrics import http


@scenario(short=True, vlan=True, services=[web(), upload()])
def vlan_tagged_port(lab):
    """Requests and an upload pass a port in VLAN 100 with a static gateway, IPv4 and IPv6"""
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100 and set(result.served) == set(BACKENDS), \
            (result.served, result.errors[:5])
    ask_for_whole_upload(lab)
    # The switch port drops untagged frames, so all frames that passed it were tagged, in both
    # directions.
    assert "0% packet loss" in lab.client.run("ping", "-c", "2", "-i", "0.1", VIP4)
    assert "rx-vlan-offload: off" in lab.lb.run("ethtool", "-k", "lb0")


def ask_for_whole_upload(lab, size=16 << 20):
    path = lab.dir + "/upload"
    digest = make_random_file(path, size)
    for vip in (VIP4, VIP6):
        name, received, seen = clients.send_file(lab.client, vip, path)
        assert (received, seen) == (size, digest), f"{name} got {received} bytes, {seen}"


@scenario(short=True, two_armed=True, services=[web(), upload()])
def two_armed(lab):
    """Clients are behind one port, backends behind another"""
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100 and set(result.served) == set(BACKENDS), \
            (result.served, result.errors[:5])
    ask_for_whole_upload(lab)
    ports = lab.api("port.show")
    assert [p["name"] for p in ports] == ["wan", "lan"], ports
    added, total = re.search("XDP VIP maps: entries added: (\\d+), deleted: 0, in total: (\\d+),",
                             lab.programs["control"].output()).groups()
    assert added == total, (added, total)


def check_received_once(lab):
    """Check that the page of weir-metrics counts a packet once if one worker passes it to another."""
    def plotted():
        history = json.loads(http(lab, "/status.json")[2])["history"]
        return history["rings"][0]["samples"][-1][history["columns"].index("rx_packets")]

    lab.start_metrics()
    workers = lab.api("worker.show")
    handed = sum(w["handed_over"] for w in workers)
    assert handed > 300, handed
    came = sum(w["rx_packets"] for w in workers) - handed
    wait_for("a sample", lambda: came <= plotted() < came + 100, 20, 0.5)


@scenario(short=True, workers={"cores": [0, 1, 1]}, services=[web(), lines()])
def several_workers_by_distributor(lab):
    """With one queue and three workers, the software distributor spreads flows, and each flow stays at its worker"""
    result = clients.curl_batch(lab.client, VIP4, 300)
    assert result.ok == 300, result.errors[:5]
    found = clients.line_per_backend(lab.client, VIP6, BACKENDS)
    for _ in range(20):
        clients.check_lines(found)
    workers = lab.api("worker.show")
    assert len(workers) == 3 and all(w["flow_new"] > 30 for w in workers), \
        [(w["worker"], w["flow_new"]) for w in workers]
    check_received_once(lab)
    _, out, _ = lab.weirctl("flow", "lookup", "tcp", f"[2001:db8:c::2]:{found['web-1'].port()}",
                            f"[{VIP6}]:7000", "--json")
    assert '"web-1"' in out, out


# These drivers support an MTU of at most 1500 bytes. A client's packets of full size do not fit
# into the tunnel, so uploads begin with an ICMP error "too big".
STATIC_MAC = "02:00:00:00:00:b0"
# The kernel does not have these devices, so the source addresses and the gateway are configured.
STATIC = {"source_ipv4": "10.0.0.3", "source_ipv6": "2001:db8:a::3"}


def start_with_static_gateway(lab, device, before=lambda: None, after=lambda: None):
    """Start everything with this port device; VIPs are routed to STATIC_MAC."""
    lab.start_backends()
    lab.net.ip("link", "set", "br0", "address", "02:00:00:00:00:01")
    lab.port = {"device": device, "gateway_mac": "02:00:00:00:00:01", **STATIC}
    lab.write_config()
    for via, vip in (("10.0.0.3", "198.51.100.0/24"), ("2001:db8:a::3", "2001:db8:f::/64")):
        lab.net.ip("neigh", "replace", via, "lladdr", STATIC_MAC, "dev", "br0", "nud", "permanent")
        lab.net.ip("route", "replace", vip, "via", via)
    before()
    lab.start_dataplane()
    after()
    lab.start_control()
    lab.wait_ready()


def requests_and_upload(lab):
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100, (result.errors[:5], lab.drops())
    ask_for_whole_upload(lab, 2 << 20)


def start_with_tap(lab, queues=1):
    """Start everything with a tap device, bridged to the network by the balancer's kernel."""
    def bridge():
        lab.port["queues"] = queues
        lab.write_config()
        lab.lb.ip("link", "add", "br1", "type", "bridge", "mcast_snooping", "0")
        lab.lb.ip("addr", "flush", "dev", "lb0")
        lab.lb.ip("link", "set", "lb0", "master", "br1")
        lab.lb.ip("link", "set", "br1", "up")
        lab.addresses(lab.lb, "br1", ("10.0.0.2/24", "2001:db8:a::2/64"))
        lab.default_route(lab.lb, "10.0.0.1", "2001:db8:a::1")
        lab.apply()

    def attach():
        # By default both ends of the tap have the same MAC address, and a bridge would not
        # forward frames to DPDK's end.
        lab.lb.ip("link", "set", "tap0", "address", "02:00:00:00:00:b1", "master", "br1", "up")

    start_with_static_gateway(lab, f"net_tap0,iface=tap0,mac={STATIC_MAC}", bridge, attach)


@scenario(start=False, lb_mtu=1500, services=[web(), upload()])
def tap_port(lab):
    """The port is a tap device, whose link DPDK reports"""
    start_with_tap(lab)
    requests_and_upload(lab)
    assert lab.api("port.show")[0]["link"] == "up"
    lab.lb.ip("link", "set", "tap0", "down")
    wait_for("no link", lambda: lab.api("port.show")[0]["link"] == "no-carrier", 10, 0.1)
    code, out, _ = lab.weirctl("status", check=False)
    assert code == 2 and "port wan has no link: its device" in out, (code, out)


BLUE, GREEN = {"web-1": 100, "web-2": 100}, {"web-3": 100, "web-4": 100}


def colours(blue=None, green=None):
    """Returns one or two UDP services, each at its own port."""
    made = [(blue, "blue", BLUE), (green, "green", GREEN)]
    return [service(name, port, protocol="udp", backends=backends)
            for port, name, backends in made if port]


def move_udp_bind(lab):
    """A client uses one socket while VIP:9000 moves from blue to green, and is then removed."""
    def publish(services):
        lab.write_config(services)
        lab.weirctl("config", "reload")
        lab.wait_published()

    def asks(backends):
        names = {sock.ask() for sock in socks for _ in range(3)}
        assert names <= set(backends), (names, lab.drops())

    socks = [clients.Udp(lab.client, vip) for vip in (VIP4, VIP6)]
    asks(BLUE)
    publish(colours(9001, 9000))
    asks(GREEN)
    publish(colours(9000, 9001))
    asks(BLUE)
    publish(colours(green=9001))
    for sock in socks:
        sock.sock.settimeout(0.5)
        for _ in range(3):
            try:
                raise AssertionError(f"answered by {sock.ask()}, which is not configured any more")
            except OSError:
                pass  # the kernel gets the datagram, and can answer it with an ICMP error
        sock.close()


@scenario(services=colours(9000, 9001))
def udp_bind_moves(lab):
    """A UDP client keeps its port while the bind moves to another service and is removed; AF_XDP"""
    move_udp_bind(lab)


@scenario(start=False, lb_mtu=1500, services=colours(9000, 9001))
def udp_bind_moves_with_tap(lab):
    """A UDP client keeps its port while the bind moves to another service and is removed; tap device"""
    start_with_tap(lab)
    move_udp_bind(lab)


def memif_device(path):
    """Returns the balancer's memif device: the server, because a memif client tries to connect only at its start."""
    return f"net_memif0,role=server,socket={path},socket-abstract=no,mac={STATIC_MAC}"


def attach_testpmd(lab, path):
    """Start testpmd, which forwards frames between the memif and lb0."""
    lab.lb.ip("link", "set", "lb0", "promisc", "on")
    lab.program("testpmd", lab.lb, "dpdk-testpmd", "--no-huge", "--no-shconf", "--no-pci",
                "--file-prefix", lab.prefix + "testpmd", "-m", "128", "--lcores",
                "0@0,1@0", "--vdev", f"net_memif0,role=client,socket={path},socket-abstract=no",
                "--vdev", "net_af_packet0,iface=lb0,framesz=2048,blocksz=4096", "--",
                "--forward-mode=io", "--auto-start", "--total-num-mbufs=4096",
                "--stats-period=60")


@scenario(start=False, lb_mtu=1500, services=[web(), upload()])
def memif_port(lab):
    """The port is a memif; testpmd forwards its frames to and from the network"""
    path = os.path.join(lab.dir, "memif.sock")
    start_with_static_gateway(lab, memif_device(path), after=lambda: attach_testpmd(lab, path))
    wait_for("link up", lambda: "link up" in lab.programs["dataplane"].output(), 20)
    requests_and_upload(lab)


@scenario(start=False, lb_mtu=1500, services=[web(), upload()])
def af_packet_port(lab):
    """The port is a packet socket on the interface"""
    start_with_static_gateway(
        lab, "net_af_packet0,iface=lb0,framesz=2048,blocksz=4096",
        lambda: lab.lb.ip("link", "set", "lb0", "address", STATIC_MAC))
    requests_and_upload(lab)
    drops = lab.api("stats.show")["drops"]
    assert drops.get("other_mac", 0) == 0, drops  # none of the frames that the kernel sends


@scenario(start=False, lb_mtu=1500, services=[web()])
def doctor_finds_errors_of_the_kernel_with_af_packet(lab):
    """With AF_PACKET the kernel answers its copies of packets with ICMP errors, unless the VIP has a blackhole route"""
    start_with_static_gateway(lab, "net_af_packet0,iface=lb0,framesz=2048,blocksz=4096",
                              lambda: lab.lb.ip("link", "set", "lb0", "address", STATIC_MAC))

    def mends(vip, words):
        row = find(lab, "vips", vip, "fault", words)
        assert "answers its copy of each packet to the VIP with an ICMP error" in row["found"], row
        # the kernel sends few errors, and some arrive after the answer to a request
        wait_for("a failed request", lambda: clients.curl_batch(lab.client, vip, 20).ok < 20, 30)
        cure(lab, row)
        find(lab, "vips", vip, "ok")
        done = clients.curl_batch(lab.client, vip, 20)
        assert done.ok == 20, done.errors[:5]
        lab.lb.ip("route", "del", "blackhole", vip)

    find(lab, "vips", VIP6, "ok")  # the default route: not an error, without forwarding
    for kind in ("unreachable", "prohibit"):
        lab.lb.ip("route", "add", kind, VIP6)
        mends(VIP6, f"the route to the VIP has type {kind}")
    lab.lb.ip("-6", "route", "del", "default")
    lab.lb.ip("-6", "route", "add", "2001:db8:c::/64", "via", "2001:db8:a::1")  # the kernel's errors reach clients
    mends(VIP6, "this host has no route to the VIP")
    inside(lab.lb, "sysctl", "-w", "net.ipv6.conf.lb0.disable_ipv6=1")
    find(lab, "vips", VIP6, "ok")

    lab.lb.ip("route", "replace", "unreachable", VIP4)
    find(lab, "vips", VIP4, "ok")  # without forwarding, the kernel does not answer with IPv4
    inside(lab.lb, "sysctl", "-w", "net.ipv4.ip_forward=1")
    mends(VIP4, "the route to the VIP has type unreachable")
    row = find(lab, "vips", VIP4, "warning", "the kernel's copies of all packets (with AF_PACKET) are")
    assert row["cure"] == f"ip route replace blackhole {VIP4}/32", row


@scenario(start=False, services=[lines()])
def pcap_port(lab):
    """The port reads a capture file repeatedly, and writes all encapsulated packets to another file"""
    from scapy.all import Ether, IP, TCP, rdpcap, wrpcap
    source, sink = (os.path.join(lab.dir, name) for name in ("in.pcap", "out.pcap"))
    wrpcap(source, [Ether(dst=STATIC_MAC, src="02:00:00:00:00:01") / IP(src="192.0.2.2", dst=VIP4)
                    / TCP(sport=1024 + n, dport=7000, flags="S") for n in range(32)])
    start_with_static_gateway(
        lab, f"net_pcap0,rx_pcap={source},tx_pcap={sink},infinite_rx=1")
    wait_for("packets forwarded", lambda: sum(w["forwarded"] for w in lab.api("worker.show"))
             > 1000, 10)
    lab.programs["dataplane"].signal(15)
    wait_for("the dataplane to end", lambda: not lab.programs["dataplane"].alive(), 10)
    sent = rdpcap(sink, 500)
    assert len(sent) == 500, len(sent)
    chosen = {}
    for packet in sent:
        outer, inner = packet[IP], packet[IP].payload
        assert outer.proto == 4 and outer.src == "10.0.0.3", packet.summary()
        assert chosen.setdefault(inner[TCP].sport, outer.dst) == outer.dst, "a flow moved"
    assert set(chosen.values()) <= {f"10.0.0.1{n}" for n in range(1, 5)} and len(chosen) == 32


def set_up_balancer_link(lab):
    lab.link(lab.lb, "lb0", "lb0", ("10.0.0.2/24", "2001:db8:a::2/64"), bridge="br0", mtu=1600)
    lab.default_route(lab.lb, "10.0.0.1", "2001:db8:a::1")
    lab.apply()
    lab.net.ip("neigh", "flush", "dev", "br0")  # the new interface has another MAC address


@scenario()
def interface_down_and_replaced(lab):
    """A port's interface goes down, and is later replaced: both events are logged; a restart repairs the port"""
    dataplane = lab.programs["dataplane"]
    lab.lb.ip("link", "set", "lb0", "down")
    wait_for("link down", lambda: "net_af_xdp0: link down" in dataplane.output())
    lab.lb.ip("link", "set", "lb0", "up")
    wait_for("link up", lambda: "net_af_xdp0: link up" in dataplane.output())
    lab.lb.ip("link", "set", "lb0", "down")
    wait_for("link down", lambda: dataplane.output().count("net_af_xdp0: link down") == 2)
    lab.lb.ip("link", "set", "lb0", "name", "renamed0")
    lab.lb.ip("link", "set", "renamed0", "up")
    wait_for("link up", lambda: dataplane.output().count("net_af_xdp0: link up") == 2)
    lab.lb.ip("link", "del", "renamed0")
    wait_for("the removal", lambda: "interface lb0 was removed" in dataplane.output())
    assert dataplane.alive(), dataplane.tail()
    set_up_balancer_link(lab)
    assert dataplane.process.wait(10) == 1, dataplane.tail()
    assert dataplane.output().count("interface lb0 was re") == 2, dataplane.output()
    assert "was replaced: weir-dataplane exits, so that systemd restarts it" in dataplane.output(), dataplane.output()
    lab.start_dataplane()
    lab.wait_ready()
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100, (result.errors[:5], lab.drops())


# --- packets that a port accepts, loses, and passes to the kernel -----------------------------


@scenario(services=[upload()])
def lowered_mtu_of_an_interface_is_reported(lab):
    """If another program lowers the MTU of lb0, longer packets are lost, and the log contains the reason"""
    def log():
        return lab.programs["dataplane"].output()
    said = ("port wan: the MTU of interface lb0 was lowered to 1500: longer packets are lost; "
            "run \"ip link set lb0 mtu 1600\"")
    assert "the MTU of" not in log()
    lab.lb.ip("link", "set", "lb0", "mtu", 1500)
    wait_for("the lowered MTU in the log", lambda: said in log(), 5)
    lab.lb.ip("link", "set", "lb0", "mtu", 1600)
    wait_for("the MTU in the log", lambda: "interface lb0 is 1600 again" in log(), 5)
    assert log().count("the MTU of") == 2, log()
    ask_for_whole_upload(lab, 1 << 20)


def link_counters(namespace, device):
    stats = json.loads(namespace.ip("-j", "-s", "link", "show", "dev", device))[0]["stats64"]
    return stats["rx"]["packets"], stats["tx"]["dropped"]


def received_and_lost(lab):
    workers, port = lab.api("worker.show"), lab.api("port.show")[0]
    received = sum(w["rx_packets"] - w["handed_over"] for w in workers)
    return received, port["lost"], port


@scenario(services=[echo()])
def loss_at_the_wire_is_counted(lab):
    """While the dataplane is stopped, each frame that arrives is received later, or counted as lost by the port"""
    sent, size = 6000, 100
    time.sleep(1)  # until the statistics are read again
    before = received_and_lost(lab)
    dropped = link_counters(lab.net, "lb0")[1]
    lab.programs["dataplane"].signal(signal.SIGSTOP)
    with lab.client.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(sent):
        sock.sendto(b"x" * size, (VIP4, 9000))
    lab.programs["dataplane"].signal(signal.SIGCONT)

    def missing():
        after = received_and_lost(lab)
        return sent - (after[0] - before[0]) - (after[1] - before[1]) \
            - (link_counters(lab.net, "lb0")[1] - dropped)

    try:
        wait_for("all frames in a counter", lambda: missing() == 0, 10)
    except AssertionError as error:
        raise AssertionError(f"{missing()} of {sent} in no counter: {received_and_lost(lab)}, "
                             f"before {before[:2]}") from error
    sock.close()  # not closed earlier, because the kernel would then answer the replies with ICMP errors to the VIP
    _, lost, port = received_and_lost(lab)
    assert lost - before[1] > 500, port
    _, out, _ = lab.weirctl("port", "show", port["name"])
    assert f" {lost}\n" in out, out


@scenario(services=[echo()])
def frames_that_are_too_long_are_counted(lab):
    """Frames longer than a packet buffer, from a neighbour with a larger MTU, are counted"""
    for namespace in (lab.lb, lab.net):
        namespace.ip("link", "set", "lb0", "mtu", "3000")
    mac = bytes.fromhex(lab.mac(lab.lb, "lb0").replace(":", ""))
    with lab.net.inside():
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sock.bind(("lb0", 0))
    payload = bytes(2700)
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, 17, 0,
                               socket.inet_aton("192.0.2.2"), socket.inet_aton(VIP4)))
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", ip, 10, ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    udp = struct.pack("!HHHH", 1025, 9000, 8 + len(payload), 0)
    for _ in range(10):
        sock.send(mac + bytes.fromhex("0200000000aa") + b"\x08\x00" + ip + udp + payload)
    sock.close()
    wait_for("10 frames that are too long",
             lambda: lab.api("port.show")[0]["frame_too_long"] == 10, 5)
    port = lab.api("port.show")[0]
    assert port["lost"] == 10 and port["imissed"] == 0, port


def connect(lab, address, port, timeout=3):
    """Connect to an address. Returns "connected", or the error."""
    with lab.client.inside():
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.settimeout(timeout)
    try:
        sock.connect((address, port))
        return "connected"
    except OSError as error:
        return type(error).__name__ if not error.errno else os.strerror(error.errno)
    finally:
        sock.close()


def wide(**more):
    made = service("wide", 7000, **more)
    for bind in made["binds"]:
        del bind["port"]
        bind.update(port_first=2000, port_last=65000)
    return made


@scenario(services=[wide()])
def closed_ports_of_a_wide_range(lab):
    """Packets to ports outside a range of 63,001 ports reach the kernel; with closed_ports they are refused"""
    for vip, bits in ((VIP4, "32"), (VIP6, "128")):
        lab.lb.ip("addr", "add", f"{vip}/{bits}", "dev", "lo",
                  *(["nodad"] if ":" in vip else []))
    listeners = []
    for family, vip in ((socket.AF_INET, VIP4), (socket.AF_INET6, VIP6)):
        with lab.lb.inside():
            listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((vip, 1999))
        listener.listen()
        listeners.append(listener)
    for vip in (VIP4, VIP6):
        assert connect(lab, vip, 1999) == "connected", (vip, lab.drops())
        assert connect(lab, vip, 7000) == "connected", (vip, lab.drops())
        assert connect(lab, vip, 65001) == "Connection refused", vip  # refused by the kernel
    assert "no_exception_port" not in lab.drops(), lab.drops()
    lab.write_config([wide(closed_ports="reject")])
    lab.weirctl("config", "reload")
    for vip in (VIP4, VIP6):
        assert connect(lab, vip, 7000) == "connected", (vip, lab.drops())
        assert connect(lab, vip, 1999) == "Connection refused", (vip, lab.drops())
    with lab.client.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(3)
    sock.connect((VIP4, 53))
    sock.send(b"x")
    try:
        sock.recv(10)
        raise AssertionError("an answer from a closed UDP port")
    except ConnectionRefusedError:
        pass
    finally:
        sock.close()
    wait_for("the drops", lambda: lab.drops()["closed_port"] >= 3)
    for listener in listeners:
        listener.close()


@scenario(services=[service("web", 80)])  # no health checks, because their frames would also be counted
def vip_that_is_not_local(lab):
    """With ip_forward the kernel sends packets from Weir back to the network, unless the VIP has an unreachable route"""
    for namespace, devices in ((lab.lb, ("all", "lb0")), (lab.net, ("all", "br0"))):
        namespace.run("sysctl", "-qw", "net.ipv4.ip_forward=1",
                      *[f"net.ipv4.conf.{device}.rp_filter=0" for device in devices],
                      *[f"net.ipv4.conf.{device}.send_redirects=0" for device in devices])

    def frames_of_one_packet():
        before = link_counters(lab.lb, "lb0")[0]
        with lab.client.inside():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.sendto(b"x", (VIP4, 9))
        time.sleep(0.5)
        sock.close()
        return link_counters(lab.lb, "lb0")[0] - before

    looping = frames_of_one_packet()
    assert looping > 20, f"{looping} frames: did the packet not come back?"
    lab.lb.ip("route", "add", "unreachable", f"{VIP4}/32")
    ended = frames_of_one_packet()
    assert ended < 20, f"{ended} frames"
    assert connect(lab, VIP4, 9) in ("No route to host", "Network is unreachable")
    result = clients.curl_batch(lab.client, VIP4, 20)
    assert result.ok == 20, result.errors[:5]
