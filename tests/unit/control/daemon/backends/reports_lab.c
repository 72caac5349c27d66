// SPDX-License-Identifier: BSD-3-Clause
#include "reports_lab.h"

#include <stdlib.h>
#include <time.h>

uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void on_changed(void *context) {
	struct own *own = context;

	own->changes++;
}

int reports_lab_setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->config = lab_config(1, 4);
	own->config->services[0].flow_control.accept_queue_percent = 75;
	own->config->services[0].agent.port = 4711;
	own->config->instance.clients = 1;
	own->config->instance.members = 1;
	lab_open(&own->lab, NULL);
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_create(&own->log, on_changed, own, &own->states), 0);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_estimates_create(&own->estimates), 0);
	assert_int_equal(weir_estimates_follow(own->estimates, own->lab.tables, own->config, 1), 0);
	assert_int_equal(
		weir_reports_create(own->states, own->estimates, on_changed, own, &own->reports),
		0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	*state = own;
	return 0;
}

int reports_lab_teardown(void **state) {
	struct own *own = *state;

	weir_reports_free(own->reports);
	weir_states_free(own->states);
	weir_estimates_free(own->estimates);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

void reload(struct own *own) {
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
}

void assert_why(struct own *own, uint16_t id, const char *why) {
	struct weir_states_status status;

	assert_int_equal(weir_states_status(own->states, id, &status), 0);
	assert_string_equal(status.why, why);
}
