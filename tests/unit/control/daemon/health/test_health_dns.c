// SPDX-License-Identifier: BSD-3-Clause
//
// Tests DNS probes against a server in this process. Runs in a network namespace. Needs root.
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health_dns.h"
#include "probe_lab.h"

#define TIMEOUT_MS 200
#define ADDRESS "\xc0\x0c\0\1\0\1\0\0\0\x09\0\4\xc0\0\2\x50" // a record with 192.0.2.80
#define ADDRESS_BYTES 16

// What the server sends for a query.
struct lab {
	uv_loop_t loop;
	uv_poll_t poll;
	int fd;
	uint16_t port;
	bool silent;
	unsigned int strangers; // datagrams with another ID that are sent before the answer
	bool truncated;
	uint8_t rcode;
	uint8_t records; // number of records with ADDRESS
	uint16_t id; // of the last query
	unsigned int queries, same_ids;
	struct result result;
	struct weir_config_health_check check;
};

static void reply(struct lab *lab, uint8_t *message, size_t bytes, struct sockaddr_in *to) {
	message[2] |= 0x80;
	message[2] |= lab->truncated ? 0x02 : 0;
	message[3] = lab->rcode;
	message[7] = lab->records;
	for (uint8_t i = 0; i < lab->records; i++) {
		memcpy(message + bytes, ADDRESS, ADDRESS_BYTES);
		bytes += ADDRESS_BYTES;
	}
	for (unsigned int i = 0; i < lab->strangers; i++) {
		message[0] ^= 0x80;
		message[3] = 2; // SERVFAIL
		assert_true(
			sendto(lab->fd, message, bytes, 0, (struct sockaddr *)to, sizeof(*to)) > 0);
		message[0] ^= 0x80;
		message[3] = lab->rcode;
	}
	assert_true(sendto(lab->fd, message, bytes, 0, (struct sockaddr *)to, sizeof(*to)) > 0);
}

static void on_query(uv_poll_t *poll, int status, int events) {
	struct lab *lab = poll->data;
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	uint8_t message[2048];
	ssize_t got = recvfrom(
		lab->fd, message, sizeof(message), MSG_DONTWAIT, (struct sockaddr *)&from, &length);
	uint16_t id;

	(void)status;
	(void)events;
	assert_true(got > 12);
	memcpy(&id, message, sizeof(id));
	lab->same_ids += lab->queries > 0 && id == lab->id;
	lab->id = id;
	lab->queries++;
	if (!lab->silent) {
		reply(lab, message, (size_t)got, &from);
	}
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);

	uv_loop_init(&lab->loop);
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	lab->fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(lab->fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(lab->fd, (struct sockaddr *)&name, &length), 0);
	lab->port = ntohs(name.sin_port);
	assert_int_equal(uv_poll_init(&lab->loop, &lab->poll, lab->fd), 0);
	lab->poll.data = lab;
	uv_poll_start(&lab->poll, UV_READABLE, on_query);
	lab->check = (struct weir_config_health_check){.type = WEIR_CHECK_DNS,
		.timeout_ms = TIMEOUT_MS,
		.name = "www.example",
		.record = 1};
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	uv_close((uv_handle_t *)&lab->poll, NULL);
	watch_lab_close(&lab->loop);
	close(lab->fd);
	free(lab);
	return 0;
}

static void expect_at(
	struct lab *lab, uint16_t port, enum weir_probe_outcome outcome, const char *detail) {
	struct weir_probe_params params = {.address = watch_lab_address("127.0.0.1"),
		.port = port,
		.check = &lab->check,
		.done = probe_done,
		.context = &lab->result};
	struct weir_health_datagram *dns;

	lab->result = (struct result){0};
	assert_int_equal(weir_health_dns_start(&lab->loop, &params, &dns), 0);
	watch_lab_run(&lab->loop, probe_has_result, &lab->result, 3000, "a result");
	assert_int_equal(lab->result.calls, 1);
	assert_string_equal(lab->result.detail, detail);
	assert_int_equal(lab->result.outcome, outcome);
}

static void expect(struct lab *lab, enum weir_probe_outcome outcome, const char *detail) {
	expect_at(lab, lab->port, outcome, detail);
}

TEST_GROUP(watch_lab_enter);
TEST_EACH(setup, teardown);

TEST(dns_response_code_decides) {
	struct lab *lab = *state;

	expect(lab, WEIR_PROBE_PASSED, "NOERROR, 0 records");
	lab->records = 1;
	expect(lab, WEIR_PROBE_PASSED, "NOERROR, 1 record");
	lab->rcode = 2;
	expect(lab, WEIR_PROBE_FAILED, "rcode SERVFAIL, expected NOERROR");
	lab->rcode = 13;
	expect(lab, WEIR_PROBE_FAILED, "rcode 13, expected NOERROR");
	lab->check.rcode = lab->rcode = 5;
	expect(lab, WEIR_PROBE_PASSED, "REFUSED, 1 record");
}

TEST(dns_address_must_be_in_the_answer) {
	struct lab *lab = *state;

	lab->check.address = watch_lab_address("192.0.2.80");
	lab->records = 2;
	expect(lab, WEIR_PROBE_PASSED, "NOERROR, 2 records");
	lab->check.address = watch_lab_address("192.0.2.81");
	expect(lab, WEIR_PROBE_FAILED, "NOERROR, 2 records without 192.0.2.81");
	lab->records = 0;
	expect(lab, WEIR_PROBE_FAILED, "NOERROR, 0 records without 192.0.2.81");
	lab->truncated = true;
	expect(lab, WEIR_PROBE_PASSED, "NOERROR, truncated");
}

TEST(dns_answers_of_other_queries_are_ignored) {
	struct lab *lab = *state;

	lab->strangers = 200;
	expect(lab, WEIR_PROBE_PASSED, "NOERROR, 0 records");
}

TEST(dns_silent_server_and_closed_port) {
	struct lab *lab = *state;

	lab->silent = true;
	expect(lab, WEIR_PROBE_FAILED, "no answer for 200 ms");
	expect_at(lab, 9, WEIR_PROBE_FAILED, "port unreachable");
}

TEST(dns_ids_are_random) {
	struct lab *lab = *state;

	for (int i = 0; i < 20; i++) {
		expect(lab, WEIR_PROBE_PASSED, "NOERROR, 0 records");
	}
	assert_true(lab->same_ids <= 1);
}
