# SPDX-License-Identifier: BSD-3-Clause
"""Ports: VLAN, two arms, several workers and queues, other DPDK devices."""
import os

import clients
from lab import BACKENDS, VIP4, VIP6, lines, make_random_file, upload, web
from netns import wait_for
from scenario import scenario


@scenario(vlan=True, services=[web(), upload()])
def vlan_tagged_port(lab):
    """A port in VLAN 100, static gateway: requests and an upload, IPv4 and IPv6"""
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100 and set(result.served) == set(BACKENDS), \
            (result.served, result.errors[:5])
    ask_for_whole_upload(lab)
    # The switch port drops what is not tagged, so what arrived was; and lb0's end saw tags only.
    assert "0% packet loss" in lab.client.run("ping", "-c", "2", "-i", "0.1", VIP4)


def ask_for_whole_upload(lab, size=16 << 20):
    path = lab.dir + "/upload"
    digest = make_random_file(path, size)
    for vip in (VIP4, VIP6):
        name, received, seen = clients.send_file(lab.client, vip, path)
        assert (received, seen) == (size, digest), f"{name} got {received} bytes, {seen}"


@scenario(two_armed=True, services=[web(), upload()])
def two_armed(lab):
    """Clients behind one port, backends behind another"""
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100 and set(result.served) == set(BACKENDS), \
            (result.served, result.errors[:5])
    ask_for_whole_upload(lab)
    ports = lab.api("port.show")
    assert [p["name"] for p in ports] == ["wan", "lan"], ports


@scenario(workers={"cores": [0, 1, 1]}, services=[web(), lines()])
def several_workers_by_distributor(lab):
    """One queue, three workers: the software distributor spreads flows and keeps them in place"""
    result = clients.curl_batch(lab.client, VIP4, 300)
    assert result.ok == 300, result.errors[:5]
    found = clients.line_per_backend(lab.client, VIP6, BACKENDS)
    for _ in range(20):
        clients.check_lines(found)
    workers = lab.api("worker.show")
    assert len(workers) == 3 and all(w["flow_new"] > 30 for w in workers), \
        [(w["worker"], w["flow_new"]) for w in workers]
    assert sum(w["handed_over"] for w in workers) > 0
    _, out, _ = lab.weirctl("flow", "lookup", "tcp", f"[2001:db8:c::2]:{found['web-1'].port()}",
                            f"[{VIP6}]:7000", "--json")
    assert '"web-1"' in out, out


# These drivers carry at most 1500 bytes, so a client's full packets do not fit and uploads begin
# with "too big".
STATIC_MAC = "02:00:00:00:00:b0"
# Devices the kernel knows nothing of: the way to the backends is configured.
STATIC = {"source_ipv4": "10.0.0.3", "source_ipv6": "2001:db8:a::3"}


def start_with_static_gateway(lab, device, before=lambda: None, after=lambda: None):
    """Start everything with the given port device; VIPs are routed to STATIC_MAC."""
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


@scenario(start=False, lb_mtu=1500, services=[web(), upload()])
def tap_port(lab):
    """The port is a tap device, bridged to the network by the balancer's kernel"""
    def bridge():
        lab.lb.ip("link", "add", "br1", "type", "bridge", "mcast_snooping", "0")
        lab.lb.ip("addr", "flush", "dev", "lb0")
        lab.lb.ip("link", "set", "lb0", "master", "br1")
        lab.lb.ip("link", "set", "br1", "up")
        lab.addresses(lab.lb, "br1", ("10.0.0.2/24", "2001:db8:a::2/64"))
        lab.default_route(lab.lb, "10.0.0.1", "2001:db8:a::1")

    def attach():
        # The kernel's end begins with the MAC address of DPDK's; a bridge would keep such frames.
        lab.lb.ip("link", "set", "tap0", "address", "02:00:00:00:00:b1", "master", "br1", "up")

    start_with_static_gateway(lab, f"net_tap0,iface=tap0,mac={STATIC_MAC}", bridge, attach)
    requests_and_upload(lab)


def memif_device(path):
    """The balancer's memif: the server, because the client connects once, when it starts."""
    return f"net_memif0,role=server,socket={path},socket-abstract=no,mac={STATIC_MAC}"


def attach_testpmd(lab, path):
    """testpmd carries the frames of a memif to and from lb0."""
    lab.lb.ip("link", "set", "lb0", "promisc", "on")
    lab.program("testpmd", lab.lb, "dpdk-testpmd", "--no-huge", "--no-shconf", "--no-pci",
                "--file-prefix", lab.prefix + "testpmd", "-m", "128", "--lcores",
                "0@0,1@0", "--vdev", f"net_memif0,role=client,socket={path},socket-abstract=no",
                "--vdev", "net_af_packet0,iface=lb0,framesz=2048,blocksz=4096", "--",
                "--forward-mode=io", "--auto-start", "--total-num-mbufs=4096",
                "--stats-period=60")


@scenario(start=False, lb_mtu=1500, services=[web(), upload()])
def memif_port(lab):
    """The port is a memif; testpmd carries its frames to and from the network"""
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


@scenario(start=False, services=[lines()])
def pcap_port(lab):
    """The port reads one capture over and over and writes another: all encapsulated"""
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
    lab.net.ip("neigh", "flush", "dev", "br0")  # it has another MAC address


@scenario()
def interface_down_and_replaced(lab):
    """A port's interface goes down, then another takes its place: logged, and a restart helps."""
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
    lab.start_dataplane()
    lab.wait_ready()
    for vip in (VIP4, VIP6):
        result = clients.curl_batch(lab.client, vip, 100)
        assert result.ok == 100, (result.errors[:5], lab.drops())
