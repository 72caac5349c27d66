// SPDX-License-Identifier: BSD-3-Clause
//
// The keys of the configuration: one row for each key, with type, range and default. Used by
// config/, and by weir-sim for the lists of words; tests compare the schema and the documentation
// with the table.
#pragma once

#include "config.h"
#include "config_types.h"
#include "json_reader.h"

// Maximum numbers of objects. The segment has the same maximums (segment/layout.h), and tests
// compare them.
#define WEIR_CONFIG_PORTS_MAX 16
#define WEIR_CONFIG_SERVICES_MAX 4096
#define WEIR_CONFIG_BACKENDS_MAX 65535
#define WEIR_CONFIG_TABLE_SIZE_MAX 16777213
#define WEIR_CONFIG_MEMBERS_MAX 1024 // instances per group

#define WEIR_CONFIG_HASH_SEED "0x5765697253656564" // default of hash_seed

// Bits of read_by: the programs that read a key. If the dataplane reads a key, a change of the key
// needs a restart of weir-dataplane.
#define WEIR_CONFIG_DATAPLANE 0x01u
#define WEIR_CONFIG_CONTROL 0x02u
// For the keys of a policy, belongs_to contains WEIR_NEEDS_*: a policy uses the key if the policy
// has one of these needs; 0 = every policy uses the key. Bit i of weir_config_policy.given is set
// if the file has the i-th of these keys.

extern const struct weir_json_object weir_config_keys; // the root
extern const struct weir_json_object weir_config_policy_keys; // services[].policy
// services[].health_check. Bit i of weir_config_health_check.given belongs to the i-th of these
// keys.
extern const struct weir_json_object weir_config_health_keys;

// Reads a configuration with another table of keys, which contains the rows of weir_config_keys and
// additional rows. *ret has the size of the struct of this table, and begins with struct
// weir_config.
int weir_config_parse_keys(const struct weir_json_object *keys, const char *text, size_t bytes,
	struct weir_config **ret, struct weir_config_errors *errors);

// Lists of the words that a key accepts; each list ends with a NULL name (config_choices.c).
extern const struct weir_json_choice weir_config_idles[], weir_config_protocols[],
	weir_config_hash_fields[], weir_config_affinities[], weir_config_udps[],
	weir_config_forwardings[], weir_config_backend_forwardings[], weir_config_checks[],
	weir_config_vias[], weir_config_matches[], weir_config_records[], weir_config_rcodes[],
	weir_config_methods[], weir_config_policies[], weir_config_weights[],
	weir_config_statistics[], weir_config_measurements[], weir_config_service_times[],
	weir_config_requests[], weir_config_rounds[], weir_config_workloads[],
	weir_config_on_backend_down[], weir_config_at_deadline[], weir_config_when_exhausted[],
	weir_config_closed_ports[], weir_config_subset_algorithms[], weir_config_subset_modes[],
	weir_config_subset_clients[];

// Functions that check rules for several keys together. The tables of keys contain pointers to
// these functions, which are in config_ports.c, config_services.c, config_health.c, config_agent.c,
// config_policy.c and config_subset.c.
typedef void weir_config_check_object(struct weir_json_reader *reader,
	const struct weir_json_place *place, void *into, const struct weir_json_keys_read *read);
weir_config_check_object weir_config_check_instance, weir_config_check_port, weir_config_check_bind,
	weir_config_check_health, weir_config_note_health, weir_config_check_url,
	weir_config_check_agent_check, weir_config_check_agent, weir_config_check_agents,
	weir_config_check_backend, weir_config_check_service, weir_config_check_segment,
	weir_config_check_policy, weir_config_check_flow_control, weir_config_check_subset,
	weir_config_check_root;

// Write the text that identifies, or describes, an element of a list in a difference
// (config_difference.h).
void weir_config_identify_port(const void *element, char *text, size_t bytes);
void weir_config_identify_gcu(const void *element, char *text, size_t bytes);
void weir_config_identify_service(const void *element, char *text, size_t bytes);
void weir_config_identify_bind(const void *element, char *text, size_t bytes);
void weir_config_identify_url(const void *element, char *text, size_t bytes);
void weir_config_identify_backend(const void *element, char *text, size_t bytes);
void weir_config_describe_port(const void *element, char *text, size_t bytes);
void weir_config_describe_service(const void *element, char *text, size_t bytes);
void weir_config_describe_backend(const void *element, char *text, size_t bytes);

// Returns a key that is in the file, but that the policy does not use; or NULL.
const char *weir_config_unfit_key(const struct weir_json_object *keys,
	const struct weir_config_policy *policy, enum weir_policy name);

// Add warnings about a valid configuration.
void weir_config_warn(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config);

// Called by weir_config_check_root.
void weir_config_check_ports(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config);
void weir_config_check_gcu(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config);
void weir_config_check_services(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config);

// Called by weir_config_check_health and weir_config_check_service. given: the service has an
// object "agent".
void weir_config_check_agent_type(struct weir_json_reader *reader,
	const struct weir_json_place *place, const struct weir_json_keys_read *read);
void weir_config_check_service_agent(struct weir_json_reader *reader,
	const struct weir_json_place *place, struct weir_config_service *service, bool given);
// Checks the health checks of a service. Also copies values from the check of the service into the
// own checks of backends.
void weir_config_check_service_health(struct weir_json_reader *reader,
	const struct weir_json_place *place, const struct weir_config_service *service,
	const struct weir_json_keys_read *read);
