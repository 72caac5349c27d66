// SPDX-License-Identifier: BSD-3-Clause
#include "service_words.h"

static const struct weir_named_service *service_of(
	const struct weir_service_words *words, uint32_t index) {
	return &words->words.params.services->service[index];
}

static bool has_port(
	const struct weir_named_service *service, const struct weir_watched_port *port) {
	for (uint32_t i = 0; i < service->port_count; i++) {
		if (service->port[i].port == port->port &&
			service->port[i].protocol == port->protocol) {
			return true;
		}
	}
	return false;
}

static bool is_in_service(
	const struct weir_named_services *services, const struct weir_watched_port *port) {
	for (uint32_t i = 0; i < services->count; i++) {
		if (has_port(&services->service[i], port)) {
			return true;
		}
	}
	return false;
}

// Returns the state that the application has announced for a port, or READY if there is no
// announcement.
static enum weir_health_word word_of(
	const struct weir_port_watch *watch, const struct weir_service_port *port) {
	for (uint32_t i = 0; i < watch->ports.count; i++) {
		const struct weir_watched_port *watched = &watch->ports.port[i];

		if (watched->port == port->port && watched->protocol == port->protocol &&
			watched->word != WEIR_HEALTH_WORD_NONE) {
			return (enum weir_health_word)watched->word;
		}
	}
	return WEIR_HEALTH_WORD_READY;
}

// Returns the least severe announced state of the service's ports. States can differ between ports,
// because the announced state of a port is removed when the last socket of the port is closed
// (STARTING), or when a socket listens on the port again (other states).
static enum weir_health_word get_word(void *context, uint32_t index) {
	const struct weir_service_words *words = context;
	const struct weir_named_service *service = service_of(words, index);
	enum weir_health_word mildest = WEIR_HEALTH_WORD_DOWN;

	for (uint32_t i = 0; i < service->port_count; i++) {
		enum weir_health_word word = word_of(words->watch, &service->port[i]);

		mildest = weir_health_word_is_worse(mildest, word) ? word : mildest;
	}
	return mildest;
}

static bool has_word(void *context, uint32_t index, enum weir_health_word word) {
	const struct weir_service_words *words = context;
	const struct weir_named_service *service = service_of(words, index);

	for (uint32_t i = 0; i < service->port_count; i++) {
		if (word_of(words->watch, &service->port[i]) != word) {
			return false;
		}
	}
	return true;
}

static uint32_t count_ended(void *context, uint32_t index, enum weir_health_word word) {
	const struct weir_service_words *words = context;
	uint32_t count = 0;

	for (uint32_t i = 0; i < words->watch->ports.count; i++) {
		const struct weir_watched_port *port = &words->watch->ports.port[i];

		if (has_port(service_of(words, index), port)) {
			count += word == WEIR_HEALTH_WORD_STARTING ? port->closed : port->opened;
		}
	}
	return count;
}

static void announce(void *context, uint32_t index, enum weir_health_word word) {
	struct weir_service_words *words = context;
	const struct weir_named_service *service = service_of(words, index);
	bool changed = false;

	for (uint32_t i = 0; i < service->port_count; i++) {
		changed |= weir_port_watch_set_word(
			words->watch, service->port[i].port, service->port[i].protocol, word);
	}
	if (changed) {
		weir_announcement_ports(words->announcement);
		words->serial[index] = words->announcement->serial;
	}
}

// Sets the number of balancers in the reply, and how many of them have not acknowledged the last
// announced state of this service. Acknowledgements of later announcements of other services, which
// have higher serials, are not needed.
static void count(void *context, uint32_t index, struct weir_word_reply *reply) {
	const struct weir_service_words *words = context;
	const struct weir_balancers *balancers = words->announcement->params.balancers;

	reply->balancers = weir_balancers_count(balancers);
	reply->pending = weir_balancers_unacknowledged(balancers, words->serial[index]);
}

int weir_service_words_start(uv_loop_t *loop, struct weir_log *log,
	const struct weir_named_services *services, const struct weir_word_listeners *listeners,
	struct weir_port_watch *watch, struct weir_announcement *announcement,
	struct weir_service_words *ret) {
	const struct weir_words_params params = {
		.log = log,
		.services = services,
		.listeners = listeners,
		.word = get_word,
		.has = has_word,
		.ended = count_ended,
		.announce = announce,
		.count = count,
		.context = ret,
	};

	*ret = (struct weir_service_words){.watch = watch, .announcement = announcement};
	for (uint32_t i = 0; i < services->count; i++) {
		ret->serial[i] = announcement->serial;
	}
	for (uint32_t i = 0; i < watch->ports.count; i++) {
		const struct weir_watched_port *port = &watch->ports.port[i];

		if (port->word != WEIR_HEALTH_WORD_NONE && !is_in_service(services, port)) {
			weir_port_watch_set_word(
				watch, port->port, port->protocol, WEIR_HEALTH_WORD_NONE);
		}
	}
	return weir_words_start(loop, &params, &ret->words);
}

void weir_service_words_stop(struct weir_service_words *words) {
	weir_words_stop(&words->words);
}
