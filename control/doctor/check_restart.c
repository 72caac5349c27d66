// SPDX-License-Identifier: BSD-3-Clause
//
// Reports changes of the configuration that wait for a restart of weir-dataplane, faults that would
// prevent its start, and how many flows the restart would break.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config_difference.h"
#include "doctor.h"
#include "older_flows.h"
#include "plural.h"

// Writes to text how many flows a restart breaks: ", which breaks up to 21 of 40 open flows"; "" =
// unknown.
static void describe_cost(const struct weir_doctor *doctor, const struct weir_difference *waiting,
	char *text, size_t n) {
	const json_t *restart = json_object_get(doctor->waiting, "restart");
	const json_int_t open = json_integer_value(json_object_get(restart, "open_flows"));
	json_int_t breaks = json_integer_value(json_object_get(restart, "breaks"));
	json_int_t older = json_integer_value(json_object_get(restart, "older"));
	const char *counted =
		json_is_integer(json_object_get(restart, "recount_ms")) ? " counted so far" : "";
	char older_text[WEIR_OLDER_FLOWS_BYTES];

	text[0] = '\0';
	for (uint32_t i = 0; i < waiting->count; i++) {
		if (strcmp(waiting->change[i].key, "hash_seed") == 0) {
			breaks = open;
			older = 0;
		}
	}
	if (restart != NULL && breaks == 0) {
		snprintf(text, n, ", which breaks none of %" JSON_INTEGER_FORMAT " open flow%s%s",
			open, weir_plural((uint64_t)open), counted);
	} else if (restart != NULL) {
		snprintf(text, n,
			", which breaks up to %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
			" open flow%s%s%s",
			breaks, open, weir_plural((uint64_t)open), counted,
			weir_older_flows_text((uint64_t)older, older_text));
	}
}

static bool has(const struct weir_findings *findings, const struct weir_finding *other) {
	for (uint32_t i = 0; i < findings->count; i++) {
		if (strcmp(findings->list[i].subject, other->subject) == 0 &&
			strcmp(findings->list[i].found, other->found) == 0) {
			return true;
		}
	}
	return false;
}

// Returns the findings that the checks would have if weir-dataplane started now with this
// configuration. The caller frees the findings.
static struct weir_findings try_start(
	const struct weir_doctor *doctor, const struct weir_config *config) {
	struct weir_doctor trial = *doctor;

	trial.findings = (struct weir_findings){0};
	trial.config = config;
	trial.dataplane = 0;
	weir_doctor_check_cores(&trial);
	weir_doctor_check_interface(&trial);
	weir_doctor_check_mtu(&trial);
	weir_doctor_check_queues(&trial);
	weir_doctor_check_kernel(&trial);
	return trial.findings;
}

// Reports faults that would prevent a start with the pending values. A fault is reported if the
// running values do not cause it, or if only a change of the file can fix it.
static void check_start(struct weir_doctor *doctor) {
	struct weir_findings now = try_start(doctor, doctor->runs);
	struct weir_findings then = try_start(doctor, doctor->file);

	for (uint32_t i = 0; i < then.count; i++) {
		const struct weir_finding *fault = &then.list[i];

		if (fault->level != WEIR_FINDING_FAULT ||
			(has(&now, fault) && strncmp(fault->cure, "editor ", 7) != 0)) {
			continue;
		}
		doctor->restart_fails = true;
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, fault->subject,
			"do not restart weir-dataplane with %.100s yet: %s", doctor->config_path,
			fault->found);
		weir_findings_cure(&doctor->findings, "%s", fault->cure);
	}
	doctor->findings.out_of_memory |= now.out_of_memory || then.out_of_memory;
	weir_findings_fini(&now);
	weir_findings_fini(&then);
}

void weir_doctor_check_restart(struct weir_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	struct weir_difference waiting;
	char cost[96 + WEIR_OLDER_FLOWS_BYTES];

	if (doctor->runs == NULL || doctor->file == NULL) {
		doctor->restart_fails = doctor->file == NULL && doctor->dataplane != 0;
		return;
	}
	if (weir_config_compare(doctor->runs, doctor->file, &waiting) < 0) {
		findings->out_of_memory = true;
		return;
	}
	weir_difference_keep_restarts(&waiting);
	if (waiting.count > 0) {
		check_start(doctor);
	}
	describe_cost(doctor, &waiting, cost, sizeof(cost));
	for (uint32_t i = 0; i < waiting.count; i++) {
		const struct weir_change *change = &waiting.change[i];
		char what[200];

		if (change->kind == WEIR_CHANGE_CHANGE && strcmp(change->key, "hash_seed") == 0) {
			snprintf(what, sizeof(what), "the new value takes effect after");
		} else if (change->kind == WEIR_CHANGE_CHANGE) {
			snprintf(what, sizeof(what), "%.80s is in use, %.80s takes effect after",
				change->from, change->to);
		} else {
			snprintf(what, sizeof(what), "is %s by",
				change->kind == WEIR_CHANGE_ADD ? "added" : "removed");
		}
		weir_findings_add(findings, WEIR_FINDING_NOTICE, change->what,
			"%s a restart of weir-dataplane%s", what,
			doctor->restart_fails ? ": fix the fault above first" : cost);
		weir_findings_cure(findings, "systemctl restart weir-dataplane");
	}
	if (waiting.count == 0) {
		weir_findings_add(findings, WEIR_FINDING_OK, "weir-dataplane",
			"runs with the settings of %s", doctor->config_path);
	}
	weir_difference_fini(&waiting);
}
