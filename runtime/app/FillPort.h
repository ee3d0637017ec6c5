//===- FillPort.h - Fill an input element by element ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_FILLPORT_H
#define HEDDLE_RUNTIME_APP_FILLPORT_H

#include "heddle/runtime/core/Session.h"

namespace heddle::rt {

/// Fills the program's input with the given role (what the input is for, such
/// as positions). Element (row, column) becomes `valueAt(row, column)`. The
/// input has 32-bit elements and at most two dimensions. Does nothing if the
/// program has no such input.
template <typename Function>
void fillPort(Session &session, const LoadedProgram &program,
              plan::PortRole role, Function valueAt) {
  const Value *port = program.input(role);
  if (!port)
    return;
  int64_t rows = port->shape.empty() ? 1 : port->shape[0];
  int64_t columns = port->shape.size() < 2 ? 1 : port->shape[1];
  auto *data = session.at<int32_t>(*port);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      *data++ = valueAt(row, column);
  session.store(*port);
}

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_FILLPORT_H
