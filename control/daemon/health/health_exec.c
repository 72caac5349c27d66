// SPDX-License-Identifier: BSD-3-Clause
#include "health_exec.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES (WEIR_PROGRAM_OUTPUT_BYTES + 64)
#define DETAIL_BYTES (TEXT_BYTES + 32)
#define FIRST_WEIGHT 2 // this exit status means the weight 0, as in keepalived

struct weir_health_exec {
	uv_timer_t timer; // ends a probe that cannot run
	struct weir_programs *programs;
	uint64_t id; // id of the run; 0 = no program runs
	struct weir_probe_params params;
};

static void on_closed(uv_handle_t *handle) {
	free(handle->data);
}

static void end(struct weir_health_exec *exec) {
	uv_close((uv_handle_t *)&exec->timer, on_closed);
}

static void finish(struct weir_health_exec *exec, enum weir_probe_outcome outcome,
	const char *detail, const struct weir_report *report) {
	weir_probe_fn done = exec->params.done;
	void *context = exec->params.context;

	end(exec);
	done(context, outcome, detail, report);
}

// --- the result of the program ------------------------------------------------------------

// Returns the outcome for a program that was not started. status: negative errno.
static enum weir_probe_outcome outcome_of_start(int status) {
	switch (-status) {
	case EAGAIN: // too many processes
	case EBUSY: // too many programs
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return WEIR_PROBE_UNKNOWN;
	default:
		return WEIR_PROBE_FAILED;
	}
}

static enum weir_probe_outcome outcome_of(
	const struct weir_program_result *result, bool has_weights) {
	switch (result->end) {
	case WEIR_PROGRAM_EXITED:
		return result->status == 0 || (has_weights && result->status >= FIRST_WEIGHT)
			       ? WEIR_PROBE_PASSED
			       : WEIR_PROBE_FAILED;
	case WEIR_PROGRAM_NOT_STARTED:
		return outcome_of_start(result->status);
	case WEIR_PROGRAM_LOST:
		return WEIR_PROBE_UNKNOWN;
	default:
		return WEIR_PROBE_FAILED;
	}
}

static void on_ended(void *context, const struct weir_program_result *result) {
	struct weir_health_exec *exec = context;
	const struct weir_config_health_check *check = exec->params.check;
	const enum weir_probe_outcome outcome = outcome_of(result, check->weight_from_exit);
	struct weir_report report = {0};
	char detail[DETAIL_BYTES], text[TEXT_BYTES];

	weir_program_describe(result, check->timeout_ms, text, sizeof(text));
	snprintf(detail, sizeof(detail), "%s%s", outcome == WEIR_PROBE_UNKNOWN ? "no result: " : "",
		text);
	if (outcome != WEIR_PROBE_PASSED || !check->weight_from_exit) {
		finish(exec, outcome, detail, NULL);
		return;
	}
	if (result->status >= FIRST_WEIGHT) {
		weir_report_set(&report, WEIR_REPORT_BIT_WEIGHT, result->status - FIRST_WEIGHT);
		snprintf(detail, sizeof(detail), "weight %d, %s", result->status - FIRST_WEIGHT,
			text);
	}
	finish(exec, outcome, detail, &report);
}

static void on_missing(uv_timer_t *timer) {
	struct weir_health_exec *exec = timer->data;
	const char *problem = weir_programs_problem(exec->programs);
	char detail[DETAIL_BYTES];

	snprintf(detail, sizeof(detail), "no result: %s",
		problem != NULL ? problem : "too many programs are running");
	finish(exec, WEIR_PROBE_UNKNOWN, detail, NULL);
}

// --- the start of the program -------------------------------------------------------------

struct texts { // the values that a program gets
	char address[INET6_ADDRSTRLEN], port[8];
	const struct weir_health_names *names;
};

// Returns the value for the placeholder at the start of a text, or NULL if the text does not start
// with a placeholder. *ret: length of the placeholder in bytes.
static const char *value_of(const char *text, const struct texts *texts, size_t *ret) {
	const struct {
		const char *placeholder, *value;
	} values[] = {{"{address}", texts->address}, {"{port}", texts->port},
		{"{service}", texts->names->service}, {"{backend}", texts->names->backend}};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		*ret = strlen(values[i].placeholder);
		if (strncmp(text, values[i].placeholder, *ret) == 0) {
			return values[i].value;
		}
	}
	return NULL;
}

// Appends a word with its NUL to a buffer. expand: replace placeholders. Returns the start of the
// word in the buffer, or NULL if the buffer is too small.
static const char *append(const char *word, bool expand, const struct texts *texts,
	char buffer[WEIR_PROGRAM_TEXT_BYTES], size_t *used) {
	const size_t begin = *used;

	while (*word != '\0') {
		size_t skipped = 1, bytes = 1;
		const char *value = expand && *word == '{' ? value_of(word, texts, &skipped) : NULL;

		if (value == NULL) {
			value = word;
			skipped = 1;
		} else {
			bytes = strlen(value);
		}
		if (bytes >= WEIR_PROGRAM_TEXT_BYTES - *used) {
			return NULL;
		}
		memcpy(buffer + *used, value, bytes);
		*used += bytes;
		word += skipped;
	}
	if (*used >= WEIR_PROGRAM_TEXT_BYTES) {
		return NULL;
	}
	buffer[(*used)++] = '\0';
	return buffer + begin;
}

// Returns 0 or negative errno.
static int run(struct weir_health_exec *exec, const struct texts *texts) {
	const struct weir_config_health_check *check = exec->params.check;
	const char *arguments[WEIR_CONFIG_COMMAND_WORDS_MAX + 1];
	char buffer[WEIR_PROGRAM_TEXT_BYTES], text[4][WEIR_CONFIG_NAME_BYTES + 32];
	const char *variables[] = {text[0], text[1], text[2], text[3], NULL};
	const uint32_t words = weir_config_command_words(&check->command, arguments);
	size_t used = 0;

	for (uint32_t i = 0; i < words; i++) {
		arguments[i] = append(arguments[i], i > 0, texts, buffer, &used);
		if (arguments[i] == NULL) {
			return -E2BIG;
		}
	}
	snprintf(text[0], sizeof(text[0]), "WEIR_SERVICE=%s", texts->names->service);
	snprintf(text[1], sizeof(text[1]), "WEIR_BACKEND=%s", texts->names->backend);
	snprintf(text[2], sizeof(text[2]), "WEIR_ADDRESS=%s", texts->address);
	snprintf(text[3], sizeof(text[3]), "WEIR_PORT=%s", texts->port);
	return weir_programs_run(exec->programs,
		&(struct weir_program){.arguments = arguments,
			.variables = variables,
			.timeout_ms = check->timeout_ms,
			.kill_rest = true},
		on_ended, exec, &exec->id);
}

int weir_health_exec_start(uv_loop_t *loop, struct weir_programs *programs,
	const struct weir_health_names *names, const struct weir_probe_params *params,
	struct weir_health_exec **ret) {
	struct weir_health_exec *exec = calloc(1, sizeof(*exec));
	struct texts texts = {.names = names};
	int r;

	if (exec == NULL) {
		return -ENOMEM;
	}
	exec->programs = programs;
	exec->params = *params;
	weir_address_format(&params->address, texts.address, sizeof(texts.address));
	snprintf(texts.port, sizeof(texts.port), "%u", params->port);
	r = run(exec, &texts);
	if (r < 0 && r != -EPIPE && r != -EBUSY) {
		free(exec);
		return r;
	}
	uv_timer_init(loop, &exec->timer);
	exec->timer.data = exec;
	if (r < 0) {
		uv_timer_start(&exec->timer, on_missing, 0, 0);
	}
	*ret = exec;
	return 0;
}

void weir_health_exec_cancel(struct weir_health_exec *exec) {
	if (exec->id != 0) {
		weir_programs_cancel(exec->programs, exec->id);
	}
	end(exec);
}
