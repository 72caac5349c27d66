// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "health_grpc.h"

#define FRAME 5 // size of a flag and a length, which precede each message
#define NAME_MOST 255

size_t weir_grpc_request(const char *service, uint8_t ret[WEIR_GRPC_REQUEST_BYTES]) {
	size_t n = strnlen(service, NAME_MOST), at = FRAME;

	memset(ret, 0, FRAME);
	if (n > 0) {
		ret[at++] = 0x0a; // field 1, a string
		if (n > 127) {
			ret[at++] = (uint8_t)(n | 0x80);
		}
		ret[at++] = (uint8_t)(n > 127 ? n >> 7 : n);
		memcpy(ret + at, service, n);
		at += n;
	}
	ret[3] = (uint8_t)((at - FRAME) >> 8);
	ret[4] = (uint8_t)(at - FRAME);
	return at;
}

// Read a varint at *at. Returns false if there is no complete varint. Bits beyond 64 are discarded.
static bool read_varint(const uint8_t *bytes, size_t n, size_t *at, uint64_t *ret) {
	uint64_t value = 0;

	for (unsigned int shift = 0; *at < n && shift < 64; shift += 7) {
		uint8_t byte = bytes[(*at)++];

		value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			*ret = value;
			return true;
		}
	}
	return false;
}

// Skips a field whose number is not needed.
static bool skip(const uint8_t *bytes, size_t n, size_t *at, uint64_t type) {
	uint64_t length = 0;

	switch (type) {
	case 0:
		return read_varint(bytes, n, at, &length);
	case 1:
		length = 8;
		break;
	case 2:
		if (!read_varint(bytes, n, at, &length)) {
			return false;
		}
		break;
	case 5:
		length = 4;
		break;
	default:
		return false;
	}
	if (length > n - *at) {
		return false;
	}
	*at += (size_t)length;
	return true;
}

int weir_grpc_answer(const uint8_t *bytes, size_t n) {
	uint64_t status = 0, key;
	size_t at = FRAME;

	if (n < FRAME || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 0 ||
		((size_t)bytes[3] << 8 | bytes[4]) != n - FRAME) {
		return -EINVAL;
	}
	while (at < n) {
		if (!read_varint(bytes, n, &at, &key)) {
			return -EINVAL;
		}
		if (key == (1 << 3 | 0) ? !read_varint(bytes, n, &at, &status)
					: !skip(bytes, n, &at, key & 7)) {
			return -EINVAL;
		}
	}
	return status <= 255 ? (int)status : -EINVAL;
}

const char *weir_grpc_serving_name(int status) {
	static const char *const names[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};

	return status >= 0 && status < 4 ? names[status] : "an unknown serving status";
}

const char *weir_grpc_status_name(int status) {
	static const char *const names[] = {"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"};

	return status >= 0 && status <= 16 ? names[status] : "UNKNOWN";
}
