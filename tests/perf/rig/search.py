# SPDX-License-Identifier: BSD-3-Clause
"""The highest rate that a device carries, after RFC 2544: halving, with a limit for loss.

A trial on a machine with other work to do can fail for reasons that are not the device's. Such a
trial says so itself (`noisy`), and is repeated; what counts is the best of the tries.
"""

TRIALS_MAX = 40
GROWTH = 1.4  # of the rate, while nothing is lost
FOLLOWS = 0.97  # of the rate asked for: less, and the generator is at its limit


class Trial:
    """What the search needs to know of a trial: share lost (0 to 1), rate carried, noisy."""

    def __init__(self, rate, loss, noisy=False, details=None):
        self.rate, self.loss, self.noisy, self.details = rate, loss, noisy, details


def best_of(trial, rate, limit, retries):
    """Run trial(rate), again while it is noisy and loses too much; return the best."""
    best = trial(rate)
    for _ in range(retries):
        if best.loss <= limit or not best.noisy:
            break
        again = trial(rate)
        if again.loss < best.loss:
            best = again
    return best


def maximum(trial, high, limit, resolution=0.02, retries=2):
    """The best trial whose loss is at most limit, or None; and all trials in order.

    trial(rate) -> Trial. Begins at high (packets per second), goes up while nothing is lost and
    the generator can follow, then halves until the interval is smaller than resolution, as a
    share of its upper end.
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
