# SPDX-License-Identifier: BSD-3-Clause
"""What clients see when nginx stops, restarts or hangs: with HTTP checks every second, and with
an additional weir-agent that watches the port. Nine of ten connections go to this nginx.

WEIR_TRIALS sets how often each way to stop nginx is tried (default 1). For each way, the scenario
prints the number of refused connections, and the milliseconds from the signal to the last new
flow at nginx's host before the host is unused (median, 99th percentile and maximum).
WEIR_TRIALS_TO names a file, to which a line for each trial is appended: agent or checks, way,
connections, refused, milliseconds or "-". server_ends.gp plots this file.
"""
import contextlib
import json
import os
import random
import signal
import socket
import struct
import time
from collections import namedtuple

from agents import Agents
from clients import Threads
from lab import VIP4, service
from netns import LabError, sh, wait_for
from scenario import scenario
from scenarios_deaths import FREE_DEATHS
from scenarios_lame_duck import of
from taps import Tap, stamping

TRIALS = int(os.environ.get("WEIR_TRIALS", "1"))
PORT, SYN = 80, 0x02
TRIALS_TO = os.environ.get("WEIR_TRIALS_TO")
CLIENTS, PAUSE_S = 2, 0.002  # about 800 connections a second
CRASHES = 4  # crashes in a crash loop
CHECK = {"type": "http", "path": "/healthz", "interval_ms": 1000, "timeout_ms": 500,
         "rise": 1, "fall": 3}
QUICK = {"flow_table": {"flows_per_worker": 262144, "timeout_ms": {"syn_seen": 300}}}

# connections: number of the clients' connections from the signal until nginx is used again
# refused: number of these connections that were refused
# last: seconds from the signal to the last new flow at nginx's host before a pause of PAUSED_S;
#   None if there was no such pause, because the backend was always used
PAUSED_S = 0.1
Trial = namedtuple("Trial", "connections refused last")


def two(**more):
    return [service("web", PORT, backends={"web-1": 900, "web-2": 100}, vips=(VIP4,),
                    policy={"name": "weighted-round-robin"}, health_check=CHECK, **more)]


class Clients(Threads):
    """A few threads that open connections, one after the other, and close each at once."""

    def __init__(self, namespace):
        super().__init__(CLIENTS)
        self.namespace, self.results = namespace, []

    def work(self, number):
        with self.namespace.inside():
            while not self.stopping.wait(PAUSE_S):
                self.results.append((time.time(), self.connect()))

    @staticmethod
    def connect():
        with socket.socket() as sock:
            # The client sends an RST instead of a FIN, so that its ports do not stay in TIME_WAIT.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.settimeout(5)
            try:
                sock.connect((VIP4, PORT))
            except OSError as problem:
                return type(problem).__name__
        return ""

    def since(self, begun):
        """Returns the error of each connection that began after a time; "" for a connection without an error."""
        return [error for at, error in self.results if at > begun]


class Server:
    """The nginx of web-1, with an agent if `watched`."""

    def __init__(self, lab, watched):
        self.lab, self.stamping, self.deaths = lab, stamping(), 0
        self.agents = Agents(lab, "--port", str(PORT)) if watched else None
        if watched:
            lab.extra = {**lab.extra, **Agents.configuration(lab)}
            lab.write_config()
        lab.start_backends()
        if watched:
            self.agents.start_all()
        lab.start_dataplane()
        lab.start_control()
        lab.wait_ready()
        if watched:
            self.agents.wait_answered(lab.hosts)

    def signal(self, number, everyone=False):
        (os.killpg if everyone else os.kill)(self.lab.programs["nginx-1"].pid, number)

    def end(self, number, everyone=False):
        self.signal(number, everyone)
        self.lab.programs["nginx-1"].process.wait(20)
        self.lab.programs["nginx-1"].kill()  # SIGKILL to the remaining processes of nginx
        self.deaths += 1

    def start(self):
        self.lab.start_nginx(1)
        with self.lab.namespaces["b1"].inside():
            wait_for("nginx to listen", lambda: sh("ss", "-Hltn", f"sport = :{PORT}"), 20, 0.01)

    def is_used(self):
        return self.lab.backend("web-1")["in_selection"]

    def wait_used(self, used=True):
        wait_for(f"web-1 {'used' if used else 'unused'}", lambda: self.is_used() == used, 60, 0.02)

    def is_ready(self):
        """Returns whether the agent watches the port, and has a balancer that it can notify when the port closes."""
        with contextlib.suppress(LabError):  # the agent is still starting
            with self.lab.namespaces["b1"].inside():
                status = json.loads(sh(self.lab.binary("weir-agent"), "status", "--json",
                                       "--run-dir", self.agents.run_dir(1)))
            return status["balancers"] and status["ports"][0]["state"] == "open"
        return False

    def forget_deaths(self):
        """Restart the agent if it has detected deaths, because it delays the report of a start after several deaths."""
        if not self.agents or self.deaths < FREE_DEATHS:
            return
        self.lab.programs[self.agents.name(1)].kill()
        os.remove(os.path.join(self.agents.run_dir(1), "word"))
        self.agents.start(1)
        wait_for("the agent to be probed", self.is_ready, 20)
        self.wait_used()
        self.deaths = 0


def down(server):
    """Wait until the backend is unused and clients have paused, then start the server."""
    server.wait_used(False)
    time.sleep(3 * PAUSED_S)
    server.start()


def crash(server):
    """kill -9 of all processes"""
    server.end(signal.SIGKILL, everyone=True)
    down(server)


def stop(server):
    """systemctl stop: Debian's unit sends SIGQUIT to the master process"""
    server.end(signal.SIGQUIT)
    down(server)


def terminate(server):
    """nginx -s stop: SIGTERM"""
    server.end(signal.SIGTERM)
    down(server)


def restart(server):
    """systemctl restart: stop, and start as soon as it has exited"""
    server.end(signal.SIGQUIT)
    server.start()


def reload(server):
    """nginx -s reload: SIGHUP"""
    pid = server.lab.programs["nginx-1"].pid

    def workers():
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return set(file.read().split())
    before = workers()
    server.signal(signal.SIGHUP)
    wait_for("other workers", lambda: workers() and not workers() & before, 20, 0.01)


def loop(server):
    """crash loop: kill -9 0.3 s after each start"""
    for _ in range(CRASHES):
        server.end(signal.SIGKILL, everyone=True)
        server.start()
        time.sleep(0.3)
    server.deaths += FREE_DEATHS


def freeze(server):
    """SIGSTOP: the sockets stay open, so that only checks can detect it"""
    server.signal(signal.SIGSTOP, everyone=True)
    server.wait_used(False)
    server.signal(signal.SIGCONT, everyone=True)


def last_before_pause(times, begun, end):
    """Returns the seconds from `begun` to the last of `times` before the first pause; None without a pause."""
    for at, following in zip([begun, *times], [*times, end]):
        if following - at > PAUSED_S:
            return at - begun
    return None


def attempt(server, clients, way):
    server.forget_deaths()
    server.wait_used()
    with Tap(server.lab.namespaces["b1"], "eth0") as tap:
        time.sleep(random.uniform(0.1, 0.2))  # a random phase relative to timers
        tap.read()
        begun = time.time()
        way(server)
        server.wait_used()
        flows = [packet.at for packet in tap.read() if not packet.sent and packet.flags == SYN
                 and packet.to == VIP4 and packet.at > begun]
        end = time.time()
    errors = clients.since(begun)
    # A connection is reset if nginx has not accepted it when its listening socket is closed.
    assert set(errors) <= {"", "ConnectionRefusedError", "ConnectionResetError"}, set(errors)
    return Trial(len(errors), sum(map(bool, errors)), last_before_pause(flows, begun, end))


def three(values, factor=1):
    return "/".join(f"{of(values, share) * factor:.0f}" for share in (0.5, 0.99, 1))


def record(watched, way, trial):
    if TRIALS_TO:
        last = "-" if trial.last is None else f"{trial.last * 1e3:.1f}"
        with open(TRIALS_TO, "a", encoding="ascii") as file:
            print("agent" if watched else "checks", way.__name__, trial.connections, trial.refused,
                  last, sep="\t", file=file)


def measure(lab, watched, ways, trials):
    """Print a table of the results. Returns {way: its trials}."""
    server, results = Server(lab, watched), {}
    print()
    with Clients(lab.client) as clients:
        for way in ways:
            done = results[way] = []
            for _ in range(trials):
                done.append(attempt(server, clients, way))
                record(watched, way, done[-1])
            lasts = [trial.last for trial in done if trial.last is not None]
            print(f"    {way.__name__:10} refused {three([t.refused for t in done]):>11} "
                  f"of {sum(t.connections for t in done)}, last new flow after "
                  f"{three(lasts, 1e3) + ' ms' if lasts else '-'}, {len(lasts)} of {len(done)} pauses",
                  flush=True)
    return results


WAYS = (crash, stop, terminate, restart, reload, loop, freeze)


@scenario(services=two(), config=QUICK, start=False, pair=True, hosts=2,
          seconds=180 + 100 * TRIALS)
def ends_of_a_server_seen_by_checks(lab):
    """Counts refused connections when nginx stops, restarts or hangs, with HTTP checks every second"""
    results = measure(lab, False, WAYS, TRIALS)
    for way in (reload, freeze):
        assert all(trial.refused == 0 for trial in results[way]), (way, results[way])
    for way in (crash, stop, terminate, freeze):
        lasts = [trial.last for trial in results[way]]
        assert None not in lasts and min(lasts) > CHECK["interval_ms"] / 1e3, (way, results[way])


@scenario(services=two(agent={"interval_ms": 500}), config=QUICK, start=False, pair=True, hosts=2,
          seconds=180 + 100 * TRIALS)
def ends_of_a_server_seen_by_its_agent(lab):
    """Counts refused connections when nginx stops, restarts or hangs, with an agent that watches the port"""
    results = measure(lab, True, WAYS, TRIALS)
    for way in (reload, freeze):
        assert all(trial.refused == 0 for trial in results[way]), (way, results[way])
    for way in (crash, stop, terminate):
        lasts = [trial.last for trial in results[way]]
        assert None not in lasts and of(lasts, 0.5) < CHECK["interval_ms"] / 1e3, (way, results[way])
