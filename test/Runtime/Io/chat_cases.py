"""Templates for what Jinja has beside expressions, and the methods of texts."""

TEMPLATES = r"""{{ 1, 2 }}|{% set x = 1, "a" %}{{ x }}|{% for a, (b, c) in [[1, [2, 3]], [4, (5, 6)]] %}{{ a ~ b ~ c }},{% endfor %}|{% for x in 1, 2 %}{{ x }}{% endfor %}
{% macro m(a, b=2) %}[{{ a }},{{ b }},{{ varargs }},{{ kwargs }}]{% endmacro %}{{ m() }}{{ m(1, 2, 3, 4, z=5, y=none) }}{{ m(b=1, c=2) }}{{ m(*[1, 2, 3], **{"k": 4}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{% call m(1) %}x{% endcall %}
{% macro m(a) %}<{{ a }}{{ caller(a, 2) if caller }}>{% endmacro %}{{ m(0) }}{% call(x, y=3) m(7) %}{{ x + y }}{% endcall %}{% call(x, y=3) m(bos_token) -%}  {{ x ~ y ~ eos_token }}{% endcall %}
{% macro list(items) %}<ul>{% for i in items %}<li>{{ caller(i) }}</li>{% endfor %}</ul>{% endmacro %}{% call(i) list([1, 2]) %}{{ i * 2 }}{% endcall %}
{% for x in [{"n": 1, "c": [{"n": 2, "c": [{"n": 3}]}]}, {"n": 4}] recursive %}{{ loop.depth }}{{ loop.depth0 }}:{{ x.n }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% if not loop.last %};{% endif %}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{{ loop.changed(x, 1) }}{% endfor %}
{% for x in [1, 2, 3] %}{{ loop.cycle("a", "b") }}{{ loop.previtem | default("-") }}{{ loop.nextitem | default("-") }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }}{{ loop.first }}{{ loop.last }} {% endfor %}
{% with a = 1, b = 2 %}{{ a + b }}{% with %}{% set a = 5 %}{{ a }}{% endwith %}{{ a }}{% endwith %}{{ a is defined }}
{% set a = 3 %}{% with a = 4, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter upper | trim %} a{{ bos_token }}b {% endfilter %}|{% filter replace("a", "b") %}banana{% endfilter %}
{% set x | upper | replace("B", "-") %}abc{% endset %}{{ x }}|{% set y %}{% set z = 1 %}a{% endset %}{{ y }}{{ z is defined }}
{% raw %}{{ a }} {% if %} {# c #}{% endraw %}|  {%- raw -%}  {{ b }}  {%- endraw -%}  |{% raw %}¶x¶  {% endraw %}¶y{% raw %}{%{% endraw %}
{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}
{% generation %}a{{ 1 }}{% endgeneration %}b
a{% raw %}¶x {{ y }}¶  {% endraw %}¶y  {% raw %}¶ z¶ {%+ endraw +%}¶.
{% raw +%}{% endraw %}
{% raw %}x
{{ 0x1G }}
{% set ns = namespace(a=1) %}{% for x in [1, 2] %}{% set ns.a = ns.a + x %}{% set ns.b = (1, x) %}{% endfor %}{{ ns.a }}{{ ns.b }}
{% for k, v in {"b": 1, "a": {"c": 2}}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {"b": 1, "a": 2} %}{{ k }}{% endfor %}
{{ strftime_now("%Y") | length }}|{{ dict(z=1, a=2) }}|{{ dict(z=1, a=2) | tojson }}|{{ namespace(b=1).b }}
{% if messages, 1 %}a{% endif %}{{ "a" if () else "b" }}
{{ [1, 2, 3, 4, 5, 6, 7] | batch(3) | list }}|{{ [1, 2, 3, 4, 5, 6, 7] | batch(3, "-") | list }}|{{ [] | batch(3) | list }}|{{ "abcd" | batch(3, none) | list }}
{{ [1, 2, 3, 4, 5, 6, 7] | slice(3) | list }}|{{ [1, 2, 3, 4, 5, 6, 7] | slice(3, "-") | list }}|{{ [1] | slice(3) | list }}
{% for g in [{"r": "b", "n": 1}, {"r": "A", "n": 2}, {"r": "B", "n": 3}, {"n": 4}] | groupby("r", default="z") %}{{ g.grouper }}:{{ g.list | map(attribute="n") | join(",") }};{% endfor %}|{% for k, v in [[1, 2], [0, 3], [1, 4]] | groupby(0) %}{{ k }}={{ v }} {% endfor %}|{{ [{"a": {"b": 1}}] | groupby("a.b") }}
{% for k, v in [{"r": "b"}, {"r": "B"}, {"r": "a"}] | groupby("r", case_sensitive=true) %}{{ k }}{{ v }}{% endfor %}
{{ [1, 2.5, true] | sum }}|{{ [] | sum }}|{{ [{"n": 1}, {"n": 2}] | sum("n") }}|{{ [{"n": 1}] | sum(attribute="n", start=10) }}|{{ [[1], [2]] | sum(start=[]) }}
{{ "one two three four" | truncate(9) }}|{{ "one two three four" | truncate(12, false, "") }}|{{ "one two three four" | truncate(11, true) }}|{{ "one two three" | truncate(11, leeway=0) }}|{{ "abcdefgh" | truncate(5, leeway=0) }}
{{ "one, two_three  4-five é" | wordcount }}|{{ "" | wordcount }}|{{ "x" | center(6) }}|{{ "x" | center | length }}|{{ "%s=%05.1f" | format("a", 2.25) }}|{{ "%(k)s" | format(k=1) }}
{{ "a b/c?d=é&" | urlencode }}|{{ {"a b": "c/d", "e": 1} | urlencode }}|{{ [("x", "y z")] | urlencode }}|{{ "abc" | attr("upper") is callable }}|{{ {"a": 1} | attr("a") is defined }}|{{ "<" | forceescape }}
{{ "trim" is filter }}{{ "trimm" is filter }}{{ "odd" is test }}{{ "abc" is lower }}{{ "Abc" is lower }}{{ "ABC" is upper }}{{ none is sameas none }}{{ 1 is sameas true }}{{ true is sameas true }}{{ 1 is ge 1 }}{{ 2 is le(1) }}{{ 2 is greaterthan 1 }}{{ 2 is lessthan 1 }}{{ "a" is escaped }}
{{ [1, 2, 3, 4] | select(">", 2) | list }}{{ [1, 2, 3, 4] | reject("<=", 2) | list }}{{ [{"a": 1}, {"a": 2}] | selectattr("a", "!=", 1) | list }}{{ [{"a": 1}] | map(attribute="b", default="-") | list }}{{ [{"a": [1]}, {}] | selectattr("a", "defined") | list }}{{ ["a", "b"] | map("replace", "a", "c") | list }}
{{ {"a": 1}.copy() }}{{ [1, 2, 1].count(1) }}{{ [1, 2].index(2) }}{{ [1].copy() }}{{ (1, 2).index(2) }}{{ (1,) + (2,) }}{{ (1, 2) * 2 }}{{ 2 * [1] }}{{ 3 * "ab" }}{{ (1, 2) == [1, 2] }}{{ (1, 2) == (1, 2) }}
{{ [1].index(2) }}
{{ [1] + (2,) }}
{{ "abc"[true] }}{{ "abc"[false] }}{{ [1, 2][true] }}{{ (1, 2)[false] }}{{ "abc"[-true] }}{{ "abc"[true:] }}
{{ "{:>5}|{:<5}|{:^5}|{:*^7}|{:5}|{:.2}|{:>5.1}|{:é>3}".format("a", "b", "c", "d", "e", "abc", "abc", "x") }}
{{ "{:5}|{:05}|{:+}|{: }|{:,}|{:_}|{:x}|{:X}|{:#x}|{:b}|{:o}|{:08.3f}|{:d}".format(42, 42, 42, 42, 1234567, 1234567, 255, 255, 255, 5, 8, 3.14159, true) }}
{{ "{:.2f}|{:e}|{:g}|{:%}|{:.1%}|{:10.3f}|{:<8}|{}|{:.3}|{:,.2f}|{:f}|{:+.1f}|{:G}".format(2.675, 12345.678, 0.0001, 0.25, 0.255, 3.14159, 1.5, 1e20, 1234.5, 1234567.891, 3, -0.05, 1e-10) }}
{{ "{0}{1}{0}|{a}|{l[1]}|{{}}|{2!r}|{1!s:>4}|{0:{w}}".format("x", "y", "z'", a=1, l=[1, 2], w=4) }}|{{ "{d[k]}{d[k]:>3}".format(d={"k": 1}) }}|{{ "{}{}".format(none, [1]) }}
{{ "{} {}".format(1) }}
{{ "{x}".format(1) }}
{{ "{} {0}".format(1) }}
{{ "{:d}".format("a") }}
{{ "{:>3}".format(none) }}
{{ "}".format() }}
{{ "%s|%5s|%-5s|%.2s|%r|%d|%5d|%-5d|%05d|%+d|% d|%x|%X|%o|%#x|%c|%%" % ("a", "b", "c", "def", "g'", 4, 5, 6, 7, 8, 9, 255, 255, 8, 255, "h") }}
{{ "%f|%.1f|%8.2f|%-8.2f|%e|%g|%08.3f|%d|%s|%s|%s" % (1.5, 2.25, 3.14159, 2.5, 12345.678, 0.0001, -3.14159, 3.99, none, [1, "a"], {"k": 1}) }}
{{ "%(a)s-%(b)03d" % {"a": 1, "b": 2} }}|{{ "%s" % 1 }}|{{ "%s" % "x" }}|{{ "no" % {} }}|{{ "%s" % [1, 2] }}
{{ "%s %s" % "a" }}
{{ "%d" % "a" }}
{{ "a" % "b" }}
{{ "%s" % (1, 2) }}
{{ "ab" ~ 5 % 3 }}|{{ 0x1F + 0b11 + 0o17 + 1_000 }}|{{ 1e2 }}
{{ 1e16 }}|{{ 1e-5 }}|{{ 1e20 }}|{{ 123456789012345678.0 }}|{{ 0.0001 }}|{{ 1.5e300 * 1.0 }}|{{ 7.0 // 2 }}|{{ 5e-324 }}|{{ 100000.0 }}
{{ "a" * "b" }}
{{ "x" | filesize }}
{{ "x".frob() }}"""

TEXTS = ["", "a", "abc", "Hello World", "they're bill's", " a  b ", "A-b_c 1", "ÀÉ ß", "-42",
         "+7", "12", "²", "½", "x\ty\n", "a,b,,c", "世界 hi", "ΑΣ ΑΣ.", "ǆ ǅ", "Ünï", "aXbXc",
         "\u00a0", "\x1c", "日本\n語\r\n", "ABC DEF", "Abc_1", "1a"]
METHODS = """capitalize() casefold() center(9) center(4,"*") count("a") count("") count("b",1)
count("c",0,-1) endswith("c") endswith(("b","c")) endswith("b",0,2) expandtabs() expandtabs(3)
find("b") find("b",2) find("",9) find("X",-3) isalnum() isalpha() isascii() isdecimal() isdigit()
isidentifier() islower() isnumeric() isprintable() isspace() istitle() isupper() join(["1","2"])
join("xyz") ljust(5) ljust(5,"é") lower() lstrip() lstrip("a-") partition("b") partition(",")
removeprefix("a") removesuffix("c") replace("a","é") replace("","-") replace("","-",2)
replace("X","",1) rfind("X") rfind("a",1) rjust(5) rjust(6,"0") rpartition("X") rpartition(",")
rsplit() rsplit(none,1) rsplit(",",1) rsplit("X") rstrip() rstrip("c") split() split(none,1)
split(",") split("X",1) splitlines() splitlines(true) startswith("a") startswith("b",1)
startswith("",5) strip() strip("ac") swapcase() title() upper() zfill(5) zfill(1)""".split()


def cases():
    """Names, templates, and what these need beside a conversation."""
    for line in TEMPLATES.split("\n"):
        yield line, line.replace("¶", "\n"), {}
    for method in METHODS:
        yield ("text." + method, "{% for text in texts %}{{ [text." + method + "] }}\n{% endfor %}",
               {"texts": TEXTS})
    for method in ("index", "rindex"):
        for text in ("abca", "b"):
            yield (f"{text}.{method}", "{{ text." + method + "('a') }}", {"text": text})
