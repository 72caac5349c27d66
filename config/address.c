// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

struct weir_address weir_address_of(uint8_t family, const uint8_t *bytes) {
	struct weir_address address = {.family = family};

	memcpy(address.bytes, bytes, family == 4 ? 4 : 16);
	return address;
}

bool weir_address_equal(const struct weir_address *a, const struct weir_address *b) {
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool weir_address_is_link_local(const struct weir_address *address) {
	return address->family == 6 && address->bytes[0] == 0xfe &&
	       (address->bytes[1] & 0xc0) == 0x80;
}

const char *weir_address_format(const struct weir_address *address, char *buffer, size_t bytes) {
	const char *text = NULL;

	if (bytes == 0) {
		return "";
	}
	if (address->family == 4 || address->family == 6) {
		text = inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, buffer,
			(socklen_t)bytes);
	}
	if (text == NULL) {
		snprintf(buffer, bytes, "-");
	}
	return buffer;
}

int weir_address_parse(const char *text, struct weir_address *ret) {
	struct weir_address address = {0};

	if (inet_pton(AF_INET, text, address.bytes) == 1) {
		address.family = 4;
	} else if (inet_pton(AF_INET6, text, address.bytes) == 1) {
		address.family = 6;
	} else {
		return -EINVAL;
	}
	*ret = address;
	return 0;
}

const char *weir_bind_format(const struct weir_config_bind *bind, char *buffer, size_t bytes) {
	char address[INET6_ADDRSTRLEN], ports[16];
	const char *protocol = bind->protocol == IPPROTO_TCP ? "tcp" : "udp";

	weir_address_format(&bind->address, address, sizeof(address));
	if (bind->port_first == 0 && bind->port_last == 65535) {
		snprintf(ports, sizeof(ports), "*");
	} else if (bind->port_first == bind->port_last) {
		snprintf(ports, sizeof(ports), "%u", bind->port_first);
	} else {
		snprintf(ports, sizeof(ports), "%u-%u", bind->port_first, bind->port_last);
	}
	snprintf(buffer, bytes, bind->address.family == 6 ? "%s [%s]:%s" : "%s %s:%s", protocol,
		address, ports);
	return buffer;
}
