#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs every case of weir-bench with small numbers. Checks the JSON and the exit codes."""
import json
import math
import subprocess
import sys
import unittest

BENCH = sys.argv.pop(1)
SMALL = ["--no-huge", "--packets", "12800", "--runs", "2", "--flows", "5k", "--table-flows", "6k"]
SUMMARY = ["median", "mean", "min", "max", "p99", "p9999"]


def run(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120,
                          check=False)


def measure(*arguments):
    done = run(*SMALL, "--json", *arguments)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def disturb(*arguments):
    """Measure while the publisher runs. On a busy machine the publisher may get no CPU time in a
    short measurement. Then repeat with a longer measurement."""
    for seconds in ("0.2", "2", "20"):
        result = measure("--slots", "251", "--new-percent", "5", "--seconds", seconds,
                         "--packets", "64", *arguments)
        if result["publications"] > 0:
            break
    return result


class Bench(unittest.TestCase):
    def check(self, result):
        for key in SUMMARY:
            self.assertGreater(result["cycles_per_packet"][key], 0)
        self.assertLessEqual(result["cycles_per_packet"]["min"],
                             result["cycles_per_packet"]["median"])
        for key in SUMMARY:
            self.assertGreater(result["machine"][key], 0)
        for who in ("bursts", "machine"):
            self.assertGreaterEqual(result["above_ten_medians"][who], 0)
        self.assertLess(result["above_ten_medians"]["bursts"], 0.5)
        self.assertEqual(result["packets"], 25600)
        self.assertEqual(len(result["run_medians"]), 2)
        self.assertTrue(result["verified"])
        self.assertGreaterEqual(result["verified_packets"], 25600)
        self.assertGreater(result["tsc_hz"], 1e6)
        self.assertIsInstance(result["stages"], dict)
        self.assertEqual(result["pages"]["kind"], "4 KiB")
        self.assertEqual(result["pages"]["segment"], "4 KiB")

    def test_established(self):
        result = measure()
        self.check(result)
        self.assertEqual(result["counters"]["hits"], 25600)
        self.assertEqual(result["flows_in_table"], 5000)

    def test_orders_and_headers(self):
        for arguments in (["--order", "zipf"], ["--order", "one"], ["--headers", "cold"],
                          ["--burst", "32", "--buffers", "64"]):
            result = measure(*arguments)
            self.check(result)

    def test_ipv6_vlan_udp(self):
        result = measure("--family", "6", "--flows", "1k", "--vlan", "--protocol", "udp",
                         "--packet-bytes", "300")
        self.check(result)
        self.assertEqual(result["family"], 6)
        self.assertEqual(result["packet_bytes"], 300)

    def test_new(self):
        result = measure("--case", "new", "--table-flows", "5k", "--family", "6")
        self.assertGreater(result["counters"]["evicted"], 1000)
        result = measure("--case", "new", "--table-flows", "5k")
        self.check(result)
        self.assertEqual(result["counters"]["hits"], 0)
        self.assertGreater(result["counters"]["evicted"], 1000)

    def test_syn_flood(self):
        result = measure("--case", "syn-flood")
        self.check(result)
        self.assertEqual(result["established_lost"], 0)
        self.assertEqual(result["established_kept"], 5000)
        self.assertGreater(result["cycles_per_established_alone"], 0)
        # of two differences of times, so it may be below 0 on a busy machine
        self.assertTrue(math.isfinite(result["ratio"]))

    def test_repeats(self):
        for case in ("established", "new", "syn-flood", "mixed"):
            table = ["--table-flows", "5k"] if case == "new" else ["--flows", "3k"]
            result = measure("--case", case, "--repeats", "3", *table)
            self.check(result)
            repeated = result["repeated"]
            self.assertGreater(repeated["min"], 0)
            self.assertLessEqual(repeated["median"], repeated["p9999"])
            self.assertLessEqual(repeated["mean"], repeated["first_time"]["mean"])
            self.assertLess(result["above_ten_medians"]["repeated"], 0.05)
            self.assertEqual("ratio" in repeated, case == "syn-flood")
            if case == "syn-flood":
                self.assertGreater(repeated["cycles_per_established_alone"], 0)
                self.assertGreater(repeated["cycles_per_syn"], 0)
                self.assertTrue(math.isfinite(repeated["ratio"]))
        self.assertNotIn("repeated", measure())

    def test_mixed(self):
        result = measure("--case", "mixed", "--flows", "3k", "--table-flows", "12k")
        self.check(result)
        self.assertGreater(result["counters"]["new"], 500)

    def test_policies_services(self):
        for policy in ("maglev", "round-robin", "least-loaded", "fair-share"):
            result = measure("--policy", policy, "--services", "5", "--backends", "50",
                             "--new-percent", "5")
            self.check(result)
            self.assertEqual(result["policy"], policy)

    def test_publications(self):
        result = disturb("--publications", "200")
        self.assertGreater(result["publications"], 0)
        self.assertTrue(result["verified"])
        self.assertGreater(result["ratio"], 0)
        self.assertIn("cycles_per_packet", result["base"])
        for series in (result, result["base"]):
            self.assertEqual(series["bursts_above_50_us"] > 0, series["slowest_burst_ns"] > 50000)

    def test_looks(self):
        for what in ("scrapes", "lists", "captures", "idle-captures"):
            result = disturb("--publications", "500", "--publish", what)
            self.assertGreater(result["publications"], 0, what)
            self.assertTrue(result["verified"])

    def test_text(self):
        done = run(*SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("per packet", "p99.99", "Mpps", "verified: all"):
            self.assertIn(word, done.stdout)

    def test_same_seed_same_packets(self):
        def begun(seed):
            counters = measure("--new-percent", "5", "--seed", seed)["counters"]
            return counters["new"] + counters["untracked"]
        self.assertEqual(begun("1"), begun("1"))
        self.assertNotEqual(begun("1"), begun("2"))

    def test_usage(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Examples:", done.stdout)
        self.assertEqual(run("--version").returncode, 0)
        done = run("--case", "fast")
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not known; use established, new, syn-flood or mixed", done.stderr)
        self.assertIn("weir-bench --help", done.stderr)

    def test_failures(self):
        done = run(*SMALL, "--core", "4000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--core 4000: this CPU does not exist", done.stderr)
        done = run(*SMALL, "--slots", "65536")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a prime", done.stderr)


if __name__ == "__main__":
    unittest.main()
