// SPDX-License-Identifier: BSD-3-Clause
#include "offline.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ip.h>
#include <rte_mempool.h>

#include "affinity.h"
#include "changes.h"
#include "fragment_split.h"
#include "parse.h"

#define FLOWS_MAX 1048576u
#define MIB (1ull << 20)
#define BUFFERS 127 // number of buffers for a frame and its fragments
#define SECOND_NS 1000000000ull
#define AFFINITY_SECRET 0x9ddfea08eb382d69ull // not 0, which would give all sources one hash

struct weir_offline {
	const struct weir_config *config; // the initial configuration
	const struct weir_pcap_options *options;
	// The configuration of each change that is a reload; NULL for other changes.
	struct weir_config *later[WEIR_PCAP_CHANGES_MAX];
	struct weir_segment *segment; // the dataplane's mapping of the segment
	struct weir_segment *control;
	struct weir_tables *tables;
	struct weir_pipeline *pipeline;
	struct rte_mempool *pool;
	struct rte_mbuf *frame; // buffer for the current frame
	uint8_t in_port, out_port;
	uint32_t worker;
	bool started;
	uint64_t first_ns, now_ns;
	struct weir_affinity *affinity; // NULL = none
	uint32_t fragments; // fragments of the last frame
	struct rte_mbuf *fragment[WEIR_PIECES_MAX];
	struct weir_capture_frame sent_fragment[WEIR_PIECES_MAX];
};

// --- start ----------------------------------------------------------------------------------

uint32_t weir_offline_flows(const struct weir_config *config) {
	uint32_t flows = config->flow_table.flows_per_worker;

	return flows < FLOWS_MAX ? flows : FLOWS_MAX;
}

static int first_cpu(void) {
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0) {
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (CPU_ISSET(cpu, &set)) {
				return cpu;
			}
		}
	}
	return 0;
}

int weir_offline_start(const char *program, uint32_t flows, char *why, size_t why_bytes) {
	uint64_t mib = weir_flow_table_bytes(flows, WEIR_FLOW_IPV6_PERCENT_MAX) / MIB + 56;
	char memory[24], lcores[24], name[64];
	char *argv[] = {name, "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--iova-mode=va", "--log-level=lib.*:error", "--log-level=*:error", "-m", memory,
		lcores, NULL};

	snprintf(name, sizeof(name), "%s", program);
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)mib);
	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", first_cpu());
	if (rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv) < 0) {
		snprintf(why, why_bytes, "cannot start DPDK with %llu MiB of memory: %s",
			(unsigned long long)mib, rte_strerror(rte_errno));
		return rte_errno > 0 ? -rte_errno : -EIO;
	}
	return 0;
}

// --- set-up ---------------------------------------------------------------------------------

static int find_port(const struct weir_config *config, const char *name, uint8_t *ret, char *why,
	size_t why_bytes) {
	if (name == NULL) {
		*ret = 0;
		return 0;
	}
	for (uint32_t i = 0; i < config->port_count; i++) {
		if (strcmp(config->ports[i].name, name) == 0) {
			*ret = (uint8_t)i;
			return 0;
		}
	}
	snprintf(why, why_bytes, "the configuration has no port \"%s\"", name);
	return -EINVAL;
}

static uint32_t workers(const struct weir_config *config) {
	return config->workers.count > 0 ? config->workers.count : 1;
}

static int find_worker(const struct weir_config *config, uint32_t worker, uint32_t *ret, char *why,
	size_t why_bytes) {
	if (worker >= workers(config)) {
		snprintf(why, why_bytes,
			"the configuration has no worker %u: the number of workers is %u, and the "
			"first is worker 0",
			worker, workers(config));
		return -EINVAL;
	}
	*ret = worker;
	return 0;
}

static int create_segment(struct weir_offline *offline) {
	const struct weir_config *config = offline->config;
	struct weir_port_info info[WEIR_PORTS_MAX] = {0};
	struct weir_segment_params params = {
		.workers = workers(config),
		.ports = config->port_count,
		.max_services = config->segment.max_services,
		.max_backends = config->segment.max_backends,
		.heap_bytes = config->segment.heap_bytes,
		.tsc_hz = SECOND_NS,
		.hash_seed = config->instance.hash_seed,
		.port_info = info,
	};
	int r;

	for (uint32_t i = 0; i < config->port_count && i < WEIR_PORTS_MAX; i++) {
		snprintf(info[i].name, sizeof(info[i].name), "%s", config->ports[i].name);
		info[i].mtu = config->ports[i].mtu;
		info[i].vlan = config->ports[i].vlan;
		info[i].mac[0] = 2;
		info[i].mac[5] = (uint8_t)(i + 1);
	}
	if (offline->options->has_mac) {
		memcpy(info[offline->in_port].mac, offline->options->mac, sizeof(info[0].mac));
	}
	r = weir_segment_create(&params, &offline->segment);

	return r < 0 ? r : weir_segment_attach_own(offline->segment, &offline->control);
}

static void resolve(
	struct weir_offline *offline, const struct weir_config_port *port, uint16_t id) {
	struct weir_next_hop hop = {
		.resolved = true,
		.on_link = !port->has_gateway_mac,
		.port = offline->out_port,
		.mac = {2, 0, 0, 1, (uint8_t)(id >> 8), (uint8_t)id},
	};
	struct weir_backend_state state;

	if (weir_tables_backend(offline->tables, id, &state) < 0) {
		return;
	}
	if (port->has_gateway_mac) {
		memcpy(hop.mac, port->gateway_mac, sizeof(hop.mac));
	}
	hop.source = state.address.family == 4 ? port->source_ipv4 : port->source_ipv6;
	hop.source_bits = state.address.family == 4 ? port->source_ipv4_bits : 0;
	if (hop.source.family != state.address.family) {
		weir_address_parse(
			state.address.family == 4 ? "192.0.2.1" : "2001:db8::1", &hop.source);
	}
	weir_tables_set_next_hop(offline->tables, id, &hop);
	if (state.health == WEIR_HEALTH_STARTING) {
		weir_tables_set_health(offline->tables, id, WEIR_HEALTH_HEALTHY);
	}
}

static int apply(struct weir_offline *offline, const struct weir_config *config, char *why,
	size_t why_bytes) {
	int r = weir_tables_apply(offline->tables, config, why, why_bytes);

	for (uint32_t id = 0; r == 0 && id < weir_tables_backend_ids(offline->tables); id++) {
		resolve(offline, &config->ports[offline->out_port], (uint16_t)id);
	}
	return r;
}

// Makes the change with this index in the list of the command line. Returns 0 or negative errno
// with one line in why.
static int change(struct weir_offline *offline, uint32_t i, char *why, size_t why_bytes) {
	const struct weir_pcap_change *change = &offline->options->change[i];
	int id;

	if (change->kind == WEIR_PCAP_RELOAD) {
		return apply(offline, offline->later[i], why, why_bytes);
	}
	id = weir_tables_backend_find(offline->tables, change->service, change->backend);
	if (id < 0) {
		snprintf(why, why_bytes, "the configuration has no backend \"%s/%s\"",
			change->service, change->backend);
		return -EINVAL;
	}
	switch (change->kind) {
	case WEIR_PCAP_RELOAD:
		break;
	case WEIR_PCAP_MAINTENANCE:
		return weir_tables_set_admin(offline->tables, (uint16_t)id, WEIR_ADMIN_MAINTENANCE);
	case WEIR_PCAP_DRAIN:
		return weir_tables_set_admin(offline->tables, (uint16_t)id, WEIR_ADMIN_DRAIN);
	case WEIR_PCAP_DOWN:
		return weir_tables_set_health(offline->tables, (uint16_t)id, WEIR_HEALTH_REFUSING);
	case WEIR_PCAP_WEIGHT:
		break;
	}
	return weir_tables_set_weight(offline->tables, (uint16_t)id, change->weight);
}

// Publishes a configuration. Backends get flows only after their counters are allocated and the
// selections are complete. Selections are built in steps. This function does all steps, so that the
// complete change applies to the next packet.
static int publish(struct weir_offline *offline, char *why, size_t why_bytes) {
	int r = weir_segment_follow(offline->segment);

	if (r == 0) {
		r = weir_tables_publish(offline->tables);
	}
	if (r >= 0) {
		do {
			r = weir_tables_build(offline->tables);
		} while (r > 0);
	}
	if (r < 0) {
		snprintf(why, why_bytes, "cannot publish the tables: %s", strerror(-r));
	}
	return r < 0 ? r : 0;
}

static int fill_tables(struct weir_offline *offline, char *why, size_t why_bytes) {
	const struct weir_pcap_options *options = offline->options;
	int r = weir_pcap_changes_read(offline->config, options, offline->later, why, why_bytes);

	if (r == 0) {
		r = apply(offline, offline->config, why, why_bytes);
	}
	for (uint32_t i = 0; i < options->changes && r == 0; i++) {
		if (options->change[i].packet <= 1) {
			r = change(offline, i, why, why_bytes);
		}
	}
	return r < 0 ? r : publish(offline, why, why_bytes);
}

static int create_pipeline(struct weir_offline *offline) {
	const struct weir_config_flow_table *flows = &offline->config->flow_table;
	struct weir_pipeline_params params = {
		.segment = offline->segment,
		.worker = offline->worker,
		.flow_table = {.flows = weir_offline_flows(offline->config),
			.ipv6_percent = flows->ipv6_percent,
			.half_open_percent = flows->half_open_percent,
			.timeout_ms = {[WEIR_FLOW_SYN_SEEN] = flows->syn_seen_ms,
				[WEIR_FLOW_ESTABLISHED] = flows->established_ms,
				[WEIR_FLOW_CLOSING] = flows->closing_ms,
				[WEIR_FLOW_UDP] = flows->udp_ms,
				[WEIR_FLOW_YOUNG] = flows->young_ms,
				[WEIR_FLOW_UDP_SEEN] = flows->udp_seen_ms},
			.socket = SOCKET_ID_ANY},
		.hash_seed = offline->config->instance.hash_seed,
		.icmp = {.echo = offline->config->icmp.echo_per_second,
			.too_big = offline->config->icmp.too_big_per_second,
			.unreachable = offline->config->icmp.unreachable_per_second},
		.fragments = {.entries = offline->config->fragments.entries,
			.timeout_ms = offline->config->fragments.timeout_ms},
		.any_mac_ports = offline->options->has_mac ? 0 : UINT32_MAX,
	};
	const uint32_t sources = offline->config->flow_table.affinity_sources;
	int r;

	if (sources > 0 && weir_affinity_create(sources, AFFINITY_SECRET, SOCKET_ID_ANY,
				   &offline->affinity) < 0) {
		return -ENOMEM;
	}
	params.affinity = offline->affinity;
	offline->pool = rte_pktmbuf_pool_create("frames", BUFFERS, 0, 0, UINT16_MAX, SOCKET_ID_ANY);
	if (offline->pool == NULL) {
		return -rte_errno;
	}
	offline->frame = rte_pktmbuf_alloc(offline->pool);
	if (offline->frame == NULL) {
		return -ENOMEM;
	}
	r = weir_pipeline_create(&params, &offline->pipeline);
	if (r == 0) {
		weir_pipeline_settle(offline->pipeline);
	}
	return r;
}

int weir_offline_create(const struct weir_config *config, const struct weir_pcap_options *options,
	struct weir_offline **ret, char *why, size_t why_bytes) {
	struct weir_offline *offline = calloc(1, sizeof(*offline));
	int r;

	if (offline == NULL) {
		snprintf(why, why_bytes, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	offline->config = config;
	offline->options = options;
	r = find_port(config, options->in_port, &offline->in_port, why, why_bytes);
	if (r < 0) {
		goto free_offline;
	}
	r = find_port(config, options->out_port, &offline->out_port, why, why_bytes);
	if (r < 0) {
		goto free_offline;
	}
	r = find_worker(config, options->worker, &offline->worker, why, why_bytes);
	if (r < 0) {
		goto free_offline;
	}
	snprintf(why, why_bytes, "cannot set up the tables and the packet pipeline");
	r = create_segment(offline);
	if (r < 0) {
		goto free_offline;
	}
	r = weir_tables_open(offline->control, &offline->tables);
	if (r < 0) {
		goto free_offline;
	}
	r = fill_tables(offline, why, why_bytes);
	if (r < 0) {
		goto free_offline;
	}
	r = create_pipeline(offline);
	if (r < 0) {
		snprintf(why, why_bytes, "cannot set up the packet pipeline: %s", strerror(-r));
		goto free_offline;
	}
	*ret = offline;
	return 0;

free_offline:
	weir_offline_free(offline);
	return r;
}

void weir_offline_free(struct weir_offline *offline) {
	if (offline == NULL) {
		return;
	}
	rte_pktmbuf_free_bulk(offline->fragment, offline->fragments);
	rte_pktmbuf_free(offline->frame);
	weir_pipeline_free(offline->pipeline);
	weir_affinity_free(offline->affinity);
	rte_mempool_free(offline->pool);
	weir_tables_free(offline->tables);
	weir_segment_free(offline->control);
	weir_segment_free(offline->segment);
	for (uint32_t i = 0; i < WEIR_PCAP_CHANGES_MAX; i++) {
		weir_config_free(offline->later[i]);
	}
	free(offline);
}

const struct weir_tables *weir_offline_tables(const struct weir_offline *offline) {
	return offline->tables;
}

int weir_offline_change(
	struct weir_offline *offline, uint64_t packet, char *why, size_t why_bytes) {
	const struct weir_pcap_options *options = offline->options;
	bool due = false;
	int r = 0;

	for (uint32_t i = 0; i < options->changes && r == 0 && packet > 1; i++) {
		if (options->change[i].packet == packet) {
			due = true;
			r = change(offline, i, why, why_bytes);
		}
	}
	if (r == 0 && due) {
		r = publish(offline, why, why_bytes);
		weir_pipeline_settle(offline->pipeline);
	}
	return r;
}

// --- frames ---------------------------------------------------------------------------------

static uint64_t advance_clock(struct weir_offline *offline, uint64_t time_ns) {
	uint64_t now_ns;

	if (!offline->started) {
		offline->started = true;
		offline->first_ns = time_ns;
	}
	// The clock starts at one second, so that times before the first packet are not negative.
	now_ns = SECOND_NS;
	if (time_ns > offline->first_ns) {
		now_ns += time_ns - offline->first_ns;
	}
	if (now_ns > offline->now_ns) {
		offline->now_ns = now_ns;
	}
	return offline->now_ns;
}

// The data that is needed to process a truncated frame.
struct cut {
	struct weir_descriptor d;
	bool echo; // an echo request with truncated data
	uint16_t echo_checksum; // checksum as captured
};

// Replaces the checksum of an echo request whose data is truncated. Zeros replace the missing data,
// so the captured checksum does not match, and the pipeline would drop the packet. The new checksum
// is correct for the packet with zeros. The captured checksum is assumed to be correct, like all
// checksums over missing payload.
static void forgive_echo(uint8_t *frame, struct cut *cut) {
	uint8_t *ip = frame + cut->d.l3_offset, *icmp = ip + cut->d.l4_offset;
	uint32_t bytes = cut->d.ip_bytes - cut->d.l4_offset;
	uint64_t sum = 0;

	cut->echo = true;
	cut->echo_checksum = weir_load16(icmp + 2);
	weir_store16(icmp + 2, 0);
	if (cut->d.key.family == 6) {
		sum = rte_raw_cksum(ip + 8, 32);
		sum += rte_cpu_to_be_16((uint16_t)bytes) + RTE_BE16(WEIR_PROTOCOL_ICMPV6);
	}
	sum += rte_raw_cksum(icmp, bytes);
	weir_store16(icmp + 2, (uint16_t)~weir_checksum_fold(sum));
}

// Sets the checksum of an echo reply to the value for the original data. The reply differs from the
// request only in the ICMP type, so the value can be computed from the captured checksum.
static void restore_echo(uint8_t *frame, const struct cut *cut) {
	bool ipv4 = cut->d.key.family == 4;
	uint8_t *icmp = frame + cut->d.l3_offset + (ipv4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES);
	uint16_t reply = weir_load16(icmp), request;

	icmp[0] = ipv4 ? 8 : 128;
	request = weir_load16(icmp);
	weir_store16(icmp, reply);
	weir_store16(icmp + 2, weir_checksum_update(cut->echo_checksum, request, reply));
}

// Loads a frame into the buffer. In a truncated frame, zeros replace the missing bytes, and are
// forwarded with the packet. The pipeline reads only the captured bytes (data_len), so the captured
// bytes must contain all headers. Of an echo request, the pipeline reads all bytes.
static struct rte_mbuf *load(
	struct weir_offline *offline, const struct weir_capture_frame *frame, struct cut *ret_cut) {
	struct rte_mbuf *m = offline->frame;
	uint8_t *data;

	rte_pktmbuf_reset(m);
	data = rte_pktmbuf_mtod(m, uint8_t *);
	memcpy(data, frame->data, frame->captured_bytes);
	memset(data + frame->captured_bytes, 0, frame->bytes - frame->captured_bytes);
	m->data_len = (uint16_t)frame->captured_bytes;
	m->pkt_len = frame->bytes;
	if (frame->captured_bytes < frame->bytes) {
		weir_parse_slow(m, 0, &ret_cut->d);
		if (ret_cut->d.kind == WEIR_PACKET_ECHO) {
			m->data_len = (uint16_t)frame->bytes;
			if (ret_cut->d.l3_offset + ret_cut->d.ip_bytes > frame->captured_bytes) {
				forgive_echo(data, ret_cut);
			}
		}
	}
	return m;
}

// Returns how many bytes of a sent frame are valid if the received frame was truncated: all outer
// headers, and the captured part of the inner packet. All bytes of an ICMP error are valid, because
// it quotes only captured bytes.
static uint32_t real_bytes(const struct rte_mbuf *m, const struct weir_capture_frame *frame,
	const struct weir_verdict *verdict, const struct cut *cut) {
	uint32_t inner = frame->captured_bytes - cut->d.l3_offset;
	uint32_t headers = RTE_PKTMBUF_HEADROOM + cut->d.l3_offset - m->data_off;

	if (verdict->action == WEIR_ACTION_REPLY && !cut->echo) {
		return m->pkt_len;
	}
	if (cut->echo) { // the frame may be padded
		const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, cut->d.l3_offset);
		uint32_t head = cut->d.key.family == 4 ? 0 : WEIR_IPV6_BYTES;
		uint32_t reply = head + rte_be_to_cpu_16(weir_load16(ip + (head == 0 ? 2 : 4)));

		return cut->d.l3_offset + reply - cut->d.ip_bytes + RTE_MIN(inner, cut->d.ip_bytes);
	}
	return headers + RTE_MIN(inner, cut->d.ip_bytes);
}

// Collects the additional fragments. They stay in their buffers until the next frame.
static void take_fragments(struct weir_offline *offline, const struct weir_capture_frame *frame,
	struct weir_offline_result *ret) {
	const struct weir_verdict *verdicts;
	struct rte_mbuf **pkts;

	offline->fragments = weir_pipeline_extra(offline->pipeline, &pkts, &verdicts);
	memcpy(offline->fragment, pkts, offline->fragments * sizeof(pkts[0]));
	ret->fragments = offline->fragments;
	ret->fragment = offline->sent_fragment;
	for (uint32_t i = 0; i < offline->fragments; i++) {
		offline->sent_fragment[i] =
			(struct weir_capture_frame){.data = rte_pktmbuf_mtod(pkts[i], uint8_t *),
				.captured_bytes = pkts[i]->pkt_len,
				.bytes = pkts[i]->pkt_len,
				.time_ns = frame->time_ns};
	}
}

static void set_names(const struct weir_offline *offline, const struct weir_verdict *verdict,
	struct weir_offline_result *ret) {
	ret->backend_id = verdict->backend;
	ret->service = weir_tables_service_name(offline->tables, verdict->service);
	ret->backend = weir_tables_backend_name(offline->tables, verdict->backend);
}

void weir_offline_process(struct weir_offline *offline, const struct weir_capture_frame *frame,
	struct weir_offline_result *ret) {
	struct weir_offline_result result = {.action = WEIR_ACTION_DROP,
		.reason = WEIR_DROP_FRAME_TOO_LONG,
		.backend_id = WEIR_BACKEND_NONE,
		.cut = frame->captured_bytes < frame->bytes};
	uint64_t now_ns = advance_clock(offline, frame->time_ns);
	struct cut cut = {0};
	struct weir_verdict verdict;
	struct rte_mbuf *m;

	if (frame->bytes > WEIR_OFFLINE_FRAME_BYTES_MAX) {
		*ret = result;
		return;
	}
	rte_pktmbuf_free_bulk(offline->fragment, offline->fragments);
	m = load(offline, frame, &cut);
	// Expire all flows that have timed out since the last packet.
	while (weir_pipeline_maintain(offline->pipeline, now_ns)) {
	}
	weir_pipeline_process(offline->pipeline, &m, 1, offline->in_port, now_ns, &verdict);
	take_fragments(offline, frame, &result);
	weir_pipeline_maintain(offline->pipeline, now_ns);
	result.action = verdict.action;
	result.reason = verdict.reason;
	result.choice = verdict.choice;
	set_names(offline, &verdict, &result);
	if (verdict.action == WEIR_ACTION_FORWARD || verdict.action == WEIR_ACTION_REPLY) {
		result.port = offline->config->ports[verdict.port].name;
		result.sent = (struct weir_capture_frame){.data = rte_pktmbuf_mtod(m, uint8_t *),
			.captured_bytes = m->pkt_len,
			.bytes = m->pkt_len,
			.time_ns = frame->time_ns};
		if (result.cut && result.fragments == 0) {
			result.sent.captured_bytes = real_bytes(m, frame, &verdict, &cut);
		}
		if (cut.echo) {
			restore_echo(rte_pktmbuf_mtod(m, uint8_t *), &cut);
		}
	}
	*ret = result;
}
