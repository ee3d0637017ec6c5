//===- Modules.h - The building blocks of forward functions -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The modules that a family's forward function calls. A module finds its
// parameters by its path in the family's table of weights: `linear(x,
// "mlp.c_fc")` has the weight `mlp.c_fc.weight` and, if the table has one, the
// bias `mlp.c_fc.bias`. Paths within a layer are relative to the layer.
// `--keep` can save a module's result under its path. Families know nothing
// about batches, programs or ranks: the implementation (ForwardBuilder.h)
// handles these.
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

/// Parameters of attention: its heads, its mask, and the path from which the
/// seed of its dropout is made.
struct AttentionShape {
  int64_t heads = 1, kvHeads = 1;
  double scale = 1;
  double dropout = 0;
  std::string dropoutPath = {}; ///< The path that seeds dropout.
  bool causal = true;           ///< A query does not see later keys.
  int64_t window = 0;           ///< Number of keys that a query sees; 0: all.
  double softcap = 0;           ///< Bound of scores, by tanh; 0: none.
};

/// Parameters of rotary embeddings. The operation nn.rotary has the same ones.
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
  /// The token type (segment, as in BERT) of each token: the index, from 0 on,
  /// of the sentence to which the token belongs within its row.
  virtual Tensor segments() = 0;
  /// The number of tokens of each row. The positions after these tokens are
  /// padding.
  virtual Tensor lengths() = 0;
  /// The position of each token in its row. The first token has the position
  /// `first`.
  virtual Tensor positions(const std::string &path, int64_t first = 0) = 0;
  /// Looks up rows of the embedding table at `path`, one for each id. The
  /// table's row with the index `padding` gets no gradient.
  virtual Tensor embedding(Tensor ids, const std::string &path,
                           std::optional<int64_t> padding = {}) = 0;
  virtual Tensor linear(Tensor x, const std::string &path) = 0;
  virtual Tensor layerNorm(Tensor x, double eps, const std::string &path) = 0;
  /// An RMS norm. The normalized values are multiplied by w + `offset`, where w
  /// is the parameter at `path`.
  virtual Tensor rmsNorm(Tensor x, double eps, const std::string &path,
                         double offset = 0) = 0;
  /// An RMS norm of each head separately. The heads are side by side in `x`,
  /// and all have the same weight.
  virtual Tensor headNorm(Tensor x, int64_t heads, double eps,
                          const std::string &path) = 0;
  /// Applies rotary embeddings to each of the heads that are side by side in
  /// `x`. `path` is the path of the attention module.
  virtual Tensor rotary(Tensor x, Tensor positions, int64_t heads,
                        const Rotary &rotary, const std::string &path) = 0;
  /// Applies an activation function. `function` is its name in nn.map.
  virtual Tensor activation(Tensor x, const std::string &function,
                            const std::string &path) = 0;
  /// Attention over q, k and v. `qkv` has three values, or one value with q, k
  /// and v side by side. If `lengths` is given, no token sees padding.
  virtual Tensor attention(const std::vector<Tensor> &qkv,
                           const AttentionShape &shape, const std::string &path,
                           Tensor lengths = {}) = 0;
  /// Applies dropout with probability `p`. Returns `x` unchanged if `p` is 0.
  virtual Tensor dropout(Tensor x, double p, const std::string &path) = 0;
  /// Returns x + y. If `path` is given, the sum is the result of the module at
  /// that path.
  virtual Tensor add(Tensor x, Tensor y, const std::string &path = "") = 0;
  virtual Tensor multiply(Tensor x, Tensor y, const std::string &path) = 0;
  /// Returns `factor` times x. The factor is rounded to the type of x.
  virtual Tensor scale(Tensor x, double factor, const std::string &path) = 0;
  /// Computes cap tanh(x / cap).
  virtual Tensor softcap(Tensor x, double cap, const std::string &path) = 0;
  /// Computes down_proj(function(gate_proj(x)) * up_proj(x)).
  Tensor gatedMlp(Tensor x, const std::string &function,
                  const std::string &path);
  /// Whether the head has weights. The files of an encoder may have none, and
  /// the forward function then ends without the head.
  virtual bool hasHead() const = 0;
  /// Returns the logits: the result of a linear layer with the input `x`. The
  /// layer's weight is the parameter `weight`. If the family's table of weights
  /// has a bias at `path`, it is added.
  virtual Tensor head(Tensor x, const std::string &weight,
                      const std::string &path) = 0;
  /// Marks `x` as the result of the module at `path`, which consists of other
  /// modules.
  virtual Tensor output(Tensor x, const std::string &path) = 0;
  /// Marks `x` as the result of the model without its head. The programs of
  /// binaries compiled with `--mode encode` return this value.
  Tensor hidden(Tensor x) { return output(x, "hidden"); }

  /// A sequence of layers with the paths `name`.0, `name`.1, ... `kinds` has an
  /// entry for each layer: layers with equal entries run the same code. `body`
  /// is called once for each different entry.
  virtual Tensor
  layers(const std::string &name, const std::vector<int64_t> &kinds, Tensor x,
         const std::function<Tensor(Tensor, int64_t kind)> &body) = 0;
  /// A sequence of `count` layers that all run the same code.
  Tensor layers(const std::string &name, int64_t count, Tensor x,
                const std::function<Tensor(Tensor)> &body);
};

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_MODULES_H
