//===- Modules.cpp - Modules made of modules ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the modules of a neural network that only call other modules.
//
//===----------------------------------------------------------------------===//

#include "Modules.h"

using namespace heddle::config;

Tensor Modules::layers(const std::string &name, int64_t count, Tensor x,
                       const std::function<Tensor(Tensor)> &body) {
  return layers(name, std::vector<int64_t>(count, 0), x,
                [&](Tensor y, int64_t) { return body(y); });
}

Tensor Modules::gatedMlp(Tensor x, const std::string &function,
                         const std::string &path) {
  Tensor gate = linear(x, path + ".gate_proj");
  gate = activation(gate, function, path + ".act_fn");
  Tensor inner = multiply(gate, linear(x, path + ".up_proj"), path);
  return output(linear(inner, path + ".down_proj"), path);
}
