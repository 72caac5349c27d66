// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: a client sends arbitrary bytes to the complete server of weir-metrics, through
// libmicrohttpd. weir-control does not run, so the served documents report this.
//
// The length of the input determines the sizes of the pieces in which it is sent.
//
// Checked: the connection is closed after the client has sent everything, with or without an
// answer (H1). If a document is served, the request was GET or HEAD with one permitted Host
// header, the answer has all headers that protect it from other sites (H3), and its Content-Length
// header is correct.
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "documents.h"
#include "fuzz.h"
#include "log.h"
#include "server.h"

#define ANSWER_BYTES_MAX (1u << 20)
#define DEADLINE_MS 60000
#define NOWHERE "/nonexistent"

static struct rig {
	struct weir_log log;
	struct weir_documents *documents;
	struct weir_server *server;
	struct sockaddr_un name;
	socklen_t name_bytes;
	char answer[ANSWER_BYTES_MAX + 1];
} rig;

static const char *const secured[] = {"Content-Security-Policy: default-src 'none';",
	"Cross-Origin-Resource-Policy: same-origin", "X-Content-Type-Options: nosniff",
	"Connection: close"};
static const char *const names[] = {"balancer.example.com"};

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	struct weir_server_params params = {.hosts = names, .host_count = 1, .log = &rig.log};

	(void)argc;
	(void)argv;
	rig.log.level = WEIR_LOG_ERROR;
	rig.log.fd = STDERR_FILENO;
	// The kernel assigns an abstract address, so that no file remains and no port is used.
	rig.name.sun_family = AF_UNIX;
	rig.name_bytes = sizeof(rig.name);
	params.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	REQUIRE(params.fd >= 0);
	REQUIRE(bind(params.fd, (struct sockaddr *)&rig.name, sizeof(sa_family_t)) == 0);
	REQUIRE(getsockname(params.fd, (struct sockaddr *)&rig.name, &rig.name_bytes) == 0);
	REQUIRE(listen(params.fd, 8) == 0);
	REQUIRE(weir_documents_create(NOWHERE, 1000, true, &rig.log, &rig.documents) == 0);
	params.documents = rig.documents;
	REQUIRE(weir_server_create(&params, &rig.server) == 0);
	return 0;
}

// --- client -------------------------------------------------------------------------------

// Sends the input and reads the complete answer. Returns the length of the answer.
static size_t talk(const uint8_t *data, size_t bytes) {
	size_t piece = bytes % 7 == 0 ? bytes / 3 + 1 : bytes, answered = 0;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused = false, sent_all = false;

	REQUIRE(fd >= 0);
	while (connect(fd, (struct sockaddr *)&rig.name, rig.name_bytes) != 0) {
		REQUIRE(errno == EAGAIN); // the accept queue is full
		poll(NULL, 0, 1);
	}
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN | (bytes > 0 ? POLLOUT : 0)};
		ssize_t n;

		if (bytes == 0 && !sent_all) {
			shutdown(fd, SHUT_WR);
			sent_all = true;
		}
		REQUIRE(poll(&wait, 1, DEADLINE_MS) == 1);
		if (bytes > 0 && (wait.revents & POLLOUT) != 0) {
			n = send(fd, data, bytes < piece ? bytes : piece, MSG_NOSIGNAL);
			refused = refused || (n < 0 && errno != EAGAIN);
			data += n > 0 ? n : 0;
			bytes = refused ? 0 : bytes - (size_t)(n > 0 ? n : 0);
		}
		if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
			continue;
		}
		n = recv(fd, rig.answer + answered, ANSWER_BYTES_MAX - answered, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			break;
		}
		answered += n > 0 ? (size_t)n : 0;
		REQUIRE(answered < ANSWER_BYTES_MAX);
	}
	close(fd);
	rig.answer[answered] = '\0';
	return answered;
}

// --- answer -------------------------------------------------------------------------------

static const char *find(const char *text, size_t bytes, const char *part) {
	return memmem(text, bytes, part, strlen(part));
}

// libmicrohttpd is lenient: it accepts lines of NULs before a request, and NULs after its method.
static void check_served(const uint8_t *data, size_t bytes, size_t head, size_t body) {
	const char *length = find(rig.answer, head, "\r\nContent-Length: ");
	const char *request = (const char *)data;
	bool headers_only = find(request, bytes, "HEAD") != NULL;

	REQUIRE(headers_only || find(request, bytes, "GET") != NULL);
	REQUIRE(find(request, bytes, ":") != NULL); // the colon of a Host header
	for (size_t i = 0; i < sizeof(secured) / sizeof(secured[0]); i++) {
		REQUIRE(find(rig.answer, head, secured[i]) != NULL);
	}
	REQUIRE(length != NULL);
	REQUIRE(body == strtoul(length + 18, NULL, 10) || (headers_only && body == 0));
}

static void check(const uint8_t *data, size_t bytes, size_t answered) {
	const char *end = find(rig.answer, answered, "\r\n\r\n");
	unsigned long status;
	size_t head;

	REQUIRE(end != NULL);
	head = (size_t)(end - rig.answer) + 4;
	REQUIRE(memcmp(rig.answer, "HTTP/1.", 7) == 0);
	status = strtoul(rig.answer + 9, NULL, 10);
	REQUIRE(status == 200 || (status >= 400 && status < 506));
	if (status == 200) {
		check_served(data, bytes, head, answered - head);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	size_t answered = talk(data, bytes);

	if (answered > 0) {
		check(data, bytes, answered);
	}
	return 0;
}
