// SPDX-License-Identifier: BSD-3-Clause
#include "health_dns_message.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MOST 63u
#define RECURSION_DESIRED 0x01 // in byte 2
#define IS_ANSWER 0x80
#define OPCODE 0x78
#define TRUNCATED 0x02
#define RCODE 0x0f // in byte 3
#define CLASS_INTERNET 1u
#define RECORD_A 1u
#define RECORD_AAAA 28u
#define RECORD_HEADER_BYTES 10u // type, class, TTL and length
#define POINTER 0xc0 // the two upper bits of a compression pointer

static uint16_t get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

// Encodes a name. Returns its length, 0 = not valid.
static size_t encode_name(const char *name, uint8_t encoded[static WEIR_DNS_NAME_BYTES]) {
	size_t used = 0;

	if (strcmp(name, ".") == 0) {
		name++;
	}
	while (*name != '\0') {
		const size_t label = strcspn(name, ".");

		if (label == 0 || label > LABEL_MOST || used + label + 2 > WEIR_DNS_NAME_BYTES) {
			return 0;
		}
		encoded[used++] = (uint8_t)label;
		memcpy(encoded + used, name, label);
		used += label;
		name += label + (name[label] == '.');
	}
	encoded[used++] = 0;
	return used;
}

int weir_dns_query_encode(
	const char *name, uint16_t record, uint16_t id, struct weir_dns_query *ret) {
	struct weir_dns_query query = {.bytes = WEIR_DNS_HEADER_BYTES};
	const size_t encoded = name[0] != '\0' ? encode_name(name, query.data + query.bytes) : 0;

	if (encoded == 0) {
		return -EINVAL;
	}
	put16(query.data, id);
	query.data[2] = RECURSION_DESIRED;
	put16(query.data + 4, 1); // number of questions
	query.bytes += encoded;
	put16(query.data + query.bytes, record);
	put16(query.data + query.bytes + 2, CLASS_INTERNET);
	query.bytes += 4;
	*ret = query;
	return 0;
}

// Returns whether the message repeats the question. Upper and lower case are the same in names.
static bool has_question(const struct weir_dns_query *query, const uint8_t *data, size_t bytes) {
	if (bytes < query->bytes) {
		return false;
	}
	for (size_t i = WEIR_DNS_HEADER_BYTES; i < query->bytes; i++) {
		if (tolower(data[i]) != tolower(query->data[i])) {
			return false;
		}
	}
	return true;
}

// Returns the offset after the name at `at`, or 0 if the name is malformed.
static size_t skip_name(const uint8_t *data, size_t bytes, size_t at) {
	while (at < bytes) {
		const uint8_t length = data[at];

		if ((length & POINTER) == POINTER) {
			return at + 2 <= bytes ? at + 2 : 0;
		}
		if ((length & POINTER) != 0) {
			return 0;
		}
		at += 1u + length;
		if (length == 0) {
			return at;
		}
	}
	return 0;
}

static bool is_address(const uint8_t *record, size_t length, const struct weir_address *wanted) {
	const bool ipv4 = wanted->family == 4;
	const size_t address_bytes = ipv4 ? 4 : 16;

	return get16(record) == (ipv4 ? RECORD_A : RECORD_AAAA) &&
	       get16(record + 2) == CLASS_INTERNET && length == address_bytes &&
	       memcmp(record + RECORD_HEADER_BYTES, wanted->bytes, address_bytes) == 0;
}

// Searches for the address in the records, which begin at `at`.
static void search(const uint8_t *data, size_t bytes, size_t at, const struct weir_address *wanted,
	struct weir_dns_answer *answer) {
	for (uint16_t i = 0; i < answer->records && !answer->has_address; i++) {
		size_t length;

		at = skip_name(data, bytes, at);
		if (at == 0 || at + RECORD_HEADER_BYTES > bytes) {
			answer->malformed = true;
			return;
		}
		length = get16(data + at + 8);
		if (at + RECORD_HEADER_BYTES + length > bytes) {
			answer->malformed = true;
			return;
		}
		answer->has_address = is_address(data + at, length, wanted);
		at += RECORD_HEADER_BYTES + length;
	}
}

bool weir_dns_answer_read(const struct weir_dns_query *query, const uint8_t *data, size_t bytes,
	const struct weir_address *wanted, struct weir_dns_answer *ret) {
	struct weir_dns_answer answer = {0};
	uint16_t questions;

	if (bytes < WEIR_DNS_HEADER_BYTES || get16(data) != get16(query->data) ||
		(data[2] & IS_ANSWER) == 0 || (data[2] & OPCODE) != 0) {
		return false;
	}
	questions = get16(data + 4);
	answer.rcode = data[3] & RCODE;
	if (questions == 0 ? answer.rcode == 0
			   : questions != 1 || !has_question(query, data, bytes)) {
		return false;
	}
	answer.truncated = (data[2] & TRUNCATED) != 0;
	answer.records = get16(data + 6);
	if (wanted->family != 0 && questions == 1) {
		search(data, bytes, query->bytes, wanted, &answer);
	}
	*ret = answer;
	return true;
}

const char *weir_dns_rcode_name(uint8_t rcode, char *text, size_t bytes) {
	static const char *const names[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP",
		"REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"};

	if (rcode < sizeof(names) / sizeof(names[0])) {
		return names[rcode];
	}
	snprintf(text, bytes, "%u", rcode);
	return text;
}
