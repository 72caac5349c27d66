// SPDX-License-Identifier: BSD-3-Clause
#include "tcp_looks.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "clocks.h"

#define STATE(name) (1u << TCP_##name)
// States of connections that may still send or retransmit data.
#define SENDING \
	(STATE(ESTABLISHED) | STATE(CLOSE_WAIT) | STATE(FIN_WAIT1) | STATE(CLOSING) | \
		STATE(LAST_ACK))
#define READS_MOST 16 // maximum number of reads in a slice

static struct weir_socket_query query_of(const struct weir_tcp_looks *looks) {
	return (struct weir_socket_query){.family = looks->family,
		.protocol = IPPROTO_TCP,
		.states = SENDING,
		.attribute = INET_DIAG_INFO,
		.ports = looks->params.ports,
		.port_count = looks->params.port_count};
}

// Cancel the dump in progress: close the socket, because the kernel cancels a dump only when its
// socket is closed.
static void drop(struct weir_tcp_looks *looks) {
	if (looks->fd >= 0) {
		close(looks->fd);
	}
	looks->fd = -1;
	looks->family = 0;
}

static void fail(struct weir_tcp_looks *looks, int error) {
	if (error != looks->error) {
		weir_log_write(looks->params.log, WEIR_LOG_WARN,
			"cannot list connections: %s; no TCP statistics are reported",
			strerror(-error));
	}
	looks->error = error;
	looks->ended_ms = 0;
	drop(looks);
	weir_tcp_figures_pause(&looks->figures);
}

static int request(struct weir_tcp_looks *looks, uint8_t family) {
	struct weir_socket_query query;

	looks->family = family;
	looks->before = weir_tcp_figures_taken(&looks->figures);
	query = query_of(looks);
	return weir_socket_dump_request(looks->fd, &query, ++looks->sequence);
}

static int open_socket(struct weir_tcp_looks *looks) {
	looks->fd =
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	return looks->fd < 0 ? -errno : 0;
}

static int begin(struct weir_tcp_looks *looks) {
	int r = looks->fd < 0 ? open_socket(looks) : 0;

	looks->began_ms = uv_now(looks->loop);
	looks->partial = false;
	weir_tcp_figures_begin(&looks->figures);
	return r < 0 ? r : request(looks, AF_INET);
}

// Handle the end of the dump of an address family: continue with the next family, or end the scan.
// Returns 0 or negative errno.
static int end_dump(struct weir_tcp_looks *looks) {
	int r;

	if (looks->family == AF_INET) {
		return request(looks, AF_INET6);
	}
	looks->family = 0;
	r = weir_tcp_figures_end(&looks->figures, looks->partial);
	if (r == 0) {
		looks->ended_ms = uv_now(looks->loop);
		looks->took_ms = looks->ended_ms - looks->began_ms;
		looks->looks++;
		looks->error = 0;
	}
	return r;
}

// Returns whether this dump has stored the maximum number of connections.
static bool is_full(const struct weir_tcp_looks *looks) {
	const uint32_t taken = weir_tcp_figures_taken(&looks->figures);

	return taken - looks->before >= looks->params.most || taken >= WEIR_TCP_FIGURES_MOST;
}

// Read a part of the dump. Returns 0 or negative errno.
static int read_part(struct weir_tcp_looks *looks) {
	_Alignas(struct nlmsghdr) char data[WEIR_SOCKET_DUMP_BYTES];
	const struct weir_socket_query query = query_of(looks);
	ssize_t n = recv(looks->fd, data, sizeof(data), 0);
	int r;

	if (n < 0) {
		return errno == EINTR ? 0 : -errno;
	}
	r = weir_socket_dump_parse(
		&query, data, (size_t)n, looks->sequence, weir_tcp_figures_take, &looks->figures);
	if (r == 0 && is_full(looks)) {
		looks->partial = true;
		close(looks->fd);
		r = open_socket(looks);
		return r < 0 ? r : end_dump(looks);
	}
	return r == 1 ? end_dump(looks) : r;
}

static int look(struct weir_tcp_looks *looks) {
	uint64_t start_ns = weir_thread_cpu_ns();
	int r = looks->family == 0 ? begin(looks) : 0;

	for (int i = 0; r == 0 && looks->family != 0 && i < READS_MOST &&
			weir_thread_cpu_ns() - start_ns < WEIR_TCP_SLICE_NS;
		i++) {
		r = read_part(looks);
	}
	weir_look_budget_spend(&looks->budget, weir_thread_cpu_ns() - start_ns);
	return r;
}

static uint64_t most(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

static void on_timer(uv_timer_t *timer) {
	struct weir_tcp_looks *looks = timer->data;
	int r = look(looks);
	uint64_t rest_ms, next_ms, now_ms;

	if (r < 0) {
		fail(looks, r);
	}
	uv_update_time(looks->loop);
	now_ms = uv_now(looks->loop);
	rest_ms = weir_look_budget_rest_ms(&looks->budget, weir_monotonic_ns());
	next_ms = looks->family != 0 ? now_ms : looks->began_ms + WEIR_TCP_EVERY_MS;
	uv_timer_start(timer, on_timer,
		most(most(rest_ms, 1), next_ms > now_ms ? next_ms - now_ms : 0), 0);
}

int weir_tcp_looks_start(
	uv_loop_t *loop, const struct weir_tcp_looks_params *params, struct weir_tcp_looks *ret) {
	int r;

	*ret = (struct weir_tcp_looks){.params = *params,
		.fd = -1,
		.budget = {.share = WEIR_TCP_SHARE, .burst_ns = WEIR_TCP_SLICE_NS}};
	if (ret->params.most == 0) {
		ret->params.most = WEIR_TCP_LOOK_MOST;
	}
	r = uv_timer_init(loop, &ret->timer);
	if (r == 0) {
		ret->loop = loop;
		ret->timer.data = ret;
	}
	return r;
}

void weir_tcp_looks_stop(struct weir_tcp_looks *looks) {
	if (looks->loop == NULL) {
		return; // weir_tcp_looks_start was not called
	}
	uv_close((uv_handle_t *)&looks->timer, NULL);
	drop(looks);
	weir_tcp_figures_free(&looks->figures);
}

void weir_tcp_looks_want(struct weir_tcp_looks *looks, bool wanted) {
	if (looks->loop == NULL || wanted == looks->wanted || looks->params.port_count == 0) {
		return;
	}
	looks->wanted = wanted;
	if (wanted) {
		uv_timer_start(&looks->timer, on_timer, 0, 0);
		return;
	}
	uv_timer_stop(&looks->timer);
	drop(looks);
	weir_tcp_figures_pause(&looks->figures);
	looks->ended_ms = 0;
	looks->error = 0;
}

bool weir_tcp_looks_fill(const struct weir_tcp_looks *looks, struct weir_agent_tcp *tcp) {
	if (looks->ended_ms == 0) {
		return false;
	}
	tcp->age_ms = (uint32_t)(uv_now(looks->loop) - looks->ended_ms);
	tcp->ipv4 = looks->figures.ipv4;
	tcp->ipv6 = looks->figures.ipv6;
	tcp->partial = looks->figures.partial;
	return true;
}

json_t *weir_tcp_looks_status(const struct weir_tcp_looks *looks) {
	json_t *object;

	if (!looks->wanted) {
		return NULL;
	}
	object = json_pack("{s:I, s:I, s:i}", "looks", (json_int_t)looks->looks, "took_ms",
		(json_int_t)looks->took_ms, "partial", looks->figures.partial);
#define X(type, field, meaning) \
	json_object_set_new( \
		object, "ipv4_" #field, json_integer((json_int_t)looks->figures.ipv4.field));
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
#undef X
#define X(type, field, meaning) \
	json_object_set_new( \
		object, "ipv6_" #field, json_integer((json_int_t)looks->figures.ipv6.field));
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
#undef X
	if (looks->error < 0) {
		json_object_set_new(object, "problem", json_string(strerror(-looks->error)));
	}
	return object;
}
