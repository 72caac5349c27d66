#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent run: which probes it answers, and its measurements of servers and clients."""
import contextlib
import http.server
import json
import os
import re
import signal
import struct
import sys
import threading
import time

from agent_lab import (BACKEND, BACKEND6, BITS, KEYS, ORCA_PORT, PORT, UDP_PORT, VIP, finish,
                       reset, run_scenarios, scenario, seal, sockets_of)
from netns import LabError, sh, wait_for

# --- datagrams ----------------------------------------------------------------------------------

@scenario
def agent_answers_authentic_probes_and_counts_others(lab):
    agent = lab.start_agent("--max-active-flows", "1k")
    balancer = lab.balancer()
    answer = balancer.ask()
    assert (answer["word"], answer["serial"], answer["why"]) == \
        ("ready", 1, b"started".ljust(32, b"\0")), answer
    assert answer["given"] == {"max_active_flows"} and answer["max_active_flows"] == 1000, answer
    lab.balancer(to=BACKEND6, key=7).ask()
    lab.balancer(to=VIP).ask()  # the answer comes from the address of the VIP
    good = balancer.probe()
    damaged = bytearray(good)
    damaged[20] ^= 1
    unknown = seal(good[:6] + struct.pack("!H", 9) + good[8:224], KEYS[1])
    for expected, data in (("length", good[:-1]), ("length", good + b"\0"), ("length", b""),
                           ("magic", b"R" + good[1:]), ("mac", bytes(damaged)), ("key", unknown),
                           ("version", good[:4] + b"\2" + good[5:])):
        before = lab.status()["datagrams"]["refused"].get(expected, 0)
        balancer.send(data)
        wait_for(expected, lambda e=expected, b=before: lab.status()["datagrams"]["refused"]
                 .get(e, 0) == b + 1)
    assert balancer.receive(0.2) is None, "a refused probe was answered"
    balancer.send(good)
    assert balancer.receive() is not None
    balancer.send(good)
    wait_for("replay", lambda: lab.status()["datagrams"]["refused"].get("replay") == 1)
    assert balancer.receive(0.2) is None, "a replay was answered"
    assert lab.status()["datagrams"]["answered"] == 4
    agent.signal(signal.SIGINT)  # without a drain
    assert agent.process.wait(2) == 0, agent.tail()


@scenario
def agent_answers_no_probe_to_another_one(lab):
    """The agent refuses a probe whose recipient is another address or port. Otherwise an answer to
    such a probe could be replayed as the answer of another process. Also, its sequence number could
    be higher than the next numbers that the balancer sends to this agent, and probes with these
    numbers would then be refused as old."""
    lab.start_agent()
    balancer, other = lab.balancer(), lab.balancer(to=BACKEND6)
    for each, elsewhere in ((balancer, (VIP, UDP_PORT)), (balancer, (BACKEND, UDP_PORT + 1)),
                            (other, ("2001:db8:9::3", UDP_PORT))):
        each.ask(), each.ask()
        before = lab.status()["datagrams"]["refused"].get("recipient", 0)
        sequence, each.sequence = each.sequence, each.sequence + 1000
        each.send(each.probe(recipient=elsewhere))
        wait_for("refusal", lambda b=before: lab.status()["datagrams"]["refused"].get(
            "recipient", 0) == b + 1)
        assert each.receive(0.2) is None, "a probe to another agent was answered"
        each.sequence = sequence
        each.ask()


@scenario
def agent_keeps_no_state_of_recorded_probes(lab):
    """A probe may be a replay from a weir-control process that has ended, or for an agent process
    that has ended. The agent keeps no state of such probes."""
    agent = lab.start_agent()
    dead = [lab.balancer() for _ in range(70)]
    for each in dead:
        each.agent, each.sequence = 77, 1 << 40
        each.send(each.probe())
        assert each.receive() is not None
    assert lab.status()["balancers"] == []
    balancer = lab.balancer()
    balancer.ask(), balancer.ask()
    # A probe that was recorded before a restart has a high sequence number. The agent must still
    # accept the lower numbers that the balancer uses now.
    balancer.sequence, process, balancer.agent = 1000, balancer.agent, 77
    balancer.send(balancer.probe())
    assert balancer.receive() is not None
    balancer.sequence, balancer.agent = 2, process
    balancer.ask()
    agent.signal(signal.SIGTERM)
    assert balancer.receive(1)["word"] == "lame-duck"
    balancer.ask(), balancer.ask()
    assert agent.process.wait(3) == 0, agent.tail()  # the drain ends within 3 s, although its limit is 60 s
    assert "drain: done" in agent.tail(), agent.tail()
    assert all(each.receive(0) is None for each in dead), "balancers that have ended were notified"


@scenario
def agent_with_other_keys_leads_to_the_key_files(lab):
    """status and doctor report in one finding that the keys differ, which is why no balancer probes
    the agent."""
    def balancers():
        output = lab.backend.run(lab.agent_binary, "doctor", "eth0", "--json", "--run-dir", lab.run_dir,
                                 "--key-file", lab.keys, check=False)
        return [(row["level"], row["found"], row["cure"] or "") for row in json.loads(output)["findings"]
                if row["check"] == "balancers"]

    def wrong(refusal):
        balancer.send(balancer.probe())
        wait_for(refusal, lambda: lab.status()["datagrams"]["refused"].get(refusal) == 1)
    with open(lab.keys, "r+", encoding="ascii") as file:
        file.write(f"1 {KEYS[7].hex()}\n")
        file.truncate()
    agent, balancer = lab.start_agent(), lab.balancer()
    assert "\nbalancers  none has probed this agent\n" in lab.command("status")
    [(level, found, _)] = balancers()
    assert level == "warning" and "has no key file, or a firewall drops UDP" in found, found
    wrong("mac")
    expected = r"\nbalancers  none: 1 datagram with another key, the last \S+ ago: compare the key files\n"
    assert re.search(expected, lab.command("status")), lab.command("status")
    lab.write_keys(7)
    agent.signal(signal.SIGHUP)
    wait_for("reload", lambda: agent.tail().count("1 key read") == 1)
    wrong("key")
    [(level, found, command)] = balancers()
    assert level == "warning" and re.search(
        r": 2 datagrams with another key, the last \S+ ago. The key files differ, or", found), found
    assert command.startswith(f"sha256sum {lab.keys}; ssh BALANCER sha256sum ") and \
        "systemctl reload weir-agent (or SIGHUP)" in command, command

    lab.write_keys(1)
    agent.signal(signal.SIGHUP)
    wait_for("reload", lambda: agent.tail().count("1 key read") == 2)
    balancer.ask(), balancer.ask()
    balancer.send(b"")
    wait_for("length", lambda: lab.status()["datagrams"]["refused"].get("length") == 1)
    assert "\nbalancers  none" not in lab.command("status")
    assert [row[:2] for row in balancers()] == [
        ("ok", "balancers that probe this agent: 1"),
        ("notice", "refused 1 datagram since its start, reason length: the datagram is not 256 bytes long")] + [
            ("notice", f"refused 1 datagram since its start, reason {refusal}: the key file of a balancer "
             "differed, or the datagrams are forged") for refusal in ("key", "mac")], balancers()


@scenario
def agent_reads_new_keys_on_sighup(lab):
    agent = lab.start_agent()
    balancer, other = lab.balancer(), lab.balancer(key=7)
    balancer.ask(), other.ask()
    lab.write_keys(7)
    agent.signal(signal.SIGHUP)
    wait_for("reload", lambda: "1 key read" in agent.tail())
    balancer.send(balancer.probe())
    assert balancer.receive(0.3) is None
    other.ask()
    os.chmod(lab.keys, 0o644)  # all users can read the file, so the agent refuses it and keeps the previous keys
    agent.signal(signal.SIGHUP)
    wait_for("refusal", lambda: "keeping the previous keys" in agent.tail())
    other.ask()


@scenario
def agent_reads_a_generated_key_beside_the_others(lab):
    """Replace a key as the documents describe. The new key gets an id that is not in use."""
    agent = lab.start_agent()
    for expected in (2, 3):  # the key file already contains the ids 1 and 7
        line = lab.backend.run(lab.agent_binary, "key", "generate", "--key-file", lab.keys)
        assert re.fullmatch(rf"{expected} [0-9a-f]{{64}}\n", line), line
        with open(lab.keys, "a", encoding="ascii") as file:
            file.write(line)
    agent.signal(signal.SIGHUP)
    wait_for("reload", lambda: "4 keys read" in agent.tail())
    for path, mode, expected in ((os.path.join(lab.dir, "none"), None, ""),
                                 (os.path.join(lab.dir, "empty"), 0o644, ""),
                                 (lab.keys, 0o644, "; to choose another ID, use --id N")):
        if mode is not None:
            with open(path, "a", encoding="ascii"):
                os.chmod(path, mode)
        text = lab.backend.run("sh", "-c", f"{lab.agent_binary} key generate --key-file {path} 2>&1")
        assert re.search(r"^1 [0-9a-f]{64}$", text, re.M), text
        assert expected in text and ("warning" in text) == bool(expected), text


def is_blocked(program, number):
    with open(f"/proc/{program.pid}/status", encoding="ascii") as file:
        return int(re.search(r"SigBlk:\s(\w+)", file.read()).group(1), 16) >> (number - 1) & 1 or \
            "answering" in program.tail()


@scenario
def agent_outlives_a_sighup_while_it_starts(lab):
    for delay_ms in range(0, 30, 3):
        agent = lab.start("agent", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                          "--run-dir", lab.run_dir)
        wait_for("its own code", lambda a=agent: is_blocked(a, signal.SIGHUP))
        time.sleep(delay_ms / 1000)
        agent.signal(signal.SIGHUP)
        wait_for("the keys", lambda a=agent: "2 keys read from" in a.tail() or lab.died(a))
        agent.kill()


@scenario
def agent_has_no_privileges(lab):
    agent = lab.start_agent("--port", str(PORT))
    socket_file = os.stat(os.path.join(lab.run_dir, "agent.sock"))
    assert (socket_file.st_mode & 0o777, socket_file.st_uid) == (0o600, 0), socket_file

    def capabilities(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            text = file.read()
        return {int(value, 16) for value in re.findall(r"Cap(?:Prm|Eff):\s(\w+)", text)}, \
            re.search(r"Uid:\s(\d+)", text).group(1)
    assert capabilities(agent.pid) == ({0}, "65534")
    helper = sh("ps", "-o", "pid=", "--ppid", agent.pid).split()
    assert len(helper) == 1
    assert capabilities(helper[0])[0] == {1 << 38 | 1 << 39}  # only CAP_PERFMON and CAP_BPF
    assert sockets_of(helper[0]) == 1  # the connection to the agent
    agent.kill()
    wait_for("no helper", lambda: not os.path.exists(f"/proc/{helper[0]}"))


@scenario
def agent_does_not_log_to_its_socket(lab):
    """The agent starts with a closed standard error. The connection to its helper must not get
    the number of standard error, because the agent would log to this connection."""
    agent = lab.start("agent", lab.backend, "sh", "-c", 'exec "$@" 2>&-', "sh", lab.agent_binary,
                      "run", "--port", str(PORT), "--key-file", lab.keys, "--run-dir", lab.run_dir)

    def answers():
        with contextlib.suppress(LabError):
            return lab.status()
        return None
    wait_for("the agent", answers)
    files = [os.readlink(f"/proc/{agent.pid}/fd/{number}") for number in range(3)]
    assert not any(file.startswith("socket:") for file in files), files


# --- measurements ------------------------------------------------------------------------------------

@scenario
def agent_measures_only_requested_fields(lab):
    lab.start_agent("--port", str(PORT))
    with lab.listen():
        balancer = lab.balancer(wants=BITS["accept_queue"] | BITS["utilization"])
        wait_for("utilization", lambda: "utilization" in balancer.ask()["given"])
        answer = balancer.ask()
        assert answer["given"] == {"accept_queue", "utilization"}, answer
        assert not lab.status()["meter"]["loaded"]
        balancer.wants = BITS["active_requests"]
        wait_for("meter", lambda: balancer.ask()["given"] == {"active_requests"})
        assert lab.status()["meter"]["loaded"]


@scenario
def agent_reports_connections_of_clients(lab):
    """The agent reports exact numbers of connections."""
    lab.start_agent("--port", str(PORT))
    with lab.listen(9) as listener:
        with lab.connect() as early, listener.accept()[0]:  # connected before the measurement began
            balancer = lab.metered_balancer()
            assert balancer.ask()["active"] == 1
            early.close()
        wait_for("the connection to end", lambda: balancer.ask()["active"] == 0)
        first = balancer.ask()
        assert first["service_count"] == 0, first
        for i in range(40):
            client, server = lab.connect(), listener.accept()[0]
            time.sleep(0.1 if i < 8 else 0.02)
            finish(client, server)
        for _ in range(5):
            client, server = lab.connect(), listener.accept()[0]
            reset(server)
            client.close()
        for _ in range(7):
            client, server = lab.connect(), listener.accept()[0]
            reset(client)
            server.close()
        running = [(lab.connect(), listener.accept()[0]) for _ in range(4)]
        waiting = [lab.connect() for _ in range(3)]
        wait_for("7 remaining connections", lambda: balancer.ask()["active"] == 7)
        answer = balancer.ask()
        assert answer["service_count"] == 40, answer
        mean_ms = answer["service_sum_us"] / 40e3
        assert 36 <= mean_ms < 50, mean_ms  # mean: (8 * 100 + 32 * 20) / 40
        assert 0.97 * 20000 <= answer["service_median_us"] < 30000, answer["service_median_us"]
        assert (answer["accept_queue"], answer["accept_queue_limit"]) == (3, 9), answer
        assert answer["busy_count"] - first["busy_count"] == 52, answer
        meter = lab.status()["meter"]
        expected = {"opened": 60, "closed": 53, "finished": 41, "aborted": 5, "reset": 7,
                    "timed": 40, "lost": 0, "untracked": 0, "active": 7}
        assert {key: meter[key] for key in expected} == expected, meter
        for client, server in running + [(client, listener.accept()[0]) for client in waiting]:
            finish(client, server)
        wait_for("rates", lambda: balancer.ask()["requests_milli_per_s"] == 0)
        answer = balancer.ask()
        assert (answer["active"], answer["accept_queue"]) == (0, 0)


@scenario
def agent_reports_rates(lab):
    lab.start_agent("--port", str(PORT))
    with lab.listen() as listener:
        balancer = lab.metered_balancer()
        # Try again if this process got too little CPU time for 50 connections per second
        for _ in range(5):
            start, rates = time.monotonic(), []
            for i in range(150):
                time.sleep(max(0, start + i / 50 - time.monotonic()))
                client, server = lab.connect(), listener.accept()[0]
                if i % 5 == 0:
                    reset(server)
                    client.close()
                else:
                    finish(client, server)
                if i > 75:
                    rates.append(balancer.ask())
            if time.monotonic() - start < 3.1:
                break
        requests = sum(a["requests_milli_per_s"] for a in rates) / len(rates) / 1e3
        errors = sum(a["errors_milli_per_s"] for a in rates) / len(rates) / 1e3
        assert 45 < requests < 55 and 9 < errors < 11, (requests, errors)


NGINX = """
worker_processes 1; daemon off; pid %(dir)s/nginx.pid; error_log /dev/null;
events { worker_connections 256; }
http { access_log %(dir)s/access.log; server { listen %(port)d; keepalive_timeout 0; location / {
    return 200 "hello"; } } }
"""


@contextlib.contextmanager
def cgroup():
    """A new cgroup v2, or None if the system has no cgroup v2."""
    mounts = re.findall(r"^\S+ (\S+) cgroup2 ", open("/proc/mounts", encoding="ascii").read(), re.M)
    path = f"{mounts[0]}/weir-test-{os.getpid()}" if mounts else None
    try:
        if path:
            os.mkdir(path)
    except OSError:
        path = None
    try:
        yield path
    finally:
        if path:
            wait_for("no process in the cgroup", lambda: not os.rmdir(path))


@scenario
def agent_measures_nginx(lab):
    """Compares the agent's measurements with wrk, which counts the requests, and with the kernel,
    which counts the CPU time of the server's processes."""
    with cgroup() as path, contextlib.ExitStack() as ends:
        lab.start_agent("--port", str(PORT), *(["--cgroup", path] if path else []))
        config = os.path.join(lab.dir, "nginx.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(NGINX % {"dir": lab.dir, "port": PORT})
        into = f"echo $$ > {path}/cgroup.procs; " if path else ""
        nginx = lab.start("nginx", lab.backend, "sh", "-c",
                          f"{into}exec nginx -p {lab.dir} -c {config}")
        ends.callback(nginx.stop)
        wait_for("nginx", lambda: lab.connect().close() is None)
        balancer = lab.metered_balancer()
        wait_for("the first connection to end", lambda: balancer.ask()["active"] == 0)
        first = balancer.ask()
        output = lab.client.run("wrk", "-t", "1", "-c", "8", "-d", "3s", "-H",
                                "Connection: close", f"http://{BACKEND}:{PORT}/")
        wait_for("the last connection to end", lambda: balancer.ask()["active"] == 0)
        last = balancer.ask()
        seen = int(re.search(r"(\d+) requests in", output).group(1))
        with open(os.path.join(lab.dir, "access.log"), encoding="ascii") as file:
            requests = len(file.readlines())
        counted = last["service_count"] - first["service_count"]
        # At its end wrk aborts 8 connections, which each of them may count or not: the agent counts none that the
        # client has reset. At its start wrk opens one more connection, without a request, to check whether the server
        # is reachable.
        assert seen <= requests <= seen + 8 and seen - 8 <= counted <= seen + 9, (seen, requests, counted)
        if path:
            pids = [nginx.pid, *sh("ps", "-o", "pid=", "--ppid", nginx.pid).split()]
            ticks = sum(sum(int(word) for word in open(f"/proc/{pid}/stat", encoding="ascii")
                            .read().rsplit(")", 1)[1].split()[11:13]) for pid in pids)
            used = ticks / os.sysconf("SC_CLK_TCK")
            reported = (last["busy_sum_us"] - first["busy_sum_us"]) / 1e6
            assert abs(reported - used) < 0.15 * used + 0.05, (reported, used)
        print(f"  {requests} requests, {counted} counted, "
              f"{(last['service_sum_us'] - first['service_sum_us']) / counted:.0f} us each, busy "
              f"{(last['busy_sum_us'] - first['busy_sum_us']) / counted:.0f} us each")


@scenario
def agent_reports_a_missing_cgroup(lab):
    path = os.path.join(lab.dir, "cgroup")
    os.mkdir(path)

    def write():
        with open(os.path.join(path, "cpu.stat"), "w", encoding="ascii") as file:
            file.write("usage_usec 1000\n")
    agent = lab.start_agent("--cgroup", path)
    wait_for("no CPU time", lambda: f"--cgroup {path}: no CPU time" in agent.tail())
    balancer = lab.balancer(wants=BITS["utilization"])
    assert balancer.ask()["given"] == balancer.ask()["given"] == set()
    write()
    wait_for("CPU time", lambda: f"--cgroup {path}: CPU time found" in agent.tail())
    wait_for("utilization", lambda: balancer.ask()["given"] == {"utilization"})
    os.remove(os.path.join(path, "cpu.stat"))
    wait_for("the log line that CPU time is missing", lambda: agent.tail().count("no CPU time") == 2)
    wait_for("no utilization", lambda: balancer.ask()["given"] == set())


# --- ORCA ---------------------------------------------------------------------------------------

class Application(http.server.BaseHTTPRequestHandler):
    body, headers_too, delay = b"{}", {}, 0

    def do_GET(self):
        time.sleep(self.delay)
        self.send_response(200)
        for name, value in self.headers_too.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


@scenario
def agent_prefers_values_of_the_application(lab):
    agent = lab.start_agent("--port", str(PORT), "--orca-url", f"http://127.0.0.1:{ORCA_PORT}/",
                            "--orca-interval", "100ms")
    with lab.backend.inside():
        server = http.server.ThreadingHTTPServer(("127.0.0.1", ORCA_PORT), Application)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Application.body = b'{"rps_fractional": 123.5, "eps": 2, "application_utilization": 0.25}'
    balancer = lab.metered_balancer()
    try:
        wait_for("the application's rate",
                 lambda: balancer.ask()["requests_milli_per_s"] == 123500)
        answer = balancer.ask()
        assert (answer["errors_milli_per_s"], answer["utilization_ppm"]) == (2000, 250000), answer
        Application.body = b'{"rps_fractional": -1}'
        wait_for("an error about the report", lambda: lab.status()["orca"] not in ("ok", "not wanted"))
        wait_for("measured again", lambda: balancer.ask()["requests_milli_per_s"] == 0)
        Application.headers_too = {"endpoint-load-metrics": "TEXT rps_fractional=7"}
        wait_for("the header", lambda: balancer.ask()["requests_milli_per_s"] == 7000)
        Application.delay = 0.7  # longer than four intervals
        time.sleep(1)
        for _ in range(20):
            assert balancer.ask()["requests_milli_per_s"] == 7000
            time.sleep(0.1)
    finally:
        Application.headers_too, Application.delay = {}, 0
        server.shutdown()
        server.server_close()
    assert agent.alive()


if __name__ == "__main__":
    sys.exit(run_scenarios())
