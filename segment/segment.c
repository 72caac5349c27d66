// SPDX-License-Identifier: BSD-3-Clause
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fingerprint.h"
#include "segment_regions.h"

#define PAGE_BYTES 4096
#define HUGE_PAGE_LOG2 21
#define HUGE_PAGE_BYTES (1u << HUGE_PAGE_LOG2)
#define MEMFD_HUGE_SHIFT 26 // from <linux/memfd.h>, which conflicts with <sys/mman.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define SEALS_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)

_Static_assert(
	sizeof(struct weir_worker_counters) % WEIR_LINE_BYTES == 0, "one writer per cache line");
_Static_assert(sizeof(struct weir_worker_box) % WEIR_LINE_BYTES == 0, "one writer per cache line");
_Static_assert(sizeof(struct weir_control_box) % WEIR_LINE_BYTES == 0, "one writer per cache line");
_Static_assert(
	sizeof(struct weir_capture_ring) % WEIR_LINE_BYTES == 0, "one writer per cache line");
_Static_assert(sizeof(struct weir_roots) % WEIR_LINE_BYTES == 0, "segment ABI");

static uint64_t align_up(uint64_t value, uint64_t alignment) {
	return (value + alignment - 1) & ~(alignment - 1);
}

// Fills regions[] with the name and length of each region, and with a pointer to the region's
// offset in the header. The lengths are computed from the header's counts, which must be in range.
void weir_regions_of(
	struct weir_segment_header *h, struct weir_region_place regions[WEIR_REGIONS]) {
	uint64_t workers = h->workers, services = h->max_services, backends = h->max_backends;
	const struct weir_region_place extents[WEIR_REGIONS] = {
		[WEIR_REGION_QUIESCENCE] = {"quiescence", &h->quiescence_off,
			workers * sizeof(struct weir_quiescence)},
		[WEIR_REGION_REFUSALS] = {"refusals", &h->refusals_off,
			workers * sizeof(struct weir_refusals)},
		[WEIR_REGION_WORKER_COUNTERS] = {"worker counters", &h->worker_counters_off,
			workers * sizeof(struct weir_worker_counters)},
		[WEIR_REGION_WORKER_BOXES] = {"worker boxes", &h->worker_boxes_off,
			workers * sizeof(struct weir_worker_box)},
		[WEIR_REGION_PORT_COUNTERS] = {"port counters", &h->port_counters_off,
			h->ports * sizeof(struct weir_port_counters)},
		[WEIR_REGION_BUCKET_PACKETS] = {"packets of buckets", &h->bucket_packets_off,
			workers * sizeof(struct weir_bucket_packets)},
		[WEIR_REGION_BUCKET_OWNERS] = {"owners of buckets", &h->bucket_owners_off,
			sizeof(struct weir_bucket_owners)},
		[WEIR_REGION_STEAL_COUNTERS] = {"steal counters", &h->steal_counters_off,
			workers * sizeof(struct weir_steal_counters)},
		[WEIR_REGION_FLOW_PAGES] = {"flow pages", &h->flow_pages_off,
			workers * sizeof(struct weir_flow_pages)},
		[WEIR_REGION_CAPTURE_RINGS] = {"capture rings", &h->capture_rings_off,
			workers * sizeof(struct weir_capture_ring)},
		[WEIR_REGION_LIMIT_WORDS] = {"limits", &h->limit_words_off,
			backends * sizeof(struct weir_limit_word)},
		[WEIR_REGION_SERVICE_COUNTERS] = {"service counters", &h->service_counters_off,
			workers * services * sizeof(struct weir_share_counters)},
		[WEIR_REGION_BACKEND_COUNTERS] = {"backend counters", &h->backend_counters_off,
			workers * backends * sizeof(struct weir_share_counters)},
		[WEIR_REGION_NEWS] = {"news", &h->news_off,
			sizeof(struct weir_news) + sizeof(struct weir_notes) +
				sizeof(struct weir_update_log)},
		[WEIR_REGION_ROOTS] = {"roots", &h->roots_off,
			sizeof(struct weir_roots) + services * sizeof(weir_ref)},
		[WEIR_REGION_CONTROL_BOXES] = {"control boxes", &h->control_boxes_off,
			workers * sizeof(struct weir_control_box)},
		[WEIR_REGION_CAPTURE_CONTROL] = {"capture order", &h->capture_control_off,
			sizeof(struct weir_capture_control)},
		[WEIR_REGION_IDENTITY_SERVICES] = {"service identities", &h->identity_services_off,
			services * sizeof(struct weir_identity_service)},
		[WEIR_REGION_IDENTITY_BACKENDS] = {"backend identities", &h->identity_backends_off,
			backends * sizeof(struct weir_identity_backend)},
		[WEIR_REGION_SERVICE_BASES] = {"service bases", &h->service_bases_off,
			services * sizeof(struct weir_share_counters)},
		[WEIR_REGION_BACKEND_BASES] = {"backend bases", &h->backend_bases_off,
			backends * sizeof(struct weir_share_counters)},
		[WEIR_REGION_ROWS] = {"rows", &h->rows_off,
			backends * sizeof(struct weir_row_pair)},
		[WEIR_REGION_COSTS] = {"costs", &h->costs_off, backends * sizeof(uint64_t)},
		[WEIR_REGION_HEAP] = {"heap", &h->heap_off, h->heap_bytes},
	};

	memcpy(regions, extents, sizeof(extents));
}

// --- create -------------------------------------------------------------------------------

static bool params_valid(const struct weir_segment_params *params) {
	return params->workers >= 1 && params->workers <= WEIR_WORKERS_MAX && params->ports >= 1 &&
	       params->ports <= WEIR_PORTS_MAX && params->max_services >= 1 &&
	       params->max_services <= WEIR_SERVICES_MAX && params->max_backends >= 1 &&
	       params->max_backends <= WEIR_BACKENDS_MAX && params->heap_bytes >= WEIR_LINE_BYTES &&
	       params->heap_bytes <= WEIR_SEGMENT_BYTES_MAX / 2 && params->port_info != NULL &&
	       (unsigned int)params->bucketing < WEIR_BUCKETING_COUNT;
}

// Assign each region its position; the heap is last and extends to the end of its last page.
static void lay_out(const struct weir_segment_params *params, struct weir_segment_header *header) {
	uint64_t page_bytes = params->huge_pages ? HUGE_PAGE_BYTES : PAGE_BYTES;
	uint64_t at = align_up(sizeof(*header), PAGE_BYTES);
	struct weir_region_place regions[WEIR_REGIONS];

	header->workers = params->workers;
	header->ports = params->ports;
	header->max_services = params->max_services;
	header->max_backends = params->max_backends;
	header->bucketing = params->bucketing;
	weir_regions_of(header, regions);
	for (unsigned int i = 0; i < WEIR_REGION_HEAP; i++) {
		if (i == WEIR_REGION_FIRST_OF_TABLES) {
			header->statistics_bytes = align_up(at, page_bytes);
			at = 0;
		}
		*regions[i].offset = at;
		at = align_up(at + regions[i].bytes, PAGE_BYTES);
	}
	header->heap_off = align_up(at, page_bytes);
	header->tables_bytes = align_up(header->heap_off + params->heap_bytes, page_bytes);
	header->heap_bytes = header->tables_bytes - header->heap_off;
	memcpy(header->port, params->port_info, params->ports * sizeof(header->port[0]));
	for (uint32_t i = 0; i < params->ports; i++) {
		header->port[i].name[WEIR_NAME_BYTES - 1] = '\0';
		header->port[i].kernel_interface[sizeof(header->port[i].kernel_interface) - 1] =
			'\0';
	}
}

static int random_epoch(uint64_t *ret) {
	uint64_t epoch;

	if (getrandom(&epoch, sizeof(epoch), 0) != (ssize_t)sizeof(epoch)) {
		return -EIO;
	}
	*ret = epoch | 1; // never 0
	return 0;
}

// Creates a memfd of constant size. Returns its descriptor or negative errno.
static int create_memory(const char *name, bool huge_pages, uint64_t bytes) {
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd;

	if (huge_pages) {
		flags |= MFD_HUGETLB | HUGE_PAGE_LOG2 << MEMFD_HUGE_SHIFT;
	}
	fd = memfd_create(name, flags);
	if (fd < 0) {
		return -errno;
	}
	if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, SEALS_SIZE) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

// Maps a memory area (MAP_SHARED). Returns NULL and sets errno on failure.
uint8_t *weir_segment_map(int fd, uint64_t bytes, int protection) {
	// MAP_NORESERVE, because the heap allocates memory when the writer needs it (heap.c).
	void *base = mmap(NULL, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (base == MAP_FAILED) {
		return NULL;
	}
	// This call has an effect only if tmpfs is configured for huge pages.
	madvise(base, bytes, MADV_HUGEPAGE);
	return base;
}

// Set the pointers to the regions, from the private copy of the header.
void weir_segment_point(struct weir_segment *segment, const struct weir_segment_header *header) {
	uint8_t *statistics = segment->statistics;
	uint8_t *tables = segment->tables;
	uint8_t *news = tables + header->news_off;

	segment->statistics_bytes = header->statistics_bytes;
	segment->tables_bytes = header->tables_bytes;
	segment->epoch = header->epoch;
	segment->abi = header->abi;
	segment->workers = header->workers;
	segment->ports = header->ports;
	segment->max_services = header->max_services;
	segment->max_backends = header->max_backends;
	segment->heap_off = header->heap_off;
	segment->heap_bytes = header->heap_bytes;
	segment->header = (struct weir_segment_header *)(void *)statistics;
	segment->quiescence =
		(struct weir_quiescence *)(void *)(statistics + header->quiescence_off);
	segment->refusals = (struct weir_refusals *)(void *)(statistics + header->refusals_off);
	segment->worker_counters =
		(struct weir_worker_counters *)(void *)(statistics + header->worker_counters_off);
	segment->worker_boxes =
		(struct weir_worker_box *)(void *)(statistics + header->worker_boxes_off);
	segment->port_counters =
		(struct weir_port_counters *)(void *)(statistics + header->port_counters_off);
	segment->bucketing = (enum weir_bucketing)header->bucketing;
	segment->bucket_packets =
		(struct weir_bucket_packets *)(void *)(statistics + header->bucket_packets_off);
	segment->bucket_owners =
		(struct weir_bucket_owners *)(void *)(statistics + header->bucket_owners_off);
	segment->steal_counters =
		(struct weir_steal_counters *)(void *)(statistics + header->steal_counters_off);
	segment->flow_pages =
		(struct weir_flow_pages *)(void *)(statistics + header->flow_pages_off);
	segment->capture_rings =
		(struct weir_capture_ring *)(void *)(statistics + header->capture_rings_off);
	segment->limit_words =
		(struct weir_limit_word *)(void *)(statistics + header->limit_words_off);
	segment->service_counters =
		(struct weir_share_counters *)(void *)(statistics + header->service_counters_off);
	segment->backend_counters =
		(struct weir_share_counters *)(void *)(statistics + header->backend_counters_off);
	segment->news = (struct weir_news *)(void *)news;
	segment->notes = (struct weir_notes *)(void *)(news + sizeof(struct weir_news));
	segment->updates = (struct weir_update_log *)(void *)(news + sizeof(struct weir_news) +
							      sizeof(struct weir_notes));
	segment->roots = (struct weir_roots *)(void *)(tables + header->roots_off);
	segment->control_boxes =
		(struct weir_control_box *)(void *)(tables + header->control_boxes_off);
	segment->identity_services =
		(struct weir_identity_service *)(void *)(tables + header->identity_services_off);
	segment->identity_backends =
		(struct weir_identity_backend *)(void *)(tables + header->identity_backends_off);
	segment->service_bases =
		(struct weir_share_counters *)(void *)(tables + header->service_bases_off);
	segment->backend_bases =
		(struct weir_share_counters *)(void *)(tables + header->backend_bases_off);
	segment->rows = (struct weir_row_pair *)(void *)(tables + header->rows_off);
	segment->costs = (uint64_t *)(void *)(tables + header->costs_off);
	segment->capture_control =
		(struct weir_capture_control *)(void *)(tables + header->capture_control_off);
}

// Creates `statistics` and allocates its memory. Without huge pages, the counters of backends are
// not allocated yet.
static int create_statistics(
	struct weir_segment *segment, const struct weir_segment_header *header, bool huge_pages) {
	int fd = create_memory(WEIR_SEGMENT_STATISTICS_NAME, huge_pages, header->statistics_bytes);
	uint64_t taken;

	if (fd < 0) {
		return fd;
	}
	segment->statistics_fd = fd;
	// Workers write statistics: allocate the memory now, so that no store of a worker can
	// fail. Only the counters of backends are allocated later, as ids are used
	// (weir_segment_follow). With huge pages, these counters are also allocated now: if no huge
	// page were left later, control would get SIGBUS when it reads a counter.
	taken = huge_pages ? header->statistics_bytes : header->backend_counters_off;
	if (fallocate(fd, 0, 0, (off_t)taken) < 0) {
		return errno == ENOSPC ? -ENOMEM : -errno;
	}
	segment->statistics =
		weir_segment_map(fd, header->statistics_bytes, PROT_READ | PROT_WRITE);
	if (segment->statistics == NULL) {
		return -errno;
	}
	segment->statistics_bytes = header->statistics_bytes;
	madvise(segment->statistics, header->backend_counters_off, MADV_POPULATE_WRITE);
	// From now on no process can create a writable mapping, write to the memfd, or free a part
	// of it; existing writable mappings remain.
	return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0 ? -errno : 0;
}

static int create_tables(
	struct weir_segment *segment, const struct weir_segment_header *header, bool huge_pages) {
	int fd = create_memory(WEIR_SEGMENT_TABLES_NAME, huge_pages, header->tables_bytes);
	uint64_t taken;

	if (fd < 0) {
		return fd;
	}
	segment->tables_fd = fd;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0) {
		return -errno;
	}
	// Workers read some data in every iteration, even before any table exists: allocate this
	// data now. With huge pages, allocate everything except the heap, because a page with ids
	// in use also contains unused ids, and control reads both.
	taken = huge_pages ? header->heap_off : header->identity_services_off;
	if (fallocate(fd, 0, 0, (off_t)taken) < 0) {
		return errno == ENOSPC ? -ENOMEM : -errno;
	}
	segment->tables = weir_segment_map(fd, header->tables_bytes, PROT_READ);
	if (segment->tables == NULL) {
		return -errno;
	}
	segment->tables_bytes = header->tables_bytes;
	madvise(segment->tables, header->identity_services_off, MADV_POPULATE_READ);
	return 0;
}

// --- memory on demand ---------------------------------------------------------------------

int weir_segment_lock(const struct weir_segment *segment) {
	if (mlock2(segment->statistics, segment->statistics_bytes, MLOCK_ONFAULT) < 0 ||
		mlock2(segment->tables, segment->tables_bytes, MLOCK_ONFAULT) < 0) {
		return -errno;
	}
	return 0;
}

// Applies `advice` to the pages that contain bytes [from, to) of a memory area.
static void populate(uint8_t *memory, uint64_t from, uint64_t to, int advice) {
	from -= from % PAGE_BYTES;
	if (from < to) {
		madvise(memory + from, align_up(to, PAGE_BYTES) - from, advice);
	}
}

#define COUNTED_STEP 1024u // counters are allocated for this number of backend ids at a time

// Returns the lower of two numbers. Used to limit numbers that control has written, because they
// are untrusted.
static uint64_t at_most(uint64_t value, uint64_t most) {
	return value < most ? value : most;
}

// Rounds a number of backends up to the number that gets counters: counters are allocated for
// COUNTED_STEP ids at a time.
static uint32_t counted_with(const struct weir_segment *segment, uint32_t backends) {
	return (uint32_t)at_most(align_up(backends, COUNTED_STEP), segment->max_backends);
}

// Gets the position of one worker's counters for backends [from, to): the bytes [*ret_start,
// *ret_end) of statistics.
static void counters_of(const struct weir_segment *segment, uint32_t worker, uint32_t from,
	uint32_t to, uint64_t *ret_start, uint64_t *ret_end) {
	const uint8_t *base = (const uint8_t *)weir_segment_backend_counters(segment, worker, 0);
	uint64_t offset = (uint64_t)(base - segment->statistics);

	*ret_start = offset + from * sizeof(struct weir_share_counters);
	*ret_end = offset + to * sizeof(struct weir_share_counters);
}

int weir_segment_take_counters(
	const struct weir_segment *segment, uint32_t from, uint32_t backends) {
	uint32_t to = from < backends ? counted_with(segment, backends) : from;

	for (uint32_t worker = 0; worker < segment->workers && from < to; worker++) {
		uint64_t start, end;

		counters_of(segment, worker, from, to, &start, &end);
		while (fallocate(segment->statistics_fd, 0, (off_t)start, (off_t)(end - start)) <
			0) {
			if (errno != EINTR) {
				return -ENOMEM;
			}
		}
	}
	return 0;
}

static int count_backends(struct weir_segment *segment, uint32_t backends) {
	uint32_t from = segment->counted_backends, to = counted_with(segment, backends);
	int r = weir_segment_take_counters(segment, from, backends);

	for (uint32_t worker = 0; r == 0 && worker < segment->workers && from < to; worker++) {
		uint64_t start, end;

		counters_of(segment, worker, from, to, &start, &end);
		populate(segment->statistics, start, end, MADV_POPULATE_WRITE);
	}
	if (r == 0 && from < to) {
		__atomic_store_n(&segment->counted_backends, to, __ATOMIC_RELEASE);
	}
	return r;
}

#define WRITTEN_PIECES 64u // maximum number of parts of the heap that one call maps

// Maps the written parts of the first `used` bytes of the heap. Mapping an unallocated part would
// allocate memory, and heap_used can have any value, because control has written it. With huge
// pages, all parts are mapped, because lseek finds no holes in huge pages.
static void follow_heap(struct weir_segment *segment, uint64_t used) {
	uint64_t end = segment->heap_off + used;

	for (unsigned int i = 0; i < WRITTEN_PIECES && segment->mapped_heap < used; i++) {
		off_t at = (off_t)(segment->heap_off + segment->mapped_heap);
		off_t from = lseek(segment->tables_fd, at, SEEK_DATA);
		off_t to = from < 0 ? from : lseek(segment->tables_fd, from, SEEK_HOLE);

		if (to < 0 || (uint64_t)from >= end) {
			return;
		}
		to = (off_t)at_most((uint64_t)to, end);
		populate(segment->tables, (uint64_t)from, (uint64_t)to, MADV_POPULATE_READ);
		segment->mapped_heap = (uint64_t)to - segment->heap_off;
	}
}

int weir_segment_follow(struct weir_segment *segment) {
	const struct weir_notes *notes = segment->notes;
	uint32_t backends = (uint32_t)at_most(
		__atomic_load_n(&notes->backend_ids, __ATOMIC_ACQUIRE), segment->max_backends);
	uint64_t heap =
		at_most(__atomic_load_n(&notes->heap_used, __ATOMIC_ACQUIRE), segment->heap_bytes);
	uint64_t rows_off = (uint64_t)((uint8_t *)segment->rows - segment->tables);
	uint64_t costs_off = (uint64_t)((uint8_t *)segment->costs - segment->tables);

	if (backends > segment->mapped_rows) {
		populate(segment->tables,
			rows_off + segment->mapped_rows * sizeof(segment->rows[0]),
			rows_off + backends * sizeof(segment->rows[0]), MADV_POPULATE_READ);
		populate(segment->tables,
			costs_off + segment->mapped_rows * sizeof(segment->costs[0]),
			costs_off + backends * sizeof(segment->costs[0]), MADV_POPULATE_READ);
		segment->mapped_rows = backends;
	}
	follow_heap(segment, heap);
	return backends > segment->counted_backends ? count_backends(segment, backends) : 0;
}

// --- create the segment ------------------------------------------------------------------

int weir_segment_create(const struct weir_segment_params *params, struct weir_segment **ret) {
	struct weir_segment_header header = {
		.magic = WEIR_SEGMENT_MAGIC,
		.abi = WEIR_SEGMENT_ABI,
		.header_bytes = sizeof(header),
		.fingerprint = weir_layout_fingerprint(),
		.tsc_hz = params->tsc_hz,
		.hash_seed = params->hash_seed,
		.dataplane_pid = (uint32_t)getpid(),
	};
	struct weir_segment *segment;
	int r;

	if (!params_valid(params)) {
		return -EINVAL;
	}
	lay_out(params, &header);
	r = random_epoch(&header.epoch);
	if (r < 0) {
		return r;
	}
	segment = calloc(1, sizeof(*segment));
	if (segment == NULL) {
		return -ENOMEM;
	}
	segment->statistics_fd = -1;
	segment->tables_fd = -1;
	r = create_statistics(segment, &header, params->huge_pages);
	if (r == 0) {
		r = create_tables(segment, &header, params->huge_pages);
	}
	if (r < 0 || segment->statistics == NULL) {
		weir_segment_free(segment);
		return r < 0 ? r : -EIO;
	}
	weir_segment_point(segment, &header);
	r = count_backends(segment, 1);
	if (r < 0) {
		weir_segment_free(segment);
		return r;
	}
	memcpy(segment->statistics, &header, sizeof(header));
	*ret = segment;
	return 0;
}

void weir_segment_free(struct weir_segment *segment) {
	if (segment == NULL) {
		return;
	}
	if (segment->statistics != NULL) {
		munmap(segment->statistics, segment->statistics_bytes);
	}
	if (segment->tables != NULL) {
		munmap(segment->tables, segment->tables_bytes);
	}
	if (segment->statistics_fd >= 0) {
		close(segment->statistics_fd);
	}
	if (segment->tables_fd >= 0) {
		close(segment->tables_fd);
	}
	free(segment);
}
