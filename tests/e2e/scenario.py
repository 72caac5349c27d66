# SPDX-License-Identifier: BSD-3-Clause
"""Declaration of scenarios.

    @scenario(services=[web()], two_armed=True)
    def drain_keeps_flows(lab):
        \"\"\"One line for --list.\"\"\"

The arguments are those of Lab; with start=False the scenario starts the programs itself, and
alone=True is for scenarios that measure times or CPU shares: no other scenario runs at the same time.
With pair=True one other scenario with pair=True may run at the same time: each needs less than half
of the machine. short=True: included in the short form of scripts/test, which takes seconds. A
scenario that does not end within `seconds` has failed.
"""
from lab import Lab


class Scenario:
    def __init__(self, function, start, at_once, short, seconds, arguments):
        self.function_, self.start, self.at_once, self.short = function, start, at_once, short
        self.seconds, self.arguments = seconds, arguments
        self.name = function.__name__
        self.summary = (function.__doc__ or "").strip().splitlines()[0]

    def make_lab(self, build, place=0):
        return Lab(build, place=place, **self.arguments)

    def function(self, lab):
        if self.start:
            lab.start()
        self.function_(lab)


def scenario(start=True, alone=False, pair=False, short=False, seconds=180, **arguments):
    at_once = 1 if alone else 2 if pair else None

    def mark(function):
        function.scenario = Scenario(function, start, at_once, short, seconds, arguments)
        return function
    return mark


def collect(module):
    """Returns the scenarios of a module, in the order of the file."""
    return [f.scenario for f in vars(module).values() if hasattr(f, "scenario")
            and f.__module__ == module.__name__]
