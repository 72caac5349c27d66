# SPDX-License-Identifier: BSD-3-Clause
"""Makes trees like /proc, /sys, /run and /etc for weirctl doctor --root, as machine.txt describes them."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


def sections(text):
    """Returns [(words after "===", contents)] for the sections of a text."""
    parts = re.split(r"^=== (.*)\n", text, flags=re.M)
    return list(zip((words.split() for words in parts[1::2]), parts[2::2]))


def change(root, text):
    """Write the files described by a text; "=== PATH gone" removes a file or a folder."""
    for words, contents in sections(text):
        path = os.path.join(root, words[0])
        if words[1:] == ["gone"]:
            remove(path)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if words[1:2] == ["->"]:
            remove(path)
            os.symlink(" ".join(words[2:]), path)
            continue
        with open(path, "w", encoding="ascii") as file:
            file.write(contents.replace("\\0", "\0"))
        if len(words) > 1:
            os.chmod(path, int(words[1], 8))


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            remove(os.path.join(path, name))
        os.rmdir(path)
    elif os.path.lexists(path):
        os.remove(path)


def make(root):
    """Create the tree of a correctly set up machine."""
    with open(os.path.join(HERE, "machine.txt"), encoding="ascii") as file:
        change(root, file.read())
    for folder in ("run/weir", "run/weir/control"):
        os.chmod(os.path.join(root, folder), 0o750)
