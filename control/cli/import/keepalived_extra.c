// SPDX-License-Identifier: BSD-3-Clause
//
// Words that keepalived ignores. A line of keepalived has one statement, whose keyword reads a
// fixed number of words: in "delay_loop 10 lb_algo rr", keepalived ignores the scheduler, without a
// message. A block that follows another statement on a line is not a block, either.
#include <limits.h>
#include <string.h>

#include "keepalived_private.h"

#define TEXT_BYTES 80 // bytes of ignored words in a note

enum kind {
	WORDS, // reads up to `most` words
	SWITCH, // reads one word if it is on, off, or another name of these
	METHOD, // reads one word, and with TUN any number of words
	ANY, // reads any number of words, or its reader adds a note
	BLOCK,
	CLOSED_BLOCK, // a block whose statements are not read
};

static const struct keyword {
	const char *name;
	enum kind kind;
	unsigned int most;
} keywords[] = {
	// global_defs
	{"router_id", WORDS, 1},
	{"lvs_id", WORDS, 1},
	{"notification_email_from", WORDS, 1},
	{"smtp_server", WORDS, 2},
	{"smtp_helo_name", WORDS, 1},
	{"smtp_connect_timeout", WORDS, 1},
	{"script_user", WORDS, 2},
	{"enable_script_security", WORDS, 0},
	{"process_names", WORDS, 0},
	{"checker_process_name", WORDS, 1},
	{"lvs_flush", WORDS, 0},
	{"lvs_flush_on_stop", WORDS, 1},
	// virtual servers
	{"virtual_server", BLOCK, 2},
	{"virtual_server_group", CLOSED_BLOCK, 1},
	{"ip_family", WORDS, 1},
	{"lb_algo", WORDS, 1},
	{"lvs_sched", WORDS, 1},
	{"hashed", WORDS, 0},
	{"ops", WORDS, 0},
	{"flag-1", WORDS, 0},
	{"flag-2", WORDS, 0},
	{"flag-3", WORDS, 0},
	{"sh-port", WORDS, 0},
	{"sh-fallback", WORDS, 0},
	{"mh-port", WORDS, 0},
	{"mh-fallback", WORDS, 0},
	{"lb_kind", METHOD, 1},
	{"lvs_method", METHOD, 1},
	{"persistence_engine", WORDS, 1},
	{"persistence_timeout", WORDS, 1},
	{"persistence_granularity", WORDS, 1},
	{"protocol", WORDS, 1},
	{"ha_suspend", WORDS, 0},
	{"omega", WORDS, 0},
	{"quorum", WORDS, 1},
	{"hysteresis", WORDS, 1},
	{"quorum_up", ANY, 0},
	{"quorum_down", ANY, 0},
	{"sorry_server", WORDS, 2},
	{"sorry_server_inhibit", WORDS, 0},
	{"sorry_server_lvs_method", METHOD, 1},
	// virtual servers, real servers and checkers
	{"delay_loop", WORDS, 1},
	{"retry", WORDS, 1},
	{"delay_before_retry", WORDS, 1},
	{"connect_timeout", WORDS, 1},
	{"warmup", WORDS, 1},
	{"inhibit_on_failure", SWITCH, 1},
	{"alpha", SWITCH, 1},
	{"smtp_alert", SWITCH, 1},
	{"virtualhost", WORDS, 1},
	{"snmp_name", WORDS, 1},
	{"weight", WORDS, 1},
	// real servers
	{"real_server", BLOCK, 2},
	{"uthreshold", WORDS, 1},
	{"lthreshold", WORDS, 1},
	{"notify_up", ANY, 0},
	{"notify_down", ANY, 0},
	// checkers
	{"HTTP_GET", BLOCK, 0},
	{"SSL_GET", BLOCK, 0},
	{"SMTP_CHECK", BLOCK, 0},
	{"DNS_CHECK", BLOCK, 0},
	{"MISC_CHECK", BLOCK, 0},
	{"UDP_CHECK", BLOCK, 0},
	{"TCP_CHECK", BLOCK, 0},
	{"PING_CHECK", BLOCK, 0},
	{"FILE_CHECK", CLOSED_BLOCK, 0},
	{"BFD_CHECK", CLOSED_BLOCK, 0},
	{"connect_ip", WORDS, 1},
	{"connect_port", WORDS, 1},
	{"bindto", WORDS, 1},
	{"bind_port", WORDS, 1},
	{"bind_if", WORDS, 1},
	{"fwmark", WORDS, 1},
	{"log_all_failures", SWITCH, 1},
	{"nb_get_retry", WORDS, 1},
	{"http_protocol", WORDS, 1},
	{"enable_sni", SWITCH, 1},
	{"fast_recovery", SWITCH, 1},
	{"url", BLOCK, 0},
	{"path", WORDS, 1},
	{"digest", WORDS, 1},
	{"status_code", ANY, 0},
	{"regex", ANY, 0},
	{"regex_no_match", WORDS, 0},
	{"regex_options", ANY, 0},
	{"regex_min_offset", WORDS, 1},
	{"regex_max_offset", WORDS, 1},
	{"regex_stack", WORDS, 2},
	{"helo_name", WORDS, 1},
	{"host", BLOCK, 0},
	{"type", WORDS, 1},
	{"name", WORDS, 1},
	{"misc_path", ANY, 0},
	{"misc_timeout", WORDS, 1},
	{"misc_dynamic", WORDS, 0},
	{"user", WORDS, 2},
	{"payload", ANY, 0},
	{"require_reply", ANY, 0},
	{"min_reply_length", WORDS, 1},
	{"max_reply_length", WORDS, 1},
};

static const struct keyword *find(const char *name) {
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
		if (strcmp(keywords[i].name, name) == 0) {
			return &keywords[i];
		}
	}
	return NULL;
}

static bool is_switch(const char *word) {
	static const char *const words[] = {"true", "on", "yes", "false", "off", "no"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], word) == 0) {
			return true;
		}
	}
	return false;
}

// Returns how many words keepalived reads after the keyword, if the statement has so many.
static unsigned int words_read(
	const struct keyword *keyword, const struct weir_keepalived_statement *statement) {
	const char *first = weir_keepalived_word(statement, 1);

	if (keyword->kind == ANY || (keyword->kind == METHOD && strcmp(first, "TUN") == 0)) {
		return UINT_MAX;
	}
	return keyword->kind == SWITCH && !is_switch(first) ? 0 : keyword->most;
}

// Writes the words of a statement from the n-th on. Returns buffer.
static const char *words_from(const struct weir_keepalived_statement *statement, unsigned int n,
	char buffer[TEXT_BYTES]) {
	const struct weir_keepalived_statement rest = {
		.word = statement->word + n, .count = statement->count - n};

	return weir_keepalived_text(&rest, buffer, TEXT_BYTES);
}

void weir_keepalived_extra_words(struct weir_import *import,
	const struct weir_keepalived_statement *statement, unsigned int read) {
	char what[TEXT_BYTES];

	if (read < statement->count) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST,
			words_from(statement, read, what),
			"keepalived and the import ignore these words, which follow \"%s\" on the "
			"same line: write a statement on a separate line if it should have an "
			"effect, and import again",
			statement->word[0]);
	}
}

void weir_keepalived_extra(
	struct weir_import *import, const struct weir_keepalived_statement *statement) {
	const struct keyword *keyword = find(statement->word[0]);
	unsigned int read = keyword != NULL ? words_read(keyword, statement) : UINT_MAX;

	if (read != UINT_MAX) {
		weir_keepalived_extra_words(import, statement, read + 1);
	}
}

// Adds a note about the braces of a statement that is not a block, such as "weight 1 TCP_CHECK {".
static void note_braces(struct weir_import *import,
	const struct weir_keepalived_statement *statement, unsigned int read) {
	char what[TEXT_BYTES];

	weir_import_note(import, &statement->place, WEIR_IMPORT_MISSING,
		words_from(statement, read < statement->count - 1 ? read + 1 : 0, what),
		"not read: keepalived skips a \"{\" that follows \"%s\" on the same line, and the "
		"\"}\" ends the enclosing block. Write the block on a separate line, and import "
		"again",
		statement->word[0]);
}

void weir_keepalived_extra_in(
	struct weir_import *import, const struct weir_keepalived_statement *block) {
	weir_keepalived_extra(import, block);
	for (const struct weir_keepalived_statement *statement = block->children; statement != NULL;
		statement = statement->next) {
		const struct keyword *keyword = find(statement->word[0]);

		if (keyword == NULL) {
			continue; // another reader adds a note
		}
		if (keyword->kind == BLOCK) {
			weir_keepalived_extra_in(import, statement);
		} else if (statement->block && keyword->kind != CLOSED_BLOCK) {
			note_braces(import, statement, words_read(keyword, statement));
		} else {
			weir_keepalived_extra(import, statement);
		}
	}
}
