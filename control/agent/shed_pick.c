// SPDX-License-Identifier: BSD-3-Clause
#include "shed_pick.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HANDED_MOST 65536u

static uint64_t cookie_of(const struct inet_diag_sockid *id) {
	return (uint64_t)id->idiag_cookie[1] << 32 | id->idiag_cookie[0];
}

// --- one socket ---------------------------------------------------------------------------

bool weir_shed_is_of(const struct weir_agent_shed_bind *binds, uint8_t bind_count, uint8_t family,
	const struct inet_diag_sockid *id) {
	uint8_t vip[WEIR_AGENT_RECIPIENT_BYTES];
	uint16_t port = ntohs(id->idiag_sport);

	weir_agent_recipient(family == AF_INET6 ? 6 : 4, id->idiag_src, vip);
	for (uint8_t i = 0; i < bind_count; i++) {
		if (port >= binds[i].port_first && port <= binds[i].port_last &&
			memcmp(vip, binds[i].vip, sizeof(vip)) == 0) {
			return true;
		}
	}
	return false;
}

// Returns true if the server sent the last data, or if there was no data. Otherwise the application
// may still be computing its response.
static bool has_server_sent_last(const struct tcp_info *tcp) {
	// Before any data, both times are measured from the handshake. Their resolution is one
	// jiffy. If the first request arrives in the same jiffy, the times are equal although the
	// server has sent no data. Therefore the numbers of segments are checked, too.
	return tcp->tcpi_last_data_sent <= tcp->tcpi_last_data_recv &&
	       (tcp->tcpi_data_segs_in == 0 || tcp->tcpi_data_segs_out > 0);
}

bool weir_shed_is_idle(const struct inet_diag_msg *message, const void *info, size_t info_bytes,
	uint32_t idle_ms, uint32_t *ret) {
	struct tcp_info tcp = {0};

	// Before Linux 4.6, the struct lacks the number of unsent bytes and the numbers of
	// segments. Without these numbers, the connection does not count as idle.
	if (info_bytes <
		offsetof(struct tcp_info, tcpi_data_segs_out) + sizeof(tcp.tcpi_data_segs_out)) {
		return false;
	}
	memcpy(&tcp, info, info_bytes < sizeof(tcp) ? info_bytes : sizeof(tcp));
	*ret = tcp.tcpi_last_data_recv < tcp.tcpi_last_data_sent ? tcp.tcpi_last_data_recv
								 : tcp.tcpi_last_data_sent;
	return *ret >= idle_ms && has_server_sent_last(&tcp) && message->idiag_rqueue == 0 &&
	       message->idiag_wqueue == 0 && tcp.tcpi_unacked == 0 && tcp.tcpi_notsent_bytes == 0 &&
	       tcp.tcpi_ca_state == 0; // TCP_CA_Open: no loss recovery is in progress
}

// --- connections that were passed to the hook ----------------------------------------------

static int compare_handed(const void *a, const void *b) {
	const struct weir_shed_handed *x = a, *y = b;

	return (x->cookie > y->cookie) - (x->cookie < y->cookie);
}

static struct weir_shed_handed *find_handed(struct weir_shed_pick *pick, uint64_t cookie) {
	const struct weir_shed_handed key = {.cookie = cookie};

	return pick->handed_count == 0 ? NULL
				       : bsearch(&key, pick->handed, pick->handed_count,
						 sizeof(key), compare_handed);
}

bool weir_shed_pick_hand(struct weir_shed_pick *pick, const struct weir_shed_connection *connection,
	uint64_t now_ms) {
	uint32_t at = pick->handed_count;
	const struct weir_shed_handed entry = {
		.cookie = cookie_of(&connection->id), .at_ms = now_ms, .open = true};

	if (pick->handed_count == HANDED_MOST) {
		return false;
	}
	while (at > 0 && pick->handed[at - 1].cookie > entry.cookie) {
		pick->handed[at] = pick->handed[at - 1];
		at--;
	}
	pick->handed[at] = entry;
	pick->handed_count++;
	pick->leaving++;
	return true;
}

// Discards the entries of connections that were passed to the hook at least WEIR_SHED_HANDED_MS
// ago. Marks the remaining connections as not open. When the scan finds a connection, it marks the
// connection as open.
static void forget_old(struct weir_shed_pick *pick, uint64_t now_ms) {
	uint32_t kept = 0;

	for (uint32_t i = 0; i < pick->handed_count; i++) {
		if (now_ms < pick->handed[i].at_ms + WEIR_SHED_HANDED_MS) {
			pick->handed[kept] = pick->handed[i];
			pick->handed[kept++].open = false;
		}
	}
	pick->handed_count = kept;
}

static void forget_closed(struct weir_shed_pick *pick) {
	uint32_t kept = 0;

	for (uint32_t i = 0; i < pick->handed_count; i++) {
		if (pick->handed[i].open) {
			pick->handed[kept++] = pick->handed[i];
		}
	}
	pick->handed_count = kept;
}

// --- a scan -------------------------------------------------------------------------------

int weir_shed_pick_init(struct weir_shed_pick *pick) {
	*pick = (struct weir_shed_pick){0};
	pick->connection = calloc(WEIR_SHED_PICKED_MOST, sizeof(*pick->connection));
	pick->handed = calloc(HANDED_MOST, sizeof(*pick->handed));
	if (pick->connection == NULL || pick->handed == NULL) {
		weir_shed_pick_fini(pick);
		return -ENOMEM;
	}
	return 0;
}

void weir_shed_pick_fini(struct weir_shed_pick *pick) {
	free(pick->connection);
	free(pick->handed);
	*pick = (struct weir_shed_pick){0};
}

void weir_shed_pick_begin(struct weir_shed_pick *pick, uint64_t now_ms) {
	forget_old(pick, now_ms);
	pick->connections = pick->candidates = pick->leaving = 0;
	pick->picked = pick->next = 0;
	pick->last = 0;
}

void weir_shed_pick_take(void *context, const struct weir_socket *socket) {
	struct weir_shed_pick *pick = context;
	const struct inet_diag_msg *message = socket->message;
	uint64_t cookie = cookie_of(&message->id);
	struct weir_shed_handed *handed = find_handed(pick, cookie);
	uint32_t idle_ms = 0;
	bool idle;

	// If a socket is opened between two reads of the dump, the kernel can list the last socket
	// again.
	if (cookie == pick->last) {
		return;
	}
	pick->last = cookie;
	if (handed != NULL) {
		handed->open = true; // even if the connection belongs to another service
	}
	if (!weir_shed_is_of(pick->binds, pick->bind_count, message->idiag_family, &message->id)) {
		return;
	}
	pick->connections++;
	if (handed != NULL) {
		pick->leaving++;
		return;
	}
	idle = weir_shed_is_idle(
		message, socket->attribute, socket->attribute_bytes, pick->idle_ms, &idle_ms);
	if (!idle && !pick->hook) {
		return;
	}
	pick->candidates++;
	if (pick->picked < WEIR_SHED_PICKED_MOST) {
		pick->connection[pick->picked++] = (struct weir_shed_connection){
			.family = message->idiag_family, .id = message->id, .idle_ms = idle_ms};
	}
}

static int compare_ascending(const void *a, const void *b) {
	const struct weir_shed_connection *x = a, *y = b;

	return (x->idle_ms > y->idle_ms) - (x->idle_ms < y->idle_ms);
}

static int compare_descending(const void *a, const void *b) {
	return compare_ascending(b, a);
}

void weir_shed_pick_end(struct weir_shed_pick *pick, bool complete) {
	if (complete) {
		forget_closed(pick);
	}
	if (pick->picked > 0) {
		qsort(pick->connection, pick->picked, sizeof(*pick->connection),
			pick->hook ? compare_ascending : compare_descending);
	}
}

const struct weir_shed_connection *weir_shed_pick_next(struct weir_shed_pick *pick) {
	return pick->next < pick->picked ? &pick->connection[pick->next++] : NULL;
}
