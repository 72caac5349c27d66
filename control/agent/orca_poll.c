// SPDX-License-Identifier: BSD-3-Clause
#include "orca_poll.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orca.h"

#define STATE_BYTES 160

// A request to the application and its response. While `busy` is true, a thread of libuv's pool
// uses this struct; otherwise the event loop uses it.
struct response {
	CURL *easy;
	struct curl_slist *headers; // headers of the request
	struct weir_report report; // values that were parsed so far
	bool in_header; // a header of the response contained the load report
	char body[WEIR_ORCA_BYTES_MOST];
	size_t bytes; // length of the body
	char why[STATE_BYTES]; // the error; "" = none
};

struct weir_orca_poll {
	struct weir_orca_poll_params params;
	uv_timer_t timer;
	uv_work_t work;
	bool busy, closing, wanted;
	char state[STATE_BYTES];
	struct response response;
};

// --- the request, in the pool's thread ----------------------------------------------------

static size_t take_body(char *data, size_t size, size_t count, void *context) {
	struct response *response = context;
	size_t bytes = size * count;

	if (bytes > sizeof(response->body) - response->bytes) {
		snprintf(response->why, sizeof(response->why), "the body is longer than %d bytes",
			WEIR_ORCA_BYTES_MOST);
		return 0; // aborts the transfer
	}
	memcpy(response->body + response->bytes, data, bytes);
	response->bytes += bytes;
	return bytes;
}

static size_t take_header(char *data, size_t size, size_t count, void *context) {
	struct response *response = context;
	char why[WEIR_ORCA_WHY_BYTES];
	int r = weir_orca_header(data, size * count, &response->report, why);

	if (r < 0) {
		snprintf(response->why, sizeof(response->why), "%s", why);
	}
	response->in_header = response->in_header || r > 0;
	return size * count;
}

static void request(uv_work_t *work) {
	struct weir_orca_poll *poll = work->data;
	struct response *response = &poll->response;
	char why[WEIR_ORCA_WHY_BYTES];
	long status = 0;
	CURLcode code;

	memset(&response->report, 0, sizeof(response->report));
	response->in_header = false;
	response->bytes = 0;
	response->why[0] = '\0';
	code = curl_easy_perform(response->easy);
	curl_easy_getinfo(response->easy, CURLINFO_RESPONSE_CODE, &status);
	if (response->why[0] != '\0') {
		return;
	}
	if (code != CURLE_OK) {
		snprintf(response->why, sizeof(response->why), "%s", curl_easy_strerror(code));
	} else if (status != 200) {
		snprintf(response->why, sizeof(response->why), "HTTP status %ld", status);
	} else if (!response->in_header &&
		   weir_orca_json(response->body, response->bytes, &response->report, why)) {
		snprintf(response->why, sizeof(response->why), "%s", why);
	}
}

// --- event loop ---------------------------------------------------------------------------

static void free_poll(uv_handle_t *handle) {
	struct weir_orca_poll *poll = handle->data;

	curl_easy_cleanup(poll->response.easy);
	curl_slist_free_all(poll->response.headers);
	free(poll);
}

static void on_response(uv_work_t *work, int status) {
	struct weir_orca_poll *poll = work->data;
	const struct response *response = &poll->response;
	const char *state = response->why[0] != '\0' ? response->why : "ok";

	(void)status;
	poll->busy = false;
	if (poll->closing) {
		uv_close((uv_handle_t *)&poll->timer, free_poll);
		return;
	}
	if (!poll->wanted) {
		return;
	}
	if (strcmp(state, poll->state) != 0) { // log each change of the state once
		weir_log_write(poll->params.log,
			response->why[0] != '\0' ? WEIR_LOG_WARN : WEIR_LOG_INFO, "%s: %s",
			poll->params.url, state);
		snprintf(poll->state, sizeof(poll->state), "%s", state);
	}
	if (response->why[0] == '\0') {
		poll->params.take(poll->params.context, &response->report);
	}
}

static void on_timer(uv_timer_t *timer) {
	struct weir_orca_poll *poll = timer->data;

	if (!poll->busy && uv_queue_work(timer->loop, &poll->work, request, on_response) == 0) {
		poll->busy = true;
	}
}

static int set_options(struct weir_orca_poll *poll) {
	struct response *response = &poll->response;

	response->easy = curl_easy_init();
	// Some servers send the header only on request.
	response->headers = curl_slist_append(NULL, "endpoint-load-metrics-format: JSON");
	if (response->easy == NULL || response->headers == NULL) {
		return -ENOMEM;
	}
	curl_easy_setopt(response->easy, CURLOPT_HTTPHEADER, response->headers);
	curl_easy_setopt(response->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(response->easy, CURLOPT_USERAGENT, "weir-agent");
	curl_easy_setopt(response->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(response->easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(response->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(response->easy, CURLOPT_TIMEOUT_MS, (long)WEIR_ORCA_POLL_TIMEOUT_MS);
	curl_easy_setopt(response->easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(response->easy, CURLOPT_WRITEDATA, response);
	curl_easy_setopt(response->easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(response->easy, CURLOPT_HEADERDATA, response);
	return curl_easy_setopt(response->easy, CURLOPT_URL, poll->params.url) == CURLE_OK
		       ? 0
		       : -ENOMEM;
}

int weir_orca_poll_create(
	uv_loop_t *loop, const struct weir_orca_poll_params *params, struct weir_orca_poll **ret) {
	struct weir_orca_poll *poll = calloc(1, sizeof(*poll));
	int r = -ENOMEM;

	if (poll == NULL) {
		return r;
	}
	poll->params = *params;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
		r = set_options(poll);
	}
	if (r) {
		curl_easy_cleanup(poll->response.easy);
		curl_slist_free_all(poll->response.headers);
		free(poll);
		return r;
	}
	snprintf(poll->state, sizeof(poll->state), "not wanted");
	uv_timer_init(loop, &poll->timer);
	poll->timer.data = poll->work.data = poll;
	*ret = poll;
	return 0;
}

void weir_orca_poll_close(struct weir_orca_poll *poll) {
	if (poll == NULL) {
		return;
	}
	poll->closing = true;
	uv_timer_stop(&poll->timer);
	if (!poll->busy) {
		uv_close((uv_handle_t *)&poll->timer, free_poll);
	}
}

void weir_orca_poll_want(struct weir_orca_poll *poll, bool wanted) {
	if (wanted == poll->wanted || poll->closing) {
		return;
	}
	poll->wanted = wanted;
	if (wanted) {
		uv_timer_start(&poll->timer, on_timer, 0, poll->params.interval_ms);
	} else {
		uv_timer_stop(&poll->timer);
		snprintf(poll->state, sizeof(poll->state), "not wanted");
	}
}

const char *weir_orca_poll_state(const struct weir_orca_poll *poll) {
	return poll->state;
}
