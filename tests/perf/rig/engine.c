// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pause.h>

// Packets that are later than this are skipped, so that they do not form one long burst
#define LATE_S 0.001
#define AWAY_S 0.00005 // longer than any uninterrupted iteration of the loop
#define LONG_AWAY_S 0.0001 // in this time, more packets can become due than fit into a ring
#define SILENCE_S 0.0002
#define SILENCE_PACKETS 20 // gaps of fewer packets than this are normal at low rates
#define SETTLE_S 0.2 // time to wait for the last packets
#define STAMP_MASK ((1ull << 48) - 1)
#define BACKENDS_SAMPLED 16384u // number of flows whose backend is stored

struct rig_engine {
	struct rig_engine_params params;
	struct rig_traffic traffic;
	struct rig_latency latency;
	uint64_t random;
	uint32_t next_flow;
	uint32_t backend[BACKENDS_SAMPLED]; // backend of flow n; 0: not known
};

struct slice {
	uint32_t offered;
	uint32_t refused;
	bool disturbed;
};

// A running trial.
struct run {
	struct rig_engine *engine;
	const struct rig_trial_params *params;
	struct rig_result *result;
	uint64_t start;
	uint64_t end;
	uint64_t before; // time of the last iteration of the loop
	uint64_t away_ticks;
	uint64_t away_max_ticks;
	double packets_per_tick;
	uint64_t late_packets;
	uint64_t window_ticks;
	uint64_t slice_ticks;
	uint64_t returned; // time when packets last came back, or when no packets were in flight
	uint64_t silence_ticks;
	uint64_t long_away_ticks;
	struct slice slice[RIG_SLICES + 1]; // the last slice is the time after the end of the trial
};

int rig_engine_create(const struct rig_engine_params *params, struct rig_engine **ret) {
	struct rig_engine *engine = calloc(1, sizeof(*engine));

	if (engine == NULL) {
		return -ENOMEM;
	}
	engine->params = *params;
	engine->random = 0x9e3779b97f4a7c15ull;
	*ret = engine;
	return 0;
}

void rig_engine_free(struct rig_engine *engine) {
	free(engine);
}

const struct rig_latency *rig_engine_latency(const struct rig_engine *engine) {
	return &engine->latency;
}

// --- traffic ------------------------------------------------------------------------------

static void fill_buffer(struct rte_mempool *pool, void *context, void *object, unsigned int index) {
	const struct rig_engine *engine = context;
	struct rte_mbuf *m = object;

	(void)pool;
	(void)index;
	rig_traffic_fill(&engine->traffic, (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);
}

int rig_engine_set_traffic(struct rig_engine *engine, const struct rig_traffic_params *params) {
	struct rig_traffic traffic;
	int r = rig_traffic_init(params, &traffic);

	if (r < 0) {
		return r;
	}
	engine->traffic = traffic;
	engine->next_flow = 0;
	memset(engine->backend, 0, sizeof(engine->backend));
	return 0;
}

static uint32_t choose_flow(struct rig_engine *engine, bool in_order) {
	uint32_t flows = engine->traffic.params.flows;
	uint32_t flow;

	if (in_order) {
		flow = engine->next_flow;
		engine->next_flow = flow + 1 < flows ? flow + 1 : 0;
		return flow;
	}
	engine->random ^= engine->random << 13;
	engine->random ^= engine->random >> 7;
	engine->random ^= engine->random << 17;
	return (uint32_t)(((engine->random >> 32) * flows) >> 32);
}

// --- slices -------------------------------------------------------------------------------

static uint64_t slice_at(const struct run *run, uint64_t now) {
	return RTE_MIN((now - run->start) / run->slice_ticks, (uint64_t)RIG_SLICES);
}

static void disturb(struct run *run, uint64_t from, uint64_t to) {
	for (uint64_t i = slice_at(run, from); i <= slice_at(run, to); i++) {
		run->slice[i].disturbed = true;
	}
}

static void mind_silence(struct run *run, uint64_t now, bool received) {
	if (!received && run->result->received < run->result->sent) {
		if (unlikely(now - run->returned > run->silence_ticks)) {
			disturb(run, run->returned, now);
		}
		return;
	}
	run->returned = now;
}

static void add_up_slices(struct run *run) {
	struct rig_result *result = run->result;

	for (unsigned int i = 0; i < RIG_SLICES; i++) {
		const struct slice *slice = &run->slice[i];

		if (slice->disturbed || (i > 0 && slice[-1].disturbed)) {
			result->disturbed_slices++;
			continue;
		}
		result->quiet_offered += slice->offered;
		result->quiet_refused += slice->refused;
	}
}

// --- sending ------------------------------------------------------------------------------

static int send_burst(struct run *run, uint32_t n) {
	struct rig_engine *engine = run->engine;
	uint16_t bytes = engine->traffic.params.frame_bytes;
	struct rte_mbuf *pkts[RIG_BURST_MAX];
	struct slice *slice;
	uint64_t stamp;
	uint16_t sent;

	if (rte_pktmbuf_alloc_bulk(engine->params.pool, pkts, n) < 0) {
		return -ENOMEM;
	}
	stamp = rte_rdtsc();
	for (uint32_t i = 0; i < n; i++) {
		pkts[i]->data_len = bytes;
		pkts[i]->pkt_len = bytes;
		rig_traffic_write(&engine->traffic, choose_flow(engine, run->params->in_order),
			run->params->kind, stamp, rte_pktmbuf_mtod(pkts[i], uint8_t *));
	}
	sent = rte_eth_tx_burst(engine->params.send_port, 0, pkts, (uint16_t)n);
	run->result->sent += sent;
	slice = &run->slice[slice_at(run, stamp)];
	slice->offered += n;
	if (sent < n) {
		rte_pktmbuf_free_bulk(pkts + sent, n - sent);
		// At full speed no packets are due, so packets that do not fit do not count as
		// refused.
		if (run->packets_per_tick > 0) {
			run->result->refused += n - sent;
			slice->refused += n - sent;
		}
	}
	run->result->offered += run->packets_per_tick > 0 ? n : sent;
	return 0;
}

static uint32_t due(struct run *run, uint64_t now) {
	struct rig_result *result = run->result;
	uint32_t burst = run->params->burst;
	uint64_t limit = run->params->packets;
	uint64_t behind = burst;

	if (run->packets_per_tick > 0) {
		double ticks = (double)(RTE_MIN(now, run->end) - run->start);
		uint64_t until_now = (uint64_t)(ticks * run->packets_per_tick);

		behind = until_now - result->offered - result->skipped;
		if (behind > run->late_packets) {
			result->skipped += limit == 0 ? behind - run->late_packets : 0;
			behind = run->late_packets;
		}
	}
	if (limit > 0 && behind > limit - result->offered) {
		behind = limit - result->offered;
	}
	return behind < burst ? (uint32_t)behind : burst;
}

// --- receiving ----------------------------------------------------------------------------

static void check_backend(struct run *run, const struct rig_seen *seen) {
	uint32_t *backend;

	if (seen->flow >= BACKENDS_SAMPLED) {
		return;
	}
	backend = &run->engine->backend[seen->flow];
	if (*backend == 0) {
		*backend = seen->backend;
	} else if (*backend != seen->backend) {
		run->result->moved++;
		*backend = seen->backend;
	}
}

static void take(struct run *run, struct rte_mbuf *m, uint64_t now) {
	struct rig_engine *engine = run->engine;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	bool encapsulated = engine->params.encapsulated;
	struct rig_seen seen;

	switch (rig_traffic_read(&engine->traffic, encapsulated, frame, m->data_len, &seen)) {
	case RIG_STRAGGLER:
		run->result->stragglers++;
		return;
	case RIG_UNEXPECTED:
		run->result->unexpected++;
		return;
	case RIG_OURS:
		break;
	}
	run->result->received++;
	check_backend(run, &seen);
	rig_latency_add(&engine->latency, (now - seen.stamp) & STAMP_MASK);
	if (run->params->verify &&
		!rig_traffic_intact(&engine->traffic, encapsulated, frame, &seen)) {
		run->result->broken++;
	}
}

static uint16_t receive_burst(struct run *run) {
	struct rte_mbuf *pkts[RIG_BURST_MAX];
	uint16_t n = rte_eth_rx_burst(run->engine->params.receive_port, 0, pkts, RIG_BURST_MAX);
	uint64_t now, window;

	if (n == 0) {
		return 0;
	}
	now = rte_rdtsc();
	for (uint16_t i = 0; i < n; i++) {
		if (i + 4 < n) {
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + 4], void *));
		}
		take(run, pkts[i], now);
	}
	rte_pktmbuf_free_bulk(pkts, n);
	window = (now - run->start) / run->window_ticks;
	if (window < RIG_WINDOWS) {
		run->result->window[window] += n;
	}
	return n;
}

// Drop packets of previous trials, so that they do not count in this trial.
static void drain(struct rig_engine *engine) {
	struct rte_mbuf *pkts[RIG_BURST_MAX];
	uint64_t deadline = rte_rdtsc() + rte_get_tsc_hz() / 1000;

	while (rte_rdtsc() < deadline) {
		uint16_t n = rte_eth_rx_burst(engine->params.receive_port, 0, pkts, RIG_BURST_MAX);

		rte_pktmbuf_free_bulk(pkts, n);
	}
}

static void settle(struct run *run) {
	const struct rig_result *result = run->result;
	uint64_t deadline = rte_rdtsc() + (uint64_t)(SETTLE_S * (double)rte_get_tsc_hz());

	while (result->received < result->sent && rte_rdtsc() < deadline) {
		if (receive_burst(run) == 0) {
			rte_pause();
		}
	}
}

// --- a trial ------------------------------------------------------------------------------

static void mind_the_gap(struct run *run, uint64_t now, uint64_t gap_ticks) {
	uint64_t gap = now - run->before;

	run->before = now;
	if (likely(gap < gap_ticks)) {
		return;
	}
	if (gap > run->long_away_ticks) {
		disturb(run, now - gap, now);
	}
	run->away_ticks += gap;
	if (gap > run->away_max_ticks) {
		run->away_max_ticks = gap;
	}
}

static int loop(struct run *run, uint64_t gap_ticks) {
	struct rig_result *result = run->result;
	uint64_t limit = run->params->packets;
	uint64_t now = run->start;
	int r = 0;

	while (r == 0 && now < run->end && (limit == 0 || result->offered < limit)) {
		uint16_t received = receive_burst(run);
		uint32_t n;

		result->polls++;
		result->polls_with += received > 0;
		result->burst_sizes[received]++;
		now = rte_rdtsc();
		mind_the_gap(run, now, gap_ticks);
		mind_silence(run, now, received > 0);
		n = due(run, now);
		if (n > 0) {
			r = send_burst(run, n);
		} else if (received == 0) {
			rte_pause();
		}
	}
	if (run->packets_per_tick > 0 && limit == 0) {
		// Packets that were due but not yet sent at the end of the trial.
		result->skipped =
			(uint64_t)((double)(run->end - run->start) * run->packets_per_tick) -
			result->offered;
	}
	result->seconds = (double)(rte_rdtsc() - run->start) / (double)rte_get_tsc_hz();
	return r;
}

int rig_engine_run(
	struct rig_engine *engine, const struct rig_trial_params *params, struct rig_result *ret) {
	double hz = (double)rte_get_tsc_hz();
	struct run run = {.engine = engine, .params = params, .result = ret};
	int r;

	memset(ret, 0, sizeof(*ret));
	rig_latency_clear(&engine->latency);
	rig_traffic_set_trial(&engine->traffic, params->trial);
	rte_mempool_obj_iter(engine->params.pool, fill_buffer, engine);
	if (params->verify) {
		memset(engine->backend, 0, sizeof(engine->backend));
	}
	engine->next_flow = 0;
	drain(engine);
	run.packets_per_tick = params->rate_pps / hz;
	run.late_packets = RTE_MAX((uint64_t)(params->rate_pps * LATE_S), (uint64_t)params->burst);
	run.window_ticks = RTE_MAX((uint64_t)(params->seconds * hz / RIG_WINDOWS), 1ull);
	run.slice_ticks = RTE_MAX((uint64_t)(params->seconds * hz / RIG_SLICES), 1ull);
	run.silence_ticks = (uint64_t)(SILENCE_S * hz);
	run.long_away_ticks = (uint64_t)(LONG_AWAY_S * hz);
	if (params->rate_pps > 0) {
		run.silence_ticks = RTE_MAX(
			run.silence_ticks, (uint64_t)(SILENCE_PACKETS * hz / params->rate_pps));
	}
	run.start = rte_rdtsc();
	run.before = run.start;
	run.returned = run.start;
	run.end = run.start + (uint64_t)(params->seconds * hz);
	r = loop(&run, (uint64_t)(AWAY_S * hz));
	ret->received_in_time = ret->received;
	add_up_slices(&run);
	settle(&run);
	ret->away_ns = (uint64_t)((double)run.away_ticks / hz * 1e9);
	ret->away_max_ns = (uint64_t)((double)run.away_max_ticks / hz * 1e9);
	return r;
}
