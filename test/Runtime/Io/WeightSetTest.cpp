//===- WeightSetTest.cpp - Tests of directories of weights ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IoTestSupport.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

/// A file with F32 tensors of one element each.
static std::string fileOf(const std::vector<std::string> &names) {
  std::string header = "{", data;
  for (size_t i = 0; i < names.size(); ++i) {
    header += (i ? ",\"" : "\"") + names[i] +
              "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(4 * i) + "," + std::to_string(4 * i + 4) + "]}";
    data += bytesOf(static_cast<float>(names[i].size()));
  }
  return safetensorsBytes(header + "}", data);
}

static const char *const indexName = "model.safetensors.index.json";

TEST(WeightSet, OpensOneFile) {
  TestDirectory directory;
  std::string file = directory.write("model.safetensors", fileOf({"b", "aaa"}));
  for (const std::string &path : {directory.path(), file}) {
    WeightSet set = openWeights(path);
    ASSERT_EQ(set.tensors().size(), 2u);
    EXPECT_EQ(set.tensors()[0].name, "aaa");
    float value = 0;
    set.read(set.at("aaa"), "F32", &value);
    EXPECT_EQ(value, 3.0f);
    EXPECT_EQ(set.find("c"), nullptr);
  }
}

TEST(WeightSet, OpensShardsThroughLinks) {
  TestDirectory directory;
  directory.write("blobs/1", fileOf({"b"}));
  directory.write("blobs/2", fileOf({"aaa", "extra"}));
  directory.write("hub/note", "");
  fs::create_symlink("../blobs/1", directory / "hub/m-1.safetensors");
  fs::create_symlink("../blobs/2", directory / "hub/m-2.safetensors");
  directory.write(std::string("hub/") + indexName,
                  "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"b\":\"m-"
                  "1.safetensors\",\"aaa\":\"m-2.safetensors\"}}");
  WeightSet set = openWeights(directory / "hub");
  ASSERT_EQ(set.tensors().size(), 3u);
  EXPECT_EQ(set.files().size(), 2u);
  float value = 0;
  set.read(set.at("extra"), "F32", &value);
  EXPECT_EQ(value, 5.0f);
  // The hash does not depend on how the files are called.
  directory.write("flat/x.safetensors", fileOf({"b"}));
  directory.write("flat/w.safetensors", fileOf({"aaa", "extra"}));
  directory.write(std::string("flat/") + indexName,
                  "{\"weight_map\":{\"b\":\"x.safetensors\","
                  "\"aaa\":\"w.safetensors\"}}");
  EXPECT_EQ(openWeights(directory / "flat").headerHash(), set.headerHash());
}

TEST(WeightSet, IndexErrorsHaveACaret) {
  TestDirectory directory;
  directory.write("1.safetensors", fileOf({"a", "b"}));
  directory.write("2.safetensors", fileOf({"b", "c"}));
  struct {
    const char *map, *code;
    int64_t line;
  } cases[] = {
      {"{\n\"a\":\"1.safetensors\",\n\"z\":\"3.safetensors\"}", "H0333", 3},
      {"{\n\"a\":\"../1.safetensors\"}", "H0333", 2},
      {"{\n\"a\":\"1.safetensors\",\n\"z\":\"1.safetensors\"}", "H0334", 3},
      {"{\n\"a\":7}", "H0305", 2},
      {"{\n\"a\":\"1.safetensors\",\n\"a\":\"1.safetensors\"}", "H0304", 3},
      {"{}", "H0331", 1},
      {"{\n\"a\":\"1.safetensors\",\n\"c\":\"2.safetensors\"}", "H0337", 0},
  };
  for (const auto &test : cases) {
    directory.write(indexName,
                    "{\"weight_map\":" + std::string(test.map) + "}");
    Diagnostic diagnostic =
        diagnosticOf([&] { openWeights(directory.path()); });
    EXPECT_EQ(diagnostic.code, test.code) << test.map;
    EXPECT_EQ(diagnostic.location.line, test.line) << test.map;
  }
  directory.write(indexName, "{}");
  EXPECT_EQ(codeOf([&] { openWeights(directory.path()); }), "H0306");
  directory.write(indexName, "{");
  EXPECT_EQ(codeOf([&] { openWeights(directory.path()); }), "H0302");
}

TEST(WeightSet, RefusesWhatItDoesNotLoad) {
  TestDirectory directory;
  EXPECT_EQ(codeOf([&] { openWeights(directory / "absent"); }), "H0330");
  EXPECT_EQ(codeOf([&] { openWeights(directory.path()); }), "H0331");
  std::string pickle = directory.write("pytorch_model.bin", "\x80\x02");
  Diagnostic diagnostic = diagnosticOf([&] { openWeights(directory.path()); });
  EXPECT_EQ(diagnostic.code, "H0332");
  EXPECT_EQ(diagnostic.location.file, pickle);
  EXPECT_NE(diagnostic.help.find("save_pretrained"), std::string::npos);
  EXPECT_EQ(codeOf([&] { openWeights(pickle); }), "H0332");
  directory.write("model-00001-of-00002.safetensors", fileOf({"a"}));
  diagnostic = diagnosticOf([&] { openWeights(directory.path()); });
  EXPECT_EQ(diagnostic.code, "H0333");
  EXPECT_NE(diagnostic.message.find("model-00002-of-00002.safetensors"),
            std::string::npos);
}

TEST(WeightSet, ShardsWithoutAnIndex) {
  TestDirectory directory;
  for (const char *name :
       {"model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"})
    directory.write(name, fileOf({std::string(name).substr(0, 11)}));
  EXPECT_EQ(codeOf([&] { openWeights(directory.path()); }), "H0333");
  directory.write("model-00002-of-00003.safetensors", fileOf({"b", "c"}));
  // The same weights in one file, as Mistral's, are not the model's.
  directory.write("consolidated.safetensors", fileOf({"b"}));
  WeightSet set = openWeights(directory.path());
  EXPECT_EQ(set.tensors().size(), 4u);
  EXPECT_EQ(set.files().size(), 3u);
  directory.write("model-00002-of-00003.safetensors", fileOf({"model-00001"}));
  EXPECT_EQ(codeOf([&] { openWeights(directory.path()); }), "H0337");
}

TEST(WeightSet, FilesOfOtherNames) {
  TestDirectory directory;
  directory.write("adapter_model.safetensors", fileOf({"lora"}));
  directory.write("gptq_model-4bit-128g.safetensors", fileOf({"a"}));
  EXPECT_EQ(openWeights(directory.path()).tensors()[0].name, "a");
  directory.write("gptq_model-4bit-32g.safetensors", fileOf({"a"}));
  Diagnostic diagnostic = diagnosticOf([&] { openWeights(directory.path()); });
  EXPECT_EQ(diagnostic.code, "H0331");
  EXPECT_NE(diagnostic.message.find("gptq_model-4bit-32g.safetensors"),
            std::string::npos);
  // An index by another name says which.
  directory.write("gptq_model-4bit-32g.safetensors.index.json",
                  "{\"weight_map\":{\"a\":"
                  "\"gptq_model-4bit-32g.safetensors\"}}");
  EXPECT_EQ(openWeights(directory.path()).files().size(), 1u);
}

TEST(WeightSet, NamesWithoutWrappers) {
  TestDirectory directory;
  auto namesOf = [&](const std::vector<std::string> &names) {
    std::vector<std::string> found;
    WeightSet set =
        openWeights(directory.write("model.safetensors", fileOf(names)));
    for (const TensorInfo &info : set.tensors())
      found.push_back(info.name);
    return std::make_pair(found, set.wrappers());
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(
      namesOf({"_orig_mod.b", "_orig_mod.layers.0._orig_mod.a"}),
      std::make_pair(Names{"b", "layers.0.a"}, std::string("_orig_mod.")));
  EXPECT_EQ(
      namesOf({"module._orig_mod.z", "module.a"}),
      std::make_pair(Names{"a", "z"}, std::string("_orig_mod., module.")));
  EXPECT_EQ(namesOf({"base_model.model.model.a"}),
            std::make_pair(Names{"model.a"}, std::string("base_model.model.")));
  // A module may be called so inside; two names never become one.
  EXPECT_EQ(namesOf({"a.module.b"}),
            std::make_pair(Names{"a.module.b"}, std::string()));
  EXPECT_EQ(namesOf({"a", "module.a"}),
            std::make_pair(Names{"a", "module.a"}, std::string()));
  // Either name finds the tensor.
  WeightSet set = openWeights(
      directory.write("model.safetensors", fileOf({"module.a", "module.b"})));
  EXPECT_EQ(set.find("module.a"), set.find("a"));
  float value = 0;
  set.read(set.at("a"), "F32", &value);
  EXPECT_EQ(value, 8.0f);
}

TEST(WeightSet, PointersOfGitLfsAreNamed) {
  TestDirectory directory;
  std::string pointer = "version https://git-lfs.github.com/spec/v1\n"
                        "oid sha256:0000000000000000000000000000000000000000"
                        "000000000000000000000000\nsize 988097824\n";
  directory.write("model.safetensors", pointer);
  Diagnostic diagnostic = diagnosticOf([&] { openWeights(directory.path()); });
  EXPECT_EQ(diagnostic.code, "H0379");
  EXPECT_NE(diagnostic.message.find("988097824 bytes"), std::string::npos);
  EXPECT_NE(diagnostic.help.find("git lfs pull"), std::string::npos);
  EXPECT_EQ(diagnostic.location.file, directory / "model.safetensors");
  // So are JSON files, as a tokenizer.json may be.
  std::string json = directory.write("tokenizer.json", pointer);
  EXPECT_EQ(codeOf([&] { parseJsonFile(json, modelJsonCodes); }), "H0379");
}
