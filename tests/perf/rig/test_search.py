#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the rig's search and calculations, with simulated devices of known capacity."""
import sys
import unittest

import rig
import search
from search import Trial


def device(capacity, ceiling=float("inf")):
    """Returns a trial function. The device loses the packets above its capacity, and the generator
    sends at most `ceiling` packets per second."""
    def trial(rate):
        offered = min(rate, ceiling)
        return Trial(offered, max(0.0, 1 - capacity / offered))
    return trial


class Search(unittest.TestCase):
    def test_finds_the_capacity(self):
        for capacity in (1000, 123456, 9876543):
            best, trials = search.maximum(device(capacity), 1e7, 0.001, resolution=0.01)
            self.assertLessEqual(best.rate, capacity * 1.0011)
            self.assertGreaterEqual(best.rate, capacity * 0.98)
            self.assertLess(len(trials), 25)

    def test_it_goes_up_when_the_first_rate_was_too_low(self):
        best, _ = search.maximum(device(9e6), 1e6, 0.001)
        self.assertAlmostEqual(best.rate, 9e6, delta=0.03 * 9e6)

    def test_a_device_without_loss_ends_at_the_generators_limit(self):
        best, trials = search.maximum(device(2e7, ceiling=1e7), 1e7, 0)
        self.assertEqual((best.rate, len(trials)), (1e7, 2))

    def test_a_device_without_limit_ends(self):
        _, trials = search.maximum(device(float("inf")), 1e6, 0)
        self.assertEqual(len(trials), search.TRIALS_MAX)

    def test_a_device_that_always_loses_has_no_maximum(self):
        best, _ = search.maximum(lambda rate: Trial(rate, 0.5), 1e6, 0.001)
        self.assertIsNone(best)

    def test_the_threshold_counts(self):
        strict, _ = search.maximum(device(1e6), 2e6, 0.0, resolution=0.001)
        lax, _ = search.maximum(device(1e6), 2e6, 0.1, resolution=0.001)
        self.assertAlmostEqual(strict.rate, 1e6, delta=2e3)
        self.assertAlmostEqual(lax.rate, 1e6 / 0.9, delta=3e3)

    def test_what_was_offered_counts_not_what_was_asked(self):
        best, _ = search.maximum(device(9e6, ceiling=3e6), 1e7, 0.001)
        self.assertEqual(best.rate, 3e6)

    def test_noisy_failures_are_repeated(self):
        asked = []

        def trial(rate):
            asked.append(rate)
            return Trial(rate, 0.5, noisy=True) if len(asked) < 3 else Trial(rate, 0.0)
        best = search.best_of(trial, 1e6, 0.001, 5)
        self.assertEqual((best.rate, best.loss, asked), (1e6, 0.0, [1e6] * 3))

    def test_quiet_failures_are_not(self):
        asked = []

        def trial(rate):
            asked.append(rate)
            return Trial(rate, 0.5)
        search.best_of(trial, 1e6, 0.001, 5)
        self.assertEqual(len(asked), 1)

    def test_the_best_of_noisy_failures_is_kept(self):
        losses = iter((0.5, 0.2, 0.3))
        best = search.best_of(lambda rate: Trial(rate, next(losses), noisy=True), 1e6, 0.001, 2)
        self.assertEqual(best.loss, 0.2)


class Judgement(unittest.TestCase):
    RESULT = {"offered": 1000, "received": 990, "received_in_time": 980, "seconds": 2.0,
              "away_ns": 1000000, "polls_with": 98, "skipped": 0, "sent": 995,
              "disturbed_slices": 50, "slices": 500, "quiet_offered": 900, "quiet_refused": 0}

    def judged(self, waited_ns=0, **more):
        result = {**self.RESULT, **more}
        rig.judge(result, {"dataplane_waited_ns": waited_ns, "busy_cycles": 500,
                           "idle_cycles": 1500, "rx_packets": 10, "forwarded": 10,
                           "dropped": 0}, 2.0)
        return result

    def test_loss_and_rates(self):
        result = self.judged()
        self.assertEqual((result["lost"], result["offered_pps"], result["received_pps"]),
                         (10, 500, 490))
        self.assertAlmostEqual(result["loss"], 0.01)
        self.assertEqual(result["dataplane"]["cycles_per_packet"], 50)
        self.assertEqual(result["dataplane"]["busy_percent"], 25)
        self.assertEqual(result["mean_burst"], 10)

    def test_quiet_loss_forgives_what_was_refused_in_disturbed_slices(self):
        result = self.judged()
        self.assertAlmostEqual(result["quiet_loss"], 0.005)
        self.assertAlmostEqual(result["quiet_share"], 0.9)
        self.assertAlmostEqual(self.judged(quiet_refused=9)["quiet_loss"], 0.015)

    def test_either_process_makes_it_noisy(self):
        self.assertFalse(self.judged()["noisy"])
        self.assertTrue(self.judged(away_ns=100000000)["noisy"])
        self.assertTrue(self.judged(waited_ns=100000000)["noisy"])

    def test_nothing_offered_is_no_loss(self):
        self.assertEqual(self.judged(offered=0, received=0)["loss"], 0)

    def test_states(self):
        for distances, state in (((90, 95), "near"), ((420, 400), "far"), ((90, 400), "moved"),
                                 ((None, 400), "far"), ((None, None), "unknown")):
            self.assertEqual(rig.state_of(distances), state)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
