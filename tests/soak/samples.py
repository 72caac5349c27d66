# SPDX-License-Identifier: BSD-3-Clause
"""The resources of each process of Weir over time: tables, plots, and growth."""
import csv
import os
import re

MEMORY_SHARE, MEMORY_KIB, COUNT = 0.02, 512, 2  # maximum growth in the second half of a run
WATCHED = ("rss_kib", "pss_kib", "descriptors", "threads")
# The PSS is not checked, because it depends on which other processes use the same libraries.
JUDGED = ("rss_kib", "descriptors", "threads")
COUNTERS = ("rx_packets", "forwarded", "dropped", "flows", "flow_new")
COLUMNS = ("seconds", "program", "pid", *WATCHED, "cpu_ticks")
COLORS = ("#3366cc", "#dc3912", "#109618", "#990099", "#ff9900", "#0099c6", "#dd4477", "#66aa00",
          "#316395", "#994499")
WIDTH, HEIGHT, LEFT, TOP = 860, 320, 80, 30


def line_through(points):
    """Returns (slope, value in the middle) of the least squares line."""
    n = len(points)
    mean_x, mean_y = (sum(p[i] for p in points) / n for i in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return (sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0), mean_y


def used_by(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        found = dict(re.findall(r"^(\w+): +(\d+) kB", file.read(), re.M))
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(") ")[2].split()
    return {"rss_kib": int(found["Rss"]), "pss_kib": int(found["Pss"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(fields[17]),
            "cpu_ticks": int(fields[11]) + int(fields[12])}


class Samples:
    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.rows = []
        self.write("processes.csv", COLUMNS, "w")
        self.write("counters.csv", ("seconds", *COUNTERS, "publications", "heap_used"), "w")

    def write(self, name, row, mode="a"):
        with open(os.path.join(self.folder, name), mode, encoding="ascii", newline="") as file:
            csv.writer(file).writerow(row)

    def programs(self):
        """Returns the programs of Weir."""
        return [name for name in self.lab.programs
                if name in ("dataplane", "control", "metrics") or name.startswith("speaker-")]

    def take(self, seconds):
        for name in self.programs():
            pid = self.lab.programs[name].pid
            row = {"seconds": round(seconds), "program": name, "pid": pid, **used_by(pid)}
            self.rows.append(row)
            self.write("processes.csv", [row[column] for column in COLUMNS])
        stats = self.lab.api("stats.show")
        self.write("counters.csv", [round(seconds), *(stats["workers"][c] for c in COUNTERS),
                                    stats["segment"]["publications"],
                                    stats["segment"]["used_bytes"]])

    def series(self, column):
        found = {}
        for row in self.rows:
            found.setdefault(row["program"], []).append((row["seconds"], row[column]))
        return found

    def growth(self):
        """Returns a list of the values that grew in the second half of the run."""
        problems = []
        for column in JUDGED:
            for program, points in self.series(column).items():
                half = points[len(points) // 2:]
                if len(half) < 5:
                    return [f"{len(points)} samples are too few: run it for longer"]
                slope, middle = line_through(half)
                grown = slope * (half[-1][0] - half[0][0])
                bound = max(MEMORY_SHARE * middle, MEMORY_KIB) if column.endswith("kib") else COUNT
                text = f"{program:10} {column:12} {middle:10.0f}, {grown:+8.1f} over the second half"
                print(text)
                if grown > bound:
                    problems.append(f"{text}, more than {bound:.0f}")
        return problems

    def draw(self):
        for column in ("rss_kib", "pss_kib", "descriptors"):
            with open(os.path.join(self.folder, column + ".svg"), "w", encoding="ascii") as file:
                file.write(plot(column, self.series(column)))


def plot(title, series):
    """Returns an SVG plot with one line for each program, scaled to the largest value. The legend
    shows the last value of each line."""
    end = max(points[-1][0] for points in series.values()) or 1
    most = max(y for points in series.values() for _, y in points) or 1
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<text x="{LEFT}" y="18">{title}</text>']
    for part in (0, 0.5, 1):
        y = TOP + (1 - part) * (HEIGHT - 2 * TOP)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 200}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{most * part:.0f}</text>')
    for n, (name, points) in enumerate(series.items()):
        color = COLORS[n % len(COLORS)]
        path = " ".join(f"{LEFT + x / end * (WIDTH - 200 - LEFT):.1f},"
                        f"{TOP + (1 - y / most) * (HEIGHT - 2 * TOP):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>'
                   f'<text x="{WIDTH - 190}" y="{TOP + 16 * n}" fill="{color}">{name} '
                   f'{points[-1][1]}</text>')
    out.append(f'<text x="{WIDTH - 200}" y="{HEIGHT - 8}" text-anchor="end">{end / 60:.0f} '
               'minutes</text></svg>\n')
    return "\n".join(out)
