// SPDX-License-Identifier: BSD-3-Clause
#include "tcp_figures.h"

#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LEAST_BITS 10
#define MOST_BITS 18
#define STEP_BITS 4u // 16 buckets for each power of two
#define STEPS (1u << STEP_BITS)

_Static_assert((1u << MOST_BITS) / 4 * 3 >= WEIR_TCP_FIGURES_MOST,
	"the table has room for all connections");

// --- histogram ----------------------------------------------------------------------------

static uint32_t class_of(uint64_t value) {
	uint32_t octave;

	if (value < STEPS) {
		return (uint32_t)value;
	}
	octave = 63 - (uint32_t)__builtin_clzll(value) - STEP_BITS;
	return (octave + 1) * STEPS + (uint32_t)(value >> octave & (STEPS - 1));
}

// Returns the value in the middle of a histogram bucket.
static uint64_t value_of(uint32_t class) {
	uint32_t octave;

	if (class < STEPS) {
		return class;
	}
	octave = class / STEPS - 1;
	return ((uint64_t)(STEPS + class % STEPS) << octave) + (UINT64_C(1) << octave) / 2;
}

void weir_tcp_histogram_add(struct weir_tcp_histogram *histogram, uint64_t value) {
	histogram->count++;
	histogram->in[class_of(value)]++;
}

uint64_t weir_tcp_histogram_quantile(const struct weir_tcp_histogram *histogram, double share) {
	uint32_t class = 0;
	double below = 0;

	if (histogram->count == 0) {
		return 0;
	}
	while (class < WEIR_TCP_CLASSES - 1 &&
		below + histogram->in[class] < share * histogram->count) {
		below += histogram->in[class ++];
	}
	return value_of(class);
}

// --- connections --------------------------------------------------------------------------

static void table_free(struct weir_tcp_table *table) {
	free(table->slots);
	*table = (struct weir_tcp_table){0};
}

// Returns the slot that has the cookie, or the free slot to use for the cookie. Returns NULL if the
// table has no slots.
static struct weir_tcp_seen *find(const struct weir_tcp_table *table, uint64_t cookie) {
	uint64_t at = cookie * UINT64_C(0x9e3779b97f4a7c15) >> 40;
	uint64_t mask = (UINT64_C(1) << table->bits) - 1;

	if (table->slots == NULL) {
		return NULL;
	}
	while (table->slots[at & mask].cookie != 0 && table->slots[at & mask].cookie != cookie) {
		at++;
	}
	return &table->slots[at & mask];
}

// Make room for another entry. Returns 0 or negative errno.
static int grow(struct weir_tcp_table *table) {
	uint32_t slots = table->slots == NULL ? 0 : 1u << table->bits;
	struct weir_tcp_table larger = {
		.bits = slots > 0 ? table->bits + 1 : LEAST_BITS, .used = table->used};

	if (table->used < slots / 4 * 3) {
		return 0;
	}
	larger.slots = calloc(UINT64_C(1) << larger.bits, sizeof(*larger.slots));
	if (larger.slots == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < slots; i++) {
		if (table->slots[i].cookie != 0) {
			*find(&larger, table->slots[i].cookie) = table->slots[i];
		}
	}
	free(table->slots);
	*table = larger;
	return 0;
}

// Adds a connection to the current scan, and returns its entry. Returns NULL if the scan already
// contains the connection, if there is no room, or after an error.
static struct weir_tcp_seen *add(struct weir_tcp_figures *figures, uint64_t cookie) {
	struct weir_tcp_seen *seen;
	int r;

	if (cookie == 0 || figures->error < 0 || figures->now.used >= WEIR_TCP_FIGURES_MOST) {
		return NULL;
	}
	r = grow(&figures->now);
	if (r < 0) {
		figures->error = r;
		return NULL;
	}
	seen = find(&figures->now, cookie);
	if (seen->cookie != 0) {
		return NULL;
	}
	seen->cookie = cookie;
	figures->now.used++;
	return seen;
}

// --- scans --------------------------------------------------------------------------------

static bool is_mapped(const uint32_t address[4]) {
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address, prefix, sizeof(prefix)) == 0;
}

static bool is_ipv6(const struct inet_diag_msg *socket) {
	return socket->idiag_family == AF_INET6 && !is_mapped(socket->id.idiag_dst);
}

// Returns whether the client is on this host: it has a loopback address, or the address of the
// server. Such a connection does not come from a balancer.
static bool is_local(const struct inet_diag_msg *socket) {
	static const uint32_t loopback[4] = {[3] = __builtin_bswap32(1)};
	const struct inet_diag_sockid *id = &socket->id;
	const uint32_t *ipv4 = &id->idiag_dst[socket->idiag_family == AF_INET6 ? 3 : 0];

	if (is_ipv6(socket)) {
		return memcmp(id->idiag_dst, loopback, sizeof(loopback)) == 0 ||
		       memcmp(id->idiag_dst, id->idiag_src, sizeof(id->idiag_dst)) == 0;
	}
	return *(const uint8_t *)ipv4 == 127 ||
	       memcmp(id->idiag_dst, id->idiag_src,
		       socket->idiag_family == AF_INET6 ? sizeof(id->idiag_dst) : sizeof(*ipv4)) ==
		       0;
}

// Add the growth of a connection's counters since the previous scan to the statistics in `look`.
// now: current counters of the connection.
static void add_growth(const struct weir_tcp_figures *figures, const struct weir_tcp_seen *now,
	struct weir_tcp_look *look) {
	const struct weir_tcp_seen *before = find(&figures->before, now->cookie);
	const struct weir_tcp_seen opened = {0};

	if (before == NULL || before->cookie == 0) {
		if (!figures->looked || figures->partial) {
			// The connection may be older than the previous scan, so its growth is
			// unknown.
			return;
		}
		before = &opened;
	}
	// The kernel's 32-bit counters wrap around. Subtraction of 32-bit numbers is correct
	// nevertheless.
	look->segments += now->segments - before->segments;
	look->retransmitted += now->retransmitted - before->retransmitted;
	look->bytes += now->bytes > before->bytes ? now->bytes - before->bytes : 0;
}

static void take_info(struct weir_tcp_figures *figures, const struct tcp_info *info,
	struct weir_tcp_seen *seen, struct weir_tcp_look *look) {
	seen->bytes = info->tcpi_bytes_sent & INT64_MAX;
	seen->segments = info->tcpi_data_segs_out;
	seen->retransmitted = info->tcpi_total_retrans;
	add_growth(figures, seen, look);
	if (info->tcpi_rtt > 0) {
		weir_tcp_histogram_add(&look->rtt_us, info->tcpi_rtt);
	}
	if (info->tcpi_delivery_rate > 0 && !info->tcpi_delivery_rate_app_limited) {
		weir_tcp_histogram_add(&look->rate, info->tcpi_delivery_rate);
	}
}

void weir_tcp_figures_take(void *context, const struct weir_socket *socket) {
	struct weir_tcp_figures *figures = context;
	struct weir_tcp_look *look = &figures->look[is_ipv6(socket->message)];
	struct tcp_info info = {0}; // zeroed, because earlier kernels have a shorter struct
	struct weir_tcp_seen *seen;
	uint64_t cookie;

	if (is_local(socket->message) || socket->attribute == NULL) {
		return;
	}
	memcpy(&cookie, socket->message->id.idiag_cookie, sizeof(cookie));
	seen = add(figures, cookie);
	if (seen == NULL) {
		return;
	}
	memcpy(&info, socket->attribute,
		socket->attribute_bytes < sizeof(info) ? socket->attribute_bytes : sizeof(info));
	look->connections++;
	take_info(figures, &info, seen, look);
}

void weir_tcp_figures_begin(struct weir_tcp_figures *figures) {
	table_free(&figures->now);
	memset(figures->look, 0, sizeof(figures->look));
	figures->error = 0;
}

uint32_t weir_tcp_figures_taken(const struct weir_tcp_figures *figures) {
	return figures->now.used;
}

// Keeps the counters of connections that this scan has missed. A scan can miss a connection,
// because time passes between two reads of the dump. If its counters were not kept, the next scan
// would count the connection from its start again.
static void keep_missed(struct weir_tcp_figures *figures) {
	const struct weir_tcp_table *before = &figures->before;
	uint32_t slots = before->slots == NULL ? 0 : 1u << before->bits;

	for (uint32_t i = 0; i < slots; i++) {
		struct weir_tcp_seen *seen;

		if (before->slots[i].cookie == 0 || before->slots[i].missed) {
			continue;
		}
		seen = add(figures, before->slots[i].cookie);
		if (seen != NULL) {
			*seen = before->slots[i];
			seen->missed = true;
		}
	}
}

static void publish(const struct weir_tcp_look *look, struct weir_agent_tcp_family *family) {
	family->segments += look->segments;
	family->retransmitted += look->retransmitted;
	family->sent_bytes += look->bytes;
	family->connections = look->connections;
	family->rtt_median_us = (uint32_t)weir_tcp_histogram_quantile(&look->rtt_us, 0.5);
	family->rtt_p99_us = (uint32_t)weir_tcp_histogram_quantile(&look->rtt_us, 0.99);
	family->delivery_rate = weir_tcp_histogram_quantile(&look->rate, 0.5) & INT64_MAX;
	family->rated = look->rate.count;
}

// Clear the statistics of the last scan, but keep the sums.
static void forget_last(struct weir_agent_tcp_family *family) {
	*family = (struct weir_agent_tcp_family){.segments = family->segments,
		.retransmitted = family->retransmitted,
		.sent_bytes = family->sent_bytes};
}

int weir_tcp_figures_end(struct weir_tcp_figures *figures, bool partial) {
	int r;

	keep_missed(figures);
	r = figures->error;
	if (r < 0) {
		weir_tcp_figures_pause(figures);
		return r;
	}
	publish(&figures->look[0], &figures->ipv4);
	publish(&figures->look[1], &figures->ipv6);
	table_free(&figures->before);
	figures->before = figures->now;
	figures->now = (struct weir_tcp_table){0};
	figures->looked = true;
	figures->partial = partial;
	return 0;
}

void weir_tcp_figures_pause(struct weir_tcp_figures *figures) {
	weir_tcp_figures_free(figures);
	weir_tcp_figures_begin(figures);
	figures->looked = figures->partial = false;
	forget_last(&figures->ipv4);
	forget_last(&figures->ipv6);
}

void weir_tcp_figures_free(struct weir_tcp_figures *figures) {
	table_free(&figures->now);
	table_free(&figures->before);
}
