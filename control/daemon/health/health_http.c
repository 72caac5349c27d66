// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "health_http.h"

#define POOL 512 // idle probes kept: a curl handle is dear to make
#define NEVER_MS (1000L * 3600 * 24) // the probe's own timer ends it long before
#define READ_BYTES 4096 // per read; curl would allocate 16 KiB for each probe

struct weir_health_http {
	struct weir_health_curl *curl;
	CURL *easy;
	struct curl_slist *headers;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	uv_timer_t timer;
	size_t body_bytes;
	int no_socket; // negative errno: this host had no socket for it; 0 = it had
	char url[INET6_ADDRSTRLEN + 256 + 32];
	SLIST_ENTRY(weir_health_http) link;
};

struct weir_health_curl {
	uv_loop_t *loop;
	uv_timer_t timer;
	CURLM *multi;
	SLIST_HEAD(, weir_health_http) idle;
	unsigned int idle_count;
};

struct watch { // of one socket that curl uses
	uv_poll_t poll;
	struct weir_health_curl *curl;
	curl_socket_t socket;
};

static size_t count_body(char *data, size_t size, size_t n, void *context) {
	struct weir_health_http *http = context;

	(void)data;
	http->body_bytes += size * n;
	return http->body_bytes > WEIR_HEALTH_HTTP_BODY_BYTES ? 0 : size * n;
}

// As curl does it, but curl does not say why there is no socket.
static curl_socket_t open_socket(
	void *context, curlsocktype purpose, struct curl_sockaddr *address) {
	struct weir_health_http *http = context;
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

	(void)purpose;
	http->no_socket = fd < 0 ? -errno : 0;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

// Sockets end with a reset: no TIME_WAIT, neither here nor at the backend.
static int set_socket(void *context, curl_socket_t socket, curlsocktype purpose) {
	struct linger linger = {.l_onoff = 1};

	(void)context;
	(void)purpose;
	setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return CURL_SOCKOPT_OK;
}

static void free_probe(uv_handle_t *handle) {
	free(handle->data);
}

static void probe_free(struct weir_health_http *http) {
	curl_easy_cleanup(http->easy);
	curl_slist_free_all(http->headers);
	uv_close((uv_handle_t *)&http->timer, free_probe);
}

// Give a probe that is out of the multi handle back to the pool.
static void put_back(struct weir_health_http *http) {
	struct weir_health_curl *curl = http->curl;

	uv_timer_stop(&http->timer);
	if (curl->idle_count == POOL) {
		probe_free(http);
		return;
	}
	curl_easy_reset(http->easy);
	curl_slist_free_all(http->headers);
	http->headers = NULL;
	SLIST_INSERT_HEAD(&curl->idle, http, link);
	curl->idle_count++;
}

static struct weir_health_http *take(struct weir_health_curl *curl) {
	struct weir_health_http *http = SLIST_FIRST(&curl->idle);

	if (http != NULL) {
		SLIST_REMOVE_HEAD(&curl->idle, link);
		curl->idle_count--;
		return http;
	}
	http = calloc(1, sizeof(*http));
	if (http == NULL) {
		return NULL;
	}
	http->curl = curl;
	http->easy = curl_easy_init();
	if (http->easy == NULL) {
		free(http);
		return NULL;
	}
	uv_timer_init(curl->loop, &http->timer);
	http->timer.data = http;
	return http;
}

static enum weir_probe_outcome judge_error(
	const struct weir_health_http *http, CURLcode code, char *detail, size_t bytes) {
	long os_error = 0;

	curl_easy_getinfo(http->easy, CURLINFO_OS_ERRNO, &os_error);
	if (code == CURLE_COULDNT_CONNECT && http->no_socket != 0) {
		os_error = -http->no_socket;
	}
	switch (code) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		if (os_error != 0) {
			snprintf(detail, bytes, "%s", uv_strerror(-(int)os_error));
			return weir_probe_outcome_of(-(int)os_error);
		}
		break;
	case CURLE_GOT_NOTHING:
		snprintf(detail, bytes, "closed without a response");
		return WEIR_PROBE_FAILED;
	case CURLE_OUT_OF_MEMORY:
		snprintf(detail, bytes, "out of memory");
		return WEIR_PROBE_UNKNOWN;
	case CURLE_UNSUPPORTED_PROTOCOL: // HTTP/0.9
	case CURLE_WEIRD_SERVER_REPLY:
		snprintf(detail, bytes, "response is not HTTP");
		return WEIR_PROBE_FAILED;
	default:
		break;
	}
	snprintf(detail, bytes, "%s", curl_easy_strerror(code));
	return WEIR_PROBE_FAILED;
}

static enum weir_probe_outcome judge(
	const struct weir_health_http *http, CURLcode code, char *detail, size_t bytes) {
	const struct weir_config_health_check *check = http->params.check;
	bool too_much = http->body_bytes > WEIR_HEALTH_HTTP_BODY_BYTES;
	long status = 0;

	if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && too_much)) {
		return judge_error(http, code, detail, bytes);
	}
	curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
	snprintf(detail, bytes, "HTTP %ld", status);
	return status >= check->status_first && status <= check->status_last ? WEIR_PROBE_PASSED
									     : WEIR_PROBE_FAILED;
}

// End a probe. Nothing of it is touched after done.
static void finish(
	struct weir_health_http *http, enum weir_probe_outcome outcome, const char *detail) {
	weir_probe_fn done = http->params.done;
	void *context = http->params.context;

	curl_multi_remove_handle(http->curl->multi, http->easy);
	put_back(http);
	done(context, outcome, detail);
}

static void on_deadline(uv_timer_t *timer) {
	struct weir_health_http *http = timer->data;
	const struct weir_config_health_check *check = http->params.check;
	uint64_t more_ms = weir_probe_deadline_extend(&http->deadline, timer->loop, check);
	char detail[64];

	if (more_ms > 0) {
		uv_timer_start(timer, on_deadline, more_ms, 0);
		return;
	}
	snprintf(detail, sizeof(detail), "timeout after %u ms", check->timeout_ms);
	finish(http, WEIR_PROBE_FAILED, detail);
}

static void collect(struct weir_health_curl *curl) {
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(curl->multi, &left)) != NULL) {
		struct weir_health_http *http = NULL;
		enum weir_probe_outcome outcome;
		char detail[96];

		if (message->msg != CURLMSG_DONE) {
			continue;
		}
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&http);
		outcome = judge(http, message->data.result, detail, sizeof(detail));
		finish(http, outcome, detail);
	}
}

static void on_poll(uv_poll_t *poll, int status, int events) {
	struct watch *watch = poll->data;
	struct weir_health_curl *curl = watch->curl;
	int flags = 0, running;

	flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
	flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
	flags |= status < 0 ? CURL_CSELECT_ERR : 0;
	curl_multi_socket_action(curl->multi, watch->socket, flags, &running);
	collect(curl); // watch may be gone
}

static void on_timer(uv_timer_t *timer) {
	struct weir_health_curl *curl = timer->data;
	int running;

	curl_multi_socket_action(curl->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(curl);
}

static int set_timer(CURLM *multi, long timeout_ms, void *context) {
	struct weir_health_curl *curl = context;

	(void)multi;
	if (timeout_ms < 0) {
		uv_timer_stop(&curl->timer);
	} else {
		uv_timer_start(&curl->timer, on_timer, (uint64_t)timeout_ms, 0);
	}
	return 0;
}

static void free_watch(uv_handle_t *handle) {
	free(handle->data);
}

static struct watch *start_watch(struct weir_health_curl *curl, curl_socket_t socket) {
	struct watch *watch = calloc(1, sizeof(*watch));

	if (watch == NULL) {
		return NULL;
	}
	watch->curl = curl;
	watch->socket = socket;
	if (uv_poll_init_socket(curl->loop, &watch->poll, socket)) {
		free(watch);
		return NULL;
	}
	watch->poll.data = watch;
	curl_multi_assign(curl->multi, socket, watch);
	return watch;
}

// A failure here is not reported to curl, which would give up all of its transfers: the one that is
// concerned runs into its timeout.
static int set_watch(
	CURL *easy, curl_socket_t socket, int what, void *context, void *socket_context) {
	struct weir_health_curl *curl = context;
	struct watch *watch = socket_context;
	int events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (watch != NULL) {
			uv_poll_stop(&watch->poll);
			uv_close((uv_handle_t *)&watch->poll, free_watch);
			curl_multi_assign(curl->multi, socket, NULL);
		}
		return 0;
	}
	if (watch == NULL) {
		watch = start_watch(curl, socket);
	}
	if (watch == NULL) {
		return 0;
	}
	events |= what & CURL_POLL_IN ? UV_READABLE : 0;
	events |= what & CURL_POLL_OUT ? UV_WRITABLE : 0;
	uv_poll_start(&watch->poll, events, on_poll);
	return 0;
}

static int set_headers(struct weir_health_http *http) {
	const char *host = http->params.check->host;
	struct curl_slist *longer;
	char line[300];

	http->headers = curl_slist_append(NULL, "Connection: close");
	if (http->headers == NULL) {
		return -ENOMEM;
	}
	if (host[0] != '\0') {
		snprintf(line, sizeof(line), "Host: %s", host);
		longer = curl_slist_append(http->headers, line);
		if (longer == NULL) {
			return -ENOMEM;
		}
		http->headers = longer;
	}
	return 0;
}

static void set_options(struct weir_health_http *http) {
	const struct weir_config_health_check *check = http->params.check;
	CURL *easy = http->easy;
	char address[INET6_ADDRSTRLEN];
	bool ipv6 = http->params.address.family == 6;

	weir_address_format(&http->params.address, address, sizeof(address));
	snprintf(http->url, sizeof(http->url), "http://%s%s%s:%u%s", ipv6 ? "[" : "", address,
		ipv6 ? "]" : "", http->params.port, check->path);
	curl_easy_setopt(easy, CURLOPT_URL, http->url);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, NEVER_MS);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, http);
	curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, set_socket);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, http);
}

int weir_health_http_start(struct weir_health_curl *curl, const struct weir_probe_params *params,
	struct weir_health_http **ret) {
	struct weir_health_http *http = take(curl);

	if (http == NULL) {
		return -ENOMEM;
	}
	http->params = *params;
	http->body_bytes = 0;
	http->no_socket = 0;
	if (set_headers(http)) {
		put_back(http);
		return -ENOMEM;
	}
	set_options(http);
	if (curl_multi_add_handle(curl->multi, http->easy) != CURLM_OK) {
		put_back(http);
		return -ENOMEM;
	}
	uv_timer_start(&http->timer, on_deadline,
		weir_probe_deadline_init(&http->deadline, curl->loop, params->check), 0);
	*ret = http;
	return 0;
}

void weir_health_http_cancel(struct weir_health_http *http) {
	curl_multi_remove_handle(http->curl->multi, http->easy);
	put_back(http);
}

int weir_health_curl_create(uv_loop_t *loop, struct weir_health_curl **ret) {
	struct weir_health_curl *curl = calloc(1, sizeof(*curl));

	if (curl == NULL) {
		return -ENOMEM;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		goto free_curl;
	}
	curl->multi = curl_multi_init();
	if (curl->multi == NULL) {
		goto cleanup_global;
	}
	curl->loop = loop;
	uv_timer_init(loop, &curl->timer);
	curl->timer.data = curl;
	SLIST_INIT(&curl->idle);
	curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, set_watch);
	curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
	curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
	*ret = curl;
	return 0;

cleanup_global:
	curl_global_cleanup();
free_curl:
	free(curl);
	return -ENOMEM;
}

static void free_curl(uv_handle_t *handle) {
	free(handle->data);
}

void weir_health_curl_free(struct weir_health_curl *curl) {
	struct weir_health_http *http;

	if (curl == NULL) {
		return;
	}
	while ((http = SLIST_FIRST(&curl->idle)) != NULL) {
		SLIST_REMOVE_HEAD(&curl->idle, link);
		probe_free(http);
	}
	curl_multi_cleanup(curl->multi);
	curl_global_cleanup();
	uv_close((uv_handle_t *)&curl->timer, free_curl);
}
