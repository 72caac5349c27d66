// SPDX-License-Identifier: BSD-3-Clause
#include "word_line.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text;
	enum weir_health_word word;
} lines[] = {
	{"starting", WEIR_HEALTH_WORD_STARTING},
	{"ready", WEIR_HEALTH_WORD_READY},
	{"lame-duck", WEIR_HEALTH_WORD_LAME_DUCK},
	{"down", WEIR_HEALTH_WORD_DOWN},
	{"status", WEIR_HEALTH_WORD_NONE},
	{"", WEIR_HEALTH_WORD_NONE},
	{"READY=1", WEIR_HEALTH_WORD_READY},
	{"STOPPING=1", WEIR_HEALTH_WORD_LAME_DUCK},
};

// --- requests -----------------------------------------------------------------------------

// Returns whether this is a line of sd_notify: capital letters, digits and '_', then '='.
static bool is_assignment(const char *line, size_t bytes) {
	size_t n = 0;

	while (n < bytes && (isupper((unsigned char)line[n]) || line[n] == '_' ||
				    (n > 0 && isdigit((unsigned char)line[n])))) {
		n++;
	}
	return n > 0 && n < bytes && line[n] == '=';
}

// Read a line without its line feed. *ret_word: gets the announced state; unchanged if the line
// announces none. Returns 0 or -EINVAL.
static int read_line(const char *line, size_t bytes, enum weir_health_word *ret_word) {
	while (bytes > 0 && (line[bytes - 1] == '\r' || line[bytes - 1] == ' ')) {
		bytes--;
	}
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (strlen(lines[i].text) == bytes && memcmp(lines[i].text, line, bytes) == 0) {
			if (lines[i].word != WEIR_HEALTH_WORD_NONE) {
				*ret_word = lines[i].word;
			}
			return 0;
		}
	}
	return is_assignment(line, bytes) ? 0 : -EINVAL;
}

int weir_word_lines_read(const char *text, size_t bytes, enum weir_health_word *ret_word) {
	enum weir_health_word word = WEIR_HEALTH_WORD_NONE;

	while (bytes > 0) {
		const char *end = memchr(text, '\n', bytes);
		size_t n = end != NULL ? (size_t)(end - text) : bytes;

		if (read_line(text, n, &word)) {
			return -EINVAL;
		}
		n += end != NULL;
		text += n;
		bytes -= n;
	}
	*ret_word = word;
	return 0;
}

// --- replies ------------------------------------------------------------------------------

const char *weir_word_reply_write(
	const char *service, const struct weir_word_reply *reply, char *to) {
	int n = snprintf(to, WEIR_WORD_REPLY_BYTES, "%s: %s, balancers %u, pending %u, ports",
		service, weir_health_word_name(reply->word), reply->balancers, reply->pending);

	for (uint32_t i = 0; i < reply->port_count; i++) {
		n += snprintf(to + n, WEIR_WORD_REPLY_BYTES - (size_t)n, " %u%s",
			reply->port[i].port, reply->port[i].protocol == IPPROTO_UDP ? "/udp" : "");
	}
	snprintf(to + n, WEIR_WORD_REPLY_BYTES - (size_t)n, "\n");
	return to;
}

static int read_word(const char *text, size_t bytes, enum weir_health_word *ret) {
	for (int word = WEIR_HEALTH_WORD_NONE + 1; word < WEIR_HEALTH_WORD_COUNT; word++) {
		const char *name = weir_health_word_name((enum weir_health_word)word);

		if (strlen(name) == bytes && memcmp(name, text, bytes) == 0) {
			*ret = (enum weir_health_word)word;
			return 0;
		}
	}
	return -EINVAL;
}

int weir_word_reply_read(const char *text, struct weir_word_reply *ret) {
	struct weir_word_reply reply = {0};
	char balancers[10], pending[10];
	const char *at = strstr(text, ": ");
	int n = 0;

	if (at == NULL || !weir_service_name_is_valid(text, (size_t)(at - text))) {
		return -EINVAL;
	}
	at += strlen(": ");
	if (read_word(at, strcspn(at, ","), &reply.word)) {
		return -EINVAL;
	}
	at += strcspn(at, ",");
	// Rejects a sign, and more than nine digits, so that the numbers cannot overflow. Numbers
	// in a reply of weir-agent are always shorter.
	if (sscanf(at, ", balancers %9[0-9], pending %9[0-9], ports%n", balancers, pending, &n) !=
			2 ||
		n == 0) {
		return -EINVAL;
	}
	reply.balancers = (unsigned int)strtoul(balancers, NULL, 10);
	reply.pending = (unsigned int)strtoul(pending, NULL, 10);
	for (at += n; *at == ' '; at += strcspn(at, " \n")) {
		at++;
		if (reply.port_count == WEIR_PORT_WORDS_MOST ||
			weir_service_port_parse(
				at, strcspn(at, " \n"), &reply.port[reply.port_count++])) {
			return -EINVAL;
		}
	}
	if (strcmp(at, "\n") != 0) {
		return -EINVAL;
	}
	*ret = reply;
	return 0;
}
