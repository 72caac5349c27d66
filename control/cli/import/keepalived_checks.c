// SPDX-License-Identifier: BSD-3-Clause
//
// Checkers of keepalived: chooses the health check of a service, and notes what is lost.
#include <stdio.h>
#include <string.h>

#include "keepalived_private.h"

#define INTERVAL_LEAST_MS 10
#define SMTP_PORT 25

static const struct checker {
	const char *name;
	const char *type; // equivalent check of Weir; NULL = none
	const char *why; // what is lost
	unsigned int retries; // by default
} checkers[] = {
	{"HTTP_GET", "http", NULL, 1},
	{"SSL_GET", "https", NULL, 1},
	{"TCP_CHECK", "tcp", NULL, 1},
	{"SMTP_CHECK", "tcp", "only connects, sends nothing", 1},
	{"MISC_CHECK", NULL,
		"Weir runs no scripts: report the script's result by weir-agent or an agent-check "
		"on the server",
		0},
	{"DNS_CHECK", NULL,
		"Weir has no DNS check: use {\"type\": \"tcp\"} if the server also listens on TCP, "
		"or weir-agent",
		3},
	{"UDP_CHECK", NULL, "Weir has no UDP check: use weir-agent", 1},
	{"PING_CHECK", NULL, "a ping does not test the service: use {\"type\": \"tcp\"}", 1},
	{"FILE_CHECK", NULL, "Weir follows no files: use weirctl weight set and backend drain", 0},
	{"BFD_CHECK", NULL, "BFD belongs to the routing daemon", 0},
};

static const struct weir_keepalived_rest rest[] = {
	{"bindto", "the kernel chooses the source address of checks"},
	{"bind_if", "the kernel chooses the interface of checks"},
	{"bind_port", "the kernel chooses the source port of checks"},
	{"fwmark", "checks set no firewall mark"},
	{"connect_ip", "checks are sent to the backend's address"},
	{"delay_before_retry", "failed checks are repeated at the normal interval"},
	{"warmup", NULL},
	{"alpha", NULL},
	{"no_alpha", NULL},
	{"fast_recovery", NULL}, // rise 1
	{"enable_sni", NULL}, // always so
	{"http_protocol", "curl chooses the version of HTTP"},
	{"tls_compliant", NULL},
	{"helo_name", NULL},
	{"host", NULL}, // of SMTP_CHECK: see its note
	{"log_all_failures", NULL},
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

// --- HTTP ---------------------------------------------------------------------------------

// "200", "200-299"
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
			weir_import_error(import, &statement->place,
				"status_code \"%s\": use codes from 100 to 599, or a range such as "
				"200-299",
				statement->word[i]);
			return;
		}
		least = first < least ? first : least;
		most = last > most ? last : most;
		codes += last - first + 1;
	}
	if (most == 0) {
		weir_import_error(
			import, &statement->place, "status_code needs a code, such as 200");
		return;
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
	if (text[0] == '\0' || json_object_set_new(check, key, json_string(text)) < 0) {
		weir_import_error(
			import, &statement->place, "%s needs a value in UTF-8", statement->word[0]);
	}
}

static void read_url(
	struct weir_import *import, const struct weir_keepalived_statement *url, json_t *check) {
	for (const struct weir_keepalived_statement *key = url->children; key != NULL;
		key = key->next) {
		const char *keyword = key->word[0], *value = weir_keepalived_word(key, 1);

		if (strcmp(keyword, "path") == 0) {
			set_text(import, key, check, "path", value);
		} else if (strcmp(keyword, "status_code") == 0) {
			read_statuses(import, key, check);
		} else if (strcmp(keyword, "virtualhost") == 0) {
			set_text(import, key, check, "host", value);
		} else if (strcmp(keyword, "digest") == 0) {
			weir_import_note(import, &key->place, WEIR_IMPORT_LEFT_OUT, "digest",
				"the body is not hashed: \"body\" of the health check is a string "
				"that it must contain");
		} else {
			weir_import_note(import, &key->place, WEIR_IMPORT_LEFT_OUT, keyword,
				"only \"body\" of the health check tests the body: a string that "
				"it must contain");
		}
	}
}

static void begin_http(const struct checker *checker, json_t *check) {
	json_object_set_new(check, "path", json_string("/"));
	json_object_set_new(check, "status_first", json_integer(200));
	json_object_set_new(check, "status_last", json_integer(299));
	if (strcmp(checker->type, "https") == 0) { // keepalived ignores it
		json_object_set_new(check, "verify", json_false());
	}
}

// --- a checker ----------------------------------------------------------------------------

static bool is_http(const struct checker *checker) {
	return strncmp(checker->type, "http", 4) == 0;
}

static void set_times(struct weir_import *import, const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_defaults *defaults, unsigned int retries, json_t *check) {
	uint32_t interval = defaults->delay_ms, timeout = defaults->timeout_ms;

	interval = interval < INTERVAL_LEAST_MS ? INTERVAL_LEAST_MS : interval;
	timeout = timeout < INTERVAL_LEAST_MS ? INTERVAL_LEAST_MS : timeout;
	if (timeout > interval) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, "connect_timeout",
			"a check ends before the next one: its timeout is %u ms, not %u", interval,
			timeout);
		timeout = interval;
	}
	json_object_set_new(check, "interval_ms", json_integer(interval));
	json_object_set_new(check, "timeout_ms", json_integer(timeout));
	json_object_set_new(check, "rise", json_integer(1));
	json_object_set_new(check, "fall",
		json_integer((defaults->has_retries ? defaults->retries : retries) + 1));
}

static void read_checker(struct weir_import *import, const struct checker *checker,
	const struct weir_keepalived_statement *statement, json_t *check, uint16_t *port,
	struct weir_keepalived_defaults *defaults) {
	bool any_url = false;
	uint64_t number;

	for (const struct weir_keepalived_statement *key = statement->children; key != NULL;
		key = key->next) {
		const char *keyword = key->word[0];

		if (weir_keepalived_default(import, key, defaults)) {
			continue;
		}
		if (strcmp(keyword, "connect_port") == 0) {
			if (weir_keepalived_number(import, key, UINT16_MAX, &number)) {
				*port = (uint16_t)number;
			}
		} else if (strcmp(keyword, "url") == 0 && is_http(checker) && !any_url) {
			any_url = true;
			read_url(import, key, check);
		} else if (strcmp(keyword, "url") == 0) {
			weir_import_note(import, &key->place, WEIR_IMPORT_LEFT_OUT, "url",
				"a health check requests one URL: the first one");
		} else {
			weir_keepalived_note(import, key, rest);
		}
	}
}

static json_t *make_check(struct weir_import *import, const struct checker *checker,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_defaults *given, uint16_t service_port, uint16_t port) {
	struct weir_keepalived_defaults defaults = *given;
	json_t *check = json_pack("{s:s}", "type", checker->type);

	if (check == NULL) {
		import->failed = true;
		return NULL;
	}
	if (is_http(checker)) {
		begin_http(checker, check);
	}
	if (strcmp(checker->name, "SMTP_CHECK") == 0) {
		port = SMTP_PORT;
	}
	read_checker(import, checker, statement, check, &port, &defaults);
	if (is_http(checker) && defaults.host != NULL && json_object_get(check, "host") == NULL) {
		set_text(import, statement, check, "host", defaults.host);
	}
	if (port != 0 && port != service_port) {
		json_object_set_new(check, "port", json_integer(port));
	} else if (port == 0 && service_port == 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, checker->name,
			"the service covers every port: add a health_check with the port to check");
		json_decref(check);
		return NULL;
	}
	set_times(import, statement, &defaults, checker->retries, check);
	if (checker->why != NULL) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, checker->name,
			"%s", checker->why);
	}
	return check;
}

// The most specific checker is used: HTTP before TCP. In keepalived all must pass.
json_t *weir_keepalived_check(struct weir_import *import,
	const struct weir_keepalived_statement *server,
	const struct weir_keepalived_defaults *defaults, uint16_t service_port, uint16_t port) {
	const struct weir_keepalived_statement *best = NULL, *statement;
	const struct checker *best_checker = NULL;

	for (statement = server->children; statement != NULL; statement = statement->next) {
		const struct checker *checker = find_checker(statement->word[0]);

		if (checker != NULL && checker->type != NULL &&
			(best == NULL || checker < best_checker)) {
			best = statement;
			best_checker = checker;
		}
	}
	for (statement = server->children; statement != NULL; statement = statement->next) {
		const struct checker *checker = find_checker(statement->word[0]);

		if (checker == NULL || statement == best) {
			continue;
		}
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, checker->name,
			"%s",
			checker->type == NULL ? checker->why
					      : "a service has one health check; another checker "
						"of this server is used");
	}
	return best != NULL ? make_check(import, best_checker, best, defaults, service_port, port)
			    : NULL;
}
