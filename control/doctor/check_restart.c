// SPDX-License-Identifier: BSD-3-Clause
//
// Changes of the configuration that wait for a restart of weir-dataplane, and what that costs.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config_difference.h"
#include "doctor.h"

// ", which breaks up to 21 of 40 open flows"; "" = unknown.
static void describe_cost(const struct weir_doctor *doctor, const struct weir_difference *waiting,
	char *text, size_t n) {
	const json_t *restart = json_object_get(doctor->waiting, "restart");
	const json_int_t open = json_integer_value(json_object_get(restart, "open_flows"));
	json_int_t breaks = json_integer_value(json_object_get(restart, "breaks"));

	text[0] = '\0';
	for (uint32_t i = 0; i < waiting->count; i++) {
		if (strcmp(waiting->change[i].key, "hash_seed") == 0) {
			breaks = open;
		}
	}
	if (restart != NULL && breaks == 0) {
		snprintf(text, n, ", which breaks none of %" JSON_INTEGER_FORMAT " open flows",
			open);
	} else if (restart != NULL) {
		snprintf(text, n,
			", which breaks up to %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
			" open flows",
			breaks, open);
	}
}

void weir_doctor_check_restart(struct weir_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	struct weir_difference waiting;
	char cost[96];

	if (doctor->runs == NULL || doctor->file == NULL) {
		return;
	}
	if (weir_config_compare(doctor->runs, doctor->file, &waiting) < 0) {
		findings->out_of_memory = true;
		return;
	}
	weir_difference_keep_restarts(&waiting);
	describe_cost(doctor, &waiting, cost, sizeof(cost));
	for (uint32_t i = 0; i < waiting.count; i++) {
		const struct weir_change *change = &waiting.change[i];
		char what[200];

		if (change->kind == WEIR_CHANGE_CHANGE) {
			snprintf(what, sizeof(what), "%.80s runs, %.80s waits for", change->from,
				change->to);
		} else {
			snprintf(what, sizeof(what), "is %s by",
				change->kind == WEIR_CHANGE_ADD ? "added" : "removed");
		}
		weir_findings_add(findings, WEIR_FINDING_NOTICE, change->what,
			"%s a restart of weir-dataplane%s", what, cost);
		weir_findings_cure(findings, "systemctl restart weir-dataplane");
	}
	if (waiting.count == 0) {
		weir_findings_add(findings, WEIR_FINDING_OK, "weir-dataplane",
			"runs with the settings of %s", doctor->config_path);
	}
	weir_difference_fini(&waiting);
}
