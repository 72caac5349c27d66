// SPDX-License-Identifier: BSD-3-Clause
//
// Keys shared by weir-control and weir-agent, from a file that each host has a copy of:
//
//   # comment
//   ID HEX64          ID: 1 to 65535; HEX64: 32 bytes in hexadecimal digits
//
// weir-control sends with the first key, and all keys are accepted; an agent answers with the key
// of the request. To replace a key: append the new key on all machines, move the new key to the
// front on the balancers, then remove the old key.
//
// Threads: any; a set of keys does not change after it was read.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEIR_AGENT_KEY_BYTES 32 // crypto_auth_KEYBYTES
#define WEIR_AGENT_KEYS_MOST 16 // maximum number of keys in a file
#define WEIR_AGENT_KEY_LINE_BYTES 80 // a line of the file with its newline and NUL

struct weir_agent_key {
	uint16_t id; // 0 = none
	uint8_t secret[WEIR_AGENT_KEY_BYTES];
};

struct weir_agent_keys {
	uint32_t count;
	struct weir_agent_key key[WEIR_AGENT_KEYS_MOST]; // in the order of the file
};

// Call once per process, before any function of agent_keys.h and agent_message.h. Returns 0 or
// -ENOSYS.
int weir_agent_crypto_start(void);

// Read a file. The file must be a regular file (or a link to a regular file) of root or of `user`,
// neither readable nor writable by others, and not writable by its group: mode 0640 or less.
// Returns 0, -EPERM (owner, mode), -EINVAL (contents), or the negative errno of opening or reading.
// On failure why gets one line with the name of the file and the number of the bad line, and *ret
// is unchanged. Secrets never appear in why.
int weir_agent_keys_read(
	const char *file, uid_t user, struct weir_agent_keys *ret, char *why, size_t why_bytes);

// Returns the key with this id, borrowed from keys, or NULL.
const struct weir_agent_key *weir_agent_keys_find(const struct weir_agent_keys *keys, uint16_t id);

// Write a line for a key file, with a new random secret.
void weir_agent_key_generate(uint16_t id, char line[WEIR_AGENT_KEY_LINE_BYTES]);

// Overwrite the secrets before the memory is freed.
void weir_agent_keys_wipe(struct weir_agent_keys *keys);
