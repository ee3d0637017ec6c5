//===- ConfigKeys.cpp - Verdicts on the keys of config.json ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Judges the keys of config.json: each is applied, ignored, rejected, or
// reported as unknown.
//
//===----------------------------------------------------------------------===//

#include "Family.h"
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

namespace {

using V = ConfigVerdict;
constexpr const char *generation = "read by text generation elsewhere";
constexpr const char *pythonOnly = "a switch of the Python classes";
constexpr const char *labels = "belongs to a classification head";
constexpr const char *tokens = "the tokenizer's business";
constexpr const char *storedType = "the weight files say their own type";
constexpr const char *provenance = "says where the file comes from";

} // namespace

const std::vector<ConfigKey> &config::commonConfigKeys() {
  static const std::vector<ConfigKey> keys = {
      {"model_type", V::Applied, "chooses the family"},
      {"architectures", V::Meaningless, "the causal language model is built"},
      {"torch_dtype", V::Meaningless, storedType},
      {"dtype", V::Meaningless, storedType},
      {"use_bfloat16", V::Meaningless, "--precision says it"},
      {"transformers_version", V::Meaningless, provenance},
      {"name_or_path", V::Meaningless, provenance},
      {"finetuning_task", V::Meaningless, provenance},
      {"auto_map", V::Meaningless, "no Python is loaded"},
      {"unsloth_fixed", V::Meaningless, provenance},
      {"unsloth_version", V::Meaningless, provenance},
      {"is_llama_config", V::Meaningless, provenance},
      {"return_dict", V::Meaningless, pythonOnly},
      {"return_dict_in_generate", V::Meaningless, pythonOnly},
      {"output_hidden_states", V::Meaningless, "--keep says what is kept"},
      {"output_attentions", V::Meaningless, "--keep says what is kept"},
      {"output_scores", V::Meaningless, pythonOnly},
      {"output_past", V::Meaningless, pythonOnly},
      {"torchscript", V::Meaningless, pythonOnly},
      {"tf_legacy_loss", V::Meaningless, pythonOnly},
      {"attn_implementation", V::Meaningless, "kernels are generated"},
      {"experts_implementation", V::Meaningless, "kernels are generated"},
      {"gradient_checkpointing", V::Meaningless, "--recompute says it"},
      {"use_cache", V::Meaningless, generation},
      {"chunk_size_feed_forward", V::Meaningless,
       "changes memory only, which is planned"},
      {"keys_to_ignore_at_inference", V::Meaningless, pythonOnly},
      {"predict_special_tokens", V::Meaningless, pythonOnly},
      {"transformers.js_config", V::Meaningless, pythonOnly},
      {"prefix", V::Meaningless, tokens},
      {"tokenizer_class", V::Meaningless, tokens},
      {"bos_token_id", V::Meaningless, tokens},
      {"eos_token_id", V::Meaningless, tokens},
      {"pad_token_id", V::Meaningless, tokens},
      {"cls_token_id", V::Meaningless, tokens},
      {"sep_token_id", V::Meaningless, tokens},
      {"unk_token_id", V::Meaningless, tokens},
      {"decoder_start_token_id", V::Meaningless, tokens},
      {"id2label", V::Meaningless, labels},
      {"label2id", V::Meaningless, labels},
      {"num_labels", V::Meaningless, labels},
      {"problem_type", V::Meaningless, labels},
      {"task_specific_params", V::Meaningless, generation},
      {"max_length", V::Meaningless, generation},
      {"min_length", V::Meaningless, generation},
      {"do_sample", V::Meaningless, generation},
      {"early_stopping", V::Meaningless, generation},
      {"num_beams", V::Meaningless, generation},
      {"num_beam_groups", V::Meaningless, generation},
      {"diversity_penalty", V::Meaningless, generation},
      {"temperature", V::Meaningless, generation},
      {"top_k", V::Meaningless, generation},
      {"top_p", V::Meaningless, generation},
      {"typical_p", V::Meaningless, generation},
      {"repetition_penalty", V::Meaningless, generation},
      {"length_penalty", V::Meaningless, generation},
      {"no_repeat_ngram_size", V::Meaningless, generation},
      {"encoder_no_repeat_ngram_size", V::Meaningless, generation},
      {"bad_words_ids", V::Meaningless, generation},
      {"num_return_sequences", V::Meaningless, generation},
      {"forced_bos_token_id", V::Meaningless, generation},
      {"forced_eos_token_id", V::Meaningless, generation},
      {"remove_invalid_values", V::Meaningless, generation},
      {"exponential_decay_length_penalty", V::Meaningless, generation},
      {"suppress_tokens", V::Meaningless, generation},
      {"begin_suppress_tokens", V::Meaningless, generation},
      {"is_decoder", V::Meaningless, "the family is one of decoders"},
      {"is_encoder_decoder", V::NeutralOnly,
       "encoder-decoder models are not supported"},
      {"tie_encoder_decoder", V::NeutralOnly,
       "encoder-decoder models are not supported"},
      {"add_cross_attention", V::NeutralOnly,
       "cross attention is not supported"},
      {"cross_attention_hidden_size", V::NeutralOnly,
       "cross attention is not supported"},
      {"pruned_heads", V::NeutralOnly, "pruned heads are not supported"},
      {"quantization_config", V::Applied, ""},
  };
  return keys;
}

/// Whether the value is null, false, 0 or empty.
static bool isNeutral(const io::JsonValue &value) {
  switch (value.kind()) {
  case io::JsonValue::Kind::Null:
    return true;
  case io::JsonValue::Kind::Bool:
    return !value.asBool();
  case io::JsonValue::Kind::String:
    return value.asString().empty();
  case io::JsonValue::Kind::Array:
    return value.elements().empty();
  case io::JsonValue::Kind::Object:
    return value.members().empty();
  case io::JsonValue::Kind::Integer:
  case io::JsonValue::Kind::Float:
    return value.asNumber() == 0;
  }
  return false;
}

static const ConfigKey *findKey(const std::vector<ConfigKey> &keys,
                                const std::string &name) {
  for (const ConfigKey &key : keys)
    if (name == key.name)
      return &key;
  return nullptr;
}

static std::string shortValue(const io::JsonValue &value) {
  std::string text = value.toJson().dump();
  return text.size() > 40 ? text.substr(0, 36) + " ..." : text;
}

//===----------------------------------------------------------------------===//
// Unknown keys
//===----------------------------------------------------------------------===//

namespace {

/// A key of config.json that changes a model's results in a way that no
/// supported family implements.
struct NumbersKey {
  const char *name;
  const char *neutral; ///< Values without effect, as a JSON list.
  const char *why;
};

constexpr const char *noMultiplier = "a multiplier of values is not supported";
constexpr const char *noCap = "a soft cap is not supported by this family";

constexpr NumbersKey numbersKeys[] = {
    {"partial_rotary_factor", "[1]",
     "rotary positions of a part of each head are not supported by this "
     "family"},
    {"rope_interleaved", "[false]",
     "rotary positions that turn neighbouring features are not supported"},
    {"is_causal", "[true]",
     "attention that sees what follows is not supported by this family"},
    {"embedding_multiplier", "[1]", noMultiplier},
    {"residual_multiplier", "[1]", noMultiplier},
    {"attention_multiplier", "[1]", noMultiplier},
    {"logits_scaling", "[1]", noMultiplier},
    {"logit_scale", "[1]", noMultiplier},
    {"attn_logit_softcapping", "[0]", noCap},
    {"final_logit_softcapping", "[0]", noCap},
    {"clip_qkv", "[]", "queries and keys that are clipped are not supported"},
    {"qk_layernorm", "[false]", "norms of queries and keys are not supported"},
    {"use_qk_norm", "[false]", "norms of queries and keys are not supported"},
    {"alibi", "[false]", "biases of positions (ALiBi) are not supported"}};

} // namespace

/// Returns a key in the form in which spellings are compared: in lower case,
/// without separators.
static std::string plainOf(const std::string &key) {
  std::string plain;
  for (char c : key)
    if (c != '_' && c != '-')
      plain += char(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// Whether two words differ by at most one character, or by exchanging two
/// neighbours.
static bool isOneEdit(const std::string &a, const std::string &b) {
  size_t begin = 0, rest = 0;
  size_t shorter = std::min(a.size(), b.size());
  while (begin < shorter && a[begin] == b[begin])
    ++begin;
  while (rest < shorter - begin &&
         a[a.size() - 1 - rest] == b[b.size() - 1 - rest])
    ++rest;
  std::string left = a.substr(begin, a.size() - begin - rest);
  std::string right = b.substr(begin, b.size() - begin - rest);
  if (left.size() == 2 && right.size() == 2)
    return left[0] == right[1] && left[1] == right[0];
  return left.size() <= 1 && right.size() <= 1;
}

bool config::isHarmless(const io::JsonMember &member,
                        const io::JsonValue &object,
                        const std::vector<std::string> &known,
                        const std::string &what) {
  for (const NumbersKey &key : numbersKeys) {
    if (member.key != key.name)
      continue;
    nlohmann::json neutral = nlohmann::json::parse(key.neutral);
    if (!member.value.isNull() &&
        std::find(neutral.begin(), neutral.end(), member.value.toJson()) ==
            neutral.end())
      member.value.fail("H0391", "\"" + member.key + "\": " + key.why,
                        "remove it if the weights do not need it, or use "
                        "another model");
    return true;
  }
  for (const std::string &name : known)
    if (!object.find(name) && isOneEdit(plainOf(member.key), plainOf(name)))
      fail("H0391", "unknown key \"" + member.key + "\" in " + what,
           "did you mean \"" + name + "\"?", member.keyLocation());
  return false;
}

std::string config::warnOfUnknownKeys(const std::vector<UnknownKey> &unknown,
                                      bool strict) {
  if (unknown.empty())
    return "";
  std::string names;
  for (const UnknownKey &key : unknown)
    names += (names.empty() ? "" : ", ") + key.path;
  if (strict)
    fail("H0391", "keys of the model's config that are not known: " + names,
         unknown.size() == 1 ? "remove it, or leave out --strict-config"
                             : "remove them, or leave out --strict-config",
         unknown.front().location);
  return unknown.front().location.file +
         ": keys that are not known, and change nothing here: " + names +
         " (errors with --strict-config)";
}

//===----------------------------------------------------------------------===//
// Verdicts
//===----------------------------------------------------------------------===//

/// Returns the keys that the family's reader reads, and the keys that are read
/// for every family.
static std::vector<std::string> appliedKeys(const Family &family) {
  std::vector<std::string> names;
  for (const std::vector<ConfigKey> *keys : {&family.keys, &commonConfigKeys()})
    for (const ConfigKey &key : *keys)
      if (key.verdict == ConfigVerdict::Applied)
        names.push_back(key.name);
  return names;
}

/// Returns the key of which `member`, a member of config.json, is an alias.
/// Returns "" if it is no alias. Throws H0391 if the alias and the key are both
/// present with different values.
static std::string aliasedKey(const io::JsonMember &member,
                              const io::JsonValue &config,
                              const Family &family) {
  for (const auto &[alias, key] : family.aliases) {
    if (member.key != alias)
      continue;
    const io::JsonValue *other = config.findNonNull(key);
    if (other && other->toJson() != member.value.toJson())
      member.value.fail("H0391",
                        "\"" + member.key + "\" is another name of \"" + key +
                            "\", which is " + other->toJson().dump(),
                        "keep one of the two");
    return key;
  }
  return "";
}

void config::judgeConfigKeys(const io::JsonValue &config, const Family &family,
                             ModelSpec &spec,
                             std::vector<UnknownKey> &unknown) {
  const std::vector<std::string> applied = appliedKeys(family);
  for (const io::JsonMember &member : config.members()) {
    SourceLocation place = member.keyLocation();
    ExplainRow row{member.key, shortValue(member.value),
                   place.file + ":" + std::to_string(place.line), "applied",
                   ""};
    const ConfigKey *key = findKey(family.keys, member.key);
    if (!key)
      key = findKey(commonConfigKeys(), member.key);
    if (key) {
      row.why = key->why;
      if (key->verdict == ConfigVerdict::NeutralOnly) {
        if (!isNeutral(member.value))
          member.value.fail("H0391",
                            "\"" + member.key + "\": " + std::string(key->why),
                            "set it to false or null, or use another model");
        row.why = "off";
      }
      if (key->verdict != ConfigVerdict::Applied)
        row.verdict = "no meaning here";
    } else if (!member.key.empty() && member.key[0] == '_') {
      row.verdict = "no meaning here";
      row.why = pythonOnly;
    } else if (std::string other = aliasedKey(member, config, family);
               !other.empty()) {
      row.why = "another name of " + other;
    } else if (isHarmless(member, config, applied, "the model's config")) {
      row.verdict = "no meaning here";
      row.why = "off";
    } else {
      row.verdict = "not known";
      row.why = "it changes nothing here";
      unknown.push_back({member.key, place});
    }
    spec.configRows.push_back(std::move(row));
  }
}

SourceLocation config::locationOf(const io::JsonValue &config,
                                  const std::string &key) {
  const io::JsonValue *value = config.find(key);
  return value ? value->location() : config.location();
}

Dim config::operator*(int factor, const Dim &dim) {
  return {factor * dim.value, std::to_string(factor) + " " + dim.text};
}

Dim config::operator*(const Dim &left, const Dim &right) {
  return {left.value * right.value, left.text + " " + right.text};
}

Dim Config::size(const std::string &name, int64_t fallback,
                 int64_t maximum) const {
  std::string key = name;
  for (const auto &[alias, aliased] : family.aliases)
    if (name == aliased && !json.findNonNull(name) && json.findNonNull(alias))
      key = alias;
  int64_t value = json.integerOr(key, fallback);
  if (value < 1 || value > maximum)
    fail("H0392", "\"" + key + "\" is " + std::to_string(value),
         "give a number from 1 to " + std::to_string(maximum),
         locationOf(json, key));
  return {value, key};
}

double Config::number(const std::string &key, double fallback, double minimum,
                      double maximum) const {
  double value = json.numberOr(key, fallback);
  if (!(value >= minimum && value <= maximum))
    fail("H0392", "\"" + key + "\" is " + nlohmann::json(value).dump(),
         "give a number from " + nlohmann::json(minimum).dump() + " to " +
             nlohmann::json(maximum).dump(),
         locationOf(json, key));
  return value;
}

std::string Config::activation(const std::string &key,
                               const std::string &fallback) const {
  static const std::vector<std::pair<const char *, const char *>> known = {
      {"gelu_new", "gelu_tanh"},
      {"gelu_pytorch_tanh", "gelu_tanh"},
      {"gelu_fast", "gelu_tanh"},
      {"gelu", "gelu"},
      {"gelu_python", "gelu"},
      {"relu", "relu"},
      {"silu", "silu"},
      {"swish", "silu"},
      {"quick_gelu", "quick_gelu"},
      {"relu2", "relu_squared"}};
  std::string name = json.stringOr(key, fallback), all;
  for (const auto &[theirs, ours] : known) {
    if (name == theirs)
      return ours;
    all += (all.empty() ? "" : ", ") + std::string(theirs);
  }
  json.at(key).fail("H0391", key + " \"" + name + "\" is not supported",
                    "use one of " + all);
}

std::optional<int64_t> Config::padding(int64_t vocab,
                                       std::optional<int64_t> fallback) const {
  const io::JsonValue *value = json.find("pad_token_id");
  if (!value)
    return fallback && *fallback < vocab ? fallback : std::nullopt;
  if (value->isNull())
    return std::nullopt;
  int64_t id = value->asInteger();
  if (id < -vocab || id >= vocab)
    fail("H0392", "\"pad_token_id\" is " + std::to_string(id),
         "give null, or a number from 0 to " + std::to_string(vocab - 1),
         value->location());
  // Negative ids count from the end, as in PyTorch.
  return id < 0 ? id + vocab : id;
}

void Config::requireWord(const std::string &key,
                         const std::string &value) const {
  std::string given = json.stringOr(key, value);
  if (given != value)
    json.at(key).fail("H0391", key + " \"" + given + "\" is not supported",
                      "use a model with \"" + value + "\"");
}

void Config::requireTrue(const std::string &key, const char *what) const {
  if (!flag(key, true))
    json.at(key).fail(
        "H0391", "\"" + key + "\" is false, and " + what + " are not supported",
        "use a model with \"" + key + "\": true");
}

std::vector<int64_t>
Config::windows(int64_t layers, int64_t window,
                const std::function<bool(int64_t layer)> &slides) const {
  std::vector<int64_t> made;
  const io::JsonValue *types = json.findNonNull("layer_types");
  if (!types) {
    for (int64_t layer = 0; layer < layers; ++layer)
      made.push_back(window && slides(layer) ? window : 0);
    return made;
  }
  for (const io::JsonValue &type : types->elements()) {
    const std::string &name = type.asString();
    bool isSliding = name == "sliding_attention";
    if (!isSliding && name != "full_attention")
      type.fail("H0391", "the layer type \"" + name + "\" is not supported",
                "use one of full_attention, sliding_attention");
    if (isSliding && !window)
      type.fail("H0392",
                "a layer has sliding attention, and there is no window",
                "give a sliding_window, or full_attention here");
    made.push_back(isSliding ? window : 0);
  }
  if (int64_t(made.size()) != layers)
    types->fail("H0392",
                "\"layer_types\" has " + std::to_string(made.size()) +
                    " layers of " + std::to_string(layers),
                "name the type of each layer");
  return made;
}

void Config::requireDivides(const Dim &part, const Dim &whole) const {
  if (whole % part != 0)
    fail("H0392",
         part.text + " = " + std::to_string(part) + " does not divide " +
             whole.text + " = " + std::to_string(whole),
         "choose an " + part.text + " that divides " + std::to_string(whole),
         locationOf(json, part.text));
}
