// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"
#include "steer_map.h"

struct entry {
	struct weir_vip_key key;
	weir_vip_value value;
};

struct entry_set { // a set of map entries; sort_entries sorts it and removes duplicate keys
	struct entry *entry;
	uint32_t count;
	uint32_t room;
	// A range with more ports than this is stored as blocks of ports. Blocks need fewer
	// entries, but a packet then needs more lookups.
	uint32_t wide;
};

static int compare_entries(const void *a, const void *b) {
	return memcmp(&((const struct entry *)a)->key, &((const struct entry *)b)->key,
		sizeof(struct weir_vip_key));
}

// Returns whether this is the key of a port or of a block of ports; false for the key that lists
// the sizes of blocks.
static bool is_of_ports(const struct weir_vip_key *key) {
	return key->port != 0 || key->family >> 4 != 0;
}

// Combines two values of one key. For a leaving port, returns the later time; otherwise, all bits
// of both values.
static weir_vip_value merge(
	const struct weir_vip_key *key, weir_vip_value one, weir_vip_value other) {
	if (key->protocol == WEIR_STEER_LEAVING && is_of_ports(key)) {
		return one > other ? one : other;
	}
	return one | other;
}

static void sort_entries(struct entry_set *set) {
	uint32_t kept = 0;

	if (set->count == 0) {
		return;
	}
	qsort(set->entry, set->count, sizeof(set->entry[0]), compare_entries);
	for (uint32_t i = 1; i < set->count; i++) {
		if (compare_entries(&set->entry[kept], &set->entry[i]) == 0) {
			set->entry[kept].value = merge(
				&set->entry[i].key, set->entry[kept].value, set->entry[i].value);
		} else {
			set->entry[++kept] = set->entry[i];
		}
	}
	set->count = kept + 1;
}

static int add_entry(struct entry_set *set, const struct weir_vip_key *key, weir_vip_value value) {
	if (set->count == set->room) {
		uint32_t room = set->room ? set->room * 2 : 256;
		struct entry *entries = realloc(set->entry, room * sizeof(*entries));

		if (entries == NULL) {
			return -ENOMEM;
		}
		set->entry = entries;
		set->room = room;
	}
	set->entry[set->count++] = (struct entry){.key = *key, .value = value};
	return 0;
}

// Adds the ports from `first` to `last`, as the smallest possible number of blocks. key: contains
// address, family and protocol. Returns 0 or negative errno.
static int add_blocks(
	struct entry_set *set, struct weir_vip_key key, uint32_t first, uint32_t last) {
	const uint8_t family = key.family;
	weir_vip_value sizes = 0;
	int r = 0;

	while (first <= last && !r) {
		unsigned int k = 0;

		while (k < WEIR_STEER_BLOCK_MAX && first % (2u << k) == 0 &&
			first + (2u << k) - 1 <= last) {
			k++;
		}
		key.family = WEIR_STEER_BLOCK(family, k);
		key.port = htons((uint16_t)first);
		r = add_entry(set, &key, 1);
		sizes |= k > 0 ? 1u << k : 0;
		first += 1u << k;
	}
	key.family = family;
	key.port = 0;
	return r ? r : add_entry(set, &key, sizes);
}

static int add_bind(struct entry_set *set, const struct weir_config_bind *bind) {
	uint32_t ports = bind->port_last - bind->port_first + 1u;
	struct weir_vip_key key = {.family = bind->address.family};
	int r;

	memcpy(key.address, bind->address.bytes, sizeof(key.address));
	r = add_entry(set, &key, 1);
	key.protocol = bind->protocol;
	if (ports == UINT16_MAX + 1u) {
		return r ? r : add_entry(set, &key, WEIR_STEER_EVERY_PORT);
	}
	if (ports > set->wide) {
		return r ? r : add_blocks(set, key, bind->port_first, bind->port_last);
	}
	for (uint32_t i = 0; i < ports && !r; i++) {
		key.port = htons((uint16_t)(bind->port_first + i));
		r = add_entry(set, &key, 1);
	}
	return r;
}

// Adds entries that steer all TCP and UDP ports of an address to the dataplane, which also handles
// the closed ports of the address. Returns 0 or negative errno.
static int add_every_port(struct entry_set *set, const struct weir_address *address) {
	struct weir_vip_key key = {.family = address->family, .protocol = IPPROTO_TCP};
	int r;

	memcpy(key.address, address->bytes, sizeof(key.address));
	r = add_entry(set, &key, WEIR_STEER_EVERY_PORT);
	key.protocol = IPPROTO_UDP;
	return r ? r : add_entry(set, &key, WEIR_STEER_EVERY_PORT);
}

static int list_wanted(const struct weir_config *config, uint32_t wide, struct entry_set *set) {
	int r = 0;

	set->count = 0;
	set->wide = wide;
	for (uint32_t s = 0; config != NULL && s < config->service_count; s++) {
		const struct weir_config_service *service = &config->services[s];

		for (uint32_t b = 0; b < service->bind_count && !r; b++) {
			r = add_bind(set, &service->binds[b]);
			if (!r && service->closed_ports != WEIR_CONFIG_CLOSED_KERNEL) {
				r = add_every_port(set, &service->binds[b].address);
			}
		}
	}
	sort_entries(set);
	return r;
}

// --- leaving ports ------------------------------------------------------------------------

static const struct entry *find(const struct entry_set *set, const struct weir_vip_key *key) {
	const struct entry wanted = {.key = *key};

	return set->count > 0 ? bsearch(&wanted, set->entry, set->count, sizeof(set->entry[0]),
					compare_entries)
			      : NULL;
}

static bool takes_every_port(const struct entry_set *set, struct weir_vip_key key) {
	const struct entry *entry;

	key.family &= 0xf;
	key.protocol = IPPROTO_TCP;
	key.port = 0;
	entry = find(set, &key);
	return entry != NULL && (entry->value & WEIR_STEER_EVERY_PORT) != 0;
}

// Returns whether a set steers a TCP port or a block of TCP ports to the dataplane: with the same
// key, a larger block, or an entry for all ports.
static bool steers(const struct entry_set *set, struct weir_vip_key key) {
	const uint8_t family = key.family & 0xf;
	const uint32_t first = ntohs(key.port);
	bool found = takes_every_port(set, key);

	key.protocol = IPPROTO_TCP;
	for (uint32_t k = key.family >> 4; k <= WEIR_STEER_BLOCK_MAX && !found; k++) {
		key.family = WEIR_STEER_BLOCK(family, k);
		key.port = htons((uint16_t)(first >> k << k));
		found = find(set, &key) != NULL;
	}
	return found;
}

// Adds a leaving port or block, with the time of its last use, and an entry for the size of the
// block. Returns 0 or negative errno.
static int add_leaving(struct entry_set *set, struct weir_vip_key key, uint32_t used_s) {
	const uint32_t k = key.family >> 4;
	int r;

	key.protocol = WEIR_STEER_LEAVING;
	r = add_entry(set, &key, used_s);
	key.family &= 0xf;
	key.port = 0;
	return r ? r : add_entry(set, &key, k > 0 ? 1u << k : 0);
}

static int add_every_port_leaving(struct entry_set *set, struct weir_vip_key key, uint32_t used_s) {
	int r;

	key.family = WEIR_STEER_BLOCK(key.family, WEIR_STEER_BLOCK_MAX);
	r = add_leaving(set, key, used_s);
	key.port = htons(1u << WEIR_STEER_BLOCK_MAX);
	return r ? r : add_leaving(set, key, used_s);
}

// Adds an entry of the map to the set of leaving entries, if the configuration (`wanted`) does not
// contain its ports, in two cases: the entry is for TCP ports; or the entry is already leaving, was
// used within the last idle_s seconds, and no other entry of the map steers its ports. present: all
// entries of the map. Returns 0 or negative errno.
static int add_if_leaving(struct entry_set *set, const struct entry *entry,
	const struct entry_set *wanted, const struct entry_set *present, uint32_t now_s,
	uint32_t idle_s) {
	if (entry->key.protocol == IPPROTO_TCP && !is_of_ports(&entry->key)) {
		return (entry->value & WEIR_STEER_EVERY_PORT) != 0 &&
				       !takes_every_port(wanted, entry->key)
			       ? add_every_port_leaving(set, entry->key, now_s)
			       : 0;
	}
	if (!is_of_ports(&entry->key) || steers(wanted, entry->key)) {
		return 0;
	}
	if (entry->key.protocol == IPPROTO_TCP) {
		return add_leaving(set, entry->key, now_s);
	}
	// The steer program may have marked the entry as used since now_s was read.
	return entry->key.protocol == WEIR_STEER_LEAVING && entry->value + idle_s >= now_s &&
			       !steers(present, entry->key)
		       ? add_leaving(set, entry->key, entry->value)
		       : 0;
}

static int list_leaving(const struct entry_set *wanted, const struct entry_set *present,
	uint32_t now_s, uint32_t idle_s, struct entry_set *set) {
	int r = 0;

	for (uint32_t i = 0; i < present->count && !r; i++) {
		r = add_if_leaving(set, &present->entry[i], wanted, present, now_s, idle_s);
	}
	sort_entries(set);
	return r;
}

// --- the kernel's map ---------------------------------------------------------------------

#define READ_AT_ONCE 1024u // more than the number of entries in any hash bucket of the map

// Reads the whole map with few system calls, because weir-control reads the map every minute while
// ports are leaving.
static int read_map(int fd, struct entry_set *set) {
	struct weir_vip_key keys[READ_AT_ONCE];
	weir_vip_value values[READ_AT_ONCE];
	uint32_t position, *from = NULL;
	int end = 0, r = 0;

	while (!end && !r) {
		uint32_t count = READ_AT_ONCE;

		end = bpf_map_lookup_batch(fd, from, &position, keys, values, &count, NULL) ? errno
											    : 0;
		if (end && end != ENOENT) {
			return -end;
		}
		for (uint32_t i = 0; i < count && !r; i++) {
			r = add_entry(set, &keys[i], values[i]);
		}
		from = &position;
	}
	sort_entries(set);
	return r;
}

// Finds the entry with the same key as `wanted`. *at: index at which the search starts; only
// increases, so the keys of later calls must be greater. Returns NULL if there is no such entry.
static const struct entry *seek(
	const struct entry_set *set, const struct entry *wanted, uint32_t *at) {
	while (*at < set->count && compare_entries(&set->entry[*at], wanted) < 0) {
		(*at)++;
	}
	return *at < set->count && compare_entries(&set->entry[*at], wanted) == 0 ? &set->entry[*at]
										  : NULL;
}

static int set_value(int fd, const struct weir_vip_key *key, weir_vip_value value) {
	return bpf_map_update_elem(fd, key, &value, BPF_ANY) ? -errno : 0;
}

static uint32_t count_missing(const struct entry_set *wanted, const struct entry_set *present) {
	uint32_t at = 0, n = 0;

	for (uint32_t i = 0; i < wanted->count; i++) {
		n += seek(present, &wanted->entry[i], &at) == NULL;
	}
	return n;
}

// Adds the missing entries. Existing entries get the new bits, but keep the old bits until
// set_values is called, so that a lookup meanwhile finds old and new blocks.
static int add_missing(int fd, const struct entry_set *wanted, const struct entry_set *present,
	uint32_t *ret_added) {
	uint32_t at = 0;
	int r = 0;

	for (uint32_t i = 0; i < wanted->count && !r; i++) {
		const struct entry *entry = &wanted->entry[i];
		const struct entry *before = seek(present, entry, &at);
		weir_vip_value value = entry->value;

		if (before == NULL) {
			r = set_value(fd, &entry->key, value);
			*ret_added += r == 0;
			continue;
		}
		value = merge(&entry->key, value, before->value);
		if (value != before->value) {
			r = set_value(fd, &entry->key, value);
		}
	}
	return r;
}

static int set_values(int fd, const struct entry_set *wanted, const struct entry_set *present) {
	uint32_t at = 0;
	int r = 0;

	for (uint32_t i = 0; i < wanted->count && !r; i++) {
		const struct entry *before = seek(present, &wanted->entry[i], &at);

		if (before != NULL && before->value != wanted->entry[i].value) {
			r = set_value(fd, &wanted->entry[i].key, wanted->entry[i].value);
		}
	}
	return r;
}

static int delete_unwanted(int fd, const struct entry_set *wanted, const struct entry_set *present,
	uint32_t *ret_deleted) {
	uint32_t at = 0;

	for (uint32_t i = 0; i < present->count; i++) {
		if (seek(wanted, &present->entry[i], &at) != NULL) {
			continue;
		}
		if (bpf_map_delete_elem(fd, &present->entry[i].key) && errno != ENOENT) {
			return -errno;
		}
		(*ret_deleted)++;
	}
	return 0;
}

// Updates the map. Adds the new entries before it deletes the old entries, so that no entry is
// missing at any time. If the map has no room for both, deletes the old entries first.
static int update_map(int fd, const struct entry_set *wanted, const struct entry_set *present,
	uint32_t capacity, struct weir_steer_map_changes *changes) {
	bool fits = present->count + count_missing(wanted, present) <= capacity;
	int r = fits ? 0 : delete_unwanted(fd, wanted, present, &changes->deleted);

	if (!r) {
		r = add_missing(fd, wanted, present, &changes->added);
	}
	if (!r) {
		r = set_values(fd, wanted, present);
	}
	if (!r && fits) {
		r = delete_unwanted(fd, wanted, present, &changes->deleted);
	}
	return r;
}

static int check_map(int fd, const struct entry_set *wanted, uint32_t *ret_capacity, char *why,
	size_t why_bytes) {
	struct bpf_map_info info = {0};
	uint32_t bytes = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &bytes) || info.type != BPF_MAP_TYPE_HASH ||
		info.key_size != sizeof(struct weir_vip_key) ||
		info.value_size != sizeof(weir_vip_value)) {
		snprintf(why, why_bytes, "descriptor %d is not a VIP map", fd);
		return -EINVAL;
	}
	if (wanted->count > info.max_entries) {
		snprintf(why, why_bytes,
			"the binds need %u VIP map entr%s, but the map can hold %u; port ranges of "
			"2^k ports that begin at a multiple of 2^k need the fewest entries",
			wanted->count, wanted->count == 1 ? "y" : "ies", info.max_entries);
		return -ENOSPC;
	}
	*ret_capacity = info.max_entries;
	return 0;
}

// Adds the entries of `other`. Entries with the same key are merged. Returns 0 or -ENOMEM.
static int add_all(struct entry_set *set, const struct entry_set *other) {
	int r = 0;

	for (uint32_t i = 0; i < other->count && !r; i++) {
		r = add_entry(set, &other->entry[i].key, other->entry[i].value);
	}
	sort_entries(set);
	return r;
}

static int update_one(int fd, const struct entry_set *wanted, uint32_t now_s, uint32_t idle_s,
	struct weir_steer_map_changes *changes, char *why, size_t why_bytes) {
	struct entry_set present = {0}, all = {0};
	uint32_t capacity;
	int r = check_map(fd, wanted, &capacity, why, why_bytes);

	if (r) {
		return r;
	}
	r = read_map(fd, &present);
	if (!r && idle_s > 0) {
		r = list_leaving(wanted, &present, now_s, idle_s, &all);
	}
	if (all.count + wanted->count > capacity) {
		all.count = 0;
	}
	changes->leaving += all.count;
	if (!r) {
		r = add_all(&all, wanted);
	}
	changes->total += all.count;
	if (!r) {
		r = update_map(fd, &all, &present, capacity, changes);
	}
	free(all.entry);
	if (r) {
		snprintf(why, why_bytes, "VIP map: %s", strerror(-r));
	}
	free(present.entry);
	return r;
}

// Lists the entries for the binds of the configuration. If a map is too small for these entries,
// lists more port ranges as blocks. Returns 0 or negative errno with one line in why.
static int list_fitting(const int *fds, uint32_t n, const struct weir_config *config,
	struct entry_set *wanted, char *why, size_t why_bytes) {
	int r = list_wanted(config, WEIR_STEER_WIDE_RANGE, wanted);
	uint32_t capacity;

	for (uint32_t i = 0; i < n && !r; i++) {
		if (fds[i] < 0) {
			continue;
		}
		r = check_map(fds[i], wanted, &capacity, why, why_bytes);
		if (r == -ENOSPC && wanted->wide == WEIR_STEER_WIDE_RANGE) {
			r = list_wanted(config, WEIR_STEER_SHORT_RANGE, wanted);
			if (!r) {
				r = check_map(fds[i], wanted, &capacity, why, why_bytes);
			}
		}
	}
	if (r == -ENOMEM) {
		snprintf(why, why_bytes, "out of memory");
	}
	return r;
}

int weir_steer_map_update(const int *fds, uint32_t n, const struct weir_config *config,
	uint32_t now_s, struct weir_steer_map_changes *ret_changes, char *why, size_t why_bytes) {
	struct weir_steer_map_changes changes = {0};
	struct entry_set wanted = {0};
	// Use at least one second, because idle_s = 0 means that there is no configuration.
	uint32_t idle_s = config != NULL ? config->flow_table.established_ms / 1000 + 1 : 0;
	int r = list_fitting(fds, n, config, &wanted, why, why_bytes);

	changes.keys = wanted.count;
	for (uint32_t i = 0; i < n && !r; i++) {
		if (fds[i] >= 0) {
			r = update_one(fds[i], &wanted, now_s, idle_s, &changes, why, why_bytes);
		}
	}
	free(wanted.entry);
	if (!r && ret_changes != NULL) {
		*ret_changes = changes;
	}
	return r;
}
