// SPDX-License-Identifier: BSD-3-Clause
//
// API handler of all counters: stats.show.
#include <stdio.h>
#include <time.h>

#include "api_commands.h"
#include "api_counters.h"
#include "api_show.h"
#include "daemon.h"

json_t *weir_json_segment(const struct weir_daemon *daemon) {
	struct weir_writer_usage usage = {0};

	weir_writer_usage(weir_tables_writer(daemon->tables), &usage);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "heap_bytes",
		(json_int_t)usage.heap_bytes, "used_bytes", (json_int_t)usage.used_bytes,
		"retired_bytes", (json_int_t)usage.retired_bytes, "backed_bytes",
		(json_int_t)usage.backed_bytes, "publications",
		(json_int_t)weir_counter_read(&daemon->segment->notes->publications),
		"last_publish_us", (json_int_t)daemon->last_publish_us, "last_grace_us",
		(json_int_t)daemon->last_grace_us);
}

// Their names are words of the protocol, "no-listener"; keys of JSON have underscores.
static void set_result(json_t *object, enum weir_agent_steal_result result, uint64_t count) {
	char key[32];

	snprintf(key, sizeof(key), "%s", weir_agent_steal_result_name(result));
	for (char *at = key; *at != '\0'; at++) {
		*at = *at == '-' ? '_' : *at;
	}
	json_object_set_new(object, key, json_integer((json_int_t)count));
}

// What weir-agents were asked, and what was not taken of what they said.
json_t *weir_json_agents(const struct weir_daemon *daemon) {
	struct weir_agents_counts counts = weir_agents_counts(weir_watch_agents(daemon->watch));
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

void weir_api_stats_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_api_rows rows;
	struct timespec now;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	if (weir_api_backend_rows(daemon, NULL, &rows) < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	weir_api_answer_rows(call,
		json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "time_ms",
			(json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, "workers",
			weir_json_workers_sum(daemon->segment), "drops",
			weir_json_drops(daemon->segment), "ports",
			weir_api_ports(daemon->segment, NULL), "services",
			weir_json_services(daemon, NULL), "segment", weir_json_segment(daemon),
			"agents", weir_json_agents(daemon)),
		"backends", &rows);
}
