# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the page of `heddle report`, and opens it in a headless Chromium."""

import collections
import html.parser
import json
import os
import re
import shutil
import subprocess
import xml.dom.minidom

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WITHOUT_CHROMIUM = ("no chromium here: scripts/install.sh browser installs it")
VOID = {"meta", "link", "br", "hr", "input", "img"}


class Page(html.parser.HTMLParser):
    """The elements of a page, by tag, each with its attributes; and its texts of
    `script` and `style` elements. Elements that are not closed are an error."""

    def __init__(self, text):
        super().__init__()
        self.elements = collections.defaultdict(list)
        self.texts = collections.defaultdict(list)
        self.open = []
        self.feed(text)
        self.close()
        if self.open:
            raise ValueError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.elements[tag].append(dict(attributes))
        if tag not in VOID:
            self.open.append(tag)
            self.texts[tag].append("")

    def handle_startendtag(self, tag, attributes):
        self.elements[tag].append(dict(attributes))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes another element")

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data

    def having(self, attribute):
        return [one for found in self.elements.values() for one in found
                if attribute in one]


def read_page(path):
    """The page and the data that it embeds."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = Page(text)
    found = re.search(r'<script type="application/json" id="heddle-plan">(.*?)</script>',
                      text, re.DOTALL)
    return page, json.loads(found.group(1)), text


def read_svg(path):
    """The elements of a picture that have an attribute, by the attribute's name."""
    document = xml.dom.minidom.parse(path)
    elements = document.getElementsByTagName("*")
    return lambda name: [one.getAttribute(name) for one in elements
                         if one.hasAttribute(name)]


def run_chromium(*arguments):
    """Runs a headless Chromium that can reach no host; gives its two outputs."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update",
             "--proxy-server=127.0.0.1:9", "--enable-logging=stderr", "--v=0",
             "--virtual-time-budget=20000"]
    result = subprocess.run([CHROMIUM, *flags, *arguments], capture_output=True,
                            text=True, timeout=180, check=True)
    return result.stdout, result.stderr


# The hosts that Chromium itself asks for updates and the like, whatever page is open.
BROWSERS_OWN = (".google.com", ".googleapis.com", ".gvt1.com")


def rendered(path):
    """The page after its script has run, what its console said, and the URLs that were
    asked for, besides files and the browser's own."""
    log = path + ".netlog"
    text, said = run_chromium(f"--log-net-log={log}", "--dump-dom",
                              "file://" + os.path.abspath(path))
    with open(log) as file:
        events = json.load(file)["events"]
    urls = {event.get("params", {}).get("url", "") for event in events}
    asked = [url for url in urls if re.match(r"\w+://[^/]", url) and not
             re.sub(r"^\w+://([^/:]*).*", r"\1", url).endswith(BROWSERS_OWN)]
    return text, [line for line in said.splitlines() if "CONSOLE" in line], asked


def after_script(path, script):
    """What a further script at the end of the page leaves in the attribute `data-said` of
    the root element."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path + ".more.html", "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", f"<script>{script}</script></body>"))
    page = Page(rendered(path + ".more.html")[0])
    return page.elements["html"][0].get("data-said")


def screenshot(path, picture, width=1120, height=1400, dark=False, fragment=""):
    run_chromium(f"--screenshot={picture}", f"--window-size={width},{height}",
                 *(["--blink-settings=preferredColorScheme=0"]
                   if dark else ["--blink-settings=preferredColorScheme=1"]),
                 "file://" + os.path.abspath(path) + fragment)
