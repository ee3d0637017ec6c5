//===- Family.h - What a model family says of itself ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A family is one file in Families/: a table of the keys of config.json with
// verdicts, a table of weights, and one forward function. Everything else is
// derived: docs/adding-a-family.md.
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

/// What becomes of a key of config.json.
enum class ConfigVerdict {
  Applied,     ///< The family's reader reads it.
  Meaningless, ///< It changes nothing here, whatever its value.
  NeutralOnly, ///< Refused unless it is null, false, 0 or empty.
};

/// A key of config.json that is known.
struct ConfigKey {
  const char *name;
  ConfigVerdict verdict;
  const char *why;
};

/// Keys that Hugging Face writes for every family.
const std::vector<ConfigKey> &commonConfigKeys();

/// A key of config.json that no reader knows: a warning, not an error.
struct UnknownKey {
  std::string path; ///< As `rope_scaling.finetuned`.
  SourceLocation location;
};

struct Family;

/// Gives every key of `config` its verdict, as rows of `spec`; throws H0391
/// for a key that is refused, or that is a misspelt one which is missing.
/// Other keys that are not known are added to `unknown`.
void judgeConfigKeys(const io::JsonValue &config, const Family &family,
                     ModelSpec &spec, std::vector<UnknownKey> &unknown);

/// Whether a key that no table has is known to change nothing. Throws H0391 for
/// one that would change numbers in a way that no family can, and for one that
/// is a misspelling of a key of `known` which `object` lacks; `what` is what
/// the object describes, for messages.
bool isHarmless(const io::JsonMember &member, const io::JsonValue &object,
                const std::vector<std::string> &known, const std::string &what);

/// The line that warns of keys that are not known; "" when there are none. With
/// `strict` it throws H0391 instead.
std::string warnOfUnknownKeys(const std::vector<UnknownKey> &unknown,
                              bool strict);

/// A size, and what messages call it: its key in config.json.
struct Dim {
  int64_t value = 0;
  std::string text;
  operator int64_t() const { return value; }
};
Dim operator*(int factor, const Dim &dim);
Dim operator*(const Dim &left, const Dim &right);

/// config.json as a family reads it; null counts as absent. All throw H0391 or
/// H0392, with the place, for a value that is not possible.
class Config {
public:
  // Limits such that no number of elements overflows.
  static constexpr int64_t maxWidth = 1 << 20, maxRows = 1 << 28,
                           maxLayers = 10000;

  /// Keys that are not known are added to `unknown` as they are met.
  Config(const io::JsonValue &json, const Family &family,
         std::vector<UnknownKey> &unknown)
      : json(json), family(family), unknown(unknown) {}

  /// In [1, maximum]; another name of the key counts as the key.
  Dim size(const std::string &name, int64_t fallback,
           int64_t maximum = maxWidth) const;
  double number(const std::string &key, double fallback, double minimum,
                double maximum) const;
  /// A probability of dropout: less than 1.
  double dropout(const std::string &key, double fallback) const {
    return number(key, fallback, 0, 0.999999);
  }
  bool flag(const std::string &key, bool fallback) const {
    return json.boolOr(key, fallback);
  }
  /// The activation's name in nn.map; `fallback` is Hugging Face's.
  std::string activation(const std::string &key,
                         const std::string &fallback) const;
  /// The token `pad_token_id` of that many, whose row of the embedding gets no
  /// gradient in Hugging Face's models; null says that there is none.
  std::optional<int64_t> padding(int64_t vocab,
                                 std::optional<int64_t> fallback = {}) const;
  /// Throws H0391 unless the key is absent or has that value.
  void requireWord(const std::string &key, const std::string &value) const;
  /// Throws H0391 unless the key is absent or true; `what` is not supported
  /// without it.
  void requireTrue(const std::string &key, const char *what) const;
  /// Rotary positions of heads of `dims` features, with the base that `theta`
  /// names and the scaling of `rope_scaling`, in which the family may have read
  /// the key `known` itself.
  Rotary rotary(const Dim &dims, const Dim &positions,
                const char *theta = "rope_theta",
                const char *known = nullptr) const;
  /// How many keys the queries of each layer see, 0 for all, as `layer_types`
  /// says: `window` in layers of "sliding_attention". Where the key is absent
  /// it is `slides` that says so of a layer. A window of 0 is none: then no
  /// layer can have it.
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

/// The place of `key` in `config`, or of the whole when it is absent.
SourceLocation locationOf(const io::JsonValue &config, const std::string &key);

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// A row of the table of weights: a parameter, or with `*` in its name one of
/// each layer; rows that follow each other with `*` are those of one layer.
struct Weight {
  std::string name;
  std::vector<Dim> shape;
  Init init;
  /// Parts of the last dimension that ranks split each for itself.
  std::vector<int64_t> segments = {};
  /// A matrix that is stored [out, in].
  bool outIn = false;
  /// The tensors that it is made of, as the family's prefix may stand before;
  /// absent: one of the same name.
  std::optional<weights::Source> source = {};
};

/// Whether `name` is the pattern, in which `*` stands for a number.
bool matchesPattern(const std::string &name, const std::string &pattern);

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// A model of a family, as its config.json describes it.
class FamilyModel {
public:
  virtual ~FamilyModel() = default;
  virtual std::vector<Weight> weights() const = 0;
  /// Builds the pass from the ids to the logits, and returns these; to the
  /// hidden states where `m` has no head.
  virtual Tensor forward(Modules &m) const = 0;

  Dim vocab, positions, embed, layers;
  bool tied = false; ///< The head's weight is that of the embedding.

protected:
  FamilyModel(Dim vocab, Dim positions, Dim embed, Dim layers)
      : vocab(std::move(vocab)), positions(std::move(positions)),
        embed(std::move(embed)), layers(std::move(layers)) {}
};

struct Family {
  const char *name;   ///< The `model_type` of config.json.
  const char *prefix; ///< What Hugging Face puts before all but the head.
  std::vector<ConfigKey> keys;
  /// Tensors that are no parameters, by pattern, and why.
  std::vector<std::pair<const char *, const char *>> ignored;
  std::shared_ptr<const FamilyModel> (*read)(const Config &config);
  /// The head's own weight; up to the first dot, what all names begin with that
  /// stand beside the base model, without prefix.
  const char *head = "lm_head.weight";
  plan::Objective objective = plan::Objective::NextToken;
  /// Ends of names, and what they are in old files.
  std::vector<std::pair<const char *, const char *>> renamed = {};
  /// Other names of keys, which Hugging Face reads too, and the keys.
  std::vector<std::pair<const char *, const char *>> aliases = {};

  /// Whether the parameter stands beside the base model.
  bool isOfHead(const std::string &parameter) const {
    std::string beside(head, std::string_view(head).find('.') + 1);
    return parameter.rfind(beside, 0) == 0;
  }
  /// The parameter's name in the files.
  std::string sourceName(const std::string &parameter) const {
    return isOfHead(parameter) ? parameter : prefix + parameter;
  }
};

/// `Family::read` of a class.
template <typename Model>
std::shared_ptr<const FamilyModel> readAs(const Config &config) {
  return std::make_shared<Model>(config);
}

/// Reads what config.json and the tokenizer's files in `directory` say of
/// tokens that mean no text, for a model of masked tokens. "": no files.
void findSpecialTokens(const io::JsonValue &config,
                       const std::string &directory, ModelSpec &spec);

// The files in Families/; ModelSpec.cpp lists them.
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
