// SPDX-License-Identifier: BSD-3-Clause
//
// The table is built in two steps. First the binds are sorted, so that binds of one address and
// protocol are adjacent. Then each group of binds with one address and protocol is converted:
// binds of single ports become exact keys, and all other binds become one list of disjoint
// ranges.
#include "service_table.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

// Maximum number of buckets that a search for a key probes, so that the search ends even if another
// process writes invalid data to the table. The builder doubles the table until each key is within
// this number of buckets, at most DOUBLINGS_MAX - 1 times.
#define PROBES_MAX 32
#define DOUBLINGS_MAX 5
#define BINDS_MAX (1u << 21)

struct key {
	uint64_t address[2];
	uint8_t family;
	uint8_t protocol;
	uint8_t kind;
	uint16_t port;
};

static uint64_t hash_key(const struct key *key, uint64_t seed) {
	uint64_t turned = seed << 32 | seed >> 32;
	uint64_t rest = (uint64_t)key->family | (uint64_t)key->protocol << 8 |
			(uint64_t)key->kind << 16 | (uint64_t)key->port << 32;
	uint64_t hash = weir_hash_mix(key->address[0] ^ 0x9e3779b97f4a7c15ull ^ seed,
		key->address[1] ^ 0xd1342543de82ef95ull ^ turned);

	return weir_hash_mix(hash ^ seed, rest ^ 0xa0761d6478bd642full);
}

static bool is_key(const struct weir_bind *bind, const struct key *key) {
	uint64_t address[2];

	memcpy(address, bind->address, sizeof(address));
	return (address[0] == key->address[0]) & (address[1] == key->address[1]) &
	       (bind->family == key->family) & (bind->protocol == key->protocol) &
	       (bind->kind == key->kind) & (bind->port == key->port);
}

// --- lookup -------------------------------------------------------------------------------

static const struct weir_bind *find(const struct weir_services_view *view, const struct key *key) {
	uint32_t at = (uint32_t)hash_key(key, view->hash_seed);

	for (unsigned int probe = 0; probe < PROBES_MAX; probe++) {
		const struct weir_bind *bind = &view->buckets[(at + probe) & view->bucket_mask];

		if (is_key(bind, key)) {
			return bind;
		}
		if (bind->family == 0) {
			return NULL;
		}
	}
	return NULL;
}

// Finds the ranges of a key of the kind WEIR_BIND_RANGES. Returns the number of ranges, or 0 if the
// ranges are outside of the table.
static uint32_t ranges_of(const struct weir_services_view *view, const struct weir_bind *bind,
	const struct weir_bind_range **ret) {
	// first and count are read once, because another process may change them between the check
	// and the use.
	uint32_t first = __atomic_load_n(&bind->first, __ATOMIC_RELAXED);
	uint32_t count = __atomic_load_n(&bind->count, __ATOMIC_RELAXED);

	if (first > view->range_count || count > view->range_count - first) {
		return 0;
	}
	*ret = &view->ranges[first];
	return count;
}

// Returns the index of the first range that ends at this port or after it; `count` if there is
// none.
static uint32_t first_from(const struct weir_bind_range *ranges, uint32_t count, uint16_t port) {
	uint32_t low = 0;
	uint32_t high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (port > ranges[middle].last) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static uint16_t find_range(
	const struct weir_services_view *view, const struct weir_bind *bind, uint16_t port) {
	const struct weir_bind_range *ranges = NULL;
	uint32_t count = ranges_of(view, bind, &ranges);
	uint32_t i = first_from(ranges, count, port);

	return i < count && ranges[i].first <= port
		       ? __atomic_load_n(&ranges[i].service, __ATOMIC_RELAXED)
		       : WEIR_SERVICE_NONE;
}

uint16_t weir_service_lookup(const struct weir_services_view *view, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port) {
	struct key key = {
		.family = family,
		.protocol = protocol,
		.kind = WEIR_BIND_EXACT,
		.port = port,
	};
	const struct weir_bind *bind;

	if (view->buckets == NULL || family == 0) {
		return WEIR_SERVICE_NONE;
	}
	memcpy(key.address, address, sizeof(key.address));
	bind = find(view, &key);
	if (bind != NULL) {
		return __atomic_load_n(&bind->service, __ATOMIC_RELAXED);
	}
	if (view->range_count == 0) {
		return WEIR_SERVICE_NONE;
	}
	key.kind = WEIR_BIND_RANGES;
	key.port = 0;
	bind = find(view, &key);
	return bind == NULL ? WEIR_SERVICE_NONE : find_range(view, bind, port);
}

bool weir_service_is_port(const struct weir_services_view *view, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t port) {
	struct key key = {
		.family = family, .protocol = protocol, .kind = WEIR_BIND_EXACT, .port = port};

	memcpy(key.address, address, sizeof(key.address));
	return view->buckets != NULL && find(view, &key) != NULL;
}

static const struct weir_bind *find_address(
	const struct weir_services_view *view, const uint8_t address[16], uint8_t family) {
	struct key key = {.family = family, .kind = WEIR_BIND_ADDRESS};

	if (view->buckets == NULL || family == 0) {
		return NULL;
	}
	memcpy(key.address, address, sizeof(key.address));
	return find(view, &key);
}

bool weir_service_is_vip(
	const struct weir_services_view *view, const uint8_t address[16], uint8_t family) {
	return find_address(view, address, family) != NULL;
}

enum weir_closed_ports weir_service_closed_ports(
	const struct weir_services_view *view, const uint8_t address[16], uint8_t family) {
	const struct weir_bind *bind = find_address(view, address, family);
	uint8_t closed = bind != NULL ? __atomic_load_n(&bind->closed, __ATOMIC_RELAXED) : 0;

	return closed <= WEIR_CLOSED_PORTS_REJECT ? (enum weir_closed_ports)closed
						  : WEIR_CLOSED_PORTS_KERNEL;
}

// --- enumeration --------------------------------------------------------------------------

static void fill(struct weir_service_bind *ret, const struct weir_bind *bind, uint16_t first,
	uint16_t last, uint16_t service) {
	*ret = (struct weir_service_bind){.family = bind->family,
		.protocol = bind->protocol,
		.port_first = first,
		.port_last = last,
		.service = service};
	memcpy(ret->address, bind->address, sizeof(ret->address));
}

bool weir_service_next(const struct weir_services_view *view, struct weir_service_cursor *cursor,
	struct weir_service_bind *ret) {
	for (; view->buckets != NULL && cursor->bucket <= view->bucket_mask; cursor->bucket++) {
		const struct weir_bind *bind = &view->buckets[cursor->bucket];
		const struct weir_bind_range *ranges = NULL;

		if (bind->family != 0 && bind->kind == WEIR_BIND_EXACT) {
			fill(ret, bind, bind->port, bind->port, bind->service);
			cursor->bucket++;
			return true;
		}
		if (bind->family != 0 && bind->kind == WEIR_BIND_RANGES &&
			cursor->range < ranges_of(view, bind, &ranges) &&
			cursor->ranges + cursor->range < view->range_count) {
			ranges += cursor->range++;
			fill(ret, bind, ranges->first, ranges->last, ranges->service);
			return true;
		}
		cursor->ranges += cursor->range;
		cursor->range = 0;
	}
	return false;
}

bool weir_service_gap(const struct weir_services_view *view, const uint8_t address[16],
	uint8_t family, uint8_t protocol, uint16_t *first, uint16_t *last) {
	struct key key = {.family = family, .protocol = protocol, .kind = WEIR_BIND_RANGES};
	const struct weir_bind_range *ranges = NULL;
	const struct weir_bind *bind;
	uint32_t count, from = *first;

	memcpy(key.address, address, sizeof(key.address));
	bind = view->buckets != NULL ? find(view, &key) : NULL;
	count = bind != NULL ? ranges_of(view, bind, &ranges) : 0;
	for (uint32_t i = first_from(ranges, count, *first); i < count && ranges[i].first <= *last;
		i++) {
		if (ranges[i].first > from) {
			*last = ranges[i].first - 1;
		} else if (ranges[i].last >= from) { // always, unless the memory was altered
			from = ranges[i].last + 1u;
		}
	}
	if (from > *last) {
		return false;
	}
	*first = (uint16_t)from;
	return true;
}

// --- build --------------------------------------------------------------------------------

// The ports from `edge` up to the edge of the next part, which is excluded. Each range begins at
// the edge of a part and ends before the edge of a part.
struct part {
	uint32_t edge;
	uint32_t next; // the part itself, or if it has a service: a later part, such that only
		       // parts with a service are between the two
	uint16_t service;
};

struct builder {
	struct weir_service_bind *binds; // sorted
	uint32_t n;
	struct weir_bind *keys; // array of at most 3 * n keys
	uint32_t key_count;
	struct weir_bind_range *ranges; // array of at most 2 * n ranges
	uint32_t range_count;
	struct part *parts; // memory for 2 * n parts
	uint32_t ended; // number of ended binds
};

static uint32_t width(const struct weir_service_bind *bind) {
	return (uint32_t)bind->port_last - bind->port_first;
}

static int compare_address(const struct weir_service_bind *a, const struct weir_service_bind *b) {
	if (a->family != b->family) {
		return (a->family > b->family) - (a->family < b->family);
	}
	return memcmp(a->address, b->address, sizeof(a->address));
}

static bool same_group(const struct weir_service_bind *a, const struct weir_service_bind *b) {
	return compare_address(a, b) == 0 && a->protocol == b->protocol;
}

// Orders binds by address, then by protocol, then by the number of ports, the smallest number
// first.
static int compare_binds(const void *left, const void *right) {
	const struct weir_service_bind *a = left;
	const struct weir_service_bind *b = right;
	int order = compare_address(a, b);

	if (order != 0) {
		return order;
	}
	if (a->protocol != b->protocol) {
		return (a->protocol > b->protocol) - (a->protocol < b->protocol);
	}
	if (width(a) != width(b)) {
		return (width(a) > width(b)) - (width(a) < width(b));
	}
	return (a->port_first > b->port_first) - (a->port_first < b->port_first);
}

static int compare_parts(const void *left, const void *right) {
	const struct part *a = left;
	const struct part *b = right;

	return (a->edge > b->edge) - (a->edge < b->edge);
}

static bool bind_valid(const struct weir_service_bind *bind) {
	static const uint8_t zero[12];

	return (bind->family == 6 ||
		       (bind->family == 4 && memcmp(bind->address + 4, zero, sizeof(zero)) == 0)) &&
	       (bind->protocol == IPPROTO_TCP || bind->protocol == IPPROTO_UDP) &&
	       bind->port_first <= bind->port_last && bind->service != WEIR_SERVICE_NONE &&
	       bind->closed <= WEIR_CLOSED_PORTS_REJECT;
}

static struct weir_bind *add_key(
	struct builder *b, const struct weir_service_bind *bind, enum weir_bind_kind kind) {
	struct weir_bind *key = &b->keys[b->key_count++];

	memset(key, 0, sizeof(*key));
	memcpy(key->address, bind->address, sizeof(key->address));
	key->family = bind->family;
	key->kind = (uint8_t)kind;
	if (kind != WEIR_BIND_ADDRESS) {
		key->protocol = bind->protocol;
	}
	return key;
}

// Returns the index of the first part without a service, from part i on.
static uint32_t next_free(struct part *parts, uint32_t i) {
	while (parts[i].next != i) {
		parts[i].next = parts[parts[i].next].next; // shorten the path for later searches
		i = parts[i].next;
	}
	return i;
}

// Returns the index of a part that begins at this port.
static uint32_t part_at(const struct part *parts, uint32_t n, uint32_t port) {
	const struct part key = {.edge = port};
	const struct part *found = bsearch(&key, parts, n, sizeof(key), compare_parts);

	return (uint32_t)(found - parts);
}

static void add_range(
	struct builder *b, uint32_t list, uint32_t first, uint32_t last, uint16_t service) {
	struct weir_bind_range *before =
		b->range_count > list ? &b->ranges[b->range_count - 1] : NULL;

	if (before != NULL && before->service == service && before->last + 1u == first) {
		before->last = (uint16_t)last;
		return;
	}
	b->ranges[b->range_count++] = (struct weir_bind_range){
		.first = (uint16_t)first, .last = (uint16_t)last, .service = service};
}

// Cuts the overlapping ranges [from, to) of a group into disjoint ranges. All ports of a part are
// covered by the same ranges. The ranges are sorted by width, so each range gets the parts that are
// still without a service.
static void add_ranges(struct builder *b, uint32_t from, uint32_t to) {
	struct weir_bind *key = add_key(b, &b->binds[from], WEIR_BIND_RANGES);
	struct part *parts = b->parts;
	uint32_t n = 0;

	key->first = b->range_count;
	for (uint32_t i = from; i < to; i++) {
		parts[n++].edge = b->binds[i].port_first;
		parts[n++].edge = b->binds[i].port_last + 1u;
	}
	qsort(parts, n, sizeof(parts[0]), compare_parts);
	for (uint32_t i = 0; i < n; i++) {
		parts[i].next = i;
		parts[i].service = WEIR_SERVICE_NONE;
	}
	for (uint32_t i = from; i < to; i++) {
		uint32_t end = part_at(parts, n, b->binds[i].port_last + 1u);
		uint32_t part = next_free(parts, part_at(parts, n, b->binds[i].port_first));

		for (; part < end; part = next_free(parts, part)) {
			parts[part].service = b->binds[i].service;
			parts[part].next = part + 1;
		}
	}
	for (uint32_t i = 0; i + 1 < n; i++) {
		if (parts[i].service != WEIR_SERVICE_NONE && parts[i].edge < parts[i + 1].edge) {
			add_range(b, key->first, parts[i].edge, parts[i + 1].edge - 1,
				parts[i].service);
		}
	}
	key->count = b->range_count - key->first;
}

// Converts the binds [from, to), which have the same address and protocol, to keys and ranges.
// Returns 0, or -EEXIST if two binds have the same ports.
static int add_group(struct builder *b, uint32_t from, uint32_t to) {
	uint32_t i;

	for (i = from + 1; i < to; i++) {
		if (b->binds[i - 1].port_first == b->binds[i].port_first &&
			b->binds[i - 1].port_last == b->binds[i].port_last) {
			return -EEXIST;
		}
	}
	for (i = from; i < to && width(&b->binds[i]) == 0; i++) {
		struct weir_bind *key = add_key(b, &b->binds[i], WEIR_BIND_EXACT);

		key->port = b->binds[i].port_first;
		key->service = b->binds[i].service;
	}
	if (i < to) {
		add_ranges(b, i, to);
	}
	return 0;
}

// Adds the key that marks an address as a VIP. The key gets the highest value of `closed` of all
// binds of the address. from: the first bind of the address.
static void add_address(struct builder *b, uint32_t from) {
	struct weir_bind *key = add_key(b, &b->binds[from], WEIR_BIND_ADDRESS);

	for (uint32_t i = from; i < b->n && compare_address(&b->binds[from], &b->binds[i]) == 0;
		i++) {
		if (key->closed < b->binds[i].closed) {
			key->closed = b->binds[i].closed;
		}
	}
}

static int add_groups(struct builder *b) {
	uint32_t from = 0;

	while (from < b->n) {
		uint32_t to = from + 1;
		int r;

		while (to < b->n && same_group(&b->binds[from], &b->binds[to])) {
			to++;
		}
		r = add_group(b, from, to);
		if (r < 0) {
			return r;
		}
		if (from == 0 || compare_address(&b->binds[from - 1], &b->binds[from]) != 0) {
			add_address(b, from);
		}
		from = to;
	}
	return 0;
}

// Clears the buckets, and inserts all keys. Returns false if a search would have to probe more than
// PROBES_MAX buckets.
static bool fill_buckets(
	const struct builder *b, struct weir_bind *buckets, uint32_t count, uint64_t seed) {
	memset(buckets, 0, (size_t)count * sizeof(*buckets));
	for (uint32_t i = 0; i < b->key_count; i++) {
		const struct weir_bind *bind = &b->keys[i];
		struct key key = {
			.family = bind->family,
			.protocol = bind->protocol,
			.kind = bind->kind,
			.port = bind->port,
		};
		unsigned int probe = 0;
		uint32_t at;

		memcpy(key.address, bind->address, sizeof(key.address));
		at = (uint32_t)hash_key(&key, seed);
		while (probe < PROBES_MAX && buckets[(at + probe) & (count - 1)].family != 0) {
			probe++;
		}
		if (probe == PROBES_MAX) {
			return false;
		}
		buckets[(at + probe) & (count - 1)] = *bind;
	}
	return true;
}

// Build a blob of `buckets` buckets with all keys. Returns -EAGAIN if the number of buckets is too
// small.
static int make_table(const struct builder *b, struct weir_writer *writer, uint32_t buckets,
	uint64_t seed, struct weir_service_table **ret) {
	uint64_t buckets_bytes = (uint64_t)buckets * sizeof(struct weir_bind);
	struct weir_service_table *table = weir_writer_alloc(writer, WEIR_BLOB_SERVICES,
		sizeof(*table) + buckets_bytes + b->range_count * sizeof(*b->ranges));
	uint8_t *base = (uint8_t *)table;

	if (table == NULL) {
		return -errno;
	}
	table->buckets = buckets;
	table->ranges = b->range_count;
	table->buckets_off = sizeof(*table);
	table->ranges_off = sizeof(*table) + buckets_bytes;
	table->hash_seed = seed;
	table->ended = b->ended;
	if (!fill_buckets(
		    b, (struct weir_bind *)(void *)(base + table->buckets_off), buckets, seed)) {
		weir_writer_discard(writer, table);
		return -EAGAIN;
	}
	if (b->range_count > 0) {
		memcpy(base + table->ranges_off, b->ranges, b->range_count * sizeof(*b->ranges));
	}
	*ret = table;
	return 0;
}

static int make_tables(const struct builder *b, struct weir_writer *writer, uint64_t seed,
	struct weir_service_table **ret) {
	uint32_t buckets = 2;
	int r = -EAGAIN;

	while (buckets < 2 * b->key_count) {
		buckets *= 2;
	}
	for (unsigned int i = 0; i < DOUBLINGS_MAX && r == -EAGAIN; i++) {
		r = make_table(b, writer, buckets, seed, ret);
		buckets *= 2;
	}
	return r == -EAGAIN ? -ENOSPC : r;
}

int weir_service_table_build(struct weir_writer *writer, const struct weir_service_bind *binds,
	uint32_t n, uint64_t hash_seed, struct weir_service_table **ret) {
	const uint16_t over = WEIR_BIND_REMOVED | WEIR_BIND_ENDED;
	struct builder b = {.n = n};
	int r = -ENOMEM;

	if (n > BINDS_MAX) {
		return -ENOSPC;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!bind_valid(&binds[i])) {
			return -EINVAL;
		}
		b.ended += (binds[i].service & over) == over;
	}
	b.binds = calloc((size_t)n + 1, sizeof(*b.binds));
	b.keys = calloc(3 * (size_t)n + 1, sizeof(*b.keys));
	b.ranges = calloc(2 * (size_t)n + 1, sizeof(*b.ranges));
	b.parts = calloc(2 * (size_t)n + 1, sizeof(*b.parts));
	if (b.binds == NULL || b.keys == NULL || b.ranges == NULL || b.parts == NULL) {
		goto free_memory;
	}
	if (n > 0) {
		memcpy(b.binds, binds, n * sizeof(*b.binds));
		qsort(b.binds, n, sizeof(*b.binds), compare_binds);
	}
	r = add_groups(&b);
	if (r == 0) {
		r = make_tables(&b, writer, hash_seed, ret);
	}

free_memory:
	free(b.parts);
	free(b.ranges);
	free(b.keys);
	free(b.binds);
	return r;
}
