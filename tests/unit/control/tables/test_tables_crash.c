// SPDX-License-Identifier: BSD-3-Clause
//
// Tests guarantees S3, S5 and S6. Control applies a configuration, publishes a change or withdraws
// tables. The test simulates a crash of control after each store in turn: another control process
// starts with the memory as it was after this store. Workers find valid tables at all times, and
// the row of a flow does not change. Memory that a worker uses is not overwritten (S5). In the end
// the published tables are the same as without the crash.
#include "tables_lab.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "service_table.h"
#include "stores_lab.h"

#define SERVICES 4
#define BACKENDS 16
// Only one in HEAP_EVERY stores to the heap is tested. This is enough, because nothing refers to
// new heap memory yet.
#define HEAP_EVERY 61

static const struct lab_room room = {
	.max_services = SERVICES, .max_backends = BACKENDS, .heap_bytes = 256 << 10};

// A copy of the published tables and of the stored identities, for comparisons. It is zeroed before
// it is filled in.
struct picture {
	struct weir_backend_row row[BACKENDS];
	struct weir_identity_backend backend[BACKENDS];
	struct weir_identity_service service[SERVICES];
	struct {
		uint32_t count, slot_count;
		struct weir_candidate candidate[BACKENDS];
		uint16_t slot[LAB_TABLE_SIZE];
	} selection[SERVICES];
	uint16_t looked_up[SERVICES];
};

static void take_picture(struct lab *lab, struct picture *ret) {
	memset(ret, 0, sizeof(*ret));
	for (uint16_t id = 0; id < BACKENDS; id++) {
		ret->row[id] = lab_row(lab, id);
		if (lab->segment->identity_backends[id].state != 0) {
			ret->backend[id] = lab->segment->identity_backends[id];
		}
		if (lab->segment->identity_backends[id].state >> 26 != WEIR_DRAIN_DRAINING) {
			ret->backend[id].drain_until_ns = 0; // this value is not used
		}
	}
	for (uint16_t id = 0; id < SERVICES; id++) {
		const struct weir_policy_table *table = &lab_selection(lab, id)->table;
		uint8_t vip[16] = {198, 51, 0, (uint8_t)id};

		if (lab->segment->identity_services[id].state != 0) {
			ret->service[id] = lab->segment->identity_services[id];
		}
		if (ret->service[id].drain != WEIR_DRAIN_DRAINING) {
			ret->service[id].drain_until_ns = 0; // this value is not used
		}
		if (ret->service[id].removal == WEIR_DRAIN_NONE) {
			ret->service[id].removal_until_ns = 0; // this value is not used
		}
		ret->looked_up[id] =
			weir_service_lookup(lab_services(lab), vip, 4, IPPROTO_TCP, 80);
		ret->selection[id].count = table->count;
		ret->selection[id].slot_count = table->slot_count;
		assert_true(table->count <= BACKENDS && table->slot_count <= LAB_TABLE_SIZE);
		if (table->count > 0) {
			memcpy(ret->selection[id].candidate, table->candidates,
				table->count * sizeof(table->candidates[0]));
		}
		if (table->slot_count > 0) {
			memcpy(ret->selection[id].slot, table->slots,
				table->slot_count * sizeof(table->slots[0]));
		}
	}
}

// --- a crash ------------------------------------------------------------------------------

struct crash {
	struct stores stores;
	const struct weir_config *config; // configuration of the next control process
	bool flows[BACKENDS];
	struct weir_backend_row row[BACKENDS]; // rows of backends with flows
	// the final tables if the process is killed before its first or after its last store
	struct picture *before, *after;
	// whether `before` and `after` may differ; if so, each outcome must equal one of them
	bool differ;
	bool is_after; // whether the outcome `after` has occurred
	void (*check)(struct lab *lab); // actions of the next control process; NULL = none
};

static bool take_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct weir_backend_row *rows = context;

	rows[backend] = *row;
	return true;
}

// Check that each service with candidates has at least one open candidate.
static void assert_some_open(
	const struct weir_reader *reader, const struct weir_backend_row *rows) {
	for (uint8_t i = 0; i < SERVICES; i++) {
		const uint8_t vip[16] = {198, 51, 0, i};
		uint16_t bind =
			weir_service_lookup(weir_reader_services(reader), vip, 4, IPPROTO_TCP, 80);
		uint16_t service = weir_bind_existing(bind);
		const struct weir_policy_table *table;
		uint32_t open = 0;

		if (service == WEIR_SERVICE_NONE || (bind & WEIR_BIND_REMOVED) != 0) {
			continue;
		}
		table = &weir_reader_selection(reader, service)->table;
		for (uint32_t at = 0; at < table->count; at++) {
			open += (rows[table->candidates[at].id].flags & WEIR_BACKEND_CLOSED) == 0;
		}
		assert_true(open > 0 || table->count == 0);
	}
}

// Check the tables of a worker that starts now. They must be complete, and refer only to existing
// objects (guarantee S2).
static void assert_sound(struct lab *lab) {
	struct weir_backend_row rows[BACKENDS] = {0};
	struct weir_reader reader;

	assert_int_equal(weir_reader_init(&reader, lab->segment, 1, take_row, rows), 0);
	assert_int_equal(weir_segment_follow(lab->segment), 0);
	weir_reader_online(&reader);
	assert_int_equal(reader.refusals.refused, 0);
	for (uint16_t service = 0; service < SERVICES; service++) {
		const struct weir_policy_table *table =
			&weir_reader_selection(&reader, service)->table;

		for (uint32_t i = 0; i < table->count; i++) {
			assert_true(rows[table->candidates[i].id].flags & WEIR_BACKEND_PRESENT);
			assert_int_equal(rows[table->candidates[i].id].service, service);
		}
	}
	assert_some_open(&reader, rows);
	weir_reader_offline(&reader);
	weir_reader_fini(&reader);
}

static void assert_flows_stay(const struct crash *crash, struct lab *lab) {
	for (uint16_t id = 0; id < BACKENDS; id++) {
		struct weir_backend_row row = lab_row(lab, id);

		// The change may modify how flows are handled, so only the other fields are
		// compared.
		row.flags &= WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED;
		if (crash->flows[id]) {
			assert_memory_equal(&row, &crash->row[id], sizeof(row));
		}
	}
}

static uint64_t sum_up(const struct lab *lab) {
	uint64_t sum = 0;

	for (uint32_t service = 0; service < SERVICES; service++) {
		const struct weir_policy_table *table = &lab->reader.selection[service].table;

		for (uint32_t i = 0; i < table->slot_count; i++) {
			sum = sum * 31 + table->candidates[table->slots[i]].id;
		}
	}
	return sum;
}

// Opens the segment that a process left when it was killed after n stores. The worker still has the
// tables from before the crash.
static void open_crashed(const struct crash *crash, uint32_t n, struct lab *ret) {
	ret->segment = lab_segment(&room);
	ret->control = lab_attach(ret->segment);
	assert_int_equal(ret->control->tables_bytes, crash->stores.bytes);
	stores_replay(&crash->stores, 0, ret->control->tables);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		lab_set_flows(ret, 1, id, crash->flows[id]);
	}
	lab_worker_start(ret);
	stores_replay(&crash->stores, n, ret->control->tables);
}

static void compare(struct crash *crash, uint32_t n, const struct picture *outcome) {
	bool is_before = memcmp(outcome, crash->before, sizeof(*outcome)) == 0;
	bool is_after = memcmp(outcome, crash->after, sizeof(*outcome)) == 0;

	if (!is_before && !is_after) {
		fail_msg("wrong outcome after %u of %u stores", n, crash->stores.count);
	}
	if (crash->differ && crash->is_after && !is_after) {
		fail_msg(
			"after %u of %u stores, an earlier change is lost", n, crash->stores.count);
	}
	crash->is_after |= is_after;
}

// Test a process that was killed after n stores. ret: returns the outcome; NULL = compare it with
// the expected outcomes.
static void crash_after(struct crash *crash, uint32_t n, struct picture *ret) {
	struct picture *outcome = malloc(sizeof(*outcome));
	struct lab lab;
	uint64_t sum;

	assert_non_null(outcome);
	open_crashed(crash, n, &lab);
	assert_sound(&lab);
	if (n % 2 == 0) {
		// for odd n, the worker reads the tables only after the restart
		assert_flows_stay(crash, &lab);
	}
	sum = sum_up(&lab);
	assert_int_equal(weir_tables_open(lab.control, &lab.tables), 0);
	assert_sound(&lab);
	lab_apply(&lab, crash->config);
	assert_int_equal(sum_up(&lab), sum);
	assert_sound(&lab);
	assert_flows_stay(crash, &lab);
	lab_settle(&lab);
	lab_settle(&lab);
	assert_flows_stay(crash, &lab);
	if (crash->check != NULL) {
		crash->check(&lab);
	}
	take_picture(&lab, ret != NULL ? ret : outcome);
	if (ret == NULL) {
		compare(crash, n, outcome);
	}
	lab_close(&lab);
	free(outcome);
}

static void begin(struct crash *crash, struct lab *lab) {
	for (uint16_t id = 0; id < BACKENDS; id++) {
		crash->flows[id] =
			weir_segment_backend_counters(lab->segment, 1, id)->active_flows > 0;
		crash->row[id] = lab_row(lab, id);
		crash->row[id].flags &= WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED;
	}
	stores_begin(&crash->stores, lab->control->tables, lab->segment->tables,
		lab->control->tables_bytes);
}

// Test a crash after each of the stores since begin().
static void end(struct crash *crash, const struct lab *lab, const struct weir_config *config) {
	uint64_t heap = lab->segment->heap_off;
	uint32_t checked = 0;

	stores_end(&crash->stores);
	crash->config = config;
	crash->before = malloc(sizeof(*crash->before));
	crash->after = malloc(sizeof(*crash->after));
	assert_non_null(crash->before);
	assert_non_null(crash->after);
	crash_after(crash, 0, crash->before);
	crash_after(crash, crash->stores.count, crash->after);
	if (!crash->differ) {
		assert_memory_equal(crash->before, crash->after, sizeof(*crash->after));
	}
	for (uint32_t n = 1; n < crash->stores.count; n++) {
		if (crash->stores.store[n - 1].offset < heap || n % HEAP_EVERY == 0) {
			crash_after(crash, n, NULL);
			checked++;
		}
	}
	print_message("%u stores, %u crashes\n", crash->stores.count, checked);
	assert_true(crash->stores.count > 0);
	free(crash->before);
	free(crash->after);
	stores_fini(&crash->stores);
}

// --- tests --------------------------------------------------------------------------------

static void set_hops(struct lab *lab) {
	for (uint16_t id = 0; id < weir_tables_backend_ids(lab->tables); id++) {
		struct weir_next_hop hop = lab_hop((uint8_t)id);

		weir_tables_set_next_hop(lab->tables, id, &hop);
	}
	assert_true(weir_tables_publish(lab->tables) > 0);
}

TEST(s3_crash_at_any_store_of_an_apply) {
	struct weir_config *config = lab_config(2, 3), *next = lab_config(3, 4);
	struct crash crash = {0};
	struct lab lab;

	if (!stores_work()) {
		skip();
	}
	lab_remove_backend(next, 0, 0);
	next->services[1].backends[1].address.bytes[3] = 99;
	next->services[0].backends[1].weight = 40; // b2: drops the run-time weight
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	weir_tables_set_weight(lab.tables, 2, 7);
	weir_tables_set_admin(lab.tables, 5, WEIR_ADMIN_DRAIN);
	set_hops(&lab);
	lab_settle(&lab);
	lab_set_flows(&lab, 1, 0, 1); // this backend is removed
	lab_set_flows(&lab, 1, 1, 1); // this backend stays
	// this backend gets another address, so it becomes another backend
	lab_set_flows(&lab, 1, 4, 1);
	lab_set_flows(&lab, 1, 5, 1);
	begin(&crash, &lab);
	lab_apply(&lab, next);
	end(&crash, &lab, next);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

// All backends are replaced. After a crash, new flows go either to the old backends or to the new
// backends, until the next process starts.
TEST(s3_crash_at_any_store_leaves_an_open_backend) {
	struct weir_config *config = lab_config(1, 3), *next = lab_config(1, 3);
	struct crash crash = {0};
	struct lab lab;

	if (!stores_work()) {
		skip();
	}
	for (int i = 0; i < 3; i++) {
		next->services[0].backends[i].address.bytes[3] = (uint8_t)(100 + i);
	}
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	set_hops(&lab);
	lab_settle(&lab);
	begin(&crash, &lab);
	lab_apply(&lab, next);
	end(&crash, &lab, next);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

static void check_reported(struct lab *lab) {
	struct weir_backend_state state = lab_state(lab, 0);

	assert_int_equal(state.reported_weight, 500);
	assert_int_equal(state.effective_weight, state.runtime_weight == 1 ? 5 : 500);
	assert_int_equal(lab_state(lab, 1).reported_weight, 700);
}

// The run-time weight of a backend with a reported weight changes, and the process is killed after
// each store in turn. The reported weight must survive in every case.
TEST(s3_reported_weight_survives_a_crash_at_any_store) {
	struct weir_config *config = lab_config(1, 3);
	struct crash crash = {.differ = true, .check = check_reported};
	struct lab lab;

	if (!stores_work()) {
		skip();
	}
	config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	weir_tables_set_reported_weight(lab.tables, 0, 500);
	weir_tables_set_reported_weight(lab.tables, 1, 700);
	set_hops(&lab);
	lab_settle(&lab);
	begin(&crash, &lab);
	weir_tables_set_weight(lab.tables, 0, 1);
	assert_true(weir_tables_publish(lab.tables) > 0);
	end(&crash, &lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

static void check_automatic(struct lab *lab) {
	uint32_t first = lab_state(lab, 0).auto_weight;

	assert_true(lab_state(lab, 0).weight_auto);
	assert_true(first == 240 || first == 480);
	assert_int_equal(lab_state(lab, 1).auto_weight, 120);
	assert_int_equal(lab_state(lab, 2).configured_weight, (first + 120) / 2);
}

TEST(s3_automatic_weight_survives_a_crash_at_any_store) {
	struct weir_config *config = lab_config(1, 3);
	struct crash crash = {.differ = true, .check = check_automatic};
	struct lab lab;

	if (!stores_work()) {
		skip();
	}
	for (int i = 0; i < 3; i++) {
		config->services[0].backends[i].weight_auto = true;
	}
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	weir_tables_set_auto_weight(lab.tables, 0, 240);
	weir_tables_set_auto_weight(lab.tables, 1, 120);
	set_hops(&lab);
	lab_settle(&lab);
	begin(&crash, &lab);
	weir_tables_set_auto_weight(lab.tables, 0, 480);
	assert_true(weir_tables_publish(lab.tables) > 0);
	end(&crash, &lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(s3_crash_at_any_store_of_a_change) {
	struct weir_config *config = lab_config(2, 4);

	if (!stores_work()) {
		skip();
	}
	for (int what = 0; what < 3; what++) {
		struct crash crash = {.differ = true};
		struct lab lab;

		lab_open(&lab, &room);
		lab_apply(&lab, config);
		set_hops(&lab);
		lab_settle(&lab);
		lab_set_flows(&lab, 1, 5, 3);
		begin(&crash, &lab);
		if (what == 0) {
			weir_tables_set_weight(lab.tables, 5, 30);
		} else if (what == 1) {
			weir_tables_set_admin(lab.tables, 5, WEIR_ADMIN_DRAIN);
		} else {
			weir_tables_set_policy(lab.tables, 1, WEIR_POLICY_LEAST_LOADED);
		}
		assert_true(weir_tables_publish(lab.tables) > 0);
		end(&crash, &lab, config);
		lab_close(&lab);
	}
	lab_config_free(config);
}

#define DEADLINE 5000000000ull // CLOCK_MONOTONIC, ns

static void drain_service(struct lab *lab, bool drained) {
	assert_int_equal(
		weir_tables_drain_binds(lab->tables, 1, NULL, drained, drained ? DEADLINE : 0), 0);
}

// Check that the service and the backend either drain until their deadline, or do not drain.
static void check_deadline(struct lab *lab) {
	struct weir_backend_state backend = lab_state(lab, 5);
	struct weir_service_state service;

	assert_int_equal(weir_tables_service(lab->tables, 1, &service), 0);
	if (service.drain == WEIR_DRAIN_DRAINING) {
		assert_int_equal(service.drain_until_ns, DEADLINE);
	}
	if (backend.drain == WEIR_DRAIN_DRAINING) {
		assert_int_equal(backend.drain_until_ns, DEADLINE);
	}
}

// Tests crashes while a service begins to drain, while its flows are dropped at the deadline, and
// while it becomes ready again. Then tests the same for a backend.
TEST(s3_crash_at_any_store_of_a_drain) {
	struct weir_config *config = lab_config(2, 4);

	if (!stores_work()) {
		skip();
	}
	for (int what = 0; what < 6; what++) {
		struct crash crash = {.differ = true, .check = check_deadline};
		struct lab lab;

		lab_open(&lab, &room);
		lab_apply(&lab, config);
		set_hops(&lab);
		if (what == 1 || what == 2) {
			drain_service(&lab, true);
		} else if (what > 3) {
			weir_tables_set_drain(lab.tables, 5, WEIR_DRAIN_DRAINING, DEADLINE);
		}
		lab_settle(&lab);
		lab_set_flows(&lab, 1, 5, 3);
		begin(&crash, &lab);
		if (what == 0 || what == 2) {
			drain_service(&lab, what == 0);
		} else if (what == 1) {
			weir_tables_end_bind_drain(lab.tables, 1, WEIR_DRAIN_DROPPED, 1);
		} else if (what == 3) {
			weir_tables_set_drain(lab.tables, 5, WEIR_DRAIN_DRAINING, DEADLINE);
		} else if (what == 4) {
			weir_tables_set_drain(lab.tables, 5, WEIR_DRAIN_DROPPED, DEADLINE);
		} else {
			weir_tables_set_admin(lab.tables, 5, WEIR_ADMIN_READY);
		}
		assert_true(weir_tables_publish(lab.tables) > 0);
		print_message("%d: ", what);
		end(&crash, &lab, config);
		lab_close(&lab);
	}
	lab_config_free(config);
}

#define REMOVED_MS 7000u
#define ESTABLISHED_MS 90000u

// Check that the crash does not change the time at which a removal ends.
static void check_removal(struct lab *lab) {
	struct weir_service_state service;

	assert_int_equal(weir_tables_service(lab->tables, 1, &service), 0);
	if (service.removal != WEIR_DRAIN_NONE) {
		assert_int_equal(service.removal_until_ns, service.removal == WEIR_DRAIN_DRAINING
								   ? REMOVED_MS * 1000000ull
								   : ESTABLISHED_MS * 1000000ull);
	}
}

// Tests crashes while a bind or a service is removed, while the flows of the bind end, and while
// the bind is withdrawn or added again. The tables' clock is at 0.
TEST(s3_crash_at_any_store_of_a_removal) {
	struct weir_config *config = lab_config(2, 4);

	if (!stores_work()) {
		skip();
	}
	config->flow_table.established_ms = ESTABLISHED_MS;
	config->services[1].drain.removed_ms = REMOVED_MS;
	config->services[1].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	for (int what = 0; what < 8; what++) {
		struct crash crash = {.differ = true, .check = check_removal};
		struct weir_config *next = lab_config_copy(config);
		struct lab lab;

		if (what < 4) {
			next->services[1].binds[0].port_first = 8080;
			next->services[1].binds[0].port_last = 8080;
		} else {
			lab_remove_service(next, 1);
		}
		lab_open(&lab, &room);
		lab_apply(&lab, config);
		set_hops(&lab);
		lab_set_flows(&lab, 1, 5, 3);
		for (int i = 0; i < what % 4; i++) {
			if (i == 0) {
				lab_apply(&lab, next);
			} else if (i == 1) {
				weir_tables_end_removal(lab.tables, 1, false);
				lab_publish(&lab);
			}
		}
		lab_settle(&lab);
		begin(&crash, &lab);
		if (what % 4 == 0 || what % 4 == 3) {
			lab_apply(&lab, what % 4 == 0 ? next : config);
		} else {
			weir_tables_end_removal(lab.tables, 1, false);
			assert_true(weir_tables_publish(lab.tables) > 0);
		}
		print_message("%d: ", what);
		end(&crash, &lab, what % 4 == 3 ? config : next);
		lab_close(&lab);
		lab_config_free(next);
	}
	lab_config_free(config);
}

// A backend and a service are removed step by step. Other backends are added, and get the ids that
// have become free.
TEST(s3_crash_at_any_store_of_an_add_and_a_remove) {
	struct weir_config *config = lab_config(3, 2), *less = lab_config(2, 2),
			   *more = lab_config(2, 4);
	struct lab lab;

	if (!stores_work()) {
		skip();
	}
	lab_remove_backend(less, 0, 0);
	lab_remove_backend(more, 0, 0);
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	set_hops(&lab);
	lab_settle(&lab);
	lab_set_flows(&lab, 1, 1, 1);
	lab_set_flows(&lab, 1, 3, 1);
	for (int phase = 0; phase < 8; phase++) {
		struct crash crash = {0};

		lab_quiescent(&lab);
		begin(&crash, &lab);
		if (phase == 0) {
			lab_apply(&lab, less);
		} else if (phase < 7) {
			weir_tables_tick(lab.tables);
		} else {
			lab_apply(&lab, more);
		}
		if (crash.stores.count == 0) {
			stores_end(&crash.stores);
			stores_fini(&crash.stores);
			continue;
		}
		end(&crash, &lab, phase < 7 ? less : more);
	}
	assert_int_equal(lab_id(&lab, "s0", "b2"), 0); // b2 has the id that has become free
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
	lab_config_free(more);
}
