// SPDX-License-Identifier: BSD-3-Clause
//
// Match: compares the bytes of an answer with the bytes that a check expects. The answer arrives in
// parts and is not stored, except its first bytes for the detail.
//
// Threads: any; no I/O, no allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_HEALTH_MATCH_BYTES 255u // maximum number of expected bytes
#define WEIR_HEALTH_MATCH_SHOWN 32u // maximum number of bytes of the answer in the detail

enum weir_health_match_result {
	WEIR_HEALTH_MATCH_MORE, // undecided: further bytes decide
	WEIR_HEALTH_MATCH_FOUND,
	WEIR_HEALTH_MATCH_OTHER, // the answer begins with other bytes
};

struct weir_health_match {
	const uint8_t *wanted; // borrowed
	size_t wanted_bytes; // at least 1
	bool anywhere; // the bytes may be anywhere in the answer, not only at its start
	bool hex; // the expected bytes were configured in hexadecimal digits
	uint8_t matched; // number of wanted bytes found so far
	size_t bytes; // length of the answer so far
	uint8_t first[WEIR_HEALTH_MATCH_SHOWN]; // start of the answer
	uint8_t border[WEIR_HEALTH_MATCH_BYTES]; // length of the longest border of each prefix
};

// wanted: 1 to WEIR_HEALTH_MATCH_BYTES bytes, borrowed.
void weir_health_match_init(
	struct weir_health_match *match, const void *wanted, size_t wanted_bytes, bool anywhere);

// Prepares for the bytes that a check expects. check: borrowed; weir_config_expects is true.
void weir_health_match_expect(
	struct weir_health_match *match, const struct weir_config_health_check *check);

// Processes the next bytes of the answer. Do not call again after a result other than MORE.
enum weir_health_match_result weir_health_match_take(
	struct weir_health_match *match, const void *data, size_t bytes);

// Write the detail of a probe, with the first line of the answer. weir_health_match_failed also
// writes the expected bytes and, at the end of the detail, `when`: why no more bytes were read. If
// `hex` is set, both functions write the first bytes of the answer in hexadecimal digits instead.
void weir_health_match_passed(const struct weir_health_match *match, char *detail, size_t bytes);
void weir_health_match_failed(
	const struct weir_health_match *match, const char *when, char *detail, size_t bytes);
