//===- Draft.h - Draft models for speculative decoding ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings and checks of a draft model for speculative decoding. The draft
// model proposes tokens, and the served model (the target) verifies them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_DRAFT_H
#define HEDDLE_IMPORT_DRAFT_H

#include "heddle/Import/ModelSpec.h"

namespace heddle::config {

/// Throws H0136 if a model with these settings cannot have a draft.
void requireDraftable(const Settings &values);

/// Returns the settings of a draft model. `asked` are the settings as the user
/// gave them, before they were completed for the target model. The context
/// lengths come from `settled`, the complete settings of the target model.
ResolvedSettings draftSettings(const ResolvedSettings &asked,
                               const Settings &settled);

/// Throws H0135 unless both models have the same vocabulary: its size and, if
/// there are tokenizers, its tokens.
void requireSameTokens(const ModelSpec &target, const ModelSpec &draft);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_DRAFT_H
