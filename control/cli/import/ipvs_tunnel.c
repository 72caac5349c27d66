// SPDX-License-Identifier: BSD-3-Clause
#include "ipvs_tunnel.h"

#include <stdio.h>
#include <string.h>

static const struct type {
	const char *name;
	enum weir_forwarding_mode mode;
	bool has_port; // required
	const char *checksums; // permitted options
} types[] = {
	{"ipip", WEIR_FORWARDING_IPIP, false, ""},
	{"gue", WEIR_FORWARDING_GUE, true, "nocsum, csum, remcsum"},
	{"gre", WEIR_FORWARDING_GRE, false, "nocsum, csum"},
};

static const struct type *find_type(const char *name) {
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (name == NULL || strcmp(types[i].name, name) == 0) {
			return &types[i]; // no --tun-type: the first type, the default
		}
	}
	return NULL;
}

static bool read_port(struct weir_import *import, const struct weir_import_place *place,
	const struct type *type, const char *text, uint16_t *ret) {
	uint64_t port = 0;

	if (type->has_port && text == NULL) {
		weir_import_error(
			import, place, "--tun-type %s needs a port: add --tun-port", type->name);
	} else if (!type->has_port && text != NULL) {
		weir_import_error(import, place,
			"--tun-port needs --tun-type gue: add it, or remove the port");
	} else if (text != NULL && (!weir_import_number(text, UINT16_MAX, &port) || port == 0)) {
		weir_import_error(
			import, place, "--tun-port \"%s\": use a number from 1 to 65535", text);
	} else {
		*ret = (uint16_t)port;
		return true;
	}
	return false;
}

bool weir_ipvs_tunnel_read(struct weir_import *import, const struct weir_import_place *place,
	const struct weir_ipvs_tunnel *tunnel, struct weir_import_forwarding *ret) {
	const struct type *type = find_type(tunnel->type);
	char what[32];

	if (type == NULL) {
		weir_import_error(
			import, place, "--tun-type \"%s\": use ipip, gue or gre", tunnel->type);
		return false;
	}
	if (!read_port(import, place, type, tunnel->port, &ret->gue_port)) {
		return false;
	}
	if (tunnel->checksum != NULL && strstr(type->checksums, tunnel->checksum) == NULL) {
		weir_import_error(import, place,
			"ipvsadm does not accept --tun-%s with --tun-type %s: remove it",
			tunnel->checksum, type->name);
		return false;
	}
	ret->mode = (uint8_t)type->mode;
	if (tunnel->checksum != NULL) {
		snprintf(what, sizeof(what), "--tun-%s", tunnel->checksum);
		weir_import_checksum(import, place, what, type->mode, tunnel->checksum);
	}
	return true;
}
