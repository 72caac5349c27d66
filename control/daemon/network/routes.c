// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "routes.h"

#define EVENT_BUFFER_BYTES (1 << 20) // receive buffer of the socket; the kernel may allocate less
#define EVENTS_PER_TURN 64 // maximum number of reads from the socket per iteration of the loop
#define NUD_USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)

struct weir_routes {
	struct weir_routes_events events;
	void *context;
	struct mnl_socket *request;
	struct mnl_socket *event;
	uv_poll_t poll;
	uint32_t sequence;
	char buffer[32768]; // buffer for one read; MNL_SOCKET_BUFFER_SIZE is not constant
};

// --- messages -----------------------------------------------------------------------------

static uint8_t family_of(uint8_t af) {
	return af == AF_INET ? 4 : af == AF_INET6 ? 6 : 0;
}

static bool get_address(const struct nlattr *attribute, uint8_t family, struct weir_address *ret) {
	size_t bytes = family == 4 ? 4 : 16;

	if (family == 0 || mnl_attr_get_payload_len(attribute) < bytes) {
		return false;
	}
	*ret = (struct weir_address){.family = family};
	memcpy(ret->bytes, mnl_attr_get_payload(attribute), bytes);
	return true;
}

static void parse_vlan(const struct nlattr *info, struct weir_link *link) {
	const struct nlattr *attribute, *nested;
	bool is_vlan = false;

	mnl_attr_for_each_nested(attribute, info) {
		if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND) {
			is_vlan = strcmp(mnl_attr_get_str(attribute), "vlan") == 0;
		}
		if (mnl_attr_get_type(attribute) != IFLA_INFO_DATA || !is_vlan) {
			continue;
		}
		mnl_attr_for_each_nested(nested, attribute) {
			if (mnl_attr_get_type(nested) == IFLA_VLAN_ID) {
				link->vlan = mnl_attr_get_u16(nested);
			}
		}
	}
}

void weir_routes_parse_link(const struct nlmsghdr *message, struct weir_link *ret) {
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	uint32_t lower = 0;

	*ret = (struct weir_link){.ifindex = (uint32_t)info->ifi_index};
	mnl_attr_for_each(attribute, message, sizeof(*info)) {
		switch (mnl_attr_get_type(attribute)) {
		case IFLA_IFNAME:
			strncpy(ret->name, mnl_attr_get_str(attribute), sizeof(ret->name) - 1);
			break;
		case IFLA_LINK:
			lower = mnl_attr_get_u32(attribute);
			break;
		case IFLA_MASTER:
			ret->master = mnl_attr_get_u32(attribute);
			break;
		case IFLA_LINKINFO:
			parse_vlan(attribute, ret);
			break;
		}
	}
	ret->lower = ret->vlan != 0 ? lower : 0;
}

static bool parse_neighbour(const struct nlmsghdr *message, struct weir_neighbour *ret) {
	const struct ndmsg *entry = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	bool has_address = false, has_mac = false;

	*ret = (struct weir_neighbour){
		.ifindex = (uint32_t)entry->ndm_ifindex,
		.state = entry->ndm_state,
		.deleted = message->nlmsg_type == RTM_DELNEIGH,
	};
	if (entry->ndm_flags & NTF_PROXY) {
		return false;
	}
	mnl_attr_for_each(attribute, message, sizeof(*entry)) {
		switch (mnl_attr_get_type(attribute)) {
		case NDA_DST:
			has_address =
				get_address(attribute, family_of(entry->ndm_family), &ret->address);
			break;
		case NDA_LLADDR:
			has_mac = mnl_attr_get_payload_len(attribute) == sizeof(ret->mac);
			if (has_mac) {
				memcpy(ret->mac, mnl_attr_get_payload(attribute), sizeof(ret->mac));
			}
			break;
		}
	}
	ret->has_mac = has_mac && !ret->deleted && (ret->state & NUD_USABLE);
	return has_address;
}

// Parse RTA_VIA: a gateway of another address family than the route.
static void parse_via(const struct nlattr *attribute, struct weir_address *ret) {
	const struct rtvia *via = mnl_attr_get_payload(attribute);
	uint16_t bytes = mnl_attr_get_payload_len(attribute);
	struct weir_address address = {0};

	if (bytes < sizeof(*via)) {
		return;
	}
	address.family = family_of((uint8_t)via->rtvia_family);
	if (address.family != 0 && bytes >= sizeof(*via) + (address.family == 4 ? 4 : 16)) {
		memcpy(address.bytes, via->rtvia_addr, address.family == 4 ? 4 : 16);
		*ret = address;
	}
}

// Returns the MTU in the metrics of a route; 0 = none.
static uint32_t parse_mtu(const struct nlattr *metrics) {
	const struct nlattr *nested;

	mnl_attr_for_each_nested(nested, metrics) {
		if (mnl_attr_get_type(nested) == RTAX_MTU &&
			mnl_attr_get_payload_len(nested) >= sizeof(uint32_t)) {
			return mnl_attr_get_u32(nested);
		}
	}
	return 0;
}

// Returns whether the route can expire. The kernel learns such a route from ICMP errors about
// packets of this host, and sends no event when the route expires. Therefore the MTU of such a
// route is not used.
static bool expires(const struct nlattr *attribute) {
	const struct rta_cacheinfo *info = mnl_attr_get_payload(attribute);

	return mnl_attr_get_payload_len(attribute) >= sizeof(*info) && info->rta_expires != 0;
}

static void parse_route(const struct nlmsghdr *message, struct weir_route *ret) {
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	uint8_t family = family_of(route->rtm_family);
	// In IPv6, only routes that the kernel learns from ICMP are clones.
	bool clone = family == 6 && (route->rtm_flags & RTM_F_CLONED) != 0;
	bool expiring = false;

	ret->error =
		route->rtm_type == RTN_UNICAST || route->rtm_type == RTN_LOCAL ? 0 : -ENETUNREACH;
	ret->local = route->rtm_type == RTN_LOCAL;
	mnl_attr_for_each(attribute, message, sizeof(*route)) {
		switch (mnl_attr_get_type(attribute)) {
		case RTA_OIF:
			ret->ifindex = mnl_attr_get_u32(attribute);
			break;
		case RTA_GATEWAY:
			get_address(attribute, family, &ret->next_hop);
			break;
		case RTA_VIA:
			parse_via(attribute, &ret->next_hop);
			break;
		case RTA_PREFSRC:
			get_address(attribute, family, &ret->source);
			break;
		case RTA_METRICS:
			ret->mtu = parse_mtu(attribute);
			break;
		case RTA_CACHEINFO:
			expiring = expires(attribute);
			break;
		}
	}
	if (expiring) {
		ret->mtu = 0;
	}
	ret->expires = expiring || clone;
}

// --- requests -----------------------------------------------------------------------------

typedef void (*message_fn)(void *context, const struct nlmsghdr *message);

struct answer {
	bool done;
	bool interrupted; // the kernel's table has changed during the dump
	int error;
};

static void take_message(
	const struct nlmsghdr *message, struct answer *answer, message_fn fn, void *context) {
	if (message->nlmsg_flags & NLM_F_DUMP_INTR) {
		answer->interrupted = true;
	}
	if (message->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *error = mnl_nlmsg_get_payload(message);

		answer->error = error->error;
		answer->done = true;
	} else if (message->nlmsg_type == NLMSG_DONE) {
		if (mnl_nlmsg_get_payload_len(message) >= sizeof(int)) {
			answer->error = *(const int *)mnl_nlmsg_get_payload(message);
		}
		answer->done = true;
	} else if (message->nlmsg_type >= NLMSG_MIN_TYPE) {
		fn(context, message);
		answer->done = !(message->nlmsg_flags & NLM_F_MULTI);
	}
}

static int query_kernel(struct weir_routes *routes, struct nlmsghdr *message, struct answer *answer,
	message_fn fn, void *context) {
	uint32_t sequence = ++routes->sequence;

	message->nlmsg_seq = sequence;
	if (mnl_socket_sendto(routes->request, message, message->nlmsg_len) < 0) {
		return -errno;
	}
	while (!answer->done) {
		ssize_t got = mnl_socket_recvfrom(
			routes->request, routes->buffer, sizeof(routes->buffer));
		int left = (int)got;

		if (got < 0) {
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		message = (struct nlmsghdr *)routes->buffer;
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			if (message->nlmsg_seq ==
				sequence) { // skip an answer to an earlier request that timed out
				take_message(message, answer, fn, context);
			}
		}
	}
	return 0;
}

static void take_route(void *context, const struct nlmsghdr *message) {
	if (message->nlmsg_type == RTM_NEWROUTE) {
		parse_route(message, context);
	}
}

int weir_routes_lookup(
	struct weir_routes *routes, const struct weir_address *address, struct weir_route *ret) {
	struct weir_route route = {.next_hop = *address};
	size_t bytes = address->family == 4 ? 4 : 16;
	struct answer answer = {0};
	char request[128] __attribute__((aligned(8)));
	struct nlmsghdr *message = mnl_nlmsg_put_header(request);
	struct rtmsg *query;
	int r;

	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST;
	query = mnl_nlmsg_put_extra_header(message, sizeof(*query));
	query->rtm_family = address->family == 4 ? AF_INET : AF_INET6;
	query->rtm_dst_len = (unsigned char)(bytes * 8);
	mnl_attr_put(message, RTA_DST, bytes, address->bytes);
	r = query_kernel(routes, message, &answer, take_route, &route);
	if (r) {
		return r;
	}
	if (answer.error) {
		route.error = answer.error;
		// the types unreachable, prohibit and blackhole
		route.refused = answer.error == -EHOSTUNREACH || answer.error == -EACCES ||
				answer.error == -EINVAL;
	}
	*ret = route;
	return 0;
}

// Reads a table of the kernel, and calls fn for each entry. If the table changes meanwhile, reads
// the table again, at most five times in total, and calls fn again for each entry. If the table
// changes in each reading, returns 0 although entries may be missing, because the changes also
// cause events. Returns 0 or negative errno.
static int dump(struct weir_routes *routes, uint16_t type, message_fn fn, void *context) {
	char request[128] __attribute__((aligned(8)));

	for (int tries = 0; tries < 5; tries++) {
		struct nlmsghdr *message = mnl_nlmsg_put_header(request);
		struct answer answer = {0};
		int r;

		message->nlmsg_type = type;
		message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
		mnl_nlmsg_put_extra_header(message,
			type == RTM_GETLINK ? sizeof(struct ifinfomsg) : sizeof(struct ndmsg));
		r = query_kernel(routes, message, &answer, fn, context);
		if (r || answer.error) {
			return r ? r : answer.error;
		}
		if (!answer.interrupted) {
			break;
		}
	}
	return 0;
}

struct listener {
	weir_link_fn on_link;
	weir_neighbour_fn on_neighbour;
	void *context;
};

static void take_link(void *context, const struct nlmsghdr *message) {
	const struct listener *listener = context;
	struct weir_link link;

	if (message->nlmsg_type == RTM_NEWLINK) {
		weir_routes_parse_link(message, &link);
		listener->on_link(listener->context, &link);
	}
}

int weir_routes_links(struct weir_routes *routes, weir_link_fn fn, void *context) {
	struct listener listener = {.on_link = fn, .context = context};

	return dump(routes, RTM_GETLINK, take_link, &listener);
}

static void take_neighbour(void *context, const struct nlmsghdr *message) {
	const struct listener *listener = context;
	struct weir_neighbour neighbour;

	if (message->nlmsg_type == RTM_NEWNEIGH && parse_neighbour(message, &neighbour)) {
		listener->on_neighbour(listener->context, &neighbour);
	}
}

int weir_routes_neighbours(struct weir_routes *routes, weir_neighbour_fn fn, void *context) {
	struct listener listener = {.on_neighbour = fn, .context = context};

	return dump(routes, RTM_GETNEIGH, take_neighbour, &listener);
}

struct table_max {
	uint8_t family;
	uint32_t max;
};

// Reads the limit of a neighbour table. Only the first message about a table contains the limit;
// the messages about single interfaces do not contain it.
static void take_table(void *context, const struct nlmsghdr *message) {
	const struct ndtmsg *table = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	struct table_max *ret = context;

	if (message->nlmsg_type != RTM_NEWNEIGHTBL ||
		family_of(table->ndtm_family) != ret->family) {
		return;
	}
	mnl_attr_for_each(attribute, message, sizeof(*table)) {
		if (mnl_attr_get_type(attribute) == NDTA_THRESH3 &&
			mnl_attr_get_payload_len(attribute) >= sizeof(uint32_t)) {
			ret->max = mnl_attr_get_u32(attribute);
		}
	}
}

uint32_t weir_routes_neighbours_max(struct weir_routes *routes, uint8_t family) {
	struct table_max table = {.family = family};

	(void)dump(routes, RTM_GETNEIGHTBL, take_table, &table);
	return table.max;
}

// --- events -------------------------------------------------------------------------------

static void take_event(struct weir_routes *routes, const struct nlmsghdr *message) {
	struct weir_neighbour neighbour;

	switch (message->nlmsg_type) {
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		if (parse_neighbour(message, &neighbour)) {
			routes->events.on_neighbour(routes->context, &neighbour);
		}
		break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
	case RTM_NEWRULE:
	case RTM_DELRULE:
	case RTM_NEWLINK:
	case RTM_DELLINK:
	case RTM_NEWADDR:
	case RTM_DELADDR:
	case RTM_NEWNEXTHOP:
	case RTM_DELNEXTHOP:
		routes->events.on_change(routes->context);
		break;
	}
}

static void on_readable(uv_poll_t *poll, int status, int events) {
	struct weir_routes *routes = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < EVENTS_PER_TURN; i++) {
		struct nlmsghdr *message = (struct nlmsghdr *)routes->buffer;
		ssize_t got =
			mnl_socket_recvfrom(routes->event, routes->buffer, sizeof(routes->buffer));
		int left = (int)got;

		if (got < 0 && errno == ENOBUFS) {
			routes->events.on_lost(routes->context);
			continue;
		}
		if (got < 0) {
			break;
		}
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			take_event(routes, message);
		}
	}
	routes->events.on_turn(routes->context);
}

// --- open and close -----------------------------------------------------------------------

static int join_groups(struct mnl_socket *socket) {
	static const int groups[] = {RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_IPV4_IFADDR,
		RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE,
		RTNLGRP_IPV6_RULE, RTNLGRP_NEXTHOP};

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		int group = groups[i];

		// Ignore errors for groups other than LINK and NEIGH, because a kernel without IPv6
		// or without next hop objects does not have all groups.
		if (mnl_socket_setsockopt(socket, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) <
				0 &&
			(group == RTNLGRP_LINK || group == RTNLGRP_NEIGH)) {
			return -errno;
		}
	}
	return 0;
}

static int open_sockets(struct weir_routes *routes) {
	struct timeval patience = {.tv_sec = 1}; // timeout; the kernel normally answers immediately
	int bytes = EVENT_BUFFER_BYTES, r;

	routes->request = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (routes->request == NULL ||
		mnl_socket_bind(routes->request, 0, MNL_SOCKET_AUTOPID) < 0) {
		return -errno;
	}
	setsockopt(mnl_socket_get_fd(routes->request), SOL_SOCKET, SO_RCVTIMEO, &patience,
		sizeof(patience));
	routes->event = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (routes->event == NULL || mnl_socket_bind(routes->event, 0, MNL_SOCKET_AUTOPID) < 0) {
		return -errno;
	}
	r = join_groups(routes->event);
	if (r) {
		return r;
	}
	setsockopt(mnl_socket_get_fd(routes->event), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return 0;
}

static void free_routes(struct weir_routes *routes) {
	if (routes->event != NULL) {
		mnl_socket_close(routes->event);
	}
	if (routes->request != NULL) {
		mnl_socket_close(routes->request);
	}
	free(routes);
}

static void on_closed(uv_handle_t *handle) {
	free_routes(handle->data);
}

int weir_routes_open(uv_loop_t *loop, const struct weir_routes_events *events, void *context,
	struct weir_routes **ret) {
	struct weir_routes *routes = calloc(1, sizeof(*routes));
	int r;

	if (routes == NULL) {
		return -ENOMEM;
	}
	routes->events = *events;
	routes->context = context;
	r = open_sockets(routes);
	if (!r) {
		r = uv_poll_init(loop, &routes->poll, mnl_socket_get_fd(routes->event));
	}
	if (r) {
		free_routes(routes);
		return r;
	}
	routes->poll.data = routes;
	uv_poll_start(&routes->poll, UV_READABLE, on_readable);
	*ret = routes;
	return 0;
}

void weir_routes_close(struct weir_routes *routes) {
	if (routes != NULL) {
		uv_close((uv_handle_t *)&routes->poll, on_closed);
	}
}
