// SPDX-License-Identifier: BSD-3-Clause
//
// The link on a loop of the test's, against the real handover server.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dataplane_link.h"

#define DEADLINE_MS 10000

struct fixture {
	char dir[32];
	uv_loop_t loop;
	struct weir_log log;
	FILE *log_file;
	struct weir_dataplane_link *link;
	struct weir_handover_server *server;
	struct weir_handover offer;
	struct weir_segment *created; // the dataplane's
	struct weir_segment *segment; // as attached; NULL = not attached
	unsigned int attached, lost;
	uint32_t vip_maps;
	int vip_map_fd[WEIR_PORTS_MAX];
	int refuse; // what attached is to return
};

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int on_attached(void *context, struct weir_segment *segment,
	const struct weir_handover *handover, char *why, size_t why_bytes) {
	struct fixture *fixture = context;

	fixture->attached++;
	if (fixture->refuse < 0) {
		snprintf(why, why_bytes, "not today");
		return fixture->refuse;
	}
	assert_null(fixture->segment);
	fixture->segment = segment;
	fixture->vip_maps = handover->vip_maps;
	memcpy(fixture->vip_map_fd, handover->vip_map_fd, sizeof(fixture->vip_map_fd));
	return 0;
}

static void on_lost(void *context) {
	struct fixture *fixture = context;

	assert_non_null(fixture->segment);
	assert_int_equal(fixture->segment->header->magic, WEIR_SEGMENT_MAGIC); // still mapped
	fixture->segment = NULL;
	fixture->lost++;
}

// Both sides take their turns until a condition holds.
static void turn(struct fixture *fixture) {
	struct timespec pause = {.tv_nsec = 1000000};

	if (fixture->server != NULL) {
		weir_handover_serve(fixture->server, &fixture->offer);
	}
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	nanosleep(&pause, NULL);
}

#define UNTIL(condition) \
	do { \
		uint64_t deadline = now_ms() + DEADLINE_MS; \
		while (!(condition)) { \
			assert_true(now_ms() < deadline); \
			turn(fixture); \
		} \
	} while (0)

static void start_dataplane(struct fixture *fixture) {
	struct weir_port_info port = {.name = "wan", .mtu = 1500};
	struct weir_segment_params params = {.workers = 1,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.port_info = &port};

	assert_int_equal(weir_segment_create(&params, &fixture->created), 0);
	fixture->offer.segment_fd = fixture->created->fd;
	assert_int_equal(weir_handover_listen(fixture->dir, (gid_t)-1, &fixture->server), 0);
}

static void stop_dataplane(struct fixture *fixture) {
	weir_handover_server_free(fixture->server);
	weir_segment_free(fixture->created);
	fixture->server = NULL;
	fixture->created = NULL;
}

static int set_up(void **state) {
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct weir_dataplane_events events = {
		.attached = on_attached, .lost = on_lost, .context = fixture};

	strcpy(fixture->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(fixture->dir));
	fixture->log_file = tmpfile();
	fixture->log = (struct weir_log){.fd = fileno(fixture->log_file), .level = WEIR_LOG_DEBUG};
	uv_loop_init(&fixture->loop);
	*state = fixture;
	return weir_dataplane_link_create(
		&fixture->loop, fixture->dir, &fixture->log, &events, &fixture->link);
}

static int tear_down(void **state) {
	struct fixture *fixture = *state;

	weir_dataplane_link_free(fixture->link);
	uv_run(&fixture->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fixture->loop), 0);
	stop_dataplane(fixture);
	fclose(fixture->log_file);
	rmdir(fixture->dir);
	free(fixture);
	return 0;
}

static unsigned int lines_with(struct fixture *fixture, const char *text) {
	static char content[65536];
	ssize_t n = pread(fileno(fixture->log_file), content, sizeof(content) - 1, 0);
	unsigned int count = 0;

	content[n > 0 ? n : 0] = '\0';
	for (const char *c = content; (c = strstr(c, text)) != NULL; c++) {
		count++;
	}
	return count;
}

static void link_attaches_when_the_dataplane_comes_and_lets_go_when_it_ends(void **state) {
	struct fixture *fixture = *state;

	for (unsigned int i = 1; i <= 5; i++) {
		start_dataplane(fixture);
		UNTIL(fixture->attached == i);
		assert_int_equal(fixture->segment->epoch, fixture->created->epoch);
		stop_dataplane(fixture);
		UNTIL(fixture->lost == i);
	}
	assert_int_equal(lines_with(fixture, "lost weir-dataplane"), 5);
}

// Much sooner than the retry timer alone could: the directory is watched.
static void link_finds_a_new_socket_at_once(void **state) {
	struct fixture *fixture = *state;
	uint64_t sum = 0;

	for (unsigned int i = 1; i <= 5; i++) {
		uint64_t began;

		start_dataplane(fixture);
		began = now_ms();
		UNTIL(fixture->attached == i);
		sum += now_ms() - began;
		stop_dataplane(fixture);
		UNTIL(fixture->lost == i);
	}
	// Half the retry time is what chance would give; together five are well below.
	assert_true(sum < 5 * WEIR_LINK_RETRY_MS / 2);
}

static void link_says_once_that_it_waits(void **state) {
	struct fixture *fixture = *state;
	uint64_t until = now_ms() + 3 * WEIR_LINK_RETRY_MS;

	while (now_ms() < until) { // several tries
		turn(fixture);
	}
	assert_int_equal(lines_with(fixture, "waiting for weir-dataplane"), 1);
}

static void link_refused_segment_is_said_once_and_tried_again(void **state) {
	struct fixture *fixture = *state;

	start_dataplane(fixture);
	fixture->created->header->abi++;
	UNTIL(lines_with(fixture, "cannot attach") == 1);
	assert_int_equal(fixture->attached, 0);
	fixture->created->header->abi--;
	UNTIL(fixture->attached == 1);
	assert_int_equal(lines_with(fixture, "cannot attach"), 1);
}

static void link_owner_may_refuse(void **state) {
	struct fixture *fixture = *state;

	fixture->refuse = -ENOSPC;
	start_dataplane(fixture);
	UNTIL(fixture->attached >= 2); // tried again
	assert_int_equal(lines_with(fixture, "not today"), 1);
	assert_int_equal(fixture->lost, 0);
	fixture->refuse = 0;
	UNTIL(fixture->segment != NULL);
}

static void link_hands_the_vip_maps_over_and_closes_them(void **state) {
	struct fixture *fixture = *state;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), got;

	fixture->offer.vip_maps = 2;
	fixture->offer.vip_map_fd[0] = -1;
	fixture->offer.vip_map_fd[1] = fd;
	start_dataplane(fixture);
	UNTIL(fixture->attached == 1);
	assert_int_equal(fixture->vip_maps, 2);
	assert_int_equal(fixture->vip_map_fd[0], -1);
	got = fixture->vip_map_fd[1];
	assert_true(got >= 0 && got != fd);
	assert_true(fcntl(got, F_GETFD) >= 0);
	stop_dataplane(fixture);
	UNTIL(fixture->lost == 1);
	assert_int_equal(fcntl(got, F_GETFD), -1);
	fixture->offer.vip_maps = 0;
	close(fd);
}

// A dataplane that listens but does not serve: the loop goes on, and so do we when freed.
static void link_does_not_block_the_loop_on_a_hanging_dataplane(void **state) {
	struct fixture *fixture = *state;
	struct weir_handover_server *server;
	uint64_t began;

	start_dataplane(fixture);
	server = fixture->server;
	fixture->server = NULL; // not served from here on
	for (int i = 0; i < 300; i++) {
		began = now_ms();
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		assert_true(now_ms() - began < 500);
		turn(fixture);
	}
	assert_int_equal(fixture->attached, 0);
	fixture->server = server;
	UNTIL(fixture->attached == 1);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(link_attaches_when_the_dataplane_comes_and_lets_go_when_it_ends),
		T(link_finds_a_new_socket_at_once),
		T(link_says_once_that_it_waits),
		T(link_refused_segment_is_said_once_and_tried_again),
		T(link_owner_may_refuse),
		T(link_hands_the_vip_maps_over_and_closes_them),
		T(link_does_not_block_the_loop_on_a_hanging_dataplane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
