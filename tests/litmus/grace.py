#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The orders of loads, stores and fences that the segment relies on, under the C11 memory model.

Each shape below has an outcome that must be impossible in grace.h, in the rows or in the update log.
Its memory orders are read from the sources. c11.py enumerates all executions, and none may have the
bad outcome. If any one of the orders or fences that the shape lists is removed, some execution must
have the bad outcome. Therefore this test fails if an order in the sources is too weak, and also if a
shape proves nothing.

usage: grace.py SOURCE_ROOT
"""

import dataclasses
import re
import sys
from pathlib import Path

from c11 import F, R, W, Program

ORDERS = {"RELAXED": "rlx", "ACQUIRE": "acq", "RELEASE": "rel", "ACQ_REL": "acq_rel",
          "SEQ_CST": "sc"}
ATOMIC = re.compile(r"__atomic_(load_n|store_n|thread_fence)\(([^;]*?)__ATOMIC_([A-Z_]+)\)")
KINDS = {"load_n": "load", "store_n": "store", "thread_fence": "fence"}
T = 3  # a token


class Sources:
    """The atomic operations of the segment's functions."""

    def __init__(self, root):
        self.folder = Path(root) / "segment"

    def orders(self, file, function, *expected):
        """Returns the memory orders of a function's operations, which must be `expected`, e.g. "load word"."""
        text = (self.folder / file).read_text()
        found = re.search(r"^[^\n/#]*\b%s\([^;{]*\)\s*\{\n(.*?)^\}" % function, text, re.M | re.S)
        if found is None:
            raise SystemExit(f"{file}: no function {function}")
        operations = ATOMIC.findall(found.group(1))
        names = [KINDS[kind] for kind, _, _ in operations]
        wanted = [name.split()[0] for name in expected]
        if names != wanted or any(
                name.split()[1] not in place for name, (_, place, _) in zip(expected, operations)
                if " " in name):
            raise SystemExit(f"{file}: {function} does {operations}, expected {list(expected)}: "
                             "change tests/litmus/grace.py with it")
        return [ORDERS[order] for _, _, order in operations]


@dataclasses.dataclass
class Shape:
    name: str
    threads: list
    bad: object  # function of registers
    needed: list  # (thread, index) of an instruction: without it, the bad outcome is allowed


def weakened(threads, thread, index):
    result = [list(instructions) for instructions in threads]
    instruction = result[thread][index]
    if isinstance(instruction, F):
        del result[thread][index]
    else:
        result[thread][index] = instruction._replace(order="rlx")
    return result


def grace_shapes(sources):
    token_store, token_fence = sources.orders("grace.h", "weir_grace_start", "store token", "fence")
    (word_load,) = sources.orders("grace.h", "weir_grace_waits_for", "load token")
    (token_load,) = sources.orders("grace.h", "weir_grace_token", "load token")
    (report,) = sources.orders("grace.h", "weir_grace_report", "store token")
    online, online_fence = sources.orders("grace.h", "weir_grace_online", "store token", "fence")
    (offline,) = sources.orders("grace.h", "weir_grace_offline", "store 0")

    yield Shape("1: a worker that has loaded the token still loads the unlinked table", [
        [W("root", 1, "rlx"), W("token", T, token_store), F(token_fence)],
        [R("token", "token", token_load), R("root", "root", "rlx")],
    ], lambda r: r["token"] == T and r["root"] == 0, [(0, 1), (1, 0)])
    yield Shape("2: a worker's reads precede control's reuse of the memory", [
        [R("word", "word", word_load), W("memory", 1, "rlx")],
        [R("memory", "read", "rlx"), W("word", T, report)],
    ], lambda r: r["word"] == T and r["read"] == 1, [(0, 0), (1, 1)])
    yield Shape("2: the same, if the worker goes offline", [
        [W("token", T, token_store), F(token_fence), R("word", "word", word_load),
         W("memory", 1, "rlx")],
        [W("word", 1, "rlx"), R("memory", "read", "rlx"), W("word", 2, offline)],
    ], lambda r: r["word"] == 2 and r["read"] == 1, [(0, 2), (1, 2)])
    yield Shape("2: the same, if the worker goes offline and online again", [
        [W("token", T, token_store), F(token_fence), R("word", "word", word_load),
         W("memory", 1, "rlx")],
        [R("memory", "read", "rlx"), W("word", 2, offline), R("token", "token", token_load),
         W("word", "token", online), F(online_fence)],
    ], lambda r: r["word"] in (2, T) and r["read"] == 1, [(0, 2), (1, 1), (1, 3)])
    yield Shape("3: control waits for a worker that goes online, or it does not find what was unlinked", [
        [W("root", 1, "rlx"), W("token", T, token_store), F(token_fence),
         R("word", "word", word_load)],
        [R("token", "token", token_load), W("word", 1, online), F(online_fence),
         R("root", "root", "rlx")],
    ], lambda r: r["word"] == 0 and r["root"] == 0, [(0, 2), (1, 2)])
    # Here the fence after the load of the token would also be sufficient.
    yield Shape("3: a worker that goes online and reports the token does not find what was unlinked", [
        [W("root", 1, "rlx"), W("token", T, token_store), F(token_fence),
         R("word", "word", word_load)],
        [R("token", "token", token_load), W("word", "token", online), F(online_fence),
         R("root", "root", "rlx")],
    ], lambda r: r["word"] == T and r["root"] == 0, [(0, 1)])


def table_shapes(sources):
    row_fence, row_word, row_version = sources.orders(
        "writer.c", "weir_writer_publish_row", "fence", "store to", "store version")
    version_first, word, copy_fence, version_again = sources.orders(
        "reader.c", "weir_reader_row", "load version", "load from", "fence", "load version")
    log_fence, entry_store, updates_store = sources.orders(
        "writer.c", "log_update", "fence", "store update", "store updates")
    entry_load, entry_fence, updates_again = sources.orders(
        "reader.c", "read_entry", "load update", "fence", "load updates")
    _, root_store = sources.orders(
        "writer.c", "weir_writer_publish", "store generation", "store ref")
    (root_load,) = sources.orders("reader.c", "adopt_selection", "load selection")
    (updates_load,) = sources.orders("reader.c", "rows_complete", "load updates")

    yield Shape("a row's version shows the whole copy", [
        [F(row_fence), W("copy1", 1, row_word), W("version", 1, row_version)],
        [R("version", "version", version_first), R("copy1", "word", word), F(copy_fence),
         R("version", "again", version_again)],
    ], lambda r: r["version"] == 1 and r["word"] == 0, [(0, 2), (1, 0)])
    yield Shape("a copy that the next but one version overwrites is detected", [
        [F(row_fence), W("copy1", 1, row_word), W("version", 1, row_version),
         F(row_fence), W("copy0", 2, row_word), W("version", 2, row_version)],
        [R("version", "version", version_first), R("copy0", "word", word), F(copy_fence),
         R("version", "again", version_again)],
    ], lambda r: r["version"] == r["again"] == 0 and r["word"] == 2, [(0, 3), (1, 2)])
    yield Shape("an overwritten entry of the log is detected", [
        [W("updates", 1, updates_store), F(log_fence), W("entry", 2, entry_store),
         W("updates", 2, updates_store)],
        [R("entry", "entry", entry_load), F(entry_fence), R("updates", "updates", updates_again)],
    ], lambda r: r["entry"] == 2 and r["updates"] == 0, [(0, 1), (1, 1)])
    yield Shape("a reader of a reference also finds all earlier entries", [
        [F(log_fence), W("entry", 1, entry_store), W("updates", 1, updates_store),
         W("root", 1, root_store)],
        [R("root", "root", root_load), R("updates", "updates", updates_load)],
    ], lambda r: r["root"] == 1 and r["updates"] == 0, [(0, 3), (1, 0)])
    yield Shape("a reader of the number of entries finds these entries", [
        [F(log_fence), W("entry", 1, entry_store), W("updates", 1, updates_store)],
        [R("updates", "updates", updates_load), R("entry", "entry", entry_load)],
    ], lambda r: r["updates"] == 1 and r["entry"] == 0, [(0, 2), (1, 0)])


def is_allowed(shape, threads):
    found, candidates = Program(threads).outcomes()
    return any(shape.bad(registers) for registers in found), len(found), candidates


def self_test():
    """Test the model itself with the known results of the classical shapes."""
    def allowed(threads, bad):
        return any(bad(r) for r in Program(threads).outcomes()[0])

    def both_zero(r):
        return r["a"] == r["b"] == 0

    def both_one(r):
        return r["a"] == r["b"] == 1

    sb = [[W("x", 1, "rlx"), R("y", "a", "rlx")], [W("y", 1, "rlx"), R("x", "b", "rlx")]]
    sb_fences = [[t[0], F("sc"), t[1]] for t in sb]
    lb = [[R("x", "a", "rlx"), W("y", 1, "rlx")], [R("y", "b", "rlx"), W("x", 1, "rlx")]]
    corr = [[W("x", 1, "rlx")], [R("x", "a", "rlx"), R("x", "b", "rlx")]]
    iriw = [[W("x", 1, "rlx")], [W("y", 1, "rlx")],
            [R("x", "a", "acq"), R("y", "b", "acq")], [R("y", "c", "acq"), R("x", "d", "acq")]]
    iriw_fences = iriw[:2] + [[t[0], F("sc"), t[1]] for t in iriw[2:]]

    def disagree(r):
        return (r["a"], r["b"], r["c"], r["d"]) == (1, 0, 1, 0)

    assert allowed(sb, both_zero) and not allowed(sb_fences, both_zero)
    assert allowed(lb, both_one)
    assert not allowed(corr, lambda r: r["a"] == 1 and r["b"] == 0)
    assert allowed(iriw, disagree) and not allowed(iriw_fences, disagree)


def check(shape):
    """Returns the lines to print, and whether the shape holds."""
    allowed, outcomes, candidates = is_allowed(shape, shape.threads)
    ok = not allowed
    line = f"{'ok' if ok else 'FAILED'}  {shape.name}: {outcomes} outcomes of {candidates} " \
           f"candidates, the bad one {'allowed' if allowed else 'forbidden'}"
    for thread, index in shape.needed:
        removed, _, _ = is_allowed(shape, weakened(shape.threads, thread, index))
        if not removed:
            line += f"\nFAILED  {shape.name}: forbidden without " \
                    f"{shape.threads[thread][index]} of thread {thread}, too"
            ok = False
    return line, ok


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: grace.py SOURCE_ROOT")
    self_test()
    sources = Sources(sys.argv[1])
    results = [check(shape) for shape in [*grace_shapes(sources), *table_shapes(sources)]]
    for line, _ in results:
        print(line)
    return 0 if all(ok for _, ok in results) else 1


if __name__ == "__main__":
    sys.exit(main())
