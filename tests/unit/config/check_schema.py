#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares schema, parser, samples and documentation of the configuration.

usage: check_schema.py DUMP_KEYS CONFIG_FOLDER CONFIGURATION_MD
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


def expected_schema(key):
    """What the schema must say of a key, from the parser's row."""
    kind, want = key["kind"], {}
    if "default" in key:
        want["default"] = key["default"]
    if kind == "integer":
        want.update(type=["integer", "null"] if key["nullable"] else "integer",
                    minimum=key["min"], maximum=key["max"])
    elif kind == "boolean":
        want["type"] = "boolean"
    elif kind == "text":
        want.update(type=["string", "null"] if key["nullable"] else "string",
                    minLength=key["min"], maxLength=key["max"])
    elif kind == "choice":
        want.update(type="string", enum=key["choices"])
    elif kind == "ignored":
        want["type"] = "string"
    elif kind == "cores":
        want.update(type="array", minItems=key["min"], maxItems=key["max"],
                    items={"type": "integer", "minimum": 0, "maximum": 1023})
    elif kind == "list":
        want.update(type="array", maxItems=key["max"],
                    items={"$ref": "#/$defs/" + key["object"]})
        if key["min"]:
            want["minItems"] = key["min"]
    else:
        target = {"$ref": "#/$defs/" + key.get("object", kind)}
        want.update({"anyOf": [target, {"type": "null"}]} if key["nullable"] else target)
    return want


def compare_with_parser(schema, parser):
    for name, keys in parser.items():
        part = schema if name == "root" else schema["$defs"].get(name, {})
        check(part.get("additionalProperties") is False, f"{name}: additionalProperties")
        check(sorted(part.get("properties", {})) == sorted(keys),
              f"{name}: keys differ: {sorted(set(part.get('properties', {})) ^ set(keys))}")
        check(sorted(part.get("required", [])) ==
              sorted(k for k, v in keys.items() if v["required"]), f"{name}: required")
        for key, row in keys.items():
            have = dict(part.get("properties", {}).get(key, {}))
            description = have.pop("description", None)
            have.pop("multipleOf", None)
            if name != "root":
                check(description, f"{name}.{key}: no description")
            want = expected_schema(row)
            check(have == want, f"{name}.{key}: schema has {have}, parser has {want}")


def range_text(prop):
    """The range column of the documentation."""
    if "anyOf" in prop:
        return range_text(prop["anyOf"][0]) + " or null"
    if "$ref" in prop:
        return prop["$ref"].rsplit("/", 1)[1].replace("_", " ")
    nullable = isinstance(prop["type"], list)
    kind = prop["type"][0] if nullable else prop["type"]
    if "enum" in prop:
        text = ", ".join(f"`{value}`" for value in prop["enum"])
    elif kind == "integer":
        text = f"{prop['minimum']} to {prop['maximum']}"
    elif kind == "boolean":
        text = "`true`, `false`"
    elif kind == "string":
        text = f"{prop['minLength']} to {prop['maxLength']} characters"
    else:
        item = range_text(prop["items"])
        text = f"{prop.get('minItems', 0)} to {prop['maxItems']} of: {item}"
    return text + (" or null" if nullable else "")


def documented_rows(schema, name):
    part = schema if name == "root" else schema["$defs"][name]
    for key, prop in part["properties"].items():
        if key in ("comment", "$schema"):
            continue
        if key in part.get("required", []):
            default = "required"
        elif "default" in prop:
            default = f"`{json.dumps(prop['default'])}`"
        else:
            default = "-"
        yield key, range_text(prop), default


def compare_with_documentation(schema, parser, path):
    text = open(path, encoding="utf-8").read()
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title = section.split("\n", 1)[0].strip().strip("`")
        rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.M)
        found[title] = [(key, span.strip(), default.strip()) for key, span, default, _ in rows]
    for name in parser:
        want = list(documented_rows(schema, name))
        check(found.get(name) == want, f"{path}: section {name}: documentation has "
              f"{[r for r in found.get(name, []) if r not in want]}, "
              f"schema has {[r for r in want if r not in found.get(name, [])]}")


def check_samples(schema, folder):
    validator = jsonschema.Draft202012Validator(schema)
    files = [f for f in glob.glob(folder + "/*.json") if not f.endswith(".schema.json")]
    check(len(files) >= 4, "fewer than 4 samples")
    for file in files:
        sample = json.load(open(file, encoding="utf-8"))
        for error in validator.iter_errors(sample):
            check(False, f"{file}: {error.json_path}: {error.message}")
        # The schema must also be able to say no.
        for mutate in (lambda c: c.update(bananas=1), lambda c: c["ports"][0].pop("device"),
                       lambda c: c["ports"][0].update(mtu=100),
                       lambda c: c["services"][0]["binds"][0].update(protocol="sctp"),
                       lambda c: c["services"][0]["binds"][0].update(port=80, port_first=80),
                       lambda c: c["services"][0]["binds"][0].update(address="www.example")):
            broken = copy.deepcopy(sample)
            mutate(broken)
            check(not validator.is_valid(broken), f"{file}: schema accepts a broken sample")


def main():
    dump_keys, folder, documentation = sys.argv[1:]
    parser = json.loads(subprocess.run([dump_keys], check=True, capture_output=True).stdout)
    schema = json.load(open(folder + "/weir.schema.json", encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    compare_with_parser(schema, parser)
    check_samples(schema, folder)
    compare_with_documentation(schema, parser, documentation)
    for problem in problems:
        print(problem)
    print(f"{checks} checks, {len(problems)} problems")
    return 1 if problems or checks < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
