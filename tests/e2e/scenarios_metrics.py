# SPDX-License-Identifier: BSD-3-Clause
"""weir-metrics: its values for Prometheus agree with the counts of clients and servers."""
import collections
import contextlib
import os
import random
import re
import socket
import subprocess
import time

import clients
from lab import BACKENDS, VIP4, echo, lines, web
from netns import wait_for
from scenario import scenario

PORT = 9479
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SAMPLE = re.compile(r'^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def http(lab, path, *lines_, method="GET", host=f"127.0.0.1:{PORT}"):
    """Returns status, headers and body of one request in the balancer's namespace."""
    request = "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines_, "", ""])
    return raw(lab, request.encode())


def raw(lab, request, timeout=15):
    with lab.lb.inside():
        sock = socket.create_connection(("127.0.0.1", PORT), timeout=timeout)
    with contextlib.closing(sock):
        sock.sendall(request)
        blocks = []
        while block := sock.recv(1 << 20):
            blocks.append(block)
    head, _, body = b"".join(blocks).partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in rest)}
    return int(first.split()[1]), headers, body


def scrape(lab, accept="text/plain"):
    status, headers, body = http(lab, "/metrics", f"Accept: {accept}")
    assert status == 200, (status, body[:200])
    assert len(body) == int(headers["content-length"]), (len(body), headers)
    return headers["content-type"], body.decode()


def parse(text):
    """Returns {name: {(label, value)...: number}}. A duplicate series raises AssertionError."""
    families = collections.defaultdict(dict)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, f"no sample: {line[:200]}"
        name, labels, number = match.groups()
        key = frozenset(LABEL.findall(labels or ""))
        assert key not in families[name], f"twice: {line}"
        families[name][key] = float(number)
    return families


def value(families, name, **labels):
    return families[name][frozenset(labels.items())]


def promtool(command, text):
    done = subprocess.run(["promtool", "check", command], input=text, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr, (done.stdout, done.stderr)


def age_out(lab):
    """Wait until a scrape queries weir-control again."""
    before = value(parse(scrape(lab)[1]), "weir_metrics_timestamp_seconds")
    wait_for("new values", lambda: value(parse(scrape(lab)[1]),
                                          "weir_metrics_timestamp_seconds") > before, 15, 0.2)
    return parse(scrape(lab)[1])


def check_formats(lab):
    kind, text = scrape(lab)
    assert kind.startswith("text/plain; version=0.0.4"), kind
    promtool("metrics", text)
    kind, other = scrape(lab, OPENMETRICS + ",text/plain;version=0.0.4;q=0.5")
    assert kind.startswith(OPENMETRICS), kind
    assert other.endswith("\n# EOF\n")
    assert set(parse(text)) == set(parse(other))


def check_durations(families):
    """Check that each finished check is in the histogram of its service, and in no other histogram."""
    name = "weir_service_check_duration_seconds"
    for service in ("web", "lines"):
        finished = sum(number for what in ("passed", "failed")
                       for key, number in families[f"weir_backend_{what}_checks_total"].items()
                       if ("service", service) in key)
        buckets = {dict(key)["le"]: number for key, number in families[name + "_bucket"].items()
                   if ("service", service) in key}
        assert buckets["+Inf"] == value(families, name + "_count", service=service) == finished > 0
        assert list(buckets.values()) == sorted(buckets.values()), buckets
        assert 0 < value(families, name + "_sum", service=service) < finished, service


def check_starts(lab, families):
    """Check that dataplane, control and metrics started in this order, and within the last two minutes."""
    started = [value(families, f"weir_{name}_start_time_seconds")
               for name in ("dataplane", "control", "metrics")]
    assert started == sorted(started) and time.time() - 120 < started[0] < time.time(), started


def check_reloads(lab):
    """Check that metrics show a refused reload until a reload is accepted, and the time of the last accepted reload."""
    names = [f"weir_config_last_reload_{end}" for end in ("successful", "success_timestamp_seconds")]
    families = age_out(lab)
    good, since = (value(families, name) for name in names)
    assert (good, since) == (1, value(families, "weir_control_start_time_seconds"))
    bad = os.path.join(lab.dir, "bad.json")
    with open(bad, "w", encoding="utf-8") as file:
        file.write("{}")
    assert lab.weirctl("config", "reload", bad, check=False)[0] == 1
    families = age_out(lab)
    assert [value(families, name) for name in names] == [0, since]
    lab.weirctl("config", "reload")
    families = age_out(lab)
    assert value(families, names[0]) == 1 and since < value(families, names[1]) < time.time()


def check_totals(lab, families):
    """Check that totals are the sums of their parts, and that values counted in two places are equal."""
    for worker in (dict(key)["worker"] for key in families["weir_worker_up"]):
        reasons = [number for key, number in families["weir_worker_drops_total"].items()
                   if ("worker", worker) in key]
        assert sum(reasons) == value(families, "weir_worker_dropped_packets_total", worker=worker)
    for name in BACKENDS:
        states = [number for key, number in families["weir_backend_health"].items()
                  if ("backend", name) in key and ("service", "web") in key]
        assert sorted(states) == [0, 0, 0, 1], states
    shown = {b["name"]: b["new_flows"] for b in lab.backends("web")}
    for name, number in shown.items():
        assert value(families, "weir_backend_new_flows_total", service="web",
                     backend=name) == number


@scenario(services=[web(), lines(check={"type": "tcp"}), echo()])
def metrics_agree_with_clients_and_servers(lab):
    """promtool accepts both formats; the values for flows, busy workers, drops and states are correct"""
    lab.start_metrics("--ipvs-names")
    before = age_out(lab)
    result = clients.curl_batch(lab.client, VIP4, 100)
    assert result.ok == 100, result.errors[:5]
    after = age_out(lab)
    flows = "weir_service_new_flows_total"
    assert value(after, flows, service="web") - value(before, flows, service="web") == 100
    assert value(after, flows, service="lines") == value(before, flows, service="lines")
    for name in BACKENDS:
        new = [value(families, "weir_backend_new_flows_total", service="web", backend=name)
               for families in (before, after)]
        assert new[1] - new[0] == result.served[name], (name, new, result.served)
    check_formats(lab)
    check_totals(lab, after)
    check_durations(after)
    check_starts(lab, after)
    check_reloads(lab)
    busy = [value(after, f"weir_worker_{what}_seconds_total", worker="0")
            - value(before, f"weir_worker_{what}_seconds_total", worker="0")
            for what in ("busy", "idle")]
    passed = value(after, "weir_metrics_timestamp_seconds") \
        - value(before, "weir_metrics_timestamp_seconds")
    assert 0 < sum(busy) < 2 * passed, (busy, passed)  # less than all of the time, because both processes yield the CPU
    assert value(after, "node_ipvs_connections_total") \
        - value(before, "node_ipvs_connections_total") == 100
    labels = {dict(key)["remote_address"] for key in after["node_ipvs_backend_weight"]
              if ("local_mark", "web") in key}
    assert labels == {b["address"] for b in lab.backends("web")}


@scenario(services=[web()])
def metrics_omit_unavailable_values(lab):
    """Without weir-dataplane, metrics have no counters; without weir-control, only its state; a restart restores all"""
    lab.start_metrics()
    families = age_out(lab)
    assert value(families, "weir_worker_up", worker="0") == value(families, "weir_serving") == 1
    lab.programs["dataplane"].kill()
    wait_for("control to detect the end of the dataplane",
             lambda: not lab.api("version")["dataplane"]["attached"], 10)
    families = age_out(lab)
    assert value(families, "weir_dataplane_up") == value(families, "weir_serving") == 0
    gone = [name for name in families if name.startswith(("weir_worker_", "weir_port_"))
            or name in ("weir_service_new_flows_total", "weir_backend_open_flows")]
    assert not gone, gone
    assert value(families, "weir_backend_configured_weight", service="web", backend="web-1") == 100
    lab.programs["control"].kill()
    families = age_out(lab)
    assert value(families, "weir_control_up") == 0
    assert all(name.startswith(("weir_metrics_", "weir_build_", "weir_control_up"))
               for name in families), list(families)
    promtool("metrics", scrape(lab)[1])
    lab.start_dataplane()
    lab.start_control()
    lab.wait_ready()
    assert value(age_out(lab), "weir_worker_up", worker="0") == 1
    lab.programs["metrics"].kill()  # traffic does not need weir-metrics
    assert clients.curl_batch(lab.client, VIP4, 10).ok == 10


# --- invalid requests ---------------------------------------------------------------------------

def status_of(lab, *lines_, **more):
    return http(lab, "/metrics", *lines_, **more)[0]


def check_names(lab):
    """Check that weir-metrics accepts no host name that a foreign site could make resolve to this address."""
    for host in ("127.0.0.1", "localhost:9479", "LOCALHOST", "[::1]:9479", "10.0.0.2:1",
                 "lb.example.net:9479", "LB.example.NET"):
        assert status_of(lab, host=host) == 200, host
    for host in ("evil.example.net", "localhost.evil.example.net", "127.0.0.1.evil.example.net",
                 "", ":9479", "[::1", "[::1]x", "127.0.0.1:", "lb.example.net:80x", "1.2.3",
                 "x" * 4000):
        assert status_of(lab, host=host) in (400, 403), host
    assert raw(lab, b"GET /metrics HTTP/1.1\r\n\r\n")[0] == 400
    assert status_of(lab, "Host: localhost") == 400  # a second Host header


def check_paths(lab):
    for path in ("/metrics/", "//metrics", "/../etc/passwd", "/%2e%2e/", "/METRICS", "/page.css/x",
                 "/status.json%00", "/" + "a" * 8000):
        assert http(lab, path)[0] in (400, 404), path
    assert http(lab, "/metrics?name[]=weir_build_info")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "NONE"):
        status, headers, _ = http(lab, "/metrics", method=method)
        assert (status, headers.get("allow")) == (405, "GET, HEAD"), (method, status)
    assert status_of(lab, "Content-Length: 5") == 400
    assert status_of(lab, "Transfer-Encoding: chunked") == 400
    status, headers, body = http(lab, "/metrics", method="HEAD")
    assert status == 200 and int(headers["content-length"]) > 1000 and body == b""


def check_headers(lab):
    status, headers, _ = http(lab, "/", "Origin: http://evil.example.net")
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not any(key.startswith("access-control") for key in headers)


def junk(rng):
    kinds = (lambda: rng.randbytes(rng.randrange(1, 3000)),
             lambda: b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * rng.randrange(5000),
             lambda: b"GET / HTTP/1.1\r\nHost: " + rng.randbytes(50) + b"\r\n\r\n",
             lambda: b"GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n" * rng.randrange(1, 20),
             lambda: b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
             + str(rng.getrandbits(70)).encode() + b"\r\n\r\n" + rng.randbytes(2000))
    return rng.choice(kinds)()


def send_junk(lab, count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        with contextlib.suppress(OSError), lab.lb.inside(), \
                socket.create_connection(("127.0.0.1", PORT), timeout=15) as sock:
            sock.sendall(junk(rng))
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass


def resident_bytes(lab):
    return value(age_out(lab), "weir_metrics_resident_memory_bytes")


@scenario(services=[web()], seconds=300)
def metrics_server_survives_hostile_clients(lab):
    """Invalid requests, foreign host names, wrong methods and bodies are refused; 200 silent clients are disconnected"""
    lab.start_metrics("--host", "lb.example.net")
    check_names(lab)
    check_paths(lab)
    check_headers(lab)
    send_junk(lab, 100, 1)
    before = resident_bytes(lab)
    send_junk(lab, 500, 2)
    grown = resident_bytes(lab) - before
    assert grown < 4 << 20, f"{grown} bytes more"
    with contextlib.ExitStack() as stack:
        for number in range(200):  # more clients than are served concurrently
            with lab.lb.inside():
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", PORT)))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc"[:number % 40])
        began = time.monotonic()
        wait_for("another client to be served",
                 lambda: raw(lab, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 120)[0]
                 == 200, 150)
        # 200 clients are served in 7 groups of 32. Silent clients are disconnected within 2 s,
        # idle connections after 10 s.
        assert time.monotonic() - began < 50, time.monotonic() - began
    assert lab.programs["metrics"].alive()


# --- many backends ------------------------------------------------------------------------------

MANY = [{"name": f"s-{n}", "table_size": 61, "policy": {"name": "maglev"}, "forwarding": "ipip",
         "binds": [{"address": f"203.0.{n // 250}.{n % 250 + 1}", "protocol": "tcp", "port": 80}],
         "backends": [{"name": f"b-{i}", "address": f"10.{n // 250 + 1}.{n % 250}.{i + 1}"}
                      for i in range(10)]} for n in range(999)]


def checks(lab, sock):
    """Returns the number of finished health checks."""
    rows = lab.api_ask(sock, "health.show", service="web")["result"]
    return sum(row["passes"] + row["fails"] for row in rows)


def observe(lab, sock, seconds):
    """Returns the maximum latency of repeated `version` requests, and the health checks per second
    at the same time."""
    worst, start, before = 0, time.monotonic(), checks(lab, sock)
    while (began := time.monotonic()) < start + seconds:
        lab.api_ask(sock, "version")
        worst = max(worst, time.monotonic() - began)
    return worst, (checks(lab, sock) - before) / (time.monotonic() - start)


def cpu_seconds(lab, name):
    with open(f"/proc/{lab.programs[name].pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(lab, name):
    with open(f"/proc/{lab.programs[name].pid}/status", encoding="ascii") as file:
        return file.read()


def cost(lab, *commands):
    """Returns the CPU seconds that weir-control needs to run each command once. Takes the minimum of
    several rounds, because weir-control also does other work."""
    rounds = []
    with contextlib.closing(lab.api_connect()) as sock:
        for _ in range(5):
            before = cpu_seconds(lab, "control")
            for command in 4 * commands:
                lab.api_ask(sock, command)
            rounds.append((cpu_seconds(lab, "control") - before) / 4)
    return min(rounds)


@scenario(services=[web()] + MANY, start=False, alone=True, seconds=400)
def metrics_of_10000_backends_delay_nothing(lab):
    """With 10,000 backends in 1,000 services, a scrape contains all values, takes little CPU time and delays nothing"""
    lab.start_backends()
    lab.start_dataplane()
    lab.start_control()
    wait_for("the backends", lambda: len(lab.api("backend.show")) == 4 + 9990, 60)
    lab.start_metrics()
    wait_for("all backends in a scrape", lambda: scrape(lab)[1].count(
        "\nweir_backend_open_flows{") == 4 + 9990, 90, 1)
    text = scrape(lab)[1]
    assert text.count("\nweir_service_open_flows{") == 1000
    with contextlib.closing(lab.api_connect()) as sock:
        alone, pace = observe(lab, sock, 3)
        scraper = lab.program("scraper", lab.lb, "sh", "-c", "while curl -s --fail -o /dev/null "
                              f"http://127.0.0.1:{PORT}/metrics; do :; done")
        beside, paced = observe(lab, sock, 3)
        assert scraper.alive(), scraper.output()
        scraper.kill()
    head = scrape(lab)[1][:4096]  # the timestamp is at its start
    used = cpu_seconds(lab, "metrics")
    wait_for("new values", lambda: scrape(lab)[1][:4096] != head, 15, 1)
    used = cpu_seconds(lab, "metrics") - used
    mine, others = cost(lab, "metrics.show"), cost(lab, "backend.show", "health.show")
    memory = int(re.search(r"VmHWM:\s+(\d+) kB", status(lab, "metrics")).group(1)) / 1e3
    print(f"{len(text) / 1e6:.1f} MB, {text.count(chr(10))} lines; weir-metrics: {used * 1e3:.0f} ms of "
          f"CPU, {memory:.0f} MB at most; {mine * 1e3:.0f} ms of CPU in "
          f"weir-control, {others * 1e3:.0f} for backend.show and health.show; version took at "
          f"most {alone * 1e3:.1f} ms, {beside * 1e3:.1f} ms beside scrapes; ", end="")
    assert paced > pace / 2, (pace, paced)  # health checks were not slowed down
