// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_rules.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "data_path_netlink.h"

#define MTU 1280 // MTU of the device: the minimum that IPv6 permits
// Queue length in packets, 8 per connection. The kernel's default of 500 overflows when the loop is
// busy.
#define QUEUE 16384
// Priority of the rule: before the main table's rule, after the local table's rule.
#define PRIORITY 50
#define METRIC_DEVICE 1
#define METRIC_UNREACHABLE 2
// Maximum number of rules that delete_rules deletes. A previous process leaves two per family.
#define LEFTOVERS 64
// Protocol of the rules and routes. When systemd-networkd starts, it removes rules with a different
// protocol. It also removes routes without a device if they have a different protocol.
#define PROTOCOL RTPROT_KERNEL

// --- device -------------------------------------------------------------------------------

static struct nlmsghdr *begin_device(struct weir_data_path_netlink *kernel, unsigned int ifindex) {
	struct nlmsghdr *message = weir_data_path_netlink_begin(kernel, RTM_NEWLINK, 0);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof(*info));

	info->ifi_family = AF_UNSPEC;
	info->ifi_index = (int)ifindex;
	return message;
}

// Prevent a link-local IPv6 address on the device, because the kernel could use it as a source
// address. The request fails on a host without IPv6; the error is ignored.
static void forbid_address(struct weir_data_path_netlink *kernel, unsigned int ifindex) {
	struct nlmsghdr *message = begin_device(kernel, ifindex);
	struct nlattr *families = mnl_attr_nest_start(message, IFLA_AF_SPEC);
	struct nlattr *inet6 = mnl_attr_nest_start(message, AF_INET6);

	mnl_attr_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(message, inet6);
	mnl_attr_nest_end(message, families);
	(void)weir_data_path_netlink_request(kernel, message, NULL, NULL);
}

static int raise_device(struct weir_data_path_netlink *kernel, unsigned int ifindex) {
	struct nlmsghdr *message = begin_device(kernel, ifindex);
	struct ifinfomsg *info = mnl_nlmsg_get_payload(message);

	info->ifi_flags = IFF_UP;
	info->ifi_change = IFF_UP;
	mnl_attr_put_u32(message, IFLA_MTU, MTU);
	mnl_attr_put_u32(message, IFLA_TXQLEN, QUEUE);
	return weir_data_path_netlink_request(kernel, message, NULL, NULL);
}

// --- routes and rules ---------------------------------------------------------------------

// Sets a default route. ifindex 0: the route is unreachable.
static int set_route(struct weir_data_path_netlink *kernel, uint8_t family, uint32_t table,
	uint32_t ifindex, uint32_t metric) {
	struct nlmsghdr *message =
		weir_data_path_netlink_begin(kernel, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
	struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));

	route->rtm_family = family;
	route->rtm_table = RT_TABLE_UNSPEC; // the table is in RTA_TABLE, which has more bits
	route->rtm_protocol = PROTOCOL;
	route->rtm_type = ifindex != 0 ? RTN_UNICAST : RTN_UNREACHABLE;
	route->rtm_scope = ifindex != 0 && family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
	mnl_attr_put_u32(message, RTA_TABLE, table);
	mnl_attr_put_u32(message, RTA_PRIORITY, metric);
	if (ifindex != 0) {
		mnl_attr_put_u32(message, RTA_OIF, ifindex);
	}
	return weir_data_path_netlink_request(kernel, message, NULL, NULL);
}

static struct nlmsghdr *begin_rule(struct weir_data_path_netlink *kernel, uint16_t type,
	uint16_t flags, uint8_t family, uint32_t table) {
	struct nlmsghdr *message = weir_data_path_netlink_begin(kernel, type, flags);
	struct fib_rule_hdr *rule = mnl_nlmsg_put_extra_header(message, sizeof(*rule));

	rule->family = family;
	rule->action = FR_ACT_TO_TBL;
	mnl_attr_put_u32(message, FRA_TABLE, table);
	mnl_attr_put_u32(message, FRA_PRIORITY, PRIORITY);
	return message;
}

// Deletes all rules for this table, for any user and any ports.
static void delete_rules(struct weir_data_path_netlink *kernel, uint8_t family, uint32_t table) {
	for (int i = 0; i < LEFTOVERS; i++) {
		if (weir_data_path_netlink_request(kernel,
			    begin_rule(kernel, RTM_DELRULE, 0, family, table), NULL, NULL) < 0) {
			break;
		}
	}
}

static int add_rule(struct weir_data_path_netlink *kernel, uint8_t family, uint8_t protocol,
	const struct weir_data_path_rules *rules) {
	struct nlmsghdr *message =
		begin_rule(kernel, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, family, rules->table);
	struct fib_rule_uid_range users = {.start = rules->uid, .end = rules->uid};
	struct fib_rule_port_range ports = {.start = rules->port_first, .end = rules->port_last};

	mnl_attr_put(message, FRA_UID_RANGE, sizeof(users), &users);
	mnl_attr_put_u8(message, FRA_PROTOCOL, PROTOCOL);
	mnl_attr_put_u8(message, FRA_IP_PROTO, protocol);
	mnl_attr_put(message, FRA_SPORT_RANGE, sizeof(ports), &ports);
	return weir_data_path_netlink_request(kernel, message, NULL, NULL);
}

// Sets the routes and the rules of one family. The rules are added last: if their table had no
// route, the packets would use the main table.
static int set_family(struct weir_data_path_netlink *kernel, uint8_t family,
	const struct weir_data_path_rules *rules, const char **ret_what) {
	int r;

	*ret_what = "cannot set a route";
	delete_rules(kernel, family, rules->table);
	r = set_route(kernel, family, rules->table, 0, METRIC_UNREACHABLE);
	if (r == 0) {
		r = set_route(kernel, family, rules->table, rules->ifindex, METRIC_DEVICE);
	}
	if (r == 0) {
		*ret_what = "cannot set a policy rule";
		r = add_rule(kernel, family, IPPROTO_TCP, rules);
	}
	if (r == 0) {
		r = add_rule(kernel, family, IPPROTO_UDP, rules);
	}
	return r;
}

int weir_data_path_rules_set(
	const struct weir_data_path_rules *rules, int *ret_ipv6, char *why, size_t why_bytes) {
	struct weir_data_path_netlink kernel;
	const char *what = "cannot open a netlink socket", *what6;
	int r = weir_data_path_netlink_open(&kernel);

	if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", what, strerror(-r));
		return r;
	}
	what = "cannot set up the TUN device";
	forbid_address(&kernel, rules->ifindex);
	r = raise_device(&kernel, rules->ifindex);
	if (r == 0) {
		r = set_family(&kernel, AF_INET, rules, &what);
	}
	if (r == 0) {
		*ret_ipv6 = set_family(&kernel, AF_INET6, rules, &what6);
	} else {
		snprintf(why, why_bytes, "%s: %s", what, strerror(-r));
	}
	weir_data_path_netlink_close(&kernel);
	return r;
}
