#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares work-stealing plans for random cases, without recorded traces.

usage: random_stealing.py REPLAY_VECTORS DASK_STEALING_JSON

A simple planner, written from the rules of dask.distributed, makes plans for random workers and
tasks. replay-vectors must report that the planner of policy/ makes the same requests, in the same
order. If a request is changed, replay-vectors must fail.

Times are multiples of 1/64 s, and data sizes are multiples of the amount transferred in 1/64 s, so
that sums are exact.
"""
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

SEED, CASES = 7, 600
LEAST = 3000  # minimum total number of requests of all cases
WORKERS, TASKS = 8, 64  # maximum numbers of workers and of tasks in a case
BYTES = 1_562_500  # bytes transferred in 1/64 s
BANDWIDTH, LATENCY = 100e6, 0.1
LEVELS = 15


class Worker:
    def __init__(self, number, threads):
        self.number, self.threads, self.running = number, threads, True
        self.occupancy = self.in_flight = 0.0
        self.tasks = self.tasks_in_flight = 0

    def combined(self):
        return self.occupancy + self.in_flight

    def too_little(self, mean, occupancy, tasks):
        return self.running and (tasks < self.threads or
                                 occupancy < self.threads * mean * 0.5)

    def too_much(self, mean, occupancy):
        if self.too_little(mean, occupancy, self.tasks) or not self.running \
                or self.tasks <= self.threads:
            return False
        waiting = occupancy * (self.tasks - self.threads) / (self.tasks * self.threads)
        return waiting > 0.4 and waiting > 1.9 * mean


class Task:
    def __init__(self, worker, duration, needs=(), allowed=None, loose=False, fixed=False):
        self.worker, self.duration, self.needs = worker, duration, list(needs)
        self.allowed, self.loose, self.asked = allowed, loose, False
        self.level = None if fixed else self.find_level()

    def find_level(self):
        if not self.needs:
            return 0
        transfer = sum(size for size, _ in self.needs) / BANDWIDTH + LATENCY
        level = max(round(math.log2(transfer / self.duration) + 6), 1)
        return level if level < LEVELS else None

    def fetch(self, worker):
        return sum(size for size, held_by in self.needs if worker.number not in held_by) / BANDWIDTH


def mean_of(workers):
    return sum(w.occupancy for w in workers) / sum(w.threads for w in workers)


def classify(workers):
    mean = mean_of(workers)
    idle = [w for w in workers if w.too_little(mean, w.occupancy, w.tasks)]
    return idle, [w for w in workers if w.too_much(mean, w.occupancy)]


def find_victims(workers, idle, saturated):
    if not saturated:
        saturated = [w for w in workers if w.combined() > 0.2 and w.running and w not in idle
                     and w.tasks + w.tasks_in_flight > w.threads]
    return sorted(saturated, key=Worker.combined, reverse=True)


def find_thief(task, thieves):
    among = [w for w in thieves if task.allowed is None or w.number in task.allowed]
    if not among and task.loose:
        among = thieves
    return min(among, default=None,
               key=lambda w: (w.combined() / w.threads + task.fetch(w), w.number))


def request(number, task, thief, mean):
    victim = task.worker
    asked = {"level": task.level, "key": f"t{number:03}", "cost": task.duration,
             "victim": f"w{victim.number}", "occ_victim_before": victim.combined(),
             "thief": f"w{thief.number}", "occ_thief_before": thief.combined()}
    task.asked = True
    victim.in_flight -= task.duration + task.fetch(victim)
    victim.tasks_in_flight -= 1
    thief.in_flight += task.duration + task.fetch(thief)
    thief.tasks_in_flight += 1
    victim.still_too_much = victim.too_much(mean, victim.combined())
    return asked


def balance(workers, tasks):
    """Returns the requests, and the workers that are still overloaded afterwards."""
    mean, asked = mean_of(workers), []
    thieves, saturated = classify(workers)
    for worker in workers:
        worker.still_too_much = worker in saturated
    if not thieves or len(thieves) == len(workers):
        return asked
    victims = find_victims(workers, thieves, saturated)
    for level in range(LEVELS):
        for victim in victims:
            for number, task in enumerate(tasks):
                if task.worker is not victim or task.level != level or task.asked:
                    continue
                thief = find_thief(task, thieves)
                if thief is None or thief.combined() + task.fetch(thief) + task.duration > \
                        victim.combined() - (task.fetch(victim) + task.duration) / 2:
                    continue
                asked.append(request(number, task, thief, mean))
                if not thief.too_little(mean, thief.combined(),
                                        thief.tasks + thief.tasks_in_flight):
                    thieves.remove(thief)
    return asked


def names(workers):
    return [f"w{w.number}" for w in workers]


def some_workers(chance):
    return [Worker(i, chance.choice((1, 1, 1, 2, 4))) for i in range(chance.randint(2, WORKERS))]


def some_task(chance, workers, crowded, most_data):
    worker = chance.choice(workers[:crowded] if chance.random() < 0.8 else workers)
    numbers = range(len(workers))
    needs = [(chance.choice((0, 1, 4, 64, 512, 40000)) * BYTES,
              {worker.number} if chance.random() < 0.7 else
              set(chance.sample(numbers, chance.randint(0, 2))))
             for _ in range(min(chance.choice((0, 0, 1, 1, 2, 4)), most_data))]
    allowed = set(chance.sample(numbers, 2)) if chance.random() < 0.2 else None
    return Task(worker, chance.choice((1, 4, 16, 64, 64, 64, 200, 1000)) / 64, needs, allowed,
                chance.random() < 0.5, chance.random() < 0.1)


def describe(number, task):
    return {"key": f"t{number:03}", "on": f"w{task.worker.number}", "duration": task.duration,
            "deps": [{"bytes": size, "held_by": [f"w{n}" for n in sorted(held_by)]}
                     for size, held_by in task.needs],
            "level": task.level, "loose": task.loose,
            "restricted_to": None if task.allowed is None else
            [f"w{n}" for n in sorted(task.allowed)]}


def balance_case(chance, number):
    workers = some_workers(chance)
    crowded = chance.randint(1, len(workers))
    most_data = chance.choice((0, 4))  # 0: no task has data, and the planner keeps the thieves in a heap
    tasks = [some_task(chance, workers, crowded, most_data)
             for _ in range(chance.randint(2, TASKS))]
    for task in tasks:
        task.worker.occupancy += task.duration + task.fetch(task.worker)
        task.worker.tasks += 1
    idle, saturated = classify(workers)
    before = {"idle": names(idle), "saturated": names(saturated),
              "occupancy": [w.occupancy for w in workers]}
    calls = [balance(workers, tasks) for _ in range(chance.randint(1, 3))]
    return {"desc": f"random {number}", "nthreads": [w.threads for w in workers],
            "tasks": [describe(i, task) for i, task in enumerate(tasks)], "before": before,
            "requests_per_call": calls,
            "after": {"in_flight_occupancy": {f"w{w.number}": w.in_flight for w in workers},
                      "saturated": names(w for w in workers if w.still_too_much)}}


def classification_case(chance, number):
    workers, groups = some_workers(chance), []
    for worker in workers:
        worker.running = chance.random() < 0.9
        worker.tasks = chance.choice((0, 1, 2, chance.randint(0, TASKS // WORKERS)))
        duration = chance.randint(1, 256) / 64
        worker.occupancy = worker.tasks * duration
        groups.append([worker.tasks, duration])
    idle, saturated = classify(workers)
    return {"desc": f"random {number}", "nthreads": [w.threads for w in workers],
            "tasks_per_worker_count_duration": groups,
            "paused": names(w for w in workers if not w.running),
            "occupancy": [w.occupancy for w in workers], "idle": names(idle),
            "saturated": names(saturated)}


def replay(program, directory, vectors):
    path = pathlib.Path(directory) / "dask_stealing.json"
    path.write_text(json.dumps(vectors), encoding="ascii")
    done = subprocess.run([program, str(path)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def main():
    program, recorded = sys.argv[1:]
    chance = random.Random(SEED)
    vectors = json.loads(pathlib.Path(recorded).read_text(encoding="ascii"))
    vectors["balance"] = [balance_case(chance, i) for i in range(CASES)]
    vectors["classification"] = [classification_case(chance, i) for i in range(CASES)]
    calls = [call for case in vectors["balance"] for call in case["requests_per_call"]]
    requests = [each for call in calls for each in call]
    levels = {each["level"] for each in requests}
    assert len(requests) >= LEAST and len(levels) >= LEVELS - 3, (len(requests), levels)
    with tempfile.TemporaryDirectory() as directory:
        status, output = replay(program, directory, vectors)
        if status != 0:
            sys.exit(output)
        print(f"{len(requests)} requests in {len(calls)} plans: as expected")
        changed = chance.choice([each for each in requests if each["thief"] != "w0"])
        changed["thief"] = "w0"
        status, output = replay(program, directory, vectors)
        if status != 1:
            sys.exit(f"a changed thief was not noticed: {status}\n{output}")


if __name__ == "__main__":
    main()
