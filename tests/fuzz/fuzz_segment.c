// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: a malicious control process. It overwrites the memory of the tables with arbitrary
// bytes at arbitrary offsets, frees pages of this memory, and appends arbitrary entries to the
// update log. The worker that uses this memory continues meanwhile and afterwards, and another
// control process attaches to the memory. The worker and this process must not crash or read
// outside of the segment. Statistics are also overwritten, because a control process reads them.
// The worker captures packets if the capture order is valid.
//
// The input is a byte of options (enum option), followed by pieces. A piece is a byte that names a
// part of the segment (enum place), an offset in that part (2 bytes, little endian), a number of
// bytes, and the bytes. Some places have another meaning:
//
//   ANY           the offset is in words of 8 bytes, from the start of the tables
//   CAPTURE_RING  the offset is in words of 4 bytes
//   RENEW         a table gets a new reference, so that the worker loads its current contents
//   LOG           an entry is appended to the update log; the offset is its value
//   PUNCH         the page whose index is the offset is freed
//   BURST         the worker processes a burst
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "balancer.h"
#include "blob.h"
#include "buffers.h"
#include "capture.h"
#include "config.h"
#include "flow_query.h"
#include "frames.h"
#include "fuzz.h"
#include "grace.h"
#include "packet_capture.h"
#include "selection.h"
#include "service_table.h"
#include "tables.h"

#define PIECES_MAX 64

enum option {
	FRESH = 0x01, // the worker has loaded no table before
	NO_TABLES = 0x02, // nothing was published before
	AGAIN = 0x04, // a control process also attaches before the worker continues
	// The next control process runs the whole tables module of weir-control, not only the
	// writer. This is slow, and must be rare: all of these bits must be set.
	TABLES = 0xf8,
};

enum place {
	HEADER, // statistics
	QUIESCENCE,
	NEWS, // tables, with notes and log
	ROOTS,
	SERVICES,
	SELECTION_0,
	SELECTION_1,
	ROWS,
	CONTROL_BOXES,
	IDENTITY_SERVICES,
	IDENTITY_BACKENDS,
	HEAP,
	ANY,
	RENEW,
	LOG,
	PUNCH,
	BURST,
	CAPTURE,
	CAPTURE_RING, // statistics
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
		struct weir_next_hop hop = {.resolved = true,
			.on_link = true,
			.port = (uint8_t)(id % 2),
			.mac = {2, 0, 0, 1, 0, 1}};
		struct weir_backend_state state;

		if (weir_tables_backend(tables, (uint16_t)id, &state) == 0) {
			weir_address_parse(state.address.family == 4 ? "192.0.2.1" : "2001:db8::1",
				&hop.source);
			weir_tables_set_next_hop(tables, (uint16_t)id, &hop);
		}
	}
}

// Stores the service and backend of each id, as in balancer.h, with the names in config_text.
static void store_identities(struct weir_segment *control) {
	static const char names[2][4] = {"web", "dns"};

	for (unsigned int id = 0; id < 2; id++) {
		struct weir_identity_service *service = &control->identity_services[id];

		memcpy(service->name, names[id], sizeof(names[id]));
		service->state = WEIR_IDENTITY_USED;
	}
	for (uint8_t id = 0; id < 6; id++) {
		struct weir_identity_backend *backend = &control->identity_backends[id];

		snprintf(backend->name, sizeof(backend->name), "b-%u", id);
		memcpy(backend->address, (uint8_t[]){10, 0, 0, (uint8_t)(11 + id)}, 4);
		backend->family = 4;
		backend->service = id < 4 ? 0 : 1;
		backend->configured_weight = 100;
		backend->runtime_weight = WEIR_WEIGHT_UNSET;
		backend->state = WEIR_IDENTITY_USED | WEIR_HEALTH_HEALTHY << 16;
	}
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
	// The header may specify fewer services.
	const struct weir_root root = {
		.kind = WEIR_BLOB_SELECTION, .service = segment->max_services > 3 ? 3 : 0};
	struct weir_writer_usage usage;
	struct weir_selection *blob;
	struct weir_writer *writer;

	REQUIRE(weir_writer_open(segment, &writer) == 0);
	blob = weir_writer_alloc(writer, WEIR_BLOB_SELECTION, sizeof(*blob));
	if (blob != NULL) {
		blob->service = root.service;
		REQUIRE(weir_writer_publish(writer, root, blob) == 0);
		REQUIRE(weir_writer_current(writer, root) == blob);
	}
	weir_writer_usage(writer, &usage);
	REQUIRE(usage.used_bytes <= usage.heap_bytes);
	REQUIRE(usage.retired_bytes <= usage.used_bytes);
	REQUIRE(usage.waiting_for <= WEIR_WORKERS_MAX);
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
		struct weir_tables_refusal refusal;

		weir_tables_tick(tables);
		weir_tables_refused(tables, &refusal);
	}
	show(tables);
	weir_tables_free(tables);
	weir_config_free(config);
}

// Reads records from the capture rings, whose contents can be arbitrary.
static void read_rings(struct weir_segment *segment) {
	static struct weir_capture_packet packet;

	for (uint64_t number = 0; number < 3; number++) {
		while (weir_capture_take(segment, 0, number, &packet)) {
			REQUIRE(packet.record.saved <= WEIR_CAPTURE_SNAP_MOST);
			fuzz_touch(packet.data, packet.record.saved);
		}
	}
}

// Attaches a new control process to this memory. The new process can refuse the memory.
static void take_over(const struct balancer *balancer, uint8_t options) {
	const struct weir_segment *segment = balancer->memory.dataplane;
	struct weir_segment *attached = NULL;
	int statistics_fd = fcntl(segment->statistics_fd, F_DUPFD_CLOEXEC, 0);
	int tables_fd = fcntl(segment->tables_fd, F_DUPFD_CLOEXEC, 0);
	char why[256] = "";
	int r = weir_segment_attach(statistics_fd, tables_fd, &attached, why, sizeof(why));

	if (r < 0) {
		REQUIRE(attached == NULL && why[0] != '\0' && strchr(why, '\n') == NULL);
		close(statistics_fd);
		close(tables_fd);
		return;
	}
	guard_segment(attached);
	read_rings(attached);
	write_some(attached);
	if ((options & TABLES) == TABLES) {
		// Take the worker offline. If it were online, the new process would wait for its
		// quiescent states, but the worker runs in this thread.
		weir_pipeline_offline(balancer->pipeline);
		rule(attached);
		weir_pipeline_online(balancer->pipeline);
	}
	guard_segment_free(attached);
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
#define PACKETS (sizeof(specs) / sizeof(specs[0]))

static void check_sent(const struct rte_mbuf *m, const struct weir_verdict *verdict) {
	if (verdict->action == WEIR_ACTION_FORWARD || verdict->action == WEIR_ACTION_REPLY) {
		REQUIRE(verdict->port < BALANCER_PORTS);
		REQUIRE(m->data_off + m->data_len <= m->buf_len && m->pkt_len == m->data_len);
		fuzz_touch(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
	}
}

static void burst(
	struct weir_pipeline *pipeline, struct weir_packet_capture *capture, uint64_t now_ns) {
	struct weir_verdict verdicts[PACKETS];
	struct rte_mbuf *pkts[PACKETS];
	struct frame frame;
	uint16_t n;

	for (size_t i = 0; i < PACKETS; i++) {
		frame_build(&specs[i], &frame);
		pkts[i] = buffer_make(frame.bytes, frame.n, RTE_PKTMBUF_HEADROOM, 0, 0);
	}
	for (size_t i = 0; i < PACKETS; i += n) {
		bool captured;

		n = (uint16_t)(PACKETS - i);
		captured = weir_packet_capture_begin(capture, pkts + i, &n, 0, now_ns);
		REQUIRE(n > 0 && n <= PACKETS - i);
		weir_pipeline_process(pipeline, pkts + i, n, 0, now_ns, verdicts + i);
		if (captured) {
			weir_packet_capture_note(capture, verdicts + i);
			weir_packet_capture_undelivered(capture, n - 1u, WEIR_DROP_TX_FULL);
			weir_packet_capture_end(capture);
		}
	}
	weir_packet_capture_dropped(capture, pkts, 1, 0, WEIR_DROP_HANDOFF_FULL, now_ns);
	weir_pipeline_maintain(pipeline, now_ns);
	for (size_t i = 0; i < PACKETS; i++) {
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
	const struct weir_control_box *control = &segment->control_boxes[0];
	struct weir_worker_box *worker = &segment->worker_boxes[0];
	struct weir_message message;

	for (int i = 0; i < 4; i++) {
		if (weir_mailbox_receive(&control->request, &worker->request, &message)) {
			weir_flow_query_respond(pipeline, &message, now_ns);
			REQUIRE(message.kind != WEIR_MESSAGE_SOURCE_WALK ||
				message.walk.proven + message.walk.others <= WEIR_SOURCE_PAGE);
			weir_mailbox_send(&worker->response, &control->response, &message);
		}
	}
}

// Checks that the tables which a new worker loads are inside the heap and can be used.
static void read_tables(const struct weir_segment *segment) {
	const struct weir_services_view *services;
	struct weir_reader reader;

	REQUIRE(weir_reader_init(&reader, segment, 0, NULL, NULL) == 0);
	weir_reader_settle(&reader);
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
	weir_reader_fini(&reader);
}

static struct weir_packet_capture *capture; // the capture of the worker

static void work(struct balancer *balancer) {
	weir_segment_follow(balancer->memory.dataplane);
	burst(balancer->pipeline, capture, balancer->now_ns);
	respond(balancer->memory.dataplane, balancer->pipeline, balancer->now_ns);
	weir_pipeline_quiescent(balancer->pipeline);
	balancer->now_ns += 1000000;
}

// --- the input --------------------------------------------------------------------------------

// The offsets of the roots' blobs as published, before anything was overwritten; 0 = none.
struct blobs {
	uint64_t at[3]; // offsets of SERVICES to SELECTION_1
};

static weir_ref *root_of(const struct weir_segment *control, enum place place) {
	struct weir_roots *roots = control->roots;

	return place == SERVICES ? &roots->services : &roots->selection[place - SELECTION_0];
}

// Returns the offset of a place from the start of tables.
static uint64_t start_of(
	const struct weir_segment *control, const struct blobs *blobs, enum place place) {
	const void *starts[PLACES] = {[NEWS] = control->news,
		[ROOTS] = control->roots,
		[ROWS] = control->rows,
		[CONTROL_BOXES] = control->control_boxes,
		[IDENTITY_SERVICES] = control->identity_services,
		[IDENTITY_BACKENDS] = control->identity_backends,
		[CAPTURE] = control->capture_control};

	if (starts[place] != NULL) {
		return (uint64_t)((const uint8_t *)starts[place] - control->tables);
	}
	if (place >= SERVICES && place <= SELECTION_1 && blobs->at[place - SERVICES] != 0) {
		return blobs->at[place - SERVICES];
	}
	return control->heap_off;
}

static void append(struct weir_segment *control, uint32_t change) {
	uint64_t updates = control->news->updates;

	control->updates->update[updates % WEIR_UPDATES] = change;
	control->news->updates = updates + 1;
}

static void renew(struct weir_segment *control, const struct blobs *blobs, uint16_t which) {
	enum place place = (enum place)(SERVICES + which % 3);
	uint64_t at = start_of(control, blobs, place);
	struct weir_blob *blob = (struct weir_blob *)(void *)(control->tables + at);

	blob->generation++;
	*root_of(control, place) = weir_ref_make(blob->generation, at);
	append(control, place == SERVICES ? weir_update(WEIR_UPDATE_SERVICES, 0)
					  : weir_update(WEIR_UPDATE_SELECTION,
						    (uint16_t)(place - SELECTION_0)));
}

static void punch(const struct weir_segment *control, uint64_t page) {
	uint64_t at = page % (control->tables_bytes / 4096) * 4096;

	REQUIRE(fallocate(control->tables_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			4096) == 0);
}

static void store(uint8_t *memory, uint64_t memory_bytes, uint64_t at, struct fuzz_input *input) {
	const uint8_t *data;
	size_t n;

	data = fuzz_take(input, fuzz_take8(input), &n);
	if (n > 0 && at < memory_bytes && n <= memory_bytes - at) {
		memcpy(memory + at, data, n);
	}
}

static void take_piece(
	struct balancer *balancer, const struct blobs *blobs, struct fuzz_input *input) {
	struct weir_segment *segment = balancer->memory.dataplane,
			    *control = balancer->memory.control;
	enum place place = (enum place)(fuzz_take8(input) % PLACES);
	uint64_t at = fuzz_take16(input);

	switch (place) {
	case HEADER:
		store(segment->statistics, segment->statistics_bytes, at, input);
		break;
	case QUIESCENCE:
		store((uint8_t *)segment->quiescence, sizeof(segment->quiescence[0]), at, input);
		break;
	case CAPTURE_RING:
		store((uint8_t *)&segment->capture_rings[0], sizeof(segment->capture_rings[0]),
			at * 4, input);
		break;
	case RENEW:
		renew(control, blobs, (uint16_t)at);
		break;
	case LOG: // the kind of the update can be valid or invalid
		append(control, (uint32_t)(at >> 12) << 16 | (at & 0xfff));
		break;
	case PUNCH:
		punch(control, at);
		break;
	case BURST:
		work(balancer);
		break;
	case ANY:
		store(control->tables, control->tables_bytes, at * 8, input);
		break;
	default:
		store(control->tables, control->tables_bytes, start_of(control, blobs, place) + at,
			input);
		break;
	}
}

static void overwrite(struct balancer *balancer, struct fuzz_input *input) {
	struct blobs blobs;

	for (enum place place = SERVICES; place <= SELECTION_1; place++) {
		blobs.at[place - SERVICES] =
			weir_ref_offset(*root_of(balancer->memory.control, place));
	}
	for (int pieces = 0; pieces < PIECES_MAX && input->bytes > 0; pieces++) {
		take_piece(balancer, &blobs, input);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	buffers_start(63, 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct fuzz_input input = {data, bytes};
	uint8_t options = fuzz_take8(&input);
	const struct weir_capture_terms order = {.interval_ns = 1000,
		.snap_bytes = WEIR_CAPTURE_SNAP_MOST,
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE};
	struct balancer balancer;

	balancer_init(&balancer);
	REQUIRE(weir_packet_capture_create(balancer.pipeline, SOCKET_ID_ANY, &capture) == 0);
	(void)weir_capture_order(balancer.memory.control, &order, UINT64_MAX);
	if (!(options & NO_TABLES)) {
		store_identities(balancer.memory.control);
		balancer_publish(&balancer, BALANCER_USUAL);
	}
	weir_writer_free(balancer.memory.writer);
	balancer.memory.writer = NULL;
	weir_pipeline_online(balancer.pipeline);
	if (!(options & FRESH)) {
		work(&balancer);
	}
	overwrite(&balancer, &input);
	if (options & AGAIN) {
		take_over(&balancer, options);
	}
	work(&balancer);
	read_tables(balancer.memory.dataplane);
	take_over(&balancer, options);
	work(&balancer);
	weir_pipeline_offline(balancer.pipeline);
	weir_packet_capture_free(capture);
	balancer_fini(&balancer);
	buffer_check_leaks();
	return 0;
}
