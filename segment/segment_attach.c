// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fingerprint.h"
#include "refuse.h"
#include "segment_regions.h"

static int check_identity(const struct weir_segment_header *header, char *why, size_t why_bytes) {
	if (header->magic != WEIR_SEGMENT_MAGIC) {
		return weir_refuse(-EPROTO, why, why_bytes,
			"not the shared memory of weir-dataplane (wrong magic number %016llx)",
			(unsigned long long)header->magic);
	}
	if (!weir_layout_served(header->abi, header->fingerprint) ||
		header->header_bytes != weir_layout_header_bytes(header->abi)) {
		return weir_refuse(-EPROTO, why, why_bytes,
			"shared memory of weir-dataplane has ABI %u, layout %016llx; this program "
			"needs ABI %u, layout %016llx; run the same version of both",
			header->abi, (unsigned long long)header->fingerprint, WEIR_SEGMENT_ABI,
			(unsigned long long)weir_layout_fingerprint());
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
		{"statistics_bytes", header->statistics_bytes, WEIR_SEGMENT_BYTES_MAX},
		{"tables_bytes", header->tables_bytes, WEIR_SEGMENT_BYTES_MAX},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (counts[i].value < 1 || counts[i].value > counts[i].max) {
			return weir_refuse(-EBADMSG, why, why_bytes,
				"invalid header of the shared memory: %s is %llu, not 1 to %llu; "
				"restart weir-dataplane",
				counts[i].name, (unsigned long long)counts[i].value,
				(unsigned long long)counts[i].max);
		}
	}
	if (header->bucketing >= WEIR_BUCKETING_COUNT) {
		return weir_refuse(-EBADMSG, why, why_bytes,
			"invalid header of the shared memory: bucketing is %u, not 0 to %d; "
			"restart weir-dataplane",
			header->bucketing, WEIR_BUCKETING_COUNT - 1);
	}
	if (header->epoch == 0) {
		return weir_refuse(-EBADMSG, why, why_bytes,
			"invalid header of the shared memory: epoch is 0; restart weir-dataplane");
	}
	return 0;
}

static int check_ports(const struct weir_segment_header *header, char *why, size_t why_bytes) {
	for (uint32_t i = 0; i < header->ports; i++) {
		const struct weir_port_info *port = &header->port[i];

		if (memchr(port->name, '\0', sizeof(port->name)) == NULL ||
			memchr(port->kernel_interface, '\0', sizeof(port->kernel_interface)) ==
				NULL) {
			return weir_refuse(-EBADMSG, why, why_bytes,
				"invalid header of the shared memory: a name of port %u is not "
				"NUL-terminated; restart weir-dataplane",
				i);
		}
	}
	return 0;
}

static int check_regions(struct weir_segment_header *header, char *why, size_t why_bytes) {
	struct weir_region_place regions[WEIR_REGIONS];

	weir_regions_of(header, regions);
	for (unsigned int i = 0; i < WEIR_REGIONS; i++) {
		uint64_t first = weir_region_in_tables(i) ? 0 : sizeof(*header);
		uint64_t end =
			weir_region_in_tables(i) ? header->tables_bytes : header->statistics_bytes;
		uint64_t at = *regions[i].offset;

		if (at % WEIR_LINE_BYTES != 0 || regions[i].bytes % 8 != 0 ||
			regions[i].bytes == 0 || at < first || at > end ||
			regions[i].bytes > end - at) {
			return weir_refuse(-EBADMSG, why, why_bytes,
				"invalid header of the shared memory: %s (offset %llu, %llu bytes) "
				"must be aligned, and inside the memory area of %llu bytes; "
				"restart weir-dataplane",
				regions[i].name, (unsigned long long)at,
				(unsigned long long)regions[i].bytes, (unsigned long long)end);
		}
		for (unsigned int j = 0; j < i; j++) {
			uint64_t other = *regions[j].offset;

			if (weir_region_in_tables(i) == weir_region_in_tables(j) &&
				at < other + regions[j].bytes && other < at + regions[i].bytes) {
				return weir_refuse(-EBADMSG, why, why_bytes,
					"invalid header of the shared memory: %s and %s overlap; "
					"restart weir-dataplane",
					regions[j].name, regions[i].name);
			}
		}
	}
	if (header->heap_bytes % WEIR_LINE_BYTES != 0) {
		return weir_refuse(-EBADMSG, why, why_bytes,
			"invalid header of the shared memory: the heap has %llu bytes, which is "
			"not a multiple of 64; restart weir-dataplane",
			(unsigned long long)header->heap_bytes);
	}
	return 0;
}

static int check_file(int fd, uint64_t *ret_bytes, char *why, size_t why_bytes) {
	struct stat st;
	int seals;

	if (fstat(fd, &st) < 0) {
		return weir_refuse(-errno, why, why_bytes,
			"cannot examine the shared memory of weir-dataplane: %m");
	}
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
		return weir_refuse(-EPROTO, why, why_bytes,
			"not the shared memory of weir-dataplane: not sealed with F_SEAL_SHRINK");
	}
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}

static int check_bytes(
	const char *name, uint64_t file, uint64_t header, char *why, size_t why_bytes) {
	if (file < header) {
		return weir_refuse(-ENODATA, why, why_bytes,
			"the shared memory for %s has %llu bytes, but its header specifies %llu "
			"bytes; restart weir-dataplane",
			name, (unsigned long long)file, (unsigned long long)header);
	}
	if (file != header) {
		return weir_refuse(-EBADMSG, why, why_bytes,
			"invalid header of the shared memory: it specifies %llu bytes for %s, but "
			"the memory area has %llu bytes; restart weir-dataplane",
			(unsigned long long)header, name, (unsigned long long)file);
	}
	return 0;
}

int weir_segment_read_header(
	int statistics_fd, struct weir_segment_header *ret, char *why, size_t why_bytes) {
	uint64_t file_bytes = 0;
	int r;

	r = check_file(statistics_fd, &file_bytes, why, why_bytes);
	if (r < 0) {
		return r;
	}
	if (file_bytes < sizeof(*ret)) {
		return weir_refuse(-ENODATA, why, why_bytes,
			"the shared memory has %llu bytes, less than its header of %zu bytes; "
			"restart weir-dataplane",
			(unsigned long long)file_bytes, sizeof(*ret));
	}
	if (pread(statistics_fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret)) {
		return weir_refuse(
			-EIO, why, why_bytes, "cannot read the header of the shared memory: %m");
	}
	r = check_identity(ret, why, why_bytes);
	if (r == 0) {
		memset((uint8_t *)ret + ret->header_bytes, 0, sizeof(*ret) - ret->header_bytes);
		r = check_counts(ret, why, why_bytes);
	}
	if (r == 0) {
		r = check_bytes("statistics", file_bytes, ret->statistics_bytes, why, why_bytes);
	}
	if (r == 0) {
		r = check_ports(ret, why, why_bytes);
	}
	if (r == 0) {
		r = check_regions(ret, why, why_bytes);
	}
	return r;
}

int weir_segment_attach(
	int statistics_fd, int tables_fd, struct weir_segment **ret, char *why, size_t why_bytes) {
	struct weir_segment_header header = {0};
	struct weir_segment *segment;
	uint64_t tables_bytes = 0;
	int r;

	r = weir_segment_read_header(statistics_fd, &header, why, why_bytes);
	if (r == 0) {
		r = check_file(tables_fd, &tables_bytes, why, why_bytes);
	}
	if (r == 0) {
		r = check_bytes("tables", tables_bytes, header.tables_bytes, why, why_bytes);
	}
	if (r < 0) {
		return r;
	}
	segment = calloc(1, sizeof(*segment));
	if (segment == NULL) {
		return weir_refuse(-ENOMEM, why, why_bytes, "out of memory");
	}
	segment->statistics_fd = -1;
	segment->tables_fd = -1;
	segment->statistics_bytes = header.statistics_bytes;
	segment->tables_bytes = header.tables_bytes;
	segment->statistics = weir_segment_map(statistics_fd, header.statistics_bytes, PROT_READ);
	if (segment->statistics != NULL) {
		segment->tables =
			weir_segment_map(tables_fd, header.tables_bytes, PROT_READ | PROT_WRITE);
	}
	if (segment->tables == NULL) {
		r = weir_refuse(-errno, why, why_bytes,
			"cannot map the shared memory of weir-dataplane: %m");
		weir_segment_free(segment);
		return r;
	}
	segment->statistics_fd = statistics_fd;
	segment->tables_fd = tables_fd;
	weir_segment_point(segment, &header);
	*ret = segment;
	return 0;
}

int weir_segment_attach_own(const struct weir_segment *own, struct weir_segment **ret) {
	int statistics_fd = fcntl(own->statistics_fd, F_DUPFD_CLOEXEC, 0);
	int tables_fd = fcntl(own->tables_fd, F_DUPFD_CLOEXEC, 0);
	char why[256];
	int r = -errno;

	if (statistics_fd >= 0 && tables_fd >= 0) {
		r = weir_segment_attach(statistics_fd, tables_fd, ret, why, sizeof(why));
	}
	if (r < 0) {
		close(statistics_fd);
		close(tables_fd);
	}
	return r;
}
