// SPDX-License-Identifier: BSD-3-Clause
//
// Declarations for the readers of keepalived's statements. keepalived_servers.c reads virtual and
// real servers, with keepalived_method.c and keepalived_range.c; keepalived_checks.c,
// keepalived_check_keys.c and keepalived_misc.c read checkers; keepalived.c reads everything else.
// All of them use keepalived_words.c. keepalived_extra.c adds notes about words that keepalived
// ignores.
//
// If a statement is invalid, keepalived usually logs an error and continues: it uses a default, or
// skips the server. The readers handle the statement in the same way, and add a note.
#pragma once

#include "keepalived_tree.h"

// A keyword that no reader handles, and the note about it.
struct weir_keepalived_rest {
	const char *name; // NULL ends a list
	const char *why; // text of the note; NULL = no note, because nothing is lost
};

// Add a note about a statement that no reader handles. rest: list of such keywords for the block
// that contains the statement.
void weir_keepalived_note(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const struct weir_keepalived_rest *rest);

// Add a note about a statement that keepalived does not accept. The import handles the statement as
// keepalived does. format: what keepalived accepts, or what keepalived does instead.
void weir_keepalived_ignored(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// Adds a note about the words of a statement that keepalived ignores, if there are any.
void weir_keepalived_extra(
	struct weir_import *import, const struct weir_keepalived_statement *statement);
// Does this for a block and all statements in it. Adds also notes about blocks that keepalived
// ignores, because they follow other words.
void weir_keepalived_extra_in(
	struct weir_import *import, const struct weir_keepalived_statement *block);
// Adds the same note for a statement of which keepalived reads this number of words, with the
// keyword.
void weir_keepalived_extra_words(struct weir_import *import,
	const struct weir_keepalived_statement *statement, unsigned int read);

// Returns the n-th word of a statement, or "" if the statement has fewer words.
const char *weir_keepalived_word(const struct weir_keepalived_statement *statement, unsigned int n);
// Write the statement as one line, for notes. A truncated line ends in "...". Returns buffer.
const char *weir_keepalived_text(
	const struct weir_keepalived_statement *statement, char *buffer, size_t bytes);
// Parse seconds with a fraction into milliseconds. A value above 0 and below least_ms becomes
// least_ms. A value above one hour, the maximum of Weir, becomes one hour, with a note. If
// keepalived ignores the value, adds a note and returns false; *ret_ms is then unchanged.
bool weir_keepalived_seconds(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t least_ms, uint32_t *ret_ms);
// Parse a whole number. If keepalived ignores the value, adds a note and returns false; *ret is
// then unchanged.
bool weir_keepalived_number(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint64_t least, uint64_t most,
	uint64_t *ret);
// Parse an address like "192.0.2.1". Outside groups, keepalived ignores a range or mask after the
// address; adds a note about it. Returns 0 or -EINVAL.
int weir_keepalived_address(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const char *text,
	struct weir_address *ret);
// Parse a port; "" and 0 mean every port. Returns false if the text is not a port.
bool weir_keepalived_port(const char *text, uint16_t *ret);

// Read the forwarding method of a virtual or real server (lb_kind or lvs_method). Leaves
// *forwarding unchanged if keepalived ignores the statement.
void weir_keepalived_method(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	struct weir_import_forwarding *forwarding);

// A range of addresses in a virtual_server_group.
struct weir_keepalived_range {
	struct weir_address first, last;
};
// Parse an entry of a group: "192.0.2.1", "192.0.2.1-10", "192.0.2.1-192.0.2.10", "192.0.2.0/28".
// Returns 0 or -EINVAL. With -EINVAL, *ret_why is the reason why keepalived skips the entry.
int weir_keepalived_range_read(
	const char *text, struct weir_keepalived_range *ret, const char **ret_why);

// Defaults for the checkers of a virtual or real server.
struct weir_keepalived_defaults {
	uint32_t delay_ms, timeout_ms;
	uint32_t retries, retry_delay_ms;
	bool has_retries, has_retry_delay; // false: the default of the checker applies
	const char *host; // virtualhost; NULL = none
};
// Read a statement if it is a setting of struct weir_keepalived_defaults. retry_least: minimum of
// "retry", 0 in checkers. Returns false for other statements.
bool weir_keepalived_default(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t retry_least,
	struct weir_keepalived_defaults *defaults);

struct weir_keepalived_target { // target of a check
	const struct weir_address *address;
	uint8_t protocol; // protocol of the VIP
	uint16_t service_port; // port of the VIP; 0 = every port
	uint16_t port; // port of the server; 0 = the port of the VIP
};
// Choose one of the checkers of a real server, and convert it into a health check. Returns a new
// reference, or NULL if Weir supports none of the checkers, or the port to check is unknown. Sets
// *ret_any to true if the server has a checker that keepalived uses; otherwise *ret_any is
// unchanged.
json_t *weir_keepalived_check(struct weir_import *import,
	const struct weir_keepalived_statement *server,
	const struct weir_keepalived_defaults *defaults,
	const struct weir_keepalived_target *target, bool *ret_any);
bool weir_keepalived_is_checker(const char *keyword);
// Reads a key that only this checker has, and adds it to the health check. Returns false for other
// keys.
bool weir_keepalived_check_key(struct weir_import *import, const char *checker,
	const struct weir_keepalived_statement *statement, json_t *check);

// Returns the command of a MISC_CHECK, as a new array of words, with {address} for the address of
// the server. Returns NULL if Weir cannot run the command, with the reason in *ret_why.
json_t *weir_keepalived_command(const struct weir_keepalived_statement *checker,
	const struct weir_address *server, const char **ret_why);
// Reads a key that only a MISC_CHECK has, and adds it to the health check. Returns false for other
// keys.
bool weir_keepalived_misc_key(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check);

// Reads quorum and hysteresis of a virtual_server block. Call when the service has all backends. If
// their weights differ, adds a note instead.
void weir_keepalived_quorum(struct weir_import *import,
	const struct weir_keepalived_statement *block, struct weir_import_service *service);

// Read a virtual_server block. groups: the first statement of the file, where the search for
// virtual_server_group blocks begins.
void weir_keepalived_server(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_statement *groups);
