// SPDX-License-Identifier: BSD-3-Clause
#include "probe_lab.h"

#include <string.h>
#include <unistd.h>

void probe_done(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report) {
	struct result *result = context;

	result->calls++;
	result->reported = report != NULL;
	if (report != NULL) {
		result->report = *report;
	}
	result->outcome = outcome;
	strncpy(result->detail, detail, sizeof(result->detail) - 1);
}

bool probe_has_result(void *context) {
	return ((struct result *)context)->calls > 0;
}

struct result probe_curl(const char *address, uint16_t port,
	const struct weir_config_health_check *check, unsigned int stall_ms) {
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address(address),
		.port = port,
		.check = check,
		.done = probe_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	uv_loop_t loop;
	int r;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	r = weir_health_http_start(curl, &params, &http);
	assert_int_equal(result.calls, 0);
	if (r) { // a probe that cannot start gets the same result as in health_check.c
		probe_done(&result, weir_probe_outcome_of(r), uv_strerror(r), NULL);
	}
	if (stall_ms > 0) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(stall_ms * 1000);
	}
	watch_lab_run(&loop, probe_has_result, &result, 5000, address);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
	assert_int_equal(result.calls, 1);
	return result;
}

void probe_expect(const char *address, uint16_t port, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail, const char *what) {
	struct result result = probe_curl(address, port, check, 0);

	if (result.outcome != outcome || strcmp(result.detail, detail) != 0) {
		fail_msg("%s: %d \"%s\" instead of %d \"%s\"", what, result.outcome, result.detail,
			outcome, detail);
	}
}
