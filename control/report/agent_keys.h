// SPDX-License-Identifier: BSD-3-Clause
//
// Keys shared by weir-control and weir-agent, read from a file. Each host has a copy of this file:
//
//   # comment
//   ID HEX64          ID: 1 to 65535; HEX64: 32 bytes in hexadecimal digits
//
// weir-control signs its requests with the first key, and an agent answers with the key of the
// request. All keys in the file are accepted. To replace a key: append the new key on all machines,
// then make it the first key on the balancers, then remove the old key on all machines.
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

// Initialize the crypto library. Call this function before any other function of agent_keys.h and
// agent_message.h; further calls have no effect. Returns 0 or -ENOSYS.
int weir_agent_crypto_start(void);

// Reads a key file. The file must be a regular file, or a link to one, owned by root or by `user`.
// Its mode must have only bits of 0640: other users must not have access, the group must not have
// write access, and no user may have execute permission. Returns 0, -EPERM (owner, mode), -EINVAL
// (contents, too long, or not a regular file), or the negative errno of open or read. On failure
// one line is written to why, with the name of the file and the number of an invalid line, and *ret
// is unchanged. `why` never contains a secret.
int weir_agent_keys_read(
	const char *file, uid_t user, struct weir_agent_keys *ret, char *why, size_t why_bytes);

// Returns the key with this id, borrowed from keys, or NULL.
const struct weir_agent_key *weir_agent_keys_find(const struct weir_agent_keys *keys, uint16_t id);

// Writes a line for a key file, with this key ID and a new random secret.
void weir_agent_key_generate(uint16_t id, char line[WEIR_AGENT_KEY_LINE_BYTES]);

// Overwrites the secrets. Call this function before the memory of the keys is freed.
void weir_agent_keys_wipe(struct weir_agent_keys *keys);
