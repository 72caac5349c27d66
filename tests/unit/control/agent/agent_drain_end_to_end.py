#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent run: the states that it announces, its drains, and what it refuses."""
import contextlib
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time

from agent_lab import BACKEND, PORT, finish, run_scenarios, scenario
from netns import sh, wait_for


@scenario
def agent_notifies_every_balancer_until_acknowledged(lab):
    lab.start_agent()
    deaf, prompt = lab.balancer(), lab.balancer()
    deaf.ask(), prompt.ask()
    deaf.ask(), prompt.ask()  # the second probe acknowledges the announced state
    assert all(b["heard"] for b in lab.status()["balancers"])
    command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                        "20s", "--run-dir", lab.run_dir)
    notice = prompt.receive(2)
    assert notice["unasked"] and (notice["word"], notice["serial"]) == ("lame-duck", 2), notice
    assert prompt.ask()["serial"] == 2
    prompt.ask()
    times = []
    for _ in range(6):
        notice = deaf.receive(2)
        # The clock of the agent is used, because this process may be late
        times.append(notice["clock_ms"] / 1000)
        assert notice["unasked"] and notice["serial"] == 2
    gaps = [b - a for a, b in zip(times, times[1:])]
    for gap, expected in zip(gaps, (0.05, 0.1, 0.2, 0.4, 0.5)):
        assert expected - 0.02 < gap < expected + 0.2, gaps
    assert prompt.receive(0.1) is None, "notified again although it has acknowledged"
    assert "acknowledged by 1 of 2 balancers" in command.tail() and command.alive(), command.tail()
    deaf.ask(), deaf.ask()
    assert command.process.wait(5) == 0, command.tail()
    lab.command("ready")
    assert prompt.receive(1)["word"] == "ready" and prompt.ask()["serial"] == 3


@scenario
def agent_removes_a_silent_balancer(lab):
    lab.start_agent()
    balancer, other = lab.balancer(), lab.balancer()
    balancer.interval_ms = 100
    balancer.ask(), other.ask()
    balancer.ask(), other.ask()  # the second probe contains the ID of the agent process
    wait_for("one left", lambda: len(lab.status()["balancers"]) == 1)
    lab.command("lame-duck", "--interval", "0")
    assert balancer.receive(0.3) is None and other.receive(0.3) is not None


@scenario
def agent_waits_for_the_last_connection(lab):
    lab.start_agent("--port", str(PORT))
    done = os.path.join(lab.dir, "done")
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        connections = [(lab.connect(), listener.accept()[0]) for _ in range(2)]
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                            "20s", "--run-dir", lab.run_dir, "--then", f"touch {done}")
        assert balancer.receive(2)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        wait_for("2 left", lambda: "2 connections left" in command.tail())
        finish(*connections.pop())
        wait_for("1 left", lambda: "1 connection left" in command.tail())
        assert command.alive() and not os.path.exists(done)
        finish(*connections.pop())
        assert command.process.wait(5) == 0 and os.path.exists(done), command.tail()


@scenario
def lame_duck_with_connections_left_at_its_deadline_exits_with_4(lab):
    lab.start_agent("--port", str(PORT))
    with lab.listen() as listener:
        connection = (lab.connect(), listener.accept()[0])
        for interval, then, status in (("0.3s", (), 4), ("0.3s", ("--then", "true"), 0), ("0", (), 0)):
            command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval", interval,
                                "--run-dir", lab.run_dir, *then)
            assert command.process.wait(10) == status, command.tail()
            assert "lame-duck: interval expired, 1 connection left" in command.tail(), command.tail()
        finish(*connection)


@scenario
def agent_drains_while_an_application_changes_its_word(lab):
    """The drain waits until balancers acknowledge the state of the host. It does not wait for
    states that an application announces later."""
    lab.start_agent("--service", f"web={PORT}", "--port", str(PORT))
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.interval_ms = 60000
        balancer.ask(), balancer.ask()
        connection = (lab.connect(), listener.accept()[0])
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval", "100s", "--run-dir",
                            lab.run_dir)
        assert balancer.receive(5)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        lab.command("announce", "starting", "--service", "web")
        wait_for("the announced state", lambda: not any(each["heard"] for each in lab.status()["balancers"]))
        finish(*connection)
        assert command.process.wait(20) == 0, command.tail()
        assert "acknowledged by 1 of 1 balancer" in command.tail(), command.tail()


@scenario
def agent_runs_no_command_when_the_drain_is_cancelled(lab):
    agent = lab.start_agent("--port", str(PORT))
    done = os.path.join(lab.dir, "called-off")
    with lab.listen() as listener:
        connection = (lab.connect(), listener.accept()[0])
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                            "20s", "--run-dir", lab.run_dir, "--then", f"touch {done}")
        wait_for("1 left", lambda: "1 connection left" in command.tail())
        lab.command("ready")
        assert command.process.wait(5) == 1, command.tail()
        assert "weir-agent ready has ended the drain" in command.tail() and not os.path.exists(done)
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                            "20s", "--run-dir", lab.run_dir, "--then", f"touch {done}")
        wait_for("1 left", lambda: "1 connection left" in command.tail())
        command.signal(signal.SIGSTOP)  # it does not notice that no agent runs
        agent.kill()
        lab.start_agent("--port", str(PORT))
        command.signal(signal.SIGCONT)
        assert command.process.wait(5) == 1, command.tail()
        assert "a restart of weir-agent run has ended the drain" in command.tail() and not os.path.exists(done)
        finish(*connection)


@scenario
def agent_runs_the_command_late_when_no_balancer_was_notified(lab):
    lab.start_agent()
    done = os.path.join(lab.dir, "unnotified")
    warning = "warning: no balancer probes this agent, so none was notified: new connections may still arrive"
    text = lab.backend.run("sh", "-c", f"{lab.agent_binary} lame-duck --run-dir {lab.run_dir} 2>&1")
    assert warning in text, text  # the agent has no balancer to wait for
    command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval", "20s",
                        "--run-dir", lab.run_dir, "--then", f"touch {done}")
    wait_for("a warning", lambda: "none can be notified: weir-agent lame-duck waits" in command.tail())
    begun = time.monotonic()
    lab.command("lame-duck", "--interval", "2s")  # sets the interval of the drain
    wait_for("the command", lambda: os.path.exists(done))
    assert time.monotonic() - begun >= 2, command.tail()
    assert command.process.wait(5) == 0 and warning in command.tail(), command.tail()
    os.remove(done)
    begun = time.monotonic()
    command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval", "3s",
                        "--run-dir", lab.run_dir, "--then", f"touch {done}")
    wait_for("a warning", lambda: "none can be notified: weir-agent lame-duck waits" in command.tail())
    late = lab.balancer()
    # The answer to a probe during the drain notifies the balancer
    assert late.ask()["word"] == "lame-duck"
    late.ask(), late.ask()
    wait_for("it is notified", lambda: "acknowledged by 1 of 1 balancer," in command.tail())
    assert command.process.wait(10) == 0 and os.path.exists(done), command.tail()
    assert time.monotonic() - begun >= 3, "there may be more balancers"
    assert warning not in command.tail(), command.tail()


@scenario
def lame_duck_that_does_not_wait_names_missing_acknowledgements(lab):
    lab.start_agent()
    balancer = lab.balancer()
    balancer.ask(), balancer.ask()
    text = lab.backend.run("sh", "-c", f"{lab.agent_binary} lame-duck --interval 0 --run-dir {lab.run_dir} 2>&1")
    assert "acknowledged by 0 of 1 balancer," in text, text
    assert "warning: no balancer has acknowledged the state yet: new connections may still arrive" in text, text


@scenario
def agent_stops_at_the_deadline(lab):
    agent = lab.start_agent("--port", str(PORT), "--interval", "1s")
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        with lab.connect(), listener.accept()[0]:
            start = time.monotonic()
            agent.signal(signal.SIGTERM)
            assert balancer.receive(1)["word"] == "lame-duck"
            assert agent.process.wait(5) == 0, agent.tail()
            assert 0.9 < time.monotonic() - start < 2.0
    assert "drain: deadline" in agent.tail(), agent.tail()


@scenario
def agent_stops_when_all_connections_have_ended(lab):
    agent = lab.start_agent("--port", str(PORT))
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        client, server = lab.connect(), listener.accept()[0]
        agent.signal(signal.SIGTERM)
        assert balancer.receive(1)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        wait_for("serving", lambda: "drain: serving" in agent.tail())
        finish(client, server)
        assert agent.process.wait(5) == 0, agent.tail()
    assert "drain: done" in agent.tail(), agent.tail()


@scenario
def agent_drains_again_when_it_is_stopped_after_an_earlier_drain(lab):
    """A drain that did not wait, or that ended before the connection was opened, does not count."""
    for interval in ("0", "20s"):
        agent = lab.start_agent("--port", str(PORT))
        lab.command("lame-duck", "--interval", interval)
        with lab.listen() as listener:
            connection = (lab.connect(), listener.accept()[0])
            agent.signal(signal.SIGTERM)
            wait_for("serving", lambda: "drain: serving" in agent.tail() or not agent.alive())
            assert agent.alive(), agent.tail()
            finish(*connection)
            assert agent.process.wait(5) == 0, agent.tail()


@scenario
def agent_stops_at_the_earlier_of_two_deadlines(lab):
    for own, other in (("1s", "12h"), ("60s", "2s")):
        agent = lab.start_agent("--port", str(PORT), "--interval", own)
        with lab.listen() as listener, lab.connect(), listener.accept()[0]:
            lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval", other, "--run-dir",
                      lab.run_dir)
            wait_for("the drain", lambda: lab.status()["drain"]["state"] == "serving")
            agent.signal(signal.SIGTERM)
            assert agent.process.wait(10) == 0, agent.tail()
            assert "drain: deadline" in agent.tail(), agent.tail()


def forged_syn(port):
    """Returns a TCP SYN in an IPv4 packet with a correct TCP checksum. No host has its source address."""
    source, target = socket.inet_aton("10.9.0.77"), socket.inet_aton(BACKEND)
    segment = struct.pack("!HHIIBBHHH", port, PORT, port, 0, 5 << 4, 2, 1024, 0, 0)
    words = struct.unpack("!16H", source + target + struct.pack("!HH", 6, len(segment)) + segment)
    total = sum(words)
    total = (total >> 16) + (total & 0xffff)
    checksum = ~(total + (total >> 16)) & 0xffff
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, source, target)
    return header + segment[:16] + struct.pack("!H", checksum) + segment[18:]


def half_open(lab):
    return len(lab.backend.run("ss", "-Htn", "state", "syn-recv").splitlines())


@scenario
def agent_does_not_wait_for_a_flood_of_syns(lab):
    agent = lab.start_agent("--port", str(PORT), "--interval", "60s")
    with lab.listen():
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        with lab.client.inside():
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with raw:
            for port in range(2000, 2040):
                raw.sendto(forged_syn(port), (BACKEND, 0))
        wait_for("half-open connections", lambda: half_open(lab) >= 30)
        start = time.monotonic()
        agent.signal(signal.SIGTERM)
        assert balancer.receive(1)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        assert agent.process.wait(10) == 0, agent.tail()
        assert half_open(lab) >= 30
        assert 1.5 < time.monotonic() - start < 4, time.monotonic() - start
    assert "drain: done" in agent.tail(), agent.tail()


@scenario
def agent_stays_a_lame_duck_when_it_dies(lab):
    agent = lab.start_agent("--warm-up", "true")
    wait_for("ready", lambda: lab.status()["word"] == "ready")
    lab.command("lame-duck", "--interval", "0")
    agent.kill()
    agent = lab.start_agent("--warm-up", "true")
    balancer = lab.balancer()
    wait_for("two probes after the warm-up", lambda: balancer.ask()["clock_ms"] > 300)
    assert balancer.ask()["word"] == "lame-duck"
    lab.command("ready")
    assert balancer.receive()["word"] == "ready"
    agent.kill()
    agent = lab.start_agent("--interval", "0.1s")
    assert lab.balancer().ask()["word"] == "ready"
    lab.command("lame-duck", "--interval", "0")
    agent.signal(signal.SIGTERM)
    # The drain was complete, so the next agent starts with state ready
    assert agent.process.wait(5) == 0
    agent = lab.start_agent()
    assert lab.status()["word"] == "ready"
    agent.kill()


@scenario
def agent_stays_a_lame_duck_on_a_full_file_system(lab):
    os.makedirs(lab.run_dir, exist_ok=True)
    with mounted(lab.run_dir):
        agent = lab.start_agent()
        fill(lab.run_dir)
        text = lab.command("lame-duck", "--interval", "0")
        assert sorted(text.splitlines()) == [  # the order of stderr and stdout may differ
            "lame-duck: acknowledged by 0 of 0 balancers, 0 connections left",
            "lame-duck: interval expired, 0 connections left",
            "weir-agent: warning: no balancer probes this agent, so none was notified: new connections may still arrive"], text
        agent.kill()
        agent = lab.start_agent()
        assert lab.status()["word"] == "lame-duck", agent.tail()
        agent.kill()
        os.remove(os.path.join(lab.run_dir, "word"))
        fill(lab.run_dir)
        agent = lab.start_agent()
        assert "a restart of the agent will lose the lame-duck state and closed ports" in agent.tail(), agent.tail()
        agent.kill()


@contextlib.contextmanager
def mounted(folder):
    sh("mount", "-t", "tmpfs", "-o", "size=64k,mode=750", "none", folder)
    try:
        yield
    finally:
        sh("umount", folder)


def fill(folder):
    with contextlib.suppress(OSError), open(os.path.join(folder, "fill"), "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@scenario
def stopped_agent_starts_without_its_state(lab):
    """An agent is killed before its drain has ended, for example by docker stop after ten seconds.
    The next agent still starts with state ready."""
    agent = lab.start_agent("--port", str(PORT))
    with lab.listen() as listener, lab.connect(), listener.accept()[0]:
        agent.signal(signal.SIGTERM)
        wait_for("the drain", lambda: lab.status()["drain"]["state"] == "serving")
        agent.kill()
        agent = lab.start_agent("--port", str(PORT))
        assert lab.status()["word"] == "ready", agent.tail()


@scenario
def agent_is_starting_until_it_is_warm(lab):
    warm = os.path.join(lab.dir, "warm")
    lab.start_agent("--warm-up", f"until test -e {warm}; do sleep 0.05; done")
    balancer = lab.balancer()
    assert balancer.ask()["word"] == "starting"
    balancer.ask()
    with open(warm, "w", encoding="ascii"):
        pass
    notice = balancer.receive(2)
    assert notice["unasked"] and notice["word"] == "ready", notice
    os.remove(warm)


@scenario
def agent_stays_starting_when_the_warm_up_fails(lab):
    agent = lab.start_agent("--warm-up", "exit 3")
    wait_for("failure", lambda: "the command failed (exit 3" in agent.tail())
    balancer = lab.balancer()
    assert balancer.ask()["word"] == "starting"
    balancer.ask()
    lab.command("ready")
    assert balancer.receive()["word"] == "ready"
    assert balancer.ask()["word"] == "ready"


@scenario
def uncountable_connections_do_not_end_a_drain(lab):
    """If the kernel lacks inet_diag, the drain lasts until its deadline."""
    os.makedirs(lab.run_dir, exist_ok=True)
    path = os.path.join(lab.run_dir, "agent.sock")
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    drain = {"state": "serving", "left_ms": 900, "unheard": 0}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(512)
                        connection.send(json.dumps({"word": "lame-duck", "drain": drain}).encode())
        threading.Thread(target=serve, daemon=True).start()
        assert "serving, 0 balancers not yet notified, an unknown number of connections, 0.9s left" in \
            lab.command("status")
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--run-dir",
                            lab.run_dir)
        wait_for("progress", lambda: "an unknown number of connections left" in command.tail())
        drain["state"] = "deadline"
        assert command.process.wait(5) == 4, command.tail()
        listener.shutdown(socket.SHUT_RDWR)


@scenario
def agent_reports_errors(lab):
    os.chmod(lab.keys, 0o644)
    for status, expected, *words in (
            (1, "keys", "run", "--key-file", lab.keys, "--run-dir", lab.run_dir),
            (1, "--key-file: /nonexistent does not exist", "run", "--key-file", "/nonexistent"),
            (3, "no response from weir-agent run", "status", "--run-dir", lab.run_dir),
            (3, "no response from weir-agent run", "lame-duck", "--run-dir", lab.run_dir),
            (2, "use weir-agent key generate", "key")):
        program = lab.start("words", lab.backend, lab.agent_binary, *words)
        assert program.process.wait(10) == status, (words, program.tail())
        assert expected in program.tail(), (words, program.tail())
    lab.write_keys(1)
    planted = os.path.join(lab.dir, "planted")
    os.mkdir(planted)
    for mode, owner, expected in ((0o1777, 0, "is shared with all users"),
                                  (0o755, 4242, "belongs to user 4242")):
        os.chmod(planted, mode)
        os.chown(planted, owner, 0)
        program = lab.start("planted", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                            "--run-dir", planted)
        wait_for("the end", lambda p=program: not p.alive())
        assert program.process.returncode == 1, program.tail()
        assert expected in program.tail(), program.tail()
    lonely = lab.start("lonely", lab.backend, "prlimit", "--nproc=1", lab.agent_binary, "run",
                       "--key-file", lab.keys, "--run-dir", lab.run_dir, "--warm-up", "true")
    assert lonely.process.wait(10) == 1, lonely.tail()  # the agent can no longer fork
    assert "cannot start: " in lonely.tail(), lonely.tail()
    doctor = lab.start("doctor", lab.backend, lab.agent_binary, "doctor", "eth0", "--run-dir", lab.run_dir)
    doctor.process.wait(15)
    assert "has crashed, or could not start: balancers get no load reports" in doctor.tail(), doctor.tail()
    first = lab.start_agent()
    second = lab.start("second", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                       "--run-dir", lab.run_dir)
    assert second.process.wait(10) == 1, second.tail()
    assert "UDP port 4777 is in use" in second.tail(), second.tail()
    third = lab.start("third", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                      "--run-dir", lab.run_dir, "--udp-port", "4778")
    # while the third agent is running, commands can fail to reach the first agent
    wait_for("the end", lambda: not third.alive())
    assert third.process.returncode == 1, third.tail()
    assert f"another weir-agent uses {lab.run_dir}" in third.tail(), third.tail()
    lab.command("lame-duck", "--interval", "0")
    assert "lame-duck" in first.tail(), first.tail()


@scenario
def hanging_agent_does_not_block_commands(lab):
    agent = lab.start_agent()
    agent.signal(signal.SIGSTOP)
    path = os.path.join(lab.run_dir, "agent.sock")
    with contextlib.ExitStack() as waiting:
        # Connect until the backlog of the socket is full
        with contextlib.suppress(BlockingIOError):
            while True:
                sock = waiting.enter_context(socket.socket(socket.AF_UNIX))
                sock.setblocking(False)
                sock.connect(path)
        command = lab.start("status", lab.backend, lab.agent_binary, "status", "--run-dir",
                            lab.run_dir)
        assert command.process.wait(15) == 3, command.tail()  # the command waits 5 s
        assert "the process hangs or is stopped" in command.tail(), command.tail()
    agent.signal(signal.SIGCONT)


@scenario
def hanging_agent_executes_no_command_that_has_failed(lab):
    agent = lab.start_agent()
    agent.signal(signal.SIGSTOP)
    command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--run-dir", lab.run_dir)
    assert command.process.wait(15) == 3, command.tail()
    doctor = lab.start("doctor", lab.backend, lab.agent_binary, "doctor", "eth0", "--run-dir", lab.run_dir)
    doctor.process.wait(15)
    assert re.search(r"^warning +balancers +.* is running, but does not respond", doctor.tail(), re.M), doctor.tail()
    agent.signal(signal.SIGCONT)
    assert lab.status()["word"] == "ready"


if __name__ == "__main__":
    sys.exit(run_scenarios())
