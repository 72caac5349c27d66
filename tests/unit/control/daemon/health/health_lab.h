// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of health checks of many backends, against real sockets in a network namespace of this
// process. Needs root.
#pragma once

#include "health.h"
#include "watch_lab.h"

#define IDS 4096

struct lab {
	uv_loop_t loop;
	struct weir_health *health;
	int listener; // -1 = the port is closed
	int calls;
	uint16_t backend; // arguments of the last callback
	enum weir_health_verdict verdict;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	struct weir_config_health_check check;
	struct weir_health_target targets[IDS];
	uint32_t target_count;
	bool clear_in_callback;
	bool no_link; // the link to the backend is down
	unsigned int excused;
};

// Group set-up: a network namespace, with addresses that do not answer (WATCH_LAB_HOLE4 and
// WATCH_LAB_HOLE6).
int health_lab_enter(void **state);
// *state is a struct lab. The port is open, and no backend is checked yet.
int health_lab_setup(void **state);
int health_lab_teardown(void **state);
void open_port(struct lab *lab);
void close_port(struct lab *lab);
// Add a target with the parameters lab->check. It is checked after configure().
void add(struct lab *lab, uint16_t backend, const char *address);
int configure(struct lab *lab); // returns the result of weir_health_configure()
struct weir_health_status status_of(struct lab *lab, uint16_t backend);
void wait_for_call(struct lab *lab); // waits until the verdict of a backend changes

// Conditions of backend 7, for watch_lab_run(). context: a struct lab.
bool has_failed_twice(void *context);
bool has_passed(void *context);
bool has_passed_ten_times(void *context);
