// SPDX-License-Identifier: BSD-3-Clause
#include "stats.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "plural.h"
#include "show.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Returns whether a key is a counter. Counters are shown as rates; gauges and settings are shown as
// they are.
static bool is_counter(const char *key) {
#define X(field, unit, metric, text) #field,
	static const char *const counters[] = {
		WEIR_WORKER_COUNTERS(X) WEIR_SHARE_COUNTERS(X) WEIR_PORT_COUNTERS(X) "lost"
	};
#undef X

	for (size_t i = 0; i < COUNT(counters); i++) {
		if (strcmp(key, counters[i]) == 0) {
			return true;
		}
	}
	return false;
}

// Returns the rate of a counter as a whole number, or null if it is unknown. A rate below 0.5 has
// decimals, so that 0 is shown only if nothing was counted.
static json_t *rate(const json_t *before, const json_t *after, json_int_t interval_ms) {
	json_int_t from = json_integer_value(before), to = json_integer_value(after);
	double per_second;

	if (!json_is_integer(before) || to < from || interval_ms <= 0) {
		return json_null();
	}
	per_second = (double)(to - from) * 1000.0 / (double)interval_ms;
	return per_second > 0 && per_second < 0.5 ? json_real(per_second)
						  : json_integer((json_int_t)(per_second + 0.5));
}

static json_t *rates_of_drops(const json_t *before, const json_t *after, json_int_t interval_ms) {
	json_t *rates = json_object();
	const char *reason;
	json_t *n;

	json_object_foreach ((json_t *)after, reason, n) {
		json_object_set_new(
			rates, reason, rate(json_object_get(before, reason), n, interval_ms));
	}
	return rates;
}

// Returns a copy of `after` in which each counter is replaced by its rate.
static json_t *rates_of(const json_t *before, const json_t *after, json_int_t interval_ms) {
	json_t *rates = json_object();
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)after, key, value) {
		if (!json_is_integer(value) || !is_counter(key)) {
			json_object_set(rates, key, value);
		} else {
			json_object_set_new(
				rates, key, rate(json_object_get(before, key), value, interval_ms));
		}
	}
	return rates;
}

#define ROW_KEY_BYTES 256

// Write a key that identifies a row. The name of a backend is not sufficient: a backend that is
// being removed and a new backend can have the same name. Returns buffer.
static const char *row_key(const json_t *row, char *buffer, size_t bytes) {
	const char *service = json_string_value(json_object_get(row, "service"));
	const char *name = json_string_value(json_object_get(row, "name"));

	snprintf(buffer, bytes, "%s/%s/%" JSON_INTEGER_FORMAT, service != NULL ? service : "",
		name != NULL ? name : "", json_integer_value(json_object_get(row, "id")));
	return buffer;
}

// Returns an object {key of a row: row}, owned by the caller.
static json_t *index_rows(const json_t *rows) {
	char key[ROW_KEY_BYTES];
	json_t *index = json_object();
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		json_object_set(index, row_key(row, key, sizeof(key)), row);
	}
	return index;
}

static json_t *rates_of_rows(const json_t *before, const json_t *after, json_int_t interval_ms) {
	json_t *index = index_rows(before), *rows = json_array();
	char key[ROW_KEY_BYTES];
	json_t *row;
	size_t i;

	json_array_foreach (after, i, row) {
		const json_t *then = json_object_get(index, row_key(row, key, sizeof(key)));

		json_array_append_new(rows, rates_of(then, row, interval_ms));
	}
	json_decref(index);
	return rows;
}

json_int_t weir_stats_clock_ms(const json_t *sample) {
	const json_t *ms = json_object_get(sample, "monotonic_ms");

	return json_integer_value(ms != NULL ? ms : json_object_get(sample, "time_ms"));
}

json_t *weir_stats_rates(const json_t *before, const json_t *after) {
	json_int_t interval_ms = weir_stats_clock_ms(after) - weir_stats_clock_ms(before);
#define PART(function, key) \
	function(json_object_get(before, key), json_object_get(after, key), interval_ms)

	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "interval_ms", interval_ms, "workers",
		PART(rates_of, "workers"), "drops", PART(rates_of_drops, "drops"), "ports",
		PART(rates_of_rows, "ports"), "services", PART(rates_of_rows, "services"),
		"backends", PART(rates_of_rows, "backends"));
#undef PART
}

// Print the drop reasons whose counts are above 0.
static void print_drops(FILE *out, const json_t *drops, const char *header) {
	static const struct weir_show_column columns_count[] = {
		{"DROP-REASON", "reason", WEIR_SHOW_TEXT}, {"PACKETS", "n", WEIR_SHOW_NUMBER}};
	static const struct weir_show_column columns_rate[] = {
		{"DROP-REASON", "reason", WEIR_SHOW_TEXT}, {"PACKETS/S", "n", WEIR_SHOW_NUMBER}};
	json_t *rows = json_array();
	const char *reason;
	json_t *n;

	json_object_foreach ((json_t *)drops, reason, n) {
		if (json_number_value(n) > 0) {
			json_array_append_new(
				rows, json_pack("{s:s, s:O}", "reason", reason, "n", n));
		}
	}
	weir_show_table(out, rows, strcmp(header, "rate") == 0 ? columns_rate : columns_count, 2,
		"no drops");
	json_decref(rows);
}

static void leave_out_zeroes(json_t *counts) {
	const char *name;
	void *next;
	json_t *n;

	json_object_foreach_safe(counts, next, name, n) {
		if (json_integer_value(n) == 0) {
			json_object_del(counts, name);
		}
	}
}

// Print the counters of agents. Results and refusal reasons whose count is 0 are left out, because
// most of them never occur. Changes `agents`.
static void print_agents(FILE *out, json_t *agents) {
	if (json_integer_value(json_object_get(agents, "configured")) == 0) {
		return;
	}
	leave_out_zeroes(json_object_get(agents, "steal_results"));
	leave_out_zeroes(json_object_get(agents, "refused"));
	fprintf(out, "\nAGENTS\n");
	weir_show_fields(out, agents);
}

void weir_stats_show(const struct weir_cli *cli, json_t *result) {
	fprintf(cli->out, "WORKERS\n");
	weir_show_record(cli, json_object_get(result, "workers"));
	fprintf(cli->out, "\n");
	print_drops(cli->out, json_object_get(result, "drops"), "count");
	fprintf(cli->out, "\n");
	weir_show_ports(cli, json_object_get(result, "ports"));
	fprintf(cli->out, "\n");
	weir_show_services(cli, json_object_get(result, "services"));
	fprintf(cli->out, "\n");
	weir_show_backends(cli, json_object_get(result, "backends"));
	print_agents(cli->out, json_object_get(result, "agents"));
	fprintf(cli->out, "\nSEGMENT\n");
	weir_show_record(cli, json_object_get(result, "segment"));
}

void weir_stats_print_rates(FILE *out, const json_t *rates) {
	static const struct weir_show_column all[] = {
		{"RX-PACKETS/S", "rx_packets", WEIR_SHOW_NUMBER},
		{"RX-BYTES/S", "rx_bytes", WEIR_SHOW_NUMBER},
		{"TX-PACKETS/S", "tx_packets", WEIR_SHOW_NUMBER},
		{"TX-BYTES/S", "tx_bytes", WEIR_SHOW_NUMBER},
		{"FORWARDED/S", "forwarded", WEIR_SHOW_NUMBER},
		{"TO-KERNEL/S", "to_kernel", WEIR_SHOW_NUMBER},
		{"DROPPED/S", "dropped", WEIR_SHOW_NUMBER},
		{"FLOWS", "flows", WEIR_SHOW_NUMBER},
		// Packets that a worker handed over to another worker are counted in RX-PACKETS/S,
		// but this worker does not forward them. Without this column, these packets would
		// look lost.
		{"HANDED-OVER/S", "handed_over", WEIR_SHOW_NUMBER},
	};
	static const struct weir_show_column services[] = {
		{"SERVICE", "name", WEIR_SHOW_TEXT},
		{"ACTIVE-FLOWS", "active_flows", WEIR_SHOW_NUMBER},
		{"NEW-FLOWS/S", "new_flows", WEIR_SHOW_NUMBER},
		{"PACKETS/S", "packets", WEIR_SHOW_NUMBER},
		{"BYTES/S", "bytes", WEIR_SHOW_NUMBER},
		{"DROPPED/S", "dropped", WEIR_SHOW_NUMBER},
	};
	static const struct weir_show_column backends[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BACKEND", "label", WEIR_SHOW_TEXT},
		{"ACTIVE-FLOWS", "active_flows", WEIR_SHOW_NUMBER},
		{"NEW-FLOWS/S", "new_flows", WEIR_SHOW_NUMBER},
		{"PACKETS/S", "packets", WEIR_SHOW_NUMBER},
		{"BYTES/S", "bytes", WEIR_SHOW_NUMBER},
		{"CLIENT-RST/S", "refused", WEIR_SHOW_NUMBER},
		{"TIMED-OUT/S", "timed_out", WEIR_SHOW_NUMBER},
	};
	static const struct weir_show_column ports[] = {
		{"PORT", "name", WEIR_SHOW_TEXT},
		{"RX-PACKETS/S", "ipackets", WEIR_SHOW_NUMBER},
		{"LOST/S", "lost", WEIR_SHOW_NUMBER},
		{"TX-PACKETS/S", "opackets", WEIR_SHOW_NUMBER},
		{"TX-ERRORS/S", "oerrors", WEIR_SHOW_NUMBER},
	};
	json_t *workers = json_pack("[O]", json_object_get(rates, "workers"));

	weir_show_add_labels(json_object_get(rates, "backends"), "name");
	weir_show_table(out, workers, all, COUNT(all), "no workers");
	json_decref(workers);
	fprintf(out, "\n");
	print_drops(out, json_object_get(rates, "drops"), "rate");
	fprintf(out, "\n");
	weir_show_table(out, json_object_get(rates, "ports"), ports, COUNT(ports), "no ports");
	fprintf(out, "\n");
	weir_show_table(
		out, json_object_get(rates, "services"), services, COUNT(services), "no services");
	fprintf(out, "\n");
	weir_show_table(
		out, json_object_get(rates, "backends"), backends, COUNT(backends), "no backends");
}

// Overwrite the screen with a text, truncated to the lines and columns of the terminal. If lines
// are missing, the last line shows how many.
static void redraw(FILE *out, const char *text) {
	struct winsize size = {0};
	int lines = (int)weir_show_lines(text), room;
	char rest[64];

	if (ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_row == 0 || size.ws_col == 0) {
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	}
	room = size.ws_row - (lines < size.ws_row ? 1 : 2);
	fputs("\033[H", out);
	for (int row = 0; row < room && *text; row++) {
		size_t line = strcspn(text, "\n");

		weir_show_line(out, text, line, size.ws_col);
		text += line + (text[line] == '\n');
	}
	if (*text) {
		snprintf(rest, sizeof(rest), "%u more line%s: see weirctl top",
			weir_show_lines(text), weir_plural(weir_show_lines(text)));
		fprintf(out, "%.*s\033[K", size.ws_col, rest);
	}
	fputs("\033[J", out);
}

static void show_rates(const struct weir_cli *cli, const json_t *rates, bool terminal, int look) {
	char *text = NULL;
	size_t bytes;
	FILE *memory;

	if (cli->options->json) {
		weir_cli_print_json(cli->out, rates);
	} else if (!terminal) {
		if (look > 0) {
			fputc('\n', cli->out);
		}
		weir_stats_print_rates(cli->out, rates);
	} else {
		memory = open_memstream(&text, &bytes);
		if (memory != NULL) {
			weir_stats_print_rates(memory, rates);
			fclose(memory);
			fputs(look == 0 ? "\033[2J" : "", cli->out);
			redraw(cli->out, text);
		}
		free(text);
	}
	fflush(cli->out);
}

static int watch(struct weir_cli *cli, const json_t *request) {
	const bool terminal = isatty(fileno(cli->out));
	const int interval_ms = cli->options->interval_ms > 0 ? cli->options->interval_ms : 1000;
	json_t *before, *after, *rates;
	int r = weir_cli_request(cli, request, &before);

	if (r) {
		return r;
	}
	for (int look = 0; cli->options->count == 0 || look < cli->options->count; look++) {
		weir_cli_wait_ms(interval_ms);
		r = weir_cli_request(cli, request, &after);
		if (r) {
			break;
		}
		rates = weir_stats_rates(before, after);
		json_decref(before);
		before = after;
		if (rates != NULL) {
			show_rates(cli, rates, terminal, look);
		}
		json_decref(rates);
		if (ferror(cli->out)) {
			break;
		}
	}
	json_decref(before);
	return r;
}

int weir_stats_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = json_pack("{s:s}", "command", command->request);
	json_t *result;
	int r;

	if (request == NULL) {
		return WEIR_CLI_REFUSED;
	}
	if (cli->options->watch) {
		r = watch(cli, request);
	} else {
		r = weir_cli_request(cli, request, &result);
		if (r == WEIR_CLI_DONE && cli->options->json) {
			weir_cli_print_json(cli->out, result);
		} else if (r == WEIR_CLI_DONE) {
			weir_stats_show(cli, result);
		}
		if (r == WEIR_CLI_DONE) {
			json_decref(result);
		}
	}
	json_decref(request);
	return r;
}
