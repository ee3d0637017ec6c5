# What tests of binaries that serve share.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import heddle_test as h


class ServingTest(h.HeddleTest):
    def serve(self, model, *flags, output="serving"):
        """Compiles for one request at a time, unless the flags say for how many: each
        size of a batch has kernels of its own."""
        batch = [] if "--max-batch" in flags else ["--max-batch", 1]
        return self.compile(model, "--mode", "serve", "--threads", 2, *batch, *flags,
                            output=output)

    @staticmethod
    def words(binary):
        """The command that runs a binary, which may be one itself: [..., BINARY]."""
        return binary if isinstance(binary, list) else [binary]

    def logits(self, binary, tokens, *flags, ranks=1, **variables):
        """Those after each token, [tokens, vocabulary]."""
        out = self.words(binary)[-1] + ".logits.safetensors"
        h.run_ranks(ranks, [*self.words(binary), "logits", "--prompt-ids",
                            ",".join(map(str, tokens)), "-o", out, *flags], **variables)
        return h.read_safetensors(out)["logits"]

    def generate(self, binary, tokens, count, *flags, ranks=1, **variables):
        """The tokens of the largest logits that follow."""
        text = h.run_ranks(ranks, [*self.words(binary), "generate", "--prompt-ids",
                                   ",".join(map(str, tokens)), "--max-new-tokens",
                                   count, *flags], **variables).stdout
        return [int(word) for word in text.split()][len(tokens):]
