// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as the kernel's dump of sockets, in several reads, for
// weir-agent's TCP statistics. Accepted data must be within the bytes read.
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "tcp_figures.h"

static const uint16_t ports[] = {0x0050, 0x01bb};

struct reading {
	struct weir_tcp_figures figures;
	const uint8_t *bytes;
	size_t count;
};

static bool is_inside(const struct reading *reading, const void *part, size_t bytes) {
	const uint8_t *at = part;

	return at >= reading->bytes && bytes <= reading->count &&
	       at + bytes <= reading->bytes + reading->count;
}

static void take(void *context, const struct weir_socket *socket) {
	struct reading *reading = context;

	REQUIRE(is_inside(reading, socket->message, sizeof(*socket->message)));
	REQUIRE(socket->port < sizeof(ports) / sizeof(ports[0]));
	REQUIRE(socket->attribute == NULL ||
		is_inside(reading, socket->attribute, socket->attribute_bytes));
	weir_tcp_figures_take(&reading->figures, socket);
}

static void check(const struct weir_agent_tcp_family *family) {
	REQUIRE(family->rtt_median_us <= family->rtt_p99_us);
	REQUIRE(family->rated <= family->connections);
	REQUIRE((family->rated == 0) == (family->delivery_rate == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const struct weir_socket_query query = {.family = AF_INET6,
		.attribute = INET_DIAG_INFO,
		.ports = ports,
		.port_count = sizeof(ports) / sizeof(ports[0])};
	struct fuzz_input input = {data, bytes};
	struct reading *reading = calloc(1, sizeof(*reading));

	REQUIRE(reading != NULL);
	weir_tcp_figures_begin(&reading->figures);
	while (input.bytes > 0) {
		size_t most = fuzz_take8(&input) * (size_t)16, count;
		const uint8_t *part = fuzz_take(&input, most, &count);
		uint8_t *exact = malloc(count + 1); // exact size: ASan detects reads beyond the end
		int r;

		REQUIRE(exact != NULL);
		memcpy(exact, part, count);
		reading->bytes = exact;
		reading->count = count;
		r = weir_socket_dump_parse(&query, exact, count, 1, take, reading);
		REQUIRE(r <= 1);
		if (r != 0) {
			REQUIRE(weir_tcp_figures_end(&reading->figures, r < 0) == 0);
			check(&reading->figures.ipv4);
			check(&reading->figures.ipv6);
			weir_tcp_figures_begin(&reading->figures);
		}
		free(exact);
	}
	weir_tcp_figures_free(&reading->figures);
	free(reading);
	return 0;
}
