// SPDX-License-Identifier: BSD-3-Clause
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "test.h"

struct bytes {
	uint8_t data[1024];
	size_t count;
	bool big_endian;
};

static void put32(struct bytes *b, uint32_t value) {
	value = b->big_endian ? htobe32(value) : htole32(value);
	memcpy(b->data + b->count, &value, 4);
	b->count += 4;
}

static void put16(struct bytes *b, uint16_t value) {
	value = b->big_endian ? htobe16(value) : htole16(value);
	memcpy(b->data + b->count, &value, 2);
	b->count += 2;
}

static void put_head(struct bytes *b, uint32_t magic, uint32_t link_type) {
	put32(b, magic);
	put16(b, 2);
	put16(b, 4);
	put32(b, 0);
	put32(b, 0);
	put32(b, 65535);
	put32(b, link_type);
}

static void put_record(struct bytes *b, uint32_t s, uint32_t fraction, uint32_t caplen,
	uint32_t len, uint8_t fill) {
	put32(b, s);
	put32(b, fraction);
	put32(b, caplen);
	put32(b, len);
	memset(b->data + b->count, fill, caplen);
	b->count += caplen;
}

static char *write_file(const struct bytes *b) {
	char *name = strdup("/tmp/weir-capture-XXXXXX");
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, b->data, b->count), b->count);
	close(fd);
	return name;
}

static void remove_file(char *name) {
	unlink(name);
	free(name);
}

TEST(classic_pcap_of_both_endians_and_precisions) {
	for (int i = 0; i < 4; i++) {
		struct bytes b = {.big_endian = i & 1};
		struct weir_capture_reader *reader;
		struct weir_capture_frame frame;
		bool nano = i & 2;
		char why[256];
		char *name;

		put_head(&b, nano ? 0xa1b23c4d : 0xa1b2c3d4, 1);
		put_record(&b, 5, 7, 60, 60, 0xaa);
		put_record(&b, 6, 8, 20, 1500, 0xbb);
		put_record(&b, 7, 9, 0, 0, 0);
		name = write_file(&b);
		assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), 0);
		assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 1);
		assert_int_equal(frame.time_ns, 5000000000ull + (nano ? 7 : 7000));
		assert_int_equal(frame.bytes, 60);
		assert_int_equal(frame.captured_bytes, 60);
		assert_int_equal(frame.data[59], 0xaa);
		assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 1);
		assert_int_equal(frame.captured_bytes, 20);
		assert_int_equal(frame.bytes, 1500);
		assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 1);
		assert_int_equal(frame.bytes, 0);
		assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 0);
		weir_capture_close(reader);
		remove_file(name);
	}
}

TEST(pcapng_is_read) {
	struct bytes b = {0};
	struct weir_capture_reader *reader;
	struct weir_capture_frame frame;
	char why[256];
	char *name;

	put32(&b, 0x0a0d0d0a); // section header
	put32(&b, 28);
	put32(&b, 0x1a2b3c4d);
	put16(&b, 1);
	put16(&b, 0);
	put32(&b, 0xffffffff);
	put32(&b, 0xffffffff);
	put32(&b, 28);
	put32(&b, 1); // interface description
	put32(&b, 20);
	put16(&b, 1);
	put16(&b, 0);
	put32(&b, 65535);
	put32(&b, 20);
	put32(&b, 6); // enhanced packet
	put32(&b, 32 + 16);
	put32(&b, 0);
	put32(&b, 0);
	put32(&b, 3000007); // microseconds
	put32(&b, 16);
	put32(&b, 16);
	memset(b.data + b.count, 0xcc, 16);
	b.count += 16;
	put32(&b, 32 + 16);
	name = write_file(&b);
	assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), 0);
	assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 1);
	assert_int_equal(frame.time_ns, 3000007000ull);
	assert_int_equal(frame.bytes, 16);
	assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 0);
	weir_capture_close(reader);
	remove_file(name);
}

TEST(other_captures_than_ethernet_are_refused) {
	static const struct {
		uint32_t magic, link_type;
		size_t cut;
		const char *says;
	} cases[] = {
		{0xa1b2c3d4, 113, 24, "LINUX_SLL"},
		{0xa1b2c3d4, 101, 24, "RAW"},
		{0xa1b2c3d4, 147, 24, "only Ethernet"},
		{0x12345678, 1, 24, "not a readable capture file"},
		{0xa1b2c3d4, 1, 23, "not a readable capture file"},
		{0xa1b2c3d4, 1, 3, "not a readable capture file"},
		{0xa1b2c3d4, 1, 0, "not a readable capture file"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_capture_reader *reader = NULL;
		struct bytes b = {0};
		char why[512] = "";
		char *name;

		put_head(&b, cases[i].magic, cases[i].link_type);
		b.count = cases[i].cut;
		name = write_file(&b);
		assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), -EINVAL);
		assert_null(reader);
		assert_non_null(strstr(why, name));
		if (strstr(why, cases[i].says) == NULL) {
			fail_msg("\"%s\" does not say \"%s\"", why, cases[i].says);
		}
		remove_file(name);
	}
}

TEST(missing_files_and_directories_are_refused) {
	struct weir_capture_reader *reader;
	char why[256];

	assert_int_equal(weir_capture_open("/nowhere/x", &reader, why, sizeof(why)), -ENOENT);
	assert_int_equal(weir_capture_open("/", &reader, why, sizeof(why)), -EISDIR);
}

// A truncated file gives an error or fewer frames, but never a frame that is not in the complete
// file.
TEST(truncated_files_are_errors) {
	struct bytes b = {0};

	put_head(&b, 0xa1b2c3d4, 1);
	put_record(&b, 1, 0, 60, 60, 1);
	put_record(&b, 2, 0, 60, 60, 2);
	for (size_t cut = 24; cut <= b.count; cut++) {
		struct bytes part = b;
		struct weir_capture_reader *reader;
		struct weir_capture_frame frame;
		char why[256] = "";
		int status, frames = 0;
		char *name;

		part.count = cut;
		name = write_file(&part);
		assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), 0);
		while ((status = weir_capture_read(reader, &frame, why, sizeof(why))) == 1) {
			frames++;
		}
		assert_int_equal(frames, (cut - 24) / 76);
		assert_int_equal(status, (cut - 24) % 76 == 0 ? 0 : -EBADMSG);
		assert_true((status < 0) == (why[0] != '\0'));
		weir_capture_close(reader);
		remove_file(name);
	}
}

TEST(absurd_record_lengths_are_errors) {
	struct bytes b = {0};
	struct weir_capture_reader *reader;
	struct weir_capture_frame frame;
	char why[256];
	char *name;

	put_head(&b, 0xa1b2c3d4, 1);
	put32(&b, 1);
	put32(&b, 1);
	put32(&b, 0xfffffff0);
	put32(&b, 60);
	name = write_file(&b);
	assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), 0);
	assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), -EBADMSG);
	weir_capture_close(reader);
	remove_file(name);
}

TEST(written_frames_are_read_back) {
	struct bytes b = {0};
	struct weir_capture_reader *reader;
	struct weir_capture_writer *writer;
	struct weir_capture_frame frame, back;
	char out[64];
	char why[256];
	char *name;

	put_head(&b, 0xa1b2c3d4, 1);
	put_record(&b, 5, 7, 20, 60, 0x5a);
	name = write_file(&b);
	snprintf(out, sizeof(out), "%s.out", name);
	assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), 0);
	assert_int_equal(weir_capture_create(name, reader, &writer, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "same file"));
	assert_int_equal(weir_capture_create(out, reader, &writer, why, sizeof(why)), 0);
	assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 1);
	frame.time_ns += 123;
	weir_capture_write(writer, &frame);
	assert_int_equal(weir_capture_finish(writer), 0);
	weir_capture_close(reader);

	assert_int_equal(weir_capture_open(out, &reader, why, sizeof(why)), 0);
	assert_int_equal(weir_capture_read(reader, &back, why, sizeof(why)), 1);
	assert_int_equal(back.time_ns, 5000007123ull);
	assert_int_equal(back.captured_bytes, 20);
	assert_int_equal(back.bytes, 60);
	assert_int_equal(back.data[19], 0x5a);
	assert_int_equal(weir_capture_read(reader, &back, why, sizeof(why)), 0);
	weir_capture_close(reader);
	unlink(out);
	remove_file(name);
}

TEST(full_disk_is_reported) {
	struct bytes b = {0};
	struct weir_capture_reader *reader;
	struct weir_capture_writer *writer;
	struct weir_capture_frame frame;
	char why[256];
	char *name;

	put_head(&b, 0xa1b2c3d4, 1);
	put_record(&b, 5, 7, 60, 60, 0x5a);
	name = write_file(&b);
	assert_int_equal(weir_capture_open(name, &reader, why, sizeof(why)), 0);
	assert_int_equal(weir_capture_read(reader, &frame, why, sizeof(why)), 1);
	assert_int_equal(weir_capture_create("/dev/full", reader, &writer, why, sizeof(why)), 0);
	weir_capture_write(writer, &frame);
	assert_int_equal(weir_capture_finish(writer), -ENOSPC);
	assert_true(weir_capture_create("/nowhere/x", reader, &writer, why, sizeof(why)) < 0);
	assert_int_equal(weir_capture_finish(NULL), 0);
	weir_capture_close(reader);
	remove_file(name);
}
