//===- Family.h - Description of a model family -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a family of models consists of. A family is one file in Families/ with
// three items: a table of the keys of config.json, a table of weights, and a
// forward function. Everything else about the family is derived from these
// (docs/adding-a-family.md).
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
  Applied,     ///< The family's reader reads the key.
  Meaningless, ///< The key's value does not change results.
  NeutralOnly, ///< Rejected unless the value is null, false, 0 or empty.
};

/// A known key of config.json.
struct ConfigKey {
  const char *name;
  ConfigVerdict verdict;
  const char *why;
};

/// Keys that Hugging Face writes to the config.json of every family.
const std::vector<ConfigKey> &commonConfigKeys();

/// A key of config.json of which Heddle knows nothing. It causes a warning, not
/// an error.
struct UnknownKey {
  std::string path; ///< The path of the key, as `rope_scaling.finetuned`.
  SourceLocation location;
};

struct Family;

/// Gives each key of `config` a verdict, such as applied or ignored, and adds
/// it to the rows of `spec`, which `--explain-config` prints. Throws H0391 for
/// a rejected key, and for a key that looks like a misspelling of a missing
/// key. Other unknown keys are added to `unknown`.
void judgeConfigKeys(const io::JsonValue &config, const Family &family,
                     ModelSpec &spec, std::vector<UnknownKey> &unknown);

/// Judges the key `member` of `object`, which is config.json or a section of
/// it. The family's reader does not read this key. Returns true if the key
/// belongs to an unsupported feature and its value turns this feature off, and
/// throws H0391 if the value turns the feature on. Also throws H0391 if the key
/// looks like a misspelling of a key that `known` lists and that is not in
/// `object`. `what` names the object in messages.
bool isHarmless(const io::JsonMember &member, const io::JsonValue &object,
                const std::vector<std::string> &known, const std::string &what);

/// Returns the warning about unknown keys, or "" if there are none. With
/// `strict`, throws H0391 instead of returning a warning.
std::string warnOfUnknownKeys(const std::vector<UnknownKey> &unknown,
                              bool strict);

/// A size, and the key of config.json that gives it, for messages.
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
  // Upper limits of sizes, such that numbers of elements do not overflow.
  static constexpr int64_t maxWidth = 1 << 20, maxRows = 1 << 28,
                           maxLayers = 10000;

  /// `unknown` collects unknown keys of nested objects. These keys are found
  /// only when the objects are read.
  Config(const io::JsonValue &json, const Family &family,
         std::vector<UnknownKey> &unknown)
      : json(json), family(family), unknown(unknown) {}

  /// Reads a size in [1, maximum]. The file may also have it under another name
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
  /// Reads the name of an activation function. Returns the function's name in
  /// nn.map. `fallback` is the name, as Hugging Face spells it, if the key is
  /// absent.
  std::string activation(const std::string &key,
                         const std::string &fallback) const;
  /// Reads `pad_token_id`, the id of the padding token. The row of this token
  /// in the embedding table gets no gradient, as in Hugging Face's models.
  /// Returns nothing if the key is null.
  std::optional<int64_t> padding(int64_t vocab,
                                 std::optional<int64_t> fallback = {}) const;
  /// Throws H0391 unless the key is absent or has the value `value`.
  void requireWord(const std::string &key, const std::string &value) const;
  /// Throws H0391 unless the key is absent or true. `what` names, for the
  /// message, what the value false would mean.
  void requireTrue(const std::string &key, const char *what) const;
  /// Reads the parameters of rotary embeddings for heads with `dims` features.
  /// The base is the value of the key `theta`, and the scaling is in the object
  /// `rope_scaling`. `known` is a key of that object which the family reads
  /// itself.
  Rotary rotary(const Dim &dims, const Dim &positions,
                const char *theta = "rope_theta",
                const char *known = nullptr) const;
  /// Returns the window of each layer: the number of keys that a query sees, or
  /// 0 for all. If the file has `layer_types`, the layers of type
  /// "sliding_attention" get the window `window`. Otherwise the layers for
  /// which `slides` is true get it. If `window` is 0, no layer may be of type
  /// "sliding_attention".
  std::vector<int64_t>
  windows(int64_t layers, int64_t window,
          const std::function<bool(int64_t layer)> &slides) const;
  /// Throws H0392 unless the size `part` divides the size `whole`.
  void requireDivides(const Dim &part, const Dim &whole) const;

  const io::JsonValue &json;

private:
  const Family &family;
  std::vector<UnknownKey> &unknown;
};

/// Returns the position of `key` in the file, or that of the whole file if the
/// key is absent.
SourceLocation locationOf(const io::JsonValue &config, const std::string &key);

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// A row of a family's table of weights, which describes a parameter. A row
/// whose `name` contains `*` describes one parameter in each layer. Consecutive
/// rows with `*` are the parameters of one layer.
struct Weight {
  std::string name;
  std::vector<Dim> shape;
  Init init;
  /// Segments of the last dimension, for example q, k and v side by side. Each
  /// segment is split among tensor ranks separately.
  std::vector<int64_t> segments = {};
  /// Whether the matrix is stored as [out, in] instead of [in, out].
  bool outIn = false;
  /// The tensors of the weight files from which the parameter is made. Their
  /// names are given without the family's prefix. If `source` is absent, the
  /// parameter is made from the tensor with the parameter's name.
  std::optional<weights::Source> source = {};
};

/// Whether `name` matches `pattern`, in which `*` matches any number.
bool matchesPattern(const std::string &name, const std::string &pattern);

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// A model of a family: its sizes, read from config.json, and its forward
/// function.
class FamilyModel {
public:
  virtual ~FamilyModel() = default;
  virtual std::vector<Weight> weights() const = 0;
  /// Builds the forward pass from ids to logits and returns the logits. If the
  /// weights of the head are missing, returns the hidden states.
  virtual Tensor forward(Modules &m) const = 0;

  /// Whether a query attends only to keys up to its own position.
  virtual bool isCausal() const { return true; }

  Dim vocab, positions, embed, layers;
  Dim heads;         ///< Query heads of attention.
  bool tied = false; ///< The head shares its weight with the embedding.
  /// The parameter with a row for each position; "" if the model has none,
  /// as with rotary positions.
  std::string positionTable;
  /// Rows at the beginning of `positionTable` that are for no position.
  int64_t firstPosition = 0;

protected:
  FamilyModel(Dim vocab, Dim positions, Dim embed, Dim layers, Dim heads)
      : vocab(std::move(vocab)), positions(std::move(positions)),
        embed(std::move(embed)), layers(std::move(layers)),
        heads(std::move(heads)) {}
};

struct Family {
  const char *name;   ///< The family's `model_type` in config.json.
  const char *prefix; ///< Hugging Face's prefix of all names, except the
                      ///< head's.
  std::vector<ConfigKey> keys;
  /// Name patterns of tensors that weight files contain but that are no
  /// parameters, each with the reason.
  std::vector<std::pair<const char *, const char *>> ignored;
  std::shared_ptr<const FamilyModel> (*read)(const Config &config);
  /// The name of the head's weight. The name up to its first dot is the head's
  /// prefix. Parameters with this prefix are outside of the base model; their
  /// names in the files have no family prefix.
  const char *head = "lm_head.weight";
  plan::Objective objective = plan::Objective::NextToken;
  /// Suffixes of parameter names that older files spell differently. Each pair
  /// has the suffix and its older spelling.
  std::vector<std::pair<const char *, const char *>> renamed = {};
  /// Aliases that Hugging Face accepts for keys of config.json: the alias, and
  /// the key.
  std::vector<std::pair<const char *, const char *>> aliases = {};

  /// Whether the parameter is outside of the base model, as the head's
  /// parameters are.
  bool isOfHead(const std::string &parameter) const {
    std::string beside(head, std::string_view(head).find('.') + 1);
    return parameter.rfind(beside, 0) == 0;
  }
  /// Returns the name of a parameter's tensor in the weight files.
  std::string sourceName(const std::string &parameter) const {
    return isOfHead(parameter) ? parameter : prefix + parameter;
  }
};

/// Implements `Family::read` by the constructor of a class derived from
/// FamilyModel.
template <typename Model>
std::shared_ptr<const FamilyModel> readAs(const Config &config) {
  return std::make_shared<Model>(config);
}

/// Finds the special tokens of a model that predicts masked tokens. They are in
/// config.json and in the tokenizer's files in `directory`. If `directory` is
/// "", there are no such files.
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
