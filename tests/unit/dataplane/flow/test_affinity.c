// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the affinity table: entries, their expiry, floods, and workers that enter sources at the
// same time.
#include "affinity.h"

#include <pthread.h>

#include "flow_lab.h"

#define NONE WEIR_AFFINITY_NONE
#define DAY_MS 86400000u
#define MINUTE_MS 60000u
#define NOW (SECOND * 1000)

static struct weir_affinity *make_table(uint32_t entries) {
	struct weir_affinity *table;

	assert_int_equal(weir_affinity_create(entries, 0x1234567890abcdef, -1, &table), 0);
	return table;
}

static uint64_t source(const struct weir_affinity *table, uint64_t n) {
	return weir_affinity_hash(table, 0, weir_hash_bytes(&n, sizeof(n), 1));
}

static uint16_t enter(struct weir_affinity *table, uint64_t n, uint16_t backend, bool proven) {
	return weir_affinity_enter(table, source(table, n), backend, NONE, proven, MINUTE_MS, NOW);
}

static uint16_t find_at(const struct weir_affinity *table, uint64_t n, uint64_t now_ns) {
	return weir_affinity_find(table, source(table, n), now_ns);
}

TEST_GROUP(eal_start);

TEST(affinity_finds_what_was_entered) {
	struct weir_affinity *table = make_table(4096);

	for (uint64_t n = 0; n < 1000; n++) {
		assert_int_equal(find_at(table, n, NOW), NONE);
		assert_int_equal(enter(table, n, (uint16_t)(n % 7), false), n % 7);
	}
	for (uint64_t n = 0; n < 1000; n++) {
		assert_int_equal(find_at(table, n, NOW), n % 7);
		// another service with the same source
		assert_int_equal(
			weir_affinity_find(table,
				weir_affinity_hash(table, 1, weir_hash_bytes(&n, sizeof(n), 1)),
				NOW),
			NONE);
	}
	weir_affinity_free(table);
}

TEST(affinity_keeps_the_first_backend_unless_it_is_stale) {
	struct weir_affinity *table = make_table(64);
	const uint64_t hash = source(table, 1);

	assert_int_equal(enter(table, 1, 3, false), 3);
	assert_int_equal(enter(table, 1, 4, false), 3);
	assert_int_equal(weir_affinity_enter(table, hash, 4, 5, false, MINUTE_MS, NOW), 3);
	assert_int_equal(weir_affinity_enter(table, hash, 4, 3, false, MINUTE_MS, NOW), 4);
	assert_int_equal(find_at(table, 1, NOW), 4);
	weir_affinity_free(table);
}

// An entry expires at most two ticks (1.1 s) after its timeout, and not before. The time in entries
// wraps every 2^21 ticks.
TEST(affinity_ends_after_its_timeout) {
	static const uint32_t timeouts_ms[] = {1000, 5000, 300000, 5 * DAY_MS};
	for (unsigned int i = 0; i < 4 * 40; i++) {
		struct weir_affinity *table = make_table(64);
		const uint64_t timeout_ns = timeouts_ms[i % 4] * UINT64_C(1000000);
		const uint64_t now = NOW + i * UINT64_C(29) * DAY_MS * 1000000 / 40;
		const uint64_t hash = source(table, i);

		assert_int_equal(
			weir_affinity_enter(table, hash, 2, NONE, true, timeouts_ms[i % 4], now),
			2);
		assert_int_equal(weir_affinity_find(table, hash, now + timeout_ns - 1), 2);
		assert_int_equal(
			weir_affinity_find(table, hash, now + timeout_ns + SECOND * 12 / 10), NONE);
		weir_affinity_free(table);
	}
}

// A flood of sources without handshakes does not replace proven entries.
TEST(affinity_of_proven_sources_survives_a_flood) {
	struct weir_affinity *table = make_table(8192);
	uint32_t kept = 0, full = 0;

	for (uint64_t n = 0; n < 2000; n++) {
		assert_int_equal(enter(table, n, 1, false), 1);
		assert_int_equal(enter(table, n, 1, true), 1);
	}
	for (uint64_t n = 0; n < 200000; n++) {
		full += enter(table, 1000000 + n, 2, false) == NONE;
	}
	for (uint64_t n = 0; n < 2000; n++) {
		assert_int_equal(find_at(table, n, NOW), 1);
	}
	for (uint64_t n = 0; n < 200000; n++) {
		kept += find_at(table, 1000000 + n, NOW) == 2;
	}
	assert_in_range(kept, 5000, 8192 - 2000);
	assert_in_range(full, 0, 200000 / 50); // buckets in which all 8 entries are proven are rare
	weir_affinity_free(table);
}

// If all entries of a bucket are proven, a further source gets no entry until one of the entries
// expires.
TEST(affinity_has_no_room_in_a_proven_bucket) {
	struct weir_affinity *table = make_table(WEIR_AFFINITY_WAYS);

	for (uint64_t n = 0; n < WEIR_AFFINITY_WAYS; n++) {
		assert_int_equal(enter(table, n, 1, true), 1);
	}
	assert_int_equal(enter(table, 100, 2, false), NONE);
	assert_int_equal(enter(table, 100, 2, true), NONE);
	assert_int_equal(weir_affinity_enter(table, source(table, 100), 2, NONE, true, MINUTE_MS,
				 NOW + 62 * SECOND),
		2);
	weir_affinity_free(table);
}

TEST(affinity_sweep_removes_expired_entries_only) {
	struct weir_affinity *table = make_table(1024);
	uint32_t left = 0;

	for (uint64_t n = 0; n < 300; n++) {
		weir_affinity_enter(table, source(table, n), (uint16_t)(n % 2), NONE, true,
			n % 2 == 0 ? MINUTE_MS : 10 * MINUTE_MS, NOW);
	}
	for (int i = 0; i < 2; i++) { // each call sweeps 64 of the 128 buckets
		weir_affinity_sweep(table, NOW + 2 * MINUTE_MS * UINT64_C(1000000));
	}
	for (uint32_t i = 0; i < table->buckets * WEIR_AFFINITY_WAYS; i++) {
		left += table->entries[i] != 0;
	}
	assert_int_equal(left, 150);
	for (uint64_t n = 0; n < 300; n++) {
		assert_int_equal(find_at(table, n, NOW), n % 2 == 0 ? NONE : 1);
	}
	weir_affinity_free(table);
}

// --- requests of control ---

TEST(affinity_reads_and_removes_an_entry) {
	struct weir_affinity *table = make_table(64);
	struct weir_affinity_entry entry;
	const uint64_t hash = source(table, 1);

	assert_false(weir_affinity_read(table, hash, NOW, &entry));
	enter(table, 1, 5, false);
	assert_true(weir_affinity_read(table, hash, NOW, &entry));
	assert_int_equal(entry.backend, 5);
	assert_false(entry.proven);
	assert_in_range(entry.left_ms, MINUTE_MS, MINUTE_MS + 600);
	enter(table, 1, 5, true);
	assert_true(weir_affinity_read(table, hash, NOW + 40 * SECOND, &entry));
	assert_true(entry.proven);
	assert_in_range(entry.left_ms, 20000 - 600, 20000 + 600);
	assert_false(weir_affinity_read(table, hash, NOW + 62 * SECOND, &entry));
	assert_false(weir_affinity_remove(table, source(table, 2), NONE, NOW, &entry));
	assert_false(weir_affinity_remove(table, hash, 4, NOW, &entry));
	assert_int_equal(find_at(table, 1, NOW), 5);
	assert_true(weir_affinity_remove(table, hash, 5, NOW, &entry));
	assert_int_equal(entry.backend, 5);
	assert_int_equal(find_at(table, 1, NOW), NONE);
	enter(table, 1, 5, true);
	assert_true(weir_affinity_remove(table, hash, NONE, NOW, &entry));
	assert_true(entry.proven);
	assert_false(weir_affinity_remove(table, hash, NONE, NOW, &entry));
	weir_affinity_free(table);
}

static bool is_backend(const void *context, uint16_t backend) {
	return backend == *(const uint16_t *)context;
}

TEST(affinity_buckets_have_each_entry_once) {
	struct weir_affinity *table = make_table(4096);
	struct weir_affinity_entry entries[WEIR_AFFINITY_WAYS];
	uint32_t count[3] = {0}, proven = 0, removed = 0;
	const uint16_t one = 1;

	for (uint64_t n = 0; n < 600; n++) {
		enter(table, n, (uint16_t)(n % 3), n % 2 == 0);
	}
	for (uint32_t bucket = 0; bucket < table->buckets; bucket++) {
		const uint32_t n = weir_affinity_read_bucket(table, bucket, NOW, entries);

		for (uint32_t i = 0; i < n; i++) {
			assert_in_range(entries[i].backend, 0, 2);
			count[entries[i].backend]++;
			proven += entries[i].proven;
		}
		assert_int_equal(
			weir_affinity_read_bucket(table, bucket, NOW + 62 * SECOND, entries), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(count[i], 200);
	}
	assert_int_equal(proven, 300);
	for (uint32_t bucket = 0; bucket < table->buckets; bucket++) {
		removed += weir_affinity_clear_bucket(table, bucket, NOW, is_backend, &one);
	}
	assert_int_equal(removed, 200);
	for (uint64_t n = 0; n < 600; n++) {
		assert_int_equal(find_at(table, n, NOW), n % 3 == 1 ? NONE : n % 3);
	}
	weir_affinity_free(table);
}

// --- several workers ---

#define THREADS 4
#define SOURCES 20000u

struct worker {
	pthread_t thread;
	struct weir_affinity *table;
	uint16_t backend;
	uint16_t got[SOURCES];
};

static void *enter_all(void *arg) {
	struct worker *worker = arg;

	for (uint64_t n = 0; n < SOURCES; n++) {
		worker->got[n] = enter(worker->table, n, worker->backend, n % 3 == 0);
	}
	return NULL;
}

// Each worker chooses a different backend for the same sources: all workers use the same backend
// for a source. In a few buckets there are more sources than entries, so that sources replace each
// other.
TEST(affinity_workers_agree) {
	static struct worker workers[THREADS];
	struct weir_affinity *table = make_table(4 * SOURCES);
	uint32_t differ = 0, lost = 0, used[THREADS] = {0};

	for (uint16_t i = 0; i < THREADS; i++) {
		workers[i].table = table;
		workers[i].backend = i;
		assert_int_equal(
			pthread_create(&workers[i].thread, NULL, enter_all, &workers[i]), 0);
	}
	for (uint16_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
	}
	for (uint64_t n = 0; n < SOURCES; n++) {
		const uint16_t last = find_at(table, n, NOW);

		if (last == NONE) {
			lost++;
			continue;
		}
		used[last]++;
		for (uint16_t i = 0; i < THREADS; i++) {
			differ += workers[i].got[n] != last;
		}
	}
	print_message("%u of %u answers differ from the entry; backends: %u %u %u %u\n", differ,
		THREADS * SOURCES, used[0], used[1], used[2], used[3]);
	assert_in_range(differ, 0, THREADS * SOURCES / 1000);
	assert_in_range(lost, 0, SOURCES / 200);
	weir_affinity_free(table);
}

#define ROUNDS 5000000u

struct clearing {
	pthread_t thread;
	struct weir_affinity *table;
	bool stop;
};

static bool is_any(const void *context, uint16_t backend) {
	(void)context;
	(void)backend;
	return true;
}

static void *clear_all(void *arg) {
	struct clearing *clearing = arg;

	while (!__atomic_load_n(&clearing->stop, __ATOMIC_RELAXED)) {
		weir_affinity_clear_bucket(clearing->table, 0, NOW, is_any, NULL);
	}
	return NULL;
}

// While one worker removes the entries of a bucket, another one enters two sources. It must not get
// the backend of the other source, or backend 0, from an entry that was removed or replaced in the
// meantime.
TEST(affinity_removal_during_an_entry_gives_no_other_backend) {
	struct clearing clearing = {.table = make_table(WEIR_AFFINITY_WAYS)};
	const uint64_t hashes[] = {source(clearing.table, 0), source(clearing.table, 1)};
	uint32_t wrong = 0;

	assert_int_equal(pthread_create(&clearing.thread, NULL, clear_all, &clearing), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const uint16_t backend = (uint16_t)(10 + i / 4 % 2);
		const uint16_t got = weir_affinity_enter(
			clearing.table, hashes[i / 4 % 2], backend, NONE, false, MINUTE_MS, NOW);

		wrong += got != backend && got != NONE;
	}
	__atomic_store_n(&clearing.stop, true, __ATOMIC_RELAXED);
	pthread_join(clearing.thread, NULL);
	assert_int_equal(wrong, 0);
	weir_affinity_free(clearing.table);
}
