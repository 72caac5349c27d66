// SPDX-License-Identifier: BSD-3-Clause
//
// The script: the events of the scenario, and the times at which control detects them. All events
// are scheduled before the run starts.
#include <errno.h>
#include <stdlib.h>

#include "simulation_private.h"

#define FIRST_ROOM 32u

static void plan_several(struct weir_sim *sim, uint64_t time_ns, enum weir_sim_action_kind kind,
	const struct weir_sim_happening *happening, uint32_t backend, uint32_t count) {
	if (sim->action_count == sim->action_room) {
		uint32_t room = sim->action_room > 0 ? sim->action_room * 2 : FIRST_ROOM;
		void *grown = realloc(sim->action, room * sizeof(*sim->action));

		if (grown == NULL) {
			weir_sim_fail(sim, -ENOMEM);
			return;
		}
		sim->action = grown;
		sim->action_room = room;
	}
	sim->action[sim->action_count] = (struct weir_sim_action){
		.happening = happening, .backend = backend, .count = count, .kind = (uint32_t)kind};
	weir_sim_schedule(sim, time_ns, WEIR_SIM_EVENT_ACTION, sim->action_count++);
}

static void plan(struct weir_sim *sim, uint64_t time_ns, enum weir_sim_action_kind kind,
	const struct weir_sim_happening *happening, uint32_t backend) {
	plan_several(sim, time_ns, kind, happening, backend, 1);
}

static void plan_restart(struct weir_sim *sim, uint64_t at_ns,
	const struct weir_sim_happening *happening, uint32_t backend) {
	uint64_t death_ns = at_ns + happening->drain_ns;
	uint64_t return_ns = death_ns + happening->down_ns;
	uint64_t detection_ns = sim->scenario->control.detection_ns;

	if (happening->drain_ns > 0) {
		plan(sim, at_ns + sim->scenario->control.announce_ns, WEIR_SIM_ACTION_LEARN_LAME,
			happening, backend);
	}
	plan(sim, death_ns, WEIR_SIM_ACTION_DIE, happening, backend);
	// Control does not detect a backend that is down for at most the detection time.
	if (detection_ns < happening->down_ns) {
		plan(sim, death_ns + detection_ns, WEIR_SIM_ACTION_LEARN_DEATH, happening, backend);
	}
	plan(sim, return_ns, WEIR_SIM_ACTION_RETURN, happening, backend);
	plan(sim, return_ns + happening->warm_ns, WEIR_SIM_ACTION_WARM, happening, backend);
	plan(sim, return_ns + sim->scenario->control.recovery_ns, WEIR_SIM_ACTION_LEARN_RETURN,
		happening, backend);
}

// Plans the actions of an event add-backends or remove-backends. number: index of a backend in the
// event. Without every_ns, one reload adds or removes all backends of the event. Therefore only one
// action is planned for all of them, when number is 0. In addition, the end of the warm-up of each
// added backend is planned.
static void plan_list(
	struct weir_sim *sim, const struct weir_sim_happening *happening, uint32_t number) {
	bool add = happening->kind == WEIR_SIM_HAPPENING_ADD;
	uint32_t backend = happening->backend + number;
	uint64_t at_ns = happening->at_ns + happening->every_ns * number;

	if (happening->every_ns > 0 || number == 0) {
		plan_several(sim, at_ns, add ? WEIR_SIM_ACTION_ADD : WEIR_SIM_ACTION_REMOVE,
			happening, backend, happening->every_ns > 0 ? 1 : happening->count);
	}
	if (add) {
		plan(sim, at_ns + happening->warm_ns, WEIR_SIM_ACTION_WARM, happening, backend);
	}
}

static void plan_backend(
	struct weir_sim *sim, const struct weir_sim_happening *happening, uint32_t number) {
	uint32_t backend = happening->backend + number;
	uint64_t at_ns = happening->at_ns + happening->every_ns * number;
	uint64_t end_ns = happening->for_ns > 0 ? at_ns + happening->for_ns : WEIR_SIM_NEVER;
	uint64_t announce_ns = sim->scenario->control.announce_ns;

	switch ((enum weir_sim_happening_kind)happening->kind) {
	case WEIR_SIM_HAPPENING_FAIL_FAST:
		plan(sim, at_ns, WEIR_SIM_ACTION_FAIL, happening, backend);
		plan(sim, end_ns, WEIR_SIM_ACTION_FAIL_END, happening, backend);
		break;
	case WEIR_SIM_HAPPENING_SLOW:
		plan(sim, at_ns, WEIR_SIM_ACTION_SLOW, happening, backend);
		plan(sim, end_ns, WEIR_SIM_ACTION_SLOW_END, happening, backend);
		break;
	case WEIR_SIM_HAPPENING_LAME_DUCK:
		plan(sim, at_ns + announce_ns, WEIR_SIM_ACTION_LEARN_LAME, happening, backend);
		if (end_ns != WEIR_SIM_NEVER) {
			plan(sim, end_ns + announce_ns, WEIR_SIM_ACTION_LEARN_RETURN, happening,
				backend);
		}
		break;
	case WEIR_SIM_HAPPENING_RESTART:
		plan_restart(sim, at_ns, happening, backend);
		break;
	case WEIR_SIM_HAPPENING_ADD:
	case WEIR_SIM_HAPPENING_REMOVE:
		plan_list(sim, happening, number);
		break;
	default:
		break;
	}
}

int weir_sim_script_init(struct weir_sim *sim) {
	const struct weir_sim_scenario *scenario = sim->scenario;

	for (uint32_t i = 0; i < scenario->happening_count; i++) {
		const struct weir_sim_happening *happening = &scenario->happening[i];

		if (happening->kind == WEIR_SIM_HAPPENING_POLICY) {
			plan(sim, happening->at_ns, WEIR_SIM_ACTION_POLICY, happening, 0);
			continue;
		}
		for (uint32_t number = 0; number < happening->count; number++) {
			plan_backend(sim, happening, number);
		}
	}
	return sim->error;
}

static void die(struct weir_sim *sim, const struct weir_sim_action *action) {
	struct weir_sim_backend *backend = &sim->backend[action->backend];

	backend->down = true;
	backend->silent = action->happening->silent;
	backend->lives++;
	backend->active = 0;
	weir_sim_cpu_clear(&backend->cpu, sim->now_ns);
	weir_sim_requests_break(sim, action->backend);
}

static void come_back(struct weir_sim *sim, const struct weir_sim_action *action) {
	struct weir_sim_backend *backend = &sim->backend[action->backend];

	backend->down = false;
	backend->warm = action->happening->warm_ns > 0 ? action->happening->speed : 1.0;
	weir_sim_backend_set_speed(sim, action->backend);
}

static void add(struct weir_sim *sim, const struct weir_sim_action *action) {
	for (uint32_t i = action->backend; i < action->backend + action->count; i++) {
		sim->backend[i].warm =
			action->happening->warm_ns > 0 ? action->happening->speed : 1.0;
		weir_sim_backend_set_speed(sim, i);
	}
	weir_sim_control_list(sim, action->backend, action->count, true);
}

static void learn_return(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_backend *backend = &sim->backend[index];
	bool was_away = backend->known_down || backend->known_lame;

	backend->known_down = false;
	backend->known_lame = false;
	if (was_away) {
		weir_capability_ready(&backend->capability);
		weir_sim_control_update(sim);
	}
}

void weir_sim_script_act(struct weir_sim *sim, uint32_t index) {
	const struct weir_sim_action *action = &sim->action[index];
	const struct weir_sim_happening *happening = action->happening;
	struct weir_sim_backend *backend = &sim->backend[action->backend];

	switch ((enum weir_sim_action_kind)action->kind) {
	case WEIR_SIM_ACTION_FAIL:
		backend->fail_percent = happening->percent;
		backend->fail_latency_ns = happening->latency_ns;
		backend->fail_established = happening->established;
		break;
	case WEIR_SIM_ACTION_FAIL_END:
		backend->fail_percent = 0;
		break;
	case WEIR_SIM_ACTION_SLOW:
	case WEIR_SIM_ACTION_SLOW_END:
		backend->slow = action->kind == WEIR_SIM_ACTION_SLOW ? happening->speed : 1.0;
		weir_sim_backend_set_speed(sim, action->backend);
		break;
	case WEIR_SIM_ACTION_LEARN_LAME:
		backend->known_lame = true;
		weir_sim_control_update(sim);
		break;
	case WEIR_SIM_ACTION_DIE:
		die(sim, action);
		break;
	case WEIR_SIM_ACTION_LEARN_DEATH:
		backend->known_down = true;
		weir_sim_control_update(sim);
		break;
	case WEIR_SIM_ACTION_RETURN:
		come_back(sim, action);
		break;
	case WEIR_SIM_ACTION_WARM:
		backend->warm = 1.0;
		weir_sim_backend_set_speed(sim, action->backend);
		break;
	case WEIR_SIM_ACTION_LEARN_RETURN:
		learn_return(sim, action->backend);
		break;
	case WEIR_SIM_ACTION_ADD:
		add(sim, action);
		break;
	case WEIR_SIM_ACTION_REMOVE:
		weir_sim_control_list(sim, action->backend, action->count, false);
		break;
	case WEIR_SIM_ACTION_POLICY:
		sim->policy = &happening->policy;
		weir_sim_clients_republish(sim);
		break;
	}
}
