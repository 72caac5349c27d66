// SPDX-License-Identifier: BSD-3-Clause
//
// Control attaches to a dataplane, but cannot allocate memory for bucket moves. Workers steal no
// buckets until control has allocated the memory.
#include <string.h>
#include <unistd.h>

#include "starved.h"
#include "steals.h"
#include "test.h"

#define ALLOCATIONS_MOST 100 // maximum number of allocations for attaching

struct lab {
	uv_loop_t loop;
	struct weir_log log;
	struct weir_segment *dataplane, *control;
	struct weir_mailboxes mailboxes;
	struct weir_steals *steals;
};

static void lab_init(struct lab *lab) {
	static const struct weir_port_info ports[1] = {{.name = "wan", .mtu = 1500}};
	const struct weir_segment_params params = {.workers = 2,
		.bucketing = WEIR_BUCKETING_YES,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.tsc_hz = 1000000000,
		.port_info = ports};

	*lab = (struct lab){.log = {.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR}};
	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_segment_create(&params, &lab->dataplane), 0);
	assert_int_equal(weir_segment_attach_own(lab->dataplane, &lab->control), 0);
	weir_mailboxes_init(&lab->mailboxes, &lab->loop, 1000);
	weir_mailboxes_bind(&lab->mailboxes, lab->control);
	assert_int_equal(weir_steals_create(&lab->mailboxes, &lab->log, &lab->steals), 0);
	weir_steals_configure(lab->steals, true);
}

static void lab_fini(struct lab *lab) {
	starved_after(-1);
	weir_mailboxes_fini(&lab->mailboxes);
	weir_steals_free(lab->steals);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	weir_segment_free(lab->control);
	weir_segment_free(lab->dataplane);
}

static void attach_with(struct lab *lab, long allocations) {
	starved_after(allocations);
	weir_steals_attach(lab->steals, lab->control);
}

static void expect_out_of_memory(struct lab *lab) {
	assert_null(weir_steals_moves(lab->steals));
	assert_string_equal(weir_steals_off(lab->steals), "weir-control is out of memory");
	assert_false(weir_segment_stealing(lab->dataplane));
}

static void expect_stealing(struct lab *lab) {
	assert_non_null(weir_steals_moves(lab->steals));
	assert_null(weir_steals_off(lab->steals));
	assert_true(weir_segment_stealing(lab->dataplane));
}

TEST(each_failed_allocation_is_retried_by_a_tick) {
	long failed = 0;

	for (bool all = false; !all; failed++) {
		struct lab lab;

		assert_in_range(failed, 0, ALLOCATIONS_MOST);
		lab_init(&lab);
		attach_with(&lab, failed);
		all = weir_steals_impossible(lab.steals) == NULL;
		if (!all) {
			expect_out_of_memory(&lab);
			starved_after(0);
			weir_steals_tick(lab.steals);
			expect_out_of_memory(&lab);
			starved_after(-1);
			weir_steals_tick(lab.steals);
		}
		expect_stealing(&lab);
		lab_fini(&lab);
	}
	assert_true(failed > 2); // at least for the moves and the planner
}

TEST(setting_made_meanwhile_is_kept) {
	struct lab lab;

	lab_init(&lab);
	attach_with(&lab, 0);
	weir_steals_set(lab.steals, WEIR_STEALING_OFF);
	expect_out_of_memory(&lab);
	starved_after(-1);
	weir_steals_tick(lab.steals);
	assert_non_null(weir_steals_moves(lab.steals));
	assert_string_equal(weir_steals_off(lab.steals), "switched off (weirctl worker steal)");
	assert_false(weir_segment_stealing(lab.dataplane));
	weir_steals_set(lab.steals, WEIR_STEALING_UNSET);
	expect_stealing(&lab);
	lab_fini(&lab);
}

TEST(a_detached_dataplane_is_not_retried) {
	struct lab lab;

	lab_init(&lab);
	attach_with(&lab, 0);
	weir_steals_detach(lab.steals);
	starved_after(-1);
	weir_steals_tick(lab.steals);
	assert_null(weir_steals_moves(lab.steals));
	assert_string_equal(weir_steals_off(lab.steals), "no weir-dataplane is attached");
	weir_steals_attach(lab.steals, lab.control);
	expect_stealing(&lab);
	lab_fini(&lab);
}
