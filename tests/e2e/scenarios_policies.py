# SPDX-License-Identifier: BSD-3-Clause
"""The properties of each policy, with servers of different speed and clients that keep them
busy."""
import json
import math
import re
import subprocess
import time
from collections import Counter

import clients
from lab import BACKENDS, VIP4, echo, lines, web
from netns import wait_for
from scenario import scenario
from work import Servers, Work, work

MILLISECONDS = dict(zip(BACKENDS, (10, 20, 40, 80)))
WEIGHTS = dict(zip(BACKENDS, (320, 240, 160, 80)))
EQUAL = {name: 100 for name in BACKENDS}
CLIENTS = 12
MEASURING = ("interleaved-weighted-round-robin", "time-weighted-round-robin", "fair-share")


def policy(name, **settings):
    return {"policy": {"name": name, **settings}}


def set_policy(lab, name, service_name="work"):
    lab.weirctl("service", "set", service_name, f"policy={name}")
    assert shown(lab, service_name)["policy"] == name


def weirctl_json(lab, *question):
    return json.loads(lab.weirctl(*question, "--json")[1])


def shown(lab, service_name="work"):
    return weirctl_json(lab, "service", "show", service_name)[0]


def counts(lab, field="new_flows", service_name="work"):
    """Returns {backend: value of a counter}, as shown by weirctl."""
    return Counter({b["name"]: b[field]
                    for b in weirctl_json(lab, "backend", "show", service_name + "/")})


def shares(lab, field):
    """Returns {backend: a field of its row} in `weirctl service show work`."""
    return {row["backend"]: row[field] for row in shown(lab)["shares"]}


def service_times_ms(lab):
    """Returns {backend: mean or median service time, as configured}; None = unknown or not measured."""
    return shares(lab, "service_time_ms")


def final_service_times_ms(lab):
    """Returns the service times after control has read the samples of all flows: no flow is open,
    and nothing changes in 0.5 s, which is several ticks of control."""
    def unchanged():
        before = (shares(lab, "samples"), service_times_ms(lab))
        time.sleep(0.5)
        return (before == (shares(lab, "samples"), service_times_ms(lab))
                and not any(shares(lab, "open_flows").values()))
    wait_for("service times of all flows", unchanged, 10)
    return service_times_ms(lab)


def measured(lab, servers, count, at_once=CLIENTS):
    """Make `count` requests. Returns the number for each backend. The counts of weirctl, servers
    and clients must be equal."""
    flows, accepted = counts(lab), servers.accepted()
    with Work(lab.client, at_once, count) as load:
        load.join()
    served = load.served()
    wait_for(f"weirctl to count {dict(served)}", lambda: counts(lab) - flows == served, 3)
    assert servers.accepted() - accepted == served, (servers.accepted() - accepted, served)
    return load


def warm_up(lab, servers, count=200):
    """Wait until control has each backend's service time."""
    def known():
        measured(lab, servers, count)
        return all(service_times_ms(lab).values())
    wait_for("service times of all backends", known, 20)


def spread(served, names=BACKENDS):
    """Returns the load of the most loaded backend divided by the load of the least loaded backend."""
    least = min(served[name] for name in names)
    return max(served.values()) / least if least else math.inf


# --- shares -------------------------------------------------------------------------------------

def near(served, parts, factor):
    """Check that each share differs from the share in `parts` by less than this factor."""
    total, whole = sum(served.values()), sum(parts.values())
    for name, part in parts.items():
        wanted = total * part / whole
        assert wanted / factor < served[name] < wanted * factor, \
            f"{name} got {served[name]} of {total}, wanted {wanted:.0f}: {dict(served)}"


def by_chance(served, parts):
    """Check that shares of random choices are within five standard deviations (one false failure in a million)."""
    total, whole = sum(served.values()), sum(parts.values())
    for name, part in parts.items():
        share = part / whole
        slack = 5 * (total * share * (1 - share)) ** 0.5
        assert abs(served[name] - total * share) < slack, \
            f"{name} got {served[name]} of {total}, wanted {total * share:.0f}: {dict(served)}"


def exact(served, parts, slack):
    total, whole = sum(served.values()), sum(parts.values())
    for name, part in parts.items():
        wanted = total * part / whole
        assert abs(served[name] - wanted) <= slack, \
            f"{name} got {served[name]} of {total}, wanted {wanted:.1f}: {dict(served)}"


def costs(load):
    """Returns {backend: mean service time, ms}, as measured by the clients."""
    missing = set(BACKENDS) - set(load.served())
    assert not missing, f"nothing for {missing}: {dict(load.served())}"
    return {name: load.mean_ms(name) for name in BACKENDS}


def inverse_to_cost(load, ms=None, factor=1.6):
    near(load.served(), {name: 1 / cost for name, cost in (ms or costs(load)).items()}, factor)


def weight_by_duration(load):
    """Check that flows in progress follow the weights, so that shares of new flows are weights over service times."""
    near(load.served(), {name: WEIGHTS[name] / cost for name, cost in costs(load).items()}, 2)


def weight_over_cost(load):
    """Check shares by weight and service time: a backend's turn ends when the sum of its flows' service times reaches its weight in ms."""
    near(load.served(), {name: math.ceil(WEIGHTS[name] / cost)
                         for name, cost in costs(load).items()}, 1.5)


def as_weirctl_says(lab, load):
    """Check that shares agree with the target shares in `weirctl service show`. Also check the achieved shares that it prints."""
    near(load.served(), shares(lab, "effective_share_percent"), 1.7)
    achieved = shares(lab, "achieved_share_percent")
    assert 99 < sum(achieved.values()) < 101, achieved


def smaller_share_for_the_slow(load):
    served = load.served()
    assert served["web-1"] > served["web-2"] > served["web-4"], dict(served)
    assert served["web-4"] < 0.7 * sum(served.values()) / 4, dict(served)


PROMISES = {
    # 225 of 900 flows each; a tolerance of 0.8 allows no difference, because
    # counts are integers
    "round-robin": lambda load: exact(load.served(), EQUAL, 0.8),
    "random": lambda load: by_chance(load.served(), EQUAL),
    "maglev": lambda load: by_chance(load.served(), WEIGHTS),
    "weighted-round-robin": lambda load: exact(load.served(), WEIGHTS, 4),
    "power-of-two": smaller_share_for_the_slow,
    "least-loaded": weight_by_duration,
    "fair-share": inverse_to_cost,
    "time-weighted-round-robin": weight_over_cost,
    "interleaved-weighted-round-robin": weight_over_cost,
}
# These policies aim at equal load, not at specified shares of flows.
UNPLANNED = ("least-loaded", "power-of-two")
FLOWS = 900


@scenario(alone=True, services=[work(backends=WEIGHTS, **policy("round-robin"))])
def policies_give_the_documented_shares(lab):
    """Measures the shares of nine policies with four backends of 10 to 80 ms, and prints one table"""
    servers = Servers(lab, MILLISECONDS.values())
    rows, problems = [], []
    for name, promise in PROMISES.items():
        set_policy(lab, name)
        if name in MEASURING:
            warm_up(lab, servers)
        load = measured(lab, servers, FLOWS)
        served = load.served()
        rows.append(f"{name:34}" + "".join(f"{100 * served[b] / FLOWS:7.1f}" for b in BACKENDS)
                    + f"{spread(served):8.2f}{FLOWS / load.seconds():9.0f}{load.mean_ms():8.1f}")
        try:
            promise(load)
            if name not in UNPLANNED:
                as_weirctl_says(lab, load)
        except AssertionError as problem:
            problems.append(f"{name}: {problem}")
    print("\n    service time (ms)                  "
          + "".join(f"{ms:7}" for ms in MILLISECONDS.values())
          + "\n    weight                             "
          + "".join(f"{weight:7}" for weight in WEIGHTS.values())
          + f"\n    {FLOWS} flows, {CLIENTS} clients: % of        "
          + "".join(f"{name:>7}" for name in BACKENDS) + "  spread  flows/s mean ms\n    "
          + "\n    ".join(rows), flush=True)
    assert not problems, "\n".join(problems)


# --- round robin, one worker and several -----------------------------------------------------

def equal_shares(lab, workers):
    """Check that shares of round robin and weighted round robin differ by at most one flow per worker."""
    servers = Servers(lab, (2, 2, 2, 2))
    for name, parts in (("round-robin", EQUAL), ("weighted-round-robin", WEIGHTS)):
        set_policy(lab, name)
        for flows in (40, 402):
            served = measured(lab, servers, flows).served()
            exact(served, parts, workers * (1 if parts is EQUAL else 2))
    used = [w["flow_new"] for w in lab.api("worker.show")]
    assert len(used) == workers and all(n > 884 / workers / 2 for n in used), used


@scenario(services=[work(backends=WEIGHTS, **policy("round-robin"))])
def round_robin_is_exact(lab):
    """Round robin over four equal servers: no server is more than one flow ahead"""
    equal_shares(lab, 1)


@scenario(workers={"cores": [0, 1, 1]}, services=[work(backends=WEIGHTS, **policy("round-robin"))])
def round_robin_of_three_workers_is_exact(lab):
    """With three workers behind the software distributor, round robin shares differ by at most one flow per worker"""
    equal_shares(lab, 3)


# --- long connections -----------------------------------------------------------------------------

@scenario(services=[lines(backends=dict(zip(BACKENDS, (100, 200, 300, 400))), **policy("least-loaded"))])
def least_loaded_holds_connections_by_weight(lab):
    """Open connections follow the weights, also after the connections of one backend have ended"""
    def held():
        return Counter(line.backend for line in found)

    found = [clients.Line(lab.client, VIP4) for _ in range(100)]
    assert held() == {"web-1": 10, "web-2": 20, "web-3": 30, "web-4": 40}, held()
    for line in [line for line in found if line.backend == "web-3"]:
        line.close()
        found.remove(line)
    wait_for("the ends to be counted", lambda: lab.backend("web-3", "lines")["open_flows"] == 0)
    again = Counter()
    for _ in range(30):
        found.append(clients.Line(lab.client, VIP4))
        again[found[-1].backend] += 1
    assert again == {"web-3": 30}, again
    lab.weirctl("weight", "set", "lines/web-1", "400")
    lab.wait_published()
    found += [clients.Line(lab.client, VIP4) for _ in range(30)]
    assert held() == {"web-1": 40, "web-2": 20, "web-3": 30, "web-4": 40}, held()
    for line in found:
        line.close()


# --- failing backends --------------------------------------------------------------------------

SINKHOLE = "web-1"


@scenario(services=[work(**policy("least-loaded"))],
          config={"flow_table": {"flows_per_worker": 65536, "timeout_ms": {"syn_seen": 500}}})
def least_loaded_leaves_a_sinkhole(lab):
    """Least-loaded stops sending new flows to a refusing backend within a second; round robin does not"""
    servers = Servers(lab, (20, 20, 20, 20))
    with Work(lab.client, CLIENTS) as load:
        load.wait_for_more(200)
        servers.tell(SINKHOLE, "refuse")
        refused = time.monotonic()
        load.wait_until(refused + 3)

        def share(first, last):
            began = load.began(first, last)
            return sum(1 for s in began if s.error) / len(began)

        # Here half-open flows last 0.5 s, and then count as errors for 1 s. In both states they
        # count as load.
        first, second, third = (share(refused + n, refused + n + 1) for n in range(3))
        print(f"(refused: {100 * first:.1f} %, {100 * second:.1f} %, {100 * third:.1f} % in the "
              "first seconds", end="", flush=True)
        assert second < 0.05 and third < 0.05, (first, second, third)
        assert counts(lab, "errors")[SINKHOLE] >= 1, counts(lab, "errors")
        set_policy(lab, "round-robin")
        changed = time.monotonic()
        load.wait_until(changed + 1)
        with_round_robin = share(changed, changed + 1)
        print(f"; round robin {100 * with_round_robin:.1f} %) ", end="", flush=True)
        assert 0.22 < with_round_robin < 0.28, with_round_robin
        assert with_round_robin > 5 * second
        set_policy(lab, "least-loaded")
        servers.tell(SINKHOLE, "work")
        wait_for(f"{SINKHOLE} to get flows again",
                 lambda: load.served(since=time.monotonic() - 0.5)[SINKHOLE]
                 > 0.15 * len(load.began(time.monotonic() - 0.5)), 10)


@scenario(services=[work(**policy("least-loaded"))])
def least_loaded_avoids_a_stuck_server(lab):
    """A server that accepts and never answers gets few flows with least-loaded; with round robin it blocks all clients"""
    servers = Servers(lab, (20, 20, 20, 20))
    with Work(lab.client, CLIENTS) as load:
        load.wait_for_more(200)
        # The server replies with the number of connections that it had accepted when it got stuck.
        before = servers.tell(SINKHOLE, "stuck")
        accepted = servers.accepted()
        accepted[SINKHOLE] = before
        load.wait_for_more(450)
        got = servers.accepted() - accepted
        # Each waiting client has a flow at the stuck server. Each of the other three backends serves
        # a third of the other clients. When the stuck server has as many flows as each of these
        # backends, it gets no more flows.
        assert got[SINKHOLE] <= CLIENTS / 3 + 1, got
        assert got[SINKHOLE] < 0.05 * sum(got.values()), got
        assert not load.errors(), load.errors()[:3]
        set_policy(lab, "round-robin")
        wait_for("every client stuck with round robin",
                 lambda: (servers.accepted() - accepted)[SINKHOLE] == CLIENTS, 10)
        print(f"(holds {got[SINKHOLE]} of {CLIENTS} clients; round robin: all) ", end="")


# --- flow control ------------------------------------------------------------------------------

def limited(when):
    return {"flow_control": {"max_active_flows": 2, "when_exhausted": when}}


@scenario(services=[lines(**policy("round-robin"), **limited("reject"))])
def flow_control_rejects_and_recovers(lab):
    """At a limit of two flows per backend, the ninth flow is rejected and counted; after a flow ends, a new flow is served"""
    opened = [clients.Line(lab.client, VIP4) for _ in range(8)]
    try:
        assert Counter(line.backend for line in opened) == {name: 2 for name in BACKENDS}
        for _ in range(2):
            try:
                clients.Line(lab.client, VIP4, timeout=0.3).close()
                raise AssertionError("a ninth flow was accepted")
            except TimeoutError:
                pass
        service = shown(lab, "lines")
        assert service["rejected"] >= 2 and service["spilled"] == 0, service
        assert lab.drops().get("flow_control", 0) >= 2, lab.drops()
        for question in (("service", "show"), ("service", "show", "lines")):
            _, out, _ = lab.weirctl(*question)
            assert "every backend was at max_active_flows" in out, out
        _, out, _ = lab.weirctl("stats", "show")
        assert "flow_control" in out, out
        code, out, _ = lab.weirctl("status", check=False)
        assert code == 1 and re.search(r"WARNING: \d+ new flows rejected in the last minute, because every "
                                       r"backend was at max_active_flows: lines", out), (code, out)
        _, out, _ = lab.weirctl("flow", "lookup", "tcp", "192.0.2.2:1", f"{VIP4}:7000")
        assert re.search(r"every backend was at max_active_flows for \d+ new flows in the last minute: \d+ "
                         "rejected; when_exhausted is reject: such flows are dropped", out), out
        _, out, _ = lab.weirctl("doctor", check=False)
        assert re.search("warning +services +lines +rejected new flows in the last minute", out), out
        left = opened.pop()
        left.close()
        wait_for("the flow to end",
                 lambda: counts(lab, "open_flows", "lines")[left.backend] == 1, 3)
        opened.append(clients.Line(lab.client, VIP4))
        assert opened[-1].backend == left.backend, opened[-1].backend
        for line in opened:
            assert line.ask() == line.backend
        for after in (limited("spill"), {}):  # the flows were rejected, whatever is configured now
            lab.services[0].pop("flow_control", None)
            lab.services[0].update(after)
            lab.write_config()
            lab.weirctl("config", "reload")
            code, out, _ = lab.weirctl("status", check=False)
            assert code == 1 and "rejected in the last minute" in out, (code, out)
            for question in (("service", "show"), ("flow", "lookup", "tcp", "192.0.2.2:1", f"{VIP4}:7000")):
                _, out, _ = lab.weirctl(*question)
                assert re.search(r"in the last minute: \d+ rejected; when_exhausted is spill", out), out
    finally:
        for line in opened:
            line.close()


@scenario(services=[lines(**policy("round-robin"), **limited("spill"))])
def flow_control_spills_to_the_least_loaded(lab):
    """At a limit of two flows per backend, more flows go to the least loaded backend, and are counted as spilled"""
    opened = []
    try:
        for count in range(1, 17):
            opened.append(clients.Line(lab.client, VIP4))
            held = Counter(line.backend for line in opened)
            assert max(held.values()) <= math.ceil(count / 4), held
        assert shown(lab, "lines")["spilled"] == 8, shown(lab, "lines")
        assert shown(lab, "lines")["rejected"] == 0
        assert sum(counts(lab, "spilled", "lines").values()) == 8
        for line in opened[4:]:
            line.close()
        opened = opened[:4]
        wait_for("flows to end", lambda: sum(counts(lab, "open_flows", "lines").values()) == 4, 3)
        for _ in range(4):
            opened.append(clients.Line(lab.client, VIP4))
        assert shown(lab, "lines")["spilled"] == 8, "spilled although there was room"
    finally:
        for line in opened:
            line.close()


# --- policy changes ------------------------------------------------------------------------------

def next_flows_are_even(lab, service_name="web"):
    """Check that round robin applies at once: each backend gets ten of the next 40 flows."""
    flows = counts(lab, "new_flows", service_name)
    result = clients.curl_batch(lab.client, VIP4, 40)
    assert not result.failed and dict(result.served) == {name: 10 for name in BACKENDS}, \
        (result.served, result.errors[:3])
    wait_for("40 flows counted",
             lambda: counts(lab, "new_flows", service_name) - flows == result.served, 3)


@scenario(services=[web(**policy("round-robin")), lines(**policy("round-robin"))])
def s6_policy_changes_move_no_flow(lab):
    """If `service set` and reloads set every policy in turn under load, no flow moves (S6)"""
    size = 32 << 20
    digest = lab.make_file("long", size)
    downloads = [clients.Download(lab.client, VIP4, "/slow/long") for _ in range(4)]

    def check_flows():
        """Check that connections are still at their backends, and that finished downloads are intact."""
        load.wait_for_more(30)
        clients.check_lines(found)
        for i, download in enumerate(downloads):
            if not download.running():
                assert download.finish() == (0, size, digest), "a download broke"
                download.stop()
                downloads[i] = clients.Download(lab.client, VIP4, "/slow/long")

    try:
        assert {download.backend() for download in downloads} == set(BACKENDS)
        found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
        with clients.Load(lab.client, VIP4) as load:
            for name in PROMISES:
                for service_name in ("web", "lines"):
                    set_policy(lab, name, service_name)
                check_flows()
            # The configuration file still has round robin. In reverse order, the first reload
            # changes the policy, and the last reload sets round robin again.
            for name in reversed(PROMISES):
                lab.write_config([web(**policy(name)), lines(**policy(name))])
                _, out, _ = lab.weirctl("config", "reload")
                assert name in out, out
                assert shown(lab, "web")["policy"] == shown(lab, "lines")["policy"] == name
                check_flows()
        assert not load.errors(), load.errors()[:5]
        set_policy(lab, "maglev", "web")
        set_policy(lab, "round-robin", "web")
        next_flows_are_even(lab)
        lab.write_config([web(**policy("maglev")), lines(**policy("maglev"))])
        lab.weirctl("config", "reload")
        set_policy(lab, "round-robin", "web")
        lab.programs["control"].kill()
        lab.start_control()
        lab.wait_ready()
        assert shown(lab, "web")["policy"] == "round-robin", "the restarted control lost the policy"
        next_flows_are_even(lab)
        clients.check_lines(found)
        for download in downloads:
            assert download.finish() == (0, size, digest)
    finally:
        for download in downloads:
            download.stop()


# --- service times -------------------------------------------------------------------------------

@scenario(alone=True, services=[work(**policy("least-loaded", error_window_ms=1000))])
def service_times_are_correct(lab):
    """Mean and median service times agree with the clients' times; they are measured only if the policy needs them"""
    servers = Servers(lab, MILLISECONDS.values())
    measured(lab, servers, 200)
    assert not any(service_times_ms(lab).values()), service_times_ms(lab)
    lab.write_config([work(**policy("round-robin"))])
    lab.weirctl("config", "reload")
    measured(lab, servers, 100)
    assert not any(service_times_ms(lab).values()), service_times_ms(lab)
    rows = [line.split() for line in lab.weirctl("service", "show", "work")[1].splitlines()]
    assert all(row[-2:] == ["-", "-"] for row in rows if row and row[0] in BACKENDS), rows
    set_policy(lab, "fair-share")
    load = measured(lab, servers, 600)

    def agrees(expected, factor):
        def compare():
            shown_ms = service_times_ms(lab)
            for name, ms in expected.items():
                assert ms / factor < shown_ms[name] < ms * factor, (shown_ms, expected)
            return True
        wait_for("service times to agree", compare, 3)

    agrees(costs(load), 1.2)
    # A few slow requests change the mean, but not the median.
    lab.write_config([work(**policy("fair-share", statistic="median"))])
    lab.weirctl("config", "reload")
    for name in BACKENDS:
        servers.tell(name, "time 20")
    usual = measured(lab, servers, 800)
    for name in BACKENDS:
        servers.tell(name, "time 300")
    measured(lab, servers, 48)
    agrees({name: usual.mean_ms(name) for name in BACKENDS}, 1.5)


@scenario(services=[work(**policy("fair-share"))])
def fair_share_continues_without_control(lab):
    """After control is killed and started again, fair share continues with the last service times"""
    servers = Servers(lab, MILLISECONDS.values())
    warm_up(lab, servers)
    last = final_service_times_ms(lab)
    lab.programs["control"].kill()
    with Work(lab.client, CLIENTS, FLOWS // 2) as load:
        load.join()
    inverse_to_cost(load, last)
    with Work(lab.client, CLIENTS) as load:
        load.wait_for_more(50)
        lab.start_control()
        lab.wait_ready()
        load.wait_for_more(400)
        inverse_to_cost(load, last, 2)  # control already has newer times of a machine that may be slower now
        assert not load.errors(), load.errors()[:3]
    warm_up(lab, servers)


@scenario(services=[work(**policy("fair-share"))])
def fair_share_does_not_flood_a_returning_backend(lab):
    """After a drain a backend gets its share of new flows, not all new flows"""
    servers = Servers(lab, MILLISECONDS.values())
    warm_up(lab, servers)
    with Work(lab.client, CLIENTS) as load:
        lab.weirctl("backend", "drain", "work/web-1")
        drained = time.monotonic()
        load.wait_for_more(300)
        assert load.served(since=drained + 0.2)["web-1"] == 0, load.served(since=drained + 0.2)
        lab.weirctl("backend", "ready", "work/web-1")
        ready = time.monotonic()
        wait_for("web-1 in use", lambda: load.served(since=ready)["web-1"] > 0, 5)
        load.wait_for_more(150)
        served = load.served(since=ready)
        # The share of web-1 is 53 %. If it had to make up for the flows missed during the drain,
        # it would get all new flows, because the predicted ends of the other backends are seconds
        # ahead of the clock.
        assert 0.3 < served["web-1"] / sum(served.values()) < 0.75, served


# --- comparison with other policies -----------------------------------------------------------

def compared(lab, seconds=5):
    """Returns ({policy: its row}, {backend: its row}) of `weirctl policy compare work`."""
    found = json.loads(lab.weirctl("policy", "compare", "work", f"--for={seconds}s", "--json",
                                   timeout=seconds + 20)[1])
    assert found["flows"] > 0.8 * found["began"], found
    return ({row["policy"]: row for row in found["policies"]},
            {row["backend"]: row for row in found["backends"]})


@scenario(alone=True, services=[work(**policy("round-robin"))])
def policy_compare_predicts_the_shares(lab):
    """Flows recorded with round robin predict the shares of least-loaded"""
    servers = Servers(lab, MILLISECONDS.values())
    with Work(lab.client, CLIENTS):
        policies, backends = compared(lab)
        print("\n" + lab.weirctl("policy", "compare", "work", "--for=2s", timeout=20)[1])
    was, again = policies["recorded"]["spread"], policies["round-robin"]["spread"]
    assert policies["round-robin"]["in_use"] and 0.8 < again / was < 1.25, (was, again)
    assert policies["least-loaded"]["spread"] < was, policies
    for name, row in backends.items():
        assert 23 < row["shares"]["recorded"] < 27 and 23 < row["shares"]["round-robin"] < 27, row
        assert MILLISECONDS[name] <= row["time_ms"] < MILLISECONDS[name] * 1.5 + 5, row
    set_policy(lab, "least-loaded")
    with Work(lab.client, CLIENTS, FLOWS) as load:
        load.join()
    served = load.served()
    for name in BACKENDS:
        predicted, got = backends[name]["shares"]["least-loaded"], 100 * served[name] / FLOWS
        print(f"    {name}: predicted {predicted:5.1f} %, got {got:5.1f} %")
        assert predicted / 1.6 < got < predicted * 1.6, (name, predicted, got)
    assert servers.accepted()
    set_policy(lab, "round-robin")


@scenario(services=[echo(**policy("least-loaded"))],
          config={"flow_table": {"flows_per_worker": 65536, "timeout_ms": {"udp": 4000}}})
def policy_compare_leaves_out_earlier_flows(lab):
    """UDP flows that began in an earlier recording, and time out in the next one, are not in the next one"""
    def compare(seconds):
        return subprocess.Popen([lab.binary("weirctl"), "--run-dir", lab.run_dir, "policy",
                                 "compare", "echo", f"--for={seconds}s", "--json"],
                                text=True, stdout=subprocess.PIPE)

    first = compare(2)
    time.sleep(0.5)
    sessions = [clients.Udp(lab.client, VIP4) for _ in range(10)]
    for _ in range(3):
        for session in sessions:
            session.ask()
        time.sleep(0.05)
    found = json.loads(first.communicate(timeout=30)[0])
    assert found["began"] == 10 and found["flows"] == 0, found
    found = json.loads(compare(6).communicate(timeout=40)[0])
    assert found["began"] == found["flows"] == 0, found
