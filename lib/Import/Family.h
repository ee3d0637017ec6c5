//===- Family.h - Description of a model family -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A family is one file in Families/: a table of the keys of config.json with
// verdicts, a table of weights, and a forward function. Everything else is
// derived from these (docs/adding-a-family.md).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_FAMILY_H
#define HEDDLE_LIB_IMPORT_FAMILY_H

#include "Modules.h"
#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Json.h"

namespace heddle::config {

//===----------------------------------------------------------------------===//
// Keys of config.json
//===----------------------------------------------------------------------===//

/// How a key of config.json is treated.
enum class ConfigVerdict {
  Applied,     ///< The family reads it.
  Meaningless, ///< Its value does not matter.
  NeutralOnly, ///< Rejected unless it is null, false, 0 or empty.
};

/// A known key of config.json.
struct ConfigKey {
  const char *name;
  ConfigVerdict verdict;
  const char *why;
};

/// Keys that Hugging Face writes for every family.
const std::vector<ConfigKey> &commonConfigKeys();

/// A key of config.json that is unknown. This is a warning, not an error.
struct UnknownKey {
  std::string path; ///< The path of the key, as `rope_scaling.finetuned`.
  SourceLocation location;
};

struct Family;

/// Adds each key of `config` with its verdict to the rows of `spec`. Throws
/// H0391 for a rejected key, and for one that looks like a misspelling of a
/// missing key. Other unknown keys are added to `unknown`.
void judgeConfigKeys(const io::JsonValue &config, const Family &family,
                     ModelSpec &spec, std::vector<UnknownKey> &unknown);

/// Whether a key that is in no table is known to have no effect. Throws H0391
/// for a key that would change results in an unsupported way, and for one that
/// looks like a misspelling of a key of `known` which `object` lacks. `what`
/// names the object in messages.
bool isHarmless(const io::JsonMember &member, const io::JsonValue &object,
                const std::vector<std::string> &known, const std::string &what);

/// The warning about unknown keys; "" if there are none. With `strict`, throws
/// H0391 instead.
std::string warnOfUnknownKeys(const std::vector<UnknownKey> &unknown,
                              bool strict);

/// A size and its name in messages: its key in config.json.
struct Dim {
  int64_t value = 0;
  std::string text;
  operator int64_t() const { return value; }
};
Dim operator*(int factor, const Dim &dim);
Dim operator*(const Dim &left, const Dim &right);

/// Reads config.json for a family. A null value counts as absent. All functions
/// throw H0391 or H0392, with the position in the file, for an invalid value.
class Config {
public:
  // Limits that keep numbers of elements from overflowing.
  static constexpr int64_t maxWidth = 1 << 20, maxRows = 1 << 28,
                           maxLayers = 10000;

  /// Unknown keys are added to `unknown` when they are found.
  Config(const io::JsonValue &json, const Family &family,
         std::vector<UnknownKey> &unknown)
      : json(json), family(family), unknown(unknown) {}

  /// Reads a size in [1, maximum]. The key may have another name
  /// (`Family::aliases`).
  Dim size(const std::string &name, int64_t fallback,
           int64_t maximum = maxWidth) const;
  double number(const std::string &key, double fallback, double minimum,
                double maximum) const;
  /// Reads a dropout probability, which is less than 1.
  double dropout(const std::string &key, double fallback) const {
    return number(key, fallback, 0, 0.999999);
  }
  bool flag(const std::string &key, bool fallback) const {
    return json.boolOr(key, fallback);
  }
  /// Reads an activation. Returns its name in nn.map; `fallback` is Hugging
  /// Face's name.
  std::string activation(const std::string &key,
                         const std::string &fallback) const;
  /// Reads `pad_token_id`. That token's row of the embedding gets no gradient
  /// in Hugging Face's models. Null means no such token.
  std::optional<int64_t> padding(int64_t vocab,
                                 std::optional<int64_t> fallback = {}) const;
  /// Throws H0391 unless the key is absent or has that value.
  void requireWord(const std::string &key, const std::string &value) const;
  /// Throws H0391 unless the key is absent or true. `what` is not supported
  /// without it.
  void requireTrue(const std::string &key, const char *what) const;
  /// Reads the parameters of rotary embeddings for heads with `dims` features:
  /// the base at key `theta`, and the scaling in `rope_scaling`. `known` is a
  /// key of that object which the family reads itself.
  Rotary rotary(const Dim &dims, const Dim &positions,
                const char *theta = "rope_theta",
                const char *known = nullptr) const;
  /// The number of keys that queries of each layer see; 0: all. With
  /// `layer_types`, layers of type "sliding_attention" have `window`; without
  /// it, the layers for which `slides` is true. If `window` is 0, no layer may
  /// have that type.
  std::vector<int64_t>
  windows(int64_t layers, int64_t window,
          const std::function<bool(int64_t layer)> &slides) const;
  /// Throws H0392 unless `part` divides `whole`.
  void requireDivides(const Dim &part, const Dim &whole) const;

  const io::JsonValue &json;

private:
  const Family &family;
  std::vector<UnknownKey> &unknown;
};

/// The position of `key` in `config`, or of the whole file if it is absent.
SourceLocation locationOf(const io::JsonValue &config, const std::string &key);

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// A row of the table of weights: a parameter. With `*` in its name it means
/// one parameter per layer. Consecutive rows with `*` belong to the same
/// layer.
struct Weight {
  std::string name;
  std::vector<Dim> shape;
  Init init;
  /// Segments of the last dimension, each of which is split among tensor ranks
  /// by itself.
  std::vector<int64_t> segments = {};
  /// The matrix is stored as [out, in].
  bool outIn = false;
  /// The tensors that the parameter is made of, without the family's prefix.
  /// Absent: one tensor of the same name.
  std::optional<weights::Source> source = {};
};

/// Whether `name` matches the pattern, in which `*` is a number.
bool matchesPattern(const std::string &name, const std::string &pattern);

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// A model of a family, with the sizes of its config.json.
class FamilyModel {
public:
  virtual ~FamilyModel() = default;
  virtual std::vector<Weight> weights() const = 0;
  /// Builds the forward pass from ids to logits and returns the logits. If `m`
  /// has no head, returns the hidden states.
  virtual Tensor forward(Modules &m) const = 0;

  Dim vocab, positions, embed, layers;
  bool tied = false; ///< The head shares its weight with the embedding.

protected:
  FamilyModel(Dim vocab, Dim positions, Dim embed, Dim layers)
      : vocab(std::move(vocab)), positions(std::move(positions)),
        embed(std::move(embed)), layers(std::move(layers)) {}
};

struct Family {
  const char *name;   ///< Its `model_type` in config.json.
  const char *prefix; ///< Hugging Face's prefix of all names, except the
                      ///< head's.
  std::vector<ConfigKey> keys;
  /// Tensors that are no parameters, as patterns with reasons.
  std::vector<std::pair<const char *, const char *>> ignored;
  std::shared_ptr<const FamilyModel> (*read)(const Config &config);
  /// The weight of the head. Its name up to the first dot is the prefix of all
  /// parameters outside of the base model, whose names have no family prefix.
  const char *head = "lm_head.weight";
  plan::Objective objective = plan::Objective::NextToken;
  /// Suffixes of names, and their spelling in older files.
  std::vector<std::pair<const char *, const char *>> renamed = {};
  /// Alternative names of keys that Hugging Face accepts, and the keys.
  std::vector<std::pair<const char *, const char *>> aliases = {};

  /// Whether the parameter is outside of the base model.
  bool isOfHead(const std::string &parameter) const {
    std::string beside(head, std::string_view(head).find('.') + 1);
    return parameter.rfind(beside, 0) == 0;
  }
  /// The parameter's name in the files.
  std::string sourceName(const std::string &parameter) const {
    return isOfHead(parameter) ? parameter : prefix + parameter;
  }
};

/// Implements `Family::read` by a class's constructor.
template <typename Model>
std::shared_ptr<const FamilyModel> readAs(const Config &config) {
  return std::make_shared<Model>(config);
}

/// Finds the special tokens of a model for masked tokens, in config.json and in
/// the tokenizer's files in `directory`. "": no files.
void findSpecialTokens(const io::JsonValue &config,
                       const std::string &directory, ModelSpec &spec);

// The supported families. Each is defined in a file of Families/; ModelSpec.cpp
// lists them.
const Family &bertFamily();
const Family &gemma2Family();
const Family &gpt2Family();
const Family &gptNeoFamily();
const Family &gptNeoXFamily();
const Family &llamaFamily();
const Family &mistralFamily();
const Family &optFamily();
const Family &qwen2Family();
const Family &qwen3Family();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_FAMILY_H
