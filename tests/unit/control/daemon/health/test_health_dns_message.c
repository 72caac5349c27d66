// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the messages of DNS checks: answers that are complete, cut off, of others, or hostile.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "health_dns_message.h"
#include "watch_lab.h"

#define ID 0x1234
#define MUTATIONS 200000

// An answer with the address 192.0.2.80 behind a CNAME, names compressed.
static const uint8_t answer[] = {0x12, 0x34, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0, // header
	3, 'w', 'w', 'w', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 1, 0, 1, // question
	0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, 'x', 0xc0, 16, // CNAME x.example
	0xc0, 41, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 80};
static const struct weir_address none;

static struct weir_dns_query query_for(const char *name, uint16_t record) {
	struct weir_dns_query query;

	assert_int_equal(weir_dns_query_encode(name, record, ID, &query), 0);
	return query;
}

TEST(dns_query_has_one_question) {
	static const uint8_t expected[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 'w', 'w',
		'w', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 28, 0, 1};
	static const char *const names[] = {"www.example", "www.example."};
	struct weir_dns_query query;

	for (int i = 0; i < 2; i++) {
		query = query_for(names[i], 28);
		assert_int_equal(query.bytes, sizeof(expected));
		assert_memory_equal(query.data, expected, sizeof(expected));
	}
	query = query_for(".", 6);
	assert_int_equal(query.bytes, 12 + 1 + 4);
}

TEST(dns_names_have_limits) {
	char name[300];
	struct weir_dns_query query;

	memset(name, 'a', sizeof(name));
	for (size_t i = 63; i < sizeof(name); i += 64) {
		name[i] = '.';
	}
	name[253] = '\0'; // 253 characters are 255 bytes
	assert_int_equal(weir_dns_query_encode(name, 1, ID, &query), 0);
	assert_int_equal(query.bytes, WEIR_DNS_QUERY_BYTES);
	name[253] = 'a';
	name[254] = '\0';
	assert_int_equal(weir_dns_query_encode(name, 1, ID, &query), -EINVAL);
	memset(name, 'a', 64);
	name[64] = '\0';
	assert_int_equal(weir_dns_query_encode(name, 1, ID, &query), -EINVAL);
	assert_int_equal(weir_dns_query_encode("", 1, ID, &query), -EINVAL);
	assert_int_equal(weir_dns_query_encode("a..b", 1, ID, &query), -EINVAL);
	assert_int_equal(weir_dns_query_encode("..", 1, ID, &query), -EINVAL);
}

TEST(dns_address_is_found_behind_an_alias) {
	const struct weir_dns_query query = query_for("WWW.example", 1);
	const struct weir_address right = watch_lab_address("192.0.2.80");
	const struct weir_address other = watch_lab_address("192.0.2.81");
	struct weir_dns_answer read;

	assert_true(weir_dns_answer_read(&query, answer, sizeof(answer), &right, &read));
	assert_int_equal(read.rcode, 0);
	assert_int_equal(read.records, 2);
	assert_true(read.has_address);
	assert_true(weir_dns_answer_read(&query, answer, sizeof(answer), &other, &read));
	assert_false(read.has_address || read.malformed || read.truncated);
	assert_true(weir_dns_answer_read(&query, answer, sizeof(answer), &none, &read));
	assert_false(read.has_address);
}

static bool is_accepted(size_t at, uint8_t value) {
	const struct weir_dns_query query = query_for("www.example", 1);
	struct weir_dns_answer read;
	uint8_t changed[sizeof(answer)];

	memcpy(changed, answer, sizeof(answer));
	changed[at] = value;
	return weir_dns_answer_read(&query, changed, sizeof(changed), &none, &read);
}

TEST(dns_answers_to_other_queries_are_ignored) {
	const struct weir_dns_query query = query_for("www.example", 28);
	struct weir_dns_answer read;

	assert_true(is_accepted(0, 0x12));
	assert_false(is_accepted(0, 0x13)); // ID
	assert_false(is_accepted(1, 0x35));
	assert_false(is_accepted(2, 0x01)); // a query
	assert_false(is_accepted(2, 0xa9)); // another opcode
	assert_false(is_accepted(5, 2)); // two questions
	assert_false(is_accepted(5, 0)); // no question, and no error
	assert_false(is_accepted(13, 'v')); // another name
	assert_true(is_accepted(13, 'W')); // in upper case
	assert_false(is_accepted(28, 3)); // another class
	assert_false(weir_dns_answer_read(&query, answer, sizeof(answer), &none, &read));
	for (size_t bytes = 0; bytes < 29; bytes++) { // without the whole question
		const struct weir_dns_query own = query_for("www.example", 1);

		assert_false(weir_dns_answer_read(&own, answer, bytes, &none, &read));
	}
}

// A server that could not read the query may leave out the question.
TEST(dns_error_without_a_question_counts) {
	static const uint8_t error[] = {0x12, 0x34, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0};
	const struct weir_dns_query query = query_for("www.example", 1);
	const struct weir_address right = watch_lab_address("192.0.2.80");
	struct weir_dns_answer read;

	assert_true(weir_dns_answer_read(&query, error, sizeof(error), &right, &read));
	assert_int_equal(read.rcode, 1);
}

TEST(dns_records_that_are_cut_off_are_malformed) {
	const struct weir_dns_query query = query_for("www.example", 1);
	const struct weir_address right = watch_lab_address("192.0.2.80");
	struct weir_dns_answer read;

	for (size_t bytes = 29; bytes < sizeof(answer); bytes++) {
		uint8_t *copy = malloc(bytes); // so that a sanitizer detects a read beyond the end

		memcpy(copy, answer, bytes);
		assert_true(weir_dns_answer_read(&query, copy, bytes, &right, &read));
		assert_true(read.malformed);
		assert_false(read.has_address);
		free(copy);
	}
}

// A pointer to itself, pointers to each other, and names without an end.
TEST(dns_compression_loops_end) {
	const struct weir_dns_query query = query_for("www.example", 1);
	const struct weir_address right = watch_lab_address("192.0.2.80");
	static const uint8_t loops[][2] = {
		{0xc0, 29}, {0xc0, 31}, {0xff, 0xff}, {0x40, 0}, {63, 63}};
	struct weir_dns_answer read;

	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
		uint8_t changed[sizeof(answer)];

		memcpy(changed, answer, sizeof(answer));
		memcpy(changed + 29, loops[i], 2);
		changed[6] = changed[7] = 0xff; // 65,535 records
		assert_true(weir_dns_answer_read(&query, changed, sizeof(changed), &right, &read));
	}
}

TEST(dns_mutated_answers_do_no_harm) {
	const struct weir_dns_query query = query_for("www.example", 1);
	const struct weir_address right = watch_lab_address("192.0.2.80");
	unsigned int accepted = 0;

	srandom(1);
	for (int i = 0; i < MUTATIONS; i++) {
		const size_t bytes = i % 2 ? sizeof(answer) : (size_t)random() % sizeof(answer);
		uint8_t *copy = malloc(bytes + 1);
		struct weir_dns_answer read;

		memcpy(copy, answer, bytes);
		for (long k = random() % 4; k >= 0 && bytes > 2; k--) {
			copy[2 + (size_t)random() % (bytes - 2)] = (uint8_t)random();
		}
		copy = realloc(copy, bytes > 0 ? bytes : 1);
		accepted += weir_dns_answer_read(&query, copy, bytes, &right, &read);
		free(copy);
	}
	assert_true(accepted > MUTATIONS / 20);
}
