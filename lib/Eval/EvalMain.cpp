//===- EvalMain.cpp - The verb `heddle eval` --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads inputs, runs the steps of `heddle eval`, and writes outputs and states.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/EvalMain.h"

#include "InputRanges.h"
#include "heddle/Eval/Files.h"
#include "heddle/Eval/Interpreter.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/Settings/LearningRate.h"
#include "heddle/runtime/optim/LearningRate.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <set>

using namespace mlir;

namespace heddle::eval {

/// The exit status of `heddle eval` if the interpreter reports H0371: the
/// module cannot be executed.
static constexpr int cannotBeExecuted = 3;

static int report(const Diagnostic &error) {
  llvm::errs() << error.format() << "\n";
  return error.exitCode();
}

static int report(std::string code, std::string message, std::string help) {
  Diagnostic error;
  error.code = std::move(code);
  error.message = std::move(message);
  error.help = std::move(help);
  return report(error);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

static bool readInputs(const std::string &path, TensorMap &inputs,
                       Diagnostic &error) {
  std::vector<HostTensor> tensors;
  if (path.empty())
    return true;
  if (!readTensors(path, tensors, error))
    return false;
  for (const HostTensor &tensor : tensors) {
    std::optional<ElementKind> kind = parseElementKind(tensor.dtype);
    if (!kind) {
      error.code = "H0372";
      error.message = "tensor '" + tensor.name + "' in " + path + " has type " +
                      tensor.dtype;
      error.help = "store inputs as F64, F32, BF16, F16, I32 or I64";
      return false;
    }
    inputs[tensor.name] =
        Tensor::fromBytes(*kind, tensor.shape, tensor.bytes.data());
  }
  return true;
}

/// Checks that each tensor of the input file is an input of one of `programs`;
/// otherwise reports an error and returns false. If one of them does not exist,
/// checks nothing, since running it reports the error.
static bool requireTaken(const EvalOptions &options,
                         const std::vector<ProgramName> &programs,
                         const Interpreter &interpreter, const TensorMap &given,
                         Diagnostic &error) {
  std::set<std::string> keys;
  for (const ProgramName &program : programs) {
    std::optional<std::set<std::string>> own = interpreter.inputsOf(program);
    if (!own)
      return true;
    keys.insert(own->begin(), own->end());
  }
  for (const auto &[name, value] : given) {
    if (keys.count(name.substr(0, name.find('@'))))
      continue;
    error.code = "H0366";
    error.message =
        options.inputs + " has a tensor '" + name + "', which no input takes";
    error.help = options.program + " takes " + llvm::join(keys, ", ");
    return false;
  }
  return true;
}

/// Returns the name of a program's input or output with this role, such as the
/// learning rate. The role's name is also the name of the input or output.
static std::string keyOf(nn::PortRole role) {
  return stringifyPortRole(role).str();
}

static Tensor rank0(double value) {
  return Tensor(ElementKind::F64, {}, std::vector<double>{value});
}

/// Adds which conditions hold, and for each layer that the step may drop the
/// factor of its branches, in the first of 64 elements.
static void addConditions(const std::vector<plan::Condition> &conditions,
                          uint64_t seed, int64_t step, TensorMap &inputs) {
  if (conditions.empty())
    return;
  int64_t stride = nn::paddedElements(1);
  std::vector<double> scales(conditions.size() * stride);
  for (auto [number, condition] : llvm::enumerate(conditions)) {
    inputs[condition.name] = rank0(condition.holds(seed, step - 1));
    scales[number * stride] = 1 / condition.keepProbability(step - 1);
  }
  inputs[keyOf(nn::PortRole::LayerScales)] =
      Tensor(ElementKind::F64, {static_cast<int64_t>(scales.size())}, scales);
}

/// Adds the learning rates of the updates that the next step may make.
static void addRates(const Interpreter &interpreter, TensorMap &inputs) {
  const dist::Strategy &strategy = interpreter.strategy();
  std::string wrong;
  rt::LearningRate rate(*config::readScheduler(strategy, wrong), strategy.lr);
  inputs[keyOf(nn::PortRole::LearningRate)] =
      Tensor(ElementKind::F64, {plan::ratesPerStep},
             rate.next(interpreter.updates().value_or(0), plan::ratesPerStep));
}

/// Adds the inputs that the user need not give, such as learning rates and the
/// state of the random generator. `step` counts steps from 1 on.
static void addDerivedInputs(const Interpreter &interpreter, uint64_t seed,
                             int64_t step, TensorMap &inputs) {
  const dist::Strategy &strategy = interpreter.strategy();
  addRates(interpreter, inputs);
  inputs[plan::weightDecayPort] = rank0(strategy.weightDecay);
  inputs[plan::maxNormPort] = rank0(strategy.gradientClipping);
  inputs[keyOf(nn::PortRole::Rng)] = Tensor(
      ElementKind::I32, {4},
      std::vector<int64_t>{static_cast<int64_t>(seed & 0xffffffff),
                           static_cast<int64_t>(seed >> 32), step - 1, 0});
  addConditions(interpreter.conditions(), seed, step, inputs);
}

/// Adds the tensors from input files. In step STEP, the tensor `NAME@STEP` is
/// used instead of `NAME`.
static void addGivenInputs(const TensorMap &given, int64_t step,
                           TensorMap &inputs) {
  for (const auto &[key, value] : given)
    if (key.find('@') == std::string::npos)
      inputs[key] = value;
  std::string suffix = "@" + std::to_string(step);
  for (const auto &[key, value] : given) {
    size_t at = key.find('@');
    if (at != std::string::npos && key.substr(at) == suffix)
      inputs[key.substr(0, at)] = value;
  }
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

static void printTensor(const std::string &name, const Tensor &tensor) {
  constexpr int64_t shown = 8;
  llvm::raw_ostream &out = llvm::outs();
  out << llvm::left_justify(name, 12);
  if (tensor.rank() > 0) {
    out << " [";
    llvm::interleaveComma(tensor.shape(), out);
    out << "]";
  }
  for (double value : tensor.floats().take_front(shown))
    out << " " << llvm::format("%.9g", value);
  out << (tensor.numElements() > shown ? " ...\n" : "\n");
}

static HostTensor toHost(const std::string &name, const Tensor &tensor,
                         bool fullPrecision) {
  Tensor stored = fullPrecision && isFloat(tensor.kind())
                      ? tensor.withKind(ElementKind::F64)
                      : tensor;
  HostTensor result;
  result.name = name;
  result.dtype = safetensorsName(stored.kind()).str();
  result.shape = stored.shape().vec();
  result.bytes.resize(stored.numBytes());
  stored.toBytes(result.bytes.data());
  return result;
}

static bool writeOutputs(const EvalOptions &options,
                         const Interpreter &interpreter,
                         const TensorMap &outputs, const TensorMap &history,
                         Diagnostic &error) {
  bool fullPrecision = options.precision == "f64";
  std::vector<HostTensor> tensors;
  for (const TensorMap *map : {&outputs, &history})
    for (const auto &[name, value] : *map)
      tensors.push_back(toHost(name, value, fullPrecision));
  for (const StateInfo &info : interpreter.states())
    tensors.push_back(toHost("state." + info.name, interpreter.state(info.name),
                             fullPrecision));
  return writeTensors(options.output, tensors, error);
}

//===----------------------------------------------------------------------===//
// The verb
//===----------------------------------------------------------------------===//

/// Describes the first loss or gradient norm that is not finite, such as "loss
/// of step 2". Returns "" if all are finite.
static std::string firstNonfinite(const TensorMap &history, int64_t steps) {
  for (int64_t step = 1; step <= steps; ++step)
    for (auto [role, name] :
         {std::pair(nn::PortRole::Loss, "loss"),
          std::pair(nn::PortRole::GradNorm, "gradient norm")})
      if (auto number = history.find(keyOf(role) + "@" + std::to_string(step));
          number != history.end() &&
          !std::isfinite(number->second.floats().front()))
        return std::string(name) + " of step " + std::to_string(step);
  return "";
}

/// Whether steps that are not finite were only skipped: the module has a loss
/// scale, and no step has overflowed with the least scale.
static bool skipsOverflows(const Interpreter &interpreter) {
  bool hasScale = llvm::any_of(interpreter.states(), [](const StateInfo &info) {
    return info.name == plan::lossScaleState;
  });
  return hasScale &&
         interpreter.state(plan::nonfiniteState).floats().front() == 0;
}

/// Parses the list of programs, one for each step. The last one also runs in
/// all further steps.
static bool readPrograms(StringRef list, std::vector<ProgramName> &programs,
                         Diagnostic &error) {
  for (StringRef word : llvm::split(list, ',')) {
    std::optional<ProgramName> program = ProgramName::parse(word);
    if (!program) {
      error.code = "H0196";
      error.message = "unknown program '" + word.str() + "'";
      error.help = "name what 'heddle explain' lists for a binary, as train or "
                   "prefill/16,decode/1";
      return false;
    }
    programs.push_back(*program);
  }
  return true;
}

/// Runs all steps. The results of the steps before an error are written, too.
static int runSteps(ModuleOp module, const EvalOptions &options,
                    Interpreter &interpreter) {
  Diagnostic error;
  TensorMap given, outputs, history;
  std::vector<ProgramName> programs;
  if (!readPrograms(options.program, programs, error) ||
      !readInputs(options.inputs, given, error) ||
      !requireTaken(options, programs, interpreter, given, error) ||
      !checkRanges(module, interpreter, given, error) ||
      !interpreter.initialize(options.weights, options.seed, error))
    return report(error);
  plan::UpdateCounts counts;
  for (int64_t step = 1; step <= options.steps; ++step) {
    TensorMap inputs;
    addDerivedInputs(interpreter, options.seed.value_or(0), step, inputs);
    addGivenInputs(given, step, inputs);
    size_t number = std::min<size_t>(step, programs.size()) - 1;
    ProgramName program = interpreter.programAt(programs[number], step, counts);
    if (failed(interpreter.run(program, inputs, outputs)))
      return cannotBeExecuted;
    counts.add(interpreter.updates().value_or(step));
    llvm::outs() << "step " << step << "\n";
    for (const auto &[name, value] : outputs) {
      printTensor(name, value);
      if (value.rank() == 0)
        history[name + "@" + std::to_string(step)] = value;
    }
  }
  if (!options.output.empty() &&
      !writeOutputs(options, interpreter, outputs, history, error))
    return report(error);
  if (std::string what = firstNonfinite(history, options.steps);
      !what.empty() && !skipsOverflows(interpreter))
    return report("H0410", "the " + what + " is not finite",
                  "look for weights that are not finite and for operations "
                  "that were edited; --precision f64 does not overflow");
  return 0;
}

int evalModule(ModuleOp module, const EvalOptions &options) {
  if (options.precision != "f32" && options.precision != "f64")
    return report("H0196", "unknown precision '" + options.precision + "'",
                  "use --precision f32 or --precision f64");
  int64_t ranks = Interpreter::meshOf(module).ranks();
  if (ranks > 1 && !options.ranks)
    return report("H0197",
                  "'" + options.file + "' is made for " +
                      std::to_string(ranks) + " ranks",
                  "pass --ranks to simulate them in this process");
  constexpr int64_t mostRanks = 4096;
  if (ranks > mostRanks)
    return report("H0197",
                  "'" + options.file + "' is made for " +
                      std::to_string(ranks) + " ranks; at most " +
                      std::to_string(mostRanks) + " can be simulated",
                  "make the plan for a smaller mesh");
  InterpreterOptions settings;
  settings.fullPrecision = options.precision == "f64";
  settings.threads = options.threads;
  settings.poison = options.poison;
  std::unique_ptr<Interpreter> interpreter =
      Interpreter::create(module, settings);
  if (!interpreter)
    return cannotBeExecuted;
  return runSteps(module, options, *interpreter);
}

} // namespace heddle::eval
