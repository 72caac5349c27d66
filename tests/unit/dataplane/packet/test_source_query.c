// SPDX-License-Identifier: BSD-3-Clause
//
// Source query: the answers of a worker to requests about the affinity table, and what packets of
// removed sources get.
#include "flow_query.h"
#include "source_lab.h"

TEST_GROUP(lab_eal);

static struct weir_message ask_for(
	struct lab *lab, enum weir_message_kind kind, uint8_t n, uint16_t backend) {
	struct weir_message message = {.sequence = 7,
		.kind = kind,
		.source = {.address = {192, 0, 2, n},
			.family = 4,
			.found = 9,
			.proven = 9,
			.backend = backend}};

	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.sequence, 7);
	assert_int_equal(message.source.answered, 1);
	assert_int_equal(message.source.address[3], n);
	assert_int_equal(message.source.backend != WEIR_BACKEND_NONE, message.source.found != 0);
	return message;
}

static struct weir_message ask_of(struct lab *lab, enum weir_message_kind kind, uint8_t n) {
	return ask_for(lab, kind, n, WEIR_BACKEND_NONE);
}

static struct weir_message look_up(struct lab *lab, uint8_t n) {
	return ask_of(lab, WEIR_MESSAGE_SOURCE_LOOKUP, n);
}

TEST(source_lookup_has_the_entry) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	struct weir_message message = look_up(lab, 1);
	uint16_t backend;

	assert_int_equal(message.source.found, 0);
	assert_int_equal(message.source.entry, WEIR_SOURCE_ENTRY_NONE);
	assert_in_range(message.source.chosen, 0, 3);
	backend = client(lab, 1, 1000, SYN);
	message = look_up(lab, 1);
	assert_int_equal(message.source.found, 1);
	assert_int_equal(message.source.proven, 0);
	assert_int_equal(message.source.entry, WEIR_SOURCE_ENTRY_KNOWN);
	assert_int_equal(message.source.backend, backend);
	assert_int_equal(message.source.chosen, backend);
	assert_in_range(message.source.left_ms, TIMEOUT_MS - 600, TIMEOUT_MS + 600);
	client(lab, 1, 1000, ACK);
	assert_int_equal(look_up(lab, 1).source.proven, 1);
	assert_int_equal(look_up(lab, 2).source.found, 0);
	close_backend(lab, backend, true);
	message = look_up(lab, 1);
	assert_int_equal(message.source.entry, WEIR_SOURCE_ENTRY_STALE);
	assert_int_equal(message.source.backend, backend);
	assert_int_not_equal(message.source.chosen, backend);
	close_lab(lab);
}

TEST(source_lookup_finds_every_address_of_a_prefix) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab;
	uint16_t backend;

	params.settings.hash4 = 28 | WEIR_HASH_AFFINITY;
	lab = open_lab(&params);
	backend = client(lab, 16, 1000, SYN);
	for (uint8_t n = 16; n < 32; n++) {
		assert_int_equal(look_up(lab, n).source.backend, backend);
	}
	assert_int_equal(look_up(lab, 15).source.found, 0);
	assert_int_equal(look_up(lab, 32).source.found, 0);
	close_lab(lab);
}

// The flow continues; the policy chooses for the next flow of the client.
TEST(source_delete_forgets_one_client) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint16_t first = client(lab, 1, 1000, SYN), other = client(lab, 2, 1000, SYN);
	struct weir_message message;

	client(lab, 1, 1000, ACK);
	message = ask_for(lab, WEIR_MESSAGE_SOURCE_DELETE, 1, (uint16_t)(first + 1));
	assert_int_equal(message.source.found, 0); // the client is not at this backend
	message = ask_for(lab, WEIR_MESSAGE_SOURCE_DELETE, 1, first);
	assert_int_equal(message.source.found, 1);
	assert_int_equal(message.source.proven, 1);
	assert_int_equal(message.source.backend, first);
	assert_int_equal(ask_of(lab, WEIR_MESSAGE_SOURCE_DELETE, 1).source.found, 0);
	assert_int_equal(look_up(lab, 1).source.found, 0);
	assert_int_equal(look_up(lab, 2).source.backend, other);
	assert_int_equal(client(lab, 1, 1000, ACK), first);
	assert_int_not_equal(client(lab, 1, 1001, SYN), first);
	assert_int_equal(client(lab, 1, 1000, ACK), first);
	close_lab(lab);
}

// A connection that ends before the next one begins makes the client known again.
TEST(source_is_remembered_again_when_its_flow_ends) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint16_t first = client(lab, 1, 1000, SYN);

	client(lab, 1, 1000, ACK);
	ask_of(lab, WEIR_MESSAGE_SOURCE_DELETE, 1);
	client(lab, 1, 1000, FIN_ACK);
	assert_int_equal(client(lab, 1, 1001, SYN), first);
	close_lab(lab);
}

TEST(source_lookup_by_hash_has_the_backend_of_flows) {
	struct weir_selection_params params = params_of(WEIR_POLICY_MAGLEV);
	struct lab *lab;

	params.settings.hash4 = 32;
	params.settings.hash6 = 128;
	lab = open_lab(&params);
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const struct weir_message message = look_up(lab, n);

		assert_int_equal(message.source.found, 0);
		assert_int_equal(message.source.entry, WEIR_SOURCE_ENTRY_NONE);
		assert_int_equal(message.source.chosen, client(lab, n, 1000, SYN));
	}
	close_lab(lab);
}

// The client is not enough to know the backend if ports or destinations are hashed.
TEST(source_lookup_without_affinity_has_no_backend) {
	static const uint8_t fields[] = {0, 32 | WEIR_HASH_DESTINATION};

	for (unsigned int i = 0; i < sizeof(fields); i++) {
		struct weir_selection_params params = params_of(WEIR_POLICY_MAGLEV);
		struct weir_message message;
		struct lab *lab;

		params.settings.hash4 = fields[i];
		params.settings.hash6 = fields[i] != 0 ? 128 : 0;
		lab = open_lab(&params);
		message = look_up(lab, 1);
		assert_int_equal(message.source.chosen, WEIR_BACKEND_NONE);
		message.kind = WEIR_MESSAGE_SOURCE_LOOKUP;
		message.source.service = UINT16_MAX;
		weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
		assert_int_equal(message.source.chosen, WEIR_BACKEND_NONE);
		close_lab(lab);
	}
}

TEST(source_queries_without_a_table) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct weir_message message = {.kind = WEIR_MESSAGE_SOURCE_WALK, .walk = {.last = 9}};
	struct lab *lab = make(&params);

	assert_int_equal(look_up(lab, 1).source.entry, WEIR_SOURCE_ENTRY_NO_TABLE);
	assert_int_equal(look_up(lab, 1).source.chosen, client(lab, 1, 1000, SYN));
	assert_int_equal(ask_of(lab, WEIR_MESSAGE_SOURCE_DELETE, 1).source.found, 0);
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.walk.answered, 1);
	assert_int_equal(message.walk.lines, 0);
	assert_int_equal(message.walk.next, 0);
	lab_free(lab);
}

// --- walks ------------------------------------------------------------------------------------

struct counts {
	uint32_t proven[4], others[4], removed, messages;
};

// Walks over the whole table. remove: remove the entries of this backend and service instead of
// counting.
static struct counts walk(struct lab *lab, bool remove, uint16_t backend, uint16_t service) {
	const struct weir_flow_pages *pages = &lab->segment->flow_pages[lab->params.worker];
	struct weir_message message = {.kind = WEIR_MESSAGE_SOURCE_WALK,
		.walk = {.last = UINT32_MAX, .backend = backend, .service = service, .page = 3}};
	struct counts counts = {.messages = 0};
	uint32_t lines = 1;

	message.walk.remove = remove;
	while (message.walk.first < lines) {
		const uint16_t *page = pages->source[3];

		weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
		lines = message.walk.lines;
		assert_int_equal(lines, table->buckets);
		assert_true(message.walk.next > message.walk.first);
		assert_in_range(message.walk.next - message.walk.first, 1, WEIR_LIST_LINES);
		message.walk.first = message.walk.next;
		counts.messages++;
		if (remove) {
			counts.removed += message.walk.others;
			continue;
		}
		assert_in_range(message.walk.proven + message.walk.others, 0, WEIR_SOURCE_PAGE);
		for (uint32_t i = 0; i < message.walk.proven; i++) {
			counts.proven[page[i]]++;
		}
		for (uint32_t i = 0; i < message.walk.others; i++) {
			counts.others[page[WEIR_SOURCE_PAGE - 1 - i]]++;
		}
	}
	return counts;
}

static struct counts count_all(struct lab *lab) {
	return walk(lab, false, WEIR_BACKEND_NONE, WEIR_SERVICE_NONE);
}

TEST(source_walk_counts_each_entry_once) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	uint32_t proven[4] = {0}, others[4] = {0};
	struct counts counts;

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint16_t backend = client(lab, n, 1000, SYN);

		if (n % 3 == 0) {
			client(lab, n, 1000, ACK);
		}
		(n % 3 == 0 ? proven : others)[backend]++;
	}
	counts = count_all(lab);
	assert_memory_equal(counts.proven, proven, sizeof(proven));
	assert_memory_equal(counts.others, others, sizeof(others));
	close_lab(lab);
}

// A full table: the page is full before the maximum number of lines.
TEST(source_walk_of_a_full_table_is_bounded_by_its_page) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint32_t entries = table->buckets * WEIR_AFFINITY_WAYS;
	struct counts counts;

	for (uint64_t n = 0; n < 20 * entries; n++) {
		weir_affinity_enter(table, weir_hash_bytes(&n, sizeof(n), 1), 2, WEIR_AFFINITY_NONE,
			true, TIMEOUT_MS, lab->now_ns);
	}
	counts = count_all(lab);
	assert_int_equal(counts.proven[2], entries);
	assert_int_equal(counts.messages, (entries + WEIR_SOURCE_PAGE - 1) / WEIR_SOURCE_PAGE);
	counts = walk(lab, true, 2, WEIR_SERVICE_NONE);
	assert_int_equal(counts.removed, entries);
	assert_int_equal(counts.messages, table->buckets / WEIR_LIST_LINES);
	assert_int_equal(count_all(lab).proven[2], 0);
	close_lab(lab);
}

TEST(source_walk_removes_a_backend_or_a_service) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	struct counts before;

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		client(lab, n, 1000, SYN);
	}
	before = count_all(lab);
	assert_int_equal(walk(lab, true, 1, 5).removed, 0); // backend 1 is not of service 5
	assert_int_equal(walk(lab, true, WEIR_BACKEND_NONE, 5).removed, 0);
	assert_int_equal(walk(lab, true, 1, 0).removed, before.others[1]);
	assert_int_equal(count_all(lab).others[1], 0);
	assert_int_equal(count_all(lab).others[2], before.others[2]);
	assert_int_equal(walk(lab, true, WEIR_BACKEND_NONE, 0).removed, CLIENTS - before.others[1]);
	assert_int_equal(count_all(lab).others[2], 0);
	close_lab(lab);
}
