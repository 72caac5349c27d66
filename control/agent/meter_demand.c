// SPDX-License-Identifier: BSD-3-Clause
#include "meter_demand.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "meter_helper.h"

#define KEEP_MS 30000 // time until an unused meter is unloaded
#define RETRY_MS 60000 // time until loading is tried again after a failure

static void lose_helper(struct weir_meter_demand *demand, const char *what, int error) {
	weir_log_write(demand->log, WEIR_LOG_ERROR, "%s: %s; connections are not measured", what,
		strerror(-error));
	demand->failed = true;
	if (demand->poll_open) {
		uv_poll_stop(&demand->poll);
	}
}

static void take_reader(struct weir_meter_demand *demand, struct weir_meter *reader) {
	weir_load_set_meter(demand->load, reader);
	weir_meter_close(demand->reader);
	demand->reader = reader;
}

static void take_answer(struct weir_meter_demand *demand, const struct weir_meter_answer *answer) {
	enum weir_log_level level = demand->retry_ms == 0 ? WEIR_LOG_ERROR : WEIR_LOG_DEBUG;
	struct weir_meter *reader = NULL;
	int r = answer->error;

	if (r != 0) {
		weir_log_write(demand->log, level, "%s", answer->why);
	} else if (answer->loaded) {
		r = weir_meter_open(answer->fd, &reader);
		if (r != 0) {
			weir_log_write(demand->log, level,
				"cannot read the connection counters: %s", strerror(-r));
		}
	}
	if (answer->fd >= 0) {
		close(answer->fd);
	}
	demand->retry_ms = r != 0 ? uv_now(demand->poll.loop) + RETRY_MS : 0;
	take_reader(demand, reader);
	if (r == 0) {
		weir_log_write(demand->log, WEIR_LOG_INFO, "counters of TCP connections (BPF): %s",
			reader != NULL ? "loaded on a balancer's request"
				       : "unloaded, because no balancer requests them");
	}
}

static void on_answer(uv_poll_t *poll, int status, int events) {
	struct weir_meter_demand *demand = poll->data;
	struct weir_meter_answer answer;
	int r = weir_meter_helper_answer(demand->helper, &answer);

	(void)status;
	(void)events;
	if (r == -EAGAIN) {
		return;
	}
	demand->pending = false;
	if (r != 0) {
		take_reader(demand, NULL);
		lose_helper(demand, "the helper process has exited", r);
		return;
	}
	take_answer(demand, &answer);
}

void weir_meter_demand_set(struct weir_meter_demand *demand, uint32_t wants, uint64_t now_ms) {
	bool loaded = demand->reader != NULL;
	bool wanted = weir_load_needs_meter(wants);
	int r;

	if (demand->helper < 0 || demand->failed || now_ms < demand->retry_ms) {
		return;
	}
	if (wanted) {
		demand->unwanted_ms = 0;
	} else if (demand->unwanted_ms == 0) {
		demand->unwanted_ms = now_ms;
	}
	wanted = wanted || (loaded && now_ms - demand->unwanted_ms < KEEP_MS);
	if (demand->pending || wanted == loaded) {
		return;
	}
	r = weir_meter_helper_send(demand->helper, wanted);
	if (r != 0) {
		lose_helper(demand, "cannot send a request to the helper process", r);
		return;
	}
	demand->pending = true;
}

int weir_meter_demand_start(uv_loop_t *loop, struct weir_log *log, struct weir_load *load,
	int helper, struct weir_meter_demand *ret) {
	int r;

	*ret = (struct weir_meter_demand){.log = log, .load = load, .helper = helper};
	if (helper < 0) {
		return 0;
	}
	r = uv_poll_init(loop, &ret->poll, helper);
	if (r == 0) {
		ret->poll.data = ret;
		ret->poll_open = true;
		uv_poll_start(&ret->poll, UV_READABLE, on_answer);
	}
	return r;
}

void weir_meter_demand_stop(struct weir_meter_demand *demand) {
	if (demand->load == NULL) {
		return; // weir_meter_demand_start was not called
	}
	take_reader(demand, NULL);
	if (demand->poll_open) {
		uv_close((uv_handle_t *)&demand->poll, NULL);
		demand->poll_open = false;
	}
}
