// SPDX-License-Identifier: BSD-3-Clause
#include "stores_lab.h"
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define STORES_MAX 200000u
#define REACH 64u // maximum distance of a store's bytes from the address of the fault

// State of the signal handlers, which have no context argument.
static struct {
	struct stores *stores;
	uint8_t *now; // contents of the range after the stores so far
	size_t from, to; // offsets between which the current store can be
	struct looks *looks;
	struct sigaction segv, trap;
} recording;

#if defined(__x86_64__)
#define TRAP_FLAG 0x100

static void on_fault(int number, siginfo_t *info, void *context) {
	struct stores *stores = recording.stores;
	uint8_t *at = info->si_addr;
	ucontext_t *user = context;
	size_t offset;

	(void)number;
	if (stores == NULL || at < stores->memory || at >= stores->memory + stores->bytes) {
		_exit(99); // another fault is treated as a crash
	}
	offset = (size_t)(at - stores->memory);
	recording.from = offset > REACH ? offset - REACH : 0;
	recording.to = stores->bytes - offset > 2 * REACH ? offset + 2 * REACH : stores->bytes;
	mprotect(stores->memory, stores->bytes, PROT_READ | PROT_WRITE);
	user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context) {
	struct stores *stores = recording.stores;
	const uint8_t *view = stores->view;
	size_t first = recording.from, end = recording.to;
	ucontext_t *user = context;
	struct store *store;

	(void)number;
	(void)info;
	user->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	while (first < end && recording.now[first] == view[first]) {
		first++;
	}
	while (end > first && recording.now[end - 1] == view[end - 1]) {
		end--;
	}
	if (end > first && stores->count < STORES_MAX && end - first <= sizeof(store->data)) {
		store = &stores->store[stores->count++];
		store->offset = first;
		store->bytes = (uint32_t)(end - first);
		memcpy(store->data, view + first, store->bytes);
		memcpy(recording.now + first, store->data, store->bytes);
	}
	mprotect(stores->memory, stores->bytes, PROT_READ);
}

static void on_look(int number, siginfo_t *info, void *context) {
	struct looks *looks = recording.looks;
	uint8_t *at = info->si_addr;
	ucontext_t *user = context;

	(void)number;
	if (looks == NULL || at < looks->memory || at >= looks->memory + looks->bytes) {
		_exit(99);
	}
	looks->count++;
	mprotect(looks->memory, looks->bytes, PROT_READ);
	user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_looked(int number, siginfo_t *info, void *context) {
	ucontext_t *user = context;

	(void)number;
	(void)info;
	user->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	mprotect(recording.looks->memory, recording.looks->bytes, PROT_NONE);
}

bool stores_work(void) {
	return true;
}
#else
static void on_fault(int number, siginfo_t *info, void *context) {
	(void)number;
	(void)info;
	(void)context;
	_exit(99);
}

static void on_step(int number, siginfo_t *info, void *context) {
	on_fault(number, info, context);
}

static void on_look(int number, siginfo_t *info, void *context) {
	on_fault(number, info, context);
}

static void on_looked(int number, siginfo_t *info, void *context) {
	on_fault(number, info, context);
}

bool stores_work(void) {
	return false;
}
#endif

typedef void handler(int number, siginfo_t *info, void *context);

static void handle(handler *fault, handler *step) {
	struct sigaction segv = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	struct sigaction trap = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(SIGSEGV, &segv, &recording.segv), 0);
	assert_int_equal(sigaction(SIGTRAP, &trap, &recording.trap), 0);
}

static void handle_no_more(void) {
	sigaction(SIGSEGV, &recording.segv, NULL);
	sigaction(SIGTRAP, &recording.trap, NULL);
}

void looks_begin(struct looks *looks, void *memory, size_t bytes) {
	assert_null(recording.looks);
	*looks = (struct looks){.memory = memory, .bytes = bytes};
	recording.looks = looks;
	handle(on_look, on_looked);
	assert_int_equal(mprotect(memory, bytes, PROT_NONE), 0);
}

void looks_end(struct looks *looks) {
	assert_int_equal(mprotect(looks->memory, looks->bytes, PROT_READ), 0);
	handle_no_more();
	recording.looks = NULL;
}

void stores_begin(struct stores *stores, void *memory, const void *view, size_t bytes) {
	assert_null(recording.stores);
	*stores = (struct stores){.memory = memory, .view = view, .bytes = bytes};
	stores->before = malloc(bytes);
	stores->store = calloc(STORES_MAX, sizeof(stores->store[0]));
	recording.now = malloc(bytes);
	assert_non_null(stores->before);
	assert_non_null(stores->store);
	assert_non_null(recording.now);
	memcpy(stores->before, view, bytes);
	memcpy(recording.now, view, bytes);
	recording.stores = stores;
	handle(on_fault, on_step);
	assert_int_equal(mprotect(memory, bytes, PROT_READ), 0);
}

void stores_end(struct stores *stores) {
	assert_int_equal(mprotect(stores->memory, stores->bytes, PROT_READ | PROT_WRITE), 0);
	handle_no_more();
	assert_memory_equal(recording.now, stores->view, stores->bytes);
	free(recording.now);
	recording.stores = NULL;
}

void stores_fini(struct stores *stores) {
	free(stores->before);
	free(stores->store);
	*stores = (struct stores){0};
}

void stores_replay(const struct stores *stores, uint32_t n, uint8_t *to) {
	memcpy(to, stores->before, stores->bytes);
	for (uint32_t i = 0; i < n; i++) {
		const struct store *store = &stores->store[i];

		memcpy(to + store->offset, store->data, store->bytes);
	}
}
