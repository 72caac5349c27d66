// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the readers of keepalived's statements: keepalived.c (everything except virtual
// servers) calls keepalived_servers.c (virtual and real servers), which calls keepalived_checks.c
// (checkers); all of them use keepalived_words.c and keepalived_range.c.
//
// keepalived goes on after most mistakes in its file: it logs them, and uses its default, or skips
// the server. The readers do the same, with a note.
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

// Note a statement that keepalived does not accept: the import handles it like keepalived.
// format: what it accepts, or does instead.
void weir_keepalived_ignored(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// The n-th word, "" if there are fewer.
const char *weir_keepalived_word(const struct weir_keepalived_statement *statement, unsigned int n);
// The statement as one line, for notes; long ones end in "...". Returns buffer.
const char *weir_keepalived_text(
	const struct weir_keepalived_statement *statement, char *buffer, size_t bytes);
// Seconds with a fraction, in milliseconds, at most an hour: the limit of Weir. False: keepalived
// ignores it.
bool weir_keepalived_seconds(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t least_ms, uint32_t *ret_ms);
// A whole number. False: keepalived ignores it.
bool weir_keepalived_number(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint64_t least, uint64_t most,
	uint64_t *ret);
// "192.0.2.1": keepalived ignores a range or mask behind it, except in groups. Returns 0 or
// -EINVAL.
int weir_keepalived_address(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const char *text,
	struct weir_address *ret);
// A port; "" and 0 are every port. False: not a port.
bool weir_keepalived_port(const char *text, uint16_t *ret);

// The addresses of a virtual_server_group.
struct weir_keepalived_range {
	struct weir_address first, last;
};
// An entry of a group: "192.0.2.1", "192.0.2.1-10", "192.0.2.1-192.0.2.10", "192.0.2.0/28". Returns
// 0, or -EINVAL and why keepalived skips it.
int weir_keepalived_range_read(
	const char *text, struct weir_keepalived_range *ret, const char **ret_why);

// Settings of a virtual or real server for its checkers.
struct weir_keepalived_defaults {
	uint32_t delay_ms, timeout_ms;
	uint32_t retries, retry_delay_ms;
	bool has_retries, has_retry_delay; // else those of the checker
	const char *host; // virtualhost; NULL = none
};
// Read a statement if it is one of these settings. retry_least: checkers accept 0. Returns false
// for others.
bool weir_keepalived_default(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t retry_least,
	struct weir_keepalived_defaults *defaults);

struct weir_keepalived_target { // of a check
	const struct weir_address *address;
	uint16_t service_port, port; // of the VIP and of the server; 0 = every port, the VIP's
};
// The health check for the checkers of a real server; NULL: none is supported by Weir. *ret_any: it
// has checkers. A new reference.
json_t *weir_keepalived_check(struct weir_import *import,
	const struct weir_keepalived_statement *server,
	const struct weir_keepalived_defaults *defaults,
	const struct weir_keepalived_target *target, bool *ret_any);
bool weir_keepalived_is_checker(const char *keyword);

// Read a virtual_server block. groups: the first statement of the file, to find
// virtual_server_group blocks.
void weir_keepalived_server(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups);
