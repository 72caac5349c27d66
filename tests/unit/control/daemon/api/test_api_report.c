// SPDX-License-Identifier: BSD-3-Clause
//
// Tests backend.report through the control socket of a real weir-control process.
#include "daemon_lab.h"

#include <stdlib.h>
#include <string.h>

#define SERVICE(name, vip, policy) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"" vip "\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"policy\": " policy ", \"backends\": [" \
	"{\"name\": \"b-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"b-2\", \"address\": \"10.0.1.12\"}]}"
#define SERVICES \
	SERVICE("load", "198.51.100.10", \
		"{\"name\": \"weighted-round-robin\", \"weights\": \"reported\"}") \
	", " SERVICE("time", "198.51.100.11", \
		"{\"name\": \"fair-share\", \"service_time\": \"reported\"}") ", " SERVICE("none", \
		"198.51.100.12", "{\"name\": \"round-robin\"}")

#define REPORT(service, fields) \
	"{\"command\": \"backend.report\", \"service\": \"" service \
	"\", \"backend\": \"b-1\"" fields "}"

struct own_lab {
	struct lab lab;
	struct lab_dataplane *dataplane;
};

static int setup(void **state) {
	struct own_lab *f = calloc(1, sizeof(*f));

	lab_init(&f->lab);
	lab_write_config(&f->lab, SERVICES);
	lab_start(&f->lab);
	f->dataplane = lab_dataplane_start(&f->lab, 1);
	LAB_UNTIL(lab_attached(&f->lab));
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct own_lab *f = *state;
	int status = lab_stop(&f->lab);

	lab_dataplane_stop(f->dataplane);
	lab_fini(&f->lab);
	free(f);
	return status;
}

static void expect_list(const json_t *result, const char *member, const char *json) {
	json_t *wanted = json_loads(json, 0, NULL);

	if (!json_equal(json_object_get(result, member), wanted)) {
		fail_msg("%s is %s", member,
			json_dumps(json_object_get(result, member), JSON_ENCODE_ANY));
	}
	json_decref(wanted);
}

TEST_GROUP(lab_own_network);
TEST_GROUP(setup, teardown);

TEST(report_of_a_service_time_becomes_a_cost) {
	struct own_lab *f = *state;
	json_t *result = lab_result(
		&f->lab, REPORT("time", ", \"service_time_ms\": 2.5, \"utilization\": 1"));

	expect_list(result, "used", "[\"service_time_ms\"]");
	expect_list(result, "not_used", "[\"utilization\"]");
	assert_string_equal(json_string_value(json_object_get(result, "service")), "time");
	assert_string_equal(json_string_value(json_object_get(result, "backend")), "b-1");
	json_decref(result);
	assert_int_equal(lab_dataplane_segment(f->dataplane)->costs[2], 2500000);
	assert_int_equal(lab_dataplane_segment(f->dataplane)->costs[3], 2500000);
}

TEST(report_of_load_is_used) {
	struct own_lab *f = *state;
	json_t *result = lab_result(
		&f->lab, REPORT("load", ", \"requests_per_second\": 100, \"utilization\": 0.5, "
					"\"errors_per_second\": null"));

	expect_list(result, "used", "[\"requests_per_second\", \"utilization\"]");
	expect_list(result, "not_used", "[]");
	json_decref(result);
}

static void expect_error(
	const struct own_lab *f, const char *request, const char *code, const char *text) {
	json_t *answer = lab_ask(&f->lab, "%s", request);
	const char *error = json_string_value(json_object_get(answer, "error"));

	assert_string_equal(json_string_value(json_object_get(answer, "code")), code);
	if (strstr(error, text) == NULL) {
		fail_msg("\"%s\" is not in \"%s\"", text, error);
	}
	json_decref(answer);
}

TEST(refused_reports) {
	struct own_lab *f = *state;

	expect_error(f, REPORT("none", ", \"utilization\": 1"), "refused",
		"backend none/b-1: the policy of the service does not use reports");
	expect_error(f, REPORT("time", ", \"utilization\": 1"), "refused", "service-time-ms");
	expect_error(f, REPORT("load", ", \"utilization\": 1"), "refused",
		"requests-per-second (above 0) and utilization in each report");
	expect_error(f, REPORT("time", ""), "bad-request", "empty");
	expect_error(
		f, REPORT("time", ", \"service_time_ms\": -1"), "bad-request", "of at least 0");
	expect_error(
		f, REPORT("time", ", \"service_time_ms\": \"1\""), "bad-request", "of at least 0");
	expect_error(f, REPORT("time", ", \"service_time_ms\": 1e300"), "bad-request", "86400000");
	expect_error(f, REPORT("time", ", \"latency_ms\": 1"), "bad-request", "no argument");
	expect_error(f, REPORT("ftp", ", \"utilization\": 1"), "not-found", "ftp");
}
