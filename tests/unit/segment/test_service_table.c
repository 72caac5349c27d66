// SPDX-License-Identifier: BSD-3-Clause
//
// Service table: building, publishing, loading and lookups. The results of lookups are compared
// with a simple search over the binds.
#include "reader_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "service_table.h"

static int setup(void **state) {
	return lab_create(state, 64u << 20, 0, NULL);
}

static struct weir_service_bind bind4(
	uint8_t last_byte, uint8_t protocol, uint32_t first, uint32_t last, uint16_t service) {
	return (struct weir_service_bind){
		.address = {198, 51, 100, last_byte},
		.family = 4,
		.protocol = protocol,
		.port_first = (uint16_t)first,
		.port_last = (uint16_t)last,
		.service = service,
	};
}

static const struct weir_services_view *publish(
	struct lab *f, const struct weir_service_bind *binds, uint32_t n, uint64_t seed) {
	struct weir_service_table *table = NULL;

	assert_int_equal(weir_service_table_build(f->writer, binds, n, seed, &table), 0);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table), 0);
	weir_reader_settle(&f->reader);
	assert_non_null(weir_reader_services(&f->reader)->buckets);
	assert_int_equal(f->reader.refusals.refused, 0);
	return weir_reader_services(&f->reader);
}

static uint16_t lookup4(
	const struct weir_services_view *view, uint8_t last_byte, uint8_t protocol, uint16_t port) {
	const uint8_t address[16] = {198, 51, 100, last_byte};

	return weir_service_lookup(view, address, 4, protocol, port);
}

TEST_EACH(setup, teardown);

TEST(exact_binds_are_found_and_nothing_else) {
	const struct weir_service_bind binds[] = {
		bind4(10, IPPROTO_TCP, 80, 80, 0),
		bind4(10, IPPROTO_TCP, 443, 443, 1),
		bind4(10, IPPROTO_UDP, 80, 80, 2),
		bind4(11, IPPROTO_TCP, 80, 80, 3),
		bind4(11, IPPROTO_TCP, 0, 0, 4),
	};
	const struct weir_services_view *view = publish(*state, binds, 5, 1);
	const uint8_t same6[16] = {198, 51, 100, 10};

	assert_int_equal(lookup4(view, 10, IPPROTO_TCP, 80), 0);
	assert_int_equal(lookup4(view, 10, IPPROTO_TCP, 443), 1);
	assert_int_equal(lookup4(view, 10, IPPROTO_UDP, 80), 2);
	assert_int_equal(lookup4(view, 11, IPPROTO_TCP, 80), 3);
	assert_int_equal(lookup4(view, 11, IPPROTO_TCP, 0), 4);
	assert_int_equal(lookup4(view, 10, IPPROTO_TCP, 81), WEIR_SERVICE_NONE);
	assert_int_equal(lookup4(view, 10, IPPROTO_UDP, 443), WEIR_SERVICE_NONE);
	assert_int_equal(lookup4(view, 12, IPPROTO_TCP, 80), WEIR_SERVICE_NONE);
	assert_int_equal(weir_service_lookup(view, same6, 6, IPPROTO_TCP, 80), WEIR_SERVICE_NONE);
	assert_int_equal(weir_service_lookup(view, same6, 0, IPPROTO_TCP, 80), WEIR_SERVICE_NONE);
	assert_true(weir_service_is_vip(view, same6, 4));
	assert_false(weir_service_is_vip(view, same6, 6));
	assert_false(weir_service_is_vip(view, (const uint8_t[16]){198, 51, 100, 12}, 4));
}

TEST(enumeration_has_all_binds_once) {
	const struct weir_service_bind binds[] = {
		bind4(10, IPPROTO_TCP, 80, 80, 0),
		bind4(10, IPPROTO_TCP, 1000, 1999, 1),
		bind4(10, IPPROTO_TCP, 1500, 1509, 2 | WEIR_BIND_DRAINED),
		bind4(11, IPPROTO_UDP, 53, 53, 3),
	};
	static const struct {
		uint16_t first, last, service;
	} expected[] = {{80, 80, 0}, {1000, 1499, 1}, {1500, 1509, 2 | WEIR_BIND_DRAINED},
		{1510, 1999, 1}, {53, 53, 3}};
	const struct weir_services_view *view = publish(*state, binds, 4, 1);
	struct weir_service_cursor cursor = {0};
	struct weir_service_bind bind;
	uint32_t found = 0, n = 0;

	for (; weir_service_next(view, &cursor, &bind); n++) {
		for (uint32_t i = 0; i < 5; i++) {
			if (bind.port_first == expected[i].first &&
				bind.port_last == expected[i].last &&
				bind.service == expected[i].service) {
				assert_int_equal(bind.address[3], i == 4 ? 11 : 10);
				assert_int_equal(bind.protocol, i == 4 ? IPPROTO_UDP : IPPROTO_TCP);
				found |= 1u << i;
			}
		}
	}
	assert_int_equal(n, 5);
	assert_int_equal(found, 31);
}

TEST(gaps_are_ports_without_a_range) {
	const struct weir_service_bind binds[] = {
		bind4(10, IPPROTO_TCP, 150, 150, 0),
		bind4(10, IPPROTO_TCP, 200, 299, 1),
		bind4(10, IPPROTO_TCP, 400, 65535, 1),
	};
	static const struct {
		uint16_t first, last, gap_first, gap_last; // gap_last 0: no gap
	} cases[] = {{100, 500, 100, 199}, {200, 500, 300, 399}, {250, 260, 0, 0},
		{150, 150, 150, 150}, {300, 399, 300, 399}, {400, 65535, 0, 0}, {0, 65535, 0, 199},
		{299, 400, 300, 399}};
	const struct weir_services_view *view = publish(*state, binds, 3, 1);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint16_t first = cases[i].first, last = cases[i].last;
		bool any = weir_service_gap(view, binds[0].address, 4, IPPROTO_TCP, &first, &last);

		assert_int_equal(any, cases[i].gap_last != 0);
		assert_true(!any || (first == cases[i].gap_first && last == cases[i].gap_last));
		first = cases[i].first;
		last = cases[i].last;
		assert_true(
			weir_service_gap(view, binds[0].address, 4, IPPROTO_UDP, &first, &last));
		assert_int_equal(first, cases[i].first);
		assert_int_equal(last, cases[i].last);
	}
}

TEST(exact_takes_precedence_over_range_and_narrow_over_wide) {
	const struct weir_service_bind binds[] = {
		bind4(10, IPPROTO_TCP, 0, 65535, 0),
		bind4(10, IPPROTO_TCP, 1000, 1999, 1),
		bind4(10, IPPROTO_TCP, 1500, 1509, 2),
		bind4(10, IPPROTO_TCP, 1505, 1505, 3),
	};
	const struct weir_services_view *view = publish(*state, binds, 4, 1);
	const struct {
		uint16_t port, service;
	} expected[] = {{0, 0}, {999, 0}, {1000, 1}, {1499, 1}, {1500, 2}, {1504, 2}, {1505, 3},
		{1506, 2}, {1509, 2}, {1510, 1}, {1999, 1}, {2000, 0}, {65535, 0}};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_int_equal(
			lookup4(view, 10, IPPROTO_TCP, expected[i].port), expected[i].service);
	}
	assert_int_equal(lookup4(view, 10, IPPROTO_UDP, 1000), WEIR_SERVICE_NONE);
}

// Returns the CPU time of a build of n ranges of two ports each, in seconds.
static double time_of(struct lab *f, struct weir_service_bind *binds, uint32_t n) {
	struct weir_service_table *table;
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	assert_int_equal(weir_service_table_build(f->writer, binds, n, 1, &table), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	weir_writer_discard(f->writer, table);
	return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

// The time grows with the number of ranges, and not with its square, which would be 64 times.
TEST(many_ranges_of_a_vip_are_built_in_linear_time) {
	static struct weir_service_bind binds[32768];
	double few, many;

	for (uint32_t i = 0; i < 32768; i++) {
		binds[i] = bind4(10, IPPROTO_TCP, 2 * i, 2 * i + 1, (uint16_t)(i % 128));
	}
	few = time_of(*state, binds, 4096);
	many = time_of(*state, binds, 32768);
	printf("4096 ranges: %.1f ms, 32768 ranges: %.1f ms\n", few * 1e3, many * 1e3);
	assert_true(many < 30 * few);
}

TEST(same_ports_twice_are_refused) {
	struct lab *f = *state;
	struct weir_service_bind binds[] = {
		bind4(10, IPPROTO_TCP, 80, 80, 0),
		bind4(11, IPPROTO_TCP, 80, 80, 0),
		bind4(10, IPPROTO_TCP, 80, 80, 1),
	};
	struct weir_service_table *table = NULL;

	assert_int_equal(weir_service_table_build(f->writer, binds, 3, 1, &table), -EEXIST);
	binds[0] = bind4(10, IPPROTO_TCP, 0, 65535, 0);
	binds[2] = bind4(10, IPPROTO_TCP, 0, 65535, 0);
	assert_int_equal(weir_service_table_build(f->writer, binds, 3, 1, &table), -EEXIST);
	assert_null(table);
}

TEST(impossible_binds_are_refused) {
	struct lab *f = *state;
	struct weir_service_bind good = bind4(10, IPPROTO_TCP, 80, 90, 0), bad;
	struct weir_service_table *table = NULL;

	bad = good;
	bad.family = 5;
	assert_int_equal(weir_service_table_build(f->writer, &bad, 1, 1, &table), -EINVAL);
	bad = good;
	bad.protocol = IPPROTO_ICMP;
	assert_int_equal(weir_service_table_build(f->writer, &bad, 1, 1, &table), -EINVAL);
	bad = good;
	bad.port_first = 91;
	assert_int_equal(weir_service_table_build(f->writer, &bad, 1, 1, &table), -EINVAL);
	bad = good;
	bad.address[4] = 1;
	assert_int_equal(weir_service_table_build(f->writer, &bad, 1, 1, &table), -EINVAL);
	bad = good;
	bad.service = WEIR_SERVICE_NONE;
	assert_int_equal(weir_service_table_build(f->writer, &bad, 1, 1, &table), -EINVAL);
	assert_null(table);
}

TEST(table_without_binds_finds_nothing) {
	const struct weir_services_view *view = publish(*state, NULL, 0, 1);
	const struct weir_services_view nothing = {0};

	assert_int_equal(lookup4(view, 10, IPPROTO_TCP, 80), WEIR_SERVICE_NONE);
	assert_int_equal(lookup4(&nothing, 10, IPPROTO_TCP, 80), WEIR_SERVICE_NONE);
	assert_false(weir_service_is_vip(&nothing, (const uint8_t[16]){0}, 4));
}

TEST(full_heap_is_reported) {
	struct lab *f = *state;
	struct weir_service_bind bind = bind4(10, IPPROTO_TCP, 80, 80, 0);
	struct weir_service_table *table = NULL;
	void *all;

	all = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, f->segment->heap_bytes);
	assert_non_null(all);
	assert_int_equal(weir_service_table_build(f->writer, &bind, 1, 1, &table), -ENOSPC);
	weir_writer_discard(f->writer, all);
	assert_int_equal(weir_service_table_build(f->writer, &bind, 1, 1, &table), 0);
}

// --- comparison with a simple search --------------------------------------------------------

static uint16_t search(const struct weir_service_bind *binds, uint32_t n, const uint8_t *address,
	uint8_t family, uint8_t protocol, uint16_t port) {
	const struct weir_service_bind *best = NULL;

	for (uint32_t i = 0; i < n; i++) {
		const struct weir_service_bind *b = &binds[i];
		uint32_t width = (uint32_t)b->port_last - b->port_first;

		if (b->family != family || b->protocol != protocol ||
			memcmp(b->address, address, 16) != 0 || port < b->port_first ||
			port > b->port_last) {
			continue;
		}
		if (best == NULL || width < (uint32_t)best->port_last - best->port_first ||
			(width == (uint32_t)best->port_last - best->port_first &&
				b->port_first < best->port_first)) {
			best = b;
		}
	}
	return best == NULL ? WEIR_SERVICE_NONE : best->service;
}

static void random_address(uint64_t *seed, uint8_t address[16], uint8_t *family) {
	uint64_t r = fixture_random(seed);

	memset(address, 0, 16);
	*family = r & 1 ? 4 : 6;
	address[0] = *family == 4 ? 198 : 0x20;
	address[3] = (uint8_t)(r >> 8 & 7);
	if (*family == 6) {
		address[15] = (uint8_t)(r >> 16 & 3);
	}
}

static uint32_t random_binds(uint64_t *seed, struct weir_service_bind *binds, uint32_t limit) {
	uint32_t wanted = 1 + (uint32_t)(fixture_random(seed) % limit);
	uint32_t n = 0;

	for (uint32_t i = 0; i < wanted; i++) {
		struct weir_service_bind *b = &binds[n];
		uint64_t r = fixture_random(seed);
		bool twice = false;

		memset(b, 0, sizeof(*b));
		random_address(seed, b->address, &b->family);
		b->protocol = r & 1 ? IPPROTO_TCP : IPPROTO_UDP;
		b->port_first = (uint16_t)(r >> 8 & 0x3f);
		b->port_last = (uint16_t)(b->port_first + (r & 2 ? 0 : r >> 16 & 0x1f));
		b->service = (uint16_t)(r >> 32 & 0xfff);
		for (uint32_t j = 0; j < n; j++) {
			twice = twice || (memcmp(binds[j].address, b->address, 16) == 0 &&
						 binds[j].family == b->family &&
						 binds[j].protocol == b->protocol &&
						 binds[j].port_first == b->port_first &&
						 binds[j].port_last == b->port_last);
		}
		n += !twice;
	}
	return n;
}

TEST(lookup_agrees_with_a_simple_search) {
	struct weir_service_bind binds[200];
	struct lab *f = *state;
	uint64_t seed = 5;

	for (unsigned int round = 0; round < 200; round++) {
		uint32_t n = random_binds(&seed, binds, 200);
		const struct weir_services_view *view = publish(f, binds, n, seed);

		for (unsigned int i = 0; i < 2000; i++) {
			uint8_t protocol = fixture_random(&seed) & 1 ? IPPROTO_TCP : IPPROTO_UDP;
			uint16_t port = (uint16_t)(fixture_random(&seed) % 100);
			uint8_t address[16], family;
			bool vip = false;

			random_address(&seed, address, &family);
			assert_int_equal(weir_service_lookup(view, address, family, protocol, port),
				search(binds, n, address, family, protocol, port));
			for (uint32_t j = 0; j < n; j++) {
				vip = vip || (binds[j].family == family &&
						     memcmp(binds[j].address, address, 16) == 0);
			}
			assert_int_equal(weir_service_is_vip(view, address, family), vip);
		}
	}
}

// A malicious control process may write a bucket whose list of ranges is out of bounds.
TEST(range_list_out_of_bounds_finds_nothing) {
	struct weir_service_bind bind = bind4(10, IPPROTO_TCP, 0, 65535, 5);
	struct weir_service_table *table = NULL;
	const struct weir_services_view *view;
	const uint32_t wrong[][2] = {{0, 2}, {1, 1}, {2, 0}, {UINT32_MAX, 1}, {UINT32_MAX, 2},
		{1, UINT32_MAX}, {0, UINT32_MAX}, {0x80000000, 0x80000001}};
	struct lab *f = *state;
	struct weir_bind *buckets;

	assert_int_equal(weir_service_table_build(f->writer, &bind, 1, 1, &table), 0);
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table);
	weir_reader_settle(&f->reader);
	view = weir_reader_services(&f->reader);
	assert_int_equal(view->range_count, 1);
	assert_int_equal(lookup4(view, 10, IPPROTO_TCP, 80), 5);
	buckets = (struct weir_bind *)((uint8_t *)table + table->buckets_off);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		for (uint32_t j = 0; j < table->buckets; j++) {
			buckets[j].first = wrong[i][0];
			buckets[j].count = wrong[i][1];
		}
		assert_int_equal(lookup4(view, 10, IPPROTO_TCP, 80), WEIR_SERVICE_NONE);
	}
}

TEST(order_of_binds_does_not_matter) {
	struct weir_service_bind binds[100], reversed[100];
	struct weir_service_table *a = NULL, *b = NULL;
	struct lab *f = *state;
	uint64_t seed = 17;
	uint32_t n = random_binds(&seed, binds, 100);

	for (uint32_t i = 0; i < n; i++) {
		reversed[i] = binds[n - 1 - i];
	}
	assert_int_equal(weir_service_table_build(f->writer, binds, n, 3, &a), 0);
	assert_int_equal(weir_service_table_build(f->writer, reversed, n, 3, &b), 0);
	assert_int_equal(a->blob.lines, b->blob.lines);
	assert_memory_equal(a + 1, b + 1, a->blob.lines * 64 - sizeof(*a));
}

TEST(closed_ports_are_those_of_the_address) {
	struct weir_service_bind binds[] = {bind4(10, IPPROTO_TCP, 80, 80, 0),
		bind4(10, IPPROTO_UDP, 80, 80, 1), bind4(11, IPPROTO_TCP, 80, 80, 1),
		bind4(12, IPPROTO_TCP, 1, 60000, 2)};
	struct weir_service_table *table = NULL;
	const struct weir_services_view *view;
	struct lab *f = *state;

	binds[1].closed = WEIR_CLOSED_PORTS_REJECT;
	binds[3].closed = WEIR_CLOSED_PORTS_DROP;
	assert_int_equal(weir_service_table_build(f->writer, binds, 4, 3, &table), 0);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table), 0);
	weir_reader_settle(&f->reader);
	view = weir_reader_services(&f->reader);
	assert_int_equal(
		weir_service_closed_ports(view, binds[0].address, 4), WEIR_CLOSED_PORTS_REJECT);
	assert_int_equal(
		weir_service_closed_ports(view, binds[2].address, 4), WEIR_CLOSED_PORTS_KERNEL);
	assert_int_equal(
		weir_service_closed_ports(view, binds[3].address, 4), WEIR_CLOSED_PORTS_DROP);
	binds[3].address[3]++;
	assert_int_equal(
		weir_service_closed_ports(view, binds[3].address, 4), WEIR_CLOSED_PORTS_KERNEL);
	binds[0].closed = WEIR_CLOSED_PORTS_REJECT + 1;
	assert_int_equal(weir_service_table_build(f->writer, binds, 4, 3, &table), -EINVAL);
}

// 1,000 services of four binds each: all binds are found, and the table is at most half full.
TEST(thousand_services_fit) {
	static struct weir_service_bind binds[4000];
	struct weir_service_table *table = NULL;
	struct lab *f = *state;

	for (uint32_t i = 0; i < 4000; i++) {
		binds[i] = bind4((uint8_t)(i / 16), i & 1 ? IPPROTO_TCP : IPPROTO_UDP,
			1000 + i % 16, 1000 + i % 16 + (i % 16 == 15), (uint16_t)(i / 4));
	}
	for (uint64_t seed = 0; seed < 20; seed++) {
		const struct weir_services_view *view;

		assert_int_equal(weir_service_table_build(f->writer, binds, 4000, seed, &table), 0);
		assert_true(table->buckets >= 2 * 4000 && table->buckets <= 32768);
		assert_int_equal(
			weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table), 0);
		weir_reader_settle(&f->reader);
		view = weir_reader_services(&f->reader);
		for (uint32_t i = 0; i < 4000; i++) {
			assert_int_equal(weir_service_lookup(view, binds[i].address, 4,
						 binds[i].protocol, binds[i].port_first),
				binds[i].service);
		}
	}
}
