// SPDX-License-Identifier: BSD-3-Clause
#include "balancer.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_mbuf.h>

#include "backend_row.h"
#include "flow_memory.h"
#include "flow_query.h"
#include "hash.h"
#include "mailbox.h"
#include "packets.h"
#include "pipeline_parts.h"
#include "service_table.h"

#define MTU 9000
#define WEIGHT 100
#define ESTABLISHED_MS 900000
#define ERROR_WINDOW_MS 10000
#define COST_NS 1000000 // service times of the backends are from this value to twice this value
#define HEAP_BASE (64ull << 20)
#define MEGABYTE (1ull << 20)

// --- identifiers ---------------------------------------------------------------------------

struct weir_bench_share weir_bench_backends_of(
	const struct weir_bench_options *options, uint16_t service) {
	uint32_t first = (uint32_t)((uint64_t)service * options->backends / options->services);
	uint32_t end = (uint32_t)(((uint64_t)service + 1) * options->backends / options->services);

	return (struct weir_bench_share){first, end - first};
}

uint16_t weir_bench_service_of(const struct weir_bench_options *options, uint16_t backend) {
	return (uint16_t)((((uint64_t)backend + 1) * options->services - 1) / options->backends);
}

void weir_bench_way(
	const struct weir_bench_options *options, uint16_t backend, struct weir_bench_way *ret) {
	*ret = (struct weir_bench_way){.family = options->family,
		.next_hop_mac = {0x02, 0, 0, 1, (uint8_t)(backend >> 8), (uint8_t)backend},
		.vlan = options->vlan ? WEIR_BENCH_VLAN : 0,
		.forwarding = {.mode = (uint8_t)options->forwarding, .gue_port = WEIR_GUE_PORT}};
	memcpy(ret->port_mac, weir_bench_our_mac, sizeof(ret->port_mac));
	if (options->family == 4) {
		memcpy(ret->address,
			(const uint8_t[]){10, 1, (uint8_t)(backend >> 8), (uint8_t)backend}, 4);
		memcpy(ret->source, (const uint8_t[]){10, 0, 0, 1}, 4);
		return;
	}
	memcpy(ret->address, (const uint8_t[]){0xfd, 0, 0, 1}, 4);
	ret->address[14] = (uint8_t)(backend >> 8);
	ret->address[15] = (uint8_t)backend;
	memcpy(ret->source, (const uint8_t[]){0xfd, 0}, 2);
	ret->source[15] = 1;
}

// --- publication --------------------------------------------------------------------------

int weir_bench_selection_build(const struct weir_bench_options *options, struct weir_writer *writer,
	uint16_t service, uint64_t round, struct weir_selection **ret) {
	struct weir_bench_share share = weir_bench_backends_of(options, service);
	uint8_t needs = weir_policy_needs(options->policy);
	struct weir_selection_params params = {
		.service = service,
		.slots = options->slots,
		.settings = {.policy = (uint8_t)options->policy,
			.needs = needs,
			.when_exhausted = WEIR_EXHAUSTED_SPILL,
			.error_window_ms = ERROR_WINDOW_MS},
	};
	struct weir_selection_member *members = calloc((size_t)share.count + 1, sizeof(*members));
	int r;

	if (members == NULL) {
		return -ENOMEM;
	}
	if ((needs & WEIR_NEEDS_COST) != 0) {
		params.settings.needs |= WEIR_NEEDS_TIMES;
	}
	for (uint32_t i = 0; i < share.count; i++) {
		members[i] = (struct weir_selection_member){
			.identity = (share.first + i + 1) * 0x9e3779b97f4a7c15ull,
			.id = (uint16_t)(share.first + i),
			.weight = WEIGHT + (uint32_t)((round * (i + 1)) % 7),
		};
	}
	r = weir_selection_build(writer, &params, members, share.count, ret);
	free(members);
	return r;
}

static int publish_services(const struct weir_bench_options *options, struct weir_writer *writer) {
	static const uint8_t protocol[2] = {IPPROTO_TCP, IPPROTO_UDP};
	uint32_t n = options->services * 2;
	struct weir_service_bind *binds = calloc((size_t)n + 1, sizeof(*binds));
	struct weir_service_table *table = NULL;
	int r;

	if (binds == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		binds[i].family = options->family;
		binds[i].protocol = protocol[i % 2];
		binds[i].port_first = binds[i].port_last = WEIR_BENCH_PORT;
		binds[i].service = (uint16_t)(i / 2);
		weir_bench_vip(options->family, (uint16_t)(i / 2), binds[i].address);
	}
	r = weir_service_table_build(writer, binds, n, WEIR_BENCH_HASH_SEED, &table);
	free(binds);
	if (r == 0) {
		r = weir_writer_publish(
			writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES}, table);
	}
	return r;
}

void weir_bench_row(const struct weir_bench_options *options, uint16_t backend, uint64_t round,
	struct weir_backend_row *ret) {
	struct weir_backend_path path = {.mtu = (uint16_t)(MTU - round % 2),
		.service = weir_bench_service_of(options, backend),
		.resolved = 1};
	struct weir_bench_way way;

	weir_bench_way(options, backend, &way);
	path.family = way.family;
	path.vlan = way.vlan;
	path.forwarding = way.forwarding;
	memcpy(path.address, way.address, sizeof(path.address));
	memcpy(path.source, way.source, sizeof(path.source));
	memcpy(path.next_hop_mac, way.next_hop_mac, sizeof(path.next_hop_mac));
	memcpy(path.port_mac, way.port_mac, sizeof(path.port_mac));
	weir_backend_row_build(&path, ret);
}

static int publish_backends(const struct weir_bench_options *options,
	const struct weir_segment *segment, struct weir_writer *writer) {
	int r = weir_writer_reserve(writer, options->services, options->backends);

	for (uint32_t i = 0; r == 0 && i < options->backends; i++) {
		struct weir_backend_row row;

		segment->costs[i] = COST_NS + weir_hash_mix(i + 1, 0x9e3779b97f4a7c15ull) % COST_NS;
		weir_bench_row(options, (uint16_t)i, 0, &row);
		weir_writer_publish_row(writer, (uint16_t)i, &row);
	}
	return r;
}

// Publishes the tables in the order that layout.h requires: backends, selections, services.
static int publish(const struct weir_bench_options *options, const struct weir_segment *segment,
	struct weir_writer *writer) {
	int r = publish_backends(options, segment, writer);

	for (uint32_t service = 0; r == 0 && service < options->services; service++) {
		struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = (uint16_t)service};
		struct weir_selection *selection = NULL;

		r = weir_bench_selection_build(options, writer, (uint16_t)service, 0, &selection);
		if (r == 0) {
			r = weir_writer_publish(writer, root, selection);
		}
	}
	return r == 0 ? publish_services(options, writer) : r;
}

// --- set-up -------------------------------------------------------------------------------

static int create_segment(
	const struct weir_bench_options *options, bool huge, struct weir_segment **ret) {
	struct weir_port_info port = {.name = "wan", .mtu = MTU};
	const struct weir_segment_params params = {
		.workers = WEIR_BENCH_WORKER + 1,
		.ports = 1,
		.max_services = options->services,
		.max_backends = options->backends,
		// Memory for two versions of all blobs, and for blobs that wait for a grace period.
		.heap_bytes = HEAP_BASE + 4ull * options->services * options->slots * 2 +
			      4ull * options->backends * sizeof(struct weir_candidate),
		.tsc_hz = 1000000000,
		.hash_seed = WEIR_BENCH_HASH_SEED,
		.huge_pages = huge,
		.port_info = &port,
	};

	memcpy(port.mac, weir_bench_our_mac, sizeof(port.mac));
	return weir_segment_create(&params, ret);
}

static uint64_t now_us(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

// Creates the segment, with or without huge pages (like segment.huge_pages of the configuration),
// and publishes all tables.
static int try_create(const struct weir_bench_options *options, bool huge,
	struct weir_bench_balancer *ret, char *why, size_t why_bytes) {
	struct weir_bench_balancer balancer = {.options = options, .huge_pages = huge};
	struct weir_writer *writer = NULL;
	uint64_t start;
	int r = create_segment(options, huge, &balancer.segment);

	if (r < 0) {
		snprintf(why, why_bytes, "cannot create the shared memory: %s", strerror(-r));
		return r;
	}
	start = now_us();
	r = weir_segment_attach_own(balancer.segment, &balancer.control);
	if (r == 0) {
		r = weir_writer_open(balancer.control, &writer);
	}
	if (r == 0) {
		r = publish(options, balancer.control, writer);
	}
	balancer.publish_us = now_us() - start;
	weir_writer_free(writer);
	if (r == 0) {
		r = weir_reader_init(
			&balancer.reader, balancer.segment, WEIR_BENCH_WORKER, NULL, NULL);
		balancer.has_reader = r == 0;
	}
	if (r == 0) {
		r = weir_segment_follow(balancer.segment);
		weir_reader_settle(&balancer.reader);
	}
	if (r < 0) {
		snprintf(why, why_bytes, "cannot publish services and backends: %s%s", strerror(-r),
			r == -EINVAL ? " (--slots must be a prime number, and at least the number "
				       "of backends of a service)"
				     : "");
		weir_bench_balancer_free(&balancer);
		return r;
	}
	*ret = balancer;
	return 0;
}

int weir_bench_balancer_create(const struct weir_bench_options *options,
	struct weir_bench_balancer *ret, char *why, size_t why_bytes) {
	int r = -ENOMEM;

	if (options->pages != WEIR_BENCH_PAGES_SMALL) {
		r = try_create(options, true, ret, why, why_bytes);
	}
	// Use small pages if the pool has too few huge pages, or if the user has no permission to
	// use them.
	if (r == -ENOMEM || r == -ENOSPC || r == -EPERM) {
		r = try_create(options, false, ret, why, why_bytes);
	}
	return r;
}

static void free_pipeline(struct weir_bench_balancer *balancer) {
	weir_packet_capture_free(balancer->capture);
	weir_pipeline_free(balancer->pipeline);
	weir_flow_memory_free(balancer->flows);
	balancer->capture = NULL;
	balancer->pipeline = NULL;
	balancer->flows = NULL;
}

void weir_bench_balancer_free(struct weir_bench_balancer *balancer) {
	free_pipeline(balancer);
	if (balancer->has_reader) {
		weir_reader_fini(&balancer->reader);
	}
	weir_segment_free(balancer->control);
	weir_segment_free(balancer->segment);
	*balancer = (struct weir_bench_balancer){0};
}

uint64_t weir_bench_flow_bytes(const struct weir_bench_options *options) {
	uint32_t flows = weir_bench_flows_per_worker(options);

	return options->bucketed ? weir_flow_memory_bytes(flows, WEIR_FLOW_IPV6_PERCENT, true) +
					   weir_flow_table_own_bytes(flows, WEIR_FLOW_IPV6_PERCENT)
				 : weir_flow_table_bytes(flows, WEIR_FLOW_IPV6_PERCENT);
}

uint64_t weir_bench_balancer_bytes(const struct weir_bench_options *options) {
	uint64_t buffer = sizeof(struct rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE + 128;

	return weir_bench_flow_bytes(options) + options->buffers * buffer + 8 * MEGABYTE;
}

static void clear_counters(struct weir_segment *segment, const struct weir_bench_options *options) {
	memset(&segment->worker_counters[WEIR_BENCH_WORKER], 0, sizeof(*segment->worker_counters));
	memset(weir_segment_service_counters(segment, WEIR_BENCH_WORKER, 0), 0,
		options->services * sizeof(struct weir_share_counters));
	memset(weir_segment_backend_counters(segment, WEIR_BENCH_WORKER, 0), 0,
		options->backends * sizeof(struct weir_share_counters));
}

int weir_bench_balancer_start(
	struct weir_bench_balancer *balancer, const struct weir_bench_heap *heap) {
	const struct weir_bench_options *options = balancer->options;
	struct weir_pipeline_params params = {
		.segment = balancer->segment,
		.worker = WEIR_BENCH_WORKER,
		.flow_table = {.flows = weir_bench_flows_per_worker(options),
			.ipv6_percent = WEIR_FLOW_IPV6_PERCENT,
			.half_open_percent = options->half_open_percent,
			.timeout_ms = {[WEIR_FLOW_SYN_SEEN] = options->syn_seen_ms,
				[WEIR_FLOW_ESTABLISHED] = ESTABLISHED_MS,
				[WEIR_FLOW_CLOSING] = options->closing_ms,
				[WEIR_FLOW_UDP] = ESTABLISHED_MS,
				[WEIR_FLOW_YOUNG] = ESTABLISHED_MS,
				[WEIR_FLOW_UDP_SEEN] = options->syn_seen_ms},
			.socket = heap->socket,
			.hash_seed = WEIR_BENCH_HASH_SEED},
		.hash_seed = WEIR_BENCH_HASH_SEED,
		.icmp = {.echo = 1000, .too_big = 1000, .unreachable = 1000},
		.fragments = {.entries = 4096, .timeout_ms = 5000},
	};
	int r = 0;

	free_pipeline(balancer);
	clear_counters(balancer->segment, options);
	if (options->bucketed) {
		r = weir_flow_memory_create(params.flow_table.flows, WEIR_FLOW_IPV6_PERCENT, true,
			heap->socket, &balancer->flows);
	}
	params.flow_table.memory = balancer->flows;
	if (r == 0) {
		r = weir_pipeline_create(&params, &balancer->pipeline);
	}
	if (r == 0) {
		r = weir_packet_capture_create(
			balancer->pipeline, heap->socket, &balancer->capture);
	}
	for (uint32_t part = 0; r == 0 && options->bucketed && part < WEIR_FLOW_PARTS; part++) {
		weir_pipeline_own_part(balancer->pipeline, part);
	}
	return r;
}

// --- other work of a worker ---------------------------------------------------------------

void weir_bench_process_captured(struct weir_bench_balancer *balancer, struct rte_mbuf **pkts,
	uint16_t n, uint64_t now_ns, struct weir_verdict *verdicts) {
	uint16_t run;

	for (uint16_t i = 0; i < n; i = (uint16_t)(i + run)) {
		bool due;

		run = (uint16_t)(n - i);
		due = weir_packet_capture_begin(balancer->capture, pkts + i, &run, 0, now_ns);
		weir_pipeline_process(balancer->pipeline, pkts + i, run, 0, now_ns, verdicts + i);
		if (due) {
			weir_packet_capture_note(balancer->capture, verdicts + i);
			weir_packet_capture_end(balancer->capture);
		}
	}
}

void weir_bench_respond(struct weir_bench_balancer *balancer, uint64_t now_ns) {
	const struct weir_segment *segment = balancer->segment;
	struct weir_worker_box *ours = &segment->worker_boxes[WEIR_BENCH_WORKER];
	const struct weir_control_box *theirs = &segment->control_boxes[WEIR_BENCH_WORKER];
	struct weir_message message;

	if (weir_mailbox_receive(&theirs->request, &ours->request, &message)) {
		weir_flow_query_respond(balancer->pipeline, &message, now_ns);
		(void)weir_mailbox_send(&ours->response, &theirs->response, &message);
	}
}

// --- counter checks ------------------------------------------------------------------------

uint16_t weir_bench_consistent(struct weir_bench_balancer *balancer,
	const struct weir_bench_tuple *tuple, uint8_t protocol) {
	const struct weir_selection_view *view;
	uint16_t ports[2] = {htons(tuple->source_port), htons(tuple->destination_port)};
	uint64_t hash;

	if (balancer->options->policy != WEIR_POLICY_MAGLEV) {
		return WEIR_BACKEND_NONE;
	}
	if (tuple->family == 4) {
		uint32_t source, destination;

		memcpy(&source, tuple->source, 4);
		memcpy(&destination, tuple->destination, 4);
		hash = weir_hash_ipv4(
			source, destination, ports[0], ports[1], protocol, WEIR_BENCH_HASH_SEED);
	} else {
		hash = weir_hash_ipv6(tuple->source, tuple->destination, ports[0], ports[1],
			protocol, WEIR_BENCH_HASH_SEED);
	}
	weir_reader_settle(&balancer->reader);
	view = weir_reader_selection(&balancer->reader, tuple->service);
	return weir_selection_choose(view, hash);
}

struct total {
	uint64_t packets, active, started;
};

static struct total add_up(const struct weir_share_counters *counters, uint32_t n) {
	struct total total = {0};

	for (uint32_t i = 0; i < n; i++) {
		total.packets += weir_counter_read(&counters[i].packets);
		total.active += weir_counter_read(&counters[i].active_flows);
		total.started += weir_counter_read(&counters[i].new_flows);
	}
	return total;
}

int weir_bench_counters_check(
	const struct weir_bench_balancer *balancer, uint64_t packets, char *why, size_t why_bytes) {
	const struct weir_bench_options *options = balancer->options;
	const struct weir_worker_counters *counters =
		&balancer->segment->worker_counters[WEIR_BENCH_WORKER];
	struct total by_service =
		add_up(weir_segment_service_counters(balancer->segment, WEIR_BENCH_WORKER, 0),
			options->services);
	struct total by_backend =
		add_up(weir_segment_backend_counters(balancer->segment, WEIR_BENCH_WORKER, 0),
			options->backends);

	if (counters->rx_packets != packets || counters->forwarded != packets ||
		counters->dropped != 0) {
		snprintf(why, why_bytes,
			"wrong packet counters: %" PRIu64 " packets processed, but %" PRIu64
			" counted as received, %" PRIu64 " as forwarded, %" PRIu64 " as dropped",
			packets, counters->rx_packets, counters->forwarded, counters->dropped);
		return -EBADMSG;
	}
	if (by_service.packets != packets || by_backend.packets != packets) {
		snprintf(why, why_bytes,
			"wrong packet counters: services have %" PRIu64
			" packets, backends %" PRIu64 ", but the worker processed %" PRIu64,
			by_service.packets, by_backend.packets, packets);
		return -EBADMSG;
	}
	if (by_service.active != counters->flows || by_backend.active != counters->flows ||
		by_backend.started != counters->flow_new) {
		snprintf(why, why_bytes,
			"wrong flow counters: the flow table has %" PRIu64
			" flows, services %" PRIu64 ", backends %" PRIu64,
			counters->flows, by_service.active, by_backend.active);
		return -EBADMSG;
	}
	return 0;
}
