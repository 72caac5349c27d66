# SPDX-License-Identifier: BSD-3-Clause
"""How a scenario is declared.

    @scenario(services=[web()], two_armed=True)
    def drain_keeps_flows(lab):
        \"\"\"One line for --list.\"\"\"

The arguments are those of Lab; start=False leaves starting the programs to the scenario.
"""
from lab import Lab


class Scenario:
    def __init__(self, function, start, arguments):
        self.function_, self.start, self.arguments = function, start, arguments
        self.name = function.__name__
        self.summary = (function.__doc__ or "").strip().splitlines()[0]

    def make_lab(self, build):
        return Lab(build, **self.arguments)

    def function(self, lab):
        if self.start:
            lab.start()
        self.function_(lab)


def scenario(start=True, **arguments):
    def mark(function):
        function.scenario = Scenario(function, start, arguments)
        return function
    return mark


def collect(module):
    """The scenarios of a module, in the order of the file."""
    return [f.scenario for f in vars(module).values() if hasattr(f, "scenario")
            and f.__module__ == module.__name__]
