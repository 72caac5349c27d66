// SPDX-License-Identifier: BSD-3-Clause
#include "shed_helper.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>

#include "clocks.h"
#include "helper_process.h"
#include "shed_sockets.h"

struct helper {
	const struct weir_shed_helper_params *params;
	struct weir_shed_sockets sockets;
	struct weir_shed_pick pick;
	uint32_t order; // order for which the sockets were last listed; 0 = none
	uint64_t looked_ms;
	uint32_t ended; // connections ended since the sockets were last listed
};

// Returns the size of an answer with this number of connections.
static size_t answer_bytes(uint32_t connections) {
	return offsetof(struct weir_shed_helper_answer, connection) +
	       connections * sizeof(struct weir_shed_connection);
}

// --- the child ----------------------------------------------------------------------------

static int look(struct helper *helper, const struct weir_shed_helper_request *request) {
	struct weir_shed_pick *pick = &helper->pick;
	int r;

	pick->binds = request->binds;
	pick->bind_count = request->bind_count < WEIR_AGENT_SHED_BINDS ? request->bind_count
								       : WEIR_AGENT_SHED_BINDS;
	pick->idle_ms = request->idle_ms > WEIR_AGENT_SHED_IDLE_LEAST_MS
				? request->idle_ms
				: WEIR_AGENT_SHED_IDLE_LEAST_MS;
	pick->hook = helper->params->hook;
	r = weir_shed_sockets_look(&helper->sockets, helper->params->ports,
		helper->params->port_count, pick, weir_monotonic_ms());
	helper->order = request->order;
	helper->looked_ms = weir_monotonic_ms();
	helper->ended = 0;
	return r;
}

// Returns how many more connections may be ended, so that at least `keep` connections stay.
static uint32_t surplus(
	const struct helper *helper, const struct weir_shed_helper_request *request) {
	const struct weir_shed_pick *pick = &helper->pick;
	uint64_t gone = (uint64_t)request->keep + pick->leaving + helper->ended;

	return gone < pick->connections ? (uint32_t)(pick->connections - gone) : 0;
}

// End one connection, or add it to the answer if a hook ends it. Returns 0 or negative errno.
static int end_one(struct helper *helper, const struct weir_shed_connection *connection,
	struct weir_shed_helper_answer *answer) {
	bool ended = false;
	int r = 0;

	if (helper->params->hook) {
		if (weir_shed_pick_hand(&helper->pick, connection, weir_monotonic_ms())) {
			answer->connection[answer->ended++] = *connection;
		}
		return 0;
	}
	r = weir_shed_sockets_end(&helper->sockets, connection, helper->pick.idle_ms, &ended);
	helper->ended += ended;
	answer->ended += ended;
	return r;
}

static void serve_one(struct helper *helper, const struct weir_shed_helper_request *request,
	struct weir_shed_helper_answer *answer) {
	const uint32_t most = request->count < WEIR_SHED_BATCH ? request->count : WEIR_SHED_BATCH;
	const struct weir_shed_pick *pick = &helper->pick;
	const struct weir_shed_connection *connection;

	if (request->order != helper->order ||
		(most > 0 && pick->next == pick->picked &&
			weir_monotonic_ms() - helper->looked_ms >= WEIR_SHED_LOOK_MS)) {
		answer->error = look(helper, request);
	}
	while (answer->error == 0 && answer->ended < most && surplus(helper, request) > 0 &&
		weir_monotonic_ms() < request->deadline_ms &&
		(connection = weir_shed_pick_next(&helper->pick)) != NULL) {
		answer->error = end_one(helper, connection, answer);
	}
	answer->connections = pick->connections - helper->ended;
	answer->candidates = pick->picked - pick->next;
	answer->leaving = pick->leaving;
	if (pick->candidates > pick->picked) {
		answer->candidates += pick->candidates - pick->picked;
	}
}

// Serve requests in the child until the parent closes the connection.
static void serve(int fd, struct helper *helper) {
	struct weir_shed_helper_request request;

	while (recv(fd, &request, sizeof(request), MSG_TRUNC) == sizeof(request)) {
		struct weir_shed_helper_answer answer = {.number = request.number};

		serve_one(helper, &request, &answer);
		if (send(fd, &answer, answer_bytes(helper->params->hook ? answer.ended : 0),
			    MSG_NOSIGNAL) < 0) {
			break;
		}
	}
}

static int start(struct helper *helper) {
	int r = weir_shed_pick_init(&helper->pick);

	return r == 0 ? weir_shed_sockets_open(&helper->sockets) : r;
}

static void be_helper(int fd, const void *context) {
	static const cap_value_t kept[] = {CAP_NET_ADMIN};
	const struct weir_shed_helper_params *params = context;
	struct helper helper = {.params = params, .sockets = {.fd = -1}};
	struct weir_shed_helper_answer failed = {.step = WEIR_SHED_HELPER_PRIVILEGES};

	failed.error = params->hook ? weir_privileges_drop(params->user)
				    : weir_privileges_become(params->user, kept, 1);
	if (failed.error == 0) {
		failed.step = WEIR_SHED_HELPER_START;
		failed.error = start(&helper);
	}
	if (failed.error == 0) {
		serve(fd, &helper);
	} else {
		(void)send(fd, &failed, answer_bytes(0), MSG_NOSIGNAL);
	}
}

// --- the parent ---------------------------------------------------------------------------

int weir_shed_helper_start(const struct weir_shed_helper_params *params, int *ret) {
	return weir_helper_start("weir-agent-shed", be_helper, params, ret);
}

int weir_shed_helper_send(int fd, const struct weir_shed_helper_request *request) {
	return send(fd, request, sizeof(*request), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int weir_shed_helper_answer(int fd, struct weir_shed_helper_answer *ret) {
	ssize_t n = recv(fd, ret, sizeof(*ret), 0);

	if (n < 0) {
		return -errno;
	}
	return n < (ssize_t)answer_bytes(0) || ret->ended > WEIR_SHED_BATCH ? -EPIPE : 0;
}
