// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as a capture file. A pipeline with tables processes its readable
// packets as in weir-pcap. The packets to send are written to another capture, which is read
// again and must be unchanged.
//
// The pipeline keeps its flows from one input to the next, because recreating tables and buffers
// would take far longer than an input.
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "config.h"
#include "fuzz.h"
#include "offline.h"
#include "options.h"
#include "report.h"

// Some memory that is used until the process exits is only reachable from DPDK's memory, which
// LeakSanitizer does not scan. These functions are NULL in a build without LeakSanitizer.
void __lsan_disable(void);
void __lsan_enable(void);
#pragma weak __lsan_disable
#pragma weak __lsan_enable

#define FRAMES_MAX 64
#define PATH_BYTES 32
#define TIME_MAX_NS (INT32_MAX * 1000000000ull) // largest timestamp that libpcap can store

static const char config_text[] =
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}],\n"
	" \"flow_table\": {\"flows_per_worker\": 1024},\n"
	" \"segment\": {\"max_services\": 4, \"max_backends\": 8},\n"
	" \"services\": [{\"name\": \"web\", \"table_size\": 61, \"binds\": [\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80},\n"
	"   {\"address\": \"2001:db8:2::10\", \"protocol\": \"tcp\", \"port\": 80}],\n"
	"  \"backends\": [{\"name\": \"b-0\", \"address\": \"10.0.0.11\"},\n"
	"   {\"name\": \"b-1\", \"address\": \"2001:db8:1::11\"}]},\n"
	"  {\"name\": \"dns\", \"table_size\": 61, \"binds\": [\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"udp\", \"port\": 0},\n"
	"   {\"address\": \"2001:db8:2::10\", \"protocol\": \"udp\", \"port\": 53}],\n"
	"  \"backends\": [{\"name\": \"b-0\", \"address\": \"10.0.0.11\"}]}]}\n";

static struct weir_offline *offline; // exists until the process exits

struct sent { // a frame that was written, and must be read again
	uint32_t captured_bytes, bytes;
	uint64_t time_ns;
	uint8_t sum;
};

static uint8_t sum_of(const struct weir_capture_frame *frame) {
	uint8_t sum = 0;

	for (uint32_t i = 0; i < frame->captured_bytes; i++) {
		sum = (uint8_t)(sum * 31 + frame->data[i]);
	}
	return sum;
}

static void check_why(const char *why) {
	REQUIRE(why[0] != '\0' && strchr(why, '\n') == NULL);
}

// Processes one frame. Returns true if the frame is sent.
static bool process(const struct weir_capture_frame *frame, struct weir_offline_result *ret) {
	weir_offline_process(offline, frame, ret);
	REQUIRE(ret->action <= WEIR_ACTION_DROP && ret->choice < WEIR_CHOICE_COUNT);
	REQUIRE(ret->reason == WEIR_REASON_NONE || ret->reason < WEIR_DROP_REASON_COUNT);
	REQUIRE(ret->action != WEIR_ACTION_DROP || ret->reason != WEIR_REASON_NONE);
	REQUIRE(ret->cut == (frame->captured_bytes < frame->bytes));
	if (ret->action != WEIR_ACTION_FORWARD && ret->action != WEIR_ACTION_REPLY) {
		return false;
	}
	REQUIRE(ret->port != NULL);
	REQUIRE(ret->action == WEIR_ACTION_REPLY || ret->backend != NULL);
	REQUIRE(ret->sent.captured_bytes <= ret->sent.bytes && ret->sent.bytes <= UINT16_MAX);
	REQUIRE(ret->cut || ret->sent.captured_bytes == ret->sent.bytes);
	return true;
}

static unsigned int process_all(struct weir_capture_reader *reader, const char *output,
	struct weir_pcap_report *report, struct sent sent[FRAMES_MAX]) {
	struct weir_capture_writer *writer;
	struct weir_offline_result result;
	struct weir_capture_frame frame;
	unsigned int count = 0;
	char why[256] = "";
	int r = 1;

	REQUIRE(weir_capture_create(output, reader, &writer, why, sizeof(why)) == 0);
	for (unsigned int i = 0; i < FRAMES_MAX && r == 1; i++) {
		r = weir_capture_read(reader, &frame, why, sizeof(why));
		if (r != 1) {
			break;
		}
		REQUIRE(frame.captured_bytes <= frame.bytes);
		fuzz_touch(frame.data, frame.captured_bytes);
		if (process(&frame, &result)) {
			weir_capture_write(writer, &result.sent);
			sent[count++] = (struct sent){result.sent.captured_bytes, result.sent.bytes,
				result.sent.time_ns, sum_of(&result.sent)};
		}
		weir_pcap_report_packet(report, i + 1, &frame, &result);
	}
	if (r < 0) {
		REQUIRE(r == -EBADMSG);
		check_why(why);
	}
	REQUIRE(weir_capture_finish(writer) == 0);
	REQUIRE(weir_pcap_report_end(report, weir_offline_tables(offline), r < 0 ? why : NULL) ==
		0);
	return count;
}

static void read_back(const char *output, const struct sent *sent, unsigned int count) {
	struct weir_capture_reader *reader;
	struct weir_capture_frame frame;
	char why[256] = "";

	REQUIRE(weir_capture_open(output, &reader, why, sizeof(why)) == 0);
	for (unsigned int i = 0; i < count; i++) {
		REQUIRE(weir_capture_read(reader, &frame, why, sizeof(why)) == 1);
		REQUIRE(frame.captured_bytes == sent[i].captured_bytes &&
			frame.bytes == sent[i].bytes && sum_of(&frame) == sent[i].sum);
		REQUIRE(frame.time_ns == sent[i].time_ns || sent[i].time_ns >= TIME_MAX_NS);
	}
	REQUIRE(weir_capture_read(reader, &frame, why, sizeof(why)) == 0);
	weir_capture_close(reader);
}

// Processes all frames, writes a report about them, and reads the written capture again.
static void run(struct weir_capture_reader *reader, const char *output, bool json) {
	struct sent sent[FRAMES_MAX];
	struct weir_pcap_report *report;
	char *text = NULL;
	size_t bytes = 0;
	FILE *stream = open_memstream(&text, &bytes);

	REQUIRE(stream != NULL &&
		weir_pcap_report_begin(stream, json, weir_offline_tables(offline), &report) == 0);
	read_back(output, sent, process_all(reader, output, report, sent));
	REQUIRE(fclose(stream) == 0 && bytes > 0 && text[bytes - 1] == '\n');
	free(text);
}

// Creates an unnamed file.
static int make_file(char path[PATH_BYTES]) {
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	snprintf(path, PATH_BYTES, "/proc/self/fd/%d", fd);
	return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	static const struct weir_pcap_options options;
	struct weir_config_errors errors;
	struct weir_config *config; // owned by the offline object
	char why[256] = "";

	(void)argc;
	if (weir_config_parse(config_text, strlen(config_text), &config, &errors) < 0) {
		fprintf(stderr, "%s: %s\n", errors.error[0].path, errors.error[0].reason);
		abort();
	}
	weir_config_errors_fini(&errors);
	if (__lsan_disable) {
		__lsan_disable();
	}
	if (weir_offline_start((*argv)[0], weir_offline_flows(config), why, sizeof(why)) < 0 ||
		weir_offline_create(config, &options, &offline, why, sizeof(why)) < 0) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
	if (__lsan_enable) {
		__lsan_enable();
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct weir_capture_reader *reader = NULL;
	char input[PATH_BYTES], output[PATH_BYTES];
	int in = make_file(input), out = make_file(output);
	char why[256] = "";
	int r;

	REQUIRE(write(in, data, bytes) == (ssize_t)bytes);
	r = weir_capture_open(input, &reader, why, sizeof(why));
	if (r < 0) {
		REQUIRE(reader == NULL && r == -EINVAL);
		check_why(why);
	} else {
		run(reader, output, bytes % 2 != 0);
		weir_capture_close(reader);
	}
	close(in);
	close(out);
	return 0;
}
