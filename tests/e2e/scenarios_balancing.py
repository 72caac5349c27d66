# SPDX-License-Identifier: BSD-3-Clause
"""Policy and weights determine the backend of new flows; existing flows keep their backend."""
import contextlib
import json
import shutil
import signal
import threading
import time

import clients
from lab import BACKENDS, VIP4, VIP6, echo, lines, make_random_file, upload, web
from netns import wait_for
from scenario import scenario

FALL, INTERVAL_S = 3, 0.4  # options of the health check of web() in lab.py


@scenario(services=[web(backends={"web-1": 100, "web-2": 200, "web-3": 300, "web-4": 400})])
def shares_follow_weights(lab):
    """Each backend's share of slots is within 1 % of its weight; 1,000 connections follow the weights"""
    wanted = {"web-1": 10.0, "web-2": 20.0, "web-3": 30.0, "web-4": 40.0}
    for backend in lab.backends():
        share = wanted[backend["name"]]
        assert abs(backend["share_percent"] - share) <= share / 100, backend
    result = clients.curl_batch(lab.client, VIP4, 1000)
    assert result.ok == 1000, result.errors[:5]
    for name, share in wanted.items():
        # five standard deviations of a binomial distribution: about one false failure in a
        # million runs
        slack = 5 * (1000 * share / 100 * (1 - share / 100)) ** 0.5
        assert abs(result.served[name] - 10 * share) < slack, dict(result.served)
    wait_for(f"the counters to agree with {dict(result.served)}",
             lambda: {b["name"]: b["new_flows"] for b in lab.backends()} == dict(result.served), 2)


@scenario(short=True, services=[web(), lines()])
def drain_keeps_flows(lab):
    """A drained host keeps its connections, and gets no new connections in any service until it is ready"""
    size = 24 << 20
    digest = lab.make_file("long", size)
    download = clients.Download(lab.client, VIP4, "/files/long", held=True)
    name = download.backend()
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    address = lab.backend(name)["address"]
    assert lab.weirctl("host", "drain", address)[1].startswith(
        f"{address}: drain, 2 backends in 2 services, ")
    for service_name in ("web", "lines"):
        assert lab.backend(name, service_name)["admin"] == "drain"
    result = clients.curl_batch(lab.client, VIP4, 200)
    assert result.ok == 200 and name not in result.served, (result.errors[:5], result.served)
    for _ in range(40):
        with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
            assert line.backend != name, f"a new connection reached {name}, which drains"
    clients.check_lines(found)
    assert download.running(), "the download ended before anything could be shown"
    assert lab.backend(name)["active_flows"] >= 1
    assert download.finish() == (0, size, digest)
    lab.weirctl("host", "ready", address)
    clients.check_lines(found)
    result = clients.curl_batch(lab.client, VIP4, 200)
    assert result.ok == 200 and result.served[name] > 0, result.served


def drain_and_wait(lab, name, interval):
    """Run `weirctl backend drain --wait`. Returns its exit status, its last line, and its duration."""
    began = time.monotonic()
    code, text, _ = lab.weirctl("backend", "drain", f"lines/{name}", f"--interval={interval}",
                                "--wait", check=False)
    return code, text.splitlines()[-1], time.monotonic() - began


@scenario(services=[lines(drain={"at_deadline": "drop"})])
def drain_waits_for_the_last_flow(lab):
    """drain --wait exits when the last connection ends; at the deadline, remaining connections get an RST"""
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    quick, slow = found["web-1"], found["web-2"]
    closing = threading.Timer(1.5, quick.close)
    closing.start()
    code, last, took = drain_and_wait(lab, "web-1", "8s")
    closing.join()
    assert code == 0 and last.startswith("lines/web-1: drained after") and 1.4 < took < 4, (last, took)
    assert lab.backend("web-1", "lines")["drain"]["state"] == "drained"
    code, last, took = drain_and_wait(lab, "web-2", "1500ms")
    assert code == 0 and last.endswith(", 1 open flow dropped (maintenance)") and 1.4 < took < 3, (last, took)
    assert lab.backend("web-2", "lines")["admin"] == "maintenance"
    try:
        slow.ask()
        raise AssertionError("the connection is still open after the drain has ended")
    except OSError:
        pass
    for name in ("web-3", "web-4"):
        assert found[name].ask() == name
    lab.weirctl("backend", "ready", "lines/web-2")
    assert lab.backend("web-2", "lines")["drain"] is None
    lab.write_config([lines()])  # without "reset", flows stay after the deadline
    lab.weirctl("config", "reload")
    code, last, _ = drain_and_wait(lab, "web-3", "300ms")
    assert code == 4 and last.endswith(", 1 open flow kept"), (code, last)
    assert found["web-3"].ask() == "web-3"


@scenario(services=[lines(), echo()])
def host_drain_waits_for_removed_backends(lab):
    """host drain --wait also waits for backends that a reload removed, before or during the drain"""
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    before, meanwhile = (lab.backend(name, "lines")["address"] for name in ("web-4", "web-3"))
    lab.write_config([lines(backends={"web-1": 100, "web-2": 100, "web-3": 100}), echo()])
    lab.weirctl("config", "reload")
    code, text, _ = lab.weirctl("host", "drain", "--interval=300ms", "--wait", before, check=False)
    assert code == 4 and text.splitlines()[-1].endswith(", 1 open flow kept (lines/web-4)"), (code, text)
    assert found["web-4"].ask() == "web-4"
    results = []
    waiting = threading.Thread(target=lambda: results.append(
        lab.weirctl("host", "drain", "--wait", meanwhile, check=False)))
    waiting.start()

    def shown():
        return lab.api("host.show", address=meanwhile)
    wait_for("the drain", lambda: shown()["draining"] == 1, 5)
    lab.write_config([dict(lines(backends={"web-1": 100, "web-2": 100}), name="renamed"),
                      echo(backends={"web-1": 100, "web-2": 100})])
    lab.weirctl("config", "reload")
    host = shown()
    assert (host["backends"], host["removed"], host["open_flows"]) == (0, 1, 1), host
    assert waiting.is_alive() and found["web-3"].ask() == "web-3"
    found["web-3"].close()
    waiting.join(30)
    code, text, err = results[0]
    assert code == 0 and f"{meanwhile}: drained after " in text, (code, text, err)


@scenario(services=[lines()])
def drain_waits_for_a_former_address(lab):
    """backend drain --wait also waits for connections to the backend's former address"""
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    former = lab.backend("web-4", "lines")["address"]
    config = lines(backends={"web-1": 100, "web-2": 100, "web-4": 100})
    for backend in config["backends"]:
        if backend["name"] == "web-4":
            backend["address"] = lab.backend("web-3", "lines")["address"]
    lab.write_config([config])
    lab.weirctl("config", "reload")
    code, last, _ = drain_and_wait(lab, "web-4", "300ms")
    assert code == 4 and last.endswith(
        f", 1 open flow kept; includes 1 open flow of its previous address {former}"), (code, last)
    assert found["web-4"].ask() == "web-4"
    closing = threading.Timer(1.5, found["web-4"].close)
    closing.start()
    code, last, took = drain_and_wait(lab, "web-4", "20s")
    closing.join()
    assert code == 0 and last.startswith("lines/web-4: drained after") and 1.4 < took < 15, (last, took)


@scenario(services=[lines()])
def maintenance_gets_no_new_flows(lab):
    """A backend in maintenance gets no new flows; if all backends are in maintenance, new connections fail"""
    for name in BACKENDS[:3]:
        assert "warning" not in lab.weirctl("backend", "maintenance", name)[1]
    assert lab.weirctl("backend", "drain", "web-4")[1].endswith(
        "\nwarning: no backend of service lines is ready: new flows still go to web-4\n")
    assert lab.weirctl("weight", "set", "web-4", "0")[1].endswith(
        "\nwarning: service lines has no backend for new flows\n")
    lab.weirctl("weight", "set", "web-4", "configured")
    lab.weirctl("backend", "ready", "web-4")
    for _ in range(20):
        with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
            assert line.backend == "web-4", line.backend
    assert lab.weirctl("backend", "maintenance", "web-4")[1].endswith(
        "\nwarning: service lines has no backend for new flows\n")
    try:
        clients.Line(lab.client, VIP4, timeout=0.5)
        raise AssertionError("served although every backend is in maintenance")
    except OSError:
        pass
    assert lab.drops().get("no_backend", 0) >= 1, lab.drops()
    lab.weirctl("backend", "ready", "web-2")
    with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
        assert line.backend == "web-2"


@scenario(short=True)
def killed_backend_is_avoided(lab):
    """If a backend under load is killed, it gets no new connections after fall x interval"""
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(100)
        lab.kill_backend(2)
        killed = time.monotonic()
        wait_for("web-2 refusing", lambda: lab.backend("web-2")["health"] == "refusing", 5)
        avoided = time.monotonic()
        lab.wait_published()
        adopted = time.monotonic()
        load.wait_for_more(200)
        assert not load.errors(since=adopted), load.errors(since=adopted)[:5]
        assert "web-2" not in load.served(since=killed + 0.05)
        # FALL failed checks, at most one interval before the first failed check, and 0.5 s for a
        # busy machine
        limit = FALL * INTERVAL_S + INTERVAL_S + 0.5
        assert avoided - killed < limit, f"{avoided - killed:.2f} s, limit {limit:.2f} s"
        lab.start_nginx(2)
        wait_for("web-2 healthy", lambda: lab.backend("web-2")["health"] == "healthy", 5)
        back = time.monotonic()
        load.wait_for_more(200)
    assert load.served(since=back)["web-2"] > 0
    assert not load.errors(since=back), load.errors(since=back)[:5]


def checked_echo(backends=None):
    return echo(backends, check={"type": "tcp", "port": 7000})


@scenario(services=[checked_echo()])
def udp_flow_leaves_a_dead_backend(lab):
    """When the host of a UDP flow's backend stops, another backend answers the next datagram of the flow"""
    for vip in (VIP4, VIP6):
        session = clients.Udp(lab.client, vip)
        name = session.ask()
        assert session.ask() == name
        before = lab.backend(name, "echo")["rehashed"]
        lab.stop_host(name[-1])
        wait_for(f"{name} refusing", lambda: lab.backend(name, "echo")["health"] == "refusing", 5)
        lab.wait_published()
        found = session.ask()
        assert found != name and session.ask() == found, found
        wait_for("the move to be counted",
                 lambda: lab.backend(name, "echo")["rehashed"] == before + 1, 2)
        lab.start_host(name[-1])
        wait_for("every backend usable", lab.all_usable, 10)
        assert session.ask() == found, "moved back"
        lab.weirctl("backend", "maintenance", found)
        wait_for("the flow to move", lambda: session.ask() != found, 2)
        lab.weirctl("backend", "ready", found)
        session.close()
    session = clients.Udp(lab.client, VIP4)
    name = session.ask()
    lab.write_config([checked_echo({other: 100 for other in BACKENDS if other != name})])
    lab.weirctl("config", "reload")
    wait_for("the flow to leave a removed backend", lambda: session.ask() != name, 2)
    session.close()


def down_lines(what):
    return lines(check={"type": "tcp"}, on_backend_down=what)


@scenario(services=[down_lines("keep")])
def tcp_client_of_a_dead_backend_gets_an_rst(lab):
    """When a backend's host stops, its connections hang (on_backend_down keep) or get an RST (rehash, reset)"""
    def ask(line):
        try:
            return line.ask()
        except TimeoutError:
            return "silence"
        except ConnectionResetError:
            return "reset"

    found = {}  # VIP: (a connection to web-1, a connection to another backend)
    for vip in (VIP4, VIP6):
        each = clients.line_per_backend(lab.client, vip, BACKENDS)
        for line in each.values():
            line.sock.settimeout(1)
        found[vip] = each
    lab.stop_host(1)
    wait_for("web-1 refusing", lambda: lab.backend("web-1", "lines")["health"] == "refusing", 5)
    lab.wait_published()
    for vip in (VIP4, VIP6):
        assert ask(found[vip].pop("web-1")) == "silence", "keep, but something answered"
    assert lab.backend("web-1", "lines")["reset"] == 0
    clients_of = {}
    for number, what in ((2, "rehash"), (3, "reset")):
        lab.write_config([down_lines(what)])
        lab.weirctl("config", "reload")
        lab.stop_host(number)
        name = f"web-{number}"
        if number == 2:
            wait_for(f"{name} refusing",
                     lambda: lab.backend("web-2", "lines")["health"] == "refusing", 5)
        else:  # a third failed backend would cause panic: put it into maintenance instead
            lab.weirctl("backend", "maintenance", name)
        lab.wait_published()
        clients_of[what] = [ask(found[vip].pop(name)) for vip in (VIP4, VIP6)]
        one, other = ("rehashed", "reset") if number == 2 else ("reset", "rehashed")
        wait_for("the flows to be counted", lambda: lab.backend(name, "lines")[one] >= 2)  # 3 if a client retransmits
        assert lab.backend(name, "lines")[other] == 0, lab.backend(name, "lines")
    assert clients_of == {"rehash": ["reset"] * 2, "reset": ["reset"] * 2}, clients_of
    wait_for("the drops", lambda: lab.drops().get("backend_down", 0) >= 2)
    for vip in (VIP4, VIP6):
        clients.check_lines(found[vip])


@scenario(services=[web()])
def panic_uses_all_backends(lab):
    """Below the panic threshold all backends are used again, and service show reports the panic"""
    for number in (1, 2, 3):
        lab.kill_backend(number)
    wait_for("panic", lambda: lab.api("service.show", service="web")[0]["panic"], 5)
    for number in (1, 2, 3):
        lab.start_nginx(number)
    result = wait_for("service without errors",
                      lambda: (lambda r: r if not r.failed else None)(
                          clients.curl_batch(lab.client, VIP4, 60)), 5)
    assert result.ok == 60
    wait_for("no panic", lambda: not lab.api("service.show", service="web")[0]["panic"], 5)


@scenario(short=True, services=[upload(), lines()])
def s6_weight_changes_move_no_flow(lab):
    """Weight changes, up to 100 a second, move no long upload and no open connection (S6)"""
    size = 128 << 20
    path = lab.dir + "/upload"
    digest = make_random_file(path, size)
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    stopping, changes, problems = threading.Event(), [0], []

    def change():
        sock = lab.api_connect()
        start = time.monotonic()
        while not stopping.is_set():
            name = BACKENDS[changes[0] % 4]
            for service_name in ("upload", "lines"):
                answer = lab.api_ask(sock, "weight.set", service=service_name, backend=name,
                                     weight=1 + (changes[0] * 37) % 200)
                if not answer["ok"]:
                    problems.append(answer)
            changes[0] += 1
            stopping.wait(max(0, start + changes[0] / 100 - time.monotonic()))
        sock.close()

    generation = lab.api("service.show", service="upload")[0]["generation"]
    changer = threading.Thread(target=change, daemon=True)
    changer.start()
    try:
        for vip in (VIP4, VIP6):
            before = changes[0]
            name, received, seen = clients.send_file(lab.client, vip, path)
            assert (received, seen) == (size, digest), f"{name} got {received} bytes, {seen}"
            assert changes[0] > before, f"no change during the upload to {vip}"
            clients.check_lines(found)
        wait_for("300 changes", lambda: changes[0] >= 300, 60)
        clients.check_lines(found)
    finally:
        stopping.set()
        changer.join()
    assert not problems, problems[:3]
    republished = lab.api("service.show", service="upload")[0]["generation"]
    assert republished > generation, "the weight changes published nothing"


@scenario(short=True, services=[lines()],
          config={"flow_table": {"flows_per_worker": 65536, "timeout_ms": {"closing": 1000}}})
def removed_backend_keeps_its_id_while_flows_refer_to_it(lab):
    """The id of a removed backend is not reused for a new backend while the removed backend has flows"""
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    ids = {b["name"]: b["id"] for b in lab.backends()}
    lab.write_config([lines(backends={"web-1": 100, "web-2": 100, "web-3": 100})])
    lab.weirctl("config", "reload")
    gone = next((b for b in lab.backends() if b["name"] == "web-4"), None)
    assert gone and gone["leaving"] and not gone["in_selection"], gone
    new = [{"name": f"new-{n}", "address": f"10.0.0.1{n}", "weight": 100} for n in (1, 2, 3)]
    services = [lines(backends={"web-1": 100, "web-2": 100, "web-3": 100})]
    services[0]["backends"] += new
    lab.write_config(services)
    lab.weirctl("config", "reload")
    clients.check_lines(found)
    now = {b["name"]: b["id"] for b in lab.backends()}
    assert ids["web-4"] not in [v for k, v in now.items() if k != "web-4"], now
    assert all(now[name] == ids[name] for name in BACKENDS[:3]), (ids, now)
    clients.check_lines(found)
    found["web-4"].close()
    found.pop("web-4")
    # The flow ends when the `closing` timeout after its FIN expires. Then a new backend can get
    # the id.
    wait_for("web-4 released",
             lambda: "web-4" not in [b["name"] for b in lab.backends()], 20, 0.1)
    services[0]["backends"].append({"name": "late", "address": "10.0.0.14", "weight": 100})
    lab.write_config(services)
    lab.weirctl("config", "reload")
    assert next(b for b in lab.backends() if b["name"] == "late")["id"] == ids["web-4"]
    clients.check_lines(found)


@scenario(short=True, services=[lines(), echo()])
def reload_changes_only_what_differs(lab):
    """config diff shows changes, config reload applies them; states and flows are kept"""
    def generations():
        return {s["name"]: s["generation"] for s in lab.api("service.show")}

    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    undrained = generations()["echo"]
    lab.weirctl("backend", "drain", "echo/web-1")
    wait_for("the selection without the drained backend", lambda: generations()["echo"] != undrained, 5)
    before = generations()
    lab.write_config([lines(backends={"web-1": 100, "web-2": 100, "web-3": 50}), echo()])
    changes = lab.api("config.diff")["changes"]
    whats = " ".join(c["kind"] + " " + c["what"] for c in changes)
    assert "web-4" in whats and "web-3" in whats and "web-1" not in whats, changes
    assert "echo" not in whats, changes
    # The answer contains the number of open flows that each change affects. Each backend has one
    # open connection.
    costs = {c["what"]: c.get("cost") for c in changes}
    assert costs["service lines backend web-4"] == {
        "effect": "stay", "flows": 1, "text": "1 open flow: TCP flows stay until they end"}, costs
    assert costs["service lines backend web-3 weight"] is None, costs
    code, out, _ = lab.weirctl("config", "reload")
    assert "weight 100 (1 open flow: TCP flows stay until they end)" in out, out
    assert code == 0 and "web-4" in out and "web-3" in out, out
    assert lab.api("config.diff")["changes"] == []
    after = generations()
    assert after["lines"] != before["lines"] and after["echo"] == before["echo"], (before, after)
    assert lab.backend("web-1", "echo")["admin"] == "drain"
    clients.check_lines(found)


@scenario(services=[web()])
def sighup_reloads(lab):
    """SIGHUP makes control reload its own configuration file, even after a reload of another file"""
    lab.write_config([web(backends={"web-2": 100})])
    other = lab.config_path + ".other"
    shutil.copy(lab.config_path, other)
    _, out, err = lab.weirctl("config", "reload", other)
    assert f" in {other}" in out and f"then {lab.config_path} is used" in err, (out, err)
    lab.write_config([web(backends={"web-1": 100})])
    lab.programs["control"].signal(signal.SIGHUP)
    wait_for("only web-1 left", lambda: [b["name"] for b in lab.backends() if not b["leaving"]]
             == ["web-1"], 5)
    result = clients.curl_batch(lab.client, VIP4, 30)
    assert dict(result.served) == {"web-1": 30}, (result.served, result.errors[:3])


@scenario(short=True, services=[web()])
def bad_reload_changes_nothing(lab):
    """A file with an error is rejected with line, path and reason; the old configuration stays"""
    before = lab.backends()
    services = [web(backends={"web-1": 100, "web-2": 70000})]
    services[0]["polici"] = {}
    lab.write_config(services)
    code, out, err = lab.weirctl("config", "reload", check=False)
    text = out + err
    assert code == 1, f"exit {code}: {text}"
    for word in ("services[0].backends[1].weight", "polici"):
        assert word in text, text
    with open(lab.config_path, "w", encoding="utf-8") as file:
        file.write('{"services": [')
    code, out, err = lab.weirctl("config", "reload", check=False)
    assert code == 1 and (out + err).strip(), f"exit {code}: {out}{err}"
    for old, new in zip(before, lab.backends()):
        assert (old["name"], old["id"], old["effective_weight"]) \
            == (new["name"], new["id"], new["effective_weight"])
    result = clients.curl_batch(lab.client, VIP4, 60)
    assert result.ok == 60, result.errors[:3]


@scenario(short=True, services=[web(), lines()])
def weirctl_shows_the_state(lab):
    """Output that scripts depend on: flow lookup, exit codes and --json"""
    line = clients.Line(lab.client, VIP4)
    _, out, _ = lab.weirctl("flow", "lookup", "tcp", f"192.0.2.2:{line.port()}", f"{VIP4}:7000",
                            "--json")
    answer = json.loads(out)
    assert answer["found"] and answer["backend"] == line.backend, answer
    for question in (("service", "show"), ("backend", "show"), ("worker", "show"),
                     ("health", "show"), ("stats", "show"), ("flow", "count"), ("port", "show"),
                     ("version",)):
        _, out, _ = lab.weirctl(*question, "--json")
        assert json.loads(out) is not None, question
        assert lab.weirctl(*question)[1].strip(), question
    cases = ((("backend", "drain", "nobody"), 1), (("backend", "drain", "web-1"), 1),
             (("backend", "fly", "web-1"), 2), (("nonsense",), 2),
             (("backend", "drain", "web/web-1"), 0),
             (("weight", "set", "web/web-1", "65536"), 2))
    for args, wanted in cases:
        code, out, err = lab.weirctl(*args, check=False)
        assert code in ({1, 2} if "65536" in args else {wanted}), (args, code, out, err)
        assert code == 0 or err.strip(), f"{args} failed without a message"
    lab.programs["control"].kill()
    start = time.monotonic()
    code, _, err = lab.weirctl("backend", "show", check=False)
    assert code == 3 and err.strip() and time.monotonic() - start < 5, (code, err)
    line.close()


@scenario(services=[lines(check={"type": "tcp"})])
def returning_backend_has_its_flows(lab):
    """Backends that a reload adds again keep their flows, but not their drain, maintenance or weight"""
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    lab.weirctl("backend", "drain", "web-2", "--interval=1h")
    lab.weirctl("backend", "maintenance", "web-3")
    lab.weirctl("weight", "set", "web-4", "7")
    ids = {name: lab.backend(name, "lines")["id"] for name in BACKENDS}
    lab.write_config([lines(check={"type": "tcp"}, backends={"web-1": 100})])
    lab.weirctl("config", "reload")
    assert all(lab.backend(name, "lines")["leaving"] for name in BACKENDS[1:])
    lab.write_config([lines(check={"type": "tcp"})])
    lab.weirctl("config", "reload")

    def begun(name):  # the state before each change of its health
        return [event["from"] for event in lab.api("health.history", service="lines", backend=name)]
    for name in BACKENDS[1:]:
        row = lab.backend(name, "lines")
        assert (row["id"], row["leaving"], row["admin"], row["drain"], row["runtime_weight"],
                row["effective_weight"]) == (ids[name], False, "ready", None, None, 100), row
        wait_for("the open flow of the backend", lambda: lab.backend(name, "lines")["open_flows"] == 1, 5)
        wait_for("the checks of the backend", lambda: begun(name) == ["starting"] * 2, 5)
    clients.check_lines(found)
