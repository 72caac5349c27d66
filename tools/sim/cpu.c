// SPDX-License-Identifier: BSD-3-Clause
#include "cpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define FIRST_ROOM 8u

void weir_sim_cpu_init(struct weir_sim_cpu *cpu, uint32_t cores, bool sharing, double speed,
	uint32_t queue_limit) {
	*cpu = (struct weir_sim_cpu){
		.cores = cores, .sharing = sharing, .speed = speed, .queue_limit = queue_limit};
}

void weir_sim_cpu_fini(struct weir_sim_cpu *cpu) {
	free(cpu->running);
	free(cpu->waiting);
	*cpu = (struct weir_sim_cpu){0};
}

static uint32_t busy_cores(const struct weir_sim_cpu *cpu) {
	return cpu->running_count < cpu->cores ? cpu->running_count : cpu->cores;
}

// Returns how much work is done for each running job per nanosecond.
static double rate(const struct weir_sim_cpu *cpu) {
	return cpu->running_count <= cpu->cores
		       ? cpu->speed
		       : cpu->speed * (double)cpu->cores / (double)cpu->running_count;
}

static void advance(struct weir_sim_cpu *cpu, uint64_t now_ns) {
	double passed = (double)(now_ns - cpu->at_ns);

	cpu->busy_ns += passed * busy_cores(cpu);
	cpu->done += passed * rate(cpu);
	cpu->at_ns = now_ns;
}

// Make room for one more job. Returns 0 or -ENOMEM.
static int grow_running(struct weir_sim_cpu *cpu) {
	uint32_t room = cpu->running_room > 0 ? cpu->running_room * 2 : FIRST_ROOM;
	struct weir_sim_job *running;

	if (cpu->running_count < cpu->running_room) {
		return 0;
	}
	running = realloc(cpu->running, room * sizeof(*running));
	if (running == NULL) {
		return -ENOMEM;
	}
	cpu->running = running;
	cpu->running_room = room;
	return 0;
}

static int grow_waiting(struct weir_sim_cpu *cpu) {
	uint32_t room = cpu->waiting_room > 0 ? cpu->waiting_room * 2 : FIRST_ROOM;
	struct weir_sim_job *waiting;

	if (cpu->waiting_count < cpu->waiting_room) {
		return 0;
	}
	waiting = calloc(room, sizeof(*waiting));
	if (waiting == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cpu->waiting_count; i++) {
		waiting[i] = cpu->waiting[(cpu->waiting_first + i) & (cpu->waiting_room - 1)];
	}
	free(cpu->waiting);
	cpu->waiting = waiting;
	cpu->waiting_first = 0;
	cpu->waiting_room = room;
	return 0;
}

// Starts a job that needs this work (nanoseconds on a core of speed 1). The caller has made room
// for the job in the array of running jobs.
static void run(struct weir_sim_cpu *cpu, uint32_t id, double work) {
	struct weir_sim_job job = {.work = cpu->done + work, .id = id};
	uint32_t at = cpu->running_count++;

	while (at > 0 && job.work < cpu->running[(at - 1) / 2].work) {
		cpu->running[at] = cpu->running[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	cpu->running[at] = job;
}

static void drop_first(struct weir_sim_cpu *cpu) {
	struct weir_sim_job last = cpu->running[--cpu->running_count];
	uint32_t at = 0, child;

	while ((child = at * 2 + 1) < cpu->running_count) {
		if (child + 1 < cpu->running_count &&
			cpu->running[child + 1].work < cpu->running[child].work) {
			child++;
		}
		if (last.work <= cpu->running[child].work) {
			break;
		}
		cpu->running[at] = cpu->running[child];
		at = child;
	}
	cpu->running[at] = last;
}

int weir_sim_cpu_add(struct weir_sim_cpu *cpu, uint64_t now_ns, uint32_t id, double work_ns) {
	bool room = cpu->running_count < cpu->cores ||
		    (cpu->sharing && cpu->running_count - cpu->cores < cpu->queue_limit);

	advance(cpu, now_ns);
	if (room) {
		if (grow_running(cpu) < 0) {
			return -ENOMEM;
		}
		// Restart the clock at 0 if no job runs, because small values are more precise.
		cpu->done = cpu->running_count > 0 ? cpu->done : 0;
		run(cpu, id, work_ns);
		return 0;
	}
	if (cpu->sharing || cpu->waiting_count >= cpu->queue_limit) {
		return -ENOSPC;
	}
	if (grow_waiting(cpu) < 0) {
		return -ENOMEM;
	}
	cpu->waiting[(cpu->waiting_first + cpu->waiting_count++) & (cpu->waiting_room - 1)] =
		(struct weir_sim_job){.work = work_ns, .id = id};
	return 0;
}

uint64_t weir_sim_cpu_next(const struct weir_sim_cpu *cpu) {
	double left;

	if (cpu->running_count == 0) {
		return UINT64_MAX;
	}
	// Less than a millionth of a nanosecond is only a rounding error.
	left = ceil((cpu->running[0].work - cpu->done) / rate(cpu) - 1e-6);
	return cpu->at_ns + (left > 0 ? (uint64_t)left : 0);
}

bool weir_sim_cpu_take(struct weir_sim_cpu *cpu, uint64_t now_ns, uint32_t *ret_id) {
	if (cpu->running_count == 0 || weir_sim_cpu_next(cpu) > now_ns) {
		return false;
	}
	advance(cpu, now_ns);
	*ret_id = cpu->running[0].id;
	drop_first(cpu);
	if (cpu->waiting_count > 0) {
		const struct weir_sim_job *next = &cpu->waiting[cpu->waiting_first];

		run(cpu, next->id, next->work);
		cpu->waiting_first = (cpu->waiting_first + 1) & (cpu->waiting_room - 1);
		cpu->waiting_count--;
	}
	return true;
}

static struct weir_sim_job *waiting_at(const struct weir_sim_cpu *cpu, uint32_t i) {
	return &cpu->waiting[(cpu->waiting_first + i) & (cpu->waiting_room - 1)];
}

bool weir_sim_cpu_remove(struct weir_sim_cpu *cpu, uint32_t id) {
	uint32_t at = 0;

	while (at < cpu->waiting_count && waiting_at(cpu, at)->id != id) {
		at++;
	}
	if (at == cpu->waiting_count) {
		return false;
	}
	for (; at + 1 < cpu->waiting_count; at++) {
		*waiting_at(cpu, at) = *waiting_at(cpu, at + 1);
	}
	cpu->waiting_count--;
	return true;
}

uint32_t weir_sim_cpu_running(const struct weir_sim_cpu *cpu, uint32_t i) {
	return cpu->running[i].id;
}

uint32_t weir_sim_cpu_waiting(const struct weir_sim_cpu *cpu, uint32_t i) {
	return waiting_at(cpu, i)->id;
}

void weir_sim_cpu_set_speed(struct weir_sim_cpu *cpu, uint64_t now_ns, double speed) {
	advance(cpu, now_ns);
	cpu->speed = speed;
}

void weir_sim_cpu_clear(struct weir_sim_cpu *cpu, uint64_t now_ns) {
	advance(cpu, now_ns);
	cpu->running_count = 0;
	cpu->waiting_count = 0;
	cpu->waiting_first = 0;
	cpu->done = 0;
}

double weir_sim_cpu_busy(struct weir_sim_cpu *cpu, uint64_t now_ns) {
	advance(cpu, now_ns);
	return cpu->busy_ns;
}
