// SPDX-License-Identifier: BSD-3-Clause
#include "health_lab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 8200

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct lab *lab = context;

	lab->calls++;
	lab->backend = backend;
	lab->verdict = verdict;
	strncpy(lab->detail, detail, sizeof(lab->detail) - 1);
	if (lab->clear_in_callback) {
		assert_int_equal(weir_health_configure(lab->health, NULL, 0), 0);
	}
}

void open_port(struct lab *lab) {
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	int one = 1;

	lab->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(lab->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(lab->listener, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(lab->listener, 4096), 0);
}

void close_port(struct lab *lab) {
	close(lab->listener);
	lab->listener = -1;
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	(void)context;
	(void)report;
	fail_msg("unexpected report of backend %u from %s", backend, source);
}

int health_lab_enter(void **state) {
	int r = watch_lab_enter(state);

	if (!r) {
		watch_lab_make_hole();
	}
	return r;
}

int health_lab_setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	uv_loop_init(&lab->loop);
	assert_int_equal(
		weir_health_create(&lab->loop, on_health, on_report, lab, &lab->health), 0);
	lab->check = (struct weir_config_health_check){
		.type = WEIR_CHECK_TCP,
		.interval_ms = 20,
		.timeout_ms = 500,
		.rise = 2,
		.fall = 3,
	};
	open_port(lab);
	*state = lab;
	return 0;
}

int health_lab_teardown(void **state) {
	struct lab *lab = *state;

	weir_health_free(lab->health);
	watch_lab_close(&lab->loop);
	if (lab->listener >= 0) {
		close(lab->listener);
	}
	free(lab);
	return 0;
}

void add(struct lab *lab, uint16_t backend, const char *address) {
	lab->targets[lab->target_count++] = (struct weir_health_target){
		.backend = backend,
		.port = PORT,
		.address = watch_lab_address(address),
		.check = &lab->check,
		.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
	};
}

int configure(struct lab *lab) {
	return weir_health_configure(lab->health, lab->targets, lab->target_count);
}

struct weir_health_status status_of(struct lab *lab, uint16_t backend) {
	struct weir_health_status status;

	assert_int_equal(weir_health_status(lab->health, backend, false, &status), 0);
	return status;
}

static bool was_called(void *context) {
	return ((struct lab *)context)->calls > 0;
}

void wait_for_call(struct lab *lab) {
	lab->calls = 0;
	watch_lab_run(&lab->loop, was_called, lab, 5000, "callback");
}

bool has_failed_twice(void *context) {
	return status_of(context, 7).streak == 2 && !status_of(context, 7).passed;
}

bool has_passed(void *context) {
	return status_of(context, 7).passed;
}

bool has_passed_ten_times(void *context) {
	return status_of(context, 7).passes >= 10;
}
