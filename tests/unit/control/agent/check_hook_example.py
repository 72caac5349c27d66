#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the hook for nginx of docs/reference/agent.md in a folder of its own. Its files appear, and are
deleted after some time, even after the last run or if the hook is killed. If the folder does not
exist, the hook deletes nothing.

usage: check_hook_example.py AGENT.MD
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

FOLDER, HANDED_S = "/run/weir-shed", 300
LINES = "203.0.113.7 51034 198.51.100.10 80\n2001:db8::7 51035 2001:db8::10 80\n"
FILES = ["2001:db8::7:51035", "203.0.113.7:51034"]


def read_script(path):
    """Returns the hook, and the time in seconds after which it deletes its files."""
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", file.read(), re.DOTALL)
    scripts = [block for block in blocks if "weir-shed-nginx" in block]
    assert len(scripts) == 1, f"{len(scripts)} hooks in {path}"
    sleeps, ages = re.findall(r"sleep (\d+)", scripts[0]), re.findall(r"-mmin \+(\d+)", scripts[0])
    assert len(sleeps) == len(ages) == 1, scripts[0]
    # A run takes up to 5 s. So when the sleep ends, a file's age can be up to 5 s less than the
    # duration of the sleep.
    assert int(ages[0]) * 60 + 5 < int(sleeps[0]) < HANDED_S - 5, (ages, sleeps)
    return scripts[0], int(sleeps[0])


def put_file(path, age_s):
    with open(path, "w", encoding="ascii"):
        pass
    os.utime(path, (time.time() - age_s,) * 2)


def wait_for(what, done):
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline, f"timeout: {what}"
        time.sleep(0.05)


def main():
    script, seconds = read_script(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="weir-hook-") as top:
        shed, elsewhere = os.path.join(top, "shed"), os.path.join(top, "elsewhere")
        os.mkdir(elsewhere)
        put_file(os.path.join(elsewhere, "old"), 86400)
        script = script.replace(FOLDER, shed).replace(f"sleep {seconds}", "sleep 1")

        def start():
            return subprocess.Popen(["/bin/sh", "-c", script], cwd=elsewhere, text=True,
                                    stdin=subprocess.PIPE, start_new_session=True)
        hook = start()
        hook.communicate(LINES)
        time.sleep(1.5)  # longer than the sleep of the hook
        assert os.listdir(elsewhere) == ["old"], f"elsewhere: {os.listdir(elsewhere)}"
        assert hook.returncode != 0, "without its folder the hook succeeds"
        os.mkdir(shed)
        put_file(os.path.join(shed, "old"), seconds)
        hook = start()
        hook.communicate(LINES)
        assert hook.returncode == 0, hook.returncode
        assert sorted(set(os.listdir(shed)) - {"old"}) == FILES, os.listdir(shed)
        wait_for("the old file to be deleted", lambda: sorted(os.listdir(shed)) == FILES)
        put_file(os.path.join(shed, "old"), seconds)
        for name in FILES:
            os.unlink(os.path.join(shed, name))
        hook = start()
        hook.stdin.write(LINES)
        hook.stdin.flush()
        wait_for("the files", lambda: set(FILES) <= set(os.listdir(shed)))
        os.killpg(hook.pid, signal.SIGKILL)  # as weir-agent does at the deadline
        hook.wait()
        wait_for("the old file to be deleted", lambda: sorted(os.listdir(shed)) == FILES)
        assert os.listdir(elsewhere) == ["old"]
    print("ok")


main()
