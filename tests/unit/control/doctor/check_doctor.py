#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs weirctl doctor --root on a simulated machine. If the machine is set up correctly, no finding may
be worse than "ok". In each case of cases.txt, doctor must report the findings that the file lists.
Remedies that change files are run, and must remove the finding. If the name of a case ends with
-named-file, the configuration file is passed to doctor as an argument, as an operator does before a
restart with this file. If a health check has no result, doctor searches for texts in the reason to
find a remedy. The test also checks that weir-control still contains these texts.

usage: check_doctor.py WEIRCTL SOURCE_ROOT
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import machine

HEADERS = {"weirctl": "control/doctor/doctor.h", "weir-agent": "control/agent/doctor_checks.h"}


def doctor(weirctl, root, *options):
    done = subprocess.run([weirctl, "doctor", "--json", "--root", root, *options], text=True,
                          capture_output=True, timeout=30, check=False)
    answer = json.loads(done.stdout)
    worst = {"ok": 0, "notice": 0, "warning": 1, "fault": 2}[answer["worst"]]
    if done.returncode != worst or done.stderr:
        raise AssertionError(f"exit {done.returncode}, worst {answer['worst']}: {done.stderr}")
    return answer["findings"]


def read_cases(path):
    """Returns [(name, changes, [(level, check, subject, found, remedy)])] of the cases in a file."""
    with open(path, encoding="ascii") as file:
        parts = re.split(r"^--- (.*)\n", file.read(), flags=re.M)
    for name, text in zip(parts[1::2], parts[2::2]):
        changes, _, expected = text.partition(">>> ")
        findings = re.findall(r"^(?:>>> )?(\w+) (\S+) \| (.*?) \| (.*)\n\$ (.*)$", expected, re.M)
        yield name, changes, findings


def matches(pattern, text, root):
    parts = pattern.replace("ROOT", root).split("...")
    return re.fullmatch(".*".join(map(re.escape, parts)), text, re.S)


def compare(expected, found, root):
    for absent in (want[1] for want in expected if want[0] == "none"):
        if any(each["check"] == absent for each in found):
            return f"{absent} has a finding"
    expected = [want for want in expected if want[0] != "none"]
    bad = [each for each in found if each["level"] != "ok"]
    if len(bad) != len(expected):
        return f"{len(bad)} findings instead of {len(expected)}: {bad}"
    for want, got in zip(expected, bad):
        keys = ("level", "check", "subject", "found", "cure")
        for key, pattern in zip(keys, want):
            if not matches(pattern, got[key] or "", root):
                return f"{key} is\n  {got[key]}\ninstead of\n  {pattern}"
    return None


# --- cures --------------------------------------------------------------------------------------

def put(root, path, value):
    machine.change(root, f"=== {path.lstrip('/')}\n{value}\n")


def kernel_follows(root):
    """Simulates the kernel, which changes other values when a setting is written."""
    def get(path):
        with open(root + path, encoding="ascii") as file:
            return file.read().strip()
    page = "1048576" if os.path.exists(root + "/proc/meminfo") else "2048"
    pools = [("/proc/sys/vm/nr_hugepages",
              f"/sys/kernel/mm/hugepages/hugepages-{page}kB/free_hugepages")]
    pools += [(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages",
               f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/free_hugepages")
              for node in (0, 1)]
    for total, free in pools:
        if os.path.exists(root + total):
            put(root, free, get(total))
    for name in os.listdir(root + "/proc/irq"):
        put(root, f"/proc/irq/{name}/effective_affinity_list",
            get(f"/proc/irq/{name}/smp_affinity_list").split("-")[0])
    enabled = "/sys/kernel/mm/transparent_hugepage/enabled"
    if "[" not in get(enabled):
        put(root, enabled, f"always [{get(enabled)}] never")


def cure(root, command):
    """Apply the effect of a command to the tree. Returns False if the command needs a real machine."""
    link = re.fullmatch(r"ip link set (\S+) (up|mtu (\d+))", command)
    queues = re.fullmatch(r"(?:systemctl stop weir-dataplane; )?ethtool -L (\S+) (?:combined|rx) (\d+)"
                          r"(?:; systemctl start weir-dataplane)?", command)
    if command.startswith("sysctl -w ") and "&&" not in command:
        for setting in command.split()[2:]:
            key, value = setting.split("=")
            put(root, "/proc/sys/" + key.translate(str.maketrans("./", "/.")), value)
    elif link and link[3]:
        put(root, f"/sys/class/net/{link[1]}/mtu", link[3])
    elif link:
        put(root, f"/sys/class/net/{link[1]}/flags", "0x1003")
        put(root, f"/sys/class/net/{link[1]}/operstate", "up")
    elif queues:
        folder = f"{root}/sys/class/net/{queues[1]}/queues"
        for name in os.listdir(folder):
            machine.remove(os.path.join(folder, name))
        for number in range(int(queues[2])):
            put(root, f"/sys/class/net/{queues[1]}/queues/rx-{number}/rps_cpus", "00")
    elif re.match(r"(chmod|echo \w+ >|for) ", command):
        subprocess.run(["bash", "-ec", re.sub(r"(?<!\S)/(?=(?:sys|proc|run|etc)/)", root + "/",
                                              command)], check=True)
    else:
        return False
    kernel_follows(root)
    return True


def check_case(weirctl, name, changes, expected):
    """Run a case. Returns (error or None, number of executed remedies)."""
    with tempfile.TemporaryDirectory(prefix="weir-doctor-") as root:
        machine.make(root)
        machine.change(root, changes)
        named = ("--config", root + "/etc/weir/weir.json") if name.endswith("-named-file") else ()
        found = doctor(weirctl, root, *named)
        wrong = compare(expected, found, root)
        done = [each for each in found if each["cure"] and cure(root, each["cure"])]
        left = {(each["check"], each["subject"]) for each in doctor(weirctl, root, *named)
                if each["level"] != "ok"}
        for each in done if not wrong else []:
            if (each["check"], each["subject"]) in left:
                wrong = f"still there after: {each['cure']}"
        return wrong, len(done)


# --- the table of checks ------------------------------------------------------------------------

def read_checks(root):
    """Returns {program: [(check, what it inspects, needs a running kernel)]}, as read from the headers."""
    checks = {}
    for program, header in HEADERS.items():
        with open(f"{root}/{header}", encoding="ascii") as file:
            text = file.read()
        checks[program] = []
        text = re.sub(r'"\s*\\\n\s*"', "", text)  # a text over several lines
        for name, body in re.findall(r"#define (WEIR\w*CHECKS)\(X\)((?:.*\\\n)+.*)", text):
            checks[program] += [(check, what, "LIVE" in name) for check, what in
                                re.findall(r'X\(\w+, (?:[A-Z]+, )?"([a-z-]+)",\s*(?:\\\s*)?"([^"]*)"\)', body)]
    return checks


def check_document(root, checks):
    """Check that docs/reference/doctor.md has a row for each check, with the text of the header."""
    with open(root + "/docs/reference/doctor.md", encoding="utf-8") as file:
        document = file.read()
    for program, rows in checks.items():
        section = document.partition(f"\n## {program} doctor\n")[2].partition("\n## ")[0]
        table = re.findall(r"^\| `([a-z-]+)` \| ([^|]*) \|", section, re.M)
        rows = [(check, what) for check, what, _ in rows]
        if table != rows:
            yield (f"docs/reference/doctor.md, {program}: {[row for row in table if row not in rows]}\n"
                   f"in {HEADERS[program]}: {[row for row in rows if row not in table]}, or another order")


# --- reasons ------------------------------------------------------------------------------------

OF_LIBUV = {"permission denied", "operation not permitted", "too many open files"}


def check_reasons(root):
    """Check that weir-control's sources contain the texts that doctor searches for in reasons."""
    with open(f"{root}/control/doctor/check_service.c", encoding="ascii") as file:
        parts = set(re.findall(r'strstr\(why, "(.*?)"\)', file.read())) - OF_LIBUV
    text = ""
    for source in ("data_path/data_path.c", "health/health_ping.c", "backends/links.c"):
        with open(f"{root}/control/daemon/{source}", encoding="ascii") as file:
            text += file.read()
    if len(parts) < 4:
        yield f"only {len(parts)} reasons found in check_service.c"
    for part in sorted(parts):
        if part not in text:
            yield f'no check without a result has the reason "{part}"'


def main():
    weirctl, root = map(os.path.abspath, sys.argv[1:3])
    cases = list(read_cases(os.path.join(machine.HERE, "cases.txt")))
    checks = read_checks(root)
    problems, cures = [*check_document(root, checks), *check_reasons(root)], 0
    for name, changes, expected in [("the machine as it is", "", []), *cases]:
        wrong, done = check_case(weirctl, name, changes, expected)
        cures += done
        if wrong:
            problems.append(f"{name}: {wrong}")
    seen = {finding[1] for _, _, expected in cases for finding in expected}
    problems += [f"no case has a finding of {check}" for check, _, live in checks["weirctl"]
                 if not live and check not in seen]
    for problem in problems:
        print(problem)
    print(f"{len(cases)} cases, {cures} cures, {len(problems)} problems")
    return 1 if problems or len(cases) < 30 or cures < 12 else 0


if __name__ == "__main__":
    sys.exit(main())
