// SPDX-License-Identifier: BSD-3-Clause
#include "top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "show_narrow.h"
#include "stats.h"
#include "status.h"
#include "top_view.h"

#define BANNER_BYTES 2048
#define PAGE 10u

// The terminal, and its settings that are restored at the end.
struct screen {
	struct weir_top_screen size;
	enum weir_top_sort sort;
	bool help; // the help about keys is shown
	int signals; // signalfd: termination, and changes of the terminal's size
	int keys; // descriptor for keys; -1 = standard input is not a terminal, or has ended
	struct termios before;
	sigset_t mask_before;
};

// --- samples ------------------------------------------------------------------------------------

struct samples {
	json_t *last; // NULL = none
	json_int_t began_ms, // time of the first sample
		dropped_ms; // time of the last sample with new drops
	json_int_t drops; // number of drops in the last sample
	bool dropped; // dropped_ms is valid
};

static int send_command(struct weir_cli *cli, const char *command, json_t **ret) {
	json_t *request = json_pack("{s:s}", "command", command);
	int r = request != NULL ? weir_cli_request(cli, request, ret) : WEIR_CLI_REFUSED;

	json_decref(request);
	return r;
}

static json_int_t sum_drops(const json_t *sample) {
	json_int_t sum = 0;
	const char *reason;
	json_t *n;

	json_object_foreach (json_object_get(sample, "drops"), reason, n) {
		sum += json_integer_value(n);
	}
	return sum;
}

// Store a sample. Returns the time without drops so far, as {since, ms, total} (top_view.h).
static json_t *take_sample(struct samples *samples, json_t *now) {
	const json_int_t now_ms = weir_stats_clock_ms(now),
			 wall_ms = json_integer_value(json_object_get(now, "time_ms"));
	const json_t *started = json_object_get(now, "dataplane_started_ms");
	const json_int_t drops = sum_drops(now);
	const char *since;
	json_int_t since_ms, until_ms;

	if (samples->began_ms == 0) {
		samples->began_ms = now_ms;
	} else if (drops != samples->drops && drops > 0) {
		samples->dropped = true;
		samples->dropped_ms = now_ms;
	}
	samples->drops = drops;
	json_decref(samples->last);
	samples->last = json_incref(now);
	since = drops == 0 ? "dataplane" : samples->dropped ? "drop" : "top";
	since_ms = drops == 0         ? json_integer_value(started)
		   : samples->dropped ? samples->dropped_ms
				      : samples->began_ms;
	until_ms = drops == 0 ? wall_ms : now_ms;
	return json_pack("{s:s, s:o, s:I}", "since", since, "ms",
		since_ms > 0 ? json_integer(until_ms > since_ms ? until_ms - since_ms : 0)
			     : json_null(),
		"total", drops);
}

// Takes a new sample. *ret: the view of the changes since the previous sample; unchanged after the
// first sample. Returns enum weir_cli_exit.
static int look(struct weir_cli *cli, struct samples *samples, json_t **ret) {
	json_t *now = NULL, *workers = NULL, *events = NULL, *status = NULL, *view = NULL;
	int r = send_command(cli, "stats.show", &now);

	if (r == WEIR_CLI_DONE && samples->last == NULL) {
		json_decref(take_sample(samples, now));
		goto release_now;
	}
	r = r == WEIR_CLI_DONE ? send_command(cli, "worker.show", &workers) : r;
	r = r == WEIR_CLI_DONE ? send_command(cli, "health.history", &events) : r;
	r = r == WEIR_CLI_DONE ? send_command(cli, "status", &status) : r;
	if (r == WEIR_CLI_DONE) {
		view = weir_top_between(samples->last, now, workers, events);
		r = view != NULL ? WEIR_CLI_DONE : WEIR_CLI_REFUSED;
	}
	if (r == WEIR_CLI_DONE) {
		json_object_set(view, "status", status);
		json_object_set_new(view, "no_drops", take_sample(samples, now));
		*ret = view;
	}
	json_decref(status);
	json_decref(events);
	json_decref(workers);
release_now:
	json_decref(now);
	return r;
}

// --- the terminal -------------------------------------------------------------------------------

// Returns whether colours may be used: see https://no-color.org.
static bool has_colours(void) {
	const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return (none == NULL || none[0] == '\0') && terminal != NULL && terminal[0] != '\0' &&
	       strcmp(terminal, "dumb") != 0;
}

static void measure(FILE *out, struct weir_top_screen *size) {
	struct winsize now = {0};

	if (ioctl(fileno(out), TIOCGWINSZ, &now) || now.ws_row == 0 || now.ws_col == 0) {
		now = (struct winsize){.ws_row = 24, .ws_col = 80};
	}
	size->rows = now.ws_row;
	size->columns = now.ws_col;
}

static bool begin(struct screen *screen, FILE *out) {
	struct termios raw;
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGQUIT);
	sigaddset(&mask, SIGWINCH);
	screen->keys = tcgetattr(STDIN_FILENO, &screen->before) == 0 ? STDIN_FILENO : -1;
	sigprocmask(SIG_BLOCK, &mask, &screen->mask_before);
	screen->signals = signalfd(-1, &mask, SFD_CLOEXEC);
	if (screen->signals < 0) {
		sigprocmask(SIG_SETMASK, &screen->mask_before, NULL);
		return false;
	}
	if (screen->keys >= 0) {
		raw = screen->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		// disable ^Z, which would not restore the terminal
		raw.c_cc[VSUSP] = _POSIX_VDISABLE;
		raw.c_cc[VMIN] = 1;
		tcsetattr(screen->keys, TCSADRAIN, &raw);
	}
	fputs("\033[?1049h\033[?25l\033[2J", out); // alternate screen, no cursor
	return true;
}

static void end(struct screen *screen, FILE *out) {
	fputs("\033[?25h\033[?1049l", out);
	fflush(out);
	if (screen->keys >= 0) {
		tcsetattr(screen->keys, TCSADRAIN, &screen->before);
	}
	close(screen->signals);
	sigprocmask(SIG_SETMASK, &screen->mask_before, NULL);
}

struct live {
	struct weir_cli *cli;
	struct screen screen;
	struct samples samples;
	json_t *view; // last view; until the second sample, a view without values
	struct weir_top_outage outage;
};

static bool all_stalled(const json_t *view) {
	const json_t *rows = json_object_get(view, "worker_rows"), *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (!json_is_false(json_object_get(row, "alive"))) {
			return false;
		}
	}
	return json_array_size(rows) > 0;
}

static void draw(struct live *live) {
	static const char *const sorts[] = {
#define X(name, word, help, key) [WEIR_TOP_##name] = word,
		WEIR_TOP_SORTS(X)
#undef X
	};
	struct screen *screen = &live->screen;
	FILE *out = live->cli->out;
	time_t now = time(NULL);
	struct tm local = {0};
	char title[64], clock[16] = "", banner[BANNER_BYTES];

	if (localtime_r(&now, &local) != NULL) {
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	}
	snprintf(title, sizeof(title), "top %s  by %s  keys: ?  quit: q", clock,
		sorts[screen->sort]);
	weir_top_banner(
		json_object_get(live->view, "status"), &live->outage, banner, sizeof(banner));
	weir_top_sort_backends(live->view, screen->sort);
	measure(out, &screen->size);
	screen->size.stale = live->outage.since != 0 || all_stalled(live->view);
	if (screen->help) {
		weir_top_draw_keys(out, &screen->size);
	} else {
		weir_top_draw(out, live->view, title, banner, &screen->size);
	}
	fflush(out);
}

// Handle the typed keys. Returns false to quit.
static bool take_keys(struct screen *screen) {
	char keys[64];
	ssize_t n = read(screen->keys, keys, sizeof(keys));
	uint32_t *first = &screen->size.first;

	if (n <= 0) {
		screen->keys = -1; // end of input: no more keys
	}
	for (ssize_t i = 0; i < n; i++) {
		switch (keys[i]) {
#define X(name, word, help, key) \
	case key: \
		screen->sort = WEIR_TOP_##name; \
		break;
			WEIR_TOP_SORTS(X)
#undef X
		case 'q':
			return false;
		case '?':
			screen->help = !screen->help;
			break;
		case 'j': // the arrow keys send "\033[A" and "\033[B"
		case 'B':
			*first += 1;
			break;
		case 'k':
		case 'A':
			*first -= *first > 0;
			break;
		case ' ':
			*first += PAGE;
			break;
		case '-':
			*first -= *first < PAGE ? *first : PAGE;
			break;
		case 'g':
			*first = 0;
			break;
		default:
			break;
		}
	}
	return true;
}

// Wait until it is time for the next sample. Redraws the screen after a key or a change of the
// terminal's size. Returns false to quit.
static bool pass_time(struct live *live, int interval_ms) {
	struct screen *screen = &live->screen;
	int64_t until_ms = weir_monotonic_ms() + interval_ms, left_ms;

	while ((left_ms = until_ms - weir_monotonic_ms()) > 0) {
		struct pollfd wait[] = {{.fd = screen->signals, .events = POLLIN},
			{.fd = screen->keys, .events = POLLIN}};
		struct signalfd_siginfo info;

		if (poll(wait, 2, (int)left_ms) <= 0) {
			continue;
		}
		if (wait[0].revents != 0 &&
			(read(screen->signals, &info, sizeof(info)) != sizeof(info) ||
				info.ssi_signo != SIGWINCH)) {
			return false;
		}
		if (wait[1].revents != 0 && !take_keys(screen)) {
			return false;
		}
		if (json_object_size(live->view) > 0) {
			draw(live);
		}
	}
	return true;
}

// --- live ---------------------------------------------------------------------------------------

// Timeouts of requests, shorter than the timeout of other commands, because top handles no key
// while a request waits for its reply.
#define CALL_MS 1000
#define STATUS_MS 300

static int shorter(int ms, int limit_ms) {
	return ms < limit_ms ? ms : limit_ms;
}

// Take a sample with requests to weir-control; connects again if the last connection failed. *ret:
// see look. An error is described in live->outage.why. Returns enum weir_cli_exit.
static int ask(struct live *live, json_t **ret) {
	struct weir_cli *cli = live->cli;
	char *why = live->outage.why, *said = NULL;
	size_t bytes;
	FILE *err = cli->err;
	int timeout_ms = shorter(cli->options->timeout_ms, CALL_MS), r = WEIR_CLI_UNREACHABLE;

	if (cli->client == NULL && weir_client_connect(cli->options->run_dir, timeout_ms,
					   &cli->client, why, sizeof(live->outage.why))) {
		return r;
	}
	weir_client_set_timeout(cli->client, timeout_ms);
	cli->err = open_memstream(&said, &bytes);
	if (cli->err != NULL) {
		r = look(cli, &live->samples, ret);
		fclose(cli->err);
		snprintf(why, sizeof(live->outage.why), "%.*s", (int)strcspn(said, "\n"), said);
		free(said);
	}
	cli->err = err;
	if (r != WEIR_CLI_DONE) {
		weir_client_free(cli->client);
		cli->client = NULL;
	}
	return r;
}

// Determine the status in the same way as "weirctl status", including the state of weir-dataplane,
// and add it to the view. Returns whether weir-control answers.
static bool look_at_status(struct live *live) {
	struct weir_cli_options options = *live->cli->options;
	json_t *status;
	bool answers;

	options.timeout_ms = shorter(options.timeout_ms, STATUS_MS);
	status = weir_status_get(&options);
	answers = json_is_true(json_object_get(json_object_get(status, "control"), "answers"));
	json_object_set_new(live->view, "status", status);
	return answers;
}

static void update(struct live *live) {
	json_t *next = NULL;
	int r;

	if (live->cli->client == NULL && !look_at_status(live)) {
		return;
	}
	r = ask(live, &next);
	if (r == WEIR_CLI_DONE && next != NULL) {
		json_decref(live->view);
		live->view = next;
		live->outage.since = 0;
		live->outage.figures = time(NULL);
	} else if (r != WEIR_CLI_DONE) {
		// Discard the samples before the outage, because a rate that covers the outage
		// would be wrong.
		json_decref(live->samples.last);
		live->samples.last = NULL;
		if (live->outage.since == 0) {
			live->outage.since = time(NULL);
			look_at_status(live);
		}
	}
}

static int run_live(struct weir_cli *cli, int interval_ms) {
	struct live live = {.cli = cli,
		.screen = {.sort = (enum weir_top_sort)cli->options->sort,
			.size.colour = has_colours()},
		.view = json_object()};
	int r = WEIR_CLI_DONE;

	if (live.view == NULL || !begin(&live.screen, cli->out)) {
		fprintf(cli->err, "weirctl: out of memory or file descriptors\n");
		r = WEIR_CLI_REFUSED;
		goto free_view;
	}
	fprintf(cli->out, "weirctl top: measuring\n");
	fflush(cli->out);
	do {
		update(&live);
		if (json_object_size(live.view) > 0) {
			draw(&live);
		}
	} while (pass_time(&live, interval_ms) && !ferror(cli->out));
	end(&live.screen, cli->out);
free_view:
	json_decref(live.samples.last);
	json_decref(live.view);
	return r;
}

// --- once ---------------------------------------------------------------------------------------

static int once(struct weir_cli *cli, int interval_ms) {
	const struct weir_top_outage none = {0};
	struct samples samples = {0};
	char banner[BANNER_BYTES];
	json_t *view = NULL;
	int r = look(cli, &samples, &view);

	if (r == WEIR_CLI_DONE) {
		weir_cli_wait_ms(interval_ms);
		r = look(cli, &samples, &view);
	}
	json_decref(samples.last);
	if (r != WEIR_CLI_DONE) {
		return r;
	}
	weir_top_sort_backends(view, (enum weir_top_sort)cli->options->sort);
	if (cli->options->json) {
		weir_cli_print_json(cli->out, view);
	} else {
		weir_top_banner(json_object_get(view, "status"), &none, banner, sizeof(banner));
		fprintf(cli->out, "%s%s", banner, banner[0] != '\0' ? "\n\n" : "");
		weir_top_print(cli->out, view, weir_show_width(cli->out));
	}
	json_decref(view);
	return r;
}

int weir_top_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const struct weir_cli_options *options = cli->options;
	const int interval_ms = options->interval_ms > 0 ? options->interval_ms : 1000;

	(void)command;
	if (options->once || options->json) {
		return once(cli, interval_ms);
	}
	if (!isatty(fileno(cli->out))) {
		fprintf(cli->err,
			"weirctl: standard output is not a terminal: use --once or --json\n");
		return WEIR_CLI_USAGE;
	}
	return run_live(cli, interval_ms);
}
