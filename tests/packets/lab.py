# SPDX-License-Identifier: BSD-3-Clause
"""Run weir-pcap on packets made by scapy, and read the verdicts and the sent packets from its
output."""
import copy
import glob
import json
import logging
import os
import socket
import struct
import subprocess
import tempfile

from scapy.all import Ether, IP, IPv6, conf

conf.verb = 0
logging.getLogger("scapy").setLevel(logging.ERROR)

CLIENT_MAC = "02:00:00:00:0c:01"
PORT_MAC = "02:00:00:00:00:01"  # MAC address of the first port in weir-pcap
VIP4 = "198.51.100.10"
VIP6 = "2001:db8:100::10"
CLIENT4 = "203.0.113.7"
CLIENT6 = "2001:db8:c::7"
SOURCE4 = "192.0.2.1"  # outer source address in weir-pcap
SOURCE6 = "2001:db8::1"

BASE = {
    "instance": {"name": "lb-0"},
    "ports": [{"name": "wan", "device": "net_null0", "mtu": 1500}],
    "workers": {"cores": [0]},
    "flow_table": {"flows_per_worker": 65536},
    "services": [],
}


class Failure(Exception):
    """An expectation is not met."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def expect_equal(got, wanted, text):
    if got != wanted:
        raise Failure(f"{text}: got {got!r}, wanted {wanted!r}")


def service(name="web", binds=None, backends=("10.0.0.11",), **more):
    """Returns a service. backends: a list of addresses, (address, weight) or objects."""
    made = []
    for index, backend in enumerate(backends):
        if isinstance(backend, str):
            backend = {"address": backend}
        elif isinstance(backend, tuple):
            backend = {"address": backend[0], "weight": backend[1]}
        made.append({"name": f"b{index}", **backend})
    if binds is None:
        binds = [
            {"address": VIP4, "protocol": "tcp", "port": 80},
            {"address": VIP4, "protocol": "udp", "port": 80},
            {"address": VIP6, "protocol": "tcp", "port": 80},
            {"address": VIP6, "protocol": "udp", "port": 80},
        ]
    return {"name": name, "binds": binds, "forwarding": "ipip", "backends": made, **more}


def config(*services, port=None, ports=None, **more):
    made = copy.deepcopy(BASE)
    made["services"] = list(services) if services else [service()]
    if port:
        made["ports"][0].update(port)
    if ports:
        made["ports"] = ports
    made.update(more)
    return made


# The Ethernet header of IPv4 and IPv6 packets, as bytes: scapy would copy each packet to add the
# header.
ETHER = {kind: bytes(Ether(src=CLIENT_MAC, dst=PORT_MAC) / kind())[:14] for kind in (IP, IPv6)}


def frame(packet):
    """Returns the bytes of a packet, with an Ethernet header as from a client."""
    if isinstance(packet, bytes):
        return packet
    if type(packet) in ETHER:
        return ETHER[type(packet)] + bytes(packet)
    if not packet.haslayer(Ether):
        packet = Ether(src=CLIENT_MAC, dst=PORT_MAC) / packet
    return bytes(packet)


def frames_from(packet, sources):
    """Returns frames of a TCP or UDP packet, one from each (address, port) of sources.

    scapy needs half a millisecond for a packet, so it makes only the first packet. The other packets
    are copies of the first packet with the source and the checksum replaced (RFC 1624).
    """
    first = frame(packet)
    version, protocol = (4, first[23]) if first[14] >> 4 == 4 else (6, first[20])
    if version == 4:
        expect_equal(first[14], 0x45, "IPv4 without options")
    source, port = (slice(26, 30), 34) if version == 4 else (slice(22, 38), 54)
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    checksum = port + {6: 16, 17: 6}[protocol]
    old = first[source] + first[port : port + 2]
    made = []
    for address, number in sources:
        new = socket.inet_pton(family, address) + number.to_bytes(2, "big")
        other = bytearray(first)
        other[source], other[port : port + 2] = new[:-2], new[-2:]
        if version == 4:
            replace_in_checksum(other, 24, old[:4], new[:4])
        replace_in_checksum(other, checksum, old, new)
        if protocol == 17 and other[checksum : checksum + 2] == b"\0\0":
            other[checksum : checksum + 2] = b"\xff\xff"  # 0 would mean no checksum
        made.append(bytes(other))
    return made


def replace_in_checksum(data, at, old, new):
    words = f"!{len(old) // 2}H"
    total = 0xFFFF ^ struct.unpack_from("!H", data, at)[0]
    total += sum(0xFFFF ^ word for word in struct.unpack(words, old))
    total += sum(struct.unpack(words, new))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", data, at, 0xFFFF ^ total)


def write_pcap(path, records, magic=0xA1B23C4D, endian="<", link_type=1, snaplen=262144):
    """records: (time_ns, bytes) or (time_ns, bytes, original length). scapy is not used, because it
    rounds times."""
    unit = 1 if magic == 0xA1B23C4D else 1000
    with open(path, "wb") as out:
        out.write(struct.pack(endian + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type))
        for record in records:
            time_ns, data = record[0], record[1]
            length = record[2] if len(record) > 2 else len(data)
            out.write(
                struct.pack(
                    endian + "IIII",
                    time_ns // 10**9,
                    time_ns % 10**9 // unit,
                    len(data),
                    length,
                )
            )
            out.write(data)


def read_pcap(path):
    """Returns [(time_ns, bytes, original length)] of a nanosecond pcap file in the byte order of
    this machine."""
    with open(path, "rb") as source:
        data = source.read()
    magic, major, minor, _, _, _, link_type = struct.unpack_from("=IHHiIII", data)
    expect_equal((magic, major, minor, link_type), (0xA1B23C4D, 2, 4, 1), "head of OUT.pcap")
    at, records = 24, []
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from("=IIII", data, at)
        records.append((seconds * 10**9 + fraction, data[at + 16 : at + 16 + captured], length))
        at += 16 + captured
    expect_equal(at, len(data), "length of OUT.pcap")
    return records


class Verdict:
    """The verdict on a packet, with the sent frame (None if no frame is sent)."""

    def __init__(self, fields, received):
        self.__dict__.update(fields)
        self.received = received
        self.sent = None
        self.sent_length = None
        self.sent_fragments = []  # all sent fragments except the first

    def __repr__(self):
        return (
            f"#{self.number} {self.action} {self.service}/{self.backend} {self.why} {self.reason}"
        )


class Run:
    """The output of a run of weir-pcap."""

    def __init__(self, verdicts, totals, error):
        self.verdicts = verdicts
        self.totals = totals
        self.error = error

    def __getitem__(self, index):
        return self.verdicts[index]

    def __iter__(self):
        return iter(self.verdicts)

    def __len__(self):
        return len(self.verdicts)


NEEDED_DRIVERS = ("librte_mempool_ring.so*",)  # weir-pcap opens no device


class Lab:
    """A directory, and the program under test. few_drivers: the preloaded library, or None."""

    def __init__(self, program, few_drivers=None):
        self.program = program
        self.directory = tempfile.TemporaryDirectory(prefix="weir-packets-")
        self.env = None  # None = the environment of this process
        if few_drivers:
            self.env = {**os.environ, "LD_PRELOAD": few_drivers, "WEIR_DRIVERS": self.path("drivers")}
            self.name_drivers()

    def name_drivers(self):
        """Create a folder with empty files named like the needed drivers; DPDK loads the drivers
        from its own folder."""
        os.mkdir(self.env["WEIR_DRIVERS"])
        for pattern in NEEDED_DRIVERS:
            for path in glob.glob(f"/usr/lib/*/dpdk/pmds-*/{pattern}"):
                with open(self.path(os.path.join("drivers", os.path.basename(path))), "wb"):
                    pass

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def close(self):
        self.directory.cleanup()

    def write_config(self, made):
        path = self.path("weir.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(made, out, indent=1)
        return path

    def execute(self, *arguments, stdin=None):
        return subprocess.run(
            [self.program, *arguments],
            env=self.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )

    def run_file(self, made, path, options=(), code=0):
        """Run weir-pcap on an existing capture file."""
        out = self.path("out.pcap")
        done = self.execute(self.write_config(made), path, out, "--json", *options)
        stderr = done.stderr.decode(errors="replace")
        expect_equal(done.returncode, code, f"exit status ({stderr.strip()})")
        expect("Sanitizer" not in stderr and "runtime error" not in stderr, stderr)
        answer = json.loads(done.stdout)
        verdicts = [Verdict(fields, None) for fields in answer["packets"]]
        run = Run(verdicts, answer["totals"], answer["error"])
        check_totals(run)
        check_sent(run, read_pcap(out))
        return run

    def run(self, made, packets, options=(), start_ns=1_700_000_000 * 10**9, step_ns=1_000_000):
        """Run weir-pcap on packets: scapy packets, bytes, or (delay in ns before the packet, packet)."""
        records, now = [], start_ns
        for packet in packets:
            delay = step_ns
            if isinstance(packet, tuple):
                delay, packet = packet
            now += delay
            records.append((now, frame(packet)))
        path = self.path("in.pcap")
        write_pcap(path, records)
        run = self.run_file(made, path, options)
        expect_equal(len(run), len(records), "number of verdicts")
        for verdict, record in zip(run, records):
            verdict.received = record[1]
            expect_equal(verdict.time_ns, record[0], "time of the verdict")
        return run


def check_totals(run):
    """Check that packets = forwarded + replied + kernel + dropped, and that each total agrees with
    the verdicts."""
    totals = run.totals
    expect_equal(
        totals["packets"],
        totals["forwarded"] + totals["replied"] + totals["kernel"] + totals["dropped"],
        "identity of totals",
    )
    for action in ("forwarded", "replied", "kernel", "dropped"):
        count = sum(1 for verdict in run if verdict.action == action)
        expect_equal(totals[action], count, f"total of {action}")
    expect_equal(sum(totals["drops"].values()), totals["dropped"], "sum of drop reasons")
    expect_equal(
        sum(backend["packets"] for backend in totals["backends"]),
        totals["forwarded"],
        "sum over backends",
    )
    for number, verdict in enumerate(run, 1):
        expect_equal(verdict.number, number, "number of the verdict")
        if verdict.action == "dropped":
            expect(verdict.reason, f"{verdict}: dropped without a reason")


def check_sent(run, records):
    """Check that OUT.pcap contains the forwarded and replied packets in order, with the same timestamps."""
    sent = [verdict for verdict in run if verdict.action in ("forwarded", "replied")]
    records = iter(records)
    for verdict in sent:
        time_ns, data, length = next(records)
        expect_equal(time_ns, verdict.time_ns, f"{verdict}: time of the sent frame")
        expect_equal(length, verdict.sent_bytes, f"{verdict}: length of the sent frame")
        verdict.sent = data
        verdict.sent_length = length
        for _ in range(1, verdict.fragments or 1):
            verdict.sent_fragments.append(next(records)[1])
    expect_equal(list(records), [], "more frames in OUT.pcap")
