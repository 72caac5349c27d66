// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pcapng.h"
#include "test.h"

// A stream that writes to memory; data is visible after a flush.
struct file {
	FILE *stream;
	char *data;
	size_t bytes;
};

static void open_file(struct file *file) {
	file->stream = open_memstream(&file->data, &file->bytes);
	assert_non_null(file->stream);
}

static void close_file(struct file *file) {
	fclose(file->stream);
	free(file->data);
}

static void expect_bytes(const struct file *file, const char *expected, size_t bytes) {
	assert_int_equal(file->bytes, bytes);
	assert_memory_equal(file->data, expected, bytes);
}

#define EXPECT(file, bytes) expect_bytes(file, bytes, sizeof(bytes) - 1)

TEST(section_is_exact) {
	static const char expected[] = "\x0a\x0d\x0d\x0a\x34\0\0\0" // type, length
				       "\x4d\x3c\x2b\x1a\1\0\0\0" // byte order, version 1.0
				       "\xff\xff\xff\xff\xff\xff\xff\xff" // section's length
				       "\1\0\2\0hi\0\0" // comment
				       "\4\0\7\0weir 12\0" // application
				       "\0\0\0\0\x34\0\0\0"; // end of options, length
	struct file file;

	open_file(&file);
	assert_int_equal(weir_pcapng_section(file.stream, "weir 12", "hi"), 0);
	EXPECT(&file, expected);
	close_file(&file);
}

TEST(interface_is_exact) {
	static const char expected[] = "\1\0\0\0\x28\0\0\0" // type, length
				       "\1\0\0\0\x80\0\0\0" // Ethernet, snaplen 128
				       "\2\0\3\0wan\0" // name
				       "\x09\0\1\0\x09\0\0\0" // nanoseconds
				       "\0\0\0\0\x28\0\0\0";
	struct file file;

	open_file(&file);
	assert_int_equal(weir_pcapng_interface(file.stream, "wan", 128), 0);
	EXPECT(&file, expected);
	close_file(&file);
}

TEST(packet_is_exact) {
	static const char expected[] =
		"\6\0\0\0\x3c\0\0\0" // type, length
		"\1\0\0\0" // interface
		"\x67\x45\x23\x01\xef\xcd\xab\x89" // upper and lower 32 bits of the time
		"\5\0\0\0\xdc\5\0\0" // captured 5 of 1,500 bytes
		"abcde\0\0\0"
		"\1\0\4\0drop" // comment
		"\2\0\4\0\1\0\0\0" // inbound
		"\0\0\0\0\x3c\0\0\0";
	const struct weir_pcapng_packet packet = {.interface = 1,
		.time_ns = 0x0123456789abcdef,
		.data = (const uint8_t *)"abcde",
		.captured_bytes = 5,
		.bytes = 1500,
		.comment = "drop"};
	struct file file;

	open_file(&file);
	assert_int_equal(weir_pcapng_packet(file.stream, &packet), 0);
	EXPECT(&file, expected);
	close_file(&file);
}

TEST(empty_texts_are_omitted) {
	static const char expected[] = "\x0a\x0d\x0d\x0a\x20\0\0\0\x4d\x3c\x2b\x1a\1\0\0\0"
				       "\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\x20\0\0\0";
	struct file file;

	open_file(&file);
	assert_int_equal(weir_pcapng_section(file.stream, "", ""), 0);
	EXPECT(&file, expected);
	close_file(&file);
}

// For data and comments of any length, the length of a block is a multiple of 32 bits, and is
// stored at both ends of the block.
TEST(blocks_of_any_size_are_well_formed) {
	static const uint8_t data[WEIR_PCAPNG_FRAME_MAX];
	char comment[1200];
	struct file file;
	size_t at = 0, blocks = 0;

	open_file(&file);
	for (uint32_t i = 0; i <= WEIR_PCAPNG_FRAME_MAX; i++) {
		const struct weir_pcapng_packet packet = {
			.data = data, .captured_bytes = i, .bytes = i, .comment = comment};

		memset(comment, 'x', sizeof(comment));
		comment[i % sizeof(comment)] = '\0';
		assert_int_equal(weir_pcapng_packet(file.stream, &packet), 0);
	}
	while (at < file.bytes) {
		uint32_t length, again;

		memcpy(&length, file.data + at + 4, 4);
		assert_int_equal(length % 4, 0);
		assert_true(at + length <= file.bytes);
		memcpy(&again, file.data + at + length - 4, 4);
		assert_int_equal(again, length);
		at += length;
		blocks++;
	}
	assert_int_equal(blocks, WEIR_PCAPNG_FRAME_MAX + 1);
	close_file(&file);
}

TEST(too_much_data_is_refused) {
	static const uint8_t data[WEIR_PCAPNG_FRAME_MAX + 1];
	const struct weir_pcapng_packet packet = {
		.data = data, .captured_bytes = sizeof(data), .bytes = sizeof(data), .comment = ""};
	struct file file;

	open_file(&file);
	assert_int_equal(weir_pcapng_packet(file.stream, &packet), -EINVAL);
	fflush(file.stream);
	assert_int_equal(file.bytes, 0);
	close_file(&file);
}

TEST(a_full_disk_is_reported) {
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	assert_int_equal(weir_pcapng_section(full, "weir", ""), -ENOSPC);
	fclose(full);
}
