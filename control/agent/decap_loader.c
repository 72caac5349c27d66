// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf_load.h"
#include "decap.skel.h"
#include "decap_loader.h"

#define PROGRAM_NAME "weir_decap"
#define COUNTERS_NAME "weir_decap_coun" // the kernel truncates the name to 15 characters
#define REFUSED_NAME "weir_decap_refu"
#define CONSTANTS_NAME "decap_bp.rodata" // libbpf shortens the name of the object

struct weir_decap {
	struct decap_bpf *skeleton;
	int link;
	bool native;
};

const char *weir_decap_result_name(enum weir_decap_result result) {
	static const char *const names[] = {
#define X(name, key, text) [WEIR_DECAP_##name] = key,
		WEIR_DECAP_RESULTS(X)
#undef X
	};

	return (unsigned int)result < WEIR_DECAP_RESULT_COUNT ? names[result] : "unknown";
}

const char *weir_decap_result_text(enum weir_decap_result result) {
	static const char *const texts[] = {
#define X(name, key, text) [WEIR_DECAP_##name] = text,
		WEIR_DECAP_RESULTS(X)
#undef X
	};

	return (unsigned int)result < WEIR_DECAP_RESULT_COUNT ? texts[result] : "unknown";
}

// --- attaching ----------------------------------------------------------------------------

static int add_sources(
	const struct weir_decap *decap, const struct weir_prefix *sources, uint32_t n) {
	int fd = bpf_map__fd(decap->skeleton->maps.weir_decap_sources);
	uint32_t value = 1;

	for (uint32_t i = 0; i < n; i++) {
		struct weir_decap_prefix key = {
			.bits = 8 + sources[i].bits,
			.family = sources[i].address.family,
		};

		memcpy(key.address, sources[i].address.bytes, sizeof(key.address));
		if (bpf_map_update_elem(fd, &key, &value, BPF_ANY)) {
			return -errno;
		}
	}
	return 0;
}

static void set_constants(const struct weir_decap *decap, const struct weir_decap_params *params) {
	decap->skeleton->rodata->check_sources = params->source_count > 0;
	decap->skeleton->rodata->accept_ipip = params->modes.ipip;
	decap->skeleton->rodata->accept_gre = params->modes.gre;
	decap->skeleton->rodata->gue_port = params->modes.gue_port;
	decap->skeleton->rodata->gre_key = params->modes.gre_key;
}

static int load(struct weir_decap *decap, const struct weir_decap_params *params, char *why,
	size_t why_bytes) {
	libbpf_print_fn_t before = weir_bpf_quiet();
	int r = 0;

	decap->skeleton = decap_bpf__open();
	if (decap->skeleton != NULL) {
		set_constants(decap, params);
		r = decap_bpf__load(decap->skeleton);
	} else {
		r = -errno;
	}
	libbpf_set_print(before);
	if (!r) {
		r = add_sources(decap, params->sources, params->source_count);
	}
	if (r == -EPERM || r == -EACCES) {
		snprintf(why, why_bytes,
			"no permission to load BPF programs: run as root, or with CAP_BPF and "
			"CAP_NET_ADMIN");
	} else if (r) {
		snprintf(why, why_bytes, "cannot load the BPF program: %s", strerror(-r));
	}
	return r;
}

static int attach_as(struct weir_decap *decap, int ifindex, uint32_t flags) {
	struct bpf_link_create_opts options = {.sz = sizeof(options), .flags = flags};
	int fd = bpf_link_create(
		bpf_program__fd(decap->skeleton->progs.weir_decap), ifindex, BPF_XDP, &options);

	if (fd < 0) {
		return fd;
	}
	decap->link = fd;
	decap->native = flags == XDP_FLAGS_DRV_MODE;
	return 0;
}

static int attach(struct weir_decap *decap, const struct weir_decap_params *params, int ifindex,
	char *why, size_t why_bytes) {
	int r = -EOPNOTSUPP;

	if (params->mode != WEIR_AGENT_MODE_SKB) {
		r = attach_as(decap, ifindex, XDP_FLAGS_DRV_MODE);
	}
	if (params->mode == WEIR_AGENT_MODE_SKB ||
		(params->mode == WEIR_AGENT_MODE_ANY && r && r != -EBUSY)) {
		r = attach_as(decap, ifindex, XDP_FLAGS_SKB_MODE);
	}
	if (r == -EBUSY || r == -EEXIST) {
		snprintf(why, why_bytes,
			"%s already has an XDP program (see: ip link show %s): stop the process "
			"that attached it, or use --detach to remove a stale decap program",
			params->interface, params->interface);
		return -EBUSY;
	}
	if (r) {
		snprintf(why, why_bytes, "cannot attach to %s, mode %s: %s", params->interface,
			params->mode == WEIR_AGENT_MODE_NATIVE ? "native (try --mode skb)" : "skb",
			strerror(-r));
	}
	return r;
}

static int find_interface(const char *interface, char *why, size_t why_bytes) {
	unsigned int ifindex = if_nametoindex(interface);

	if (ifindex == 0) {
		snprintf(why, why_bytes, "no such interface: %s", interface);
		return -ENODEV;
	}
	return (int)ifindex;
}

int weir_decap_attach(const struct weir_decap_params *params, struct weir_decap **ret, char *why,
	size_t why_bytes) {
	int ifindex = find_interface(params->interface, why, why_bytes), r;
	struct weir_decap *decap;

	if (ifindex < 0) {
		return ifindex;
	}
	decap = calloc(1, sizeof(*decap));
	if (decap == NULL) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	decap->link = -1;
	r = load(decap, params, why, why_bytes);
	if (!r) {
		r = attach(decap, params, ifindex, why, why_bytes);
	}
	if (r) {
		weir_decap_free(decap);
		return r;
	}
	*ret = decap;
	return 0;
}

void weir_decap_free(struct weir_decap *decap) {
	if (decap == NULL) {
		return;
	}
	if (decap->link >= 0) {
		close(decap->link);
	}
	decap_bpf__destroy(decap->skeleton);
	free(decap);
}

bool weir_decap_is_native(const struct weir_decap *decap) {
	return decap->native;
}

bool weir_decap_is_attached(const struct weir_decap *decap, char *name) {
	struct bpf_link_info info = {0};
	uint32_t bytes = sizeof(info);

	return bpf_obj_get_info_by_fd(decap->link, &info, &bytes) == 0 && info.xdp.ifindex != 0 &&
	       (if_indextoname(info.xdp.ifindex, name) != NULL || errno != ENXIO);
}

// --- addresses ----------------------------------------------------------------------------

static void make_key(const struct weir_address *address, struct weir_decap_address *ret) {
	*ret = (struct weir_decap_address){.family = address->family};
	memcpy(ret->address, address->bytes, sizeof(ret->address));
}

static bool is_listed(
	const struct weir_decap_address *key, const struct weir_address *addresses, uint32_t n) {
	struct weir_decap_address other;

	for (uint32_t i = 0; i < n; i++) {
		make_key(&addresses[i], &other);
		if (memcmp(&other, key, sizeof(other)) == 0) {
			return true;
		}
	}
	return false;
}

static int delete_others(int fd, const struct weir_address *addresses, uint32_t n) {
	struct weir_decap_address key, next, *at = NULL;

	while (bpf_map_get_next_key(fd, at, &next) == 0) {
		// Deleting the key at the current position would restart the iteration.
		if (at != NULL && !is_listed(at, addresses, n) && bpf_map_delete_elem(fd, at)) {
			return -errno;
		}
		key = next;
		at = &key;
	}
	if (at != NULL && !is_listed(at, addresses, n) && bpf_map_delete_elem(fd, at)) {
		return -errno;
	}
	return 0;
}

int weir_decap_set_addresses(
	struct weir_decap *decap, const struct weir_address *addresses, uint32_t n) {
	int fd = bpf_map__fd(decap->skeleton->maps.weir_decap_addresses), r;
	struct weir_decap_address key;
	uint32_t value = 1;

	if (n > WEIR_DECAP_ADDRESSES_MAX) {
		return -ENOSPC;
	}
	r = delete_others(fd, addresses, n);
	for (uint32_t i = 0; i < n && !r; i++) {
		make_key(&addresses[i], &key);
		r = bpf_map_update_elem(fd, &key, &value, BPF_ANY) ? -errno : 0;
	}
	return r;
}

static bool get_usable(const struct sockaddr *from, struct weir_address *ret) {
	struct weir_address address = {0};

	if (from->sa_family == AF_INET) {
		address.family = 4;
		memcpy(address.bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
	} else if (from->sa_family == AF_INET6) {
		const struct in6_addr *in6 = &((const struct sockaddr_in6 *)from)->sin6_addr;

		if (IN6_IS_ADDR_LINKLOCAL(in6)) {
			return false;
		}
		address.family = 6;
		memcpy(address.bytes, in6, sizeof(*in6));
	} else {
		return false;
	}
	*ret = address;
	return true;
}

int weir_decap_interface_addresses(
	const char *interface, struct weir_address *addresses, uint32_t room) {
	struct ifaddrs *list, *at;
	uint32_t count = 0;

	if (getifaddrs(&list)) {
		return -errno;
	}
	for (at = list; at != NULL && count < room; at = at->ifa_next) {
		if (at->ifa_addr != NULL && strcmp(at->ifa_name, interface) == 0 &&
			get_usable(at->ifa_addr, &addresses[count])) {
			count++;
		}
	}
	freeifaddrs(list);
	return (int)count;
}

// --- counters -----------------------------------------------------------------------------

static int read_stats(int map, struct weir_decap_stats *ret) {
	int cpus = libbpf_num_possible_cpus(), r = 0;
	struct weir_decap_counter *values;
	struct weir_decap_stats stats = {0};

	if (cpus < 0) {
		return cpus;
	}
	values = calloc((size_t)cpus, sizeof(*values));
	if (values == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < WEIR_DECAP_RESULT_COUNT && !r; i++) {
		r = bpf_map_lookup_elem(map, &i, values) ? -errno : 0;
		for (int cpu = 0; cpu < cpus && !r; cpu++) {
			stats.result[i].packets += values[cpu].packets;
			stats.result[i].bytes += values[cpu].bytes;
		}
	}
	free(values);
	if (!r) {
		*ret = stats;
	}
	return r;
}

int weir_decap_stats(const struct weir_decap *decap, struct weir_decap_stats *ret) {
	return read_stats(bpf_map__fd(decap->skeleton->maps.weir_decap_counters), ret);
}

// Find the decap program on an interface. Returns a descriptor of the program, or negative errno
// (-ENOENT: no XDP program is attached, -EBUSY: another XDP program is attached).
static int find_program(int ifindex, const char *interface, char *why, size_t why_bytes) {
	struct bpf_prog_info info = {0};
	uint32_t id = 0, bytes = sizeof(info);
	int r = bpf_xdp_query_id(ifindex, 0, &id), fd;

	if (r || id == 0) {
		snprintf(why, why_bytes, "no decap program on %s", interface);
		return r ? r : -ENOENT;
	}
	fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0) {
		snprintf(why, why_bytes, "cannot query the XDP program of %s: %s", interface,
			strerror(-fd));
		return fd;
	}
	if (bpf_obj_get_info_by_fd(fd, &info, &bytes) || strcmp(info.name, PROGRAM_NAME) != 0) {
		snprintf(why, why_bytes,
			"the XDP program on %s is \"%s\", which does not belong to weir-agent",
			interface, info.name);
		close(fd);
		return -EBUSY;
	}
	return fd;
}

// Find a map of a program. entries, value_bytes: the size that the map must have. Returns a
// descriptor of the map, or negative errno (-EPROTO: no such map, or it has another size).
static int find_map(int program, const char *name, uint32_t entries, uint32_t value_bytes) {
	uint32_t ids[16] = {0}, bytes;
	struct bpf_prog_info info = {.nr_map_ids = 16, .map_ids = (uintptr_t)ids};

	bytes = sizeof(info);
	if (bpf_obj_get_info_by_fd(program, &info, &bytes)) {
		return -errno;
	}
	for (uint32_t i = 0; i < info.nr_map_ids && i < 16; i++) {
		struct bpf_map_info map = {0};
		int fd = bpf_map_get_fd_by_id(ids[i]);

		bytes = sizeof(map);
		if (fd < 0) {
			return fd;
		}
		if (bpf_obj_get_info_by_fd(fd, &map, &bytes) == 0 && strcmp(map.name, name) == 0 &&
			map.max_entries == entries && map.value_size == value_bytes) {
			return fd;
		}
		close(fd);
	}
	return -EPROTO;
}

static int open_map(const char *interface, const char *name, uint32_t entries, uint32_t value_bytes,
	char *why, size_t why_bytes) {
	int ifindex = find_interface(interface, why, why_bytes), program, map;

	if (ifindex < 0) {
		return ifindex;
	}
	program = find_program(ifindex, interface, why, why_bytes);
	if (program < 0) {
		return program == -EBUSY ? -ENOENT : program;
	}
	map = find_map(program, name, entries, value_bytes);
	if (map < 0) {
		snprintf(why, why_bytes, "cannot read the maps of the decap program: %s",
			map == -EPROTO ? "the program was attached by another version of weir-agent"
				       : strerror(-map));
	}
	close(program);
	return map;
}

int weir_decap_stats_of(
	const char *interface, struct weir_decap_stats *ret, char *why, size_t why_bytes) {
	int map = open_map(interface, COUNTERS_NAME, WEIR_DECAP_RESULT_COUNT,
		sizeof(struct weir_decap_counter), why, why_bytes);
	int r;

	if (map < 0) {
		return map;
	}
	r = read_stats(map, ret);
	if (r) {
		snprintf(why, why_bytes, "cannot read the counters: %s", strerror(-r));
	}
	close(map);
	return r;
}

// Returns whether the packet of `at` was refused after the packet of `newest`, and the list does
// not have the source of this packet yet. newest: the latest packet so far; NULL = none.
static bool is_newer(const struct weir_decap_refused *at, const struct weir_decap_refused *newest,
	const struct weir_decap_sources *list) {
	if (at->time_ns == 0 || (newest != NULL && at->time_ns <= newest->time_ns)) {
		return false;
	}
	for (uint32_t i = 0; i < list->count; i++) {
		struct weir_decap_address listed;

		make_key(&list->source[i], &listed);
		if (memcmp(&listed, &at->source, sizeof(listed)) == 0) {
			return false;
		}
	}
	return true;
}

static int read_refused(int map, struct weir_decap_sources *ret) {
	int cpus = libbpf_num_possible_cpus(), r;
	struct weir_decap_refused *values;
	uint32_t key = 0;

	if (cpus < 0) {
		return cpus;
	}
	values = calloc((size_t)cpus, sizeof(*values));
	if (values == NULL) {
		return -ENOMEM;
	}
	r = bpf_map_lookup_elem(map, &key, values) ? -errno : 0;
	while (!r && ret->count < WEIR_DECAP_REFUSED_MAX) {
		const struct weir_decap_refused *newest = NULL;

		for (int cpu = 0; cpu < cpus; cpu++) {
			newest = is_newer(&values[cpu], newest, ret) ? &values[cpu] : newest;
		}
		if (newest == NULL) {
			break;
		}
		ret->source[ret->count++] =
			weir_address_of(newest->source.family, newest->source.address);
	}
	free(values);
	return r;
}

int weir_decap_refused_of(const char *interface, struct weir_decap_sources *ret) {
	char why[256];
	int map = open_map(
		interface, REFUSED_NAME, 1, sizeof(struct weir_decap_refused), why, sizeof(why));
	int r;

	*ret = (struct weir_decap_sources){.count = 0};
	if (map < 0) {
		return map;
	}
	r = read_refused(map, ret);
	close(map);
	return r;
}

const char *weir_decap_sources_text(const struct weir_decap_sources *sources, char *buffer) {
	char address[INET6_ADDRSTRLEN];
	size_t used = 0;

	snprintf(buffer, WEIR_DECAP_SOURCES_BYTES, "unknown");
	for (uint32_t i = 0; i < sources->count; i++) {
		used += (size_t)snprintf(buffer + used, WEIR_DECAP_SOURCES_BYTES - used, "%s%s",
			i > 0 ? ", " : "",
			weir_address_format(&sources->source[i], address, sizeof(address)));
	}
	return buffer;
}

int weir_decap_modes_of(
	const char *interface, struct weir_decap_modes *ret, char *why, size_t why_bytes) {
	struct decap_bpf__rodata constants;
	int map = open_map(interface, CONSTANTS_NAME, 1, sizeof(constants), why, why_bytes);
	uint32_t key = 0;
	int r;

	if (map < 0) {
		return map;
	}
	r = bpf_map_lookup_elem(map, &key, &constants) ? -errno : 0;
	if (r) {
		snprintf(why, why_bytes, "cannot read the settings: %s", strerror(-r));
	} else {
		*ret = (struct weir_decap_modes){.ipip = constants.accept_ipip,
			.gre = constants.accept_gre,
			.gue_port = constants.gue_port,
			.gre_key = constants.gre_key};
	}
	close(map);
	return r;
}

const char *weir_decap_modes_text(const struct weir_decap_modes *modes, char *buffer) {
	char gue[32] = "", key[32] = "";

	if (modes->gue_port != 0) {
		snprintf(gue, sizeof(gue), ", gue (port %u)", modes->gue_port);
	}
	if (modes->gre && modes->gre_key != 0) {
		snprintf(key, sizeof(key), " (key %u)", modes->gre_key);
	}
	snprintf(buffer, WEIR_DECAP_MODES_BYTES, "%s%s%s%s", modes->ipip ? ", ipip" : "", gue,
		modes->gre ? ", gre" : "", key);
	memmove(buffer, buffer + 2, strlen(buffer) - 1); // remove the first ", "
	return buffer;
}

int weir_decap_remove(const char *interface, char *why, size_t why_bytes) {
	int ifindex = find_interface(interface, why, why_bytes), program, r;
	struct bpf_xdp_attach_opts options = {.sz = sizeof(options)};
	struct bpf_xdp_query_opts query = {.sz = sizeof(query)};
	libbpf_print_fn_t before;

	if (ifindex < 0) {
		return ifindex;
	}
	program = find_program(ifindex, interface, why, why_bytes);
	if (program < 0) {
		return program;
	}
	options.old_prog_fd = program;
	before = weir_bpf_quiet();
	// Without a mode flag, the kernel would look only for a program in native mode if the
	// driver supports XDP.
	r = bpf_xdp_query(ifindex, 0, &query);
	if (!r) {
		r = bpf_xdp_detach(ifindex,
			XDP_FLAGS_REPLACE |
				(query.attach_mode == XDP_ATTACHED_SKB ? XDP_FLAGS_SKB_MODE
								       : XDP_FLAGS_DRV_MODE),
			&options);
	}
	libbpf_set_print(before);
	if (r) {
		snprintf(why, why_bytes, "cannot detach the decap program from %s: %s", interface,
			r == -EBUSY ? "a running weir-agent uses it; stop that process first"
				    : strerror(-r));
	}
	close(program);
	return r;
}
