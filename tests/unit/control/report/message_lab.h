// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of datagrams: keys, and the offsets that docs/reference/agent-protocol.md specifies.
#pragma once

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_message.h"
#include "document.h"
#include "test.h"

#define BYTES WEIR_AGENT_MESSAGE_BYTES
#define NONE WEIR_AGENT_REFUSAL_NONE

// The keys of the document's examples.
static const struct weir_agent_keys keys = {
	.count = 2,
	.key =
		{
			{.id = 1,
				.secret = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
					17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
					31}},
			{.id = 0x0203, .secret = {9, 9, 9}},
		},
};

// Recompute the authentication code as an owner of the key would.
static inline void authenticate_again(uint8_t *bytes) {
	crypto_auth(bytes + WEIR_AGENT_MAC_START, bytes, WEIR_AGENT_MAC_START, keys.key[0].secret);
}

// --- the document ---

static inline void document_field(
	size_t *at, size_t bytes, const char *field, const char *meaning) {
	char line[256];

	snprintf(line, sizeof(line), "\n| %zu | %zu | `%s` | %s |\n", *at, bytes, field, meaning);
	assert_documented(line);
	*at += bytes;
}

static inline void document_rest(size_t at) {
	char line[64];

	if (at == WEIR_AGENT_MAC_START) {
		return; // no bytes are left
	}
	snprintf(line, sizeof(line), "\n| %zu | %zu | | zero |\n", at, WEIR_AGENT_MAC_START - at);
	assert_documented(line);
}

static inline void document_bytes(const uint8_t *bytes) {
	char line[64];

	for (size_t at = 0; at < BYTES; at += 16) {
		size_t n = (size_t)snprintf(line, sizeof(line), "\n%04zx ", at);

		for (size_t i = 0; i < 16; i++) {
			n += (size_t)snprintf(line + n, sizeof(line) - n, " %02x", bytes[at + i]);
		}
		snprintf(line + n, sizeof(line) - n, "\n");
		assert_documented(line);
	}
}
