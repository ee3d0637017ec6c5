// An id that is no row of a table gives no number, as in compiled code; one that
// is no word of the vocabulary is refused before anything runs.

// RUN: %heddle eval %s --program generate | FileCheck %s
// CHECK: logits {{.*}} 1 1 nan nan

nn.model @m family "test" phase "train"
    attributes {strategy = #dist.strategy<{}>, config = "{}",
                weights = {random = true, seed = 1 : i64, vocab_size = 4 : i64}} {
  nn.step @generate() -> tensor<1x2x2xf32>
      attributes {kind = #nn.program<generate>, inputs = [], outputs = [#nn.port<logits>]} {
    %table = nn.fill 1.0 : () -> tensor<4x2xf32>
    %ids = nn.positions {offset = 3 : i64} : () -> tensor<1x2xi32>
    %rows = nn.embedding %table[%ids] : (tensor<4x2xf32>, tensor<1x2xi32>) -> tensor<1x2x2xf32>
    nn.return %rows : tensor<1x2x2xf32>
  }
}
