// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// A switch port with one tagged VLAN, for kernels without bridge VLAN filtering. It is a tc
// program for the interface of the lab's switch that leads to the balancer. It adds the tag to
// frames to the balancer and removes it from frames from the balancer. Like a switch, it drops
// untagged frames from the balancer.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#ifndef VLAN_ID
#define VLAN_ID 100
#endif

SEC("tc/to_balancer")
int to_balancer(struct __sk_buff *skb) {
	if (bpf_skb_vlan_push(skb, bpf_htons(0x8100), VLAN_ID)) {
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

SEC("tc/from_balancer")
int from_balancer(struct __sk_buff *skb) {
	if (!skb->vlan_present || (skb->vlan_tci & 0xfff) != VLAN_ID) {
		return TC_ACT_SHOT;
	}
	if (bpf_skb_vlan_pop(skb)) {
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
