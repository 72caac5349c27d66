#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that replay-vectors can fail.

usage: test_failures.py REPLAY_VECTORS VECTORS_DIR

Changes recorded values one at a time; replay-vectors must then report that the file failed.
Unreadable or unknown data must be a failure with a reason, and must not be silently skipped.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

# Keys of observed values. A change of an observed value must be detected. Other keys are comments
# or input; a change of input may have no effect.
OBSERVED = {
    "poolifier_": "keys key before after aggregate average median minimum maximum n",
    "schedules": "classic_wrr interleaved_wrr smooth_wrr edf scaled sequence_from_seq0 probes "
                 "fallback core go counts_60000 probes_per_pick max_over_mean wrr_charge_first "
                 "iwrr_documented_rounds iwrr_incremental_rounds",
    "least_loaded": "pick table picks share_of_bad_backend flow_control_limit_2_of_3_backends",
    "slow_start_panic": "factor weight_of_100 available_percent_int candidates",
    "dask_stealing": "level occupancy idle saturated key victim thief occ_victim_before "
                     "occ_thief_before in_flight_occupancy log processing_on_after average estimate "
                     "max_exec_time makespan_seconds responses finished queue_after",
    "prequal": "pick branch b_reuse",
    "wrr_capability": "result weight",
    "load_reports": "status health health_word admin unknown_word weight_error description error "
                    "cpu_utilization rps_fractional eps maxconn weight",
    "maglev": "before after_removing_B1 expect_before expect_after table counts "
              "fnv1a64_of_table_as_le_int32 min_entries max_entries removed_backend_entries "
              "other_entries_that_changed other_changed_percent entries "
              "entries_changed_percent no_backends all_zero_weight",
}
INPUT_PARENTS = ("inputs", "messages")  # members of these keys are never observed values
PLACES = 4  # number of values that are changed of each kind


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, path + (key,))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from leaves(child, path + (index,))
    else:
        yield path


def observed_key(path, keys):
    """Returns the key of the path that marks its value as observed, or None."""
    names = [step for step in path if isinstance(step, str)]
    if any(name in INPUT_PARENTS for name in names):
        return None
    if names == ["description"]:
        return None  # the description of the file
    if names == ["cases", "median"]:
        return None  # whether the case has a median
    if names[:1] == ["b_reuse"] and names[1:] != ["b_reuse"]:
        return None  # the list is named after its observed values
    return next((name for name in reversed(names) if name in keys), None)


def change(value):
    if value is None:
        return 0
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 0.01
    return value + "0"


def changed(root, path):
    root = copy.deepcopy(root)
    node = root
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = change(node[path[-1]])
    return root


def places(root, keys):
    """Some paths for each kind of observed value."""
    kinds = {}
    for path in leaves(root):
        key = observed_key(path, keys)
        if key is not None:
            # The same key in an object and in a list of objects counts as two kinds.
            shape = tuple(step for step in path if isinstance(step, str))
            kinds.setdefault(shape[:1] + (key, len(path)), []).append(path)
    for kind, paths in kinds.items():
        step = max(1, len(paths) // PLACES)
        for path in paths[::step][:PLACES] + paths[-1:]:
            yield kind[1], path


def replay(program, files):
    result = subprocess.run([program, *files], capture_output=True, text=True, timeout=300,
                            check=False)
    return result.returncode, result.stdout


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}")


def check_observed(report, program, directory, source):
    keys = next((value for prefix, value in OBSERVED.items() if source.name.startswith(prefix)),
                None)
    if keys is None:
        return
    keys = keys.split()
    root = json.loads(source.read_text())
    seen = set()
    files = {}
    for number, (key, path) in enumerate(places(root, keys)):
        seen.add(key)
        file = directory / f"{number}-{source.name}"
        file.write_text(json.dumps(changed(root, path)))
        files[file] = path
    code, out = replay(program, files)
    report.check(code == 1, f"{source.name}: exit {code} with changed values")
    for file, path in files.items():
        summary = [line for line in out.splitlines() if line.startswith(f"{file}: ")]
        caught = summary and not summary[-1].endswith(" 0 failed")
        report.check(caught, f"{source.name}: a change of {'/'.join(map(str, path))} is not noticed")
    for file in files:
        file.unlink()
    report.seen = getattr(report, "seen", set()) | seen


def check_unreadable(report, program, directory):
    texts = {
        "truncated.json": '{"cases": [{"name": "n1", "keys": [0, 1',
        "text.json": "no JSON at all",
        "empty.json": "",
        "list.json": "[1, 2, 3]",
        "unknown.json": '{"description": "none of ours", "things": [1]}',
        "unknown_key.json": '{"strategy": "ROUND_ROBIN", "cases": '
                            '[{"name": "a", "workers": 1, "keys": [0], "surprise": 1}]}',
        "unknown_section.json": '{"formula": [{"qps": 1, "eps": 0, "util": 1, "weight": 1}], '
                                '"surprise": []}',
        "nothing_to_check.json": '{"strategy": "ROUND_ROBIN", "cases": '
                                 '[{"name": "a", "workers": 1, "keys": []}]}',
        "no_strategy.json": '{"cases": [{"name": "a", "workers": 1, "keys": [0]}]}',
        "no_cases.json": '{"integer_weight_schedules": []}',
    }
    for name, text in texts.items():
        file = directory / name
        file.write_text(text)
        code, out = replay(program, [file])
        lines = out.splitlines()
        report.check(code == 1 and lines[-1] == lines[-1].lstrip() and
                     lines[-1].endswith(" failed") and not lines[-1].endswith(" 0 failed") and
                     lines[0].startswith(f"{file}: ") and len(lines) > 1,
                     f"{name}: exit {code}: {out!r}")
    code, out = replay(program, [directory / "absent.json"])
    report.check(code == 1 and "absent.json" in out, f"absent file: exit {code}: {out!r}")
    code = subprocess.run([program], capture_output=True, check=False).returncode
    report.check(code == 2, f"without files: exit {code}")


def check_good(report, program, source):
    """Check that a valid file passes although another file fails, and that the total counts
    both."""
    code, out = replay(program, [source, "/nonexistent"])
    last = out.splitlines()[-1]
    report.check(code == 1 and last.endswith(" passed, 1 failed"), f"{source.name}: {last}")


def main():
    program, vectors = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sources = sorted(vectors.glob("*.json"))
    report = Report()
    with tempfile.TemporaryDirectory(prefix="replay-vectors-") as name:
        directory = pathlib.Path(name)
        for source in sources:
            check_observed(report, program, directory, source)
            check_good(report, program, source)
        check_unreadable(report, program, directory)
    for keys in OBSERVED.values():
        for key in keys.split():
            report.check(key in report.seen, f"no file holds \"{key}\"")
    print(f"{report.passed} passed, {report.failed} failed")
    sys.exit(0 if report.failed == 0 else 1)


if __name__ == "__main__":
    main()
