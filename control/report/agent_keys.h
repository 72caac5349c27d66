// SPDX-License-Identifier: BSD-3-Clause
//
// Keys shared by weir-control and weir-agent, from a file that both have a copy of:
//
//   # comment
//   ID HEX64          ID: 1 to 65535; HEX64: 32 bytes in hexadecimal digits
//
// weir-control sends with the first key, and all keys are accepted; an agent answers with the key
// of the request. So a key is replaced in three steps: append the new one on all machines, move it
// to the front on the balancers, remove the old one.
//
// Threads: any; a set of keys does not change after it was read.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEIR_AGENT_KEY_BYTES 32 // crypto_auth_KEYBYTES
#define WEIR_AGENT_KEYS_MOST 16 // in a file
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

// Read a file. It must be a regular file (or a link to one) of root or of `user`, neither readable
// nor writable by others, and not writable by its group: mode 0640 or less. Returns 0 or negative
// errno with one line in why, which names the file, and the line of an error in it: -EPERM (owner,
// mode), -EINVAL (contents), or that of opening and reading. *ret keeps its old contents then.
// Secrets never appear in why.
int weir_agent_keys_read(
	const char *file, uid_t user, struct weir_agent_keys *ret, char *why, size_t why_bytes);

// The key with that id, or NULL. Borrowed from keys.
const struct weir_agent_key *weir_agent_keys_find(const struct weir_agent_keys *keys, uint16_t id);

// A line for the file, with a new random secret.
void weir_agent_key_generate(uint16_t id, char line[WEIR_AGENT_KEY_LINE_BYTES]);

// Overwrite the secrets before the memory is freed.
void weir_agent_keys_wipe(struct weir_agent_keys *keys);
