// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: a malicious control process. A segment with real tables is overwritten with any
// bytes at any place; then the worker that uses it goes on, and a next control process attaches to
// it. Neither may crash or read outside of the segment.
//
// The input: a byte of options (enum option), then pieces: a byte that says where (enum place), an
// offset there (2 bytes, little endian), a number of bytes, these bytes. With RENEW instead: a
// table's reference is made anew, so that the worker adopts what now is there.
#include <errno.h>
#include <fcntl.h>
#include <rte_rcu_qsbr.h>
#include <unistd.h>

#include "balancer.h"
#include "blob.h"
#include "config.h"
#include "flow_query.h"
#include "frames.h"
#include "fuzz.h"
#include "selection.h"
#include "service_table.h"
#include "tables.h"

#define PIECES_MAX 64

enum option {
	FRESH = 0x01, // the worker has seen no table before
	NO_TABLES = 0x02, // nothing was published before
	AGAIN = 0x04, // a control process takes over before the worker goes on, too
	TABLES =
		0x08, // who takes over is all of weir-control's tables, not the writer alone (slow)
};

enum place {
	HEADER,
	ROOTS,
	QSBR,
	SERVICES,
	BACKENDS,
	SELECTION_0,
	SELECTION_1,
	IDENTITY,
	MAILBOXES,
	WORKER_COUNTERS,
	BACKEND_COUNTERS,
	HEAP,
	RENEW,
	PLACES,
};

static const char config_text[] =
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}],\n"
	" \"services\": [{\"name\": \"web\", \"table_size\": 61, \"subset\": {\n"
	"  \"algorithm\": \"deterministic\", \"size\": 2, \"client\": \"worker\"}, \"binds\": [\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80},\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port_first\": 8000,\n"
	"    \"port_last\": 8099},\n"
	"   {\"address\": \"2001:db8:2::10\", \"protocol\": \"tcp\", \"port\": 80}],\n"
	"  \"backends\": [{\"name\": \"b-0\", \"address\": \"10.0.0.11\"},\n"
	"   {\"name\": \"b-1\", \"address\": \"2001:db8:1::11\"},\n"
	"   {\"name\": \"b-2\", \"address\": \"10.0.0.13\"}]},\n"
	"  {\"name\": \"dns\", \"table_size\": 61, \"binds\": [\n"
	"   {\"address\": \"198.51.100.10\", \"protocol\": \"udp\", \"port\": 0},\n"
	"   {\"address\": \"2001:db8:2::10\", \"protocol\": \"udp\", \"port\": 0}],\n"
	"  \"backends\": [{\"name\": \"b-4\", \"address\": \"10.0.0.15\"},\n"
	"   {\"name\": \"b-9\", \"address\": \"10.0.0.19\", \"weight\": 7}]}]}\n";

static struct weir_config *parse_config(void) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	if (weir_config_parse(config_text, strlen(config_text), &config, &errors) < 0) {
		fprintf(stderr, "%d: %s: %s\n", errors.error[0].line, errors.error[0].path,
			errors.error[0].reason);
		abort();
	}
	weir_config_errors_fini(&errors);
	return config;
}

// --- the control process ----------------------------------------------------------------------

static void resolve_all(struct weir_tables *tables) {
	for (uint32_t id = 0; id < weir_tables_backend_ids(tables); id++) {
		struct weir_next_hop hop = {
			.resolved = true, .port = (uint8_t)(id % 2), .mac = {2, 0, 0, 1, 0, 1}};
		struct weir_backend_state state;

		if (weir_tables_backend(tables, (uint16_t)id, &state) == 0) {
			weir_address_parse(state.address.family == 4 ? "192.0.2.1" : "2001:db8::1",
				&hop.source);
			weir_tables_set_next_hop(tables, (uint16_t)id, &hop);
		}
	}
}

// Who the ids are: those of balancer.h, under the names of config_text.
static void publish_identity(struct weir_writer *writer) {
	struct identity {
		struct weir_identity head;
		struct weir_identity_service service[2];
		struct weir_identity_backend backend[6];
	} *identity = weir_writer_alloc(writer, WEIR_BLOB_IDENTITY, sizeof(*identity));

	REQUIRE(identity != NULL);
	identity->head.services = 2;
	identity->head.backends = 6;
	identity->head.services_off = offsetof(struct identity, service);
	identity->head.backends_off = offsetof(struct identity, backend);
	strcpy(identity->service[0].name, "web");
	strcpy(identity->service[1].name, "dns");
	for (uint8_t id = 0; id < 6; id++) {
		struct weir_identity_backend *backend = &identity->backend[id];

		snprintf(backend->name, sizeof(backend->name), "b-%u", id);
		memcpy(backend->address, (uint8_t[]){10, 0, 0, (uint8_t)(11 + id)}, 4);
		backend->family = 4;
		backend->health_state = WEIR_HEALTH_HEALTHY;
		backend->service = id < 4 ? 0 : 1;
		backend->configured_weight = 100;
		backend->runtime_weight = WEIR_WEIGHT_UNSET;
	}
	REQUIRE(weir_writer_publish(
			writer, (struct weir_root){.kind = WEIR_BLOB_IDENTITY}, identity) == 0);
}

static void show(const struct weir_tables *tables) {
	for (uint32_t id = 0; id < weir_tables_backend_ids(tables); id++) {
		struct weir_backend_state state;

		if (weir_tables_backend(tables, (uint16_t)id, &state) == 0) {
			REQUIRE(strnlen(state.name, sizeof(state.name)) < sizeof(state.name));
			REQUIRE(strnlen(state.service, sizeof(state.service)) <
				sizeof(state.service));
			REQUIRE(state.admin <= WEIR_ADMIN_MAINTENANCE &&
				state.health <= WEIR_HEALTH_REFUSING);
			weir_tables_backend_parts(tables, (uint16_t)id);
		}
	}
	for (uint32_t id = 0; id < BALANCER_SERVICES; id++) {
		struct weir_service_state state;

		weir_tables_service(tables, (uint16_t)id, &state);
		weir_tables_service_name(tables, (uint16_t)id);
	}
}

static void write_some(struct weir_segment *segment) {
	const struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = 3};
	struct weir_writer_usage usage;
	struct weir_selection *blob;
	struct weir_writer *writer;

	REQUIRE(weir_writer_open(segment, &writer) == 0);
	blob = weir_writer_alloc(writer, WEIR_BLOB_SELECTION, sizeof(*blob));
	if (blob != NULL) {
		blob->service = 3;
		REQUIRE(weir_writer_publish(writer, root, blob) == 0);
		REQUIRE(weir_writer_current(writer, root) == blob);
	}
	weir_writer_usage(writer, &usage);
	REQUIRE(usage.used_bytes <= usage.heap_bytes);
	REQUIRE(usage.retired_bytes <= usage.used_bytes);
	REQUIRE(weir_writer_publish(writer, root, NULL) == 0);
	weir_writer_reclaim(writer);
	weir_writer_free(writer);
}

static void rule(struct weir_segment *segment) {
	struct weir_config *config;
	struct weir_tables *tables;
	char why[256] = "";

	if (weir_tables_open(segment, &tables) < 0) {
		return;
	}
	config = parse_config();
	show(tables);
	if (weir_tables_apply(tables, config, why, sizeof(why)) == 0) {
		resolve_all(tables);
		weir_tables_publish(tables);
		weir_tables_set_admin(tables, 1, WEIR_ADMIN_DRAIN);
		weir_tables_publish(tables);
	}
	for (int i = 0; i < 3; i++) {
		weir_tables_tick(tables);
	}
	show(tables);
	weir_tables_free(tables);
	weir_config_free(config);
}

// A control process that starts now and finds this. It may be refused.
static void take_over(const struct weir_segment *segment, uint8_t options) {
	struct weir_segment *attached = NULL;
	int fd = fcntl(segment->fd, F_DUPFD_CLOEXEC, 0);
	char why[256] = "";
	int r = weir_segment_attach(fd, &attached, why, sizeof(why));

	if (r < 0) {
		REQUIRE(attached == NULL && why[0] != '\0' && strchr(why, '\n') == NULL);
		close(fd);
		return;
	}
	balancer_guard(attached);
	write_some(attached);
	if ((options & TABLES) == TABLES) {
		rule(attached);
	}
	balancer_guarded_free(attached);
}

// --- the worker -------------------------------------------------------------------------------

static const struct frame_spec specs[] = {
	{.family = 4, .protocol = 6, .tcp_flags = 0x02},
	{.family = 4, .protocol = 6, .tcp_flags = 0x10, .source_port = 4711, .payload = 40},
	{.family = 4, .protocol = 6, .tcp_flags = 0x02, .destination_port = 8050},
	{.family = 4, .protocol = 17, .destination_port = 53, .payload = 9},
	{.family = 6, .protocol = 6, .tcp_flags = 0x02},
	{.family = 6, .protocol = 17, .destination_port = 53, .payload = 1400},
	{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 8},
	{.family = 6, .protocol = 58, .icmp_type = 128, .payload = 8},
};
#define BURST (sizeof(specs) / sizeof(specs[0]))

static void check_sent(const struct rte_mbuf *m, const struct weir_verdict *verdict) {
	if (verdict->action == WEIR_ACTION_FORWARD || verdict->action == WEIR_ACTION_REPLY) {
		REQUIRE(verdict->port < BALANCER_PORTS);
		REQUIRE(m->data_off + m->data_len <= m->buf_len && m->pkt_len == m->data_len);
		fuzz_touch(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
	}
}

static void burst(struct weir_pipeline *pipeline, uint64_t now_ns) {
	struct weir_verdict verdicts[BURST];
	struct rte_mbuf *pkts[BURST];
	struct frame frame;

	for (size_t i = 0; i < BURST; i++) {
		frame_build(&specs[i], &frame);
		pkts[i] = buffer_make(frame.bytes, frame.n, RTE_PKTMBUF_HEADROOM, 0, 0);
	}
	weir_pipeline_process(pipeline, pkts, BURST, 0, now_ns, verdicts);
	weir_pipeline_maintain(pipeline, now_ns);
	for (size_t i = 0; i < BURST; i++) {
		REQUIRE(verdicts[i].backend < BALANCER_BACKENDS ||
			verdicts[i].backend == WEIR_BACKEND_NONE);
		REQUIRE(verdicts[i].service < BALANCER_SERVICES ||
			verdicts[i].service == WEIR_SERVICE_NONE);
		check_sent(pkts[i], &verdicts[i]);
		buffer_free(pkts[i]);
	}
}

static void respond(
	const struct weir_segment *segment, struct weir_pipeline *pipeline, uint64_t now_ns) {
	struct weir_message message;

	for (int i = 0; i < 4; i++) {
		if (weir_mailbox_receive(&segment->mailboxes[0].request, &message)) {
			weir_flow_query_respond(pipeline, &message, now_ns);
			weir_mailbox_send(&segment->mailboxes[0].response, &message);
		}
	}
}

// What a worker that starts now adopts lies inside the heap, and can be used.
static void read_tables(const struct weir_segment *segment) {
	const struct weir_services_view *services;
	const struct weir_backends_view *backends;
	struct weir_reader reader;

	REQUIRE(weir_reader_init(&reader, segment, 0) == 0);
	services = weir_reader_services(&reader);
	for (uint32_t port = 0; port < 9000; port += 53) {
		weir_service_lookup(services, balancer_vip4, 4, 6, (uint16_t)port);
		weir_service_lookup(services, balancer_vip6, 6, 17, (uint16_t)port);
	}
	if (services->buckets != NULL) {
		weir_service_is_vip(services, balancer_vip4, 4);
	}
	for (uint16_t service = 0; service < BALANCER_SERVICES; service++) {
		const struct weir_selection_view *view = weir_reader_selection(&reader, service);

		for (uint64_t hash = 0; hash < 16; hash++) {
			weir_selection_choose(view, hash << 60 | 0xfffffffffffffff);
		}
	}
	backends = weir_reader_backends(&reader);
	REQUIRE(backends->count <= BALANCER_BACKENDS);
	weir_reader_fini(&reader);
}

static void work(struct weir_segment *segment, struct weir_pipeline *pipeline, uint64_t now_ns) {
	burst(pipeline, now_ns);
	respond(segment, pipeline, now_ns);
	rte_rcu_qsbr_quiescent(segment->qsbr, 0);
}

// --- the input --------------------------------------------------------------------------------

// Where a root's blob is as published, before anything was overwritten; 0 = nothing.
struct blobs {
	uint64_t at[5]; // SERVICES to IDENTITY
};

static weir_ref *root_of(const struct weir_segment *segment, enum place place) {
	struct weir_roots *roots = segment->roots;
	weir_ref *const all[] = {&roots->services, &roots->backends, &roots->selection[0],
		&roots->selection[1], &roots->identity};

	return all[place - SERVICES];
}

static uint64_t start_of(
	const struct weir_segment *segment, const struct blobs *blobs, enum place place) {
	const void *starts[PLACES] = {[HEADER] = segment->base,
		[ROOTS] = segment->roots,
		[QSBR] = segment->qsbr,
		[MAILBOXES] = segment->mailboxes,
		[WORKER_COUNTERS] = segment->worker_counters,
		[BACKEND_COUNTERS] = segment->backend_counters};

	if (starts[place] != NULL) {
		return (uint64_t)((const uint8_t *)starts[place] - segment->base);
	}
	if (place >= SERVICES && place <= IDENTITY && blobs->at[place - SERVICES] != 0) {
		return blobs->at[place - SERVICES];
	}
	return segment->heap_off;
}

static void renew(struct weir_segment *segment, const struct blobs *blobs, uint16_t which) {
	enum place place = (enum place)(SERVICES + which % 5);
	struct weir_blob *blob =
		(struct weir_blob *)(void *)(segment->base + start_of(segment, blobs, place));

	blob->generation++;
	*root_of(segment, place) = weir_ref_make(blob->generation, start_of(segment, blobs, place));
}

static void overwrite(struct weir_segment *segment, struct fuzz_input *input) {
	struct blobs blobs;

	for (enum place place = SERVICES; place <= IDENTITY; place++) {
		blobs.at[place - SERVICES] = weir_ref_offset(*root_of(segment, place));
	}
	for (int pieces = 0; pieces < PIECES_MAX && input->bytes > 0; pieces++) {
		enum place place = (enum place)(fuzz_take8(input) % PLACES);
		uint64_t at = fuzz_take16(input);
		const uint8_t *data;
		size_t n;

		if (place == RENEW) {
			renew(segment, &blobs, (uint16_t)at);
			continue;
		}
		at += start_of(segment, &blobs, place);
		data = fuzz_take(input, fuzz_take8(input), &n);
		if (n > 0 && at < segment->bytes && n <= segment->bytes - at) {
			memcpy(segment->base + at, data, n);
		}
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	balancer_start();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct fuzz_input input = {data, bytes};
	uint8_t options = fuzz_take8(&input);
	struct balancer balancer;
	struct weir_segment *segment;

	balancer_init(&balancer);
	segment = balancer.segment;
	if (!(options & NO_TABLES)) {
		publish_identity(balancer.writer);
		balancer_publish(&balancer, BALANCER_USUAL);
	}
	weir_writer_free(balancer.writer);
	balancer.writer = NULL;
	rte_rcu_qsbr_thread_online(segment->qsbr, 0);
	if (!(options & FRESH)) {
		work(segment, balancer.pipeline, BALANCER_NOW);
	}
	overwrite(segment, &input);
	if (options & AGAIN) {
		take_over(segment, options);
	}
	work(segment, balancer.pipeline, BALANCER_NOW + 1000000);
	read_tables(segment);
	take_over(segment, options);
	work(segment, balancer.pipeline, BALANCER_NOW + 2000000);
	balancer_fini(&balancer);
	buffer_check_leaks();
	return 0;
}
