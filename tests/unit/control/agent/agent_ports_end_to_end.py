#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent run: the states of its ports when servers exit and start."""
import contextlib
import json
import os
import resource
import signal
import socket
import sys
import threading
import time

from agent_lab import (BACKEND6, DNS, OTHER, PORT, listen, notice, port_of, reader, run_scenarios,
                       scenario, start_server)
from netns import wait_for

# (state, reason); 1: no listening socket; 2: held down, because the port was closed too often
DOWN, HELD = ("down", 1), ("down", 2)


def wait_state(lab, state, port=PORT, timeout=10):
    wait_for(f"port {port} to be {state}", lambda: port_of(lab, port)["state"] == state, timeout)


def doctor(lab, *options):
    text = lab.backend.run(lab.agent_binary, "doctor", "eth0", "--json", "--key-file", lab.keys,
                           "--run-dir", lab.run_dir, *options, check=False)
    return {(row["check"], row["subject"]): (row["level"], row["found"])
            for row in json.loads(text)["findings"]}


@scenario
def agent_announces_ports_without_a_listening_socket(lab):
    tcp, tcp6, other = listen(lab), listen(lab, BACKEND6), listen(lab, port=OTHER)
    dns = listen(lab, port=DNS, kind=socket.SOCK_DGRAM)
    agent = lab.start_agent("--port", str(PORT), "--port", f"{OTHER}/tcp", "--port", f"{DNS}/udp")
    balancer, old = reader(lab), lab.balancer()
    old.ask(), old.ask()
    answer = balancer.ask()
    assert (answer["word"], answer["serial"], answer["ports"]) == ("ready", 1, {}), answer
    assert answer["given"] == {"port_words"} and old.ask()["given"] == set(), answer
    tcp.close()  # the IPv6 socket still listens
    wait_for("1 listener", lambda: port_of(lab)["listeners"] == 1)
    assert balancer.receive(0.1) is None, "announced as down, although one listener is left"
    tcp6.close()
    answer = notice(balancer)
    assert (answer["word"], answer["serial"], answer["ports"]) == \
        ("ready", 2, {f"{PORT}/tcp": DOWN}), answer
    assert answer["given"] == {"port_words"}, answer
    # the old balancer cannot read states of ports; the host is ready, because not all ports are
    # down
    answer = notice(old)
    assert (answer["word"], answer["serial"], answer["port_word_count"]) == ("ready", 2, 0), answer
    port = port_of(lab)
    assert (port["state"], port["listeners"], port["deaths"]) == ("closed", 0, 1), port
    other.close()
    assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN, f"{OTHER}/tcp": DOWN}
    assert notice(old)["word"] == "ready"
    dns.close()
    assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN, f"{OTHER}/tcp": DOWN,
                                         f"{DNS}/udp": DOWN}
    answer = notice(old)
    assert (answer["word"], answer["why"].rstrip(b"\0")) == \
        ("down", b"3 ports: no listening socket"), answer
    found = doctor(lab, "--port", str(PORT), "--port", f"{DNS}/udp")
    for name in (f"tcp port {PORT}", f"udp port {DNS}"):
        assert found["ports", name][0] == found["listeners", name][0] == "fault", found
        assert "announced as down: no listening socket for" in found["ports", name][1], found
    # The state set by weir-agent lame-duck stays.
    lab.command("lame-duck", "--interval", "0")
    assert notice(old)["word"] == notice(balancer)["word"] == "lame-duck"
    lab.command("ready")
    assert (notice(old)["word"], notice(balancer)["word"]) == ("down", "ready")
    with listen(lab), contextlib.closing(listen(lab, port=DNS, kind=socket.SOCK_DGRAM)):
        while f"{PORT}/tcp" in balancer.ask()["ports"] or f"{DNS}/udp" in balancer.ask()["ports"]:
            assert notice(balancer)["word"] == "ready"
        assert old.ask()["word"] == "ready"
        assert port_of(lab)["state"] == "open"
        found = doctor(lab, "--port", f"{DNS}/udp")
        assert found["ports", f"tcp port {PORT}"][0] == "ok", found
        assert found["listeners", f"udp port {DNS}"] == ("ok", "bound sockets: 1"), found
    for text in (f"port {PORT}: no listening socket: down", f"port {PORT}: listening again: ready",
                 f"port {DNS}/udp: no listening socket: down"):
        assert text in agent.tail(), (text, agent.tail())
    text = lab.command("status")
    assert f"port       {PORT}/tcp " in text and f"port       {DNS}/udp " in text, text


def timed_notice(balancer, change, ports):
    """Make a change. Returns the time in seconds until the balancer has received the unsolicited
    answer that announces the change."""
    balancer.ask(), balancer.ask()
    start = time.monotonic()
    change()
    answer = balancer.receive(5)
    took = time.monotonic() - start
    assert answer["unasked"] and answer["ports"] == ports, answer
    balancer.acknowledged = answer["serial"]
    return took


@scenario
def agent_announces_servers_that_end_and_start_without_waiting_for_a_look(lab):
    """The agent detects the change through kernel events. It does not wait for its next reading of
    the sockets (one per second)."""
    deaths, births = [], []
    for i in range(6):
        agent, server = lab.start_agent("--port", str(PORT)), start_server(lab, PORT)
        wait_state(lab, "open")
        balancer = reader(lab)
        time.sleep(0.1 + i * 0.17)  # each server ends at another moment between two readings of the sockets
        deaths.append(timed_notice(balancer, server.kill, {f"{PORT}/tcp": DOWN}))
        server.wait()
        time.sleep(0.1 + i * 0.17)
        with contextlib.ExitStack() as ends:
            births.append(timed_notice(balancer, lambda: ends.enter_context(listen(lab)), {}))
        agent.kill()
        os.remove(os.path.join(lab.run_dir, "word"))
    for name, took in (("deaths", deaths), ("births", births)):
        print(f"  {name} ms:", *(f"{each * 1e3:.1f}" for each in took))
        # with periodic readings only, the agent would detect a change after 0.5 s on
        # average
        assert sum(took) < len(took) * 0.5 / 4, took


@scenario
def agent_treats_a_stopped_server_as_alive(lab):
    server = start_server(lab, PORT)
    lab.start_agent("--port", str(PORT))
    balancer = reader(lab)
    server.send_signal(signal.SIGSTOP)
    assert balancer.receive(1.5) is None, "announced a stopped server"
    server.send_signal(signal.SIGCONT)
    server.kill()
    assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN}
    server.wait()


@scenario
def agent_does_not_guess_about_ports_that_it_cannot_see(lab):
    """The agent announces no port as down if the server may listen in another network namespace, or
    does not listen yet."""
    with listen(lab, "10.9.0.1", namespace=lab.client):
        agent = lab.start_agent("--port", str(PORT), "--port", f"{DNS}/udp")
        balancer = reader(lab)
        text = f"port {PORT}: no listening socket in this network namespace since the start"
        wait_for("the warning", lambda: text in agent.tail(), 20)
        answer = balancer.ask()
        assert (answer["word"], answer["serial"], answer["ports"]) == ("ready", 1, {}), answer
        assert port_of(lab)["state"] == port_of(lab, DNS)["state"] == "unknown"
        level, text = doctor(lab)["ports", f"tcp port {PORT}"]
        assert level == "warning" and text.startswith("unknown: no listening socket"), text
    with listen(lab):
        wait_state(lab, "open")
    assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN}
    assert agent.tail().count("since the start") == 2, agent.tail()


@scenario
def agent_that_restarts_while_the_server_is_dead_announces_it(lab):
    agent = lab.start_agent("--port", str(PORT), "--port", str(OTHER))
    with listen(lab):
        wait_state(lab, "open")
    wait_state(lab, "closed")
    for number in (signal.SIGKILL, signal.SIGINT):
        agent.signal(number)
        agent.process.wait(5)
        agent = lab.start_agent("--port", str(PORT), "--port", str(OTHER))
        answer = reader(lab).ask()
        assert (answer["word"], answer["ports"]) == ("ready", {f"{PORT}/tcp": DOWN}), answer
        assert port_of(lab, OTHER)["state"] == "unknown"
    agent.kill()
    with listen(lab):
        lab.start_agent("--port", str(PORT))
        assert reader(lab).ask()["ports"] == {}


@scenario
def agent_waits_for_the_grace(lab):
    server = listen(lab)
    lab.start_agent("--port", str(PORT), "--grace", "800ms")
    balancer = reader(lab)
    server.close()
    wait_for("no listener", lambda: port_of(lab)["listeners"] == 0)
    with listen(lab):
        assert balancer.receive(1.2) is None, "announced within the grace"
        assert port_of(lab)["deaths"] == 0
    start = time.monotonic()
    assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN}
    assert time.monotonic() - start > 0.7


@scenario
def agent_holds_a_port_down_that_is_closed_again_and_again(lab):
    agent = lab.start_agent("--port", str(PORT))
    for deaths in range(1, 7):  # six deaths: the hold-down of 8 s is long enough for a slow doctor
        with listen(lab):
            wait_for("a listener", lambda: port_of(lab)["listeners"] == 1)
        wait_for(f"{deaths} deaths", lambda d=deaths: port_of(lab)["deaths"] == d)
    balancer = reader(lab)
    with listen(lab):
        wait_state(lab, "hold-down")
        assert 0 < port_of(lab)["left_ms"] <= 8000
        assert balancer.ask()["ports"] == {f"{PORT}/tcp": HELD}
        assert f"port {PORT}: listening again, but held down for" in agent.tail(), agent.tail()
        assert "hold-down for" in lab.command("status")
        level, text = doctor(lab)["ports", f"tcp port {PORT}"]
        assert level == "warning" and "but the port was closed 6 times" in text, text
        wait_state(lab, "open", timeout=20)
        assert balancer.ask()["ports"] == {}


@scenario
def agent_logs_a_crash_loop_in_few_lines(lab):
    agent = lab.start_agent("--port", str(PORT))
    while (deaths := port_of(lab)["deaths"]) < 60:
        with listen(lab):
            pass
    lines = agent.output().count(": listening again, but held down for ")
    assert 0 < lines < deaths / 2, (lines, deaths)


@scenario
def agent_with_many_dead_ports_takes_the_host_down(lab):
    ports = range(9000, 9013)
    servers = [listen(lab, port=port) for port in ports]
    alive = listen(lab)
    lab.start_agent("--port", str(PORT), *(word for port in ports for word in ("--port", str(port))))
    balancer, old = reader(lab), lab.balancer()
    for server in servers[:-1]:
        server.close()
    wait_for("12 announced states", lambda: balancer.ask()["port_word_count"] == 12)
    assert balancer.ask()["word"] == "ready"
    servers[-1].close()
    wait_for("the host's state", lambda: balancer.ask()["word"] == "down")
    answer = balancer.ask()
    assert (answer["ports"], answer["given"]) == ({}, {"port_words"}), answer
    assert old.ask()["word"] == "ready"  # one port still has a listening socket
    alive.close()
    wait_for("the host's state", lambda: old.ask()["word"] == "down")


@scenario
def agent_without_privileges_looks_by_itself(lab):
    agent = lab.start("agent", lab.backend, "setpriv", "--bounding-set",
                      "-bpf,-perfmon,-sys_admin", lab.agent_binary, "run", "--key-file", lab.keys,
                      "--run-dir", lab.run_dir, "--port", str(PORT))
    wait_for("the agent", lambda: "answering" in agent.tail() or lab.died(agent))
    balancer = reader(lab)
    assert "cannot monitor listening sockets by events, so all sockets are listed every 100 ms: no permission" in agent.tail()
    watch = lab.status()["watch"]
    assert not watch["events"] and "no permission" in watch["problem"], watch
    assert "cannot monitor listening sockets by events: no permission" in lab.command("status")
    level, text = doctor(lab)["ports", "weir-agent run"]
    assert level == "notice" and "up to 0.1 s late: no permission" in text, text
    with listen(lab):
        wait_state(lab, "open")
    assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN}


@scenario
def agent_is_not_kept_busy_by_sockets_that_come_and_go(lab):
    """The agent limits the CPU time for reading the sockets, which takes long if there are
    thousands of listening sockets."""
    agent = lab.start_agent("--port", str(PORT))
    balancer = reader(lab)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def used():
        with open(f"/proc/{agent.pid}/stat", encoding="ascii") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    with contextlib.ExitStack() as ends:
        for i in range(4000):
            ends.enter_context(listen(lab, port=OTHER + i))
        server = listen(lab)
        wait_state(lab, "open")
        count, over = [0], threading.Event()

        def come_and_go():
            while not over.is_set():
                listen(lab).close()
                count[0] += 1
        thread = threading.Thread(target=come_and_go)
        start, before = time.monotonic(), used()
        thread.start()
        time.sleep(2)
        over.set()
        thread.join()
        share = (used() - before) / (time.monotonic() - start)
        print(f"  {count[0]} sockets, {share:.0%} of a CPU")
        assert share < 0.2, share
        assert balancer.receive(0.3) is None and port_of(lab)["deaths"] == 0
        server.close()
        assert notice(balancer)["ports"] == {f"{PORT}/tcp": DOWN}


if __name__ == "__main__":
    sys.exit(run_scenarios())
