// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "meter_helper.h"
#include "service.h"

#define KEEP_MS 30000 // unused meter: delay before unloading

static void lose_helper(struct weir_service *service, const char *what, int error) {
	struct weir_service_meter *meter = &service->meter;

	weir_log_write(service->log, WEIR_LOG_ERROR, "%s: %s; connections are not measured", what,
		strerror(-error));
	meter->failed = true;
	if (meter->poll_open) {
		uv_poll_stop(&meter->poll);
	}
}

static void take_reader(struct weir_service *service, struct weir_meter *reader) {
	weir_load_set_meter(&service->load, reader);
	weir_meter_close(service->meter.reader);
	service->meter.reader = reader;
	service->meter.loaded = reader != NULL;
}

static void take_answer(struct weir_service *service, const struct weir_meter_answer *answer) {
	struct weir_meter *reader = NULL;
	int r = answer->error;

	if (r != 0) {
		weir_log_write(service->log, WEIR_LOG_ERROR, "%s", answer->why);
	} else if (answer->loaded) {
		r = weir_meter_open(answer->fd, &reader);
		if (r != 0) {
			weir_log_write(service->log, WEIR_LOG_ERROR, "cannot read the meter: %s",
				strerror(-r));
		}
	}
	if (answer->fd >= 0) {
		close(answer->fd);
	}
	service->meter.failed = r != 0;
	take_reader(service, reader);
	if (r == 0) {
		weir_log_write(service->log, WEIR_LOG_INFO, "meter: %s",
			reader != NULL ? "loaded on a balancer's request"
				       : "unloaded, no longer requested");
	}
}

static void on_answer(uv_poll_t *poll, int status, int events) {
	struct weir_service *service = poll->data;
	struct weir_meter_answer answer;
	int r = weir_meter_helper_answer(service->meter.helper, &answer);

	(void)status;
	(void)events;
	if (r == -EAGAIN) {
		return;
	}
	service->meter.asked = false;
	if (r != 0) {
		take_reader(service, NULL);
		lose_helper(service, "the helper process has ended", r);
		return;
	}
	take_answer(service, &answer);
}

void weir_service_meter_turn(struct weir_service *service, uint32_t wants) {
	struct weir_service_meter *meter = &service->meter;
	uint64_t now_ms = weir_service_now_ms(service);
	bool wanted = weir_load_needs_meter(wants);
	int r;

	if (meter->helper < 0 || meter->failed) {
		return;
	}
	if (wanted) {
		meter->unwanted_ms = 0;
	} else if (meter->unwanted_ms == 0) {
		meter->unwanted_ms = now_ms;
	}
	wanted = wanted || (meter->loaded && now_ms - meter->unwanted_ms < KEEP_MS);
	if (meter->asked || wanted == meter->loaded) {
		return;
	}
	r = weir_meter_helper_ask(meter->helper, wanted);
	if (r != 0) {
		lose_helper(service, "cannot send a request to the helper process", r);
		return;
	}
	meter->asked = true;
}

int weir_service_meter_start(struct weir_service *service) {
	struct weir_service_meter *meter = &service->meter;
	int r;

	if (meter->helper < 0) {
		return 0;
	}
	r = uv_poll_init(&service->loop, &meter->poll, meter->helper);
	if (r == 0) {
		meter->poll.data = service;
		meter->poll_open = true;
		uv_poll_start(&meter->poll, UV_READABLE, on_answer);
	}
	return r;
}

void weir_service_meter_stop(struct weir_service *service) {
	struct weir_service_meter *meter = &service->meter;

	weir_load_set_meter(&service->load, NULL);
	weir_meter_close(meter->reader);
	meter->reader = NULL;
	if (meter->poll_open) {
		uv_close((uv_handle_t *)&meter->poll, NULL);
		meter->poll_open = false;
	}
}
