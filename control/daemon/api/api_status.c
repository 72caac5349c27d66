// SPDX-License-Identifier: BSD-3-Clause
//
// API handler status: returns whether this instance should get traffic, and the reasons.
// metrics.show uses the same function, so that metrics and status agree.
#include "api_status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"
#include "duration.h"
#include "plural.h"
#include "port_link.h"

#define NAMES_MOST 5 // maximum number of services named in a reason
#define TEXT_BYTES WEIR_UNCHECKED_BYTES // size of the longest reason

static const char *const level_names[] = {
#define X(name, key, text) [WEIR_STATUS_##name] = key,
	WEIR_STATUS_LEVELS(X)
#undef X
};

struct verdict {
	enum weir_status_level level;
	json_t *reasons; // [{level, text}]
};

struct services {
	// Numbers of services. count: all configured services that have an id. The other numbers
	// leave out drained services. none: services without an eligible backend. unreachable:
	// services that have eligible backends, but none with a next hop. below, panic: other
	// services that are down because of their quorum (quorums.h), or in panic mode.
	uint32_t count, none, unreachable, below, panic;
	// Services with a reachable eligible backend, not in panic mode, that run on their backups
	// and have primary backends.
	uint32_t on_backups;
	uint32_t drained; // services whose binds are all drained, regardless of the state of their
			  // backends
	uint32_t ended; // drained services whose drain has ended
	uint32_t partly; // services some of whose binds are drained
	// Removed services that still drain; not counted in the fields above.
	uint32_t leaving;
	uint32_t backends, eligible;
	uint64_t rejected; // new flows rejected in the last minute because every backend was at its
			   // limit
	json_t *none_names, *unreachable_names, *below_names, *panic_names, *on_backups_names,
		*drained_names, *partly_names, *rejecting_names;
};

__attribute__((format(printf, 3, 4))) static void add(
	struct verdict *verdict, enum weir_status_level level, const char *format, ...) {
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	verdict->level = level > verdict->level ? level : verdict->level;
	json_array_append_new(verdict->reasons,
		json_pack("{s:s, s:s}", "level", level_names[level], "text", text));
}

// --- the dataplane --------------------------------------------------------------------------

static json_t *json_stalled(const struct weir_stalls *stalls) {
	json_t *list = json_array();

	for (uint32_t w = 0; stalls->segment != NULL && w < stalls->segment->workers; w++) {
		if (stalls->since_ns[w] != 0) {
			json_array_append_new(list, json_integer(w));
		}
	}
	return list;
}

// Reports that weir-control is not attached to a dataplane.
static void judge_unattached(const struct weir_daemon *daemon, struct verdict *verdict) {
	const char *why = weir_daemon_unattached(daemon);

	if (why != NULL) {
		add(verdict, WEIR_STATUS_CRITICAL,
			"weir-control cannot attach to weir-dataplane: %s", why);
	} else {
		add(verdict, WEIR_STATUS_CRITICAL,
			"weir-dataplane is not running, or weir-control cannot attach to it: see "
			"the log of weir-control");
	}
}

// Reports changes that are not published to the attached dataplane. Without any published table,
// the dataplane forwards nothing, which is critical.
static void judge_publication(const struct weir_daemon *daemon, struct verdict *verdict) {
	const char *unfit = weir_daemon_unfit(daemon),
		   *unpublished = weir_daemon_unpublished(daemon);
	const bool has_tables =
		__atomic_load_n(&daemon->segment->roots->services, __ATOMIC_ACQUIRE) != 0;

	if (unpublished == NULL && has_tables) {
		return;
	}
	add(verdict, has_tables ? WEIR_STATUS_WARNING : WEIR_STATUS_CRITICAL, "%s%s%s%s%s",
		has_tables ? "changes are not published yet" : "weir-dataplane has no tables yet",
		unpublished != NULL ? ": " : "",
		unfit != NULL ? "the configuration does not fit the running weir-dataplane: " : "",
		unpublished != NULL ? unpublished : "",
		unfit != NULL ? "; correct the file and reload it, or raise the setting in segment "
				"and restart weir-dataplane"
			      : "");
}

static void judge_dataplane(const struct weir_daemon *daemon, const struct weir_stalls *stalls,
	struct verdict *verdict) {
	char stalled[WEIR_DURATION_BYTES];

	if (daemon->file_why[0] != '\0') {
		add(verdict, WEIR_STATUS_WARNING, "%s", daemon->file_why);
	}
	if (daemon->segment == NULL) {
		judge_unattached(daemon, verdict);
		return;
	}
	weir_duration_text(weir_stalls_longest_ns(stalls, weir_daemon_now_ns()) / 1000000, stalled);
	if (stalls->count == daemon->segment->workers) {
		add(verdict, WEIR_STATUS_CRITICAL,
			"weir-dataplane has been stalled for %s: no packet is forwarded", stalled);
	} else if (stalls->count > 0) {
		add(verdict, WEIR_STATUS_CRITICAL,
			"%u of %u workers of weir-dataplane stalled, the first for %s: the "
			"packets of their queues are lost",
			stalls->count, daemon->segment->workers, stalled);
	}
	judge_publication(daemon, verdict);
}

// Reports ports without a link. If no port has a link, no packet can arrive, which is critical.
static void judge_links(const struct weir_daemon *daemon, struct verdict *verdict) {
	const struct weir_segment *segment = daemon->segment;
	enum weir_link_state link[WEIR_PORTS_MAX];
	uint32_t down = 0;

	for (uint32_t i = 0; i < segment->ports; i++) {
		link[i] = weir_port_link(segment, weir_reload_config(daemon->reload), i);
		down += link[i] != WEIR_LINK_UP && link[i] != WEIR_LINK_UNKNOWN;
	}
	for (uint32_t i = 0; i < segment->ports; i++) {
		const struct weir_port_info *port = &segment->header->port[i];

		if (link[i] == WEIR_LINK_UP || link[i] == WEIR_LINK_UNKNOWN) {
			continue;
		}
		add(verdict, down == segment->ports ? WEIR_STATUS_CRITICAL : WEIR_STATUS_WARNING,
			"port %.*s has no link: %s%.15s is %s", WEIR_NAME_BYTES, port->name,
			port->kernel_interface[0] != '\0' ? "interface " : "its device",
			port->kernel_interface,
			link[i] == WEIR_LINK_DISABLED     ? "down"
			: link[i] == WEIR_LINK_NO_CARRIER ? "up without a carrier"
							  : "missing");
	}
}

// Reports that packets were forwarded without a flow table entry, because the table was full; their
// flows may move if backends change. *ret_lack: which part was full. Returns the number of these
// packets.
static uint64_t judge_flow_table(const struct weir_daemon *daemon, struct verdict *verdict,
	enum weir_recent_lack *ret_lack) {
	const uint64_t untracked = weir_recent_untracked(&daemon->recent, daemon->segment);
	const enum weir_recent_lack lack = weir_recent_lack(
		&daemon->recent, daemon->segment, &weir_reload_config(daemon->reload)->flow_table);
	const bool half_open = lack == WEIR_RECENT_LACK_HALF_OPEN;

	if (untracked > 0) {
		add(verdict, WEIR_STATUS_WARNING,
			"the flow table %s: %llu packet%s in the last minute without an entry; "
			"their flows may break when backends change (%s)",
			half_open ? "has no room for half-open flows" : "is full",
			(unsigned long long)untracked, weir_plural(untracked),
			half_open ? "find the flood, or raise flow_table.half_open_percent or "
				    "flow_table.flows_per_worker"
				  : "raise flow_table.flows_per_worker, or find the flood");
	}
	*ret_lack = lack;
	return untracked;
}

// Returns the value of the member "no_room_for"; NULL = JSON null.
static const char *lack_name(enum weir_recent_lack lack) {
	return lack == WEIR_RECENT_LACK_NONE        ? NULL
	       : lack == WEIR_RECENT_LACK_HALF_OPEN ? "half-open"
						    : "flows";
}

// --- services -------------------------------------------------------------------------------

// Counts a service with drained binds. Returns whether all its binds are drained.
static bool count_drained(const struct weir_daemon *daemon, const struct weir_service_state *state,
	const char *name, struct services *services) {
	uint32_t drained = weir_tables_drained_binds(daemon->tables, state->id);

	if (drained == 0) {
		return false;
	}
	if (drained < weir_tables_select_binds(daemon->tables, state->id, NULL)) {
		services->partly++;
		json_array_append_new(services->partly_names, json_string(name));
		return false;
	}
	services->drained++;
	services->ended += state->drain != WEIR_DRAIN_DRAINING;
	json_array_append_new(services->drained_names, json_string(name));
	return true;
}

// Counts a service that has eligible backends if it is below its quorum, in panic mode, or on its
// backups.
static void count_degraded(const struct weir_daemon *daemon, const struct weir_service_state *state,
	const char *name, struct services *services) {
	if (weir_quorums_is_up(&daemon->quorums, daemon->tables, state->id) == 0) {
		services->below++;
		json_array_append_new(services->below_names, json_string(name));
	}
	if (state->panic) {
		services->panic++;
		json_array_append_new(services->panic_names, json_string(name));
	} else if (state->on_backups && state->backups < state->backends) {
		services->on_backups++;
		json_array_append_new(services->on_backups_names, json_string(name));
	}
}

static void count_service(
	const struct weir_daemon *daemon, uint16_t id, struct services *services) {
	const char *name = weir_tables_service_name(daemon->tables, id);
	struct weir_service_state state;
	uint64_t rejected;

	if (name == NULL || weir_tables_service(daemon->tables, id, &state) < 0) {
		return;
	}
	if (state.leaving) {
		services->leaving += state.removal == WEIR_DRAIN_DRAINING;
		return;
	}
	rejected = weir_recent_limited(&daemon->recent, daemon->segment, id).rejected;
	if (rejected > 0) {
		services->rejected += rejected;
		json_array_append_new(services->rejecting_names, json_string(name));
	}
	services->count++;
	services->backends += state.backends;
	services->eligible += state.eligible;
	if (count_drained(daemon, &state, name, services)) {
		return;
	}
	if (state.eligible == 0) {
		services->none++;
		json_array_append_new(services->none_names, json_string(name));
	} else if (state.resolved == 0) {
		services->unreachable++;
		json_array_append_new(services->unreachable_names, json_string(name));
	} else {
		count_degraded(daemon, &state, name, services);
	}
}

// Lists up to NAMES_MOST names as text, and then the number of further names. Returns text.
static const char *list_names(const json_t *names, char text[TEXT_BYTES / 2]) {
	size_t used = 0, count = json_array_size(names);

	text[0] = '\0';
	for (size_t i = 0; i < count && i < NAMES_MOST; i++) {
		used += (size_t)snprintf(text + used, TEXT_BYTES / 2 - used, "%s%s",
			i == 0 ? "" : ", ", json_string_value(json_array_get(names, i)));
		used = used < TEXT_BYTES / 2 ? used : TEXT_BYTES / 2 - 1;
	}
	if (count > NAMES_MOST) {
		snprintf(text + used, TEXT_BYTES / 2 - used, " and %zu more", count - NAMES_MOST);
	}
	return text;
}

// Reports that n services cannot serve flows. lost: their names. what: the reason, for example "no
// eligible backend". This instance should get traffic while at least one service works, so only the
// loss of all services is critical.
static void judge_lost(const struct services *services, uint32_t n, const json_t *lost,
	const char *what, struct verdict *verdict) {
	enum weir_status_level level =
		services->none + services->unreachable + services->below + services->ended ==
				services->count
			? WEIR_STATUS_CRITICAL
			: WEIR_STATUS_WARNING;
	char names[TEXT_BYTES / 2];

	if (n > 0 && n == services->count) {
		add(verdict, level, "%s in %s: %s", what,
			services->count == 1 ? "the service" : "any service",
			list_names(lost, names));
	} else if (n > 0) {
		add(verdict, level, "%s in %u of %u services: %s", what, n, services->count,
			list_names(lost, names));
	}
}

// Reports drained services. A drain is not a fault: routes to a drained service must stay while the
// service has flows. When all services are drained and all their drains have ended, this instance
// needs no traffic.
static void judge_drained(const struct services *services, struct verdict *verdict) {
	char names[TEXT_BYTES / 2];

	if (services->drained == 0) {
		return;
	}
	list_names(services->drained_names, names);
	if (services->ended == services->count) {
		add(verdict, WEIR_STATUS_CRITICAL, "drained by an operator: %s%s",
			services->count == 1 ? "the service " : "all services: ", names);
	} else {
		add(verdict, WEIR_STATUS_OK, "%u of %u service%s drained%s: %s", services->drained,
			services->count, weir_plural(services->count),
			services->ended == 0 ? ", existing flows continue" : "", names);
	}
}

// configured: number of services that are configured, or 1 for the status of one service.
static void judge_services(
	const struct services *services, uint32_t configured, struct verdict *verdict) {
	char names[TEXT_BYTES / 2];

	if (services->count == 0 && configured > 0) {
		add(verdict, WEIR_STATUS_CRITICAL, "the service%s not published yet",
			configured == 1 ? " is" : "s are");
	} else if (services->count == 0) {
		add(verdict, services->leaving > 0 ? WEIR_STATUS_WARNING : WEIR_STATUS_CRITICAL,
			"no service is configured%s",
			services->leaving > 0 ? "; flows of removed services continue" : "");
	}
	judge_lost(services, services->none, services->none_names, "no eligible backend", verdict);
	judge_lost(services, services->unreachable, services->unreachable_names,
		"no backend with a next hop", verdict);
	judge_lost(services, services->below, services->below_names,
		"fewer eligible backends than the quorum", verdict);
	if (services->panic > 0) {
		add(verdict, WEIR_STATUS_WARNING, "panic mode in %u of %u service%s: %s",
			services->panic, services->count, weir_plural(services->count),
			list_names(services->panic_names, names));
	}
	if (services->on_backups > 0) {
		add(verdict, WEIR_STATUS_WARNING, "%u of %u service%s on backups: %s",
			services->on_backups, services->count, weir_plural(services->count),
			list_names(services->on_backups_names, names));
	}
	if (services->rejected > 0) {
		add(verdict, WEIR_STATUS_WARNING,
			"%llu new flow%s rejected in the last minute, because every backend was "
			"at max_active_flows: %s",
			(unsigned long long)services->rejected, weir_plural(services->rejected),
			list_names(services->rejecting_names, names));
	}
	judge_drained(services, verdict);
	if (services->partly > 0) {
		add(verdict, WEIR_STATUS_OK, "some binds drained in %u of %u service%s: %s",
			services->partly, services->count, weir_plural(services->count),
			list_names(services->partly_names, names));
	}
}

// Reports backends whose health checks have no result: they keep their states, so a failed backend
// still gets flows. only: id of the service to check; negative = all services. Returns the number
// of these backends.
static uint32_t judge_checks(const struct weir_daemon *daemon, int only, struct verdict *verdict) {
	struct weir_unchecked unchecked;

	weir_checks_unchecked(daemon->health, daemon->tables, only, &unchecked);
	if (unchecked.backends > 0) {
		add(verdict, WEIR_STATUS_WARNING, "%s", unchecked.text);
	}
	return unchecked.backends;
}

// Returns the configuration of the service with this id. Returns NULL if the id is negative (all
// services) or WEIR_SERVICE_NONE, or if the service is removed.
static const struct weir_config_service *config_of(const struct weir_daemon *daemon, int only) {
	const char *name = only >= 0 && daemon->tables != NULL
				   ? weir_tables_service_name(daemon->tables, (uint16_t)only)
				   : NULL;

	return name != NULL ? weir_config_find_service(weir_reload_config(daemon->reload), name)
			    : NULL;
}

// Reports that programs of the configuration do not run, or that checks wait too long for a
// program. Returns the report as text, or null.
static json_t *judge_programs(const struct weir_daemon *daemon, int only, struct verdict *verdict) {
	const struct weir_config_service *service = config_of(daemon, only);
	char why[TEXT_BYTES];

	if ((only >= 0 && service == NULL) ||
		!weir_daemon_programs_problem(daemon, service, why, sizeof(why))) {
		return json_null();
	}
	add(verdict, WEIR_STATUS_WARNING, "%s", why);
	return json_string(why);
}

// Reports that agents are configured, but not probed, because there are no keys. only: id of the
// service to check; negative = all services.
static void judge_keys(const struct weir_daemon *daemon, int only, struct verdict *verdict) {
	const char *why = weir_probed_agents_keys_problem(daemon->probed_agents);
	const struct weir_config_service *service = config_of(daemon, only);

	if (why != NULL && !weir_probed_agents_has_keys(daemon->probed_agents) &&
		(only < 0 || (service != NULL && service->agent.port != 0))) {
		add(verdict, WEIR_STATUS_WARNING,
			"no agent is probed, because there are no keys: %s", why);
	}
}

// --- result ---------------------------------------------------------------------------------

static json_t *json_dataplane(const struct weir_daemon *daemon, const struct weir_stalls *stalls) {
	const struct weir_segment *segment = daemon->segment;

	return json_pack("{s:b, s:s?, s:o, s:o, s:o}", "attached", segment != NULL, "why",
		weir_daemon_unattached(daemon), "pid",
		segment != NULL ? json_integer(segment->header->dataplane_pid) : json_null(),
		"workers", segment != NULL ? json_integer(segment->workers) : json_null(),
		"stalled", json_stalled(stalls));
}

json_t *weir_json_status(struct weir_daemon *daemon, int only) {
	struct verdict verdict = {.level = WEIR_STATUS_OK, .reasons = json_array()};
	struct services services = {.none_names = json_array(),
		.unreachable_names = json_array(),
		.below_names = json_array(),
		.panic_names = json_array(),
		.on_backups_names = json_array(),
		.drained_names = json_array(),
		.partly_names = json_array(),
		.rejecting_names = json_array()};
	const struct weir_stalls *stalls = weir_daemon_stalls(daemon);
	uint32_t ids = daemon->tables != NULL ? weir_tables_service_ids(daemon->tables) : 0;
	enum weir_recent_lack lack = WEIR_RECENT_LACK_NONE;
	uint64_t untracked = 0;
	uint32_t unchecked = 0;
	json_t *programs;

	for (uint32_t id = 0; id < ids; id++) {
		if (only < 0 || (uint32_t)only == id) {
			count_service(daemon, (uint16_t)id, &services);
		}
	}
	judge_dataplane(daemon, stalls, &verdict);
	if (daemon->segment != NULL) {
		judge_links(daemon, &verdict);
		untracked = judge_flow_table(daemon, &verdict, &lack);
		judge_services(&services,
			only >= 0 ? 1 : weir_reload_config(daemon->reload)->service_count,
			&verdict);
		unchecked = judge_checks(daemon, only, &verdict);
		judge_keys(daemon, only, &verdict);
	}
	programs = judge_programs(daemon, only, &verdict);
	json_decref(services.partly_names); // only in the reason
	return json_pack("{s:s, s:o, s:o, s:s?, s:I, s:I, s:I, s:I, s:o, s:I, s:s?, s:o, s:o, s:o, "
			 "s:o, s:o, s:o, s:o}",
		"level", level_names[verdict.level], "reasons", verdict.reasons, "dataplane",
		json_dataplane(daemon, stalls), "not_published", weir_daemon_unpublished(daemon),
		"services", (json_int_t)services.count, "backends", (json_int_t)services.backends,
		"eligible", (json_int_t)services.eligible, "unchecked", (json_int_t)unchecked,
		"programs", programs, "untracked", (json_int_t)untracked, "no_room_for",
		lack_name(lack), "not_eligible", services.none_names, "unreachable",
		services.unreachable_names, "below_quorum", services.below_names, "panic",
		services.panic_names, "on_backups", services.on_backups_names, "drained",
		services.drained_names, "rejecting", services.rejecting_names);
}

// Returns the id of the service with this name. Returns WEIR_SERVICE_NONE if the service is
// configured but has no id yet: it waits for a free id, or no dataplane was attached so far. If the
// service is not configured, fails the call and returns a negative number.
static int find_service(struct weir_daemon *daemon, struct weir_api_call *call, const char *name) {
	int id = daemon->tables != NULL ? weir_tables_service_find(daemon->tables, name) : -ENOENT;

	if (id >= 0) {
		return id;
	}
	if (weir_config_find_service(weir_reload_config(daemon->reload), name) != NULL) {
		return WEIR_SERVICE_NONE;
	}
	weir_api_fail(call, WEIR_API_NOT_FOUND, "no such service: \"%.100s\"", name);
	return -ENOENT;
}

void weir_api_status(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *name = weir_api_text(call, "service");
	int only = name != NULL ? find_service(daemon, call, name) : -1;

	if (name == NULL || only >= 0) {
		weir_api_answer(call, weir_json_status(daemon, only));
	}
}
