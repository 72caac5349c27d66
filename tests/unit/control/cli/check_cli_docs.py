#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares docs/reference/cli.md and the bash completion with weirctl.

usage: check_cli_docs.py WEIRCTL SOURCE_ROOT BROKEN [--write]

Every block of docs/reference/cli.md, docs/reference/configuration.md and docs/guide/migrating.md
that starts with "$ weirctl ..." is run against a control socket that replays answers/*.json, in a
folder with config/ and the files of BROKEN (a folder); the output must be exactly the output in the
document. The headings of cli.md must be the commands of --help. The completion, run by bash, must
offer every object, verb and option. docs/reference/control-api.md must have the keys, rights and
arguments of the daemon. --write updates the documents with the current output of weirctl.
"""
import glob
import json
import os
import re
import shlex
import socketserver
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../doctor"))
import machine  # noqa: E402

# Keys that are shown only if a service is requested by name.
SERVICE_DETAILS = ("configured_policy", "settings", "workload", "flow_control", "subset", "shares")
SUBSET_DETAILS = ("clients_of_a_backend", "clients_of_backends")


# REQUESTS: commands that send a request with a different name. FIRST_WORDS: words that the completion
# offers after a command without a verb.
REQUESTS = {"trace": "capture.start", "service.drain": "bind.drain", "vip.drain": "bind.drain",
            "service.ready": "bind.ready", "vip.ready": "bind.ready", "vip.show": "bind.show",
            "canary.list": "canary.show", "backend.shed": "shed.start"}
FIRST_WORDS = {"trace": {"tcp", "udp"}}


# Configuration files of other load balancers. Examples in the documents import them.
SOURCES = {"one-service.rules": "-A -t 198.51.100.10:80 -s wrr\n"
                                "-a -t 198.51.100.10:80 -r 10.0.0.11:80 -i -w 100\n",
           "unfinished.conf": "virtual_server 198.51.100.10 80 {\n    delay_loop 5 s\n"
                              "    lb_kind BRIDGE\n    real_server web-1 80 {\n    }\n"}


# Files that replace files of ../doctor/machine.txt, because the example of doctor in the document
# shows problems.
CHANGES = """=== sys/devices/system/cpu/cpu6/cpufreq/scaling_governor
powersave
=== sys/class/net/ens1f0/mtu
1500
"""


class ControlServer:
    """A simulated control socket that answers each command with answers/COMMAND.json."""

    def __init__(self, root, broken):
        self.root, self.broken = root, broken
        self.answers = {}
        for path in glob.glob(root + "/tests/unit/control/cli/answers/*.json"):
            with open(path, encoding="utf-8") as file:
                self.answers[os.path.basename(path)[:-5]] = json.load(file)

    def answer(self, request):
        answer = json.loads(json.dumps(self.answers[request["command"]]))
        if request["command"].startswith("bind."):
            for key in ("service", "address"):
                answer["result"][key] = request.get(key)
        if request["command"] == "affinity.show" and request.get("service"):
            answer["result"]["services"] = [row for row in answer["result"]["services"]
                                            if row["service"] == request["service"]]
        elif request["command"] == "affinity.show":
            answer["result"]["backends"] = []
        if request["command"] == "canary.show" and request.get("service"):
            answer["result"] = [row for row in answer["result"]
                                if row["service"] == request["service"]]
        if request["command"] in ("service.show", "backend.show", "health.show", "subset.show"):
            # Answer with only the requested part, as the daemon does.
            one = {"service.show": "name", "backend.show": "service", "health.show": "service",
                   "subset.show": "service"}
            wanted = {one[request["command"]]: request.get("service"),
                      "name": request.get("backend", request.get("service")
                                          if request["command"] == "service.show" else None)}
            answer["result"] = [row for row in answer["result"]
                                if all(v is None or row.get(k) == v for k, v in wanted.items())]
            if request["command"] == "service.show" and not request.get("service"):
                for row in answer["result"]:
                    for key in SERVICE_DETAILS:
                        del row[key]
            if request["command"] == "subset.show" and not request.get("service"):
                for row in answer["result"]:
                    for key in SUBSET_DETAILS:
                        del row[key]
                    for subset in row["subsets"]:
                        del subset["members"]
                        del subset["members_omitted"]
        return answer

    def __enter__(self):
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    self.wfile.write(json.dumps(outer.answer(json.loads(line))).encode() + b"\n")

        self.folder = tempfile.TemporaryDirectory(prefix="weirctl-docs-")
        os.symlink(self.root + "/config", self.folder.name + "/config")
        for path in glob.glob(self.broken + "/*.json"):
            os.symlink(path, f"{self.folder.name}/{os.path.basename(path)}")
        for name, text in SOURCES.items():
            with open(f"{self.folder.name}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        machine.make(self.folder.name + "/copy")
        machine.change(self.folder.name + "/copy", CHANGES)
        os.mkdir(self.folder.name + "/control")
        self.server = socketserver.ThreadingUnixStreamServer(
            self.folder.name + "/control/control.sock", Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        self.folder.cleanup()


BLOCK = re.compile(r"^```\n(\$ weirctl[^\n]*)\n(.*?)^```$", re.M | re.S)


def run(weirctl, line, server):
    """Returns the output of one command line of the document, followed by "(exit N)" if the exit
    status N is not 0."""
    environment = dict(os.environ, WEIR_RUN_DIR=server.folder.name)
    # Use a separate network namespace: otherwise the output would name the directories of daemons
    # that run on this machine.
    own = ["unshare", "--net"] if "/nonexistent" in line and os.geteuid() == 0 else []
    done = subprocess.run([*own, weirctl] + shlex.split(line)[2:], cwd=server.folder.name,
                          env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=30, check=False)
    # The interfaces of the host of the test vary, so replace their names.
    output = re.sub(r"; interfaces: .*", "; interfaces: eth0, eth1", done.stdout)
    return output + (f"(exit {done.returncode})\n" if done.returncode else "")


def rewrite(document, weirctl, server):
    """Returns the document with the current output of weirctl."""
    return BLOCK.sub(lambda m: f"```\n{m[1]}\n{run(weirctl, m[1], server)}```", document)


def help_commands(weirctl):
    text = subprocess.run([weirctl, "--help"], check=True, text=True,
                          capture_output=True).stdout
    section = text.split("Commands:\n")[1].split("\n\n")[0]
    return [re.split(r"  +", line.strip())[0] for line in section.splitlines()]


def check_without_daemon(weirctl, document, problems):
    """Check that the first paragraph names the commands that need no daemon, as the help does."""
    sentence = re.search(r"Only (.*?) work without the daemon", document, re.S)
    said = {" ".join(name.split()) for name in re.findall(r"`([^`]+)`", sentence[1])} - {"--help"}
    text = subprocess.run([weirctl, "--help"], check=True, text=True, capture_output=True).stdout
    does = set()
    for line in text.splitlines():
        if line.endswith("needs no daemon"):
            words = line.split()
            does.add(" ".join(words[:2]) if words[1].isalpha() and words[0] != "import" else words[0])
    if said != does:
        problems.append(f"cli.md: commands without the daemon: {sorted(said)}, help: {sorted(does)}")


def complete(root, words, current=""):
    """Returns the completions that bash offers for the word `current` after these words."""
    script = (f"source {shlex.quote(root)}/control/cli/weirctl.bash-completion\n"
              f"COMP_WORDS=({' '.join(map(shlex.quote, [*words, current]))})\n"
              f"COMP_CWORD={len(words)}\n_weirctl\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n")
    return set(subprocess.run(["bash", "-c", script], check=True, text=True,
                              capture_output=True).stdout.split())


def check_completion(weirctl, commands, server, root, problems):
    objects = {}
    for command in commands:
        words = command.split()
        objects.setdefault(words[0], set())
        if len(words) > 1 and words[1].isalpha() and words[1].islower():
            objects[words[0]].add(words[1])
    if complete(root, [weirctl]) != set(objects):
        problems.append(f"completion of objects: {complete(root, [weirctl])}")
    for name, verbs in objects.items():
        if complete(root, [weirctl, name]) != (verbs or FIRST_WORDS.get(name, set())):
            problems.append(f"completion of {name}: {complete(root, [weirctl, name])}")
    names = complete(root, [weirctl, "--run-dir", server.folder.name, "backend", "drain"])
    if "web-1" not in names or "dns-2" not in names:
        problems.append(f"completion of backends: {names}")
    names = complete(root, [weirctl, "--run-dir", server.folder.name, "capture", "start", "--drop-reason"])
    if not {"no_backend", "tcp_flags"} <= names:
        problems.append(f"completion of drop reasons: {names}")
    for words, current, wanted in ((["top", "--sort"], "s", "service"), (["config", "check", "FILE"], "--s", "--strict"),
                                   (["policy", "compare", "web"], "--f", "--for"),
                                   (["backend", "drain", "web-1"], "--w", "--wait"),
                                   (["service", "drain", "web"], "--w", "--wait")):
        if complete(root, [weirctl, *words], current) != {wanted}:
            problems.append(f"completion of {words}: {complete(root, [weirctl, *words], current)}")
    policies = complete(root, [weirctl, "service", "set", "web", "policy", "="])
    if not {"maglev", "power-of-two", "configured"} <= policies:
        problems.append(f"completion of policies: {policies}")


# A weirctl that shows three services. Services web and api have a backend b1.
BACKENDS = {"web": ["b1", "b2"], "api": ["b1"], "dns": ["dns-1"]}
SHOW = """import json, sys
backends = json.loads(sys.argv[1])
only = sys.argv[-1][:-1] if sys.argv[-1].endswith("/") else None
rows = [{"service": service, "name": name, "id": 0, "drain": {"name": "x"}}
        for service in backends for name in backends[service] if only in (None, service)]
if "service" in sys.argv:
    rows = [{"name": service, "binds": [{"name": "x"}]} for service in backends]
print(json.dumps(rows, indent=2))
"""


def check_backend_completion(root, problems):
    """Check that every name that bash offers for a backend is accepted, as one of several services
    can have a backend of the same name."""
    with tempfile.TemporaryDirectory(prefix="weirctl-completion-") as folder:
        weirctl = folder + "/weirctl"
        with open(weirctl, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(SHOW)} "
                       f"{shlex.quote(json.dumps(BACKENDS))} \"$@\"\n")
        os.chmod(weirctl, 0o755)
        for words, current, wanted in (
                ("backend drain", "", {"web/b1", "api/b1", "b2", "dns-1"}),
                ("backend drain", "web/", {"web/b1", "web/b2"}),
                ("health history", "dns/d", {"dns/dns-1"}),
                ("weight set", "b", {"b2"}),
                ("flow list --backend", "api/", {"api/b1"}),
                ("affinity show", "", {"web", "api", "dns"}),
                ("affinity clear", "", {"web", "api", "dns"}),
                ("affinity clear", "web/", {"web/b1", "web/b2"}),
                ("canary start", "", {"web", "api", "dns"}),
                ("canary start dns", "", {"dns-1"}),
                ("canary start web", "", {"b1", "b2"})):
            offered = complete(root, [weirctl, *words.split()], current)
            if offered != wanted:
                problems.append(f"completion of {words} {current}: {offered}, not {wanted}")


def check_option_completion(weirctl, commands, root, problems):
    """Check that after each command bash offers exactly the options of its help."""
    script = f"source {shlex.quote(root)}/control/cli/weirctl.bash-completion\n"
    helps = {}
    for command in commands:
        words = [word for word in command.split()[:2] if word.islower() and word.isalpha()]
        text = subprocess.run([weirctl, *words, "--help"], check=True, text=True,
                              capture_output=True).stdout
        helps[" ".join(words)] = set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.M))
        script += (f"COMP_WORDS=({shlex.quote(weirctl)} {' '.join(words)} --)\n"
                   f"COMP_CWORD={len(words) + 1}; COMPREPLY=(); _weirctl; echo \"${{COMPREPLY[*]}}\"\n")
    offers = subprocess.run(["bash", "-c", script], check=True, text=True,
                            capture_output=True).stdout.splitlines()
    for (command, options), offered in zip(helps.items(), offers, strict=True):
        if options != set(offered.split()) or len(options) < 5:
            problems.append(f"completion of options of {command}: {offered}\nin --help: {options}")


def keys_of(value):
    """Yields the keys of all objects in a JSON value. Omits the members of "drops", whose keys
    are drop reasons, and of "shares", whose keys are policies."""
    if isinstance(value, dict):
        yield from value
        value = [each for key, each in value.items()
                 if key != "drops" and not (key == "shares" and isinstance(each, dict))]
    for each in value if isinstance(value, list) else []:
        yield from keys_of(each)


def check_api_docs(answers, root, problems):
    """Check that docs/reference/control-api.md has every key of the answers, except the counters of
    the workers."""
    with open(root + "/docs/reference/control-api.md", encoding="utf-8") as file:
        named = set(re.findall(r"[a-z0-9_]+", file.read()))
    named.update(answers["stats.show"]["result"]["workers"])
    for command, answer in sorted(answers.items()):
        for key in sorted(set(keys_of(answer)) - named):
            problems.append(f"control-api.md does not name {key} of {command}")


def check_rights(weirctl, commands, root, problems):
    """Check that docs/reference/control-api.md and weirctl's help name the right that each
    command needs, as in the daemon's table."""
    with open(root + "/control/daemon/api/api_commands.c", encoding="utf-8") as file:
        rows = re.findall(r'^\t\{"([a-z.]+)", (LOOK|CHANGE),(.*?)\}\},$', file.read(), re.M | re.S)
    table = {name: "look; with path: change" if right == "LOOK" and "ARGUMENT_FILE" in arguments
             else right.lower() for name, right, arguments in rows}
    with open(root + "/docs/reference/control-api.md", encoding="utf-8") as file:
        lines = re.findall(r"^\| (`[a-z`., ]+) \| ((?:look|change)[^|]*) \|", file.read(), re.M)
    documented = {name: right for names, right in lines for name in re.findall(r"`([^`]+)`", names)}
    if not table or documented != table:
        problems.append(f"rights in control-api.md: {documented}\nin api_commands.c: {table}")
    for command in commands:
        words = [word for word in command.split()[:2] if word.islower() and word.isalpha()]
        text = subprocess.run([weirctl, *words, "--help"], check=True, text=True,
                              capture_output=True).stdout
        name = ".".join(words)
        right = table.get(REQUESTS.get(name, name), "look")  # local commands need no right
        if ("Requires root" in text) != (right == "change"):
            problems.append(f"weirctl {' '.join(words)} --help does not name the required right: {right}")


def check_arguments(root, problems):
    """Check that docs/reference/control-api.md names the arguments of each command, and which of
    them are optional, as in the daemon's table."""
    def read(path):
        with open(f"{root}/{path}", encoding="utf-8") as file:
            return file.read()
    source = read("control/daemon/api/api_commands.c")
    flow = re.search(r"#define FLOW_ARGUMENTS((?:.*\\\n)+.*)", source)[1]
    canary = re.search(r"#define CANARY_ARGUMENTS((?:.*\\\n)+.*)", source)[1]
    shed = re.search(r"#define SHED_ARGUMENTS((?:.*\\\n)+.*)", source)[1]
    fields = re.search(r"#define WEIR_REPORT_FIELDS\(X\)((?:.*\\\n)+.*)", read("control/report/report.h"))[1]
    report = "".join(f'OPTIONAL("{name}"' for name in re.findall(r"X\(\w+, (\w+),", fields))
    table = {}
    for command, row in re.findall(r'^\t\{"([a-z.]+)", (.*?)\}\},$', source, re.M | re.S):
        row = row.replace("FLOW_ARGUMENTS", flow).replace("WEIR_REPORT_FIELDS(X)", report)
        row = row.replace("CANARY_ARGUMENTS", canary).replace("SHED_ARGUMENTS", shed)
        table[command] = {name + "?" * (kind == "OPTIONAL")
                          for kind, name in re.findall(r'(OPTIONAL|REQUIRED)\("(\w+)"', row)}
    documented = {}
    for names, arguments in re.findall(r"^\| (`[a-z`., ]+) \| (?:look|change) \|([^|]*)\|",
                                       read("docs/reference/control-api.md"), re.M):
        arguments = re.sub(r"\([^)]*\)|and one or more of", "", arguments)
        for command in re.findall(r"`([^`]+)`", names):
            documented[command] = set(re.findall(r"\w+\??", arguments))
    for command in sorted(set(table) | set(documented)):
        if table.get(command) != documented.get(command):
            problems.append(f"arguments of {command} in control-api.md: {documented.get(command)}, "
                            f"in api_commands.c: {table.get(command)}")
    if len(table) < 25:
        problems.append(f"commands of api_commands.c: {sorted(table)}: mend this check")


def write_documents(weirctl, root, broken):
    with ControlServer(root, broken) as server:
        for name in ("reference/cli.md", "reference/configuration.md", "guide/migrating.md"):
            with open(f"{root}/docs/{name}", encoding="utf-8") as file:
                document = file.read()
            with open(f"{root}/docs/{name}", "w", encoding="utf-8") as file:
                file.write(rewrite(document, weirctl, server))


def main():
    weirctl, root, broken = map(os.path.abspath, sys.argv[1:4])
    if "--write" in sys.argv[4:]:
        write_documents(weirctl, root, broken)
    problems = []
    with open(root + "/docs/reference/cli.md", encoding="utf-8") as file:
        document = file.read()
    commands = help_commands(weirctl)
    headings = re.findall(r"^### `weirctl ([^`]+)`$", document, re.M)
    if headings != commands:
        problems.append(f"headings of cli.md and commands of --help differ:\n"
                        f"  {headings}\n  {commands}")
    check_without_daemon(weirctl, document, problems)
    shown = [match[1] for match in BLOCK.finditer(document)]
    for name in ("reference/configuration.md", "guide/migrating.md"):
        with open(f"{root}/docs/{name}", encoding="utf-8") as file:
            document += file.read()
    for command in commands:
        words = " ".join(w for w in command.split()[:2] if w.islower() and w[0].isalpha())
        if not any(line.startswith("$ weirctl " + words) for line in shown):
            problems.append(f"cli.md shows no output of {words}")
    with ControlServer(root, broken) as server:
        for match in BLOCK.finditer(document):
            found = run(weirctl, match[1], server)
            if found != match[2]:
                problems.append(f"{match[1]}\ndocument:\n{match[2]}weirctl:\n{found}")
        check_completion(weirctl, commands, server, root, problems)
        check_api_docs(server.answers, root, problems)
    check_backend_completion(root, problems)
    check_option_completion(weirctl, commands, root, problems)
    check_rights(weirctl, commands, root, problems)
    check_arguments(root, problems)
    for problem in problems:
        print(problem)
    print(f"{len(commands)} commands, {len(shown)} outputs, {len(problems)} problems")
    return 1 if problems or len(shown) < len(commands) else 0


if __name__ == "__main__":
    sys.exit(main())
