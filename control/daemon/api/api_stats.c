// SPDX-License-Identifier: BSD-3-Clause
//
// API handler of all counters: stats.show.
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api_commands.h"
#include "api_counters.h"
#include "api_show.h"
#include "clocks.h"
#include "daemon.h"

json_t *weir_json_segment(const struct weir_daemon *daemon) {
	struct weir_writer_usage usage = {0};

	weir_writer_usage(weir_tables_writer(daemon->tables), &usage);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "heap_bytes",
		(json_int_t)usage.heap_bytes, "used_bytes", (json_int_t)usage.used_bytes,
		"retired_bytes", (json_int_t)usage.retired_bytes, "backed_bytes",
		(json_int_t)usage.backed_bytes, "publications",
		(json_int_t)weir_counter_read(&daemon->segment->notes->publications),
		"last_publish_us", (json_int_t)daemon->last_publish_us, "last_grace_us",
		(json_int_t)daemon->last_grace_us, "adopting_us",
		(json_int_t)(daemon->grace_since_ns == 0
				     ? 0
				     : (weir_daemon_now_ns() - daemon->grace_since_ns) / 1000));
}

// Adds a count under the name of its result. Hyphens in the name ("no-listener") are replaced by
// underscores, as in other JSON keys.
static void set_result(json_t *object, enum weir_agent_steal_result result, uint64_t count) {
	char key[32];

	snprintf(key, sizeof(key), "%s", weir_agent_steal_result_name(result));
	for (char *at = key; *at != '\0'; at++) {
		*at = *at == '-' ? '_' : *at;
	}
	json_object_set_new(object, key, json_integer((json_int_t)count));
}

// Returns the counts of probes and steal requests sent to weir-agents, and of refused answers.
json_t *weir_json_agents(const struct weir_daemon *daemon) {
	struct weir_agents_counts counts = weir_agents_counts(daemon->agents);
	json_t *refused = json_object(), *results = json_object();

	for (int i = WEIR_AGENT_REFUSAL_NONE + 1; i < WEIR_AGENT_REFUSAL_COUNT; i++) {
		json_object_set_new(refused, weir_agent_refusal_name((enum weir_agent_refusal)i),
			json_integer((json_int_t)counts.refused[i]));
	}
	for (int i = WEIR_AGENT_STEAL_NO_RESULT + 1; i < WEIR_AGENT_STEAL_RESULT_COUNT; i++) {
		set_result(results, (enum weir_agent_steal_result)i, counts.steal_results[i]);
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "configured",
		(json_int_t)counts.agents, "probes", (json_int_t)counts.probes, "answers",
		(json_int_t)counts.answers, "unasked", (json_int_t)counts.unasked, "silent",
		(json_int_t)counts.silent, "dropped_fields", (json_int_t)counts.dropped_fields,
		"late_ms", (json_int_t)counts.late_ms, "steals", (json_int_t)counts.steals,
		"steals_silent", (json_int_t)counts.steal_results[WEIR_AGENT_STEAL_NO_RESULT],
		"steal_results", results, "refused", refused);
}

// --- lists --------------------------------------------------------------------------------

struct lists { // the lists of a reply: first the services, then the backends
	struct weir_api_rows services, backends;
	bool of_backends;
};

static int next_row(void *context, json_t **ret) {
	struct lists *lists = context;
	int r;

	if (lists->of_backends) {
		return lists->backends.next(lists->backends.context, ret);
	}
	r = lists->services.next(lists->services.context, ret);
	if (r != 0) {
		return r;
	}
	lists->of_backends = true;
	*ret = json_string("backends");
	return 2;
}

static void free_lists(void *context) {
	struct lists *lists = context;

	lists->services.free(lists->services.context);
	lists->backends.free(lists->backends.context);
	free(lists);
}

// Prepares the lists of services and backends. Returns 0 or -ENOMEM.
static int create_lists(struct weir_daemon *daemon, struct weir_api_rows *ret) {
	struct lists *lists = calloc(1, sizeof(*lists));

	if (lists == NULL) {
		return -ENOMEM;
	}
	if (weir_api_service_rows(daemon, &lists->services) < 0) {
		goto free_memory;
	}
	if (weir_api_backend_rows(daemon, NULL, &lists->backends) < 0) {
		goto free_services;
	}
	*ret = (struct weir_api_rows){.next = next_row, .free = free_lists, .context = lists};
	return 0;

free_services:
	lists->services.free(lists->services.context);
free_memory:
	free(lists);
	return -ENOMEM;
}

void weir_api_stats_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_api_rows rows;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	if (create_lists(daemon, &rows) < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	weir_api_answer_rows(call,
		json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "time_ms",
			(json_int_t)weir_daemon_wall_ms(), "monotonic_ms",
			(json_int_t)weir_monotonic_ms(), "dataplane_started_ms",
			daemon->dataplane_started_ms != 0
				? json_integer((json_int_t)daemon->dataplane_started_ms)
				: json_null(),
			"workers", weir_json_workers_sum(daemon->segment), "drops",
			weir_json_drops(daemon->segment), "ports", weir_api_ports(daemon, NULL),
			"segment", weir_json_segment(daemon), "agents", weir_json_agents(daemon)),
		"services", &rows);
}
