#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the Debian packages without building them.

usage: check_packaging.py SOURCE_ROOT BUILD_ROOT WEIRCTL PROGRAM...

Every file that meson installs is in one package, and all files listed by packages are installed.
Units and their drop-ins use the paths at which meson installs the programs. debian/tests runs each
program, and uses only existing configurations. The version is the version in debian/changelog.
systemd finds no fault with the units, and rates their exposure below the limits of
docs/guide/packages.md. Users, groups and directories are created. needrestart restarts the right
services. Everything that a build needs is in scripts/packages. The packaged configuration is valid.
"""
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The maximum exposure level of each unit (systemd-analyze security).
EXPOSURE = {"weir-dataplane.service": 4.4, "weir-control.service": 3.0, "weir-agent.service": 2.7,
            "weir-decap.service": 2.6, "weir-metrics.service": 2.6}
# Installed by debian/rules, not by meson.
BY_RULES = {"etc/weir/weir.json", "etc/needrestart/conf.d/weir.conf",
            "etc/needrestart/conf.d/weir-agent.conf"}
# The directory of units that debian/rules passes to meson.
UNITS = "lib/systemd/system/"
# Build dependencies that need not be in scripts/packages: they have another name there, or every
# build environment has them.
BUILD_DEPENDS_ELSEWHERE = {"debhelper-compat", "dh-sequence-installsysusers"}
DIRECTORIES = {"run/weir": ("root", "weir", 0o750), "run/weir/control": ("weir", "weir", 0o750),
               "run/dpdk": ("root", "root", 0o700)}


def run(*command):
    done = subprocess.run(command, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.strip()


def installed(build, folder):
    """Returns the installed paths below /, as in the packages."""
    status, said = run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir",
                       folder + "/installed")
    if status:
        raise SystemExit(f"meson install: {said}")
    with open(build + "/meson-info/intro-buildoptions.json", encoding="utf-8") as file:
        options = {option["name"]: option["value"] for option in json.load(file)}
    prefix = f"{folder}/installed/{options['prefix']}"
    for place, _, names in os.walk(prefix):
        for name in names:
            path = os.path.relpath(f"{place}/{name}", prefix)
            path = path.replace(options["libdir"] + "/weir/", "lib/*/weir/")
            yield UNITS + name if path.endswith(".service") else "usr/" + path


def listed(root):
    """Yields the paths in debian/*.install, with their packages; includes the files in folders."""
    for file in glob.glob(root + "/debian/*.install"):
        package = os.path.basename(file).removesuffix(".install")
        with open(file, encoding="utf-8") as text:
            for line in text:
                yield from ((word, package) for word in line.split()[:1]
                            if not os.path.exists(f"{root}/{word}") and not word.startswith("docs/"))


def check_lists(root, build, folder):
    files, entries = set(installed(build, folder)), list(listed(root))
    if len(files) < 30 or len(entries) < 30:
        yield f"{len(files)} files installed, {len(entries)} listed: mend this check"
    for path in sorted(files):
        holders = [package for entry, package in entries if path == entry or path.startswith(entry + "/")]
        if len(holders) != 1:
            yield f"{path} is in {len(holders)} packages: debian/*.install"
    for entry, package in entries:
        if entry not in BY_RULES and not any(
                path == entry or path.startswith(entry + "/") for path in files):
            yield f"debian/{package}.install: nothing installs {entry}"


def check_paths(folder):
    """Check that the programs named by units are installed at these paths. Call after
    check_lists(), which installs the files."""
    base, count = folder + "/installed", 0
    for path in glob.glob(base + "/**/*.service", recursive=True) + \
            glob.glob(base + "/**/weir*.conf", recursive=True):
        with open(path, encoding="utf-8") as file:
            for program in re.findall(r"^Exec\w+=(/\S*/weir\S*)", file.read(), re.M):
                count += 1
                if not os.path.exists(base + program):
                    yield f"{os.path.basename(path)}: {program} is not installed"
    if count < 6:
        yield f"{count} programs named by units: mend this check"


def check_autopkgtest(root, folder, weirctl):
    """Check that debian/tests starts every program, and that the examples that it uses are valid.
    Call after check_lists(), which installs the files."""
    base = folder + "/installed/**/"
    with open(root + "/debian/tests/installed", encoding="utf-8") as file:
        text = file.read()
    started = set(re.search(r"^for program in (.*); do$", text, re.M)[1].split())
    programs = {os.path.basename(path) for place in ("bin", "sbin")
                for path in glob.glob(f"{base}{place}/weir*", recursive=True)}
    if started != programs:
        yield f"debian/tests/installed: programs: {started ^ programs}"
    skipped = re.search(r"^\t(\S.*)\) ;;$", text, re.M)[1].split(" | ")
    for path in glob.glob(base + "doc/weir/examples/*.json", recursive=True):
        if not any(fnmatch.fnmatch(path, pattern) for pattern in skipped):
            status, said = run(weirctl, "config", "check", path)
            if status:
                yield f"debian/tests/installed: {said}"


def check_version(root, build):
    with open(root + "/debian/changelog", encoding="utf-8") as file:
        version = re.match(r"weir \((?:\d+:)?([^)]+)-[^-)]+\)", file.read())
    with open(build + "/meson-info/intro-projectinfo.json", encoding="utf-8") as file:
        wanted = json.load(file)["version"]
    if not version or version[1] != wanted:
        yield f"debian/changelog has version {version and version[1]}, meson.build {wanted}"


def check_build_depends(root):
    with open(root + "/debian/control", encoding="utf-8") as file:
        needed = re.search(r"^Build-Depends:\n((?: .*\n)+)", file.read(), re.M)[1]
    with open(root + "/scripts/packages", encoding="utf-8") as file:
        known = set(re.sub(r"#.*", "", file.read()).split())
    needed = {re.match(r"[\w.+-]+", line.strip())[0] for line in needed.splitlines()}
    for name in sorted(needed - known - BUILD_DEPENDS_ELSEWHERE):
        yield f"debian/control: Build-Depends: scripts/packages has no {name}"


def check_units(root, folder, programs):
    """Check the units with systemd, as if the programs were installed at their final paths."""
    at = {os.path.basename(program): os.path.abspath(program) for program in programs}
    units = sorted(glob.glob(root + "/config/systemd/*.service"))
    for unit in units:
        with open(unit, encoding="utf-8") as file:
            text = re.sub(r"/usr/s?bin/([a-z-]+)", lambda m: at.get(m[1], m[0]), file.read())
        with open(f"{folder}/{os.path.basename(unit)}", "w", encoding="utf-8") as file:
            file.write(text)
    for unit in units:
        name = os.path.basename(unit)
        status, said = run("systemd-analyze", "verify", "--man=no", f"{folder}/{name}")
        said = "\n".join(line for line in said.splitlines() if "weir" in line)
        if status or said:
            yield f"{name}: systemd-analyze verify: {said or status}"
        said = run("systemd-analyze", "security", "--offline=yes", "--no-pager",
                   f"{folder}/{name}")[1]
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        if not found or float(found[1]) > EXPOSURE[name]:
            yield f"{name}: exposure {found and found[1]}, at most {EXPOSURE[name]} wanted"
    if [os.path.basename(unit) for unit in units] != sorted(EXPOSURE):
        yield f"units: {units}"


def check_removal(root):
    """Accounts remain after packages are removed. Check that the guide names the command that
    removes each account."""
    with open(root + "/docs/guide/packages.md", encoding="ascii") as file:
        removal = file.read().partition("\n## Removal\n")[2].partition("\n## ")[0]
    # Each user has a group with the same name
    accounts = {("userdel", "weir"), ("groupdel", "weir")}
    for path in glob.glob(root + "/config/sysusers.d/*.conf"):
        with open(path, encoding="ascii") as file:
            accounts |= {({"u": "userdel", "g": "groupdel"}[line[0]], line.split()[1])
                         for line in file if line[0] in "ug"}
    for command, name in sorted(accounts):
        if not re.search(rf"^{command} {name}\b(?!-)", removal, re.M):
            yield f"docs/guide/packages.md: Removal has no \"{command} {name}\""


def check_accounts(root, folder):
    """Check sysusers.d and tmpfiles.d in a separate root directory. Needs root, to change
    owners."""
    etc = folder + "/root/etc"
    os.makedirs(etc)
    for name, text in (("passwd", "root:x:0:0::/root:/bin/sh\n"), ("group", "root:x:0:\n")):
        with open(f"{etc}/{name}", "w", encoding="ascii") as file:
            file.write(text)
    for kind in ("sysusers.d", "tmpfiles.d"):
        shutil.copytree(f"{root}/config/{kind}", f"{folder}/root/usr/lib/{kind}")
    status, said = run("systemd-sysusers", f"--root={folder}/root")
    if status or "conflict" in said:
        yield f"systemd-sysusers: {said}"
    accounts = {}
    for kind, wanted in (("passwd", {"weir"}), ("group", {"weir", "weir-admin"})):
        with open(f"{etc}/{kind}", encoding="ascii") as file:
            accounts[kind] = {line.split(":")[0]: int(line.split(":")[2]) for line in file}
        if not wanted <= set(accounts[kind]):
            yield f"systemd-sysusers: {kind} has {sorted(accounts[kind])}"
            return
    if os.getuid() != 0:
        return
    status, said = run("systemd-tmpfiles", "--create", f"--root={folder}/root")
    for path, (user, group, mode) in DIRECTORIES.items():
        found = os.stat(f"{folder}/root/{path}") if os.path.isdir(f"{folder}/root/{path}") else None
        wanted = (accounts["passwd"][user], accounts["group"][group], mode)
        if not found or (found.st_uid, found.st_gid, found.st_mode & 0o7777) != wanted:
            yield f"systemd-tmpfiles: /{path}: {found}, {said}"


# A Perl script that reads conf.d like needrestart. Commands run by conf.d get the exit status STATUS.
NEEDRESTART = """BEGIN { *CORE::GLOBAL::system = sub { $ENV{STATUS} } }
our %nrconf = (override_rc => {});
foreach my $fn (@ARGV) { eval do { local(@ARGV, $/) = $fn; <>}; die $@ if $@ }
foreach my $rc (qw(weir-dataplane weir-control weir-metrics weir-agent weir-decap)) {
    print "$rc " unless grep { "$rc.service" =~ /$_/ && !$nrconf{override_rc}{$_} } keys %{$nrconf{override_rc}};
}"""


def check_needrestart(root):
    files = sorted(glob.glob(root + "/config/needrestart/*.conf"))
    for status, wanted in (("0", "weir-control weir-metrics"), ("256", "weir-metrics")):
        said = run("env", "STATUS=" + status, "perl", "-e", NEEDRESTART, *files)[1]
        if said != wanted:
            yield f"needrestart, where weir-control's checks end with {status}, restarts: {said}"


def check_settings(root, weirctl):
    status, said = run(weirctl, "config", "check", root + "/debian/weir.json")
    if status or not re.search(r"services: is empty.*services: 0, .*warnings: 1\)$", said, re.S):
        yield f"packaged configuration: {said}"
    with open(root + "/config/sysctl.d/weir.conf", encoding="utf-8") as file:
        for key in re.findall(r"^([a-z0-9._]+) = \d+$", file.read(), re.M):
            path = "/proc/sys/" + key.replace(".", "/")
            if not os.path.exists(path) and os.path.isdir(os.path.dirname(path)):
                yield f"config/sysctl.d/weir.conf: the kernel has no {key}"


def main():
    root, build, weirctl, *programs = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="weir-packaging-") as folder:
        problems = [*check_lists(root, build, folder), *check_paths(folder),
                    *check_autopkgtest(root, folder, weirctl), *check_version(root, build),
                    *check_build_depends(root), *check_units(root, folder, [weirctl, *programs]),
                    *check_removal(root), *check_accounts(root, folder),
                    *check_needrestart(root),
                    *check_settings(root, weirctl)]
    print("\n".join(problems) or f"{len(EXPOSURE)} units, {len(DIRECTORIES)} directories")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
