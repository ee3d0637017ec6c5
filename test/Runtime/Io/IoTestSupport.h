//===- IoTestSupport.h - Shared by the tests of runtime/io ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_IO_IOTESTSUPPORT_H
#define HEDDLE_TEST_RUNTIME_IO_IOTESTSUPPORT_H

#include "heddle/runtime/io/File.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace heddle::io {

/// A directory that lives as long as a test.
class TestDirectory {
public:
  TestDirectory() {
    std::string name = ::testing::TempDir() + "heddle-io-XXXXXX";
    root = mkdtemp(name.data());
  }
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  std::string operator/(const std::string &name) const {
    return root + "/" + name;
  }
  const std::string &path() const { return root; }
  /// Writes a file, making its directory; returns its path.
  std::string write(const std::string &name, const std::string &bytes) const {
    std::filesystem::path file(root + "/" + name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

private:
  std::string root;
};

inline std::string slurp(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// What `function` throws; a diagnostic without code when it throws nothing.
template <typename Function> Diagnostic diagnosticOf(Function function) {
  try {
    function();
  } catch (const UserError &error) {
    return error.diagnostic;
  }
  return {};
}

template <typename Function> std::string codeOf(Function function) {
  return diagnosticOf(function).code;
}

/// The bytes of a little-endian number.
template <typename T> std::string bytesOf(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

/// A safetensors file of a header and data, the length put before them.
inline std::string safetensorsBytes(const std::string &header,
                                    const std::string &data) {
  return bytesOf(uint64_t(header.size())) + header + data;
}

} // namespace heddle::io

#endif // HEDDLE_TEST_RUNTIME_IO_IOTESTSUPPORT_H
