//===- SafetensorsTest.cpp - Tests of safetensors files ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Safetensors.h"
#include "IoTestSupport.h"
#include <cstring>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

TEST(Safetensors, ReadsAHeader) {
  TestDirectory directory;
  std::string file = directory.write(
      "a.safetensors",
      safetensorsBytes(
          "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
          "\"__metadata__\":{\"format\":\"pt\"},"
          "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[16,24]}"
          ","
          "\"none\":{\"dtype\":\"BF16\",\"shape\":[3,0],\"data_offsets\":[24,"
          "24]}"
          "}  ",
          std::string(24, '\1')));
  SafetensorsHeader header = readSafetensorsHeader(file);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(header.tensors[1].numElements(), 1);
  EXPECT_EQ(header.tensors[2].numElements(), 0);
  WeightSet set = openSafetensors(file);
  EXPECT_EQ(set.data(set.at("scalar"))[0], 1);
  EXPECT_EQ(set.tensors().front().name, "b");
  Diagnostic missing = diagnosticOf([&] { set.at("scaler"); });
  EXPECT_EQ(missing.code, "H0335");
  EXPECT_EQ(missing.help, "the nearest name there is \"scalar\"");
  float value;
  EXPECT_EQ(codeOf([&] { set.read(set.at("scalar"), "F32", &value); }),
            "H0336");
}

namespace {
struct BadFile {
  const char *code;
  std::string bytes;
};
/// One tensor "a" with the given fields, and data of `size` bytes.
std::string oneTensor(const std::string &fields, size_t size) {
  return safetensorsBytes("{\"a\":{" + fields + "}}", std::string(size, 0));
}
/// Two F32 tensors of 4 bytes with these offsets.
std::string twoTensors(const std::string &first, const std::string &second,
                       size_t size) {
  return safetensorsBytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
                          "\"data_offsets\":" +
                              first +
                              "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
                              "\"data_offsets\":" +
                              second + "}}",
                          std::string(size, 0));
}
const std::string f32 = "\"dtype\":\"F32\",";
const std::string at04 = "\"data_offsets\":[0,4]";
} // namespace

static std::vector<BadFile> badFraming() {
  return {
      {"H0316", ""},
      {"H0316", "1234567"},
      {"H0317", bytesOf(uint64_t(100000001)) + "{}"},
      {"H0317", bytesOf(~uint64_t(0)) + "{}"},
      {"H0318", bytesOf(uint64_t(3)) + "{}"},
      {"H0319", bytesOf(uint64_t(0))},
      {"H0319", safetensorsBytes(" {}", "")},
      {"H0319", safetensorsBytes("[]", "")},
      {"H0311", safetensorsBytes("{\"a\":", "")},
      {"H0311", safetensorsBytes("{}x", "")},
      {"H0311", safetensorsBytes("{\"\xFF\":1}", "")},
      {"H0312", safetensorsBytes("{\"a\":" + std::string(300, '['), "")},
      {"H0327", safetensorsBytes("{}", "x")},
      {"H0320", safetensorsBytes("{\"__metadata__\":[]}", "")},
      {"H0320", safetensorsBytes("{\"__metadata__\":{\"a\":1}}", "")},
  };
}

static std::vector<BadFile> badTensors() {
  std::string good = f32 + "\"shape\":[1]," + at04;
  return {
      {"H0313", safetensorsBytes("{\"a\":{" + good + "},\"a\":{" + good + "}}",
                                 std::string(4, 0))},
      {"H0313", oneTensor(f32 + good, 4)},
      {"H0314", safetensorsBytes("{\"a\":3}", "")},
      {"H0314", oneTensor("\"dtype\":1,\"shape\":[1]," + at04, 4)},
      {"H0314", oneTensor(f32 + "\"shape\":1," + at04, 4)},
      {"H0314", oneTensor(f32 + "\"shape\":[1.0]," + at04, 4)},
      {"H0314", oneTensor(f32 + "\"shape\":[18446744073709551615]," + at04, 4)},
      {"H0314", oneTensor(f32 + "\"shape\":[1],\"data_offsets\":[0]", 4)},
      {"H0314", oneTensor(f32 + "\"shape\":[1],\"data_offsets\":[0,4,8]", 4)},
      {"H0314", oneTensor(f32 + "\"shape\":[1],\"data_offsets\":[0,\"4\"]", 4)},
      {"H0315", oneTensor(f32 + "\"shape\":[1]", 4)},
      {"H0315", oneTensor("\"shape\":[1]," + at04, 4)},
      {"H0315", oneTensor(f32 + at04, 4)},
      {"H0321", oneTensor("\"dtype\":\"F33\",\"shape\":[1]," + at04, 4)},
      {"H0322", oneTensor(f32 + "\"shape\":[-1]," + at04, 4)},
      {"H0322",
       oneTensor(f32 + "\"shape\":[4294967296,4294967296]," + at04, 4)},
      {"H0322", oneTensor(f32 + "\"shape\":[1152921504606846976]," + at04, 4)},
      {"H0323", oneTensor(f32 + "\"shape\":[2]," + at04, 4)},
      {"H0323", oneTensor(f32 + "\"shape\":[1],\"data_offsets\":[4,0]", 4)},
      {"H0323", oneTensor(f32 + "\"shape\":[1],\"data_offsets\":[-4,0]", 4)},
      {"H0328",
       oneTensor("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]", 1)},
      {"H0324", twoTensors("[0,4]", "[0,4]", 4)},
      {"H0324", twoTensors("[0,4]", "[2,6]", 6)},
      {"H0325", twoTensors("[0,4]", "[5,9]", 9)},
      {"H0325", twoTensors("[1,5]", "[5,9]", 9)},
      {"H0326", twoTensors("[0,4]", "[4,8]", 7)},
      {"H0326", twoTensors("[0,4]", "[4,8]", 0)},
      {"H0327", twoTensors("[0,4]", "[4,8]", 9)},
  };
}

TEST(Safetensors, EveryBreachHasItsCode) {
  TestDirectory directory;
  std::vector<BadFile> cases = badFraming(), more = badTensors();
  cases.insert(cases.end(), more.begin(), more.end());
  for (const BadFile &test : cases) {
    std::string file = directory.write("bad.safetensors", test.bytes);
    Diagnostic diagnostic = diagnosticOf([&] { openSafetensors(file); });
    EXPECT_EQ(diagnostic.code, test.code) << diagnostic.message << "\n"
                                          << test.bytes.substr(0, 300);
    EXPECT_EQ(diagnostic.location.file, file);
    EXPECT_EQ(diagnostic.exitCode(), 3);
    EXPECT_FALSE(diagnostic.help.empty());
    EXPECT_EQ(slurp(file), test.bytes);
  }
  EXPECT_EQ(codeOf([&] { openSafetensors(directory / "absent"); }), "H0310");
}

TEST(Safetensors, WritesWhatTheReferenceWriterWrites) {
  TestDirectory directory;
  float a[2] = {1, 2};
  uint16_t b[3] = {0x3F80, 0, 1};
  int64_t c = 5;
  std::vector<TensorToWrite> tensors = {{"b", "BF16", {3}, b, nullptr},
                                        {"z", "F32", {2}, a, nullptr},
                                        {"a",
                                         "F32",
                                         {1, 2},
                                         nullptr,
                                         [&](const TensorToWrite::Sink &sink) {
                                           sink(&a[0], 4);
                                           sink(&a[1], 4);
                                         }},
                                        {"c", "I64", {}, &c, nullptr},
                                        {"e", "F32", {0}, nullptr, nullptr}};
  std::string path = directory / "out.safetensors";
  WrittenFile written = writeSafetensors(path, tensors);
  std::string bytes = slurp(path);
  std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
      "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[16,16]},"
      "\"z\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string data = bytesOf(c) + bytesOf(a) + bytesOf(a) + bytesOf(b);
  EXPECT_EQ(bytes, safetensorsBytes(header, data));
  EXPECT_EQ(written.bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(written.digest, hexDigest(hashBytes(bytes.data(), bytes.size())));
  WeightSet set = openSafetensors(path);
  float out[3];
  set.read(set.at("b"), "F32", out);
  EXPECT_EQ(out[0], 1.0f);
}

TEST(Safetensors, AnInterruptedWriteLeavesTheOldFile) {
  TestDirectory directory;
  std::string path = directory.write("out.safetensors", "old");
  TensorToWrite tensor{
      "a", "F32", {2}, nullptr, [](const TensorToWrite::Sink &sink) {
        float value = 1;
        sink(&value, 4);
        fail("H0402", "interrupted");
      }};
  EXPECT_EQ(codeOf([&] { writeSafetensors(path, {tensor}); }), "H0402");
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 1u);
}
