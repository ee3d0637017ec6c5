//===- EvalVerb.cpp - heddle eval -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the flags of `heddle eval`.
//
//===----------------------------------------------------------------------===//

#include "CommandAdvice.h"
#include "EvalJob.h"
#include "Verbs.h"
#include "heddle/runtime/io/File.h"

using namespace heddle;
using namespace heddle::driver;

void driver::addEvalVerb(CLI::App &app, Action &action) {
  auto options = std::make_shared<eval::EvalOptions>();
  CLI::App *verb = app.add_subcommand(
      "eval", "Execute the IR of any phase with the reference interpreter");
  io::addFlag(*verb, "FILE", options->file, io::range::path(),
              "A module (.mlir) of any phase")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--inputs", options->inputs, io::range::path(),
              "A safetensors file: tensors by the names of the inputs")
      ->default_str("none");
  io::addFlag(*verb, "--program", options->program, io::range::text(),
              "A program, as train or decode/8; with commas, one of each step");
  io::addFlag(*verb, "--steps", options->steps, io::range::count(1),
              "Steps to execute");
  io::addFlag(*verb, "--weights", options->weights, io::range::path(),
              "A Hugging Face directory or a checkpoint")
      ->default_str("the module's");
  io::addFlag(*verb, "--seed", options->seed, io::range::seed(),
              "Of random weights and of dropout")
      ->default_str("the module's");
  io::addFlag(*verb, "--precision", options->precision, io::range::text(),
              "f32: round as the types require; f64: compute all in double "
              "precision");
  io::addFlag(*verb, "--threads", options->threads, io::range::threads(),
              "Threads for compiled kernels");
  verb->add_flag("--poison", options->poison,
                 "Make the dead bytes of a plan NaN");
  io::addFlag(*verb, "-o,--output", options->output, io::range::path(),
              "A safetensors file for outputs and states")
      ->default_str("none");
  verb->add_flag("--ranks", options->ranks,
                 "Simulate all ranks of a module that is made for several");
  verb->callback([options, &action] {
    action = [options] {
      if (isProgram(options->file))
        fail("H0173", options->file + " is a program, not a module (.mlir)",
             "a compiled binary is run: " + asCommand(options->file) +
                 " eval --data FILE");
      io::requireApart({{"FILE", options->file},
                        {"--inputs", options->inputs},
                        {"--weights", options->weights}},
                       {{"-o", options->output}});
      return runEvalJob(*options);
    };
  });
}
