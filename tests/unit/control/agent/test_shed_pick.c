// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which connections a shed may end, according to the kernel's socket data.
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "shed_pick.h"
#include "test.h"

#define IDLE_MS 5000

static const struct weir_agent_shed_bind binds[] = {
	{.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = 10},
		.port_first = 80,
		.port_last = 80},
	{.vip = {0x20, 1, 0x0d, 0xb8, [15] = 10}, .port_first = 8000, .port_last = 8100},
};

static struct inet_diag_msg connection(uint32_t cookie) {
	struct inet_diag_msg message = {.idiag_family = AF_INET,
		.idiag_state = 1,
		.id = {.idiag_sport = htons(80),
			.idiag_dport = htons(51034),
			.idiag_cookie = {cookie, 1}}};

	inet_pton(AF_INET, "198.51.100.10", message.id.idiag_src);
	inet_pton(AF_INET, "203.0.113.7", message.id.idiag_dst);
	return message;
}

static struct tcp_info idle_for(uint32_t ms) {
	return (struct tcp_info){.tcpi_last_data_sent = ms, .tcpi_last_data_recv = ms + 7};
}

static void take(
	struct weir_shed_pick *pick, const struct inet_diag_msg *message, struct tcp_info info) {
	const struct weir_socket socket = {
		.message = message, .attribute = &info, .attribute_bytes = sizeof(info)};

	weir_shed_pick_take(pick, &socket);
}

static int setup(void **state) {
	static struct weir_shed_pick pick;

	if (weir_shed_pick_init(&pick) < 0) {
		return -1;
	}
	pick.binds = binds;
	pick.bind_count = 2;
	pick.idle_ms = IDLE_MS;
	*state = &pick;
	return 0;
}

static int teardown(void **state) {
	weir_shed_pick_fini(*state);
	return 0;
}

TEST_EACH(setup, teardown);

TEST(connection_in_use_is_not_idle) {
	const struct inet_diag_msg message = connection(1);
	struct inet_diag_msg queued;
	uint32_t idle_ms = 0;
	struct tcp_info info = idle_for(IDLE_MS);

	(void)state;
#define IS_IDLE(m) weir_shed_is_idle(&(m), &info, sizeof(info), IDLE_MS, &idle_ms)
	assert_true(IS_IDLE(message));
	assert_int_equal(idle_ms, IDLE_MS);
#define NOT_IDLE(field, value) \
	do { \
		info = idle_for(IDLE_MS); \
		info.field = value; \
		assert_false(IS_IDLE(message)); \
	} while (0)
	NOT_IDLE(tcpi_last_data_sent, IDLE_MS - 1);
	NOT_IDLE(tcpi_last_data_recv, IDLE_MS - 1);
	NOT_IDLE(tcpi_unacked, 1);
	NOT_IDLE(tcpi_notsent_bytes, 1);
	NOT_IDLE(tcpi_ca_state, TCP_CA_Loss);
	info = idle_for(IDLE_MS);
	queued = message;
	queued.idiag_rqueue = 1; // the application has not read a request
	assert_false(IS_IDLE(queued));
	queued = message;
	queued.idiag_wqueue = 1;
	assert_false(IS_IDLE(queued));
	// The client was the last to send, so the application may be computing an answer.
	info = idle_for(IDLE_MS);
	info.tcpi_last_data_sent = info.tcpi_last_data_recv + 1;
	assert_false(IS_IDLE(message));
	// If the connection has carried no data, both times are the time of the handshake. If a
	// request arrived in the same jiffy as the handshake, both times are also equal. The
	// request is unanswered if the server has sent no data segment.
	info.tcpi_last_data_sent = info.tcpi_last_data_recv;
	assert_true(IS_IDLE(message));
	info.tcpi_data_segs_in = 1;
	assert_false(IS_IDLE(message));
	info.tcpi_data_segs_out = 1;
	assert_true(IS_IDLE(message));
	// Kernels before 4.6 do not report the number of data segments that were sent.
	assert_false(weir_shed_is_idle(
		&message, &info, offsetof(struct tcp_info, tcpi_data_segs_out), IDLE_MS, &idle_ms));
	assert_false(weir_shed_is_idle(&message, NULL, 0, IDLE_MS, &idle_ms));
}

TEST(only_connections_of_the_binds_are_counted) {
	struct weir_shed_pick *pick = *state;
	struct inet_diag_msg message = connection(1);

	weir_shed_pick_begin(pick, 0);
	take(pick, &message, idle_for(IDLE_MS));
	message.id.idiag_sport = htons(81);
	take(pick, &message, idle_for(IDLE_MS));
	message = connection(2);
	inet_pton(AF_INET, "198.51.100.11", message.id.idiag_src);
	take(pick, &message, idle_for(IDLE_MS));
	// On a dual-stack socket, the VIP is an IPv4-mapped address.
	message = connection(3);
	message.idiag_family = AF_INET6;
	inet_pton(AF_INET6, "::ffff:198.51.100.10", message.id.idiag_src);
	take(pick, &message, idle_for(0));
	message.id.idiag_cookie[0] = 4;
	inet_pton(AF_INET6, "2001:db8::a", message.id.idiag_src);
	message.id.idiag_sport = htons(8100);
	take(pick, &message, idle_for(IDLE_MS));
	message.id.idiag_sport = htons(8101);
	take(pick, &message, idle_for(IDLE_MS));
	weir_shed_pick_end(pick, true);
	assert_int_equal(pick->connections, 3);
	assert_int_equal(pick->candidates, 2);
	assert_int_equal(pick->picked, 2);
}

TEST(longest_idle_first_and_with_a_hook_last) {
	struct weir_shed_pick *pick = *state;

	for (int hook = 0; hook < 2; hook++) {
		pick->hook = hook == 1;
		weir_shed_pick_begin(pick, 0);
		for (uint32_t i = 1; i <= 9; i++) {
			struct inet_diag_msg message = connection(i);

			take(pick, &message, idle_for(IDLE_MS + i * 7 % 10 * 1000));
		}
		weir_shed_pick_end(pick, true);
		assert_int_equal(pick->picked, 9);
		for (uint32_t i = 1; i <= 9; i++) {
			assert_int_equal(weir_shed_pick_next(pick)->idle_ms,
				IDLE_MS + (hook ? i : 10 - i) * 1000);
		}
		assert_null(weir_shed_pick_next(pick));
	}
}

TEST(hook_gets_a_connection_once_in_five_minutes) {
	struct weir_shed_pick *pick = *state;
	struct inet_diag_msg first = connection(1), second = connection(2);

	pick->hook = true;
#define LOOK(now_ms) \
	do { \
		weir_shed_pick_begin(pick, now_ms); \
		take(pick, &first, idle_for(0)); \
		take(pick, &second, idle_for(10)); \
		weir_shed_pick_end(pick, true); \
	} while (0)
	LOOK(1000);
	assert_int_equal(pick->candidates, 2); // including connections in use
	assert_true(weir_shed_pick_hand(pick, weir_shed_pick_next(pick), 1000));
	assert_int_equal(pick->leaving, 1);
	LOOK(2000);
	assert_int_equal(pick->connections, 2);
	assert_int_equal(pick->leaving, 1);
	assert_int_equal(pick->candidates, 1);
	assert_int_equal(weir_shed_pick_next(pick)->id.idiag_cookie[0], 2);
	LOOK(300999); // just before the five minutes end (docs/reference/agent.md, "The hook")
	assert_int_equal(pick->leaving, 1);
	LOOK(301000);
	assert_int_equal(pick->leaving, 0);
	assert_int_equal(pick->candidates, 2);
}

TEST(connection_that_the_kernel_lists_twice_counts_once) {
	struct weir_shed_pick *pick = *state;
	struct inet_diag_msg first = connection(1), second = connection(2);

	weir_shed_pick_begin(pick, 0);
	take(pick, &first, idle_for(IDLE_MS));
	take(pick, &second, idle_for(IDLE_MS));
	take(pick, &second, idle_for(IDLE_MS));
	weir_shed_pick_begin(pick, 1);
	take(pick, &second, idle_for(IDLE_MS));
	take(pick, &second, idle_for(IDLE_MS));
	take(pick, &first, idle_for(IDLE_MS));
	weir_shed_pick_end(pick, true);
	assert_int_equal(pick->connections, 2);
	assert_int_equal(pick->candidates, 2);
	assert_int_equal(pick->picked, 2);
}

TEST(closed_connections_are_forgotten) {
	struct weir_shed_pick *pick = *state;

	pick->hook = true;
	for (uint32_t look = 0; look < 2; look++) {
		weir_shed_pick_begin(pick, look);
		for (uint32_t i = 0; look < 1 && i < 1000; i++) {
			struct inet_diag_msg message = connection(i * 7 % 1000 + 1);

			take(pick, &message, idle_for(i));
		}
		weir_shed_pick_end(pick, true);
		for (const struct weir_shed_connection *next = weir_shed_pick_next(pick);
			next != NULL; next = weir_shed_pick_next(pick)) {
			assert_true(weir_shed_pick_hand(pick, next, look));
		}
		assert_int_equal(pick->handed_count, look < 1 ? 1000 : 0);
		assert_int_equal(pick->leaving, look < 1 ? 1000 : 0);
	}
}

// The records of connections that were passed to the hook are kept while the agent lists the
// connections of another service. Otherwise the next order of the first service would pass
// further connections to the hook, and too many connections would be closed.
TEST(look_for_another_service_forgets_no_connection) {
	struct weir_shed_pick *pick = *state;
	struct inet_diag_msg message = connection(1);

	pick->hook = true;
	for (uint32_t look = 0; look < 4; look++) {
		bool other = look == 1 || look == 2;

		pick->binds = other ? &binds[1] : binds;
		pick->bind_count = 1;
		weir_shed_pick_begin(pick, look);
		take(pick, &message, idle_for(0));
		weir_shed_pick_end(pick, true);
		assert_int_equal(pick->connections, other ? 0 : 1);
		assert_int_equal(pick->leaving, look == 3 ? 1 : 0);
		assert_int_equal(pick->picked, look == 0 ? 1 : 0);
		if (look == 0) {
			assert_true(weir_shed_pick_hand(pick, weir_shed_pick_next(pick), look));
		}
	}
}

// A list that the kernel has truncated does not show which connections have closed.
TEST(failed_look_forgets_no_connection) {
	struct weir_shed_pick *pick = *state;
	struct inet_diag_msg message = connection(1);

	pick->hook = true;
	for (uint32_t look = 0; look < 3; look++) {
		weir_shed_pick_begin(pick, look);
		if (look != 1) {
			take(pick, &message, idle_for(0));
		}
		weir_shed_pick_end(pick, look != 1);
		if (look == 0) {
			assert_true(weir_shed_pick_hand(pick, weir_shed_pick_next(pick), look));
		}
	}
	assert_int_equal(pick->leaving, 1);
	assert_int_equal(pick->picked, 0);
}
