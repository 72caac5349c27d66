#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tests/perf/compare: its statistics and messages, and that it finds no difference between
a build and itself."""
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

BENCH, ROOT = sys.argv.pop(1), sys.argv.pop(1)
COMPARE = os.path.join(ROOT, "tests/perf/compare")
SMALL = "--no-huge --flows 5k --table-flows 6k --packets 64k"

loader = importlib.machinery.SourceFileLoader("compare", COMPARE)
sys.dont_write_bytecode = True
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)


def run(*arguments):
    return subprocess.run([COMPARE, *arguments], capture_output=True, text=True, timeout=300,
                          check=False)


class Statistics(unittest.TestCase):
    def test_ratio_of_medians(self):
        result = compare.compare_figures([100, 101, 99, 500], [50, 50.5, 49.5, 51])
        self.assertAlmostEqual(result["a"], 100.5)
        self.assertAlmostEqual(result["b"], 50.25)
        self.assertAlmostEqual(result["ratio"], 0.5)
        self.assertLessEqual(result["low"], result["ratio"])
        self.assertGreaterEqual(result["high"], result["ratio"])
        self.assertAlmostEqual(result["round_min"], 51 / 500)

    def test_interval_narrows_with_rounds(self):
        noise = [0.97, 1.01, 1.03, 0.99, 1.0, 1.02, 0.98]
        few = compare.compare_figures([100 * n for n in noise], [100 * n for n in noise[::-1]])
        many = compare.compare_figures([100 * n for n in noise * 10],
                                       [100 * n for n in noise[::-1] * 10])
        self.assertLess(many["high"] - many["low"], few["high"] - few["low"])
        self.assertEqual(compare.judge(few), "same")

    def test_verdicts(self):
        for factor, verdict in ((0.8, "faster"), (1.25, "slower"), (1.0, "same")):
            first = [100, 102, 98, 101, 99]
            result = compare.compare_figures(first, [factor * f for f in first])
            self.assertAlmostEqual(result["ratio"], factor)
            self.assertEqual(compare.judge(result), verdict)

    def test_one_round(self):
        result = compare.compare_figures([4], [5])
        self.assertEqual(compare.judge(result), "too few rounds")
        self.assertEqual((result["low"], result["ratio"], result["high"]), (1.25, 1.25, 1.25))

    def test_quantiles(self):
        self.assertEqual(compare.quantile([1, 2, 3], 0.5), 2)
        self.assertEqual(compare.quantile([1, 2], 0.25), 1.25)
        self.assertEqual(compare.quantile([7], 0.975), 7)


class Program(unittest.TestCase):
    def test_a_build_is_as_fast_as_itself(self):
        done = run("--cases", "established,one-flow,new", "--rounds", "3", "--runs", "1",
                   "--extra", SMALL.replace("--table-flows 6k", "--table-flows 5k"), "--json",
                   BENCH, BENCH)
        self.assertEqual(done.returncode, 0, done.stderr)
        cases = json.loads(done.stdout)["cases"]
        self.assertEqual([c["name"] for c in cases], ["established", "one-flow", "new"])
        for case in cases:
            # Other programs run at the same time: check only the order of magnitude.
            self.assertGreater(case["ratio"], 0.4)
            self.assertLess(case["ratio"], 2.5)
            self.assertEqual(len(case["figures_a"]), 3)

    def test_what_is_slower_shows(self):
        """Bursts of one packet are slower, because the costs per burst are not shared. The result
        must show this."""
        # On a busy machine, the confidence interval of one comparison may begin below 1.1
        for _ in range(4):
            done = run("--cases", "established", "--rounds", "5", "--runs", "1", "--extra", SMALL,
                       "--b-options", "--burst 1", "--fail-above", "1.1", "--json", BENCH, BENCH)
            if done.returncode == 1:
                break
        case = json.loads(done.stdout)["cases"][0]
        self.assertGreater(case["ratio"], 1.2)
        self.assertEqual(case["verdict"], "slower")
        self.assertEqual(done.returncode, 1)
        self.assertIn("slower by more than a factor of 1.1: established", done.stderr)

    def test_text(self):
        done = run("--cases", "established", "--rounds", "1", "--runs", "1", "--extra", SMALL,
                   BENCH, BENCH)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"established +[0-9.]+ +[0-9.]+ +[0-9.]+  ")

    def test_what_cannot_be_compared_is_said(self):
        done = run("--cases", "established", "--rounds", "1", "--b-options", "--nonsense 1",
                   "--extra", SMALL, BENCH, BENCH)
        self.assertEqual(done.returncode, 1)
        self.assertIn("established", done.stdout)
        self.assertIn("not comparable: B: weir-bench: unknown option --nonsense", done.stdout)
        done = run("--cases", "slow", BENCH, BENCH)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no case \"slow\"; there are established, ", done.stderr)
        done = run("--cases", "established", "no-such-revision", BENCH)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-revision: no build directory, no program and no git revision",
                      done.stderr)
        done = run("--cases", "established", "/", BENCH)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no tools/bench/weir-bench", done.stderr)
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("--rounds", "0", BENCH, BENCH).returncode, 2)


class Cases(unittest.TestCase):
    def test_names_are_unique_and_options_are_known(self):
        cases = compare.load_cases(None)
        names = [case["name"] for case in cases]
        self.assertEqual(len(set(names)), len(names))
        help_text = subprocess.run([BENCH, "--help"], capture_output=True, text=True,
                                   check=True).stdout
        for case in cases:
            for option in re.findall(r"--[a-z-]+", case["arguments"]):
                self.assertIn(option, help_text)

    def test_document_has_every_case_with_its_command(self):
        with open(os.path.join(ROOT, "docs/design/performance.md"), encoding="utf-8") as file:
            text = file.read()
        for case in compare.load_cases(None):
            self.assertIn(f"| `{case['name']}` |", text)
            self.assertIn(f"`weir-bench {case['arguments']}`", text)


if __name__ == "__main__":
    unittest.main()
