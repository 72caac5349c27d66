// SPDX-License-Identifier: BSD-3-Clause
#include "probes.h"

#include <errno.h>
#include <string.h>

#define BURST 64 // maximum number of datagrams to read before the event loop handles other events

static void send_answer(
	struct weir_probes *probes, const struct weir_balancer *balancer, bool unasked) {
	const struct weir_probes_params *params = &probes->params;
	const struct weir_agent_key *key = weir_agent_keys_find(params->keys, balancer->key_id);
	struct weir_agent_answer answer = {
		.agent = params->number,
		.balancer = balancer->id,
		.clock_ms = uv_now(probes->loop) - params->started_ms,
		.unasked = unasked,
	};
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	if (key == NULL) { // the key is no longer in the key file
		return;
	}
	memcpy(answer.challenge, balancer->challenge, sizeof(answer.challenge));
	params->fill(params->context, balancer->wants, &answer);
	weir_agent_answer_encode(&answer, key, datagram);
	if (weir_datagrams_send(params->datagrams, datagram, sizeof(datagram), &balancer->path) ==
		0) {
		probes->answered += !unasked;
		probes->notices += unasked;
	}
}

// Send TCP statistics only to a balancer that has an entry (balancers.h). Otherwise a replayed
// probe with a forged source would cause two datagrams to that source.
static void send_tcp(struct weir_probes *probes, const struct weir_balancer *balancer) {
	const struct weir_probes_params *params = &probes->params;
	const struct weir_agent_key *key = weir_agent_keys_find(params->keys, balancer->key_id);
	struct weir_agent_tcp tcp = {.agent = params->number,
		.balancer = balancer->id,
		.clock_ms = uv_now(probes->loop) - params->started_ms};
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	if ((balancer->wants & WEIR_AGENT_TCP_FIGURES) == 0 ||
		balancer == &params->balancers->stranger || key == NULL ||
		!weir_tcp_looks_fill(params->tcp, &tcp)) {
		return;
	}
	memcpy(tcp.challenge, balancer->challenge, sizeof(tcp.challenge));
	weir_agent_tcp_encode(&tcp, key, datagram);
	if (weir_datagrams_send(params->datagrams, datagram, sizeof(datagram), &balancer->path) ==
		0) {
		probes->tcp++;
	}
}

void weir_probes_notify(struct weir_probes *probes, const struct weir_balancer *balancer) {
	send_answer(probes, balancer, true);
}

// Returns whether a datagram was sent to an address and the port of this agent. named: address in
// the datagram, which must be equal to the local address that received it.
static bool is_recipient(const struct weir_probes *probes, const uint8_t *named,
	uint32_t named_port, const struct weir_path *path) {
	const void *own =
		path->own.ss_family == AF_INET6
			? (const void *)&((const struct sockaddr_in6 *)&path->own)->sin6_addr
			: &((const struct sockaddr_in *)&path->own)->sin_addr;
	uint8_t recipient[WEIR_AGENT_RECIPIENT_BYTES];

	weir_agent_recipient(path->own.ss_family == AF_INET6 ? 6 : 4, own, recipient);
	return path->own.ss_family != AF_UNSPEC && named_port == probes->params.udp_port &&
	       memcmp(recipient, named, sizeof(recipient)) == 0;
}

static enum weir_agent_refusal take_steal(struct weir_probes *probes, const uint8_t *data,
	size_t bytes, const struct weir_path *path) {
	const struct weir_probes_params *params = &probes->params;
	struct weir_agent_steal steal;
	enum weir_agent_refusal refusal =
		weir_agent_steal_decode(data, bytes, params->keys, &steal);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	if (!is_recipient(probes, steal.recipient, steal.recipient_port, path)) {
		return WEIR_AGENT_REFUSAL_RECIPIENT;
	}
	return params->steal(params->context, &steal, path);
}

static enum weir_agent_refusal take_shed(struct weir_probes *probes, const uint8_t *data,
	size_t bytes, const struct weir_path *path) {
	const struct weir_probes_params *params = &probes->params;
	struct weir_agent_shed order;
	enum weir_agent_refusal refusal = weir_agent_shed_decode(data, bytes, params->keys, &order);

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	if (!is_recipient(probes, order.recipient, order.recipient_port, path)) {
		return WEIR_AGENT_REFUSAL_RECIPIENT;
	}
	return params->shed(params->context, &order, path);
}

static enum weir_agent_refusal take_probe(struct weir_probes *probes, const uint8_t *data,
	size_t bytes, const struct weir_path *path) {
	const struct weir_probes_params *params = &probes->params;
	struct weir_agent_probe probe;
	enum weir_agent_refusal refusal =
		weir_agent_probe_decode(data, bytes, params->keys, &probe);
	struct weir_balancer *balancer;

	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		return refusal;
	}
	if (!is_recipient(probes, probe.recipient, probe.recipient_port, path)) {
		return WEIR_AGENT_REFUSAL_RECIPIENT;
	}
	balancer = weir_balancers_take(
		params->balancers, &probe, params->number, path, uv_now(probes->loop), &refusal);
	if (balancer == NULL) {
		return refusal;
	}
	params->requested(params->context, weir_balancers_wants(params->balancers));
	send_answer(probes, balancer, false);
	send_tcp(probes, balancer);
	return WEIR_AGENT_REFUSAL_NONE;
}

static enum weir_agent_refusal take(struct weir_probes *probes, const uint8_t *data, size_t bytes,
	const struct weir_path *path) {
	switch (weir_agent_message_kind(data, bytes)) {
	case WEIR_AGENT_STEAL:
		return take_steal(probes, data, bytes, path);
	case WEIR_AGENT_SHED:
		return take_shed(probes, data, bytes, path);
	default:
		return take_probe(probes, data, bytes, path);
	}
}

static void on_datagrams(uv_poll_t *poll, int status, int events) {
	struct weir_probes *probes = poll->data;
	int fd = probes->params.datagrams->fd[poll - probes->poll];
	uint8_t data[WEIR_AGENT_MESSAGE_BYTES];
	struct weir_path path;

	(void)status;
	(void)events;
	uv_update_time(probes->loop);
	for (int i = 0; i < BURST; i++) {
		int n = weir_datagrams_receive(fd, data, sizeof(data), &path);
		enum weir_agent_refusal refusal;

		if (n == -EAGAIN) {
			return;
		}
		if (n < 0) {
			continue;
		}
		refusal = take(probes, data, (size_t)n, &path);
		probes->refused[refusal]++; // weir-agent status does not show the count of NONE
		if (refusal == WEIR_AGENT_REFUSAL_KEY || refusal == WEIR_AGENT_REFUSAL_MAC) {
			probes->other_key_ms = uv_now(probes->loop);
		}
	}
}

int weir_probes_start(
	uv_loop_t *loop, const struct weir_probes_params *params, struct weir_probes *ret) {
	int r = 0;

	*ret = (struct weir_probes){.params = *params, .loop = loop};
	for (int i = 0; r == 0 && i < WEIR_DATAGRAM_SOCKETS; i++) {
		if (params->datagrams->fd[i] < 0) {
			continue;
		}
		r = uv_poll_init(loop, &ret->poll[i], params->datagrams->fd[i]);
		if (r == 0) {
			ret->poll[i].data = ret;
			uv_poll_start(&ret->poll[i], UV_READABLE, on_datagrams);
		}
	}
	return r;
}

void weir_probes_stop(struct weir_probes *probes) {
	for (int i = 0; i < WEIR_DATAGRAM_SOCKETS; i++) {
		if (probes->poll[i].data != NULL) {
			uv_close((uv_handle_t *)&probes->poll[i], NULL);
		}
	}
}
