// SPDX-License-Identifier: BSD-3-Clause
//
// Writes the corpora of fuzz_agent_message and fuzz_socket_dump: "agent_seeds FOLDER" creates a
// folder for each target in FOLDER.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent_rig.h"
#include "health_state.h"

static char folder[4096];

static void save(const char *name, uint8_t form, const uint8_t *bytes, size_t count) {
	char path[8192];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "wb");
	if (file == NULL || fputc(form, file) == EOF || fwrite(bytes, 1, count, file) != count ||
		fclose(file) != 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
}

static void save_messages(const struct weir_agent_key *key, const char *name) {
	const struct weir_agent_probe probe = {.balancer = 0x1122334455667788,
		.sequence = 1,
		.agent = 9,
		.clock_ms = 1000,
		.interval_ms = 500,
		.acknowledged = 1,
		.wants = WEIR_AGENT_GIVEN | WEIR_AGENT_PORT_WORDS};
	struct weir_agent_answer answer = {.agent = 9,
		.balancer = 0x1122334455667788,
		.clock_ms = 1500,
		.serial = 1,
		.given = WEIR_AGENT_GIVEN | WEIR_AGENT_PORT_WORDS,
		.service_sum_us = 1000,
		.service_count = 10,
		.busy_sum_us = 100,
		.busy_count = 10,
		.requests_milli_per_s = 1,
		.word = WEIR_HEALTH_WORD_READY,
		.why = "fine",
		.port_word_count = 2,
		.port_words = {{80, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 1},
			{53, IPPROTO_UDP, WEIR_HEALTH_WORD_STARTING, 0}}};
	uint8_t bytes[2 * WEIR_AGENT_MESSAGE_BYTES];
	char path[64];

	weir_agent_probe_encode(&probe, key, bytes);
	weir_agent_answer_encode(&answer, key, bytes + WEIR_AGENT_MESSAGE_BYTES);
	for (uint8_t form = AGENT_RIG_FOREIGN; form <= AGENT_RIG_OWNER; form++) {
		snprintf(path, sizeof(path), "probe-%s-%u", name, form);
		save(path, form, bytes, WEIR_AGENT_MESSAGE_BYTES);
		snprintf(path, sizeof(path), "answer-%s-%u", name, form);
		save(path, form, bytes + WEIR_AGENT_MESSAGE_BYTES, WEIR_AGENT_MESSAGE_BYTES);
	}
	snprintf(path, sizeof(path), "cut-%s", name);
	save(path, AGENT_RIG_FOREIGN, bytes, WEIR_AGENT_MESSAGE_BYTES - 1);
	// The second datagram is a later answer of the same agent.
	memcpy(bytes, bytes + WEIR_AGENT_MESSAGE_BYTES, WEIR_AGENT_MESSAGE_BYTES);
	answer.clock_ms += 500;
	answer.service_sum_us += 5000;
	answer.service_count += 5;
	answer.busy_sum_us += 50;
	answer.busy_count += 5;
	weir_agent_answer_encode(&answer, key, bytes + WEIR_AGENT_MESSAGE_BYTES);
	snprintf(path, sizeof(path), "answers-%s", name);
	save(path, AGENT_RIG_OWNER, bytes, sizeof(bytes));
}

static void save_steals(const struct weir_agent_key *key, const char *name) {
	const struct weir_agent_steal steal = {.balancer = 0x1122334455667788,
		.id = 1,
		.agent = 9,
		.deadline_ms = 1700,
		.recipient_port = WEIR_AGENT_PORT,
		.client = {[10] = 0xff, [11] = 0xff, [12] = 203, [15] = 7},
		.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [15] = 10},
		.client_port = 50000,
		.vip_port = 80,
		.protocol = 6};
	struct weir_agent_steal_answer answer;
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];
	char path[64];

	for (uint8_t form = AGENT_RIG_FOREIGN; form <= AGENT_RIG_OWNER; form++) {
		weir_agent_steal_encode(&steal, key, bytes);
		snprintf(path, sizeof(path), "steal-%s-%u", name, form);
		save(path, form, bytes, sizeof(bytes));
		weir_agent_steal_answer_begin(&steal, &answer);
		answer.clock_ms = 1600;
		answer.result = WEIR_AGENT_STEAL_REMOVED;
		weir_agent_steal_answer_encode(&answer, key, bytes);
		snprintf(path, sizeof(path), "steal-answer-%s-%u", name, form);
		save(path, form, bytes, sizeof(bytes));
	}
}

static void save_tcp(const struct weir_agent_key *key, const char *name) {
	const struct weir_agent_tcp tcp = {.agent = 9,
		.balancer = 0x1122334455667788,
		.clock_ms = 1500,
		.age_ms = 70,
		.ipv4 = {.segments = 1000, .retransmitted = 3, .connections = 7},
		.ipv6 = {.rtt_median_us = 20000, .rtt_p99_us = 90000},
		.partial = 1};
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];
	char path[64];

	weir_agent_tcp_encode(&tcp, key, bytes);
	for (uint8_t form = AGENT_RIG_FOREIGN; form <= AGENT_RIG_OWNER; form++) {
		snprintf(path, sizeof(path), "tcp-%s-%u", name, form);
		save(path, form, bytes, sizeof(bytes));
	}
}

static void save_shed(const struct weir_agent_key *key, const char *name) {
	const struct weir_agent_shed shed = {.balancer = 0x1122334455667788,
		.id = 1,
		.agent = 9,
		.deadline_ms = 1700,
		.recipient_port = WEIR_AGENT_PORT,
		.count = 10,
		.rate_milli_per_s = 10000,
		.keep = 5,
		.idle_ms = 5000,
		.service = "web",
		.bind_count = 2,
		.binds = {{.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [15] = 10},
				  .port_first = 80,
				  .port_last = 80},
			{.vip = {0x20, 1, [15] = 10}, .port_last = 65535}}};
	const struct weir_agent_shed_answer answer = {.agent = 9,
		.balancer = 0x1122334455667788,
		.id = 1,
		.clock_ms = 1600,
		.connections = 20,
		.candidates = 12,
		.ended = 3,
		.method = WEIR_AGENT_SHED_HOOK,
		.result = WEIR_AGENT_SHED_ACTIVE};
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];
	char path[64];

	for (uint8_t form = AGENT_RIG_FOREIGN; form <= AGENT_RIG_OWNER; form++) {
		weir_agent_shed_encode(&shed, key, bytes);
		snprintf(path, sizeof(path), "shed-%s-%u", name, form);
		save(path, form, bytes, sizeof(bytes));
		weir_agent_shed_answer_encode(&answer, key, bytes);
		snprintf(path, sizeof(path), "shed-answer-%s-%u", name, form);
		save(path, form, bytes, sizeof(bytes));
	}
}

static void save_replays(void) {
	uint8_t bytes[3 * 200];

	for (uint32_t i = 0; i < sizeof(bytes) / 3; i++) {
		bytes[3 * i] = (uint8_t)(i % 3);
		bytes[3 * i + 1] = (uint8_t)(i / 12);
		bytes[3 * i + 2] = (uint8_t)(i % 5);
	}
	save("replays", AGENT_RIG_REPLAYS, bytes, sizeof(bytes));
	for (uint32_t i = 0; i < sizeof(bytes) / 3; i++) {
		bytes[3 * i] = (uint8_t)i; // more senders than the table has room for
	}
	save("senders", AGENT_RIG_REPLAYS, bytes, sizeof(bytes));
}

// Saves dumps with an IPv4 connection, an IPv6 connection and the end of the dump.
static void save_dumps(void) {
	struct {
		struct nlmsghdr header;
		struct inet_diag_msg message;
		struct nlattr attribute;
		struct tcp_info info;
	} socket = {
		.header = {.nlmsg_len = sizeof(socket),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_seq = 1},
		.message = {.idiag_family = AF_INET,
			.id = {.idiag_sport = htons(80),
				.idiag_dst = {htonl(0xc0000207)},
				.idiag_cookie = {7}}},
		.attribute = {sizeof(socket.attribute) + sizeof(socket.info), INET_DIAG_INFO},
		.info = {.tcpi_rtt = 20000, .tcpi_delivery_rate = 1000000},
	};
	const struct nlmsghdr done = {
		.nlmsg_len = sizeof(done), .nlmsg_type = NLMSG_DONE, .nlmsg_seq = 1};
	uint8_t bytes[2 * sizeof(socket) + sizeof(done)];
	const uint8_t blocks = (sizeof(bytes) + 15) / 16;

	memcpy(bytes, &socket, sizeof(socket));
	socket.message.idiag_family = AF_INET6;
	socket.message.id.idiag_sport = htons(443);
	socket.message.id.idiag_cookie[0]++;
	memcpy(bytes + sizeof(socket), &socket, sizeof(socket));
	memcpy(bytes + 2 * sizeof(socket), &done, sizeof(done));
	save("two", blocks, bytes, sizeof(bytes));
	save("one", blocks, bytes + sizeof(socket), sizeof(bytes) - sizeof(socket));
	save("cut", blocks, bytes, sizeof(socket) + 99);
}

static bool make_folder(const char *root, const char *name) {
	snprintf(folder, sizeof(folder), "%s%s%s", root, name[0] != '\0' ? "/" : "", name);
	if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		return false;
	}
	return true;
}

int main(int argc, char **argv) {
	if (argc != 2 || weir_agent_crypto_start() != 0) {
		fprintf(stderr, "usage: agent_seeds FOLDER\n");
		return 2;
	}
	if (!make_folder(argv[1], "") || !make_folder(argv[1], "agent_message")) {
		return 1;
	}
	save_messages(&agent_rig_keys.key[0], "first");
	save_messages(&agent_rig_keys.key[1], "second");
	save_steals(&agent_rig_keys.key[0], "first");
	save_steals(&agent_rig_keys.key[1], "second");
	save_tcp(&agent_rig_keys.key[0], "first");
	save_tcp(&agent_rig_keys.key[1], "second");
	save_shed(&agent_rig_keys.key[0], "first");
	save_shed(&agent_rig_keys.key[1], "second");
	save_replays();
	if (!make_folder(argv[1], "socket_dump")) {
		return 1;
	}
	save_dumps();
	return 0;
}
