//===- DiagnosticPrinter.cpp - MLIR's diagnostics as errors ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the error code and the position in MLIR's diagnostics, and prints them
// in the form of Heddle's other errors.
//
//===----------------------------------------------------------------------===//

#include "DiagnosticPrinter.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <utility>

using namespace heddle;
using namespace heddle::driver;

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext &context, bool verbose)
    : context(context), engine(context.getDiagEngine()), verbose(verbose) {
  handler = engine.registerHandler([this](mlir::Diagnostic &diagnostic) {
    print(diagnostic);
    return mlir::success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() { engine.eraseHandler(handler); }

void DiagnosticPrinter::parse(llvm::function_ref<void()> read) {
  std::string code = std::exchange(defaultCode, "H0396");
  endsProcess = true;
  read();
  endsProcess = false;
  defaultCode = code;
}

/// Returns the position in a file to which the location of a diagnostic points.
static SourceLocation toSourceLocation(mlir::Location location) {
  if (auto place = location->findInstanceOf<mlir::FileLineColLoc>())
    return {place.getFilename().str(), int64_t(place.getLine()),
            int64_t(place.getColumn())};
  return {};
}

/// Returns the path within the model (for example `transformer.h.0`) that a
/// location contains, or "".
static std::string modulePathOf(mlir::Location location) {
  auto name = location->findInstanceOf<mlir::NameLoc>();
  return name ? name.getName().str() : "";
}

/// Splits a message such as `H0130: text` into its error code and its text. The
/// code is "" if the message has none.
static std::pair<std::string, std::string> splitCode(const std::string &text) {
  static const llvm::Regex pattern("^H[0-9]{4}: ");
  if (!pattern.match(text))
    return {"", text};
  return {text.substr(0, 5), text.substr(7)};
}

/// Whether an error that counts as internal (exit status 1) may be caused by
/// the .mlir file of a user, who may have edited it. H0903 (an unexpected
/// exception) and H0912 (the prebuilt runtime is missing) cannot.
static bool isAboutModule(const heddle::Diagnostic &error) {
  return error.exitCode() == 1 && error.code != "H0903" &&
         error.code != "H0912";
}

/// Formats a note of a diagnostic, with its position.
static std::string describe(mlir::Diagnostic &note) {
  SourceLocation place = toSourceLocation(note.getLocation());
  std::string text = note.str();
  if (place.line > 0)
    text += " (" + place.file + ":" + std::to_string(place.line) + ":" +
            std::to_string(place.column) + ")";
  return text;
}

/// Returns advice for a syntax error in an .mlir file.
static std::string helpForText(mlir::MLIRContext &context,
                               const std::string &message) {
  llvm::SmallVector<llvm::StringRef> found;
  if (llvm::Regex("op '([^']*)' is unknown").match(message, &found)) {
    std::vector<std::string> names;
    for (mlir::RegisteredOperationName name : context.getRegisteredOperations())
      names.push_back(name.getStringRef().str());
    std::string near = closestMatch(found[1].str(), names);
    return near.empty() ? "use an operation of docs/reference/nn.md"
                        : "did you mean " + near + "?";
  }
  if (llvm::Regex("to be one of: (.*)$").match(message, &found))
    return "use one of " + found[1].str();
  if (llvm::Regex("different type than prior uses: ('.*') vs ('.*')$")
          .match(message, &found))
    return "write " + found[2].str() + " here, or " + found[1].str() +
           " where the value is made";
  if (llvm::StringRef(message).ends_with("ports for them"))
    return "declare one for each, as inputs = [#nn.port<ids>]";
  return "write it as docs/reference/nn.md says";
}

void DiagnosticPrinter::print(mlir::Diagnostic &diagnostic) {
  auto [code, message] = splitCode(diagnostic.str());
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark ||
      diagnostic.getSeverity() == mlir::DiagnosticSeverity::Note) {
    if (remarks)
      remarks->emplace_back(modulePathOf(diagnostic.getLocation()), message);
    else if (verbose)
      llvm::errs() << "remark: " << message << "\n";
    return;
  }
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning) {
    if (errors)
      return;
    llvm::errs() << "warning: " << message << "\n";
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      llvm::errs() << "  " << note.str() << "\n";
    return;
  }
  heddle::Diagnostic error;
  error.code = code.empty() ? defaultCode : code;
  error.message = message;
  error.location = toSourceLocation(diagnostic.getLocation());
  if (std::string path = modulePathOf(diagnostic.getLocation()); !path.empty())
    error.notes.push_back("at " + path);
  for (mlir::Diagnostic &note : diagnostic.getNotes()) {
    std::string text = note.str();
    if (llvm::StringRef(text).starts_with("help: "))
      error.help = text.substr(6);
    else
      error.notes.push_back(describe(note));
  }
  if (error.help.empty() && (error.code == "H0396" || error.code == "H0356"))
    error.help = helpForText(context, message);
  if (isUsersModule && isAboutModule(error)) {
    error.code = "H0354";
    error.help = "take back what was edited there; if nothing was, this is a "
                 "bug in Heddle: report it with the file";
  }
  if (error.exitCode() == 1 && error.help.empty())
    error.help = "this is a bug in Heddle: report it with the command line and "
                 "the dump of --dump-phases";
  if (errors)
    errors->push_back(error);
  else
    llvm::errs() << error.format();
  if (exitCode == 0) {
    exitCode = error.exitCode();
    firstCode = error.code;
  }
  if (endsProcess)
    std::_Exit(exitCode);
}
