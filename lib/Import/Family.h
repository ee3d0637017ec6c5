//===- Family.h - How one model family is read ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A family says how its config.json is read, which parameters a model of it
// has, and which tensors of its files are no parameters. Registered in
// ModelSpec.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_FAMILY_H
#define HEDDLE_LIB_IMPORT_FAMILY_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Json.h"

namespace heddle::config {

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

/// Gives every key of `config` its verdict, as rows of `spec`; throws H0391
/// for a key that is refused or unknown.
void judgeConfigKeys(const io::JsonValue &config,
                     const std::vector<ConfigKey> &familyKeys, ModelSpec &spec);

/// The integer at `key`; throws H0392 unless it is in [1, `maximum`].
int64_t readSize(const io::JsonValue &config, const std::string &key,
                 int64_t fallback, int64_t maximum);

/// The number at `key`; throws H0392 unless it is in [`minimum`, `maximum`].
double readNumber(const io::JsonValue &config, const std::string &key,
                  double fallback, double minimum, double maximum);

/// The place of `key` in `config`, or of the whole when it is absent.
SourceLocation locationOf(const io::JsonValue &config, const std::string &key);

class Family {
public:
  virtual ~Family() = default;
  /// The `model_type` of config.json.
  virtual const char *name() const = 0;
  /// Reads config.json: fills the architecture, its limits, and `parameters`
  /// but for their sources.
  virtual void readConfig(const io::JsonValue &config,
                          ModelSpec &spec) const = 0;
  /// The prefix that Hugging Face gives the parameters of the base model.
  virtual const char *prefix() const = 0;
  /// True when `name` is a parameter beside the base model: without prefix.
  virtual bool isHeadParameter(const std::string &name) const = 0;
  /// Why a tensor that is no parameter is ignored; "" when it must not be.
  virtual std::string ignoreReason(const std::string &name,
                                   const ModelSpec &spec) const = 0;
};

/// GPT-2 (Radford et al., 2019) in Hugging Face's layout.
const Family &gpt2Family();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_FAMILY_H
