// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weir-control with 1,000 services that have 10 backends each, and another service with
// 2,000 backends. Requests must be answered soon, and changes must be published soon. The limits
// of CPU time are far above the measured times. So the test fails if work is quadratic, but not
// on a slow or busy machine.
#include "daemon_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SERVICES 1000
#define BACKENDS 10
#define LARGE 2000
#define SOON_MS 2000

struct own_lab {
	struct lab lab;
	struct lab_dataplane *dataplane;
};

static size_t add_service(char *text, size_t used, size_t room, unsigned int service,
	unsigned int backends, unsigned int weight) {
	used += (size_t)snprintf(text + used, room - used,
		"%s{\"name\": \"s-%u\", \"binds\": [{\"address\": \"198.51.%u.%u\", \"protocol\": "
		"\"tcp\", \"port\": 80}], \"table_size\": 4099, \"backends\": [",
		used > 0 ? ", " : "", service, 100 + service / 250, service % 250 + 1);
	for (unsigned int i = 0; i < backends; i++) {
		used += (size_t)snprintf(text + used, room - used,
			"%s{\"name\": \"b-%u\", \"address\": \"10.%u.%u.%u\", \"weight\": %u}",
			i > 0 ? ", " : "", i, 1 + service / 250, service % 250,
			i % 250 + 1 + i / 250, weight);
	}
	return used + (size_t)snprintf(text + used, room - used, "]}");
}

static void write_services(const struct lab *lab, unsigned int first, unsigned int weight) {
	size_t room = 4u << 20, used = 0;
	char *text = malloc(room);

	for (unsigned int i = first; i < SERVICES; i++) {
		used = add_service(text, used, room, i, BACKENDS, weight);
	}
	used += (size_t)snprintf(text + used, room - used,
		", {\"name\": \"large\", \"binds\": [{\"address\": \"198.51.120.1\", \"protocol\": "
		"\"udp\", \"port\": 53}], \"table_size\": 65537, \"backends\": [");
	for (unsigned int i = 0; i < LARGE; i++) {
		used += (size_t)snprintf(text + used, room - used,
			"%s{\"name\": \"l-%u\", \"address\": \"10.99.%u.%u\"}", i > 0 ? ", " : "",
			i, i / 250, i % 250 + 1);
	}
	snprintf(text + used, room - used, "]}");
	lab_write_config(lab, text);
	free(text);
}

static int setup(void **state) {
	struct own_lab *own = calloc(1, sizeof(*own));

	lab_init(&own->lab);
	write_services(&own->lab, 0, 100);
	lab_start(&own->lab);
	own->dataplane = lab_dataplane_start_big(&own->lab, 2);
	LAB_UNTIL(lab_attached(&own->lab));
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own_lab *own = *state;
	int status = lab_stop(&own->lab);

	lab_dataplane_stop(own->dataplane);
	lab_fini(&own->lab);
	free(own);
	return status;
}

// Returns the CPU time of control since its start.
static uint64_t cpu_ms(const struct own_lab *own) {
	clockid_t clock;
	struct timespec time;

	assert_int_equal(clock_getcpuclockid(own->lab.control, &clock), 0);
	assert_int_equal(clock_gettime(clock, &time), 0);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static json_t *timed(struct own_lab *own, const char *request) {
	uint64_t began = cpu_ms(own), took;
	json_t *result = lab_result(&own->lab, "%s", request);

	took = cpu_ms(own) - began;
	print_message("%5u ms  %s\n", (unsigned int)took, request);
	assert_true(took < SOON_MS);
	return result;
}

TEST_GROUP(lab_own_network);
TEST_GROUP(setup, teardown);

TEST(everything_is_answered_soon) {
	static const char *const requests[] = {"{\"command\": \"service.show\"}",
		"{\"command\": \"backend.show\"}", "{\"command\": \"stats.show\"}",
		"{\"command\": \"health.show\"}", "{\"command\": \"metrics.show\"}",
		"{\"command\": \"flow.count\"}",
		"{\"command\": \"backend.show\", \"service\": \"large\", \"backend\": \"l-1999\"}"};
	struct own_lab *own = *state;

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		json_decref(timed(own, requests[i]));
	}
}

TEST(one_change_is_published_soon) {
	struct own_lab *own = *state;
	json_t *stats;

	json_decref(
		timed(own, JSON({"command": "backend.drain", "service": "s-500", "backend": "b-5"})));
	json_decref(
		timed(own, JSON({"command": "backend.drain", "service": "large", "backend": "l-5"})));
	stats = lab_result(&own->lab, JSON({"command": "stats.show"}));
	print_message("%5u us  publication of the large service, grace period %u us\n",
		(unsigned int)json_integer_value(
			json_object_get(json_object_get(stats, "segment"), "last_publish_us")),
		(unsigned int)json_integer_value(
			json_object_get(json_object_get(stats, "segment"), "last_grace_us")));
	json_decref(stats);
}

TEST(reload_of_everything_is_done_soon) {
	struct own_lab *own = *state;
	json_t *result = timed(own, JSON({"command": "config.reload"}));

	assert_int_equal(json_array_size(json_object_get(result, "changes")), 0);
	json_decref(result);
	write_services(&own->lab, 0, 50);
	result = timed(own, JSON({"command": "config.reload"}));
	assert_int_equal(json_array_size(json_object_get(result, "changes")), SERVICES * BACKENDS);
	json_decref(result);
}

// While the services are being listed, a reload changes the order of all services. Each
// remaining service is still listed once.
TEST(list_of_services_continues_over_a_reload) {
	static const char show[] = "{\"command\": \"service.show\"}\n";
	struct own_lab *own = *state;
	unsigned int listed[SERVICES + 1] = {0};
	int fd = lab_connect(&own->lab);
	json_t *answer, *service;
	size_t i;

	write_services(&own->lab, 1, 50);
	lab_send(fd, show, sizeof(show) - 1);
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	answer = lab_read_answer(fd);
	json_array_foreach (json_object_get(answer, "result"), i, service) {
		const char *name = json_string_value(json_object_get(service, "name"));

		listed[name[0] == 's' ? strtoul(name + 2, NULL, 10) : SERVICES]++;
	}
	for (i = 1; i <= SERVICES; i++) {
		assert_int_equal(listed[i], 1);
	}
	assert_true(listed[0] <= 1);
	json_decref(answer);
	close(fd);
}

TEST(s3_restarted_control_adopts_it_soon) {
	struct own_lab *own = *state;
	const struct weir_notes *notes = lab_dataplane_segment(own->dataplane)->notes;
	uint64_t publications, began;

	json_decref(lab_result(&own->lab, JSON({"command": "version"})));
	publications = weir_counter_read(&notes->publications);
	lab_kill(&own->lab);
	began = lab_now_ms();
	lab_start(&own->lab);
	LAB_UNTIL(lab_attached(&own->lab));
	print_message("%5u ms  restart and adoption\n", (unsigned int)(lab_now_ms() - began));
	// If next hops are still being resolved, control publishes a few rows, but not all 1,001
	// selections again.
	assert_true(weir_counter_read(&notes->publications) - publications < 100);
}
