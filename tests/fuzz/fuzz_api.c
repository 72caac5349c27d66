// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: a client of the control socket sends arbitrary bytes to the complete loop of
// weir-control with an attached segment, in an isolated network namespace. The bytes after the
// first NUL of the input are the content of the file NEW_FILE, which requests can name.
//
// The length of the input determines the sizes of the pieces in which it is sent. Most of the
// time is spent on connecting, and on restarting weir-control after a change. Therefore the
// mutator puts many different requests into most inputs. At the end "requests: <n>" is printed
// with the total number of requests.
//
// Checked: one answer per request line (A1), each as specified in docs/reference/control-api.md;
// the tables can still be published.
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api.h"
#include "api_commands.h"
#include "api_socket.h"
#include "daemon.h"
#include "fuzz.h"
#include "handover.h"
#include "mailbox.h"
#include "run_dir.h"
#include "selection.h"
#include "served.h"
#include "service_table.h"

#define USED_FD 101 // file descriptor of the configuration in use
#define USED_FILE "/proc/self/fd/101"
#define NEW_FD 102
#define NEW_FILE "/proc/self/fd/102"
#define PRIVATE_DIR "/mnt" // mounted for this process only: removed when it exits
#define DEADLINE_NS 60000000000ull
#define WORKERS 2
#define ANSWERS_BYTES_MAX (64u << 20)
#define LINES_MAX 128 // lines that the mutator puts into one input

static const char config_text[] =
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\",\n"
	"   \"gateway_mac\": \"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"}],\n"
	" \"services\": [{\"name\": \"web\", \"table_size\": 61, \"binds\": [\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80},\n"
	"   {\"address\": \"2001:db8:2::10\", \"protocol\": \"tcp\", \"port\": 80}],\n"
	"  \"backends\": [{\"name\": \"b-1\", \"address\": \"10.0.0.11\"},\n"
	"   {\"name\": \"b-2\", \"address\": \"10.0.0.12\", \"weight\": 50}]},\n"
	"  {\"name\": \"dns\", \"table_size\": 61,\n"
	"   \"policy\": {\"name\": \"round-robin\"}, \"affinity\": {}, \"binds\": [\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"udp\", \"port\": 0}],\n"
	"  \"backends\": [{\"name\": \"b-1\", \"address\": \"10.0.0.11\"}]}]}\n";

// The loop of weir-control in this process, and a dataplane without packets that passes a segment
// to this loop.
struct world {
	struct weir_daemon daemon;
	struct weir_api_socket socket;
	struct weir_api *api;
	struct weir_reload *reload;
	struct weir_log log;
	char dir[32]; // run directory
	struct weir_segment *segment; // the dataplane's mapping
	struct weir_handover_server *server;
	struct weir_reader reader[WORKERS];
	uint64_t publications; // publications before the input
	const struct weir_config *config; // configuration before the input
};

static struct world *world; // used again until an input changes it
static unsigned long requests_in_all;
static char answer_text[ANSWERS_BYTES_MAX]; // the answers to one input

// --- set-up -----------------------------------------------------------------------------------

static struct weir_segment *make_segment(void) {
	static const struct weir_port_info port = {
		.name = "wan", .mtu = 1500, .mac = {2, 0, 0, 0, 0, 2}};
	const struct weir_segment_params params = {.workers = WORKERS,
		.ports = 1,
		.max_services = 8,
		.max_backends = 32,
		.heap_bytes = 1 << 20,
		.tsc_hz = 1000000000,
		.hash_seed = 7,
		.port_info = &port};
	struct weir_segment *segment;

	REQUIRE(weir_segment_create(&params, &segment) == 0);
	return segment;
}

static void turn(void) {
	const struct weir_handover offer = {.statistics_fd = world->segment->statistics_fd,
		.tables_fd = world->segment->tables_fd};

	REQUIRE(weir_handover_serve(world->server, &offer) >= 0);
	REQUIRE(weir_segment_follow(world->segment) == 0);
	uv_run(&world->daemon.loop, UV_RUN_NOWAIT);
}

static void open_daemon(void) {
	struct weir_config_errors errors;
	char why[320] = "";

	world->log.level = WEIR_LOG_DEBUG;
	world->log.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	REQUIRE(world->log.fd >= 0);
	REQUIRE(weir_reload_create(USED_FILE, true, &world->reload, &errors) == 0);
	weir_config_errors_fini(&errors);
	if (weir_run_dir_make_control(world->dir, (uid_t)-1, (gid_t)-1, why, sizeof(why)) < 0 ||
		weir_api_socket_open(world->dir, &world->socket, why, sizeof(why)) < 0) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
	REQUIRE(weir_daemon_init(&world->daemon, world->dir, "fuzz", &world->log, world->reload) ==
		0);
	REQUIRE(weir_api_create(&world->daemon.loop, world->socket.fd, weir_api_dispatch,
			&world->daemon, &world->api) == 0);
	world->socket.fd = -1; // the API owns the descriptor now
	// Do not handle signals, so that they stop the target as usual.
	uv_signal_stop(&world->daemon.terminate);
	uv_signal_stop(&world->daemon.interrupt);
}

// Returns whether control is attached, every next hop is resolved, and everything is published.
static bool is_settled(void) {
	const struct weir_daemon *daemon = &world->daemon;
	struct weir_backend_state state;

	if (daemon->segment == NULL || daemon->dirty) {
		return false;
	}
	for (uint32_t id = 0; id < weir_tables_backend_ids(daemon->tables); id++) {
		if (weir_tables_backend(daemon->tables, (uint16_t)id, &state) == 0 &&
			!state.resolved) {
			return false;
		}
	}
	return true;
}

static void open_world(void) {
	uint64_t deadline = weir_daemon_now_ns() + DEADLINE_NS;

	world = calloc(1, sizeof(*world));
	REQUIRE(world != NULL);
	strcpy(world->dir, PRIVATE_DIR "/run-XXXXXX");
	REQUIRE(mkdtemp(world->dir) != NULL);
	world->segment = make_segment();
	REQUIRE(weir_handover_listen(&(struct weir_handover_params){.run_dir = world->dir,
					     .control_user = (uid_t)-1,
					     .group = (gid_t)-1},
			&world->server) == 0);
	open_daemon();
	while (!is_settled()) {
		turn();
		REQUIRE(weir_daemon_now_ns() < deadline);
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		REQUIRE(weir_reader_init(&world->reader[i], world->segment, i, NULL, NULL) == 0);
	}
}

static void close_world(void) {
	char control[sizeof(world->dir) + sizeof(WEIR_CONTROL_DIR) + 1];
	char stored[sizeof(world->dir) + sizeof(WEIR_RELOAD_STORED) + 1];
	char served[sizeof(world->dir) + sizeof(WEIR_SERVED_FILE) + 1];

	for (uint32_t i = 0; i < WORKERS; i++) {
		weir_reader_fini(&world->reader[i]);
	}
	weir_api_close(world->api, NULL);
	weir_daemon_fini(&world->daemon);
	weir_api_socket_close(&world->socket);
	weir_reload_free(world->reload);
	close(world->log.fd);
	weir_handover_server_free(world->server);
	weir_segment_free(world->segment);
	snprintf(control, sizeof(control), "%s/" WEIR_CONTROL_DIR, world->dir);
	snprintf(stored, sizeof(stored), "%s/" WEIR_RELOAD_STORED, world->dir);
	snprintf(served, sizeof(served), "%s/" WEIR_SERVED_FILE, world->dir);
	unlink(stored);
	unlink(served);
	REQUIRE(rmdir(control) == 0);
	REQUIRE(rmdir(world->dir) == 0);
	free(world);
	world = NULL;
}

static void note_state(void) {
	world->publications = world->segment->notes->publications;
	world->config = weir_reload_config(world->reload);
}

static bool is_changed(void) {
	return world->segment->notes->publications != world->publications ||
	       weir_reload_config(world->reload) != world->config || world->daemon.dirty;
}

// --- the workers ------------------------------------------------------------------------------

// Answers a request about a client. The last byte of its address decides what is remembered.
static void answer_source(struct weir_reader *reader, struct weir_message *message) {
	__typeof__(message->source) *source = &message->source;
	const uint8_t last = source->address[source->family == 4 ? 3 : 15];

	REQUIRE(source->family == 4 || source->family == 6);
	source->answered = 1;
	source->found = last % 2;
	source->proven = last / 2 % 2;
	source->entry = last / 4 % 5;
	source->backend = source->found ? last % 7 : WEIR_BACKEND_NONE;
	source->left_ms = last * 1000u;
	source->chosen = weir_selection_choose(
		weir_reader_selection(reader, source->service), source->address[0]);
}

// Answers a request from the published tables, as a worker would. Worker 1 has the flows with odd
// source ports.
static void answer(struct weir_reader *reader, uint32_t worker, struct weir_message *message) {
	__typeof__(message->flow) *flow = &message->flow;

	if (message->kind == WEIR_MESSAGE_SOURCE_LOOKUP) {
		answer_source(reader, message);
		return;
	}
	REQUIRE(message->kind == WEIR_MESSAGE_FLOW_LOOKUP);
	REQUIRE(flow->family == 4 || flow->family == 6);
	flow->hash = flow->source_port * 0x9e3779b97f4a7c15ull;
	flow->service = weir_service_lookup(weir_reader_services(reader), flow->destination,
		flow->family, flow->protocol, flow->destination_port);
	if (flow->service != WEIR_SERVICE_NONE) {
		flow->chosen = weir_selection_choose(
			weir_reader_selection(reader, flow->service), flow->hash);
		if (worker == 1 && flow->source_port % 2 == 1) {
			flow->found = 1;
			flow->state = flow->source_port % 5;
			flow->backend = flow->source_port % 7;
		}
	}
}

static void turn_workers(void) {
	for (uint32_t i = 0; i < WORKERS; i++) {
		const struct weir_control_box *control = &world->segment->control_boxes[i];
		struct weir_worker_box *worker = &world->segment->worker_boxes[i];
		struct weir_message message;

		weir_reader_settle(&world->reader[i]);
		while (weir_mailbox_receive(&control->request, &worker->request, &message)) {
			answer(&world->reader[i], i, &message);
			REQUIRE(weir_mailbox_send(&worker->response, &control->response, &message));
		}
	}
}

// --- the client -------------------------------------------------------------------------------

struct client {
	int fd;
	const uint8_t *data;
	size_t bytes; // bytes still to be sent
	size_t piece; // maximum number of bytes per send
	char *answers;
	size_t answer_bytes;
	bool ended;
};

static void send_some(struct client *client) {
	size_t n = client->bytes < client->piece ? client->bytes : client->piece;
	ssize_t sent;

	if (n == 0) {
		return;
	}
	sent = send(client->fd, client->data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent > 0) {
		client->data += sent;
		client->bytes -= (size_t)sent;
	} else {
		REQUIRE(sent < 0 && errno == EAGAIN);
	}
	if (client->bytes == 0) {
		shutdown(client->fd, SHUT_WR);
	}
}

static void receive_some(struct client *client) {
	ssize_t n = recv(client->fd, client->answers + client->answer_bytes,
		ANSWERS_BYTES_MAX - client->answer_bytes, MSG_DONTWAIT);

	if (n > 0) {
		client->answer_bytes += (size_t)n;
		REQUIRE(client->answer_bytes < ANSWERS_BYTES_MAX);
	} else if (n == 0) {
		client->ended = true;
	} else {
		REQUIRE(errno == EAGAIN);
	}
}

static void talk(struct client *client) {
	uint64_t deadline = weir_daemon_now_ns() + DEADLINE_NS;
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, world->socket.path);
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(client->fd >= 0 &&
		connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	if (client->bytes == 0) {
		shutdown(client->fd, SHUT_WR);
	}
	while (!client->ended) {
		send_some(client);
		turn();
		turn_workers();
		receive_some(client);
		REQUIRE(weir_daemon_now_ns() < deadline);
	}
	close(client->fd);
	while (weir_api_clients(world->api) > 0) {
		turn();
	}
}

// --- answers ----------------------------------------------------------------------------------

static unsigned int count_requests(const uint8_t *data, size_t bytes) {
	unsigned int count = 0;
	bool blank = true;

	for (size_t i = 0; i < bytes; i++) {
		if (data[i] == '\n') {
			count += !blank;
			blank = true;
		} else if (data[i] != ' ' && data[i] != '\t' && data[i] != '\r') {
			blank = false;
		}
	}
	return count + !blank;
}

static bool is_code(const char *code) {
#define X(name, key) \
	if (strcmp(code, weir_api_code_name(WEIR_API_##name)) == 0) { \
		return true; \
	}
	WEIR_API_CODES(X)
#undef X
	return false;
}

static void check_answer(const char *line, size_t bytes) {
	json_error_t error;
	json_t *answer = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
	const json_t *ok = json_object_get(answer, "ok");

	REQUIRE(json_is_object(answer) && json_is_boolean(ok));
	if (json_is_true(ok)) {
		REQUIRE(json_object_get(answer, "result") != NULL && json_object_size(answer) == 2);
	} else {
		const char *code = json_string_value(json_object_get(answer, "code"));
		const char *text = json_string_value(json_object_get(answer, "error"));

		REQUIRE(code != NULL && is_code(code) && text != NULL && text[0] != '\0');
		REQUIRE(strcmp(code, weir_api_code_name(WEIR_API_INTERNAL)) != 0);
	}
	json_decref(answer);
}

static void check_answers(const struct client *client, unsigned int requests) {
	const char *at = client->answers;
	size_t left = client->answer_bytes;
	unsigned int answers = 0;

	while (left > 0) {
		const char *newline = memchr(at, '\n', left);

		REQUIRE(newline != NULL);
		check_answer(at, (size_t)(newline - at));
		left -= (size_t)(newline + 1 - at);
		at = newline + 1;
		answers++;
	}
	REQUIRE(answers == requests);
}

// --- the target -------------------------------------------------------------------------------

static void print_requests(void) {
	fprintf(stderr, "requests: %lu\n", requests_in_all);
}

static void make_file(int fd, const void *data, size_t bytes) {
	REQUIRE(ftruncate(fd, 0) == 0);
	REQUIRE(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
}

static void open_file(int fd) {
	int made = memfd_create("fuzz", 0);

	REQUIRE(made >= 0 && dup2(made, fd) == fd);
	close(made);
}

__attribute__((format(printf, 2, 3))) static bool write_text(
	const char *file, const char *format, ...) {
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	va_list arguments;
	bool written;

	if (fd < 0) {
		return false;
	}
	va_start(arguments, format);
	written = vdprintf(fd, format, arguments) > 0;
	va_end(arguments);
	close(fd);
	return written;
}

// Creates a user namespace if the user is not root, so that the process can create other
// namespaces.
static bool become_root(void) {
	uid_t uid = geteuid();
	gid_t gid = getegid();

	return uid == 0 ||
	       (unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/setgroups", "deny") &&
		       write_text("/proc/self/uid_map", "0 %u 1", uid) &&
		       write_text("/proc/self/gid_map", "0 %u 1", gid));
}

// Isolates this process, so that health checks of a configured backend reach no host, and no
// files remain.
static void leave_world(void) {
	if (!become_root() || unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("fuzz", PRIVATE_DIR, "tmpfs", MS_NODEV | MS_NOSUID, NULL) < 0) {
		perror("no namespaces");
		exit(1);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	leave_world();
	open_file(USED_FD);
	open_file(NEW_FD);
	make_file(USED_FD, config_text, strlen(config_text));
	atexit(print_requests);
	return 0;
}

// Writes a modified copy of a line of data[0..lines_end) to data[at]. Returns the new end of the
// data.
static size_t append_line(
	uint8_t *data, size_t lines_end, size_t at, size_t max_bytes, unsigned int *seed) {
	size_t begin = (size_t)rand_r(seed) % lines_end, end, bytes;

	while (begin > 0 && data[begin - 1] != '\n') {
		begin--;
	}
	for (end = begin; end < lines_end && data[end] != '\n';) {
		end++;
	}
	bytes = end - begin;
	if (bytes == 0 || at + bytes + 1 >= max_bytes) {
		return at;
	}
	memcpy(data + at, data + begin, bytes);
	bytes = LLVMFuzzerMutate(data + at, bytes, max_bytes - at - 1);
	data[at + bytes] = '\n';
	return at + bytes + 1;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed) {
	unsigned int lines;
	size_t at = bytes;

	if (rand_r(&seed) % 4 == 0 || bytes == 0 || bytes + 1 >= max_bytes ||
		memchr(data, '\0', bytes) != NULL) {
		return LLVMFuzzerMutate(data, bytes, max_bytes);
	}
	data[at++] = '\n';
	lines = 1 + (unsigned int)rand_r(&seed) % LINES_MAX;
	for (unsigned int i = 0; i < lines; i++) {
		at = append_line(data, bytes, at, max_bytes, &seed);
	}
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const uint8_t *nul = bytes > 0 ? memchr(data, '\0', bytes) : NULL;
	size_t sent = nul != NULL ? (size_t)(nul - data) : bytes;
	struct client client = {.data = data,
		.bytes = sent,
		.piece = bytes % 4 == 3 ? 11 : 65536,
		.answers = answer_text};
	unsigned int requests;

	make_file(NEW_FD, nul != NULL ? nul + 1 : data, nul != NULL ? bytes - sent - 1 : 0);
	if (world == NULL) {
		open_world();
	}
	note_state();
	talk(&client);
	requests = count_requests(data, sent);
	requests_in_all += requests;
	check_answers(&client, requests);
	REQUIRE(weir_daemon_publish(&world->daemon) == 0);
	if (is_changed()) { // each input starts from the initial state
		close_world();
	}
	return 0;
}
