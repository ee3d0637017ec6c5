//===- Draft.h - A second model that guesses tokens -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_DRAFT_H
#define HEDDLE_IMPORT_DRAFT_H

#include "heddle/Import/ModelSpec.h"

namespace heddle::config {

/// Throws H0136 where a model with these settings cannot have a draft.
void requireDraftable(const Settings &values);

/// The settings of a draft: those that its target was `asked` for, before the
/// target's model filled them in, with the contexts of the `settled` target.
ResolvedSettings draftSettings(const ResolvedSettings &asked,
                               const Settings &settled);

/// Throws H0135 unless both models have the same tokens: as many, and, as far
/// as there are tokenizers, of the same texts.
void requireSameTokens(const ModelSpec &target, const ModelSpec &draft);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_DRAFT_H
