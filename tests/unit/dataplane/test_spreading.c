// SPDX-License-Identifier: BSD-3-Clause
//
// Spreading: which ports are spread over the workers by RSS, and which by the software distributor.
// Also tests the device information that device.c and rss.c read. The NIC is a model (nic_model.h).
#include "spreading.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nic_model.h"
#include "test.h"

#define QUEUES 3
#define WORKERS 3

struct nics {
	unsigned int count;
	struct ring_device ring[2];
	struct nic_model model[2];
	struct weir_plan plan[2];
	struct weir_buffers buffers;
	struct weir_device device[2];
	const struct weir_device *wire[2];
};

static unsigned int made; // each device name is used once

// Add a NIC, not opened yet.
static struct nic_model *add(struct nics *nics, uint16_t entries) {
	unsigned int i = nics->count++;
	char name[16];

	snprintf(name, sizeof(name), "spread%u", made++);
	ring_device_make(name, QUEUES, &nics->ring[i]);
	device_lab_plan(nics->ring[i].name, QUEUES, &nics->plan[i]);
	// because the dataplane uses RSS only for PCI devices
	nics->plan[i].device[0].devargs.pci = true;
	for (uint32_t b = 0; b < WEIR_RSS_KEY_ROOM; b++) {
		nics->plan[i].device[0].rss_key[b] = (uint8_t)(b * 37 + 11);
	}
	nic_model_add(&nics->model[i], nics->ring[i].name, entries, QUEUES);
	return &nics->model[i];
}

static void open_all(struct nics *nics) {
	char why[256];

	weir_buffers_init(&nics->buffers, nics->plan[0].pool, nics->plan[0].pools);
	for (unsigned int i = 0; i < nics->count; i++) {
		assert_int_equal(weir_device_open(&nics->plan[i].device[0], &nics->buffers, WORKERS,
					 &nics->device[i], why, sizeof(why)),
			0);
		nics->wire[i] = &nics->device[i];
	}
}

static void forget(struct nics *nics) {
	for (unsigned int i = 0; i < nics->count; i++) {
		weir_device_close(&nics->device[i]);
		ring_device_free(&nics->ring[i]);
	}
	weir_buffers_fini(&nics->buffers);
	nic_model_release();
}

TEST_GROUP(device_lab_eal);

TEST(devices_direct_buckets_to_the_workers_that_own_them) {
	struct nics nics = {0};
	struct weir_spreading spreading;

	add(&nics, 128);
	add(&nics, 512);
	open_all(&nics);
	weir_spreading_plan(nics.wire, 2, WORKERS, true, &spreading);
	assert_int_equal(spreading.bucketing, WEIR_BUCKETING_YES);
	assert_memory_equal(weir_spreading_key(&spreading)->bytes, nics.plan[0].device[0].rss_key,
		WEIR_RSS_KEY_BYTES);
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(nics.device[i].spreads);
		assert_true(nics.model[i].asked_for_hash);
		assert_int_equal(nics.model[i].updates, 1);
		for (uint32_t hash = 0; hash < 4096; hash++) {
			uint32_t queue = nic_model_queue(&nics.model[i], hash);

			assert_int_equal(
				weir_distribution_receiver(&spreading.port[i], WORKERS, queue),
				spreading.first_worker[weir_rss_part(hash)]);
		}
	}
	forget(&nics);
}

TEST(large_tables_are_set_as_a_whole) {
	struct nics nics = {0};
	struct weir_spreading spreading;

	add(&nics, 2048);
	open_all(&nics);
	weir_spreading_plan(nics.wire, 1, WORKERS, true, &spreading);
	assert_int_equal(spreading.bucketing, WEIR_BUCKETING_YES);
	for (uint32_t e = 0; e < 2048; e++) {
		assert_int_equal(nics.model[0].queue[e], spreading.first_worker[e % WEIR_BUCKETS]);
	}
	forget(&nics);
}

// Returns the bucketing that results from a fault of the first NIC. spoil: causes the fault.
static enum weir_bucketing bucketing_with(void (*spoil)(struct nics *nics)) {
	struct nics nics = {0};
	struct weir_spreading spreading;

	add(&nics, 128);
	add(&nics, 128);
	spoil(&nics);
	open_all(&nics);
	weir_spreading_plan(nics.wire, 2, WORKERS, true, &spreading);
	for (uint32_t e = 0; e < 128 && nics.model[0].update_result == 0; e++) {
		if (spreading.bucketing != WEIR_BUCKETING_YES) {
			// the entry is unchanged
			assert_int_equal(nics.model[0].queue[e], e % QUEUES);
		}
	}
	forget(&nics);
	return spreading.bucketing;
}

static void pass_no_hash(struct nics *nics) {
	nics->model[0].passes_hash = false;
}

static void hash_no_ports(struct nics *nics) {
	nics->model[0].no_ports = true;
}

static void have_no_table(struct nics *nics) {
	nics->model[0].entries = 0;
}

static void have_an_odd_table(struct nics *nics) {
	nics->model[0].entries = 192;
}

static void hide_the_table(struct nics *nics) {
	nics->model[0].no_query = true;
}

static void keep_the_table(struct nics *nics) {
	nics->model[0].update_result = -ENOTSUP;
}

static void keep_a_key(struct nics *nics) {
	nics->model[0].refuses_key = true;
}

static void spread_in_software(struct nics *nics) {
	nics->plan[0].device[0].devargs.pci = false;
}

TEST(flows_are_in_buckets_or_a_reason_is_given) {
	assert_int_equal(bucketing_with(pass_no_hash), WEIR_BUCKETING_RSS_HASH);
	assert_int_equal(bucketing_with(hash_no_ports), WEIR_BUCKETING_RSS_HASH);
	assert_int_equal(bucketing_with(have_no_table), WEIR_BUCKETING_RSS_TABLE);
	assert_int_equal(bucketing_with(have_an_odd_table), WEIR_BUCKETING_RSS_TABLE);
	assert_int_equal(bucketing_with(hide_the_table), WEIR_BUCKETING_RSS_TABLE);
	assert_int_equal(bucketing_with(keep_the_table), WEIR_BUCKETING_RSS_TABLE);
	assert_int_equal(bucketing_with(keep_a_key), WEIR_BUCKETING_RSS_KEYS);
	assert_int_equal(bucketing_with(spread_in_software), WEIR_BUCKETING_YES);
}
