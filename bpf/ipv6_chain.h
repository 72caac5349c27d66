/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// The chain of IPv6 extension headers (RFC 8200, 4). steer.bpf.c, the dataplane's parser and
// weirctl use the same functions, so that all three parse a chain identically. Callers check
// lengths, because BPF needs a separate comparison before each load.
//
// The fragments of a datagram are matched only by their addresses and identification. In the first
// fragment, the Next Header field of the fragment header is the type of the following header, which
// may be another extension header. In later fragments, this field is ignored (RFC 8200, 4.5).
#pragma once

#include <linux/types.h>

enum { // extension headers: values of the Next Header field
	WEIR_IPV6_HOP_BY_HOP = 0,
	WEIR_IPV6_ROUTING = 43,
	WEIR_IPV6_FRAGMENT = 44,
	WEIR_IPV6_AUTHENTICATION = 51,
	WEIR_IPV6_DESTINATION_OPTIONS = 60,
};

#define WEIR_IPV6_EXTENSIONS_MAX 8 // maximum number of extension headers in a chain
#define WEIR_IPV6_EXTENSION_MIN 8u // bytes of the shortest extension header

// Masks for the third and fourth byte of a fragment header. FRAGMENT_OFFSET selects the offset.
// FRAGMENT_PART selects the offset and the more-fragments bit: if all of these bits are 0, the
// packet is whole (an atomic fragment, RFC 6946).
#define WEIR_IPV6_FRAGMENT_OFFSET 0xfff8
#define WEIR_IPV6_FRAGMENT_PART 0xfff9

static inline int weir_ipv6_is_extension(__u8 next) {
	return next == WEIR_IPV6_HOP_BY_HOP || next == WEIR_IPV6_ROUTING ||
	       next == WEIR_IPV6_FRAGMENT || next == WEIR_IPV6_AUTHENTICATION ||
	       next == WEIR_IPV6_DESTINATION_OPTIONS;
}

// Returns true if an extension header is allowed at a position of the chain. next: the type of the
// extension header. position: 0 for the first header of the chain. Hop-by-hop options are allowed
// only as the first header; all other types are allowed at any position.
static inline int weir_ipv6_extension_may_be(__u8 next, unsigned int position) {
	return next != WEIR_IPV6_HOP_BY_HOP || position == 0;
}

// Returns the length of an extension header in bytes. next: the type of the header. length: the
// second byte of the header. For most headers, this byte is the length in units of 8 bytes, not
// counting the first 8 bytes. For an authentication header, this byte is the length in units of 4
// bytes, minus 2 (RFC 4302, 2.2). A fragment header has no length field.
static inline __u32 weir_ipv6_extension_bytes(__u8 next, __u8 length) {
	return next == WEIR_IPV6_FRAGMENT         ? 8
	       : next == WEIR_IPV6_AUTHENTICATION ? (length + 2u) * 4
						  : (length + 1u) * 8;
}
