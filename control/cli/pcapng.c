// SPDX-License-Identifier: BSD-3-Clause
#include "pcapng.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define BLOCK_MAX 4096
#define TEXT_MAX 1023

#define SECTION_HEADER 0x0a0d0d0au
#define INTERFACE_DESCRIPTION 1u
#define ENHANCED_PACKET 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_ETHERNET 1u

// Option codes of pcapng. Codes from 2 on have different meanings in different blocks.
#define OPT_END 0u
#define OPT_COMMENT 1u
#define SHB_USERAPPL 4u
#define IF_NAME 2u
#define IF_TSRESOL 9u
#define EPB_FLAGS 2u

#define NANOSECONDS 9u // if_tsresol: 10^-9 seconds
#define FLAG_INBOUND 1u

struct block {
	uint8_t data[BLOCK_MAX];
	size_t bytes;
};

// A block contains a frame and a text, or two texts. Both combinations fit into BLOCK_MAX.
_Static_assert(WEIR_PCAPNG_FRAME_MAX + TEXT_MAX + 128 <= BLOCK_MAX, "a packet fits");
_Static_assert(2 * TEXT_MAX + 128 <= BLOCK_MAX, "two texts fit");

static void put_bytes(struct block *block, const void *data, size_t bytes) {
	memcpy(block->data + block->bytes, data, bytes);
	block->bytes += bytes;
}

static void put_u16(struct block *block, uint32_t value) {
	uint16_t little = htole16((uint16_t)value);

	put_bytes(block, &little, sizeof(little));
}

static void put_u32(struct block *block, uint32_t value) {
	uint32_t little = htole32(value);

	put_bytes(block, &little, sizeof(little));
}

// Append data to a block, padded with zeros to a multiple of 32 bits.
static void put_padded(struct block *block, const void *data, size_t bytes) {
	static const uint8_t zeros[4];

	put_bytes(block, data, bytes);
	put_bytes(block, zeros, -bytes & 3u);
}

static void put_option(struct block *block, uint32_t code, const void *data, size_t bytes) {
	put_u16(block, code);
	put_u16(block, (uint32_t)bytes);
	put_padded(block, data, bytes);
}

static void put_text(struct block *block, uint32_t code, const char *text) {
	size_t bytes = strnlen(text, TEXT_MAX);

	if (bytes > 0) {
		put_option(block, code, text, bytes);
	}
}

static void begin(struct block *block, uint32_t type) {
	block->bytes = 0;
	put_u32(block, type);
	put_u32(block, 0); // block length, filled in by end()
}

// End the options of the block, set its length, and write the block. Every block has options.
// Returns 0 or negative errno.
static int end(struct block *block, FILE *out) {
	uint32_t length;

	put_option(block, OPT_END, "", 0);
	length = htole32((uint32_t)block->bytes + 4);
	memcpy(block->data + 4, &length, sizeof(length));
	put_bytes(block, &length, sizeof(length));
	errno = 0;
	if (fwrite(block->data, block->bytes, 1, out) != 1 || fflush(out)) {
		return errno != 0 ? -errno : -EIO;
	}
	return 0;
}

int weir_pcapng_section(FILE *out, const char *application, const char *comment) {
	struct block block;

	begin(&block, SECTION_HEADER);
	put_u32(&block, BYTE_ORDER_MAGIC);
	put_u16(&block, 1); // version 1.0 of the format
	put_u16(&block, 0);
	put_u32(&block, UINT32_MAX); // length of the section: unknown
	put_u32(&block, UINT32_MAX);
	put_text(&block, OPT_COMMENT, comment);
	put_text(&block, SHB_USERAPPL, application);
	return end(&block, out);
}

int weir_pcapng_interface(FILE *out, const char *name, uint32_t snaplen) {
	const uint8_t resolution = NANOSECONDS;
	struct block block;

	begin(&block, INTERFACE_DESCRIPTION);
	put_u16(&block, LINKTYPE_ETHERNET);
	put_u16(&block, 0);
	put_u32(&block, snaplen);
	put_text(&block, IF_NAME, name);
	put_option(&block, IF_TSRESOL, &resolution, sizeof(resolution));
	return end(&block, out);
}

int weir_pcapng_packet(FILE *out, const struct weir_pcapng_packet *packet) {
	const uint32_t flags = htole32(FLAG_INBOUND);
	struct block block;

	if (packet->captured_bytes > WEIR_PCAPNG_FRAME_MAX) {
		return -EINVAL;
	}
	begin(&block, ENHANCED_PACKET);
	put_u32(&block, packet->interface);
	put_u32(&block, (uint32_t)(packet->time_ns >> 32));
	put_u32(&block, (uint32_t)packet->time_ns);
	put_u32(&block, packet->captured_bytes);
	put_u32(&block, packet->bytes);
	put_padded(&block, packet->data, packet->captured_bytes);
	put_text(&block, OPT_COMMENT, packet->comment);
	put_option(&block, EPB_FLAGS, &flags, sizeof(flags));
	return end(&block, out);
}
