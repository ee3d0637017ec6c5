//===- ConfigKeys.cpp - Verdicts on the keys of config.json ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Family.h"
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

/// True for null, false, 0, and what is empty.
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

[[noreturn]] static void
failUnknownKey(const io::JsonMember &member,
               const std::vector<ConfigKey> &familyKeys) {
  std::vector<std::string> names;
  for (const std::vector<ConfigKey> *keys : {&familyKeys, &commonConfigKeys()})
    for (const ConfigKey &key : *keys)
      names.push_back(key.name);
  std::string near = closestMatch(member.key, names);
  fail("H0391", "unknown key \"" + member.key + "\" in the model's config",
       near.empty() ? "remove it: what it would change is not known"
                    : "did you mean \"" + near + "\"?",
       member.keyLocation());
}

void config::judgeConfigKeys(const io::JsonValue &config,
                             const std::vector<ConfigKey> &familyKeys,
                             ModelSpec &spec) {
  for (const io::JsonMember &member : config.members()) {
    SourceLocation place = member.keyLocation();
    ExplainRow row{member.key, shortValue(member.value),
                   place.file + ":" + std::to_string(place.line), "applied",
                   ""};
    const ConfigKey *key = findKey(familyKeys, member.key);
    if (!key)
      key = findKey(commonConfigKeys(), member.key);
    if (!key && !member.key.empty() && member.key[0] == '_') {
      row.verdict = "no meaning here";
      row.why = pythonOnly;
      spec.configRows.push_back(std::move(row));
      continue;
    }
    if (!key)
      failUnknownKey(member, familyKeys);
    row.why = key->why;
    if (key->verdict == ConfigVerdict::NeutralOnly && !isNeutral(member.value))
      member.value.fail("H0391",
                        "\"" + member.key + "\": " + std::string(key->why),
                        "set it to false or null, or use another model");
    if (key->verdict == ConfigVerdict::NeutralOnly)
      row.why = "off";
    if (key->verdict != ConfigVerdict::Applied)
      row.verdict = "no meaning here";
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

Dim Config::size(const std::string &key, int64_t fallback,
                 int64_t maximum) const {
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
  // As PyTorch counts.
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
