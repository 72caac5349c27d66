// SPDX-License-Identifier: BSD-3-Clause
//
// Events: functions that schedule events or end the run. All parts of a simulation use these
// functions. An event after the end of the run is not scheduled.
#include <errno.h>

#include "simulation_private.h"

void weir_sim_fail(struct weir_sim *sim, int error) {
	if (sim->error == 0) {
		sim->error = error;
	}
}

void weir_sim_schedule(
	struct weir_sim *sim, uint64_t time_ns, enum weir_sim_event_kind kind, uint32_t index) {
	if (time_ns > sim->scenario->duration_ns) {
		return;
	}
	if (index >= WEIR_SIM_EVENT_INDEXES ||
		weir_sim_queue_push(&sim->queue, time_ns, (uint32_t)kind, index) < 0) {
		weir_sim_fail(sim, -ENOMEM);
	}
}
