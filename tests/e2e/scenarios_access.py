# SPDX-License-Identifier: BSD-3-Clause
"""Access rights of group members to the sockets, the run directory and the processes."""
import json
import os
import pwd
import stat
import subprocess
import time

import clients
from lab import HERE, PYTHON, VIP4, web
from lingering import lingering
from netns import wait_for
from scenario import scenario

MEMBER = 45678  # a user ID without a name
GROUP = 65534  # nogroup: the group of the lab's sockets


def as_member(lab, *command, groups=(), **options):
    with lab.lb.inside():
        return subprocess.Popen(command, user=MEMBER, group=GROUP, extra_groups=list(groups),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd="/", **options)


def member(lab, *arguments):
    """Run member.py from standard input, because the member may have no access to its directory."""
    with open(os.path.join(HERE, "member.py"), encoding="utf-8") as file:
        return as_member(lab, PYTHON, "-", *map(str, arguments), stdin=file)


def weirctl_as_member(lab, *words, groups=()):
    done = as_member(lab, lab.binary("weirctl"), "--run-dir", lab.run_dir, *words, groups=groups)
    out, err = done.communicate(timeout=20)
    return done.returncode, out, err


def running_files(lab):
    """Returns the names of the files that contain the running configuration."""
    return [name for name in os.listdir(lab.run_dir) if name.endswith(".json")]


def modes(lab):
    names = (".", "dataplane.sock", "dataplane.lock", "control", "control/control.sock",
             "control/control.pid", *running_files(lab))
    result = {}
    for name in names:
        status = os.stat(os.path.join(lab.run_dir, name))
        result[name] = (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
    return result


def attempts(lab, control_pid):
    hostile = member(lab, lab.run_dir, lab.config_path, lab.programs["dataplane"].pid, control_pid)
    out, err = hostile.communicate(timeout=60)
    assert hostile.returncode == 0, err
    results = json.loads(out)
    assert len(results) > 30, results
    done = [name for name, result in results.items() if result == "done"]
    assert not done, f"a member of the group could: {done}"
    return results


@scenario(services=[web()])
def group_member_gets_nothing(lab):
    """A hostile member of the group cannot take, replace, change or block anything"""
    nobody = 65534
    epoch = lab.api("version")["dataplane"]["epoch"]
    expected = {f"dataplane-{epoch}.json": (nobody, 0, 0o640),
                ".": (0, GROUP, 0o750), "dataplane.sock": (nobody, 0, 0o660),
                "dataplane.lock": (0, 0, 0o600), "control": (nobody, GROUP, 0o750),
                "control/control.sock": (nobody, GROUP, 0o660),
                "control/control.pid": (nobody, GROUP, 0o600)}
    assert modes(lab) == expected, modes(lab)
    attempts(lab, lab.programs["control"].pid)
    assert modes(lab) == expected, modes(lab)
    lab.programs["control"].stop()  # then no process is attached to the segment
    results = attempts(lab, lab.programs["dataplane"].pid)
    assert results["take the segment"] == "EACCES", results["take the segment"]
    lab.start_control()
    lab.wait_ready()
    members_may_read_but_not_change(lab)
    members_descriptors_do_not_stall_control(lab)
    with_a_disturbing_member(lab)


def members_may_read_but_not_change(lab):
    status, out, err = weirctl_as_member(lab, "backend", "show", "--json")
    assert status == 0 and len(json.loads(out)) == 4, (status, out, err)
    for words in (("backend", "drain", "web/web-1"), ("weight", "set", "web/web-1", "7"),
                  ("config", "reload"), ("config", "diff", "/etc/shadow")):
        status, out, err = weirctl_as_member(lab, *words)
        assert status == 1 and "may only read" in err and "--admin-group" in err, (words, err)
    backend = lab.backend("web-1")
    assert backend["admin"] == "ready" and backend["runtime_weight"] is None, backend
    members_attempts_are_in_the_audit(lab)


def members_descriptors_do_not_stall_control(lab):
    path = os.path.join(lab.run_dir, "control", "control.sock")
    with lingering(lab.lb, lab.programs["control"].process, path, MEMBER, GROUP):
        wait_for("an answer", lambda: weirctl_as_member(lab, "backend", "show")[0] == 0, 20)


def members_attempts_are_in_the_audit(lab):
    lab.weirctl("weight", "set", "web/web-2", "configured")
    for _ in range(3):
        weirctl_as_member(lab, "backend", "drain", "web/web-1")
    status, out, err = weirctl_as_member(lab, "audit", "show", "--json")
    assert status == 0, (status, err)
    entries = json.loads(out)
    assert [e["serial"] for e in entries] == sorted(e["serial"] for e in entries), entries
    refused = [e for e in entries if e["uid"] == MEMBER]
    assert {e["command"] for e in refused} == {"backend.drain", "weight.set", "config.reload",
                                               "config.diff"}, refused
    assert all(e["outcome"] == "forbidden" for e in refused), refused
    last = refused[-1]
    assert last["times"] == 4 and last["before"] == "ready" and last["after"] is None, last
    changes = [e for e in entries if e["outcome"] == "done"]
    assert [(e["uid"], e["command"], e["object"]) for e in changes] == \
        [(0, "weight.set", "web/web-2")], changes
    log = lab.programs["control"].output()
    assert log.count("audit: backend.drain web/web-1: forbidden") == 1, log
    assert "audit: weight.set web/web-2: as configured (100) -> as configured (100) (uid 0," in log


def with_a_disturbing_member(lab):
    """Check that both processes start, attach and answer while a client connects continuously."""
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(20)
        hostile = member(lab, lab.run_dir)
        try:
            assert hostile.stdout.readline() == "2000 connections\n", hostile.stderr.read()
            for _ in range(3):
                lab.weirctl("backend", "show")
            lab.programs["control"].stop()
            since = time.monotonic()
            lab.start_control()
            wait_for("control attached",
                     lambda: lab.api("version")["dataplane"]["attached"], 5)
            took = time.monotonic() - since
            assert took < 5, f"control needed {took:.1f} s"
            lab.weirctl("backend", "drain", "web/web-1")
            lab.weirctl("backend", "ready", "web/web-1")
            load.wait_for_more(20)
            assert not load.errors(), load.errors()[:5]
            lab.programs["dataplane"].kill()
            lab.start_dataplane()
            lab.wait_ready()
            since = time.monotonic()
            load.wait_for_more(20)
            assert not load.errors(since=since), load.errors(since=since)[:5]
            assert hostile.poll() is None, hostile.stderr.read()
        finally:
            hostile.kill()
            hostile.communicate()
    log = lab.programs["dataplane"].output()
    assert log.count("refused to attach pid") <= 2, log


@scenario(start=False, services=[web()])
def run_dir_of_an_older_version_is_repaired(lab):
    """A group-writable run directory with a foreign socket is repaired and used"""
    os.mkdir(lab.run_dir)
    os.chown(lab.run_dir, 0, GROUP)
    os.chmod(lab.run_dir, 0o770)
    squat = "import socket, sys, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); " \
            "s.bind(sys.argv[1] + '/dataplane.sock'); s.listen(); print('there', flush=True); " \
            "time.sleep(600)"
    squatter = as_member(lab, PYTHON, "-c", squat, lab.run_dir)
    try:
        assert squatter.stdout.readline() == "there\n", squatter.stderr.read()
        lab.start()
        assert clients.curl_batch(lab.client, VIP4, 20).ok == 20
    finally:
        squatter.kill()
        squatter.communicate()
    assert modes(lab)["."] == (0, GROUP, 0o750), modes(lab)
    assert "was writable by others" in lab.programs["dataplane"].output()


@scenario(start=False, services=[web()])
def control_of_another_user_gets_the_reason(lab):
    """The dataplane refuses a user other than --control-user; control reports the reason and the remedy"""
    lab.dataplane_options = (*lab.dataplane_options, "--control-user", "daemon")
    lab.start_backends()
    lab.start_dataplane()
    control = lab.spawn_control()
    wait_for("control to end", lambda: not control.alive(), 10)
    assert control.process.returncode == 1, control.tail()
    assert "--control-user" in control.tail() and "belongs to user 1, " in control.tail()
    if "weir" not in (user.pw_name for user in pwd.getpwall()):
        lab.control_options = ()
        control = lab.spawn_control()
        wait_for("control to end", lambda: not control.alive(), 10)
        assert "there is no user weir, so this process runs as nobody" in control.tail(), control.tail()
    lab.control_options = ("--user", "daemon", "--group", "nogroup")
    lab.start_control()
    lab.wait_ready()
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20
