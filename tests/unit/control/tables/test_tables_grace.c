// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the tables of control while grace periods do not end: at the first apply after a restart,
// while workers refuse tables, and while removed ids still have flows.
#include "tables_lab.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "blob.h"
#include "stores_lab.h"

// --- the first apply after a restart ------------------------------------------------------

#define SMALL_HEAP (256 << 10)

// Publish until the whole heap has been in use once. The next control process then has to wait for
// a grace period before it may write any memory of the heap.
static void use_up_the_heap(struct lab *lab, const struct weir_config *config) {
	uint32_t weight = 1000;

	lab_apply(lab, config);
	do {
		assert_true(weight < 2000);
		weir_tables_set_weight(lab->tables, 0, weight++);
	} while (weir_tables_publish(lab->tables) >= 0);
	lab_settle(lab);
	weir_tables_set_weight(lab->tables, 0, WEIR_WEIGHT_UNSET);
	assert_true(weir_tables_publish(lab->tables) > 0);
	lab_settle(lab);
}

struct late_worker {
	struct lab *lab;
	unsigned int after_ms;
};

static void *report_late(void *context) {
	struct late_worker *late = context;
	struct timespec pause = {.tv_nsec = (long)late->after_ms * 1000000};

	nanosleep(&pause, NULL);
	lab_quiescent(late->lab);
	return NULL;
}

static struct weir_config *big_config(uint32_t backends) {
	struct weir_config *config = lab_config(1, backends);

	config->services[0].table_size = 16381; // the slots take 32 kB, an eighth of the heap
	return config;
}

TEST(first_apply_after_a_restart_waits_for_the_grace_period) {
	struct lab_room room = {.heap_bytes = SMALL_HEAP};
	struct weir_config *config = big_config(2), *next = big_config(3);
	struct late_worker late = {.after_ms = 30};
	struct lab lab;
	pthread_t thread;

	lab_open(&lab, &room);
	use_up_the_heap(&lab, config);
	lab_restart(&lab);
	late.lab = &lab;
	assert_int_equal(pthread_create(&thread, NULL, report_late, &late), 0);
	lab_apply(&lab, next);
	pthread_join(thread, NULL);
	assert_int_equal(lab_selection(&lab, 0)->table.count, 3);
	assert_ptr_equal(weir_tables_config(lab.tables), next);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// A worker does not report at first. The apply times out, and its error message contains the number
// of the worker. No change is lost. As soon as the worker reports, the same apply succeeds, and
// includes changes made in between.
TEST(first_apply_after_a_restart_gives_up_on_a_stalled_worker) {
	struct lab_room room = {.heap_bytes = SMALL_HEAP};
	struct weir_config *config = big_config(2), *next = big_config(3);
	struct lab_published before;
	char why[256] = "";
	struct lab lab;
	uint64_t began;

	lab_open(&lab, &room);
	use_up_the_heap(&lab, config);
	lab_published(&lab, &before);
	lab_restart(&lab);
	began = now_ms();
	assert_int_equal(weir_tables_apply(lab.tables, next, why, sizeof(why)), -EBUSY);
	assert_true(now_ms() - began >= WEIR_TABLES_WAIT_MS);
	assert_non_null(strstr(why, "worker 0 still uses replaced tables"));
	assert_null(weir_tables_config(lab.tables));
	assert_true(weir_tables_wait(lab.tables));
	lab_assert_published(&lab, &before);
	assert_int_equal(weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_DRAIN), 0);
	// nothing can be published before a configuration is applied
	assert_int_equal(weir_tables_publish(lab.tables), 0);
	lab_assert_published(&lab, &before);
	assert_true(weir_tables_wait(lab.tables));
	lab_quiescent(&lab);
	assert_false(weir_tables_wait(lab.tables));
	lab_apply(&lab, next);
	// one of three backends is drained
	assert_int_equal(lab_selection(&lab, 0)->table.count, 2);
	assert_int_equal(lab_slots(&lab, 0, 1), 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

// --- refusals -----------------------------------------------------------------------------

static void assert_no_refusal(struct lab *lab) {
	struct weir_tables_refusal refusal;

	assert_false(weir_tables_refused(lab->tables, &refusal));
}

// Check that memory and ids become free when the worker reports again.
static void assert_grace_goes_on(struct lab *lab) {
	uint64_t mark = weir_writer_mark(weir_tables_writer(lab->tables));

	lab_quiescent(lab);
	lab_quiescent(lab);
	assert_true(weir_writer_passed(weir_tables_writer(lab->tables), mark));
}

static void publish_broken(struct lab *lab, struct weir_root root) {
	struct weir_writer *writer = weir_tables_writer(lab->tables);
	struct weir_selection *selection = weir_writer_alloc(writer, root.kind, 4096);

	assert_non_null(selection);
	if (root.kind == WEIR_BLOB_SELECTION) {
		selection->service = 9; // another service
		selection->subsets = 1;
	} else {
		((struct weir_service_table *)(void *)selection)->buckets = 3; // not a power of two
	}
	assert_int_equal(weir_writer_publish(writer, root, selection), 0);
}

TEST(refused_table_is_replaced_by_the_previous_one) {
	struct weir_config *config = lab_config(2, 3);
	struct weir_tables_refusal refusal;

	for (int services = 0; services < 2; services++) {
		struct weir_root root = {
			.kind = services ? WEIR_BLOB_SERVICES : WEIR_BLOB_SELECTION,
			.service = services ? 0 : 1};
		struct lab_published before, after;
		struct lab lab;

		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		lab_settle(&lab);
		lab_published(&lab, &before);
		assert_no_refusal(&lab);
		publish_broken(&lab, root);
		// The worker still uses its previous tables.
		assert_in_range(lab_slots(&lab, 1, 4), 80, 87);
		assert_non_null(lab_services(&lab)->buckets);
		assert_int_equal(lab.reader.refusals.refused, 1);
		assert_true(weir_tables_refused(lab.tables, &refusal));
		assert_int_equal(refusal.worker, 0);
		assert_int_equal(
			refusal.kind, services ? WEIR_UPDATE_SERVICES : WEIR_UPDATE_SELECTION);
		assert_int_equal(refusal.id, root.service);
		assert_true(refusal.restored);
		assert_no_refusal(&lab);
		lab_published(&lab, &after);
		assert_int_equal(after.services, before.services);
		assert_memory_equal(after.selection, before.selection, sizeof(after.selection));
		assert_in_range(lab_slots(&lab, 1, 4), 80, 87);
		assert_int_equal(lab.reader.refusals.refused, 0);
		assert_grace_goes_on(&lab);
		assert_no_refusal(&lab);
		lab_close(&lab);
	}
	lab_config_free(config);
}

static void log_update(struct lab *lab, enum weir_update_kind kind, uint16_t id) {
	struct weir_news *news = lab->control->news;

	lab->control->updates->update[news->updates % WEIR_UPDATES] = weir_update(kind, id);
	__atomic_store_n(&news->updates, news->updates + 1, __ATOMIC_RELEASE);
}

// Another process has overwritten a root or a table. Control cannot restore the previous table, so
// it builds a new one.
TEST(overwritten_table_is_rebuilt) {
	struct weir_config *config = lab_config(2, 3);
	struct weir_tables_refusal refusal;

	for (int what = 0; what < 3; what++) {
		struct lab lab;
		weir_ref ref;

		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		lab_settle(&lab);
		ref = lab.segment->roots->selection[1];
		if (what == 0) {
			lab.control->roots->selection[1] = ref ^ 1ull << 40;
			log_update(&lab, WEIR_UPDATE_SELECTION, 1);
		} else if (what == 1) {
			((struct weir_blob *)(void *)(lab.control->tables +
						      (ref & 0xffffffff) * 64))
				->lines = 0;
			log_update(&lab, WEIR_UPDATE_SELECTION, 1);
		} else {
			lab.control->roots->services ^= 1ull << 40;
			log_update(&lab, WEIR_UPDATE_SERVICES, 0);
		}
		lab_quiescent(&lab);
		assert_int_equal(lab.reader.refusals.refused, 1);
		assert_true(weir_tables_refused(lab.tables, &refusal));
		assert_false(refusal.restored);
		assert_no_refusal(&lab);
		assert_int_equal(lab_publish(&lab), 1);
		assert_in_range(lab_slots(&lab, 1, 4), 80, 87);
		assert_non_null(lab_services(&lab)->buckets);
		assert_int_equal(lab.reader.refusals.refused, 0);
		assert_grace_goes_on(&lab);
		assert_no_refusal(&lab);
		lab_close(&lab);
	}
	lab_config_free(config);
}

// Two workers refuse the same table. Control restores the table only once.
TEST(table_that_two_workers_refuse_is_restored_once) {
	struct weir_config *config = lab_config(2, 3);
	struct weir_tables_refusal refusal;
	struct weir_reader second;
	struct lab lab;
	uint64_t publications;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_reader_init(&second, lab.segment, 1, NULL, NULL), 0);
	lab_quiescent(&lab);
	weir_reader_online(&second);
	publish_broken(&lab, (struct weir_root){.kind = WEIR_BLOB_SELECTION, .service = 1});
	lab_quiescent(&lab);
	weir_reader_settle(&second);
	publications = lab.segment->notes->publications;
	for (uint32_t worker = 0; worker < 2; worker++) {
		assert_true(weir_tables_refused(lab.tables, &refusal));
		assert_int_equal(refusal.worker, worker);
		assert_true(refusal.restored);
	}
	assert_no_refusal(&lab);
	assert_int_equal(lab.segment->notes->publications, publications + 1);
	assert_int_equal(lab_publish(&lab), 0);
	weir_reader_settle(&second);
	assert_int_equal(second.refusals.refused, 0);
	weir_reader_offline(&second);
	weir_reader_fini(&second);
	lab_close(&lab);
	lab_config_free(config);
}

// A new control process reports refusals of current tables. It does not report refusals from before
// its start.
TEST(past_refusal_is_not_reported_again) {
	struct weir_config *config = lab_config(2, 3);
	struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = 1};
	struct weir_tables_refusal refusal;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_settle(&lab);
	publish_broken(&lab, root);
	lab_quiescent(&lab);
	assert_true(weir_tables_refused(lab.tables, &refusal));
	lab_quiescent(&lab);
	assert_int_equal(lab.reader.refusals.refused, 0);
	lab_restart(&lab);
	assert_no_refusal(&lab);
	lab_apply(&lab, config);
	assert_no_refusal(&lab);
	publish_broken(&lab, root);
	lab_quiescent(&lab);
	lab_restart(&lab);
	assert_true(weir_tables_refused(lab.tables, &refusal));
	assert_int_equal(refusal.id, 1);
	assert_false(refusal.restored);
	lab_apply(&lab, config);
	lab_quiescent(&lab);
	assert_int_equal(lab.reader.refusals.refused, 0);
	assert_no_refusal(&lab);
	lab_close(&lab);
	lab_config_free(config);
}

// --- flows that move ----------------------------------------------------------------------

// A bucket moves from one worker to another. Control reads the workers' gauges one after the other,
// so their sum may be 0 although flows exist. Ids stay reserved until no move is in progress.
TEST(ids_stay_while_buckets_move) {
	struct lab_room room = {.bucketing = WEIR_BUCKETING_YES};
	struct weir_config *config = lab_config(2, 2), *less = lab_config_copy(config);
	struct weir_backend_state found;
	struct weir_steal_counters *steals;
	struct lab lab;

	lab_remove_backend(less, 0, 0);
	lab_remove_service(less, 1);
	lab_open(&lab, &room);
	steals = lab.segment->steal_counters;
	lab_apply(&lab, config);
	steals[0].answers[WEIR_BUCKET_CONFIRMED] = 4;
	steals[1].answers[WEIR_BUCKET_CONFIRMED] = 3;
	steals[0].buckets_given = 4;
	steals[1].buckets_given = 2;
	lab_apply(&lab, less);
	lab_settle(&lab);
	assert_true(lab_state(&lab, 0).leaving);
	assert_true(lab_state(&lab, 2).leaving);
	assert_true(lab_row(&lab, 0).flags & WEIR_BACKEND_PRESENT);
	steals[1].buckets_given = 3;
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables); // the row is withdrawn
	assert_int_equal(lab_row(&lab, 0).flags, 0);
	// another worker has confirmed moves that have not ended
	steals[0].answers[WEIR_BUCKET_CONFIRMED] = 5;
	lab_settle(&lab);
	assert_true(lab_state(&lab, 0).leaving);
	assert_non_null(weir_tables_service_name(lab.tables, 1));
	steals[0].buckets_given = 5;
	lab_settle(&lab);
	assert_int_equal(weir_tables_backend(lab.tables, 0, &found), -ENOENT);
	assert_int_equal(weir_tables_backend(lab.tables, 2, &found), -ENOENT);
	assert_null(weir_tables_service_name(lab.tables, 1));
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// A service without backends also keeps its id while a bucket moves, because the service has a
// gauge of its own.
TEST(id_of_a_service_stays_while_buckets_move) {
	struct lab_room room = {.bucketing = WEIR_BUCKETING_YES};
	struct weir_config *config = lab_config(2, 0), *less = lab_config_copy(config);
	struct lab lab;

	lab_remove_service(less, 1);
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab.segment->steal_counters[1].answers[WEIR_BUCKET_CONFIRMED] = 1;
	lab_apply(&lab, less);
	lab_settle(&lab);
	assert_non_null(weir_tables_service_name(lab.tables, 1));
	lab.segment->steal_counters[1].buckets_given = 1;
	lab_settle(&lab);
	assert_null(weir_tables_service_name(lab.tables, 1));
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// --- many removed ids ---------------------------------------------------------------------

#define MANY 10000
#define LOOKS_AT_ONCE 8192

// Returns how many cache lines of the backends' counters a tick reads.
static uint64_t looks_of_a_tick(struct lab *lab) {
	uint8_t *counters = (uint8_t *)lab->control->backend_counters;
	struct looks looks;

	looks_begin(&looks, counters,
		(size_t)LAB_WORKERS * lab->control->max_backends *
			sizeof(struct weir_share_counters));
	weir_tables_tick(lab->tables);
	looks_end(&looks);
	return looks.count;
}

TEST(many_leaving_backends_cost_a_bounded_tick) {
	struct lab_room room = {.max_backends = 16384, .heap_bytes = 16 << 20};
	struct weir_config *config = lab_config(1, MANY), *none = lab_config(1, 1);
	uint64_t looked = 0;
	struct lab lab;

	if (!stores_work()) {
		skip();
	}
	config->services[0].table_size = none->services[0].table_size = 16381;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_quiescent(&lab);
	for (uint16_t id = 0; id < MANY; id++) {
		lab_set_flows(&lab, id % LAB_WORKERS, id, 1);
	}
	lab_apply(&lab, none);
	for (int i = 0; i < 6; i++) {
		uint64_t looks;

		lab_quiescent(&lab);
		looks = looks_of_a_tick(&lab);
		assert_in_range(looks, 1, LOOKS_AT_ONCE);
		looked += looks;
	}
	// several ticks together have read the counters of all ids
	assert_true(looked > (uint64_t)MANY * LAB_WORKERS);
	assert_true(lab_state(&lab, MANY - 1).leaving);
	for (uint16_t id = 1; id < MANY; id++) {
		lab_set_flows(&lab, id % LAB_WORKERS, id, 0);
	}
	for (int i = 0; i < 24 && weir_tables_backend_ids(lab.tables) > 1; i++) {
		lab_quiescent(&lab);
		assert_in_range(looks_of_a_tick(&lab), 1, LOOKS_AT_ONCE);
	}
	assert_int_equal(weir_tables_backend_ids(lab.tables), 1);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_backend_ids(lab.tables), MANY);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(none);
}

// A reused id still has the counts of its former backend, which are subtracted. An id that never
// had a row has no such counts, so its counters are not read. Reading the counters of thousands
// of new ids for all workers would take seconds.
TEST(baseline_is_the_previous_count_of_the_id) {
	struct weir_config *first = lab_config(1, 2), *second = lab_config(1, 2);
	struct weir_share_counters *counters;
	struct lab lab;

	strcpy(second->services[0].backends[0].name, "other");
	lab_open(&lab, NULL);
	counters = weir_segment_backend_counters(lab.segment, 0, 0);
	counters->new_flows = 7;
	lab_apply(&lab, first);
	assert_int_equal(lab.control->backend_bases[0].new_flows, 0);
	first->services[0].backend_count = 1; // only b1, with its present id
	first->services[0].backends++;
	lab_apply(&lab, first);
	lab_settle(&lab);
	lab_apply(&lab, second);
	assert_int_equal(weir_tables_backend_find(lab.tables, "s0", "other"), 0);
	assert_int_equal(lab.control->backend_bases[0].new_flows, 7);
	lab_close(&lab);
	first->services[0].backends--;
	lab_config_free(first);
	lab_config_free(second);
}
