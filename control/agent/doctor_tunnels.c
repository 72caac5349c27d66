// SPDX-License-Identifier: BSD-3-Clause
#include "doctor_tunnels.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "tree.h"

#define IP_IN_IP (1u << WEIR_FORWARDING_IPIP | 1u << WEIR_FORWARDING_GUE)
#define GRE (1u << WEIR_FORWARDING_GRE)

struct weir_tunnel_kind {
	int64_t type; // ARPHRD_*
	const char *name;
	uint32_t modes;
	bool ipv4;
};

static const struct weir_tunnel_kind kinds[] = {
	{768, "ipip", IP_IN_IP, true},
	{769, "ip6tnl", IP_IN_IP, true},
	{776, "sit", IP_IN_IP, false},
	{778, "gre", GRE, true},
	{823, "ip6gre", GRE, true},
};

static const struct weir_tunnel_kind *kind_of(const char *interface) {
	unsigned int flags = 0;
	int64_t type = 0;
	char text[32];

	(void)weir_tree_number("", &type, "/sys/class/net/%s/type", interface);
	weir_tree_text("", text, sizeof(text), "/sys/class/net/%s/flags", interface);
	(void)sscanf(text, "%x", &flags);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if ((flags & IFF_UP) != 0 && kinds[i].type == type) {
			return &kinds[i];
		}
	}
	return NULL;
}

void weir_tunnels_read(struct weir_tunnels *ret) {
	DIR *folder = opendir("/sys/class/net");
	struct dirent *entry;

	memset(ret, 0, sizeof(*ret));
	while (folder != NULL && ret->count < WEIR_TUNNELS_MAX &&
		(entry = readdir(folder)) != NULL) {
		struct weir_tunnel *tunnel = &ret->list[ret->count];

		tunnel->kind = kind_of(entry->d_name);
		if (tunnel->kind != NULL) {
			snprintf(tunnel->name, sizeof(tunnel->name), "%.*s", IF_NAMESIZE - 1,
				entry->d_name);
			ret->count++;
		}
	}
	if (folder != NULL) {
		closedir(folder);
	}
}

uint32_t weir_tunnels_modes(const struct weir_tunnels *tunnels) {
	uint32_t modes = 0;

	for (uint32_t i = 0; i < tunnels->count; i++) {
		modes |= tunnels->list[i].kind->modes;
	}
	return modes;
}

const char *weir_tunnel_type(const struct weir_tunnel *tunnel) {
	return tunnel->kind->name;
}

bool weir_tunnel_takes_ipv4(const struct weir_tunnel *tunnel) {
	return tunnel->kind->ipv4;
}
