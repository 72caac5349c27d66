// SPDX-License-Identifier: BSD-3-Clause
#include "measure.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_atomic.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "timer.h"
#include "verify.h"

#define START_NS 1000000000ull
#define LINE 64u
// Iterations of the idle loop for each packet of a burst. The idle loop detects interrupts and
// preemptions.
#define SPIN_TURNS 50u
// Maximum number of tuples to try for a steady flow until it is inserted into the flow table.
#define TRIES 64

#define CHOICES_KNOWN (1u << WEIR_CHOICE_FLOW)
#define CHOICES_NEW (1u << WEIR_CHOICE_NEW | 1u << WEIR_CHOICE_UNTRACKED)

// --- set-up -------------------------------------------------------------------------------

static void shuffle(struct rte_mbuf **buffers, uint32_t n, uint64_t seed) {
	struct weir_bench_random random = {.state = seed};

	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t other = weir_bench_random_below(&random, i + 1);
		struct rte_mbuf *m = buffers[i];

		buffers[i] = buffers[other];
		buffers[other] = m;
	}
}

static uint8_t *frame_of(const struct rte_mbuf *m) {
	return (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;
}

static int create_buffers(struct weir_bench_engine *engine, const struct weir_bench_heap *heap) {
	uint32_t n = engine->options->buffers;
	struct weir_bench_tuple tuple;

	engine->pool =
		rte_pktmbuf_pool_create("bench", n, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, heap->socket);
	if (engine->pool == NULL) {
		return rte_errno > 0 ? -rte_errno : -ENOMEM;
	}
	engine->buffers = calloc(n, sizeof(struct rte_mbuf *));
	engine->items = calloc(n, sizeof(*engine->items));
	if (engine->buffers == NULL || engine->items == NULL) {
		return -ENOMEM;
	}
	if (rte_pktmbuf_alloc_bulk(engine->pool, engine->buffers, n) < 0) {
		return -ENOMEM;
	}
	// Shuffle the buffers. If they were used in memory order, the CPU would prefetch the next
	// buffer.
	shuffle(engine->buffers, n, engine->options->seed);
	weir_bench_tuple(&engine->tuples, 0, &tuple);
	for (uint32_t i = 0; i < n; i++) {
		weir_bench_packet_write(
			&engine->packets, &tuple, IPPROTO_TCP, 0, 0, frame_of(engine->buffers[i]));
	}
	return 0;
}

static int create_memory(struct weir_bench_engine *engine) {
	engine->backends = malloc(((size_t)engine->traffic.steady + 1) * sizeof(uint16_t));
	engine->seen = malloc(WEIR_BENCH_YOUNG * sizeof(*engine->seen));
	if (engine->backends == NULL || engine->seen == NULL) {
		return -ENOMEM;
	}
	return 0;
}

int weir_bench_engine_create(const struct weir_bench_options *options,
	struct weir_bench_balancer *balancer, const struct weir_bench_heap *heap,
	struct weir_bench_engine *ret, char *why, size_t why_bytes) {
	struct weir_bench_engine engine = {.options = options,
		.balancer = balancer,
		.tuples = {options->seed, options->services, options->family},
		.timer_cost = weir_bench_timer_cost(),
		.ns_per_cycle = 1e9 / (double)rte_get_tsc_hz()};
	int r = weir_bench_traffic_init(&engine.traffic, options);

	weir_bench_packets_init(
		&engine.packets, options->family, options->vlan, options->packet_bytes);
	if (r == 0) {
		r = create_memory(&engine);
	}
	if (r == 0) {
		r = create_buffers(&engine, heap);
	}
	if (r < 0) {
		snprintf(why, why_bytes, "cannot allocate packets: %s", strerror(-r));
		weir_bench_engine_free(&engine);
		return r;
	}
	*ret = engine;
	return 0;
}

void weir_bench_engine_free(struct weir_bench_engine *engine) {
	if (engine->buffers != NULL && engine->buffers[0] != NULL) {
		rte_pktmbuf_free_bulk(engine->buffers, engine->options->buffers);
	}
	rte_mempool_free(engine->pool);
	free(engine->buffers);
	free(engine->items);
	free(engine->backends);
	free(engine->seen);
	weir_bench_traffic_fini(&engine->traffic);
	*engine = (struct weir_bench_engine){0};
}

// --- generation ---------------------------------------------------------------------------

static void flush_line(const uint8_t *line) {
#if defined(__x86_64__)
	_mm_clflush(line);
#elif defined(__aarch64__)
	__asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
#else
#error "cannot flush cache lines on this CPU"
#endif
}

// Evicts the headers of a packet from the caches. This is the state after a NIC has written the
// packet by DMA to memory only.
static void flush(const struct rte_mbuf *m) {
	const uint8_t *frame = frame_of(m);

	for (uint32_t i = 0; i <= WEIR_BENCH_HEADERS_BYTES / LINE; i++) {
		flush_line(frame + i * LINE);
	}
	flush_line(frame - LINE); // the line where the outer header will begin
}

static void write_frame(struct weir_bench_engine *engine, uint32_t i) {
	const struct weir_bench_item *item = &engine->items[i];
	struct weir_bench_tuple tuple;

	weir_bench_tuple(&engine->tuples, item->number, &tuple);
	weir_bench_packet_rewrite(&engine->packets, &tuple, item->protocol, item->flags,
		engine->serial + i, frame_of(engine->buffers[i]));
}

// Writes the frames of the first n items to their buffers. With --headers cold, evicts their
// headers from the caches.
static void write_frames(struct weir_bench_engine *engine, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		write_frame(engine, i);
	}
	if (engine->options->headers == WEIR_BENCH_HEADERS_COLD) {
		for (uint32_t i = 0; i < n; i++) {
			flush(engine->buffers[i]);
		}
		rte_mb();
	}
}

// Sets the mbuf fields that a driver sets for each received packet.
static void receive(const struct weir_bench_engine *engine, struct rte_mbuf **pkts, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];

		m->data_off = RTE_PKTMBUF_HEADROOM;
		m->refcnt = 1;
		m->nb_segs = 1;
		m->port = 0;
		m->ol_flags = 0;
		m->packet_type = 0;
		m->pkt_len = engine->packets.frame_bytes;
		m->data_len = (uint16_t)engine->packets.frame_bytes;
	}
}

// --- an iteration -------------------------------------------------------------------------

static inline void turn(struct weir_bench_engine *engine, struct rte_mbuf **pkts, uint16_t n,
	struct weir_verdict *verdicts) {
	struct weir_bench_balancer *balancer = engine->balancer;

	if (unlikely(weir_capture_wanted(balancer->segment) != 0)) {
		weir_bench_process_captured(balancer, pkts, n, engine->now_ns, verdicts);
	} else {
		weir_pipeline_process(balancer->pipeline, pkts, n, 0, engine->now_ns, verdicts);
	}
	if (unlikely(engine->options->publish == WEIR_BENCH_PUBLISH_LISTS)) {
		weir_bench_respond(balancer, engine->now_ns);
	}
	weir_pipeline_maintain(balancer->pipeline, engine->now_ns);
	weir_pipeline_quiescent(balancer->pipeline);
}

static uint16_t count_steady(const struct weir_bench_item *items, uint32_t n) {
	uint16_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		count += items[i].steady != WEIR_BENCH_STEADY_NONE;
	}
	return count;
}

// Advances the pipeline's clock after n packets that took `cycles` cycles: by these cycles, or, if
// engine->pace is set, by this pace for each packet.
static void advance_clock(struct weir_bench_engine *engine, uint64_t cycles, uint16_t n) {
	double passed = engine->pace > 0 ? engine->pace * n : (double)cycles;

	engine->now_ns += (uint64_t)(passed * engine->ns_per_cycle);
}

static void timed_turn(struct weir_bench_engine *engine, struct weir_bench_samples *samples,
	uint32_t first, uint16_t n) {
	struct weir_verdict verdicts[WEIR_BURST];
	struct rte_mbuf **pkts = engine->buffers + first;
	uint64_t start, cycles;

	start = weir_bench_timer_start();
	turn(engine, pkts, n, verdicts);
	cycles = weir_bench_timer_end() - start;
	cycles = cycles > engine->timer_cost ? cycles - engine->timer_cost : 0;
	weir_bench_samples_add(samples,
		(struct weir_bench_sample){cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX, n,
			count_steady(engine->items + first, n)});
	advance_clock(engine, cycles, n);
}

static void timed_spin(
	const struct weir_bench_engine *engine, struct weir_bench_samples *samples, uint16_t n) {
	uint64_t start = weir_bench_timer_start(), cycles;

	weir_bench_timer_spin(n * SPIN_TURNS);
	cycles = weir_bench_timer_end() - start;
	cycles = cycles > engine->timer_cost ? cycles - engine->timer_cost : 0;
	weir_bench_samples_add(
		samples, (struct weir_bench_sample){
				 cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX, n, 0});
}

static uint64_t stages_sum(const struct weir_trace *trace) {
	uint64_t sum = 0;

	for (unsigned int i = 0; i < WEIR_STAGE_COUNT; i++) {
		sum += trace->cycles[i];
	}
	return sum;
}

static void traced_turn(struct weir_bench_engine *engine, struct weir_bench_pass *pass,
	uint32_t first, uint16_t n) {
	struct weir_bench_balancer *balancer = engine->balancer;
	struct weir_verdict verdicts[WEIR_BURST];
	uint64_t before = stages_sum(pass->trace), start, middle, end;

	start = weir_trace_now();
	weir_pipeline_process(
		balancer->pipeline, engine->buffers + first, n, 0, engine->now_ns, verdicts);
	middle = weir_trace_now();
	weir_pipeline_maintain(balancer->pipeline, engine->now_ns);
	weir_pipeline_quiescent(balancer->pipeline);
	end = weir_trace_now();
	pass->rest_cycles += middle - start - (stages_sum(pass->trace) - before);
	pass->idle_cycles += end - middle;
	advance_clock(engine, end - start, n);
}

// --- checks -------------------------------------------------------------------------------

// Sets the expected backend and the expected choices for the packet of an item. Both depend on the
// verdicts of earlier packets of the flow.
static void expect(const struct weir_bench_engine *engine, const struct weir_bench_item *item,
	const struct weir_verdict *verdict, struct weir_bench_expectation *ret) {
	const struct weir_bench_young_seen *seen = &engine->seen[item->young];

	ret->backend = WEIR_BACKEND_NONE;
	ret->choices = CHOICES_NEW;
	if (item->steady != WEIR_BENCH_STEADY_NONE) {
		ret->backend = engine->backends[item->steady];
		if (ret->backend != WEIR_BACKEND_NONE) {
			ret->choices = CHOICES_KNOWN;
		}
		return;
	}
	if (item->flags == WEIR_BENCH_SYN) {
		return;
	}
	// The flow table may have evicted a half-open flow, or may not have inserted it. The packet
	// then starts the flow again.
	ret->choices = seen->established ? CHOICES_KNOWN : CHOICES_NEW | CHOICES_KNOWN;
	if (verdict->choice == WEIR_CHOICE_FLOW) {
		ret->backend = seen->backend;
	}
}

static void remember(struct weir_bench_engine *engine, const struct weir_bench_item *item,
	const struct weir_verdict *verdict) {
	uint16_t backend =
		verdict->choice == WEIR_CHOICE_UNTRACKED ? WEIR_BACKEND_NONE : verdict->backend;

	if (item->steady != WEIR_BENCH_STEADY_NONE) {
		engine->backends[item->steady] = backend;
	} else if (engine->traffic.young != NULL) {
		engine->seen[item->young] = (struct weir_bench_young_seen){
			backend, verdict->choice == WEIR_CHOICE_FLOW};
	}
}

static int check_packet(struct weir_bench_engine *engine, uint32_t i,
	const struct weir_verdict *verdict, char *why, size_t why_bytes) {
	const struct weir_bench_item *item = &engine->items[i];
	const struct weir_bench_packets *packets = &engine->packets;
	uint8_t frame[WEIR_BENCH_FRAME_MAX];
	struct weir_bench_tuple tuple;
	struct weir_bench_expectation expected = {.frame = frame,
		.frame_bytes = packets->frame_bytes,
		.l3_offset = packets->l3_offset,
		.ip_bytes = packets->frame_bytes - packets->l3_offset,
		.family = packets->family,
		.tos = WEIR_BENCH_TOS};
	char what[200];

	weir_bench_tuple(&engine->tuples, item->number, &tuple);
	weir_bench_packet_write(
		packets, &tuple, item->protocol, item->flags, engine->serial + i, frame);
	expected.service = tuple.service;
	expect(engine, item, verdict, &expected);
	if (expected.backend == WEIR_BACKEND_NONE) {
		expected.backend = weir_bench_consistent(engine->balancer, &tuple, item->protocol);
	}
	if (weir_bench_verify(engine->options, &expected, verdict, engine->buffers[i], what,
		    sizeof(what)) < 0) {
		snprintf(why, why_bytes, "incorrectly forwarded: %s flow %" PRIu64 ", %s: %s",
			item->steady != WEIR_BENCH_STEADY_NONE ? "steady" : "fresh", item->number,
			item->protocol == IPPROTO_UDP   ? "UDP"
			: item->flags == WEIR_BENCH_SYN ? "SYN"
							: "TCP",
			what);
		return -EBADMSG;
	}
	remember(engine, item, verdict);
	return 0;
}

static int checked_turn(
	struct weir_bench_engine *engine, uint32_t first, uint16_t n, char *why, size_t why_bytes) {
	struct weir_verdict verdicts[WEIR_BURST];
	uint64_t start = weir_bench_timer_start();
	int r = 0;

	turn(engine, engine->buffers + first, n, verdicts);
	advance_clock(engine, weir_bench_timer_end() - start, n);
	for (uint16_t i = 0; r == 0 && i < n; i++) {
		r = check_packet(engine, first + i, &verdicts[i], why, why_bytes);
	}
	return r;
}

// Checks the counters after a pass. First calls the pipeline without packets, so that the pipeline
// publishes the counters of its last burst.
static int check_counters(struct weir_bench_engine *engine, char *why, size_t why_bytes) {
	weir_pipeline_maintain(engine->balancer->pipeline, engine->now_ns);
	return weir_bench_counters_check(engine->balancer, engine->given, why, why_bytes);
}

// --- passes -------------------------------------------------------------------------------

static double seconds_now(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int do_burst(struct weir_bench_engine *engine, struct weir_bench_pass *pass, uint32_t first,
	uint16_t n, char *why, size_t why_bytes) {
	int r = 0;

	receive(engine, engine->buffers + first, n);
	if (pass->events != NULL) {
		weir_bench_events_start(pass->events);
	}
	if (pass->trace != NULL) {
		traced_turn(engine, pass, first, n);
	} else if (pass->samples != NULL) {
		timed_turn(engine, pass->samples, first, n);
		if (pass->machine != NULL) {
			timed_spin(engine, pass->machine, n);
		}
	} else {
		r = checked_turn(engine, first, n, why, why_bytes);
	}
	if (pass->events != NULL) {
		weir_bench_events_stop(pass->events);
	}
	engine->given += n;
	pass->packets += n;
	return r;
}

static int do_batch(struct weir_bench_engine *engine, struct weir_bench_pass *pass,
	uint32_t packets, char *why, size_t why_bytes) {
	uint32_t burst = engine->options->burst;
	int r = 0;

	for (uint32_t i = 0; i < packets; i += burst) {
		weir_bench_traffic_burst(&engine->traffic, engine->items + i, burst, pass->alone);
	}
	write_frames(engine, packets);
	for (uint32_t i = 0; r == 0 && i < packets; i += burst) {
		r = do_burst(engine, pass, i, (uint16_t)burst, why, why_bytes);
	}
	engine->serial += packets;
	return r;
}

static int reserve(const struct weir_bench_engine *engine, struct weir_bench_samples *samples,
	uint64_t packets) {
	uint64_t needed;

	if (samples == NULL) {
		return 0;
	}
	needed = samples->count + packets / engine->options->burst + 1;
	return needed <= samples->capacity ? 0 : weir_bench_samples_reserve(samples, needed * 2);
}

int weir_bench_pass(struct weir_bench_engine *engine, struct weir_bench_pass *pass, char *why,
	size_t why_bytes) {
	uint32_t burst = engine->options->burst;
	uint32_t batch = engine->options->buffers / burst * burst;
	double end = seconds_now() + pass->length.seconds;
	int r = 0;

	pass->packets = 0;
	weir_pipeline_trace(engine->balancer->pipeline, pass->trace);
	weir_pipeline_online(engine->balancer->pipeline);
	for (;;) {
		uint64_t left = pass->length.packets - pass->packets;
		uint32_t packets = batch;

		if (pass->length.seconds > 0) {
			left = seconds_now() < end ? batch : 0;
		}
		if (left < burst) {
			break;
		}
		if (left < packets) {
			packets = (uint32_t)left / burst * burst;
		}
		r = reserve(engine, pass->samples, packets);
		if (r == 0) {
			r = reserve(engine, pass->machine, packets);
		}
		if (r < 0) {
			snprintf(why, why_bytes, "not enough memory for the samples");
			break;
		}
		r = do_batch(engine, pass, packets, why, why_bytes);
		if (r < 0) {
			break;
		}
	}
	weir_pipeline_offline(engine->balancer->pipeline);
	weir_pipeline_trace(engine->balancer->pipeline, NULL);
	return r < 0 ? r : check_counters(engine, why, why_bytes);
}

// --- filling ------------------------------------------------------------------------------

// Sends one packet of each of the steady flows first .. first + n - 1 through the pipeline, and
// checks the result. syn: the packets are SYNs. Returns 0, or negative errno with one line in why.
static int steady_burst(struct weir_bench_engine *engine, uint32_t first, uint16_t n, bool syn,
	char *why, size_t why_bytes) {
	int r;

	for (uint32_t i = 0; i < n; i++) {
		engine->items[i] = weir_bench_traffic_steady(&engine->traffic, first + i, syn);
		write_frame(engine, i);
	}
	receive(engine, engine->buffers, n);
	r = checked_turn(engine, 0, n, why, why_bytes);
	engine->serial += n;
	engine->given += n;
	return r;
}

// Checks that a steady flow was inserted into the flow table. If it was not, gives the flow other
// tuples until it is inserted. Returns 0, -ENOSPC (not inserted after TRIES tuples), or another
// negative errno, with one line in why.
static int settle(struct weir_bench_engine *engine, uint32_t steady, char *why, size_t why_bytes) {
	int r = 0;

	for (unsigned int tries = 0; r == 0 && engine->backends[steady] == WEIR_BACKEND_NONE;
		tries++) {
		if (tries == TRIES) {
			snprintf(why, why_bytes,
				"the flow table has no room for flow %u of %u, although it should "
				"hold %u flows",
				steady + 1, engine->traffic.steady, engine->options->table_flows);
			return -ENOSPC;
		}
		engine->refused += tries == 0;
		r = weir_bench_traffic_move(&engine->traffic, steady);
		if (r < 0) {
			snprintf(why, why_bytes, "not enough memory for the flows");
		} else {
			r = steady_burst(engine, steady, 1, true, why, why_bytes);
		}
	}
	return r;
}

static int fill_burst(
	struct weir_bench_engine *engine, uint32_t first, uint16_t n, char *why, size_t why_bytes) {
	int r = steady_burst(engine, first, n, true, why, why_bytes);

	for (uint32_t i = first; r == 0 && i < first + n; i++) {
		r = settle(engine, i, why, why_bytes);
	}
	// The second packet makes the flow young, and the third packet makes it established.
	for (unsigned int turn = 0; r == 0 && turn < 2; turn++) {
		r = steady_burst(engine, first, n, false, why, why_bytes);
	}
	return r;
}

// Fills the free part of the table with half-open flows, for the case `new`. Flows that were
// inserted before the table became crowded are not evicted for WEIR_FLOW_HANDSHAKE_MS (F3 in
// flow_table.h). Therefore the clock is advanced by this time at the end.
static int fill_half_open(struct weir_bench_engine *engine, char *why, size_t why_bytes) {
	struct weir_bench_pass pass = {
		.length = {.packets = (uint64_t)engine->options->flows - engine->traffic.steady}};
	int r;

	// Send 50 % more packets, because some flows are not inserted, or evict other flows.
	pass.length.packets += pass.length.packets / 2;
	r = weir_bench_pass(engine, &pass, why, why_bytes);
	engine->now_ns += WEIR_FLOW_HANDSHAKE_MS * UINT64_C(1000000);
	return r;
}

int weir_bench_fill(struct weir_bench_engine *engine, char *why, size_t why_bytes) {
	uint32_t flows = engine->traffic.steady;
	const struct weir_worker_counters *counters =
		&engine->balancer->segment->worker_counters[WEIR_BENCH_WORKER];
	int r = 0;

	engine->now_ns = START_NS;
	engine->given = 0;
	engine->refused = 0;
	engine->traffic.moved_count = 0;
	weir_bench_traffic_restart(&engine->traffic);
	memset(engine->backends, 0xff, ((size_t)flows + 1) * sizeof(uint16_t));
	memset(engine->seen, 0, WEIR_BENCH_YOUNG * sizeof(*engine->seen));
	weir_pipeline_online(engine->balancer->pipeline);
	for (uint32_t i = 0; r == 0 && i < flows; i += WEIR_BURST) {
		r = fill_burst(engine, i, (uint16_t)RTE_MIN(flows - i, (uint32_t)WEIR_BURST), why,
			why_bytes);
	}
	weir_pipeline_offline(engine->balancer->pipeline);
	if (r == 0) {
		r = check_counters(engine, why, why_bytes);
	}
	if (r == 0 && counters->flows != flows) {
		snprintf(why, why_bytes,
			"%u flows were created, but the number of flows in the table is %" PRIu64,
			flows, counters->flows);
		return -EBADMSG;
	}
	if (r == 0 && engine->options->kind == WEIR_BENCH_CASE_NEW) {
		r = fill_half_open(engine, why, why_bytes);
	}
	return r;
}

int weir_bench_check_steady(struct weir_bench_engine *engine, char *why, size_t why_bytes) {
	uint32_t flows = engine->traffic.steady;
	int r = 0;

	weir_pipeline_online(engine->balancer->pipeline);
	for (uint32_t i = 0; r == 0 && i < flows; i += WEIR_BURST) {
		r = steady_burst(engine, i, (uint16_t)RTE_MIN(flows - i, (uint32_t)WEIR_BURST),
			false, why, why_bytes);
	}
	weir_pipeline_offline(engine->balancer->pipeline);
	return r == 0 ? check_counters(engine, why, why_bytes) : r;
}
