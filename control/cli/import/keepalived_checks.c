// SPDX-License-Identifier: BSD-3-Clause
//
// Checkers of keepalived: chooses the health check of a service, and adds notes about settings
// without a counterpart.
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "keepalived_private.h"

#define INTERVAL_LEAST_MS 10
#define PATH_BYTES 1024

static const struct checker {
	const char *name;
	const char *type; // equivalent check of Weir; NULL = none
	const char *why; // difference from the checker; type NULL: why there is no check
	unsigned int retries, retry_delay_ms; // defaults of keepalived
} checkers[] = {
	{"HTTP_GET", "http", NULL, 1, 3000},
	{"SSL_GET", "https", NULL, 1, 3000},
	{"SMTP_CHECK", "tcp", "the check expects the greeting 220, and sends no HELO", 1, 1000},
	{"DNS_CHECK", "dns", NULL, 3, UINT32_MAX}, // repeated after the interval
	{"MISC_CHECK", "exec",
		"the script runs without privileges, as the user of weir-control --script-user, "
		"and its file must belong to root",
		0, 1000},
	{"UDP_CHECK", "udp", NULL, 1, 1000},
	{"TCP_CHECK", "tcp", NULL, 1, 1000},
	{"PING_CHECK", "ping", "a ping does not test the service: use a check of its protocol", 1,
		1000},
	{"FILE_CHECK", NULL,
		"Weir does not read weights from files: use weirctl weight set and weirctl backend "
		"drain",
		0, 0},
	{"BFD_CHECK", NULL, "configure BFD in the routing daemon", 0, 0},
};

static const struct weir_keepalived_rest rest[] = {
	{"bindto", "the kernel chooses the source address of checks"},
	{"bind_if", "the kernel chooses the interface of checks"},
	{"bind_port", "the kernel chooses the source port of checks"},
	{"fwmark", "checks set no firewall mark"},
	{"connect_ip", "checks are sent to the backend's address"},
	{"warmup", NULL},
	{"alpha", NULL},
	{"no_alpha", NULL},
	{"fast_recovery", NULL}, // has the effect of rise 1, the default of the import
	{"enable_sni", NULL}, // Weir always sends SNI
	{"http_protocol", "curl chooses the version of HTTP"},
	{"tls_compliant", NULL},
	{"helo_name", NULL},
	{"log_all_failures", NULL},
	{NULL, NULL},
};

static const struct weir_keepalived_rest rest_of_url[] = {
	{"digest", NULL}, // see read_body
	{"regex", NULL},
	{"regex_no_match", NULL},
	{"regex_options", NULL},
	{"regex_stack", NULL},
	{"regex_min_offset", "body_regex searches the first 64 KiB of the body"},
	{"regex_max_offset", "body_regex searches the first 64 KiB of the body"},
	{"tls_compliant", NULL},
	{NULL, NULL},
};

static const struct checker *find_checker(const char *keyword) {
	for (size_t i = 0; i < sizeof(checkers) / sizeof(checkers[0]); i++) {
		if (strcmp(checkers[i].name, keyword) == 0) {
			return &checkers[i];
		}
	}
	return NULL;
}

bool weir_keepalived_is_checker(const char *keyword) {
	return find_checker(keyword) != NULL;
}

static const struct weir_keepalived_statement *find_child(
	const struct weir_keepalived_statement *block, const char *keyword) {
	const struct weir_keepalived_statement *child = block->children;

	while (child != NULL && strcmp(child->word[0], keyword) != 0) {
		child = child->next;
	}
	return child;
}

// --- HTTP ---------------------------------------------------------------------------------

// Reads a status code or a range, such as "200" or "200-299".
static bool read_status(const char *text, uint64_t *ret_first, uint64_t *ret_last) {
	char first[8];
	const char *dash = strchr(text, '-');
	size_t length = dash != NULL ? (size_t)(dash - text) : strlen(text);

	if (length >= sizeof(first)) {
		return false;
	}
	memcpy(first, text, length);
	first[length] = '\0';
	return weir_import_number(first, 599, ret_first) &&
	       weir_import_number(dash != NULL ? dash + 1 : first, 599, ret_last) &&
	       *ret_first >= 100 && *ret_last >= *ret_first;
}

static void read_statuses(struct weir_import *import,
	const struct weir_keepalived_statement *statement, json_t *check) {
	uint64_t least = 600, most = 0, codes = 0;

	for (unsigned int i = 1; i < statement->count; i++) {
		uint64_t first, last;

		if (!read_status(statement->word[i], &first, &last)) {
			weir_keepalived_ignored(import, statement,
				"use codes from 100 to 599, or a range such as 200-299");
			continue;
		}
		least = first < least ? first : least;
		most = last > most ? last : most;
		codes += last - first + 1;
	}
	if (most == 0) {
		return; // the default
	}
	if (codes < most - least + 1) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "status_code",
			"every code from %u to %u counts as success", (unsigned int)least,
			(unsigned int)most);
	}
	json_object_set_new(check, "status_first", json_integer((json_int_t)least));
	json_object_set_new(check, "status_last", json_integer((json_int_t)most));
}

static void set_text(struct weir_import *import, const struct weir_keepalived_statement *statement,
	json_t *check, const char *key, const char *text) {
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (text[0] == '\0' || json_object_set_new(check, key, json_string(text)) < 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT,
			weir_keepalived_text(statement, what, sizeof(what)),
			text[0] == '\0' ? "the text is empty" : "the text is not valid UTF-8");
	}
}

// Set the path. Escapes spaces and "#", which keepalived sends unchanged.
static void set_path(struct weir_import *import, const struct weir_keepalived_statement *statement,
	json_t *check) {
	const char *text = weir_keepalived_word(statement, 1);
	char path[PATH_BYTES];
	size_t used = 0;

	if (text[0] != '/') {
		path[used++] = '/';
	}
	for (; *text != '\0' && used + 4 < sizeof(path); text++) {
		if (*text == ' ' || *text == '#') {
			used += (size_t)snprintf(path + used, 4, "%%%02X", (unsigned int)*text);
		} else {
			path[used++] = *text;
		}
	}
	path[used] = '\0';
	set_text(import, statement, check, "path", path);
}

// Sets the regular expression. Options become part of it, where PCRE2 has a letter for them.
static void set_regex(struct weir_import *import, const struct weir_keepalived_statement *url,
	const struct weir_keepalived_statement *regex, json_t *check) {
	static const struct {
		const char *option;
		char letter;
	} letters[] = {{"caseless", 'i'}, {"multiline", 'm'}, {"dotall", 's'}, {"extended", 'x'}};
	const struct weir_keepalived_statement *options = find_child(url, "regex_options");
	char flags[sizeof(letters) / sizeof(letters[0]) + 1] = "", text[PATH_BYTES];
	size_t used = 0;

	for (unsigned int i = 1; options != NULL && i < options->count; i++) {
		size_t n = 0;

		while (n < sizeof(letters) / sizeof(letters[0]) &&
			strcmp(letters[n].option, options->word[i]) != 0) {
			n++;
		}
		if (n == sizeof(letters) / sizeof(letters[0])) {
			weir_import_note(import, &options->place, WEIR_IMPORT_DIFFERS,
				options->word[i], "body_regex has no such option");
		} else if (strchr(flags, letters[n].letter) == NULL) {
			flags[used++] = letters[n].letter;
			flags[used] = '\0';
		}
	}
	snprintf(text, sizeof(text), "%s%s%s%s", used > 0 ? "(?" : "", flags, used > 0 ? ")" : "",
		weir_keepalived_word(regex, 1));
	set_text(import, regex, check, "body_regex", text);
}

// Sets the digest that the body must have, or else the regular expression that the body must match.
static void read_body(
	struct weir_import *import, const struct weir_keepalived_statement *url, json_t *check) {
	const struct weir_keepalived_statement *digest = find_child(url, "digest");
	const struct weir_keepalived_statement *regex = find_child(url, "regex");

	if (digest != NULL) {
		set_text(import, digest, check, "body_md5", weir_keepalived_word(digest, 1));
	}
	if (regex == NULL) {
		return;
	}
	if (digest != NULL) {
		weir_import_note(import, &regex->place, WEIR_IMPORT_LEFT_OUT, "regex",
			"a health check tests the body only once: using the digest");
	} else if (find_child(url, "regex_no_match") != NULL) {
		weir_import_note(import, &regex->place, WEIR_IMPORT_LEFT_OUT, "regex_no_match",
			"a body must match body_regex: write a pattern for good bodies");
	} else if (weir_keepalived_word(regex, 1)[0] == '\'') {
		weir_import_note(import, &regex->place, WEIR_IMPORT_LEFT_OUT, "regex",
			"write the pattern in double quotes, and import again");
	} else if (regex->count != 2) {
		weir_keepalived_ignored(
			import, regex, "write the pattern as one word, or in double quotes");
	} else {
		set_regex(import, url, regex, check);
	}
}

static void read_url(
	struct weir_import *import, const struct weir_keepalived_statement *url, json_t *check) {
	read_body(import, url, check);
	for (const struct weir_keepalived_statement *key = url->children; key != NULL;
		key = key->next) {
		const char *keyword = key->word[0], *value = weir_keepalived_word(key, 1);

		if (strcmp(keyword, "path") == 0) {
			set_path(import, key, check);
		} else if (strcmp(keyword, "status_code") == 0) {
			read_statuses(import, key, check);
		} else if (strcmp(keyword, "virtualhost") == 0) {
			set_text(import, key, check, "host", value);
		} else {
			weir_keepalived_note(import, key, rest_of_url);
		}
	}
}

static void begin_url(json_t *url) {
	json_object_set_new(url, "path", json_string("/"));
	json_object_set_new(url, "status_first", json_integer(200));
	json_object_set_new(url, "status_last", json_integer(299));
}

// Returns whether one of the URLs has this path.
static bool has_path(const json_t *urls, const json_t *path) {
	const json_t *url;
	size_t i;

	json_array_foreach (urls, i, url) {
		if (json_equal(json_object_get(url, "path"), path)) {
			return true;
		}
	}
	return false;
}

// Returns the host that keepalived sends with a request: the virtualhost of the URL, else of the
// checker, else of the server.
static const char *host_of(const struct weir_keepalived_statement *checker,
	const struct weir_keepalived_statement *url,
	const struct weir_keepalived_defaults *defaults) {
	const struct weir_keepalived_statement *host = find_child(url, "virtualhost");

	host = host != NULL ? host : find_child(checker, "virtualhost");
	return host != NULL             ? weir_keepalived_word(host, 1)
	       : defaults->host != NULL ? defaults->host
					: "";
}

// Adds a further URL to a check. same_host: keepalived sends the same host as for the first URL.
static void add_url(struct weir_import *import, const struct weir_keepalived_statement *statement,
	bool same_host, json_t *check) {
	json_t *url, *urls = json_object_get(check, "urls");

	if (find_child(statement, "path") == NULL) {
		weir_keepalived_ignored(import, statement, "a url block needs a path");
		return;
	}
	url = json_object();
	begin_url(url);
	read_url(import, statement, url);
	if (!same_host) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, "virtualhost",
			"all URLs of a health check have the same host");
	}
	json_object_del(url, "host");
	if (json_array_size(urls) == WEIR_CONFIG_URLS_MAX ||
		has_path(urls, json_object_get(url, "path"))) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, "url",
			"a health check requests each path once, and at most %d URLs",
			WEIR_CONFIG_URLS_MAX + 1);
		json_decref(url);
		return;
	}
	if (urls == NULL) {
		urls = json_array();
		import->failed |= json_object_set_new(check, "urls", urls) < 0;
	}
	import->failed |= json_array_append_new(urls, url) < 0;
}

static void begin_http(const struct checker *checker, json_t *check) {
	begin_url(check);
	if (strcmp(checker->type, "https") == 0) { // keepalived verifies no certificate
		json_object_set_new(check, "verify", json_false());
	}
}

static bool is_http(const struct checker *checker) {
	return checker->type != NULL && strncmp(checker->type, "http", 4) == 0;
}

static bool is_checker(const struct checker *checker, const char *name) {
	return strcmp(checker->name, name) == 0;
}

// Returns whether a check without a port can use the port of the VIP. A check over UDP can use only
// the port of a UDP bind.
static bool has_port(const struct checker *checker, const struct weir_keepalived_target *target) {
	const bool over_udp =
		strcmp(checker->type, "dns") == 0 || strcmp(checker->type, "udp") == 0;

	return target->service_port != 0 && (!over_udp || target->protocol == IPPROTO_UDP);
}

// Sets the keys that a health check needs if its checker has no keys.
static void begin_check(const struct checker *checker,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_target *target, json_t *check) {
	if (is_http(checker)) {
		begin_http(checker, check);
	} else if (is_checker(checker, "SMTP_CHECK")) {
		json_object_set_new(check, "expect", json_string("220"));
	} else if (is_checker(checker, "MISC_CHECK")) {
		const char *why;

		json_object_set_new(check, "command",
			weir_keepalived_command(statement, target->address, &why));
	} else if (is_checker(checker, "DNS_CHECK")) {
		json_object_set_new(check, "name", json_string("."));
		json_object_set_new(check, "record", json_string("SOA"));
	}
}

// Find the first URL with a path; keepalived ignores a URL without a path.
static const struct weir_keepalived_statement *find_url(
	const struct weir_keepalived_statement *checker) {
	const struct weir_keepalived_statement *url = checker->children;

	while (url != NULL &&
		(strcmp(url->word[0], "url") != 0 || find_child(url, "path") == NULL)) {
		url = url->next;
	}
	return url;
}

// --- a checker ----------------------------------------------------------------------------

// Returns whether keepalived uses the checker: keepalived ignores an HTTP_GET or SSL_GET without a
// URL that has a path.
static bool is_used(
	const struct checker *checker, const struct weir_keepalived_statement *statement) {
	return !is_http(checker) || find_url(statement) != NULL;
}

static void set_times(struct weir_import *import, const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_defaults *defaults, const struct checker *checker,
	json_t *check) {
	const bool is_misc = is_checker(checker, "MISC_CHECK");
	const json_t *own = json_object_get(check, "timeout_ms"); // misc_timeout
	uint32_t interval = defaults->delay_ms;
	uint32_t timeout = !is_misc      ? defaults->timeout_ms
			   : own == NULL ? interval
					 : (uint32_t)json_integer_value(own);
	uint32_t retries = defaults->has_retries ? defaults->retries : checker->retries;
	uint32_t retry =
		defaults->has_retry_delay ? defaults->retry_delay_ms : checker->retry_delay_ms;

	interval = interval < INTERVAL_LEAST_MS ? INTERVAL_LEAST_MS : interval;
	timeout = timeout < INTERVAL_LEAST_MS ? INTERVAL_LEAST_MS : timeout;
	if (timeout > interval) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS,
			is_misc ? "misc_timeout" : "connect_timeout",
			"the timeout of a check must not exceed its interval: using %u ms instead "
			"of %u ms",
			interval, timeout);
		timeout = interval;
	}
	json_object_set_new(check, "interval_ms", json_integer(interval));
	json_object_set_new(check, "timeout_ms", json_integer(timeout));
	json_object_set_new(check, "rise", json_integer(1));
	json_object_set_new(check, "fall", json_integer(retries + 1));
	retry = retry < INTERVAL_LEAST_MS ? INTERVAL_LEAST_MS : retry;
	if (retries > 0 && retry < interval) {
		json_object_set_new(check, "retry_interval_ms", json_integer(retry));
	}
}

static void read_port(struct weir_import *import, const struct weir_keepalived_statement *statement,
	uint16_t *port) {
	uint64_t number;

	if (weir_keepalived_number(import, statement, 1, UINT16_MAX, &number)) {
		*port = (uint16_t)number;
	}
}

static bool is_address(const char *text, const struct weir_address *address) {
	struct weir_address own;

	return weir_address_parse(text, &own) == 0 && own.family == address->family &&
	       memcmp(own.bytes, address->bytes, sizeof(own.bytes)) == 0;
}

static void read_checker(struct weir_import *import, const struct checker *checker,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_target *target, json_t *check, uint16_t *port,
	struct weir_keepalived_defaults *defaults) {
	const struct weir_keepalived_statement *url = find_url(statement);

	for (const struct weir_keepalived_statement *key = statement->children; key != NULL;
		key = key->next) {
		const char *keyword = key->word[0];

		if (weir_keepalived_default(import, key, 0, defaults) ||
			weir_keepalived_check_key(import, checker->name, key, check)) {
			continue;
		}
		if (strcmp(keyword, "nb_get_retry") == 0 && is_http(checker)) {
			const char *words[] = {"retry", weir_keepalived_word(key, 1), NULL};
			const struct weir_keepalived_statement retry = {
				.place = key->place, .word = words, .count = 2};

			(void)weir_keepalived_default(import, &retry, 0, defaults);
		} else if (strcmp(keyword, "nb_get_retry") == 0) {
			weir_keepalived_ignored(
				import, key, "%s has the key \"retry\"", checker->name);
		} else if (strcmp(keyword, "connect_port") == 0) {
			read_port(import, key, port);
		} else if (strcmp(keyword, "host") == 0) { // obsolete block of an SMTP_CHECK
			const struct weir_keepalived_statement *own =
				find_child(key, "connect_port");

			if (own != NULL) {
				read_port(import, own, port);
			}
		} else if (key == url && is_http(checker)) {
			read_url(import, key, check);
		} else if (strcmp(keyword, "url") == 0 && is_http(checker)) {
			add_url(import, key,
				strcmp(host_of(statement, url, defaults),
					host_of(statement, key, defaults)) == 0,
				check);
		} else if (strcmp(keyword, "connect_ip") != 0 ||
			   !is_address(weir_keepalived_word(key, 1), target->address)) {
			weir_keepalived_note(import, key, rest);
		}
	}
}

static json_t *make_check(struct weir_import *import, const struct checker *checker,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_defaults *given, const struct weir_keepalived_target *target) {
	struct weir_keepalived_defaults defaults = *given;
	json_t *check = json_pack("{s:s}", "type", checker->type);
	uint16_t port = target->port;

	if (check == NULL) {
		import->failed = true;
		return NULL;
	}
	begin_check(checker, statement, target, check);
	read_checker(import, checker, statement, target, check, &port, &defaults);
	if (is_http(checker) && defaults.host != NULL && json_object_get(check, "host") == NULL) {
		set_text(import, statement, check, "host", defaults.host);
	}
	port = port != 0 ? port : target->service_port;
	if (is_checker(checker, "PING_CHECK") || is_checker(checker, "MISC_CHECK")) {
		port = 0; // not used
	} else if (port != 0 && (port != target->service_port || !has_port(checker, target))) {
		json_object_set_new(check, "port", json_integer(port));
	} else if (port == 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, checker->name,
			"the service covers every port: add a health_check with the port to check");
		json_decref(check);
		return NULL;
	}
	set_times(import, statement, &defaults, checker, check);
	if (checker->why != NULL) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, checker->name,
			"%s", checker->why);
	}
	return check;
}

// Returns whether Weir can convert the checker. If not, *ret_why is the reason.
static bool is_supported(const struct checker *checker,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_target *target, const char **ret_why) {
	json_t *command;

	*ret_why = checker->why;
	if (checker->type == NULL || !is_checker(checker, "MISC_CHECK")) {
		return checker->type != NULL;
	}
	command = weir_keepalived_command(statement, target->address, ret_why);
	json_decref(command);
	return command != NULL;
}

// Choose the most specific checker, such as HTTP rather than TCP, because a backend of Weir has one
// health check. In keepalived, all checkers of a server must pass.
json_t *weir_keepalived_check(struct weir_import *import,
	const struct weir_keepalived_statement *server,
	const struct weir_keepalived_defaults *defaults,
	const struct weir_keepalived_target *target, bool *ret_any) {
	const struct weir_keepalived_statement *best = NULL, *statement;
	const struct checker *best_checker = NULL;
	const char *why;

	for (statement = server->children; statement != NULL; statement = statement->next) {
		const struct checker *checker = find_checker(statement->word[0]);

		if (checker == NULL) {
			continue;
		}
		if (!is_used(checker, statement)) {
			weir_keepalived_ignored(
				import, statement, "the checker has no url block with a path");
			continue;
		}
		*ret_any = true;
		if ((best == NULL || checker < best_checker) &&
			is_supported(checker, statement, target, &why)) {
			best = statement;
			best_checker = checker;
		}
	}
	for (statement = server->children; statement != NULL; statement = statement->next) {
		const struct checker *checker = find_checker(statement->word[0]);

		if (checker == NULL || statement == best || !is_used(checker, statement)) {
			continue;
		}
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, checker->name,
			"%s",
			!is_supported(checker, statement, target, &why)
				? why
				: "a backend has only one health check: using another checker of "
				  "this server");
	}
	return best != NULL ? make_check(import, best_checker, best, defaults, target) : NULL;
}
