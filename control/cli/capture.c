// SPDX-License-Identifier: BSD-3-Clause
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture_session.h"
#include "captured.h"
#include "packet_facts.h"
#include "pcapng.h"
#include "terminal.h"
#include "weir_version.h"

#define RATE_DEFAULT 10000 // packets per second for each worker
#define RATE_MOST 1000000
#define SHOWN 256 // maximum number of bytes of a printed name of a file or port
#define READER_MS 50 // time between two attempts to open a named pipe that has no reader

// The file to which a capture is written.
struct output {
	struct weir_cli *cli;
	struct weir_capture_session *capture;
	const char *name; // "-" = standard output
	FILE *file;
	json_t *interfaces; // port names, in the order of the interface blocks
	uint32_t snaplen;
	json_int_t packets;
	// Length of the file up to the end of its last complete block; -1 = the file cannot be
	// truncated.
	off_t whole;
};

// --- request ------------------------------------------------------------------------------------

static void set_names(
	json_t *filter, const char *key, uint64_t set, const char *const *names, uint32_t count) {
	json_t *array = json_array();

	for (uint32_t i = 0; i < count; i++) {
		if (set & UINT64_C(1) << i) {
			json_array_append_new(array, json_string(names[i]));
		}
	}
	if (set != 0) {
		json_object_set(filter, key, array);
	}
	json_decref(array);
}

static int build_filter(
	const struct weir_cli_options *options, json_t *filter, char *why, size_t n) {
	static const char *const protocols[] = {
		[WEIR_CLI_TCP] = "tcp", [WEIR_CLI_UDP] = "udp", [WEIR_CLI_ICMP] = "icmp"};
	const struct weir_cli_capture *capture = &options->capture;
	int r = weir_cli_set_owner(options, filter, why, n);

	r = r ? r : weir_cli_set_text(filter, "client", "client", options->client, why, n);
	r = r ? r
	      : weir_cli_set_text(
			filter, "destination", "destination", capture->destination, why, n);
	r = r ? r
	      : weir_cli_set_text(
			filter, "protocol", "protocol", protocols[capture->protocol], why, n);
	set_names(filter, "reasons", capture->reasons, weir_captured_reasons,
		weir_captured_reason_count);
	set_names(filter, "actions", capture->actions, weir_cli_actions, WEIR_ACTION_COUNT);
	if (capture->port > 0) {
		json_object_set_new(filter, "destination_port", json_integer(capture->port));
	}
	if (r == 0 && options->backend != NULL && json_object_get(filter, "service") == NULL) {
		snprintf(why, n,
			"--backend needs --service or the form SERVICE/NAME, because a name is "
			"unique only within a service");
		return -EINVAL;
	}
	return r;
}

int weir_capture_build(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const struct weir_cli_capture *capture = &cli->options->capture;
	const double given = cli->options->rate;
	const bool valid = given >= 1 && given <= RATE_MOST;
	const json_int_t rate = valid ? (json_int_t)given : RATE_DEFAULT;
	json_t *filter = json_object();
	int r = build_filter(cli->options, filter, why, n);

	if (json_object_size(filter) > 0) {
		json_object_set(request, "filter", filter);
	}
	json_decref(filter);
	json_object_set_new(request, "snaplen", json_integer(capture->snaplen));
	json_object_set_new(request, "rate", json_integer(rate));
	if (r == 0 && given >= 0 && (!valid || given != (double)rate)) {
		snprintf(why, n, "--rate: use a whole number from 1 to %d", RATE_MOST);
		return -EINVAL;
	}
	if (capture->packets > 0) {
		json_object_set_new(request, "packets", json_integer(capture->packets));
	}
	return r;
}

// --- output file --------------------------------------------------------------------------------

static bool is_stdout(const char *name) {
	return strcmp(name, "-") == 0;
}

static int refuse_file(const struct weir_cli *cli, const char *name, const char *what) {
	char shown[SHOWN];

	fprintf(cli->err, "weirctl: %s: %s\n", weir_terminal_text(name, shown, sizeof(shown)),
		what);
	return WEIR_CLI_REFUSED;
}

// Refuse to write to a terminal or, without --force, over an existing regular file. Called before
// the capture starts. After the start, open_file opens the file; without --force, open_file does
// not overwrite a file that another process has created in the meantime.
static int check_file(const struct weir_cli *cli, const char *name) {
	struct stat status;

	if (is_stdout(name)) {
		return isatty(fileno(cli->out))
			       ? refuse_file(cli, "standard output",
					 "a terminal cannot display packets; give a file, or pipe "
					 "the output: weirctl capture start - | tshark -r -")
			       : WEIR_CLI_DONE;
	}
	if (lstat(name, &status) == 0 && S_ISREG(status.st_mode) && !cli->options->capture.force) {
		return refuse_file(cli, name, "the file exists; --force replaces it");
	}
	return WEIR_CLI_DONE;
}

// Open a named pipe or another special file. For a named pipe, wait until it has a reader or the
// capture ends. Returns a descriptor in blocking mode, or -1 with errno.
static int open_special(struct weir_capture_session *capture, const char *name) {
	int fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	while (fd < 0 && errno == ENXIO && weir_capture_session_ended(capture) == NULL) {
		weir_capture_session_pause(capture, READER_MS);
		fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	if (fd >= 0) {
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	}
	return fd;
}

// Open the output file. A regular file is always newly created with mode 0600, so no other user can
// have opened it before. An existing named pipe or device is opened without creating a file.
static FILE *open_file(
	const struct weir_cli *cli, struct weir_capture_session *capture, const char *name) {
	struct stat status;
	FILE *file = NULL;
	int fd;

	if (lstat(name, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
		fd = open_special(capture, name);
	} else {
		if (cli->options->capture.force) {
			unlink(name);
		}
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	if (fd >= 0) {
		file = fdopen(fd, "w");
	}
	if (file == NULL) {
		refuse_file(cli, name, errno == ENXIO ? "the pipe has no reader" : strerror(errno));
		if (fd >= 0) {
			close(fd);
		}
		return NULL;
	}
	setvbuf(file, NULL, _IONBF, 0); // without a buffer, no data is left to write after an error
	return file;
}

static int write_interface(struct output *output, const char *name) {
	char shown[SHOWN];

	json_array_append_new(output->interfaces, json_string(name));
	return weir_pcapng_interface(
		output->file, weir_terminal_text(name, shown, sizeof(shown)), output->snaplen);
}

// Write the filter of the capture as text, for the comment of the file. request: the request
// capture.start. Returns buffer.
static const char *describe(const json_t *request, char *buffer, size_t bytes) {
	char *filter = json_dumps(json_object_get(request, "filter"),
		JSON_COMPACT | JSON_ENSURE_ASCII | JSON_PRESERVE_ORDER);

	snprintf(buffer, bytes,
		"each packet has a comment with the action of weir-dataplane; filter: %s",
		filter != NULL ? filter : "none");
	free(filter);
	return buffer;
}

static int open_output(struct output *output, const json_t *request, const json_t *ports) {
	char comment[1024];
	struct stat status;
	json_t *port;
	size_t i;
	int r;

	output->file = is_stdout(output->name)
			       ? output->cli->out
			       : open_file(output->cli, output->capture, output->name);
	if (output->file == NULL) {
		return WEIR_CLI_REFUSED;
	}
	output->whole = !is_stdout(output->name) && fstat(fileno(output->file), &status) == 0 &&
					S_ISREG(status.st_mode)
				? 0
				: -1;
	r = weir_pcapng_section(
		output->file, "weirctl " WEIR_VERSION, describe(request, comment, sizeof(comment)));
	json_array_foreach (ports, i, port) {
		const char *name = json_string_value(port);

		r = r ? r : write_interface(output, name != NULL ? name : "-");
	}
	return r ? refuse_file(output->cli, output->name, strerror(-r)) : WEIR_CLI_DONE;
}

// Returns the index of the interface block of a port, or negative errno. If the port was added
// after the start of the capture, first writes its interface block.
static int interface_of(struct output *output, const char *port) {
	json_t *name;
	size_t i;
	int r;

	json_array_foreach (output->interfaces, i, name) {
		if (strcmp(json_string_value(name), port) == 0) {
			return (int)i;
		}
	}
	r = write_interface(output, port);
	return r ? r : (int)i;
}

static int write_packet(struct output *output, const json_t *packet) {
	const char *port = weir_captured_text(packet, "port");
	int interface = interface_of(output, port[0] ? port : "-");
	uint8_t data[WEIR_PCAPNG_FRAME_MAX];
	char comment[512];
	struct weir_pcapng_packet block = {
		.time_ns = (uint64_t)json_integer_value(json_object_get(packet, "time_ns")),
		.data = data,
		.captured_bytes = (uint32_t)weir_captured_data(packet, data, sizeof(data)),
		.bytes = (uint32_t)json_integer_value(json_object_get(packet, "length")),
		.comment = weir_captured_verdict(packet, comment, sizeof(comment)),
	};

	if (interface < 0) {
		return interface;
	}
	block.interface = (uint32_t)interface;
	return weir_pcapng_packet(output->file, &block);
}

// Write packets. If a packet cannot be written completely, for example because the disk is full,
// truncate the file to its last complete block. Prints errors. Returns enum weir_cli_exit.
static int write_packets(struct output *output, json_t *packets) {
	json_int_t most = output->cli->options->capture.packets;
	json_t *packet;
	size_t i;

	json_array_foreach (packets, i, packet) {
		int r;

		if (!weir_capture_session_may_write(output->capture, fileno(output->file))) {
			// The capture was interrupted: weir_capture_session_ended returns the
			// reason.
			return WEIR_CLI_DONE;
		}
		r = most == 0 || output->packets < most ? write_packet(output, packet) : 0;
		if (r) {
			if (output->whole >= 0 && ftruncate(fileno(output->file), output->whole)) {
				output->whole = -1; // the incomplete block stays in the file
			}
			return refuse_file(output->cli, output->name, strerror(-r));
		}
		output->packets += most == 0 || output->packets < most;
		output->whole = output->whole >= 0 ? ftello(output->file) : -1;
	}
	return WEIR_CLI_DONE;
}

// --- output as text ------------------------------------------------------------------------------

static void write_counts(const struct output *output, const struct weir_capture_session *capture,
	char *buffer, size_t bytes) {
	json_int_t lost = weir_capture_session_lost(capture),
		   limited = weir_capture_session_limited(capture);

	snprintf(buffer, bytes,
		"%" JSON_INTEGER_FORMAT " packet%s, %" JSON_INTEGER_FORMAT
		" lost, %" JSON_INTEGER_FORMAT " over the rate limit",
		output->packets, output->packets == 1 ? "" : "s", lost, limited);
}

static void show_progress(const struct output *output, const struct weir_capture_session *capture) {
	char counts[128];

	if (isatty(fileno(output->cli->err))) {
		write_counts(output, capture, counts, sizeof(counts));
		fprintf(output->cli->err, "\rcapturing: %s\033[K", counts);
		fflush(output->cli->err);
	}
}

static void show_end(const struct output *output, struct weir_capture_session *capture) {
	const struct weir_cli *cli = output->cli;
	FILE *out = is_stdout(output->name) ? cli->err : cli->out;
	char shown[SHOWN], counts[128];
	json_t *json;

	if (cli->options->json) {
		json = json_pack("{s:s*, s:I, s:I, s:I, s:s?}", "file", output->name, "packets",
			output->packets, "lost", weir_capture_session_lost(capture), "limited",
			weir_capture_session_limited(capture), "ended",
			weir_capture_session_ended(capture));
		weir_cli_print_json(out, json);
		json_decref(json);
		return;
	}
	write_counts(output, capture, counts, sizeof(counts));
	fprintf(out, "%s: %s\n",
		is_stdout(output->name) ? "standard output"
					: weir_terminal_text(output->name, shown, sizeof(shown)),
		counts);
}

// --- the command --------------------------------------------------------------------------------

static int pass_packets(struct output *output, struct weir_capture_session *capture) {
	json_t *packets;
	int r;

	do {
		show_progress(output, capture);
		r = weir_capture_session_read(capture, &packets);
		r = r == WEIR_CLI_DONE ? write_packets(output, packets) : r;
	} while (r == WEIR_CLI_DONE && weir_capture_session_ended(capture) == NULL);
	if (isatty(fileno(output->cli->err))) {
		fputs("\r\033[K", output->cli->err);
	}
	return r;
}

static int close_output(struct output *output, int r) {
	if (output->file != NULL && output->file != output->cli->out && fclose(output->file) &&
		r == WEIR_CLI_DONE) {
		return refuse_file(output->cli, output->name, strerror(errno));
	}
	return r;
}

int weir_capture_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	struct output output = {.cli = cli,
		.name = cli->words[0],
		.interfaces = json_array(),
		.snaplen = (uint32_t)cli->options->capture.snaplen};
	json_t *request = weir_cli_build(cli, command);
	struct weir_capture_session *capture = NULL;
	int r = WEIR_CLI_REFUSED, stopped;

	if (request == NULL || output.interfaces == NULL) {
		fprintf(cli->err, "weirctl: out of memory\n");
		goto free_request;
	}
	r = check_file(cli, output.name);
	r = r == WEIR_CLI_DONE ? weir_capture_session_begin(cli, request, &capture) : r;
	if (r != WEIR_CLI_DONE) {
		goto free_request;
	}
	output.capture = capture;
	r = open_output(&output, request, weir_capture_session_ports(capture));
	if (r == WEIR_CLI_DONE) {
		r = pass_packets(&output, capture);
	}
	stopped = weir_capture_session_stop(capture);
	r = r == WEIR_CLI_DONE ? stopped : r;
	r = close_output(&output, r);
	if (output.file != NULL) {
		show_end(&output, capture);
	}
	weir_capture_session_free(capture);
free_request:
	json_decref(request);
	json_decref(output.interfaces);
	return r;
}
