//===- Algorithms.cpp - Cached choices of cuBLASLt ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file that keeps cuBLASLt's algorithms. Its first line is a checksum of
// the other lines. Each other line is for one matrix product: its description,
// and the 64-bit words of cuBLASLt's opaque algorithm structure.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/Algorithms.h"
#include "heddle/runtime/io/File.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle;
using namespace heddle::rt::cuda;
namespace fs = std::filesystem;
using heddle::rt::cublaslt::Algorithm;

/// Returns a text with all properties of a product on which the choice of its
/// algorithm depends. Properties that all products share are not in the text;
/// if one of them changes, the format of the cache file (`form`) must change.
static std::string describe(const plan::LibraryProduct &what) {
  std::ostringstream text;
  text << what.m << 'x' << what.n << 'x' << what.k << '.' << what.transA
       << what.transB << '.' << int(what.type) << '.' << int(what.result) << '.'
       << (what.c >= 0) << (what.bias >= 0) << (what.aux >= 0)
       << (what.sumA >= 0) << (what.sumB >= 0) << '.' << int(what.end) << '.'
       << what.tf32 << '.' << what.workspaceBytes << '.' << what.lda << '.'
       << what.ldb << '.' << what.ldc << '.' << what.ldd << '.' << what.ldaux;
  return text.str();
}
static constexpr const char *form = "heddle-cublaslt-1";

static uint64_t checksum(const std::string &text) {
  return XXH3_64bits(text.data(), text.size());
}

Algorithms::Algorithms(const std::string &directory, const std::string &gpu,
                       const std::string &version) {
  if (directory.empty())
    return;
  std::string name = "cublaslt-" + gpu + "-" + version;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.')
      c = '-';
  path = (fs::path(directory) / name).string();
  read();
}

void Algorithms::read() {
  std::ifstream file(path, std::ios::binary);
  std::string first, word;
  uint64_t sum = 0;
  if (!std::getline(file, first))
    return;
  std::istringstream header(first);
  if (!(header >> word >> std::hex >> sum) || word != form)
    return;
  std::string rest((std::istreambuf_iterator<char>(file)), {});
  if (checksum(rest) != sum)
    return;
  std::istringstream lines(rest);
  lines >> std::hex;
  while (lines >> word) {
    Algorithm algorithm;
    for (uint64_t &part : algorithm.data)
      lines >> part;
    if (lines)
      chosen[word] = algorithm;
  }
}

std::optional<Algorithm>
Algorithms::find(const plan::LibraryProduct &what) const {
  auto found = chosen.find(describe(what));
  if (found == chosen.end())
    return std::nullopt;
  return found->second;
}

void Algorithms::set(const plan::LibraryProduct &what,
                     const Algorithm &algorithm) {
  chosen[describe(what)] = algorithm;
  isNew = true;
}

void Algorithms::save() {
  if (!isNew || path.empty())
    return;
  isNew = false;
  std::ostringstream lines;
  lines << std::hex;
  for (const auto &[product, algorithm] : chosen) {
    lines << product;
    for (uint64_t part : algorithm.data)
      lines << ' ' << part;
    lines << '\n';
  }
  std::ostringstream header;
  header << form << ' ' << std::hex << checksum(lines.str()) << '\n';
  std::string text = header.str() + lines.str();
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  try {
    // The file is replaced atomically, since other ranks may be reading it or
    // writing the same content.
    io::OutputFile file(path);
    file.write(text.data(), int64_t(text.size()));
    file.commit(/*isDurable=*/false);
  } catch (const UserError &) {
    // Ignore a failed write: without the file the next run only asks the
    // library again.
  }
}
