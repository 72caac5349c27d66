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

#include "top_view.h"

#define PAGE 10u

// The terminal, with the settings to restore at the end.
struct screen {
	struct weir_top_screen size;
	enum weir_top_sort sort;
	bool help; // the keys are shown
	int signals; // signalfd: termination, and changes of the terminal's size
	int keys; // descriptor, or -1: standard input is not a terminal
	struct termios before;
	sigset_t mask_before;
};

// --- samples
// --------------------------------------------------------------------------------------

static int send_command(struct weir_cli *cli, const char *command, json_t **ret) {
	json_t *request = json_pack("{s:s}", "command", command);
	int r = request != NULL ? weir_cli_request(cli, request, ret) : WEIR_CLI_REFUSED;

	json_decref(request);
	return r;
}

// The view from the last sample until now. Replaces *last.
static int look(struct weir_cli *cli, json_t **last, json_t **ret) {
	json_t *now = NULL, *workers = NULL, *events = NULL, *status = NULL;
	int r = send_command(cli, "stats.show", &now);

	r = r == WEIR_CLI_DONE ? send_command(cli, "worker.show", &workers) : r;
	r = r == WEIR_CLI_DONE ? send_command(cli, "health.history", &events) : r;
	if (r == WEIR_CLI_DONE) {
		*ret = weir_top_between(*last, now, workers, events);
		r = *ret != NULL ? WEIR_CLI_DONE : WEIR_CLI_REFUSED;
	}
	r = r == WEIR_CLI_DONE ? send_command(cli, "status", &status) : r;
	if (r == WEIR_CLI_DONE) {
		json_object_set(*ret, "status", status);
	}
	json_decref(status);
	json_decref(workers);
	json_decref(events);
	if (r == WEIR_CLI_DONE) {
		json_decref(*last);
		*last = now;
	} else {
		json_decref(now);
	}
	return r;
}

// --- the terminal -------------------------------------------------------------------------------

// https://no-color.org
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
		raw.c_cc[VSUSP] = _POSIX_VDISABLE; // would leave the terminal unrestored
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

static void draw(FILE *out, json_t *view, struct screen *screen) {
	static const char *const sorts[] = {
#define X(name, word, help, key) [WEIR_TOP_##name] = word,
		WEIR_TOP_SORTS(X)
#undef X
	};
	time_t now = time(NULL);
	struct tm local = {0};
	char title[512], clock[16] = "";

	if (localtime_r(&now, &local) != NULL) {
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	}
	snprintf(title, sizeof(title), "top %s  by %s  keys: ?  quit: q", clock,
		sorts[screen->sort]);
	weir_top_add_faults(view, title, sizeof(title));
	weir_top_sort_backends(view, screen->sort);
	measure(out, &screen->size);
	if (screen->help) {
		weir_top_draw_keys(out, &screen->size);
	} else {
		weir_top_draw(out, view, title, &screen->size);
	}
	fflush(out);
}

// Handle a typed key. False: quit.
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
		case 'j': // 'B' ends the sequence of the arrow key
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

static int64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Until the next sample, redraw on a key or a change of the terminal's size. False: quit.
static bool pass_time(FILE *out, json_t *view, struct screen *screen, int interval_ms) {
	int64_t until_ms = now_ms() + interval_ms, left_ms;

	while ((left_ms = until_ms - now_ms()) > 0) {
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
		if (view != NULL) {
			draw(out, view, screen);
		}
	}
	return true;
}

// --- output modes
// ---------------------------------------------------------------------------------

static int live(struct weir_cli *cli, json_t **last, int interval_ms) {
	struct screen screen = {
		.sort = (enum weir_top_sort)cli->options->sort, .size.colour = has_colours()};
	FILE *err = cli->err;
	char *said = NULL;
	size_t bytes;
	json_t *view = NULL;
	int r = WEIR_CLI_DONE;

	// Errors are printed after the terminal is restored.
	cli->err = open_memstream(&said, &bytes);
	if (cli->err == NULL || !begin(&screen, cli->out)) {
		fprintf(err, "weirctl: out of memory or descriptors\n");
		r = WEIR_CLI_REFUSED;
		goto restore_err;
	}
	fprintf(cli->out, "weirctl top: measuring\n");
	fflush(cli->out);
	while (r == WEIR_CLI_DONE && pass_time(cli->out, view, &screen, interval_ms) &&
		!ferror(cli->out)) {
		json_t *next = NULL;

		r = look(cli, last, &next);
		if (r == WEIR_CLI_DONE) {
			json_decref(view);
			view = next;
			draw(cli->out, view, &screen);
		}
	}
	json_decref(view);
	end(&screen, cli->out);
restore_err:
	if (cli->err != NULL) {
		fclose(cli->err);
		fputs(said, err);
		free(said);
	}
	cli->err = err;
	return r;
}

static int once(struct weir_cli *cli, json_t **last, int interval_ms) {
	json_t *view = NULL;
	int r;

	weir_cli_wait_ms(interval_ms);
	r = look(cli, last, &view);
	if (r != WEIR_CLI_DONE) {
		return r;
	}
	weir_top_sort_backends(view, (enum weir_top_sort)cli->options->sort);
	if (cli->options->json) {
		weir_cli_print_json(cli->out, view);
	} else {
		weir_top_print(cli->out, view);
	}
	json_decref(view);
	return r;
}

int weir_top_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const struct weir_cli_options *options = cli->options;
	const int interval_ms = options->interval_ms > 0 ? options->interval_ms : 1000;
	const bool is_live = !options->once && !options->json;
	json_t *last = NULL;
	int r;

	(void)command;
	if (is_live && !isatty(fileno(cli->out))) {
		fprintf(cli->err,
			"weirctl: standard output is not a terminal: use --once or --json\n");
		return WEIR_CLI_USAGE;
	}
	r = send_command(cli, "stats.show", &last);
	if (r == WEIR_CLI_DONE) {
		r = is_live ? live(cli, &last, interval_ms) : once(cli, &last, interval_ms);
	}
	json_decref(last);
	return r;
}
