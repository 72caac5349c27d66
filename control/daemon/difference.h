// SPDX-License-Identifier: BSD-3-Clause
//
// Difference between two configurations, as a list of changes for people and programs: what a
// reload would do, or did. Order: what the dataplane reads, then services in the order of the
// file.
//
// Threads: any. Pure.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// X(NAME, "kind in JSON")
#define WEIR_CHANGE_KINDS(X) X(ADD, "add") X(REMOVE, "remove") X(CHANGE, "change")

enum weir_change_kind {
#define X(name, key) WEIR_CHANGE_##name,
	WEIR_CHANGE_KINDS(X)
#undef X
};

#define WEIR_CHANGE_RESTART "needs a restart of weir-dataplane"

struct weir_change {
	enum weir_change_kind kind;
	bool needs_restart; // read by the dataplane when it starts: not applied by a reload
	char *what; // "service web backend web-5 weight"
	char *from; // NULL with WEIR_CHANGE_ADD
	char *to; // NULL with WEIR_CHANGE_REMOVE
};

struct weir_difference {
	struct weir_change *change;
	uint32_t count;
};

// from NULL: nothing, so that everything is added. Returns 0 or -ENOMEM.
int weir_difference_compute(
	const struct weir_config *from, const struct weir_config *to, struct weir_difference *ret);
void weir_difference_fini(struct weir_difference *difference); // zeroed is fine

// Array of {kind, what, from?, to?, note?}. NULL: out of memory.
json_t *weir_difference_json(const struct weir_difference *difference);
// "change service web backend web-1 weight: 100 -> 50". Cut to bytes. Returns buffer.
const char *weir_change_format(const struct weir_change *change, char *buffer, size_t bytes);

// "tcp 198.51.100.10:80", "udp [2001:db8::1]:1000-2000", "tcp 198.51.100.10:*" (every port).
#define WEIR_BIND_TEXT_BYTES 96
const char *weir_bind_format(const struct weir_config_bind *bind, char *buffer, size_t bytes);
const char *weir_config_forwarding_name(enum weir_config_forwarding forwarding);
