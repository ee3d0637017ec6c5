//===- EvalVerb.cpp - heddle eval -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EvalJob.h"
#include "Verbs.h"

using namespace heddle;
using namespace heddle::driver;

void driver::addEvalVerb(CLI::App &app, Action &action) {
  auto options = std::make_shared<eval::EvalOptions>();
  CLI::App *verb = app.add_subcommand(
      "eval", "Execute the IR of any phase with the reference interpreter");
  verb->add_option("FILE", options->file, "A module (.mlir) of any phase")
      ->required()
      ->default_str("");
  verb->add_option("--inputs", options->inputs,
                   "A safetensors file: tensors by the names of the inputs")
      ->default_str("none");
  verb->add_option("--program", options->program, "train, eval or generate");
  verb->add_option("--steps", options->steps, "Steps to execute");
  verb->add_option("--weights", options->weights,
                   "A Hugging Face directory or a checkpoint")
      ->default_str("the module's");
  verb->add_option("--seed", options->seed, "Of random weights and of dropout")
      ->default_str("the module's");
  verb->add_option("--precision", options->precision,
                   "f32: as the types say; f64: no rounding");
  verb->add_option("--threads", options->threads,
                   "That compiled kernels run on");
  verb->add_flag("--poison", options->poison,
                 "Make the dead bytes of a plan NaN");
  verb->add_option("-o,--output", options->output,
                   "A safetensors file for outputs and states")
      ->default_str("none");
  verb->add_flag("--ranks", options->ranks,
                 "Simulate all ranks of a module that is made for several");
  verb->callback([options, &action] {
    action = [options] { return runEvalJob(*options); };
  });
}
