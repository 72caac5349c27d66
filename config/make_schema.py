#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generates weir.schema.json: make_schema.py BASE KEYS CONFIGURATION_MD OUTPUT

The program KEYS prints the parser's table, which has the types, ranges, choices and defaults. The
meaning of each key comes from the tables of docs/reference/configuration.md. BASE has everything
else: descriptions of objects, patterns of strings and rules for several keys. A key without a
meaning is an error.
"""
import json
import re
import subprocess
import sys

SPECIAL = {"$schema": "For editors, ignored by Weir.", "comment": "Free text, ignored by Weir."}


def meanings(path):
    """Returns {(object, key): meaning without links} from the tables of the document."""
    with open(path, encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)[1:]
    found = {}
    for section in sections:
        title = section.split("\n", 1)[0].strip()
        for key, meaning in re.findall(r"^\| `([^`]+)` \|(?: [^|]+ \|){5} ([^|]+) \|$", section, re.M):
            found[title, key] = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", meaning.strip())
    return found


def property_of(key):
    """Returns the schema of a key, from the parser's row."""
    kind, want = key["kind"], {}
    if kind == "integer":
        want.update(type=["integer", "null"] if key["nullable"] else "integer",
                    minimum=key["min"], maximum=key["max"])
    elif kind == "number":
        want.update(type="number", minimum=key["min"], maximum=key["max"])
    elif kind == "weight":
        want["anyOf"] = [{"type": "integer", "minimum": key["min"], "maximum": key["max"]},
                         {"const": "auto"}]
    elif kind == "boolean":
        want["type"] = "boolean"
    elif kind == "text":
        want.update(type=["string", "null"] if key["nullable"] else "string",
                    minLength=key["min"], maxLength=key["max"])
    elif kind == "choice" and key["nullable"]:
        want.update(type=["string", "null"], enum=key["choices"] + [None])
    elif kind == "choice":
        want.update(type="string", enum=key["choices"])
    elif kind == "ignored":
        want["type"] = "string"
    elif kind == "cores":
        want.update(type="array", minItems=key["min"], maxItems=key["max"],
                    items={"type": "integer", "minimum": 0, "maximum": 1023})
    elif kind == "command":
        want.update(type="array", minItems=key["min"], maxItems=key["max"],
                    items={"type": "string", "minLength": 1, "maxLength": 255})
    elif kind == "list":
        want.update(type="array", items={"$ref": "#/$defs/" + key["object"]}, maxItems=key["max"])
        if key["min"]:
            want["minItems"] = key["min"]
    else:
        target = {"$ref": "#/$defs/" + key.get("object", kind)}
        want.update({"anyOf": [target, {"type": "null"}]} if key["nullable"] else target)
    if "default" in key:
        want["default"] = key["default"]
    return want


def object_of(name, keys, base, meaning):
    properties = {}
    for key, row in keys.items():
        description = SPECIAL.get(key) or meaning.get((name, key))
        if not description:
            sys.exit(f"{name}.{key}: docs/reference/configuration.md has no row for this key")
        properties[key] = {"description": description, **property_of(row),
                           **base.get("properties", {}).get(key, {})}
    unknown = set(base.get("properties", {})) - set(keys)
    if unknown:
        sys.exit(f"{name}: the parser has no key {', '.join(sorted(unknown))}")
    rules = {k: v for k, v in base.items() if k not in ("description", "properties")}
    part = {"description": base["description"], "type": "object", "additionalProperties": False,
            "properties": properties, **rules}
    required = [key for key, row in keys.items() if row["required"]]
    return {**part, "required": required} if required else part


def main():
    base_path, print_keys, document, output = sys.argv[1:5]
    with open(base_path, encoding="utf-8") as file:
        base = json.load(file)
    table = json.loads(subprocess.run([print_keys], check=True, capture_output=True).stdout)
    meaning, parts = meanings(document), base["$defs"]
    for name, keys in table.items():
        if name != "root":
            parts[name] = object_of(name, keys, parts.get(name, {"description": ""}), meaning)
    root = object_of("root", table["root"], {"description": base["description"]}, meaning)
    schema = {"$schema": base["$schema"], "title": base["title"], **root, "$defs": parts}
    for name, part in parts.items():
        if not part["description"]:
            sys.exit(f"{name}: {base_path} has no description of this object")
    with open(output, "w", encoding="utf-8") as file:
        json.dump(schema, file, indent="\t", ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main()
