// SPDX-License-Identifier: BSD-3-Clause
//
// Requests /status.json every two seconds and shows its values. Rates in tables are the differences
// between the last two replies of weir-control. Plots show the samples that weir-metrics has taken
// in the last twenty minutes or in the last day. Received text is inserted as text, never as
// markup.
"use strict";

const PERIOD_MS = 2000;
const PATIENCE_MS = 30000; // maximum wait for a reply; weir-metrics has the same timeout
const ROWS_MAX = 2000; // maximum rows of a table
const SAMPLES = 240; // samples in a ring of the history
const PLOTS = [
	{title: "Packets", unit: "/s", lines: [["rx_packets", "received"], ["forwarded", "forwarded"]]},
	{title: "Drops", unit: "/s", lines: [["dropped", "dropped"]]},
	{title: "New flows", unit: "/s", lines: [["flow_new", "new"]]},
	{title: "Flows", unit: "", gauge: true, lines: [["flows", "in the flow tables"]]},
];

const byId = (id) => document.getElementById(id);
let before = null; // the previous reply: {time, workers, drops, service, backend}
let shown = null; // the latest reply
let status = null;
let instance = ""; // name of the instance
let range = 0; // index of the ring of the history that the plots show
let waiting = null; // timer of the next update; null while a request runs

// --- numbers --------------------------------------------------------------------------------------

function short(number) {
	if (number === null || number === undefined || Number.isNaN(number)) {
		return "–";
	}
	if (Math.abs(number) >= 1e4) {
		// rounded first, so that 999,999 becomes 1.00 M
		const rounded = Number(number.toPrecision(3));
		const [size, unit] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]
			.find(([least]) => Math.abs(rounded) >= least);
		const part = rounded / size;
		return (Math.abs(part) < 1000 ? part.toPrecision(3) : String(part)) + " " + unit;
	}
	return Number.isInteger(number) ? String(number)
		: number.toFixed(Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2);
}

function percent(part) {
	return part === null || part === undefined || Number.isNaN(part) ? "–"
		: part.toFixed(part > 0 && part < 10 ? 2 : 1) + " %";
}

// Formats a duration like weir_duration_text: 4.1s, 15m12s, 3h05m, 2d04h.
function duration(ms) {
	if (ms === null || ms === undefined) {
		return "–";
	}
	const tenths = Math.floor((Math.floor(ms / 10) + 5) / 10), s = Math.floor(tenths / 10);
	for (const [size, part, unit, partUnit] of [[86400, 3600, "d", "h"], [3600, 60, "h", "m"], [60, 1, "m", "s"]]) {
		if (s >= size) {
			return Math.floor(s / size) + unit
				+ String(Math.floor(s % size / part)).padStart(2, "0") + partUnit;
		}
	}
	return `${s}.${tenths % 10}s`;
}

// Returns the rate of a counter per second, or null if the counter is unknown or was reset.
function rate(now, then) {
	const seconds = before && shown ? (shown.time - before.time) / 1000 : 0;
	return seconds > 0 && Number.isFinite(now) && Number.isFinite(then) && now >= then
		? (now - then) / seconds : null;
}

// --- tables ---------------------------------------------------------------------------------------

// Fills a table. A row is a list of cells [text, class, share]; a row with the member "group" is the
// head of a group of rows. Elements are reused, and updated only if the text changes.
function fill(id, titles, rows, select) {
	const table = byId(id);
	if (!table.tHead) {
		const row = table.createTHead().insertRow();
		for (const [title, kind] of titles) {
			const cell = document.createElement("th");
			cell.scope = "col";
			cell.textContent = title;
			cell.className = kind || "";
			row.append(cell);
		}
		table.createTBody();
	}
	const body = table.tBodies[0];
	while (body.rows.length > rows.length) {
		body.deleteRow(-1);
	}
	rows.forEach((cells, number) => {
		const row = body.rows[number] || body.insertRow();
		row.classList.toggle("group", Boolean(cells.group));
		if (select) {
			row.className = "link";
			row.tabIndex = 0;
			row.onclick = () => select(cells);
			row.onkeydown = (event) => event.key === "Enter" && select(cells);
		}
		cells.forEach(([text, kind, share], place) => {
			const cell = row.cells[place] || row.insertCell();
			const name = [titles[place][1], kind].filter(Boolean).join(" ");
			if (cell.textContent !== text) {
				cell.textContent = text;
			}
			if (cell.className !== name) {
				cell.className = name;
			}
			cell.style.backgroundSize = `${Math.min(100, Math.max(0, share || 0))}% 100%`;
		});
	});
}

function badge(id, text, kind) {
	byId(id).textContent = text;
	byId(id).className = "badge " + kind;
}

// --- plots ----------------------------------------------------------------------------------------

function svg(name, attributes) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes)) {
		element.setAttribute(key, value);
	}
	return element;
}

// Returns the samples of a ring of the history. The ring of a day has few samples, so the newest
// samples of the ring of twenty minutes are added: the last sample with values and, if a gap
// follows, the last sample. Samples that are older than the time that the ring covers, which remain
// after a pause of weir-metrics, are left out.
function samplesOf(history, number) {
	const {samples, period_ms: period} = history.rings[number], recent = history.rings[0].samples;
	const all = [...samples];
	for (const sample of [recent.findLast((one) => one.length > 1), recent.at(-1)]) {
		if (sample && !(all.length && all.at(-1)[0] >= sample[0])) {
			all.push(sample);
		}
	}
	return all.filter((sample) => sample[0] >= all.at(-1)[0] - period * SAMPLES);
}

// Returns the values of a counter or gauge over time: [[time, value or null], ...]. null: there was
// no reply, or weir-metrics was not running. The rate of a counter covers the time since the
// previous sample. Therefore the first rate after a gap is repeated at the time of the previous
// sample.
function series(history, number, name, gauge) {
	const column = history.columns.indexOf(name), points = [], pause = 3 * history.rings[number].period_ms;
	let last = null;
	for (const sample of samplesOf(history, number)) {
		const known = sample.length > 1, follows = last && sample[0] - last[0] <= pause;
		if (last && !follows) {
			points.push([sample[0], null]);
		}
		if (gauge) {
			points.push([sample[0], known ? sample[column] : null]);
		} else if (follows) {
			const value = known && last.length > 1 && sample[column] >= last[column]
				? (sample[column] - last[column]) * 1000 / (sample[0] - last[0]) : null;
			if (value !== null && (points.length === 0 || points.at(-1)[1] === null)) {
				points.push([last[0], value]);
			}
			points.push([sample[0], value]);
		}
		last = sample;
	}
	return points;
}

function niceMost(most) {
	const power = 10 ** Math.floor(Math.log10(most || 1));
	return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most) || 1;
}

function path(points, from, until, most) {
	let text = "", pen = "M";
	for (const [time, value] of points) {
		if (value === null) {
			pen = "M";
			continue;
		}
		text += `${pen}${(600 * (time - from) / (until - from)).toFixed(1)} `
			+ `${(108 - 104 * value / most).toFixed(1)}`;
		pen = "L";
	}
	return text;
}

function makePlot(plot) {
	const figure = document.createElement("figure");
	const caption = document.createElement("figcaption");
	const legend = document.createElement("span");
	const now = document.createElement("strong");
	const axis = document.createElement("div");
	plot.picture = svg("svg", {viewBox: "0 0 600 110", preserveAspectRatio: "none", role: "img"});
	for (const y of [4, 56, 108]) {
		plot.picture.append(svg("line", {class: "grid", x1: 0, x2: 600, y1: y, y2: y}));
	}
	plot.paths = plot.lines.map((line, i) => {
		const one = svg("path", {class: `plot ${i ? "second" : "first"}`});
		const name = document.createElement("span");
		name.textContent = (i ? "- - " : "— ") + line[1] + " ";
		name.className = i ? "second" : "first";
		legend.append(name);
		plot.picture.append(one);
		return one;
	});
	caption.append(Object.assign(document.createElement("span"), {textContent: plot.title + " "}), now);
	axis.className = "axis";
	figure.append(caption, plot.picture, axis, legend);
	byId("plots").append(figure);
	Object.assign(plot, {now, axis});
}

function drawPlot(plot, history) {
	const lines = plot.lines.map((line) => series(history, range, line[0], plot.gauge));
	const values = lines.flat().map((point) => point[1]).filter((value) => value !== null);
	const times = samplesOf(history, range).map((sample) => sample[0]);
	const until = times.at(-1) || 0, from = Math.min(times[0] || 0, until - 60000);
	const newest = series(history, 0, plot.lines[0][0], plot.gauge).at(-1), last = newest ? newest[1] : null;
	const most = niceMost(Math.max(0, ...values));
	if (!plot.picture) {
		makePlot(plot);
	}
	lines.forEach((points, i) => plot.paths[i].setAttribute("d", path(points, from, until, most)));
	plot.now.textContent = short(last) + (last === null ? "" : plot.unit);
	plot.axis.replaceChildren(...[`${duration(until - from)} ago`, `top line: ${short(most)}${plot.unit}`,
		"now"].map((text) => Object.assign(document.createElement("span"), {textContent: text})));
	plot.picture.setAttribute("aria-label", `${plot.title}: now ${plot.now.textContent}, at most `
		+ `${short(Math.max(0, ...values))}${plot.unit} in the last ${duration(until - from)}`);
}

function showPlots() {
	PLOTS.forEach((plot) => drawPlot(plot, status.history));
	[...byId("range").children].forEach((button, number) => {
		button.setAttribute("aria-pressed", String(number === range));
	});
}

function makeRange() {
	for (const [number, name] of ["20 minutes", "24 hours"].entries()) {
		byId("range").append(Object.assign(document.createElement("button"), {type: "button", textContent: name,
			onclick: () => {
				range = number;
				if (status) {
					showPlots();
				}
			}}));
	}
}

// --- sections -------------------------------------------------------------------------------------

// Returns a map of the rows of a kind: the key of a row, and the row as an object. The key of a
// backend includes its address, because a new backend may have the name of a backend that is being
// removed.
function rowsOf(control, kind) {
	const columns = control.columns[kind], rows = new Map();
	for (const values of control.rows) {
		if (values[0] === kind) {
			const row = {};
			columns.forEach((name, i) => { row[name] = values[i]; });
			rows.set(kind === "service" ? row.service
				: `${row.service}/${row.backend} ${row.address}`, row);
		}
	}
	return rows;
}

function remember(control) {
	const drops = {};
	for (const worker of control.workers || []) {
		for (const [reason, count] of Object.entries(worker.drops)) {
			drops[reason] = (drops[reason] || 0) + count;
		}
	}
	return {time: control.time_ms, workers: control.workers || [], drops,
		service: rowsOf(control, "service"), backend: rowsOf(control, "backend")};
}

function showWorkers() {
	fill("workers", [["Worker"], ["CPU", "number"], ["Busy", "number share"], ["Packets/s", "number"],
		["Drops/s", "number"], ["Flows", "number"], ["Buckets", "number"], ["Stolen", "number"]],
	shown.workers.map((worker, i) => {
		const then = before ? before.workers[i] || {} : {};
		return [[String(worker.worker) + (worker.alive ? "" : " stalled"), worker.alive ? "" : "bad"],
			[worker.core === null ? "–" : String(worker.core)],
			[percent(worker.busy_percent), "", worker.busy_percent],
			[short(rate(worker.rx_packets, then.rx_packets))],
			[short(rate(worker.dropped, then.dropped))],
			[short(worker.flows)], [short(worker.buckets)], [short(worker.buckets_taken)]];
	}));
}

function showDrops() {
	const rows = Object.entries(shown.drops).filter(([, count]) => count > 0)
		.sort((a, b) => b[1] - a[1])
		.map(([reason, count]) => [[reason], [short(count)],
			[short(rate(count, before ? before.drops[reason] : undefined))]]);
	fill("drops", [["Reason"], ["Packets", "number"], ["Packets/s", "number"]],
		rows.length ? rows : [[[shown.workers.length ? "none" : "–"], [""], [""]]]);
}

// Returns the progress of a drain as text, or "" if there is no drain.
function drainText(drain) {
	if (!drain) {
		return "";
	}
	return drain.state !== "draining" ? {kept: "drained, flows kept", dropped: "flows dropped"}[drain.state] || drain.state
		: "drains, " + (drain.left_ms === null ? "no deadline" : duration(drain.left_ms) + " left")
			+ (drain.recount_ms ? ", flows are recounted for another " + duration(drain.recount_ms) : "");
}

// Returns the state of a service's drain as text. Some binds of a service may be drained while
// others are not.
function serviceDrain(service) {
	const drained = (service.drained_binds || []).length, all = service.binds.length;
	return drained === 0 ? "" : (drained < all ? `${drained} of ${all} addresses: ` : "")
		+ (drainText(service.drain) || "drained");
}

// Returns the cell [text, class] that shows how many backends of a service are eligible.
function eligibleOf(service, unit) {
	const drain = serviceDrain(service);
	return [[`${service.eligible} of ${service.backends}${unit}`, service.panic ? "panic" : "", drain]
		.filter(Boolean).join(", "),
	service.panic || service.eligible === 0 ? "bad"
		: service.eligible < service.backends || drain ? "warn" : "good"];
}

function showServices() {
	const rows = [];
	for (const [name, row] of shown.service) {
		const then = before && before.service.get(name) || {};
		rows.push([[name], [row.policy], [row.binds.slice(0, 2).join(", ")
			+ (row.binds.length > 2 ? ` and ${row.binds.length - 2} more` : "")],
			eligibleOf(row, ""), [short(row.open_flows)], [short(rate(row.new_flows, then.new_flows))],
			[short(rate(row.packets, then.packets))], [short(rate(row.bytes, then.bytes))],
			[short(rate(row.dropped, then.dropped))]]);
	}
	byId("services-count").textContent = String(shown.service.size);
	fill("services", [["Service"], ["Policy"], ["Addresses"], ["Eligible"], ["Open flows", "number"],
		["New flows/s", "number"], ["Packets/s", "number"], ["Bytes/s", "number"], ["Drops/s", "number"]],
	rows.slice(0, ROWS_MAX), (cells) => {
		byId("filter-text").value = cells[0][0] + "/";
		showBackends();
	});
}

function stateOf(row) {
	const words = [row.health];
	if (row.admin !== "ready" && !(row.admin === "drain" && row.drain)) {
		words.push(row.admin);
	}
	if (row.drain) {
		words.push(drainText(row.drain));
	}
	for (const word of ["ejected", "leaving", "accept_queue_full"]) {
		if (row[word]) {
			words.push(word.replaceAll("_", " "));
		}
	}
	if (typeof row.binds_refuse_ms === "number") {
		words.push("removed binds refuse packets for another " + duration(row.binds_refuse_ms));
	}
	if (!row.resolved) {
		words.push("no next hop");
	}
	if (row.agent_silent) {
		words.push("agent does not answer");
	}
	return words.join(", ");
}

function achieved() {
	const sums = new Map();
	for (const [name, row] of shown.backend) {
		const then = before && before.backend.get(name) || {};
		row.rate = rate(row.new_flows, then.new_flows);
		sums.set(row.service, (sums.get(row.service) || 0) + (row.rate || 0));
	}
	return sums;
}

// Returns whether a backend is shown with this filter text. "web/" matches all backends of service
// web, but not of new-web.
function isWanted(name, text) {
	return text.endsWith("/") ? name.startsWith(text) : name.includes(text);
}

function backendCells(row, sum) {
	const share = sum > 0 && row.rate !== null ? 100 * row.rate / sum : null;
	return [[row.backend], [row.address],
		[stateOf(row), row.health === "healthy" && row.admin === "ready" && row.resolved
			&& !row.ejected && !row.agent_silent ? "good" : row.health === "refusing" || !row.resolved ? "bad" : "warn"],
		[duration(row.since_ms)],
		[row.in_selection ? "yes" : "no", row.in_selection ? "" : "warn"],
		[row.effective_weight === row.weight ? short(row.weight)
			: `${short(row.effective_weight)} (${short(row.weight)})`],
		[percent(row.share_percent), "", row.share_percent],
		[percent(share), "", share],
		[short(row.open_flows)], [short(row.rate)],
		[short(row.errors)], [row.utilization === null ? "–" : percent(100 * row.utilization)],
		[row.fails === null ? "–" : short(row.fails)]];
}

// Returns the cells of a service's row in the table of backends. Backends of a removed service are
// listed while they have flows.
function groupCells(name, sum) {
	const row = shown.service.get(name);
	return Object.assign([[name], [row ? row.policy : ""], row ? eligibleOf(row, " eligible") : ["removed", "warn"],
		[""], [""], [""], [""], [""], [row ? short(row.open_flows) : ""],
		[before && row ? short(sum) : ""], [""], [""], [""]], {group: true});
}

// Returns a map {service: [row of backend, ...]} in the order of the services; removed services are
// last.
function backendsByService() {
	const groups = new Map([...shown.service.keys()].map((name) => [name, []]));
	for (const [name, row] of shown.backend) {
		if (!groups.has(row.service)) {
			groups.set(row.service, []);
		}
		groups.get(row.service).push([name.toLowerCase(), row]);
	}
	return groups;
}

function showBackends() {
	const text = byId("filter-text").value.toLowerCase(), unwell = byId("filter-unwell").checked;
	const sums = achieved(), rows = [];
	let found = 0;
	for (const [service, all] of backendsByService()) {
		const wanted = all.filter(([name, row]) => isWanted(name, text) && !(unwell && row.in_selection));
		const room = Math.max(0, ROWS_MAX - found), sum = sums.get(service);
		if (wanted.length > 0 && room > 0) {
			rows.push(groupCells(service, sum),
				...wanted.slice(0, room).map(([, row]) => backendCells(row, sum)));
		}
		found += wanted.length;
	}
	byId("backends-count").textContent = `${found} of ${shown.backend.size}`
		+ (found > ROWS_MAX ? `, the first ${ROWS_MAX} shown: filter to see others` : "");
	fill("backends", [["Backend"], ["Address"], ["State"], ["For", "number"], ["New flows"],
		["Weight", "number"], ["Target share", "number share"], ["Share now", "number share"],
		["Open flows", "number"], ["New flows/s", "number"], ["Errors", "number"], ["Utilization", "number"],
		["Failed checks", "number"]], rows);
}

// Returns an entry of the health history as an event: a change of health, another event of a
// backend, the end of a drain, or the begin of the history of a service.
function healthEvent(event) {
	const one = {time: event.time_ms, of: event.backend ? `${event.service}/${event.backend}` : event.service};
	if (event.source === "drain") {
		return {...one, what: "end of drain", kind: /(^|: )drained: /.test(event.why) ? "good" : "warn", why: event.why};
	}
	if (event.source === "history") {
		return {...one, what: "begin of history", kind: "", why: event.why};
	}
	return {...one, kind: event.to === "refusing" ? "bad" : event.to === "healthy" ? "good" : "warn",
		...event.from === event.to ? {what: event.source, why: event.why}
			: {what: `${event.from} → ${event.to}`, why: `${event.source}: ${event.why}`}};
}

// Returns an entry of the audit list as an event.
function changeEvent(change) {
	const [object, verb] = change.command.split("."), done = change.outcome === "done";
	const what = {"config.reload": "reload", "service.set": "policy", "weight.set": "weight",
		"worker.steal": "stealing"}[change.command] || verb;
	const values = [change.before, change.after].filter(Boolean).join(" → ");
	return {time: change.time_ms, of: (object === "host" ? "host " : "") + change.object,
		what: what + (done ? "" : " refused"),
		kind: !done ? "bad" : {drain: "warn", maintenance: "warn", ready: "good"}[verb] || "",
		why: [values, change.why].filter(Boolean).join("; ")};
}

function stealEvent(steal) {
	return {time: steal.time_ms, of: `${steal.service}/${steal.from}`, what: `steal to ${steal.to}`, kind: "",
		why: `${steal.outcome}, ${steal.reason}`};
}

function showEvents() {
	const events = [...status.events.map(healthEvent), ...status.changes.map(changeEvent),
		...status.steals.map(stealEvent),
		...status.history.starts.map((start) => ({time: start.time_ms, of: start.process, what: "start", kind: "", why: ""}))]
		.sort((a, b) => b.time - a.time);
	fill("events", [["Time"], ["Object"], ["Event"], ["Why", "long"]],
		events.length ? events.map((event) => [[new Date(event.time).toLocaleString()], [event.of],
			[event.what, event.kind], [event.why]]) : [[["none yet"], [""], [""], [""]]]);
}

// Shows the title, such as "lb-0 · weir". The host comes first, because tabs are narrow and hosts
// always have different names. The name of the instance is from the last reply of weir-control.
function showName(problem) {
	const control = status.control && status.control.control;
	instance = control ? control.instance : instance;
	const name = [status.metrics.host, instance].filter(Boolean).join(" · ");
	byId("name").textContent = name;
	document.title = (problem ? "⚠ " : "") + (name ? name + " – " : "") + "Weir";
}

// Returns the badge of the dataplane as [text, class]. It is empty if weir-control does not reply.
function dataplaneBadge(control) {
	if (!control) {
		return ["", ""];
	}
	const {attached, workers, stalled} = control.status.dataplane;
	return !attached ? ["dataplane down", "bad"] : stalled.length === 0 ? ["dataplane up", "good"]
		: [stalled.length === workers ? "dataplane stalled"
			: `${stalled.length} of ${workers} workers stalled`, "bad"];
}

// Returns as text why this instance should get no traffic, or why the page shows old values; "" =
// no problem.
function headProblem(control) {
	if (!control) {
		return `${status.why}. Health checks have stopped; while weir-dataplane runs, it forwards with its last`
			+ " tables. The values shown are old.";
	}
	return control.status.reasons.filter((reason) => reason.level === "critical")
		.map((reason) => reason.text).join("; ");
}

function showHead() {
	const own = status.metrics, control = status.control;
	badge("control", own.control_up ? "control up" : "control down", own.control_up ? "good" : "bad");
	badge("dataplane", ...dataplaneBadge(control));
	badge("published", control && !control.control.published ? "changes not published" : "", "warn");
	byId("age").textContent = `version ${own.version}, `
		+ new Date(own.timestamp_seconds * 1000).toLocaleTimeString();
	showName(headProblem(control));
	problem(headProblem(control), !control);
}

function problem(text, stale) {
	byId("problem").textContent = text;
	byId("problem").hidden = text === "";
	document.body.classList.toggle("stale", stale);
}

function show() {
	showHead();
	showPlots();
	if (!status.control) {
		return; // keep the last known values
	}
	if (!shown || status.control.time_ms !== shown.time) {
		before = shown;
		shown = remember(status.control);
	}
	showWorkers();
	showDrops();
	showServices();
	showBackends();
	showEvents();
}

// Removes the badges and marks all values as stale, because weir-metrics does not answer.
function noAnswer(error) {
	for (const id of ["control", "dataplane", "published"]) {
		badge(id, "", "");
	}
	document.title = "⚠ " + document.title.replace("⚠ ", "");
	problem(`no response from weir-metrics (${error.message}); the values shown are old; retrying`, true);
}

async function update() {
	waiting = null;
	try {
		const reply = await fetch("/status.json",
			{cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
		if (!reply.ok) {
			throw new Error(`status ${reply.status}`);
		}
		status = await reply.json();
		show();
		document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
	} catch (error) {
		noAnswer(error);
	}
	waiting = setTimeout(update, document.hidden ? 10 * PERIOD_MS : PERIOD_MS);
}

makeRange();
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", () => shown && showBackends());
document.addEventListener("visibilitychange", () => {
	// browsers delay timers of hidden pages, so the values may be a minute old
	if (!document.hidden && waiting !== null) {
		clearTimeout(waiting);
		update();
	}
});
update();
