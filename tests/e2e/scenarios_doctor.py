# SPDX-License-Identifier: BSD-3-Clause
"""weirctl doctor and weir-agent doctor: problems are found, and the printed commands repair
them."""
import json
import os
import re
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from agents import Agents
from lab import VIP4, VIP6, backend_address, lines, web
from netns import sh, wait_for
from scenario import scenario

OUTER = [{"name": "web-1", "address": "10.0.0.11"}, {"name": "web-2", "address": backend_address(2, 6)},
         {"name": "web-3", "address": "10.0.0.13"}, {"name": "web-4", "address": "10.0.0.14"}]

OTHER_VIP = "198.51.100.11"


def inside(namespace, *command):
    """Run the command with the /sys of the namespace. Returns (exit status, output)."""
    said = sh("ip", "netns", "exec", namespace.name, "bash", "-c", '"$@"; echo "exit $?"', "-",
              *command)
    output, _, status = said.strip().rpartition("exit ")
    return int(status), output


def weirctl_doctor(lab, *options):
    """Returns {(check, subject): finding}, and the exit status."""
    status, output = inside(lab.lb, lab.binary("weirctl"), "doctor", "--json", "--run-dir",
                            lab.run_dir, *options)
    return {(row["check"], row["subject"]): row for row in json.loads(output)["findings"]}, status


def agent_doctor(lab, number, *options):
    """Returns {(check, subject): finding} and the exit status of weir-agent doctor on a backend."""
    status, output = inside(
        lab.namespaces[f"b{number}"], lab.binary("weir-agent"), "doctor", "eth0", "--json",
        "--key-file", lab.dir + "/agent.keys", "--run-dir", f"{lab.dir}/speaker-{number}", *options)
    return {(row["check"], row["subject"]): row for row in json.loads(output)["findings"]}, status


def find(lab, check, subject, level, words="", look_at=weirctl_doctor):
    """Wait for the finding. Returns the finding."""
    def look():
        row = look_at(lab)[0].get((check, subject))
        assert row and row["level"] == level and words in row["found"], row
        return row
    return wait_for(f"{level} {check} {subject} {words}", look, 30)


def called(lab, words):
    """Returns a weirctl command as doctor prints it when --run-dir is not the default."""
    return f"weirctl --run-dir {lab.run_dir} {words}"


def cure(lab, finding, namespace=None):
    """Run the command that repairs a finding: on the balancer, or on a backend if it begins with "ssh ADDRESS"."""
    command, namespace = finding["cure"], namespace or lab.lb
    there = re.match(r"ssh \S*?1(\d) ('?)(.*)\2$", command)
    if there:
        namespace, command = lab.namespaces[f"b{there[1]}"], there[3]
    status, output = inside(namespace, "env", f"PATH={os.path.dirname(lab.binary('weirctl'))}:{os.environ['PATH']}",
                            "bash", "-ec", command)
    assert status == 0, (command, output)


def probe_services(lab, *services):
    """Returns the findings about backends with a file that has these services."""
    path = lab.dir + "/other.json"
    with open(lab.config_path, encoding="ascii") as file:
        configuration = json.load(file)
    configuration["services"] = services
    with open(path, "w", encoding="ascii") as file:
        json.dump(configuration, file)
    output = inside(lab.lb, lab.binary("weirctl"), "doctor", "--json", "--run-dir", lab.run_dir, "--config", path)[1]
    return [row for row in json.loads(output)["findings"] if row["check"] == "backends"]


def probes_some_of_many_vips(lab):
    """Check that eight of ten VIPs are probed, at least one of each family."""
    many = [f"198.51.100.{number}" for number in range(20, 29)] + ["2001:db8:f::20"]
    rows = probe_services(lab, web(OUTER[2:3], vips=many))
    missing = [vip for row in rows for vip in many if f"VIP {vip} does not answer" in row["found"]]
    assert missing == many[:1] + many[-1:] + many[1:7], missing
    assert rows[-1]["level"] == "notice" and rows[-1]["found"] == "only 8 VIPs of each backend were probed", rows


def counts_further_dead_hosts(lab):
    """Check that 32 of 40 hosts that are down are listed, and the others counted."""
    rows = probe_services(lab, web([{"name": f"dead-{n}", "address": f"10.0.0.{n}"} for n in range(100, 140)]))
    assert [row["level"] for row in rows] == ["fault"] * 33, rows
    assert rows[31]["subject"] == "web/dead-131" and rows[32]["subject"] == "backends", rows
    assert rows[32]["found"] == "8 more like that of web/dead-100" and rows[32]["cure"] is None, rows


@scenario(services=[web(OUTER, vips=(VIP4, VIP6, OTHER_VIP))])
def doctor_finds_problems_of_backends(lab):
    """A missing decapsulator, VIP or host, or an MTU that is too small, is found and repaired"""
    for number in (1, 2, 3, 4):
        lab.namespaces[f"b{number}"].ip("addr", "add", OTHER_VIP + "/32", "dev", "lo")
    found, _ = weirctl_doctor(lab)
    for number in (1, 2, 3, 4):
        row = found["backends", f"web/web-{number}"]
        size = 1540 if number == 2 else 1520
        assert row["level"] == "ok" and row["found"] == (
            f"{OUTER[number - 1]['address']} and its 3 VIPs answer through the tunnel, up to {size} bytes"), row
    assert found["control", "weir-control"]["level"] == "ok", found
    b1, b3 = lab.namespaces["b1"], lab.namespaces["b3"]

    lab.programs["agent-1"].stop()
    row = find(lab, "backends", "web/web-1", "fault", "but not through the tunnel")
    assert row["cure"] == ("ssh 10.0.0.11 systemctl enable --now weir-decap # if it is running: add this balancer to "
                           "its --from, and restart it"), row
    rows = probe_services(lab, web(OUTER[:1], vips=[VIP4]), lines(OUTER[:1], vips=[OTHER_VIP]))
    assert len(rows) == 1 and rows[0]["subject"] == "web/web-1" and rows[0]["cure"] == row["cure"], rows
    assert rows[0]["found"] == row["found"] + "; also: lines/web-1", rows
    # weir-decap.service, which the command starts, runs this program
    lab.program("agent-1", b1, lab.binary("weir-agent"), "decap", "eth0")
    find(lab, "backends", "web/web-1", "ok")

    # VIPs of both families, on an IPv4 and an IPv6 backend.
    lost = ("1", VIP4), ("1", VIP6), ("1", OTHER_VIP), ("2", VIP4), ("2", VIP6)
    for number, vip in lost:
        inside(lab.namespaces["b" + number], "ip", "addr", "del", vip, "dev", "lo")
        row = find(lab, "backends", "web/web-" + number, "fault", f"decapsulates, but VIP {vip} does not answer")
        other = (":" in vip) != (number == "2")
        assert row["found"].endswith((" does not decapsulate IPv4 in IPv6",
                                      " does not decapsulate IPv6 in IPv4")) == other, row
        cure(lab, row)
        find(lab, "backends", "web/web-" + number, "ok", "and its 3 VIPs answer")
    lab.lb.ip("route", "add", "unreachable", VIP6)  # an operator may have added such a route
    find(lab, "backends", "web/web-1", "ok", "and its 3 VIPs answer")
    lab.lb.ip("route", "del", "unreachable", VIP6)
    lab.lb.ip("addr", "del", "2001:db8:a::2/64", "dev", "lb0")
    find(lab, "backends", "web/web-1", "ok", f"and its 2 VIPs answer through the tunnel, up to 1520 bytes; "
         f"VIP {VIP6} is not probed")
    lab.lb.ip("addr", "add", "2001:db8:a::2/64", "dev", "lb0", "nodad")
    probes_some_of_many_vips(lab)
    counts_further_dead_hosts(lab)

    hop = backend_address(3, 6)
    lab.lb.ip("route", "add", "10.0.0.13/32", "via", "inet6", hop, "dev", "lb0")
    lab.net.ip("link", "set", "b3", "mtu", 1400)  # b3 is a port of a switch, which sends no ICMP error
    row = find(lab, "backends", "web/web-3", "fault", "packets of more than 1400 bytes are lost")
    assert row["cure"] == f"ip route replace 10.0.0.13/32 via inet6 {hop} onlink dev lb0 src 10.0.0.2 mtu 1400", row
    cure(lab, row)
    find(lab, "backends", "web/web-3", "ok", "up to 1400 bytes")
    wait_for("weir-control to detect the path MTU", lambda: lab.backend("web-3")["path_mtu"] == 1400, 10)

    b3.ip("link", "set", "eth0", "down")
    lab.lb.ip("neigh", "flush", "all")  # otherwise the kernel keeps the neighbour entry for up to 50 s
    row = find(lab, "backends", "web/web-3", "fault", f"next hop {hop} does not answer")
    assert weirctl_doctor(lab)[1] == 2
    status, output = inside(lab.lb, "bash", "-c", row["cure"])
    assert status == 0 and ("FAILED" in output or "INCOMPLETE" in output), output


@scenario(services=[web({"web-1": 100})], hosts=1)
def doctor_finds_problems_of_the_balancer(lab):
    """Wrong kernel settings of the balancer are found, and repaired"""
    lb = lab.lb
    for check, subject, level, *broken in (
            ("rp-filter", VIP4, "notice", "sysctl", "-w", "net.ipv4.conf.all.rp_filter=1"),
            ("vips", VIP4, "fault", "ip", "addr", "add", VIP4 + "/24", "dev", "lo"),
            ("vips", VIP4, "warning", "sysctl", "-w", "net.ipv4.ip_forward=1"),
            ("port-mtu", "lb0", "fault", "ip", "link", "set", "lb0", "mtu", "1400"),
            ("redirects", "lb0", "notice", "sysctl", "-w", "net.ipv4.conf.lb0.accept_redirects=1"),
            ("interface", "lb0", "fault", "ip", "link", "set", "lb0", "down")):
        if check == "rp-filter":  # so that lb0 has no route to the VIP
            lb.ip("route", "add", "unreachable", VIP4)
        if level == "warning":
            lb.ip("route", "del", "unreachable", VIP4)
        status, output = inside(lb, *broken)
        assert status == 0, output
        finding = find(lab, check, subject, level)
        if (check, level) == ("vips", "fault"):  # the fault must not be reported for the backend
            row = weirctl_doctor(lab)[0]["backends", "web/web-1"]
            assert row["level"] == "ok" and f"VIP {VIP4} is not probed" in row["found"], row
        cure(lab, finding)
        find(lab, check, subject, "ok")
    sock = lab.run_dir + "/control/control.sock"
    sh("chmod", "0666", sock)
    cure(lab, find(lab, "access", sock, "fault", "mode 0666"))
    find(lab, "access", sock, "ok")
    configuration_is_readable_again(lab)


def configuration_is_readable_again(lab):
    """Check that the printed command gives weir-control's user access to a file and a directory of root, and that a reload then works."""
    os.chmod(lab.config_path, 0o644)
    row = find(lab, "access", lab.config_path, "ok")
    assert row["found"] == "weir-control (user nobody) can read the file", row
    closed = lab.dir + "/closed"
    os.mkdir(closed, 0o700)
    path = closed + "/weir.json"
    shutil.copy(lab.config_path, path)
    os.chmod(path, 0o600)
    status, _, err = lab.weirctl("config", "reload", path, check=False)
    assert status == 1 and f"user nobody cannot read {path}" in err, err
    row = weirctl_doctor(lab, "--config", path)[0]["access", path]
    assert row["level"] == "fault" and row["found"] == (
        "weir-control (user nobody) cannot read the file, so reloads fail: "
        f"directory {closed}: mode 0700, owner root, group root"), row
    assert row["cure"] == (f"chgrp nogroup {closed} && chmod 0710 {closed} && "
                           f"chgrp nogroup {path} && chmod 0640 {path}"), row
    cure(lab, row)
    assert weirctl_doctor(lab, "--config", path)[0]["access", path]["level"] == "ok"
    lab.weirctl("config", "reload", path)
    lab.weirctl("config", "reload", lab.config_path)


def changes_that_wait(lab):
    """Check the running and pending values of changes that need a restart of the dataplane."""
    lab.port = {"mtu": 1550}
    lab.extra = {"instance": {"name": "lb-0", "hash_seed": "0x0123456789abcdef"}}
    lab.write_config()
    lab.weirctl("config", "reload")
    for _ in range(2):
        waiting = lab.api("config.waiting")
        whats = {change["what"]: (change["from"], change["to"], change["note"])
                 for change in waiting["changes"]}
        assert set(whats) == {"port wan mtu", "instance hash_seed"}, whats
        assert whats["port wan mtu"] == ("1600", "1550", "needs a restart of weir-dataplane"), whats
        # hidden, because clients with only read access can also request this list
        assert whats["instance hash_seed"][:2] == ("hidden", "hidden"), whats
        assert {c["what"] for c in lab.api("config.diff")["changes"]} == set(whats)
        found, _ = weirctl_doctor(lab)
        row = found["restart", "port wan mtu"]
        assert row["level"] == "notice" and row["cure"] == "systemctl restart weir-dataplane", row
        assert "1600 is in use, 1550 takes effect" in row["found"], row
        assert row["found"].endswith("which breaks none of 0 open flows"), row
        assert "mtu of port wan is 1600" in found["port-mtu", "lb0"]["found"], found
        lab.programs["control"].stop()
        found, _ = weirctl_doctor(lab, "--config", lab.config_path)
        assert "1600 is in use, 1550 takes effect" in found["restart", "port wan mtu"]["found"], found
        lab.start_control()
        lab.wait_ready()
    lab.programs["dataplane"].kill()  # after SIGKILL the file of the dataplane remains
    lab.start_dataplane()
    lab.wait_ready()
    assert lab.api("config.waiting")["changes"] == lab.api("config.diff")["changes"] == []
    found, _ = weirctl_doctor(lab)
    assert found["restart", "weir-dataplane"]["level"] == "ok", found
    assert "mtu of port wan is 1550" in found["port-mtu", "lb0"]["found"], found
    left = [name for name in os.listdir(lab.run_dir) if ".json" in name]
    assert left == [f"dataplane-{lab.api('version')['dataplane']['epoch']}.json"], left


def check_directory_in_environment(lab):
    """Check that printed commands have no --run-dir if weirctl gets the directory from its environment, except after sudo."""
    lab.api("backend.drain", backend="web-1")
    for variable, options, prefix in ((lab.run_dir, (), "weirctl "),
                                      (lab.run_dir, ("--run-dir", lab.run_dir), "weirctl "),
                                      ("/nowhere", ("--run-dir", lab.run_dir), called(lab, ""))):
        rows = json.loads(inside(lab.lb, "env", "WEIR_RUN_DIR=" + variable, lab.binary("weirctl"), "doctor", "--json",
                                 *options)[1])["findings"]
        cures = [row["cure"] for row in rows if (row["check"], row["subject"]) == ("health", "web/web-1")]
        assert cures == [prefix + "backend ready web/web-1"], (variable, options, cures)
    output = inside(lab.lb, "setpriv", "--reuid", "nobody", "--bounding-set", "-all", "env",
                    "WEIR_RUN_DIR=" + lab.run_dir, lab.binary("weirctl"), "doctor", "--config", lab.config_path)[1]
    assert f"$ sudo {called(lab, 'doctor --config ' + lab.config_path)}\n" in output, output
    lab.api("backend.ready", backend="web-1")


@scenario(services=[web({"web-1": 100})], hosts=1)
def doctor_works_without_the_daemons(lab):
    """Doctor works without daemons and without a usable backend; without root it sends no packets"""
    changes_that_wait(lab)
    lab.kill_backend(1)
    find(lab, "services", "web", "fault", "no eligible backend")
    find(lab, "health", "web/web-1", "warning", "refused")
    lab.start_nginx(1)
    find(lab, "services", "services", "ok")
    find(lab, "health", "backends", "ok")
    for command, words in (  # web-1 is the only backend of the service
            ("drain", "still gets new flows, because no backend of the service is ready: the backend has been drained for "),
            ("maintenance", "gets no new flows: the backend has been in maintenance for ")):
        lab.api("backend." + command, backend="web-1")
        row = find(lab, "health", "web/web-1", "warning", words)
        assert row["cure"] == called(lab, "backend ready web/web-1"), row
        cure(lab, row)
        find(lab, "health", "backends", "ok")
    check_directory_in_environment(lab)
    lab.api("bind.drain", service="web")
    row = find(lab, "services", "web", "notice", "is drained")
    assert row["cure"] == called(lab, "service ready web"), row
    assert ("services", "services") not in weirctl_doctor(lab)[0]
    lab.api("bind.ready", service="web")
    lab.api("bind.drain", address=VIP4)
    row = find(lab, "services", "web", "notice", "1 of its 2 binds is drained")
    assert row["cure"] == called(lab, f"vip ready {VIP4}"), row
    lab.api("bind.drain", address=VIP6)
    row = find(lab, "services", "web", "notice", "is drained: new flows are refused")
    assert row["cure"] == called(lab, f"vip ready {VIP6}"), row
    lab.api("bind.drain", service="web")
    assert find(lab, "services", "web", "notice")["cure"] == called(lab, "service ready web")
    lab.api("bind.ready", service="web")
    find(lab, "services", "services", "ok")
    lab.programs["dataplane"].signal(signal.SIGSTOP)
    row = find(lab, "dataplane", "weir-dataplane", "fault",
               "weir-dataplane has been stalled for ")
    assert row["cure"] == "systemctl restart weir-dataplane", row
    lab.programs["dataplane"].signal(signal.SIGCONT)
    find(lab, "dataplane", "weir-dataplane", "ok")
    lab.programs["dataplane"].stop()
    status, output = inside(lab.lb, "setpriv", "--reuid", "nobody", "--clear-groups",
                            "--bounding-set", "-all", lab.binary("weirctl"), "doctor", "--config",
                            lab.config_path, "--run-dir", lab.run_dir)
    assert re.search(r"^warning +control +weir-control +no permission to use .*\n +\$ "
                     + re.escape("sudo " + called(lab, "doctor")) + "$", output, re.M), output
    row = find(lab, "dataplane", "weir-dataplane", "fault", "no packet is forwarded")
    assert row["cure"] == "systemctl start weir-dataplane", row
    lab.start_dataplane()  # the printed command does this
    find(lab, "control", "weir-control", "ok")
    lab.programs["control"].stop()
    found, status = weirctl_doctor(lab)
    assert found["control", "weir-control"]["level"] == "fault" and status == 2, found
    lab.programs["dataplane"].signal(signal.SIGSTOP)
    row = find(lab, "dataplane", "weir-dataplane", "fault", "stalled",
               look_at=lambda lab: weirctl_doctor(lab, "--config", lab.config_path))
    assert row["cure"] == "systemctl start weir-control && systemctl restart weir-dataplane", row
    lab.programs["dataplane"].signal(signal.SIGCONT)
    lab.programs["dataplane"].stop()
    found, status = weirctl_doctor(lab)
    assert found["control", "weir-control"]["level"] == "fault" and status == 2, found
    assert found["dataplane", "weir-dataplane"]["level"] == "fault", found
    status, output = inside(lab.lb, lab.binary("weirctl"), "doctor", "--config", lab.config_path,
                            "--run-dir", lab.run_dir)
    assert re.search(r"^ok +backends +web/web-1 ", output, re.M), output
    status, output = inside(lab.lb, "setpriv", "--reuid", "nobody", "--bounding-set", "-all",
                            lab.binary("weirctl"), "doctor", "--config", lab.config_path,
                            "--run-dir", lab.run_dir)
    assert re.search(r"^notice +backends +backends +backends are not probed: "
                     r"Operation not permitted; run weirctl as root\n +\$ "
                     + re.escape("sudo " + called(lab, "doctor --config " + lab.config_path)) + "$", output,
                     re.M), output

    lab.lb.ip("link", "add", "above", "type", "bridge")  # weir-control finds the port behind this bridge
    lab.lb.ip("link", "set", "lb0", "master", "above")
    lab.lb.ip("addr", "flush", "dev", "lb0")
    lab.lb.ip("addr", "add", "10.0.0.2/24", "dev", "above")
    lab.lb.ip("link", "set", "above", "up")

    def reaches():
        said = inside(lab.lb, lab.binary("weirctl"), "doctor", "--config", lab.config_path,
                      "--run-dir", lab.run_dir)[1]
        assert re.search(r"^ok +backends +web/web-1 ", said, re.M), said
        return said
    wait_for("the path via the bridge", reaches, 20)


@scenario(services=[web({"web-1": 100}, agent={})], hosts=1)
def doctor_checks_what_runs_without_a_valid_file(lab):
    """After a rejected reload, doctor checks the running values, and names what it does not check"""
    with open(lab.config_path, encoding="ascii") as file:
        whole = file.read()
    with open(lab.config_path, "w", encoding="ascii") as file:
        file.write(whole.rstrip()[:-1])
    assert lab.weirctl("config", "reload", check=False)[0] == 1
    lab.lb.ip("link", "set", "lb0", "mtu", "1400")
    lab.programs["agent-1"].stop()
    lab.lb.ip("addr", "add", VIP4 + "/32", "dev", "lo")

    def look_at(options, level, words, skipped):
        found, status = weirctl_doctor(lab, *options)
        row = found["config", lab.config_path]
        assert status == 2 and row["level"] == level and words in row["found"], found
        assert row["found"].partition("skipped checks: ")[2].split(", ") == skipped, row
        return found
    for options in ((), ("--config", lab.config_path)):
        found = look_at(options, "notice", "checking the running configuration instead; ", ["restart"])
        assert found["port-mtu", "lb0"]["level"] == "fault", found
        assert found["vips", VIP4]["level"] == "fault", found
        assert "but not through the tunnel" in found["backends", "web/web-1"]["found"], found
        assert any(check == "access" and "agent.keys" in subject for check, subject in found), found
        assert not any("start weir-dataplane" in (row["cure"] or "") for row in found.values()), found
    lab.programs["control"].stop()
    needs_services = ["restart", "neighbour-table", "vips", "rp-filter", "backends"]
    found = look_at(("--config", lab.config_path), "warning", "without the services", needs_services)
    assert found["port-mtu", "lb0"]["level"] == "fault" and ("backends", "web/web-1") not in found, found
    lab.programs["dataplane"].stop()
    found, _ = weirctl_doctor(lab, "--config", lab.config_path)
    row = found["config", lab.config_path]
    words = "the running configuration is unknown; skipped checks: restart, cores, "
    assert row["level"] == "warning" and words in row["found"], row
    assert row["found"].endswith("redirects, neighbour-table, offloads, vips, rp-filter, backends"), row


PLACES = ("here", "elsewhere", "nowhere")


def check_places(lab, other, places):
    """Check that findings match the place where each daemon runs: "here" (lab.run_dir), "elsewhere"
    (`other`; the printed command must use this directory), or nowhere."""
    found, exit_status = weirctl_doctor(lab, "--config", lab.config_path)
    summary = lab.weirctl("status", check=False)[1]
    shown = lab.weirctl("service", "show", check=False)[2]
    for name, place in places.items():
        program, pid = "weir-" + name, lab.programs[name].pid
        process, row = found.get(("program", program)), found[name, program]
        use = f"{program} does not run in {lab.run_dir}, but pid {pid} runs in {other}: use --run-dir {other}"
        text = summary if name == "dataplane" else shown
        if place == "here":
            assert process["level"] == "ok" and process["found"].startswith("runs /"), (places, process)
            assert not re.search(rf"{program} (is not running|does not run)", summary + shown), (places, text)
        elif place == "elsewhere":
            assert process["level"] == "notice" and f"pid {pid} runs in {other}, " in process["found"], (places, process)
            assert use in text and f"{program} is not running" not in text, (places, text)
            assert (row["level"], row["found"]) == ("fault", use), (places, row)
            assert process["cure"] == row["cure"] == f"weirctl doctor --run-dir {other}", (places, row)
        else:
            assert process is None and row["level"] == "fault" and exit_status == 2, (places, process, row)
            assert "is not running" in row["found"] and lab.run_dir in row["found"], (places, row)
            assert f"{program} is not running" in text, (places, text)
            assert row["cure"] == "systemctl start " + program, (places, row)
        results = [line["found"] for (_, subject), line in found.items() if subject == program]
        runs = [words for words in results if re.match(r"runs|uses|responds|may|workers|open|locked", words)]
        assert (place == "here") == bool(runs), (places, results)


def start_at(lab, name, folder):
    run_dir, lab.run_dir = lab.run_dir, folder
    getattr(lab, "start_" + name)()
    lab.run_dir = run_dir


@scenario(services=[web({"web-1": 100})], hosts=1)
def doctor_names_the_directory_of_daemons(lab):
    """weirctl with a wrong run directory names the daemons' directory, and all findings agree"""
    other, at = lab.dir + "/other", {"here": lab.run_dir, "elsewhere": lab.dir + "/other"}
    for name in ("dataplane", "control"):
        lab.programs[name].stop()
    for dataplane in PLACES:
        if dataplane != "nowhere":
            start_at(lab, "dataplane", at[dataplane])
        for control in PLACES:
            if control != "nowhere":
                start_at(lab, "control", at[control])
            check_places(lab, other, {"dataplane": dataplane, "control": control})
            if control == dataplane == "elsewhere":
                status, output = inside(lab.lb, lab.binary("weirctl"), "doctor", "--run-dir", other)
                assert re.search(rf"^ok +control +weir-control +responds on its socket in {other}, ", output, re.M), output
            lab.programs["control"].stop()
        lab.programs["dataplane"].stop()

    lab.start_dataplane()
    lab.start_control()
    lab.wait_ready()
    os.rename(lab.run_dir, lab.run_dir + ".away")  # tmpfiles.d or an operator may remove the directory
    os.mkdir(lab.run_dir)
    found, _ = weirctl_doctor(lab, "--config", lab.config_path)
    for name in ("dataplane", "control"):
        row, pid = found[name, "weir-" + name], lab.programs[name].pid
        # control first, because it must run when the dataplane restarts
        first = "systemctl restart weir-control && " if name == "dataplane" else ""
        assert row["cure"] == f"{first}systemctl restart weir-{name}", row
        assert f"weir-{name} (pid {pid}) runs, but has no " in row["found"], row
        assert found["program", "weir-" + name]["level"] == "ok", found
    wrong = lab.dir + "/missing"
    status, output = inside(lab.lb, lab.binary("weirctl"), "doctor", "--run-dir", wrong)
    assert re.search(rf"^notice +access +{wrong} +does not exist: use the --run-dir of weir-dataplane",
                     output, re.M), output
    os.rmdir(lab.run_dir)
    os.rename(lab.run_dir + ".away", lab.run_dir)
    lab.api("version")


def wrong_directory_of_agent(lab, run_dir):
    """Check that weir-agent with a wrong run directory prints the directory of the running agent."""
    b1, pid, wrong = lab.namespaces["b1"], lab.programs["speaker-1"].pid, lab.dir + "/wrong"
    use = f"weir-agent run does not run in {wrong}, but pid {pid} runs in {run_dir}: use --run-dir {run_dir}"
    agent = lab.binary("weir-agent")
    output = inside(b1, agent, "doctor", "eth0", "--json", "--run-dir", wrong)[1]
    rows = [row for row in json.loads(output)["findings"] if row["check"] == "balancers"]
    assert [row["found"] for row in rows] == [use], rows
    assert rows[0]["cure"] == f"weir-agent doctor eth0 --run-dir {run_dir}", rows
    output = inside(b1, "bash", "-c", f"{agent} status --run-dir {wrong} 2>&1")[1]
    assert output == f"weir-agent: no response from weir-agent run: {use}\n", output
    output = inside(lab.lb, "setpriv", "--reuid", "nobody", "--clear-groups", "--bounding-set", "-all",
                    "bash", "-c", f"{agent} status --run-dir {wrong} 2>&1")[1]
    assert f"pid {pid}" not in output, output  # that agent is in another network namespace
    status, output = inside(b1, "setpriv", "--reuid", "nobody", "--clear-groups", "--bounding-set", "-all",
                            agent, "doctor", "eth0", "--run-dir", run_dir)
    assert re.search(rf"^notice +balancers +{run_dir} +weir-agent run \(pid {pid}\) is running; only root", output,
                     re.M), output


@scenario(start=False, services=[web({"web-1": 100}, agent={})], hosts=1)
def doctor_finds_problems_on_a_backend(lab):
    """weir-agent doctor: problems on the backend are found, and repaired"""
    b1, keys = lab.namespaces["b1"], lab.dir + "/agent.keys"
    lab.extra = Agents.configuration(lab)
    lab.write_config()
    agents = Agents(lab)
    lab.start()

    def look(lab, *more):
        return agent_doctor(lab, 1, "--vip", VIP4, "--vip", VIP6, "--port", "80", *more)

    def expect(check, subject, level, words=""):
        return find(lab, check, subject, level, words, look)
    run_dir = agents.run_dir(1)
    row = expect("balancers", run_dir, "notice", "weir-agent is not responding")
    assert row["cure"] == "systemctl enable --now weir-agent", row
    agents.start(1)  # the unit in the printed command starts an agent
    expect("balancers", "weir-agent run", "ok", "probe this agent: 1")
    wrong_directory_of_agent(lab, run_dir)
    found, status = look(lab)
    bad = [row for row in found.values() if row["level"] not in ("ok", "notice")]
    assert status == 0 and not bad, bad
    lab.programs["speaker-1"].kill()
    row = expect("balancers", run_dir, "warning", "has crashed")
    assert row["cure"] == "systemctl enable --now weir-agent" and look(lab)[1] == 1, row
    agents.start(1)
    expect("balancers", "weir-agent run", "ok", "probe this agent: 1")

    # A default route with a metric, as on systems that get the MTU by DHCP.
    inside(b1, "bash", "-ec", "route=$(ip route show default); ip route add $route metric 100; "
           "ip route del $route metric 0")
    for check, subject, level, *broken in (
            ("loopback", VIP4, "fault", "ip", "addr", "del", VIP4 + "/32", "dev", "lo"),
            ("loopback", VIP6, "fault", "ip", "addr", "del", VIP6 + "/128", "dev", "lo"),
            ("rp-filter", "eth0", "warning", "sysctl", "-w", "net.ipv4.conf.eth0.rp_filter=1"),
            ("mtu", "eth0", "warning", "ip", "link", "set", "eth0", "mtu", "1500"),
            ("syn-queue", "net.ipv4.tcp_syncookies", "warning", "sysctl", "-w",
             "net.ipv4.tcp_syncookies=0"),
            ("syn-queue", "net.ipv4.tcp_max_syn_backlog", "notice", "sysctl", "-w",
             "net.ipv4.tcp_max_syn_backlog=128"),
            ("key-file", keys, "fault", "chmod", "0644", keys)):
        status, output = inside(b1, *broken)
        assert status == 0, output
        cure(lab, expect(check, subject, level), b1)
        assert look(lab)[0].get((check, subject), {"level": "ok"})["level"] == "ok", subject

    _, route = inside(b1, "ip", "route", "show", "default")
    inside(b1, "ip", "route", "del", "default")
    expect("mtu", "eth0", "notice", "each route to clients needs advmss")
    inside(b1, "ip", "route", "add", *route.split())
    expect("mtu", "eth0", "ok")

    for directory, quoted in ((run_dir, run_dir), (lab.dir + "/a b", f"'{lab.dir}/a b'")):
        status, output = inside(b1, "setpriv", "--reuid", "nobody", "--clear-groups",
                                "--bounding-set", "-all", lab.binary("weir-agent"), "doctor", "eth0",
                                "--key-file", keys, "--run-dir", directory)
        assert re.search(rf"^notice +key-file +{keys} +not checked: Permission denied.*\n +\$ sudo weir-agent "
                         rf"doctor eth0 --run-dir {quoted} --key-file {keys}$", output, re.M), output

    subject = "web/web-1"
    find(lab, "health", "backends", "ok")
    sh(lab.binary("weir-agent"), "lame-duck", "--interval", "1s", "--run-dir", run_dir)
    row = find(lab, "health", subject, "warning", "the backend has been a lame duck for ")
    assert row["cure"] == "ssh 10.0.0.11 weir-agent ready", row
    sh(lab.binary("weir-agent"), "ready", "--run-dir", run_dir)
    find(lab, "health", "backends", "ok")
    agents.drain(1)  # after SIGTERM, the backend stays a lame duck
    expect("balancers", run_dir, "notice", "weir-agent is not responding")
    row = find(lab, "health", subject, "warning", "and its weir-agent, which can end this state, does not answer")
    command, _, other = row["cure"].partition(" # or: ")
    assert command == "ssh 10.0.0.11 systemctl start weir-agent", row
    assert other == called(lab, "backend ready web/web-1"), row
    cure(lab, {"cure": other})
    find(lab, "health", "backends", "ok")
    agents.start(1)

    inside(b1, "ip", "addr", "add", "10.0.0.100/32", "dev", "lo")
    for key in ("arp_ignore", "arp_announce"):
        inside(b1, "sysctl", "-w", f"net.ipv4.conf.all.{key}=0")
    cure(lab, expect("arp", "eth0", "fault", "answers ARP for 10.0.0.100"), b1)
    expect("arp", "eth0", "ok", "does not answer ARP")

    lab.programs["agent-1"].stop()
    row = expect("decap", "eth0", "fault", "packets are not decapsulated")
    assert row["cure"] == "systemctl enable --now weir-decap" and look(lab)[1] == 2, row
    lab.program("agent-1", b1, lab.binary("weir-agent"), "decap", "eth0", "--from", "192.0.2.99")
    expect("decap", "eth0", "ok")
    weirctl_doctor(lab)  # sends probes through the tunnel, which the decapsulator refuses
    found, _ = look(lab)
    assert any("because their source is not in --from (last: 10.0.0.2); none in the last 3 s" in row["found"]
               for row in found.values()), found
    with ThreadPoolExecutor(1) as pool:
        ended = threading.Event()
        probing = pool.submit(lambda: [weirctl_doctor(lab) for _ in iter(ended.is_set, True)])
        try:
            wait_for("refused packets", lambda: any(
                "their source is not in --from (last: 10.0.0.2). If they are from a balancer, add" in row["found"]
                for row in look(lab)[0].values()), 60)
        finally:
            ended.set()
        probing.result()

    listen = "import socket, time; s = socket.socket(); s.bind(('', 81)); s.listen(511); time.sleep(999)"
    lab.program("small-queue", b1, "/usr/bin/python3", "-c", listen)
    for most, by in ((4096, "the server's listen() backlog"), (511, "net.core.somaxconn")):
        inside(b1, "sysctl", "-w", f"net.core.somaxconn={most}")
        row = find(lab, "listeners", "tcp port 81", "warning", f"511 connections by {by}",
                   lambda lab: agent_doctor(lab, 1, "--port", "81"))
        assert "listen 81 backlog=4096;" in row["cure"], row
        status, output = inside(b1, "bash", "-ec", row["cure"])
        assert status == 0 and ":81" in output, output
        assert inside(b1, "sysctl", "-n", "net.core.somaxconn")[1].strip() == "4096"

    lab.programs["nginx-1"].signal(signal.SIGQUIT)
    row = expect("listeners", "tcp port 80", "fault", "no socket listens")
    assert inside(b1, "bash", "-c", row["cure"])[0] == 0, row
    os.rename(keys, keys + ".away")
    expect("key-file", keys, "notice", "does not exist")
