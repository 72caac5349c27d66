// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the meter, its helper and the statistics of listening sockets, with real connections
// over the loopback interface of a separate network namespace. Needs root.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "listeners.h"
#include "meter_demand.h"
#include "meter_helper.h"
#include "meter_loader.h"
#include "meter_reader.h"
#include "own_network.h"
#include "privileges.h"
#include "test.h"

#define PORT 8080
#define PORT6 8081
#define STRANGE_PORT 8082

static const uint16_t ports[] = {PORT, PORT6};

struct lab {
	struct weir_meter_program *program;
	struct weir_meter *meter;
	int listener, listener6, strange;
};

struct pair {
	int client, server;
};

static int listen_at(int family, uint16_t port, int backlog) {
	struct sockaddr_in in = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(family, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_return_code(bind(fd, family == AF_INET ? (struct sockaddr *)&in : (void *)&in6,
				   family == AF_INET ? sizeof(in) : sizeof(in6)),
		errno);
	assert_return_code(listen(fd, backlog), errno);
	return fd;
}

static int dial(int listener) {
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	int fd;

	assert_return_code(getsockname(listener, (struct sockaddr *)&address, &bytes), errno);
	fd = socket(address.ss_family, SOCK_STREAM, 0);
	assert_return_code(connect(fd, (struct sockaddr *)&address, bytes), errno);
	return fd;
}

static struct pair connect_to(int listener) {
	struct pair pair = {.client = dial(listener)};

	pair.server = accept(listener, NULL, NULL);
	assert_return_code(pair.server, errno);
	return pair;
}

static void wait_for_end(int fd) {
	char byte;

	while (read(fd, &byte, 1) > 0) {
	}
}

// Closes a connection. The server closes first; the client closes after it has received the FIN.
static void finish(struct pair pair) {
	close(pair.server);
	wait_for_end(pair.client);
	close(pair.client);
}

static void reset(int fd) {
	const struct linger linger = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

static void sleep_ms(int ms) {
	const struct timespec time = {.tv_nsec = ms * 1000000L};

	nanosleep(&time, NULL);
}

static void measure(struct lab *lab, uint32_t connections) {
	const struct weir_meter_params params = {
		.ports = ports, .port_count = 2, .connections = connections};
	char why[256] = "";

	if (weir_meter_load(&params, &lab->program, why, sizeof(why))) {
		fail_msg("%s", why);
	}
	assert_int_equal(weir_meter_open(weir_meter_fd(lab->program), &lab->meter), 0);
}

static void expect(const struct lab *lab, enum weir_meter_counter counter, uint64_t expected) {
	struct weir_meter_counts counts;

	weir_meter_read(lab->meter, &counts);
	if (counts.counter[counter] != expected) {
		fail_msg("%s: %llu, expected %llu", weir_meter_counter_name(counter),
			(unsigned long long)counts.counter[counter], (unsigned long long)expected);
	}
}

static uint64_t active(const struct lab *lab) {
	struct weir_meter_counts counts;

	weir_meter_read(lab->meter, &counts);
	return weir_meter_active(&counts);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->listener = listen_at(AF_INET, PORT, 100);
	lab->listener6 = listen_at(AF_INET6, PORT6, 7);
	lab->strange = listen_at(AF_INET, STRANGE_PORT, 100);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_meter_close(lab->meter);
	weir_meter_unload(lab->program);
	close(lab->listener);
	close(lab->listener6);
	close(lab->strange);
	free(lab);
	return 0;
}

TEST_GROUP(own_network_enter);

TEST(meter_counts_each_end_by_its_kind, setup, teardown) {
	struct lab *lab = *state;
	struct pair pair;

	measure(lab, 0);
	for (int i = 0; i < 5; i++) {
		finish(connect_to(i % 2 ? lab->listener : lab->listener6));
	}
	// The client closes first. The service time ends when the server closes.
	pair = connect_to(lab->listener);
	close(pair.client);
	wait_for_end(pair.server);
	expect(lab, WEIR_METER_CLOSED, 5);
	close(pair.server);
	expect(lab, WEIR_METER_FINISHED, 6);
	expect(lab, WEIR_METER_TIMED, 6);
	for (int i = 0; i < 2; i++) {
		pair = connect_to(lab->listener);
		reset(pair.server);
		close(pair.client);
	}
	// the kernel also sends an RST if the server closes without reading the request
	pair = connect_to(lab->listener);
	assert_int_equal(write(pair.client, "x", 1), 1);
	close(pair.server);
	close(pair.client);
	expect(lab, WEIR_METER_ABORTED, 3);
	for (int i = 0; i < 4; i++) {
		pair = connect_to(lab->listener);
		reset(pair.client);
		close(pair.server);
	}
	expect(lab, WEIR_METER_RESET, 4);
	pair = connect_to(lab->listener); // the client closes its direction first
	shutdown(pair.client, SHUT_WR);
	wait_for_end(pair.server);
	reset(pair.client);
	close(pair.server);
	expect(lab, WEIR_METER_RESET, 5);
	expect(lab, WEIR_METER_OPENED, 14);
	expect(lab, WEIR_METER_CLOSED, 14);
	expect(lab, WEIR_METER_FINISHED, 6);
	expect(lab, WEIR_METER_LOST, 0);
	expect(lab, WEIR_METER_UNTRACKED, 0);
}

TEST(meter_counts_waiting_connections_as_active, setup, teardown) {
	struct lab *lab = *state;
	int waiting[3];

	measure(lab, 0);
	for (int i = 0; i < 3; i++) {
		waiting[i] = dial(lab->listener);
	}
	assert_int_equal(active(lab), 3);
	for (int i = 0; i < 3; i++) {
		finish((struct pair){waiting[i], accept(lab->listener, NULL, NULL)});
	}
	assert_int_equal(active(lab), 0);
	expect(lab, WEIR_METER_FINISHED, 3);
}

TEST(meter_ignores_other_connections, setup, teardown) {
	struct lab *lab = *state;
	int status = 0;
	pid_t child;

	measure(lab, 0);
	finish(connect_to(lab->strange));
	child = fork();
	// a socket at the same port in another namespace, which the child opens, must not be
	// counted
	if (child == 0) {
		int fd;

		if (own_network_enter(NULL)) {
			_exit(1);
		}
		fd = listen_at(AF_INET, PORT, 10);
		finish(connect_to(fd));
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	expect(lab, WEIR_METER_OPENED, 0);
	finish(connect_to(lab->listener));
	expect(lab, WEIR_METER_OPENED, 1);
}

TEST(meter_finds_open_connections, setup, teardown) {
	struct lab *lab = *state;
	struct pair before[3] = {
		connect_to(lab->listener), connect_to(lab->listener6), connect_to(lab->strange)};
	struct weir_meter_counts counts;

	measure(lab, 0);
	assert_int_equal(active(lab), 2);
	finish(before[0]);
	finish(before[1]);
	finish(before[2]);
	assert_int_equal(active(lab), 0);
	expect(lab, WEIR_METER_FINISHED, 2);
	expect(lab, WEIR_METER_TIMED, 0);
	weir_meter_read(lab->meter, &counts);
	assert_int_equal(counts.service_ns, 0);
}

// Lower and upper bound in ns of the time that the meter must have measured.
struct bounds {
	uint64_t least, most;
};

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Makes a connection that waits 10 ms for accept() and is then open for open_ms. Returns the bounds
// of the service time.
static struct bounds serve(struct lab *lab, unsigned open_ms) {
	uint64_t dialled = now_ns();
	int client = dial(lab->listener);
	uint64_t connected = now_ns();
	struct bounds times;
	int server;

	sleep_ms(10);
	server = accept(lab->listener, NULL, NULL);
	sleep_ms(open_ms);
	times.least = now_ns() - connected;
	finish((struct pair){client, server});
	times.most = now_ns() - dialled;
	return times;
}

TEST(meter_times_from_the_handshake_to_the_close, setup, teardown) {
	struct lab *lab = *state;
	struct weir_meter_times before, now;
	struct weir_meter_counts counts;
	struct bounds sum = {0};
	uint64_t longest_of_four_ns = 0;
	double median_us = -1;

	measure(lab, 0);
	weir_meter_read_times(lab->meter, &before);
	for (int i = 0; i < 5; i++) {
		struct bounds times = serve(lab, i == 4 ? 210 : 10);

		sum = (struct bounds){sum.least + times.least, sum.most + times.most};
		if (i < 4 && times.most > longest_of_four_ns) {
			longest_of_four_ns = times.most;
		}
	}
	weir_meter_read(lab->meter, &counts);
	weir_meter_read_times(lab->meter, &now);
	assert_in_range(counts.service_ns, sum.least, sum.most);
	assert_int_equal(weir_meter_median_us(&before, &now, &median_us), 5);
	// The middle of a bucket is within 3 % of each time in the bucket.
	assert_true(median_us >= 19000 && median_us < (double)longest_of_four_ns / 950);
	assert_int_equal(weir_meter_median_us(&now, &now, &median_us), 0);
}

TEST(meter_reports_too_many_open_connections, setup, teardown) {
	struct lab *lab = *state;
	struct pair pairs[6];

	measure(lab, 4);
	for (int i = 0; i < 6; i++) {
		pairs[i] = connect_to(lab->listener);
	}
	assert_int_equal(active(lab), 4);
	expect(lab, WEIR_METER_UNTRACKED, 2);
	for (int i = 0; i < 6; i++) {
		finish(pairs[i]);
	}
	assert_int_equal(active(lab), 0);
	expect(lab, WEIR_METER_CLOSED, 4);
}

TEST(meter_buckets_are_narrow_and_ordered) {
	struct weir_meter_times before = {0}, now;
	uint32_t last = 0;
	double median_us;

	for (uint64_t us = 1; us < UINT64_C(1) << 34; us += us / 50 + 1) {
		uint32_t bucket = weir_meter_bucket(us);

		assert_true(bucket >= last && bucket < WEIR_METER_BUCKETS);
		last = bucket;
		now = before;
		now.bucket[bucket] = 3;
		assert_int_equal(weir_meter_median_us(&before, &now, &median_us), 3);
		if (median_us < (double)us * 31 / 32 - 1 || median_us > (double)us * 33 / 32 + 1) {
			fail_msg("%llu us: median %f", (unsigned long long)us, median_us);
		}
	}
	assert_int_equal(last, WEIR_METER_BUCKETS - 1);
	assert_int_equal(weir_meter_bucket(UINT64_MAX), WEIR_METER_BUCKETS - 1);
}

// The median is at the edge of its bucket.
TEST(meter_median_is_within_3_percent_of_uneven_times) {
	struct weir_meter_times before = {0}, now = {0};
	double median_us;

	now.bucket[weir_meter_bucket(10)] = 49;
	now.bucket[weir_meter_bucket(1087)] = 51;
	assert_int_equal(weir_meter_median_us(&before, &now, &median_us), 100);
	assert_true(median_us > 1087 * 0.97 && median_us < 1087 * 1.03);
}

static struct weir_meter_answer answer_of(int helper) {
	struct weir_meter_answer answer;
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < 1000; i++) {
		r = weir_meter_helper_answer(helper, &answer);
		sleep_ms(5);
	}
	assert_int_equal(r, 0);
	return answer;
}

// The helper loads the meter, and a process without capabilities reads the meter, as in weir-agent.
static void read_as_nobody(const struct weir_meter_params *params) {
	struct weir_run_as nobody = {.uid = 65534, .gid = 65534, .change = true};
	struct lab lab = {.listener = listen_at(AF_INET, PORT, 10)};
	struct weir_meter_answer answer;
	int helper;

	assert_int_equal(weir_meter_helper_start(params, &helper), 0);
	assert_int_equal(weir_privileges_drop(&nobody), 0);
	assert_int_equal(setuid(0), -1);
	assert_int_equal(weir_meter_helper_send(helper, true), 0);
	answer = answer_of(helper);
	if (answer.error != 0 || !answer.loaded) {
		fail_msg("%s", answer.why);
	}
	assert_int_equal(weir_meter_open(answer.fd, &lab.meter), 0);
	close(answer.fd);
	finish(connect_to(lab.listener));
	expect(&lab, WEIR_METER_FINISHED, 1);
	assert_int_equal(weir_meter_helper_send(helper, false), 0);
	answer = answer_of(helper);
	assert_int_equal(answer.fd, -1);
	assert_false(answer.loaded);
	finish(connect_to(lab.listener));
	expect(&lab, WEIR_METER_FINISHED, 1); // must not change, because the meter is unloaded
	close(helper);
	assert_true(wait(NULL) > 0); // the helper exits when its connection is closed
}

TEST(meter_helper_loads_for_a_process_without_privileges) {
	const struct weir_meter_params params = {.ports = ports, .port_count = 2};
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		read_as_nobody(&params);
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

// Sets whether the meter is wanted, and waits for the helper's answer. No descriptor is free for it
// if `full`.
static void demand_set(
	struct weir_meter_demand *demand, uv_loop_t *loop, uint64_t now_ms, bool full) {
	struct rlimit before, limit;
	int next = dup(0);

	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = full ? (rlim_t)next : before.rlim_cur;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	weir_meter_demand_set(demand, WEIR_REPORT(ACTIVE), now_ms);
	while (demand->pending) {
		uv_run(loop, UV_RUN_ONCE);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(meter_is_loaded_once_descriptors_are_free) {
	const struct weir_meter_params params = {.ports = ports, .port_count = 2};
	struct weir_log log = {.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR};
	struct weir_load load = {0};
	struct weir_meter_demand demand;
	uv_loop_t loop;
	int helper;

	uv_loop_init(&loop);
	assert_int_equal(weir_meter_helper_start(&params, &helper), 0);
	assert_int_equal(weir_meter_demand_start(&loop, &log, &load, helper, &demand), 0);
	demand_set(&demand, &loop, uv_now(&loop), true);
	assert_null(demand.reader);
	demand_set(&demand, &loop, uv_now(&loop), false);
	assert_null(demand.reader); // it is too early to try again
	demand_set(&demand, &loop, uv_now(&loop) + 60000, false);
	assert_non_null(demand.reader);
	weir_meter_demand_stop(&demand);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	close(helper);
	assert_true(wait(NULL) > 0);
}

TEST(listeners_show_the_fullest_queue, setup, teardown) {
	struct lab *lab = *state;
	struct weir_listeners_queue queue;
	int fd = weir_socket_diag_open(), waiting[4];
	uint16_t nobody = 9;

	assert_return_code(fd, errno);
	assert_int_equal(weir_listeners_queue(fd, ports, 2, &queue), 0);
	assert_int_equal(queue.sockets, 2);
	assert_int_equal(queue.length, 0);
	// The result is the fullest queue, with 3 of 7 connections. The other queue has 1 of 100.
	for (int i = 0; i < 4; i++) {
		waiting[i] = dial(i < 3 ? lab->listener6 : lab->listener);
	}
	assert_int_equal(weir_listeners_queue(fd, ports, 2, &queue), 0);
	assert_int_equal(queue.length, 3);
	assert_int_equal(queue.limit, 7);
	assert_int_equal(weir_listeners_queue(fd, ports, 1, &queue), 0);
	assert_int_equal(queue.sockets, 1);
	assert_int_equal(queue.length, 1);
	assert_int_equal(queue.limit, 100);
	assert_int_equal(weir_listeners_queue(fd, &nobody, 1, &queue), 0);
	assert_int_equal(queue.sockets, 0);
	for (int i = 0; i < 4; i++) {
		close(waiting[i]);
	}
	close(fd);
}

static uint32_t connections(int fd) {
	struct weir_listeners_connections connections;

	assert_int_equal(weir_listeners_connections(fd, ports, 2, &connections), 0);
	assert_int_equal(connections.half_open, 0);
	return connections.open;
}

TEST(listeners_count_open_connections, setup, teardown) {
	struct lab *lab = *state;
	int fd = weir_socket_diag_open(), waiting;
	struct pair pair, strange;

	pair = connect_to(lab->listener);
	strange = connect_to(lab->strange);
	waiting = dial(lab->listener6);
	assert_int_equal(connections(fd), 2);
	shutdown(pair.client, SHUT_WR);
	wait_for_end(pair.server);
	// the client has closed only its direction, so the connection is still counted
	assert_int_equal(connections(fd), 2);
	finish(pair);
	assert_int_equal(connections(fd), 1);
	finish((struct pair){waiting, accept(lab->listener6, NULL, NULL)});
	assert_int_equal(connections(fd), 0);
	finish(strange);
	close(fd);
}

// With TCP_DEFER_ACCEPT, a connection stays half-open until data arrives.
TEST(listeners_distinguish_half_open_connections, setup, teardown) {
	struct lab *lab = *state;
	struct weir_listeners_connections connections;
	int fd = weir_socket_diag_open(), waiting, seconds = 30;

	assert_int_equal(
		setsockopt(lab->listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)),
		0);
	waiting = dial(lab->listener);
	assert_int_equal(weir_listeners_connections(fd, ports, 2, &connections), 0);
	assert_int_equal(connections.half_open, 1);
	assert_int_equal(connections.open, 0);
	assert_int_equal(write(waiting, "x", 1), 1);
	assert_int_equal(weir_listeners_connections(fd, ports, 2, &connections), 0);
	assert_int_equal(connections.half_open, 0);
	assert_int_equal(connections.open, 1);
	finish((struct pair){waiting, accept(lab->listener, NULL, NULL)});
	seconds = 0;
	setsockopt(lab->listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
	close(fd);
}
