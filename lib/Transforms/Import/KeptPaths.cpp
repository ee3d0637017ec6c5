//===- KeptPaths.cpp - What --keep may name in a model --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeptPaths.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace mlir;
using namespace heddle;

/// The paths of the function's nn.keep operations, in the order of the
/// operations. These paths name the values that `--keep` can dump.
static std::vector<std::string> offersOf(nn::FuncOp layer) {
  std::vector<std::string> paths;
  for (auto keep : layer.getBody().getOps<nn::KeepOp>())
    paths.push_back(keep.getPath().str());
  return paths;
}

KeptPaths::KeptPaths(nn::FuncOp forward)
    : forward(forward), offered(offersOf(forward)) {
  auto model = forward->getParentOfType<nn::ModelOp>();
  SymbolTable symbols(model);
  for (auto call : forward.getBody().getOps<nn::CallOp>())
    calls.push_back(
        {call.getPath().str(), symbols.lookup<nn::FuncOp>(call.getCallee())});
}

std::vector<std::string> KeptPaths::within(StringRef path) const {
  std::vector<std::string> paths = inside.lookup(path);
  llvm::sort(paths);
  return paths;
}

/// Chooses the value with this path for the dump. Returns false if no nn.keep
/// and no call has the path.
bool KeptPaths::add(StringRef path) {
  if (path == "grads")
    return true; // Not a path: shard-partition-states reads it.
  if (path == "logits")
    return logits = true;
  if (llvm::is_contained(offered, path)) {
    outside.insert(path);
    return true;
  }
  for (auto &[call, callee] : calls) {
    StringRef rest = path;
    if (!rest.consume_front(call))
      continue;
    if (rest.empty()) {
      outside.insert(path);
      return true;
    }
    if (!rest.consume_front(".") || !llvm::is_contained(offersOf(callee), rest))
      continue;
    std::vector<std::string> &paths = inside[call];
    if (!llvm::is_contained(paths, rest))
      paths.push_back(rest.str());
    return true;
  }
  return false;
}

LogicalResult KeptPaths::choose(ArrayRef<std::string> keep) {
  for (StringRef path : keep)
    if (!add(path) && !add(path.split('.').second)) {
      reportUnknown(path);
      return failure();
    }
  return success();
}

void KeptPaths::reportUnknown(StringRef path) {
  std::vector<std::string> all = {"logits", "grads"};
  llvm::append_range(all, offered);
  std::string outside = "logits, grads";
  for (const std::string &name : offered)
    outside += ", " + name;
  // To keep the error message about an unknown path short, calls whose paths
  // differ only in the last number become one entry, such as `h.N`.
  llvm::MapVector<StringRef, std::pair<int64_t, nn::FuncOp>> lists;
  for (const auto &[call, callee] : calls) {
    auto [prefix, number] = StringRef(call).rsplit('.');
    auto &[count, layer] = lists[prefix];
    ++count;
    layer = callee;
    if (count <= 64)
      for (const std::string &name : offersOf(callee))
        all.push_back(call + "." + name);
  }
  std::string near = closestMatch(path.str(), all);
  InFlightDiagnostic error = emitError(UnknownLoc::get(forward.getContext()))
                             << "H0118: --keep: the model has no \"" << path
                             << "\"";
  error.attachNote() << "outside the layers: " << outside;
  for (auto &[prefix, list] : lists) {
    auto [count, layer] = list;
    std::string names = (prefix + ".N").str();
    for (const std::string &name : offersOf(layer))
      names += (", " + prefix + ".N." + name).str();
    error.attachNote() << "in the layers (N from 0 to " << count - 1
                       << "): " << names;
  }
  error.attachNote() << "help: "
                     << (near.empty() ? "choose from these"
                                      : "did you mean " + near + "?");
}
