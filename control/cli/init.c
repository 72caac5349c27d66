// SPDX-License-Identifier: BSD-3-Clause
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accounts.h"
#include "config_host.h"
#include "daemon_options.h"
#include "terminal.h"
#include "text_file.h"

#define FILE_DEFAULT "/etc/weir/weir.json"
#define TABLE_MOST (16u << 20) // maximum size of a routing table, in bytes
#define PATH_BYTES 1024
#define TEXT_BYTES 4096
#define MTU_LEAST 1280u // minimum of ports[].mtu
#define MTU_MOST 3430u // maximum MTU of AF_XDP
#define FLAG_UP 0x0001u // RTF_UP

struct choice { // values that depend on the machine
	char interface[WEIR_INIT_INTERFACE_BYTES];
	bool found; // false: interface is a placeholder that must be changed
	uint32_t mtu;
	uint32_t core;
	uint64_t seed;
};

// --- properties of the machine ------------------------------------------------------------

// Returns whether the name of an interface can be written into devargs of DPDK.
static bool is_plain(const char *interface) {
	return interface[0] != '\0' && strlen(interface) < WEIR_INIT_INTERFACE_BYTES &&
	       strspn(interface, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "._-@") == strlen(interface);
}

// Parse a line of /proc/net/route: interface, destination, gateway, flags, two counters, metric,
// mask. Returns whether the line is a default route that can be used.
static bool parse_ipv4(const char *line, char *interface, uint32_t *ret_metric) {
	uint32_t destination, gateway, flags, mask;

	return sscanf(line, "%63s %" SCNx32 " %" SCNx32 " %" SCNx32 " %*u %*u %" SCNu32 " %" SCNx32,
		       interface, &destination, &gateway, &flags, ret_metric, &mask) == 6 &&
	       destination == 0 && mask == 0 && (flags & FLAG_UP) != 0;
}

// Parse a line of /proc/net/ipv6_route: destination, prefix length, source, prefix length, next
// hop, metric, two counters, flags, interface. Returns whether the line is a default route that can
// be used. Ignores the "unreachable" default route of the kernel, which has the interface lo.
static bool parse_ipv6(const char *line, char *interface, uint32_t *ret_metric) {
	char destination[64];
	uint32_t bits, flags;

	return sscanf(line, "%63s %" SCNx32 " %*s %*s %*s %" SCNx32 " %*s %*s %" SCNx32 " %63s",
		       destination, &bits, ret_metric, &flags, interface) == 5 &&
	       bits == 0 && strspn(destination, "0") == strlen(destination) &&
	       (flags & FLAG_UP) != 0 && strcmp(interface, "lo") != 0;
}

static bool find_default(const char *table,
	bool (*parse)(const char *line, char *interface, uint32_t *ret_metric),
	char ret[WEIR_INIT_INTERFACE_BYTES]) {
	uint32_t lowest = UINT32_MAX;
	bool found = false;

	for (const char *line = table; line != NULL && line[0] != '\0';) {
		const char *end = strchr(line, '\n');
		char interface[64];
		uint32_t metric;

		if (parse(line, interface, &metric) && is_plain(interface) &&
			!weir_config_is_own_interface(interface) && (!found || metric < lowest)) {
			snprintf(ret, WEIR_INIT_INTERFACE_BYTES, "%.15s", interface);
			lowest = metric;
			found = true;
		}
		line = end != NULL ? end + 1 : NULL;
	}
	return found;
}

bool weir_init_interface(
	const char *route, const char *ipv6_route, char interface[WEIR_INIT_INTERFACE_BYTES]) {
	return find_default(route, parse_ipv4, interface) ||
	       find_default(ipv6_route, parse_ipv6, interface);
}

static char *read_table(const char *path) {
	char *text = NULL;
	size_t bytes;

	return weir_text_file_read(path, TABLE_MOST, &text, &bytes) == 0 ? text : NULL;
}

// Returns the value for "mtu" of the port, which weir-dataplane will set as the interface's MTU:
// the current MTU of the interface, but at least MTU_LEAST and at most MTU_MOST; 1500 if the MTU is
// unknown.
static uint32_t read_mtu(const char *interface) {
	char path[64], *text;
	unsigned long mtu = 1500;

	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", interface);
	text = read_table(path);
	if (text != NULL) {
		mtu = strtoul(text, NULL, 10);
	}
	free(text);
	return mtu < MTU_LEAST ? MTU_LEAST : mtu > MTU_MOST ? MTU_MOST : (uint32_t)mtu;
}

uint32_t weir_init_core(const char *online) {
	unsigned int core;

	if (online == NULL || strncmp(online, "0-", 2) == 0) {
		return 1;
	}
	return sscanf(online, "0,%u", &core) == 1 || sscanf(online, "%u", &core) == 1 ? core : 0;
}

static uint32_t choose_core(void) {
	char *online = read_table("/sys/devices/system/cpu/online");
	uint32_t core = weir_init_core(online);

	free(online);
	return core;
}

// Choose the values for this machine. Returns 0 or negative errno.
static int choose(struct choice *choice) {
	char *route = read_table("/proc/net/route");
	char *ipv6_route = read_table("/proc/net/ipv6_route");
	ssize_t n = getrandom(&choice->seed, sizeof(choice->seed), 0);

	choice->found = weir_init_interface(route, ipv6_route, choice->interface);
	free(route);
	free(ipv6_route);
	if (!choice->found) {
		snprintf(choice->interface, sizeof(choice->interface), "eth0");
	}
	choice->mtu = choice->found ? read_mtu(choice->interface) : 1500;
	choice->core = choose_core();
	return n == (ssize_t)sizeof(choice->seed) ? 0 : n < 0 ? -errno : -EIO;
}

// --- configuration file -------------------------------------------------------------------

static void format(const struct choice *choice, char text[TEXT_BYTES]) {
	snprintf(text, TEXT_BYTES,
		"{\n"
		"\t\"comment\": \"A first configuration: check ports and workers, and replace the "
		"example service.\",\n"
		"\t\"instance\": {\n"
		"\t\t\"comment\": \"hash_seed: a random number; use the same hash_seed on all "
		"instances that share VIPs. A restart with another hash_seed breaks open "
		"flows.\",\n"
		"\t\t\"hash_seed\": \"0x%016" PRIx64 "\"\n"
		"\t},\n"
		"\t\"ports\": [\n"
		"\t\t{\n"
		"\t\t\t\"comment\": \"%s Only packets to VIPs bypass the kernel.\",\n"
		"\t\t\t\"name\": \"wan\",\n"
		"\t\t\t\"device\": \"net_af_xdp0,iface=%s\",\n"
		"\t\t\t\"mtu\": %" PRIu32 "\n"
		"\t\t}\n"
		"\t],\n"
		"\t\"workers\": {\n"
		"\t\t\"comment\": \"One CPU for each worker.\",\n"
		"\t\t\"cores\": [%" PRIu32 "]\n"
		"\t},\n"
		"\t\"services\": [\n"
		"\t\t{\n"
		"\t\t\t\"comment\": \"An example: routers send packets to the VIP to this host, "
		"and both backends have the VIP on a loopback interface.\",\n"
		"\t\t\t\"name\": \"web\",\n"
		"\t\t\t\"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", "
		"\"port\": 80}],\n"
		"\t\t\t\"health_check\": {\"type\": \"http\", \"path\": \"/healthz\", "
		"\"via\": \"data-path\"},\n"
		"\t\t\t\"backends\": [\n"
		"\t\t\t\t{\"name\": \"web-1\", \"address\": \"192.0.2.11\"},\n"
		"\t\t\t\t{\"name\": \"web-2\", \"address\": \"192.0.2.12\"}\n"
		"\t\t\t]\n"
		"\t\t}\n"
		"\t]\n"
		"}\n",
		choice->seed,
		choice->found ? "The interface of the default route."
			      : "No default route was found: replace the interface.",
		choice->interface, choice->mtu, choice->core);
}

// Returns whether the file may be overwritten: it has no service, and all its ports are null
// devices (net_null).
static bool is_placeholder(const char *file) {
	struct weir_config *config = NULL;
	struct weir_config_errors errors;
	bool empty = weir_config_read(file, &config, &errors) == 0 && config->service_count == 0;

	for (uint32_t i = 0; empty && i < config->port_count; i++) {
		empty = strncmp(config->ports[i].device, "net_null", strlen("net_null")) == 0;
	}
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	return empty;
}

// Set the permissions of the file. As root, if the group of weir-control exists, allows only root
// and this group to read the file, because the hash_seed is secret. As root without this group,
// allows every user to read the file. As another user, allows the user and the file's group.
// Returns 0 or negative errno.
static int give(int fd) {
	char why[128];
	gid_t gid;

	if (weir_account_group("group", NULL, WEIR_GROUP_DEFAULT, &gid, why, sizeof(why)) < 0) {
		gid = (gid_t)-1;
	}
	if (geteuid() == 0 && gid != (gid_t)-1 && fchown(fd, (uid_t)-1, gid) < 0) {
		return -errno;
	}
	return fchmod(fd, geteuid() == 0 && gid == (gid_t)-1 ? 0644 : 0640) < 0 ? -errno : 0;
}

// Write the file atomically. replace: if false, no file is overwritten, even if another process
// creates it in the meantime. Returns 0 or negative errno.
static int write_file(const char *file, const char *text, bool replace) {
	char early[PATH_BYTES];
	int r, fd;

	if (snprintf(early, sizeof(early), "%s.XXXXXX", file) >= (int)sizeof(early)) {
		return -ENAMETOOLONG;
	}
	fd = mkostemp(early, O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	r = weir_text_file_write(fd, text);
	if (r == 0 && fsync(fd) < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = give(fd);
	}
	if (close(fd) < 0 && r == 0) {
		r = -errno;
	}
	if (r == 0 && (replace ? rename(early, file) : link(early, file)) < 0) {
		r = -errno;
	}
	if (r < 0 || !replace) {
		unlink(early);
	}
	return r;
}

static int refuse(const struct weir_cli *cli, const char *file, int error) {
	char shown[PATH_BYTES];

	weir_terminal_text(file, shown, sizeof(shown));
	if (error == -EEXIST) {
		fprintf(cli->err,
			"weirctl: %s already exists and was not changed; use another name, or move "
			"the file away\n",
			shown);
	} else if (error == -ENOENT) {
		const char *end = strrchr(shown, '/');
		int bytes = end != NULL ? (int)(end - shown) : 0;

		fprintf(cli->err,
			"weirctl: cannot write %s: its directory does not exist; create it with "
			"\"mkdir -p %.*s\"\n",
			shown, bytes, shown);
	} else {
		fprintf(cli->err, "weirctl: cannot write %s: %s\n", shown, strerror(-error));
	}
	return WEIR_CLI_REFUSED;
}

static void show(const struct weir_cli *cli, const char *file, const struct choice *choice) {
	char shown[PATH_BYTES];
	json_t *result;

	if (cli->options->json) {
		result = json_pack("{s:s, s:s?}", "file", file, "interface",
			choice->found ? choice->interface : NULL);
		weir_cli_print_json(cli->out, result);
		json_decref(result);
		return;
	}
	weir_terminal_text(file, shown, sizeof(shown));
	fprintf(cli->out, "%s: interface %s, CPU %" PRIu32 ", random hash_seed\n", shown,
		choice->interface, choice->core);
	fprintf(cli->out, "next: editor %s; weirctl config check %s; ", shown, shown);
	if (strcmp(file, FILE_DEFAULT) == 0) { // the systemd units use this file
		fputs("systemctl enable --now weir-dataplane weir-control\n", cli->out);
	} else {
		fprintf(cli->out,
			"weir-dataplane --config %s; weir-control --config %s --data-path-checks\n",
			shown, shown);
	}
}

int weir_init_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const char *file = cli->count > 0 ? cli->words[0] : FILE_DEFAULT;
	const bool standard_output = strcmp(file, "-") == 0;
	char text[TEXT_BYTES];
	struct choice choice;
	struct stat st;
	bool replace;
	int r;

	(void)command;
	replace = !standard_output && lstat(file, &st) == 0 && S_ISREG(st.st_mode) &&
		  is_placeholder(file);
	r = choose(&choice);
	if (r < 0) {
		return refuse(cli, file, r);
	}
	format(&choice, text);
	if (standard_output) {
		fputs(text, cli->out);
	} else {
		r = write_file(file, text, replace);
		if (r < 0) {
			return refuse(cli, file, r);
		}
		show(cli, file, &choice);
	}
	if (!choice.found) {
		fprintf(cli->err, "weirctl: no default route found: set ports[0].device to the "
				  "interface that receives packets to the VIPs\n");
	}
	return WEIR_CLI_DONE;
}
