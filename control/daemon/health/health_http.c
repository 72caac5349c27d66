// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "health_answer.h"
#include "health_connect.h"
#include "health_http.h"
#include "health_relay.h"

// Timeout for curl, which never expires: the probe's own timer ends the probe earlier.
#define NEVER_MS (1000L * 3600 * 24)
#define READ_BYTES 4096 // bytes per read; by default, curl allocates 16 KiB for each probe
// curl caches CA certificates for this time, because it takes long to read them (health_curl.h).
#define CA_CACHE_S 60L
// Excludes Diffie-Hellman with a group chosen by the server, because a handshake with a group of
// 10,000 bits takes a second.
#define CIPHERS "DEFAULT:!DH" // ciphers of TLS 1.2

struct weir_health_http {
	struct weir_health_transfer transfer; // must be the first member
	struct weir_health_curl *curl;
	struct curl_slist *headers, *connect_to;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	uv_timer_t timer;
	struct weir_health_relay *relay;
	struct weir_health_answer answer;
	uint8_t request[WEIR_GRPC_REQUEST_BYTES]; // request of a check of type grpc
	int no_socket; // negative errno of creating a socket for libcurl; 0 = no error
	char url[WEIR_HEALTH_NAME_BYTES + 256 + 32];
	char error[CURL_ERROR_SIZE];
};

static size_t take_header(char *data, size_t size, size_t n, void *context) {
	struct weir_health_http *http = context;

	return weir_health_answer_header(&http->answer, data, size * n) ? size * n : 0;
}

static size_t take_body(char *data, size_t size, size_t n, void *context) {
	struct weir_health_http *http = context;

	return weir_health_answer_body(&http->answer, data, size * n) ? size * n : 0;
}

// Opens a socket as curl's own function does, but stores the errno, which curl does not report.
static curl_socket_t open_socket(
	void *context, curlsocktype purpose, struct curl_sockaddr *address) {
	struct weir_health_http *http = context;
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

	(void)purpose;
	http->no_socket = fd >= 0 ? 0 : -errno;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static void free_probe(uv_handle_t *handle) {
	free(handle->data);
}

static void probe_free(struct weir_health_transfer *transfer) {
	struct weir_health_http *http = (struct weir_health_http *)transfer;

	uv_close((uv_handle_t *)&http->timer, free_probe);
}

// Return a stopped probe to the pool.
static void put_back(struct weir_health_http *http) {
	uv_timer_stop(&http->timer);
	weir_health_relay_free(http->relay);
	http->relay = NULL;
	weir_health_answer_fini(&http->answer);
	curl_easy_cleanup(http->transfer.easy);
	http->transfer.easy = NULL;
	curl_slist_free_all(http->headers);
	curl_slist_free_all(http->connect_to);
	http->headers = NULL;
	http->connect_to = NULL;
	weir_health_curl_keep(http->curl, &http->transfer);
}

static enum weir_probe_outcome judge_excess(char *detail, size_t bytes) {
	snprintf(detail, bytes, "server sent more than %u KiB", WEIR_HEALTH_RECEIVED_MOST / 1024);
	return WEIR_PROBE_FAILED;
}

// Determines the outcome after an out-of-memory error. libcurl reports a header line of 100 KB as
// out of memory, and since version 8.6 as CURLE_TOO_LARGE.
static enum weir_probe_outcome judge_memory(
	const struct weir_health_http *http, char *detail, size_t bytes) {
	curl_off_t first_byte_us = 0;

	curl_easy_getinfo(http->transfer.easy, CURLINFO_STARTTRANSFER_TIME_T, &first_byte_us);
	snprintf(detail, bytes, "%s",
		first_byte_us > 0 ? "response header is too long" : "out of memory");
	return first_byte_us > 0 ? WEIR_PROBE_FAILED : WEIR_PROBE_UNKNOWN;
}

static enum weir_probe_outcome judge_error(
	const struct weir_health_http *http, CURLcode code, char *detail, size_t bytes) {
	int broken = weir_health_relay_error(http->relay);
	long os_error = 0;

	if (broken != 0) {
		snprintf(detail, bytes, "%s", uv_strerror(broken));
		return weir_probe_outcome_of(broken);
	}
	curl_easy_getinfo(http->transfer.easy, CURLINFO_OS_ERRNO, &os_error);
	if (code == CURLE_COULDNT_CONNECT && http->no_socket != 0) {
		os_error = -http->no_socket;
	}
	switch (code) {
	case CURLE_COULDNT_CONNECT: // could not connect to the relay
		// libcurl connects again when a server refuses the HTTP/2 request.
		if (weir_health_relay_is_joined(http->relay)) {
			snprintf(detail, bytes, "server refused the request");
			return WEIR_PROBE_FAILED;
		}
		// The backend did not cause this error.
		snprintf(detail, bytes, "%s",
			os_error != 0 ? uv_strerror(-(int)os_error) : curl_easy_strerror(code));
		return WEIR_PROBE_UNKNOWN;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		if (os_error != 0) {
			snprintf(detail, bytes, "%s", uv_strerror(-(int)os_error));
			return weir_probe_outcome_of(-(int)os_error);
		}
		break;
	case CURLE_GOT_NOTHING:
		snprintf(detail, bytes, "connection closed without a response");
		return WEIR_PROBE_FAILED;
	case CURLE_OUT_OF_MEMORY:
		return judge_memory(http, detail, bytes);
#if LIBCURL_VERSION_NUM >= 0x080600
	case CURLE_TOO_LARGE:
		snprintf(detail, bytes, "%.95s",
			http->error[0] != '\0' ? http->error : "response header is too long");
		return WEIR_PROBE_FAILED;
#endif
	case CURLE_UNSUPPORTED_PROTOCOL: // HTTP/0.9
	case CURLE_WEIRD_SERVER_REPLY:
		snprintf(detail, bytes, "response is not HTTP");
		return WEIR_PROBE_FAILED;
	case CURLE_SSL_CACERT_BADFILE: // the backend did not cause this error
		snprintf(detail, bytes, "cannot read CA certificates from %.60s",
			http->params.check->ca_file[0] != '\0' ? http->params.check->ca_file
							       : "the system's file");
		return WEIR_PROBE_UNKNOWN;
	default:
		break;
	}
	snprintf(detail, bytes, "%.95s",
		http->error[0] != '\0' ? http->error : curl_easy_strerror(code));
	return WEIR_PROBE_FAILED;
}

// Returns whether the answer is complete: the probe ended the transfer because the probe had read
// enough, or the transfer succeeded. Exception: if the connection was reset, a successful transfer
// is not complete, because libcurl accepts headers and a body of unknown length even after a reset.
// This exception does not apply to gRPC, whose answer ends with trailers.
static bool is_answer(const struct weir_health_http *http, CURLcode code) {
	bool is_grpc = http->params.check->type == WEIR_CHECK_GRPC;

	if (http->answer.enough) {
		return code == CURLE_OK || code == CURLE_WRITE_ERROR;
	}
	return code == CURLE_OK && (is_grpc || weir_health_relay_error(http->relay) == 0);
}

// End a stopped probe. The probe is not accessed after `done` was called.
static void finish(struct weir_health_http *http, enum weir_probe_outcome outcome,
	const char *detail, const struct weir_report *report) {
	weir_probe_fn done = http->params.done;
	void *context = http->params.context;

	put_back(http);
	done(context, outcome, detail, report);
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
	weir_health_curl_stop(&http->transfer);
	finish(http, WEIR_PROBE_FAILED, detail, NULL);
}

static void on_ended(struct weir_health_transfer *transfer, CURLcode code) {
	struct weir_health_http *http = (struct weir_health_http *)transfer;
	bool answered = is_answer(http, code);
	struct weir_report report;
	enum weir_probe_outcome outcome;
	char detail[96];
	long status = 0;

	if (answered) {
		curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
		outcome = weir_health_answer_judge(&http->answer, status, detail, sizeof(detail));
	} else {
		outcome = judge_error(http, code, detail, sizeof(detail));
	}
	report = http->answer.report;
	finish(http, outcome, detail, answered ? &report : NULL);
}

static struct weir_health_http *make(struct weir_health_curl *curl) {
	struct weir_health_http *http = calloc(1, sizeof(*http));

	if (http != NULL) {
		http->curl = curl;
		http->transfer.ended = on_ended;
		http->transfer.free = probe_free;
		uv_timer_init(weir_health_curl_loop(curl), &http->timer);
		http->timer.data = http;
	}
	return http;
}

// Returns an idle or new probe, or NULL if out of memory. The curl handle is always new, which
// costs 1 us. With a handle that had headers before, libcurl before 8.1.0 writes to freed memory if
// the first header is a continuation line.
static struct weir_health_http *take(struct weir_health_curl *curl) {
	struct weir_health_http *http = (struct weir_health_http *)weir_health_curl_take(curl);

	if (http == NULL) {
		http = make(curl);
	}
	if (http == NULL) {
		return NULL;
	}
	http->transfer.easy = curl_easy_init();
	if (http->transfer.easy == NULL) {
		weir_health_curl_keep(curl, &http->transfer);
		return NULL;
	}
	return http;
}

// --- options ------------------------------------------------------------------------------

static int append(struct curl_slist **list, const char *line) {
	struct curl_slist *longer = curl_slist_append(*list, line);

	if (longer == NULL) {
		return -ENOMEM;
	}
	*list = longer;
	return 0;
}

static int set_headers(struct weir_health_http *http) {
	const char *host = http->params.check->host;
	char line[300];
	bool grpc = http->params.check->type == WEIR_CHECK_GRPC;
	int r = append(
		&http->headers, grpc ? "content-type: application/grpc" : "Connection: close");

	if (!r && grpc) {
		r = append(&http->headers, "te: trailers");
	}
	// Some servers send a load report only if the request has this header.
	if (!r && http->params.check->orca) {
		r = append(&http->headers, "endpoint-load-metrics-format: TEXT");
	}
	if (!r && host[0] != '\0') {
		snprintf(line, sizeof(line), "Host: %s", host);
		r = append(&http->headers, line);
	}
	return r;
}

// Format the backend's address as in a URL.
static void format_address(const struct weir_health_http *http, char *text, size_t bytes) {
	bool ipv6 = http->params.address.family == 6;
	char address[INET6_ADDRSTRLEN];

	weir_address_format(&http->params.address, address, sizeof(address));
	snprintf(text, bytes, "%s%s%s", ipv6 ? "[" : "", address, ipv6 ? "]" : "");
}

void weir_health_server_name(
	const struct weir_config_health_check *check, char name[WEIR_HEALTH_NAME_BYTES]) {
	const char *host = check->server_name[0] != '\0' ? check->server_name : check->host;
	const char *end = host[0] == '[' ? strchr(host, ']') : host; // skip an IPv6 address
	const char *colon = end != NULL ? strchr(end, ':') : NULL;
	size_t n = colon != NULL ? (size_t)(colon - host) : strlen(host);

	memcpy(name, host, n);
	name[n] = '\0';
}

// Use the server name as the host of the URL, so that curl sends and verifies the name. CONNECT_TO
// still directs the connection to the address, without a name lookup.
static int set_tls(struct weir_health_http *http, char name[WEIR_HEALTH_NAME_BYTES]) {
	const struct weir_config_health_check *check = http->params.check;
	CURL *easy = http->transfer.easy;
	char address[INET6_ADDRSTRLEN + 2], line[INET6_ADDRSTRLEN + 16];
	char server[WEIR_HEALTH_NAME_BYTES];

	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, check->verify ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, check->verify ? 2L : 0L);
	curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(easy, CURLOPT_SSL_CIPHER_LIST, CIPHERS);
	// curl does not cache CA certificates if a CApath is set.
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, check->verify ? CA_CACHE_S : 0L);
	if (!check->verify) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, NULL); // do not read an unused file
	} else if (check->ca_file[0] != '\0') {
		curl_easy_setopt(easy, CURLOPT_CAINFO, check->ca_file);
	}
	weir_health_server_name(check, server);
	if (server[0] == '\0') {
		return 0;
	}
	format_address(http, address, sizeof(address));
	snprintf(line, sizeof(line), "::%s:%u", address, http->params.port);
	memcpy(name, server, sizeof(server));
	if (append(&http->connect_to, line)) {
		return -ENOMEM;
	}
	curl_easy_setopt(easy, CURLOPT_CONNECT_TO, http->connect_to);
	return 0;
}

static void set_method(CURL *easy, enum weir_config_method method) {
	if (method == WEIR_METHOD_HEAD) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (method != WEIR_METHOD_GET) {
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, weir_config_method_name(method));
	}
}

static void set_grpc(struct weir_health_http *http) {
	const struct weir_config_health_check *check = http->params.check;
	size_t bytes = weir_grpc_request(check->grpc_service, http->request);
	CURL *easy = http->transfer.easy;

	// Without TLS, HTTP/2 is assumed (prior knowledge); with TLS it is negotiated (ALPN).
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
		(long)(check->tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, (char *)http->request);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)bytes);
}

static void set_callbacks(struct weir_health_http *http) {
	CURL *easy = http->transfer.easy;

	http->error[0] = '\0';
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, http);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, http);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
}

static bool has_tls(const struct weir_config_health_check *check) {
	return check->type == WEIR_CHECK_HTTPS || (check->type == WEIR_CHECK_GRPC && check->tls);
}

static int set_options(struct weir_health_http *http) {
	const struct weir_config_health_check *check = http->params.check;
	bool grpc = check->type == WEIR_CHECK_GRPC;
	bool tls = has_tls(check);
	CURL *easy = http->transfer.easy;
	char name[WEIR_HEALTH_NAME_BYTES];

	format_address(http, name, sizeof(name));
	if (set_headers(http) || (tls && set_tls(http, name))) {
		return -ENOMEM;
	}
	snprintf(http->url, sizeof(http->url), "http%s://%s:%u%s", tls ? "s" : "", name,
		http->params.port, grpc ? WEIR_GRPC_PATH : check->url.path);
	curl_easy_setopt(easy, CURLOPT_URL, http->url);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
	// Do not cache addresses. Otherwise curl caches numeric addresses like names, and scans the
	// whole cache each time.
	curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, NEVER_MS);
	if (grpc) {
		set_grpc(http);
	} else {
		set_method(easy, check->method);
	}
	set_callbacks(http);
	return 0;
}

static const char *ca_file_of(const struct weir_config_health_check *check) {
	return check->verify ? check->ca_file : "";
}

static int start_transfer(struct weir_health_http *http) {
	return weir_health_curl_start(http->curl, ca_file_of(http->params.check), &http->transfer);
}

// Called when the relay could not connect or accept libcurl's connection, or got too many bytes.
static void on_relay_failed(void *context, int error) {
	struct weir_health_http *http = context;
	enum weir_probe_outcome outcome = weir_probe_outcome_of(error);
	char detail[96];

	if (error == -EMSGSIZE) {
		judge_excess(detail, sizeof(detail));
	} else {
		snprintf(detail, sizeof(detail), "%s", uv_strerror(error));
	}
	weir_health_curl_stop(&http->transfer);
	finish(http, outcome, detail, NULL);
}

static void on_relay_connected(void *context, const char *name) {
	struct weir_health_http *http = context;

	if (curl_easy_setopt(http->transfer.easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name) != CURLE_OK ||
		start_transfer(http)) {
		finish(http, WEIR_PROBE_UNKNOWN, "out of memory", NULL);
	}
}

static int start(struct weir_health_http *http) {
	const struct weir_probe_params *params = &http->params;

	if (set_options(http)) {
		return -ENOMEM;
	}
	return weir_health_relay_start(
		http->timer.loop, params, on_relay_connected, on_relay_failed, http, &http->relay);
}

int weir_health_http_start(struct weir_health_curl *curl, const struct weir_probe_params *params,
	struct weir_health_http **ret) {
	struct weir_health_http *http = take(curl);
	int r;

	if (http == NULL) {
		return -ENOMEM;
	}
	http->params = *params;
	http->no_socket = 0;
	weir_health_answer_init(&http->answer, params->check);
	r = start(http);
	if (r) {
		put_back(http);
		return r;
	}
	uv_timer_start(&http->timer, on_deadline,
		weir_probe_deadline_init(&http->deadline, http->timer.loop, params->check), 0);
	*ret = http;
	return 0;
}

void weir_health_http_cancel(struct weir_health_http *http) {
	weir_health_curl_stop(&http->transfer);
	put_back(http);
}
