#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check all executions of a model with spin: moves.pml (buckets move between workers) or shift.pml
(the redirection table of a device changes).

Each case is a set-up: numbers of workers, packets and requests, and the behaviour of devices. No
execution may fail an assertion (a packet is reordered, a worker uses an entry that it does not own,
a late request starts a move), and in each execution all moves must end and all packets must be
processed. Then each fault of a list is inserted into the model, and the check of its case must
fail.

usage: check.py MODEL
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
from multiprocessing.pool import ThreadPool
from pathlib import Path

DEPTH = 100000
COMPLETE = "errors: 0"


@dataclasses.dataclass
class Case:
    name: str
    settings: dict
    liveness: bool  # also check the property `ends`


def setting(distributor, **others):
    return {"DISTRIBUTOR(port)": distributor, **others}


MOVES_CASES = [
    Case("another worker distributes", setting("2"), False),
    Case("the victim distributes one port", setting("((port) == 0 -> 0 : 2)"), False),
    Case("the thief distributes one port", setting("((port) == 0 -> 1 : 2)"), False),
    Case("two workers that both distribute", setting("(port)", WORKERS=2), False),
    Case("two buckets", setting("2", BUCKETS=2, PORTS=1, PACKETS=1), False),
    Case("three requests", setting("2", PORTS=1, REQUESTS=3), False),
    Case("the hold queue is full", setting("2", PORTS=1, PACKETS=3, HOLD=1), False),
    Case("every move ends", setting("((port) == 0 -> 1 : 2)", PACKETS=1), True),
]


@dataclasses.dataclass
class Fault:
    name: str
    changes: list  # (text, replacement); each text occurs once in the model
    case: int  # index of the case that must detect the fault


MOVES_FAULTS = [
    Fault("no begin: the thief gets no message", [
        ("taking[a] = w + 1;", "skip;")], 0),
    Fault("the end comes before the begin", [
        ("taking[a] = w + 1;", "skip;"),
        (":: move_state[w] == SWITCHING ->", ":: move_state[w] == SWITCHING ->\n"
         "\t\ttaking[move_thief[w]] = w + 1;")], 0),
    Fault("the owner is published before the release is complete", [
        ("taking[a] = w + 1;", "taking[a] = w + 1; owner[b] = a;")], 0),
    Fault("the thief does not hold", [
        (":: taking[w] != 0 && f / PORTS ==", ":: false && f / PORTS ==")], 0),
    Fault("the victim confirms after the deadline", [
        (":: !expired[i] && owner[b] == w", ":: owner[b] == w")], 0),
    Fault("the victim does not empty its rings", [
        ("#define SWITCHED(p, w) (!asked[PAIR(p, w)] && taken[PAIR(p, w)] >= last[PAIR(p, w)])",
         "#define SWITCHED(p, w) (!asked[PAIR(p, w)])")], 0),
    Fault("the victim waits for one distributor only", [
        ("(SWITCHED(0, w) && SWITCHED(PORTS - 1, w))", "SWITCHED(0, w)")], 0),
    Fault("the victim does not wait for its own switch", [
        ("(!asked[PAIR(p, w)] && taken", "(taken")], 1),
    Fault("the parcel is handed over before its last slice", [
        ("slice[w] < PORTS ->", "slice[w] < PORTS - 1 ->"),
        ("slice[w] == PORTS ->", "slice[w] == PORTS - 1 ->")], 0),
    Fault("the thief ends the move with packets on hold", [
        (":: adopted[w] == PORTS && len(hold[w]) == 0 ->", ":: adopted[w] == PORTS ->")], 2),
    Fault("the switch is announced before the last packets", [
        ("last[PAIR(p, v)] = put[PAIR(p, v)];", "last[PAIR(p, v)] = 0;")], 0),
    Fault("two victims give to one thief at a time", [
        (" && taking[a] == 0 ->", " ->")], 4),
    Fault("the victim's gauges fall before the thief's rise", [
        ("\t\tgauge[w] = gauge[w] - PORTS;\n", ""),
        ("\t\tmove_state[w] = RELEASED", "\t\tgauge[w] = gauge[w] - PORTS;\n"
         "\t\tassert(ALL_GAUGES >= FLOWS);\n\t\tmove_state[w] = RELEASED")], 0),
    Fault("the victim never detects that a move has ended", [
        (" || move_state[w] == ADOPTED)", ")")], 7),
]


SHIFT_CASES = [
    Case("two workers", {"WORKERS": 2, "PACKETS": 4}, False),
    Case("three workers", {"PACKETS": 3}, False),
    Case("three moves and shifts", {"WORKERS": 2, "PACKETS": 3, "MOVES": 3, "SHIFTS": 3}, False),
    Case("the device refuses, or reports a refusal", {"PACKETS": 3, "MEDDLING": 1}, False),
    Case("long queues", {"WORKERS": 2, "PACKETS": 5, "QUEUE": 3, "FULL": 3, "MOVES": 1}, False),
    Case("every shift ends", {"WORKERS": 2, "PACKETS": 2, "MOVES": 1}, True),
]

SHIFT_FAULTS = [
    Fault("the owner does not hold packets", [
        (":: direct && holds && shifter == w ->", ":: false ->")], 0),
    Fault("the owner accepts a bucket that it does not have", [
        (":: owner == w && !LEAVING(w) ->", ":: true ->")], 1),
    Fault("the owner accepts a bucket that leaves", [
        (":: owner == w && !LEAVING(w) ->", ":: owner == w ->")], 0),
    Fault("the owner gives away a bucket that shifts", [
        (" && !(holds && shifter == owner) ->", " ->")], 0),
    Fault("the owner does not wait until the moves have ended", [
        ("!due && ALL_DRAINED", "!due")], 0),
    Fault("the owner does not process the packets queued before the ends", [
        (" && taken[PAIR(d, shifter)] >= end_of[d]))", "))")], 0),
    Fault("the sender notes the end at once", [
        ("begun[w] && (left[w] == 0 || len(queue[w]) == 0)", "begun[w]")], 0),
    Fault("the sender notes the end before it has received the packets stored by the device", [
        ("left[w] = FULL", "left[w] = 1")], 4),
    Fault("only one queue is drained, the one that the table was assumed to lead to", [
        ("draining[1] = (shifter != 1);", "draining[1] = false;")], 3),
    Fault("the shift ends with packets on hold", [
        ("due && len(shift_hold) == 0", "due")], 0),
    Fault("the shift never ends", [
        ("!due && ALL_DRAINED", "!due && false")], 5),
]

MODELS = {"moves": (MOVES_CASES, MOVES_FAULTS), "shift": (SHIFT_CASES, SHIFT_FAULTS)}


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def build(model, case, folder, optimize):
    settings = dict(case.settings, **{} if case.liveness else {"NO_LTL": ""})
    text = "".join(f"#define {name} {value}\n" for name, value in settings.items())
    (folder / "model.pml").write_text(text + model)
    made = run("spin", "-a", "model.pml", cwd=folder)
    if made.returncode != 0 or re.search(r"\berror\b", made.stdout + made.stderr, re.I):
        sys.exit(f"{case.name}: spin -a: {made.stdout}{made.stderr}")
    flags = [] if case.liveness else ["-DSAFETY"]
    made = run("cc", optimize, "-w", *flags, "-o", "pan", "pan.c", cwd=folder)
    if made.returncode != 0:
        sys.exit(f"{case.name}: cc pan.c: {made.stderr}")


def verify(model, case, optimize="-O1"):
    """Returns (whether the model has no error, output of the verifier)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(model, case, folder, optimize)
        options = ["-a"] if case.liveness else []
        found = run("./pan", f"-m{DEPTH}", *options, cwd=folder).stdout
    if "errors:" not in found or "max search depth too small" in found or \
            "Search not completed" in found and COMPLETE in found:
        sys.exit(f"{case.name}: pan did not look at all executions:\n{found}")
    return COMPLETE in found, found


def states(output):
    return int(re.search(r"([0-9]+) states, stored", output).group(1))


def why(output):
    found = re.search(r"pan:\d+: (.*?)(?: \(at depth .*)?$", output, re.M).group(1)
    return found if len(found) < 100 else "something is left undone"


def mutate(model, fault):
    for text, other in fault.changes:
        if model.count(text) != 1:
            sys.exit(f"{fault.name}: the model has {model.count(text)} times: {text}")
        model = model.replace(text, other)
    return model


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if shutil.which("spin") is None:
        sys.exit("spin is not installed: scripts/packages lists what the tests need")
    model = Path(sys.argv[1]).read_text()
    cases, faults = MODELS[Path(sys.argv[1]).stem]
    failed = 0
    with ThreadPool(os.cpu_count()) as pool:
        verified = pool.starmap(verify, [(model, case) for case in cases])
        # No optimization, because in most cases a fault is found in less time than -O1 needs to
        # compile.
        broken = pool.starmap(
            verify, [(mutate(model, fault), cases[fault.case], "-O0") for fault in faults])
    for case, (sound, output) in zip(cases, verified):
        failed += not sound
        print(f"{'ok' if sound else 'FAILED':7} {case.name}: {states(output)} states"
              f"{'' if sound else ', ' + why(output)}", flush=True)
    for fault, (sound, output) in zip(faults, broken):
        failed += sound
        print(f"{'FAILED' if sound else 'ok':7} fault: {fault.name}: "
              f"{'not found' if sound else why(output)}", flush=True)
    print(f"{len(cases) + len(faults) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
