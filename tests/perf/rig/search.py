# SPDX-License-Identifier: BSD-3-Clause
"""The highest rate that a device carries, after RFC 2544: bisection, with a limit for loss.

A trial on a busy machine can fail for reasons unrelated to the device. Such a trial is marked
`noisy`, and repeated; the best attempt counts.
"""

TRIALS_MAX = 40
GROWTH = 1.4  # factor of the rate, while no packet is lost
FOLLOWS = 0.97  # share of the requested rate; below this share the generator is at its limit


class Trial:
    """Data of a trial for the search: share lost (0 to 1), rate carried, noisy."""

    def __init__(self, rate, loss, noisy=False, details=None):
        self.rate, self.loss, self.noisy, self.details = rate, loss, noisy, details


def best_of(trial, rate, limit, retries):
    """Run trial(rate), repeat it while it is noisy and loses too much; return the best attempt."""
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

    trial(rate) -> Trial. Starts at high (packets per second), increases while nothing is lost and
    the generator keeps up, then bisects until the interval is smaller than resolution, as a share
    of its upper end.
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
