// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "listeners.h"
#include "service.h"
#include "status.h"

#define NOTICE_TURN_MS 10
#define DRAIN_TURN_MS 100
#define BURST 64 // datagrams read before the loop handles other events

static const char *word_name(enum weir_health_word word) {
	static const char *const names[] = {
#define X(name, key, meaning) [WEIR_HEALTH_WORD_##name] = key,
		WEIR_HEALTH_WORDS(X)
#undef X
	};

	return names[word];
}

// --- datagrams ----------------------------------------------------------------------------

static void send_answer(
	struct weir_service *service, const struct weir_balancer *balancer, bool unasked) {
	const struct weir_agent_key *key = weir_agent_keys_find(&service->keys, balancer->key_id);
	uint64_t now_ms = weir_service_now_ms(service);
	struct weir_agent_answer answer = {
		.agent = service->number,
		.balancer = balancer->id,
		.clock_ms = weir_service_clock_ms(service),
		.serial = service->serial,
		.word = (uint8_t)service->word,
		.unasked = unasked,
	};
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	if (key == NULL) { // removed from the file meanwhile
		return;
	}
	memcpy(answer.challenge, balancer->challenge, sizeof(answer.challenge));
	memcpy(answer.why, service->why, sizeof(answer.why));
	weir_load_fill(&service->load, balancer->wants, now_ms, &answer);
	weir_agent_answer_encode(&answer, key, datagram);
	if (weir_datagrams_send(&service->datagrams, datagram, sizeof(datagram), &balancer->path) ==
		0) {
		service->answered += !unasked;
		service->notices += unasked;
	}
}

static void apply_wants(struct weir_service *service) {
	uint32_t wants = weir_balancers_wants(&service->balancers);

	weir_load_set_wants(&service->load, wants);
	weir_service_meter_turn(service, wants);
}

// Whether a datagram was sent to our own address and port, not meant for another agent.
static bool is_recipient(const struct weir_service *service, const uint8_t *named,
	uint32_t named_port, const struct weir_path *path) {
	const void *own =
		path->own.ss_family == AF_INET6
			? (const void *)&((const struct sockaddr_in6 *)&path->own)->sin6_addr
			: &((const struct sockaddr_in *)&path->own)->sin_addr;
	uint8_t recipient[WEIR_AGENT_RECIPIENT_BYTES];

	weir_agent_recipient(path->own.ss_family == AF_INET6 ? 6 : 4, own, recipient);
	return path->own.ss_family != AF_UNSPEC && named_port == service->options->udp_port &&
	       memcmp(recipient, named, sizeof(recipient)) == 0;
}

static void take_steal(struct weir_service *service, const uint8_t *data, size_t bytes,
	const struct weir_path *path) {
	struct weir_agent_steal steal;
	enum weir_agent_refusal refusal =
		weir_agent_steal_decode(data, bytes, &service->keys, &steal);

	if (refusal == WEIR_AGENT_REFUSAL_NONE &&
		!is_recipient(service, steal.recipient, steal.recipient_port, path)) {
		refusal = WEIR_AGENT_REFUSAL_RECIPIENT;
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		service->refused[refusal]++;
		return;
	}
	weir_service_steal(service, &steal, path);
}

static void take_probe(struct weir_service *service, const uint8_t *data, size_t bytes,
	const struct weir_path *path) {
	struct weir_agent_probe probe;
	enum weir_agent_refusal refusal =
		weir_agent_probe_decode(data, bytes, &service->keys, &probe);
	struct weir_balancer *balancer;

	if (refusal == WEIR_AGENT_REFUSAL_NONE &&
		!is_recipient(service, probe.recipient, probe.recipient_port, path)) {
		refusal = WEIR_AGENT_REFUSAL_RECIPIENT;
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		service->refused[refusal]++;
		return;
	}
	balancer = weir_balancers_take(&service->balancers, &probe, service->number, path,
		weir_service_now_ms(service), &refusal);
	if (balancer == NULL) {
		service->refused[refusal]++;
		return;
	}
	apply_wants(service);
	send_answer(service, balancer, false);
}

static void on_datagrams(uv_poll_t *poll, int status, int events) {
	struct weir_service *service = poll->data;
	int fd = service->datagrams.fd[poll - service->probe_poll];
	uint8_t data[WEIR_AGENT_MESSAGE_BYTES];
	struct weir_path path;

	(void)status;
	(void)events;
	uv_update_time(&service->loop);
	for (int i = 0; i < BURST; i++) {
		int n = weir_datagrams_receive(fd, data, sizeof(data), &path);

		if (n == -EAGAIN) {
			return;
		}
		if (n < 0) {
			continue;
		}
		if (weir_agent_message_kind(data, (size_t)n) == WEIR_AGENT_STEAL) {
			take_steal(service, data, (size_t)n, &path);
		} else {
			take_probe(service, data, (size_t)n, &path);
		}
	}
}

//--- the announced state ------------------------------------------------------------------

static void on_notice(uv_timer_t *timer) {
	struct weir_service *service = timer->data;
	struct weir_balancer *balancer;

	while ((balancer = weir_balancers_next_to_notify(&service->balancers, service->serial,
			weir_service_now_ms(service))) != NULL) {
		send_answer(service, balancer, true);
	}
	if (weir_balancers_unacknowledged(&service->balancers, service->serial) == 0) {
		uv_timer_stop(timer);
	}
}

void weir_service_announce(
	struct weir_service *service, enum weir_health_word word, const char *why) {
	if (word == service->word) {
		return;
	}
	service->word = word;
	service->serial++;
	if (!service->stopping) {
		weir_service_save_state(service, word);
	}
	memset(service->why, 0, sizeof(service->why));
	memcpy(service->why, why, strnlen(why, sizeof(service->why) - 1));
	weir_log_event(service->log, WEIR_LOG_INFO,
		&(struct weir_log_fields){.state = word_name(word), .reason = why},
		"%s: %s, notifying %u balancers", word_name(word), why,
		weir_balancers_unacknowledged(&service->balancers, service->serial));
	sd_notifyf(0, "STATUS=%s: %s", word_name(word), why);
	weir_balancers_announce(&service->balancers, weir_service_now_ms(service));
	on_notice(&service->notice);
	uv_timer_start(&service->notice, on_notice, NOTICE_TURN_MS, NOTICE_TURN_MS);
}

static struct weir_listeners_connections count_connections(struct weir_service *service) {
	struct weir_listeners_connections connections = {.open = UINT32_MAX};

	if (service->options->port_count == 0) {
		connections.open = 0; // only acknowledgements to wait for
	} else if (service->load.listeners >= 0) {
		(void)weir_listeners_connections(service->load.listeners, service->options->ports,
			service->options->port_count, &connections);
	}
	return connections;
}

static void log_drain(const struct weir_service *service) {
	json_t *drain = weir_status_drain(service);
	char connections[WEIR_STATUS_COUNT_BYTES];

	weir_log_write(service->log, WEIR_LOG_INFO,
		"drain: %s, %u balancers not yet notified, %s connections",
		weir_drain_state_name(service->drain.state), service->drain.pending,
		weir_status_connections(drain, connections));
	json_decref(drain);
}

static void on_drain(uv_timer_t *timer) {
	struct weir_service *service = timer->data;
	enum weir_drain_state before = service->drain.state;
	struct weir_listeners_connections connections = count_connections(service);
	enum weir_drain_state state = weir_drain_step(&service->drain, weir_service_now_ms(service),
		weir_balancers_unacknowledged(&service->balancers, service->serial),
		connections.open, connections.half_open);

	if (state != before) {
		log_drain(service);
	}
	if (state == WEIR_DRAIN_DONE || state == WEIR_DRAIN_DEADLINE) {
		uv_timer_stop(timer);
		if (service->stopping) {
			uv_stop(&service->loop);
		}
	}
}

void weir_service_lame_duck(struct weir_service *service, uint64_t interval_ms, const char *why) {
	weir_service_announce(service, WEIR_HEALTH_WORD_LAME_DUCK, why);
	weir_drain_begin(&service->drain, weir_service_now_ms(service), interval_ms);
	uv_timer_start(&service->drain_turn, on_drain, 0, DRAIN_TURN_MS);
}

void weir_service_ready(struct weir_service *service, const char *why) {
	weir_drain_end(&service->drain);
	uv_timer_stop(&service->drain_turn);
	weir_service_announce(service, WEIR_HEALTH_WORD_READY, why);
}

// --- life ---------------------------------------------------------------------------------

int weir_service_state_start(struct weir_service *service) {
	uv_timer_init(&service->loop, &service->notice);
	uv_timer_init(&service->loop, &service->drain_turn);
	service->notice.data = service;
	service->drain_turn.data = service;
	for (int i = 0; i < WEIR_DATAGRAM_SOCKETS; i++) {
		int r;

		if (service->datagrams.fd[i] < 0) {
			continue;
		}
		r = uv_poll_init(&service->loop, &service->probe_poll[i], service->datagrams.fd[i]);
		if (r) {
			return r;
		}
		service->probe_poll[i].data = service;
		uv_poll_start(&service->probe_poll[i], UV_READABLE, on_datagrams);
	}
	return 0;
}
