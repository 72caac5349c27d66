// SPDX-License-Identifier: BSD-3-Clause
#include "ipvs_line.h"

#include <stddef.h>
#include <string.h>

static const struct option {
	char letter;
	bool has_value; // the argument of -p is optional
	const char *name;
} options[] = {
	{'A', false, "add-service"},
	{'a', false, "add-server"},
	{'t', true, "tcp-service"},
	{'u', true, "udp-service"},
	{WEIR_IPVS_SCTP, true, "sctp-service"},
	{'f', true, "fwmark-service"},
	{'s', true, "scheduler"},
	{'p', false, "persistent"},
	{'M', true, "netmask"},
	{'o', false, "ops"},
	{'O', false, "one-packet"}, // the long name of -o before ipvsadm 1.26
	{'b', true, "sched-flags"},
	{WEIR_IPVS_PERSISTENCE_ENGINE, true, "pe"},
	{'6', false, "ipv6"},
	{'r', true, "real-server"},
	{'g', false, "gatewaying"},
	{'i', false, "ipip"},
	{'m', false, "masquerading"},
	{WEIR_IPVS_TUN_TYPE, true, "tun-type"},
	{WEIR_IPVS_TUN_PORT, true, "tun-port"},
	{WEIR_IPVS_TUN_NOCSUM, false, "tun-nocsum"},
	{WEIR_IPVS_TUN_CSUM, false, "tun-csum"},
	{WEIR_IPVS_TUN_REMCSUM, false, "tun-remcsum"},
	{'w', true, "weight"},
	{'x', true, "u-threshold"},
	{'y', true, "l-threshold"},
	{'n', false, "numeric"},
	{'C', false, "clear"},
	{'D', false, "delete-service"},
	{'E', false, "edit-service"},
	{'d', false, "delete-server"},
	{'e', false, "edit-server"},
	{'Z', false, "zero"},
	{'L', false, "list"},
	{'l', false, "list"},
	{'S', false, "save"},
	{'R', false, "restore"},
	{WEIR_IPVS_SET, false, "set"}, // takes three values: the timeouts tcp, tcpfin and udp
	{WEIR_IPVS_DAEMON, true, "start-daemon"},
	{WEIR_IPVS_MCAST, true, "mcast-interface"},
	{WEIR_IPVS_SYNCID, true, "syncid"},
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

int weir_ipvs_line_cut(char *line, char *words[WEIR_IPVS_WORDS_MAX]) {
	int count = 0;
	char *rest;

	for (char *word = strtok_r(line, " \t\r\"'", &rest); word != NULL;
		word = strtok_r(NULL, " \t\r\"'", &rest)) {
		if (word[0] == '#') {
			break;
		}
		if (count == WEIR_IPVS_WORDS_MAX) {
			return -1;
		}
		words[count++] = word;
	}
	return count;
}

// Find an option by its long name. *ret_value: the value if it is in the same word, or NULL.
static const struct option *find_long(const char *word, const char **ret_value) {
	const char *equals = strchr(word, '=');
	size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);

	*ret_value = equals != NULL ? equals + 1 : NULL;
	for (size_t i = 0; i < OPTIONS; i++) {
		if (strlen(options[i].name) == length &&
			memcmp(options[i].name, word, length) == 0) {
			return &options[i];
		}
	}
	return NULL;
}

static const struct option *find_short(char letter) {
	for (size_t i = 0; i < OPTIONS; i++) {
		if (options[i].letter == letter && letter >= '0' && letter != 'O') {
			return &options[i];
		}
	}
	return NULL;
}

struct words {
	struct weir_import *import;
	char *const *word;
	int count, at;
};

// Store an option and its value, from the same word or the next word. Returns false after an error.
static bool take_option(struct words *words, const struct option *option, const char *value,
	struct weir_ipvs_line *rule) {
	bool next = words->at + 1 < words->count;

	if (value == NULL && option->has_value) {
		if (!next) {
			weir_import_error(words->import, &rule->place,
				"%s needs a value: the line is truncated", words->word[words->at]);
			return false;
		}
		value = words->word[++words->at];
	} else if (value == NULL && option->letter == 'p' && next &&
		   words->word[words->at + 1][0] != '-') {
		value = words->word[++words->at]; // the seconds are optional
	} else if (option->letter == WEIR_IPVS_SET) {
		for (int i = 0; i < 3 && words->at + 1 < words->count; i++) {
			rule->timeouts[i] = words->word[++words->at];
		}
	}
	rule->value[(unsigned char)option->letter] = value != NULL ? value : "";
	return true;
}

// Read a word of option letters like "-At". The letters of options without a value can be combined
// in one word.
static bool take_letters(struct words *words, const char *letters, struct weir_ipvs_line *rule) {
	const struct option *option = NULL;

	do {
		option = find_short(*letters++);
		if (option == NULL) {
			weir_import_error(words->import, &rule->place,
				"\"%s\" is not an option of ipvsadm: " WEIR_IPVS_USE,
				words->word[words->at]);
			return false;
		}
		if (*letters != '\0' && (option->has_value || option->letter == 'p')) {
			return take_option(words, option, letters, rule);
		}
		if (!take_option(words, option, NULL, rule)) {
			return false;
		}
	} while (*letters != '\0');
	return true;
}

bool weir_ipvs_line_read(
	struct weir_import *import, char *const *list, int count, struct weir_ipvs_line *rule) {
	struct words words = {.import = import, .word = list, .count = count};

	for (; words.at < count; words.at++) {
		const char *word = list[words.at], *value;
		const struct option *option;

		if (word[0] == '-' && word[1] != '-' && word[1] != '\0') {
			if (!take_letters(&words, word + 1, rule)) {
				return false;
			}
			continue;
		}
		option = word[0] == '-' && word[1] == '-' ? find_long(word + 2, &value) : NULL;
		if (option == NULL) {
			weir_import_error(import, &rule->place,
				"\"%s\" is not an option of ipvsadm: " WEIR_IPVS_USE, word);
			return false;
		}
		if (!take_option(&words, option, value, rule)) {
			return false;
		}
	}
	return true;
}
