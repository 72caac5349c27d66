// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"
#include "steer_map.h"

struct key_set { // sorted, without repetition once sort_keys ran
	struct weir_vip_key *key;
	uint32_t count;
	uint32_t room;
};

static int compare_keys(const void *a, const void *b) {
	return memcmp(a, b, sizeof(struct weir_vip_key));
}

static void sort_keys(struct key_set *set) {
	uint32_t kept = 0;

	if (set->count == 0) {
		return;
	}
	qsort(set->key, set->count, sizeof(set->key[0]), compare_keys);
	for (uint32_t i = 1; i < set->count; i++) {
		if (compare_keys(&set->key[kept], &set->key[i]) != 0) {
			set->key[++kept] = set->key[i];
		}
	}
	set->count = kept + 1;
}

static int add_key(struct key_set *set, const struct weir_vip_key *key) {
	if (set->count == set->room) {
		uint32_t room = set->room ? set->room * 2 : 256;
		struct weir_vip_key *keys = realloc(set->key, room * sizeof(*keys));

		if (keys == NULL) {
			return -ENOMEM;
		}
		set->key = keys;
		set->room = room;
	}
	set->key[set->count++] = *key;
	return 0;
}

static int add_bind(struct key_set *set, const struct weir_config_bind *bind) {
	uint32_t ports = bind->port_last - bind->port_first + 1u;
	struct weir_vip_key key = {.family = bind->address.family};
	int r;

	memcpy(key.address, bind->address.bytes, sizeof(key.address));
	r = add_key(set, &key);
	key.protocol = bind->protocol;
	if (ports > WEIR_STEER_WIDE_RANGE) {
		return r ? r : add_key(set, &key);
	}
	for (uint32_t i = 0; i < ports && !r; i++) {
		key.port = htons((uint16_t)(bind->port_first + i));
		r = add_key(set, &key);
	}
	return r;
}

static int want(const struct weir_config *config, struct key_set *set) {
	int r = 0;

	for (uint32_t s = 0; config != NULL && s < config->service_count; s++) {
		const struct weir_config_service *service = &config->services[s];

		for (uint32_t b = 0; b < service->bind_count && !r; b++) {
			r = add_bind(set, &service->binds[b]);
		}
	}
	sort_keys(set);
	return r;
}

static int read_map(int fd, struct key_set *set) {
	struct weir_vip_key key, *previous = NULL;
	int r = 0;

	// Bounded, so that concurrent changes of the map cannot make this loop endless.
	for (uint32_t i = 0; i < 2 * WEIR_STEER_VIPS_MAX && !r; i++) {
		if (bpf_map_get_next_key(fd, previous, &key)) {
			r = errno == ENOENT ? 0 : -errno;
			break;
		}
		previous = &key;
		r = add_key(set, &key);
	}
	sort_keys(set);
	return r;
}

static int add_missing(
	int fd, const struct key_set *wanted, const struct key_set *present, uint32_t *ret_added) {
	weir_vip_value value = 1;
	uint32_t at = 0;

	for (uint32_t i = 0; i < wanted->count; i++) {
		while (at < present->count &&
			compare_keys(&present->key[at], &wanted->key[i]) < 0) {
			at++;
		}
		if (at < present->count && compare_keys(&present->key[at], &wanted->key[i]) == 0) {
			continue;
		}
		if (bpf_map_update_elem(fd, &wanted->key[i], &value, BPF_ANY)) {
			return -errno;
		}
		(*ret_added)++;
	}
	return 0;
}

static int delete_unwanted(int fd, const struct key_set *wanted, const struct key_set *present,
	uint32_t *ret_deleted) {
	uint32_t at = 0;

	for (uint32_t i = 0; i < present->count; i++) {
		while (at < wanted->count && compare_keys(&wanted->key[at], &present->key[i]) < 0) {
			at++;
		}
		if (at < wanted->count && compare_keys(&wanted->key[at], &present->key[i]) == 0) {
			continue;
		}
		if (bpf_map_delete_elem(fd, &present->key[i]) && errno != ENOENT) {
			return -errno;
		}
		(*ret_deleted)++;
	}
	return 0;
}

// Make room first when old and new together do not fit; else nothing is missing at any time.
static int update_map(int fd, const struct key_set *wanted, const struct key_set *present,
	uint32_t capacity, struct weir_steer_map_changes *changes) {
	int r = 0;

	if ((uint64_t)wanted->count + present->count > capacity) {
		r = delete_unwanted(fd, wanted, present, &changes->deleted);
	}
	if (!r) {
		r = add_missing(fd, wanted, present, &changes->added);
	}
	if (!r && (uint64_t)wanted->count + present->count <= capacity) {
		r = delete_unwanted(fd, wanted, present, &changes->deleted);
	}
	return r;
}

static int check_map(
	int fd, const struct key_set *wanted, uint32_t *ret_capacity, char *why, size_t why_bytes) {
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
			"the binds need %u VIP map entries, the map holds %u; a range of more than "
			"%d ports takes a single entry",
			wanted->count, info.max_entries, WEIR_STEER_WIDE_RANGE);
		return -ENOSPC;
	}
	*ret_capacity = info.max_entries;
	return 0;
}

static int update_one(int fd, const struct key_set *wanted, struct weir_steer_map_changes *changes,
	char *why, size_t why_bytes) {
	struct key_set present = {0};
	uint32_t capacity;
	int r = check_map(fd, wanted, &capacity, why, why_bytes);

	if (r) {
		return r;
	}
	r = read_map(fd, &present);
	if (!r) {
		r = update_map(fd, wanted, &present, capacity, changes);
	}
	if (r) {
		snprintf(why, why_bytes, "VIP map: %s", strerror(-r));
	}
	free(present.key);
	return r;
}

int weir_steer_map_update(const int *fds, uint32_t n, const struct weir_config *config,
	struct weir_steer_map_changes *ret_changes, char *why, size_t why_bytes) {
	struct weir_steer_map_changes changes = {0};
	struct key_set wanted = {0};
	uint32_t capacity;
	int r = want(config, &wanted);

	if (r) {
		snprintf(why, why_bytes, "out of memory");
	}
	for (uint32_t i = 0; i < n && !r; i++) {
		if (fds[i] >= 0) {
			r = check_map(fds[i], &wanted, &capacity, why, why_bytes);
		}
	}
	changes.keys = wanted.count;
	for (uint32_t i = 0; i < n && !r; i++) {
		if (fds[i] >= 0) {
			r = update_one(fds[i], &wanted, &changes, why, why_bytes);
		}
	}
	free(wanted.key);
	if (!r && ret_changes != NULL) {
		*ret_changes = changes;
	}
	return r;
}
