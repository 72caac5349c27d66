// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clocks.h"
#include "page.h"
#include "request_check.h"

#define BLOCK_BYTES (64u << 10)
#define LINE_BYTES 320

struct connection { // a slot for a connection
	int fd; // -1 = free
	uint64_t since_ms;
	bool requested; // the request is complete
};

struct weir_server {
	struct weir_server_params params;
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock; // protects the array of connections
	struct connection connections[WEIR_SERVER_CONNECTIONS];
};

struct resource {
	const char *path, *type;
	const char *data; // NULL = the resource is a document (documents.h)
	const size_t *bytes;
	enum weir_document_kind kind;
};

static const struct resource resources[] = {
	{.path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8"},
	{"/", "text/html; charset=utf-8", weir_page_html, &weir_page_html_bytes, 0},
	{"/page.css", "text/css; charset=utf-8", weir_page_css, &weir_page_css_bytes, 0},
	{"/page.js", "text/javascript; charset=utf-8", weir_page_js, &weir_page_js_bytes, 0},
	{.path = "/status.json", .type = "application/json", .kind = WEIR_DOCUMENT_STATUS},
};

static const char *const headers[][2] = {
	{"Connection", "close"},
	{"Cache-Control", "no-store"},
	{"Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Content-Type-Options", "nosniff"},
};

// --- replies ----------------------------------------------------------------------------------

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned int status,
	const char *type, struct MHD_Response *response) {
	enum MHD_Result done;

	if (response == NULL) {
		return MHD_NO; // closes the connection
	}
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		MHD_add_response_header(response, headers[i][0], headers[i][1]);
	}
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	}
	MHD_add_response_header(response, "Content-Type", type);
	done = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return done;
}

static enum MHD_Result refuse(
	struct MHD_Connection *connection, unsigned int status, const char *why) {
	return reply(connection, status, "text/plain; charset=utf-8",
		MHD_create_response_from_buffer(strlen(why), (void *)why, MHD_RESPMEM_MUST_COPY));
}

static ssize_t read_document(void *context, uint64_t at, char *buffer, size_t room) {
	const struct weir_document *document = context;
	size_t left = document->bytes - (size_t)at;

	if (left == 0) {
		return MHD_CONTENT_READER_END_OF_STREAM;
	}
	memcpy(buffer, document->data + at, left < room ? left : room);
	return (ssize_t)(left < room ? left : room);
}

static void free_document(void *context) {
	weir_document_release(context);
}

static enum MHD_Result reply_document(struct weir_server *server, struct MHD_Connection *connection,
	const struct resource *resource) {
	const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
	enum weir_document_kind kind = resource->kind;
	const char *type = resource->type;
	struct weir_document *document;
	struct MHD_Response *response;

	if (kind == WEIR_DOCUMENT_TEXT && weir_request_wants_openmetrics(accept)) {
		kind = WEIR_DOCUMENT_OPENMETRICS;
		type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
	}
	if (weir_documents_get(server->params.documents, kind, &document) < 0) {
		return refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	}
	response = MHD_create_response_from_callback(
		document->bytes, BLOCK_BYTES, read_document, document, free_document);
	if (response == NULL) {
		weir_document_release(document);
	}
	return reply(connection, MHD_HTTP_OK, type, response);
}

// --- requests ---------------------------------------------------------------------------------

struct seen { // what was found in a request: its Host headers, and whether it has a body
	const char *host;
	unsigned int hosts;
	bool body;
};

static enum MHD_Result see(
	void *context, enum MHD_ValueKind kind, const char *key, const char *value) {
	struct seen *seen = context;

	(void)kind;
	if (strcasecmp(key, "Host") == 0) {
		seen->host = value;
		seen->hosts++;
	} else if (strcasecmp(key, "Transfer-Encoding") == 0 ||
		   (strcasecmp(key, "Content-Length") == 0 && value != NULL &&
			   strcmp(value, "0") != 0)) {
		seen->body = true;
	}
	return MHD_YES;
}

// Returns whether a request is refused. If so, sends an error response, and *ret is the value that
// the handler must return.
static bool is_refused(struct weir_server *server, struct MHD_Connection *connection,
	const char *method, enum MHD_Result *ret) {
	struct seen seen = {.hosts = 0};
	char why[LINE_BYTES];

	MHD_get_connection_values(connection, MHD_HEADER_KIND, see, &seen);
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		*ret = refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD only\n");
		return true;
	}
	if (seen.hosts != 1 || seen.host == NULL || seen.body) {
		*ret = refuse(connection, MHD_HTTP_BAD_REQUEST,
			seen.body ? "requests must have no body\n"
				  : "exactly one Host header is required\n");
		return true;
	}
	if (!weir_request_host_allowed(
		    seen.host, server->params.hosts, server->params.host_count)) {
		snprintf(why, sizeof(why),
			"host name not allowed: use an address or localhost, or start weir-metrics "
			"with --host NAME\n");
		*ret = refuse(connection, MHD_HTTP_FORBIDDEN, why);
		return true;
	}
	return false;
}

static void note_request(struct weir_server *server, struct MHD_Connection *connection) {
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	pthread_mutex_lock(&server->lock);
	for (int i = 0; i < WEIR_SERVER_CONNECTIONS && info != NULL; i++) {
		server->connections[i].requested |= server->connections[i].fd == info->connect_fd;
	}
	pthread_mutex_unlock(&server->lock);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *body, size_t *body_bytes,
	void **request) {
	struct weir_server *server = context;
	enum MHD_Result done;

	(void)version;
	(void)body;
	(void)body_bytes;
	(void)request;
	note_request(server, connection);
	if (is_refused(server, connection, method, &done)) {
		return done;
	}
	for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
		const struct resource *resource = &resources[i];

		if (strcmp(resource->path, path) != 0) {
			continue;
		}
		return resource->data == NULL
			       ? reply_document(server, connection, resource)
			       : reply(connection, MHD_HTTP_OK, resource->type,
					 MHD_create_response_from_buffer(*resource->bytes,
						 (void *)resource->data, MHD_RESPMEM_PERSISTENT));
	}
	return refuse(connection, MHD_HTTP_NOT_FOUND,
		"not found; the available paths are / and /metrics\n");
}

// --- connections ------------------------------------------------------------------------------

// Called by libmicrohttpd when a connection is opened and when it is closed. *slot_of: the slot of
// the connection. The slot is released before the descriptor is closed, so that weir_server_second
// cannot shut down a new connection with the same descriptor.
static void note_connection(void *context, struct MHD_Connection *connection, void **slot_of,
	enum MHD_ConnectionNotificationCode code) {
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct weir_server *server = context;
	struct connection *slot = *slot_of;

	pthread_mutex_lock(&server->lock);
	if (code == MHD_CONNECTION_NOTIFY_CLOSED && slot != NULL) {
		slot->fd = -1;
	}
	for (int i = 0; code == MHD_CONNECTION_NOTIFY_STARTED && info != NULL &&
			i < WEIR_SERVER_CONNECTIONS && *slot_of == NULL;
		i++) {
		if (server->connections[i].fd == -1) {
			server->connections[i] = (struct connection){
				.fd = info->connect_fd, .since_ms = weir_monotonic_ms()};
			*slot_of = &server->connections[i];
		}
	}
	pthread_mutex_unlock(&server->lock);
}

// Returns whether more than WEIR_SERVER_CROWDED connections are open. The caller must hold the
// lock.
static bool is_crowded(const struct weir_server *server) {
	unsigned int used = 0;

	for (int i = 0; i < WEIR_SERVER_CONNECTIONS; i++) {
		used += server->connections[i].fd >= 0;
	}
	return used > WEIR_SERVER_CROWDED;
}

void weir_server_second(struct weir_server *server) {
	uint64_t now = weir_monotonic_ms(), silent_ms;

	pthread_mutex_lock(&server->lock);
	silent_ms = is_crowded(server) ? WEIR_SERVER_SILENT_MS : WEIR_SERVER_CONNECTION_MS;
	for (int i = 0; i < WEIR_SERVER_CONNECTIONS; i++) {
		const struct connection *slot = &server->connections[i];

		if (slot->fd >= 0 &&
			now - slot->since_ms >
				(slot->requested ? WEIR_SERVER_CONNECTION_MS : silent_ms)) {
			// After the shutdown, the thread of libmicrohttpd closes the connection.
			shutdown(slot->fd, SHUT_RDWR);
		}
	}
	pthread_mutex_unlock(&server->lock);
}

// Callback of libmicrohttpd for percent-encoded characters in paths. Does not decode them, because
// no path of this server contains a character that must be encoded.
static size_t leave_escapes(void *context, struct MHD_Connection *connection, char *text) {
	(void)context;
	(void)connection;
	return strlen(text);
}

static void write_log(void *context, const char *format, va_list arguments) {
	struct weir_server *server = context;
	char line[LINE_BYTES];

	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = '\0';
	weir_log_write(server->params.log, WEIR_LOG_DEBUG, "libmicrohttpd: %s", line);
}

int weir_server_create(const struct weir_server_params *params, struct weir_server **ret) {
	struct weir_server *server = calloc(1, sizeof(*server));

	if (server == NULL) {
		return -ENOMEM;
	}
	server->params = *params;
	pthread_mutex_init(&server->lock, NULL);
	for (int i = 0; i < WEIR_SERVER_CONNECTIONS; i++) {
		server->connections[i].fd = -1;
	}
	server->daemon =
		MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ERROR_LOG,
			0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, write_log,
			server, MHD_OPTION_LISTEN_SOCKET, params->fd, MHD_OPTION_CONNECTION_LIMIT,
			(unsigned int)WEIR_SERVER_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
			(unsigned int)WEIR_SERVER_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
			(size_t)WEIR_SERVER_REQUEST_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
			MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, server,
			MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_END);
	if (server->daemon == NULL) {
		int r = errno > 0 ? -errno : -EIO;

		pthread_mutex_destroy(&server->lock);
		free(server);
		return r;
	}
	*ret = server;
	return 0;
}

void weir_server_free(struct weir_server *server) {
	if (server == NULL) {
		return;
	}
	MHD_stop_daemon(server->daemon); // also closes the listening socket
	pthread_mutex_destroy(&server->lock);
	free(server);
}
