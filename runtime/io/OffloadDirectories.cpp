//===- OffloadDirectories.cpp - Directories of offload files --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/OffloadDirectories.h"

#include <algorithm>
#include <filesystem>

using namespace heddle;
using namespace heddle::io;

/// A `--swap-dir` value is a list, separated by commas, of `path` or
/// `role=path`. `part` is one element of this list. Returns the entry of
/// `directories` that the element sets, or null for an unknown role, and
/// removes `role=` from `part`. If there is a slash before the first `=`, the
/// whole element is a path.
static std::string *placeOf(OffloadDirectories &directories,
                            std::string &part) {
  size_t equals = std::min(part.find('='), part.size());
  if (equals == part.size() || part.find('/') < equals)
    return &directories.all;
  auto role = plan::parseName<plan::FileRole>(part.substr(0, equals));
  part.erase(0, equals + 1);
  return role ? &directories.own[*role] : nullptr;
}

std::string io::plainDirectory(const std::string &directory) {
  std::filesystem::path plain;
  for (const std::filesystem::path &part : std::filesystem::path(directory))
    if (!part.empty() && part != ".")
      plain /= part;
  return plain.empty() ? "." : plain.string();
}

std::optional<OffloadDirectories>
OffloadDirectories::parse(const std::string &text) {
  OffloadDirectories directories;
  if (text.empty())
    return directories;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    std::string *place = placeOf(directories, part);
    if (!place || part.empty() || !place->empty())
      return std::nullopt;
    *place = plainDirectory(part);
    begin = end + 1;
  }
  return directories;
}

std::string OffloadDirectories::text() const {
  // Write `./` before a path that contains `=`: `parse` would take the text
  // before `=` for a role.
  std::string text = all.find('=') < all.find('/') ? "./" + all : all;
  for (plan::FileRole role : plan::fileRoles)
    if (!own[role].empty() && own[role] != all)
      text += (text.empty() ? "" : ",") + std::string(plan::nameOf(role)) +
              "=" + own[role];
  return text;
}

void OffloadDirectories::take(const OffloadDirectories &stronger) {
  if (!stronger.all.empty())
    *this = stronger;
  for (plan::FileRole role : plan::fileRoles)
    if (!stronger.own[role].empty())
      own[role] = stronger.own[role];
}

ValueRange io::swapDirectoriesRange() {
  return ValueRange::matching(
      "a directory, or several by role (optimizer, parameters, gradients, "
      "activations), as /mnt/a,parameters=/mnt/b",
      [](const std::string &text) {
        return !text.empty() && OffloadDirectories::parse(text);
      });
}
