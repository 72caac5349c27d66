// SPDX-License-Identifier: BSD-3-Clause
//
// Tests changes that cannot be published yet: replies report this, and weir-control publishes the
// changes as soon as possible.
#include "small_web.h"

#include <signal.h>

#include "segment.h"

// The weight of w-1 changes at once. The new backend w-3 is selected as soon as its next hop is
// resolved.
#define THREE WEB("90") ", {\"name\": \"w-3\", \"address\": \"10.0.1.13\"}]}"

// Workers are stalled, so replaced tables stay in the heap until it is full. Returns the first
// weight that could not be published.
static int fill_the_heap(struct web *web) {
	int weight = 200;

	lab_dataplane_hang(web->dataplane, true);
	while (set_weight(web, weight)) {
		weight++;
		assert_true(weight < 300);
	}
	return weight;
}

static void wait_a_few_ticks(void) {
	uint64_t since = lab_now_ms();

	LAB_UNTIL(lab_now_ms() - since > 350);
}

TEST_GROUP(lab_own_network);
TEST_EACH(small_start, web_stop);

TEST(change_that_does_not_fit_now_is_published_later) {
	struct web *web = *state;
	const struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	int weight = fill_the_heap(web);
	weir_ref before = segment->roots->selection[0];
	json_t *answer;

	assert_int_equal(weight > 202, 1);
	answer = lab_ask(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"}));
	assert_non_null(not_published(answer));
	assert_true(json_is_false(json_object_get(answer, "published")));
	json_decref(answer);
	answer = lab_ask(&web->lab, JSON({"command": "service.show"}));
	assert_non_null(not_published(answer));
	assert_null(json_object_get(answer, "published")); // the command has changed no state
	json_decref(answer);
	wait_a_few_ticks();
	assert_false(all_is_published(web));
	assert_true(segment->roots->selection[0] == before);
	assert_int_equal(times_logged(web, "cannot publish new tables: "), 1);
	assert_int_equal(times_logged(web, "all changes are published"), 0);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(all_is_published(web));
	assert_int_equal(times_logged(web, "all changes are published"), 1);
	assert_true(segment->roots->selection[0] != before);
	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 100);
	assert_int_equal(lab_dataplane_flows_of(web->dataplane, 1), 0); // the backend is drained
	// wait until memory is free, because otherwise the next publication would fail
	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	assert_true(set_weight(web, 7));
	assert_int_equal(times_logged(web, "cannot publish new tables: "), 1);
}

// The row of a drained backend can always be published. The new selection cannot be published if
// the heap has no room for it, and weir-control must report this.
TEST(selection_that_follows_and_does_not_fit_is_reported) {
	struct web *web = *state;
	const struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	int most = fill_the_heap(web) - 200; // number of changes for which there is memory
	unsigned int logged = times_logged(web, "cannot publish new tables: ");
	weir_ref before;

	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(all_is_published(web));
	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	lab_dataplane_hang(web->dataplane, true);
	for (int i = 0; i < most; i++) {
		assert_true(set_weight(web, 400 + i));
	}
	before = segment->roots->selection[0];
	json_decref(lab_ask(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"})));
	LAB_UNTIL(!all_is_published(web));
	wait_a_few_ticks();
	assert_int_equal(times_logged(web, "cannot publish new tables: "), logged + 1);
	assert_true(segment->roots->selection[0] == before);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(all_is_published(web));
	assert_true(segment->roots->selection[0] != before);
	assert_int_equal(times_logged(web, "all changes are published"), 2);
}

// weir-control restarts after all memory of the heap has been in use. The new process cannot
// publish until a grace period is over. It keeps its configuration, and reports that the
// configuration is not published yet.
TEST(configuration_waits_for_the_grace_period_after_a_restart) {
	struct web *web = *state;
	const struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	weir_ref before;
	json_t *answer;

	fill_the_heap(web);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(all_is_published(web));
	wait_a_few_ticks();
	lab_dataplane_hang(web->dataplane, true);
	before = segment->roots->selection[0];
	lab_kill(&web->lab);
	lab_write_config(&web->lab, THREE);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	assert_false(all_is_published(web));
	answer = lab_ask(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"}));
	assert_non_null(strstr(not_published(answer), "worker 0 still uses replaced tables"));
	assert_true(json_is_false(json_object_get(answer, "published")));
	json_decref(answer);
	wait_a_few_ticks();
	assert_true(segment->roots->selection[0] == before);
	assert_int_equal(times_logged(web, "the configuration is not published yet: "), 1);
	assert_int_equal(times_logged(web, "the whole configuration is now published"), 0);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(all_is_published(web));
	assert_int_equal(times_logged(web, "the whole configuration is now published"), 1);
	// The selection with w-3 is published when the next hop of w-3 is resolved.
	LAB_UNTIL(takes_flows(web, 2));
	assert_int_equal(lab_dataplane_flows_of(web->dataplane, 1), 0); // the backend is drained
	assert_int_equal(times_logged(web, "the configuration is not published yet: "), 1);
}

// A configuration waits to be published. Meanwhile the operator restores the file and reloads. The
// configuration that was read last is published.
TEST(reload_replaces_a_waiting_configuration) {
	struct web *web = *state;

	fill_the_heap(web);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(all_is_published(web));
	wait_a_few_ticks();
	lab_dataplane_hang(web->dataplane, true);
	lab_kill(&web->lab);
	lab_write_config(&web->lab, THREE);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	assert_false(all_is_published(web));
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "refused");
	lab_dataplane_hang(web->dataplane, false);
	lab_write_config(&web->lab, TWO);
	LAB_UNTIL(strcmp(lab_code(&web->lab, JSON({"command": "config.reload"})), "ok") == 0);
	assert_true(all_is_published(web));
	wait_a_few_ticks();
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "backend.show", "service": "web",
			"backend": "w-3"})), "not-found");
}

// Waits a few ticks. Returns whether control has published nothing meanwhile, and the workers have
// loaded all publications.
static bool is_at_rest(struct web *web) {
	const struct weir_news *news = lab_dataplane_segment(web->dataplane)->news;
	uint64_t before = __atomic_load_n(&news->updates, __ATOMIC_ACQUIRE);

	wait_a_few_ticks();
	return lab_dataplane_caught_up(web->dataplane) &&
	       __atomic_load_n(&news->updates, __ATOMIC_ACQUIRE) == before;
}

// Overwrite the reference to a service's selection with an invalid one, as a hostile process could.
static void spoil_selection(struct weir_segment *rude, weir_ref bad) {
	struct weir_news *news = rude->news;

	__atomic_store_n(&rude->roots->selection[0], bad, __ATOMIC_RELEASE);
	rude->updates->update[news->updates % WEIR_UPDATES] = weir_update(WEIR_UPDATE_SELECTION, 0);
	__atomic_store_n(&news->updates, news->updates + 1, __ATOMIC_RELEASE);
}

// All workers refuse an invalid table. Control rebuilds it, and logs one line for each worker.
TEST(refused_table_is_rebuilt_and_logged_once) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane), *rude;
	weir_ref bad;

	assert_int_equal(weir_segment_attach_own(segment, &rude), 0);
	LAB_UNTIL(is_at_rest(web));
	assert_int_equal(kill(web->lab.control, SIGSTOP), 0);
	bad = segment->roots->selection[0] ^ 1ull << 40;
	spoil_selection(rude, bad);
	LAB_UNTIL(weir_counter_read(&segment->refusals[0].refused) == 1 &&
		  weir_counter_read(&segment->refusals[1].refused) == 1);
	assert_int_equal(kill(web->lab.control, SIGCONT), 0);
	LAB_UNTIL(times_logged(web, "refused the new selection of web") == 2);
	LAB_UNTIL(weir_counter_read(&segment->refusals[0].refused) == 0 &&
		  weir_counter_read(&segment->refusals[1].refused) == 0);
	assert_int_equal(weir_counter_read(&segment->refusals[0].selections), 1);
	assert_int_equal(weir_counter_read(&segment->refusals[1].selections), 1);
	assert_true(segment->roots->selection[0] != bad);
	wait_a_few_ticks();
	assert_int_equal(times_logged(web, "refused the new selection of web"), 2);
	assert_int_equal(times_logged(web, "worker 0 refused the new selection of web"), 1);
	assert_true(set_weight(web, 7));
	weir_segment_free(rude);
}
