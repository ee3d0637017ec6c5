//===- JsonTest.cpp - Tests of the JSON front end ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Json.h"
#include "IoTestSupport.h"
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

static JsonValue parse(const std::string &text) {
  return parseJson(text, {"ds.json", configJsonCodes, true});
}

/// `line:column` of a value.
static std::string place(const SourceLocation &location) {
  return std::to_string(location.line) + ":" + std::to_string(location.column);
}

TEST(Json, KnowsWhereEverythingStands) {
  JsonValue root =
      parse("{\n  \"a\" : [1, -2.5e3,\n \"x\\\"]\" ,true],\n"
            "\t\"b\":{\"c\":null , \"d\":{}, \"e\":[]}\n, \"f\": 7}");
  EXPECT_EQ(place(root.location()), "1:1");
  const std::vector<JsonMember> &members = root.members();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(place(members[0].keyLocation()), "2:3");
  EXPECT_EQ(place(members[0].value.location()), "2:9");
  const std::vector<JsonValue> &a = root.at("a").elements();
  ASSERT_EQ(a.size(), 4u);
  EXPECT_EQ(place(a[0].location()), "2:10");
  EXPECT_EQ(place(a[1].location()), "2:13");
  EXPECT_EQ(place(a[2].location()), "3:2");
  EXPECT_EQ(a[2].asString(), "x\"]");
  EXPECT_EQ(place(a[3].location()), "3:10");
  EXPECT_EQ(place(root.at("b").at("c").location()), "4:11");
  EXPECT_EQ(place(root.at("b").at("e").location()), "4:30");
  EXPECT_EQ(place(members[2].keyLocation()), "5:3");
  EXPECT_EQ(place(root.at("f").location()), "5:8");
  EXPECT_EQ(root.at("b").at("c").path(), "b.c");
  EXPECT_EQ(a[1].path(), "a[1]");
}

TEST(Json, ReadsValues) {
  JsonValue root =
      parse("\xEF\xBB\xBF{\"i\":-3,\"f\":0.1,\"big\":5e8,\"t\":true,\"n\":null,"
            "\"s\":\"\\u00e9\",\"max\":9223372036854775807,\"u\":1e300}");
  EXPECT_EQ(root.at("i").asInteger(), -3);
  EXPECT_EQ(root.at("i").asNumber(), -3.0);
  EXPECT_EQ(root.at("f").asNumber(), 0.1);
  EXPECT_EQ(root.at("big").asInteger(), 500000000);
  EXPECT_EQ(root.at("max").asInteger(), INT64_MAX);
  EXPECT_EQ(root.at("s").asString(), "é");
  EXPECT_EQ(place(root.at("i").location()), "1:6");
  EXPECT_EQ(root.integerOr("n", 4), 4);
  EXPECT_EQ(root.integerOr("absent", 5), 5);
  EXPECT_EQ(root.numberOr("f", 1), 0.1);
  EXPECT_EQ(root.stringOr("absent", "x"), "x");
  EXPECT_TRUE(root.boolOr("t", false));
  EXPECT_EQ(root.findNonNull("n"), nullptr);
  EXPECT_TRUE(root.find("n")->isNull());
  EXPECT_EQ(root.toJson(), nlohmann::json::parse(root.toJson().dump()));
  EXPECT_EQ(codeOf([&] { root.at("u").asInteger(); }), "H0105");
}

TEST(Json, TypeErrorsNameTheKeyAndBothTypes) {
  JsonValue root = parse("{\"optimizer\": {\n\"lr\": \"fast\", \"n\": 1.5}}");
  Diagnostic diagnostic =
      diagnosticOf([&] { root.at("optimizer").at("lr").asNumber(); });
  EXPECT_EQ(diagnostic.code, "H0105");
  EXPECT_EQ(diagnostic.message,
            "\"optimizer.lr\" must be a number, not the string \"fast\"");
  EXPECT_EQ(diagnostic.help, "give a number, without quotation marks");
  EXPECT_EQ(diagnostic.location.file, "ds.json");
  EXPECT_EQ(place(diagnostic.location), "2:7");
  EXPECT_EQ(diagnosticOf([&] {
              root.at("optimizer").at("lr").failType("a number or \"auto\"");
            }).help,
            "give a number, without quotation marks, or \"auto\"");
  EXPECT_EQ(
      diagnosticOf([&] { root.at("optimizer").integerOr("n", 1); }).message,
      "\"optimizer.n\" must be an integer, not the number 1.5");
  EXPECT_EQ(codeOf([&] { root.at("optimizer").asBool(); }), "H0105");
  EXPECT_EQ(codeOf([&] { root.elements(); }), "H0105");
  EXPECT_EQ(codeOf([&] { root.at("optimizer").at("n").members(); }), "H0105");
  Diagnostic missing = diagnosticOf([&] { root.at("optimizer").at("eps"); });
  EXPECT_EQ(missing.code, "H0106");
  EXPECT_EQ(missing.message, "the key \"eps\" is missing in \"optimizer\"");
  EXPECT_EQ(place(missing.location), "1:15");
}

TEST(Json, DuplicateKeysAreErrors) {
  Diagnostic diagnostic =
      diagnosticOf([] { parse("{\"a\":1,\n \"b\":{\"a\":2},\n  \"a\":3}"); });
  EXPECT_EQ(diagnostic.code, "H0104");
  EXPECT_EQ(place(diagnostic.location), "3:3");
  // Escapes spell the same key.
  EXPECT_EQ(codeOf([] { parse("{\"a\":1,\"\\u0061\":2}"); }), "H0104");
}

TEST(Json, SyntaxErrorsPointAtTheCulprit) {
  struct {
    const char *text, *place, *help;
  } cases[] = {
      {"{\n \"a\": 1\n \"b\": 2}", "3:2", "is a comma missing before this?"},
      {"{\"a\": 1,,\n}", "2:1", "remove the comma before this bracket"},
      {"[1, 2,, ]", "1:9", "remove the comma before this bracket"},
      {"{,}", "1:3", "remove the comma before this bracket"},
      {"{a: 1}", "1:2", "put the key in double quotation marks"},
      {"{\"a\": [1, 2", "1:12", "the text ends too early: close what is open"},
      {"{\"a\": \"bc", "1:10", "the text ends too early: close what is open"},
      {"{\"ab", "1:5", "the text ends too early: close what is open"},
      {"", "1:1", "the text ends too early: close what is open"},
      {"{\n/* why\n\"a\": 1}", "2:1", "the comment has no end: add */"},
      {"{'a': 1}", "1:2", "write strings in double quotation marks"},
      {"{\"a\": tru}", "1:7", "mend the syntax here"},
      {"{\"a\": 01}", "1:8", "is a comma missing before this?"},
      {"{\"a\": 1} x", "1:10", "mend the syntax here"},
      {"{\"a\": 1e999}", "1:7", "mend the syntax here"},
      {"{\"a\": NaN}", "1:7", "mend the syntax here"},
      {"{\"a\": \"x\ny\"}", "1:9", "mend the syntax here"},
      {"{\"a\": \"\xFF\"}", "1:8", "save the file as UTF-8"},
      {"{\"\xFF\": 1}", "1:3", "save the file as UTF-8"},
      {"{\"a\": 1 /* why", "1:9", "the comment has no end: add */"},
      {"{, \"a\": 1}", "1:4", "remove the comma before this"},
  };
  for (const auto &test : cases) {
    Diagnostic diagnostic = diagnosticOf([&] { parse(test.text); });
    EXPECT_EQ(diagnostic.code, "H0102") << test.text;
    EXPECT_EQ(place(diagnostic.location), test.place) << test.text << "\n"
                                                      << diagnostic.message;
    EXPECT_EQ(diagnostic.help, test.help) << test.text << "\n"
                                          << diagnostic.message;
  }
}

TEST(Json, WhatPeopleWriteMayHaveCommentsAndLastCommas) {
  JsonValue root = parse("# one\n{ // two\n  \"a\": [1, /* ],\n */ 2,],\n"
                         "  \"b\": \"no // comment, # here }\", # three\n"
                         "  \"c\": {\"d\": \"\\\"/*\", },}\n// four");
  EXPECT_EQ(root.at("a").elements().size(), 2u);
  EXPECT_EQ(root.at("b").asString(), "no // comment, # here }");
  EXPECT_EQ(root.at("c").at("d").asString(), "\"/*");
  EXPECT_EQ(place(root.at("a").elements()[1].location()), "4:5");
  EXPECT_EQ(place(root.at("b").location()), "5:8");
  // Files that programs write are JSON.
  for (const char *text : {"{\n// why\n\"a\": 1}", "[1, 2, ]", "# x\n{}"})
    EXPECT_EQ(codeOf([&] {
                parseJson(text, {"m.json", modelJsonCodes, true});
              }),
              "H0302")
        << text;
}

TEST(Json, DuplicateKeysCanBeCollected) {
  std::vector<Diagnostic> found;
  JsonValue root =
      parseJson("{\"a\":1,\n \"b\":{\"c\":2, \"c\":4},\n  \"a\":3}",
                {"ds.json", configJsonCodes, true}, &found);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].code, "H0104");
  EXPECT_EQ(place(found[0].location), "2:14");
  EXPECT_EQ(place(found[1].location), "3:3");
  EXPECT_EQ(root.at("a").asInteger(), 1);
}

TEST(Json, DepthIsLimited) {
  EXPECT_EQ(codeOf([] { parse(std::string(100000, '[')); }), "H0103");
  parse(std::string(200, '[') + std::string(200, ']'));
  EXPECT_EQ(codeOf([] {
              parse(std::string(201, '[') + "1" + std::string(201, ']'));
            }),
            "H0103");
}

TEST(Json, FilesCarryTheirCodes) {
  TestDirectory directory;
  std::string file = directory.write("config.json", "{\"n_embd\": \"x\"}");
  JsonValue root = parseJsonFile(file, modelJsonCodes);
  Diagnostic diagnostic = diagnosticOf([&] { root.integerOr("n_embd", 1); });
  EXPECT_EQ(diagnostic.code, "H0305");
  EXPECT_NE(diagnostic.format().find("^"), std::string::npos);
  EXPECT_EQ(
      codeOf([&] { parseJsonFile(directory / "absent.json", modelJsonCodes); }),
      "H0301");
  EXPECT_EQ(codeOf([&] {
              parseJsonFile(directory / "absent.json", configJsonCodes);
            }),
            "H0101");
}
