// SPDX-License-Identifier: BSD-3-Clause
#include "ipvs.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ipvs_line.h"
#include "ipvs_persistence.h"
#include "ipvs_tunnel.h"

#define LINE_BYTES 1024
#define KEY_BYTES 128 // "t[2001:db8::1]:80"

struct reader {
	struct weir_import *import;
	struct weir_import_service *services; // services in the order of the source
	json_t *by_key; // {key: index}
	size_t count, room;
	bool any_unreadable; // a line adds a service whose address cannot be read
};

// --- services -----------------------------------------------------------------------------

static const char service_letters[] = {'t', 'u', WEIR_IPVS_SCTP, 'f', '\0'};

// Find the option of a line that has the address of the service. Returns the letter of the option,
// or 0 after an error.
static char service_letter(struct weir_import *import, const struct weir_ipvs_line *rule) {
	char found = 0;

	for (const char *letter = service_letters; *letter != '\0'; letter++) {
		if (rule->value[(unsigned char)*letter] != NULL) {
			if (found != 0) {
				weir_import_error(import, &rule->place,
					"the line names two services: keep only one of them");
				return 0;
			}
			found = *letter;
		}
	}
	if (found == 0) {
		weir_import_error(import, &rule->place,
			"the line names no service: add -t, -u or -f with an address");
	}
	return found;
}

static void key_of(const struct weir_ipvs_line *rule, char letter, char key[KEY_BYTES]) {
	snprintf(key, KEY_BYTES, "%c%s", letter >= '0' ? letter : 's',
		rule->value[(unsigned char)letter]);
	// Replace bytes that may not be UTF-8, because jansson refuses such keys.
	for (char *c = key; *c != '\0'; c++) {
		*c = (unsigned char)*c >= 0x7f ? '?' : *c;
	}
}

#define NO_ADDRESS \
	"not an address and port such as 192.0.2.1:80 or [2001:db8::1]:80: " WEIR_IPVS_USE

// Returns why the address of the service in a line cannot be read, as when it is a variable of a
// script; NULL if it can be read.
static const char *unreadable(const struct weir_ipvs_line *rule, char letter) {
	const char *text = rule->value[(unsigned char)letter];
	struct weir_address address;
	uint16_t port;
	uint64_t mark;

	if (letter == 'f') {
		return weir_import_number(text, UINT32_MAX, &mark)
			       ? NULL
			       : "not a firewall mark: " WEIR_IPVS_USE;
	}
	return weir_import_endpoint(text, &address, &port) < 0 ? NO_ADDRESS : NULL;
}

// Handle a line that adds a service with the same words as an earlier line. If the words are those
// of a variable, its value may have changed in between.
static void add_again(struct weir_import *import, const struct weir_ipvs_line *rule, char letter) {
	const char *why = unreadable(rule, letter);

	if (why != NULL) {
		weir_import_note(import, &rule->place, WEIR_IMPORT_MISSING,
			rule->value[(unsigned char)letter], "the service is not imported: %s", why);
	} else {
		weir_import_error(import, &rule->place,
			"the line adds a service for the second time: remove one of the two lines");
	}
}

// Handle a line that adds a server to a service that no earlier line adds with the same words.
static void add_to_unknown(struct reader *reader, const struct weir_ipvs_line *rule, char letter) {
	const char *why = unreadable(rule, letter), *text = rule->value[(unsigned char)letter];

	if (why != NULL) {
		weir_import_note(
			reader->import, &rule->place, WEIR_IMPORT_MISSING, text, "%s", why);
	} else if (reader->any_unreadable) {
		weir_import_note(reader->import, &rule->place, WEIR_IMPORT_MISSING, text,
			"the service of this server has no readable address, or no earlier line "
			"adds it: " WEIR_IPVS_USE);
	} else {
		weir_import_error(reader->import, &rule->place,
			"the line adds a server to a service that no earlier line adds: put the -A "
			"line of the service first");
	}
}

static void note_settings(struct weir_import *import, const struct weir_ipvs_line *rule) {
	const struct weir_import_place *place = &rule->place;

	if (rule->value[WEIR_IPVS_PERSISTENCE_ENGINE] != NULL) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, "--pe",
			"Weir does not inspect payload: affinity is by client address, not by SIP "
			"call");
	}
}

// Read the address and the persistence settings of a service. A service without an address that
// Weir can use is left out.
static void take_address(struct weir_import *import, const struct weir_ipvs_line *rule, char letter,
	struct weir_import_service *service) {
	const char *text = rule->value[(unsigned char)letter];
	struct weir_address address;
	uint16_t port;

	if (letter == 'f') {
		weir_import_leave_out(import, service, &rule->place, service->name,
			"packets reach Weir before the firewall marks them. Add a service with the "
			"addresses and ports of the rules for this mark");
	} else if (letter == WEIR_IPVS_SCTP) {
		weir_import_leave_out(import, service, &rule->place, service->name,
			"Weir supports TCP and UDP only");
	} else if (weir_import_endpoint(text, &address, &port) < 0) {
		weir_import_leave_out(import, service, &rule->place, text, NO_ADDRESS);
	} else {
		service->protocol = letter == 'u' ? IPPROTO_UDP : IPPROTO_TCP;
		service->one_packet = rule->value['o'] != NULL || rule->value['O'] != NULL;
		weir_import_bind(import, service, &rule->place, &address, port, port);
		weir_ipvs_persistence_read(import, service, &rule->place, address.family,
			rule->value['p'], rule->value['M']);
	}
}

static void add_service(struct reader *reader, const struct weir_ipvs_line *rule) {
	struct weir_import *import = reader->import;
	char letter = service_letter(import, rule), key[KEY_BYTES], name[WEIR_IMPORT_TEXT_BYTES];
	struct weir_import_service *service;
	const char *flags = rule->value['b'];

	if (letter == 0) {
		return;
	}
	key_of(rule, letter, key);
	if (json_object_get(reader->by_key, key) != NULL) {
		add_again(import, rule, letter);
		return;
	}
	reader->any_unreadable |= unreadable(rule, letter) != NULL;
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
	snprintf(name, sizeof(name), "%s-%s",
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
	// "flag-2" is another name for "sh-port" and "mh-port".
	service->hashes_ports = flags != NULL && (strstr(flags, "sh-port") != NULL ||
							 strstr(flags, "mh-port") != NULL ||
							 strstr(flags, "flag-2") != NULL);
	take_address(import, rule, letter, service);
	note_settings(import, rule);
}

// --- servers ------------------------------------------------------------------------------

static bool read_count(struct weir_import *import, const struct weir_ipvs_line *rule, char letter,
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

// Read -g, -i or -m, and the options of tunnels. Returns false after an error.
static bool read_method(struct weir_import *import, const struct weir_ipvs_line *rule,
	struct weir_import_forwarding *ret) {
	const struct weir_ipvs_tunnel tunnel = {.type = rule->value[WEIR_IPVS_TUN_TYPE],
		.port = rule->value[WEIR_IPVS_TUN_PORT],
		.checksum = rule->value[WEIR_IPVS_TUN_REMCSUM] != NULL  ? "remcsum"
			    : rule->value[WEIR_IPVS_TUN_CSUM] != NULL   ? "csum"
			    : rule->value[WEIR_IPVS_TUN_NOCSUM] != NULL ? "nocsum"
									: NULL};

	if (rule->value['i'] != NULL) {
		return weir_ipvs_tunnel_read(import, &rule->place, &tunnel, ret);
	}
	if (tunnel.type != NULL || tunnel.port != NULL || tunnel.checksum != NULL) {
		weir_import_error(import, &rule->place,
			"the line has an option of tunnels (--tun-...), but no -i: add -i, or "
			"remove the option");
		return false;
	}
	ret->nat = rule->value['m'] != NULL;
	ret->mode = ret->nat ? WEIR_FORWARDING_IPIP : WEIR_FORWARDING_L2; // -g is the default
	return true;
}

static void add_server(struct reader *reader, const struct weir_ipvs_line *rule) {
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
		add_to_unknown(reader, rule, letter);
		return;
	}
	if (rule->value['r'] == NULL) {
		weir_import_error(
			import, &rule->place, "the line names no server: add -r with an address");
		return;
	}
	service = &reader->services[json_integer_value(index)];
	if (service->left_out) {
		return;
	}
	weir_import_select(import, service);
	if (weir_import_endpoint(rule->value['r'], &backend.address, &backend.port) < 0) {
		weir_import_note(
			import, &rule->place, WEIR_IMPORT_MISSING, rule->value['r'], NO_ADDRESS);
		return;
	}
	if (!read_count(import, rule, 'w', INT32_MAX, 1, &weight) ||
		!read_count(import, rule, 'x', UINT32_MAX, 0, &upper) ||
		!read_count(import, rule, 'y', UINT32_MAX, 0, &lower) ||
		!read_method(import, rule, &backend.forwarding)) {
		return;
	}
	backend.weight = (json_int_t)weight;
	backend.upper = (uint32_t)upper;
	weir_import_backend(import, service, &rule->place, &backend);
	if (lower > 0) {
		weir_import_note(import, &rule->place, WEIR_IMPORT_LEFT_OUT, "-y",
			"a backend gets new flows again as soon as it has fewer flows than its "
			"limit");
	}
}

// --- lines --------------------------------------------------------------------------------

static void read_timeouts(struct weir_import *import, const struct weir_ipvs_line *rule) {
	static const char *const names[] = {"tcp", "tcpfin", "udp"};

	for (int i = 0; i < 3; i++) {
		uint64_t seconds;

		if (rule->timeouts[i] == NULL ||
			!weir_import_number(rule->timeouts[i], WEIR_IMPORT_TIMEOUT_S, &seconds)) {
			weir_import_error(import, &rule->place,
				"--set needs three timeouts in seconds: TCP, TCP after a FIN, UDP");
			return;
		}
		(void)weir_import_timeout(import, &rule->place, names[i], seconds);
	}
}

// Read a command that does not add a service or a server.
static void read_other(struct weir_import *import, const struct weir_ipvs_line *rule) {
	static const char without_effect[] = "CZLlSR"; // commands that have no effect on the import
	static const char changes[] = "DEde";

	if (rule->value[WEIR_IPVS_SET] != NULL) {
		read_timeouts(import, rule);
	}
	if (rule->value[WEIR_IPVS_DAEMON] != NULL) {
		weir_import_note(import, &rule->place, WEIR_IMPORT_LEFT_OUT, "--start-daemon",
			"Weir does not synchronise connections: policy maglev chooses the same "
			"backend on all balancers");
	}
	for (const char *letter = changes; *letter != '\0'; letter++) {
		if (rule->value[(unsigned char)*letter] != NULL) {
			weir_import_error(import, &rule->place,
				"-%c changes a service or server that an earlier line "
				"added: " WEIR_IPVS_USE,
				*letter);
			return;
		}
	}
	for (const char *letter = without_effect; *letter != '\0'; letter++) {
		if (rule->value[(unsigned char)*letter] != NULL) {
			return;
		}
	}
	if (rule->value[WEIR_IPVS_SET] == NULL && rule->value[WEIR_IPVS_DAEMON] == NULL) {
		weir_import_error(import, &rule->place,
			"the line has neither -A (a service) nor -a (a server): " WEIR_IPVS_USE);
	}
}

// Returns whether a word is the command, such as "ipvsadm", "/sbin/ipvsadm" or "$IPVSADM".
static bool is_command(const char *word) {
	static const char name[] = "ipvsadm";
	size_t bytes = strlen(word), own = strlen(name);

	bytes -= bytes > 0 && word[bytes - 1] == '}';
	return bytes >= own && strncasecmp(word + bytes - own, name, own) == 0;
}

static void read_line(struct reader *reader, struct weir_ipvs_line *rule, char *line) {
	char *words[WEIR_IPVS_WORDS_MAX];
	int count = weir_ipvs_line_cut(line, words), first = 0;

	if (count < 0) {
		weir_import_error(reader->import, &rule->place,
			"the line has more than %d words: " WEIR_IPVS_USE, WEIR_IPVS_WORDS_MAX);
		return;
	}
	first += count > 0 && strcmp(words[0], "sudo") == 0;
	if (first < count && is_command(words[first])) {
		first++;
	} else if (count > 0 && words[0][0] != '-') {
		weir_import_note(reader->import, &rule->place, WEIR_IMPORT_LEFT_OUT, words[0],
			"not a command of ipvsadm");
		return;
	}
	if (count == first ||
		!weir_ipvs_line_read(reader->import, words + first, count - first, rule)) {
		return;
	}
	if (rule->value['A'] != NULL && rule->value['a'] == NULL) {
		add_service(reader, rule);
	} else if (rule->value['a'] != NULL && rule->value['A'] == NULL) {
		add_server(reader, rule);
	} else {
		read_other(reader->import, rule);
	}
	weir_import_select(reader->import, NULL);
}

// Returns whether a line is from the output of "ipvsadm -L".
static bool is_listing(const char *line) {
	static const char *const begins[] = {
		"IP Virtual Server version", "Prot LocalAddress", "TCP ", "UDP ", "SCTP ", "FWM "};

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		if (strncmp(line, begins[i], strlen(begins[i])) == 0) {
			return true;
		}
	}
	return line[0] == '-' && line[1] == '>';
}

// Read the next line, and continuation lines after a "\". Sets *text to the start of the next line,
// and adds the number of lines to *number. Returns false if the line is too long, or binary.
static bool take_line(const char **text, const char *end, int *number, char line[LINE_BYTES]) {
	size_t used = 0;
	bool more = true, fits = true;

	while (more && *text < end) {
		const char *stop = memchr(*text, '\n', (size_t)(end - *text));
		size_t length = (size_t)((stop != NULL ? stop : end) - *text);

		++*number;
		more = length > 0 && (*text)[length - 1] == '\\';
		fits = fits && used + length < LINE_BYTES && memchr(*text, '\0', length) == NULL;
		if (fits) {
			memcpy(line + used, *text, length);
			used += length;
			if (more) {
				line[used - 1] = ' ';
			}
		}
		*text = stop != NULL ? stop + 1 : end;
	}
	line[used] = '\0';
	return fits;
}

void weir_import_ipvs(
	struct weir_import *import, const char *file, const char *text, size_t bytes) {
	struct reader reader = {.import = import, .by_key = json_object()};
	const char *end = text + bytes;
	bool listing = false;
	int number = 0;

	import->failed |= reader.by_key == NULL;
	while (text < end && !import->failed && !listing) {
		struct weir_ipvs_line rule = {.place = {.file = file, .line = number + 1}};
		char line[LINE_BYTES];

		if (!take_line(&text, end, &number, line)) {
			weir_import_error(import, &rule.place,
				"the line is not a command of ipvsadm: " WEIR_IPVS_USE);
			continue;
		}
		listing = is_listing(line + strspn(line, " \t"));
		if (listing) {
			weir_import_error(import, &rule.place,
				"the line is from a listing (ipvsadm -L), which lacks "
				"settings: " WEIR_IPVS_USE);
		} else {
			read_line(&reader, &rule, line);
		}
	}
	for (size_t i = 0; i < reader.count; i++) {
		weir_import_service_end(import, &reader.services[i]);
	}
	if (reader.count > 0) {
		weir_import_note(import, &(struct weir_import_place){.file = file},
			WEIR_IMPORT_ADJUST, "health checks",
			"IPVS has no health checks: add the checks of its manager (keepalived, "
			"ldirectord) as health_check, otherwise a dead server keeps getting flows");
	}
	free(reader.services);
	json_decref(reader.by_key);
}
