# SPDX-License-Identifier: BSD-3-Clause
"""The program weir-pcap: capture files of all kinds (also invalid files), output, exit status."""
import json
import os
import random
import re
import shutil
import struct
import subprocess

from scapy.all import (
    Ether,
    ICMP,
    ICMPv6EchoRequest,
    IP,
    IPOption,
    IPv6,
    PcapNgWriter,
    Raw,
    TCP,
    UDP,
    wrpcap,
)

from lab import (
    CLIENT4,
    CLIENT6,
    VIP4,
    VIP6,
    config,
    expect,
    expect_equal,
    frame,
    read_pcap,
    service,
    write_pcap,
)
from malformed import SEEDS
from outer import check_forwarded, ip_packet

TCP4 = IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=80, flags="S")
TIME = 1_700_000_000 * 10**9 + 123_456_789


def big_records(count):
    return [
        (
            TIME + n * 1000,
            frame(IP(src=CLIENT4, dst=VIP4) / TCP(sport=1024 + n, dport=80, flags="S")),
        )
        for n in range(count)
    ]


def test_pcap_of_both_precisions_and_byte_orders(lab):
    for endian in "<>":
        for magic, unit in ((0xA1B23C4D, 1), (0xA1B2C3D4, 1000)):
            path = lab.path("in.pcap")
            write_pcap(path, [(TIME, frame(TCP4))], magic, endian)
            run = lab.run_file(config(), path)
            expect_equal(run[0].time_ns, TIME // unit * unit, "time")
            run[0].received = frame(TCP4)
            check_forwarded(run[0], "10.0.0.11")


def test_files_written_by_scapy(lab):
    packets = [frame(TCP4), frame(IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=5, dport=80))]
    wrpcap(lab.path("a.pcap"), [Ether(data) for data in packets])
    writer = PcapNgWriter(lab.path("b.pcapng"))
    for data in packets:
        writer.write(Ether(data))
    writer.close()
    for name in ("a.pcap", "b.pcapng"):
        run = lab.run_file(config(), lab.path(name))
        expect_equal(run.totals["forwarded"], 2, f"forwarded of {name}")
        for verdict, data in zip(run, packets):
            verdict.received = data
            check_forwarded(verdict, "10.0.0.11")


def test_empty_capture(lab):
    path = lab.path("in.pcap")
    write_pcap(path, [])
    expect_equal(lab.run_file(config(), path).totals["packets"], 0, "packets")


def test_standard_input(lab):
    path, out = lab.path("in.pcap"), lab.path("out.pcap")
    write_pcap(path, [(TIME, frame(TCP4))])
    with open(path, "rb") as source:
        done = lab.execute(lab.write_config(config()), "-", out, stdin=source)
    expect_equal(done.returncode, 0, "exit status")
    expect_equal(
        done.stdout.decode().splitlines()[0],
        "1 forwarded service=web backend=b0 why=new port=wan",
        "first line",
    )


def test_lines_agree_with_json(lab):
    packets = [
        TCP4,
        IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=80, flags=0),
        IP(src=CLIENT4, dst="192.0.2.99") / UDP(),
        TCP4,
        IP(src=CLIENT4, dst=VIP4, flags="DF") / TCP(dport=80, flags="A") / Raw(b"x" * 1461),
    ]
    run = lab.run(config(), packets)
    done = lab.execute(lab.write_config(config()), lab.path("in.pcap"), lab.path("out2.pcap"))
    expect_equal(done.returncode, 0, "exit status")
    lines = done.stdout.decode().splitlines()
    for verdict, line in zip(run, lines):
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        expect_equal(line.split()[:2], [str(verdict.number), verdict.action], line)
        for name in ("service", "backend", "why", "reason", "port"):
            expect_equal(fields.get(name), getattr(verdict, name), f"{name} of: {line}")
    expect(
        f"packets {len(run)} = forwarded 2 + replied 1 + kernel 1 + dropped 1" in lines, lines[-4:]
    )
    expect_equal(read_pcap(lab.path("out.pcap")), read_pcap(lab.path("out2.pcap")), "OUT.pcap")


def test_truncated_packets_are_checked_by_captured_bytes(lab):
    whole = frame(IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=80, flags="PA") / Raw(bytes(1000)))
    whole6 = frame(IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=5, dport=80) / Raw(bytes(1000)))
    cases = [
        (whole, 96, "forwarded", None),
        (whole, 54, "forwarded", None),
        (whole, 53, "dropped", "tcp_truncated"),
        (whole, 34, "dropped", "tcp_truncated"),
        (whole, 33, "dropped", "ipv4_truncated"),
        (whole, 14, "dropped", "ipv4_truncated"),
        (whole, 13, "dropped", "frame_too_short"),
        (whole, 0, "dropped", "frame_too_short"),
        (whole6, 62, "forwarded", None),
        (whole6, 61, "dropped", "udp_truncated"),
        (whole6, 53, "dropped", "ipv6_truncated"),
    ]
    path = lab.path("in.pcap")
    write_pcap(path, [(TIME, data[:cut], len(data)) for data, cut, _, _ in cases])
    run = lab.run_file(config(), path)
    for verdict, (data, cut, action, reason) in zip(run, cases):
        expect_equal((verdict.action, verdict.reason), (action, reason), f"{verdict} cut at {cut}")
        expect_equal((verdict.bytes, verdict.captured_bytes), (len(data), cut), "bytes")
        if action == "forwarded":
            expect_equal(verdict.sent_length, len(data) + 20, "length of the sent frame")
            expect_equal(verdict.sent[34:], data[14:cut], "what is sent of a cut frame")
    done = lab.execute(lab.write_config(config()), path, lab.path("out.pcap"))
    expect("[truncated: 96 of 1054 bytes captured]" in done.stdout.decode(), "the cut is not mentioned")


def test_truncated_echo_requests_get_replies(lab):
    """An echo request whose data was not captured completely gets a reply: its checksum is assumed
    to be correct."""
    for echo, head in (
        (IP(src=CLIENT4, dst=VIP4) / ICMP(id=7, seq=8) / Raw(b"x" * 1000), 42),
        (IP(src=CLIENT4, dst=VIP4, options=[IPOption(b"\x01" * 8)]) / ICMP(), 50),
        (IPv6(src=CLIENT6, dst=VIP6) / ICMPv6EchoRequest(id=7, data=b"y" * 999), 62),
    ):
        data = frame(echo) + bytes(20)
        whole = lab.run(config(), [data])[0].sent
        path = lab.path("in.pcap")
        cuts = list(range(0, len(data), 7))
        write_pcap(
            path, [(TIME + n * 2_000_000, data[:cut], len(data)) for n, cut in enumerate(cuts)]
        )
        for verdict, cut in zip(lab.run_file(config(), path), cuts):
            if cut < head:
                expect_equal(verdict.action, "dropped", f"{verdict} cut at {cut}")
                continue
            expect_equal(
                (verdict.why, verdict.sent_length), ("echo", len(whole)), f"{verdict} at {cut}"
            )
            expect_equal(verdict.sent, whole[: len(verdict.sent)], f"reply to an echo cut at {cut}")
            expect(len(verdict.sent) >= min(len(whole), cut - 8), "too little of the reply")


def test_truncated_icmp_errors(lab):
    syn = frame(IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=80, flags="S"))
    error = frame(
        IP(src=CLIENT4, dst=VIP4)
        / ICMP(type=3, code=4)
        / bytes(IP(src=VIP4, dst=CLIENT4) / TCP(sport=80, dport=5) / Raw(b"x" * 500))
    )
    path = lab.path("in.pcap")
    write_pcap(path, [(TIME, syn)] + [(TIME, error[:cut], len(error)) for cut in range(len(error))])
    run = lab.run_file(config(), path)
    for cut, verdict in enumerate(run.verdicts[1:]):
        wanted = "forwarded" if cut >= 14 + 28 + 28 else "dropped"
        expect_equal(verdict.action, wanted, f"{verdict} cut at {cut}")


def test_very_long_frames(lab):
    made = config(port={"mtu": 9000})
    tcp = IP(src=CLIENT4, dst=VIP4, flags="DF") / TCP(sport=5, dport=80, flags="PA")
    packets = [tcp / Raw(b"x" * 8000), tcp / Raw(b"x" * 20000), tcp / Raw(b"x" * 65300)]
    run = lab.run(made, packets)
    expect_equal(
        [verdict.action for verdict in run], ["forwarded", "replied", "replied"], "actions"
    )
    path = lab.path("in.pcap")
    write_pcap(path, [(TIME, frame(tcp) + bytes(70000)), (TIME, frame(tcp), 2**32 - 1)])
    run = lab.run_file(made, path)
    expect_equal(run.totals["drops"], {"frame_too_long": 2}, "drops")


def test_broken_files_give_clear_errors(lab):
    good = lab.path("good.pcap")
    write_pcap(good, big_records(3))
    with open(good, "rb") as source:
        data = source.read()
    made = lab.write_config(config())
    cases = [
        (b"", "not a readable capture"),
        (b"hello, world, this is no capture", "not a readable"),
        (data[:10], "not a readable"),
        (data[:20] + struct.pack("<I", 113) + data[24:], "LINUX_SLL"),
        (data[:20] + struct.pack("<I", 105) + data[24:], "IEEE802_11"),
        (data[:50], "truncated"),
        (data[:-1], "after packet 2"),
        (data[:32] + b"\xff\xff\xff\x7f" + data[36:], "after packet 0"),
        (b"\x0a\x0d\x0d\x0a" + bytes(30), "not a readable capture"),
    ]
    for number, (content, says) in enumerate(cases):
        path = lab.path("bad.pcap")
        with open(path, "wb") as out:
            out.write(content)
        done = lab.execute(made, path, lab.path("out.pcap"))
        stderr = done.stderr.decode()
        expect_equal(done.returncode, 1, f"exit status of case {number}: {stderr}")
        expect("bad.pcap" in stderr and says in stderr, f"case {number}: {stderr!r} lacks {says!r}")
        expect_equal(len(stderr.strip().splitlines()), 1, f"lines on stderr: {stderr}")


def test_packets_before_the_error_are_reported(lab):
    path = lab.path("in.pcap")
    write_pcap(path, big_records(5))
    with open(path, "r+b") as out:
        out.truncate(os.path.getsize(path) - 3)
    run = lab.run_file(config(), path, code=1)
    expect_equal(run.totals["forwarded"], 4, "forwarded")
    expect("after packet 4" in run.error, f"error: {run.error}")


def test_files_that_cannot_be_used(lab):
    made = lab.write_config(config())
    path = lab.path("in.pcap")
    write_pcap(path, big_records(2))
    link = lab.path("link.pcap")
    os.symlink(path, link)
    cases = [
        ((made, lab.path("none.pcap"), lab.path("o")), "No such file"),
        ((lab.path("none.json"), path, lab.path("o")), "none.json"),
        ((made, path, lab.path("no/such/dir")), "No such file"),
        ((made, path, path), "same file"),
        ((made, path, link), "same file"),
        ((made, lab.directory.name, lab.path("o")), "Is a directory"),
        ((made, path, "/dev/full"), "No space left"),
        ((made, path, lab.path("o"), "--drain", "web/none"), "web/none"),
        ((made, path, lab.path("o"), "--in-port", "lan"), '"lan"'),
    ]
    for arguments, says in cases:
        done = lab.execute(*arguments)
        expect_equal(done.returncode, 1, f"exit status of {arguments}: {done.stderr.decode()}")
        expect(
            says in done.stderr.decode(), f"{arguments}: {done.stderr.decode()!r} lacks {says!r}"
        )
    expect_equal(len(read_pcap(path)), 2, "packets in the input after it was named as output")


def test_changes_after_the_last_packet_are_reported(lab):
    made = lab.write_config(config())
    path = lab.path("in.pcap")
    write_pcap(path, big_records(3))
    for packet, says in (
        (3, ""),
        (4, "weir-pcap: warning: web/b0@4: no change was made, because IN has only 3 packets\n"),
    ):
        done = lab.execute(made, path, lab.path("o"), "--json", "--drain", f"web/b0@{packet}")
        expect_equal(done.returncode, 0, "exit status")
        expect_equal(done.stderr.decode().replace(path, "IN"), says, f"standard error, @{packet}")
        json.loads(done.stdout)


def test_bad_configurations_are_refused(lab):
    path = lab.path("in.pcap")
    write_pcap(path, big_records(1))
    bad = config()
    bad["services"][0]["backends"][0]["adress"] = "10.0.0.1"
    done = lab.execute(lab.write_config(bad), path, lab.path("o"))
    expect_equal(done.returncode, 1, "exit status")
    expect("services[0].backends[0]" in done.stderr.decode(), done.stderr.decode())
    expect(not os.path.exists(lab.path("o")), "an output file was made")
    done = lab.execute("/dev/null", path, lab.path("o"))
    expect(done.stderr.startswith(b"/dev/null:1: not valid JSON: "), done.stderr)


def test_invalid_usage_exits_2(lab):
    for arguments in (
        (),
        ("a",),
        ("a", "b"),
        ("a", "b", "c", "d"),
        ("a", "b", "c", "--nonsense"),
        ("a", "b", "c", "--weight", "web/b0"),
        ("a", "b", "c", "--drain"),
    ):
        done = lab.execute(*arguments)
        expect_equal(done.returncode, 2, f"exit status of {arguments}")
        expect("--help" in done.stderr.decode(), f"{arguments}: no hint at --help")
    done = lab.execute("--help")
    expect_equal(done.returncode, 0, "exit status of --help")
    expect("Example:" in done.stdout.decode(), "no example in --help")
    expect_equal(lab.execute("--version").stdout.decode().split()[0], "weir-pcap", "--version")


def test_no_root_is_needed(lab):
    if os.geteuid() != 0:
        return
    write_pcap(lab.path("in.pcap"), big_records(10))
    made = lab.write_config(config())
    os.chmod(lab.directory.name, 0o777)
    # The source tree may be inaccessible to the user "nobody"
    program = shutil.copy(lab.program, lab.path("weir-pcap"))
    done = subprocess.run(
        [program, made, lab.path("in.pcap"), lab.path("user.pcap")],
        user=65534,
        group=65534,
        extra_groups=[],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    expect_equal(done.returncode, 0, f"exit status as nobody ({done.stderr.decode()})")
    expect_equal(len(read_pcap(lab.path("user.pcap"))), 10, "frames sent")


def test_two_runs_at_once(lab):
    write_pcap(lab.path("in.pcap"), big_records(2000))
    made = lab.write_config(config())
    runs = [
        subprocess.Popen(
            [lab.program, made, lab.path("in.pcap"), lab.path(f"o{n}.pcap")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for n in range(3)
    ]
    for run in runs:
        stderr = run.communicate(timeout=60)[1]
        expect_equal(run.returncode, 0, f"exit status ({stderr.decode()})")
    expect_equal(read_pcap(lab.path("o0.pcap")), read_pcap(lab.path("o2.pcap")), "output")


def mutate(source, data):
    data = bytearray(data)
    for _ in range(source.randint(1, 6)):
        if not data:
            break
        at = source.randrange(min(len(data), 120))
        choice = source.randrange(5)
        if choice == 0:
            data[at] = source.randrange(256)
        elif choice == 1:
            data[at] ^= 1 << source.randrange(8)
        elif choice == 2:
            del data[at : at + source.randrange(1, 20)]
        elif choice == 3:
            data[at:at] = source.randbytes(source.randrange(1, 20))
        else:
            del data[at:]
    return bytes(data)


def test_random_mutations_get_a_verdict(lab):
    """Check that there is no crash, that each packet has one verdict, and that only whole IP packets are forwarded."""
    source = random.Random(20)
    packets = [mutate(source, source.choice(SEEDS)) for _ in range(8000)]
    packets += [source.randbytes(source.randrange(200)) for _ in range(1000)]
    made = config(service(backends=["10.0.0.1", "2001:db8:1::2"]))
    run = lab.run(made, packets, step_ns=3_000_000)
    expect(run.totals["forwarded"] > 200 and run.totals["dropped"] > 1000, json.dumps(run.totals))
    for verdict in run:
        if verdict.action == "forwarded":
            check_forwarded(verdict, "10.0.0.1" if verdict.backend == "b0" else "2001:db8:1::2")
            expect(
                len(ip_packet(verdict.received)) <= len(verdict.received), f"{verdict}: overlong"
            )


def test_documentation_names_every_drop_reason(lab):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(root, "segment", "drop_reasons.h"), encoding="utf-8") as source:
        text = source.read().replace("\\\n", " ")
    reasons = re.findall(r'X\([A-Z][A-Z0-9_]+,\s*"([a-z0-9_]+)",\s*"([^"]+)"\)', text)
    expect(len(reasons) > 30, f"only {len(reasons)} reasons found")
    with open(os.path.join(root, "docs", "reference", "packet-formats.md"), encoding="utf-8") as source:
        section = source.read().split("\n### Drop reasons\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `([a-z0-9_]+)` \| (.*) \|$", section, re.MULTILINE)
    expect_equal(sorted(documented), sorted(reasons), "drop reasons in docs/reference/packet-formats.md")
