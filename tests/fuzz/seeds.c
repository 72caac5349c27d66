// SPDX-License-Identifier: BSD-3-Clause
//
// Writes the corpora of fuzz_packets, fuzz_segment and fuzz_pcap, from the frames of the unit
// tests and the layout of the segment. "seeds FOLDER" creates a folder for each target in FOLDER.
// The corpora of the text formats are written by hand (corpus/).
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "edges.h"
#include "layout.h"
#include "mailbox.h"

#define FILE_MAX 16384
#define EDGES_PER_FILE 4
#define SYN 0x02
#define ACK 0x10
#define FIN 0x01
#define RST 0x04
#define PLAN 1 // first byte of fuzz_packets: the seed of the plan

struct seed {
	uint8_t bytes[FILE_MAX];
	size_t n;
};

static void put(struct seed *seed, const void *bytes, size_t n) {
	if (n > sizeof(seed->bytes) - seed->n) {
		fprintf(stderr, "a seed is too long\n");
		exit(1);
	}
	if (n > 0) {
		memcpy(seed->bytes + seed->n, bytes, n);
	}
	seed->n += n;
}

static void put8(struct seed *seed, unsigned int value) {
	put(seed, &(uint8_t){(uint8_t)value}, 1);
}

static void put16(struct seed *seed, unsigned int value) {
	put(seed, &(uint16_t){(uint16_t)value}, 2);
}

static void put32(struct seed *seed, uint32_t value) {
	put(seed, &value, 4);
}

static void save(const struct seed *seed, const char *folder, const char *kind, const char *name) {
	char path[4096];
	size_t start;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/", folder, kind);
	start = strlen(path);
	snprintf(path + start, sizeof(path) - start, "%s", name);
	for (char *c = path + start; *c != '\0'; c++) {
		*c = strchr(" ,.+()/:", *c) != NULL ? '-' : *c;
	}
	file = fopen(path, "wb");
	if (file != NULL && strcmp(kind, "packets") == 0) {
		fputc(PLAN, file);
	}
	if (file == NULL || fwrite(seed->bytes, 1, seed->n, file) != seed->n || fclose(file) != 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
}

// --- packets: the steps of fuzz_packets.c -----------------------------------------------------

static void put_frame(struct seed *seed, const struct frame *frame, uint8_t flags) {
	put8(seed, flags);
	put16(seed, frame->n);
	put(seed, frame->bytes, frame->n);
}

static void put_burst(struct seed *seed, const struct frame_spec *specs, unsigned int n) {
	struct frame frame;

	put8(seed, n - 1);
	for (unsigned int i = 0; i < n; i++) {
		frame_build(&specs[i], &frame);
		put_frame(seed, &frame, 0);
	}
}

static void put_tcp(struct seed *seed, uint8_t family, uint16_t port, uint8_t flags) {
	const struct frame_spec spec = {.family = family,
		.protocol = 6,
		.tcp_flags = flags,
		.source_port = port,
		.payload = flags == ACK ? 4 : 0};

	put_burst(seed, &spec, 1);
}

static void save_edges(const char *folder) {
	struct frame frame;

	for (unsigned int i = 0; i < edge_count; i += EDGES_PER_FILE) {
		unsigned int n = edge_count - i < EDGES_PER_FILE ? edge_count - i : EDGES_PER_FILE;
		struct seed seed = {.n = 0};

		put8(&seed, n - 1);
		for (unsigned int k = i; k < i + n; k++) {
			edge_build(&edges[k], &frame);
			if (frame.n > 400) { // only the start of a frame is unusual
				frame.n = 400;
			}
			put_frame(&seed, &frame, 0);
		}
		save(&seed, folder, "packets", edges[i].name);
	}
}

static void save_lives(const char *folder) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		struct seed life = {.n = 0}, tables = {.n = 0};

		put_tcp(&life, family, 1025, SYN);
		put_tcp(&life, family, 1025, ACK);
		put_tcp(&life, family, 1025, FIN | ACK);
		put_tcp(&life, family, 1025, SYN);
		put_tcp(&life, family, 1025, RST);
		put8(&life, 0xc4); // 1.6 s pass
		put_tcp(&life, family, 1025, ACK);
		put8(&life, 0xc7); // 12.8 s pass
		put_tcp(&life, family, 1025, ACK);
		save(&life, folder, "packets", family == 4 ? "life-4" : "life-6");
		for (unsigned int step = 0; step < 5; step++) {
			for (uint16_t port = 1025; port < 1031; port++) {
				put_tcp(&tables, family, port, step == 0 ? SYN : ACK);
			}
			put8(&tables, 0x80 + (step + 1) % 4);
		}
		save(&tables, folder, "packets", family == 4 ? "tables-4" : "tables-6");
	}
}

// Saves frames that end inside their headers. The flags of the frames cause the target to correct
// lengths and checksums, so that the frames are otherwise valid.
static void save_cuts(const char *folder) {
	static const struct frame_spec specs[] = {
		{.family = 4, .protocol = 6, .tcp_flags = SYN},
		{.family = 4, .protocol = 17, .destination_port = 53, .payload = 12},
		{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 12},
		{.family = 6, .protocol = 6, .tcp_flags = SYN},
		{.family = 6, .protocol = 17, .destination_port = 53, .payload = 12},
		{.family = 6, .protocol = 58, .icmp_type = 128, .payload = 12},
	};
	static const uint8_t l4_bytes[] = {0, 4, 7, 8, 12, 13, 19, 20};
	struct frame frame;
	char name[32];

	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct seed seed = {.n = 0};

		put8(&seed, sizeof(l4_bytes) - 1);
		frame_build(&specs[i], &frame);
		for (unsigned int k = 0; k < sizeof(l4_bytes); k++) {
			frame.n = frame.l4 + l4_bytes[k];
			put_frame(&seed, &frame, 0x07);
		}
		snprintf(name, sizeof(name), "cuts-%u-%u", specs[i].family, specs[i].protocol);
		save(&seed, folder, "packets", name);
	}
}

// Saves the largest packets that fit, and packets with one more byte. Flows of port 1025 go to an
// IPv6 backend, flows of port 1026 to an IPv4 backend.
static void save_largest(const char *folder) {
	static const uint16_t payloads[] = {1420, 1421, 1440, 1441};
	struct seed seed = {.n = 0};

	for (unsigned int i = 0; i < 4; i++) {
		const struct frame_spec spec = {.family = 4,
			.protocol = 6,
			.tcp_flags = ACK,
			.source_port = (uint16_t)(1025 + i / 2),
			.payload = payloads[i]};

		put_burst(&seed, &spec, 1);
	}
	save(&seed, folder, "packets", "largest");
}

static void save_handling(const char *folder) {
	static const struct frame_spec specs[] = {
		{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 32, .tags = 1},
		{.family = 6, .protocol = 58, .icmp_type = 128, .payload = 31},
		{.family = 4, .protocol = 6, .tcp_flags = SYN, .padding = 6},
		{.family = 6, .protocol = 17, .destination_port = 53, .payload = 9},
		{.family = 4, .protocol = 6, .tcp_flags = ACK, .payload = 1455},
		{.family = 6, .protocol = 6, .tcp_flags = ACK, .payload = 1435},
	};
	static const uint8_t flags[] = {0x10, 0x40, 0xc0, 0x20, 0x08, 0x07};
	struct seed seed, question = {.n = 0};
	struct frame frame;
	char name[32];

	for (unsigned int f = 0; f < sizeof(flags); f++) {
		// the two largest frames are in only one seed
		unsigned int n = flags[f] == 0x08 ? 6 : 4;

		seed.n = 0;
		put8(&seed, n - 1);
		for (unsigned int i = 0; i < n; i++) {
			frame_build(&specs[i], &frame);
			put_frame(&seed, &frame, flags[f]);
		}
		snprintf(name, sizeof(name), "flags-%02x", flags[f]);
		save(&seed, folder, "packets", name);
	}
	// The ICMP part of the reply is all zeroes, except for its checksum.
	frame_build(&specs[0], &frame);
	memset(frame.bytes + frame.l4, 0, frame.n - frame.l4);
	frame.bytes[frame.l4] = 8;
	frame_put16(frame.bytes + frame.l4 + 2, 0xf7ff);
	seed.n = 0;
	put8(&seed, 0);
	put_frame(&seed, &frame, 0);
	save(&seed, folder, "packets", "echo of zeros");
	put_tcp(&question, 4, 1025, SYN);
	put8(&question, 0xe0);
	put(&question, frame_client4, 16);
	put(&question, frame_vip4, 16);
	put16(&question, 1025);
	put16(&question, 80);
	put8(&question, 4);
	put8(&question, 6);
	save(&question, folder, "packets", "question");
	for (uint8_t step = 0xe1; step < 0xe6; step++) { // the other kinds of requests
		for (unsigned int i = 0; i < 3; i++) {
			seed.n = 0;
			put_tcp(&seed, 4, 1025, SYN);
			put8(&seed, step);
			memset(seed.bytes + seed.n, i == 0 ? 0 : 0xff, 42);
			if (i == 2) {
				memset(seed.bytes + seed.n, 0, 4); // from the first line
			}
			seed.n += 42;
			snprintf(name, sizeof(name), "request-%02x-%u", step, i);
			save(&seed, folder, "packets", name);
		}
	}
}

// --- segment: the pieces of fuzz_segment.c ----------------------------------------------------

static void put_piece(
	struct seed *seed, unsigned int place, size_t offset, const void *bytes, size_t n) {
	put8(seed, place);
	put16(seed, (unsigned int)offset);
	put8(seed, (unsigned int)n);
	put(seed, bytes, n);
}

static void put_renew(struct seed *seed, unsigned int place) {
	put8(seed, 13);
	put16(seed, place - 4);
}

static void put_turn(struct seed *seed) {
	put8(seed, 16);
	put16(seed, 0);
}

static void save_piece(const char *folder, const char *name, unsigned int place, size_t offset,
	uint64_t value, size_t n) {
	static const uint8_t options[] = {0x00, 0xf4, 0xfc};
	char file[64];

	for (unsigned int i = 0; i < sizeof(options); i++) {
		struct seed seed = {.n = 0};

		put8(&seed, options[i]);
		put_piece(&seed, place, offset, &value, n);
		if (place >= 4 && place <= 6) {
			put_renew(&seed, place);
		}
		snprintf(file, sizeof(file), "%s-%02x", name, options[i]);
		save(&seed, folder, "segment", file);
	}
}

// Save inputs that overwrite one field of every backend's row, in both copies of the row.
static void save_rows(
	const char *folder, const char *name, size_t offset, uint64_t value, size_t n) {
	struct seed seed = {.n = 0};

	put8(&seed, 0);
	for (uint16_t id = 0; id < 6; id++) {
		for (size_t copy = 0; copy < 2; copy++) {
			put_piece(&seed, 7,
				id * sizeof(struct weir_row_pair) +
					offsetof(struct weir_row_pair, row) +
					copy * sizeof(struct weir_backend_row) + offset,
				&value, n);
		}
		put8(&seed, 14);
		put16(&seed, 2u << 12 | id); // WEIR_UPDATE_ROW
	}
	save(&seed, folder, "segment", name);
}

// Saves an input that frees every page of tables, with bursts in between.
static void save_holes(const char *folder) {
	struct seed seed = {.n = 0};

	put8(&seed, 0);
	for (unsigned int page = 0; page < 24; page++) {
		put8(&seed, 15);
		put16(&seed, page);
		put_turn(&seed);
	}
	save(&seed, folder, "segment", "holes");
}

// Saves log entries of valid and invalid kinds, for valid and invalid ids.
static void save_log(const char *folder) {
	static const unsigned int ids[] = {0, 1, 7, 8, 4095};
	struct seed seed = {.n = 0};

	put8(&seed, 0);
	for (unsigned int kind = 0; kind < 5; kind++) {
		for (unsigned int i = 0; i < 5; i++) {
			put8(&seed, 14);
			put16(&seed, kind << 12 | ids[i]);
		}
		put_turn(&seed);
	}
	save(&seed, folder, "segment", "log");
}

// Saves an input with a request in the mailbox, and a burst in which the worker reads it.
static void save_request(const char *folder, const char *name, const struct weir_message *message) {
	const uint64_t tail = 1;
	struct seed seed = {.n = 0};

	put8(&seed, 0);
	put_turn(&seed);
	put_piece(&seed, 8, offsetof(struct weir_control_box, request.message), message,
		sizeof(*message));
	put_piece(&seed, 8, offsetof(struct weir_control_box, request.tail), &tail, sizeof(tail));
	put_turn(&seed);
	save(&seed, folder, "segment", name);
}

static void save_source_requests(const char *folder) {
	static const struct {
		const char *name;
		enum weir_message_kind kind;
	} kinds[] = {
		{"source-lookup", WEIR_MESSAGE_SOURCE_LOOKUP},
		{"source-delete", WEIR_MESSAGE_SOURCE_DELETE},
		{"source-walk", WEIR_MESSAGE_SOURCE_WALK},
	};

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct weir_message message = {.kind = kinds[i].kind};
		char name[32];

		save_request(folder, kinds[i].name, &message);
		memset(message.bytes, 0xff, sizeof(message.bytes));
		snprintf(name, sizeof(name), "%s-ones", kinds[i].name);
		save_request(folder, name, &message);
		if (kinds[i].kind == WEIR_MESSAGE_SOURCE_WALK) {
			message.walk.first = 0;
			message.walk.remove = 0;
		} else {
			message.source.service = 1;
			message.source.family = 4;
			memcpy(message.source.address, frame_client4, 4);
		}
		snprintf(name, sizeof(name), "%s-client", kinds[i].name);
		save_request(folder, name, &message);
	}
}

static void save_requests(const char *folder) {
	struct weir_message message = {.kind = WEIR_MESSAGE_FLOW_WAITING};

	message.waiting.last = UINT32_MAX;
	save_request(folder, "waiting-all", &message);
	message.waiting.first = UINT32_MAX;
	save_request(folder, "waiting-beyond", &message);
	message.waiting.last = 7;
	message.waiting.idle_ms = UINT32_MAX;
	memset(message.waiting.backend, 0xff, sizeof(message.waiting.backend));
	save_request(folder, "waiting-backwards", &message);
	message = (struct weir_message){.kind = WEIR_MESSAGE_FLOW_LIST};
	message.list.last = UINT32_MAX;
	message.list.backend = WEIR_BACKEND_NONE;
	message.list.service = WEIR_SERVICE_NONE;
	message.list.states = UINT8_MAX;
	save_request(folder, "list-all", &message);
	message.list.page = UINT8_MAX;
	message.list.family = 9;
	message.list.client_bits = UINT8_MAX;
	save_request(folder, "list-bits", &message);
	message = (struct weir_message){.kind = WEIR_MESSAGE_FLOW_MOVE};
	message.move.family = 4;
	message.move.deadline_ns = UINT64_MAX;
	message.move.to = WEIR_BACKEND_NONE;
	save_request(folder, "move-nobody", &message);
	memset(message.bytes, 0xff, sizeof(message.bytes));
	save_request(folder, "move-ones", &message);
	message.move.family = 6;
	save_request(folder, "move-ones-6", &message);
	save_source_requests(folder);
}

// Save an input in which the services drain, and all binds of the table have this value. count:
// number of ranges of each service.
static void save_drained(
	const char *folder, const char *name, uint32_t phase, uint16_t bind, uint32_t count) {
	static const uint8_t options[] = {0x00, 0xf4, 0xfc};
	char file[64];

	for (unsigned int i = 0; i < sizeof(options); i++) {
		struct seed seed = {.n = 0};

		put8(&seed, options[i]);
		for (size_t id = 0; id < 2; id++) {
			put_piece(&seed, 9,
				id * sizeof(struct weir_identity_service) +
					offsetof(struct weir_identity_service, drain),
				&phase, sizeof(phase));
		}
		for (size_t at = 0; at < 16; at++) {
			const size_t bucket =
				sizeof(struct weir_service_table) + at * sizeof(struct weir_bind);

			put_piece(&seed, 4, bucket + offsetof(struct weir_bind, service), &bind,
				sizeof(bind));
			put_piece(&seed, 4, bucket + offsetof(struct weir_bind, count), &count,
				sizeof(count));
		}
		put_renew(&seed, 4);
		snprintf(file, sizeof(file), "%s-%02x", name, options[i]);
		save(&seed, folder, "segment", file);
	}
}

static void save_segment(const char *folder) {
	struct seed seed = {.bytes = {0xf4}, .n = 1};

	save(&seed, folder, "segment", "untouched");
#define FIELD(name, place, type, field, value) \
	save_piece(folder, name, place, offsetof(struct type, field), value, \
		sizeof(((struct type *)0)->field))
#define NOTE(name, field, value) \
	save_piece(folder, name, 2, sizeof(struct weir_news) + offsetof(struct weir_notes, field), \
		value, sizeof(((struct weir_notes *)0)->field))
	FIELD("header-workers", 0, weir_segment_header, workers, 64);
	FIELD("header-heap", 0, weir_segment_header, heap_off, 1ull << 40);
	FIELD("word-of-nobody", 1, weir_quiescence, token, 77);
	FIELD("news-updates", 2, weir_news, updates, UINT64_MAX);
	FIELD("news-updates-few", 2, weir_news, updates, 3);
	FIELD("news-token", 2, weir_news, token, UINT64_MAX - 1);
	NOTE("note-heap-used", heap_used, UINT64_MAX);
	NOTE("note-generation", generation, UINT64_MAX);
	NOTE("note-backend-ids", backend_ids, UINT32_MAX);
	NOTE("note-service-ids", service_ids, UINT32_MAX);
	FIELD("root-services", 3, weir_roots, services, 1ull << 32 | 0xffffffff);
	FIELD("services-buckets", 4, weir_service_table, buckets, 1u << 31);
	FIELD("services-ranges", 4, weir_service_table, ranges, UINT32_MAX);
	FIELD("services-blob-lines", 4, weir_blob, lines, 1u << 30);
	FIELD("selection-kind", 5, weir_blob, kind, 0x61);
	FIELD("selection-slots", 5, weir_selection, first.slots, WEIR_TABLE_SLOTS_MAX);
	FIELD("selection-backends", 6, weir_selection, first.candidates, 65535);
	FIELD("selection-subsets", 5, weir_selection, subsets, 64);
	FIELD("selection-others", 6, weir_selection, others_off, UINT32_MAX - 7);
	FIELD("row-version", 7, weir_row_pair, version, UINT64_MAX);
	FIELD("row-version-odd", 7, weir_row_pair, version, 2);
	FIELD("request-tail", 8, weir_control_box, request.tail, 3);
	FIELD("response-head", 8, weir_control_box, response.head, 1000);
	FIELD("samples-head", 8, weir_control_box, samples.head, UINT64_MAX);
	save_requests(folder);
	FIELD("identity-policies", 9, weir_identity_service, policies, UINT32_MAX);
	FIELD("identity-state", 10, weir_identity_backend, state, UINT32_MAX);
	FIELD("identity-service", 10, weir_identity_backend, service, 0xffff);
#undef FIELD
#undef NOTE
#define ROW(name, field, value) \
	save_rows(folder, name, offsetof(struct weir_backend_row, field), value, \
		sizeof(((struct weir_backend_row *)0)->field))
	ROW("rows-port", port, 200);
	ROW("rows-outer-family", outer_family, 99);
	ROW("rows-l2-bytes", l2_bytes, 250);
	ROW("rows-header-bytes", header_bytes, 255);
	ROW("rows-header-bytes-140", header_bytes, 140);
	ROW("rows-header-bytes-0", header_bytes, 0);
	ROW("rows-service", service, 0xffff);
	ROW("rows-mtu", mtu, 0);
#undef ROW
	save_holes(folder);
	save_log(folder);
	save_piece(folder, "slot-beyond", 5, 64 + 32, 0xffffffffffffffff, 8);
	save_piece(folder, "bind-service", 4, 64 + 22, 0xffff, 2);
	save_drained(folder, "drained", 1, WEIR_BIND_DRAINED, 1);
	save_drained(folder, "drained-ended", 4, WEIR_BIND_DRAINED | WEIR_BIND_ENDED | 1, 2);
	save_drained(folder, "drained-unknown", 77, 0xfffe, UINT32_MAX);
	save_piece(folder, "identity-name", 9, offsetof(struct weir_identity_service, name) + 8,
		0x4141414141414141, 8);
	save_piece(folder, "any", 12, 16, 0x4141414141414141, 8);
}

// --- captures ---------------------------------------------------------------------------------

static uint32_t swapped(uint32_t value, int swap) {
	return swap ? __builtin_bswap32(value) : value;
}

static void save_pcap(
	const char *folder, const char *name, uint32_t magic, int swap, uint32_t cut) {
	static const struct frame_spec specs[] = {
		{.family = 4, .protocol = 6, .tcp_flags = SYN},
		{.family = 6, .protocol = 6, .tcp_flags = SYN},
		{.family = 4, .protocol = 17, .destination_port = 53, .payload = 20},
		{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 40},
		{.family = 6, .protocol = 58, .icmp_type = 128, .payload = 40},
	};
	struct seed seed = {.n = 0};
	struct frame frame;

	put32(&seed, swapped(magic, swap));
	put32(&seed, swap ? 0x04000200 : 0x00040002); // version 2.4
	put32(&seed, 0);
	put32(&seed, 0);
	put32(&seed, swapped(65535, swap));
	put32(&seed, swapped(1, swap)); // Ethernet
	for (uint32_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		uint32_t n;

		frame_build(&specs[i], &frame);
		n = cut != 0 && cut < frame.n ? cut : frame.n;
		put32(&seed, swapped(1700000000 + i, swap));
		put32(&seed, swapped(1000 * i, swap));
		put32(&seed, swapped(n, swap));
		put32(&seed, swapped(frame.n, swap));
		put(&seed, frame.bytes, n);
	}
	save(&seed, folder, "pcap", name);
}

static void save_pcapng(const char *folder) {
	const struct frame_spec spec = {.family = 4, .protocol = 6, .tcp_flags = SYN};
	struct seed seed = {.n = 0};
	struct frame frame;
	uint32_t padded;

	frame_build(&spec, &frame);
	padded = (frame.n + 3) / 4 * 4;
	const uint32_t section[] = {0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28};
	const uint32_t interface[] = {1, 32, 1, 65535, 0x00010009, 9, 0, 32}; // nanoseconds
	const uint32_t packet[] = {6, 32 + padded, 0, 0x18000000, 0, frame.n, frame.n};

	put(&seed, section, sizeof(section));
	put(&seed, interface, sizeof(interface));
	for (int i = 0; i < 2; i++) {
		put(&seed, packet, sizeof(packet));
		put(&seed, frame.bytes, padded);
		put32(&seed, 32 + padded);
	}
	save(&seed, folder, "pcap", "pcapng");
}

static void make_folder(const char *folder, const char *kind) {
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, kind);
	if (mkdir(path, 0777) < 0 && errno != EEXIST) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
}

int main(int argc, char **argv) {
	if (argc != 2) {
		fprintf(stderr, "usage: seeds FOLDER\n");
		return 2;
	}
	make_folder(argv[1], "");
	make_folder(argv[1], "packets");
	make_folder(argv[1], "segment");
	make_folder(argv[1], "pcap");
	save_edges(argv[1]);
	save_lives(argv[1]);
	save_cuts(argv[1]);
	save_largest(argv[1]);
	save_handling(argv[1]);
	save_segment(argv[1]);
	save_pcap(argv[1], "microseconds", 0xa1b2c3d4, 0, 0);
	save_pcap(argv[1], "nanoseconds", 0xa1b23c4d, 0, 0);
	save_pcap(argv[1], "swapped", 0xa1b2c3d4, 1, 0);
	save_pcap(argv[1], "cut-at-60", 0xa1b23c4d, 0, 60);
	save_pcap(argv[1], "cut-at-40", 0xa1b23c4d, 0, 40);
	save_pcapng(argv[1]);
	return 0;
}
