// RUN: heddle-opt %s --shard-make-mesh --shard-split-parameters --shard-propagate --shard-insert-reshards --shard-verify | FileCheck %s

// Positions that training counts are no vocabulary to be split, though a program
// that continues texts is given them as numbers, as it is given tokens.

// CHECK: nn.state @tokens role parameter : tensor<8x4xf32>
// CHECK-SAME: storage = #dist.sharding<{{\[\[}}"tensor"], []], unreduced []>
// CHECK: nn.state @places role parameter : tensor<6x4xf32> {trainable}
nn.model @both family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @tokens role parameter : tensor<8x4xf32> {trainable}
  nn.state @places role parameter : tensor<6x4xf32> {trainable}
  nn.step @decode(%ids: tensor<2x1xi32>, %at: tensor<2x1xi32>) -> tensor<2x1x4xf32> attributes {kind = #nn.program<decode>, inputs = [#nn.port<ids>, #nn.port<positions>], outputs = [#nn.port<hidden>]} {
    %tokens = nn.get @tokens : tensor<8x4xf32>
    %places = nn.get @places : tensor<6x4xf32>
    %0 = nn.embedding %tokens[%ids] : (tensor<8x4xf32>, tensor<2x1xi32>) -> tensor<2x1x4xf32>
    %1 = nn.embedding %places[%at] : (tensor<6x4xf32>, tensor<2x1xi32>) -> tensor<2x1x4xf32>
    %2 = nn.add %0, %1 : tensor<2x1x4xf32>
    nn.return %2 : tensor<2x1x4xf32>
  }
  nn.step @train(%ids: tensor<2x3xi32>) -> tensor<2x3x4xf32> attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<hidden>]} {
    %tokens = nn.get @tokens : tensor<8x4xf32>
    %places = nn.get @places : tensor<6x4xf32>
    %at = nn.positions : () -> tensor<2x3xi32>
    %0 = nn.embedding %tokens[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %1 = nn.embedding %places[%at] : (tensor<6x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %2 = nn.add %0, %1 : tensor<2x3x4xf32>
    nn.return %2 : tensor<2x3x4xf32>
  }
}
