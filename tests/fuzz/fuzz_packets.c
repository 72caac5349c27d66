// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as bursts of frames, which a pipeline with real tables processes.
// The first byte of the input is the seed of the plan (tests/oracle/plan.h). A list of steps
// follows; each step is one byte and data:
//
//   0x00..0x7f  a burst of (low 3 bits) + 1 frames, received on port (bits 3 and 4) % 3
//   0x80..0xbf  a backend or a selection changes, depending on the low 6 bits
//   0xc0..0xdf  the time advances by 100 ms << (low 3 bits)
//   0xe0..0xff  a request, whose kind depends on the low 5 bits (requests[]); the next bytes are
//               the arguments of the request
//
// A frame is a byte of flags (enum frame_flag), its length (2 bytes, little endian) and its bytes.
//
// Checked: the judge of tests/oracle accepts the verdicts, all sent packets and the counters; both
// parsers agree; no buffer is lost.
#include "affinity.h"
#include "distribute.h"
#include "flow_query.h"
#include "fuzz.h"
#include "parse.h"
#include "rig.h"

#define STEPS_MAX 24
#define TAG 100
#define FRAME_BYTES_MAX 1600 // more than the MTU
#define BEGIN_NS 1000000000000ull

enum frame_flag {
	FIX_IPV4 = 0x01, // correct the IPv4 checksum
	FIX_ICMP = 0x02,
	FIX_LENGTH = 0x04, // set the IP length so that the packet ends with the frame
	CHECKED = 0x08, // the NIC reports that the IPv4 checksum is correct
	STRIPPED = 0x10, // the NIC stripped a VLAN tag
	LITTLE_HEADROOM = 0x20, // the first byte of the frame is the size of the headroom
	// the frame has two segments; its second byte is the size of the first segment
	SPLIT = 0x40,
	TAILROOM = 0x80, // the first segment has room for more bytes
};

struct world {
	struct rig rig;
	struct plan plan;
	struct judge judge;
	struct random random; // random numbers for changes
	struct rig_burst burst;
	uint8_t frames[8][FRAME_BYTES_MAX];
};

// --- frames -----------------------------------------------------------------------------------

// Returns the IP packet of a mutated frame, or NULL. Does not read the length fields of the packet.
// *ret_bytes: bytes to the end of the frame.
static uint8_t *find_ip(uint8_t *frame, uint32_t n, uint32_t *ret_bytes) {
	uint32_t at = after_tags(frame, n, 2);

	if (at + 20 > n) {
		return NULL;
	}
	*ret_bytes = n - at;
	return frame[at] >> 4 == 4 || *ret_bytes >= 40 ? frame + at : NULL;
}

static void fix(uint8_t *frame, uint32_t n, uint8_t flags) {
	uint32_t bytes, header;
	uint8_t *ip = find_ip(frame, n, &bytes);
	bool v4 = ip != NULL && ip[0] >> 4 == 4;

	if (ip == NULL) {
		return;
	}
	header = v4 ? (ip[0] & 15u) * 4 : 40;
	if ((flags & FIX_LENGTH) != 0) {
		put16(ip + (v4 ? 2 : 4), v4 ? bytes : bytes - 40);
	}
	if ((flags & FIX_IPV4) != 0 && v4 && header >= 20 && header <= bytes) {
		put16(ip + 10, 0);
		put16(ip + 10, (uint16_t)~sum16(ip, header, 0));
	}
	if ((flags & FIX_ICMP) != 0 && ip[v4 ? 9 : 6] == (v4 ? 1 : 58) && header + 8 <= bytes) {
		uint32_t said = v4 ? get16(ip + 2) : 40u + get16(ip + 4);
		uint32_t icmp =
			said >= header + 8 && said <= bytes ? said - header : bytes - header;

		put16(ip + header + 2, 0);
		put16(ip + header + 2,
			(uint16_t)~sum16(ip + header, icmp, v4 ? 0 : pseudo_sum(ip, icmp, 58)));
	}
}

static void take_frame(struct fuzz_input *input, struct rig_burst *burst, uint8_t *frame) {
	struct reception reception = {.headroom = RTE_PKTMBUF_HEADROOM};
	uint8_t flags = fuzz_take8(input);
	size_t n = fuzz_take16(input);
	const uint8_t *data = fuzz_take(input, n < FRAME_BYTES_MAX ? n : FRAME_BYTES_MAX, &n);

	if (n > 0) {
		memcpy(frame, data, n);
	}
	if ((flags & LITTLE_HEADROOM) && n > 0) {
		reception.headroom = data[0];
	}
	if ((flags & SPLIT) && n > 1) {
		reception.first = data[1];
	}
	if (flags & TAILROOM) {
		reception.tailroom = WEIR_HEADERS_BYTES;
	}
	reception.checked = (flags & CHECKED) != 0;
	reception.tag = flags & STRIPPED ? TAG : 0;
	fix(frame, (uint32_t)n, flags);
	rig_receive(burst, frame, (uint32_t)n, &reception);
}

// Run both parsers on a buffer that ends with the frame's first segment.
static void parse_both(struct rte_mbuf *m) {
	struct weir_descriptor fast, whole;

	if (m->nb_segs > 1) {
		weir_parse_gather(m);
	}
	memset(&fast, 0, sizeof(fast));
	weir_parse(m, PLAN_SEED, &fast);
	weir_parse_slow(m, PLAN_SEED, &whole);
	REQUIRE(memcmp(&fast, &whole, sizeof(whole)) == 0);
	if (whole.kind == WEIR_PACKET_FLOW) {
		REQUIRE(weir_pipeline_distribution_hash(m, PLAN_SEED) == whole.hash);
	} else {
		weir_pipeline_distribution_hash(m, PLAN_SEED);
	}
}

// --- steps ------------------------------------------------------------------------------------

static void burst(struct world *world, struct fuzz_input *input, uint8_t step) {
	struct rig *rig = &world->rig;

	for (uint32_t i = 0; i < (step & 7u) + 1; i++) {
		take_frame(input, &world->burst, world->frames[i]);
		parse_both(world->burst.pkts[i]);
	}
	rig_process(rig, &world->burst, (step >> 3 & 3) % PLAN_PORTS);
	if (!judge_burst(&world->judge, &world->burst.judged, rig->now_ns) ||
		!judge_counters(&world->judge, rig->memory.dataplane, true, rig->now_ns)) {
		fprintf(stderr, "packet %d of the burst: %s", world->judge.wrong,
			world->judge.text);
		abort();
	}
	rig_free(&world->burst);
}

#define ARGUMENTS(part, first_of_response) \
	offsetof(__typeof__(((struct weir_message *)0)->part), first_of_response)

// Requests that change no flows, because the judge could not predict the changes.
static const struct {
	enum weir_message_kind kind;
	size_t bytes; // of arguments
} requests[] = {
	{WEIR_MESSAGE_FLOW_LOOKUP, ARGUMENTS(flow, found)},
	{WEIR_MESSAGE_SOURCE_LOOKUP, ARGUMENTS(source, chosen)},
	{WEIR_MESSAGE_SOURCE_DELETE, ARGUMENTS(source, chosen)},
	{WEIR_MESSAGE_SOURCE_WALK, ARGUMENTS(walk, answered)},
	{WEIR_MESSAGE_FLOW_LIST, ARGUMENTS(list, end)},
	{WEIR_MESSAGE_FLOW_WAITING, ARGUMENTS(waiting, answered)},
};

static bool is_backend(uint16_t id) {
	return id == WEIR_BACKEND_NONE || id < PLAN_BACKENDS;
}

static void check_flow(const struct weir_message *message) {
	REQUIRE(is_backend(message->flow.backend) && is_backend(message->flow.chosen));
	REQUIRE(message->flow.service == WEIR_SERVICE_NONE ||
		message->flow.service < PLAN_SERVICES);
	REQUIRE((message->flow.backend != WEIR_BACKEND_NONE) == (message->flow.found != 0));
}

static void check_source(const struct weir_message *message) {
	REQUIRE(message->source.answered == 1);
	REQUIRE(is_backend(message->source.backend) && is_backend(message->source.chosen));
	REQUIRE((message->source.backend != WEIR_BACKEND_NONE) == (message->source.found != 0));
}

static void check_walk(const struct world *world, const struct weir_message *request,
	const struct weir_message *m) {
	const uint16_t *page = world->rig.memory.dataplane->flow_pages[0]
				       .source[request->walk.page % WEIR_FLOW_PAGES];
	const uint32_t first =
		request->walk.first < m->walk.lines ? request->walk.first : m->walk.lines;

	REQUIRE(m->walk.answered == 1 && m->walk.lines == RIG_SOURCES / WEIR_SOURCE_LINE);
	REQUIRE(m->walk.next <= m->walk.lines);
	REQUIRE(request->walk.last <= first || m->walk.next > first || first == m->walk.lines);
	if (request->walk.remove) {
		REQUIRE(m->walk.proven == 0 && m->walk.others <= RIG_SOURCES);
		return;
	}
	REQUIRE(m->walk.proven + m->walk.others <= RIG_SOURCES);
	for (uint32_t i = 0; i < m->walk.proven; i++) {
		REQUIRE(page[i] < PLAN_BACKENDS);
	}
	for (uint32_t i = 0; i < m->walk.others; i++) {
		REQUIRE(page[WEIR_SOURCE_PAGE - 1 - i] < PLAN_BACKENDS);
	}
}

// Fills the table with sources that send no packets.
static void enter_source(struct rig *rig, const struct weir_message *message) {
	const uint64_t hash = weir_hash_bytes(message->bytes, sizeof(message->bytes), 1);

	weir_affinity_enter(rig->affinity, hash, (uint16_t)(hash % PLAN_BACKENDS),
		WEIR_AFFINITY_NONE, (hash >> 8 & 1) != 0, 60000, rig->now_ns);
}

static void ask(struct world *world, struct fuzz_input *input, uint8_t step) {
	const unsigned int i = (step & 0x1fu) % (sizeof(requests) / sizeof(requests[0]));
	struct weir_message request = {.sequence = 7, .kind = requests[i].kind}, message;
	const uint8_t *data;
	size_t n;

	data = fuzz_take(input, requests[i].bytes, &n);
	if (n > 0) {
		memcpy(request.bytes, data, n);
	}
	enter_source(&world->rig, &request);
	message = request;
	weir_flow_query_respond(world->rig.pipeline, &message, world->rig.now_ns);
	REQUIRE(message.sequence == 7 && message.kind == request.kind);
	if (request.kind == WEIR_MESSAGE_FLOW_LOOKUP) {
		check_flow(&message);
	} else if (request.kind == WEIR_MESSAGE_SOURCE_WALK) {
		check_walk(world, &request, &message);
	} else if (request.kind != WEIR_MESSAGE_FLOW_LIST &&
		   request.kind != WEIR_MESSAGE_FLOW_WAITING) {
		check_source(&message);
	}
}

static struct world *world_of_process(void) {
	static struct world *world;

	if (world == NULL) {
		world = calloc(1, sizeof(*world));
		REQUIRE(world != NULL);
		judge_init(&world->judge);
	}
	return world;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	rig_start();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct fuzz_input input = {data, bytes};
	struct world *world = world_of_process();

	world->random.state = fuzz_take8(&input) * 0x9e3779b97f4a7c15ull | 1;
	plan_draw(&world->plan, &world->random);
	// A small flow table is created faster, and is sufficient for the few flows of an input.
	if (!world->plan.crowded) {
		world->plan.flows = 2048;
	}
	if (world->plan.fragment_entries > 1024) {
		world->plan.fragment_entries = 1024;
	}
	rig_init(&world->rig, &world->plan, BEGIN_NS, 1);
	judge_start(&world->judge, &world->plan, BEGIN_NS);
	for (unsigned int steps = 0; steps < STEPS_MAX && input.bytes > 0; steps++) {
		uint8_t step = fuzz_take8(&input);

		if (step < 0x80) {
			burst(world, &input, step);
		} else if (step < 0xc0) {
			world->random.state += step & 0x3fu;
			rig_change(&world->rig, &world->plan, &world->random);
			judge_change(&world->judge, world->rig.now_ns);
		} else if (step < 0xe0) {
			rig_wait(&world->rig, (100ull << (step & 7)) * 1000000);
		} else {
			ask(world, &input, step);
		}
	}
	rig_fini(&world->rig);
	return 0;
}
