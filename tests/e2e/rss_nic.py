# SPDX-License-Identifier: BSD-3-Clause
"""The simulated NIC with RSS of tests/nic, which weir-dataplane uses like a PCI device."""
import mmap
import os
import re
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "0000:99:00.0"
QUEUES, ENTRIES = 16, 1024  # as in tests/nic/nic_state.h


def fields():
    """Returns the fields of the NIC's state, in order."""
    with open(os.path.join(os.path.dirname(HERE), "nic", "nic_state.h"), encoding="utf-8") as file:
        return re.findall(r"\tX\((\w+)\)", file.read())


class RssNic:
    def __init__(self, lab, interface="lb0"):
        self.words = {name: at for at, name in enumerate(fields())}
        path = os.path.join(lab.dir, "nic")
        count = len(self.words) + QUEUES + ENTRIES
        with open(path, "wb") as file:
            file.write(bytes(8 * count))
        with open(path, "r+b") as file:
            self.state = mmap.mmap(file.fileno(), 8 * count)
        lab.dataplane_env = {**os.environ, "WEIR_NIC_INTERFACE": interface, "WEIR_NIC_STATE": path,
                             "LD_PRELOAD": os.path.join(lab.build, "tests", "nic", "weir-nic.so")}
        lab.port_mac = lab.mac(lab.lb, interface)
        lab.port = {"device": f"{NAME},iface={interface}"}
        lab.write_config()

    def read(self, at, count=1):
        values = struct.unpack_from(f"={count}Q", self.state, 8 * at)
        return values if count > 1 else values[0]

    def __getitem__(self, name):
        return self.read(self.words[name])

    def __setitem__(self, name, value):
        struct.pack_into("=Q", self.state, 8 * self.words[name], value)

    def put_first(self, pid):
        """Raise the priority of the NIC's thread, so that the simulated hardware does not wait for workers."""
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == "nic-wire":
                    os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(2))

    def queue_received(self):
        """Returns the number of packets of each queue."""
        return self.read(len(self.words), QUEUES)

    def table(self):
        """Returns the queue in each entry of the redirection table."""
        return self.read(len(self.words) + QUEUES, ENTRIES)

    def show(self):
        return {name: self[name] for name in self.words}
