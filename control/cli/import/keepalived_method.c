// SPDX-License-Identifier: BSD-3-Clause
//
// Forwarding methods of keepalived:
//
//   NAT | DR | TUN [type {ipip|gue port NUMBER|gre}] [nocsum|csum|remcsum]
#include <stdio.h>
#include <string.h>

#include "keepalived_private.h"

struct tunnel { // the options of TUN
	uint8_t mode; // enum weir_forwarding_mode
	uint64_t port; // 0 = none
	const char *checksum;
};

static enum weir_forwarding_mode mode_of(const char *type) {
	return strcmp(type, "ipip") == 0  ? WEIR_FORWARDING_IPIP
	       : strcmp(type, "gue") == 0 ? WEIR_FORWARDING_GUE
	       : strcmp(type, "gre") == 0 ? WEIR_FORWARDING_GRE
					  : WEIR_FORWARDING_COUNT;
}

static bool is_checksum(const char *word) {
	return strcmp(word, "nocsum") == 0 || strcmp(word, "csum") == 0 ||
	       strcmp(word, "remcsum") == 0;
}

// Returns NULL if keepalived accepts the words of the options. If keepalived ignores the options,
// returns a text with the options that keepalived accepts.
static const char *read_options(
	const struct weir_keepalived_statement *statement, struct tunnel *ret) {
	for (unsigned int i = 2; i < statement->count; i++) {
		const char *word = statement->word[i];
		const char *value = weir_keepalived_word(statement, i + 1);

		if (strcmp(word, "type") == 0) {
			ret->mode = (uint8_t)mode_of(value);
			if (ret->mode == WEIR_FORWARDING_COUNT) {
				return "use type ipip, gue or gre";
			}
			i++;
		} else if (strcmp(word, "port") == 0) {
			if (!weir_import_number(value, UINT16_MAX, &ret->port) || ret->port == 0) {
				return "use a port from 1 to 65535";
			}
			i++;
		} else if (is_checksum(word)) {
			ret->checksum = word;
		} else {
			return "use type, port, nocsum, csum or remcsum";
		}
	}
	return NULL;
}

static const char *check_options(const struct tunnel *tunnel) {
	const char *checksum = tunnel->checksum;

	if ((tunnel->mode == WEIR_FORWARDING_GUE) != (tunnel->port != 0)) {
		return "type gue needs a port, other types have no port";
	}
	if (tunnel->mode == WEIR_FORWARDING_IPIP && strcmp(checksum, "nocsum") != 0) {
		return "type ipip has no checksum";
	}
	if (tunnel->mode == WEIR_FORWARDING_GRE && strcmp(checksum, "remcsum") == 0) {
		return "use nocsum or csum with type gre";
	}
	return NULL;
}

static void read_tunnel(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	struct weir_import_forwarding *forwarding) {
	struct tunnel tunnel = {.mode = WEIR_FORWARDING_IPIP, .checksum = "nocsum"};
	const char *why = read_options(statement, &tunnel);
	char what[WEIR_IMPORT_TEXT_BYTES];

	why = why != NULL ? why : check_options(&tunnel);
	weir_keepalived_text(statement, what, sizeof(what));
	if (why != NULL) { // keepalived then uses TUN with the previous type and port
		forwarding->mode = forwarding->mode == WEIR_FORWARDING_L2 ? WEIR_FORWARDING_IPIP
									  : forwarding->mode;
		weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST, what,
			"keepalived and the import ignore the options of TUN: %s; using %s", why,
			weir_forwarding_name(forwarding->mode));
	} else {
		forwarding->mode = tunnel.mode;
		forwarding->gue_port = (uint16_t)tunnel.port;
		weir_import_checksum(import, &statement->place, what, tunnel.mode, tunnel.checksum);
	}
	forwarding->nat = false;
}

void weir_keepalived_method(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	struct weir_import_forwarding *forwarding) {
	const char *method = weir_keepalived_word(statement, 1);

	if (strcmp(method, "DR") == 0) {
		*forwarding = (struct weir_import_forwarding){.mode = WEIR_FORWARDING_L2};
	} else if (strcmp(method, "NAT") == 0) {
		*forwarding = (struct weir_import_forwarding){.nat = true};
	} else if (strcmp(method, "TUN") == 0) {
		read_tunnel(import, statement, forwarding);
	} else {
		weir_keepalived_ignored(import, statement, "use NAT, DR or TUN");
	}
}
