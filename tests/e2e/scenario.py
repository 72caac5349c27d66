# SPDX-License-Identifier: BSD-3-Clause
"""How a scenario is declared.

    @scenario(services=[web()], two_armed=True)
    def drain_keeps_flows(lab):
        \"\"\"One line for --list.\"\"\"

The arguments are those of Lab; start=False leaves starting the programs to the scenario, and
alone=True is for one that measures times or shares of them: no other scenario runs beside it. With
pair=True one other may that is marked so: what they measure takes less than half of the machine.
short=True is for one that the short form of scripts/test has, which takes seconds. One that is not
done within `seconds` has failed.
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
    """The scenarios of a module, in the order of the file."""
    return [f.scenario for f in vars(module).values() if hasattr(f, "scenario")
            and f.__module__ == module.__name__]
