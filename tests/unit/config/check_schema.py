#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares parser, documentation and samples of the configuration with the schema.

usage: check_schema.py PRINT_KEYS SCHEMA CONFIG_FOLDER CONFIGURATION_MD

The schema is generated from the parser's table and the meanings in the documentation
(config/make_schema.py). This test checks that the other columns of the documentation agree with the
parser, that the samples are valid, and that the schema refuses invalid samples.
"""
import copy
import glob
import json
import re
import subprocess
import sys

import jsonschema

problems = []
checks = 0


def check(good, text):
    global checks
    checks += 1
    if not good:
        problems.append(text)


UNITS = {"percent": "%"}


def range_text(prop, unit=None):
    """Returns the range column of the documentation for a property."""
    if "anyOf" in prop:
        return ", ".join(range_text(one) for one in prop["anyOf"] if one.get("type") != "null")
    if "const" in prop:
        return f"`{prop['const']}`"
    if "$ref" in prop:
        return prop["$ref"].rsplit("/", 1)[1].replace("_", " ")
    kind = prop["type"][0] if isinstance(prop["type"], list) else prop["type"]
    if "enum" in prop:
        return ", ".join(f"`{value}`" for value in prop["enum"] if value is not None)
    if kind in ("integer", "number"):
        return f"{prop['minimum']} to {prop['maximum']}" + (f" {UNITS.get(unit, unit)}" if unit else "")
    if kind == "boolean":
        return "`true`, `false`"
    if kind == "string":
        return f"{prop['minLength']} to {prop['maxLength']} characters"
    return f"{prop.get('minItems', 0)} to {prop['maxItems']} of: {range_text(prop['items'])}"


def type_text(row):
    """Returns the type column of the documentation for a row of the parser's table."""
    types = {"integer": "integer", "boolean": "boolean", "object": "object", "list": "array",
             "cores": "array", "command": "array", "number": "number", "weight": "integer or string"}
    return types.get(row["kind"], "string") + (" or null" if row["nullable"] else "")


def documented_rows(schema, parser, name):
    """Yields the rows that the documentation must have: type, range and default come from the
    schema, the other columns from the parser's table."""
    part = schema if name == "root" else schema["$defs"].get(name, {"properties": {}})
    for key, row in parser[name].items():
        prop = part["properties"].get(key)
        if key in ("comment", "$schema"):
            continue
        if row["required"]:
            default = "required"
        elif "default" in row:
            default = f"`{json.dumps(row['default'])}`"
        else:
            default = "-"
        yield (key, type_text(row), range_text(prop, row.get("unit")) if prop else "-", default,
               row["read_by"], "-" if row["read_by"] == "-" else row["needs"])


def policies_text(policies):
    names = ", ".join(f"`{name}`" for name in policies)
    return f"{'Policy' if len(policies) == 1 else 'Policies'} {names} only."


def compare_with_documentation(schema, parser, path):
    text = open(path, encoding="utf-8").read()
    found, meanings = {}, {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title = section.split("\n", 1)[0].strip().strip("`")
        rows = re.findall(r"^\| `([^`]+)` \|" + r" ([^|]+) \|" * 6 + "$", section, re.M)
        if rows:
            found[title] = [tuple(cell.strip() for cell in row[:6]) for row in rows]
            meanings[title] = {row[0]: row[6] for row in rows}
    check(sorted(found) == sorted(parser), f"{path}: tables of {sorted(set(found) ^ set(parser))}")
    for name, keys in parser.items():
        want = list(documented_rows(schema, parser, name))
        check(found.get(name) == want, f"{path}: section {name}: documentation has "
              f"{[r for r in found.get(name, []) if r not in want]}, "
              f"table has {[r for r in want if r not in found.get(name, [])]}")
        for key, row in keys.items():
            if row["policies"]:
                check(meanings.get(name, {}).get(key, "").endswith(policies_text(row["policies"])),
                      f"{path}: {name}.{key}: must end with {policies_text(row['policies'])}")


def check_samples(schema, folder):
    validator = jsonschema.Draft202012Validator(schema)
    files = [f for f in glob.glob(folder + "/*.json") if not f.endswith(".base.json")]
    check(len(files) >= 4, "fewer than 4 samples")
    for file in files:
        sample = json.load(open(file, encoding="utf-8"))
        for error in validator.iter_errors(sample):
            check(False, f"{file}: {error.json_path}: {error.message}")
        # A sample must not set hash_seed: it would be as public as the default seed, but without a
        # warning.
        check("hash_seed" not in sample.get("instance", {}), f"{file}: a sample sets the seed")
        # The schema must also refuse invalid documents.
        for mutate in (lambda c: c.update(bananas=1), lambda c: c["ports"][0].pop("device"),
                       lambda c: c["ports"][0].update(mtu=100),
                       lambda c: c["services"][0]["binds"][0].update(protocol="sctp"),
                       lambda c: c["services"][0]["binds"][0].update(port=80, port_first=80),
                       lambda c: c["services"][0]["binds"][0].update(address="www.example")):
            broken = copy.deepcopy(sample)
            mutate(broken)
            check(not validator.is_valid(broken), f"{file}: schema accepts a broken sample")


def main():
    print_keys, schema_path, folder, documentation = sys.argv[1:5]
    parser = json.loads(subprocess.run([print_keys], check=True, capture_output=True).stdout)
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    check_samples(schema, folder)
    compare_with_documentation(schema, parser, documentation)
    for problem in problems:
        print(problem)
    print(f"{checks} checks, {len(problems)} problems")
    return 1 if problems or checks < 60 else 0


if __name__ == "__main__":
    sys.exit(main())
