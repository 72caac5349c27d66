// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the port watch when the process has no free descriptors, in a separate network
// namespace.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meter_helper.h"
#include "own_network.h"
#include "port_watch.h"
#include "saved_state.h"
#include "test.h"

#define PORT 8080

static const uint16_t ports[] = {PORT};

TEST_GROUP(own_network_enter);

// Limit the process to `more` descriptors in addition to the open descriptors. Returns the previous
// limit.
static rlim_t permit(rlim_t more) {
	struct rlimit limit;
	rlim_t before;
	int next = fcntl(STDERR_FILENO, F_DUPFD, 0);

	assert_return_code(next, errno);
	close(next);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), errno);
	before = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)next + more;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
	return before;
}

static void restore(rlim_t before) {
	struct rlimit limit;

	assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), errno);
	limit.rlim_cur = before;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
}

static int listen_at(uint16_t port) {
	const struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_return_code(bind(fd, (const struct sockaddr *)&at, sizeof(at)), errno);
	assert_return_code(listen(fd, 10), errno);
	return fd;
}

static void on_changed(void *context) {
	(void)context;
}

TEST(port_watch_that_cannot_list_sockets_tries_again) {
	struct weir_log log = {.fd = -1};
	const struct weir_port_watch_params params = {.log = &log,
		.tcp_ports = ports,
		.tcp_count = 1,
		.helper = -1,
		.saved = -1,
		.changed = on_changed};
	struct weir_port_watch watch;
	int server = listen_at(PORT);
	rlim_t before;
	uv_loop_t loop;

	assert_int_equal(uv_loop_init(&loop), 0);
	before = permit(0);
	assert_int_equal(weir_port_watch_start(&loop, &params, &watch), 0);
	assert_int_equal(watch.ports.port[0].state, WEIR_PORT_UNKNOWN);
	assert_string_not_equal(watch.blind[0], "");
	restore(before);
	while (watch.ports.port[0].state == WEIR_PORT_UNKNOWN) {
		uv_run(&loop, UV_RUN_ONCE);
	}
	assert_int_equal(watch.ports.port[0].state, WEIR_PORT_OPEN);
	assert_string_equal(watch.blind[0], "");
	weir_port_watch_stop(&watch);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(server);
}

// The grace time of a port can end while the sockets cannot be listed.
TEST(port_watch_that_cannot_list_sockets_keeps_its_period) {
	struct weir_log log = {.fd = -1};
	const struct weir_port_watch_params params = {.log = &log,
		.tcp_ports = ports,
		.tcp_count = 1,
		.grace_ms = 50,
		.helper = -1,
		.saved = -1,
		.changed = on_changed};
	struct weir_port_watch watch;
	int server = listen_at(PORT);
	uint64_t start_ms;
	uv_loop_t loop;
	rlim_t before;

	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(weir_port_watch_start(&loop, &params, &watch), 0);
	close(server);
	while (watch.ports.port[0].listeners > 0) {
		uv_run(&loop, UV_RUN_ONCE);
	}
	close(watch.listeners);
	watch.listeners = -1;
	watch.repeats = 3; // no repetitions after an event
	before = permit(0);
	start_ms = uv_now(&loop);
	while (uv_now(&loop) - start_ms < 500) {
		uv_run(&loop, UV_RUN_ONCE);
	}
	restore(before);
	assert_in_range(watch.repeats, 3, 20); // one turn in 100 ms
	weir_port_watch_stop(&watch);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

// The watch needs two descriptors: the ring, and the link of the attached program. If the process
// can receive only one, the kernel passes only the ring, and no events would arrive.
TEST(port_watch_needs_both_descriptors_of_its_helper) {
	const struct weir_meter_params params = {.ports = ports, .port_count = 1};
	struct weir_listen_program program;
	char why[192] = "";
	int helper, next;

	assert_int_equal(weir_meter_helper_start(&params, &helper), 0);
	for (rlim_t more = 0; more < 2; more++) {
		rlim_t before = permit(more);

		assert_int_equal(
			weir_meter_helper_watch(helper, 5000, &program, why, sizeof(why)), -EMFILE);
		restore(before);
		next = fcntl(STDERR_FILENO, F_DUPFD, 0);
		assert_int_equal(next, helper + 1); // no descriptor is left open
		close(next);
	}
	assert_int_equal(weir_meter_helper_watch(helper, 5000, &program, why, sizeof(why)), 0);
	weir_listen_unload(&program);
	close(helper);
}

// Check the announced states of the ports 8080/tcp (index 0), 8081/tcp and 53/udp.
static void expect_words(const struct weir_port_watch *watch, enum weir_health_word first,
	enum weir_health_word second, enum weir_health_word third) {
	const enum weir_health_word words[] = {first, second, third};

	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(watch->ports.port[i].word, words[i]);
	}
}

static void end_watch(struct weir_port_watch *watch, uv_loop_t *loop) {
	weir_port_watch_stop(watch);
	uv_run(loop, UV_RUN_DEFAULT);
}

TEST(port_watch_saves_the_words_of_applications) {
	static const uint16_t tcp[] = {PORT, PORT + 1}, udp[] = {53};
	struct weir_log log = {.fd = -1};
	char folder[] = "/tmp/weir-port-watch-XXXXXX", text[WEIR_SAVED_PORTS_BYTES], path[64];
	struct weir_port_watch_params params = {.log = &log,
		.tcp_ports = tcp,
		.tcp_count = 2,
		.udp_ports = udp,
		.udp_count = 1,
		.helper = -1,
		.changed = on_changed};
	struct weir_port_watch watch;
	uv_loop_t loop;
	int server = listen_at(PORT);

	assert_non_null(mkdtemp(folder));
	assert_int_equal(uv_loop_init(&loop), 0);
	params.saved = weir_saved_state_open(folder, &log);
	assert_true(params.saved >= 0);
	assert_int_equal(weir_port_watch_start(&loop, &params, &watch), 0);
	assert_true(
		weir_port_watch_set_word(&watch, PORT, IPPROTO_TCP, WEIR_HEALTH_WORD_LAME_DUCK));
	assert_true(weir_port_watch_set_word(&watch, 53, IPPROTO_UDP, WEIR_HEALTH_WORD_DOWN));
	end_watch(&watch, &loop);
	weir_saved_state_read_ports(params.saved, text);
	assert_string_equal(text, "8080/tcp=3 -53/udp=4 ");
	assert_int_equal(weir_port_watch_start(&loop, &params, &watch), 0);
	expect_words(
		&watch, WEIR_HEALTH_WORD_LAME_DUCK, WEIR_HEALTH_WORD_NONE, WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(watch.ports.port[0].state, WEIR_PORT_OPEN);
	assert_int_equal(watch.ports.port[2].state, WEIR_PORT_UNKNOWN);
	assert_false(weir_port_watch_set_word(&watch, 53, IPPROTO_UDP, WEIR_HEALTH_WORD_DOWN));
	assert_true(weir_port_watch_set_word(&watch, PORT, IPPROTO_TCP, WEIR_HEALTH_WORD_READY));
	end_watch(&watch, &loop);
	weir_saved_state_write_ports(
		params.saved, (const char[WEIR_SAVED_PORTS_BYTES]){
				      "8080/tcp=9 8081/tcp=11 -99999/udp=4 -53/udp= "});
	assert_int_equal(weir_port_watch_start(&loop, &params, &watch), 0);
	// The state of 8081 is "11"; only the first digit is read.
	expect_words(
		&watch, WEIR_HEALTH_WORD_NONE, WEIR_HEALTH_WORD_STARTING, WEIR_HEALTH_WORD_NONE);
	end_watch(&watch, &loop);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(params.saved);
	close(server);
	snprintf(path, sizeof(path), "%s/" WEIR_SAVED_STATE, folder);
	assert_return_code(unlink(path), errno);
	assert_return_code(rmdir(folder), errno);
}
