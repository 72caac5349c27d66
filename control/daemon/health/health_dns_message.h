// SPDX-License-Identifier: BSD-3-Clause
//
// DNS message: encodes a query with one question, and reads the header and the addresses of the
// answer (RFC 1035). Names in an answer are skipped, not expanded, so that compression pointers
// cannot cause an endless loop.
//
// Threads: any; no I/O, no allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_DNS_NAME_BYTES 255u // maximum length of an encoded name
#define WEIR_DNS_HEADER_BYTES 12u
#define WEIR_DNS_QUERY_BYTES (WEIR_DNS_HEADER_BYTES + WEIR_DNS_NAME_BYTES + 4)

struct weir_dns_query {
	uint8_t data[WEIR_DNS_QUERY_BYTES];
	size_t bytes;
};

struct weir_dns_answer {
	uint8_t rcode;
	bool truncated; // the answer did not fit into the datagram
	bool malformed; // the records could not be read
	uint16_t records; // number of records in the answer section, according to the header
	bool has_address; // a record has the wanted address
};

// Encodes a query. name: without or with a dot at its end; "." = the root. id: a random number.
// Returns 0, or -EINVAL if the name is not valid.
int weir_dns_query_encode(
	const char *name, uint16_t record, uint16_t id, struct weir_dns_query *ret);

// Reads an answer. wanted: the address to search for in the records; family 0 = none. Returns false
// if the message is not an answer to the query: the message has another ID or question, or is not
// an answer at all. An error without a question is an answer, because a server that cannot read the
// query may send it.
bool weir_dns_answer_read(const struct weir_dns_query *query, const uint8_t *data, size_t bytes,
	const struct weir_address *wanted, struct weir_dns_answer *ret);

// Returns the name of a response code, such as "SERVFAIL", or its number in text.
const char *weir_dns_rcode_name(uint8_t rcode, char *text, size_t bytes);
