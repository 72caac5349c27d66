// SPDX-License-Identifier: BSD-3-Clause
//
// Writes the corpus of fuzz_agent_message: agent_seeds FOLDER, in which it creates a folder.
#include <errno.h>
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
		.heard = 1,
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
	// A later answer after an earlier one.
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

int main(int argc, char **argv) {
	if (argc != 2 || weir_agent_crypto_start() != 0) {
		fprintf(stderr, "usage: agent_seeds FOLDER\n");
		return 2;
	}
	snprintf(folder, sizeof(folder), "%s", argv[1]);
	if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		return 1;
	}
	snprintf(folder, sizeof(folder), "%s/agent_message", argv[1]);
	if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		return 1;
	}
	save_messages(&agent_rig_keys.key[0], "first");
	save_messages(&agent_rig_keys.key[1], "second");
	save_steals(&agent_rig_keys.key[0], "first");
	save_steals(&agent_rig_keys.key[1], "second");
	save_tcp(&agent_rig_keys.key[0], "first");
	save_tcp(&agent_rig_keys.key[1], "second");
	save_replays();
	return 0;
}
