# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Shared by the scripts: root, packages, builds, hugepages. Sourced with `set -euo pipefail`; WEIR
# is the root of the checkout.

WEIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8
# shellcheck disable=SC2034 # used by the sourcing scripts
# The lab and the tests need Debian's Python modules (scapy, jsonschema), even if PATH has another
# Python first.
PYTHON=/usr/bin/python3
PATH=$PATH:/usr/sbin:/sbin
CLEANUPS=()

say() {
	printf '%s\n' "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Register a command to run when the script exits. The last registered command runs first.
at_exit() {
	CLEANUPS+=("$*")
}

run_cleanups() {
	local status=$? i
	trap '' INT TERM HUP
	if [ -n "${ATTENDED:-}" ]; then
		kill -TERM "$ATTENDED" 2>/dev/null || true
		wait "$ATTENDED" || true
	fi
	for ((i = ${#CLEANUPS[@]} - 1; i >= 0; i--)); do
		eval "${CLEANUPS[i]}" || true
	done
	CLEANUPS=()
	exit "$status"
}
trap run_cleanups EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Restart the script as root if necessary. The arguments are the script's own arguments.
become_root() {
	if [ "$(id -u)" -eq 0 ]; then
		if [ -n "${SUDO_UID:-}" ]; then
			# root builds files in a user's checkout: make the user their owner
			at_exit "chown -R $SUDO_UID:${SUDO_GID:-$SUDO_UID} '$WEIR'/build* 2>/dev/null"
		fi
		return
	fi
	command -v sudo >/dev/null ||
		die "needs root (network namespaces, BPF, packages), and there is no sudo: run it as root"
	say "${0##*/}: needs root (network namespaces, BPF, packages): going on with sudo"
	exec sudo -- "$0" "$@"
}

# Print the project's files, relative to its root: the files that git tracks or does not ignore;
# without git, all files.
project_files() {
	local file
	{
		git -C "$WEIR" -c safe.directory='*' ls-files --cached --others --exclude-standard \
			2>/dev/null ||
			find "$WEIR" -type f -not -path '*/build*' -not -path '*/.git/*' -printf '%P\n'
	} | while read -r file; do
		[ ! -f "$WEIR/$file" ] || printf '%s\n' "$file"
	done
}

# tool NAME: print the command of a tool, which is its name in scripts/packages. This name can
# contain a version (clang-format-19), which is defined only there.
tool() {
	local command
	command=$(sed 's/[[:space:]]*#.*//' "$WEIR/scripts/packages" | grep -xE "$1(-[0-9]+)?") ||
		die "scripts/packages has no $1"
	command -v "$command" || die "$command is not installed; scripts/packages lists what is needed"
}

missing_packages() {
	local package
	sed 's/#.*//' "$WEIR/scripts/packages" | while read -r package; do
		[ -n "$package" ] || continue
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			printf '%s\n' "$package"
	done
}

# The installation of a package runs this script before it starts a service of the package. A
# temporary script at this path prevents all such starts.
POLICY=/usr/sbin/policy-rc.d
POLICY_HELD=0

forbid_services() {
	if [ -e "$POLICY" ]; then
		mv "$POLICY" "$POLICY.weir-saved"
	fi
	POLICY_HELD=1
	at_exit allow_services
	printf '#!/bin/sh\nexit 101\n' >"$POLICY"
	chmod 755 "$POLICY"
}

allow_services() {
	[ "$POLICY_HELD" -eq 1 ] || return 0
	rm -f "$POLICY"
	if [ -e "$POLICY.weir-saved" ]; then
		mv "$POLICY.weir-saved" "$POLICY"
	fi
	POLICY_HELD=0
}

# Install missing packages. If none are missing, no package mirror is contacted.
install_packages() {
	local missing
	mapfile -t missing < <(missing_packages)
	if [ ${#missing[@]} -eq 0 ]; then
		return
	fi
	if ! [ -r /etc/debian_version ] || ! command -v apt-get >/dev/null; then
		die "not a Debian system: install what corresponds to ${missing[*]}"
	fi
	say "installing ${#missing[@]} packages: ${missing[*]}"
	forbid_services
	export DEBIAN_FRONTEND=noninteractive
	quietly apt-get update -q || die "apt-get update failed"
	quietly apt-get install -q -y --no-install-recommends "${missing[@]}" ||
		die "apt-get could not install the packages"
	allow_services
	mapfile -t missing < <(missing_packages)
	[ ${#missing[@]} -eq 0 ] || die "still missing after installation: ${missing[*]}"
}

# Run a command and wait until it exits. A signal to this script is forwarded to the command at
# once.
run_attended() {
	local status=0
	"$@" &
	ATTENDED=$!
	wait "$ATTENDED" || status=$?
	ATTENDED=
	return $status
}

# configure DIR [MESON OPTION...]: create a build directory, or set these options in an existing
# build directory. CC is taken from the environment.
configure() {
	local dir=$WEIR/$1
	shift
	if [ -f "$dir/build.ninja" ]; then
		meson configure "$dir" "$@" >/dev/null
	else
		rm -rf "$dir"
		quietly meson setup "$dir" "$WEIR" "$@"
	fi
}

# build DIR [MESON OPTION...]: configure if necessary, compile.
build() {
	configure "$@"
	quietly ninja --quiet -C "$WEIR/$1"
}

# Print the output of a command only if it fails.
quietly() {
	local log status=0
	log=$(mktemp)
	"$@" >"$log" 2>&1 || status=$?
	if [ $status -ne 0 ]; then
		printf '%s\n' "failed: $*" >&2
		tail -n 100 "$log" >&2
	fi
	rm -f "$log"
	return $status
}

HUGEPAGES_ADDED=0

# reserve_hugepages PAGES: make sure that this many 2 MiB pages are free. Pages that it adds are
# released at exit.
reserve_hugepages() {
	local file=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages free before after
	[ -w "$file" ] || return 0
	free=$(cat "${file%/*}/free_hugepages")
	[ "$free" -lt "$1" ] || return 0
	before=$(cat "$file")
	printf '%s\n' $((before + $1 - free)) >"$file"
	after=$(cat "$file")
	HUGEPAGES_ADDED=$((after - before))
	at_exit give_back_hugepages
}

give_back_hugepages() {
	local file=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
	printf '%s\n' $(($(cat "$file") - HUGEPAGES_ADDED)) >"$file"
	HUGEPAGES_ADDED=0
}
