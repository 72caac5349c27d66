// SPDX-License-Identifier: BSD-3-Clause
#include "rig.h"

#include "buffers.h"
#include "captured.h"
#include "fuzz.h"
#include "pipeline_setup.h"
#include "selection.h"
#include "service_table.h"

#define MAGLEV_SLOTS 61
#define STEP_NS 4000000ull

void rig_start(void) {
	buffers_start(PLAN_POOL_BUFFERS, PLAN_POOL_ROOM);
}

// --- tables -------------------------------------------------------------------------------------

static void publish_services(struct rig *rig, const struct plan *plan) {
	struct weir_service_bind binds[PLAN_BINDS_MAX];
	struct weir_service_table *table;
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->bind_count; i++) {
		const struct plan_bind *bind = &plan->binds[i];
		const struct plan_vip *vip = &plan->vips[bind->vip];

		if (bind->service < 0) {
			continue;
		}
		binds[n] = (struct weir_service_bind){.family = vip->family,
			.protocol = bind->protocol,
			.port_first = bind->first,
			.port_last = bind->last,
			.service = (uint16_t)bind->service,
			.closed = vip->closed};
		memcpy(binds[n++].address, vip->address, 16);
	}
	REQUIRE(weir_service_table_build(rig->memory.writer, binds, n, 99, &table) == 0);
	guarded_segment_publish(&rig->memory, WEIR_BLOB_SERVICES, 0, table);
}

static void publish_backend(struct rig *rig, const struct plan *plan, uint16_t id) {
	struct weir_backend_row row = {0};

	if (plan->backends[id].present) {
		weir_backend_row_build(&plan->backends[id].path, &row);
	}
	weir_writer_publish_row(rig->memory.writer, id, &row);
}

static void publish_selection(struct rig *rig, struct plan *plan, uint16_t service) {
	struct plan_service *s = &plan->services[service];
	struct weir_selection_params params =
		weir_selection_defaults(service, s->policy, MAGLEV_SLOTS);
	struct weir_selection_member members[PLAN_PER_SERVICE];
	struct weir_selection *selection;
	const struct weir_candidate *candidates;

	params.settings.max_active_flows = s->limit;
	params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	params.settings.rounds |= s->by_datagram ? WEIR_UDP_DATAGRAM : 0;
	if (s->affine) {
		params.settings.hash4 = 24 | WEIR_HASH_AFFINITY;
		params.settings.hash6 = 64;
		params.affinity_ms = 10000;
	}
	for (uint32_t i = 0; i < s->member_count; i++) {
		members[i] = (struct weir_selection_member){
			.identity = 0x5851f42d4c957f2dull * (s->members[i] + 1u),
			.id = s->members[i],
			.weight = 1 + i};
	}
	REQUIRE(weir_selection_build(
			rig->memory.writer, &params, members, s->member_count, &selection) == 0);
	s->slot_count = selection->first.slots;
	REQUIRE(s->slot_count <= PLAN_SLOTS_MAX);
	if (s->slot_count > 0) {
		memcpy(s->slots, (const uint8_t *)selection + selection->first.slots_off,
			s->slot_count * sizeof(s->slots[0]));
		candidates = (const void *)((const uint8_t *)selection +
					    selection->first.candidates_off);
		for (uint32_t i = 0; i < selection->first.candidates; i++) {
			s->candidates[i] = candidates[i].id;
		}
	}
	guarded_segment_publish(&rig->memory, WEIR_BLOB_SELECTION, service, selection);
}

static void settle(struct rig *rig) {
	weir_pipeline_settle(rig->pipeline);
	REQUIRE(weir_writer_reclaim(rig->memory.writer) == 0);
}

void rig_change(struct rig *rig, struct plan *plan, struct random *random) {
	uint16_t backend, service;
	bool members = plan_change(plan, random, &backend, &service);

	publish_backend(rig, plan, backend);
	if (members) {
		publish_selection(rig, plan, service);
	}
	if (chance(random, 15)) {
		publish_selection(rig, plan, plan_change_udp(plan, random, rig->now_ns));
	}
	if (chance(random, 20)) {
		plan_rebind(plan, random, rig->now_ns);
		publish_services(rig, plan);
	}
	settle(rig);
}

// --- set-up -------------------------------------------------------------------------------------

static void open_segment(struct guarded_segment *memory, const struct plan *plan) {
	struct weir_port_info ports[PLAN_PORTS] = {
		{.name = "wan", .mac = PLAN_MAC},
		{.name = "lan", .mac = PLAN_MAC},
		{.name = "vlan", .vlan = 77, .mac = PLAN_MAC},
	};
	const struct weir_segment_params params = {.workers = 1,
		.ports = PLAN_PORTS,
		.max_services = PLAN_SERVICES,
		.max_backends = PLAN_BACKENDS,
		.heap_bytes = 512 << 10,
		.tsc_hz = 1000000000,
		.hash_seed = PLAN_SEED,
		.port_info = ports};

	for (uint32_t i = 0; i < PLAN_PORTS; i++) {
		ports[i].mtu = plan->port_mtu[i];
	}
	guarded_segment_open(memory, &params);
}

static struct weir_pipeline *make_pipeline(
	const struct rig *rig, const struct plan *plan, uint64_t secret) {
	struct weir_pipeline_params params = {
		.segment = rig->memory.dataplane,
		.affinity = rig->affinity,
		.flow_table = {.flows = plan->flows,
			.ipv6_percent = 100,
			.half_open_percent = plan->half_open_percent,
			.socket = SOCKET_ID_ANY,
			.secret = secret},
		.hash_seed = PLAN_SEED,
		.icmp = {.echo = plan->limits.echo,
			.too_big = plan->limits.too_big,
			.unreachable = plan->limits.unreachable},
		.resets_per_second = plan->limits.reset,
		.fragments = {.entries = plan->fragment_entries,
			.timeout_ms = plan->fragment_timeout_ms},
	};
	struct weir_pipeline *pipeline;

	for (uint32_t i = 0; i < WEIR_FLOW_STATE_COUNT; i++) {
		params.flow_table.timeout_ms[i] = plan->timeout_ms[i];
	}
	REQUIRE(weir_pipeline_create(&params, &pipeline) == 0);
	return pipeline;
}

void rig_init(struct rig *rig, struct plan *plan, uint64_t now_ns, uint64_t secret) {
	*rig = (struct rig){.plan = plan, .now_ns = now_ns};
	open_segment(&rig->memory, plan);
	// the worker generates all its random numbers from the epoch
	rig->memory.dataplane->epoch = secret | 1;
	REQUIRE(weir_affinity_create(RIG_SOURCES, secret, SOCKET_ID_ANY, &rig->affinity) == 0);
	rig->pipeline = make_pipeline(rig, plan, secret);
	REQUIRE(weir_packet_capture_create(rig->pipeline, SOCKET_ID_ANY, &rig->capture) == 0);
	for (uint16_t id = 0; id < PLAN_BACKENDS; id++) {
		publish_backend(rig, plan, id);
	}
	for (uint16_t service = 0; service < PLAN_SERVICES; service++) {
		publish_selection(rig, plan, service);
	}
	publish_services(rig, plan);
	settle(rig);
	weir_pipeline_maintain(rig->pipeline, now_ns);
}

void rig_fini(struct rig *rig) {
	weir_packet_capture_free(rig->capture);
	weir_pipeline_free(rig->pipeline);
	weir_affinity_free(rig->affinity);
	guarded_segment_close(&rig->memory);
	buffer_check_leaks();
}

void rig_wait(struct rig *rig, uint64_t ns) {
	while (ns > 0) {
		uint64_t step = ns < STEP_NS ? ns : STEP_NS;

		rig->now_ns += step;
		ns -= step;
		weir_pipeline_maintain(rig->pipeline, rig->now_ns);
	}
}

// --- bursts -------------------------------------------------------------------------------------

// Returns the number of contiguous bytes after the pipeline has made the headers contiguous. The
// tailroom of the first segment limits this number.
static uint32_t readable(uint32_t n, const struct reception *reception) {
	uint32_t first = reception->first, together = first + reception->tailroom;

	if (first == 0 || first >= n) {
		return n;
	}
	together = together < 256 ? together : 256;
	together = together < n ? together : n;
	return first > together ? first : together;
}

void rig_receive(struct rig_burst *burst, const uint8_t *bytes, uint32_t n,
	const struct reception *reception) {
	struct seen *seen = &burst->seen[burst->judged.n];
	struct rte_mbuf *m;

	m = buffer_make(bytes, n, reception->headroom, reception->first, reception->tailroom);
	*seen = (struct seen){.frame = {.bytes = bytes,
				      .n = n,
				      .readable = readable(n, reception),
				      .checked = reception->checked},
		.tag = reception->tag,
		.headroom = reception->headroom,
		.tailroom = reception->tailroom,
		.segments = m->nb_segs > 1};
	if (reception->checked) {
		m->ol_flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD;
	}
	if (reception->tag != 0) {
		m->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
		m->vlan_tci = reception->tag;
	}
	burst->pkts[burst->judged.n++] = m;
}

// Returns the bytes of a packet: in place, or copied to `to` if the packet has several segments.
static const uint8_t *read_back(const struct rte_mbuf *m, uint8_t *to) {
	unsigned int segments = 0;
	uint32_t n = 0;

	REQUIRE(m->pkt_len <= OUTPUT_FRAME_MAX);
	if (m->nb_segs == 1) {
		REQUIRE(m->next == NULL && m->data_len == m->pkt_len &&
			m->data_off + m->data_len <= m->buf_len);
		return rte_pktmbuf_mtod(m, const uint8_t *);
	}
	for (const struct rte_mbuf *part = m; part != NULL; part = part->next) {
		REQUIRE(n + part->data_len <= m->pkt_len);
		REQUIRE(part->data_off + part->data_len <= part->buf_len);
		memcpy(to + n, rte_pktmbuf_mtod(part, const uint8_t *), part->data_len);
		n += part->data_len;
		segments++;
	}
	REQUIRE(n == m->pkt_len && segments == m->nb_segs);
	return to;
}

static void take_extras(struct rig *rig, struct rig_burst *burst) {
	const struct weir_verdict *verdicts;
	struct rte_mbuf **pkts;
	uint16_t n = weir_pipeline_extra(rig->pipeline, &pkts, &verdicts);

	REQUIRE(n <= EXTRAS_ROOM);
	for (uint16_t i = 0; i < n; i++) {
		REQUIRE(verdicts[i].action == WEIR_ACTION_FORWARD && pkts[i]->nb_segs == 1);
		burst->extra_pkts[i] = pkts[i];
		burst->extras[i] = (struct extra){.bytes = read_back(pkts[i], NULL),
			.n = pkts[i]->pkt_len,
			.backend = verdicts[i].backend};
	}
	burst->judged.extras = burst->extras;
	burst->judged.extra_count = n;
}

void rig_process(struct rig *rig, struct rig_burst *burst, uint8_t in_port) {
	struct weir_verdict verdicts[BURST_MAX];
	uint16_t n = (uint16_t)burst->judged.n;

	captured_flows(rig, burst, in_port);
	captured_begin(rig, burst, in_port);
	weir_pipeline_process(rig->pipeline, burst->pkts, n, in_port, rig->now_ns, verdicts);
	captured_end(rig, burst, verdicts);
	weir_pipeline_maintain(rig->pipeline, rig->now_ns);
	take_extras(rig, burst);
	for (uint16_t i = 0; i < n; i++) {
		struct seen *seen = &burst->seen[i];

		REQUIRE(verdicts[i].backend == WEIR_BACKEND_NONE ||
			verdicts[i].backend < PLAN_BACKENDS);
		seen->verdict = verdicts[i];
		seen->out = read_back(burst->pkts[i], burst->gathered[i]);
		seen->out_n = burst->pkts[i]->pkt_len;
	}
	burst->judged.seen = burst->seen;
	burst->judged.in_port = in_port;
}

void rig_free(struct rig_burst *burst) {
	for (uint32_t i = 0; i < burst->judged.n; i++) {
		buffer_free(burst->pkts[i]);
	}
	for (uint32_t i = 0; i < burst->judged.extra_count; i++) {
		rte_pktmbuf_free(burst->extra_pkts[i]);
	}
	burst->judged.n = 0;
	burst->judged.extra_count = 0;
}
