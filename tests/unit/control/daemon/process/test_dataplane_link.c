// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the link to the dataplane, on an event loop of the test, with the real handover server.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dataplane_link.h"
#include "test.h"

#define DEADLINE_MS 10000

struct lab {
	char dir[32];
	uv_loop_t loop;
	struct weir_log log;
	FILE *log_file;
	struct weir_dataplane_link *link;
	struct weir_handover_server *server;
	struct weir_handover offer;
	struct weir_segment *created; // the dataplane's mapping of the segment
	struct weir_segment *segment; // attached segment; NULL = not attached
	unsigned int attached, lost, refused;
	int error; // error of the last refusal
	uint32_t vip_maps;
	int vip_map_fd[WEIR_PORTS_MAX];
	int refuse; // result of the callback `attached`
};

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int on_attached(void *context, struct weir_segment *segment,
	const struct weir_handover *handover, char *why, size_t why_bytes) {
	struct lab *lab = context;

	lab->attached++;
	if (lab->refuse < 0) {
		snprintf(why, why_bytes, "not today");
		return lab->refuse;
	}
	assert_null(lab->segment);
	lab->segment = segment;
	lab->vip_maps = handover->vip_maps;
	memcpy(lab->vip_map_fd, handover->vip_map_fd, sizeof(lab->vip_map_fd));
	return 0;
}

static void on_lost(void *context) {
	struct lab *lab = context;

	assert_non_null(lab->segment);
	assert_int_equal(lab->segment->header->magic, WEIR_SEGMENT_MAGIC); // still mapped
	lab->segment = NULL;
	lab->lost++;
}

static void on_refused(void *context, int error) {
	struct lab *lab = context;

	lab->refused++;
	lab->error = error;
}

// Run one iteration of both sides.
static void turn(struct lab *lab) {
	struct timespec pause = {.tv_nsec = 1000000};

	if (lab->server != NULL) {
		weir_handover_serve(lab->server, &lab->offer);
	}
	uv_run(&lab->loop, UV_RUN_NOWAIT);
	nanosleep(&pause, NULL);
}

#define UNTIL(condition) \
	do { \
		uint64_t deadline = now_ms() + DEADLINE_MS; \
		while (!(condition)) { \
			assert_true(now_ms() < deadline); \
			turn(lab); \
		} \
	} while (0)

static void start_dataplane(struct lab *lab) {
	struct weir_port_info port = {.name = "wan", .mtu = 1500};
	struct weir_segment_params params = {.workers = 1,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.port_info = &port};
	const struct weir_handover_params where = {
		.run_dir = lab->dir, .control_user = (uid_t)-1, .group = (gid_t)-1};

	assert_int_equal(weir_segment_create(&params, &lab->created), 0);
	lab->offer.statistics_fd = lab->created->statistics_fd;
	lab->offer.tables_fd = lab->created->tables_fd;
	assert_int_equal(weir_handover_listen(&where, &lab->server), 0);
}

static void stop_dataplane(struct lab *lab) {
	weir_handover_server_free(lab->server);
	weir_segment_free(lab->created);
	lab->server = NULL;
	lab->created = NULL;
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct weir_dataplane_events events = {
		.attached = on_attached, .lost = on_lost, .refused = on_refused, .context = lab};

	strcpy(lab->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	lab->log_file = tmpfile();
	lab->log = (struct weir_log){.fd = fileno(lab->log_file), .level = WEIR_LOG_DEBUG};
	uv_loop_init(&lab->loop);
	*state = lab;
	return weir_dataplane_link_create(&lab->loop, lab->dir, &lab->log, &events, &lab->link);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_dataplane_link_free(lab->link);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	stop_dataplane(lab);
	fclose(lab->log_file);
	rmdir(lab->dir);
	free(lab);
	return 0;
}

static unsigned int lines_with(struct lab *lab, const char *text) {
	static char content[65536];
	ssize_t n = pread(fileno(lab->log_file), content, sizeof(content) - 1, 0);
	unsigned int count = 0;

	content[n > 0 ? n : 0] = '\0';
	for (const char *c = content; (c = strstr(c, text)) != NULL; c++) {
		count++;
	}
	return count;
}

TEST_EACH(setup, teardown);

TEST(link_attaches_when_the_dataplane_starts_and_detaches_when_it_ends) {
	struct lab *lab = *state;

	for (unsigned int i = 1; i <= 5; i++) {
		start_dataplane(lab);
		UNTIL(lab->attached == i);
		assert_int_equal(lab->segment->epoch, lab->created->epoch);
		stop_dataplane(lab);
		UNTIL(lab->lost == i);
	}
	assert_int_equal(lines_with(lab, "weir-dataplane closed the connection"), 5);
}

// The link watches the directory. So it finds the socket much earlier than the retry timer would.
TEST(link_finds_a_new_socket_at_once) {
	struct lab *lab = *state;
	uint64_t sum = 0;

	for (unsigned int i = 1; i <= 5; i++) {
		uint64_t began;

		start_dataplane(lab);
		began = now_ms();
		UNTIL(lab->attached == i);
		sum += now_ms() - began;
		stop_dataplane(lab);
		UNTIL(lab->lost == i);
	}
	// With the timer alone, each of the five attempts would take half the retry time on
	// average.
	assert_true(sum < 5 * WEIR_LINK_RETRY_MS / 2);
}

TEST(link_logs_once_that_it_waits) {
	struct lab *lab = *state;
	uint64_t until = now_ms() + 3 * WEIR_LINK_RETRY_MS;

	while (now_ms() < until) { // during several attempts
		turn(lab);
	}
	assert_int_equal(lines_with(lab, "waiting for weir-dataplane"), 1);
}

TEST(link_refused_segment_is_logged_once_and_retried) {
	struct lab *lab = *state;

	start_dataplane(lab);
	lab->created->header->abi++;
	UNTIL(lines_with(lab, "cannot attach") == 1);
	assert_int_equal(lab->attached, 0);
	UNTIL(lab->refused >= 2);
	assert_int_equal(lab->error, -EPROTO);
	lab->created->header->abi--;
	UNTIL(lab->attached == 1);
	assert_int_equal(lines_with(lab, "cannot attach"), 1);
}

TEST(link_owner_may_refuse) {
	struct lab *lab = *state;

	lab->refuse = -ENOSPC;
	start_dataplane(lab);
	UNTIL(lab->attached >= 2); // a second attempt
	assert_int_equal(lines_with(lab, "not today"), 1);
	assert_string_equal(weir_dataplane_link_why(lab->link), "not today");
	assert_int_equal(lab->lost, 0);
	lab->refuse = 0;
	UNTIL(lab->segment != NULL);
	assert_null(weir_dataplane_link_why(lab->link));
}

TEST(link_passes_the_vip_maps_and_closes_them) {
	struct lab *lab = *state;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), got;

	lab->offer.vip_maps = 2;
	lab->offer.vip_map_fd[0] = -1;
	lab->offer.vip_map_fd[1] = fd;
	start_dataplane(lab);
	UNTIL(lab->attached == 1);
	assert_int_equal(lab->vip_maps, 2);
	assert_int_equal(lab->vip_map_fd[0], -1);
	got = lab->vip_map_fd[1];
	assert_true(got >= 0 && got != fd);
	assert_true(fcntl(got, F_GETFD) >= 0);
	stop_dataplane(lab);
	UNTIL(lab->lost == 1);
	assert_int_equal(fcntl(got, F_GETFD), -1);
	lab->offer.vip_maps = 0;
	close(fd);
}

// A dataplane that starts first listens on its socket. It replies only seconds later, when it has
// started its ports.
TEST(link_logs_no_error_while_the_dataplane_starts) {
	struct lab *lab = *state;
	struct weir_handover_server *server;
	uint64_t began;

	UNTIL(lines_with(lab, "waiting for weir-dataplane") == 1);
	start_dataplane(lab);
	server = lab->server;
	lab->server = NULL; // the server does not reply from now on
	began = now_ms();
	UNTIL(lab->refused == 1); // an attempt without a reply
	assert_int_equal(lines_with(lab, "cannot attach"), 0);
	// A dataplane that never replies is a fault.
	UNTIL(lines_with(lab, "does not reply") == 1);
	assert_true(now_ms() - began >= WEIR_LINK_STARTING_MS);
	began = now_ms();
	UNTIL(now_ms() - began > 2500); // another attempt
	assert_int_equal(lines_with(lab, "cannot attach"), 1);
	assert_int_equal(lines_with(lab, "waiting for weir-dataplane"), 1);
	lab->server = server;
	UNTIL(lab->attached == 1);
}

// The dataplane listens, but does not answer. The loop continues, and freeing the link does not
// block.
TEST(link_does_not_block_the_loop_on_a_stalled_dataplane) {
	struct lab *lab = *state;
	struct weir_handover_server *server;
	uint64_t began;

	start_dataplane(lab);
	server = lab->server;
	lab->server = NULL; // the server does not reply from now on
	for (int i = 0; i < 300; i++) {
		began = now_ms();
		uv_run(&lab->loop, UV_RUN_NOWAIT);
		assert_true(now_ms() - began < 500);
		turn(lab);
	}
	assert_int_equal(lab->attached, 0);
	lab->server = server;
	UNTIL(lab->attached == 1);
}
