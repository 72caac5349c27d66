// SPDX-License-Identifier: BSD-3-Clause
#include "ipvs.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 1024
#define WORDS_MAX 64
#define KEY_BYTES 128 // "t[2001:db8::1]:80"

// Options by letter; long-only options get a letter that ipvsadm does not use.
enum letter { SCTP = 1, PERSISTENCE_ENGINE, TUN_TYPE, TUN_PORT, TUN_NOCSUM, TUN_CSUM, TUN_REMCSUM };

static const struct option {
	char letter;
	bool has_value; // the argument of -p is optional
	const char *name;
} options[] = {
	{'A', false, "add-service"},
	{'a', false, "add-server"},
	{'t', true, "tcp-service"},
	{'u', true, "udp-service"},
	{SCTP, true, "sctp-service"},
	{'f', true, "fwmark-service"},
	{'s', true, "scheduler"},
	{'p', false, "persistent"},
	{'M', true, "netmask"},
	{'o', false, "ops"},
	{'O', false, "one-packet"}, // its long name before 1.26
	{'b', true, "sched-flags"},
	{PERSISTENCE_ENGINE, true, "pe"},
	{'6', false, "ipv6"},
	{'r', true, "real-server"},
	{'g', false, "gatewaying"},
	{'i', false, "ipip"},
	{'m', false, "masquerading"},
	{TUN_TYPE, true, "tun-type"},
	{TUN_PORT, true, "tun-port"},
	{TUN_NOCSUM, false, "tun-nocsum"},
	{TUN_CSUM, false, "tun-csum"},
	{TUN_REMCSUM, false, "tun-remcsum"},
	{'w', true, "weight"},
	{'x', true, "u-threshold"},
	{'y', true, "l-threshold"},
	{'n', false, "numeric"},
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

struct rule { // one line
	struct weir_import_place place;
	const char *value[128]; // by letter; "" = given without a value, NULL = not given
};

struct reader {
	struct weir_import *import;
	struct weir_import_service *services; // in source order
	json_t *by_key; // {key: index}
	size_t count, room;
};

// --- words --------------------------------------------------------------------------------

// Split a line into words. Returns their number, or -1: too many.
static int cut(char *line, char *words[WORDS_MAX]) {
	int count = 0;
	char *rest;

	for (char *word = strtok_r(line, " \t\r", &rest); word != NULL;
		word = strtok_r(NULL, " \t\r", &rest)) {
		if (word[0] == '#') {
			break;
		}
		if (count == WORDS_MAX) {
			return -1;
		}
		words[count++] = word;
	}
	return count;
}

// The option of a word; *ret_value: its value in the same word, or NULL.
static const struct option *find_option(const char *word, const char **ret_value) {
	const char *equals = strchr(word, '=');
	size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);

	*ret_value = NULL;
	for (size_t i = 0; i < OPTIONS; i++) {
		const struct option *option = &options[i];

		if (word[1] == '-') {
			if (strlen(option->name) == length - 2 &&
				memcmp(option->name, word + 2, length - 2) == 0) {
				*ret_value = equals != NULL ? equals + 1 : NULL;
				return option;
			}
		} else if (option->letter == word[1] && option->letter >= '0' &&
			   option->letter != 'O') {
			*ret_value = word[2] != '\0' ? word + 2 : NULL;
			return option;
		}
	}
	return NULL;
}

static bool read_words(
	struct weir_import *import, char *const *words, int count, struct rule *rule) {
	for (int i = 0; i < count; i++) {
		const char *value;
		const struct option *option = words[i][0] == '-' && words[i][1] != '\0'
						      ? find_option(words[i], &value)
						      : NULL;

		if (option == NULL) {
			weir_import_error(import, &rule->place,
				"\"%s\" is not an option of ipvsadm -A or -a: use the output of "
				"ipvsadm -S -n",
				words[i]);
			return false;
		}
		if (value == NULL && option->has_value) {
			if (i + 1 == count) {
				weir_import_error(import, &rule->place,
					"%s needs a value: the line is truncated", words[i]);
				return false;
			}
			value = words[++i];
		} else if (value == NULL && option->letter == 'p' && i + 1 < count &&
			   words[i + 1][0] != '-') {
			value = words[++i]; // the seconds are optional
		}
		rule->value[(unsigned char)option->letter] = value != NULL ? value : "";
	}
	return true;
}

// --- services -----------------------------------------------------------------------------

static const char service_letters[] = {'t', 'u', SCTP, 'f', '\0'};

// The option that names the service in a line; 0 after an error.
static char service_letter(struct weir_import *import, const struct rule *rule) {
	char found = 0;

	for (const char *letter = service_letters; *letter != '\0'; letter++) {
		if (rule->value[(unsigned char)*letter] != NULL) {
			if (found != 0) {
				weir_import_error(
					import, &rule->place, "names two services: keep one");
				return 0;
			}
			found = *letter;
		}
	}
	if (found == 0) {
		weir_import_error(import, &rule->place,
			"names no service: -t, -u or -f and its address are missing");
	}
	return found;
}

static void key_of(const struct rule *rule, char letter, char key[KEY_BYTES]) {
	snprintf(key, KEY_BYTES, "%c%s", letter >= '0' ? letter : 's',
		rule->value[(unsigned char)letter]);
	for (char *c = key; *c != '\0'; c++) { // keys of jansson are UTF-8
		*c = (unsigned char)*c >= 0x7f ? '?' : *c;
	}
}

static bool read_address(struct weir_import *import, const struct rule *rule, const char *text,
	struct weir_address *ret, uint16_t *ret_port) {
	if (weir_import_endpoint(text, ret, ret_port) < 0) {
		weir_import_error(import, &rule->place,
			"\"%s\" is not an address and port such as 192.0.2.1:80 or "
			"[2001:db8::1]:80: use ipvsadm -S with -n",
			text);
		return false;
	}
	return true;
}

static void import_settings(struct weir_import *import, const struct rule *rule) {
	const struct weir_import_place *place = &rule->place;
	const char *seconds = rule->value['p'], *mask = rule->value['M'];
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (seconds != NULL) {
		snprintf(what, sizeof(what), "-p%s%.20s%s%.40s", seconds[0] != '\0' ? " " : "",
			seconds, mask != NULL ? " -M " : "", mask != NULL ? mask : "");
		weir_import_persistence(import, place, what);
	} else if (mask != NULL) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, "-M",
			"the netmask without a persistence");
	}
	if (rule->value['o'] != NULL || rule->value['O'] != NULL) {
		weir_import_one_packet(import, place, "-o");
	}
	if (rule->value[PERSISTENCE_ENGINE] != NULL) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, "--pe",
			"Weir does not inspect payload");
	}
}

// The address of a service; a service without one is skipped.
static void take_address(struct weir_import *import, const struct rule *rule, char letter,
	struct weir_import_service *service) {
	const char *text = rule->value[(unsigned char)letter];
	struct weir_address address;
	uint16_t port;

	if (letter == 'f') {
		service->left_out = true;
		weir_import_note(import, &rule->place, WEIR_IMPORT_LEFT_OUT, service->name,
			"the service: packets reach Weir before the firewall marks them. Add a "
			"service with the addresses and ports of the rules for mark %s",
			text);
	} else if (letter == SCTP) {
		service->left_out = true;
		weir_import_note(import, &rule->place, WEIR_IMPORT_LEFT_OUT, service->name,
			"the service: Weir supports TCP and UDP only");
	} else if (read_address(import, rule, text, &address, &port)) {
		service->protocol = letter == 'u' ? IPPROTO_UDP : IPPROTO_TCP;
		weir_import_bind(import, service, &rule->place, &address, port, port);
	} else {
		service->left_out = true;
	}
}

static void add_service(struct reader *reader, const struct rule *rule) {
	struct weir_import *import = reader->import;
	char letter = service_letter(import, rule), key[KEY_BYTES], name[WEIR_IMPORT_TEXT_BYTES];
	struct weir_import_service *service;
	const char *flags = rule->value['b'];

	if (letter == 0) {
		return;
	}
	key_of(rule, letter, key);
	if (json_object_get(reader->by_key, key) != NULL) {
		weir_import_error(
			import, &rule->place, "adds a service twice: remove one of the two lines");
		return;
	}
	if (reader->count == reader->room) {
		size_t room = 2 * reader->room + 16;
		void *grown = realloc(reader->services, room * sizeof(*reader->services));

		if (grown == NULL) {
			import->failed = true;
			return;
		}
		reader->services = grown;
		reader->room = room;
	}
	service = &reader->services[reader->count];
	snprintf(name, sizeof(name), "%s-%.50s",
		letter == 't'   ? "tcp"
		: letter == 'u' ? "udp"
		: letter == 'f' ? "fwmark"
				: "sctp",
		rule->value[(unsigned char)letter] +
			strspn(rule->value[(unsigned char)letter], "["));
	if (weir_import_service_begin(import, service, &rule->place, name) < 0) {
		return;
	}
	json_object_set_new(reader->by_key, key, json_integer((json_int_t)reader->count++));
	snprintf(service->scheduler, sizeof(service->scheduler), "%s",
		rule->value['s'] != NULL ? rule->value['s'] : "wlc"); // ipvsadm's default
	service->hashes_ports = flags != NULL && (strstr(flags, "sh-port") != NULL ||
							 strstr(flags, "mh-port") != NULL);
	take_address(import, rule, letter, service);
	import_settings(import, rule);
}

// --- servers ------------------------------------------------------------------------------

static bool read_count(struct weir_import *import, const struct rule *rule, char letter,
	uint64_t most, uint64_t fallback, uint64_t *ret) {
	const char *text = rule->value[(unsigned char)letter];

	*ret = fallback;
	if (text != NULL && !weir_import_number(text, most, ret)) {
		weir_import_error(import, &rule->place, "-%c \"%s\": use a number from 0 to %llu",
			letter, text, (unsigned long long)most);
		return false;
	}
	return true;
}

static void import_method(
	struct weir_import *import, struct weir_import_service *service, const struct rule *rule) {
	const char *type = rule->value[TUN_TYPE];

	if (rule->value['i'] != NULL) {
		if (type != NULL && strcmp(type, "ipip") != 0) {
			weir_import_note(import, &rule->place, WEIR_IMPORT_DIFFERS, "--tun-type",
				"Weir's tunnels are IP in IP, not %s: change the decapsulation on "
				"the server",
				type);
		}
		return; // as above
	}
	weir_import_forwarding(import, service, &rule->place, rule->value['m'] != NULL ? 'm' : 'g');
}

static void add_server(struct reader *reader, const struct rule *rule) {
	struct weir_import *import = reader->import;
	char letter = service_letter(import, rule), key[KEY_BYTES];
	struct weir_import_backend backend = {.weight = 1};
	struct weir_import_service *service;
	uint64_t weight, upper, lower;
	const json_t *index;

	if (letter == 0) {
		return;
	}
	key_of(rule, letter, key);
	index = json_object_get(reader->by_key, key);
	if (index == NULL || reader->services == NULL) {
		weir_import_error(import, &rule->place,
			"adds a server to a service that no earlier line adds: put its -A line "
			"first");
		return;
	}
	if (rule->value['r'] == NULL) {
		weir_import_error(
			import, &rule->place, "names no server: -r and its address are missing");
		return;
	}
	if (!read_address(import, rule, rule->value['r'], &backend.address, &backend.port) ||
		!read_count(import, rule, 'w', INT32_MAX, 1, &weight) ||
		!read_count(import, rule, 'x', UINT32_MAX, 0, &upper) ||
		!read_count(import, rule, 'y', UINT32_MAX, 0, &lower)) {
		return;
	}
	service = &reader->services[json_integer_value(index)];
	if (service->left_out) {
		return;
	}
	backend.weight = (json_int_t)weight;
	backend.upper = (uint32_t)upper;
	weir_import_backend(import, service, &rule->place, &backend);
	import_method(import, service, rule);
	if (lower > 0) {
		weir_import_note(import, &rule->place, WEIR_IMPORT_LEFT_OUT, "-y",
			"a backend gets flows again as soon as it is below its limit");
	}
}

// --- lines --------------------------------------------------------------------------------

static void read_line(struct reader *reader, struct rule *rule, char *line) {
	char *words[WORDS_MAX];
	int count = cut(line, words), first = 0;

	if (count < 0) {
		weir_import_error(reader->import, &rule->place,
			"has more than %d words: use the output of ipvsadm -S -n", WORDS_MAX);
		return;
	}
	if (count > 0 && strcmp(words[0], "ipvsadm") == 0) {
		first = 1;
	}
	if (count == first || !read_words(reader->import, words + first, count - first, rule)) {
		return;
	}
	if (rule->value['A'] != NULL && rule->value['a'] == NULL) {
		add_service(reader, rule);
	} else if (rule->value['a'] != NULL && rule->value['A'] == NULL) {
		add_server(reader, rule);
	} else {
		weir_import_error(reader->import, &rule->place,
			"is neither -A (a service) nor -a (a server): use the output of ipvsadm -S "
			"-n");
	}
}

void weir_import_ipvs(
	struct weir_import *import, const char *file, const char *text, size_t bytes) {
	struct reader reader = {.import = import, .by_key = json_object()};
	const char *end = text + bytes;
	int number = 0;

	import->failed |= reader.by_key == NULL;
	while (text < end && !import->failed) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = stop != NULL ? (size_t)(stop - text) : (size_t)(end - text);
		struct rule rule = {.place = {.file = file, .line = ++number}};
		char line[LINE_BYTES];

		if (length >= sizeof(line) || memchr(text, '\0', length) != NULL) {
			weir_import_error(import, &rule.place,
				"is not a line of ipvsadm: use the output of ipvsadm -S -n");
		} else {
			memcpy(line, text, length);
			line[length] = '\0';
			read_line(&reader, &rule, line);
		}
		text = stop != NULL ? stop + 1 : end;
	}
	for (size_t i = 0; i < reader.count; i++) {
		weir_import_service_end(import, &reader.services[i]);
	}
	free(reader.services);
	json_decref(reader.by_key);
}
