// SPDX-License-Identifier: BSD-3-Clause
//
// Keys of single checkers of keepalived: the bytes of a UDP_CHECK, and the query of a DNS_CHECK.
// keepalived_misc.c reads the keys of a MISC_CHECK.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "keepalived_private.h"

#define BYTES_MOST sizeof(((struct weir_config_bytes *)0)->byte)

struct hex { // bytes of a statement, in hexadecimal digits
	char digits[2 * BYTES_MOST + 1];
	size_t used;
	bool is_valid;
	// Some bytes are not in `digits`: the bytes from the first wildcard on, or the bytes that
	// did not fit.
	bool has_wildcard, is_long;
};

static bool is_wildcard(char c) {
	return c == 'x' || c == 'X';
}

// Adds one byte. wildcards: "x" is allowed as a digit that matches any four bits; the bytes from
// the first wildcard on are left out.
static void add_byte(struct hex *hex, char high, char low, bool wildcards) {
	if ((!isxdigit((unsigned char)high) && !(wildcards && is_wildcard(high))) ||
		(!isxdigit((unsigned char)low) && !(wildcards && is_wildcard(low)))) {
		hex->is_valid = false;
	} else if (hex->has_wildcard || is_wildcard(high) || is_wildcard(low)) {
		hex->has_wildcard = true;
	} else if (hex->used + 3 > sizeof(hex->digits)) {
		hex->is_long = true;
	} else {
		hex->digits[hex->used++] = (char)tolower((unsigned char)high);
		hex->digits[hex->used++] = (char)tolower((unsigned char)low);
		hex->digits[hex->used] = '\0';
	}
}

// Reads the words of a statement. In keepalived each word has two digits for each byte. If the
// number of digits is odd, the last byte has only one digit.
static struct hex read_hex(const struct weir_keepalived_statement *statement, bool wildcards) {
	struct hex hex = {.is_valid = statement->count > 1};

	for (unsigned int i = 1; i < statement->count; i++) {
		for (const char *c = statement->word[i]; *c != '\0'; c += c[1] != '\0' ? 2 : 1) {
			add_byte(&hex, c[1] != '\0' ? c[0] : '0', c[1] != '\0' ? c[1] : c[0],
				wildcards);
		}
	}
	return hex;
}

static void read_payload(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	const struct hex hex = read_hex(statement, false);

	if (!hex.is_valid) {
		weir_keepalived_ignored(import, statement, "give hexadecimal digits");
	} else if (hex.is_long) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST, "payload",
			"a check sends at most %zu bytes: further bytes are left out", BYTES_MOST);
	}
	if (hex.is_valid && hex.used > 0) {
		json_object_set_new(check, "send_hex", json_string(hex.digits));
	}
}

static void read_reply(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	const struct hex hex = read_hex(statement, true);

	if (statement->count > 1 && !hex.is_valid) {
		weir_keepalived_ignored(import, statement, "give hexadecimal digits, or X");
	}
	if (hex.is_valid && hex.used > 0) {
		json_object_set_new(check, "expect_hex", json_string(hex.digits));
	}
	if (hex.is_valid && hex.is_long) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "require_reply",
			"only the first %zu bytes are compared", BYTES_MOST);
	} else if (hex.is_valid && hex.has_wildcard) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "require_reply",
			"only the bytes before the first X are compared");
	}
	if (!hex.is_valid || hex.used == 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST, "require_reply",
			"without bytes to expect, the check also passes without a reply: set "
			"\"expect\" or \"expect_hex\" of the health check");
	}
}

static bool read_udp_key(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	const char *keyword = statement->word[0];

	if (strcmp(keyword, "payload") == 0) {
		read_payload(import, statement, check);
	} else if (strcmp(keyword, "require_reply") == 0) {
		read_reply(import, statement, check);
	} else if (strcmp(keyword, "min_reply_length") == 0 ||
		   strcmp(keyword, "max_reply_length") == 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, keyword,
			"the length of a reply is not checked");
	} else {
		return false;
	}
	return true;
}

static bool read_dns_key(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	static const char *const records[] = {
		"A", "NS", "CNAME", "SOA", "MX", "TXT", "AAAA", "RRSIG", "DNSKEY"};
	const char *value = weir_keepalived_word(statement, 1);

	if (strcmp(statement->word[0], "type") == 0) {
		for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
			if (strcasecmp(value, records[i]) == 0) {
				json_object_set_new(check, "record", json_string(records[i]));
				return true;
			}
		}
		weir_keepalived_ignored(import, statement, "unknown type; using SOA");
	} else if (strcmp(statement->word[0], "name") == 0) {
		if (value[0] == '\0' || (value[0] == '.' && value[1] != '\0') ||
			strstr(value, "..") != NULL ||
			json_object_set_new(check, "name", json_string(value)) < 0) {
			weir_keepalived_ignored(import, statement, "give a domain name");
		}
	} else {
		return false;
	}
	return true;
}

bool weir_keepalived_check_key(struct weir_import *import, const char *checker,
	const struct weir_keepalived_statement *statement, json_t *check) {
	if (strcmp(checker, "UDP_CHECK") == 0) {
		return read_udp_key(import, statement, check);
	}
	if (strcmp(checker, "MISC_CHECK") == 0) {
		return weir_keepalived_misc_key(import, statement, check);
	}
	return strcmp(checker, "DNS_CHECK") == 0 && read_dns_key(import, statement, check);
}
