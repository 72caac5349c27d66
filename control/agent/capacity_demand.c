// SPDX-License-Identifier: BSD-3-Clause
#include "capacity_demand.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "capacity_cache.h"

// While the speed is measured, the agent does not report the number of CPUs to balancers that
// request the speed. After this time, the agent reports the number even if the measurement is still
// running.
#define PATIENCE_MS 30000

struct result {
	int error;
	double gcu;
};

// Main function of the measuring thread: measures the speed, and writes the result into the pipe.
// context: the write end of the pipe, which the thread closes.
static void *measure(void *context) {
	struct result result = {0};
	int fd = (int)(intptr_t)context;

	result.error = weir_capacity_measure(&result.gcu);
	(void)!write(fd, &result, sizeof(result));
	close(fd);
	return NULL;
}

static int start_thread(int fd) {
	pthread_attr_t detached;
	sigset_t all, before;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, &detached, measure, (void *)(intptr_t)fd);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	return -r;
}

static void close_pipe(struct weir_capacity_demand *demand) {
	if (demand->poll_open) {
		uv_close((uv_handle_t *)&demand->poll, NULL);
		demand->poll_open = false;
	}
	if (demand->pipe >= 0) {
		close(demand->pipe);
		demand->pipe = -1;
	}
}

static void set_speed(const struct weir_capacity_demand *demand, bool pending) {
	const struct weir_load_speed speed = {.pending = pending,
		.gcu = demand->gcu,
		.cpu_model = weir_cpu_model_number(demand->cpu.model)};

	weir_load_set_speed(demand->load, &speed);
}

static void fail(struct weir_capacity_demand *demand, int error) {
	const bool cached = demand->gcu > 0; // read by weir_capacity_demand_reload meanwhile

	weir_log_write(demand->log, WEIR_LOG_WARN,
		"cannot measure the speed of the CPUs: %s; reporting the %s instead",
		strerror(-error), cached ? "speed measured earlier" : "CPU frequency");
	demand->state = cached ? WEIR_CAPACITY_CACHED : WEIR_CAPACITY_FAILED;
	set_speed(demand, false);
}

static void take(struct weir_capacity_demand *demand, const struct result *result) {
	int r;

	demand->state = WEIR_CAPACITY_MEASURED;
	demand->gcu = result->gcu;
	weir_log_write(demand->log, WEIR_LOG_INFO, "measured %.2f GCU for one CPU (%s)",
		demand->gcu, demand->cpu.model);
	set_speed(demand, false);
	r = demand->cache >= 0 ? weir_capacity_cache_write(demand->cache, &demand->cpu, result->gcu)
			       : 0; // a failure to open the cache is already logged
	if (r < 0) {
		weir_log_write(demand->log, WEIR_LOG_WARN,
			"cannot write %s: %s; weir-agent measures the CPUs again at its next start",
			WEIR_CAPACITY_CACHE, strerror(-r));
	}
}

static void on_result(uv_poll_t *poll, int status, int events) {
	struct weir_capacity_demand *demand = poll->data;
	struct result result;
	ssize_t n = read(demand->pipe, &result, sizeof(result));

	(void)status;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	close_pipe(demand);
	if (n != sizeof(result)) {
		fail(demand, n < 0 ? -errno : -EPIPE);
	} else if (result.error) {
		fail(demand, result.error);
	} else {
		take(demand, &result);
	}
}

static int start_measuring(struct weir_capacity_demand *demand, uv_loop_t *loop) {
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC)) {
		return -errno;
	}
	demand->pipe = fds[0];
	r = uv_poll_init(loop, &demand->poll, fds[0]);
	if (r == 0) {
		demand->poll.data = demand;
		demand->poll_open = true;
		r = uv_poll_start(&demand->poll, UV_READABLE, on_result);
	}
	if (r == 0) {
		r = start_thread(fds[1]);
	}
	if (r) {
		close(fds[1]);
		close_pipe(demand);
	}
	return r;
}

void weir_capacity_demand_set(
	struct weir_capacity_demand *demand, uv_loop_t *loop, uint32_t wants, uint64_t now_ms) {
	int r;

	if (demand->state == WEIR_CAPACITY_MEASURING && now_ms - demand->since_ms > PATIENCE_MS) {
		set_speed(demand, false); // a result that arrives later is still used
	}
	if ((wants & WEIR_REPORT(GCU)) == 0 || demand->state != WEIR_CAPACITY_UNKNOWN) {
		return;
	}
	demand->state = WEIR_CAPACITY_MEASURING;
	demand->since_ms = now_ms;
	r = start_measuring(demand, loop);
	if (r) {
		fail(demand, r);
	}
}

void weir_capacity_demand_reload(struct weir_capacity_demand *demand) {
	if (demand->cache >= 0 &&
		weir_capacity_cache_read(demand->cache, &demand->cpu, &demand->gcu) == 0) {
		if (demand->state != WEIR_CAPACITY_MEASURING) {
			demand->state = WEIR_CAPACITY_CACHED;
		}
		set_speed(demand, false);
	}
}

void weir_capacity_demand_start(
	struct weir_log *log, struct weir_load *load, int cache, struct weir_capacity_demand *ret) {
	*ret = (struct weir_capacity_demand){.log = log, .load = load, .cache = cache, .pipe = -1};
	weir_capacity_cpu_read("/proc", &ret->cpu);
	set_speed(ret, true);
	weir_capacity_demand_reload(ret);
}

void weir_capacity_demand_stop(struct weir_capacity_demand *demand) {
	if (demand->load != NULL) {
		close_pipe(demand);
	}
}

json_t *weir_capacity_demand_status(const struct weir_capacity_demand *demand) {
	static const char *const names[] = {
#define X(name, text) text,
		WEIR_CAPACITY_STATES(X)
#undef X
	};

	return json_pack("{s:s, s:s, s:f}", "state", names[demand->state], "cpu", demand->cpu.model,
		"gcu", demand->gcu);
}
