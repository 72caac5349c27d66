// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

const char *weir_address_format(const struct weir_address *address, char *buffer, size_t bytes) {
	const char *text = NULL;

	if (bytes == 0) {
		return "";
	}
	if (address->family == 4 || address->family == 6) {
		text = inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, buffer,
			(socklen_t)bytes);
	}
	if (!text) {
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
