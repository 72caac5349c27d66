# SPDX-License-Identifier: BSD-3-Clause
"""The page of weir-metrics in Chromium.

WEIR_SCREENSHOTS is the folder where screenshots are saved.
"""
import json
import os
import pwd
import re
import signal
import socket

import clients
from browser import Browser
from lab import BACKENDS, VIP4, VIP6, echo, lines, web
from netns import wait_for
from scenario import scenario
from scenarios_metrics import http

URL = "http://127.0.0.1:9479/"


def open_page(lab, *options):
    lab.start_metrics(*options)
    browser = Browser(lab.lb, lab.dir)
    lab.programs["chromedriver"] = browser.program
    browser.open(URL)
    browser.updated(2)
    return browser


def column(browser, table, title):
    titles = browser.run(f"return [...document.querySelectorAll('#{table} th')]"
                         ".map((cell) => cell.textContent);")
    return [row[titles.index(title)] for row in browser.rows(table)]


def text_of(browser, element):
    return browser.run(f"return document.getElementById('{element}').textContent;")


def groups(browser):
    """Returns, for each service in the table of backends, its row and the names of the backends below it."""
    found = []
    for head, name, address, state in browser.run(
            "return [...document.querySelectorAll('#backends tbody tr')].map((row) => "
            "[row.classList.contains('group'), ...[...row.cells].slice(0, 3).map((cell) => cell.textContent)]);"):
        if head:
            found.append(((name, address, state), []))
        else:
            found[-1][1].append(name)
    return found


def check_names(browser, problem):
    """Check that the title of the tab contains host and instance, and a mark if there is a problem."""
    name = f"{socket.gethostname()} · lb-0"
    assert text_of(browser, "name") == name
    title = browser.run("return document.title;")
    assert title == ("⚠ " if problem else "") + f"{name} – Weir", title


def check_schemes(browser, name):
    """Check that the colour schemes differ, and that text contrasts with the background in each scheme."""
    papers = {}
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        paper, ink = (browser.run(
            f"return getComputedStyle(document.body).{which}.match(/\\d+/g).map(Number);")
            for which in ("backgroundColor", "color"))
        papers[scheme] = sum(paper[:3])
        assert abs(sum(paper[:3]) - sum(ink[:3])) > 450, (scheme, paper, ink)
        browser.screenshot(f"{name}-{scheme}")
    assert papers["light"] > 600 and papers["dark"] < 165, papers


def check_widths(browser):
    """Check, down to 400 pixels, how many plots are in a row, and that nothing is wider than the window."""
    for width, in_a_row in ((1600, 4), (1100, 4), (1099, 2), (560, 2), (559, 1), (400, 1)):
        browser.width(width)
        wide, rows = browser.run(
            "return [document.documentElement.scrollWidth - document.documentElement.clientWidth, "
            "new Set([...document.querySelectorAll('#plots figure')].map((one) => one.offsetTop)).size];")
        assert wide <= 0, f"{wide} pixels wider than the window of {width}"
        assert 4 / rows == in_a_row, f"{rows} rows of plots in a window of {width} pixels"
        cut = browser.run("return [...document.querySelectorAll('#plots span, #plots strong')].filter("
                          "(part) => part.scrollWidth > part.parentElement.clientWidth).length;")
        assert cut == 0, f"{cut} texts of plots are cut off at {width} pixels"
        browser.screenshot(f"width-{width}")
    browser.width(1400)


# A script that returns the texts whose contrast to the background is below 4.5 (WCAG 2). It first
# applies opacity and the page's greyscale filter to text and background.
DIM = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
	if (element.classList.contains("share") && element.tagName === "TD") {
		return parse(getComputedStyle(element).backgroundImage).slice(0, 3);
	}
	for (; element; element = element.parentElement) {
		const [r, g, b, a = 1] = parse(getComputedStyle(element).backgroundColor);
		if (a > 0) return [r, g, b];
	}
	return [255, 255, 255];
};
const filtered = (element, color) => element.closest("main") && getComputedStyle(element.closest("main")).filter
	=== "grayscale(1)" ? Array(3).fill(0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]) : color;
const light = (color) => color.map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92
	: ((part + 0.055) / 1.055) ** 2.4).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
const seen = (element, color, paper) => {
	let opacity = 1;
	for (let one = element; one; one = one.parentElement) opacity *= getComputedStyle(one).opacity;
	return color.map((part, i) => part * opacity + paper[i] * (1 - opacity));
};
return [...document.querySelectorAll("body *")].filter((element) => element.offsetParent
	&& [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).map((element) => {
	const paper = filtered(element, behind(element));
	const lights = [paper, seen(element, filtered(element, parse(getComputedStyle(element).color)), paper)]
		.map(light).sort((a, b) => a - b);
	return [element.textContent, (lights[1] + 0.05) / (lights[0] + 0.05)];
}).filter(([, contrast]) => contrast < 4.5);
"""


def check_contrast(browser, name):
    """Check that all text has enough contrast, even if the page is greyed because its values are old."""
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        dim = browser.run(DIM)
        assert dim == [], (scheme, dim[:9])
        browser.screenshot(f"{name}-{scheme}")


def check_workers(browser):
    """Check that the table of workers fits into its column, even with the longest values."""
    browser.width(1100)
    wide = browser.run("""
        shown.workers = [{worker: 63, alive: false, core: 127, busy_percent: 100, rx_packets: 2e8,
            dropped: 2e8, flows: 123456, buckets: 1024, buckets_taken: 123456}];
        before = {...shown, time: shown.time - 1000, workers: [{rx_packets: 1e5, dropped: 1e5}]};
        showWorkers();
        const table = document.getElementById("workers");
        return table.scrollWidth - table.parentElement.clientWidth;""")
    assert wide <= 0, f"the table of workers is {wide} pixels too wide"
    browser.width(1400)


def check_numbers(browser):
    """Check that numbers are shown with three digits and a unit. 999,999 rounds up to 1.00 M."""
    for number, text in ((9999, "9999"), (999499, "999 k"), (999999, "1.00 M"), (2.5e15, "2500 T"),
                         (0.25, "0.25"), (None, "–")):
        assert browser.run(f"return short({json.dumps(number)});") == text


def check_rows(browser):
    """Check that a removed backend and a new backend of the same name get separate rows, and that a
    filter with "/" matches whole service names only."""
    assert browser.run("""return [...rowsOf({columns: {backend: ["kind", "service", "backend", "address"]},
        rows: [["backend", "web", "b", "10.0.0.1"], ["backend", "web", "b", "10.0.0.2"]]},
        "backend").keys()];""") == ["web/b 10.0.0.1", "web/b 10.0.0.2"]
    for text, wanted in (("web/", True), ("eb/", False), ("b 10", True), ("0.1", True), ("x", False)):
        assert browser.run(f"return isWanted('web/b 10.0.0.1', '{text}');") == wanted, text


def check_silence(lab, browser):
    """Check that the page marks its data as outdated while weir-metrics hangs."""
    lab.programs["metrics"].signal(signal.SIGSTOP)
    wait_for("the page to show the problem", lambda: "no response from weir-metrics" in text_of(browser, "problem"), 60, 0.5)
    assert [text_of(browser, badge) for badge in ("control", "dataplane")] == ["", ""]
    assert is_stale(browser)
    lab.programs["metrics"].signal(signal.SIGCONT)
    wait_for("control up", lambda: text_of(browser, "control") == "control up", 30, 0.1)
    assert text_of(browser, "problem") == ""


def check_stall(lab, browser):
    """Check that the page shows that a stopped dataplane does not forward."""
    lab.programs["dataplane"].signal(signal.SIGSTOP)
    wait_for("the page to show the stall", lambda: text_of(browser, "dataplane") == "dataplane stalled", 30, 0.1)
    assert "no packet is forwarded" in text_of(browser, "problem")
    check_names(browser, problem=True)
    browser.screenshot("page-dataplane-stalled")
    lab.programs["dataplane"].signal(signal.SIGCONT)
    wait_for("dataplane up", lambda: text_of(browser, "dataplane") == "dataplane up", 30, 0.1)
    assert text_of(browser, "problem") == ""


def is_stale(browser):
    return browser.run("return document.body.classList.contains('stale');")


@scenario(services=[web(), echo()], seconds=400)
def page_shows_events(lab):
    """The page shows states, shares, flows, events and plots, in light and dark mode, and while control is down"""
    browser = open_page(lab)
    assert [row[0] for row in browser.rows("services")] == ["web", "echo"]
    check_names(browser, problem=False)
    assert column(browser, "backends", "State") == ["healthy"] * 8
    assert column(browser, "backends", "Target share") == ["25.0 %"] * 8
    assert clients.curl_batch(lab.client, VIP4, 400).ok == 400
    wait_for("new flows in the table", lambda: any(
        cell not in ("0", "–") for cell in column(browser, "services", "New flows/s")), 30, 0.1)
    wait_for("a plot of packets", lambda: browser.run(
        "return document.querySelector('#plots path').getAttribute('d').includes('L');"), 60, 0.2)
    lab.weirctl("backend", "drain", "web/web-2")
    lab.kill_backend(3)
    wait_for("the drain and the failure", lambda: column(browser, "backends", "State")[:4] == [
        "healthy", "healthy, drained", "refusing", "healthy"], 30, 0.1)
    assert column(browser, "backends", "New flows")[:4] == ["yes", "no", "no", "yes"]
    assert groups(browser) == [(("web", "maglev", "2 of 4 eligible"), list(BACKENDS)),
                               (("echo", "maglev", "4 of 4 eligible"), list(BACKENDS))]
    assert column(browser, "services", "Eligible")[0] == "2 of 4"
    wait_for("the event", lambda: ["web/web-3", "healthy → refusing"] in [
        row[1:3] for row in browser.rows("events")], 30, 0.1)
    check_schemes(browser, "page-4")
    check_contrast(browser, "page-4")
    check_widths(browser)
    check_workers(browser)
    check_numbers(browser)
    check_rows(browser)
    check_silence(lab, browser)
    check_stall(lab, browser)
    assert not is_stale(browser)
    lab.programs["control"].kill()
    wait_for("control down", lambda: text_of(browser, "control") == "control down", 30, 0.1)
    assert "weir-control is not running" in text_of(browser, "problem")
    assert "forwards with its last tables" in text_of(browser, "problem") and is_stale(browser)
    assert len(browser.rows("backends")) == 8  # the page still shows the last values
    check_names(browser, problem=True)
    check_contrast(browser, "page-control-down")
    lab.start_control()
    wait_for("control up", lambda: text_of(browser, "control") == "control up", 30, 0.1)
    check_late_backend(lab, browser)
    assert browser.complaints() == []


def check_late_backend(lab, browser):
    """Check that a backend added later is listed below its service, not at the end of the table."""
    lab.write_config([web({**{name: 100 for name in BACKENDS}, "late-1": 100}), echo()])
    lab.weirctl("config", "reload")
    wait_for("the backend", lambda: len(browser.rows("backends")) == 9, 30, 0.1)
    assert [(head[0], names) for head, names in groups(browser)] == [
        ("web", [*BACKENDS, "late-1"]), ("echo", list(BACKENDS))]


def events(browser):
    """Returns {(object, event): reason}, with the reason of the newest event of each kind."""
    return {(of, what): why for _, of, what, why in reversed(browser.rows("events"))}


def cell(browser, table, name, title):
    """Returns the cell in column `title` of the first row with this name."""
    return column(browser, table, title)[[row[0] for row in browser.rows(table)].index(name)]


def reload_fails(lab):
    path = os.path.join(lab.dir, "weir.json")
    with open(path, "a", encoding="ascii") as file:
        file.write("}")
    code, _, error = lab.weirctl("config", "reload", check=False)
    assert code == 1, error


@scenario(services=[lines(drain={"at_deadline": "keep"}), echo()], seconds=200)
def page_shows_drains_reloads_and_starts(lab):
    """The page shows the remaining time of drains, their start and end, reloads, and starts of both processes"""
    browser = open_page(lab)
    one = clients.Line(lab.client, VIP4)
    backend, service = one.backend, f"lines/{one.backend}"
    lab.weirctl("backend", "drain", "--interval=1h", service)
    wait_for("time left", lambda: re.match("healthy, drains, 5[0-9]m", cell(
        browser, "backends", backend, "State")), 30, 0.1)
    assert events(browser)[service, "drain"] == "ready → drain, deadline in 1h00m"
    lab.weirctl("backend", "drain", service)
    wait_for("no deadline", lambda: cell(browser, "backends", backend, "State")
             == "healthy, drains, no deadline", 30, 0.1)
    lab.weirctl("backend", "drain", "--interval=0.1s", service)
    wait_for("the deadline", lambda: events(browser).get((service, "end of drain"))
             == "drain deadline reached: 1 open flow kept", 30, 0.1)
    assert cell(browser, "backends", backend, "State") == "healthy, drained, flows kept"
    lab.weirctl("backend", "ready", service)
    lab.weirctl("host", "drain", "--interval=1h", lab.backend(backend, "lines")["address"])
    lab.weirctl("service", "drain", "lines")
    wait_for("the drain of the service", lambda: cell(browser, "services", "lines", "Eligible")
             == "3 of 4, drains, no deadline", 30, 0.1)
    assert "3 of 4 eligible, drains, no deadline" in [head[2] for head, _ in groups(browser)]
    browser.screenshot("page-drains")
    lab.weirctl("vip", "ready", VIP4)
    binds = f"{len(lab.config()['services'][0]['binds']) // 2} of"
    wait_for("a part of the service to drain", lambda: cell(browser, "services", "lines", "Eligible").startswith(
        f"3 of 4, {binds}"), 30, 0.1)
    lab.weirctl("service", "ready", "lines")
    lab.weirctl("config", "reload")
    reload_fails(lab)
    wait_for("reloads", lambda: {"reload", "reload refused"} <= {what for _, what in events(browser)}, 30, 0.1)
    found = events(browser)
    address = lab.backend(backend, "lines")["address"]
    assert {(service, "ready"), (f"host {address}", "drain"), ("lines", "drain"), ("lines", "ready"),
            (VIP4, "ready"), ("weir-control", "start"), ("weir-dataplane", "start")} <= set(found), found
    assert "weir.json" in found[os.path.join(lab.dir, "weir.json"), "reload refused"]
    lab.write_config()
    lab.programs["control"].kill()
    lab.start_control()
    wait_for("both starts of control", lambda: [row[1] for row in browser.rows("events")].count(
        "weir-control") == 2, 30, 0.1)
    assert one.ask() == backend
    a_vip_drains(lab, browser, one)
    assert browser.complaints() == []


def a_vip_drains(lab, browser, other):
    """Check that the event at the end of a drain names the bind, although the service has a flow to another VIP."""
    bind = f"bind tcp [{VIP6}]:7000: "
    lab.weirctl("vip", "drain", "--interval=0.1s", VIP6)
    wait_for("the deadline of the VIP", lambda: events(browser).get(("lines", "end of drain"))
             == bind + "drain deadline reached: its open flows kept; the whole service has 1 open flow", 30, 0.1)
    other.close()
    lab.weirctl("vip", "drain", VIP6)
    wait_for("the end of the drain", lambda: events(browser).get(("lines", "end of drain"))
             == bind + "drained: no open flows", 30, 0.1)
    kinds = browser.run("return [...document.querySelectorAll('#events tbody tr')]"
                        ".map((row) => [...row.cells])"
                        ".filter((cells) => cells[1].textContent === 'lines' && cells[2].textContent === 'end of drain')"
                        ".map((cells) => cells[2].className);")
    assert kinds == ["good", "warn"], kinds


def plotted(lab):
    """Returns the samples of the last twenty minutes and the start times; None if no answer arrived."""
    try:
        history = json.loads(http(lab, "/status.json")[2])["history"]
    except OSError:
        return None
    return history["rings"][0]["samples"], history["starts"]


@scenario(services=[web()], seconds=200)
def page_keeps_its_plots_over_restarts(lab):
    """Plots show earlier values at once, also after weir-metrics restarts; it starts even if its history file is invalid"""
    folder = os.path.join(lab.dir, "state")
    os.mkdir(folder)
    os.chown(folder, pwd.getpwnam("daemon").pw_uid, -1)
    options, file = ("--state-dir", folder), os.path.join(folder, "history.json")
    lab.start_metrics(*options)
    wait_for("samples", lambda: len(plotted(lab)[0]) >= 3, 30, 0.5)
    samples, starts = plotted(lab)
    assert [start["process"] for start in starts] == ["weir-control", "weir-dataplane"]
    lab.programs["metrics"].stop()
    assert os.listdir(folder) == ["history.json"] and os.stat(file).st_mode == 0o100600
    lab.programs["control"].kill()
    lab.start_control()
    browser = open_page(lab, *options)
    assert plotted(lab)[0][:len(samples)] == samples
    for number, name in enumerate(("20 minutes", "24 hours")):
        browser.run(f"document.querySelectorAll('#range button')[{number}].click();")
        assert browser.run("return document.querySelector('#range [aria-pressed=true]').textContent;") == name
        assert browser.run("return [...document.querySelectorAll('#plots path')].every("
                           "(path) => path.getAttribute('d').includes('L'));"), name
        browser.screenshot(f"page-plots-{number}")
    assert [row[1] for row in browser.rows("events")].count("weir-control") == 2
    check_pause(browser)
    for content in ("", samples, {"rings": "x"}):
        lab.programs["metrics"].stop()
        with open(file, "w", encoding="ascii") as broken:
            json.dump(content, broken)
        lab.start_metrics(*options)
        wait_for("weir-metrics", lambda: plotted(lab), 10)
        assert len(plotted(lab)[0]) <= 2
        assert lab.programs["metrics"].output().count("is not a history file of this version") == 1
    assert browser.complaints() == []


def check_pause(browser):
    """Check that a plot has a gap where weir-metrics was not running, and nothing before its start."""
    assert browser.run("""const history = {columns: ["time_ms", "flows"], rings: [{period_ms: 5000, samples:
        [[1, 9], [2e6, 1], [2e6 + 5e3, 2], [3e6, 3], [3e6 + 5e3, 4]]}, {period_ms: 360000, samples: []}]};
        return series(history, 0, "flows", true);""") == [
            [2000000, 1], [2005000, 2], [3000000, None], [3000000, 3], [3005000, 4]]


LARGE = [{**web(), "name": f"large-{n}", "table_size": 1009,
          "binds": [{"address": f"203.0.113.{n + 1}", "protocol": "tcp", "port": 443}],
          "health_check": {"type": "none"},
          "backends": [{"name": f"b-{i}", "address": f"10.0.{n + 1}.{i + 1}"} for i in range(199)]}
         for n in range(5)]


@scenario(services=[web()] + LARGE, start=False, pair=True, seconds=400)
def page_shows_1000_backends(lab):
    """The page shows 999 backends with a filter, and an update takes less time than the interval between updates"""
    lab.start_backends()
    lab.start_dataplane()
    lab.start_control()
    wait_for("the backends", lambda: len(lab.backends()) == 4 + 995, 30)
    browser = open_page(lab)
    assert len(browser.rows("backends")) == 999
    assert clients.curl_batch(lab.client, VIP4, 100).ok == 100
    took = browser.run("const began = performance.now(); show(); return performance.now() - began;")
    print(f"an update took {took:.0f} ms; ", end="")
    assert took < 2000
    check_schemes(browser, "page-1000")
    check_widths(browser)
    browser.run("document.getElementById('filter-text').value = 'web/';"
                "document.getElementById('filter').dispatchEvent(new Event('input'));")
    assert column(browser, "backends", "Backend") == list(BACKENDS)
    browser.updated()
    assert column(browser, "backends", "Backend") == list(BACKENDS)  # the filter stays after an update
    assert text_of(browser, "backends-count") == "4 of 999"
    assert browser.complaints() == []
