// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the settings of health checks for errors that the table of keys cannot detect.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "pattern.h"
#include "plural.h"

#define TYPE(name) (1u << WEIR_CHECK_##name)
#define HTTP_TYPES (TYPE(HTTP) | TYPE(HTTPS))
#define TLS_TYPES (TYPE(HTTPS) | TYPE(GRPC))
#define RETRY_INTERVAL_LEAST_MS 10u
#define EXCHANGE_TYPES (TYPE(TCP) | TYPE(UDP))
#define SERVER_TYPES (EXCHANGE_TYPES | TYPE(DNS) | HTTP_TYPES | TYPE(GRPC))

// Keys that only some types of checks use, with these types and a text for messages.
static const struct {
	const char *key;
	uint32_t types;
	const char *use; // the types, as text for messages
} limited_keys[] = {
	{"via", SERVER_TYPES, "\"tcp\", \"udp\", \"dns\", \"http\", \"https\" or \"grpc\""},
	{"port", ~TYPE(PING), "\"tcp\", \"udp\" or another type with a port"},
	{"command", TYPE(EXEC), "\"exec\""},
	{"weight_from_exit", TYPE(EXEC), "\"exec\""},
	{"path", HTTP_TYPES, "\"http\" or \"https\""},
	{"host", HTTP_TYPES | TYPE(GRPC), "\"http\", \"https\" or \"grpc\""},
	{"method", HTTP_TYPES, "\"http\" or \"https\""},
	{"status_first", HTTP_TYPES, "\"http\" or \"https\""},
	{"status_last", HTTP_TYPES, "\"http\" or \"https\""},
	{"body", HTTP_TYPES, "\"http\" or \"https\""},
	{"body_regex", HTTP_TYPES, "\"http\" or \"https\""},
	{"body_sha256", HTTP_TYPES, "\"http\" or \"https\""},
	{"body_md5", HTTP_TYPES, "\"http\" or \"https\""},
	{"verify", TLS_TYPES, "\"https\" or \"grpc\""},
	{"ca_file", TLS_TYPES, "\"https\" or \"grpc\""},
	{"server_name", TLS_TYPES, "\"https\" or \"grpc\""},
	{"tls", TYPE(GRPC), "\"grpc\""},
	{"grpc_service", TYPE(GRPC), "\"grpc\""},
	{"orca", HTTP_TYPES | TYPE(GRPC), "\"http\", \"https\" or \"grpc\""},
	{"send", EXCHANGE_TYPES | TYPE(AGENT_CHECK), "\"tcp\", \"udp\" or \"agent-check\""},
	{"send_hex", EXCHANGE_TYPES, "\"tcp\" or \"udp\""},
	{"expect", EXCHANGE_TYPES, "\"tcp\" or \"udp\""},
	{"expect_hex", EXCHANGE_TYPES, "\"tcp\" or \"udp\""},
	{"match", EXCHANGE_TYPES, "\"tcp\" or \"udp\""},
	{"name", TYPE(DNS), "\"dns\""},
	{"record", TYPE(DNS), "\"dns\""},
	{"rcode", TYPE(DNS), "\"dns\""},
	{"address", TYPE(DNS), "\"dns\""},
	{"urls", HTTP_TYPES, "\"http\" or \"https\""},
};

// Returns a note for a message: the source of the value of a key, or "" if the key is in the object
// of the check.
static const char *source_of(const struct weir_json_keys_read *read,
	const struct weir_config_health_check *check, const char *key) {
	const struct weir_json_keys_read given = {.object = read->object, .present = check->given};

	return weir_json_present(read, key)     ? ""
	       : weir_json_present(&given, key) ? ", of the service"
						: ", the default";
}

// Returns whether the own check of a backend takes the value of this key from the check of the
// service.
static bool is_inherited(const struct weir_json_keys_read *read,
	const struct weir_config_health_check *check, const char *key) {
	const struct weir_json_keys_read given = {.object = read->object, .present = check->given};

	return !weir_json_present(read, key) && weir_json_present(&given, key);
}

// Returns a text for messages: how to remove a key that can be null.
static const char *removal_of(const struct weir_json_keys_read *read,
	const struct weir_config_health_check *check, const char *key) {
	return is_inherited(read, check, key)
		       ? "write null, because the check of the service has it"
		       : "remove it";
}

static void check_types(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	for (size_t i = 0; i < sizeof(limited_keys) / sizeof(limited_keys[0]); i++) {
		if ((limited_keys[i].types & 1u << check->type) == 0 &&
			weir_json_present(read, limited_keys[i].key)) {
			weir_json_error_at(reader, place, limited_keys[i].key,
				"is not used by type \"%s\"; remove it, or use type %s",
				weir_config_check_name(check->type), limited_keys[i].use);
		}
	}
}

// Checks the keys for the body of the response.
static void check_body(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	const struct weir_config_url *url = &check->url;
	const struct {
		const char *key;
		bool is_set;
		uint8_t bytes, wanted; // of a digest
	} keys[] = {
		{"body", url->body[0] != '\0', 0, 0},
		{"body_regex", url->body_regex[0] != '\0', 0, 0},
		{"body_sha256", url->body_sha256.count > 0, url->body_sha256.count, 32},
		{"body_md5", url->body_md5.count > 0, url->body_md5.count, 16},
	};
	const char *first = NULL;
	char why[WEIR_PATTERN_WHY_BYTES];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *key = keys[i].key;

		if (!weir_json_valid(read, key) || !keys[i].is_set) {
			continue;
		}
		if (first != NULL) {
			weir_json_error_at(reader, place, key,
				"is not used with \"%s\"; remove one of the two", first);
		} else if (weir_json_valid(read, "method") && check->method != WEIR_METHOD_GET) {
			weir_json_error_at(reader, place, key,
				"cannot be checked in a response to %s; %s, or use method \"GET\"",
				weir_config_method_name(check->method),
				removal_of(read, check, key));
		} else if (keys[i].bytes != keys[i].wanted) {
			weir_json_error_at(reader, place, key,
				"has %u byte%s; a digest of this kind has %u, or %u hexadecimal "
				"digits",
				keys[i].bytes, weir_plural(keys[i].bytes), keys[i].wanted,
				2u * keys[i].wanted);
		} else if (strcmp(key, "body_regex") == 0 &&
			   weir_pattern_check(url->body_regex, why) < 0) {
			weir_json_error_at(
				reader, place, key, "is not a regular expression: %s", why);
		}
		first = key;
	}
}

static void check_http(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	const struct weir_config_url *url = &check->url;

	if (weir_json_valid(read, "path") && url->path[0] != '/') {
		weir_json_error_at(
			reader, place, "path", "must begin with \"/\", such as \"/healthz\"");
	} else if (weir_json_valid(read, "path") && strchr(url->path, ' ') != NULL) {
		weir_json_error_at(reader, place, "path", "contains a space; write it as \"%%20\"");
	} else if (weir_json_valid(read, "path") && strchr(url->path, '#') != NULL) {
		weir_json_error_at(reader, place, "path",
			"contains a \"#\", and the part after it is not requested; write "
			"\"%%23\" instead of \"#\"");
	}
	if (weir_json_valid(read, "host") && strchr(check->host, ' ') != NULL) {
		weir_json_error_at(reader, place, "host", "contains a space; give one host name");
	}
	if (weir_json_valid(read, "status_first") && weir_json_valid(read, "status_last") &&
		url->status_first > url->status_last) {
		weir_json_error_at(reader, place,
			weir_json_present(read, "status_first") ? "status_first" : "status_last",
			"status_first (%u%s) is above status_last (%u%s)", url->status_first,
			source_of(read, check, "status_first"), url->status_last,
			source_of(read, check, "status_last"));
	}
}

static void check_tls(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	static const char *const tls_keys[] = {"verify", "ca_file", "server_name"};

	for (size_t i = 0; i < sizeof(tls_keys) / sizeof(tls_keys[0]); i++) {
		if (check->type == WEIR_CHECK_GRPC && weir_json_valid(read, "tls") && !check->tls &&
			weir_json_present(read, tls_keys[i])) {
			weir_json_error_at(reader, place, tls_keys[i],
				"is not used without TLS; remove it, or add \"tls\": true");
		}
	}
	if (weir_json_valid(read, "server_name") &&
		check->server_name[strspn(check->server_name,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] !=
			'\0') {
		weir_json_error_at(reader, place, "server_name",
			"is not a host name; use letters, digits, \"-\" and \".\", without a port");
	}
	if (weir_json_valid(read, "ca_file") && check->ca_file[0] != '\0' &&
		check->ca_file[0] != '/') {
		weir_json_error_at(reader, place, "ca_file",
			"is not an absolute path; use a path such as \"/etc/weir/ca.pem\"");
	}
	if (weir_json_valid(read, "verify") && !check->verify && check->ca_file[0] != '\0') {
		weir_json_error_at(reader, place, "ca_file",
			"is not used with \"verify\": false%s; %s",
			source_of(read, check, "verify"),
			is_inherited(read, check, "verify") ? "remove it, or write \"verify\": true"
			: is_inherited(read, check, "ca_file") ? removal_of(read, check, "ca_file")
							       : "remove one of the two");
	}
}

// Returns whether a check over TCP sends bytes but ignores the answer.
static bool sends_in_vain(const struct weir_config_health_check *check) {
	const uint8_t *bytes;

	return check->type == WEIR_CHECK_TCP && weir_config_bytes_to_send(check, &bytes) > 0 &&
	       !weir_config_expects(check);
}

// Checks the bytes to send and to expect.
static void check_exchange(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	static const char *const keys[][2] = {{"send", "send_hex"}, {"expect", "expect_hex"}};
	bool valid = true;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *text = keys[i][0], *hex = keys[i][1];

		valid &= weir_json_valid(read, text) && weir_json_valid(read, hex);
		if (weir_json_present(read, text) && weir_json_present(read, hex)) {
			weir_json_error_at(reader, place, hex,
				"cannot be used with \"%s\"; remove one of the two", text);
			return;
		}
	}
	if (!valid || (EXCHANGE_TYPES & 1u << check->type) == 0) {
		return;
	}
	if (sends_in_vain(check)) {
		weir_json_error_at(reader, place, check->send[0] != '\0' ? "send" : "send_hex",
			"has no effect on the result without \"expect\" or \"expect_hex\"; add "
			"what the answer must contain");
	}
	if (weir_json_present(read, "match") && !weir_config_expects(check)) {
		weir_json_error_at(reader, place, "match",
			"is not used without \"expect\" or \"expect_hex\"; remove it, or add what "
			"the answer must contain");
	}
}

// Returns whether a text is the name of a domain: labels of 1 to 63 characters, and at most 253
// characters; "." = the root.
static bool is_domain(const char *name) {
	const size_t bytes = strlen(name);
	const size_t dot = bytes > 0 && name[bytes - 1] == '.';
	size_t label = 0;

	for (size_t i = 0; i + dot < bytes; i++) {
		label = name[i] == '.' ? 0 : label + 1;
		if (label > 63 || (label == 0 && (i == 0 || name[i - 1] == '.'))) {
			return false;
		}
	}
	return bytes - dot <= 253 && (label > 0 || bytes == 1);
}

static void check_dns(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	const uint8_t family = check->address.family;

	if (weir_json_valid(read, "name") && check->name[0] == '\0') {
		weir_json_error_at(reader, place, "name",
			"is missing; type \"dns\" queries this name: add a name such as "
			"\"example.com\"");
	} else if (weir_json_valid(read, "name") &&
		   (!is_domain(check->name) || strchr(check->name, ' ') != NULL)) {
		weir_json_error_at(reader, place, "name",
			"is not a domain name; use labels of 1 to 63 characters, separated by "
			"\".\"");
	}
	if (weir_json_valid(read, "address") && weir_json_valid(read, "record") && family != 0 &&
		check->record != (family == 4 ? 1 : 28)) {
		weir_json_error_at(reader, place, "address",
			"is an IPv%d address, but only a record of type \"%s\" has such an "
			"address; change \"record\"",
			family, family == 4 ? "A" : "AAAA");
	}
	if (weir_json_valid(read, "address") && weir_json_valid(read, "rcode") && family != 0 &&
		check->rcode != 0) {
		weir_json_error_at(reader, place, "address",
			"cannot be checked, because an answer with an error has no address; %s, or "
			"use rcode \"NOERROR\"",
			removal_of(read, check, "address"));
	}
}

// Checks the line that an agent-check sends. A line end is added to the line before it is sent.
static void check_line(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	if (weir_json_valid(read, "send") && check->send[strcspn(check->send, "\t\r\n")] != '\0') {
		weir_json_error_at(reader, place, "send",
			"contains a line end or a tab; give one line; its line end is added "
			"automatically");
	}
}

// Checks the program of a check of type exec. read_command (config_types.c) has already checked
// that the path is absolute.
static void check_program(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	if (weir_json_valid(read, "command") && check->command.words == 0) {
		weir_json_error_at(reader, place, "command",
			"is missing; type \"exec\" runs this command: add the path of a program "
			"and its "
			"arguments, such as [\"/usr/local/bin/check\", \"{address}\"]");
	}
}

static void check_times(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	if (weir_json_valid(read, "interval_ms") && weir_json_valid(read, "timeout_ms") &&
		check->timeout_ms > check->interval_ms) {
		bool given = weir_json_present(read, "timeout_ms");

		weir_json_error_at(reader, place, given ? "timeout_ms" : "interval_ms",
			"timeout_ms (%u%s) is above interval_ms (%u%s), so checks would overlap; "
			"lower timeout_ms or raise interval_ms",
			check->timeout_ms, source_of(read, check, "timeout_ms"), check->interval_ms,
			source_of(read, check, "interval_ms"));
	}
}

// Check retry_interval_ms; 0 = interval_ms.
static void check_retry(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	if (!weir_json_valid(read, "retry_interval_ms") || check->retry_interval_ms == 0) {
		return;
	}
	if (check->retry_interval_ms < RETRY_INTERVAL_LEAST_MS) {
		weir_json_error_at(reader, place, "retry_interval_ms",
			"%u is out of range; use 0 (interval_ms), or %u to 3600000",
			check->retry_interval_ms, RETRY_INTERVAL_LEAST_MS);
	} else if (weir_json_valid(read, "interval_ms") &&
		   check->retry_interval_ms > check->interval_ms) {
		weir_json_error_at(reader, place, "retry_interval_ms",
			"%u%s is above interval_ms (%u%s): a failed check would be repeated later "
			"than other checks; use interval_ms or less",
			check->retry_interval_ms,
			is_inherited(read, check, "retry_interval_ms") ? ", of the service," : "",
			check->interval_ms, source_of(read, check, "interval_ms"));
	}
}

void weir_config_identify_url(const void *element, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", ((const struct weir_config_url *)element)->path);
}

void weir_config_check_url(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_health_check check = {
		.url = *(const struct weir_config_url *)into, .given = read->present};

	check_http(reader, place, &check, read);
	check_body(reader, place, &check, read);
}

static void check_urls(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_health_check *check, const struct weir_json_keys_read *read) {
	const struct weir_json_place urls = weir_json_place_member(place, "urls");

	for (uint32_t i = 0; weir_json_valid(read, "urls") && i < check->url_count; i++) {
		const struct weir_json_place at = weir_json_place_element(&urls, i);
		const struct weir_config_url *url = &check->urls[i];

		for (uint32_t k = 0; k < i; k++) {
			if (strcmp(url->path, check->urls[k].path) == 0) {
				weir_json_error_at(reader, &at, "path",
					"\"%.100s\" is already a path of this check", url->path);
				break;
			}
		}
		if (weir_json_valid(read, "method") && check->method != WEIR_METHOD_GET &&
			weir_config_tests_body(url)) {
			weir_json_error(reader, &at,
				"tests the body, which cannot be checked in a response to %s; "
				"use method \"GET\"%s",
				weir_config_method_name(check->method),
				is_inherited(read, check, "urls")
					? ", or write \"urls\": [], because the check of the "
					  "service has them"
					: "");
		}
	}
}

// Stores which keys the own check of a backend has.
void weir_config_note_health(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	(void)reader;
	(void)place;
	((struct weir_config_health_check *)into)->given = read->present;
}

void weir_config_check_health(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	struct weir_config_health_check *check = into;

	check->given |= read->present;
	if (weir_json_valid(read, "type") && check->type == WEIR_CHECK_AGENT) {
		weir_config_check_agent_type(reader, place, read);
	} else {
		check_times(reader, place, check, read);
		check_retry(reader, place, check, read);
	}
	if (weir_json_valid(read, "type")) {
		check_types(reader, place, check, read);
		check_http(reader, place, check, read);
		check_body(reader, place, check, read);
		check_urls(reader, place, check, read);
		check_tls(reader, place, check, read);
		check_exchange(reader, place, check, read);
	}
	if (weir_json_valid(read, "type") && check->type == WEIR_CHECK_DNS) {
		check_dns(reader, place, check, read);
	}
	if (weir_json_valid(read, "type") && check->type == WEIR_CHECK_AGENT_CHECK) {
		check_line(reader, place, check, read);
	}
	if (weir_json_valid(read, "type") && check->type == WEIR_CHECK_EXEC) {
		check_program(reader, place, check, read);
	}
}

static size_t bytes_of(const char *text, const struct weir_config_bytes *hex, const uint8_t **ret) {
	*ret = hex->count > 0 ? hex->byte : (const uint8_t *)text;
	return hex->count > 0 ? hex->count : strlen(text);
}

size_t weir_config_bytes_to_send(
	const struct weir_config_health_check *check, const uint8_t **ret) {
	return bytes_of(check->send, &check->send_hex, ret);
}

size_t weir_config_bytes_to_expect(
	const struct weir_config_health_check *check, const uint8_t **ret) {
	return bytes_of(check->expect, &check->expect_hex, ret);
}

bool weir_config_expects(const struct weir_config_health_check *check) {
	return check->expect[0] != '\0' || check->expect_hex.count > 0;
}

bool weir_config_tests_body(const struct weir_config_url *url) {
	return url->body[0] != '\0' || url->body_regex[0] != '\0' || url->body_sha256.count > 0 ||
	       url->body_md5.count > 0;
}

void weir_config_check_agent_check(struct weir_json_reader *reader,
	const struct weir_json_place *place, void *into, const struct weir_json_keys_read *read) {
	struct weir_config_health_check *check = into;

	check_times(reader, place, check, read);
	if (weir_json_present(read, "port")) {
		check->type = WEIR_CHECK_AGENT_CHECK;
		check->rise = 1;
		check->fall = 1;
	}
}

// --- the checks of a service and its backends ---------------------------------------------

// Checks that a check without a port can use the port of a bind. place: the object that has the
// check as its member "health_check".
static void check_port(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service, const struct weir_config_health_check *check) {
	const bool data_path = check->via == WEIR_VIA_DATA_PATH;
	const uint8_t protocol = weir_config_check_protocol(check->type);
	const char *name = protocol == IPPROTO_UDP ? "udp" : "tcp";
	const struct weir_config_bind *bind;

	if (check->type == WEIR_CHECK_NONE || check->type == WEIR_CHECK_AGENT ||
		check->type == WEIR_CHECK_PING || check->type == WEIR_CHECK_EXEC ||
		check->port != 0 || service->bind_count == 0) {
		return;
	}
	bind = weir_config_checked_bind(service, check);
	if (bind->protocol != protocol && (data_path || protocol == IPPROTO_UDP)) {
		weir_json_error_at(reader, place, "health_check",
			"has no port, and no bind has protocol \"%s\"; add \"port\"", name);
	} else if (bind->port_first == 0 && bind->port_last == UINT16_MAX) {
		const bool named = data_path || protocol == IPPROTO_UDP;

		weir_json_error_at(reader, place, "health_check",
			"has no port, and the first bind%s%s%s covers every port; add \"port\"",
			named ? " of protocol \"" : "", named ? name : "", named ? "\"" : "");
	}
}

// Returns whether the check has this key, or another key of its group: a check uses at most one key
// of a group.
static bool has_group(const struct weir_json_keys_read *read, const char *key) {
	static const char *const groups[][4] = {{"body", "body_regex", "body_sha256", "body_md5"},
		{"send", "send_hex"}, {"expect", "expect_hex"}};

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		bool member = false, present = false;

		for (size_t k = 0; k < 4 && groups[i][k] != NULL; k++) {
			member |= strcmp(groups[i][k], key) == 0;
			present |= weir_json_present(read, groups[i][k]);
		}
		if (member) {
			return present;
		}
	}
	return weir_json_present(read, key);
}

// Copies values from the check of the service, for the keys that the backend's own check does not
// set. Returns false if out of memory.
static bool inherit(struct weir_config_health_check *own,
	const struct weir_config_health_check *service, const struct weir_json_keys_read *read) {
	const bool urls = weir_json_present(read, "urls");
	struct weir_config_url *given = own->urls;
	const uint32_t count = own->url_count;

	for (uint32_t i = 0; i < read->object->count; i++) {
		const struct weir_json_key *key = &read->object->key[i];

		if (key->bytes > 0 && !has_group(read, key->key)) {
			memcpy((char *)own + key->offset, (const char *)service + key->offset,
				key->bytes);
			memcpy((char *)own + key->offset2, (const char *)service + key->offset2,
				key->type->bytes2);
			own->given |= service->given & 1ull << i;
		}
	}
	own->urls = given;
	own->url_count = count;
	if (!urls && service->url_count > 0) {
		own->urls = calloc(service->url_count, sizeof(*own->urls));
		if (own->urls == NULL) {
			return false;
		}
		own->url_count = service->url_count;
		memcpy(own->urls, service->urls, own->url_count * sizeof(*own->urls));
	}
	return true;
}

void weir_config_check_service_health(struct weir_json_reader *reader,
	const struct weir_json_place *place, const struct weir_config_service *service,
	const struct weir_json_keys_read *read) {
	const struct weir_json_object *keys =
		weir_json_find_key(read->object, "health_check")->object;
	const struct weir_json_place backends = weir_json_place_member(place, "backends");

	check_port(reader, place, service, &service->health_check);
	if (!weir_json_valid(read, "health_check") || !weir_json_valid(read, "backends")) {
		return;
	}
	for (uint32_t i = 0; i < service->backend_count; i++) {
		const struct weir_json_place backend = weir_json_place_element(&backends, i);
		const struct weir_json_place at = weir_json_place_member(&backend, "health_check");
		struct weir_config_health_check *own = service->backends[i].health_check;

		if (own != NULL) {
			const struct weir_json_keys_read read_keys = {
				.object = keys, .present = own->given, .valid = UINT64_MAX};

			if (own->type == service->health_check.type &&
				!inherit(own, &service->health_check, &read_keys)) {
				reader->out_of_memory = true;
				return;
			}
			weir_config_check_health(reader, &at, own, &read_keys);
			check_port(reader, &backend, service, own);
		}
	}
}
