// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the readers of keepalived's statements: keepalived.c (everything except virtual
// servers) calls keepalived_servers.c (virtual and real servers), which calls keepalived_checks.c
// (checkers); all of them use keepalived_words.c.
#pragma once

#include "keepalived_tree.h"

// What to do with a keyword that no reader handles: add a note of this kind, or nothing.
struct weir_keepalived_rest {
	const char *name; // NULL ends a list
	const char *why; // NULL: nothing is lost
};

// Note a statement that no reader handles. rest: the keywords of its block.
void weir_keepalived_note(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const struct weir_keepalived_rest *rest);

// The n-th word, "" if there are fewer.
const char *weir_keepalived_word(const struct weir_keepalived_statement *statement, unsigned int n);
// Seconds with a fraction, in milliseconds; above most_ms is an error. False after an error.
bool weir_keepalived_seconds(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t most_ms, uint32_t *ret_ms);
// A whole number. False after an error.
bool weir_keepalived_number(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint64_t most, uint64_t *ret);

// Settings of a virtual or real server for its checkers.
struct weir_keepalived_defaults {
	uint32_t delay_ms, timeout_ms;
	uint32_t retries;
	bool has_retries;
	const char *host; // virtualhost; NULL = none
};
// Read a statement if it is one of these settings. Returns false for others.
bool weir_keepalived_default(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	struct weir_keepalived_defaults *defaults);

// The health check for the checkers of a real server; NULL: none is supported by Weir.
// service_port: of the VIP; port: of the server. A new reference.
json_t *weir_keepalived_check(struct weir_import *import,
	const struct weir_keepalived_statement *server,
	const struct weir_keepalived_defaults *defaults, uint16_t service_port, uint16_t port);
bool weir_keepalived_is_checker(const char *keyword);

// Read a virtual_server block. groups: the first statement of the file, to find
// virtual_server_group blocks.
void weir_keepalived_server(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups);
