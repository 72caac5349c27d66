// SPDX-License-Identifier: BSD-3-Clause
//
// Tables at the design scale. The test prints its measurements. Its limits are generous, so that
// they detect only a higher complexity.
#include "tables_lab.h"

#include <stdio.h>
#include <time.h>

static double now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void set_table_size(struct weir_config *config, uint32_t slots) {
	for (uint32_t s = 0; s < config->service_count; s++) {
		config->services[s].table_size = slots;
	}
}

// Change one backend's weight n times; each change is published. Returns milliseconds per change.
static double weight_changes(struct lab *lab, uint32_t n) {
	double begin = now_ms();

	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(
			weir_tables_set_weight(lab->tables, (uint16_t)(i * 97), 101 + i), 0);
		assert_int_equal(lab_publish(lab), 1);
		lab_quiescent(lab);
	}
	return (now_ms() - begin) / n;
}

static void measure(const char *what, uint32_t services, uint32_t backends, uint32_t slots,
	double apply_limit_ms, double change_limit_ms) {
	struct lab_room room = {
		.max_services = 1024, .max_backends = 16384, .heap_bytes = 1ull << 30};
	struct weir_config *config = lab_config(services, backends);
	struct weir_writer_usage usage;
	struct lab lab;
	double apply, again, restart, change, health;

	set_table_size(config, slots);
	lab_open(&lab, &room);
	apply = now_ms();
	lab_apply(&lab, config);
	apply = now_ms() - apply;
	again = now_ms();
	lab_apply(&lab, config);
	again = now_ms() - again;
	restart = now_ms();
	lab_restart(&lab);
	lab_apply(&lab, config);
	restart = now_ms() - restart;
	lab_quiescent(&lab);
	change = weight_changes(&lab, 100);
	health = now_ms();
	weir_tables_set_health(lab.tables, 7, WEIR_HEALTH_REFUSING);
	// This publishes only the row. The selection is built later.
	assert_int_equal(lab_publish(&lab), 1);
	health = now_ms() - health;
	weir_writer_usage(weir_tables_writer(lab.tables), &usage);
	print_message("%s: %u services, %u backends, %u slots: apply %.1f ms, the same again %.1f "
		      "ms, restart %.1f ms, a weight change %.2f ms, a health change %.2f ms, "
		      "%.1f MiB used\n",
		what, services, services * backends, slots, apply, again, restart, change, health,
		(double)usage.used_bytes / (1 << 20));
	assert_true(apply < apply_limit_ms);
	assert_true(again < 5000);
	assert_true(restart < 15000);
	assert_true(change < change_limit_ms);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(a_thousand_services) {
	measure("many services", 1000, 10, 65537, 60000, 60);
}

TEST(ten_thousand_backends_of_one_service) {
	measure("many backends", 1, 10000, 65537, 2000, 200);
}

// Many services drain at the same time, and their drains end in one tick. Each event
// and each row of the list of services contain binds of the service. Reading the whole table for
// each service would take a second.
TEST(first_removed_binds_of_a_thousand_services_are_at_hand) {
	static struct weir_config_bind all[1000];
	struct lab_room room = {.max_services = 1024, .max_backends = 16384};
	struct weir_config *config = lab_config(1000, 1), *next;
	struct weir_config_bind first[WEIR_TABLES_FIRST_REMOVED], one;
	double whole, each;
	struct lab lab;

	for (uint32_t s = 0; s < config->service_count; s++) {
		config->services[s].drain.removed_ms = 60000;
	}
	next = lab_config_copy(config);
	for (uint32_t s = 0; s < next->service_count; s++) {
		next->services[s].binds[0].port_first = next->services[s].binds[0].port_last = 81;
	}
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_apply(&lab, next);
	whole = now_ms();
	for (int i = 0; i < 10; i++) {
		assert_int_equal(
			weir_tables_removed_binds(lab.tables, WEIR_SERVICE_NONE, all, 1000), 1000);
	}
	whole = now_ms() - whole;
	each = now_ms();
	for (uint16_t id = 0; id < 1000; id++) {
		assert_int_equal(weir_tables_first_removed(lab.tables, id, first), 1);
		assert_int_equal(weir_tables_removed_binds(lab.tables, id, &one, 1), 1);
		assert_true(
			weir_address_equal(&one.address, &config->services[id].binds[0].address));
		assert_true(weir_address_equal(&one.address, &first[0].address));
		assert_int_equal(one.port_first, 80);
		assert_int_equal(one.port_last, 80);
	}
	each = now_ms() - each;
	print_message("removed binds: ten times all %.2f ms, those of 1000 services %.2f ms\n",
		whole, each);
	// reading the table for each service would take 100 times as long
	assert_true(each < 20 * whole);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}
