# SPDX-License-Identifier: BSD-3-Clause
"""Finds the highest rate at which a device loses at most a given share of the packets. The search
is a bisection, as in RFC 2544.

A trial on a busy machine can fail for reasons unrelated to the device. Such a trial is marked
`noisy` and repeated; the best attempt is used.
"""

TRIALS_MAX = 40
GROWTH = 1.4  # the rate is multiplied by this factor while no packet is lost
FOLLOWS = 0.97  # minimum ratio of actual to requested rate; below it, the generator is at its limit


class Trial:
    """Result of a trial for the search. rate: offered packets per second; loss: ratio of lost
    packets (0 to 1)."""

    def __init__(self, rate, loss, noisy=False, details=None):
        self.rate, self.loss, self.noisy, self.details = rate, loss, noisy, details


def best_of(trial, rate, limit, retries):
    """Run trial(rate), and repeat it while it is noisy and loses too much. Returns the best
    attempt."""
    best = trial(rate)
    for _ in range(retries):
        if best.loss <= limit or not best.noisy:
            break
        again = trial(rate)
        if again.loss < best.loss:
            best = again
    return best


def maximum(trial, high, limit, resolution=0.02, retries=2):
    """Returns the best trial whose loss is at most limit (or None), and all trials in order.

    trial(rate) -> Trial. The search starts at high (packets per second) and increases the rate
    while nothing is lost and the generator reaches the rate. Then it bisects until the interval,
    divided by its upper end, is smaller than resolution.
    """
    best, trials = None, []

    def passes(rate):
        nonlocal best
        result = best_of(trial, rate, limit, retries)
        trials.append(result)
        if result.loss > limit:
            return False
        if best is None or result.rate > best.rate:
            best = result
        return True

    low = 0.0
    while len(trials) < TRIALS_MAX and passes(high):
        if trials[-1].rate < FOLLOWS * high:
            return best, trials
        low, high = high, GROWTH * high
    while high - low > resolution * high and len(trials) < TRIALS_MAX:
        rate = (low + high) / 2
        if passes(rate):
            low = rate
        else:
            high = rate
    return best, trials
