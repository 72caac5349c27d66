// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "health_curl.h"

#define POOL 512 // maximum number of idle transfers in the pool
#define GROUPS_MOST 256 // above this number, unused groups are removed; each has 2 descriptors

// The transfers that verify servers with one CA file. A group stays when its transfers end, because
// it caches the CA certificates. If there are too many groups, the unused group that was started
// least recently is removed: a configuration can have a CA file for each backend, and a reload can
// name other files.
struct weir_health_group {
	uv_timer_t timer;
	uv_loop_t *loop;
	CURLM *multi;
	char *ca_file;
	uint32_t users; // running transfers, and calls of `collect`
	SLIST_ENTRY(weir_health_group) link;
};

struct weir_health_curl {
	uv_loop_t *loop;
	SLIST_HEAD(, weir_health_group) groups; // the most recently started group first
	uint32_t group_count;
	SLIST_HEAD(, weir_health_transfer) idle;
	unsigned int idle_count;
};

struct watch { // watches one socket of curl
	uv_poll_t poll;
	struct weir_health_group *group;
	curl_socket_t socket;
};

static void collect(struct weir_health_group *group) {
	CURLMsg *message;
	int left;

	group->users++;
	while ((message = curl_multi_info_read(group->multi, &left)) != NULL) {
		struct weir_health_transfer *transfer = NULL;
		CURLcode code;

		if (message->msg != CURLMSG_DONE) {
			continue;
		}
		// Read the result first, because removing the handle invalidates the message.
		code = message->data.result;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
		weir_health_curl_stop(transfer);
		transfer->ended(transfer, code);
	}
	group->users--;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
	struct watch *watch = poll->data;
	struct weir_health_group *group = watch->group;
	int flags = 0, running;

	flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
	flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
	flags |= status < 0 ? CURL_CSELECT_ERR : 0;
	curl_multi_socket_action(group->multi, watch->socket, flags, &running);
	collect(group); // this can free the watch
}

static void on_timer(uv_timer_t *timer) {
	struct weir_health_group *group = timer->data;
	int running;

	curl_multi_socket_action(group->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(group);
}

static int set_timer(CURLM *multi, long timeout_ms, void *context) {
	struct weir_health_group *group = context;

	(void)multi;
	if (timeout_ms < 0) {
		uv_timer_stop(&group->timer);
	} else {
		uv_timer_start(&group->timer, on_timer, (uint64_t)timeout_ms, 0);
	}
	return 0;
}

static void free_watch(uv_handle_t *handle) {
	free(handle->data);
}

static struct watch *start_watch(struct weir_health_group *group, curl_socket_t socket) {
	struct watch *watch = calloc(1, sizeof(*watch));

	if (watch == NULL) {
		return NULL;
	}
	watch->group = group;
	watch->socket = socket;
	if (uv_poll_init_socket(group->loop, &watch->poll, socket)) {
		free(watch);
		return NULL;
	}
	watch->poll.data = watch;
	curl_multi_assign(group->multi, socket, watch);
	return watch;
}

// curl calls this function when a socket must be watched, or must no longer be watched. A failure
// is not reported to curl, because curl would abort all of its transfers. Only the affected
// transfer then times out.
static int set_watch(
	CURL *easy, curl_socket_t socket, int what, void *context, void *socket_context) {
	struct weir_health_group *group = context;
	struct watch *watch = socket_context;
	int events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (watch != NULL) {
			uv_poll_stop(&watch->poll);
			uv_close((uv_handle_t *)&watch->poll, free_watch);
			curl_multi_assign(group->multi, socket, NULL);
		}
		return 0;
	}
	if (watch == NULL) {
		watch = start_watch(group, socket);
	}
	if (watch == NULL) {
		return 0;
	}
	events |= what & CURL_POLL_IN ? UV_READABLE : 0;
	events |= what & CURL_POLL_OUT ? UV_WRITABLE : 0;
	uv_poll_start(&watch->poll, events, on_poll);
	return 0;
}

// --- groups -------------------------------------------------------------------------------

static void free_group(uv_handle_t *handle) {
	struct weir_health_group *group = handle->data;

	free(group->ca_file);
	free(group);
}

static struct weir_health_group *make_group(struct weir_health_curl *curl, const char *ca_file) {
	struct weir_health_group *group = calloc(1, sizeof(*group));

	if (group == NULL) {
		return NULL;
	}
	group->ca_file = strdup(ca_file);
	group->multi = curl_multi_init();
	if (group->ca_file == NULL || group->multi == NULL) {
		curl_multi_cleanup(group->multi);
		free(group->ca_file);
		free(group);
		return NULL;
	}
	group->loop = curl->loop;
	uv_timer_init(curl->loop, &group->timer);
	group->timer.data = group;
	curl_multi_setopt(group->multi, CURLMOPT_SOCKETFUNCTION, set_watch);
	curl_multi_setopt(group->multi, CURLMOPT_SOCKETDATA, group);
	curl_multi_setopt(group->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(group->multi, CURLMOPT_TIMERDATA, group);
	curl_multi_setopt(group->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	return group;
}

static void remove_group(struct weir_health_curl *curl, struct weir_health_group *group) {
	SLIST_REMOVE(&curl->groups, group, weir_health_group, link);
	curl->group_count--;
	curl_multi_cleanup(group->multi);
	uv_close((uv_handle_t *)&group->timer, free_group);
}

// If there are too many groups, removes up to two unused groups, so that the number of groups falls
// even if each start creates a group.
static void remove_unused(struct weir_health_curl *curl) {
	for (unsigned int i = 0; i < 2 && curl->group_count > GROUPS_MOST; i++) {
		struct weir_health_group *group, *oldest = NULL;

		SLIST_FOREACH(group, &curl->groups, link) {
			oldest = group->users == 0 ? group : oldest;
		}
		if (oldest == NULL) {
			return;
		}
		remove_group(curl, oldest);
	}
}

// Returns the group of a CA file, and moves it to the start of the list; NULL if out of memory.
static struct weir_health_group *group_of(struct weir_health_curl *curl, const char *ca_file) {
	struct weir_health_group *group;

	SLIST_FOREACH(group, &curl->groups, link) {
		if (strcmp(group->ca_file, ca_file) == 0) {
			break;
		}
	}
	if (group != NULL) {
		SLIST_REMOVE(&curl->groups, group, weir_health_group, link);
	} else {
		group = make_group(curl, ca_file);
		curl->group_count += group != NULL;
	}
	if (group != NULL) {
		SLIST_INSERT_HEAD(&curl->groups, group, link);
	}
	return group;
}

// --- transfers ----------------------------------------------------------------------------

uv_loop_t *weir_health_curl_loop(const struct weir_health_curl *curl) {
	return curl->loop;
}

int weir_health_curl_start(
	struct weir_health_curl *curl, const char *ca_file, struct weir_health_transfer *transfer) {
	struct weir_health_group *group = group_of(curl, ca_file);
	int r = -ENOMEM;

	curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
	if (group != NULL && curl_multi_add_handle(group->multi, transfer->easy) == CURLM_OK) {
		transfer->group = group;
		group->users++;
		r = 0;
	}
	remove_unused(curl);
	return r;
}

void weir_health_curl_stop(struct weir_health_transfer *transfer) {
	if (transfer->group != NULL) {
		curl_multi_remove_handle(transfer->group->multi, transfer->easy);
		transfer->group->users--;
		transfer->group = NULL;
	}
}

struct weir_health_transfer *weir_health_curl_take(struct weir_health_curl *curl) {
	struct weir_health_transfer *transfer = SLIST_FIRST(&curl->idle);

	if (transfer != NULL) {
		SLIST_REMOVE_HEAD(&curl->idle, link);
		curl->idle_count--;
	}
	return transfer;
}

void weir_health_curl_keep(struct weir_health_curl *curl, struct weir_health_transfer *transfer) {
	if (curl->idle_count == POOL) {
		transfer->free(transfer);
		return;
	}
	SLIST_INSERT_HEAD(&curl->idle, transfer, link);
	curl->idle_count++;
}

int weir_health_curl_create(uv_loop_t *loop, struct weir_health_curl **ret) {
	struct weir_health_curl *curl = calloc(1, sizeof(*curl));

	if (curl == NULL) {
		return -ENOMEM;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(curl);
		return -ENOMEM;
	}
	curl->loop = loop;
	SLIST_INIT(&curl->groups);
	SLIST_INIT(&curl->idle);
	*ret = curl;
	return 0;
}

void weir_health_curl_free(struct weir_health_curl *curl) {
	struct weir_health_transfer *transfer;
	struct weir_health_group *group;

	if (curl == NULL) {
		return;
	}
	while ((transfer = weir_health_curl_take(curl)) != NULL) {
		transfer->free(transfer);
	}
	while ((group = SLIST_FIRST(&curl->groups)) != NULL) {
		remove_group(curl, group);
	}
	curl_global_cleanup();
	free(curl);
}
