//===- RotaryConfig.cpp - Reads the scaling of rotary embeddings ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the scaling of rotary embeddings from `rope_scaling` or
// `rope_parameters` of config.json. It supports the types linear, llama3 and
// yarn.
//
//===----------------------------------------------------------------------===//

#include "Family.h"
#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

/// Reads the object `rope_scaling` of config.json. Newer files call it
/// `rope_parameters`.
class RotaryReader {
public:
  /// `object` is the value of `rope_scaling`, and `config` the whole file.
  /// `known` is a key of `object` that the family has read already, so that it
  /// is not reported as unknown.
  RotaryReader(const io::JsonValue &object, const io::JsonValue &config,
               const Dim &positions, const char *known, Rotary &rotary,
               std::vector<UnknownKey> &unknown)
      : object(object), config(config), positions(positions), known(known),
        rotary(rotary), unknown(unknown) {}

  void read() {
    object.members(); // Throws if it is no object.
    rotary.theta = number("rope_theta", rotary.theta);
    std::string type =
        object.stringOr("rope_type", object.stringOr("type", "default"));
    allowed = {"rope_type", "type", "rope_theta"};
    if (known)
      allowed.push_back(known);
    if (type == "linear")
      readLinear();
    else if (type == "llama3")
      readLlama3();
    else if (type == "yarn")
      readYarn();
    else if (type != "default")
      typeValue().fail("H0391",
                       "rotary scaling \"" + type + "\" is not supported",
                       "use one of default, linear, llama3, yarn");
    checkKeys(type);
  }

private:
  void readLinear() {
    rotary.ramp = Rotary::Ramp::All;
    rotary.factor = number("factor");
  }

  // Reads the scaling of LLaMA 3.1. It divides frequencies by a factor, except
  // high ones: those with many rotations within the context length that the
  // model was first trained for.
  void readLlama3() {
    rotary.ramp = Rotary::Ramp::Rates;
    rotary.factor = number("factor");
    double turn = 2 * M_PI / originalPositions();
    rotary.low = number("low_freq_factor") * turn;
    rotary.high = number("high_freq_factor") * turn;
    if (rotary.low >= rotary.high)
      object.at("high_freq_factor")
          .fail("H0392", "\"high_freq_factor\" is not over low_freq_factor",
                "give a larger number");
  }

  // Reads the scaling YaRN (Peng et al., 2023, arXiv 2309.00071) and computes
  // frequencies as Hugging Face does.
  void readYarn() {
    rotary.ramp = Rotary::Ramp::Pairs;
    double original = originalPositions(double(positions));
    rotary.factor = number("factor", double(positions) / original);
    double pairs = double(rotary.dims);
    // Returns the index of the pair of features that rotates `turns` times
    // within the context length that the model was first trained for.
    auto pairOf = [&](double turns) {
      return pairs * std::log(original / (turns * 2 * M_PI)) /
             (2 * std::log(rotary.theta));
    };
    rotary.low = pairOf(number("beta_fast", 32));
    rotary.high = pairOf(number("beta_slow", 1));
    allowed.push_back("truncate");
    if (object.boolOr("truncate", true)) {
      rotary.low = std::floor(rotary.low);
      rotary.high = std::ceil(rotary.high);
    }
    rotary.low = std::max(rotary.low, 0.0);
    rotary.high = std::min(rotary.high, pairs - 1);
    if (rotary.low >= rotary.high)
      rotary.high = rotary.low + 0.001;
    auto magnitude = [&](double weight) {
      double factor = rotary.factor;
      return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
    };
    double weight = number("mscale", 0), all = number("mscale_all_dim", 0);
    rotary.magnitude = weight > 0 && all > 0
                           ? magnitude(weight) / magnitude(all)
                           : magnitude(1);
    rotary.magnitude = number("attention_factor", rotary.magnitude);
  }

  /// Returns the context length that the model was first trained for. Some
  /// files give it at the top level of config.json instead of in
  /// `rope_scaling`.
  double originalPositions(std::optional<double> fallback = {}) {
    const char *key = "original_max_position_embeddings";
    const io::JsonValue *outer = config.findNonNull(key);
    if (!outer)
      return number(key, fallback);
    double given = number(key, outer->asNumber());
    if (given != outer->asNumber())
      outer->fail("H0391",
                  "\"" + std::string(key) + "\" is not what \"" +
                      object.at(key).path() + "\" says",
                  "keep one of the two");
    return given;
  }

  /// Reads a positive number. Throws an error if the key is missing and there
  /// is no fallback.
  double number(const char *key, std::optional<double> fallback = {}) {
    allowed.push_back(key);
    const io::JsonValue *value = object.findNonNull(key);
    if (!value && fallback)
      return *fallback;
    double given = object.at(key).asNumber();
    if (!(given > 0 && given < 1e12))
      object.at(key).fail("H0392",
                          "\"" + std::string(key) + "\" is not positive",
                          "give a number over 0");
    return given;
  }

  const io::JsonValue &typeValue() const {
    const io::JsonValue *value = object.findNonNull("rope_type");
    return value ? *value : object.at("type");
  }

  void checkKeys(const std::string &type) {
    for (const io::JsonMember &member : object.members()) {
      if (std::find(allowed.begin(), allowed.end(), member.key) !=
              allowed.end() ||
          member.value.isNull())
        continue;
      if (!isHarmless(member, object, allowed,
                      "rotary scaling \"" + type + "\""))
        unknown.push_back({member.value.path(), member.keyLocation()});
    }
  }

  const io::JsonValue &object, &config;
  const Dim &positions;
  const char *known;
  Rotary &rotary;
  std::vector<UnknownKey> &unknown;
  std::vector<std::string> allowed;
};

} // namespace

Rotary Config::rotary(const Dim &dims, const Dim &positions, const char *theta,
                      const char *known) const {
  if (dims % 2 != 0)
    fail("H0392",
         "the heads have " + std::to_string(dims) +
             " features, and rotary positions turn pairs of them",
         "choose a head_dim that is even", locationOf(json, dims.text));
  Rotary rotary;
  rotary.dims = dims;
  rotary.theta = number(theta, 10000, 1e-9, 1e12);
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (const io::JsonValue *object = json.findNonNull(key))
      RotaryReader(*object, json, positions, known, rotary, unknown).read();
  return rotary;
}
