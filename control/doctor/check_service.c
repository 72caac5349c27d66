// SPDX-License-Identifier: BSD-3-Clause
//
// Checks whether Weir forwards traffic: the workers of weir-dataplane, the services, and the states
// of backends and agents that weir-control reports.
#include <net/if.h>
#include <string.h>

#include "doctor.h"
#include "duration.h"
#include "plural.h"
#include "tree.h"

#define FINDINGS_MOST 32 // maximum number of findings about backends per check

static const json_t *get(const json_t *object, const char *key) {
	return json_object_get(object, key);
}

static const char *text_of(const json_t *object, const char *key) {
	const char *text = json_string_value(get(object, key));

	return text != NULL ? text : "";
}

static bool is(const json_t *object, const char *key, const char *value) {
	return strcmp(text_of(object, key), value) == 0;
}

// --- dataplane ------------------------------------------------------------------------------

// Returns the text of the first critical reason in the status, or "" if there is none.
static const char *worst_reason(const json_t *status) {
	const json_t *reason;
	size_t i;

	json_array_foreach (get(status, "reasons"), i, reason) {
		if (is(reason, "level", "critical")) {
			return text_of(reason, "text");
		}
	}
	return "";
}

static void report_process(struct weir_doctor *doctor, const json_t *dataplane) {
	struct weir_findings *findings = &doctor->findings;
	const json_int_t workers = json_integer_value(get(dataplane, "workers"));
	const bool attached = json_is_true(get(dataplane, "attached"));
	const bool stalled = json_array_size(get(dataplane, "stalled")) > 0;

	if (stalled || (!attached && is(doctor->status, "level", "critical"))) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, "weir-dataplane", "%s",
			worst_reason(doctor->status)); // a stall is the first critical reason
		if (!stalled && strstr(worst_reason(doctor->status), "has no tables") != NULL) {
			return; // the finding about weir-control contains the remedy
		}
	} else if (workers == 0) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, "weir-dataplane",
			"pid %lld; only root can check whether its workers are running",
			(long long)json_integer_value(get(dataplane, "pid")));
		return;
	} else {
		weir_findings_add(findings, WEIR_FINDING_OK, "weir-dataplane",
			"workers: %lld, all are running", (long long)workers);
		return;
	}
	weir_findings_cure(findings, "systemctl restart weir-dataplane");
}

static void report_flow_table(struct weir_doctor *doctor) {
	const json_int_t untracked = json_integer_value(get(doctor->status, "untracked"));
	const bool half_open = is(doctor->status, "no_room_for", "half-open");

	if (untracked > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "flow table",
			"%s: %lld packet%s in the last minute had no entry; the flows of these "
			"packets may break when backends change: %s",
			half_open ? "has no room for half-open flows" : "is full",
			(long long)untracked, weir_plural((uint64_t)untracked),
			half_open ? "find the flood, or raise flow_table.half_open_percent or "
				    "flow_table.flows_per_worker"
				  : "raise flow_table.flows_per_worker, unless a flood fills the "
				    "table");
		weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
	}
}

void weir_doctor_check_dataplane(struct weir_doctor *doctor) {
	const json_t *dataplane = get(doctor->status, "dataplane");
	char why[320];

	if (is(doctor->status, "level", "unknown")) {
		return; // the finding about weir-control contains the remedy
	}
	if (json_is_integer(get(dataplane, "pid"))) {
		report_process(doctor, dataplane);
		report_flow_table(doctor);
	} else if (weir_processes_explain(&doctor->found_dataplane, WEIR_PROGRAM_DATAPLANE,
			   doctor->run_dir, why, sizeof(why))) {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_FAULT, "weir-dataplane", "%s", why);
		if (doctor->found_dataplane.here != 0) {
			weir_findings_cure(&doctor->findings, "systemctl restart weir-dataplane");
		} else {
			weir_doctor_cure_elsewhere(doctor, &doctor->found_dataplane.elsewhere);
		}
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, "weir-dataplane",
			"is not running in %.100s: no packet is forwarded", doctor->run_dir);
		weir_findings_cure(&doctor->findings, "systemctl start weir-dataplane");
	}
}

// --- services -------------------------------------------------------------------------------

static bool contains(const json_t *names, const json_t *name) {
	const json_t *each;
	size_t i;

	json_array_foreach (names, i, each) {
		if (json_equal(each, name)) {
			return true;
		}
	}
	return false;
}

void weir_doctor_check_services(struct weir_doctor *doctor) {
	const json_t *none = get(doctor->status, "not_eligible");
	const json_t *unreachable = get(doctor->status, "unreachable");
	const json_t *below = get(doctor->status, "below_quorum");
	const json_t *panic = get(doctor->status, "panic");
	const json_t *on_backups = get(doctor->status, "on_backups");
	const json_t *rejecting = get(doctor->status, "rejecting");
	const json_t *name;
	struct weir_findings *findings = &doctor->findings;
	bool drained;
	size_t i;

	if (!json_is_integer(get(doctor->status, "services"))) {
		return; // weir-control does not answer
	}
	json_array_foreach (none, i, name) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, json_string_value(name),
			"has no eligible backend");
		weir_findings_cure(findings, "weirctl health show %s", json_string_value(name));
	}
	json_array_foreach (unreachable, i, name) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, json_string_value(name),
			"has no backend with a next hop: packets of the service are dropped");
		weir_findings_cure(findings, "weirctl backend show %s/", json_string_value(name));
	}
	json_array_foreach (below, i, name) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, json_string_value(name),
			"has fewer eligible backends than its quorum%s",
			contains(panic, name) ? "; in panic mode, unhealthy backends are used, too"
					      : "");
		weir_findings_cure(findings, "weirctl health show %s", json_string_value(name));
	}
	json_array_foreach (panic, i, name) {
		if (contains(below, name)) {
			continue;
		}
		weir_findings_add(findings, WEIR_FINDING_WARNING, json_string_value(name),
			"panic mode: too few backends are healthy, so unhealthy backends are used, "
			"too");
		weir_findings_cure(findings, "weirctl health show %s", json_string_value(name));
	}
	json_array_foreach (on_backups, i, name) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, json_string_value(name),
			"runs on its backups, because too few of its other backends are eligible");
		weir_findings_cure(findings, "weirctl health show %s", json_string_value(name));
	}
	json_array_foreach (rejecting, i, name) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, json_string_value(name),
			"rejected new flows in the last minute: every backend was at "
			"max_active_flows");
		weir_findings_cure(findings, "weirctl backend show %s/", json_string_value(name));
	}
	if (json_is_true(get(get(doctor->status, "dataplane"), "attached")) &&
		json_integer_value(get(doctor->status, "services")) == 0) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, "services",
			json_is_string(get(doctor->status, "not_published"))
				? "no service is published: no packets are forwarded"
				: "no service is configured: no packets are forwarded");
		weir_findings_cure(findings, "weirctl audit show");
		return;
	}
	drained = weir_doctor_report_drained(doctor);
	if (json_array_size(none) + json_array_size(unreachable) + json_array_size(below) +
				json_array_size(panic) ==
			0 &&
		!drained) {
		weir_findings_add(findings, WEIR_FINDING_OK, "services",
			"%lld, each with an eligible backend",
			(long long)json_integer_value(get(doctor->status, "services")));
	}
}

// --- backends -------------------------------------------------------------------------------

// Counts a finding about a backend in *n, and sets the subject of the finding. Returns false if *n
// exceeds FINDINGS_MOST.
static bool count(const json_t *row, uint32_t *n, char subject[WEIR_SUBJECT_BYTES]) {
	snprintf(subject, WEIR_SUBJECT_BYTES, "%s/%s", text_of(row, "service"),
		text_of(row, "name"));
	return ++*n <= FINDINGS_MOST;
}

static const char *duration_of(const json_t *row, const char *key, char text[WEIR_DURATION_BYTES]) {
	json_int_t ms = json_integer_value(get(row, key));

	return weir_duration_text(ms > 0 ? (uint64_t)ms : 0, text);
}

static void report_more(struct weir_doctor *doctor, uint32_t n, const char *what) {
	if (n > FINDINGS_MOST) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "backends", "%u more %s",
			n - FINDINGS_MOST, what);
		weir_findings_cure(&doctor->findings, "weirctl backend show");
	}
}

// Adds the command that ends a lame duck state that a weir-agent reports. "weir-agent ready" does
// not end a state that an application announced for a port. For such a state, the command contains
// the service name of the balancer's configuration, because the agent usually has the same name for
// the service.
static void cure_lame_duck(struct weir_findings *findings, const json_t *row) {
	const json_t *report = get(row, "report"), *port;
	size_t i;

	json_array_foreach (get(report, "port_words"), i, port) {
		if (is(port, "word", "lame-duck") && !is(report, "word", "lame-duck")) {
			weir_findings_cure(findings,
				"ssh %s weir-agent announce ready --service %s # or the name that "
				"\"weir-agent status\" shows",
				text_of(row, "address"), text_of(row, "service"));
			return;
		}
	}
	weir_findings_cure(findings, "ssh %s weir-agent ready", text_of(row, "address"));
}

// Reports states that last until a command ends them: drained, maintenance, lame duck.
static void report_resting(struct weir_findings *findings, const json_t *row, const char *subject) {
	const bool drained = is(row, "admin", "drain");
	const char *address = text_of(row, "address");
	const char *effect = json_is_true(get(row, "in_selection"))
				     ? "still gets new flows, because no backend of the service is "
				       "ready"
				     : "gets no new flows";
	char length[WEIR_DURATION_BYTES];

	if (drained || is(row, "admin", "maintenance")) {
		const char *what = drained ? "drained" : "in maintenance";

		if (json_is_integer(get(row, "admin_since_ms"))) {
			weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
				"%s: the backend has been %s for %s", effect, what,
				duration_of(row, "admin_since_ms", length));
		} else {
			weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
				"%s: the backend has been %s since before the start of "
				"weir-control; see the log for the time",
				effect, what);
		}
		weir_findings_cure(findings, "weirctl backend ready %s", subject);
		return;
	}
	weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
		"%s: the backend has been a lame duck for %s%s", effect,
		duration_of(row, "since_ms", length),
		is(row, "agent", "silent")
			? ", and its weir-agent, which can end this state, does not answer"
			: "");
	if (is(row, "agent", "silent")) {
		weir_findings_cure(findings,
			"ssh %s systemctl start weir-agent # or: weirctl backend ready %s", address,
			subject);
	} else if (is(row, "agent", "answers")) {
		cure_lame_duck(findings, row);
	} else {
		weir_findings_cure(findings, "weirctl backend ready %s", subject);
	}
}

static void report_unhealthy(
	struct weir_findings *findings, const json_t *row, const char *subject) {
	char length[WEIR_DURATION_BYTES];

	if (is(row, "health", "refusing")) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
			"has been in health state refusing for %s: %s",
			duration_of(row, "since_ms", length), text_of(row, "why"));
	} else {
		weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
			"is ejected: its connections fail, or its host rejects packets");
	}
	weir_findings_cure(findings, "weirctl health history %s", subject);
}

void weir_doctor_check_health(struct weir_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	uint32_t bad = 0;
	const json_t *row;
	char subject[WEIR_SUBJECT_BYTES];
	size_t i;

	json_array_foreach (doctor->backends, i, row) {
		const bool resting = !is(row, "admin", "ready") || is(row, "health", "lame-duck");
		const bool unhealthy =
			is(row, "health", "refusing") || json_is_true(get(row, "ejected"));

		if (json_is_true(get(row, "leaving"))) {
			continue;
		}
		if (resting && count(row, &bad, subject)) {
			report_resting(findings, row, subject);
		}
		if (unhealthy && !is(row, "admin", "maintenance") && count(row, &bad, subject)) {
			report_unhealthy(findings, row, subject);
		}
	}
	report_more(doctor, bad, "findings about backends that get no new flows");
	if (bad == 0 && doctor->backends != NULL) {
		weir_findings_add(findings, WEIR_FINDING_OK, "backends",
			"%zu, none in the states refusing, ejected, lame-duck, drain or "
			"maintenance",
			json_array_size(doctor->backends));
	}
}

// Adds the command that fixes a problem that prevents health checks. why: the problem, as
// weir-control reports it.
static void cure_unchecked(struct weir_doctor *doctor, const json_t *row, const char *why) {
	const char *address = text_of(row, "address"), *interface = strstr(why, " on ");
	struct weir_findings *findings = &doctor->findings;
	char name[WEIR_SYSCTL_NAME_BYTES], device[IF_NAMESIZE] = "";

	if (interface != NULL && strstr(why, ": see rp_filter") != NULL) {
		snprintf(device, sizeof(device), "%.*s", (int)strcspn(interface + 4, ":"),
			interface + 4);
		weir_findings_cure(findings,
			"sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.%s.rp_filter=0",
			weir_sysctl_name(device, name));
	} else if (strstr(why, "permission denied") != NULL ||
		   strstr(why, "operation not permitted") != NULL) {
		weir_findings_cure(findings,
			"ip route get %s; nft list ruleset # find the rule that drops packets to "
			"this address",
			address);
	} else if (strstr(why, "a route of this host refuses packets") != NULL) {
		weir_findings_cure(findings, "ip %sroute show match %s",
			strchr(address, ':') != NULL ? "-6 " : "", address);
	} else if (strstr(why, "restart weir-control") != NULL) {
		weir_findings_cure(findings, "systemctl restart weir-control");
	} else if (strstr(why, "is an address of this host") != NULL) {
		weir_findings_cure(findings,
			"ip addr show to %.*s # remove this address; see the check \"vips\"",
			(int)strcspn(why, " "), why);
	} else if (strstr(why, "no packet was sent through device") != NULL) {
		weir_findings_cure(findings, "ip rule; ip route show table 47770");
	} else if (strstr(why, "ping_group_range") != NULL) {
		weir_findings_cure(findings,
			"sysctl -w net.ipv4.ping_group_range='0 2147483647' && systemctl restart "
			"weir-control # or start it as root");
	} else if (strstr(why, "too many open files") != NULL) {
		weir_findings_cure(
			findings, "prlimit --nofile=65536 --pid %d", (int)doctor->control);
	} else {
		weir_findings_cure(findings, "weirctl health show %s", text_of(row, "service"));
	}
}

// Reports that programs of the configuration do not run, or that checks wait for them.
static void report_programs(struct weir_doctor *doctor) {
	const char *why = text_of(doctor->status, "programs");

	if (why[0] == '\0') {
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "programs", "%s", why);
	weir_findings_cure(&doctor->findings, "%s",
		strstr(why, "restart weir-control") != NULL ? "systemctl restart weir-control"
							    : "weirctl health show");
}

void weir_doctor_check_checks(struct weir_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	const uint32_t first = findings->count;
	uint32_t unchecked = 0, checked = 0;
	char subject[WEIR_SUBJECT_BYTES], length[WEIR_DURATION_BYTES];
	const json_t *row;
	size_t i;

	report_programs(doctor);
	json_array_foreach (doctor->backends, i, row) {
		if (json_is_true(get(row, "leaving"))) {
			continue;
		}
		checked += !is(row, "verdict", "unchecked");
		if (!json_is_integer(get(row, "unchecked_ms")) ||
			!count(row, &unchecked, subject)) {
			continue;
		}
		weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
			"its health checks have had no result for %s, so its state stays %s: %s",
			duration_of(row, "unchecked_ms", length), text_of(row, "health"),
			text_of(row, "unchecked_why"));
		cure_unchecked(doctor, row, text_of(row, "unchecked_why"));
	}
	weir_findings_group(findings, first);
	report_more(doctor, unchecked, "have no results of health checks");
	if (unchecked == 0 && checked > 0) {
		weir_findings_add(
			findings, WEIR_FINDING_OK, "checks", "backends checked: %u", checked);
	}
}

void weir_doctor_check_agents(struct weir_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	const uint32_t first = findings->count;
	uint32_t silent = 0, answering = 0, without_keys = 0;
	const json_t *row;
	char subject[WEIR_SUBJECT_BYTES];
	char length[WEIR_DURATION_BYTES];
	size_t i;

	json_array_foreach (doctor->backends, i, row) {
		const json_t *age = get(row, "agent_age_ms");

		answering += is(row, "agent", "answers");
		without_keys += is(row, "agent", "no-keys");
		if (!is(row, "agent", "silent") || !count(row, &silent, subject)) {
			continue;
		}
		if (json_is_integer(age)) {
			weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
				"its weir-agent has not answered for %s",
				duration_of(row, "agent_age_ms", length));
		} else {
			weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
				"its weir-agent has never answered");
		}
		weir_findings_cure(findings, "ssh %s weir-agent status", text_of(row, "address"));
	}
	weir_findings_group(findings, first);
	report_more(doctor, silent, "have a weir-agent that does not answer");
	if (without_keys > 0) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, "weir-control",
			"has no keys: the agents of %u backend%s are not probed", without_keys,
			weir_plural(without_keys));
		weir_findings_cure(findings, "weirctl config reload # shows why");
	}
	if (silent == 0 && answering > 0) {
		weir_findings_add(findings, WEIR_FINDING_OK, "weir-agent",
			"backends whose agent answers: %u", answering);
	}
}
