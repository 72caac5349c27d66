#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent run: applications that do not run as root announce states of their own
services."""
import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time

from agent_lab import (DNS, HERE, OTHER, PORT, listen, notice, port_of, reader, run_scenarios, scenario,
                       start_server)
from lingering import lingering
from netns import wait_for

WEB, BIND, STRANGER = 1234, 1235, 1236  # user IDs
DUCK = ("lame-duck", 3)
SERVICES = ("--service", f"web={PORT},{OTHER}", "--allow-user", f"{WEB}=web",
            "--service", f"dns={DNS}/udp", "--allow-user", f"{BIND}=dns")
GUIDE = os.path.join(HERE, "..", "..", "..", "..", "docs", "guide", "backends.md")
HEADER = os.path.join(HERE, "..", "..", "..", "..", "control", "agent", "words")


def sock(lab, service="web"):
    return os.path.join(lab.run_dir, "words", f"{service}.sock")


def announce(lab, user, *words):
    """Run weir-agent announce as a user. Returns (exit status, output)."""
    done = subprocess.run([lab.agent_binary, "announce", *words, "--run-dir", lab.run_dir],
                          user=user, group=user, extra_groups=[], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)
    return done.returncode, done.stdout


def ask(path, text, timeout=10):
    """Send a request as root, the user of this process. Returns the reply."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout)
        client.connect(path)
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return client.recv(300).decode()


def service_of(lab, name="web"):
    return next(each for each in lab.status()["services"] if each["service"] == name)


@contextlib.contextmanager
def servers(lab):
    with listen(lab), listen(lab, port=OTHER), \
            contextlib.closing(listen(lab, port=DNS, kind=socket.SOCK_DGRAM)):
        yield


BOTH = {f"{PORT}/tcp": DUCK, f"{OTHER}/tcp": DUCK}


@scenario
def agent_announces_the_word_of_an_application(lab):
    with servers(lab):
        agent = lab.start_agent(*SERVICES)
        balancer, old = reader(lab), lab.balancer()
        old.ask(), old.ask()
        assert announce(lab, WEB, "status") == \
            (0, f"web: ready, balancers 2, pending 0, ports {PORT} {OTHER}\n")
        status, text = announce(lab, WEB, "lame-duck")
        assert status == 0 and text.startswith("web: lame-duck, balancers 2, pending "), text
        answer = notice(balancer)
        assert (answer["word"], answer["ports"]) == ("ready", BOTH), answer
        assert notice(old)["word"] == "ready"  # this balancer cannot read states of ports, and DNS is ready
        serial = answer["serial"]
        wait_for("the acknowledgements", lambda: announce(lab, WEB, "lame-duck")[1] ==
                 f"web: lame-duck, balancers 2, pending 0, ports {PORT} {OTHER}\n")
        assert balancer.ask()["serial"] == serial, "the same word again is no change"
        assert port_of(lab)["word"] == "lame-duck" and port_of(lab)["state"] == "open"
        assert service_of(lab)["word"] == "lame-duck" and service_of(lab, "dns")["word"] == "ready"
        assert f"service    web of {WEB}: lame-duck, " in lab.command("status")
        assert ", announced lame-duck by its application" in lab.command("status")
        assert re.search(rf"service web: lame-duck, announced by pid \d+ of user {WEB}", agent.tail())
        assert announce(lab, 0, "down", "--service", "dns")[0] == 0  # root may always announce
        assert notice(balancer)["ports"] == {**BOTH, f"{DNS}/udp": ("down", 3)}
        answer = notice(old)
        assert (answer["word"], answer["why"].rstrip(b"\0")) == \
            ("lame-duck", b"3 ports: by the application"), answer
        # "weir-agent ready" applies to the host. It names the services to which it does not apply.
        done = subprocess.run([lab.agent_binary, "ready", "--run-dir", lab.run_dir], stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, timeout=20)
        for service, word in (("web", "lame-duck"), ("dns", "down")):
            assert (f"service {service} stays {word}, because this state was announced; to change this, run "
                    f"\"weir-agent announce ready --service {service} --run-dir {lab.run_dir}\"\n") in done.stderr, done
        assert done.returncode == 0 and "balancers to notify: 2" in done.stdout, done
        assert service_of(lab)["word"] == "lame-duck"
        assert announce(lab, WEB, "ready", "--service", "web")[0] == 0
        assert notice(balancer)["ports"] == {f"{DNS}/udp": ("down", 3)}
        assert ask(sock(lab, "dns"), b"READY=1\nSTATUS=hello").startswith("dns: ready")
        assert notice(balancer)["ports"] == {}


@scenario
def agent_refuses_other_users(lab):
    with servers(lab):
        lab.start_agent(*SERVICES)
        balancer = reader(lab)
        for service, owner in (("web", WEB), ("dns", BIND)):
            status = os.stat(sock(lab, service))
            assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, owner), status
        assert stat.S_IMODE(os.stat(os.path.join(lab.run_dir, "agent.sock")).st_mode) == 0o600
        assert not os.stat(os.path.join(lab.run_dir, "words")).st_mode & 0o022
        for user, service in ((WEB, "dns"), (BIND, "web"), (STRANGER, "web"), (65534, "web")):
            status, text = announce(lab, user, "down", "--service", service)
            assert status == 1 and f"user {user} may not announce for service {service}" in text, text
            assert f"--allow-user {user}={service}" in text, text
        status, text = announce(lab, STRANGER, "lame-duck")
        assert status == 3 and "no socket of a service that this user may announce for" in text, text
        status, text = announce(lab, 0, "lame-duck")
        assert status == 1 and "several services; use --service NAME" in text, text
        # The agent also checks the user of each client, whatever the mode of the socket
        os.chmod(sock(lab, "dns"), 0o666)
        status, text = announce(lab, WEB, "down", "--service", "dns")
        assert (status, text) == (1, f"weir-agent: user {WEB} may not announce for service dns\n"), text
        for request in (b"lame-duck dns\n", b"\xff\n", b"x" * 512, b"lame-duck\nx\n", b"LAME-DUCK\n"):
            assert ask(sock(lab), request).startswith("error: unknown request; use starting"), request
        long = b"down\nSTATUS=" + b"x" * 501
        for request in (long, long + b"\nready\n"):
            assert ask(sock(lab), request).startswith("error: the request is too long"), request
        assert ask(sock(lab), b"\n").startswith("web: ready")
        assert balancer.receive(0.2) is None and balancer.ask()["serial"] == 1, "it changed something"
        assert (service_of(lab)["refused"], service_of(lab, "dns")["refused"]) == (7, 1)


@scenario
def agent_refuses_unknown_users_and_paths(lab):
    for options, text in (
            (("--service", "web=80", "--allow-user", "nosuchuser=web"), "--allow-user nosuchuser: no such user"),
            (("--service", "a" * 31 + "=80", "--run-dir", lab.run_dir + "x" * (89 - len(lab.run_dir))),
             "--run-dir: the name is too long for service")):
        agent = lab.start("agent", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                          "--run-dir", lab.run_dir, *options)
        agent.process.wait(10)
        assert agent.process.returncode == 1 and text in agent.tail(), agent.tail()


@scenario
def agent_keeps_a_word_over_its_own_restart(lab):
    with servers(lab):
        for number in (signal.SIGKILL, signal.SIGINT):
            agent = lab.start_agent(*SERVICES)
            announce(lab, WEB, "lame-duck")
            agent.signal(number)
            agent.process.wait(5)
            status, text = announce(lab, WEB, "lame-duck")
            assert status == 3 and "weir-agent run has exited; start it" in text, text
            lab.start_agent(*SERVICES)
            assert reader(lab).ask()["ports"] == BOTH, "forgotten"
            lab.programs.pop().kill()
        agent = lab.start_agent("--port", str(PORT), *SERVICES[4:])  # the agent starts without the service "web"
        assert reader(lab).ask()["ports"] == {}, "an announced state that no user can end"
        assert not os.path.exists(sock(lab)), "a socket of an earlier service"
        agent.kill()


@scenario
def agent_ends_a_word_with_the_process_that_announced_it(lab):
    lab.start_agent(*SERVICES)
    balancer = reader(lab)
    for signal_number in (signal.SIGKILL, signal.SIGTERM):
        server = start_server(lab, PORT)
        wait_for("open", lambda: port_of(lab)["state"] == "open")
        announce(lab, WEB, "lame-duck")
        assert port_of(lab)["word"] == "lame-duck"
        server.send_signal(signal_number)
        server.wait()
        wait_for("closed", lambda: port_of(lab)["state"] == "closed")
        assert balancer.ask()["ports"][f"{PORT}/tcp"] == ("down", 1)
    server = start_server(lab, PORT, OTHER)
    wait_for("a new state", lambda: "word" not in port_of(lab) and "word" not in port_of(lab, OTHER))
    # the port may be held down for a while, because its servers ended
    wait_for("none announced", lambda: balancer.ask()["ports"] == {}, 40)
    server.kill()
    server.wait()
    wait_for("closed", lambda: port_of(lab)["state"] == "closed")
    announce(lab, WEB, "starting")
    server = start_server(lab, PORT, OTHER)
    wait_for("starting", lambda: balancer.ask()["ports"] ==
             {f"{PORT}/tcp": ("starting", 3), f"{OTHER}/tcp": ("starting", 3)}, 40)
    announce(lab, WEB, "ready")
    assert balancer.ask()["ports"] == {}
    server.kill()
    server.wait()


def listen_anew(lab, before):
    """Listen on OTHER, run before(), and close the socket. Returns a new socket that listens on
    OTHER."""
    with listen(lab, port=OTHER):
        wait_for("open", lambda: port_of(lab, OTHER)["state"] == "open")
        before()
    wait_for("closed", lambda: port_of(lab, OTHER)["state"] == "closed")
    return listen(lab, port=OTHER)


@scenario
def agent_ends_the_words_of_all_ports_of_a_service(lab):
    """If one port of a service has a new socket, the announced states of all ports of the service
    are discarded."""
    lab.start_agent(*SERVICES)
    balancer = reader(lab)
    with listen(lab):
        with listen_anew(lab, lambda: announce(lab, WEB, "lame-duck")):
            wait_for("a new state", lambda: balancer.ask()["ports"] == {f"{PORT}/tcp": DUCK}, 40)
            announce(lab, WEB, "ready")
            assert balancer.ask()["ports"] == {}


def postpone(lab, word, current):
    """Announce `current` and `word` in turn, until the agent postpones `word` because states change too often."""
    def waits():
        ask(sock(lab), current + b"\n")
        return ask(sock(lab), word + b"\n").startswith(f"web: {current.decode()},")
    wait_for("a postponed state", waits, 20)


@scenario
def agent_forgets_a_postponed_word_with_its_process(lab):
    lab.start_agent(*SERVICES)
    balancer = reader(lab)
    with listen(lab):
        wait_for("open", lambda: port_of(lab)["state"] == "open")
        postpone(lab, b"lame-duck", b"ready")
    wait_for("closed", lambda: port_of(lab)["state"] == "closed")
    with listen(lab):
        wait_for("open again", lambda: balancer.ask()["ports"] == {} and port_of(lab)["state"] == "open")
        announced = []  # the agent waits 2 s between two changes, so a postponed change would arrive within 3 s
        while (answer := balancer.receive(3)) is not None:
            announced.append(answer["ports"])
            balancer.acknowledged = answer["serial"]
            balancer.ask()
        assert DUCK not in [word for ports in announced[-1:] for word in ports.values()], announced
        assert service_of(lab)["word"] == "ready"


@scenario
def agent_keeps_a_postponed_ready(lab):
    """A postponed "ready" applies to all ports of the service, even if one of the ports gets a
    new socket meanwhile."""
    lab.start_agent(*SERVICES)
    balancer = reader(lab)
    with listen(lab):
        with listen_anew(lab, lambda: postpone(lab, b"ready", b"down")):
            wait_for("ready", lambda: balancer.ask()["ports"] == {}, 20)


# --- programs in several languages from the guide ---

def snippets(lab):
    """Returns {language: text} for the programs in a section of the guide, with the paths of the lab."""
    with open(GUIDE, encoding="utf-8") as file:
        section = file.read().split("### In the server")[1].split("\n## ")[0].split("\n### ")[0]
    found = dict(re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S))
    return {name: text.replace("/run/weir-agent", lab.run_dir) for name, text in found.items()}


def as_user(lab, command, user=WEB, **options):
    return subprocess.Popen(command, user=user, group=user, extra_groups=[], cwd=lab.dir,
                            text=True, **options)


def write(lab, name, text):
    path = os.path.join(lab.dir, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def build(lab, text):
    source = write(lab, "server.c", text)
    program = os.path.join(lab.dir, "server")
    subprocess.run(["cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
                    f"-DWEIR_WORD_DIR=\"{lab.run_dir}/words\"", "-I", HEADER, "-o", program, source],
                   check=True)
    return program


def ended(process, code=0):
    assert process.wait(20) == code, process.returncode


@scenario
def agent_takes_the_words_of_the_guide(lab):
    """Run the programs of the guide: the C code in a SIGTERM handler, and the Java program only if
    a compiler is installed."""
    lab.start_agent(*SERVICES)
    texts = snippets(lab)
    assert {"c", "python", "go", "java", "sh"} <= set(texts), set(texts)
    with servers(lab):
        commands = {"python": ["/usr/bin/python3", write(lab, "word.py", texts["python"])],
                    "sh": ["/bin/sh", write(lab, "word.sh", texts["sh"].replace(
                        "weir-agent announce", f"{lab.agent_binary} announce --run-dir {lab.run_dir}"))]}
        java = subprocess.run(["which", "javac"], stdout=subprocess.DEVNULL, check=False)
        if java.returncode == 0:
            commands["java"] = ["java", write(lab, "Word.java", texts["java"])]
        for name, command in commands.items():
            ended(as_user(lab, command))
            assert service_of(lab)["word"] == "lame-duck", name
            announce(lab, WEB, "ready")
        server = as_user(lab, [build(lab, texts["c"])])
        wait_for("the handler of the signal", lambda: handles_sigterm(server.pid))
        assert service_of(lab)["word"] == "ready"
        server.send_signal(signal.SIGTERM)
        wait_for("its word", lambda: service_of(lab)["word"] == "lame-duck")
        server.kill()
        server.wait()


def handles_sigterm(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = int(re.search(r"^SigCgt:\s*(\w+)", file.read(), re.M)[1], 16)
    return caught >> (signal.SIGTERM - 1) & 1


EVERY_WORD = """
#include <stdio.h>
#include "weir_word.h"
int main(void) {
	struct weir_word word;
	char name[200] = "";
	memset(name, 'x', 199);
	if (weir_word_prepare(&word, name) != -ENAMETOOLONG) return 1;
	if (weir_word_prepare(&word, "nosuch") || weir_word_ready(&word) != -ENOENT) return 2;
	if (weir_word_prepare(&word, "dns") || weir_word_ready(&word) != -EACCES) return 3;
	errno = 77;
	if (weir_word_prepare(&word, "web") || weir_word_starting(&word) || weir_word_down(&word) ||
		weir_word_lame_duck(&word) || weir_word_ready(&word) || weir_word_down(&word)) return 4;
	return errno != 77;
}
"""


@scenario
def agent_takes_every_word_of_the_header(lab):
    lab.start_agent(*SERVICES)
    with servers(lab):
        program = build(lab, EVERY_WORD)
        ended(as_user(lab, [program]))
        wait_for("the last word", lambda: service_of(lab)["word"] == "down")


# --- floods ---

FLOOD = """
import os, socket, sys
path, kind = sys.argv[1:]
held, n = [], 0
while True:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(0.2)
    try:
        client.connect(path)
        if kind == "words":
            client.sendall((b"lame-duck\\n", b"ready\\n")[n & 1])
        elif kind == "bytes":
            for _ in range(100):
                client.sendall(b"x")
        else:
            held = held[-200:] + [client]
            continue
    except OSError:
        pass
    client.close()
    n += 1
"""


def used(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@scenario
def agent_answers_one_user_while_another_floods(lab):
    with servers(lab):
        agent = lab.start_agent(*SERVICES)
        balancer = reader(lab)
        flooders = [as_user(lab, ["/usr/bin/python3", "-c", FLOOD, sock(lab), kind])
                    for kind in ("words", "words", "bytes", "idle")]
        try:
            wait_for("the flood", lambda: service_of(lab)["requests"] > 100, 30)
            start, before = time.monotonic(), used(agent.pid)
            serial = balancer.ask()["serial"]
            requests, turns = service_of(lab)["requests"], []
            for word, ports in (("lame-duck", {f"{DNS}/udp": DUCK}), ("ready", {})) * 4:
                begun = time.monotonic()
                assert announce(lab, BIND, word)[0] == 0
                found = {name: port for name, port in balancer.ask()["ports"].items()
                         if name == f"{DNS}/udp"}
                turns.append(time.monotonic() - begun)
                assert found == ports, (word, found)
            wait_for("three seconds", lambda: time.monotonic() - start > 3, 30)
            requests = service_of(lab)["requests"] - requests
            seconds = time.monotonic() - start
            share = (used(agent.pid) - before) / seconds
            changes = balancer.ask()["serial"] - serial - 8
            assert all(flooder.poll() is None for flooder in flooders)
        finally:
            for flooder in flooders:
                flooder.kill()
                flooder.wait()
        print(f"  {share:.0%} of a CPU, {requests} requests and {changes} changes in {seconds:.1f} s, words of the other "
              f"user took {max(turns) * 1e3:.0f} ms at most")
        assert share < 0.2, share
        assert requests <= 8 * (seconds / 0.05 + 2), requests
        # The states of both ports change together, at most once every 2 s
        assert changes <= 2 + seconds / 2, changes
        assert service_of(lab)["postponed"] > 0 and service_of(lab, "dns")["postponed"] == 0
        wait_for("an empty queue", lambda: announce(lab, WEB, "lame-duck")[0] == 0)
        wait_for("the last announced state", lambda: service_of(lab)["word"] == "lame-duck", 20)
        assert service_of(lab, "dns")["word"] == "ready"
        assert agent.output().count("service web: ") < 8 + 2 + (time.monotonic() - start), \
            agent.tail()


@scenario
def agent_answers_while_a_user_sends_it_descriptors(lab):
    with servers(lab):
        agent = lab.start_agent(*SERVICES)
        balancer = reader(lab)
        with lingering(lab.backend, agent.process, sock(lab), WEB):
            wait_for("an answer", lambda: balancer.send(balancer.probe()) or balancer.receive(), 20)
            assert announce(lab, BIND, "lame-duck")[0] == 0


if __name__ == "__main__":
    sys.exit(run_scenarios())
