// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of TCP statistics, with socket data that the test creates.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tcp_figures.h"
#include "test.h"

static int setup(void **state) {
	*state = calloc(1, sizeof(struct weir_tcp_figures));
	return *state == NULL;
}

static int teardown(void **state) {
	weir_tcp_figures_free(*state);
	free(*state);
	return 0;
}

TEST_EACH(setup, teardown);

struct connection {
	uint64_t cookie;
	const char *client; // client address; NULL = 192.0.2.7
	const char *server; // server address; NULL = 198.51.100.10
	struct tcp_info info;
	size_t info_bytes; // bytes of tcp_info; 0 = all
};

// Adds a connection to the statistics. An IPv4 address is written as "192.0.2.7", or as
// "::ffff:192.0.2.7" for a dual-stack socket.
static void take(struct weir_tcp_figures *figures, const struct connection *connection) {
	const char *client = connection->client != NULL ? connection->client : "192.0.2.7";
	const char *server = connection->server != NULL ? connection->server : "198.51.100.10";
	struct inet_diag_msg message = {
		.idiag_family = strchr(client, ':') != NULL ? AF_INET6 : AF_INET};
	struct weir_socket socket = {.message = &message,
		.attribute = &connection->info,
		.attribute_bytes = connection->info_bytes > 0 ? connection->info_bytes
							      : sizeof(connection->info)};

	assert_int_equal(inet_pton(message.idiag_family, client, message.id.idiag_dst), 1);
	if (message.idiag_family == AF_INET || connection->server != NULL) {
		assert_int_equal(inet_pton(message.idiag_family, server, message.id.idiag_src), 1);
	}
	memcpy(message.id.idiag_cookie, &connection->cookie, sizeof(connection->cookie));
	weir_tcp_figures_take(figures, &socket);
}

// Adds a connection that has sent this number of segments of 1000 bytes.
static void take_sent(struct weir_tcp_figures *figures, uint64_t cookie, uint32_t segments,
	uint32_t retransmitted) {
	const struct connection connection = {.cookie = cookie,
		.info = {.tcpi_rtt = 20000,
			.tcpi_data_segs_out = segments,
			.tcpi_total_retrans = retransmitted,
			.tcpi_bytes_sent = UINT64_C(1000) * segments}};

	take(figures, &connection);
}

static void end(struct weir_tcp_figures *figures) {
	assert_int_equal(weir_tcp_figures_end(figures, false), 0);
}

static void expect_sums(
	const struct weir_tcp_figures *figures, uint64_t segments, uint64_t retransmitted) {
	assert_int_equal(figures->ipv4.segments, segments);
	assert_int_equal(figures->ipv4.retransmitted, retransmitted);
	assert_int_equal(figures->ipv4.sent_bytes, 1000 * segments);
}

// --- histogram ---

TEST(histogram_has_each_value_within_a_32nd) {
	uint64_t last = 0;

	for (uint32_t bit = 0; bit < 64; bit++) {
		for (uint64_t part = 0; part < 7; part++) {
			uint64_t value = (UINT64_C(1) << bit) + (UINT64_C(1) << bit) / 7 * part;
			struct weir_tcp_histogram *histogram = calloc(1, sizeof(*histogram));
			uint64_t got;

			weir_tcp_histogram_add(histogram, value);
			got = weir_tcp_histogram_quantile(histogram, 0.5);
			assert_true(got >= value - value / 32 && got <= value + value / 32);
			assert_true(got >= last);
			last = got;
			free(histogram);
		}
	}
	for (uint64_t value = 0; value < 16; value++) {
		struct weir_tcp_histogram *histogram = calloc(1, sizeof(*histogram));

		weir_tcp_histogram_add(histogram, value);
		assert_int_equal(weir_tcp_histogram_quantile(histogram, 1), value);
		free(histogram);
	}
}

TEST(histogram_quantiles_are_those_of_the_values) {
	struct weir_tcp_histogram *histogram = calloc(1, sizeof(*histogram));

	assert_int_equal(
		weir_tcp_histogram_quantile(histogram, 0.5), 0); // quantile of an empty histogram
	weir_tcp_histogram_add(histogram, UINT64_MAX);
	assert_true(weir_tcp_histogram_quantile(histogram, 0.99) > UINT64_MAX / 32 * 31);
	memset(histogram, 0, sizeof(*histogram));
	for (uint64_t value = 1; value <= 10000; value++) {
		weir_tcp_histogram_add(histogram, value);
	}
	assert_in_range(weir_tcp_histogram_quantile(histogram, 0.5), 4840, 5160);
	assert_in_range(weir_tcp_histogram_quantile(histogram, 0.99), 9590, 10220);
	assert_int_equal(weir_tcp_histogram_quantile(histogram, 0), 0);
	free(histogram);
}

// --- one reading ---

TEST(connections_are_of_their_clients_family) {
	struct weir_tcp_figures *figures = *state;
	static const struct {
		const char *client, *server;
		uint32_t ipv4, ipv6;
	} cases[] = {
		{"192.0.2.7", NULL, 1, 0},
		{"::ffff:192.0.2.7", NULL, 1, 0},
		{"2001:db8::7", NULL, 0, 1},
		{"::7", NULL, 0, 1},
		{"127.0.0.1", NULL, 0, 0},
		{"127.255.3.4", NULL, 0, 0},
		{"::ffff:127.0.0.1", NULL, 0, 0},
		{"::1", NULL, 0, 0},
		{"198.51.100.10", NULL, 0, 0}, // a connection from the server's own address
		{"2001:db8::10", "2001:db8::10", 0, 0},
		{"::ffff:192.0.2.7", "::ffff:192.0.2.7", 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct connection connection = {
			.cookie = i + 1, .client = cases[i].client, .server = cases[i].server};

		weir_tcp_figures_begin(figures);
		take(figures, &connection);
		end(figures);
		assert_int_equal(figures->ipv4.connections, cases[i].ipv4);
		assert_int_equal(figures->ipv6.connections, cases[i].ipv6);
	}
}

TEST(median_and_p99_are_of_all_connections_with_a_round_trip) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	for (uint32_t i = 0; i < 200; i++) {
		const struct connection connection = {.cookie = i + 1,
			.info = {.tcpi_rtt = i < 120   ? 20000
					     : i < 195 ? 40000
						       : 500000}};

		take(figures, &connection);
	}
	take(figures, &(struct connection){.cookie = 999}); // no round trip measured yet
	end(figures);
	assert_int_equal(figures->ipv4.connections, 201);
	assert_in_range(figures->ipv4.rtt_median_us, 19300, 20700);
	assert_in_range(figures->ipv4.rtt_p99_us, 484000, 516000);
	weir_tcp_figures_begin(figures);
	end(figures);
	assert_int_equal(figures->ipv4.rtt_median_us, 0);
}

TEST(delivery_rate_is_of_connections_that_the_application_does_not_limit) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	take(figures, &(struct connection){.cookie = 1, .info = {.tcpi_delivery_rate = 1000000}});
	take(figures,
		&(struct connection){.cookie = 2,
			.info = {.tcpi_delivery_rate = 9, .tcpi_delivery_rate_app_limited = 1}});
	take(figures, &(struct connection){.cookie = 3});
	end(figures);
	assert_int_equal(figures->ipv4.rated, 1);
	assert_in_range(figures->ipv4.delivery_rate, 969000, 1031000);
}

// tcp_info is shorter in earlier kernels.
TEST(info_of_any_length_is_taken) {
	struct weir_tcp_figures *figures = *state;
	const size_t rtt_end = offsetof(struct tcp_info, tcpi_rtt) + 4;

	for (size_t bytes = 1; bytes <= sizeof(struct tcp_info); bytes++) {
		// memory of exactly this size, so that ASan detects a read beyond the end
		struct tcp_info *exact = malloc(bytes);
		struct inet_diag_msg message = {.idiag_family = AF_INET,
			.id = {.idiag_dst = {1}, .idiag_cookie = {(uint32_t)bytes}}};
		struct weir_socket socket = {
			.message = &message, .attribute = exact, .attribute_bytes = bytes};

		memset(exact, 1, bytes);
		weir_tcp_figures_begin(figures);
		weir_tcp_figures_take(figures, &socket);
		free(exact);
		end(figures);
		assert_int_equal(figures->ipv4.connections, 1);
		assert_int_equal(figures->ipv4.rtt_median_us > 0x00ffffff, bytes >= rtt_end);
	}
}

TEST(socket_twice_in_a_look_counts_once) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	end(figures);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 5, 10, 1);
	take_sent(figures, 5, 11, 1);
	assert_int_equal(weir_tcp_figures_taken(figures), 1);
	end(figures);
	assert_int_equal(figures->ipv4.connections, 1);
	expect_sums(figures, 10, 1);
}

// --- consecutive readings ---

TEST(sums_are_what_connections_sent_between_looks) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 500000, 400); // sent before the first reading: not counted
	end(figures);
	expect_sums(figures, 0, 0);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 500100, 402);
	take_sent(figures, 2, 30, 3); // opened after the first reading
	end(figures);
	expect_sums(figures, 130, 5);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 2, 30, 3); // the other connection has ended
	end(figures);
	expect_sums(figures, 130, 5);
}

TEST(kernel_numbers_of_32_bits_wrap_around) {
	struct weir_tcp_figures *figures = *state;
	struct connection connection = {.cookie = 1,
		.info = {.tcpi_data_segs_out = UINT32_MAX - 5,
			.tcpi_total_retrans = UINT32_MAX,
			.tcpi_bytes_sent = 7000}};

	weir_tcp_figures_begin(figures);
	take(figures, &connection);
	end(figures);
	connection.info.tcpi_data_segs_out = 4;
	connection.info.tcpi_total_retrans = 1;
	// the counter decreases, as if the socket was restored from a checkpoint
	connection.info.tcpi_bytes_sent = 1000;
	weir_tcp_figures_begin(figures);
	take(figures, &connection);
	end(figures);
	assert_int_equal(figures->ipv4.segments, 10);
	assert_int_equal(figures->ipv4.retransmitted, 2);
	assert_int_equal(figures->ipv4.sent_bytes, 0);
}

TEST(connection_that_a_look_missed_is_not_counted_from_its_start) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 1000, 0);
	end(figures);
	weir_tcp_figures_begin(figures);
	end(figures);
	assert_int_equal(figures->ipv4.connections, 0);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 1010, 0);
	end(figures);
	expect_sums(figures, 10, 0);
	for (int i = 0; i < 2; i++) { // after the connection has ended, its state is discarded
		weir_tcp_figures_begin(figures);
		end(figures);
	}
	assert_int_equal(figures->before.used, 0);
}

TEST(unknown_connections_after_a_partial_look_are_not_counted_from_their_start) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 10, 0);
	assert_int_equal(weir_tcp_figures_end(figures, true), 0);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 15, 0);
	// the previous reading was partial, so data that this connection has already sent is not
	// counted
	take_sent(figures, 2, 90000, 0);
	end(figures);
	expect_sums(figures, 5, 0);
}

TEST(look_that_did_not_end_leaves_nothing) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 10, 0);
	end(figures);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 20, 0);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 25, 0);
	end(figures);
	expect_sums(figures, 15, 0);
	assert_int_equal(figures->ipv4.connections, 1);
}

TEST(pause_keeps_the_sums_alone) {
	struct weir_tcp_figures *figures = *state;

	weir_tcp_figures_begin(figures);
	end(figures);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 10, 2);
	end(figures);
	weir_tcp_figures_pause(figures);
	expect_sums(figures, 10, 2);
	assert_int_equal(figures->ipv4.connections + figures->ipv4.rtt_median_us, 0);
	weir_tcp_figures_begin(figures);
	take_sent(figures, 1, 500, 50); // data sent during the pause
	end(figures);
	expect_sums(figures, 10, 2);
}

TEST(many_connections_are_remembered_up_to_the_limit) {
	struct weir_tcp_figures *figures = *state;

	for (uint32_t look = 0; look < 2; look++) {
		weir_tcp_figures_begin(figures);
		for (uint64_t i = 1; i <= WEIR_TCP_FIGURES_MOST + 1000; i++) {
			take_sent(figures, i << 12 | 3, 7 + look, 0);
		}
		end(figures);
		assert_int_equal(figures->ipv4.connections, WEIR_TCP_FIGURES_MOST);
	}
	expect_sums(figures, WEIR_TCP_FIGURES_MOST, 0);
	// All connections have ended, and the same number of new connections was opened. The table
	// has no room for both, and must replace the ended connections.
	weir_tcp_figures_begin(figures);
	for (uint64_t i = 1; i <= WEIR_TCP_FIGURES_MOST; i++) {
		take_sent(figures, i << 40, 1, 0);
	}
	end(figures);
	expect_sums(figures, UINT64_C(2) * WEIR_TCP_FIGURES_MOST, 0);
	assert_int_equal(figures->before.used, WEIR_TCP_FIGURES_MOST);
}
