#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the functions that a worker's loop can call: none may lock, allocate or log (S1).

usage: check_worker_calls.py WEIR_DATAPLANE

Follows every call and jump of the disassembled program from weir_worker_turn and from the functions
of the policies, which are called by pointer. Only the functions of other libraries that this file
lists are allowed. Drivers and mempools are also called by pointer, and are not followed.
"""
import bisect
import re
import subprocess
import sys

ROOT = "weir_worker_turn"
POLICIES = re.compile(r"weir_\w+_ops$")
ALLOWED = {
    "memcpy", "memmove", "memset", "memcmp", "bcmp",
    "clock_gettime",  # once a millisecond; no system call if the clock source is the TSC
    # DPDK: functions for packets, and functions that run callbacks. No callback is registered.
    "rte_pktmbuf_free_bulk", "__rte_pktmbuf_linearize", "__rte_pktmbuf_read",
    "rte_eth_call_rx_callbacks",
    "rte_eth_call_tx_callbacks",
    "__rte_panic",  # called if a packet buffer was overwritten; aborts the process
    "__stack_chk_fail",
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Program:
    def __init__(self, path):
        self.name = {}  # key: address; value: name
        # key: address of a function; value: the addresses that it calls or jumps to
        self.targets = {}
        here = None
        for line in output("objdump", "-d", "--no-show-raw-insn", path).splitlines():
            if head := re.match(r"([0-9a-f]+) <(.+)>:$", line):
                here = int(head[1], 16)
                self.name[here], self.targets[here] = head[2], set()
            elif code := re.match(r"\s+[0-9a-f]+:\s+(?:bnd |notrack )?(?:call|j)\S*\s+([0-9a-f]+) <",
                                  line):
                self.targets[here].add(int(code[1], 16))
        self.starts = sorted(self.name)
        self.policies = self.pointers(path)

    def pointers(self, path):
        """Returns the functions that the tables of the policies point to."""
        tables = []
        for line in output("readelf", "-sW", path).splitlines():
            words = line.split()
            if len(words) >= 8 and words[3] == "OBJECT" and POLICIES.match(words[7]):
                tables.append((int(words[1], 16), int(words[1], 16) + int(words[2], 0)))
        found = set()
        for line in output("readelf", "-rW", path).splitlines():
            words = line.split()
            if len(words) == 4 and words[2] == "R_X86_64_RELATIVE" and any(
                    first <= int(words[0], 16) < end for first, end in tables):
                found.add(int(words[3], 16))
        return found & set(self.name)

    def function(self, address):
        """Returns the address at which the function that contains `address` begins."""
        return self.starts[bisect.bisect(self.starts, address) - 1]

    def reached(self):
        """Returns {start of a function that a worker can call: start of its caller, or None}."""
        todo = [a for a, name in self.name.items() if name == ROOT] + sorted(self.policies)
        caller = dict.fromkeys(todo)
        while todo:
            here = todo.pop()
            if self.name[here].endswith("@plt"):
                continue  # a function of another library
            for there in map(self.function, self.targets[here]):
                if there not in caller:
                    caller[there] = here
                    todo.append(there)
        return caller


def main():
    program = Program(sys.argv[1])
    caller = program.reached()
    names = {program.name[a] for a in caller}
    # If these functions are not reached, this check is broken.
    for wanted in (ROOT, "weir_pipeline_process", "weir_flow_insert", "weir_icmp_too_big",
                   "weir_path_send", "rte_pktmbuf_free_bulk@plt"):
        if wanted not in names:
            sys.exit(f"{wanted} is not reached from {ROOT}: fix this check")
    if len(program.policies) < 9:
        sys.exit(f"only {len(program.policies)} functions of policies found: mend this check")
    problems = 0
    for address in sorted(caller):
        name, plt, _ = program.name[address].partition("@plt")
        if plt and name not in ALLOWED:
            way = [name]
            while (address := caller[address]) is not None:
                way.append(program.name[address])
            print("a worker may call " + " <- ".join(way))
            problems += 1
    print(f"{len(caller)} functions, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
