//===- Modules.h - What forward functions are composed of -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The modules of models. Each finds its parameters in the family's table of
// weights, under its path: `linear(x, "mlp.c_fc")` has the weight
// `mlp.c_fc.weight` and, where the table has one, the bias `mlp.c_fc.bias`. A
// path in a layer is that within the layer. What a module gives can be kept
// under its path (`--keep`). Rows, tokens, programs and ranks are nobody's
// business here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_MODULES_H
#define HEDDLE_LIB_IMPORT_MODULES_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle::config {

/// A value of the forward function: [rows, tokens, features].
struct Tensor {
  const void *value = nullptr; ///< The builder's.
};

/// Heads of attention, what they see, and where its dropout stands.
struct AttentionShape {
  int64_t heads = 1, kvHeads = 1;
  double scale = 1;
  double dropout = 0;
  std::string dropoutPath = {}; ///< Numbers the random stream.
  bool causal = true;           ///< Keys after the query do not exist for it.
  int64_t window = 0;           ///< So many keys does a query see; 0: all.
  double softcap = 0;           ///< Scores stay within it; 0: they do not.
};

/// Rotary positions, as nn.rotary has them.
struct Rotary {
  enum class Ramp { None, All, Pairs, Rates };
  int64_t dims = 0; ///< Of each head.
  double theta = 10000;
  Ramp ramp = Ramp::None; ///< None: not scaled.
  double factor = 1, low = 0, high = 0, magnitude = 1;
};

class Modules {
public:
  virtual ~Modules() = default;

  /// The ids of the tokens.
  virtual Tensor ids() = 0;
  /// Which of the texts of its row each token belongs to, from 0 on.
  virtual Tensor segments() = 0;
  /// How many tokens each row has; those after them are padding.
  virtual Tensor lengths() = 0;
  /// The numbers of the tokens in their row, the first of which is `first`.
  virtual Tensor positions(const std::string &path, int64_t first = 0) = 0;
  /// The rows of the table at `path`. That of `padding` gets no gradient of
  /// them.
  virtual Tensor embedding(Tensor ids, const std::string &path,
                           std::optional<int64_t> padding = {}) = 0;
  virtual Tensor linear(Tensor x, const std::string &path) = 0;
  virtual Tensor layerNorm(Tensor x, double eps, const std::string &path) = 0;
  /// With `offset` weights are what the table has, plus that.
  virtual Tensor rmsNorm(Tensor x, double eps, const std::string &path,
                         double offset = 0) = 0;
  /// The same of each of the heads side by side in `x`; they share the weight.
  virtual Tensor headNorm(Tensor x, int64_t heads, double eps,
                          const std::string &path) = 0;
  /// Turns the heads side by side in `x`; `path` is of the attention.
  virtual Tensor rotary(Tensor x, Tensor positions, int64_t heads,
                        const Rotary &rotary, const std::string &path) = 0;
  /// An activation by its name in nn.map.
  virtual Tensor activation(Tensor x, const std::string &function,
                            const std::string &path) = 0;
  /// From q, k and v: three values, or one with them side by side. With
  /// `lengths`, no token sees those behind the end of its row.
  virtual Tensor attention(const std::vector<Tensor> &qkv,
                           const AttentionShape &shape, const std::string &path,
                           Tensor lengths = {}) = 0;
  /// `x` where `p` is 0.
  virtual Tensor dropout(Tensor x, double p, const std::string &path) = 0;
  /// The sum; `path` names a module that adds.
  virtual Tensor add(Tensor x, Tensor y, const std::string &path = "") = 0;
  virtual Tensor multiply(Tensor x, Tensor y, const std::string &path) = 0;
  /// `factor` times x, where `factor` has the type of x.
  virtual Tensor scale(Tensor x, double factor, const std::string &path) = 0;
  /// cap tanh(x / cap).
  virtual Tensor softcap(Tensor x, double cap, const std::string &path) = 0;
  /// function(gate_proj(x)) * up_proj(x), and down_proj of that.
  Tensor gatedMlp(Tensor x, const std::string &function,
                  const std::string &path);
  /// Whether there are weights of the head, if the family is of encoders.
  virtual bool hasHead() const = 0;
  /// The logits: a linear with the weight of `weight` and, where the table has
  /// one, the bias of `path`.
  virtual Tensor head(Tensor x, const std::string &weight,
                      const std::string &path) = 0;
  /// Names what a module made of other modules gives.
  virtual Tensor output(Tensor x, const std::string &path) = 0;
  /// Says that `x` is what a model without a head gives: `--mode encode` makes
  /// programs that end there.
  Tensor hidden(Tensor x) { return output(x, "hidden"); }

  /// Layers with the paths `name`.0, `name`.1, ..., one after the other, of as
  /// many kinds as `kinds` has numbers; `body` is called once for each kind.
  virtual Tensor
  layers(const std::string &name, const std::vector<int64_t> &kinds, Tensor x,
         const std::function<Tensor(Tensor, int64_t kind)> &body) = 0;
  /// The same of `count` layers of one kind.
  Tensor layers(const std::string &name, int64_t count, Tensor x,
                const std::function<Tensor(Tensor)> &body);
};

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_MODULES_H
