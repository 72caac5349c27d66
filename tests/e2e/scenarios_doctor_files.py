# SPDX-License-Identifier: BSD-3-Clause
"""weirctl doctor: the configuration file and the key file of a running weir-control."""
import os
import signal

from agents import Agents
from lab import web
from scenario import scenario
from scenarios_doctor import cure, find, inside, weirctl_doctor


@scenario(start=False, services=[web({"web-1": 100}, agent={})], hosts=1)
def doctor_finds_keys_that_control_cannot_read(lab):
    """A key file that only root can read is a fault, and the printed command repairs it"""
    agents, keys = Agents(lab), lab.dir + "/agent.keys"
    agents.start_lab()
    find(lab, "access", keys, "ok", "mode 0640, 1 key")
    os.chown(keys, 0, 0)
    _, _, err = lab.weirctl("config", "reload")
    assert f"{keys}: Permission denied; the previous keys stay in use" in err, err
    row = find(lab, "access", keys, "fault")
    assert row["found"] == ("weir-control (user nobody) cannot read the file, so it uses the previous keys, or "
                            "none: mode 0640, owner root, group root"), row
    assert row["cure"] == (f"chgrp nogroup {keys} && chmod 0640 {keys} && "
                           f"weirctl --run-dir {lab.run_dir} config reload"), row
    cure(lab, row)
    find(lab, "access", keys, "ok", "mode 0640, 1 key")
    assert "Permission denied" not in lab.weirctl("config", "reload")[2]


@scenario(start=False, services=[web({"web-1": 100})], hosts=1)
def relative_configuration_is_found_from_anywhere(lab):
    """With a relative --config, weir-control reports an absolute path, which doctor finds from any directory"""
    lab.start_backends()
    lab.start_dataplane()
    lab.program("control", lab.lb, "sh", "-c", 'cd "$0" && exec "$@"', lab.dir, lab.binary("weir-control"), "--config",
                os.path.basename(lab.config_path), "--run-dir", lab.run_dir, *lab.control_options)
    lab.wait_for_program("control", lambda: lab.api("version"), 10)
    lab.wait_ready()
    assert os.getcwd() != lab.dir and lab.api("version")["config"] == lab.config_path
    found, _ = weirctl_doctor(lab)
    assert not [row for (check, _), row in found.items() if check == "config" and row["level"] == "fault"], found
    find(lab, "access", lab.config_path, "ok", "can read the file")
    lab.weirctl("config", "reload")
    assert lab.api("audit.show")[-1]["object"] == lab.config_path, lab.api("audit.show")
    os.chmod(lab.config_path, 0o600)
    status, output = inside(lab.lb, "sh", "-c", f"cd {lab.dir} && {lab.binary('weirctl')} doctor --run-dir run")
    assert status == 2 and "weir-control (user nobody) cannot read the file, so reloads fail" in output, output


def without_path(lab, words):
    """Check that doctor reports that the path is unknown, and suggests no command that opens an editor."""
    found, status = weirctl_doctor(lab)
    row = found["config", "configuration"]
    assert row["level"] == "warning" and row["cure"] is None and status == 2, row
    assert row["found"].startswith("its path is unknown while weir-control does not answer, and /etc/weir/weir.json "
                                   f"does not exist: give --config; {words}"), row
    assert not [row for (check, _), row in found.items() if "/etc/weir" in str(row["cure"])], found
    assert [subject for check, subject in found if check == "config"] == ["configuration"], found
    return found


@scenario(services=[web({"web-1": 100})], hosts=1)
def doctor_asks_for_the_path_while_control_hangs(lab):
    """While weir-control hangs or is dead, the path of the configuration is unknown, not a fault of the default file"""
    runs = "checking the settings of the running weir-dataplane, without the services; skipped checks: restart, neighbour-table, "
    lab.programs["control"].signal(signal.SIGSTOP)
    found = without_path(lab, runs)
    assert found["control", "weir-control"]["cure"] == "systemctl restart weir-control", found
    lab.programs["control"].signal(signal.SIGCONT)
    lab.programs["control"].kill()
    without_path(lab, runs)
    found, _ = weirctl_doctor(lab, "--config", lab.config_path)
    assert ("config", "configuration") not in found, found
    lab.programs["dataplane"].stop()
    without_path(lab, "skipped checks: restart, cores, ")
