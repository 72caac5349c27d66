#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent exec: it drains its server, and sends SIGTERM to the server after all balancers
and clients have stopped using it."""
import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys

from agent_lab import OTHER, PORT, notice, port_of, reader, run_scenarios, scenario
from lingering import lingering
from netns import wait_for

USER = 1234
DUCK, STARTING = {f"{PORT}/tcp": ("lame-duck", 3)}, {f"{PORT}/tcp": ("starting", 3)}
SERVICES = ("--service", f"web={PORT}", "--allow-user", f"{USER}=web", "--port", str(OTHER))
# A server that prints each signal, and exits with 7 on SIGTERM. Commands on standard input: "notify TEXT" sends TEXT
# to NOTIFY_SOCKET, "orphan" creates an orphan process that exits, and "zombies" prints the number
# of zombies.
SERVER = f"""
import os, signal, socket, sys, threading
server = socket.create_server(("", {PORT}))
def accept():
    while True:
        client, _ = server.accept()
        with client:
            client.recv(1)  # wait until the client closes
threading.Thread(target=accept, daemon=True).start()
def on_signal(number, _):
    print("got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        os._exit(7)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2, signal.SIGRTMIN):
    signal.signal(number, on_signal)
print("serving", flush=True)
for line in sys.stdin:
    word, _, text = line.strip().partition(" ")
    if word == "notify":
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(text.replace("|", "\\n").encode(), os.environ["NOTIFY_SOCKET"].replace("@", "\\0"))
    elif word == "orphan":
        child = os.fork()
        if child == 0:
            os.fork()
            os._exit(0)
        os.waitpid(child, 0)
    elif word == "zombies":
        states = ""
        for pid in os.listdir("/proc"):
            try:
                states += open(f"/proc/{{pid}}/stat").read().rsplit(")", 1)[1].split()[0]
            except (OSError, IndexError):
                pass
        print(f"{{states.count('Z')}} zombies", flush=True)
    elif word == "print":
        print(os.environ.get(text, "none"), os.getpid(), flush=True)
"""


class Server:
    """A server that weir-agent exec runs, with a user of its own."""

    def __init__(self, lab, *options, before=(), env=None, program=("/usr/bin/python3", "-c", SERVER)):
        self.log = os.path.join(lab.dir, "exec.log")
        with lab.backend.inside(), open(self.log, "w", encoding="ascii") as log:
            self.process = subprocess.Popen(
                [*before, "setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
                 lab.agent_binary, "exec", "--run-dir", lab.run_dir, *options, "--", *program],
                stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
                env={**os.environ, **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            for pid in self.pids():
                os.kill(int(pid), signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def pids(self):
        with contextlib.suppress(FileNotFoundError), \
                open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                     encoding="ascii") as file:
            return file.read().split()
        return []

    def output(self):
        with open(self.log, encoding="ascii") as file:
            return file.read()

    def expect(self, text, count=1):
        wait_for(text, lambda: self.output().count(text) >= count or self.has_ended(text), 20)
        return self

    def has_ended(self, text):
        assert self.process.poll() is None or text in self.output(), self.output()
        return False

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, number):
        self.process.send_signal(number)

    def ends_with(self, code):
        assert self.process.wait(20) == code, (self.process.returncode, self.output())


def word(lab):
    return lab.status()["services"][0]["word"]


@scenario
def exec_drains_before_the_server_gets_sigterm(lab):
    lab.start_agent(*SERVICES)
    with Server(lab) as server:
        server.expect("serving")
        balancer = reader(lab)
        server.send(signal.SIGTERM)
        answer = balancer.receive(5)
        assert (answer["word"], answer["ports"]) == ("ready", DUCK), answer
        # no balancer acknowledges the announcement, so the agent repeats it; six repetitions take
        # over a second
        for _ in range(6):
            assert balancer.receive(5)["serial"] == answer["serial"]
        assert "got SIGTERM" not in server.output(), "before a balancer acknowledged it"
        connection = lab.connect()
        balancer.acknowledged = answer["serial"]
        requests = lab.status()["services"][0]["requests"]
        balancer.ask()
        wait_for("ten steps of the drain",
                 lambda: balancer.ask() and lab.status()["services"][0]["requests"] > requests + 10)
        assert "got SIGTERM" not in server.output(), "before its connection ended"
        connection.close()
        server.expect("got SIGTERM").ends_with(7)
        assert "drained, acknowledged by 1 of 1 balancer, 0 connections left" in server.output()
        assert lab.status()["word"] == "ready"
    with Server(lab) as server:  # the next server process starts with state ready
        server.expect("serving")
        wait_for("no announced state", lambda: balancer.ask()["ports"] == {} and word(lab) == "ready")


@scenario
def exec_waits_no_longer_than_it_is_to(lab):
    lab.start_agent(*SERVICES)
    with Server(lab, "--drain-timeout", "500ms") as server:
        server.expect("serving")
        with lab.connect():
            server.send(signal.SIGTERM)
            server.expect("got SIGTERM").ends_with(7)
        assert "drain timed out, acknowledged by 0 of 0 balancers, 1 connection left" in server.output()
    with Server(lab, "--delay", "900ms", "--drain-timeout", "100ms") as server:
        server.expect("serving").send(signal.SIGTERM)
        wait_for("lame-duck", lambda: word(lab) == "lame-duck")
        server.expect("drained, ").ends_with(7)
    with Server(lab) as server:
        server.expect("serving")
        with lab.connect():
            server.send(signal.SIGTERM)
            wait_for("lame-duck", lambda: word(lab) == "lame-duck")
            server.send(signal.SIGTERM)
            server.expect("a second signal ends the drain").ends_with(7)
    lab.programs[0].kill()  # the agent is killed during the drain
    agent = lab.start_agent(*SERVICES)
    with Server(lab) as server:
        server.expect("serving")
        with lab.connect():
            server.send(signal.SIGTERM)
            wait_for("lame-duck", lambda: word(lab) == "lame-duck")
            agent.kill()
            server.expect("cannot announce the drain through weir-agent run").ends_with(7)


@scenario
def exec_runs_without_an_agent(lab):
    with Server(lab) as server:
        server.expect("serving")
        assert "the server will be started, but the state ready cannot be announced: no socket of a service" in \
            server.output(), server.output()
        lab.start_agent(*SERVICES)
        server.expect("announced ready")
        lab.programs[0].kill()
        server.send(signal.SIGTERM)
        server.expect("got SIGTERM").ends_with(7)
    with Server(lab, "--service", "web") as server:
        server.expect("weir-agent run has exited; start it").expect("serving").send(signal.SIGTERM)
        server.expect("cannot announce the drain through weir-agent run").ends_with(7)
    lab.start_agent("--service", f"web={PORT}")  # without --allow-user, only root may announce
    with Server(lab, "--service", "web") as server:
        server.expect(f"--allow-user {USER}=web").expect("serving").send(signal.SIGTERM)
        server.ends_with(7)
    assert lab.status()["services"][0]["requests"] == 0


@scenario
def exec_passes_signals_and_the_exit_status_on(lab):
    lab.start_agent(*SERVICES)
    with Server(lab, "--stop-signal", "QUIT") as server:
        server.expect("serving")
        for name in ("SIGHUP", "SIGUSR2", "SIGRTMIN"):
            server.send(getattr(signal, name))
            server.expect(f"got {name}")
        server.send(signal.SIGQUIT)
        server.expect("drained, acknowledged by 0 of 0 balancers, 0 connections left: sending SIGQUIT to the server")
        server.expect("got SIGQUIT").send(signal.SIGTERM)
        server.ends_with(7)
    with Server(lab) as server:
        server.expect("serving")
        os.kill(int(server.pids()[0]), signal.SIGKILL)
        server.ends_with(-signal.SIGKILL)
    for program, code in ((("/nonexistent",), 127), (("/etc/passwd",), 126), (("/bin/true",), 0),
                          (("/bin/sh", "-c", "exit 3"), 3), (("/bin/echo", *"abcdefghijklmnopqrstuvwxyz"), 0)):
        with Server(lab, program=program) as server:
            server.ends_with(code)
    assert "a b c d e f g h i j k l m n o p q r s t u v w x y z\n" in server.output()
    with Server(lab, before=("sh", "-c", 'exec "$@" 2>/dev/full', "sh"), program=("/nonexistent",)) as server:
        server.ends_with(127)
    with Server(lab, before=("env", "--ignore-signal=CHLD"), program=("/bin/sh", "-c", "exit 3")) as server:
        # If a process ignores SIGCHLD, the kernel keeps no exit status of its children
        server.ends_with(3)


@scenario
def exec_passes_the_hangup_of_its_terminal_on(lab):
    """Only weir-agent exec, the leader of the session, gets SIGHUP from the kernel. It passes
    SIGHUP on to the server."""
    ready = os.path.join(lab.dir, "ready")
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, SIGHUP would be ignored
        os.execv(lab.agent_binary, [lab.agent_binary, "exec", "--run-dir", lab.run_dir, "--", "/bin/sh", "-c",
                                    f"trap 'exit 9' HUP; echo >{ready}; while :; do sleep 0.1; done"])
    wait_for("the server", lambda: os.path.exists(ready))
    os.close(terminal)
    ended = []
    try:
        wait_for("the end of weir-agent exec", lambda: ended.extend(filter(None, os.waitpid(pid, os.WNOHANG))) or ended)
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 9, ended


@scenario
def exec_passes_notifications_on(lab):
    lab.start_agent(*SERVICES)
    path = os.path.join(lab.dir, "outer")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outer:
        outer.settimeout(10)
        outer.bind(path)
        os.chmod(path, 0o666)
        with Server(lab, "--starting", env={"NOTIFY_SOCKET": path}) as server:
            server.expect("serving")
            balancer = reader(lab)
            wait_for("starting", lambda: balancer.ask()["ports"] == STARTING)
            server.write("notify STATUS=loading")
            assert outer.recv(999) == b"STATUS=loading"
            server.write("print NOTIFY_SOCKET")
            name = server.expect("@").output().rsplit("@", 1)[1].split()[0]
            ended = subprocess.run(  # another user, in the same network namespace
                ["nsenter", "--net=/run/netns/" + lab.backend.name, "setpriv", "--reuid", "4321",
                 "--clear-groups", "/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_UNIX, "
                 f"socket.SOCK_DGRAM).sendto(b'READY=1', '\\x00{name}')"], check=False)
            assert ended.returncode == 0
            server.write("notify STATUS=loaded")
            assert outer.recv(999) == b"STATUS=loaded", "a message of another user was forwarded"
            assert balancer.ask()["ports"] == STARTING
            server.write("notify READY=1|MAINPID=1|STATUS=up|x-own=2|other")  # as systemd, skips unknown lines
            assert outer.recv(999) == b"READY=1\nSTATUS=up\nx-own=2\nother"
            assert notice(balancer)["ports"] == {}
            server.write("notify STOPPING=1")
            assert outer.recv(999) == b"STOPPING=1"
            assert notice(balancer)["ports"] == DUCK
            server.write("notify READY=1")
            assert outer.recv(999) == b"READY=1"
            assert notice(balancer)["ports"] == {}
            server.send(signal.SIGTERM)
            assert outer.recv(999) == b"STOPPING=1\nSTATUS=lame-duck\nEXTEND_TIMEOUT_USEC=35000000"
            assert notice(balancer)["ports"] == DUCK
            server.ends_with(7)


@scenario
def exec_stops_while_a_stranger_sends_it_descriptors(lab):
    with Server(lab) as server:
        server.write("print NOTIFY_SOCKET")
        name = server.expect("@").output().rsplit("@", 1)[1].split()[0]
        with lingering(lab.backend, server.process, f"@{name}", 4321):
            server.send(signal.SIGTERM)
            server.expect("got SIGTERM").ends_with(7)


@scenario
def exec_gives_the_server_what_systemd_gave_by_process_id(lab):
    for name in ("LISTEN_PID", "WATCHDOG_PID"):
        with Server(lab, program=("/bin/sh", "-c", f"echo ids ${name} $$"),
                    before=("/bin/sh", "-c", f"export {name}=$$; exec \"$@\"", "sh")) as server:
            server.ends_with(0)
        ids = server.output().split("ids ")[1].split()
        assert ids[0] == ids[1] != str(server.process.pid), ids


@scenario
def exec_reaps_as_process_1(lab):
    lab.start_agent(*SERVICES)
    with Server(lab, before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")) as server:
        server.expect("serving")
        for _ in range(20):
            server.write("orphan")
        wait_for("no zombie", lambda: server.write("zombies") or "\n0 zombies" in server.output(), 20, 0.2)
        assert port_of(lab)["state"] == "open"
    with Server(lab, before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
                program=("/bin/sh", "-c", "kill -9 $$")) as server:
        server.ends_with(128 + 9)


if __name__ == "__main__":
    sys.exit(run_scenarios())
