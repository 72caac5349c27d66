// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weir_agents with hundreds of agents, and after pauses of the event loop. Each agent has its
// own address. All agents share one socket. Needs root.
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents.h"
#include "health_state.h"
#include "watch_lab.h"

#define MANY 800u
#define INTERVAL_MS 800u
#define PAUSE_MS (2 * INTERVAL_MS) // after this pause, probes to all agents are due
#define DEAD 50u
#define BUFFER_BYTES 60000 // buffer for about 150 answers

struct lab {
	uv_loop_t loop;
	struct weir_agents *agents;
	struct weir_agent_keys keys;
	int fd; // socket of all agents
	uint16_t port;
	unsigned int answered, silent, unknown;
};

static void on_report(void *context, uint16_t backend, const struct weir_report *report) {
	(void)context;
	(void)backend;
	(void)report;
}

static void on_probed(void *context, uint16_t backend, enum weir_agents_outcome outcome,
	const char *detail, uint32_t duration_ms) {
	struct lab *lab = context;

	(void)backend;
	(void)detail;
	(void)duration_ms;
	lab->answered += outcome == WEIR_AGENTS_ANSWERED;
	lab->silent += outcome == WEIR_AGENTS_SILENT;
	lab->unknown += outcome == WEIR_AGENTS_UNKNOWN;
}

static void on_gone(void *context, uint16_t backend) {
	(void)context;
	(void)backend;
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct weir_agents_events events = {
		.report = on_report, .probed = on_probed, .lost = on_gone, .context = lab};
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);
	int bytes = 4 << 20, on = 1;

	assert_non_null(lab);
	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_agents_create(&lab->loop, &events, &lab->agents), 0);
	lab->keys = (struct weir_agent_keys){.count = 1, .key = {{.id = 7}}};
	weir_agents_set_keys(lab->agents, &lab->keys);
	lab->fd = socket(AF_INET, SOCK_DGRAM, 0);
	setsockopt(lab->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	assert_int_equal(setsockopt(lab->fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)), 0);
	assert_int_equal(bind(lab->fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(lab->fd, (struct sockaddr *)&name, &length), 0);
	lab->port = ntohs(name.sin_port);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_agents_free(lab->agents);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	close(lab->fd);
	free(lab);
	return 0;
}

static void configure(struct lab *lab) {
	struct weir_agents_target targets[MANY];

	for (uint16_t i = 0; i < MANY; i++) {
		targets[i] = (struct weir_agents_target){.backend = i,
			.port = lab->port,
			.address = {.bytes = {127, 0, (uint8_t)(i >> 7), (uint8_t)((i & 127) + 1)},
				.family = 4},
			.interval_ms = INTERVAL_MS,
			.inactive_interval_ms = INTERVAL_MS,
			.timeout_ms = INTERVAL_MS / 8,
			.settled = 4};
	}
	assert_int_equal(weir_agents_configure(lab->agents, targets, MANY), 0);
}

static void on_end(uv_timer_t *timer) {
	bool *over = timer->data;

	*over = true;
}

static void run_ms(struct lab *lab, uint64_t ms) {
	bool over = false;
	uv_timer_t timer;

	uv_timer_init(&lab->loop, &timer);
	timer.data = &over;
	uv_update_time(&lab->loop);
	uv_timer_start(&timer, on_end, ms, 0);
	while (!over) {
		uv_run(&lab->loop, UV_RUN_ONCE);
	}
	over = false;
	uv_close((uv_handle_t *)&timer, (uv_close_cb)on_end);
	while (!over) {
		uv_run(&lab->loop, UV_RUN_NOWAIT);
	}
}

// Counts the probes of each quarter of an interval.
static void count_probes(struct lab *lab, unsigned int *quarters, uint64_t began_ms) {
	char byte;

	while (recv(lab->fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) > 0) {
		uint64_t at = (uv_hrtime() / 1000000 - began_ms) * 4 / INTERVAL_MS;

		quarters[at < 4 ? at : 3]++;
	}
}

TEST_EACH(setup, teardown);

TEST(pause_does_not_bunch_the_probes) {
	struct lab *lab = *state;
	unsigned int missed[4] = {0}, quarters[4] = {0};
	uint64_t began_ms;

	configure(lab);
	run_ms(lab, 2 * INTERVAL_MS);
	uv_sleep(PAUSE_MS);
	run_ms(lab, INTERVAL_MS / 4); // all missed probes are sent
	count_probes(lab, missed, 0);
	began_ms = uv_hrtime() / 1000000;
	while (uv_hrtime() / 1000000 < began_ms + INTERVAL_MS) {
		run_ms(lab, 2);
		count_probes(lab, quarters, began_ms);
	}
	for (int i = 0; i < 4; i++) {
		assert_in_range(quarters[i], 1, MANY / 2);
	}
}

// --- with answers -------------------------------------------------------------------------

static struct lab *answering; // lab whose agents answer probes at once; NULL = none

// Answer one probe from its destination address. Returns false if no probe has arrived.
static bool answer_one(const struct lab *lab) {
	struct weir_agent_answer answer = {
		.agent = 0xa1, .serial = 1, .word = WEIR_HEALTH_WORD_READY};
	struct weir_agent_probe probe;
	struct sockaddr_in from;
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))];
	struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr message = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct in_pktinfo *info;

	if (recvmsg(lab->fd, &message, MSG_DONTWAIT) < 0 || CMSG_FIRSTHDR(&message) == NULL) {
		return false;
	}
	info = (struct in_pktinfo *)(void *)CMSG_DATA(CMSG_FIRSTHDR(&message));
	info->ipi_ifindex = 0;
	info->ipi_spec_dst = info->ipi_addr;
	if (weir_agent_probe_decode(bytes, sizeof(bytes), &lab->keys, &probe) ==
		WEIR_AGENT_REFUSAL_NONE) {
		answer.clock_ms = probe.clock_ms + 1;
		answer.balancer = probe.balancer;
		memcpy(answer.challenge, probe.challenge, sizeof(answer.challenge));
		weir_agent_answer_encode(&answer, &lab->keys.key[0], bytes);
		sendmsg(lab->fd, &message, 0);
	}
	return true;
}

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags);

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags) {
	int sent = __real_sendmmsg(fd, messages, n, flags);

	while (answering != NULL && answer_one(answering)) {
	}
	return sent;
}

// Find the socket of weir-control: the only datagram socket other than the agents' socket.
static int own_socket(const struct lab *lab) {
	for (int fd = 3; fd < 64; fd++) {
		int type = 0;
		socklen_t length = sizeof(type);

		if (fd != lab->fd && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
			type == SOCK_DGRAM) {
			return fd;
		}
	}
	fail_msg("it has no socket");
	return -1;
}

// After the pause, probes to all agents are due. The answers arrive together, and must fit into the
// buffer of the socket.
TEST(answers_after_a_pause_fit_into_the_buffer) {
	struct lab *lab = *state;
	int bytes = BUFFER_BYTES;

	configure(lab);
	assert_int_equal(
		setsockopt(own_socket(lab), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	answering = lab;
	run_ms(lab, 3 * INTERVAL_MS);
	uv_sleep(PAUSE_MS);
	lab->answered = lab->silent = 0;
	run_ms(lab, 3 * INTERVAL_MS / 2);
	answering = NULL;
	assert_true(lab->answered >= MANY);
	assert_int_equal(lab->silent, 0);
}

// --- dead hosts ---------------------------------------------------------------------------

static int setup_dead(void **state) {
	if (watch_lab_enter(state) < 0) {
		return -1;
	}
	SHELL("ip link add dead type veth peer name grave && ip link set dead up &&"
	      "ip link set grave up && ip addr add 10.2.0.1/24 dev dead");
	return setup(state);
}

// While the link-layer address of a host is unknown, the kernel keeps the probes to it, which count
// as data that the socket has not sent yet.
TEST(probes_are_sent_although_other_hosts_are_dead, setup_dead, teardown) {
	struct weir_agents_target targets[DEAD + 1];
	struct lab *lab = *state;

	for (uint16_t i = 0; i <= DEAD; i++) {
		targets[i] = (struct weir_agents_target){.backend = i,
			.port = lab->port,
			.address = {.bytes = {10, 2, 0, (uint8_t)(i + 2)}, .family = 4},
			.interval_ms = 20,
			.inactive_interval_ms = 20,
			.timeout_ms = 20,
			.settled = 4};
	}
	targets[DEAD].address = watch_lab_address("127.0.0.1");
	assert_int_equal(weir_agents_configure(lab->agents, targets, DEAD + 1), 0);
	answering = lab;
	run_ms(lab, 1000);
	answering = NULL;
	assert_int_equal(lab->unknown, 0);
	assert_true(lab->answered > 10);
}

// --- without IPv6 -------------------------------------------------------------------------

static bool without_ipv6; // simulates a kernel built or started without IPv6

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol) {
	if (without_ipv6 && domain == AF_INET6) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	return __real_socket(domain, type, protocol);
}

TEST(ipv6_agent_without_ipv6_does_not_affect_others) {
	struct weir_agents_target targets[2] = {
		{.backend = 0, .address = {.bytes = {127, 0, 0, 1}, .family = 4}},
		{.backend = 1, .address = {.bytes = {[15] = 1}, .family = 6}}};
	struct lab *lab = *state;
	unsigned int quarters[4] = {0};

	for (int i = 0; i < 2; i++) {
		targets[i].port = lab->port;
		targets[i].interval_ms = targets[i].inactive_interval_ms = INTERVAL_MS / 8;
		targets[i].timeout_ms = INTERVAL_MS / 16;
		targets[i].settled = 4;
	}
	without_ipv6 = true;
	assert_int_equal(weir_agents_configure(lab->agents, targets, 2), 0);
	run_ms(lab, INTERVAL_MS);
	without_ipv6 = false;
	count_probes(lab, quarters, uv_hrtime() / 1000000);
	assert_true(quarters[0] > 0);
	assert_true(lab->unknown > 0); // the IPv6 agent has no state
}
