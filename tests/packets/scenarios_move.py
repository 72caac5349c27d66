# SPDX-License-Identifier: BSD-3-Clause
"""Flows whose backend is down or gets no new flows."""
from scapy.all import (
    Dot1AD,
    Dot1Q,
    Ether,
    IP,
    IPOption,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrHopByHop,
    Raw,
    TCP,
    UDP,
)

from lab import (
    CLIENT4,
    CLIENT6,
    CLIENT_MAC,
    PORT_MAC,
    VIP4,
    VIP6,
    config,
    expect,
    expect_equal,
    frame,
    frames_from,
    service,
)
from outer import check_challenge, check_forwarded, check_reset

SECOND = 10**9
FOUR = [f"10.0.0.{n}" for n in range(1, 5)]
DOWN = ("--down", "--maintenance")


def udp(port=5353, family=4):
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    return ip / UDP(sport=port, dport=80) / b"query"


def tcp(flags, port=1025, family=4):
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    return ip / TCP(sport=port, dport=80, flags=flags)


def of(**more):
    return config(service(backends=FOUR, **more))


def first_backend(lab, made, packet):
    return lab.run(made, [packet])[0].backend


def test_datagram_of_a_down_backend_moves_its_flow(lab):
    for family in (4, 6):
        for option in DOWN:
            query = udp(family=family)
            old = first_backend(lab, of(), query)
            run = lab.run(
                of(), [query] + [(20 * SECOND, query)] * 180, [option, f"web/{old}@10"]
            )
            expect_equal([v.backend for v in run[0:9]], [old] * 9, "backends before")
            expect_equal(run[9].why, "replaced", f"{option}: {run[9]}")
            expect(run[9].backend != old, f"{option}: {run[9]}")
            check_forwarded(run[9], FOUR[int(run[9].backend[1])])
            for verdict in run[10:]:
                expect_equal(
                    (verdict.backend, verdict.why), (run[9].backend, "flow"), f"{verdict}"
                )


def test_datagram_of_a_drained_backend_stays(lab):
    old = first_backend(lab, of(), udp())
    run = lab.run(of(), [udp()] * 3, ["--drain", f"web/{old}@2"])
    expect_equal([v.backend for v in run], [old] * 3, "backends")
    expect_equal([v.why for v in run], ["new", "flow", "flow"], "why")


def test_datagram_moves_with_every_policy(lab):
    for policy in ("round-robin", "least-loaded", "weighted-round-robin", "random"):
        made = of(policy={"name": policy})
        packets = [udp(n) for n in range(100)] * 3
        run = lab.run(made, packets, ["--down", "web/b1@101"])
        for n in range(100):
            before, moved, after = run[n], run[100 + n], run[200 + n]
            wanted = ("flow", before.backend) if before.backend != "b1" else ("replaced", None)
            expect_equal(moved.why, wanted[0], f"{policy}: {moved}")
            expect(moved.backend != "b1", f"{policy}: {moved}")
            expect(wanted[1] in (None, moved.backend), f"{policy}: {moved}")
            expect_equal((after.why, after.backend), ("flow", moved.backend), f"{policy}")


def test_syn_of_a_closed_backend_starts_a_flow_at_another(lab):
    for family in (4, 6):
        for option in DOWN + ("--drain",):
            syn = tcp("S", family=family)
            old = first_backend(lab, of(), syn)
            run = lab.run(
                of(),
                [syn, (SECOND, syn), (2 * SECOND, syn), tcp("A", family=family)],
                [option, f"web/{old}@2"],
            )
            expect_equal(
                [v.why for v in run], ["new", "replaced", "flow", "flow"], f"{option}: why"
            )
            expect(run[1].backend != old, f"{option}: {run[1]}")
            expect_equal({v.backend for v in run[1:]}, {run[1].backend}, f"{option}: backends")
            check_forwarded(run[1], FOUR[int(run[1].backend[1])])


def test_reused_port_leaves_a_down_backend(lab):
    for option in DOWN:
        old = first_backend(lab, of(), tcp("S"))
        run = lab.run(of(), [tcp(f) for f in ("S", "A", "S", "A")], [option, f"web/{old}@3"])
        expect_equal([v.why for v in run], ["new", "flow", "replaced", "flow"], "why")
        expect(run[2].backend != old, f"{option}: {run[2]}")
        expect_equal(run[3].backend, run[2].backend, f"{option}: backend of the ACK")


# For each state of a flow: the packets that lead to this state, and the effect of a further SYN for
# each state of the backend (docs/reference/packet-formats.md).
STATES = {
    "syn-seen, by a SYN": ("S", {"open": "flow", "drain": "replaced", "down": "replaced"}),
    "syn-seen, by another packet": ("P", {"open": "new", "drain": "new", "down": "new"}),
    "young": ("SA", {"open": "flow", "drain": "challenge", "down": "replaced"}),
    "established": ("SAP", {"open": "flow", "drain": "challenge", "down": "replaced"}),
    "challenged": ("SAPC", {"open": "flow", "drain": "flow", "down": "replaced"}),
    "challenged and answered": ("SAPCA", {"open": "flow", "drain": "challenge", "down": "replaced"}),
    "closing by FIN": ("SAPF", {"open": "new", "drain": "new", "down": "new"}),
    "closing by RST": ("SAPR", {"open": "new", "drain": "new", "down": "new"}),
    "closing by RST to a challenge": ("SAPCR", {"open": "new", "drain": "new", "down": "new"}),
}
FLAGS = {"S": "S", "C": "S", "A": "A", "P": "PA", "F": "FA", "R": "R"}


def check_syn(lab, family, state, backend_state):
    """Check the effect of a SYN. In the packets of STATES, C is a SYN that is answered by a
    challenge ACK."""
    before, wanted = STATES[state][0], STATES[state][1][backend_state]
    packets = [tcp(FLAGS[flags], family=family) for flags in before + "S"]
    old = first_backend(lab, of(), packets[0])
    options = []
    if "C" in before:
        options += ["--drain", f"web/{old}@{before.index('C') + 1}"]
    if backend_state == "down":
        options += ["--down", f"web/{old}@{len(packets)}"]
    elif backend_state == "drain" and not options:
        options += ["--drain", f"web/{old}@{len(packets)}"]
    run = lab.run(of(), packets, options)
    for flags, verdict in zip(before, run):
        expect_equal(verdict.backend, old, f"{state}: {verdict}")
        expect_equal(verdict.action, "replied" if flags == "C" else "forwarded", f"{verdict}")
    last, text = run[-1], f"{state}, {backend_state}: {run[-1]}"
    expect_equal(last.why, wanted, text)
    moves = wanted == "replaced" or (wanted == "new" and backend_state != "open")
    expect_equal(last.backend != old, moves, text)
    if wanted == "challenge":
        check_challenge(last)
    else:
        check_forwarded(last, FOUR[int(last.backend[1])])


def test_syn_of_each_state_and_backend(lab):
    for state, (before, by_backend) in STATES.items():
        for backend_state in by_backend:
            if backend_state == "open" and "C" in before:
                continue  # only a draining backend causes a challenge
            for family in (4, 6):
                check_syn(lab, family, state, backend_state)


def test_forged_syn_moves_no_flow_of_a_draining_backend(lab):
    """Forged SYNs do not move the flow, regardless of the client's responses."""
    old = first_backend(lab, of(), tcp("S"))
    run = lab.run(of(), [tcp(f) for f in ("S", "A", "S", "A", "S", "S", "S", "PA")],
                  ["--drain", f"web/{old}@3"])
    expect_equal([v.backend for v in run], [old] * 8, "backends")
    expect_equal(
        [v.why for v in run],
        ["new", "flow", "challenge", "flow", "challenge", "flow", "flow", "flow"],
        "why",
    )


def test_no_challenge_if_the_other_backend_rejects(lab):
    """After a challenge ACK the client would end its flow, and then the other backend would reject
    the next SYN of the client."""
    flows = [tcp(flags, port) for port in (1025, 1026) for flags in "SA"]
    for when, wanted in (("reject", "flow"), ("spill", "challenge")):
        made = config(
            service(
                backends=FOUR[:2], flow_control={"max_active_flows": 1, "when_exhausted": when}
            )
        )
        old, other = (lab.run(made, flows)[n].backend for n in (0, 2))
        expect(old != other, f"both flows are of {old}")
        run = lab.run(made, flows + flows[:1], ["--drain", f"web/{old}@5"])
        expect_equal((run[4].why, run[4].backend), (wanted, old), f"{when}: {run[4]}")
        # The other backend is below its limit again, because half-open flows do not count.
        run = lab.run(
            made, flows[:3] + [tcp("R", 1026), flows[0]], ["--drain", f"web/{old}@5"]
        )
        expect_equal((run[4].why, run[4].backend), ("challenge", old), f"{when}: {run[4]}")


OTHER_VIPS = {4: "198.51.100.11", 6: "2001:db8:100::11"}


def test_packets_from_a_vip_get_no_reply(lab):
    """Packets from a VIP are forged. A forged SYN is forwarded to the backend, and does not end a
    flow."""
    binds = [
        {"address": address, "protocol": "tcp", "port": 80}
        for address in (VIP4, VIP6, *OTHER_VIPS.values())
    ]
    dropped = ("dropped", "source_address")
    for family, vip in OTHER_VIPS.items():
        syn, ack = (tcp(flags, family=family) for flags in "SA")
        long = ack / (b"x" * 1450)
        for packet in (syn, ack, long):
            packet.src = vip
            if family == 4:
                packet.flags = "DF"
        for option, packet, wanted in (
            ("--drain", syn, ("forwarded", None)),
            ("--down", ack, dropped),
            (None, long, dropped),
        ):
            made = of(binds=binds, on_backend_down="reset")
            old = first_backend(lab, made, syn)
            options = [option, f"web/{old}@3"] if option else []
            run = lab.run(made, [syn, ack, packet, ack], options)
            expect_equal((run[2].action, run[2].reason), wanted, f"{option}: {run[2]}")
            expect_equal(run[2].backend, old, f"{option}: {run[2]}")
            last = "dropped" if option == "--down" else "forwarded"
            expect_equal((run[3].action, run[3].backend), (last, old), f"{option}: {run[3]}")


def test_flow_stays_without_another_backend(lab):
    made = config(service(backends=FOUR[:1], panic_threshold_percent=0))
    for packet in (udp(), tcp("S")):
        run = lab.run(made, [packet] * 3, ["--down", "web/b0@2"])
        expect_equal([v.backend for v in run], ["b0"] * 3, "backends")
        expect_equal([v.why for v in run], ["new", "flow", "flow"], "why")


def test_flow_stays_in_panic(lab):
    """If all backends fail their health checks, the checks may be wrong. Therefore all backends are
    used as before."""
    made = of(policy={"name": "round-robin"})
    options = [word for n in range(4) for word in ("--down", f"web/b{n}@41")]
    packets = [udp(n) for n in range(20)] + [tcp("S", n) for n in range(1, 21)]
    run = lab.run(made, packets * 2, options)
    for n in range(40):
        expect_equal(
            (run[40 + n].why, run[40 + n].backend), ("flow", run[n].backend), f"{run[40 + n]}"
        )


# --- on_backend_down: established TCP flows of a backend that is down ---


def test_established_flow_stays_by_default(lab):
    for option in DOWN:
        for more in ({}, {"on_backend_down": "keep"}):
            old = first_backend(lab, of(**more), tcp("S"))
            run = lab.run(
                of(**more), [tcp(f) for f in ("S", "A", "PA", "FA", "R")], [option, f"web/{old}@3"]
            )
            expect_equal([v.backend for v in run], [old] * 5, f"{option}: backends")
            expect_equal([v.why for v in run], ["new"] + ["flow"] * 4, f"{option}: why")


def test_rehash_moves_established_flows(lab):
    made = of(on_backend_down="rehash")
    for family in (4, 6):
        for option in DOWN:
            for flags in ("A", "PA", "FA"):
                old = first_backend(lab, made, tcp("S", family=family))
                packets = [tcp(f, family=family) for f in ("S", "A", flags, flags, flags)]
                run = lab.run(made, packets, [option, f"web/{old}@3"])
                new = run[2].backend
                expect(new != old, f"{option}: {run[2]}")
                expect_equal([v.backend for v in run], [old] * 2 + [new] * 3, "backends")
                expect_equal(
                    [v.why for v in run], ["new", "flow", "replaced", "flow", "flow"], "why"
                )
                check_forwarded(run[2], FOUR[int(new[1])])


def test_rehash_gives_the_backend_of_other_instances(lab):
    """An instance without the flow in its table chooses the same new backend for the next
    packet."""
    made = of(on_backend_down="rehash", policy={"name": "round-robin"})
    packets = [tcp("S", n) for n in range(1, 101)] + [tcp("A", n) for n in range(1, 101)] * 2
    run = lab.run(made, packets, ["--down", "web/b2@201"])
    other = lab.run(made, packets[100:200], ["--down", "web/b2"])
    moved = 0
    for n in range(100):
        if run[n].backend == "b2":
            moved += 1
            expect_equal(run[200 + n].why, "replaced", f"{run[200 + n]}")
            expect_equal(run[200 + n].backend, other[n].backend, f"{run[200 + n]}")
        else:
            expect_equal(run[200 + n].backend, run[n].backend, f"{run[200 + n]}")
    expect(moved == 25, f"{moved} of 100 flows moved")


def test_flow_that_was_rehashed_ends_soon(lab):
    """The new backend sends the client an RST. Then the entry of the flow expires soon, not after 15
    minutes."""
    made = of(on_backend_down="rehash")
    old = first_backend(lab, made, tcp("S"))
    run = lab.run(
        made,
        [tcp("S"), tcp("A"), tcp("A"), (6 * SECOND, tcp("A"))],
        ["--down", f"web/{old}@3"],
    )
    expect_equal([v.why for v in run], ["new", "flow", "replaced", "new"], "why")


def segments(family, port):
    """Segments that a client can send, with various sequence and acknowledgement numbers."""
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    tcps = [
        dict(flags="A", seq=1000, ack=77),
        dict(flags="PA", seq=0xFFFFFFFE, ack=0xFFFFFFFF),
        dict(flags="FA", seq=5, ack=0),
        dict(flags="PAU", seq=5, ack=1 << 31, urgptr=3),
        dict(flags="A", seq=9, ack=10, options=[("NOP", None)] * 3 + [("EOL", None)]),
        dict(flags="A", seq=9, ack=10, options=[("Timestamp", (1, 2)), ("NOP", None)] * 3),
    ]
    for fields in tcps:
        for data in (b"", b"x", b"data" * 300):
            yield ip / TCP(sport=port, dport=80, **fields) / Raw(data)


def run_reset_of(lab, packet, option="--down", made=None):
    """Start a flow, set its backend down, and send the packet. Returns the verdict on the
    packet."""
    made = made or of(on_backend_down="reset")
    syn = packet.copy()
    syn[TCP].flags = "S"
    old = first_backend(lab, made, syn)
    ack = packet.copy()
    ack[TCP].flags = "A"
    run = lab.run(made, [syn, ack, packet], [option, f"web/{old}@3"])
    expect_equal((run[2].backend, run[2].service), (old, "web"), f"{run[2]}")
    return run[2]


def test_reset_answers_the_client(lab):
    for family in (4, 6):
        for packet in segments(family, 1025):
            check_reset(run_reset_of(lab, packet))
    check_reset(run_reset_of(lab, tcp("A"), "--maintenance"))


def test_reset_keeps_vlan_tags_and_drops_options(lab):
    eth = Ether(src=CLIENT_MAC, dst=PORT_MAC)
    inner = TCP(sport=1025, dport=80, flags="A", seq=3, ack=4) / Raw(b"data")
    ip6 = IPv6(src=CLIENT6, dst=VIP6)
    for packet in (
        eth / Dot1Q(vlan=9) / IP(src=CLIENT4, dst=VIP4) / inner,
        eth / Dot1AD(vlan=3) / Dot1Q(vlan=9, prio=5) / IP(src=CLIENT4, dst=VIP4) / inner,
        eth / Dot1Q(vlan=9) / ip6 / inner,
        eth / IP(src=CLIENT4, dst=VIP4, tos=0xB8, options=[IPOption(b"\x01" * 40)]) / inner,
        eth / ip6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / inner,
    ):
        made = config(
            service(backends=FOUR, on_backend_down="reset"),
            port={"vlan": 9} if packet.haslayer(Dot1Q) else None,
        )
        check_reset(run_reset_of(lab, packet, made=made))


def test_reset_ends_the_flow(lab):
    made = of(on_backend_down="reset")
    old = first_backend(lab, made, tcp("S"))
    run = lab.run(made, [tcp(f) for f in ("S", "A", "A", "A", "S")], ["--down", f"web/{old}@3"])
    expect_equal(
        [(v.action, v.why) for v in run],
        [
            ("forwarded", "new"),
            ("forwarded", "flow"),
            ("replied", "reset"),
            ("forwarded", "new"),
            ("forwarded", "new"),
        ],
        "verdicts",
    )
    expect(run[3].backend != old, f"{run[3]}")
    expect_equal(run.totals["drops"], {}, "drops")


def test_no_reset_answers_a_reset(lab):
    made = of(on_backend_down="reset")
    for flags in ("R", "RA"):
        old = first_backend(lab, made, tcp("S"))
        run = lab.run(made, [tcp("S"), tcp("A"), tcp(flags)], ["--down", f"web/{old}@3"])
        expect_equal((run[2].action, run[2].backend), ("forwarded", old), f"{flags}: {run[2]}")


def test_no_reset_answers_a_wrong_checksum(lab):
    for family in (4, 6):
        packet = tcp("PA", family=family)
        packet[TCP].chksum = 1
        verdict = run_reset_of(lab, packet)
        expect_equal((verdict.action, verdict.why), ("forwarded", "flow"), f"{verdict}")


def test_resets_are_limited(lab):
    """At most 10,000 RSTs per second are sent. Packets beyond the limit are dropped; their flows
    get an RST when a later packet arrives."""
    made = of(on_backend_down="reset")
    count = 15000
    sources = [(CLIENT4, 1024 + n) for n in range(count)]
    packets = frames_from(tcp("S"), sources) + frames_from(tcp("A"), sources)
    down = [word for n in range(3) for word in ("--maintenance", f"web/b{n}@{2 * count + 1}")]
    run = lab.run(made, packets + packets[count:], down, step_ns=1000)
    last = run[2 * count :]
    mine = sum(1 for verdict in last if verdict.backend in ("b0", "b1", "b2"))
    replied = sum(1 for verdict in last if verdict.action == "replied")
    expect(mine > 10800, f"{mine} flows of backends in maintenance")
    expect(10000 <= replied <= 10400, f"{replied} RSTs in 15 ms; one second's worth is 10,000")
    expect_equal(run.totals["drops"], {"reset_rate": mine - replied}, "drops")
    limited = [n for n, verdict in enumerate(last) if verdict.action == "dropped"][:10]
    again = [packets[count + n] for n in limited]
    again[0] = (2 * SECOND, again[0])
    run = lab.run(made, packets + packets[count:] + again, down, step_ns=1000)
    expect_equal({v.why for v in run[3 * count :]}, {"reset"}, "two seconds later")


def test_challenges_use_no_resets(lab):
    """Challenge ACKs to clients of a draining backend do not count towards the rate limit of RSTs
    to clients of a backend that is down."""
    other = OTHER_VIPS[4]
    made = config(
        service("web", [{"address": VIP4, "protocol": "tcp", "port": 80}], FOUR),
        service(
            "db", [{"address": other, "protocol": "tcp", "port": 80}], FOUR, on_backend_down="reset"
        ),
    )
    victims = [IP(src=CLIENT4, dst=other) / TCP(sport=n, dport=80, flags="S") for n in range(1, 41)]
    acks = [packet.copy() for packet in victims]
    for ack in acks:
        ack[TCP].flags = "A"
    before = [tcp("S"), tcp("A"), *victims, *acks]
    flood = [frame(tcp("S")), frame(tcp("A"))] * 12000
    drained = lab.run(made, before[:1])[0].backend
    at = len(before) + 1
    options = ["--drain", f"web/{drained}@{at}", "--down", f"db/b1@{at}", "--down", f"db/b2@{at}"]
    run = lab.run(made, before + flood + acks, options, step_ns=1000)
    challenges = [v for v in run[at - 1 : -len(acks)] if v.why == "challenge"]
    expect(10000 <= len(challenges) <= 10400, f"{len(challenges)} challenge ACKs in 24 ms")
    last = run[-len(acks) :]
    down = [verdict for verdict in last if verdict.backend in ("b1", "b2")]
    expect(len(down) > 5, f"{len(down)} flows of backends that are down")
    expect_equal({v.why for v in down}, {"reset"}, "answers to their clients")


def test_multicast_frames_get_no_reset(lab):
    made = of(on_backend_down="reset")
    old = first_backend(lab, made, tcp("S"))
    ack = Ether(src="03:00:00:00:00:01", dst=PORT_MAC) / tcp("A")
    run = lab.run(made, [tcp("S"), tcp("A"), ack], ["--down", f"web/{old}@3"])
    expect_equal((run[2].action, run[2].reason), ("dropped", "group_mac"), f"{run[2]}")


def test_reset_concerns_no_udp_flow(lab):
    made = of(on_backend_down="reset")
    old = first_backend(lab, made, udp())
    run = lab.run(made, [udp()] * 2, ["--down", f"web/{old}@2"])
    expect_equal((run[1].action, run[1].why), ("forwarded", "replaced"), f"{run[1]}")
