// SPDX-License-Identifier: BSD-3-Clause
//
// Requests. A request has two sides. The client's side is open until the request has an outcome
// (enum weir_sim_ending). The backend's side is open while the backend has work for the request, or
// an event of the request is scheduled. The client's side may end first: the client times out, or
// the backend dies. The request is freed when both sides have ended.
#include <errno.h>
#include <stdlib.h>

#include "simulation_private.h"

#define FIRST_ROOM 4096u

static uint32_t take_request(struct weir_sim *sim) {
	uint32_t index = sim->request_free;

	if (index != WEIR_SIM_NONE) {
		sim->request_free = sim->request[index].newer;
		return index;
	}
	if (sim->request_count == sim->request_room) {
		uint32_t room = sim->request_room > 0 ? sim->request_room * 2 : FIRST_ROOM;
		void *grown = realloc(sim->request, (size_t)room * sizeof(*sim->request));

		if (grown == NULL) {
			weir_sim_fail(sim, -ENOMEM);
			return WEIR_SIM_NONE;
		}
		sim->request = grown;
		sim->request_room = room;
	}
	return sim->request_count++;
}

static void free_when_over(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	if (!request->open && request->place == WEIR_SIM_GONE) {
		request->newer = sim->request_free;
		sim->request_free = index;
	}
}

// Appends a request to the list of timeouts. All requests have the same timeout, so they time out
// in the order of their start.
static void add_timeout(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	request->older = sim->newest;
	request->newer = WEIR_SIM_NONE;
	if (sim->newest != WEIR_SIM_NONE) {
		sim->request[sim->newest].newer = index;
	} else {
		sim->oldest = index;
	}
	sim->newest = index;
	if (!sim->timeout_scheduled) {
		sim->timeout_scheduled = true;
		weir_sim_schedule(sim, sim->now_ns + sim->scenario->clients.timeout_ns,
			WEIR_SIM_EVENT_TIMEOUT, 0);
	}
}

static void drop_timeout(struct weir_sim *sim, const struct weir_sim_request *request) {
	if (request->newer != WEIR_SIM_NONE) {
		sim->request[request->newer].older = request->older;
	} else {
		sim->newest = request->older;
	}
	if (request->older != WEIR_SIM_NONE) {
		sim->request[request->older].newer = request->newer;
	} else {
		sim->oldest = request->newer;
	}
}

static void add_sample(
	struct weir_sim *sim, const struct weir_sim_request *request, uint64_t latency_ns) {
	struct weir_sim_slot *slot = &sim->client[request->client].slot[request->slot];
	struct weir_sim_backend *backend = &sim->backend[request->backend];
	struct weir_moving *moving = backend->moving != NULL ? backend->moving : slot->moving;
	uint64_t sample_ns = latency_ns;

	if (sim->policy->measurement == WEIR_MEASUREMENT_BUSY) {
		if (request->established) {
			return; // an error uses no CPU time
		}
		sample_ns = (uint64_t)(request->cost_ns / backend->cpu.speed);
	}
	if (moving != NULL) {
		weir_moving_add(moving, sample_ns, sim->now_ns);
	}
}

static enum weir_outcome outcome_of(enum weir_sim_ending ending, bool established) {
	switch (ending) {
	case WEIR_SIM_FAILED:
		return established ? WEIR_OUTCOME_COMPLETED : WEIR_OUTCOME_REFUSED;
	case WEIR_SIM_UNANSWERED:
		return WEIR_OUTCOME_UNANSWERED;
	case WEIR_SIM_TIMED_OUT:
	case WEIR_SIM_REJECTED:
		return WEIR_OUTCOME_ABANDONED;
	default:
		return WEIR_OUTCOME_COMPLETED;
	}
}

// Ends the client's side of a request. established: policies count a failed request as a completed
// flow, as when an RST aborts an established connection.
static void end(
	struct weir_sim *sim, uint32_t index, enum weir_sim_ending ending, bool established) {
	struct weir_sim_request *request = &sim->request[index];
	struct weir_sim_client *client = &sim->client[request->client];

	if (!request->open) {
		return;
	}
	request->open = false;
	sim->open_requests--;
	if (sim->scenario->clients.timeout_ns > 0) {
		drop_timeout(sim, request);
	}
	sim->totals.ended[ending]++;
	if (ending == WEIR_SIM_COMPLETED || request->established) {
		uint64_t latency_ns = sim->now_ns - request->start_ns;

		if (ending == WEIR_SIM_COMPLETED) {
			weir_sim_metrics_latency(sim, latency_ns);
		}
		weir_moving_add(sim->latency, latency_ns, sim->now_ns);
		if (sim->collects) {
			add_sample(sim, request, latency_ns);
		}
	}
	weir_policy_ended(&client->worker, &client->policy, request->slot,
		outcome_of(ending, established), sim->now_ns);
}

// Schedules an error response. The response ends the backend's side of the request.
static void fail_later(
	struct weir_sim *sim, uint32_t index, enum weir_sim_ending ending, uint64_t latency_ns) {
	struct weir_sim_request *request = &sim->request[index];

	weir_sim_steal_gone(sim, request);
	request->place = WEIR_SIM_ERROR_COMING;
	request->error = (uint8_t)ending;
	weir_sim_schedule(sim, sim->now_ns + latency_ns, WEIR_SIM_EVENT_REQUEST, index);
}

static void count_failure(struct weir_sim *sim, const struct weir_sim_request *request) {
	struct weir_sim_backend *backend = &sim->backend[request->backend];

	backend->failed++;
	backend->finished++;
}

// Records that a request has left its backend: the backend has one request less in progress.
static void left(struct weir_sim *sim, struct weir_sim_request *request) {
	sim->backend[request->backend].active -= sim->backend[request->backend].active > 0;
}

static void refused(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	count_failure(sim, request);
	left(sim, request);
	weir_sim_steal_gone(sim, request);
	request->place = WEIR_SIM_GONE;
	end(sim, index, WEIR_SIM_FAILED, false);
	free_when_over(sim, index);
}

static void work(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	request->place = WEIR_SIM_WORKING;
	if (!weir_sim_backend_work(sim, request->backend, index, request->cost_ns)) {
		refused(sim, index);
	}
}

static void receive(struct weir_sim *sim, uint32_t index, double wait_ns) {
	struct weir_sim_request *request = &sim->request[index];
	struct weir_sim_backend *backend = &sim->backend[request->backend];

	backend->given++;
	if (backend->down) {
		fail_later(sim, index, backend->silent ? WEIR_SIM_UNANSWERED : WEIR_SIM_FAILED,
			backend->silent ? sim->scenario->clients.connect_timeout_ns
					: sim->scenario->backends.refuse_ns);
	} else if (backend->fail_percent > 0 &&
		   weir_sim_uniform(&backend->prng) * 100.0 < backend->fail_percent) {
		request->established = backend->fail_established;
		fail_later(sim, index, WEIR_SIM_FAILED, backend->fail_latency_ns);
	} else {
		request->place = WEIR_SIM_WAITING;
		backend->active++;
		if (wait_ns >= 1.0) {
			weir_sim_schedule(sim, sim->now_ns + (uint64_t)wait_ns,
				WEIR_SIM_EVENT_REQUEST, index);
		} else {
			work(sim, index);
		}
	}
}

void weir_sim_request_start(
	struct weir_sim *sim, uint32_t client, uint16_t slot, double cost_ns, double wait_ns) {
	uint32_t index = take_request(sim);

	if (index == WEIR_SIM_NONE) {
		return;
	}
	sim->request[index] = (struct weir_sim_request){.start_ns = sim->now_ns,
		.cost_ns = cost_ns,
		.wait_ns = (float)wait_ns,
		.task = WEIR_SIM_NONE,
		.client = client,
		.backend = sim->client[client].slot[slot].backend,
		.slot = slot,
		.place = WEIR_SIM_GONE,
		.open = true};
	sim->open_requests++;
	if (sim->request[index].backend == sim->scenario->watch) {
		sim->totals.watched++;
	}
	if (sim->scenario->clients.timeout_ns > 0) {
		add_timeout(sim, index);
	}
	receive(sim, index, wait_ns);
}

void weir_sim_request_event(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	switch (request->place) {
	case WEIR_SIM_WAITING:
		work(sim, index);
		return;
	case WEIR_SIM_COMING:
		if (request->open) {
			receive(sim, index, (double)request->wait_ns);
			return;
		}
		weir_sim_steal_gone(sim, request); // the client has timed out
		request->place = WEIR_SIM_GONE;
		break;
	case WEIR_SIM_ERROR_COMING:
		if (request->error == WEIR_SIM_FAILED && !sim->backend[request->backend].down) {
			count_failure(sim, request);
		}
		request->place = WEIR_SIM_GONE;
		end(sim, index, (enum weir_sim_ending)request->error, request->established);
		break;
	default:
		request->place = WEIR_SIM_GONE;
		break;
	}
	free_when_over(sim, index);
}

static void worked(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	request->place = WEIR_SIM_GONE;
	left(sim, request);
	weir_sim_steal_worked(sim, request);
	weir_sim_steal_gone(sim, request);
	sim->backend[request->backend].good++;
	sim->backend[request->backend].latency_sum_ns += (double)(sim->now_ns - request->start_ns);
	sim->backend[request->backend].finished++;
	end(sim, index, WEIR_SIM_COMPLETED, true);
	free_when_over(sim, index);
}

void weir_sim_request_cpu(struct weir_sim *sim, uint32_t backend) {
	uint32_t index;

	if (!weir_sim_backend_is_due(sim, backend)) {
		return;
	}
	while (weir_sim_cpu_take(&sim->backend[backend].cpu, sim->now_ns, &index)) {
		worked(sim, index);
	}
	weir_sim_backend_plan(sim, backend);
}

// Ends all requests that wait or run at a backend that has died. Searches all requests of the
// simulation. This costs less than a list of requests for each backend, because a backend rarely
// dies.
void weir_sim_requests_break(struct weir_sim *sim, uint32_t backend) {
	for (uint32_t index = 0; index < sim->request_count; index++) {
		struct weir_sim_request *request = &sim->request[index];

		if (request->backend != backend || (request->place != WEIR_SIM_WAITING &&
							   request->place != WEIR_SIM_WORKING)) {
			continue;
		}
		weir_sim_steal_gone(sim, request);
		request->place = request->place == WEIR_SIM_WAITING ? WEIR_SIM_DEAD : WEIR_SIM_GONE;
		end(sim, index, WEIR_SIM_FAILED, true);
		free_when_over(sim, index);
	}
}

void weir_sim_requests_timeout(struct weir_sim *sim) {
	uint64_t timeout_ns = sim->scenario->clients.timeout_ns;

	sim->timeout_scheduled = false;
	while (sim->oldest != WEIR_SIM_NONE) {
		uint32_t index = sim->oldest;
		const struct weir_sim_request *request = &sim->request[index];
		uint64_t due_ns = request->start_ns + timeout_ns;
		bool silent = request->place == WEIR_SIM_ERROR_COMING &&
			      request->error == WEIR_SIM_UNANSWERED;

		if (due_ns > sim->now_ns) {
			sim->timeout_scheduled = true;
			weir_sim_schedule(sim, due_ns, WEIR_SIM_EVENT_TIMEOUT, 0);
			return;
		}
		end(sim, index, silent ? WEIR_SIM_UNANSWERED : WEIR_SIM_TIMED_OUT, true);
		free_when_over(sim, index);
	}
}

void weir_sim_request_give_up(struct weir_sim *sim, uint32_t index) {
	left(sim, &sim->request[index]);
	sim->request[index].place = WEIR_SIM_GIVEN_UP;
}

// Schedules the arrival of a released request at a backend. If this is a different backend, and the
// client still waits, the policy counts the end of a flow at the old backend and the start of a
// flow at the new backend, as when the dataplane moves a flow.
void weir_sim_request_come(struct weir_sim *sim, uint32_t index, uint16_t slot, uint64_t at_ns) {
	struct weir_sim_request *request = &sim->request[index];
	struct weir_sim_client *client = &sim->client[request->client];

	if (slot != request->slot && request->open) {
		weir_policy_ended(&client->worker, &client->policy, request->slot,
			WEIR_OUTCOME_ABANDONED, sim->now_ns);
		weir_policy_started(&client->worker, &client->policy, slot, sim->now_ns);
		request->slot = slot;
		request->backend = client->slot[slot].backend;
	}
	request->place = WEIR_SIM_COMING;
	weir_sim_schedule(sim, at_ns, WEIR_SIM_EVENT_REQUEST, index);
}

void weir_sim_request_reject(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_request *request = &sim->request[index];

	weir_sim_steal_gone(sim, request);
	request->place = WEIR_SIM_GONE;
	end(sim, index, WEIR_SIM_REJECTED, true);
	free_when_over(sim, index);
}
