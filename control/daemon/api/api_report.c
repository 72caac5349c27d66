// SPDX-License-Identifier: BSD-3-Clause
//
// API handler backend.report, which takes a load report about a backend from the backend itself or
// from a script.
#include "api_commands.h"
#include "daemon.h"
#include "report.h"

// Read the fields of a report. On an error, fails the call and returns false.
static bool read_report(struct weir_api_call *call, struct weir_report *report) {
	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		const char *name = weir_report_field_name(field);
		const json_t *value = json_object_get(weir_api_request(call), name);

		if (value == NULL || json_is_null(value)) {
			continue;
		}
		if (!weir_report_set(report, field, json_number_value(value))) {
			weir_api_fail(call, WEIR_API_BAD_REQUEST,
				"argument \"%s\" must be a number from 0 to %.0f", name,
				weir_report_field_largest(field));
			return false;
		}
	}
	if (report->given == 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "the report is empty");
		return false;
	}
	return true;
}

// Returns the report fields that a running canary of the service uses, even if the policy does
// not use them.
static uint32_t used_by_canary(const struct weir_daemon *daemon, const char *service) {
	const struct weir_canary *canary = weir_canaries_find(daemon->canaries, service);

	return canary != NULL && weir_canary_is_running(canary)
		       ? WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(SERVICE_TIME) |
				 WEIR_REPORT(SERVICE_COUNT)
		       : 0;
}

static json_t *json_fields(uint32_t set) {
	json_t *list = json_array();

	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		if ((set >> field & 1) != 0) {
			json_array_append_new(list, json_string(weir_report_field_name(field)));
		}
	}
	return list;
}

void weir_api_backend_report(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_report report = {0};
	struct weir_backend_state state;
	struct weir_reports *reports = daemon->reports;
	uint32_t used;
	int id;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	id = weir_api_find_backend(daemon, call);
	if (id < 0 || !read_report(call, &report)) {
		return;
	}
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	used = weir_reports_take(reports, (uint16_t)id, &report, "api") |
	       (report.given & used_by_canary(daemon, state.service));
	if (used == 0) {
		weir_api_fail(call, WEIR_API_REFUSED, "backend %s/%s: %s", state.service,
			state.name, weir_reports_why(reports));
		return;
	}
	weir_api_answer(call,
		json_pack("{s:s, s:s, s:o, s:o}", "service", state.service, "backend", state.name,
			"used", json_fields(used), "not_used", json_fields(report.given & ~used)));
}
