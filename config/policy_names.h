// SPDX-License-Identifier: BSD-3-Clause
//
// Names of policies in IPVS, HAProxy, nginx, Envoy and other load balancers.
//
// Threads: any.
#pragma once

// Returns the policy of Weir that is most similar to a policy of another load balancer. name: in
// lower case and with hyphens. Returns NULL if the name is not known.
const char *weir_config_policy_elsewhere(const char *name);

// Find the policy of Weir for a name that a user typed. If the name is a policy of another load
// balancer, returns the equivalent policy. Otherwise returns the policy with the most similar name,
// or NULL if there is none. Ignores case, and treats underscores as hyphens.
const char *weir_config_policy_meant(const char *word);
