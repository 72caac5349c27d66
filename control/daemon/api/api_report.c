// SPDX-License-Identifier: BSD-3-Clause
//
// API handler backend.report: a backend, or a script on it, submits a load report.
#include <math.h>

#include "api_commands.h"
#include "daemon.h"

static const struct field {
	const char *name;
	double most;
} fields[] = {
#define X(name, field, most) [WEIR_REPORT_BIT_##name] = {#field, most},
	WEIR_REPORT_FIELDS(X)
#undef X
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static double *field_of(struct weir_report *report, size_t field) {
	switch (field) {
#define X(name, member, most) \
	case WEIR_REPORT_BIT_##name: \
		return &report->member;
		WEIR_REPORT_FIELDS(X)
#undef X
	default:
		return NULL;
	}
}

// Returns false after the call was failed.
static bool read_report(struct weir_api_call *call, struct weir_report *report) {
	for (size_t i = 0; i < FIELDS; i++) {
		const json_t *value = json_object_get(weir_api_request(call), fields[i].name);

		if (value == NULL || json_is_null(value)) {
			continue;
		}
		*field_of(report, i) = json_number_value(value);
		if (json_number_value(value) > fields[i].most) {
			weir_api_fail(call, WEIR_API_BAD_REQUEST,
				"argument \"%s\" must be a number from 0 to %.0f", fields[i].name,
				fields[i].most);
			return false;
		}
		report->given |= 1u << i;
	}
	if (report->given == 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "the report is empty");
		return false;
	}
	return true;
}

static json_t *json_fields(uint32_t set) {
	json_t *list = json_array();

	for (size_t i = 0; i < FIELDS; i++) {
		if ((set >> i & 1) != 0) {
			json_array_append_new(list, json_string(fields[i].name));
		}
	}
	return list;
}

void weir_api_backend_report(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_report report = {0};
	struct weir_backend_state state;
	char why[256];
	int id, used;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	id = weir_api_find_backend(daemon, call);
	if (id < 0 || !read_report(call, &report)) {
		return;
	}
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	used = weir_estimates_report(
		daemon->estimates, (uint16_t)id, &report, weir_daemon_now_ns(), why, sizeof(why));
	if (used < 0) {
		weir_api_fail(call, WEIR_API_REFUSED, "backend %s/%s: %s", state.service,
			state.name, why);
		return;
	}
	weir_api_answer(call, json_pack("{s:s, s:s, s:o, s:o}", "service", state.service, "backend",
				      state.name, "used", json_fields((uint32_t)used), "not_used",
				      json_fields(report.given & ~(uint32_t)used)));
}
