# SPDX-License-Identifier: BSD-3-Clause
"""The effect of a reload on flows of removed backends, and on new flows."""
import json

from scapy.all import IP, IPv6, TCP, UDP

from lab import CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, service, write_pcap
from outer import check_forwarded, check_reset

FOUR = [f"10.0.0.{n}" for n in range(1, 5)]


def packet(kind, port=1025, family=4):
    """Returns a packet of a flow; kind: TCP flags, or UDP."""
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
    """Send packets of these kinds in one flow. A reload at packet `at` removes the backend of the
    flow."""
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


def test_changes_of_a_later_configuration(lab):
    two = reload(lab, "two.json", of(("b0", "b1")))
    one = reload(lab, "at@home.json", of(("b1",)))
    packets = [packet("UDP", n) for n in range(1000, 1060)]
    options = ["--reload", f"{two}@11", "--drain", "web/b0@21", "--reload", f"{one}@31"]
    run = lab.run(of(("b0",)), packets, options)
    expect_equal({v.backend for v in run[:10]}, {"b0"}, "one backend")
    expect_equal({v.backend for v in run[10:20]}, {"b0", "b1"}, "two backends")
    expect_equal({v.backend for v in run[20:]}, {"b1"}, "the other backend drained, then removed")
    for at in ("web/b1@10", "web/b0@40"):  # not in the configuration of this packet
        done = lab.execute(lab.write_config(of(("b0",))), lab.path("in.pcap"), lab.path("none.pcap"),
                           "--reload", f"{two}@11", "--drain", at, "--reload", f"{one}@31")
        expect_equal((done.returncode, done.stdout), (1, b""), f"refused before the first packet: {at}")


def of_binds(**binds):
    """Services blue (backend b0) and green (b1); binds: UDP ports of each service; a service without
    binds is omitted."""
    names = {"blue": "b0", "green": "b1"}
    return config(*(service(name=name, backends=backends((names[name],)), closed_ports="reject",
                            binds=[{"address": VIP4, "protocol": "udp", "port": port} for port in ports])
                    for name, ports in binds.items()))


def of_moved_datagrams(lab, before, after):
    """Send datagrams from one client to port 80 before and 1 to 41 s after a reload. Returns (why,
    backend) of each datagram after the reload."""
    packets = [packet("UDP")] * 2 + [(20 * 10**9, packet("UDP")) for _ in range(3)]
    run = lab.run(before, packets, ["--reload", f"{reload(lab, 'moved.json', after)}@3"])
    expect_equal([v.backend for v in run[:2]], ["b0", "b0"], "backends before")
    return [(v.why, v.backend) for v in run[2:]]


def test_datagrams_follow_a_bind_that_moves_to_another_service(lab):
    seen = of_moved_datagrams(lab, of_binds(blue=[80], green=[81]), of_binds(blue=[81], green=[80]))
    expect_equal(seen, [("new", "b1"), ("flow", "b1"), ("flow", "b1")], "moved")
    seen = of_moved_datagrams(lab, of_binds(blue=[80], green=[81]), of_binds(green=[80]))
    expect_equal(seen, [("new", "b1"), ("flow", "b1"), ("flow", "b1")], "and blue is gone")


def test_datagrams_follow_a_narrower_bind_of_another_service(lab):
    seen = of_moved_datagrams(lab, of_binds(blue=[0]), of_binds(blue=[0], green=[80]))
    expect_equal(seen, [("new", "b1"), ("flow", "b1"), ("flow", "b1")], "narrowed")


def test_datagrams_to_a_removed_bind_find_a_closed_port(lab):
    for after in (of_binds(blue=[81]), of_binds(green=[81])):
        seen = of_moved_datagrams(lab, of_binds(blue=[80, 81]), after)
        expect_equal(seen, [("rejected", None)] * 3, "bind or service gone")


def test_connections_stay_when_their_bind_moves(lab):
    def tcp(blue, green):
        return config(*(service(name=name, backends=backends((backend,)),
                                binds=[{"address": VIP4, "protocol": "tcp", "port": port}])
                        for name, backend, port in (("blue", "b0", blue), ("green", "b1", green))))
    run = lab.run(tcp(80, 81), [packet("S"), packet("A"), packet("PA"), packet("PA")],
                  ["--reload", reload(lab, "tcp.json", tcp(81, 80)) + "@3"])
    expect_equal([v.backend for v in run], ["b0"] * 4, "backends")


# --- binds that change ------------------------------------------------------------------------


def dns(port=5353, family=4):
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    return ip / UDP(sport=port, dport=53) / b"query"


def bind(protocol="udp", port=53, family=4):
    return {"address": VIP4 if family == 4 else VIP6, "protocol": protocol, "port": port}


def run_changed(lab, before, after, packets, at=3):
    """Run with the services `before`; a reload at packet `at` changes them to `after`."""
    path = reload(lab, "changed.json", config(*after))
    return lab.run(config(*before), packets, ["--reload", f"{path}@{at}"])


def test_udp_flow_follows_its_bind_to_another_service(lab):
    for family in (4, 6):
        here, there = bind(family=family), bind(port=54, family=family)
        wide = bind(port=0, family=family)
        blue = dict(name="blue", backends=FOUR[:1])
        green = dict(name="green", backends=FOUR[1:2])
        cases = {
            "moved": (
                [service(binds=[here], **blue), service(binds=[there], **green)],
                [service(binds=[there], **blue), service(binds=[here], **green)],
            ),
            "moved, and the old service deleted": (
                [service(binds=[here], **blue), service(binds=[there], **green)],
                [service(binds=[here], **green)],
            ),
            "narrower": (
                [service(binds=[wide], **blue)],
                [service(binds=[wide], **blue), service(binds=[here], **green)],
            ),
        }
        for name, (before, after) in cases.items():
            query = dns(family=family)
            packets = [query, query, query, query, (40 * 10**9, query)]
            run = run_changed(lab, before, after, packets)
            services = [v.service for v in run]
            expect_equal(services, ["blue"] * 2 + ["green"] * 3, f"{name}: services")
            why = ["new", "flow", "new", "flow", "new"]
            expect_equal([v.why for v in run], why, f"{name}: why")
            check_forwarded(run[2], FOUR[1])


def test_udp_flow_ends_with_its_bind(lab):
    says = {"kernel": ("kernel", None), "drop": ("dropped", None), "reject": ("replied", "rejected")}
    for closed, (action, why) in says.items():
        more = {"closed_ports": closed, "backends": FOUR[:1]}
        other = service("other", binds=[bind(port=54)], **more)
        cases = {
            "bind removed": (
                [service("dns", binds=[bind(), bind(port=54)], **more)],
                [service("dns", binds=[bind(port=54)], **more)],
            ),
            "protocol removed": (
                [service("dns", binds=[bind(), bind("tcp")], **more)],
                [service("dns", binds=[bind("tcp")], **more)],
            ),
            "service deleted": ([service("dns", binds=[bind()], **more), other], [other]),
        }
        for name, (before, after) in cases.items():
            packets = [dns(), dns()] + [(20 * 10**9, dns())] * 40
            run = run_changed(lab, before, after, packets)
            expect_equal([v.backend for v in run[:2]], ["b0", "b0"], f"{name}: before")
            got = {(v.action, v.why, v.backend) for v in run[2:]}
            expect_equal(got, {(action, why, None)}, f"{closed}, {name}: afterwards")


def test_udp_flow_of_a_removed_vip_goes_to_the_kernel(lab):
    before = [service("dns", binds=[bind()]), service("other", binds=[bind("tcp", 80)])]
    before[1]["binds"][0]["address"] = "198.51.100.20"
    run = run_changed(lab, before, before[1:], [dns(), dns(), dns(), dns()])
    actions = [v.action for v in run]
    expect_equal(actions, ["forwarded"] * 2 + ["kernel"] * 2, "actions")


def test_udp_flow_stays_with_its_bind(lab):
    """UDP flows stay on their backend if the services change, but their bind does not."""
    blue = service("blue", binds=[bind()], backends=FOUR[:2])
    after = [service("blue", binds=[bind(), bind(port=55)], backends=FOUR[:2], table_size=61),
             service("green", binds=[bind(port=56)], backends=FOUR[2:])]
    run = run_changed(lab, [blue], after, [dns()] * 3 + [(10**9, dns())] * 3)
    expect_equal(len({v.backend for v in run}), 1, "backends")
    expect_equal([v.why for v in run], ["new"] + ["flow"] * 5, "why")


def test_tcp_connection_stays_when_its_bind_is_removed(lab):
    """S6: a connection depends only on the state of its backend, even if the service of the backend
    was removed."""
    other = service("other", binds=[bind("tcp", 81)], backends=FOUR[1:2])
    taken = service("other", binds=[bind("tcp", 80)], backends=FOUR[1:2])
    packets = [packet(kind) for kind in ("S", "A", "PA", "PA", "PA")]
    for removed_ms, down, after, wanted in (
        (0, "keep", other, ["flow"] * 3),
        (0, "keep", taken, ["flow"] * 3),
        (0, "rehash", other, ["flow"] * 3),  # no other backend can be chosen
        (0, "rehash", taken, ["replaced", "flow", "flow"]),
        (0, "reset", other, ["reset", None, None]),
        (60000, "rehash", taken, ["flow"] * 3),  # flows stay until the deadline
        (60000, "reset", other, ["flow"] * 3),
    ):
        web = service(binds=[bind("tcp", 80)], backends=FOUR[:1], on_backend_down=down,
                      drain={"removed_ms": removed_ms})
        run = run_changed(lab, [web, other], [after], packets)
        why = [v.why for v in run]
        expect_equal(why, ["new", "flow"] + wanted, f"{removed_ms}, {down}, {after['binds']}: why")


def refused(lab, made, options, says):
    path = lab.path("in.pcap")
    write_pcap(path, [(10**9, bytes(60))])
    done = lab.execute(lab.write_config(made), path, lab.path("o"), *options)
    expect_equal(done.returncode, 1, f"exit status of {options}")
    expect(says in done.stderr.decode(), f"{options}: {done.stderr.decode()!r} lacks {says!r}")
    expect_equal(done.stdout, b"", f"{options}: output")


def test_impossible_reloads_are_refused_before_the_first_packet(lab):
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
    expect("contains no file name" in done.stderr.decode(), done.stderr.decode())
