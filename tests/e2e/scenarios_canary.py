# SPDX-License-Identifier: BSD-3-Clause
"""Canaries with real servers that report their load in the responses to health checks (ORCA)."""
import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections import Counter

from canary_server import PORT
from lab import HERE, PYTHON, VIP4, backend_address, service
from netns import wait_for
from scenario import scenario
from scenarios_metrics import age_out, value
from scenarios_reported import AGENT, Pair
from work import Steady, work

NAMES = ("web-1", "web-2", "web-3")
API = service("api", PORT, backends={name: 100 for name in NAMES},
              check={"type": "http", "path": "/load", "orca": True})


def ask(sock, path):
    """Send one request on a connection. Returns the status and the backend."""
    sock.sendall(f"GET {path} HTTP/1.1\r\nhost: api\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        block = sock.recv(4096)
        if not block:
            raise ConnectionError("closed")
        answer += block
    lines = answer.decode().split("\r\n")
    return int(lines[0].split()[1]), lines[1].partition(": ")[2]


def connect(namespace, address=VIP4):
    with namespace.inside():
        return socket.create_connection((address, PORT), 5)


class Requests:
    """Sends requests from several clients, each request on a new connection, until a `with` block ends."""

    def __init__(self, lab, clients=6):
        self.lab, self.stopping, self.failed = lab, False, []
        self.answers = []  # (time, status, backend)
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(clients)]

    def run(self):
        with self.lab.client.inside():
            while not self.stopping:
                try:
                    with socket.create_connection((VIP4, PORT), 5) as sock:
                        began = time.monotonic()
                        self.answers.append((began, *ask(sock, "/")))
                except OSError as error:
                    self.failed.append(str(error))
                time.sleep(0.02)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()

    def served_since(self, moment):
        return Counter(who for began, _, who in list(self.answers) if began >= moment)


def start(lab):
    for number in lab.hosts:
        name = f"app-{number}"
        lab.program(name, lab.namespaces[f"b{number}"], PYTHON,
                    os.path.join(HERE, "canary_server.py"), f"web-{number}")
        lab.start_decapsulation(number)
        lab.wait_for_program(name, lambda n=name: "serving" in lab.programs[n].output(), 10)
    lab.start_dataplane()
    lab.start_control()
    lab.wait_ready()


def fail(lab, number, every):
    with contextlib.closing(connect(lab.namespaces[f"b{number}"], backend_address(number))) as sock:
        ask(sock, f"/fail/{every}")


def canary_of(lab):
    return lab.api("canary.show", service="api")[0]


def wait_for_end(lab, state):
    def ended():
        canary = canary_of(lab)
        assert canary["state"] in ("running", "paused", state), canary
        return canary["state"] == state
    wait_for(f"the canary to be {state}", ended, 60, 0.2)


@scenario(start=False, hosts=3, services=[API])
def failing_canary_is_rolled_back(lab):
    """A canary that fails every second request gets no new flows; its open connections stay open"""
    start(lab)
    lab.start_metrics()
    fail(lab, 3, 2)
    with Requests(lab) as requests, contextlib.ExitStack() as stack:
        while True:  # until web-3, the future canary, has a connection
            open_ = stack.enter_context(connect(lab.client))
            if ask(open_, "/")[1] == "web-3":
                break
        lab.weirctl("canary", "start", "api", "web-3", "--steps", "20,50", "--every", "300s",
                    "--min-requests", "20")
        assert 20 <= lab.backend("web-3", "api")["effective_weight"] <= 60
        wait_for_end(lab, "rolled-back")  # the rollback does not wait for the end of the step
        canary = canary_of(lab)
        assert "errors: " in canary["why"] and "requests" in canary["why"], canary
        assert canary["figures"] == "orca", canary
        moment = time.monotonic() + 0.2
        wait_for("requests since then", lambda: requests.served_since(moment).total() > 300, 30)
        assert requests.served_since(moment)["web-3"] == 0, requests.served_since(moment)
        assert ask(open_, "/")[1] == "web-3"
    assert not requests.failed, requests.failed[:5]
    assert lab.backend("web-3", "api")["effective_weight"] == 0
    assert "canary.rollback" in lab.weirctl("audit", "show")[1]
    history = lab.weirctl("health", "history", "api/web-3")[1]
    assert f"rolled back: {canary['why']}; weight 0, existing flows continue" in history, history
    assert value(age_out(lab), "weir_canary_state", service="api", state="rolled-back") == 1
    code, _, err = lab.weirctl("canary", "stop", "api", check=False)
    assert code == 1 and "no running canary" in err, (code, err)
    lab.weirctl("weight", "set", "api/web-3", "configured")
    assert lab.backend("web-3", "api")["effective_weight"] == 100
    assert not lab.api("canary.show")
    end_without_a_file(lab)
    lab.weirctl("weight", "set", "api/web-3", "configured")
    lab.weirctl("canary", "start", "api", "web-3", "--every", "300s")
    lab.programs["app-3"].kill()
    wait_for_end(lab, "rolled-back")
    assert canary_of(lab)["why"].startswith("its health checks fail: "), canary_of(lab)


def end_without_a_file(lab):
    path = os.path.join(lab.run_dir, "control", "canaries.json")

    def saved():
        with open(path, encoding="ascii") as file:
            return json.load(file)["canaries"][0]["state"]
    os.mkdir(path + ".new")
    code, _, err = lab.weirctl("canary", "start", "api", "web-3", check=False)
    assert code == 1 and "the canary was not started, because it cannot be saved in" in err, (code, err)
    os.rmdir(path + ".new")
    assert "warning" not in lab.weirctl("canary", "start", "api", "web-3", "--every", "300s")[1]
    os.mkdir(path + ".new")
    text = lab.weirctl("canary", "stop", "--rollback", "api")[1]
    assert "warning: the canaries cannot be saved in" in text and saved() == "running", text
    os.rmdir(path + ".new")
    wait_for("the file", lambda: saved() == "rolled-back")


@scenario(start=False, hosts=3, services=[API])
def good_canary_is_promoted(lab):
    """A canary as good as the other backends gets its full weight, even if weir-control is killed before that"""
    start(lab)
    code, _, err = lab.weirctl("canary", "start", "api", "web-9", check=False)
    assert code == 1 and 'no backend "web-9"' in err, (code, err)
    for wrong in (("--steps", "5,1"), ("--steps", "nan"), ("--max-error-ratio", "nan"),
                  ("--every", "1ms"), ("--steps", "1,100")):
        code, _, err = lab.weirctl("canary", "start", "api", "web-3", *wrong, check=False)
        assert code == 2 and err, (wrong, code, err)
    with Requests(lab) as requests:
        wait_for("requests", lambda: len(requests.answers) > 100, 30)
        plan = lab.api("canary.plan", service="api", backend="web-3", steps=[10, 50])
        assert [step["weight"] for step in plan["steps"]] == [22, 200], plan
        begun = time.monotonic()
        lab.weirctl("canary", "start", "api", "web-3", "--steps", "10,50", "--every", "3s",
                    "--max-latency-ratio", "3", "--min-requests", "20")
        wait_for("the first step of the canary", lambda: canary_of(lab)["left_ms"] is not None, 10)
        lab.programs["control"].kill()
        lab.start_control()
        lab.wait_ready()
        assert canary_of(lab)["step"] == 1 and canary_of(lab)["state"] != "promoted"
        wait_for("the second step of the canary", lambda: canary_of(lab)["step"] == 2, 60, 0.1)
        share = requests.served_since(begun)
        assert 0 < share["web-3"] < 0.25 * share.total(), share
        lab.programs["control"].kill()
        lab.start_control()
        lab.wait_ready()
        assert canary_of(lab)["step"] == 2
        wait_for("the end of the canary", lambda: canary_of(lab)["state"] == "promoted", 60, 0.05)
        lab.programs["control"].kill()  # if the promotion is not yet in the file, the last step is repeated
        with open(os.path.join(lab.run_dir, "control", "canaries.json"), encoding="ascii") as file:
            saved = json.load(file)["canaries"][0]
        assert (saved["state"], saved["weight"]) in (("promoted", None), ("running", 200)), saved
        lab.start_control()
        lab.wait_ready()
        wait_for_end(lab, "promoted")
    assert not requests.failed, requests.failed[:5]
    assert lab.backend("web-3", "api")["effective_weight"] == 100
    assert "canary.promote" in lab.weirctl("audit", "show")[1]


@scenario(start=False, hosts=2, services=[work({"web-1": 100, "web-2": 100}, agent=AGENT)])
def canary_is_judged_by_agents(lab):
    """Agents report a canary's requests even if the policy needs no reports; without reports the canary pauses"""
    with Pair(lab) as pair:
        pair.start(burn_ms=(0, 0), sleep_ms=(1, 1))
        with Steady(lab.client, 60) as load:
            load.wait_for_more(60)
            report = lab.backend("web-2", "work")["report"]
            assert "requests_per_second" not in report, report
            lab.weirctl("canary", "start", "work", "web-2", "--steps", "40", "--every", "300s")

            def judged():
                canary = lab.api("canary.show", service="work")[0]
                assert canary["state"] in ("running", "paused"), canary
                return canary.get("judged_by") == "reports" and all(
                    canary[side]["requests"] > 20 and canary[side]["latency_ms"]
                    for side in ("canary", "others"))
            wait_for("requests of both in the reports", judged, 30, 0.2)
            assert lab.api("canary.show", service="work")[0]["figures"] == "agent"
            text = lab.weirctl("canary", "show", "work")[1]
            assert "errors: connections that the servers reset (HTTP errors are not counted" in text, text
            lab.programs["speaker-2"].signal(signal.SIGSTOP)
            wait_for("a pause", lambda: lab.api("canary.show", service="work")[0]["why"] ==
                     "its agent does not answer", 30, 0.2)
            lab.programs["speaker-2"].signal(signal.SIGCONT)
            wait_for("the end of the canary", lambda: lab.api("canary.show", service="work")[0]["state"] ==
                     "running", 30, 0.2)
            lab.weirctl("canary", "stop", "--promote", "work")
        assert lab.backend("web-2", "work")["effective_weight"] == 100
