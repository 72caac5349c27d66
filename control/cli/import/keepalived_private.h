// SPDX-License-Identifier: BSD-3-Clause
//
// What the readers of keepalived's statements share: keepalived.c (what is no virtual server) calls
// keepalived_servers.c (virtual and real servers), that keepalived_checks.c (checkers), and all of
// them keepalived_words.c.
#pragma once

#include "keepalived_tree.h"

// What a keyword of a block becomes when nothing reads it: a note of this kind, or nothing.
struct weir_keepalived_rest {
	const char *name; // NULL ends a list
	const char *why; // NULL: nothing is lost
};

// Note a statement that nothing has read. rest: those of its block.
void weir_keepalived_note(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const struct weir_keepalived_rest *rest);

// The n-th word, "" when there are not so many.
const char *weir_keepalived_word(const struct weir_keepalived_statement *statement, unsigned int n);
// Seconds with a fraction, in milliseconds; above most_ms counts as wrong. False after an error.
bool weir_keepalived_seconds(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t most_ms, uint32_t *ret_ms);
// A whole number. False after an error.
bool weir_keepalived_number(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint64_t most, uint64_t *ret);

// What a virtual server, or a real one, says for its checkers.
struct weir_keepalived_defaults {
	uint32_t delay_ms, timeout_ms;
	uint32_t retries;
	bool has_retries;
	const char *host; // virtualhost; NULL = none
};
// Read a statement that is one of these. False: it is another one.
bool weir_keepalived_default(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	struct weir_keepalived_defaults *defaults);

// The health check that the checkers of a real server come to; NULL: it has none that Weir has.
// service_port: of the VIP; port: of the server. A new reference.
json_t *weir_keepalived_check(struct weir_import *import,
	const struct weir_keepalived_statement *server,
	const struct weir_keepalived_defaults *defaults, uint16_t service_port, uint16_t port);
bool weir_keepalived_is_checker(const char *keyword);

// Read a virtual_server block. groups: the first statement of the file, for those of
// virtual_server_group.
void weir_keepalived_server(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups);
