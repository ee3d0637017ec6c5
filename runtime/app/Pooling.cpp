//===- Pooling.cpp - What the vector of a text is -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Pooling.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Json.h"

using namespace heddle;
using namespace heddle::rt;

[[noreturn]] static void refuse(const io::JsonValue &at,
                                const std::string &message) {
  at.fail("H0398", message,
          "say what the vector is: --pooling mean or cls, and --normalize or "
          "--no-normalize");
}

/// Whether the first token's state is taken, by the flags `pooling_mode_*`.
static bool readMode(const std::string &file) {
  io::JsonValue config = io::parseJsonFile(file, io::modelJsonCodes);
  const std::string prefix = "pooling_mode_";
  std::string mode;
  for (const io::JsonMember &member : config.members()) {
    if (member.key.rfind(prefix, 0) != 0 || !member.value.asBool())
      continue;
    if (!mode.empty())
      refuse(member.value, "vectors of several kinds are put together here");
    mode = member.key.substr(prefix.size());
    if (mode != "cls_token" && mode != "mean_tokens")
      refuse(member.value, "pooling by " + mode + " is not supported");
  }
  if (mode.empty())
    refuse(config, "no pooling_mode is true");
  return mode == "cls_token";
}

/// `modules.json` is the list of what is done one after the other.
static Pooling readModules(const std::string &directory) {
  Pooling pooling;
  io::JsonValue modules =
      io::parseJsonFile(directory + "/modules.json", io::modelJsonCodes);
  bool pools = false;
  for (const io::JsonValue &module : modules.elements()) {
    const std::string &type = module.at("type").asString();
    std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling" && !pools) {
      pooling.takesFirst = readMode(
          directory + "/" + module.at("path").asString() + "/config.json");
      pools = true;
    } else if (kind == "Normalize" && pools) {
      pooling.normalizes = true;
    } else if (kind != "Transformer" || pools) {
      refuse(module, "a module " + type + " is not supported here");
    }
  }
  if (!pools)
    refuse(modules, "no module makes one vector of a text");
  return pooling;
}

Pooling heddle::rt::findPooling(const std::string &directory,
                                const PoolingOptions &options) {
  Pooling pooling;
  bool isSaid = !options.kind.empty() && options.normalizes;
  if (!isSaid && !directory.empty() &&
      io::pathExists(directory + "/modules.json"))
    pooling = readModules(directory);
  if (!options.kind.empty())
    pooling.takesFirst = options.kind == "cls";
  if (options.normalizes)
    pooling.normalizes = *options.normalizes;
  return pooling;
}
