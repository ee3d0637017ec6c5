//===- Modules.h - The building blocks of forward functions -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The modules that a family's forward function calls. A module finds its
// parameters under its path in the family's table of weights: `linear(x,
// "mlp.c_fc")` has the weight `mlp.c_fc.weight` and, if the table has one, the
// bias `mlp.c_fc.bias`. Paths within a layer are relative to it. `--keep` can
// save a module's result under its path. Families know nothing about batches,
// programs or ranks, which the implementation (ForwardBuilder.h) handles.
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
  const void *value = nullptr; ///< A value of the implementation.
};

/// Parameters of attention: heads, mask, and the path that seeds its dropout.
struct AttentionShape {
  int64_t heads = 1, kvHeads = 1;
  double scale = 1;
  double dropout = 0;
  std::string dropoutPath = {}; ///< Selects the random stream.
  bool causal = true;           ///< A query does not see later keys.
  int64_t window = 0;           ///< Number of keys that a query sees; 0: all.
  double softcap = 0;           ///< Bound of scores, by tanh; 0: none.
};

/// Parameters of rotary embeddings, as nn.rotary has them.
struct Rotary {
  enum class Ramp { None, All, Pairs, Rates };
  int64_t dims = 0; ///< Rotated features of each head.
  double theta = 10000;
  Ramp ramp = Ramp::None; ///< None: no scaling.
  double factor = 1, low = 0, high = 0, magnitude = 1;
};

class Modules {
public:
  virtual ~Modules() = default;

  /// The ids of the tokens.
  virtual Tensor ids() = 0;
  /// The number of each token's segment in its row, from 0.
  virtual Tensor segments() = 0;
  /// The number of tokens of each row. Later positions are padding.
  virtual Tensor lengths() = 0;
  /// The positions of the tokens in their rows, counted from `first`.
  virtual Tensor positions(const std::string &path, int64_t first = 0) = 0;
  /// Rows of the embedding table at `path`. The row `padding` gets no gradient.
  virtual Tensor embedding(Tensor ids, const std::string &path,
                           std::optional<int64_t> padding = {}) = 0;
  virtual Tensor linear(Tensor x, const std::string &path) = 0;
  virtual Tensor layerNorm(Tensor x, double eps, const std::string &path) = 0;
  /// An RMS norm whose weight is the table's parameter plus `offset`.
  virtual Tensor rmsNorm(Tensor x, double eps, const std::string &path,
                         double offset = 0) = 0;
  /// An RMS norm of each head. The heads are side by side in `x`, and share the
  /// weight.
  virtual Tensor headNorm(Tensor x, int64_t heads, double eps,
                          const std::string &path) = 0;
  /// Applies rotary embeddings to the heads that are side by side in `x`.
  /// `path` is that of the attention.
  virtual Tensor rotary(Tensor x, Tensor positions, int64_t heads,
                        const Rotary &rotary, const std::string &path) = 0;
  /// Applies the function of nn.map with that name.
  virtual Tensor activation(Tensor x, const std::string &function,
                            const std::string &path) = 0;
  /// Attention over q, k and v: three values, or one with them side by side.
  /// With `lengths`, no token sees padding.
  virtual Tensor attention(const std::vector<Tensor> &qkv,
                           const AttentionShape &shape, const std::string &path,
                           Tensor lengths = {}) = 0;
  /// Returns `x` if `p` is 0.
  virtual Tensor dropout(Tensor x, double p, const std::string &path) = 0;
  /// x + y. With `path`, the sum is the result of the module at that path.
  virtual Tensor add(Tensor x, Tensor y, const std::string &path = "") = 0;
  virtual Tensor multiply(Tensor x, Tensor y, const std::string &path) = 0;
  /// `factor` times x. The factor is rounded to the type of x.
  virtual Tensor scale(Tensor x, double factor, const std::string &path) = 0;
  /// Computes cap tanh(x / cap).
  virtual Tensor softcap(Tensor x, double cap, const std::string &path) = 0;
  /// Computes down_proj(function(gate_proj(x)) * up_proj(x)).
  Tensor gatedMlp(Tensor x, const std::string &function,
                  const std::string &path);
  /// Whether the head has weights; an encoder may have none.
  virtual bool hasHead() const = 0;
  /// The logits: a linear layer with the weight `weight` and, if the table has
  /// one, the bias of `path`.
  virtual Tensor head(Tensor x, const std::string &weight,
                      const std::string &path) = 0;
  /// Names the result of a module that consists of other modules.
  virtual Tensor output(Tensor x, const std::string &path) = 0;
  /// Marks `x` as the result of the model without its head. Programs of `--mode
  /// encode` end there.
  Tensor hidden(Tensor x) { return output(x, "hidden"); }

  /// A sequence of layers with the paths `name`.0, `name`.1, ... `kinds` has a
  /// number for each layer. `body` is called once for each different number.
  virtual Tensor
  layers(const std::string &name, const std::vector<int64_t> &kinds, Tensor x,
         const std::function<Tensor(Tensor, int64_t kind)> &body) = 0;
  /// Adds `count` layers of one kind.
  Tensor layers(const std::string &name, int64_t count, Tensor x,
                const std::function<Tensor(Tensor)> &body);
};

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_MODULES_H
