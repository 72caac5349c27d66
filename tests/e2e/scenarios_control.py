# SPDX-License-Identifier: BSD-3-Clause
"""Control or the dataplane is killed at random moments (S3, S4); the format of control's replies."""
import contextlib
import os
import random
import re
import signal
import threading
import time
from unittest import mock

import clients
from documented import check_form, documented_commands
from lab import BACKENDS, VIP4, VIP6, echo, lines, web
from netns import sh, wait_for
from scenario import scenario


@scenario(short=True, services=[web(), lines()])
def s3_control_killed_20_times_under_load(lab):
    """Control is killed 20 times at random moments: no request fails, and no flow moves"""
    lab.weirctl("backend", "drain", "web/web-4")
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    ids = {(b["service"], b["name"]): b["id"] for b in lab.backends()}
    seed = random.randrange(1 << 32)
    print(f"(seed {seed}) ", end="", flush=True)
    moment = random.Random(seed)
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(50)
        for _ in range(20):
            lab.programs["control"].kill()
            dead_until = len(load.samples) + moment.randrange(10, 60)
            wait_for("requests without control", lambda n=dead_until: len(load.samples) >= n, 20)
            # The scenario does not wait until control has started, so that the next kill can hit
            # any instruction, also during the start.
            lab.spawn_control()
            clients.check_lines(found)
            goal = time.monotonic() + moment.choice((0.02, 0.1, 0.5)) * moment.random() * 2
            while time.monotonic() < goal:
                clients.check_lines(found)
            assert not load.errors(), load.errors()[:5]
        lab.wait_ready()
        clients.check_lines(found)
        load.wait_for_more(50)
    assert not load.errors(), load.errors()[:5]
    assert "web-4" not in load.served(), "a backend that drains got a request after a restart"
    assert lab.backend("web-4")["admin"] == "drain", "the restarted control lost the drain"
    assert ids == {(b["service"], b["name"]): b["id"] for b in lab.backends()}


@scenario(short=True, services=[web(), lines(), echo()])
def s4_dataplane_restarts(lab):
    """The dataplane is killed and started again: requests work again without a restart of control"""
    pid = lab.programs["control"].pid
    epoch = lab.api("version")["dataplane"]["epoch"]
    lab.weirctl("backend", "drain", "web/web-1")
    lab.weirctl("weight", "set", "web/web-2", "7")
    found = clients.line_per_backend(lab.client, VIP4, BACKENDS)
    lab.programs["dataplane"].kill()
    wait_for("control to detect the end of the dataplane", lambda: not lab.api("version")["dataplane"]["attached"], 5)
    lab.start_dataplane()
    wait_for("control to publish again", lambda: lab.api("version")["dataplane"]["attached"], 10)
    assert lab.api("version")["dataplane"]["epoch"] != epoch
    wait_for("requests served", lambda: clients.http_get(lab.client, VIP4)[0], 10)
    result = clients.curl_batch(lab.client, VIP4, 200)
    assert result.ok == 200, result.errors[:5]
    assert "web-1" not in result.served and result.served["web-2"] < 30, result.served
    # Because of the Maglev fallback, open connections continue on their backends.
    clients.check_lines(found)
    assert clients.Udp(lab.client, VIP6).ask() in BACKENDS
    assert lab.programs["control"].alive() and lab.programs["control"].pid == pid


def restart_dataplane(lab):
    lab.programs["dataplane"].kill()
    wait_for("control to detect the end of the dataplane", lambda: not lab.api("version")["dataplane"]["attached"], 5)
    lab.start_dataplane()
    wait_for("control to attach", lambda: lab.api("version")["dataplane"]["attached"], 10)
    lab.wait_ready()


@scenario(services=[lines()])
def drain_after_both_restarted_waits_for_the_recount(lab):
    """A drain waits for an idle connection that has sent no packet since both processes were restarted"""
    with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
        restart_dataplane(lab)
        lab.programs["control"].kill()
        lab.start_control()
        lab.wait_ready()
        lab.weirctl("backend", "drain", f"lines/{line.backend}")
        drain = lab.backend(line.backend, "lines")["drain"]
        assert drain["waits_for"] == "recount" and 0 < drain["recount_ms"] <= 60000, drain


@scenario(services=[lines()])
def drain_in_the_recount_leaves_unknown_flows(lab):
    """After a restart of the dataplane, a deadline leaves an idle connection: drain --wait exits with 4, or 0 with drop"""
    def drain(*words, then="kept"):  # a segment that is repeated after the restart counts the connection
        code, text, _ = lab.weirctl(*words[:2], "--interval=1s", "--wait", words[2], check=False)
        assert re.search("draining, [01] open flows? counted so far, ", text), text
        assert f"an unknown number of open flows {then}" in text, text
        assert code == (4 if then == "kept" else 0), (words, code)

    with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
        restart_dataplane(lab)
        name, address = f"lines/{line.backend}", lab.backend(line.backend, "lines")["address"]
        for words in (("service", "drain", "lines"), ("vip", "drain", VIP4)):
            drain(*words)
            lab.weirctl(words[0], "ready", words[2])
        drain("host", "drain", address)
        drain("backend", "drain", name)
        ended = lab.backend(line.backend, "lines")["drain"]
        assert (ended["state"], ended["kept_flows"]) == ("kept", None), ended
        text = lab.weirctl("backend", "drain", name)[1]
        assert f"connections to {name} that have sent no packet since then move" in text, text
        lab.weirctl("backend", "ready", name)
        lab.services[0]["binds"] = [bind for bind in lab.services[0]["binds"] if bind["address"] != VIP4]
        lab.services[0]["drain"] = {"removed_ms": 1000}
        lab.write_config()
        text = lab.weirctl("config", "diff")[1]
        assert re.search(r"\([01] open flows? counted so far of all binds of the service: TCP flows stay", text), text
        assert re.search("of [01] open flows counted so far", lab.weirctl("config", "waiting")[1])
        lab.weirctl("config", "reload")
        wait_for("the deadline of the removed bind", lambda: "drain deadline reached before all flows were "
                 "counted: flows kept" in lab.api("health.history")[-1]["why"], 5)
        assert line.ask() == line.backend
        lab.services[0]["drain"] = {"at_deadline": "drop"}
        lab.write_config()
        lab.weirctl("config", "reload")
        drain("backend", "drain", name, then="dropped")


@scenario(services=[lines()])
def drain_after_both_restarted_at_once_waits_for_the_recount(lab):
    """A new control process that attaches to a new dataplane assumes connections of the previous dataplane"""
    with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
        for name in ("control", "dataplane"):
            lab.programs[name].stop()
        lab.start_dataplane()
        lab.start_control()
        lab.wait_ready()
        lab.weirctl("backend", "drain", f"lines/{line.backend}")
        drain = lab.backend(line.backend, "lines")["drain"]
        assert drain["waits_for"] == "recount" and drain["recount_ms"] > 50000, drain


def breaks_at_restart(lab):
    """Returns (number of open flows, maximum number of flows that a restart breaks, number of these flows that
    it breaks only if they began before the last change of backends or weights), and the output of weirctl."""
    number = lab.api("config.waiting")["restart"]
    return (number["open_flows"], number["breaks"], number["older"]), \
        lab.weirctl("config", "waiting")[1]


def answers(line):
    with contextlib.suppress(OSError, ConnectionError):
        return bool(line.ask())
    return False


@scenario(services=[lines()])
def connections_older_than_a_change_of_weights_count_as_broken(lab):
    """After a change of weights, a restart breaks no more connections than "config waiting" shows"""
    with contextlib.ExitStack() as stack:
        def connect():
            return stack.enter_context(contextlib.closing(clients.Line(lab.client, VIP4)))

        before = [connect() for _ in range(24)]
        numbers, text = breaks_at_restart(lab)
        assert numbers == (24, 0, 0) and "would break none of 24 open flows\n" in text, text
        lab.weirctl("weight", "set", "lines/web-1", "1")
        numbers, text = breaks_at_restart(lab)
        assert numbers == (24, 24, 24), numbers
        assert "would break up to 24 of 24 open flows, 24 of them only if they began before" in text
        after = []

        def newer():
            after.append(connect())
            number, most, _ = breaks_at_restart(lab)[0]
            return most < number and most

        most = wait_for("connections that began after the change", newer, 10)
        after += [connect() for _ in range(6)]
        assert breaks_at_restart(lab)[0] == (24 + len(after), most, most)
        lab.programs["dataplane"].kill()
        wait_for("control to detect the end of the dataplane", lambda: not lab.api("version")["dataplane"]["attached"], 5)
        lab.start_dataplane()
        lab.wait_ready()
        kept = [line for line in before + after if answers(line)]
        broken = len(before + after) - len(kept)
        assert 0 < broken <= most, f"{broken} broke, at most {most} were expected to"
        assert all(line in kept for line in after[most - len(before):]), "newer ones broke"
        wait_for("no older connections", lambda: breaks_at_restart(lab)[0][1] == 0, 10)


@scenario(services=[web()])
def s4_dataplane_restarts_under_load(lab):
    """Five restarts of the dataplane under load; requests work again within seconds each time"""
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(20)
        for _ in range(5):
            lab.programs["dataplane"].kill()
            lab.start_dataplane()
            since = time.monotonic()
            wait_for("requests served again", lambda s=since: load.served(since=s), 10)
            lab.wait_ready()
            since = time.monotonic()
            load.wait_for_more(50)
            assert not load.errors(since=since), load.errors(since=since)[:5]
    assert lab.programs["control"].alive()


@scenario(start=False, services=[web()])
def control_may_start_first(lab):
    """Control can start before the dataplane, and waits for it"""
    lab.start_backends()
    lab.start_control()
    assert lab.api("version")["dataplane"]["attached"] is False
    lab.start_dataplane()
    lab.wait_ready()
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20


@scenario(services=[web()])
def second_control_is_refused(lab):
    """A second control process exits with a clear message; the first control process continues"""
    first = lab.programs["control"]
    second = lab.program("control-2", lab.lb, lab.binary("weir-control"), "--config",
                         lab.config_path, "--run-dir", lab.run_dir, *lab.control_options)
    wait_for("the second control to end", lambda: not second.alive(), 10)
    assert second.process.returncode not in (0, -signal.SIGSEGV), second.process.returncode
    assert str(first.pid) in second.tail(), f"does not name pid {first.pid}: {second.tail()}"
    assert first.alive() and lab.api("version")["pid"] == first.pid
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20


@scenario(services=[web()])
def second_dataplane_is_refused(lab):
    """A second dataplane in the same run directory exits with a clear message"""
    second = lab.program("dataplane-2", lab.lb, lab.binary("weir-dataplane"), "--config",
                         lab.config_path, "--run-dir", lab.run_dir, *lab.dataplane_options)
    wait_for("the second dataplane to end", lambda: not second.alive(), 20)
    assert second.process.returncode > 0, f"{second.process.returncode}: {second.tail()}"
    assert lab.programs["dataplane"].alive()
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20


@scenario(short=True, services=[web()])
def both_end_on_sigterm(lab):
    """On SIGTERM, both programs exit with status 0 and remove their sockets and the XDP program"""
    def xdp():
        return "xdp" in lab.lb.ip("link", "show", "dev", "lb0")
    assert xdp(), "no XDP program on lb0 while the dataplane runs"
    for name, sock in (("control", "control/control.sock"), ("dataplane", "dataplane.sock")):
        program = lab.programs[name]
        program.signal(signal.SIGTERM)
        wait_for(f"{name} to end", lambda p=program: not p.alive(), 10)
        assert program.process.returncode == 0, (name, program.process.returncode)
        assert not os.path.exists(os.path.join(lab.run_dir, sock)), f"{sock} was left behind"
    assert not xdp(), "the XDP program was left on lb0"


@scenario(services=[web()])
def control_drops_root(lab):
    """Control runs without root privileges after its start"""
    with open(f"/proc/{lab.programs['control'].pid}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    assert status["CapEff"].strip() == "0" * 16, status["CapEff"]
    assert status["Uid"].split()[1] != "0", status["Uid"]


@scenario(services=[lines()])
def health_lost_and_restored_keeps_flows(lab):
    """Without configured checks, every backend is healthy at once, and flows survive a restart of control"""
    assert {b["health"] for b in lab.backends()} == {"healthy"}
    found = clients.line_per_backend(lab.client, VIP6, BACKENDS)
    lab.programs["control"].stop()
    clients.check_lines(found)
    lab.start_control()
    lab.wait_ready()
    clients.check_lines(found)
    lab.programs["control"].signal(signal.SIGHUP)
    clients.check_lines(found)


@scenario(short=True, services=[
    web(policy={"name": "weighted-round-robin", "weights": "reported"},
        subset={"algorithm": "deterministic", "size": 3}, affinity={"by": "source"}), lines()])
def answers_have_the_documented_form(lab):
    """The answer of each command has the keys and types of the documented example (docs/reference/cli.md)"""
    backend = {"service": "web", "backend": "web-1"}
    host = {"address": lab.backend("web-1")["address"]}
    flow = {"protocol": "tcp", "source": "192.0.2.2", "source_port": 1024, "destination": VIP4,
            "destination_port": 80}
    arguments = {
        "service.show": {"service": "web"}, "service.set": {"service": "lines",
                                                            "policy": "least-loaded"},
        "backend.drain": backend, "backend.maintenance": backend, "backend.ready": backend,
        "bind.show": {"service": "web"}, "bind.drain": {"service": "web"},
        "bind.ready": {"service": "web"}, "host.show": host, "host.drain": host,
        "host.maintenance": host, "host.ready": host,
        "backend.report": {**backend, "requests_per_second": 9, "utilization": 0.5},
        "canary.plan": {"service": "lines", "backend": "web-2"},
        "canary.start": {"service": "lines", "backend": "web-2"},
        "canary.stop": {"service": "lines"},
        "weight.set": {**backend, "weight": 50}, "subset.show": {"service": "web"},
        "policy.compare": {"service": "lines", "for_ms": 200}, "service.waste": {"service": "web"},
        "worker.steal": {"stealing": "off"}, "flow.lookup": flow, "flow.delete": flow,
        "flow.clear": backend, "affinity.lookup": {"service": "web", "client": "192.0.2.2"},
        "affinity.clear": {"service": "web"}}
    wait_for("a check of each backend", lambda: all(h["last"] for h in lab.api(
        "health.show", service="web")))
    lab.services[0]["backends"][0]["weight"] = 7
    lab.write_config()
    commands = documented_commands()
    assert len(commands) > 15, commands
    with contextlib.closing(lab.api_connect()) as sock:  # a capture ends with its connection
        begun = lab.api_ask(sock, "capture.start")
        arguments["capture.read"] = arguments["capture.stop"] = {
            "capture": begun["result"]["capture"]}
        clients.http_get(lab.client, VIP4)
        for command in commands:
            if command.startswith("shed."):  # needs an agent: scenarios_shed.py
                continue
            answer = begun if command == "capture.start" else lab.api_ask(
                sock, command, **arguments.get(command, {}))
            assert answer["ok"], f"{command}: {answer}"
            check_form(command, answer["result"])


WRITERS, WRITES = 8, 50


def write_in_turns(lab, writer, done):
    """Set the weights of two backends: other clients also change the first, only this client changes the second."""
    service = ("web", "lines")[writer % 2]
    mine = f"web-{writer // 2 + 1}"
    with contextlib.closing(lab.api_connect()) as sock:
        for n in range(1, WRITES + 1):
            for name, weight in (("web-1", 1000 + n), (mine, 100 * writer + n)):
                answer = lab.api_ask(sock, "weight.set", service=service, backend=name,
                                     weight=weight)
                assert answer["result"]["weight"] == weight, (service, name, weight, answer)
    done.append(writer)


@scenario(services=[web(), lines()])
def concurrent_writers_lose_no_change(lab):
    """Eight clients of the control socket change weights concurrently with reloads; all changes take effect"""
    done = []
    threads = [threading.Thread(target=write_in_turns, args=(lab, writer, done))
               for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for n in range(10):
        lab.services[0]["table_size"] = (65537, 131101)[n % 2]
        lab.write_config()
        lab.api("config.reload")
    for thread in threads:
        thread.join()
    assert len(done) == WRITERS, done
    lab.wait_published()
    # Writers 0 and 1 are left out, because the other writers of the same service also change
    # their backend, web-1.
    for writer in range(2, WRITERS):
        backend = lab.backend(f"web-{writer // 2 + 1}", ("web", "lines")[writer % 2])
        wanted = 100 * writer + WRITES
        got = backend["runtime_weight"], backend["effective_weight"]
        assert got == (wanted, wanted), (writer, got)
    assert lab.api("service.show", service="web")[0]["table_size"] == 131101
    written = [e for e in lab.api("audit.show") if e["command"] == "weight.set"]
    assert len(written) > 200 and all(e["outcome"] == "done" for e in written), len(written)


# An accept4() that fails with ENFILE (too many open files in the system) while the file $NO_FILES
# exists.
NO_FILES = """
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags) {
	struct pollfd waiting = {.fd = fd, .events = POLLIN};
	if (poll(&waiting, 1, 0) > 0 && access(getenv("NO_FILES"), F_OK) == 0) {
		errno = ENFILE;
		return -1;
	}
	return (int)syscall(SYS_accept4, fd, address, bytes, flags);
}
"""


@scenario(start=False)
def no_files_for_the_hand_over(lab):
    """While the dataplane cannot accept control's connection, it logs one line and does not busy-loop"""
    source, shim, flag = (os.path.join(lab.dir, name) for name in ("s.c", "s.so", "no-files"))
    for path, text in ((source, NO_FILES), (flag, "")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    sh("cc", "-shared", "-fPIC", "-o", shim, source)
    lab.start_backends()
    with mock.patch.dict(os.environ, LD_PRELOAD=shim, NO_FILES=flag):
        lab.start_dataplane()
    dataplane = lab.programs["dataplane"]
    control = lab.spawn_control()
    wait_for("the refusal", lambda: "Too many open files in system" in dataplane.output())
    wait_for("control to give up once", lambda: "does not reply" in control.output())
    os.unlink(flag)
    lab.wait_ready()
    assert dataplane.output().count("hand-over socket:") == 1, dataplane.tail()


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


@scenario(services=[web()])
def reloads_take_no_memory(lab):
    """weir-control uses as much memory after 20 reloads as after 2, although each reload needs 15 MB for ids"""
    pid, resident = lab.programs["control"].pid, []
    for turn in range(20):
        lab.services[0]["backends"][0]["weight"] = 100 + turn
        lab.write_config()
        lab.weirctl("config", "reload")
        resident.append(resident_kib(pid))
    assert max(resident) - resident[1] < 4096, f"kB after each: {resident}"
