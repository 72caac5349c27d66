// SPDX-License-Identifier: BSD-3-Clause
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <rte_rcu_qsbr.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 64
#define PAGE_BYTES 4096
#define HUGE_PAGE_LOG2 21
#define HUGE_PAGE_BYTES (1u << HUGE_PAGE_LOG2)
#define MEMFD_HUGE_SHIFT 26 // of <linux/memfd.h>, which does not go with <sys/mman.h>
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define BYTES_MAX (1ull << 38) // what the 32 bits of a reference can address

_Static_assert(sizeof(struct weir_worker_counters) % LINE_BYTES == 0, "one writer per line");
_Static_assert(sizeof(struct weir_mailbox) % LINE_BYTES == 0, "one writer per line");
_Static_assert(sizeof(struct weir_roots) % LINE_BYTES == 0, "segment ABI");

enum region {
	REGION_QSBR,
	REGION_ROOTS,
	REGION_WORKER_COUNTERS,
	REGION_SERVICE_COUNTERS,
	REGION_BACKEND_COUNTERS,
	REGION_MAILBOXES,
	REGION_SAMPLES,
	REGION_COSTS,
	REGION_HEAP,
	REGIONS,
};

static const char *const region_names[REGIONS] = {"qsbr", "roots", "worker counters",
	"service counters", "backend counters", "mailboxes", "samples", "costs", "heap"};

struct extent {
	uint64_t offset;
	uint64_t bytes;
};

static uint64_t align_up(uint64_t value, uint64_t alignment) {
	return (value + alignment - 1) & ~(alignment - 1);
}

// Where each region lies and how long it is for the header's counts. Counts are in range.
static void regions_of(const struct weir_segment_header *header, struct extent regions[REGIONS]) {
	uint64_t workers = header->workers;

	regions[REGION_QSBR] = (struct extent){header->qsbr_off, header->qsbr_bytes};
	regions[REGION_ROOTS] = (struct extent){header->roots_off,
		sizeof(struct weir_roots) + header->max_services * sizeof(weir_ref)};
	regions[REGION_WORKER_COUNTERS] = (struct extent){
		header->worker_counters_off, workers * sizeof(struct weir_worker_counters)};
	regions[REGION_SERVICE_COUNTERS] = (struct extent){header->service_counters_off,
		workers * header->max_services * sizeof(struct weir_share_counters)};
	regions[REGION_BACKEND_COUNTERS] = (struct extent){header->backend_counters_off,
		workers * header->max_backends * sizeof(struct weir_share_counters)};
	regions[REGION_MAILBOXES] =
		(struct extent){header->mailboxes_off, workers * sizeof(struct weir_mailbox)};
	regions[REGION_SAMPLES] =
		(struct extent){header->samples_off, workers * sizeof(struct weir_sample_ring)};
	regions[REGION_COSTS] =
		(struct extent){header->costs_off, header->max_backends * sizeof(uint64_t)};
	regions[REGION_HEAP] = (struct extent){header->heap_off, header->heap_bytes};
}

// --- create -------------------------------------------------------------------------------

static bool params_valid(const struct weir_segment_params *params) {
	return params->workers >= 1 && params->workers <= WEIR_WORKERS_MAX && params->ports >= 1 &&
	       params->ports <= WEIR_PORTS_MAX && params->max_services >= 1 &&
	       params->max_services <= WEIR_SERVICES_MAX && params->max_backends >= 1 &&
	       params->max_backends <= WEIR_BACKENDS_MAX && params->heap_bytes >= LINE_BYTES &&
	       params->heap_bytes <= BYTES_MAX / 2 && params->port_info != NULL;
}

// Give each region its place; the heap comes last and gets the rest of its last page.
static void lay_out(const struct weir_segment_params *params, struct weir_segment_header *header) {
	uint64_t page_bytes = params->huge_pages ? HUGE_PAGE_BYTES : PAGE_BYTES;
	struct extent regions[REGIONS];
	uint64_t *const offsets[REGIONS] = {&header->qsbr_off, &header->roots_off,
		&header->worker_counters_off, &header->service_counters_off,
		&header->backend_counters_off, &header->mailboxes_off, &header->samples_off,
		&header->costs_off, &header->heap_off};
	uint64_t at = align_up(sizeof(*header), PAGE_BYTES);

	header->workers = params->workers;
	header->ports = params->ports;
	header->max_services = params->max_services;
	header->max_backends = params->max_backends;
	header->qsbr_bytes = rte_rcu_qsbr_get_memsize(params->workers);
	regions_of(header, regions);
	for (unsigned int i = 0; i < REGION_HEAP; i++) {
		*offsets[i] = at;
		at = align_up(at + regions[i].bytes, PAGE_BYTES);
	}
	header->heap_off = align_up(at, page_bytes);
	header->bytes = align_up(header->heap_off + params->heap_bytes, page_bytes);
	header->heap_bytes = header->bytes - header->heap_off;
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

static int create_memory(const struct weir_segment_params *params, uint64_t bytes, int *ret_fd) {
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int r;
	int fd;

	if (params->huge_pages) {
		flags |= MFD_HUGETLB | HUGE_PAGE_LOG2 << MEMFD_HUGE_SHIFT;
	}
	fd = memfd_create("weir-segment", flags);
	if (fd < 0) {
		return -errno;
	}
	if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

// NULL and errno on failure.
static uint8_t *map(int fd, uint64_t bytes) {
	// Reserve nothing: the heap takes memory when the writer asks for it (writer.c).
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (base == MAP_FAILED) {
		return NULL;
	}
	madvise(base, bytes, MADV_HUGEPAGE); // takes effect where tmpfs is configured for it
	return base;
}

// Set the pointers to the regions, from the private copy of the header.
static void point(struct weir_segment *segment, int fd, uint8_t *base,
	const struct weir_segment_header *header) {
	*segment = (struct weir_segment){
		.fd = fd,
		.base = base,
		.bytes = header->bytes,
		.epoch = header->epoch,
		.workers = header->workers,
		.ports = header->ports,
		.max_services = header->max_services,
		.max_backends = header->max_backends,
		.heap_off = header->heap_off,
		.heap_bytes = header->heap_bytes,
		.header = (struct weir_segment_header *)(void *)base,
		.qsbr = (struct rte_rcu_qsbr *)(void *)(base + header->qsbr_off),
		.roots = (struct weir_roots *)(void *)(base + header->roots_off),
		.worker_counters =
			(struct weir_worker_counters *)(void *)(base + header->worker_counters_off),
		.service_counters =
			(struct weir_share_counters *)(void *)(base + header->service_counters_off),
		.backend_counters =
			(struct weir_share_counters *)(void *)(base + header->backend_counters_off),
		.mailboxes = (struct weir_mailbox *)(void *)(base + header->mailboxes_off),
		.samples = (struct weir_sample_ring *)(void *)(base + header->samples_off),
		.costs = (uint64_t *)(void *)(base + header->costs_off),
	};
}

// Every worker is registered, offline, from the start: none has to touch the registration while
// another process can write to it.
static int register_workers(struct rte_rcu_qsbr *qsbr, uint32_t workers) {
	if (rte_rcu_qsbr_init(qsbr, workers) != 0) {
		return -EINVAL;
	}
	for (uint32_t worker = 0; worker < workers; worker++) {
		if (rte_rcu_qsbr_thread_register(qsbr, worker) != 0) {
			return -EINVAL;
		}
	}
	return 0;
}

int weir_segment_create(const struct weir_segment_params *params, struct weir_segment **ret) {
	struct weir_segment_header header = {
		.magic = WEIR_SEGMENT_MAGIC,
		.abi = WEIR_SEGMENT_ABI,
		.header_bytes = sizeof(header),
		.tsc_hz = params->tsc_hz,
		.hash_seed = params->hash_seed,
		.dataplane_pid = (uint32_t)getpid(),
	};
	struct weir_segment *segment;
	uint8_t *base;
	int r;
	int fd = -1;

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
	r = create_memory(params, header.bytes, &fd);
	if (r < 0) {
		goto free_segment;
	}
	// Workers write here: take the memory now, so that no store of theirs can fail.
	if (fallocate(fd, 0, 0, (off_t)header.heap_off) < 0) {
		r = errno == ENOSPC ? -ENOMEM : -errno;
		goto close_fd;
	}
	base = map(fd, header.bytes);
	if (base == NULL) {
		r = -errno;
		goto close_fd;
	}
	madvise(base, header.heap_off, MADV_POPULATE_WRITE);
	point(segment, fd, base, &header);
	r = register_workers(segment->qsbr, header.workers);
	if (r < 0) {
		goto unmap;
	}
	memcpy(base, &header, sizeof(header));
	*ret = segment;
	return 0;

unmap:
	munmap(base, header.bytes);
close_fd:
	close(fd);
free_segment:
	free(segment);
	return r;
}

// --- attach -------------------------------------------------------------------------------

__attribute__((format(printf, 4, 5))) static int refuse(
	int error, char *why, size_t why_bytes, const char *format, ...) {
	va_list args;

	if (why_bytes > 0) {
		va_start(args, format);
		vsnprintf(why, why_bytes, format, args);
		va_end(args);
	}
	return error;
}

static int check_identity(const struct weir_segment_header *header, char *why, size_t why_bytes) {
	if (header->magic != WEIR_SEGMENT_MAGIC) {
		return refuse(-EPROTO, why, why_bytes,
			"not a Weir segment (magic %016llx); is the peer weir-dataplane?",
			(unsigned long long)header->magic);
	}
	if (header->abi != WEIR_SEGMENT_ABI || header->header_bytes != sizeof(*header)) {
		return refuse(-EPROTO, why, why_bytes,
			"segment has ABI %u (header of %u bytes), this program needs ABI %u (%zu "
			"bytes); "
			"run the same version of weir-dataplane and weir-control",
			header->abi, header->header_bytes, WEIR_SEGMENT_ABI, sizeof(*header));
	}
	return 0;
}

static int check_counts(const struct weir_segment_header *header, char *why, size_t why_bytes) {
	const struct {
		const char *name;
		uint64_t value, max;
	} counts[] = {
		{"workers", header->workers, WEIR_WORKERS_MAX},
		{"ports", header->ports, WEIR_PORTS_MAX},
		{"max_services", header->max_services, WEIR_SERVICES_MAX},
		{"max_backends", header->max_backends, WEIR_BACKENDS_MAX},
		{"bytes", header->bytes, BYTES_MAX},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (counts[i].value < 1 || counts[i].value > counts[i].max) {
			return refuse(-EBADMSG, why, why_bytes,
				"invalid segment header: %s is %llu, the range is 1 to %llu; "
				"restart weir-dataplane",
				counts[i].name, (unsigned long long)counts[i].value,
				(unsigned long long)counts[i].max);
		}
	}
	if (header->epoch == 0) {
		return refuse(-EBADMSG, why, why_bytes,
			"invalid segment header: epoch is 0; restart weir-dataplane");
	}
	return 0;
}

static int check_ports(const struct weir_segment_header *header, char *why, size_t why_bytes) {
	for (uint32_t i = 0; i < header->ports; i++) {
		const struct weir_port_info *port = &header->port[i];

		if (memchr(port->name, '\0', sizeof(port->name)) == NULL ||
			memchr(port->kernel_interface, '\0', sizeof(port->kernel_interface)) ==
				NULL) {
			return refuse(-EBADMSG, why, why_bytes,
				"invalid segment header: a name of port %u is not terminated; "
				"restart weir-dataplane",
				i);
		}
	}
	return 0;
}

static int check_regions(const struct weir_segment_header *header, char *why, size_t why_bytes) {
	struct extent regions[REGIONS];

	regions_of(header, regions);
	if (header->qsbr_bytes != rte_rcu_qsbr_get_memsize(header->workers)) {
		return refuse(-EBADMSG, why, why_bytes,
			"invalid segment header: qsbr has %llu bytes for %u workers; do "
			"weir-dataplane and weir-control use the same DPDK?",
			(unsigned long long)header->qsbr_bytes, header->workers);
	}
	for (unsigned int i = 0; i < REGIONS; i++) {
		const struct extent *a = &regions[i];

		if (a->offset % LINE_BYTES != 0 || a->bytes % 8 != 0 || a->bytes == 0 ||
			a->offset < sizeof(*header) || a->offset > header->bytes ||
			a->bytes > header->bytes - a->offset) {
			return refuse(-EBADMSG, why, why_bytes,
				"invalid segment header: %s (offset %llu, %llu bytes) not inside "
				"the segment of %llu bytes; restart weir-dataplane",
				region_names[i], (unsigned long long)a->offset,
				(unsigned long long)a->bytes, (unsigned long long)header->bytes);
		}
		for (unsigned int j = 0; j < i; j++) {
			const struct extent *b = &regions[j];

			if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes) {
				return refuse(-EBADMSG, why, why_bytes,
					"invalid segment header: %s and %s overlap; restart "
					"weir-dataplane",
					region_names[j], region_names[i]);
			}
		}
	}
	if (header->heap_bytes % LINE_BYTES != 0) {
		return refuse(-EBADMSG, why, why_bytes,
			"invalid segment header: heap of %llu bytes is not a multiple of 64; "
			"restart weir-dataplane",
			(unsigned long long)header->heap_bytes);
	}
	return 0;
}

// The qsbr variable's own sizes steer loops of the library's: they must agree with the header.
static int check_qsbr(const struct weir_segment *segment, char *why, size_t why_bytes) {
	struct rte_rcu_qsbr *qsbr = segment->qsbr;
	uint32_t workers = segment->workers;
	uint64_t all = workers >= 64 ? UINT64_MAX : (1ull << workers) - 1;
	// What the library computes from max_threads, which is still to be checked.
	const uint64_t *registered =
		(const uint64_t *)(const void *)((struct rte_rcu_qsbr_cnt *)(qsbr + 1) + workers);
	bool broken = qsbr->max_threads != workers || qsbr->num_threads != workers ||
		      qsbr->num_elems != 1;

	broken = broken || __atomic_load_n(registered, __ATOMIC_RELAXED) != all;
	for (uint32_t i = 0; !broken && i < workers; i++) {
		uint64_t seen = __atomic_load_n(&qsbr->qsbr_cnt[i].cnt, __ATOMIC_ACQUIRE);
		uint64_t token = __atomic_load_n(&qsbr->token, __ATOMIC_RELAXED);

		broken = seen > token || qsbr->acked_token > token || token > UINT64_MAX / 2;
	}
	if (broken) {
		return refuse(-EBADMSG, why, why_bytes,
			"invalid segment: its quiescent state variable does not fit %u workers; "
			"restart weir-dataplane",
			workers);
	}
	return 0;
}

static int check_file(int fd, uint64_t *ret_bytes, char *why, size_t why_bytes) {
	struct stat st;
	int seals;

	if (fstat(fd, &st) < 0) {
		return refuse(
			-errno, why, why_bytes, "cannot examine the segment's descriptor: %m");
	}
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
		return refuse(-EPROTO, why, why_bytes,
			"not a Weir segment: its memory is not sealed against shrinking");
	}
	if ((uint64_t)st.st_size < sizeof(struct weir_segment_header)) {
		return refuse(-ENODATA, why, why_bytes,
			"segment has %llu bytes, shorter than its header of %zu; restart "
			"weir-dataplane",
			(unsigned long long)st.st_size, sizeof(struct weir_segment_header));
	}
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}

static int read_header(
	int fd, uint64_t file_bytes, struct weir_segment_header *ret, char *why, size_t why_bytes) {
	int r;

	if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret)) {
		return refuse(-EIO, why, why_bytes, "cannot read the segment's header: %m");
	}
	r = check_identity(ret, why, why_bytes);
	if (r == 0) {
		r = check_counts(ret, why, why_bytes);
	}
	if (r == 0 && file_bytes < ret->bytes) {
		r = refuse(-ENODATA, why, why_bytes,
			"segment has %llu bytes, its header says %llu; restart weir-dataplane",
			(unsigned long long)file_bytes, (unsigned long long)ret->bytes);
	}
	if (r == 0 && file_bytes != ret->bytes) {
		r = refuse(-EBADMSG, why, why_bytes,
			"invalid segment header: it says %llu bytes, there are %llu; restart "
			"weir-dataplane",
			(unsigned long long)ret->bytes, (unsigned long long)file_bytes);
	}
	if (r == 0) {
		r = check_ports(ret, why, why_bytes);
	}
	if (r == 0) {
		r = check_regions(ret, why, why_bytes);
	}
	return r;
}

int weir_segment_attach(int fd, struct weir_segment **ret, char *why, size_t why_bytes) {
	struct weir_segment_header header;
	struct weir_segment *segment;
	uint64_t file_bytes = 0;
	uint8_t *base;
	int r;

	r = check_file(fd, &file_bytes, why, why_bytes);
	if (r < 0) {
		return r;
	}
	r = read_header(fd, file_bytes, &header, why, why_bytes);
	if (r < 0) {
		return r;
	}
	segment = calloc(1, sizeof(*segment));
	if (segment == NULL) {
		return refuse(-ENOMEM, why, why_bytes, "out of memory");
	}
	base = map(fd, header.bytes);
	if (base == NULL) {
		r = refuse(-errno, why, why_bytes, "cannot map the segment: %m");
		goto free_segment;
	}
	point(segment, fd, base, &header);
	r = check_qsbr(segment, why, why_bytes);
	if (r < 0) {
		goto unmap;
	}
	*ret = segment;
	return 0;

unmap:
	munmap(base, header.bytes);
free_segment:
	free(segment);
	return r;
}

void weir_segment_free(struct weir_segment *segment) {
	if (segment == NULL) {
		return;
	}
	munmap(segment->base, segment->bytes);
	close(segment->fd);
	free(segment);
}
