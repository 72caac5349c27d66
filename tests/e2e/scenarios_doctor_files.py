# SPDX-License-Identifier: BSD-3-Clause
"""weirctl doctor: the configuration file and the key file of a running weir-control."""
import os

from agents import Agents
from lab import web
from scenario import scenario
from scenarios_doctor import cure, find


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
