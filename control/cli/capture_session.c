// SPDX-License-Identifier: BSD-3-Clause
#include "capture_session.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clocks.h"
#include "terminal.h"

#define READ_WAITS_MS 1000 // maximum time that weir-control waits for packets in capture.read
// Pause between two requests. With this pause, the ring of a worker has room for up to 68,000
// packets of 128 bytes per second.
#define GATHER_MS 20

struct weir_capture_session {
	struct weir_cli *cli;
	json_t *started; // result of capture.start
	json_t *last; // result of the last capture.read, or NULL
	json_int_t lost, limited;
	bool stalled; // a worker was stalled during the capture, and a message was printed
	int64_t began_ms;
	int signals; // signalfd
	sigset_t mask_before;
	bool interrupted;
	bool broken; // the connection or the capture is unusable
};

static int take_signals(struct weir_capture_session *capture) {
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, &capture->mask_before);
	capture->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return capture->signals >= 0 ? 0 : -1;
}

int weir_capture_session_begin(
	struct weir_cli *cli, const json_t *request, struct weir_capture_session **ret) {
	struct weir_capture_session *capture = calloc(1, sizeof(*capture));
	int r = WEIR_CLI_REFUSED;

	if (capture == NULL) {
		fprintf(cli->err, "weirctl: out of memory\n");
		return r;
	}
	capture->cli = cli;
	if (take_signals(capture)) {
		fprintf(cli->err, "weirctl: out of file descriptors\n");
		goto free_capture;
	}
	r = weir_cli_request(cli, request, &capture->started);
	if (r != WEIR_CLI_DONE) {
		goto free_capture;
	}
	capture->began_ms = weir_monotonic_ms();
	// --timeout is the maximum time to wait for a weir-control that hangs. capture.read also
	// waits up to READ_WAITS_MS for packets, so the timeout of a call is the sum of both times.
	weir_client_set_timeout(cli->client, cli->options->timeout_ms + READ_WAITS_MS);
	*ret = capture;
	return WEIR_CLI_DONE;

free_capture:
	weir_capture_session_free(capture);
	return r;
}

void weir_capture_session_free(struct weir_capture_session *capture) {
	struct signalfd_siginfo info;

	if (capture == NULL) {
		return;
	}
	if (capture->signals >= 0) {
		// Discard signals that have ended the capture, or that arrived after its end:
		// pending signals would terminate weirctl when signals are unblocked.
		while (read(capture->signals, &info, sizeof(info)) == sizeof(info)) {
		}
		close(capture->signals);
	}
	sigprocmask(SIG_SETMASK, &capture->mask_before, NULL);
	json_decref(capture->started);
	json_decref(capture->last);
	free(capture);
}

json_t *weir_capture_session_ports(const struct weir_capture_session *capture) {
	return json_object_get(capture->started, "ports");
}

// --- requests -----------------------------------------------------------------------------------

static int send_command(struct weir_capture_session *capture, const char *command, json_t **ret) {
	json_t *number = json_object_get(capture->started, "capture");
	json_t *request = json_pack("{s:s, s:O*}", "command", command, "capture", number);
	json_t *result = NULL;
	int r = request != NULL ? weir_cli_request(capture->cli, request, &result)
				: WEIR_CLI_REFUSED;

	json_decref(request);
	capture->broken = r != WEIR_CLI_DONE;
	if (r == WEIR_CLI_DONE) {
		capture->lost = json_integer_value(json_object_get(result, "lost"));
		capture->limited = json_integer_value(json_object_get(result, "limited"));
		*ret = result;
	}
	return r;
}

// Pause before each request except the first, unless weir-control has more packets. capture.read
// returns as soon as there is one packet. Without the pause, each packet would have its own reply
// when packets are rare, and weir-control would use more CPU time.
static void gather(struct weir_capture_session *capture) {
	if (capture->last != NULL && !json_is_true(json_object_get(capture->last, "more"))) {
		weir_capture_session_pause(capture, GATHER_MS);
	}
}

// Prints a message when a reply is the first that shows stalled workers.
static void report_stall(struct weir_capture_session *capture) {
	const json_int_t workers = json_integer_value(json_object_get(capture->started, "workers"));
	const json_int_t stalled = json_integer_value(json_object_get(capture->last, "stalled"));
	FILE *err = capture->cli->err;

	if (stalled <= 0 || capture->stalled) {
		return;
	}
	capture->stalled = true;
	if (isatty(fileno(err))) {
		fputs("\r\033[K", err); // the line may have the progress of the capture
	}
	if (stalled >= workers) {
		fprintf(err, "weirctl: weir-dataplane is hung or short of CPU time: its packets "
			     "are not captured; see weirctl status\n");
	} else {
		fprintf(err,
			"weirctl: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
			" workers of weir-dataplane %s hung or short of CPU time: the packets of "
			"%s queues are not captured; see weirctl status\n",
			stalled, workers, stalled == 1 ? "is" : "are",
			stalled == 1 ? "its" : "their");
	}
}

int weir_capture_session_read(struct weir_capture_session *capture, json_t **ret_packets) {
	json_t *result;
	int r;

	gather(capture);
	r = send_command(capture, "capture.read", &result);
	if (r == WEIR_CLI_DONE) {
		json_decref(capture->last);
		capture->last = result;
		report_stall(capture);
		*ret_packets = json_object_get(result, "packets");
	}
	return r;
}

static bool is_interrupted(struct weir_capture_session *capture) {
	struct pollfd wait = {.fd = capture->signals, .events = POLLIN};

	capture->interrupted |= poll(&wait, 1, 0) > 0;
	return capture->interrupted;
}

const char *weir_capture_session_ended(struct weir_capture_session *capture) {
	const int duration_ms = capture->cli->options->for_ms;
	const char *ended = json_string_value(json_object_get(capture->last, "ended"));

	if (ended != NULL) {
		return ended;
	}
	if (is_interrupted(capture)) {
		return "interrupt";
	}
	return duration_ms > 0 && weir_capture_session_lasts(capture, duration_ms) ? "duration"
										   : NULL;
}

bool weir_capture_session_may_write(struct weir_capture_session *capture, int fd) {
	struct pollfd wait[] = {
		{.fd = fd, .events = POLLOUT}, {.fd = capture->signals, .events = POLLIN}};

	while (fd >= 0 && wait[0].revents == 0 && !is_interrupted(capture)) {
		poll(wait, 2, -1);
	}
	return fd < 0 || wait[0].revents != 0;
}

void weir_capture_session_pause(struct weir_capture_session *capture, int ms) {
	struct pollfd wait = {.fd = capture->signals, .events = POLLIN};

	poll(&wait, 1, ms);
}

int weir_capture_session_stop(struct weir_capture_session *capture) {
	const char *ended = json_string_value(json_object_get(capture->last, "ended"));
	json_t *result;
	int r;

	if (capture->broken) {
		return WEIR_CLI_DONE; // the capture has ended, and the reason was printed
	}
	if (ended == NULL) {
		r = send_command(capture, "capture.stop", &result);
		if (r == WEIR_CLI_DONE) {
			json_decref(result);
		}
		return r == WEIR_CLI_DONE && capture->stalled ? WEIR_CLI_REFUSED : r;
	}
	if (strcmp(ended, "packets") != 0) {
		char shown[64];

		fprintf(capture->cli->err, "weirctl: weir-control ended the capture: %s\n",
			strcmp(ended, "no-dataplane") == 0
				? "weir-dataplane has exited or was restarted"
				: weir_terminal_text(ended, shown, sizeof(shown)));
		return WEIR_CLI_REFUSED;
	}
	return capture->stalled ? WEIR_CLI_REFUSED : WEIR_CLI_DONE;
}

json_int_t weir_capture_session_lost(const struct weir_capture_session *capture) {
	return capture->lost;
}

json_int_t weir_capture_session_limited(const struct weir_capture_session *capture) {
	return capture->limited;
}

bool weir_capture_session_lasts(const struct weir_capture_session *capture, int ms) {
	return (int64_t)weir_monotonic_ms() - capture->began_ms >= ms;
}
