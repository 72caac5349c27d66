// SPDX-License-Identifier: BSD-3-Clause
// Parses the addresses in a keepalived.conf, and the address ranges in its virtual_server_group
// blocks.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keepalived_private.h"

#define ADDRESS_BYTES 64

static int parse(const char *text, size_t bytes, struct weir_address *ret) {
	char copy[ADDRESS_BYTES];

	if (bytes >= sizeof(copy)) {
		return -EINVAL;
	}
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	return strpbrk(copy, "[]") != NULL || weir_address_parse(copy, ret) < 0 ? -EINVAL : 0;
}

int weir_keepalived_address(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const char *text,
	struct weir_address *ret) {
	size_t bytes = strcspn(text, "-/");

	if (parse(text, bytes, ret) < 0) {
		return -EINVAL;
	}
	if (text[bytes] != '\0') {
		weir_keepalived_ignored(import, statement,
			"\"%s\": ranges and masks are allowed only in a virtual_server_group",
			text + bytes);
	}
	return 0;
}

bool weir_keepalived_port(const char *text, uint16_t *ret) {
	uint64_t port = 0;

	if (text[0] != '\0' && !weir_import_number(text, UINT16_MAX, &port)) {
		return false;
	}
	*ret = (uint16_t)port;
	return true;
}

// Read the prefix length of "192.0.2.0/28". The range then covers all addresses of the prefix.
static const char *read_mask(const char *mask, struct weir_keepalived_range *range) {
	unsigned int most = range->first.family == 6 ? 128 : 32;
	uint64_t bits;

	if (!weir_import_number(mask, most, &bits) || bits == 0) {
		return "invalid mask";
	}
	for (unsigned int bit = (unsigned int)bits; bit < most; bit++) {
		uint8_t one = (uint8_t)(0x80 >> bit % 8);

		if ((range->first.bytes[bit / 8] & one) != 0) {
			return "the address has host bits set";
		}
		range->last.bytes[bit / 8] |= one;
	}
	return NULL;
}

// Read the end of a range: "192.0.2.1-10" (last 8 bits) or "2001:db8::1-1f" (last 16 bits, in
// hexadecimal).
static const char *read_last(const char *text, struct weir_keepalived_range *range) {
	bool ipv6 = range->first.family == 6;
	uint8_t *bytes = range->last.bytes;
	unsigned long last;
	char *end;

	if (text[0] == '\0' || strlen(text) > 4 ||
		text[strspn(text, "0123456789abcdefABCDEF")] != '\0') {
		return "invalid end of the range";
	}
	last = strtoul(text, &end, ipv6 ? 16 : 10);
	if (*end != '\0' || last > (ipv6 ? 0xffff : 0xff)) {
		return "invalid end of the range";
	}
	if (ipv6) {
		bytes[14] = (uint8_t)(last >> 8);
		bytes[15] = (uint8_t)last;
	} else {
		bytes[3] = (uint8_t)last;
	}
	return memcmp(bytes, range->first.bytes, sizeof(range->last.bytes)) <= 0
		       ? "the end of the range is not above its start"
		       : NULL;
}

static const char *read_end(const char *text, struct weir_keepalived_range *range) {
	if (strchr(text, range->first.family == 6 ? ':' : '.') == NULL) {
		return read_last(text, range);
	}
	if (parse(text, strlen(text), &range->last) < 0 ||
		range->last.family != range->first.family) {
		return "invalid end of the range";
	}
	return memcmp(range->last.bytes, range->first.bytes, sizeof(range->last.bytes)) < 0
		       ? "the end of the range is below its start"
		       : NULL;
}

int weir_keepalived_range_read(
	const char *text, struct weir_keepalived_range *ret, const char **ret_why) {
	size_t bytes = strcspn(text, "-/");
	struct weir_keepalived_range range;
	const char *why = NULL;

	if (parse(text, bytes, &range.first) < 0) {
		why = "not an IP address";
	} else {
		range.last = range.first;
		why = text[bytes] == '/'   ? read_mask(text + bytes + 1, &range)
		      : text[bytes] == '-' ? read_end(text + bytes + 1, &range)
					   : NULL;
	}
	if (why != NULL) {
		*ret_why = why;
		return -EINVAL;
	}
	*ret = range;
	return 0;
}
