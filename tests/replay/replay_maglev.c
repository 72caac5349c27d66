// SPDX-License-Identifier: BSD-3-Clause
//
// Compares Weir's Maglev tables with those of other implementations.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maglev.h"
#include "replay.h"

#define SLOTS_MAX 16777213u
#define CHURN_BACKENDS 10u
#define CHURN_SLOTS 65537u

struct table {
	uint32_t n;
	uint32_t slots;
	struct weir_maglev_backend *backends;
	uint16_t *entries;
	uint32_t *counts; // [n]
};

bool replay_maglev_recognise(const json_t *root) {
	return replay_has(root, "katran") || replay_has(root, "paper_example") ||
	       replay_has(root, "disruption") || replay_has(root, "weight_change_churn");
}

static bool create_table(struct replay *replay, struct table *table, uint32_t n, uint32_t slots) {
	if (n > 65534 || n > slots || slots < 2 || slots > SLOTS_MAX || !weir_is_prime(slots)) {
		replay_fail(replay, "%u backends in %u slots are no table", n, slots);
		return false;
	}
	*table = (struct table){
		.n = n,
		.slots = slots,
		.backends = replay_alloc(n * sizeof(table->backends[0])),
		.entries = replay_alloc(slots * sizeof(table->entries[0])),
		.counts = replay_alloc(n * sizeof(table->counts[0])),
	};
	return true;
}

static bool is_permutation(const struct weir_maglev_backend *backend, uint32_t slots) {
	return backend->offset < slots && backend->skip > 0 && backend->skip < slots;
}

static void free_table(struct table *table) {
	free(table->counts);
	free(table->entries);
	free(table->backends);
}

static void count(struct replay *replay, struct table *table) {
	memset(table->counts, 0, table->n * sizeof(table->counts[0]));
	for (uint32_t i = 0; i < table->slots; i++) {
		if (table->entries[i] < table->n) {
			table->counts[table->entries[i]]++;
		} else if (table->entries[i] != WEIR_MAGLEV_EMPTY) {
			replay_fail(replay, "slot %u holds %u", i, table->entries[i]);
		}
	}
}

static void build(struct replay *replay, struct table *table) {
	void *scratch = replay_alloc(weir_maglev_scratch_bytes(table->n));

	weir_maglev_build(table->backends, table->n, table->entries, table->slots, scratch);
	free(scratch);
	count(replay, table);
}

// Builds a table as version 1 of katran does: in the first round, each backend gets as many slots
// as its weight; in later rounds one slot. Weir builds tables like version 2.
static void build_once_weighted(struct replay *replay, struct table *table) {
	uint32_t *cursors = replay_alloc(table->n * sizeof(cursors[0]));
	uint32_t filled = 0;

	memset(table->entries, 0xff, table->slots * sizeof(table->entries[0]));
	for (uint32_t i = 0; i < table->n; i++) {
		cursors[i] = table->backends[i].offset;
	}
	for (bool first = true; filled < table->slots && table->n > 0; first = false) {
		for (uint32_t i = 0; i < table->n; i++) {
			uint32_t turns = first ? table->backends[i].weight : 1;

			for (; turns > 0 && filled < table->slots; turns--, filled++) {
				while (table->entries[cursors[i]] != WEIR_MAGLEV_EMPTY) {
					cursors[i] = (uint32_t)(((uint64_t)cursors[i] +
									table->backends[i].skip) %
								table->slots);
				}
				table->entries[cursors[i]] = (uint16_t)i;
			}
		}
	}
	free(cursors);
	count(replay, table);
}

static void check_entries(struct replay *replay, const char *what, const struct table *table,
	const json_t *expected) {
	const json_t *value;
	size_t i;

	if (!json_is_array(expected)) {
		replay_fail(replay, "%s is no table", what);
		return;
	}
	replay_check(replay, "slots", -1, (long long)json_array_size(expected), table->slots);
	json_array_foreach (expected, i, value) {
		long got = i < table->slots && table->entries[i] != WEIR_MAGLEV_EMPTY
				   ? table->entries[i]
				   : REPLAY_NONE;

		replay_check(replay, what, (long)i,
			json_is_integer(value) ? json_integer_value(value) : REPLAY_NONE - 1, got);
	}
}

// --- katran -------------------------------------------------------------------------------------

// Returns the hash of the table as 32-bit little-endian words. The offset basis is not the standard
// value, but the value in the program that recorded the hashes. This value was derived from tables
// that are recorded completely.
static uint64_t fnv1a(const struct table *table) {
	uint64_t hash = 0x14650fb0739d0383ull;

	for (uint32_t i = 0; i < table->slots; i++) {
		uint32_t entry = table->entries[i];

		for (unsigned int byte = 0; byte < 4; byte++) {
			hash = (hash ^ (entry >> 8 * byte & 0xff)) * 0x100000001b3ull;
		}
	}
	return hash;
}

static void check_counts(struct replay *replay, const struct table *table, const json_t *counts) {
	uint64_t sum = 0;
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)counts, name, value) {
		char *end;
		unsigned long id = strtoul(name, &end, 10);

		if (*end != '\0' || id >= table->n) {
			replay_fail(replay, "\"%s\" is no backend", name);
			return;
		}
		replay_check(
			replay, "count", (long)id, json_integer_value(value), table->counts[id]);
		sum += table->counts[id];
	}
	if (counts != NULL) {
		replay_check(replay, "slots counted", -1, table->slots, (long long)sum);
	}
}

static bool read_endpoints(struct replay *replay, struct table *table, const json_t *endpoints) {
	const json_t *endpoint;
	size_t i;

	json_array_foreach (endpoints, i, endpoint) {
		struct weir_maglev_backend *backend = &table->backends[i];

		if (!replay_known_keys(replay, endpoint, "num weight hash offset skip")) {
			return false;
		}
		backend->offset = replay_uint(replay, endpoint, "offset", table->slots);
		backend->skip = replay_uint(replay, endpoint, "skip", 0);
		backend->weight = replay_uint(replay, endpoint, "weight", 1);
		if (replay_uint(replay, endpoint, "num", (uint32_t)i) != i ||
			!is_permutation(backend, table->slots)) {
			replay_fail(replay, "endpoint %zu has no permutation", i);
			return false;
		}
	}
	return true;
}

static void replay_katran(struct replay *replay, const json_t *vector) {
	const json_t *endpoints = replay_list(replay, vector, "endpoints");
	const char *impl = replay_text(replay, vector, "impl", "V2");
	const char *expected = replay_text(replay, vector, "fnv1a64_of_table_as_le_int32", NULL);
	struct table table;
	char hash[20];

	if (!replay_known_keys(
		    replay, vector, "impl M endpoints counts fnv1a64_of_table_as_le_int32 table") ||
		!create_table(replay, &table, (uint32_t)json_array_size(endpoints),
			replay_uint(replay, vector, "M", 0))) {
		return;
	}
	if (!read_endpoints(replay, &table, endpoints)) {
		goto free_table;
	}
	if (strstr(impl, "v1") != NULL || strstr(impl, "V1") != NULL) {
		build_once_weighted(replay, &table);
	} else {
		build(replay, &table);
	}
	if (replay_has(vector, "table")) {
		check_entries(replay, "table", &table, json_object_get(vector, "table"));
	}
	if (expected != NULL) {
		snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)fnv1a(&table));
		replay_check_text(replay, "hash of the table", -1, expected, hash);
	}
	check_counts(replay, &table, json_object_get(vector, "counts"));
free_table:
	free_table(&table);
}

// --- the paper's example ---------------------------------------------------------------------

// Reads the permutations from a text like "M=7, ... B0=(3,4) B1=(0,2) ...". Returns their number.
static uint32_t read_permutations(const char *text, struct weir_maglev_backend *backends) {
	uint32_t n = 0;

	for (; (text = strchr(text, 'B')) != NULL; text++) {
		struct weir_maglev_backend backend = {.weight = 1};
		unsigned int id;

		if (sscanf(text, "B%u=(%u,%u)", &id, &backend.offset, &backend.skip) == 3 &&
			id == n) {
			if (backends != NULL) {
				backends[n] = backend;
			}
			n++;
		}
	}
	return n;
}

static void replay_example(struct replay *replay, const json_t *vector) {
	const char *text = replay_text(replay, vector, "source", "");
	const char *size = strstr(text, "M=");
	unsigned int removed;
	struct table table;
	const char *key;
	json_t *value;

	if (!create_table(replay, &table, read_permutations(text, NULL),
		    size != NULL ? (uint32_t)strtoul(size + 2, NULL, 10) : 0)) {
		return;
	}
	read_permutations(text, table.backends);
	for (uint32_t i = 0; i < table.n; i++) {
		if (!is_permutation(&table.backends[i], table.slots)) {
			replay_fail(replay, "backend %u has no permutation", i);
			free_table(&table);
			return;
		}
	}
	build(replay, &table);
	json_object_foreach ((json_t *)vector, key, value) {
		if (strcmp(key, "before") == 0 || strcmp(key, "expect_before") == 0) {
			check_entries(replay, key, &table, value);
		}
	}
	json_object_foreach ((json_t *)vector, key, value) {
		if (sscanf(key, "after_removing_B%u", &removed) == 1 && removed < table.n) {
			table.backends[removed].weight = 0;
			build(replay, &table);
			check_entries(replay, key, &table, value);
			if (replay_has(vector, "expect_after")) {
				check_entries(replay, "expect_after", &table,
					json_object_get(vector, "expect_after"));
			}
		} else if (!json_is_string(value) && strcmp(key, "before") != 0 &&
			   strncmp(key, "expect_", 7) != 0) {
			replay_fail(replay, "unknown key \"%s\"", key);
		}
	}
	free_table(&table);
}

// --- shares and churn ------------------------------------------------------------------------

// Computes the permutations of the identities 1 .. n. The recorded program hashes them like Weir.
static void permute(struct table *table, uint32_t weight) {
	for (uint32_t i = 0; i < table->n; i++) {
		struct weir_maglev_backend *backend = &table->backends[i];

		weir_maglev_permutation(i + 1, table->slots, &backend->offset, &backend->skip);
		backend->weight = weight;
	}
}

static uint32_t count_changes(const struct table *table, const uint16_t *before, long except) {
	uint32_t changed = 0;

	for (uint32_t i = 0; i < table->slots; i++) {
		changed += before[i] != except && before[i] != table->entries[i];
	}
	return changed;
}

static uint16_t *copy_entries(const struct table *table) {
	uint16_t *copy = replay_alloc(table->slots * sizeof(copy[0]));

	memcpy(copy, table->entries, table->slots * sizeof(copy[0]));
	return copy;
}

// Checks that a value equals the recorded value, which is rounded; half: half a unit of the last
// recorded digit.
static void check_percent(
	struct replay *replay, const json_t *vector, const char *key, double got, double half) {
	double expected = replay_real(replay, vector, key, NAN);

	if (replay_has(vector, key)) {
		replay_check_real(
			replay, key, -1, expected, got, half / fmax(1, fabs(expected)) + 1e-9);
	}
}

static void check_removal(struct replay *replay, struct table *table, const json_t *vector) {
	uint32_t removed = table->n / 2;
	uint16_t *before = copy_entries(table);
	uint32_t own = table->counts[removed];
	uint32_t changed;

	table->backends[removed].weight = 0;
	build(replay, table);
	changed = count_changes(table, before, removed);
	if (replay_has(vector, "removed_backend_entries")) {
		replay_check(replay, "removed_backend_entries", -1,
			replay_uint(replay, vector, "removed_backend_entries", 0), own);
	}
	if (replay_has(vector, "other_entries_that_changed")) {
		replay_check(replay, "other_entries_that_changed", -1,
			replay_uint(replay, vector, "other_entries_that_changed", 0), changed);
	}
	check_percent(
		replay, vector, "other_changed_percent", 100.0 * changed / table->slots, 0.005);
	free(before);
}

static void replay_disruption(struct replay *replay, const json_t *vector) {
	uint32_t low = UINT32_MAX, high = 0;
	struct table table;

	if (!replay_known_keys(replay, vector,
		    "N M offset_skip min_entries max_entries removed_backend_entries "
		    "other_entries_that_changed other_changed_percent") ||
		!create_table(replay, &table, replay_uint(replay, vector, "N", 0),
			replay_uint(replay, vector, "M", 0))) {
		return;
	}
	if (table.n == 0) {
		replay_fail(replay, "no backends");
		free_table(&table);
		return;
	}
	permute(&table, 1);
	build(replay, &table);
	for (uint32_t i = 0; i < table.n; i++) {
		low = table.counts[i] < low ? table.counts[i] : low;
		high = table.counts[i] > high ? table.counts[i] : high;
	}
	replay_check(
		replay, "min_entries", -1, replay_uint(replay, vector, "min_entries", low), low);
	replay_check(
		replay, "max_entries", -1, replay_uint(replay, vector, "max_entries", high), high);
	check_removal(replay, &table, vector);
	free_table(&table);
}

static void replay_shares(struct replay *replay, const json_t *vector) {
	const json_t *weights = replay_list(replay, vector, "weights");
	const json_t *entries = replay_list(replay, vector, "entries");
	const json_t *ideal = replay_list(replay, vector, "ideal");
	struct table table;

	if (!replay_known_keys(replay, vector, "weights M entries ideal offset_skip") ||
		!create_table(replay, &table, (uint32_t)json_array_size(weights),
			replay_uint(replay, vector, "M", 0))) {
		return;
	}
	permute(&table, 0);
	for (uint32_t i = 0; i < table.n; i++) {
		table.backends[i].weight = (uint32_t)json_integer_value(json_array_get(weights, i));
	}
	build(replay, &table);
	for (uint32_t i = 0; i < table.n; i++) {
		replay_check(replay, "entries", i, json_integer_value(json_array_get(entries, i)),
			table.counts[i]);
		if (ideal != NULL) {
			double off =
				fabs(json_number_value(json_array_get(ideal, i)) - table.counts[i]);

			replay_check(replay, "within one of the ideal", i, 1, off <= 1.01);
		}
	}
	free_table(&table);
}

static void replay_churn(struct replay *replay, const json_t *vector) {
	struct table table;
	uint16_t *before;
	double percent;

	if (!replay_known_keys(replay, vector,
		    "one_of_ten_weight_100_to entries_changed_percent minimum_possible_percent") ||
		!create_table(replay, &table, CHURN_BACKENDS, CHURN_SLOTS)) {
		return;
	}
	permute(&table, 100);
	build(replay, &table);
	before = copy_entries(&table);
	table.backends[3].weight = replay_uint(replay, vector, "one_of_ten_weight_100_to", 100);
	build(replay, &table);
	percent = 100.0 * count_changes(&table, before, -1) / table.slots;
	check_percent(replay, vector, "entries_changed_percent", percent, 0.005);
	if (replay_has(vector, "minimum_possible_percent")) {
		double least = replay_real(replay, vector, "minimum_possible_percent", 0);

		replay_check(replay, "not below the possible", -1, 1, percent >= least - 0.005);
	}
	free(before);
	free_table(&table);
}

// --- edges -----------------------------------------------------------------------------------

static void replay_edge(struct replay *replay, const char *key, const json_t *expected) {
	struct table table;
	uint32_t n = strcmp(key, "no_backends") == 0 ? 0 : 3;

	if (strcmp(key, "no_backends") != 0 && strcmp(key, "all_zero_weight") != 0) {
		replay_fail(replay, "unknown key \"%s\"", key);
		return;
	}
	if (create_table(replay, &table, n, (uint32_t)json_array_size(expected))) {
		permute(&table, 0);
		build(replay, &table);
		check_entries(replay, key, &table, expected);
		free_table(&table);
	}
}

static void replay_shares_or_disruption(struct replay *replay, const json_t *vector) {
	if (replay_has(vector, "weights")) {
		replay_shares(replay, vector);
	} else {
		replay_disruption(replay, vector);
	}
}

void replay_maglev(struct replay *replay, const json_t *root) {
	const char *key;
	json_t *value;

	replay_root(replay, root, "paper_example katran disruption weight_change_churn edge");
	if (replay_has(root, "paper_example")) {
		replay_begin(replay, "paper example");
		replay_example(replay, json_object_get(root, "paper_example"));
		replay_end(replay);
	}
	replay_each(replay, root, "katran", replay_katran);
	replay_each(replay, root, "disruption", replay_shares_or_disruption);
	replay_each(replay, root, "weight_change_churn", replay_churn);
	json_object_foreach (json_object_get(root, "edge"), key, value) {
		replay_begin(replay, "edge %s", key);
		replay_edge(replay, key, value);
		replay_end(replay);
	}
}
