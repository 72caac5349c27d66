# SPDX-License-Identifier: BSD-3-Clause
"""Executions of small programs under the C11 memory model.

A program is a list of threads, a thread a list of instructions without branches:

  W(location, value, order)     value: a number, or the name of a register of this thread
  R(location, register, order)
  F(order)                      a fence

Orders: rlx, acq, rel, acq_rel, sc. Stores and loads with sc are refused, because they are not needed
here. Every location is 0 at first.

An execution is a choice of the write that each read reads from (rf) and of an order of the writes
to each location (co). It is allowed if the rules of RC11 hold (Lahav et al., "Repairing Sequential
Consistency in C/C++11", PLDI 2017), in the form adopted by C++20:

  sw   synchronizes-with: a release write or the write after a release fence, read by an acquire
       read or by a read before an acquire fence. A later store of the same thread does not belong
       to the release sequence (C++20; C11 is more lenient).
  hb   happens-before: the transitive closure of program order and sw; acyclic.
  eco  the transitive closure of rf, co and fr (reads before the next write).
  coherence: no event happens before itself through hb and eco.
  SC:  fences are in an order that hb and eco agree with (psc is acyclic).

No rule forbids out-of-thin-air values; C11 has none either. A later store may pass a load, as on CPUs,
unless an order forbids this.
"""

import functools
import itertools
import operator
from collections import namedtuple

W = namedtuple("W", "location value order")
R = namedtuple("R", "location register order")
F = namedtuple("F", "order")

Event = namedtuple("Event", "number thread instruction")

RELEASE = ("rel", "acq_rel", "sc")
ACQUIRE = ("acq", "acq_rel", "sc")


def _closure(edges, n):
    """Returns the transitive closure of edges, as a list of bit sets."""
    reach = list(edges)
    for k in range(n):
        for i in range(n):
            if reach[i] >> k & 1:
                reach[i] |= reach[k]
    return reach


def _compose(a, b, n):
    result = [0] * n
    for i in range(n):
        for j in range(n):
            if a[i] >> j & 1:
                result[i] |= b[j]
    return result


def _union(*relations):
    return [functools.reduce(operator.or_, row) for row in zip(*relations)]


def _reflexive(relation):
    return [row | 1 << i for i, row in enumerate(relation)]


def _acyclic(relation, n):
    reach = _closure(relation, n)
    return not any(reach[i] >> i & 1 for i in range(n))


class Program:
    def __init__(self, threads):
        self.events = []
        locations = []
        for thread in threads:
            for instruction in thread:
                if not isinstance(instruction, F):
                    if instruction.order == "sc":
                        raise ValueError("sc accesses are not modelled")
                    if instruction.location not in locations:
                        locations.append(instruction.location)
        for location in locations:
            self._add(-1, W(location, 0, "rlx"))
        for number, thread in enumerate(threads):
            for instruction in thread:
                self._add(number, instruction)
        self.n = len(self.events)
        self.reads = [e for e in self.events if isinstance(e.instruction, R)]
        self.writes = {location: [e for e in self.events if isinstance(e.instruction, W) and
                                  e.instruction.location == location] for location in locations}
        self.sb = [0] * self.n
        for a in self.events:
            for b in self.events:
                if a.number < b.number and a.thread in (-1, b.thread) and b.thread != -1:
                    self.sb[a.number] |= 1 << b.number

    def _add(self, thread, instruction):
        self.events.append(Event(len(self.events), thread, instruction))

    def _synchronizes(self, rf):
        """Returns the edges of sw (synchronizes-with). rf: pairs (write, read) of reads-from."""
        sw = [0] * self.n
        for write, read in rf:
            if write.thread == -1:
                continue
            releases = [write] if write.instruction.order in RELEASE else []
            releases += [e for e in self.events if isinstance(e.instruction, F) and
                         e.instruction.order in RELEASE and self.sb[e.number] >> write.number & 1]
            acquires = [read] if read.instruction.order in ACQUIRE else []
            acquires += [e for e in self.events if isinstance(e.instruction, F) and
                         e.instruction.order in ACQUIRE and self.sb[read.number] >> e.number & 1]
            for a in releases:
                for b in acquires:
                    sw[a.number] |= 1 << b.number
        return sw

    def _consistent(self, rf, co_orders):
        n = self.n
        hb = _closure(_union(self.sb, self._synchronizes(rf)), n)
        if any(hb[i] >> i & 1 for i in range(n)):
            return False
        co, fr, reads_from = [0] * n, [0] * n, [0] * n
        for order in co_orders:
            for i, a in enumerate(order):
                for b in order[i + 1:]:
                    co[a.number] |= 1 << b.number
        for write, read in rf:
            reads_from[write.number] |= 1 << read.number
            fr[read.number] |= co[write.number]
        eco = _closure(_union(reads_from, co, fr), n)
        through = _compose(hb, _reflexive(eco), n)
        if any(through[i] >> i & 1 for i in range(n)):
            return False
        return self._fences_in_order(hb, eco, co, fr)

    def _fences_in_order(self, hb, eco, co, fr):
        n = self.n
        fences = [int(isinstance(e.instruction, F) and e.instruction.order == "sc")
                  for e in self.events]
        mask = sum(bit << i for i, bit in enumerate(fences))
        if mask == 0:
            return True
        location = [getattr(e.instruction, "location", None) for e in self.events]
        same = [sum(1 << j for j in range(n) if location[i] is not None and
                    location[i] == location[j]) for i in range(n)]
        sb_other = [self.sb[i] & ~same[i] for i in range(n)]
        scb = _union(self.sb, _compose(_compose(sb_other, hb, n), sb_other, n),
                     [hb[i] & same[i] for i in range(n)], co, fr)
        base = _compose(_compose(_reflexive(hb), scb, n), _reflexive(hb), n)
        psc_f = _union(hb, _compose(_compose(hb, eco, n), hb, n))
        psc = [(base[i] | psc_f[i]) & mask if fences[i] else 0 for i in range(n)]
        return _acyclic(psc, n)

    def _registers(self, rf):
        """Returns the value of each register, or None if a value depends on itself."""
        source = {read.number: write for write, read in rf}
        values = {}

        def value_of_write(write, visiting):
            value = write.instruction.value
            if not isinstance(value, str):
                return value
            for e in self.events:
                if e.thread == write.thread and isinstance(e.instruction, R) and \
                        e.instruction.register == value:
                    return value_of_read(e, visiting)
            raise ValueError(f"no register {value}")

        def value_of_read(read, visiting):
            if read.number in visiting:
                raise RecursionError
            return value_of_write(source[read.number], visiting | {read.number})

        try:
            for read in self.reads:
                values[read.instruction.register] = value_of_read(read, frozenset())
        except RecursionError:
            return None
        return values

    def outcomes(self):
        """Returns all register values of allowed executions, and the number of candidate executions."""
        found, candidates = [], 0
        orders = []
        for writes in self.writes.values():
            orders.append([[writes[0], *rest] for rest in itertools.permutations(writes[1:])])
        choices = [self.writes[read.instruction.location] for read in self.reads]
        for sources in itertools.product(*choices):
            rf = list(zip(sources, self.reads))
            registers = self._registers(rf)
            for co_orders in itertools.product(*orders):
                candidates += 1
                if registers is not None and registers not in found and \
                        self._consistent(rf, co_orders):
                    found.append(registers)
        return found, candidates
