// SPDX-License-Identifier: BSD-3-Clause
#include "options_decap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

const struct weir_option_word weir_xdp_modes[] = {
	{"native", WEIR_AGENT_MODE_NATIVE, NULL},
	{"skb", WEIR_AGENT_MODE_SKB, NULL},
	{NULL, 0, NULL},
};

const struct weir_option_word weir_forwardings[] = {
#define X(name, member, key, text) {key, WEIR_FORWARDING_##name, NULL},
	WEIR_FORWARDING_MODES(X)
#undef X
		{NULL, 0, NULL},
};

const struct weir_option_word weir_decap_forwardings[] = {
	{"ipip", WEIR_FORWARDING_IPIP, NULL},
	{"gue", WEIR_FORWARDING_GUE, NULL},
	{"gre", WEIR_FORWARDING_GRE, NULL},
	{NULL, 0, NULL},
};

int weir_prefix_parse(const char *text, struct weir_prefix *ret) {
	const char *slash = strchr(text, '/');
	size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
	struct weir_prefix prefix = {0};
	char address[64], *end;
	uint32_t most;

	if (length >= sizeof(address)) {
		return -EINVAL;
	}
	memcpy(address, text, length);
	address[length] = '\0';
	if (weir_address_parse(address, &prefix.address)) {
		return -EINVAL;
	}
	most = prefix.address.family == 4 ? 32 : 128;
	prefix.bits = most;
	if (slash != NULL) {
		unsigned long bits = strtoul(slash + 1, &end, 10);

		if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > most) {
			return -EINVAL;
		}
		prefix.bits = (uint32_t)bits;
	}
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t kept = prefix.bits > i * 8 ? prefix.bits - i * 8 : 0;

		prefix.address.bytes[i] &= kept >= 8 ? 0xff : (uint8_t)(0xff00 >> kept);
	}
	*ret = prefix;
	return 0;
}

static int refuse_more(const char *what, char *why, size_t why_bytes) {
	snprintf(why, why_bytes, "does not fit into the %s list; use at most %d", what,
		WEIR_AGENT_LIST_MAX);
	return -EINVAL;
}

// Adds an address to a list. what: name of the values, used in the error message if the list is
// full. example: a valid value, shown in the error message if the value is invalid. Returns 0, or
// -EINVAL with one line in why.
static int add_address(struct weir_address *list, uint32_t *count, const char *value,
	const char *what, const char *example, char *why, size_t why_bytes) {
	if (*count == WEIR_AGENT_LIST_MAX) {
		return refuse_more(what, why, why_bytes);
	}
	if (weir_address_parse(value, &list[*count])) {
		snprintf(why, why_bytes,
			"is not an IPv4 or IPv6 address; use an address such as %s", example);
		return -EINVAL;
	}
	++*count;
	return 0;
}

int weir_take_address(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	return add_address(ret->addresses, &ret->address_count, value, "address",
		"10.0.0.11 or 2001:db8::11", why, why_bytes);
}

int weir_take_vip(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	return add_address(
		ret->vips, &ret->vip_count, value, "VIP", "198.51.100.10", why, why_bytes);
}

int weir_take_source(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	if (ret->source_count == WEIR_AGENT_LIST_MAX) {
		return refuse_more("source", why, why_bytes);
	}
	if (weir_prefix_parse(value, &ret->sources[ret->source_count])) {
		snprintf(why, why_bytes,
			"is not a prefix; use a prefix such as 10.0.0.0/24 or 2001:db8::/64");
		return -EINVAL;
	}
	ret->source_count++;
	return 0;
}

int weir_take_forwarding(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes) {
	struct weir_agent_options *ret = options;

	(void)option;
	(void)why;
	(void)why_bytes;
	for (const struct weir_option_word *word = weir_forwardings; word->name != NULL; word++) {
		if (strcmp(word->name, value) == 0) {
			ret->forwardings |= weir_agent_forwarding(word->number);
			return 0;
		}
	}
	ret->unknown_forwarding = value; // the modes to choose from depend on the command
	return 0;
}

int weir_check_forwarding(const struct weir_agent_options *options, char *why, size_t why_bytes) {
	const bool is_decap = options->command == WEIR_AGENT_DECAP;
	const uint32_t modes = options->forwardings;
	char shown[64], list[64];

	if (options->unknown_forwarding != NULL) {
		snprintf(why, why_bytes, "--forwarding: \"%s\" is not a forwarding mode; use %s",
			weir_terminal_text(options->unknown_forwarding, shown, sizeof(shown)),
			weir_option_words(is_decap ? weir_decap_forwardings : weir_forwardings,
				list, sizeof(list)));
		return -EINVAL;
	}
	if (!is_decap) {
		return 0;
	}
	if ((modes & weir_agent_forwarding(WEIR_FORWARDING_L2)) != 0) {
		snprintf(why, why_bytes,
			"--forwarding l2: packets of this mode have no outer header, and do not "
			"need weir-agent decap");
		return -EINVAL;
	}
	if (options->gre_key != 0 && modes != 0 &&
		(modes & weir_agent_forwarding(WEIR_FORWARDING_GRE)) == 0) {
		snprintf(why, why_bytes,
			"--gre-key needs --forwarding gre; add it, or remove --gre-key");
		return -EINVAL;
	}
	return 0;
}
