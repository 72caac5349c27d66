// SPDX-License-Identifier: BSD-3-Clause
//
// ORCA as a protocol buffer: a minimal proto3 reader for the ORCA message. Unknown fields are
// skipped, because later versions of ORCA may add fields; groups are refused.
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "orca_private.h"

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct reader {
	const uint8_t *at;
	const uint8_t *end;
};

struct field {
	uint32_t number;
	enum wire wire;
	uint64_t integer; // value of a VARINT, 64-bit or 32-bit field
	struct reader bytes; // value of a BYTES field
};

static bool read_varint(struct reader *reader, uint64_t *ret) {
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
		uint8_t byte = *reader->at++;

		if (shift == 63 && byte > 1) {
			return false; // more than 64 bits
		}
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static bool read_fixed(struct reader *reader, size_t bytes, uint64_t *ret) {
	uint64_t value = 0;

	if ((size_t)(reader->end - reader->at) < bytes) {
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		value |= (uint64_t)reader->at[i] << 8 * i;
	}
	reader->at += bytes;
	*ret = value;
	return true;
}

static bool read_bytes(struct reader *reader, struct reader *ret) {
	uint64_t length;

	if (!read_varint(reader, &length) || length > (uint64_t)(reader->end - reader->at)) {
		return false;
	}
	*ret = (struct reader){reader->at, reader->at + length};
	reader->at += length;
	return true;
}

static bool read_field(struct reader *reader, struct field *field) {
	uint64_t tag;

	if (!read_varint(reader, &tag) || tag >> 3 == 0 || tag >> 3 >= 1u << 29) {
		return false;
	}
	field->number = (uint32_t)(tag >> 3);
	field->wire = (enum wire)(tag & 7);
	switch (field->wire) {
	case WIRE_VARINT:
		return read_varint(reader, &field->integer);
	case WIRE_64:
		return read_fixed(reader, 8, &field->integer);
	case WIRE_32:
		return read_fixed(reader, 4, &field->integer);
	case WIRE_BYTES:
		return read_bytes(reader, &field->bytes);
	default:
		return false;
	}
}

static double as_double(const struct field *field) {
	double value;

	memcpy(&value, &field->integer, sizeof(value));
	return value;
}

// Reads an entry of a map. An entry is a message with a key (field 1) and a value (field 2). A
// missing key means "", and a missing value means 0.
static int read_entry(struct orca *orca, enum orca_field map, struct reader entry) {
	struct orca_name name = {.text = ""};
	bool has_name = false, has_value = false;
	struct field field;
	double value = 0;

	while (entry.at < entry.end) {
		if (!read_field(&entry, &field)) {
			return orca_complain(orca, "malformed entry in %s", orca_field_name(map));
		}
		if (field.number == 1 && field.wire == WIRE_BYTES && !has_name) {
			name.text = (const char *)field.bytes.at;
			name.bytes = (size_t)(field.bytes.end - field.bytes.at);
			has_name = true;
		} else if (field.number == 2 && field.wire == WIRE_64 && !has_value) {
			value = as_double(&field);
			has_value = true;
		} else {
			return orca_complain(orca, "malformed entry in %s", orca_field_name(map));
		}
	}
	return orca_take_named(orca, map, name, value);
}

static int take(struct orca *orca, const struct field *field) {
	enum wire expected = WIRE_64;

	switch (field->number) {
#define X(number, name, text) case ORCA_##name:
		ORCA_MAPS(X)
		expected = WIRE_BYTES;
		break;
	case ORCA_RPS:
		expected = WIRE_VARINT;
		break;
	case ORCA_CPU_UTILIZATION:
	case ORCA_MEM_UTILIZATION:
	case ORCA_RPS_FRACTIONAL:
	case ORCA_EPS:
	case ORCA_APPLICATION_UTILIZATION:
		break;
#undef X
	default:
		return 0;
	}
	if (field->wire != expected) {
		return orca_complain(orca, "%s has the wrong type",
			orca_field_name((enum orca_field)field->number));
	}
	if (expected == WIRE_BYTES) {
		return read_entry(orca, (enum orca_field)field->number, field->bytes);
	}
	return orca_take_number(orca, (enum orca_field)field->number,
		expected == WIRE_VARINT ? (double)field->integer : as_double(field));
}

int orca_read_binary(struct orca *orca, const uint8_t *message, size_t bytes) {
	struct reader reader = {message, message + bytes};
	struct field field;
	int r = 0;

	while (r == 0 && reader.at < reader.end) {
		r = read_field(&reader, &field) ? take(orca, &field)
						: orca_complain(orca, "broken protocol buffer");
	}
	return r;
}
