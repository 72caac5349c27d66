#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that the schema is not generated if the document lacks a key of the parser's table, and
that the error message names the key.

usage: check_extra_key.py MAKE_SCHEMA BASE PRINT_EXTRA_KEYS CONFIGURATION_MD
"""
import subprocess
import sys
import tempfile

with tempfile.NamedTemporaryFile() as output:
    made = subprocess.run([sys.executable, *sys.argv[1:5], output.name], text=True, capture_output=True)
    written = output.read()
print(made.stderr, end="")
sys.exit(0 if made.returncode == 1 and "instance.spare_ms: " in made.stderr and not written else 1)
