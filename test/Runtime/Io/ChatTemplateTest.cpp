//===- ChatTemplateTest.cpp - Chat templates that ask too much ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/ChatTemplate.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

/// What a template renders, or why not.
static std::string shown(const std::string &source,
                         const nlohmann::ordered_json &variables = {
                             {"m", nullptr}}) {
  try {
    return ChatTemplate(source, {"template"}).render(variables);
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0359");
    return error.diagnostic.message;
  }
}

static void expectRefused(const std::string &source, const std::string &why) {
  std::string text = shown(source);
  EXPECT_NE(text.find(why), std::string::npos) << source.substr(0, 200) << "\n"
                                               << text.substr(0, 200);
}

/// A text many times.
static std::string times(size_t count, const std::string &text) {
  std::string all;
  for (size_t i = 0; i < count; ++i)
    all += text;
  return all;
}

static constexpr char tooMuch[] = "does too much",
                      tooDeep[] = "nested too deeply";

TEST(ChatTemplateTest, RefusesWhatTakesTooMuchMemory) {
  const std::string large = "{% set s = 'a' * 1000000 %}";
  expectRefused("{% set n = namespace(s='a') %}{% for i in range(40) %}"
                "{% set n.s = n.s ~ n.s %}{% endfor %}",
                tooMuch);
  expectRefused(large + "{% for i in range(100000) %}{{ s }}{% endfor %}",
                tooMuch);
  expectRefused("{{ [1] | batch(1000000000, 0) }}", tooMuch);
  expectRefused(large + "{{ s.replace('', s) }}", tooMuch);
  expectRefused(large + "{{ range(1000000) | join(s) }}", tooMuch);
  expectRefused(large + "{{ s.join(s) }}", tooMuch);
  expectRefused("{{ ('%1048576d' * 100000) % (1,) }}", "too few values");
  expectRefused("{{ ('{0:1000000}' * 90000).format(1) }}", tooMuch);
  expectRefused("{{ ('\\t' * 1000000).expandtabs(1000) }}", tooMuch);
  expectRefused("{{ 'a' | indent(100000000000, true) }}", "too wide");
  expectRefused("{{ [[1]] | tojson(indent=2000000000) }}", "too wide");
  expectRefused("{{ 'abcdefghijklmnop' * (0x100000000000000 * 256) }}",
                "a number is too large");
  expectRefused("{{ 'abcdefghijklmnop' * 0x100000000000000 }}", "too long");
}

TEST(ChatTemplateTest, RefusesWhatTakesTooLong) {
  expectRefused("{% set n = namespace(x=[]) %}{% for i in range(60) %}"
                "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
                tooMuch);
  expectRefused("{% set n = namespace(x=[], y=[]) %}{% for i in range(60) %}"
                "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}"
                "{% endfor %}{{ n.x == n.y }}",
                tooMuch);
  expectRefused("{% macro f(n) %}{% if n %}{{ (f | d)(n - 1) ~ f(n - 1) }}"
                "{% endif %}{% endmacro %}{{ f(90) }}",
                tooMuch);
  expectRefused("{% for i in range(1000000) if i < 0 %}{% endfor %}" +
                    times(10, "{% for i in range(1000000) if i < 0 %}"
                              "{% endfor %}"),
                tooMuch);
  // These take no longer than their length.
  std::string many(1000000, 'a');
  EXPECT_EQ(shown("{{ m.replace('a', 'bb') | length }}", {{"m", many}}),
            "2000000");
  EXPECT_EQ(shown("{{ 'a' * 1000000 }}"), many);
  nlohmann::ordered_json list(20000, "a");
  EXPECT_EQ(shown("{% for x in m %}{% if m[loop.index0] != x %}-{% endif %}"
                  "{% endfor %}",
                  {{"m", list}}),
            "");
}

TEST(ChatTemplateTest, RefusesWhatIsTooDeep) {
  for (const char *shows : {"{{ n }}", "{{ n | tojson }}", "{{ n == k }}"})
    expectRefused("{% set n = namespace() %}{% set n.n = n %}"
                  "{% set k = namespace() %}{% set k.n = k %}" +
                      std::string(shows),
                  tooDeep);
  expectRefused("{% set a = [] %}{% set b = a.append(a) %}{{ a }}", tooDeep);
  // However deep, it can be taken apart.
  const std::string deep = "{% set n = namespace(x=[]) %}"
                           "{% for i in range(200000) %}"
                           "{% set n.x = [n.x] %}{% endfor %}";
  EXPECT_EQ(shown(deep), "");
  expectRefused(deep + "{{ n.x }}", tooDeep);
  std::string macros;
  for (int i = 0; i < 1000; ++i)
    macros += "{% macro m" + std::to_string(i) + "() %}{{ m" +
              std::to_string((i + 1) % 1000) + "() }}{% endmacro %}";
  expectRefused(macros + "{{ m0() }}", tooDeep);
  nlohmann::ordered_json inner = nlohmann::ordered_json::array();
  for (int i = 0; i < 100000; ++i) {
    nlohmann::ordered_json outer = nlohmann::ordered_json::array();
    outer.push_back(std::move(inner));
    inner = std::move(outer);
  }
  EXPECT_NE(shown("{{ m }}", {{"m", std::move(inner)}}).find(tooDeep),
            std::string::npos);
  for (const char *link :
       {" + 1", " | string", ".a", "[0]", " if 1", " is odd", " or 1"})
    expectRefused("{{ 1" + times(100000, link) + " }}",
                  "an expression is too long");
}

TEST(ChatTemplateTest, ComputesAtTheEndsOfNumbers) {
  const std::string least = "('-9223372036854775808' | int)",
                    most = "('9223372036854775807' | int)";
  EXPECT_EQ(shown("{{ " + least + " is divisibleby(-1) }}"), "True");
  EXPECT_EQ(shown("{{ 'abcdefgh'[5::" + most + "] }}"), "f");
  EXPECT_EQ(shown("{{ 'abcdefgh'[5::" + least + "] }}"), "f");
  expectRefused("{{ " + most + " + 1 }}", "a number is too large");
  expectRefused("{{ " + least + " // -1 }}", "a number is too large");
  expectRefused("{{ 1e300 | int }}", "a number is too large");
  expectRefused("{{ '%d' % 1e300 }}", "a number is too large");
  expectRefused("{{ 'abc' | truncate(100000, leeway=-100000) }}", "leeway");
  EXPECT_EQ(shown("{{ 'abc' | truncate(" + most + ") }}"), "abc");
  EXPECT_EQ(shown("{{ 'a' | indent(-1, true) }}"), "a");
  expectRefused("{{ " + least + " | abs }}", "a number is too large");
  EXPECT_EQ(shown("{{ range(" + most + " - 7, " + most + ", 5) | length }}"),
            "2");
  EXPECT_EQ(shown("{{ 'a b c'.split(none, " + least + ") | length }}"), "3");
  EXPECT_EQ(shown("{{ 'abab'.replace('a', 'b', " + least + ") }}"), "bbbb");
  EXPECT_EQ(shown("{{ 'x'.zfill(" + least + ") }}"), "x");
  EXPECT_EQ(shown("{{ 1e-310 | round(400) > 0 }}"), "True");
  EXPECT_EQ(shown("{{ [{}] | map(attribute='99999999999999999999') | list "
                  "| length }}"),
            "1");
  EXPECT_EQ(shown("{{ strftime_now('%Y' * 1000) }}"), "");
}
