// SPDX-License-Identifier: BSD-3-Clause
#include "command.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "nearest.h"
#include "terminal.h"

#define ALIVE_MS 1000

void weir_cli_wait_ms(int ms) {
	struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&wait, &wait)) {
	}
}

int weir_cli_unknown(const char *what, const char *word, const char *meant,
	const char *const names[], uint32_t count, char *why, size_t why_bytes) {
	const char *nearest = meant != NULL ? meant : weir_nearest(word, names, count);
	char all[384] = "", shown[64];
	size_t used = 0;

	weir_terminal_text(word, shown, sizeof(shown));
	for (uint32_t i = 0; i < count && used < sizeof(all); i++) {
		used += (size_t)snprintf(
			all + used, sizeof(all) - used, "%s%s", used ? ", " : "", names[i]);
	}
	snprintf(why, why_bytes, "unknown %s \"%s\"; %s%s%savailable: %s", what, shown,
		nearest != NULL ? "did you mean \"" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "\"? " : "", all);
	return -EINVAL;
}

void weir_cli_print_errors(FILE *out, const char *file, const char *mark, const json_t *errors) {
	json_t *error;
	char shown[1024];
	size_t i;

	weir_terminal_text(file, shown, sizeof(shown));
	json_array_foreach (errors, i, error) {
		json_int_t line = json_integer_value(json_object_get(error, "line"));
		json_int_t column = json_integer_value(json_object_get(error, "column"));
		const char *path = json_string_value(json_object_get(error, "path"));
		const char *reason = json_string_value(json_object_get(error, "reason"));
		char text[1024];

		fprintf(out, "%s:", shown);
		if (line > 0) {
			fprintf(out, "%" JSON_INTEGER_FORMAT ":", line);
		}
		if (line > 0 && column > 0) {
			fprintf(out, "%" JSON_INTEGER_FORMAT ":", column);
		}
		fprintf(out, "%s", mark);
		if (path != NULL && path[0]) {
			fprintf(out, " %s:", weir_terminal_text(path, text, sizeof(text)));
		}
		fprintf(out, " %s\n",
			weir_terminal_text(reason != NULL ? reason : "-", text, sizeof(text)));
	}
}

void weir_cli_print_json(FILE *out, const json_t *json) {
	json_dumpf(json, out, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
	fputc('\n', out);
}

static bool has_code(const json_t *answer, const char *wanted) {
	const char *code = json_string_value(json_object_get(answer, "code"));

	return code != NULL && strcmp(code, wanted) == 0;
}

// Returns whether weir-control has refused the request because of an invalid argument. weirctl
// treats this as a usage error.
static bool is_usage(const json_t *answer) {
	return has_code(answer, "bad-request");
}

static void print_refusal(const struct weir_cli *cli, const json_t *answer) {
	const json_t *errors = json_object_get(answer, "errors");
	const char *text = json_string_value(json_object_get(answer, "error"));
	const char *file = json_string_value(json_object_get(answer, "file"));
	const char *first = json_string_value(json_object_get(json_array_get(errors, 0), "reason"));
	char shown[1024];

	fprintf(cli->err, "weirctl: %s%s\n", is_usage(answer) ? "" : "refused: ",
		weir_terminal_text(text != NULL ? text : "no reason given", shown, sizeof(shown)));
	if (file == NULL) { // an older weir-control does not send the name of the file
		file = cli->count > 0 ? cli->words[0] : "configuration";
	}
	if (text == NULL || first == NULL || strstr(text, first) == NULL) {
		weir_cli_print_errors(cli->err, file, "", errors);
	}
}

// If weir-control has changes that it has not published yet, print the reason on stderr, and add
// the reason to the result for --json.
static void print_unpublished(struct weir_cli *cli, const json_t *answer) {
	json_t *reason = json_object_get(answer, "not_published");
	const char *text = json_string_value(reason);
	char shown[sizeof(cli->printed_unpublished)];

	if (text == NULL) {
		cli->printed_unpublished[0] = '\0';
		return;
	}
	cli->unpublished |= json_is_false(json_object_get(answer, "published"));
	json_object_set(json_object_get(answer, "result"), "not_published", reason);
	weir_terminal_text(text, shown, sizeof(shown));
	if (strcmp(shown, cli->printed_unpublished) !=
		0) { // print a reason only once, even if requests are repeated
		fprintf(cli->err, "weirctl: changes are not published yet: %s\n", shown);
		memcpy(cli->printed_unpublished, shown, sizeof(shown));
	}
}

// Returns whether weir-control answers on a new connection.
static bool is_alive(const struct weir_cli *cli) {
	const int limit_ms =
		cli->options->timeout_ms < ALIVE_MS ? cli->options->timeout_ms : ALIVE_MS;
	json_t *request = json_pack("{s:s}", "command", "version"), *answer = NULL;
	struct weir_client *client = NULL;
	char why[512];
	bool alive = request != NULL &&
		     weir_client_connect(
			     cli->options->run_dir, limit_ms, &client, why, sizeof(why)) == 0 &&
		     weir_client_call(client, request, &answer, why, sizeof(why)) == 0;

	json_decref(answer);
	json_decref(request);
	weir_client_free(client);
	return alive;
}

// Print why weir-control has not answered. After the timeout of a walk over tables, frees the
// client, and sets cli->walks_on if weir-control answers on a new connection.
static void print_no_answer(struct weir_cli *cli, int error, const char *why) {
	if (error == -ETIMEDOUT && cli->walk != NULL) {
		weir_client_free(cli->client); // unusable after the timeout
		cli->client = NULL;
		cli->walks_on = is_alive(cli);
	}
	if (cli->walks_on) {
		fprintf(cli->err,
			"weirctl: weir-control is still %s after %d ms; the result will be in "
			"\"weirctl audit show\"; use --timeout MS to wait longer\n",
			cli->walk, cli->options->tables_ms);
	} else {
		fprintf(cli->err, "weirctl: %s\n", why);
	}
}

static int ask(struct weir_cli *cli, const json_t *request, bool if_any, json_t **ret) {
	json_t *answer, *result;
	char why[512];
	int r;

	r = weir_client_call(cli->client, request, &answer, why, sizeof(why));
	if (r) {
		print_no_answer(cli, r, why);
		return WEIR_CLI_UNREACHABLE;
	}
	if (if_any && has_code(answer, "not-found")) {
		json_decref(answer);
		*ret = NULL;
		return WEIR_CLI_DONE;
	}
	if (!json_is_true(json_object_get(answer, "ok"))) {
		r = is_usage(answer) ? WEIR_CLI_USAGE : WEIR_CLI_REFUSED;
		if (cli->options->json) {
			weir_cli_print_json(cli->out, answer);
		} else {
			print_refusal(cli, answer);
		}
		json_decref(answer);
		return r;
	}
	print_unpublished(cli, answer);
	result = json_object_get(answer, "result");
	*ret = result != NULL ? json_incref(result) : json_null();
	json_decref(answer);
	return WEIR_CLI_DONE;
}

int weir_cli_request(struct weir_cli *cli, const json_t *request, json_t **ret) {
	return ask(cli, request, false, ret);
}

int weir_cli_change(struct weir_cli *cli, const json_t *request, json_t **ret) {
	int r = ask(cli, request, false, ret);

	if (r == WEIR_CLI_UNREACHABLE && !cli->walks_on) {
		fprintf(cli->err,
			"weirctl: the change may still take effect; see \"weirctl audit show\"\n");
	}
	return r;
}

int weir_cli_request_if_any(struct weir_cli *cli, const json_t *request, json_t **ret) {
	return ask(cli, request, true, ret);
}

int weir_cli_set_text(json_t *object, const char *key, const char *option, const char *text,
	char *why, size_t why_bytes) {
	if (text != NULL && json_object_set_new(object, key, json_string(text))) {
		snprintf(why, why_bytes, "the value of --%s is not valid UTF-8", option);
		return -EINVAL;
	}
	return 0;
}

int weir_cli_set_owner(
	const struct weir_cli_options *options, json_t *object, char *why, size_t why_bytes) {
	const char *service = options->service, *backend = options->backend;
	const char *slash = backend != NULL ? strchr(backend, '/') : NULL;
	size_t length;

	if (slash == NULL) {
		int r = weir_cli_set_text(object, "service", "service", service, why, why_bytes);

		return r ? r
			 : weir_cli_set_text(object, "backend", "backend", backend, why, why_bytes);
	}
	length = (size_t)(slash - backend);
	if (length == 0 || strchr(slash + 1, '/') != NULL || slash[1] == '\0') {
		snprintf(why, why_bytes, "--backend: expected NAME or SERVICE/NAME");
		return -EINVAL;
	}
	if (service != NULL &&
		(strlen(service) != length || memcmp(service, backend, length) != 0)) {
		snprintf(why, why_bytes, "--backend and --service name different services");
		return -EINVAL;
	}
	if (json_object_set_new(object, "service", json_stringn(backend, length))) {
		snprintf(why, why_bytes, "the value of --backend is not valid UTF-8");
		return -EINVAL;
	}
	return weir_cli_set_text(object, "backend", "backend", slash + 1, why, why_bytes);
}

int weir_cli_set_backend(json_t *object, const char *word) {
	const char *slash = strchr(word, '/');
	const char *name = slash != NULL ? slash + 1 : word;
	int r = 0;

	if (slash != NULL) {
		r |= json_object_set_new(
			object, "service", json_stringn(word, (size_t)(slash - word)));
	}
	if (name[0] != '\0') {
		r |= json_object_set_new(object, "backend", json_string(name));
	}
	return r || slash == word || word[0] == '\0' || strchr(name, '/') != NULL ? -EINVAL : 0;
}

json_t *weir_cli_build(const struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = json_pack("{s:s}", "command", command->request);
	char why[256];

	if (request == NULL || command->build(cli, request, why, sizeof(why))) {
		json_decref(request);
		return NULL;
	}
	return request;
}

void weir_cli_show(
	const struct weir_cli *cli, const struct weir_cli_command *command, json_t *result) {
	if (cli->options->json) {
		weir_cli_print_json(cli->out, result);
	} else {
		command->show(cli, result);
	}
	json_decref(result);
}
