# SPDX-License-Identifier: BSD-3-Clause
"""The documented example of each answer of the control socket, which docs/reference/cli.md shows."""
import glob
import json
import os

from lab import ROOT

FOLDER = ROOT + "/tests/unit/control/cli/answers"


def documented_commands():
    return sorted(os.path.basename(path)[:-len(".json")] for path in glob.glob(FOLDER + "/*.json"))


def check_form(command, result, optional=()):
    """Check that the result of a command has the keys and types of the example. optional: keys that
    can be missing in the result or in the example."""
    with open(f"{FOLDER}/{command}.json", encoding="utf-8") as file:
        example = json.load(file)["result"]
    for key in optional:
        example.pop(key, None)
        result = {name: value for name, value in result.items() if name != key}
    compare(example, result, command)


def compare(example, real, path):
    """null and empty lists are not compared."""
    if example is None or real is None:
        return
    if path.endswith((".settings", ".subset", ".drops", ".changes[]", ".report", ".xstats")):  # keys may be missing
        for key in set(example) & set(real):
            compare(example[key], real[key], f"{path}.{key}")
    elif isinstance(example, dict):
        assert set(example) == set(real), f"{path}: {set(example) ^ set(real)}"
        for key, value in example.items():
            compare(value, real[key], f"{path}.{key}")
    elif isinstance(example, list):
        for one in example if real else []:
            compare(one, real[0], path + "[]")
    else:
        kinds = [isinstance(one, bool) or isinstance(one, (int, float)) and "number"
                 or type(one) for one in (example, real)]
        assert kinds[0] == kinds[1], f"{path}: {example}, but {real}"
