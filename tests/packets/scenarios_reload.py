# SPDX-License-Identifier: BSD-3-Clause
"""What a reload does to the flows of backends that leave the configuration, and to new ones."""
import json

from scapy.all import IP, IPv6, TCP, UDP

from lab import CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, service, write_pcap
from outer import check_forwarded, check_reset

FOUR = [f"10.0.0.{n}" for n in range(1, 5)]


def packet(kind, port=1025, family=4):
    """kind: TCP flags, or UDP."""
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    if kind == "UDP":
        return ip / UDP(sport=port, dport=80) / b"query"
    return ip / TCP(sport=port, dport=80, flags=kind)


def backends(names):
    return [{"name": name, "address": FOUR[int(name[1])]} for name in names]


def of(names, **more):
    return config(service(backends=backends(names), **more))


def reload(lab, name, made):
    path = lab.path(name)
    with open(path, "w", encoding="utf-8") as out:
        json.dump(made, out)
    return path


def run_without(lab, kinds, at, family=4, **more):
    """Packets of these kinds of a flow; its backend has left the configuration at packet `at`."""
    packets = [packet(kind, family=family) for kind in kinds]
    every = ("b0", "b1", "b2", "b3")
    old = lab.run(of(every, **more), packets[:1])[0].backend
    rest = [name for name in every if name != old]
    path = reload(lab, "later.json", of(rest, **more))
    return old, lab.run(of(every, **more), packets, ["--reload", f"{path}@{at}"])


def test_established_flow_of_a_removed_backend_stays_by_default(lab):
    for family in (4, 6):
        for more in ({}, {"on_backend_down": "keep"}):
            old, run = run_without(lab, ("S", "A", "PA", "PA"), 3, family, **more)
            expect_equal([v.backend for v in run], [old] * 4, "backends")
            expect_equal([v.why for v in run], ["new", "flow", "flow", "flow"], "why")
            check_forwarded(run[3], FOUR[int(old[1])])


def test_rehash_moves_flows_of_a_removed_backend(lab):
    for family in (4, 6):
        old, run = run_without(
            lab, ("S", "A", "PA", "PA"), 3, family, on_backend_down="rehash"
        )
        new = run[2].backend
        expect(new != old, f"{run[2]}")
        expect_equal([v.backend for v in run], [old, old, new, new], "backends")
        expect_equal([v.why for v in run], ["new", "flow", "replaced", "flow"], "why")
        check_forwarded(run[2], FOUR[int(new[1])])


def test_reset_answers_the_client_of_a_removed_backend(lab):
    for family in (4, 6):
        old, run = run_without(lab, ("S", "A", "PA"), 3, family, on_backend_down="reset")
        expect_equal(run[2].backend, old, f"{run[2]}")
        check_reset(run[2])


def test_datagram_and_syn_leave_a_removed_backend(lab):
    for family in (4, 6):
        for kind in ("UDP", "S"):
            old, run = run_without(lab, (kind, kind, kind), 2, family)
            expect(run[1].backend != old, f"{kind}: {run[1]}")
            expect_equal([v.why for v in run], ["new", "replaced", "flow"], f"{kind}: why")
            expect_equal(run[2].backend, run[1].backend, f"{kind}: backend afterwards")


def test_added_backends_get_flows_at_once(lab):
    more = reload(lab, "more.json", of(("b0", "b1", "b2", "b3")))
    clients = [packet("UDP", n) for n in range(1000, 1400)]
    run = lab.run(of(("b0",)), clients * 2, ["--reload", f"{more}@401"])
    expect_equal({v.backend for v in run[:400]}, {"b0"}, "backends before")
    expect_equal([v.backend for v in run[400:]], ["b0"] * 400, "flows that were there")
    run = lab.run(of(("b0",)), clients, ["--reload", f"{more}@201"])
    counts = {}
    for verdict in run[200:]:
        counts[verdict.backend] = counts.get(verdict.backend, 0) + 1
        check_forwarded(verdict, FOUR[int(verdict.backend[1])])
    expect_equal(sorted(counts), ["b0", "b1", "b2", "b3"], "backends of new flows")
    expect(min(counts.values()) > 20, f"{counts}")


def test_many_backends_can_be_added(lab):
    many = [{"name": f"b{n}", "address": f"10.1.{n // 250}.{1 + n % 250}"} for n in range(3000)]
    path = reload(lab, "many.json", config(service(backends=many, policy={"name": "round-robin"})))
    made = config(service(backends=many[:1], policy={"name": "round-robin"}))
    run = lab.run(made, [packet("S", n) for n in range(1000, 4001)], ["--reload", f"{path}@2"])
    expect_equal(len({v.backend for v in run[1:]}), 3000, "backends that got a flow")


def test_changes_of_a_configuration_that_comes_later(lab):
    two = reload(lab, "two.json", of(("b0", "b1")))
    one = reload(lab, "at@home.json", of(("b1",)))
    packets = [packet("UDP", n) for n in range(1000, 1060)]
    options = ["--reload", f"{two}@11", "--drain", "web/b0@21", "--reload", f"{one}@31"]
    run = lab.run(of(("b0",)), packets, options)
    expect_equal({v.backend for v in run[:10]}, {"b0"}, "one backend")
    expect_equal({v.backend for v in run[10:20]}, {"b0", "b1"}, "two backends")
    expect_equal({v.backend for v in run[20:]}, {"b1"}, "the other one drained, then removed")


def refused(lab, made, options, says):
    path = lab.path("in.pcap")
    write_pcap(path, [(10**9, bytes(60))])
    done = lab.execute(lab.write_config(made), path, lab.path("o"), *options)
    expect_equal(done.returncode, 1, f"exit status of {options}")
    expect(says in done.stderr.decode(), f"{options}: {done.stderr.decode()!r} lacks {says!r}")
    expect_equal(done.stdout, b"", f"{options}: output")


def test_reloads_that_cannot_be_made_are_refused_before_the_first_packet(lab):
    made = of(("b0", "b1"))
    other = dict(made, flow_table={"flows_per_worker": 1024})
    bad = of(("b0",))
    bad["services"][0]["wheels"] = 4
    refused(lab, made, ["--reload", lab.path("none.json") + "@9"], "none.json")
    refused(lab, made, ["--reload", reload(lab, "bad.json", bad) + "@9"], '"wheels"')
    refused(
        lab,
        made,
        ["--reload", reload(lab, "other.json", other) + "@9"],
        "flow_table flows_per_worker needs a restart of weir-dataplane",
    )
    path = reload(lab, "good.json", of(("b0", "b2")))
    refused(lab, made, ["--reload", f"{path}@9", "--drain", "web/b3@9"], '"web/b3"')
    done = lab.execute("a", "b", "c", "--reload", "@4")
    expect_equal(done.returncode, 2, "exit status without a file")
    expect("names no file" in done.stderr.decode(), done.stderr.decode())
